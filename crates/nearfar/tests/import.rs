//! `nearfar import`: files of the installed perf, and files that are written here.

mod common;

use common::{has, skip, text};
use nearfar_machine::Machine;
use nearfar_perf::data_source::bits_of;
use nearfar_perf::features::Node;
use nearfar_perf::records::Mapped;
use nearfar_perf::write::{Header, PerfWriter, Sample};
use nearfar_record::import::{Options, import};
use nearfar_record::store::{self, Tables};
use nearfar_recording::{Access, AccessSamples, Columns, Meta, SampleSource, Served, Source};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an imported recording has.
fn opened(recording: &Path) -> (Meta, Tables) {
    let stored = store::open(recording).unwrap();
    assert!(stored.remarks.is_empty(), "{:?}", stored.remarks);
    let mut tables =
        Tables { threads: stored.input.threads, faults: stored.input.faults, ..Tables::default() };
    tables.locations = stored.input.locations;
    tables.losses = stored.input.losses;
    use nearfar_analyze::SampleReader;
    for i in 0..stored.samples.segments() {
        let mut segment: AccessSamples = stored.samples.segment(i).unwrap();
        tables.samples.append(&mut segment);
    }
    (stored.input.meta, tables)
}

fn imported(file: &Path, to: &Path) -> (Meta, Tables, Vec<String>) {
    let options = Options { output: Some(to.to_owned()), machine: None };
    let outcome = import(file, &options).unwrap_or_else(|e| panic!("{e:#}"));
    let (meta, tables) = opened(&outcome.directory);
    (meta, tables, outcome.damage)
}

/// Runs the installed perf; `None`, with the reason said, where it is missing or may not record.
fn perf(directory: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    if !has("perf") {
        return None;
    }
    let output = Command::new("perf").args(arguments).current_dir(directory).output().unwrap();
    if !output.status.success() {
        skip(&format!("perf {}: {}", arguments.join(" "), text(&output.stderr)));
        return None;
    }
    Some(output.stdout)
}

/// A file with one sample of each kind of source, of a machine of two nodes.
fn made(path: &Path, samples: &[(Served, u32)]) {
    let nodes = [(0, "0-3"), (1, "4-7")].map(|(id, cpus)| Node {
        id,
        memory_bytes: 1 << 30,
        cpus: cpus.parse().unwrap(),
    });
    let header = Header {
        host: "made".into(),
        version: "0".into(),
        arch: "x86_64".into(),
        processor: "Intel(R) Xeon(R)".into(),
        command: vec!["./app".into()],
        nodes: nodes.into(),
        events: vec!["cpu/mem-loads/P".into()],
    };
    let mut file = PerfWriter::begin(std::fs::File::create(path).unwrap(), header).unwrap();
    file.comm(100, 100, "app", 1).unwrap();
    let code = Mapped {
        pid: 100,
        tid: 100,
        start: 0x400000,
        bytes: 0x10000,
        name: "/nonexistent/app".into(),
        protection: 5,
        ..Mapped::default()
    };
    file.mmap(&code, 2).unwrap();
    for (i, &(served, cpu)) in samples.iter().enumerate() {
        let sample = Sample {
            event: 0,
            ip: 0x401000,
            pid: 100,
            tid: 100 + cpu,
            time_ns: 1_000_000 + i as u64 * 1000,
            address: 0x7f00_0000_0000 + i as u64 * 64,
            cpu,
            period: 1000,
            callers: &[0x402000],
            weight: 200,
            data_src: bits_of(served, Access::Load),
        };
        file.sample(&sample).unwrap();
    }
    file.finish().unwrap();
}

/// `comm tid time event`, of each line that is a sample.
fn lines_of_perf_script(text: &str) -> Vec<(u32, u64)> {
    let mut lines: Vec<(u32, u64)> = text
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let (tid, time) = (words.next().unwrap(), words.next().unwrap());
            let (s, ns) = time.trim_end_matches(':').split_once('.').unwrap();
            let ns: u64 = s.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap();
            (tid.parse().unwrap(), ns)
        })
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_perf_records_here_is_imported_line_by_line() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let files: [(&str, &[&str], Source); 4] = [
        ("clock", &["record", "-q", "-F", "2000", "-e", "cpu-clock", "-o", "clock"], Source::Clock),
        ("faults", &["record", "-q", "-e", "page-faults", "-c", "1", "-d", "-o", "faults"], Source::Pages),
        (
            "packed",
            &["record", "-q", "-z", "-F", "2000", "-e", "cpu-clock", "-g", "-o", "packed"],
            Source::Clock,
        ),
        ("pipe", &["record", "-q", "-e", "page-faults", "-c", "1", "-d", "-o", "-"], Source::Pages),
    ];
    for (name, arguments, source) in files {
        let program = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls / > /dev/null"];
        let all: Vec<&str> = arguments.iter().chain(&["--"]).chain(&program).copied().collect();
        let Some(written) = perf(scratch.path(), &all) else { return };
        if name == "pipe" {
            std::fs::write(at(name), written).unwrap();
        }
        let Some(printed) = perf(scratch.path(), &["script", "--ns", "-G", "-F", "tid,time", "-i", name])
        else {
            return;
        };
        let expected = lines_of_perf_script(&text(&printed));
        assert!(!expected.is_empty(), "{name}: perf recorded nothing");
        let (meta, tables, damage) = imported(&at(name), &at(&format!("{name}.nearfar")));
        assert_eq!(damage, [""; 0], "{name}");
        let tid = |thread: u32| {
            let at = tables.threads.id.iter().position(|&id| id == thread).unwrap();
            tables.threads.tid[at]
        };
        let mut found: Vec<(u32, u64)> = match source {
            Source::Pages => tables.faults.rows().map(|f| (tid(f.thread), f.time_ns)).collect(),
            _ => tables.samples.rows().map(|s| (tid(s.thread), s.time_ns)).collect(),
        };
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
        let active: Vec<Source> = meta.sources.iter().filter(|r| r.active).map(|r| r.source).collect();
        assert_eq!(active, [source], "{name}");
        let hardware = meta.sources.iter().find(|r| r.source == Source::Hardware).unwrap();
        assert!(hardware.why.contains("has no memory samples"), "{}", hardware.why);
    }
}

#[test]
fn memory_samples_keep_their_source_latency_and_place() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("made.data");
    let all: Vec<(Served, u32)> = Served::ALL.iter().zip(0..).map(|(s, cpu)| (*s, cpu)).collect();
    made(&file, &all);
    let (meta, tables, damage) = imported(&file, &scratch.path().join("made.nearfar"));
    assert_eq!(damage, [""; 0]);
    assert_eq!(meta.machine.nodes.len(), 2);
    assert_eq!(meta.machine.nodes[1].cpus.to_string(), "4-7");
    assert_eq!(tables.samples.len(), all.len());
    for (i, (served, cpu)) in all.into_iter().enumerate() {
        let row = tables.samples.row(i);
        assert_eq!(row.served, served as u8, "{}", served.text());
        assert_eq!((row.cpu, row.latency_cycles, row.period), (cpu as u16, 200, 1000));
        assert_eq!(row.source, SampleSource::Hardware as u8);
        assert_eq!(row.address, 0x7f00_0000_0000 + i as u64 * 64);
        assert_ne!(row.chain, u32::MAX);
        assert_eq!(row.data_src, bits_of(served, Access::Load));
    }
    assert_eq!(text(&std::fs::read(&file).unwrap()[..8]), "PERFILE2");
}

#[test]
fn damaged_places_are_named_and_the_rest_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("made.data");
    made(&file, &[(Served::LocalMemory, 0); 20]);
    let whole = std::fs::read(&file).unwrap();
    let cut = scratch.path().join("cut.data");
    std::fs::write(&cut, &whole[..whole.len() - 2000]).unwrap();
    let (_, tables, damage) = imported(&cut, &scratch.path().join("cut.nearfar"));
    assert!((1..20).contains(&tables.samples.len()), "{}", tables.samples.len());
    assert!(damage[0].contains("the file ends before its records do"), "{damage:?}");
    assert!(damage.iter().any(|d| d.starts_with("byte ")), "{damage:?}");
    let lost = &tables.losses;
    assert!((0..lost.len()).any(|i| lost.what[i] == "damaged" && lost.count[i] == damage.len() as u64));
    for (name, bytes, why) in [
        ("text", &b"hello, this is not a recording"[..], "of no format that can be imported"),
        ("empty", &b""[..], "it is empty"),
        ("swapped", &b"2ELIFREP\0\0\0\0\0\0\0\0"[..], "big-endian"),
        ("short", &b"PERFILE2"[..], "not perf.data"),
        ("header", &whole[..60], "ends in its header"),
    ] {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let output: PathBuf = scratch.path().join(format!("{name}.nearfar"));
        let error = import(&path, &Options { output: Some(output.clone()), machine: None }).err().unwrap();
        assert!(format!("{error:#}").contains(why), "{error:#}");
        assert!(!output.exists(), "{name}: nothing was imported, and nothing is left behind");
    }
}

#[test]
fn no_flipped_or_missing_byte_makes_an_import_panic() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("made.data");
    made(&file, &[(Served::RemoteMemory, 5); 12]);
    let whole = std::fs::read(&file).unwrap();
    let mut state = 1u64;
    let mut random = |n: usize| {
        // Numerical Recipes' generator: the same mutations every time.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let changed = scratch.path().join("changed");
    for round in 0..80 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random(8) {
            // Headers and lengths are where it matters.
            let at = if random(2) == 0 { random(400.min(bytes.len())) } else { random(bytes.len()) };
            bytes[at] = random(256) as u8;
        }
        if round % 4 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        std::fs::write(&changed, &bytes).unwrap();
        let output = scratch.path().join("changed.nearfar");
        let options =
            Options { output: Some(output.clone()), machine: Some(Machine::from_shape("2x4").unwrap()) };
        if import(&changed, &options).is_ok() {
            store::open(&output).unwrap();
            std::fs::remove_dir_all(&output).unwrap();
        }
    }
}

/// Rows of samples and faults without what numbers stand for: kernel thread, time, cpu, address, what it stands for.
fn rows(tables: &Tables) -> Vec<String> {
    let tid = |thread: u32| {
        let at = tables.threads.id.iter().position(|&id| id == thread).unwrap();
        tables.threads.tid[at]
    };
    let ip = |location: u32| {
        let at = tables.locations.id.iter().position(|&id| id == location).unwrap();
        let module = tables.locations.module[at];
        (tables.locations.address[at], module != u32::MAX, tables.locations.file_offset[at])
    };
    let samples = tables.samples.rows().map(|s| {
        let what = (s.weight_ns, s.latency_cycles, s.period, s.served, s.access, s.data_src);
        format!("{} {} {} {:x} {:?} {what:?}", tid(s.thread), s.time_ns, s.cpu, s.address, ip(s.ip))
    });
    let faults = tables.faults.rows().map(|f| {
        format!("{} {} {} {:x} {:?} {}", tid(f.thread), f.time_ns, f.cpu, f.address, ip(f.ip), f.access)
    });
    samples.chain(faults).collect()
}

/// All columns that are read, and the header with the machine's nodes.
const SCRIPT: [&str; 8] = [
    "script",
    "--ns",
    "--header",
    "-I",
    "--show-mmap-events",
    "--show-task-events",
    "-F",
    "comm,pid,tid,cpu,time,period,event",
];

#[test]
fn the_text_of_perf_script_is_imported_as_its_file() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let loop_of = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls / > /dev/null";
    let record = |arguments: &[&str]| {
        let all: Vec<&str> = [&["record", "-q"], arguments, &["--", "sh", "-c", loop_of]].concat();
        perf(scratch.path(), &all)
    };
    let recorded = [
        (
            "clock",
            record(&["--sample-cpu", "-F", "2000", "-e", "cpu-clock", "-o", "clock"]),
            "ip,sym,symoff,dso",
        ),
        (
            "chains",
            record(&["--sample-cpu", "-g", "-F", "2000", "-e", "cpu-clock", "-o", "chains"]),
            "ip,sym,dso",
        ),
        (
            "faults",
            record(&["--sample-cpu", "-e", "page-faults", "-c", "1", "-d", "-o", "faults"]),
            "addr,ip,sym,symoff,dso",
        ),
    ];
    made(&at("memory"), &Served::ALL.iter().zip(0..).map(|(s, cpu)| (*s, cpu)).collect::<Vec<_>>());
    let memory = ("memory", Some(Vec::new()), "addr,data_src,weight,ip,sym,dso");
    for (name, recorded, columns) in recorded.into_iter().chain([memory]) {
        let fields = format!("{},{columns}", SCRIPT[7]);
        let mut arguments = SCRIPT[..7].to_vec();
        arguments.extend([fields.as_str(), "-i", name]);
        // Chains are printed as offsets in their files; without them, as addresses.
        if name != "chains" {
            arguments.push("-G");
        }
        let (Some(_), Some(printed)) = (recorded, perf(scratch.path(), &arguments)) else { return };
        std::fs::write(at(&format!("{name}.txt")), printed).unwrap();
        let (file, of_file, _) = imported(&at(name), &at(&format!("{name}.nearfar")));
        let (text, of_text, damage) =
            imported(&at(&format!("{name}.txt")), &at(&format!("{name}.txt.nearfar")));
        assert_eq!(damage, [""; 0], "{name}");
        assert!(!rows(&of_file).is_empty(), "{name}");
        let (of_text, of_file) = (rows(&of_text), rows(&of_file));
        for (i, row) in of_file.iter().enumerate() {
            assert_eq!(of_text.get(i), Some(row), "{name}, row {i}");
        }
        assert_eq!(of_text.len(), of_file.len(), "{name}");
        assert_eq!(text.machine.nodes.len(), file.machine.nodes.len(), "{name}");
        assert_eq!(text.machine.nodes[0].cpus, file.machine.nodes[0].cpus, "{name}");
        let sources = |meta: &Meta| meta.sources.iter().map(|s| (s.source, s.active)).collect::<Vec<_>>();
        assert_eq!(sources(&text), sources(&file), "{name}");
    }
}

#[test]
fn text_that_lacks_what_is_needed_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("plain.txt");
    let line = "app 7/7 [000] 1.000001: cpu/mem-loads,ldlat=30/P: 7f0010 68100142 |OP LOAD|LVL L1 hit|SNP None|BLK N/A 7 401000 f (/a)";
    std::fs::write(&file, format!("{line}\nnot a line of perf\n{line}\n")).unwrap();
    let (meta, tables, damage) = imported(&file, &scratch.path().join("plain.nearfar"));
    assert_eq!(tables.samples.len(), 2);
    assert_eq!(damage, ["line 2: no thread and time"]);
    assert_eq!(meta.imported.as_deref(), Some("perf script (plain.txt)"));
    for what in
        ["mappings", "what events count", "the processor's vendor", "parts of the machine's description"]
    {
        assert!(tables.losses.what.iter().any(|w| w == what), "{what}: {:?}", tables.losses.what);
    }
    // Without a header it is unknown whether every page fault was recorded, so there are no first touches.
    std::fs::write(&file, "app 7/7 [000] 1.000001:          1 page-faults:     7f0010   401000 f (/a)\n")
        .unwrap();
    let (meta, tables, _) = imported(&file, &scratch.path().join("faults.nearfar"));
    assert!(tables.faults.is_empty() && meta.sources.iter().all(|s| !s.active), "{:?}", meta.sources);
}

#[test]
fn what_mlc_printed_becomes_a_machine_file() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("mlc.txt");
    let matrix = "\t\tNuma node\nNuma node\t     0\t     1\t\n       0\t  90.5\t 140.5\t\n       1\t 141.0\t  91.0\t\n";
    let text = format!(
        "Intel(R) Memory Latency Checker - v3.10\nMeasuring idle latencies for random access (in ns)...\n{matrix}"
    );
    std::fs::write(&file, text).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = common::nearfar();
        let output = command.current_dir(scratch.path()).arg("import").args(arguments).output().unwrap();
        (output.status.code(), text_of(&output))
    };
    let (status, said) = run(&["mlc.txt"]);
    assert!(status == Some(2) && said.contains("name the machine with --as"), "{status:?} {said}");
    let (status, said) = run(&["mlc.txt", "--as", "2x4"]);
    assert!(status == Some(0) && said.contains("machine file mlc.toml"), "{status:?} {said}");
    let (status, said) = run(&["mlc.txt", "--as", "2x4"]);
    assert!(status == Some(2) && said.contains("exists and is not overwritten"), "{status:?} {said}");
    let machine =
        Machine::from_toml(&std::fs::read_to_string(scratch.path().join("mlc.toml")).unwrap()).unwrap();
    assert_eq!(machine.figures.latency_ns.unwrap().get(1, 0), Some(141.0));
    let (status, said) = run(&["mlc.txt", "--as", "4x2", "-o", "-"]);
    assert!(status == Some(0) && said.contains("140.5"), "{status:?} {said}");
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Imports a text and gives the report's text and JSON.
fn report_of(scratch: &Path, name: &str, text_of_tool: &[u8]) -> (String, serde_json::Value, Vec<String>) {
    let (file, output) = (scratch.join(name), scratch.join(format!("{name}.nearfar")));
    std::fs::write(&file, text_of_tool).unwrap();
    let options =
        Options { output: Some(output.clone()), machine: Some(Machine::from_shape("2x4").unwrap()) };
    let outcome = import(&file, &options).unwrap_or_else(|e| panic!("{name}: {e:#}"));
    let report = |flags: &[&str]| {
        let run = common::nearfar().arg("report").arg(&output).args(flags).output().unwrap();
        text(&run.stdout)
    };
    (report(&["--details"]), serde_json::from_str(&report(&["--json"])).unwrap(), outcome.damage)
}

/// Counters of no tool make a verdict or a share, and what was not counted is not 0.
#[test]
fn counters_of_other_tools_are_shown_with_their_source_and_judge_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let files: [(&str, &str, &[&str], usize); 5] = [
        (
            "stat.json",
            "{\"interval\" : 0.5, \"node\" : \"N1\", \"aggregate-number\" : 2, \"counter-value\" : \"7.000000\", \"unit\" : \
             \"\", \"event\" : \"LLC-misses\", \"event-runtime\" : 5, \"pcnt-running\" : 50.00}\n{\"counter-value\" : \"12\n\
             {\"counter-value\" : \"<not supported>\", \"unit\" : \"\", \"event\" : \"cycles\", \"pcnt-running\" : 100.00}\n",
            &[
                "by perf stat -j, node 1: LLC-misses 7, scaled: it ran 50 % of the time",
                "cycles unknown (perf: not supported",
            ],
            1,
        ),
        (
            "stat.csv",
            "1.0,S0,2,7,,cycles,5,100.00,,\n2.0,S0,2,8,,cycles,5,100.00,,\n2.0,S0,x\n",
            &["by perf stat -x,, socket 0: cycles 15"],
            1,
        ),
        (
            "numastat",
            "      node0   node1\nnuma_hit 5 6\nnuma_miss 1\n",
            &["by numastat, node 1: numa_hit 6 pages"],
            1,
        ),
        (
            "pcm.csv",
            "Time elapsed: 500 ms\nCore,IPC,Instructions,Cycles,Local DRAM accesses,Remote DRAM accesses\n0,0.50,1,2,3,4\n1,,,,,\n",
            &["by pcm-numa, cpu 0: IPC 0.5000; Instructions 1", "cpu 1: IPC unknown"],
            0,
        ),
        (
            "numaprof.json",
            "{\"threads\": [{\"stats\": {\"localAccess\": 10, \"remoteAccess\": 90}}]}",
            &[
                "by NUMAPROF, thread 0: local accesses by bound threads 10; remote accesses by bound threads 90",
            ],
            0,
        ),
    ];
    for (name, content, says, damaged) in files {
        let (page, json, damage) = report_of(scratch.path(), name, content.as_bytes());
        // Lines are wrapped.
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in says {
            assert!(words.contains(part), "{name}: {part}: {page}");
        }
        assert_eq!(json["verdict"], "unknown", "{name}");
        assert_eq!(json["remote_share"], serde_json::Value::Null, "{name}");
        assert!(
            json["verdict_why"].as_str().unwrap().contains("no samples of memory"),
            "{}",
            json["verdict_why"]
        );
        assert_eq!(damage.len(), damaged, "{name}: {damage:?}");
        assert!(damage.iter().all(|line| line.starts_with("line ")), "{damage:?}");
    }
}

/// What the installed tools print, as they are.
#[test]
fn what_perf_stat_and_numastat_print_here_is_imported() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let events = "task-clock,page-faults,cycles";
    let runs: [&[&str]; 4] = [
        &["stat", "-j", "-e", events, "-o", "out", "true"],
        &["stat", "-x,", "-e", events, "-o", "out", "true"],
        &["stat", "-x,", "-I", "50", "-a", "-A", "-e", "cpu-clock,cycles", "-o", "out", "sleep", "0.12"],
        &["stat", "-j", "-a", "--per-socket", "-e", "cpu-clock,cycles", "-o", "out", "sleep", "0.01"],
    ];
    for (i, run) in runs.into_iter().enumerate() {
        if perf(at, run).is_none() {
            return;
        }
        let out = std::fs::read(at.join("out")).unwrap();
        let (page, json, damage) = report_of(at, &format!("stat{i}"), &out);
        assert_eq!(damage, [""; 0], "{run:?}: {}", text(&out));
        assert_eq!(json["verdict"], "unknown");
        let notes = json["notes"].to_string();
        assert!(notes.contains("-clock ") && notes.contains(" msec"), "{notes}");
        // Without a PMU, cycles are unknown for a reason and not 0.
        assert!(!notes.contains("cycles 0"), "{page}");
    }
    for (i, flags) in [&[][..], &["-m"], &["-p", &std::process::id().to_string()]].into_iter().enumerate() {
        let Ok(output) = std::process::Command::new("numastat").args(flags).output() else { return };
        let (page, json, damage) = report_of(at, &format!("numastat{i}"), &output.stdout);
        assert_eq!(damage, [""; 0], "{}", text(&output.stdout));
        assert!(json["notes"].to_string().contains("by numastat, node 0: "), "{page}");
    }
}
