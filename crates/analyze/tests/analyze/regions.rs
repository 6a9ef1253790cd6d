//! Which samples count: the region that the program marks, and samples that no node can be known for.

use crate::made_recording::*;
use nearfar_analyze::{Judge, Region, Report, analyze_with};
use nearfar_machine::binding::Bind;
use nearfar_recording::*;

fn judged(w: &MadeRecording, whole: bool) -> Report {
    let judge = Judge { machine: machine(2, 4), assume: Some(Bind::Compact), whole };
    analyze_with(&w.input, &w.samples, &judge, 2).expect("an analysis")
}

/// Thread 0 places and initialises; then both threads work, each on its half.
fn serial() -> MadeRecording {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1000);
    w.touch(1000, 0, init, a, 1000);
    for i in 0..1000 {
        w.sample_as(1_000_000 + i, 0, init, a + i * PAGE, Resolution::Exact, Access::Store);
    }
    w.use_blocked(2, 1000, work, a, 1000);
    w
}

#[test]
fn only_the_marked_region_counts_but_first_touches_are_of_the_whole_run() {
    let mut w = serial();
    w.input.phases.push(Phase::plain(1, String::new(), WORK, u64::MAX));
    let r = judged(&w, false);
    assert_eq!(r.region, Region::Marked);
    assert_eq!(r.objects[0].samples, 2000);
    assert!((r.remote_time_share.unwrap() - 0.5).abs() < 0.01);
    assert_eq!(r.objects[0].first_touch[0].pages, 1000);
    assert!(r.notes.iter().any(|n| n.contains("2,000 of 3,000 samples")), "{:?}", r.notes);
}

#[test]
fn a_named_phase_is_no_region_and_whole_ignores_the_marks() {
    let mut w = serial();
    w.input.phases.push(Phase::plain(0, "loop".into(), WORK, u64::MAX));
    assert_eq!(judged(&w, false).region, Region::Whole);
    w.input.phases.push(Phase::plain(0, String::new(), WORK, u64::MAX));
    let r = judged(&w, true);
    assert_eq!((r.region, r.objects[0].samples), (Region::Whole, 3000));
}

#[test]
fn a_region_without_samples_carries_no_verdict() {
    let mut w = serial();
    w.input.phases.push(Phase::plain(0, String::new(), 5, 6));
    let r = judged(&w, false);
    assert_eq!(r.verdict, nearfar_analyze::Verdict::Unknown);
    assert!(r.verdict_why.contains("--whole"), "{}", r.verdict_why);
}

#[test]
fn constants_of_a_mapped_file_do_not_stand_against_a_clean_verdict() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1000);
    w.touch(1000, 0, init, a, 500);
    w.touch(1000, 1, init, a + 500 * PAGE, 500);
    w.use_blocked(2, 1000, work, a, 1000);
    let constants = w.object(ObjectKind::File, 0x40_0000, 16 * PAGE, 0, "/home/u/p/app");
    w.input.mappings.push(Mapping {
        time_ns: 0,
        process: 0,
        start: 0x40_0000,
        end: 0x40_0000 + 16 * PAGE,
        offset: 0,
        module: 0,
        flags: 1,
        name: "/home/u/p/app".into(),
    });
    w.fault_as(500, 0, work, 0x40_0008, Access::Load);
    for i in 0..1000 {
        w.sample(WORK + i * 2_000_000 + 7, (i % 2) as u32, work, 0x40_0000 + i % 16 * PAGE);
    }
    let r = judged(&w, false);
    let row = r.objects.iter().find(|o| o.kind == "file mapping").unwrap();
    assert_eq!((row.samples, row.page_node_unknown_share), (1000, 1.0), "object {constants}");
    assert!((r.page_node_unknown_share - 1.0 / 3.0).abs() < 0.01);
    assert_eq!(r.verdict, nearfar_analyze::Verdict::Clean, "{}", r.verdict_why);
    assert!(r.notes.iter().any(|n| n.contains("mapped files")), "{:?}", r.notes);
    // Zeroed variables in the last page of the file's data: that no sample stored to them makes them no constants.
    w.input.mappings.flags[0] = 3;
    assert_eq!(judged(&w, false).verdict, nearfar_analyze::Verdict::Unknown);
    // The file's other mapping, of its variables, is in the same row: one page of it was touched, and is read.
    w.input.mappings.flags[0] = 1;
    w.object(ObjectKind::File, 0x41_0000, 2 * PAGE, 0, "/home/u/p/app");
    w.input.mappings.push(Mapping {
        time_ns: 0,
        process: 0,
        start: 0x41_0000,
        end: 0x41_0000 + 2 * PAGE,
        offset: 16 * PAGE,
        module: 0,
        flags: 3,
        name: "/home/u/p/app".into(),
    });
    w.fault_as(500, 0, work, 0x41_0000, Access::Store);
    for i in 0..50 {
        w.sample(WORK + i * 40_000_000 + 9, 0, work, 0x41_0000);
    }
    let r = judged(&w, false);
    let row = r.objects.iter().find(|o| o.kind == "file mapping").unwrap();
    assert_eq!((row.samples, row.page_node_unknown_share > 0.9), (1050, true));
    assert_eq!(r.verdict, nearfar_analyze::Verdict::Clean, "{}", r.verdict_why);
}

#[test]
fn without_autonuma_a_later_store_fault_places_anew_unless_protections_changed() {
    let run = |balancing: i32, protect: bool, delay: u64| {
        let mut w = MadeRecording::new(2);
        w.input.meta.numa_balancing = balancing;
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", 1000);
        w.touch(1000, 0, init, a, 1000);
        if protect {
            w.range(5000, RangeKind::Protect, a, 1000 * PAGE, 0);
        }
        w.touch(1000 + delay, 1, init, a + 500 * PAGE, 500);
        w.use_blocked(2, 1000, work, a, 1000);
        let remote = judged(&w, false).remote_share.unwrap();
        (remote * 100.0).round() as u64
    };
    assert_eq!(run(0, false, 10_000_000), 0);
    assert_eq!(run(0, true, 10_000_000), 50);
    assert_eq!(run(1, false, 10_000_000), 50);
    assert_eq!(run(-1, false, 10_000_000), 50);
    // The loser of a race.
    assert_eq!(run(0, false, 100_000), 50);
}

#[test]
fn a_fault_that_mapped_two_mebibytes_places_all_of_them() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 4 * 512);
    for block in 0..4u64 {
        // In the middle of the large page: what counts is its alignment.
        let address = a + (block * 512 + 77) * PAGE;
        w.fault_as(1000 + block, u32::from(block == 3), init, address, Access::Store);
    }
    w.input.faults.page_shift.iter_mut().for_each(|s| *s = 21);
    w.use_blocked(2, 1000, work, a, 4 * 512);
    let r = judged(&w, false);
    let a = &r.objects[0];
    assert_eq!(a.folio_bytes, [2 << 20]);
    assert_eq!((a.pages.touched, a.page_node_unknown_share), (2048, 0.0));
    assert!((a.remote_share.unwrap() - 0.25).abs() < 0.01, "{:?}", a.remote_share);
}
