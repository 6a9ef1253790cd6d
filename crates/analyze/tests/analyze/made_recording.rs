//! A small program to analyse, put together row by row.

use nearfar_analyze::{Input, Judge, Report, analyze_with};
use nearfar_machine::binding::Bind;
use nearfar_machine::{Machine, NumaNode};
use nearfar_recording::*;

pub const PAGE: u64 = 4096;
/// Where the tests' arrays begin.
pub const BASE: u64 = 0x7f00_0000_0000;
/// Samples begin at this time; set-up happens before.
pub const WORK: u64 = 1_000_000_000;

/// A machine of `nodes` nodes with `cpus` cpus each, one socket per node.
pub fn machine(nodes: u32, cpus: u32) -> Machine {
    let node = |id: u32| NumaNode {
        id,
        cpus: format!("{}-{}", id * cpus, (id + 1) * cpus - 1).parse().expect("a list"),
        memory_bytes: None,
        kind: Default::default(),
        package: Some(id),
    };
    Machine {
        name: format!("{nodes}x{cpus}"),
        nodes: (0..nodes).map(node).collect(),
        distances: Vec::new(),
        caches: Vec::new(),
        threads_per_core: 1,
        figures: Default::default(),
    }
}

pub struct MadeRecording {
    pub input: Input,
    pub samples: AccessSamples,
    seed: u64,
}

impl MadeRecording {
    /// One process with `threads` threads, recorded on a machine of one node.
    pub fn new(threads: u32) -> MadeRecording {
        let meta = Meta {
            format: FORMAT_VERSION,
            nearfar: "test".into(),
            state: "closed".into(),
            recorder_pid: 0,
            recorder_start: 0,
            survey: None,
            command: vec!["./app".into()],
            cwd: "/home/u/p".into(),
            rank: None,
            started: String::new(),
            host: None,
            start_ns: 0,
            end_ns: 10 * WORK,
            exit: "exit 0".into(),
            machine: machine(1, 8),
            wish: None,
            wished_machine: None,
            min_object_bytes: 65536,
            page_bytes: PAGE,
            folio_bytes: Vec::new(),
            numa_balancing: 0,
            hardware_filtered: false,
            agent: true,
            agent_why: String::new(),
            placement: None,
            placed: Vec::new(),
            sources: vec![
                SourceReport { source: Source::Clock, active: true, why: String::new(), hz: 1000.0 },
                SourceReport { source: Source::Pages, active: true, why: String::new(), hz: 0.0 },
            ],
            recorder_cpu_s: 0.0,
            target_cpu_s: 0.0,
            target_system_s: -1.0,
            largest_process_bytes: 0,
            core_ghz: None,
            core_slowdown: None,
            in_place_ns: None,
            hugetlb_bytes: Some(0),
            target_faults: 0,
            steal_share: -1.0,
            imported: None,
            checksums: Default::default(),
        };
        let input = Input {
            meta,
            processes: Default::default(),
            process_ends: Default::default(),
            threads: Default::default(),
            loops: Default::default(),
            loop_streams: Default::default(),
            loop_operands: Default::default(),
            progress: Default::default(),
            excerpts: Default::default(),
            excerpt_blocks: Default::default(),
            faults: Default::default(),
            locations: Default::default(),
            modules: Default::default(),
            symbols: Default::default(),
            chains: Default::default(),
            objects: Default::default(),
            object_ends: Default::default(),
            allocation_groups: Default::default(),
            site_names: Default::default(),
            range_events: Default::default(),
            page_nodes: Default::default(),
            mappings: Default::default(),
            phases: Default::default(),
            phase_counts: Default::default(),
            phase_marks: Default::default(),
            metrics: Default::default(),
            counters: Default::default(),
            cpu_epochs: Default::default(),
            epoch_traffic: Default::default(),
            page_traffic: Default::default(),
            counted_windows: Default::default(),
            losses: Default::default(),
        };
        let mut w = MadeRecording { input, samples: Default::default(), seed: 1 };
        w.process(NONE, false, 0);
        for _ in 0..threads {
            w.thread(0);
        }
        for (id, path, runtime) in [(0, "/home/u/p/app", 0), (1, "/lib/libc.so.6", 1)] {
            w.input.modules.push(Module { id, path: path.into(), build_id: String::new(), runtime });
        }
        w
    }

    pub fn process(&mut self, parent: u32, forked: bool, start_ns: u64) -> u32 {
        let id = self.input.processes.len() as u32;
        let pid = 100 + id;
        let executable = "/home/u/p/app".into();
        self.input.processes.push(Process { id, pid, parent, forked: forked.into(), start_ns, executable });
        id
    }

    pub fn thread(&mut self, process: u32) -> u32 {
        let id = self.input.threads.len() as u32;
        self.input.threads.push(Thread { id, process, tid: 1000 + id, start_ns: 0, name: "app".into() });
        id
    }

    pub fn code(&mut self, function: &str, file: &str, line: u32, module: u32) -> u32 {
        let id = self.input.locations.len() as u32;
        let address = 0x400000 + u64::from(id) * 4;
        self.input.locations.push(Location {
            id,
            process: 0,
            address,
            module,
            file_offset: address - 0x400000,
        });
        let (function, file) = (function.into(), file.into());
        self.input.symbols.push(Symbol { location: id, depth: 0, function, file, line });
        id
    }

    /// An instruction of the program itself.
    pub fn own(&mut self, function: &str, line: u32) -> u32 {
        self.code(function, "/home/u/p/main.c", line, 0)
    }

    /// An instruction of libc.
    pub fn libc(&mut self, function: &str) -> u32 {
        self.code(function, "", 0, 1)
    }

    pub fn chain(&mut self, locations: &[u32]) -> u32 {
        let chain = self.input.chains.chain.last().map_or(0, |c| c + 1);
        for (depth, &location) in locations.iter().enumerate() {
            self.input.chains.push(ChainFrame { chain, depth: depth as u16, location });
        }
        chain
    }

    pub fn object(&mut self, kind: ObjectKind, address: u64, bytes: u64, born_ns: u64, name: &str) -> u32 {
        let id = self.input.objects.len() as u32;
        self.input.objects.push(MemoryObject {
            id,
            process: 0,
            kind: kind as u8,
            address,
            bytes,
            born_ns,
            thread: 0,
            chain: NONE,
            name: name.into(),
            previous: NONE,
            represents: bytes,
        });
        id
    }

    /// A heap array of pages at [`BASE`].
    pub fn array(&mut self, name: &str, pages: u64) -> u64 {
        let address =
            self.input.objects.address.iter().zip(&self.input.objects.bytes).map(|(a, b)| a + b).max();
        let address = address.map_or(BASE, |a| (a + (4 << 20)) >> 21 << 21);
        self.object(ObjectKind::Heap, address, pages * PAGE, 10, name);
        address
    }

    pub fn end(&mut self, object: u32, time_ns: u64) {
        self.input.object_ends.push(ObjectEnd { object, time_ns });
    }

    pub fn fault_as(&mut self, time_ns: u64, thread: u32, ip: u32, address: u64, access: Access) {
        let f = PageFault {
            time_ns,
            thread,
            cpu: thread as u16,
            ip,
            address,
            access: access as u8,
            chain: NONE,
            page_shift: 12,
        };
        self.input.faults.push(f);
    }

    /// A store to each page of a range.
    pub fn touch(&mut self, time_ns: u64, thread: u32, ip: u32, address: u64, pages: u64) {
        for p in 0..pages {
            self.fault_as(time_ns + p, thread, ip, address + p * PAGE + 8, Access::Store);
        }
    }

    pub fn range(&mut self, time_ns: u64, kind: RangeKind, address: u64, bytes: u64, to: u64) {
        self.range_by(NONE, time_ns, kind, (address, bytes), to);
    }

    pub fn range_by(&mut self, thread: u32, time_ns: u64, kind: RangeKind, range: (u64, u64), to: u64) {
        let (address, bytes) = range;
        self.input.range_events.push(RangeEvent {
            time_ns,
            process: 0,
            kind: kind as u8,
            address,
            bytes,
            to,
            thread,
        });
    }

    pub fn page_node(&mut self, time_ns: u64, address: u64, pages: u32, node: i16, page_shift: u8) {
        self.input.page_nodes.push(PageNode {
            time_ns,
            process: 0,
            address,
            pages,
            stride: PAGE,
            node,
            page_shift,
        });
    }

    pub fn sample_as(
        &mut self,
        time_ns: u64,
        thread: u32,
        ip: u32,
        address: u64,
        how: Resolution,
        access: Access,
    ) {
        self.samples.push(AccessSample {
            time_ns,
            thread,
            cpu: thread as u16,
            ip,
            operand_ip: ip,
            address,
            resolution: how as u8,
            access: access as u8,
            chain: NONE,
            weight_ns: 1_000_000,
            lines: 0,
            page_node: -1,
            epoch: NONE,
            served: 0,
            latency_cycles: 0,
            period: 0,
            data_src: 0,
            source: SampleSource::Clock as u8,
        });
    }

    pub fn sample(&mut self, time_ns: u64, thread: u32, ip: u32, address: u64) {
        self.sample_as(time_ns, thread, ip, address, Resolution::Exact, Access::Load);
    }

    /// Each of `threads` threads takes `each` samples, spread evenly over its own block of an array.
    pub fn use_blocked(&mut self, threads: u32, each: u64, ip: u32, address: u64, pages: u64) {
        let block = pages * PAGE / u64::from(threads);
        for i in 0..each {
            for t in 0..threads {
                // A stride that visits the block in no order, so that time says nothing about place.
                let offset = (i * 7919 % each) * (block / each);
                self.sample(
                    WORK + i * 1_000_000 + u64::from(t),
                    t,
                    ip,
                    address + u64::from(t) * block + offset,
                );
            }
        }
    }

    /// Each thread samples the whole array at random.
    pub fn use_all_over(&mut self, threads: u32, each: u64, ip: u32, address: u64, pages: u64) {
        for i in 0..each {
            for t in 0..threads {
                let offset = self.random() % (pages * PAGE);
                self.sample(WORK + i * 1_000_000 + u64::from(t), t, ip, address + offset);
            }
        }
    }

    /// Samples that compute.
    pub fn compute(&mut self, threads: u32, each: u64, ip: u32) {
        for i in 0..each {
            for t in 0..threads {
                let time = WORK + i * 1_000_000 + u64::from(t) + 500_000;
                self.sample_as(time, t, ip, 0, Resolution::Compute, Access::Unknown);
            }
        }
    }

    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    /// A recording of the virtual machine: one thread per cpu, on the cpu of its number.
    pub fn simulated(nodes: u32, cpus: u32) -> MadeRecording {
        let mut w = MadeRecording::new(nodes * cpus);
        w.input.meta.machine = machine(nodes, cpus);
        w.input.meta.sources[0].source = Source::Simulated;
        w.input.meta.sources[0].hz = 0.0;
        w
    }

    /// A thread moves `lines` lines of the page at `address`, in an epoch inside the region (1) or not (0):
    /// exact counts and one sample.
    pub fn moves(&mut self, at: (u32, u8), thread: u32, ip: u32, address: u64, page_node: i16, lines: u32) {
        let (epoch, region) = at;
        let from = self.input.meta.machine.node_of_cpu(thread).expect("a node") as i16;
        self.input.epoch_traffic.push(EpochTraffic {
            epoch,
            region,
            cpu: thread as u16,
            page_node,
            read_lines: u64::from(lines),
            prefetch_lines: 0,
            write_lines: 0,
            stream_lines: 0,
            transfer_lines: 0,
            walks: 0,
        });
        self.works(epoch, region, thread, 10 * u64::from(lines));
        self.counts(address, from, page_node, u64::from(lines), 0);
        let time_ns = WORK + u64::from(epoch) * 1_000_000 + u64::from(thread);
        self.sample_as(time_ns, thread, ip, address, Resolution::Exact, Access::Load);
        let i = self.samples.len() - 1;
        self.samples.weight_ns[i] = 0;
        self.samples.source[i] = SampleSource::Simulated as u8;
        (self.samples.lines[i], self.samples.page_node[i], self.samples.epoch[i]) = (lines, page_node, epoch);
    }

    /// A page's counts alone.
    pub fn counts(&mut self, address: u64, from: i16, page_node: i16, read_lines: u64, write_lines: u64) {
        let address = address / PAGE * PAGE;
        self.input.page_traffic.push(PageTraffic {
            process: 0,
            address,
            from,
            page_node,
            read_lines,
            write_lines,
        });
    }

    /// A cpu executes in an epoch; half of its accesses hit the first-level cache, half of the rest the second.
    pub fn works(&mut self, epoch: u32, region: u8, cpu: u32, instructions: u64) {
        self.input.cpu_epochs.push(CpuEpoch {
            epoch,
            region,
            cpu: cpu as u16,
            instructions,
            accesses: instructions,
            l1_hits: instructions / 2,
            l2_hits: instructions / 4,
            l3_hits: 0,
            cache_transfers: 0,
            tlb_misses: 3,
            huge_tlb_misses: 1,
            dependent_lines: 0,
            busy_ns: 1e6,
            f64_ops: instructions / 4,
            f32_ops: 0,
            epoch_ns: 0.0,
        });
    }

    /// As if on a machine of `nodes` nodes.
    pub fn on(&self, nodes: u32) -> Report {
        self.on_machine(machine(nodes, 4))
    }

    /// As if on a machine, threads compact.
    pub fn on_machine(&self, machine: Machine) -> Report {
        let judge = Judge { machine, assume: Some(Bind::Compact), whole: false };
        analyze_with(&self.input, &self.samples, &judge, 2).expect("an analysis")
    }

    /// On the machine it was recorded on.
    pub fn real(&self) -> Report {
        let judge = Judge { machine: self.input.meta.machine.clone(), assume: None, whole: false };
        analyze_with(&self.input, &self.samples, &judge, 2).expect("an analysis")
    }
}
