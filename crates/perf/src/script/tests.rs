use super::*;

fn sample_of(text: &str) -> (String, Sample) {
    match line(text) {
        Line::Sample { event, sample } => (event, sample),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn columns_are_known_by_their_place() {
    let (event, s) = sample_of(
        "   my prog: 2  3067/3068  [001]  2539.802273034:    1001 cpu/mem-loads,ldlat=30/P:     7f941c8f2ad8      \
         1e05080021 |OP LOAD|LVL L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A       310     7faa8f3634c7 \
         __strcspn_sse42+0x57 (/usr/lib/libc.so.6)",
    );
    assert_eq!(event, "cpu/mem-loads,ldlat=30/P");
    assert_eq!((s.pid, s.tid, s.cpu, s.time_ns), (3067, 3068, Some(1), Some(2_539_802_273_034)));
    assert_eq!((s.period, s.address, s.data_src), (Some(1001), Some(0x7f941c8f2ad8), Some(0x1e05080021)));
    assert_eq!((s.latency, s.ip), (Some(310), 0x7faa8f3634c7));
    // perf before 5.12 has no BLK; no period, no cpu, no process.
    let (_, s) = sample_of(
        "app 12 1.000001: mem:  10  68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK Yes 7 4010ab f (/a)",
    );
    assert_eq!((s.pid, s.tid, s.cpu, s.period), (12, 12, None, None));
    assert_eq!((s.address, s.latency, s.ip), (Some(0x10), Some(7), 0x4010ab));
    // No latency: the number is the instruction.
    let (_, s) = sample_of("app 12 1.000001: mem:  10  68100142 |OP LOAD|LCK No|BLK  Data 4010ab f (/a)");
    assert_eq!((s.latency, s.ip), (None, 0x4010ab));
    let (event, s) = sample_of(
        "sh  2804  2527.068834:    1001001 cpu-clock:u:      5600637f9a9e [unknown] (/usr/bin/dash)",
    );
    assert_eq!((event.as_str(), s.ip, s.address), ("cpu-clock:u", 0x5600637f9a9e, None));
    let (_, s) =
        sample_of("ls  2871  2529.281848:          1 page-faults:     7f0010   401000 main+0x3 (/a)");
    assert_eq!((s.ip, s.address), (0x401000, Some(0x7f0010)));
    let (_, s) = sample_of(
        "ls 7/7 [001] 3302.1: 1 page-faults:     7f81 _start+0x0 (/usr/lib/ld (x).so) 7f82 _start+0x0 (/usr/lib/ld.so)",
    );
    assert_eq!((s.address, s.ip), (Some(0x7f81), 0x7f82));
    let (_, s) = sample_of("ls  2871  2529.281848:          1 page-faults:     401000 f (/a)");
    assert_eq!((s.ip, s.address), (0x401000, None));
    let (_, s) = sample_of("ls  2871  2529.281848:          1 page-faults:     7f0010");
    assert_eq!((s.ip, s.address), (0, Some(0x7f0010)));
}

#[test]
fn records_are_those_of_perf_data() {
    let record = |text: &str| match line(text) {
        Line::Record { record, .. } => record,
        other => panic!("{text}: {other:?}"),
    };
    let Record::Mmap(m) = record(
        "sh  7/8  [001]  2539.801280359: PERF_RECORD_MMAP2 7/8: [0x556cfc4e2000(0x13000) @ 0x4000 fe:00 247072 0]: \
         r-xp /usr/bin/da sh",
    ) else {
        panic!("no mapping")
    };
    assert_eq!((m.pid, m.tid, m.start, m.bytes, m.offset), (7, 8, 0x556cfc4e2000, 0x13000, 0x4000));
    assert_eq!((m.device, m.inode, m.protection, m.flags), ((0xfe, 0), 247_072, 5, 2));
    assert_eq!(m.name, "/usr/bin/da sh");
    let exec = "sh  7/8  [001]  2539.801245357: PERF_RECORD_COMM exec: a: b:7/8";
    assert_eq!(record(exec), Record::Comm { pid: 7, tid: 8, name: "a: b".into(), exec: true });
    assert_eq!(
        record("sh 7/8 [001] 2539.814: PERF_RECORD_FORK(9:10):(7:8)"),
        Record::Fork { pid: 9, tid: 10, parent: 7 }
    );
    assert_eq!(
        record("sh 7/8 [001] 2539.814: PERF_RECORD_EXIT(9:10):(7:8)"),
        Record::Exit { pid: 9, tid: 10 }
    );
    assert_eq!(record("x 0 1.0: PERF_RECORD_LOST lost 12"), Record::Lost(12));
}

#[test]
fn the_header_says_machine_and_events() {
    let header = |text: &str| match line(text) {
        Line::Header(header) => header,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(header("# cpudesc : AMD EPYC 9654"), Header::Processor("AMD EPYC 9654".into()));
    assert_eq!(
        header("# node1 meminfo  : total = 2048 kB, free = 6 kB"),
        Header::Memory { node: 1, bytes: 2 << 20 }
    );
    let node = Node { id: 1, memory_bytes: 0, cpus: "4-7".parse().unwrap() };
    assert_eq!(header("# node1 cpu list : 4-7"), Header::Node(node));
    assert_eq!(header("# CPU 5: Core ID 1, Die ID 0, Socket ID 1"), Header::Package { cpu: 5, package: 1 });
    let Header::Event { name, attr } = header(
        "# event : name = cpu/mem-loads,ldlat=30/P, , id = { 1, 2 }, type = 4, size = 128, config = 0x1cd, \
         { sample_period, sample_freq } = 4000, sample_type = IP|TID|TIME|ADDR, freq = 1, precise_ip = 3",
    ) else {
        panic!("no event")
    };
    assert_eq!(
        (name.as_str(), attr.kind, attr.config, attr.hz()),
        ("cpu/mem-loads,ldlat=30/P", 4, 0x1cd, Some(4000))
    );
    assert!(attr.has(bits::ADDR));
}

#[test]
fn what_perf_does_not_print_is_damaged_and_nothing_panics() {
    for text in [
        "hello",
        "a 1 2.3: ",
        "a 1 2.3: event",
        "\tnot hex",
        "sh 7/8 [001] 2.3: PERF_RECORD_MMAP2 7/8: [0x1(",
    ] {
        assert!(matches!(line(text), Line::Damaged(_)), "{text}: {:?}", line(text));
    }
    let whole = "é 7/8 [001] 2539.80: 5 e: 7f0010 1e05080021 |OP LOAD|BLK  N/A 310 7faa8f3634c7 f+0x57 (/a)";
    for cut in 0..whole.len() {
        if let Some(part) = whole.get(..cut) {
            line(part);
        }
    }
    let numbers = "a 1 99999999999999999999.1: e: 1 |";
    assert!(matches!(line(numbers), Line::Damaged(_)));
}
