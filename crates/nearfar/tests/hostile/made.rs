//! Small recordings with a row in every table, made by the library's own writer; no perf, no program.

use nearfar_machine::Machine;
use nearfar_record::store::{Writer, finish, reserve};
use nearfar_recording::*;
use std::path::{Path, PathBuf};

pub const PAGE: u64 = 4096;
const HEAP: u64 = 0x7f00_0000_0000;
const STATIC: u64 = 0x60_0000;
const THREADS: u32 = 4;
/// Pages of the heap object.
const PAGES: u64 = 64;

/// What the tables hold, and the words in them.
pub struct Made<'a> {
    /// Gives each name: what it is, what it would be.
    pub name: &'a dyn Fn(&str) -> String,
    /// Counted on an emulated machine, instead of sampled.
    pub counted: bool,
}

impl Default for Made<'_> {
    fn default() -> Self {
        Made { name: &|what| what.to_owned(), counted: false }
    }
}

impl Made<'_> {
    pub fn meta(&self) -> Meta {
        let n = self.name;
        let mut machine = match self.counted {
            true => nearfar_host::discover::machine_from_argument("xeon-e5-2699v4-2s").unwrap(),
            false => Machine::from_shape("2x2").unwrap(),
        };
        machine.name = n("machine");
        let sources = [if self.counted { Source::Simulated } else { Source::Clock }, Source::Pages];
        Meta {
            format: FORMAT_VERSION,
            nearfar: n("0.1.0"),
            state: "stopped".into(),
            recorder_pid: 0,
            recorder_start: 0,
            command: vec![n("./app"), n("argument")],
            cwd: n("/home/u"),
            rank: None,
            started: "2026-01-01T00:00:00Z".into(),
            host: Some(n("host")),
            start_ns: 1,
            end_ns: 20_000_000_000,
            exit: n("exit 0"),
            machine,
            wish: None,
            wished_machine: None,
            min_object_bytes: 65536,
            page_bytes: PAGE,
            folio_bytes: vec![65536, 2 << 20],
            numa_balancing: 0,
            hardware_filtered: false,
            agent: false,
            agent_why: n("why not"),
            placement: None,
            placed: vec![n("placed")],
            sources: sources
                .map(|r| SourceReport { source: r, active: true, why: n("source"), hz: 997.0 })
                .to_vec(),
            survey: None,
            recorder_cpu_s: 0.1,
            target_cpu_s: 10.0,
            target_system_s: 1.0,
            largest_process_bytes: 1 << 30,
            core_ghz: Some(3.5),
            core_slowdown: Some(1.1),
            in_place_ns: Some(1.5),
            hugetlb_bytes: Some(0),
            target_faults: 1000,
            steal_share: 0.06,
            imported: None,
            checksums: Default::default(),
        }
    }

    /// Fills all tables.
    pub fn rows(&self, t: &mut nearfar_record::store::Tables) {
        let n = self.name;
        let p = |id, parent, forked| Process {
            id,
            pid: 100 + id,
            parent,
            forked,
            start_ns: 1,
            executable: n("/home/u/app"),
        };
        t.processes.push(p(0, NONE, 0));
        t.processes.push(p(1, 0, 1));
        t.process_ends.push(ProcessEnd { process: 1, time_ns: 19_000_000_000 });
        for id in 0..THREADS {
            t.threads.push(Thread {
                id,
                process: 0,
                tid: 1000 + id,
                start_ns: 1 + u64::from(id),
                name: n("thread"),
            });
        }
        for (id, runtime) in [(0, 0), (1, 1)] {
            t.modules.push(Module { id, path: n("/home/u/module.so"), build_id: String::new(), runtime });
        }
        for id in 0..8u32 {
            let address = 0x40_0000 + u64::from(id) * 16;
            t.locations.push(Location {
                id,
                process: 0,
                address,
                module: id % 2,
                file_offset: 0x1000 + u64::from(id),
            });
            // Each is a function of its own, so that every word is shown somewhere.
            t.symbols.push(Symbol {
                location: id,
                depth: 0,
                function: n("function"),
                file: n("/home/u/file.c"),
                line: id + 1,
            });
            t.chains.push(ChainFrame { chain: id / 4, depth: (id % 4) as u16, location: id });
        }
        let object = |id, kind: ObjectKind, address, bytes, name: String| MemoryObject {
            id,
            process: 0,
            kind: kind as u8,
            address,
            bytes,
            born_ns: 2,
            thread: 0,
            chain: if kind == ObjectKind::Heap { 0 } else { NONE },
            name: name.into(),
            previous: NONE,
            represents: bytes,
        };
        t.objects.push(object(0, ObjectKind::Heap, HEAP, PAGES * PAGE, n("heap")));
        t.objects.push(object(1, ObjectKind::Static, STATIC, 16 * PAGE, n("variable")));
        t.objects.push(object(2, ObjectKind::File, 0x7e00_0000_0000, 16 * PAGE, n("/home/u/mapped")));
        t.objects.push(object(3, ObjectKind::Heap, HEAP + (1 << 30), 1 << 20, n("unused")));
        t.object_ends.push(ObjectEnd { object: 3, time_ns: 3 });
        t.site_names.push(SiteName {
            chain: 0,
            name: n("site"),
            how: n("dwarf"),
            location: 0,
            depth: 0,
            handed_on: 0,
        });
        t.mappings.push(Mapping {
            time_ns: 1,
            process: 0,
            start: 0x40_0000,
            end: 0x70_0000,
            offset: 0,
            module: 0,
            flags: 5,
            name: n("/home/u/app"),
        });
        t.mappings.push(Mapping {
            time_ns: 1,
            process: 0,
            start: HEAP - PAGE,
            end: HEAP + (2 << 30),
            offset: 0,
            module: NONE,
            flags: 3,
            name: n("[anon]"),
        });
        for (kind, address) in [
            (RangeKind::Discard, HEAP + (1 << 30)),
            (RangeKind::Protect, STATIC),
            (RangeKind::Populate, STATIC + PAGE),
            (RangeKind::Policy, STATIC),
        ] {
            t.range_events.push(RangeEvent {
                time_ns: 5,
                process: 0,
                kind: kind as u8,
                address,
                bytes: PAGE,
                to: 0,
                thread: 0,
            });
        }
        t.range_events.push(RangeEvent {
            time_ns: 6,
            process: 0,
            kind: RangeKind::Move as u8,
            address: HEAP + (1 << 30),
            bytes: PAGE,
            to: HEAP + (3 << 30),
            thread: 0,
        });
        for page in 0..PAGES {
            // One thread touches first, all use in blocks.
            t.faults.push(PageFault {
                time_ns: 10 + page,
                thread: 0,
                cpu: 0,
                ip: 1,
                address: HEAP + page * PAGE + 8,
                access: 2,
                chain: NONE,
                page_shift: 12,
            });
        }
        for page in 0..16 {
            t.faults.push(PageFault {
                time_ns: 100 + page,
                thread: 1,
                cpu: 1,
                ip: 2,
                address: STATIC + page * PAGE,
                access: 1,
                chain: 1,
                page_shift: 0,
            });
        }
        t.page_nodes.push(PageNode {
            time_ns: 1000,
            process: 0,
            address: HEAP,
            pages: PAGES as u32,
            stride: PAGE,
            node: 0,
            page_shift: 12,
        });
        t.page_nodes.push(PageNode {
            time_ns: 1000,
            process: 0,
            address: STATIC,
            pages: 16,
            stride: PAGE,
            node: 1,
            page_shift: 0,
        });
        t.phases.push(Phase::plain(0, n("phase"), 50, 19_000_000_000));
        let left = PhaseEnd::Unwound as u8;
        t.phases.push(Phase {
            id: 1,
            how: left,
            begin_at: 0,
            ..Phase::plain(0, n("inner"), 60, 18_000_000_000)
        });
        t.phase_counts.push(PhaseCount {
            time_ns: 70,
            thread: 0,
            path: n("phase\u{1f}counted"),
            source: 0,
            metric: 0,
            calls: 1000,
            inclusive_ns: 1_000_000,
            sum: 0.0,
            least: 0.0,
            most: 0.0,
        });
        t.metrics.push(Metric { time_ns: 80, thread: 0, name: n("metric"), value: 1.0 });
        t.counters.push(Counter {
            time_ns: 7,
            cpu: 0,
            node: -1,
            name: n("counter"),
            value: 1.0,
            unit: n("unit"),
            place: n("place"),
            running_share: 0.5,
            source: n("source"),
            why: n("why"),
            thread: u32::MAX,
            interval_ns: 5,
        });
        t.losses.push(Loss { time_ns: 8, what: n("samples"), count: 3, why: n("reason") });
        t.losses.push(Loss { time_ns: 8, what: n("what"), count: 0, why: n("reason") });
        self.samples(t);
        if self.counted {
            self.counts(t);
        }
    }

    fn samples(&self, t: &mut nearfar_record::store::Tables) {
        let source = if self.counted { SampleSource::Simulated } else { SampleSource::Clock } as u8;
        for i in 0..4000u64 {
            let thread = (i % u64::from(THREADS)) as u32;
            let block = PAGES / u64::from(THREADS) * PAGE;
            let address = match i % 10 {
                0 => STATIC + i % (16 * PAGE),
                1 => 0x7e00_0000_0000 + i % (16 * PAGE),
                _ => HEAP + u64::from(thread) * block + (i * 72) % block,
            };
            t.samples.push(AccessSample {
                time_ns: 1_000_000 + i * 1_000_000,
                thread,
                cpu: thread as u16,
                ip: (i % 8) as u32,
                operand_ip: (i % 8) as u32,
                address,
                resolution: if i % 50 == 49 { Resolution::Compute } else { Resolution::Exact } as u8,
                access: 1 + (i % 2) as u8,
                chain: if i % 3 == 0 { 1 } else { NONE },
                weight_ns: if self.counted { 0 } else { 1_000_000 },
                source,
                lines: u32::from(self.counted) * 64,
                page_node: if self.counted { i16::from(thread < 2) } else { -1 },
                epoch: if self.counted { (i / 400) as u32 } else { u32::MAX },
                served: 0,
                latency_cycles: 0,
                period: 0,
                data_src: 0,
            });
        }
    }

    fn counts(&self, t: &mut nearfar_record::store::Tables) {
        for epoch in 0..10 {
            for cpu in 0..THREADS as u16 {
                t.cpu_epochs.push(CpuEpoch {
                    epoch,
                    region: 1,
                    cpu,
                    instructions: 100_000,
                    accesses: 50_000,
                    l1_hits: 40_000,
                    l2_hits: 1000,
                    l3_hits: 1000,
                    cache_transfers: 10,
                    tlb_misses: 10,
                    huge_tlb_misses: 1,
                    dependent_lines: 100,
                    busy_ns: 50_000.0,
                    f64_ops: 1000,
                    f32_ops: 0,
                    epoch_ns: 0.0,
                });
                for page_node in 0..2 {
                    t.epoch_traffic.push(EpochTraffic {
                        epoch,
                        region: 1,
                        cpu,
                        page_node,
                        read_lines: 6400,
                        prefetch_lines: 3000,
                        write_lines: 600,
                        stream_lines: 5,
                        transfer_lines: 5,
                        walks: 2,
                    });
                }
            }
        }
        for page in 0..PAGES {
            let from = i16::from(page >= PAGES / 2);
            t.page_traffic.push(PageTraffic {
                process: 0,
                address: HEAP + page * PAGE,
                from,
                page_node: 0,
                read_lines: 2000,
                write_lines: 100,
            });
        }
        for (first_epoch, last_epoch) in [(0, 0), (1, 2), (3, 3)] {
            t.counted_windows.push(CountedWindow {
                first_epoch,
                last_epoch,
                region: 0,
                counted_instructions: 1000,
                instructions: 20_000,
            });
        }
    }

    /// A recording that ended in order and still has its journal.
    pub fn unfinished(&self, path: &Path) -> PathBuf {
        let directory = reserve(Some(path), "made").unwrap();
        let mut writer = Writer::create(&directory, self.meta(), u64::MAX).unwrap();
        self.rows(&mut writer.tables);
        writer.close().unwrap();
        directory
    }

    /// One whose recorder was killed.
    pub fn killed(&self, path: &Path) -> PathBuf {
        let directory = reserve(Some(path), "made").unwrap();
        let mut meta = self.meta();
        (meta.state, meta.end_ns, meta.agent, meta.agent_why) = ("open".into(), 0, false, String::new());
        meta.exit.clear();
        meta.sources.clear();
        let mut writer = Writer::create(&directory, meta, u64::MAX).unwrap();
        self.rows(&mut writer.tables);
        writer.flush().unwrap();
        directory
    }

    /// A whole recording without checksums, as an enemy would write right ones to what was changed.
    pub fn without_checksums(&self, path: &Path) -> PathBuf {
        let directory = self.finished(path);
        let file = directory.join("meta.json");
        let mut meta: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for field in ["checksums", "checksum"] {
            meta.as_object_mut().unwrap().remove(field).unwrap();
        }
        std::fs::write(&file, serde_json::to_string_pretty(&meta).unwrap()).unwrap();
        directory
    }

    /// A whole recording.
    pub fn finished(&self, path: &Path) -> PathBuf {
        let directory = self.unfinished(path);
        let mut meta = self.meta();
        finish(&directory, &mut meta).unwrap();
        directory
    }
}
