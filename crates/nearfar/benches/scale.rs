//! What a report of a large program costs: of ten million allocations, a million sizes, ten thousand threads.
//!
//! `cargo bench -p nearfar --bench scale [-- ROW…]` writes a recording for each row as a recorder would leave
//! it, finishes it, and makes its report, each in a process of its own. It prints seconds and peak memory of
//! both, and asserts nothing. What memory and steps are bounded by is asserted in the model's tests.

use nearfar_analyze::{Judge, analyze_owned};
use nearfar_machine::Machine;
use nearfar_machine::binding::Bind;
use nearfar_record::store::{self, Tables};
use nearfar_recording::*;
use nearfar_report::{to_details, to_json};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const PAGE: u64 = 4096;
const BASE: u64 = 0x7f00_0000_0000;
const WORK: u64 = 1_000_000_000;
/// Samples of each recording.
const SAMPLES: u64 = 100_000;

type Row = (&'static str, fn(&mut Journal));
const ROWS: [Row; 13] = [
    ("10,000,000 allocations", |j| {
        let mut seed = 5;
        allocations(j, 10_000_000, 1000, move |_| 65_536 + random(&mut seed) % 4 * 4096)
    }),
    ("1,000,000 random sizes", |j| {
        let mut seed = 3;
        allocations(j, 1_000_000, 1, move |_| 65_536 + random(&mut seed) % (1 << 20) / 16 * 16)
    }),
    ("60,000 live blocks", |j| live(j, 60_000, 10)),
    ("25,000 mmap and munmap", |j| remapped(j, 25_000)),
    ("50,000 mmap and munmap", |j| remapped(j, 50_000)),
    ("100,000 mmap and munmap", |j| remapped(j, 100_000)),
    ("200,000 mmap and munmap", |j| remapped(j, 200_000)),
    ("30,000 arrays of one site", |j| live(j, 30_000, 1)),
    ("10,000 threads", |j| threads(j, 10_000)),
    ("100,000 mappings", |j| {
        mappings(j, 100_000, |i| (BASE + i * 8 * PAGE, BASE + (i * 8 + 1 + hash(i) % 7) * PAGE))
    }),
    ("100,000 overlapping mappings", |j| {
        mappings(j, 100_000, |i| (BASE + i * PAGE, BASE + (200_000 - i + hash(i) % 64) * PAGE))
    }),
    ("10,000 processes", |j| processes(j, 10_000)),
    ("1 TB of address space", terabyte),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let [what, path] = &arguments[..]
        && (what == "finish" || what == "report")
    {
        return turn(what, Path::new(path));
    }
    let directory = std::env::temp_dir().join(format!("nearfar-scale-{}", std::process::id()));
    println!("{:30} {:>28} {:>28}", "", "finish", "report");
    for (name, make) in ROWS {
        if !arguments.is_empty() && !arguments.iter().any(|a| name.contains(a.as_str())) {
            continue;
        }
        let recording = directory.join("scale.nearfar");
        let mut journal = Journal::new(&recording);
        make(&mut journal);
        journal.close();
        print!("{name:30}");
        for what in ["finish", "report"] {
            let me = std::env::current_exe().expect("this program's path");
            let done = Command::new(me).arg(what).arg(&recording).output().expect("a turn");
            let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
            print!(" {:>28}", if done.status.success() { said } else { done.status.to_string() });
            std::io::stdout().flush().expect("standard output");
        }
        println!();
        fs::remove_dir_all(&recording).expect("the benchmark's own directory");
    }
    fs::remove_dir_all(&directory).expect("the benchmark's own directory");
}

fn turn(what: &str, path: &Path) {
    let start = Instant::now();
    let stored = store::open(path).expect("the recording");
    let mut size = String::new();
    if what == "report" {
        let machine = Machine::from_shape("2x8").expect("a shape");
        let judge = Judge { machine, assume: Some(Bind::Compact), whole: false };
        let report = analyze_owned(stored.input, &stored.samples, &judge).expect("an analysis");
        let (json, text) = (to_json(&report).len(), to_details(&report, "r.nearfar", 100, false).len());
        size = format!(", {} + {} KiB", json >> 10, text >> 10);
    }
    let seconds = start.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("? kB");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    println!("{seconds:.2} s, {} MiB{size}", peak >> 10);
}

/// A number generator of our own: the recordings are the same everywhere.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// A number that belongs to another: sizes and orders that are irregular, and the same each time they are asked for.
fn hash(i: u64) -> u64 {
    let mut seed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    random(&mut seed);
    random(&mut seed)
}

/// The numbers below `count`, each once, in no order: the step has no factor in common with counts of 2s, 3s and 5s.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| i.wrapping_mul(7_368_787) % count)
}

/// A recording as its recorder leaves it: a journal and meta.json.
struct Journal {
    file: File,
    tables: Tables,
    objects: u32,
    seed: u64,
    time: u64,
}

impl Journal {
    fn new(path: &Path) -> Journal {
        fs::create_dir_all(path).expect("a directory");
        let machine = Machine::from_shape("1x16").expect("a shape");
        let meta = serde_json::json!({
            "format": FORMAT_VERSION, "nearfar": "bench", "state": "closed", "recorder_pid": 0,
            "recorder_start": 0, "command": ["./scale"], "cwd": "/", "started": "", "start_ns": 0,
            "end_ns": 100 * WORK, "exit": "exit 0", "machine": machine, "wish": null,
            "min_object_bytes": 65536, "page_bytes": PAGE, "folio_bytes": [2 << 20], "numa_balancing": 0,
            "agent": true, "agent_why": "", "survey": null, "recorder_cpu_s": 0.0, "target_cpu_s": 0.0,
            "steal_share": -1.0,
            "sources": [{"source": "clock", "active": true, "why": "", "hz": 997.0},
                      {"source": "pages", "active": true, "why": "", "hz": 0.0}],
        });
        fs::write(path.join("meta.json"), meta.to_string()).expect("meta.json");
        let file = File::create(path.join("journal.nfj")).expect("a journal");
        let mut j = Journal { file, tables: Tables::default(), objects: 0, seed: 1, time: WORK };
        j.process(0, NONE);
        (0..16).for_each(|id| j.thread(id, 0));
        let module = Module { id: 0, path: "/scale".into(), build_id: String::new(), runtime: 0 };
        j.tables.modules.push(module);
        for id in 0..41u32 {
            let address = 0x40_0000 + u64::from(id) * 4;
            let location = Location { id, process: 0, address, module: 0, file_offset: address };
            j.tables.locations.push(location);
        }
        j.tables.chains.push(ChainFrame { chain: 0, depth: 0, location: 0 });
        j
    }

    fn process(&mut self, id: u32, parent: u32) {
        let executable = "/scale".to_owned();
        let (forked, start_ns) = (u8::from(parent != NONE), u64::from(id) * 1000);
        self.tables.processes.push(Process { id, pid: 100 + id, parent, forked, start_ns, executable });
    }

    fn thread(&mut self, id: u32, process: u32) {
        self.tables.threads.push(Thread { id, process, tid: 1000 + id, start_ns: 0, name: "scale".into() });
    }

    fn object(&mut self, address: u64, bytes: u64) -> u32 {
        self.object_of(ObjectKind::Heap, address, bytes)
    }

    fn object_of(&mut self, kind: ObjectKind, address: u64, bytes: u64) -> u32 {
        self.time += 1000;
        self.tables.objects.push(MemoryObject {
            id: self.objects,
            process: 0,
            kind: kind as u8,
            address,
            bytes,
            born_ns: self.time,
            thread: 0,
            chain: 0,
            name: Text::default(),
            previous: NONE,
            represents: bytes,
        });
        self.objects += 1;
        if self.tables.objects.len() >= 100_000 {
            self.write();
        }
        self.objects - 1
    }

    fn end(&mut self, object: u32) {
        self.time += 1000;
        self.tables.object_ends.push(ObjectEnd { object, time_ns: self.time });
    }

    fn fault(&mut self, thread: u32, address: u64) {
        self.time += 10;
        self.tables.faults.push(PageFault {
            time_ns: self.time,
            thread,
            cpu: thread as u16 % 16,
            ip: 0,
            address,
            access: Access::Store as u8,
            chain: NONE,
            page_shift: 12,
        });
    }

    fn sample(&mut self, thread: u32, address: u64) {
        self.time += 10;
        let ip = 1 + (self.time % 40) as u32;
        self.tables.samples.push(AccessSample {
            time_ns: self.time,
            thread,
            cpu: thread as u16 % 16,
            ip,
            operand_ip: ip,
            address,
            resolution: Resolution::Exact as u8,
            access: Access::Load as u8,
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

    fn random(&mut self) -> u64 {
        random(&mut self.seed)
    }

    fn write(&mut self) {
        let mut frames = Vec::new();
        self.tables.encode(&mut frames);
        self.file.write_all(&frames).expect("a frame");
    }

    fn close(mut self) {
        self.write();
    }
}

/// A loop that allocates, touches, uses and frees, with so many blocks at a time.
fn allocations(j: &mut Journal, count: u64, live: u64, mut bytes: impl FnMut(u64) -> u64) {
    let mut blocks: Vec<Option<u32>> = vec![None; live as usize];
    for i in 0..count {
        let slot = j.random() % live;
        if let Some(object) = blocks[slot as usize].take() {
            j.end(object);
        }
        let (bytes, address) = (bytes(i), BASE + slot * (2 << 20) + 16);
        blocks[slot as usize] = Some(j.object(address, bytes));
        if i % 100 == 0 {
            j.fault((i % 16) as u32, address + j.random_below(bytes));
        }
        if i % (count / SAMPLES) == 0 {
            let at = address + j.random_below(bytes);
            j.sample((i / 7 % 16) as u32, at);
        }
    }
}

impl Journal {
    fn random_below(&self, n: u64) -> u64 {
        random(&mut (self.seed ^ self.time)) % n
    }
}

/// Blocks that live at once, each touched, used, and looked at so often; every seventh ends at once and begins anew.
fn live(j: &mut Journal, count: u64, looks: u64) {
    const BYTES: u64 = 1 << 20;
    let at = |i: u64| BASE + i * (BYTES + PAGE) + 16;
    let size = |i: u64| BYTES - 64 - hash(i) % 12 * 64 * 1024;
    for i in shuffled(count) {
        let object = j.object(at(i), size(i));
        if i % 7 == 0 {
            j.end(object);
            j.object(at(i), size(i));
        }
        (0..4).for_each(|p| j.fault((i % 16) as u32, at(i) + p * 65_536));
    }
    for look in 0..looks {
        for i in 0..count {
            let time_ns = j.time + look * WORK;
            let (address, node) = (at(i) / PAGE * PAGE, (look % 2) as i16);
            let page_node =
                PageNode { time_ns, process: 0, address, pages: 37, stride: 7 * PAGE, node, page_shift: 12 };
            j.tables.page_nodes.push(page_node);
        }
    }
    for _ in 0..SAMPLES {
        let block = j.random() % count;
        let address = at(block) + j.random() % size(block);
        let thread = (j.random() % 16) as u32;
        j.sample(thread, address);
    }
}

/// A buffer of another size each time is mapped, touched, looked at and unmapped, again and again: as the kernel maps
/// downwards, all end at one address.
fn remapped(j: &mut Journal, count: u64) {
    const MOST: u64 = 4 << 20;
    for i in 0..count {
        let bytes = (16 + j.random() % (MOST / PAGE - 16)) * PAGE;
        let from = BASE + MOST - bytes;
        let object = j.object_of(ObjectKind::Anonymous, from, bytes);
        let pages = [0, bytes / PAGE / 2, bytes / PAGE - 1];
        pages.iter().for_each(|p| j.fault((i % 16) as u32, from + p * PAGE));
        if i % (count / SAMPLES).max(1) == 0 {
            let address = from + bytes / PAGE / 2 * PAGE + j.random() % PAGE;
            j.sample((i % 16) as u32, address);
        }
        for p in pages {
            let (time_ns, address) = (j.time, from + p * PAGE);
            let (node, page_shift) = ((i % 2) as i16, 12);
            j.tables.page_nodes.push(PageNode {
                time_ns,
                process: 0,
                address,
                pages: 1,
                stride: PAGE,
                node,
                page_shift,
            });
        }
        j.end(object);
        let unmap = RangeKind::Unmap as u8;
        let (time_ns, process) = (j.time, 0);
        j.tables.range_events.push(RangeEvent {
            time_ns,
            process,
            kind: unmap,
            address: from,
            bytes,
            to: 0,
            thread: 0,
        });
    }
}

fn threads(j: &mut Journal, count: u32) {
    const BYTES: u64 = 64 << 20;
    (16..count).for_each(|id| j.thread(id, 0));
    let objects: Vec<u64> = (0..10).map(|i| BASE + i * 2 * BYTES).collect();
    objects.iter().for_each(|&address| {
        j.object(address, BYTES + hash(address) % 16 * PAGE);
    });
    for i in 0..10 * SAMPLES {
        let (thread, address) = (i as u32 % count, objects[(j.random() % 10) as usize] + j.random() % BYTES);
        if i < SAMPLES {
            j.fault(thread, address);
        }
        j.sample(thread, address);
    }
}

fn mapping(j: &mut Journal, process: u32, from: u64, to: u64) {
    let (time_ns, module, flags) = (j.time, NONE, 3);
    let name = String::new();
    j.tables.mappings.push(Mapping {
        time_ns,
        process,
        start: from,
        end: to,
        offset: 0,
        module,
        flags,
        name,
    });
}

fn mappings(j: &mut Journal, count: u64, place: impl Fn(u64) -> (u64, u64)) {
    for i in shuffled(count) {
        j.time += 1000;
        let (from, to) = place(i);
        mapping(j, 0, from, to);
        j.fault((i % 16) as u32, from);
    }
    for _ in 0..SAMPLES {
        let address = place(j.random() % count).0 + j.random() % PAGE;
        j.sample(0, address);
    }
}

/// Every process forks the next three, maps, touches what it shares, and ends.
fn processes(j: &mut Journal, count: u32) {
    (0..64).for_each(|p| j.fault(0, BASE + p * PAGE));
    for id in 1..count {
        j.process(id, (id - 1) / 3);
        j.thread(15 + id, id);
        j.time = j.time.max(u64::from(id) * 1000);
        for i in 0..10 {
            let bytes = (1 << 20) + hash(u64::from(id) + i) % 64 * PAGE;
            mapping(j, id, BASE + i * (1 << 30), BASE + i * (1 << 30) + bytes);
        }
        for p in 0..10 {
            j.fault(15 + id, BASE + p * PAGE);
            j.sample(15 + id, BASE + p * 3 * PAGE);
        }
    }
}

/// A terabyte of which every hundredth megabyte is touched and looked at.
fn terabyte(j: &mut Journal) {
    j.object(BASE, 1 << 40);
    mapping(j, 0, BASE, BASE + (1 << 40));
    for i in 0..10_000 {
        j.fault((i % 16) as u32, BASE + i * (100 << 20));
    }
    let time_ns = j.time;
    let (stride, page_shift) = (65_537 * PAGE, 12);
    j.tables.page_nodes.push(PageNode {
        time_ns,
        process: 0,
        address: BASE,
        pages: 4095,
        stride,
        node: 0,
        page_shift,
    });
    for _ in 0..SAMPLES {
        let address = BASE + j.random() % 10_000 * (100 << 20) + j.random() % PAGE;
        let thread = (j.random() % 16) as u32;
        j.sample(thread, address);
    }
}
