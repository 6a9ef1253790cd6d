//! Verdicts, shares and findings.

use crate::made_recording::*;
use nearfar_analyze::{Basis, Pattern, Verdict};
use nearfar_recording::*;

/// One thread initialises `pages` pages, `threads` threads use them in blocks.
pub(crate) fn serial(threads: u32, each: u64) -> MadeRecording {
    let mut w = MadeRecording::new(threads);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    w.touch(100, 0, init, a, 1024);
    w.use_blocked(threads, each, work, a, 1024);
    w
}

pub(crate) fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a share");
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

/// Advice never names schedules or libraries that the program does not have.
#[test]
fn advice_is_in_the_words_of_the_programs_runtime() {
    let with = |path: &str| {
        let mut w = serial(4, 200);
        let id = w.input.modules.len() as u32;
        w.input.modules.push(Module { id, path: path.into(), build_id: String::new(), runtime: 1 });
        w.on(2).findings[0].advice.clone()
    };
    assert!(with("/usr/lib/libgomp.so.1").contains("schedule(static), as the loop in work at main.c:20"));
    let java = with("/usr/lib/jvm/lib/server/libjvm.so");
    assert!(java.contains("-XX:+UseNUMA") && !java.contains("schedule"), "{java}");
    assert!(java.contains("places a"), "{java}");
}

/// Code that a runtime generated has no file, and only the runtime knows its names.
#[test]
fn generated_code_without_names_comes_with_what_names_it() {
    let mut w = serial(4, 200);
    let of_files = |w: &MadeRecording| w.on(2).notes.iter().any(|n| n.contains("generated code"));
    assert!(!of_files(&w));
    w.input.symbols = Symbols::default();
    w.input.locations.module.fill(NONE);
    let java = Module { id: 99, path: "/usr/lib/libjvm.so".into(), build_id: String::new(), runtime: 0 };
    w.input.modules.push(java);
    let r = w.on(2);
    let note = r.notes.iter().find(|n| n.contains("generated code")).expect("a note");
    assert!(note.starts_with("100 % of the samples") && note.contains("DumpPerfMapAtExit"), "{note}");
}

#[test]
fn serial_initialisation_is_half_remote_on_two_nodes() {
    let r = serial(4, 200).on(2);
    near(r.remote_share, 0.5);
    near(r.remote_time_share, 0.5);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert_eq!(r.basis, Basis::StallTime);
    let f = &r.findings[0];
    assert_eq!((f.kind.as_str(), f.rank), ("serial_first_touch", 1));
    assert_eq!(f.cause.at.as_deref(), Some("main.c:10"));
    assert_eq!(f.cause.function.as_deref(), Some("init"));
    assert!(
        f.advice.contains("Let each thread initialise the part of a that it uses in work"),
        "{}",
        f.advice
    );
    assert!(f.predicted.is_none() && f.predicted_why.is_some());
    assert_eq!(r.objects[0].pattern, Pattern::Blocked);
    assert_eq!(r.objects[0].first_touch[0].pages, 1024);
    assert_eq!(r.objects[0].first_touch[0].node, Some(0));
    assert_eq!(r.node_matrix, vec![vec![0.5, 0.0], vec![0.5, 0.0]]);
}

/// A run so short that most of what memory serves is the initialisation itself: the cause is the same.
#[test]
fn one_thread_that_placed_all_is_the_cause_however_much_it_uses_itself() {
    for own in [200, 1600, 4000] {
        let mut w = serial(4, 200);
        let init = w.own("init", 10);
        for i in 0..own {
            let place = BASE + i * (1024 * PAGE / own);
            w.sample_as(WORK - (own - i) * 10_000, 0, init, place, Resolution::Exact, Access::Store);
        }
        let r = w.on(2);
        let share = r.remote_share.unwrap();
        assert_eq!(share < 0.2, own > 200, "{share}");
        let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
        assert_eq!(kinds, ["serial_first_touch"], "{own} samples of its own");
    }
}

/// Threads that wait in a loop or asleep: the same program.
#[test]
fn how_threads_wait_changes_no_share_of_time() {
    let asleep = serial(4, 200).on(2);
    let mut w = serial(4, 200);
    let barrier = w.own("gomp_barrier_wait_end", 40);
    for i in 0..800u64 {
        let time = WORK + i * 250_000 + 7;
        w.sample_as(time, (i % 4) as u32, barrier, 0, Resolution::Spinning, Access::Unknown);
    }
    let spinning = w.on(2);
    assert!((spinning.spinning_share - 0.5).abs() < 1e-9);
    near(spinning.remote_time_share, asleep.remote_time_share.unwrap());
    assert_eq!(spinning.remote_time_share_ci, asleep.remote_time_share_ci);
    assert_eq!((spinning.verdict, &spinning.verdict_why), (asleep.verdict, &asleep.verdict_why));
    assert!((spinning.findings[0].at_risk - asleep.findings[0].at_risk).abs() < 1e-9);
    let told = |r: &nearfar_analyze::Report| {
        r.notes.iter().any(|n| n.contains("50 % of the CPU time is spent in loops that wait"))
    };
    assert!(told(&spinning) && !told(&asleep), "{:?}", spinning.notes);
    let barrier = spinning.functions.iter().find(|f| f.function == "gomp_barrier_wait_end").unwrap();
    assert!(barrier.waits() && (barrier.waiting_share - 0.5).abs() < 1e-9, "{barrier:?}");
    assert!(!spinning.functions.iter().any(|f| f.function == "work" && f.waits()));
    // Waiting alone is not evidence.
    let mut idle = MadeRecording::new(2);
    let barrier = idle.own("gomp_barrier_wait_end", 40);
    for i in 0..800u64 {
        idle.sample_as(WORK + i, (i % 2) as u32, barrier, 0, Resolution::Spinning, Access::Unknown);
    }
    let r = idle.on(2);
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(r.verdict_why.contains("waiting at a barrier or lock"), "{}", r.verdict_why);
}

#[test]
fn more_nodes_more_remote() {
    near(serial(8, 200).on(4).remote_share, 0.75);
    near(serial(8, 200).on(8).remote_share, 0.875);
}

#[test]
fn half_parallel_initialisation_is_a_quarter_remote() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    for t in 0..4 {
        let block = a + u64::from(t) * 256 * PAGE;
        w.touch(100, t, init, block, 128);
        w.touch(5000, 0, init, block + 128 * PAGE, 128);
    }
    w.use_blocked(4, 256, work, a, 1024);
    let r = w.on(2);
    near(r.remote_share, 0.25);
    let f = &r.findings[0];
    assert_eq!(f.kind, "serial_first_touch");
    assert!(f.evidence[0].starts_with("a: 62 % of 1,024 pages placed by thread 0 "), "{}", f.evidence[0]);
}

#[test]
fn first_touch_by_the_user_is_clean() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    for t in 0..4 {
        w.touch(100, t, init, a + u64::from(t) * 256 * PAGE, 256);
    }
    w.use_blocked(4, 200, work, a, 1024);
    let r = w.on(2);
    near(r.remote_share, 0.0);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.findings.is_empty());
    // 800 samples in all of the 200 blocks of time: 1 − 0.025^(1/200).
    let high = r.remote_share_ci.unwrap().high;
    assert!((high - 0.0183).abs() < 1e-4, "{high}");
}

#[test]
fn what_is_clean_beside_much_time_in_the_kernel_says_so() {
    let with_kernel = |seconds: f64| {
        let mut w = MadeRecording::new(2);
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", 1024);
        for t in 0..2 {
            w.touch(100, t, init, a + u64::from(t) * 512 * PAGE, 512);
        }
        w.use_blocked(2, 400, work, a, 1024);
        (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (10.0, seconds);
        let r = w.on(2);
        assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
        let noted = r.notes.iter().any(|n| n.contains("of the CPU time is in the kernel"));
        (r.verdict_why.contains("of the time outside the kernel"), noted)
    };
    assert_eq!(with_kernel(0.5), (false, false));
    assert_eq!(with_kernel(1.5), (true, false));
    assert_eq!(with_kernel(4.0), (true, true));
    assert_eq!(with_kernel(-1.0), (false, false));
}

#[test]
fn a_halo_is_clean() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    for t in 0..4 {
        w.touch(100, t, init, a + u64::from(t) * 256 * PAGE, 256);
    }
    // Every 16th access of a thread goes 20 pages past its block.
    for i in 0..500u64 {
        for t in 0..4u64 {
            let inside = (i * 7919 % 500) * 256 / 500;
            let page = if i % 16 == 0 { 256 + i % 20 } else { inside };
            w.sample(WORK + i * 1_000_000 + t, t as u32, work, a + (t * 256 + page).min(1023) * PAGE);
        }
    }
    let r = w.on(2);
    assert!(r.remote_share.unwrap() > 0.01);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert_eq!(r.objects[0].pattern, Pattern::Blocked);
    assert!(!r.findings.iter().any(|f| f.kind == "serial_first_touch"), "{:?}", r.findings);
}

#[test]
fn computing_is_clean() {
    let mut w = MadeRecording::new(4);
    let ip = w.own("fma", 5);
    w.compute(4, 200, ip);
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert_eq!(r.compute_share, 1.0);
    assert_eq!(r.remote_share, None);
}

#[test]
fn one_node_can_have_nothing_far() {
    let r = serial(4, 200).real();
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(r.verdict_why.contains("one node"));
    assert_eq!(r.remote_share, None);
    assert!(r.findings.is_empty());
}

#[test]
fn object_only_samples_count_where_the_whole_object_is_on_one_node() {
    let mut w = serial(4, 50);
    let work = w.own("gather", 30);
    for i in 0..100 {
        for t in 0..4 {
            w.sample_as(2 * WORK + i, t, work, BASE, Resolution::Object, Access::Load);
        }
    }
    let r = w.on(2);
    near(r.remote_share, 0.5);
    assert_eq!(r.page_node_unknown_share, 0.0);
    // Once another node holds a part, the object alone no longer tells the node of the page.
    let mut w2 = MadeRecording::new(4);
    let init = w2.own("init", 10);
    let a = w2.array("a", 64);
    w2.touch(100, 0, init, a, 32);
    w2.touch(100, 3, init, a + 32 * PAGE, 32);
    for i in 0..100 {
        w2.sample_as(WORK + i, 0, init, a, Resolution::Object, Access::Load);
        w2.sample_as(WORK + i, 3, init, a, Resolution::Object, Access::Load);
    }
    let r = w2.on(2);
    assert_eq!(r.page_node_unknown_share, 1.0);
    assert_eq!(r.unattributed_share, 0.0);
}

#[test]
fn findings_are_ranked_by_what_is_at_risk_not_by_remote_share() {
    let mut w = MadeRecording::new(4);
    let (init_a, init_b) = (w.own("init_a", 10), w.own("init_b", 11));
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    let b = w.array("b", 1024);
    w.touch(100, 0, init_a, a, 1024);
    w.touch(5000, 0, init_b, b, 1024);
    w.use_blocked(4, 800, work, a, 1024);
    // b is all remote, but hardly used.
    for i in 0..200 {
        w.sample(WORK + i * 3_000_000, 3, work, b + i * 5 * PAGE);
    }
    let r = w.on(2);
    let names: Vec<&str> = r.findings.iter().map(|f| f.objects[0].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(r.objects[1].remote_share.unwrap() > r.objects[0].remote_share.unwrap());
    assert!(r.findings[0].at_risk > r.findings[1].at_risk);
    assert!(r.findings[1].advice.contains("thread 3"), "{}", r.findings[1].advice);
}

#[test]
fn objects_of_one_cause_are_one_finding() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    for name in ["a", "b", "c"] {
        let x = w.array(name, 1024);
        w.touch(100, 0, init, x, 1024);
        w.use_blocked(4, 100, work, x, 1024);
    }
    let r = w.on(2);
    assert_eq!(r.findings.len(), 1);
    assert_eq!(r.findings[0].objects.len(), 3);
    assert!((r.findings[0].at_risk - 0.5).abs() < 1e-9);
}

#[test]
fn advice_follows_the_pattern() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("table", 256);
    w.touch(100, 0, init, a, 256);
    w.use_all_over(4, 500, work, a, 256);
    let r = w.on(2);
    assert_eq!(r.objects[0].pattern, Pattern::AllOver);
    assert!(r.findings[0].advice.contains("a copy of it, if there is room"), "{}", r.findings[0].advice);
    for access in w.samples.access.iter_mut().step_by(3) {
        *access = Access::Store as u8;
    }
    let r = w.on(2);
    assert!(r.findings[0].advice.starts_with("Interleave"), "{}", r.findings[0].advice);
}

#[test]
fn another_schedule_than_the_initialisation_is_a_mismatch() {
    let mut w = MadeRecording::new(4);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 1024);
    // Touched in the opposite order of use.
    for t in 0..4u32 {
        w.touch(100, t, init, a + u64::from(3 - t) * 256 * PAGE, 256);
    }
    w.use_blocked(4, 200, work, a, 1024);
    let r = w.on(2);
    near(r.remote_share, 1.0);
    assert_eq!(r.findings[0].kind, "schedule_mismatch");
    assert_eq!(r.verdict, Verdict::Affected);
}

#[test]
fn the_report_does_not_depend_on_the_number_of_workers() {
    let w = serial(4, 300);
    let judge = nearfar_analyze::Judge {
        machine: machine(2, 4),
        assume: Some(nearfar_machine::binding::Bind::Compact),
        whole: false,
    };
    let one = nearfar_analyze::analyze_with(&w.input, &w.samples, &judge, 1).unwrap();
    let five = nearfar_analyze::analyze_with(&w.input, &w.samples, &judge, 5).unwrap();
    let text = |r| serde_json::to_string(r).unwrap();
    assert_eq!(text(&one), text(&five));
}

#[test]
fn scatter_changes_who_is_far() {
    let w = serial(4, 200);
    let judge = nearfar_analyze::Judge {
        machine: machine(2, 4),
        assume: Some(nearfar_machine::binding::Bind::Scatter),
        whole: false,
    };
    let r = nearfar_analyze::analyze_with(&w.input, &w.samples, &judge, 2).unwrap();
    let nodes: Vec<_> = r.threads.iter().map(|t| t.node).collect();
    assert_eq!(nodes, [Some(0), Some(1), Some(0), Some(1)]);
}

#[test]
fn allocations_that_were_only_counted_are_said_with_their_lines() {
    let mut w = serial(4, 200);
    assert!(!w.on(2).notes.iter().any(|n| n.contains("one by one")));
    let (libc, grow) = (w.libc("malloc"), w.own("grow", 77));
    let chain = w.chain(&[libc, grow]);
    for (chain, count, bytes) in [(chain, 900_000, 90_000_000_000), (NONE, 5, 500_000)] {
        w.input.allocation_groups.push(AllocationGroup { process: 0, chain, count, bytes });
    }
    let r = w.on(2);
    let note = r.notes.iter().find(|n| n.contains("one by one")).expect("a note");
    assert!(note.starts_with("900,005 allocations (83.8 GiB in all)"), "{note}");
    assert!(note.contains("main.c:77 (900,000), unknown lines (5)"), "{note}");
}

/// Samples are at places of their own.
fn about(found: Option<f64>, expected: f64) {
    let found = found.expect("a share");
    assert!((found - expected).abs() < 0.02, "{found} instead of {expected}");
}

/// `a` interleaved page by page by a policy, every third page looked at.
fn interleaved(nodes: u32) -> MadeRecording {
    let mut w = MadeRecording::new(2 * nodes);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1024);
    w.touch(100, 0, init, a, 1024);
    w.use_blocked(2 * nodes, 300, work, a, 1024);
    for page in (0..1024).step_by(3) {
        w.page_node(8 * WORK, a + page * PAGE, 1, (page % u64::from(nodes)) as i16, 12);
    }
    w.input.meta.machine = machine(nodes, 2);
    w
}

#[test]
fn interleaved_pages_are_not_a_serial_first_touch() {
    for nodes in [2, 4, 8] {
        let w = interleaved(nodes);
        let r = w.real();
        let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
        assert_eq!(kinds, ["placed_by_policy"], "{nodes} nodes: {:?}", r.findings);
        let advice = &r.findings[0].advice;
        assert!(advice.contains("Leave out the interleaving"), "{advice}");
        // A page that was not looked at may be on any node.
        about(Some(r.page_node_unknown_share), 2.0 / 3.0);
        about(r.remote_share, 1.0 - 1.0 / f64::from(nodes));
    }
}

/// Each thread touches and uses its own part; of the part of node 0's threads the last quarter did not fit there.
#[test]
fn pages_that_did_not_fit_are_not_the_schedules_fault() {
    let mut w = MadeRecording::new(4);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1024);
    for thread in 0..4 {
        w.touch(100 + u64::from(thread), thread, init, a + u64::from(thread) * 256 * PAGE, 256);
    }
    w.use_blocked(4, 600, work, a, 1024);
    for page in 0..1024 {
        let full = (384..512).contains(&page);
        w.page_node(8 * WORK, a + page * PAGE, 1, i16::from(full || page >= 512), 12);
    }
    w.input.meta.machine = machine(2, 2);
    let r = w.real();
    about(r.remote_share, 0.125);
    let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
    assert_eq!(kinds, ["capacity_overflow"], "{:?}", r.findings);
    assert!(r.findings[0].advice.contains("were full"), "{}", r.findings[0].advice);
    // The same pages where they were touched: nothing is far.
    w.input.page_nodes = Default::default();
    assert!(w.real().findings.is_empty());
}

#[test]
fn a_table_of_all_threads_that_is_interleaved_already_is_not_accused() {
    let mut w = MadeRecording::new(4);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("table", 1024);
    w.touch(100, 0, init, a, 1024);
    w.use_all_over(4, 600, work, a, 1024);
    for page in 0..1024 {
        w.page_node(8 * WORK, a + page * PAGE, 1, i16::from(page % 2 == 0), 12);
    }
    w.input.meta.machine = machine(2, 2);
    let r = w.real();
    about(r.remote_share, 0.5);
    assert_eq!(r.objects[0].pattern, Pattern::AllOver);
    assert!(r.findings.is_empty(), "{:?}", r.findings);
    // The same on one node is what interleaving mends.
    w.input.page_nodes = Default::default();
    w.page_node(8 * WORK, a, 1024, 1, 12);
    let r = w.real();
    assert_eq!(r.findings[0].kind, "placed_by_policy");
    assert!(r.findings[0].advice.starts_with("Interleave"), "{}", r.findings[0].advice);
}

#[test]
fn pages_bound_elsewhere_are_there_also_between_those_looked_at() {
    let mut w = interleaved(2);
    w.input.page_nodes = Default::default();
    for page in (0..1024).step_by(3) {
        w.page_node(8 * WORK, BASE + page * PAGE, 1, 1, 12);
    }
    w.input.page_nodes.push(PageNode {
        time_ns: 9 * WORK,
        process: 0,
        address: BASE,
        pages: 341,
        stride: 3 * PAGE,
        node: 1,
        page_shift: 0,
    });
    let r = w.real();
    about(Some(r.page_node_unknown_share), 0.0);
    assert_eq!(r.findings[0].kind, "placed_by_policy");
    assert!(r.findings[0].advice.contains("or bind it to the nodes"), "{}", r.findings[0].advice);
}
