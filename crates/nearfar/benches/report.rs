//! How long a report takes of ten million samples and a million faults, and what memory.
//!
//! `cargo bench -p nearfar --bench report [-- SAMPLES]` writes a recording in the real format,
//! opens and analyses it three times, in turns with `perf report` on as many samples of a busy
//! loop if perf is there (fewer, scaled and said so, if they take too long to obtain). It prints
//! and asserts nothing.

use nearfar_analyze::{Judge, analyze_owned};
use nearfar_machine::Machine;
use nearfar_machine::binding::Bind;
use nearfar_parquet::{SEGMENT_ROWS, write};
use nearfar_record::store;
use nearfar_recording::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const THREADS: u32 = 16;
const ARRAYS: u64 = 16;
const PAGES: u64 = 65_536;
const PAGE: u64 = 4096;
const BASE: u64 = 0x7f00_0000_0000;
const WORK: u64 = 2_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    // Each turn runs in a process of its own, so that its peak memory is its own.
    if let [what, path] = &arguments[..]
        && what == "turn"
    {
        return turn(Path::new(path));
    }
    let samples: u64 = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(10_000_000);
    let directory = std::env::temp_dir().join(format!("nearfar-bench-{}", std::process::id()));
    let recording = directory.join("bench.nearfar");
    let start = Instant::now();
    record(&recording, samples);
    println!("wrote {samples} samples, {} faults in {:.1?}", ARRAYS * PAGES, start.elapsed());
    let perf = perf_data(&directory);
    for _ in 0..3 {
        let me = std::env::current_exe().expect("this program's path");
        let status = Command::new(me).arg("turn").arg(&recording).status();
        assert!(status.expect("a turn").success());
        if let Some((path, n)) = &perf {
            perf_turn(path, *n, samples);
        }
    }
    fs::remove_dir_all(&directory).expect("the benchmark's own directory");
}

fn turn(path: &Path) {
    let start = Instant::now();
    let stored = store::open(path).expect("the recording");
    let opened = start.elapsed();
    let judge = Judge {
        machine: Machine::from_shape("2x8").expect("a shape"),
        assume: Some(Bind::Compact),
        whole: false,
    };
    let report = analyze_owned(stored.input, &stored.samples, &judge).expect("an analysis");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!(
        "nearfar: open {:.2} s, open and analyse {:.2} s, peak {peak}; {:?}, {:.1} % remote",
        opened.as_secs_f64(),
        start.elapsed().as_secs_f64(),
        report.verdict,
        report.remote_share.unwrap_or(f64::NAN) * 100.0
    );
}

/// A number generator of our own: the recording is the same everywhere.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn array(i: u64) -> u64 {
    BASE + i * (PAGES * PAGE + (4 << 20))
}

fn record(path: &Path, samples: u64) {
    let rank = path.join("run/rank=0");
    fs::create_dir_all(&rank).expect("a directory");
    let mut survey = SampleSurvey::default();
    let mut seed = 1;
    let mut table = AccessSamples::default();
    let mut segments = 0;
    for i in 0..samples {
        let (thread, step) = ((i % u64::from(THREADS)) as u32, i / u64::from(THREADS));
        // A thread sweeps its block of some array, as loops do.
        let block = PAGES * PAGE / u64::from(THREADS);
        let offset = u64::from(thread) * block + (step * 4096 + random(&mut seed) % 4096) % block;
        let ip = 1 + (step % 40) as u32;
        table.push(AccessSample {
            time_ns: WORK + step * 1_000_000 + u64::from(thread),
            thread,
            cpu: thread as u16,
            ip,
            operand_ip: ip,
            address: array(random(&mut seed) % ARRAYS) + offset,
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
        if table.time_ns.len() == SEGMENT_ROWS || i + 1 == samples {
            survey.add(&table.time_ns, &table.thread);
            save(&rank, segments, &mut table);
            segments += 1;
        }
    }
    tables(&rank);
    let machine = Machine::from_shape("1x16").expect("a shape");
    let meta = serde_json::json!({
        "format": FORMAT_VERSION, "nearfar": "bench", "state": "closed", "recorder_pid": 0,
        "recorder_start": 0, "command": ["./bench"], "cwd": "/", "started": "", "start_ns": 0,
        "end_ns": WORK + samples * 1_000_000, "exit": "exit 0", "machine": machine, "wish": null,
        "min_object_bytes": 65536, "page_bytes": PAGE, "folio_bytes": [], "numa_balancing": 0,
        "agent": true, "agent_why": "", "survey": survey, "recorder_cpu_s": 0.0, "target_cpu_s": 0.0,
        "steal_share": -1.0,
        "sources": [{"source": "clock", "active": true, "why": "", "hz": 997.0},
                  {"source": "pages", "active": true, "why": "", "hz": 0.0}],
    });
    fs::write(path.join("meta.json"), meta.to_string()).expect("meta.json");
}

fn save<T: Columns>(rank: &Path, segment: u32, table: &mut T) {
    let path = rank.join(format!("{}-{segment:04}.parquet", T::TABLE));
    write(table, File::create(path).expect("a file")).expect("a table");
}

/// Everything but the samples.
fn tables(rank: &Path) {
    let mut processes = Processes::default();
    let executable = "/bench".to_owned();
    processes.push(Process { id: 0, pid: 100, parent: NONE, forked: 0, start_ns: 0, executable });
    let (mut threads, mut objects, mut faults) =
        (Threads::default(), MemoryObjects::default(), PageFaults::default());
    for id in 0..THREADS {
        threads.push(Thread { id, process: 0, tid: 1000 + id, start_ns: 0, name: "bench".into() });
    }
    for i in 0..ARRAYS {
        objects.push(MemoryObject {
            id: i as u32,
            process: 0,
            kind: ObjectKind::Heap as u8,
            address: array(i),
            bytes: PAGES * PAGE,
            born_ns: 10,
            thread: 0,
            chain: NONE,
            name: format!("a{i}").into(),
            previous: NONE,
            represents: PAGES * PAGE,
        });
        for p in 0..PAGES {
            faults.push(PageFault {
                time_ns: 1000 + i * PAGES + p,
                thread: i as u32 % THREADS,
                cpu: i as u16 % THREADS as u16,
                ip: 0,
                address: array(i) + p * PAGE,
                access: Access::Store as u8,
                chain: NONE,
                page_shift: 12,
            });
        }
    }
    let (mut locations, mut symbols, mut modules) =
        (Locations::default(), Symbols::default(), Modules::default());
    modules.push(Module { id: 0, path: "/bench".into(), build_id: String::new(), runtime: 0 });
    for id in 0..41u32 {
        let address = 0x40_0000 + u64::from(id) * 4;
        locations.push(Location { id, process: 0, address, module: 0, file_offset: address });
        let function = if id == 0 { "init" } else { "work" }.to_owned();
        symbols.push(Symbol { location: id, depth: 0, function, file: "/bench.c".into(), line: 10 + id });
    }
    save(rank, 0, &mut processes);
    save(rank, 0, &mut threads);
    save(rank, 0, &mut objects);
    save(rank, 0, &mut faults);
    save(rank, 0, &mut locations);
    save(rank, 0, &mut symbols);
    save(rank, 0, &mut modules);
    save(rank, 0, &mut ProcessEnds::default());
    save(rank, 0, &mut Loops::default());
    save(rank, 0, &mut LoopStreams::default());
    save(rank, 0, &mut LoopOperands::default());
    save(rank, 0, &mut Progresses::default());
    save(rank, 0, &mut Excerpts::default());
    save(rank, 0, &mut ExcerptBlocks::default());
    save(rank, 0, &mut ChainFrames::default());
    save(rank, 0, &mut ObjectEnds::default());
    save(rank, 0, &mut SiteNames::default());
    save(rank, 0, &mut RangeEvents::default());
    save(rank, 0, &mut PageNodes::default());
    save(rank, 0, &mut Mappings::default());
    save(rank, 0, &mut Phases::default());
    save(rank, 0, &mut Counters::default());
    save(rank, 0, &mut CpuEpochs::default());
    save(rank, 0, &mut EpochTraffics::default());
    save(rank, 0, &mut PageTraffics::default());
    save(rank, 0, &mut CountedWindows::default());
    save(rank, 0, &mut Losses::default());
}

/// A perf.data of a busy loop, and how many samples it holds; `None` without perf.
fn perf_data(directory: &Path) -> Option<(PathBuf, u64)> {
    let path = directory.join("perf.data");
    let done = Command::new("perf")
        .args(["record", "-q", "-e", "task-clock:u", "-c", "10000", "-o"])
        .arg(&path)
        .args(["--", "timeout", "20", "sh", "-c", "while :; do :; done"])
        .stderr(Stdio::null())
        .status();
    // timeout(1) ends with 124; what counts is the file.
    if done.is_err() || !path.exists() {
        println!("perf is not there or may not record: no comparison");
        return None;
    }
    let text = Command::new("perf").args(["report", "--stats", "-i"]).arg(&path).output().ok()?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let line = text.lines().find(|l| l.contains("SAMPLE events:"))?;
    let n = line.split_whitespace().find_map(|w| w.parse().ok())?;
    Some((path, n))
}

fn perf_turn(path: &Path, n: u64, samples: u64) {
    let start = Instant::now();
    let done = Command::new("perf")
        .args(["report", "--stdio", "-i"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if done.is_ok_and(|s| s.success()) {
        let seconds = start.elapsed().as_secs_f64();
        let scaled = seconds * samples as f64 / n as f64;
        println!("perf report --stdio: {seconds:.2} s for {n} samples; scaled to {samples}: {scaled:.2} s");
    }
}
