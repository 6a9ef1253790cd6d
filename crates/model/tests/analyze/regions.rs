//! Which samples count: the region that the program marks, and samples that no node can be known for.

use crate::world::*;
use nearfar_model::analyze::{Judge, Region, Report, analyze_with};
use nearfar_model::machine::binding::Bind;
use nearfar_model::recording::*;

fn judged(w: &World, whole: bool) -> Report {
    let judge = Judge { machine: machine(2, 4), assume: Some(Bind::Compact), whole };
    analyze_with(&w.input, &w.samples, &judge, 2).expect("an analysis")
}

/// Thread 0 places and initialises; then both threads work, each on its half.
fn serial() -> World {
    let mut w = World::new(2);
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
    w.input.phases.push(Phase { thread: 1, name: String::new(), begin_ns: WORK, end_ns: u64::MAX });
    let r = judged(&w, false);
    assert_eq!(r.region, Region::Marked);
    assert_eq!(r.objects[0].samples, 2000);
    assert!((r.remote_time_share.unwrap() - 0.5).abs() < 0.01);
    assert_eq!(r.objects[0].first_touch[0].pages, 1000);
    assert!(r.notes.iter().any(|n| n.contains("2000 of 3000 samples")), "{:?}", r.notes);
}

#[test]
fn a_named_phase_is_no_region_and_whole_ignores_the_marks() {
    let mut w = serial();
    w.input.phases.push(Phase { thread: 0, name: "loop".into(), begin_ns: WORK, end_ns: u64::MAX });
    assert_eq!(judged(&w, false).region, Region::Whole);
    w.input.phases.push(Phase { thread: 0, name: String::new(), begin_ns: WORK, end_ns: u64::MAX });
    let r = judged(&w, true);
    assert_eq!((r.region, r.objects[0].samples), (Region::Whole, 3000));
}

#[test]
fn a_region_without_samples_carries_no_verdict() {
    let mut w = serial();
    w.input.phases.push(Phase { thread: 0, name: String::new(), begin_ns: 5, end_ns: 6 });
    let r = judged(&w, false);
    assert_eq!(r.verdict, nearfar_model::analyze::Verdict::Unknown);
    assert!(r.verdict_why.contains("--whole"), "{}", r.verdict_why);
}
