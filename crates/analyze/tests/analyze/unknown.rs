//! What is not known is unknown, and never clean.

use crate::cases::serial;
use crate::made_recording::*;
use nearfar_analyze::Verdict;
use nearfar_recording::*;

#[test]
fn a_run_that_ended_early_is_never_clean() {
    let clean = || {
        let mut w = MadeRecording::new(2);
        let work = w.own("work", 20);
        let a = w.array("a", 64);
        w.touch(100, 0, work, a, 32);
        w.touch(100, 1, work, a + 32 * PAGE, 32);
        w.use_blocked(2, 400, work, a, 64);
        w
    };
    assert_eq!(clean().on(2).verdict, Verdict::Clean);
    assert_eq!(clean().on(2).ended_early, None);
    let mut by_signal = clean();
    by_signal.input.meta.exit = "signal 2 (SIGINT)".into();
    let r = by_signal.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert_eq!(r.ended_early.as_deref(), Some("the program was ended by signal 2 (SIGINT)"));
    assert!(
        r.verdict_why.starts_with("The run ended early") && r.verdict_why.contains("Up to then: 0 % to"),
        "{}",
        r.verdict_why
    );
    let mut by_budget = clean();
    let why = "the program was stopped when its --budget was used up";
    by_budget.input.losses.push(Loss { time_ns: 0, what: "end".into(), count: 0, why: why.into() });
    let r = by_budget.on(2);
    assert_eq!((r.verdict, r.ended_early.as_deref()), (Verdict::Unknown, Some(why)));
    // Nothing is known of it, and that it ended is the first reason.
    let mut empty = MadeRecording::new(2);
    empty.input.meta.exit = "signal 4 (SIGILL)".into();
    let r = empty.on(2);
    assert!(
        r.verdict == Verdict::Unknown
            && r.verdict_why.starts_with(
                "The run ended early (the program was ended by signal 4 (SIGILL)). Up to then: "
            ),
        "{}",
        r.verdict_why
    );
    // What was found is found.
    let mut affected = serial(4, 200);
    affected.input.meta.exit = "signal 15 (SIGTERM)".into();
    let r = affected.on(2);
    assert!(r.verdict == Verdict::Affected && r.ended_early.is_some());
}

#[test]
fn too_few_samples_are_unknown_not_clean() {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let a = w.array("a", 16);
    w.touch(100, 0, init, a, 16);
    for i in 0..20 {
        w.sample(WORK + i, 0, init, a + i * 64);
    }
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(r.verdict_why.contains("too few"), "{}", r.verdict_why);
}

/// The advice to record from the program's start comes after attaching to it, and not after starting it.
#[test]
fn from_the_programs_start_is_said_to_those_only_who_came_later() {
    let said = |command: &[&str], touched: u64| {
        let mut w = MadeRecording::new(2);
        w.input.meta.command = command.iter().map(|&word| word.into()).collect();
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", 4096);
        w.touch(100, 0, init, a, touched);
        w.use_all_over(2, 400, work, a, 4096);
        w.on(2).verdict_why
    };
    for touched in [0, 1] {
        let (whole, late) = (said(&["./app"], touched), said(&[], touched));
        assert!(!whole.contains("start") && !whole.contains("before the recording"), "{whole}");
        assert!(late.contains("from the program's start"), "{late}");
    }
}

/// The same where pages without a first touch are part of a finding.
#[test]
fn a_program_that_was_recorded_from_its_start_has_no_pages_from_before() {
    let said = |command: &[&str]| {
        let mut w = MadeRecording::new(2);
        w.input.meta.machine = machine(2, 1);
        w.input.meta.command = command.iter().map(|&word| word.into()).collect();
        let work = w.own("work", 20);
        let a = w.array("a", 4096);
        w.page_node(WORK / 2, a, 4096, 0, 12);
        w.use_blocked(2, 1000, work, a, 4096);
        w.real().findings.iter().flat_map(|f| f.evidence.clone()).collect::<Vec<_>>().join("\n")
    };
    let (whole, late) = (said(&["./app"]), said(&[]));
    assert!(whole.contains("placed by the kernel") && !whole.contains("before the recording"), "{whole}");
    assert!(late.contains("placed by the kernel or before the recording"), "{late}");
}

/// Page faults work, and the disk was full before any was written.
#[test]
fn a_full_disk_is_not_said_to_be_a_missing_permission() {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let a = w.array("a", 4096);
    for i in 0..400 {
        w.sample(WORK + i * 1_000_000, (i % 2) as u32, init, a + i * 64);
    }
    let why = "the disk was full".to_owned();
    w.input.losses.push(Loss { time_ns: WORK, what: "end".into(), count: 0, why });
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(!r.verdict_why.contains("perf_event_open"), "{}", r.verdict_why);
    assert!(
        r.verdict_why.contains("First touches were not recorded: the disk was full"),
        "{}",
        r.verdict_why
    );
}

#[test]
fn a_sample_or_two_are_no_share() {
    // Two of two near samples: anything up to 84 % may be far, so "0 % remote" would be a lie.
    let r = serial(2, 1).on(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert_eq!((r.remote_share, r.remote_time_share), (None, None));
    assert!(r.remote_share_ci.is_some_and(|i| i.high - i.low > 0.5), "{:?}", r.remote_share_ci);
}

#[test]
fn no_samples_at_all_are_unknown() {
    let mut w = MadeRecording::new(2);
    let source = |source, active, why: &str| SourceReport { source, active, why: why.into(), hz: 997.0 };
    let none = "no hardware counters here";
    w.input.meta.sources = vec![source(Source::Hardware, false, none), source(Source::Clock, true, "")];
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert_eq!(r.remote_share, None);
    // The clock would have sampled a longer run, whatever else is missing.
    assert!(r.verdict_why.contains("too short") && !r.verdict_why.contains(none), "{}", r.verdict_why);
    let mut w = MadeRecording::new(2);
    w.input.meta.sources = vec![source(Source::Clock, false, "perf is forbidden")];
    let why = w.on(2).verdict_why;
    assert!(why.contains("perf is forbidden"), "{why}");
}

#[test]
fn unknown_page_nodes_are_unknown_not_clean() {
    let mut w = MadeRecording::new(4);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    w.use_blocked(4, 200, work, a, 1024);
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert_eq!(r.page_node_unknown_share, 1.0);
    assert_eq!(r.remote_share, None);
    assert!(r.verdict_why.contains("First touches were not recorded"), "{}", r.verdict_why);
}

/// Constants of the program's file: read by all, never placed by it.
#[test]
fn a_table_that_is_only_read_in_the_programs_file_decides_nothing() {
    let verdict = |access: Access, pages: u64| {
        let mut w = MadeRecording::new(4);
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", 1024);
        for t in 0..4 {
            w.touch(100, t, init, a + u64::from(t) * 256 * PAGE, 256);
        }
        w.use_blocked(4, 200, work, a, 1024);
        let (start, bytes) = (0x60_0000, pages * PAGE);
        w.object(ObjectKind::Static, start, bytes, 0, "table");
        w.input.mappings.push(Mapping {
            time_ns: 0,
            process: 0,
            start,
            end: start + bytes,
            offset: 0,
            module: NONE,
            flags: 1,
            name: "/home/u/app".into(),
        });
        for i in 0..800 {
            let address = start + i * 7919 % pages * PAGE;
            w.sample_as(WORK + i, (i % 4) as u32, work, address, Resolution::Exact, access);
        }
        let r = w.on(2);
        (r.verdict, r.verdict_why)
    };
    let (clean, why) = verdict(Access::Load, 16);
    assert_eq!(clean, Verdict::Clean, "{why}");
    let (unknown, why) = verdict(Access::Store, 16);
    assert_eq!(unknown, Verdict::Unknown, "{why}");
    // Weights of a model, mapped and gone through by all: the page cache has them on some node, and no cache holds them.
    let (unknown, why) = verdict(Access::Load, 1 << 16);
    assert_eq!(unknown, Verdict::Unknown, "{why}");
}
