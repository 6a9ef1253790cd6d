//! What caches must have answered: programs whose whole memory fits one.

use crate::world::*;
use nearfar_model::analyze::{Report, Verdict};
use nearfar_model::machine::{CacheLevel, Machine};
use nearfar_model::recording::*;

fn cached(bytes: u64) -> Vec<CacheLevel> {
    vec![CacheLevel {
        level: 3,
        size_bytes: bytes,
        ways: Some(16),
        latency_cycles: None,
        cores_per_instance: 2,
    }]
}

/// 384 KiB that one thread initialises and two read for four seconds, in a process of 5 MiB.
fn small() -> World {
    let mut w = World::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 96);
    w.touch(100, 0, init, a, 96);
    w.use_all_over(2, 2000, work, a, 96);
    w.input.meta.machine.caches = cached(32 << 20);
    w.input.meta.largest_process_bytes = 5 << 20;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (4.0, 0.01);
    w.input.meta.target_faults = 200;
    w
}

fn on_two(w: &World) -> Report {
    w.on_machine(machine(2, 1))
}

#[test]
fn data_that_a_cache_holds_is_no_far_memory() {
    let r = on_two(&small());
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("level 3 cache (32 MiB) holds"), "{}", r.verdict_why);
    assert!(r.findings.is_empty());
    // Where the pages are is said all the same; of the time, only the bound is known.
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.01);
    assert_eq!(r.remote_time_share, None);
    let interval = r.remote_time_share_ci.unwrap();
    assert!(interval.low == 0.0 && interval.high < 0.05, "{interval:?}");
    let bound = r.caches.unwrap();
    assert_eq!((bound.memory_bytes, bound.cache_level, bound.cache_bytes), (5 << 20, 3, 32 << 20));
    assert_eq!(bound.between_nodes_at_most, 0.0);
    // 5 MiB and a little, line by line, by two caches, 250 ns each, of 4 s of samples.
    let lines = f64::from(5 << 20) / 64.0;
    let least = lines * 2.0 * 250e-9 / 4.0;
    assert!((least..1.3 * least).contains(&bound.far_share_at_most), "{} {least}", bound.far_share_at_most);
}

#[test]
fn the_caches_of_the_judged_machine_count() {
    let w = small();
    let judged = |bytes: u64| w.on_machine(Machine { caches: cached(bytes), ..machine(2, 1) });
    assert_eq!(judged(16 << 20).verdict, Verdict::Clean);
    let r = judged(8 << 20);
    assert_eq!(r.verdict, Verdict::Affected);
    assert!(r.caches_why.unwrap().contains("more than half of the level 3 cache of 8.0 MiB"));
}

#[test]
fn what_nobody_knows_bounds_nothing() {
    let without = |change: &dyn Fn(&mut World)| {
        let mut w = small();
        change(&mut w);
        let r = on_two(&w);
        assert!(r.caches.is_none());
        assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
        r.caches_why.unwrap()
    };
    assert!(without(&|w| w.input.meta.largest_process_bytes = 0).contains("does not say how much memory"));
    assert!(without(&|w| w.input.meta.machine.caches.clear()).contains("caches are not known"));
    assert!(
        without(&|w| w.input.meta.target_system_s = 1.0).contains("25 % of the CPU time was the kernel's")
    );
    assert!(
        without(&|w| w.input.meta.target_system_s = -1.0).contains("CPU time of the kernel is not known")
    );
    let went_on = Loss { time_ns: 1, what: "processes".into(), count: 1, why: "still ran".into() };
    assert!(without(&|w| w.input.losses.push(went_on.clone())).contains("went on after the recording"));
    // Four processes at a time may have four times as much.
    let four = |w: &mut World| {
        for _ in 0..3 {
            w.process(0, true, 50);
        }
    };
    assert!(without(&four).contains("20.0 MiB"));
}

#[test]
fn one_process_after_another_is_one_at_a_time() {
    let mut w = small();
    for i in 0..100 {
        let process = w.process(0, true, 1000 * i);
        w.input.process_ends.push(ProcessEnd { process, time_ns: 1000 * i + 999 });
    }
    let r = on_two(&w);
    assert!(r.caches.is_some_and(|b| b.memory_bytes == 10 << 20), "{:?}", r.caches_why);
}

/// Both threads write where both read: the nodes' caches may take lines from each other.
#[test]
fn lines_that_nodes_share_stay_unknown() {
    let mut w = small();
    let work = w.own("count", 30);
    let a = w.input.objects.address[0];
    for i in 0..2000u64 {
        for t in 0..2 {
            let offset = w.random() % (96 * PAGE);
            let time = WORK + i * 1_000_000 + u64::from(t);
            w.sample_as(time, t, work, a + offset, Resolution::Exact, Access::LoadStore);
        }
    }
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("threads of several nodes use and write"), "{}", r.verdict_why);
    assert!(r.verdict_why.contains("record --on MACHINE"), "{}", r.verdict_why);
    assert!(r.findings.is_empty());
    assert!((0.45..0.55).contains(&r.caches.unwrap().between_nodes_at_most));
}

/// Each thread writes its own half: nobody takes a line from another.
#[test]
fn parts_of_their_own_that_caches_hold_are_clean() {
    let mut w = World::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 96);
    w.touch(100, 0, init, a, 96);
    w.use_blocked(2, 2000, work, a, 96);
    w.samples.access.fill(Access::Store as u8);
    let meta = small().input.meta;
    w.input.meta = meta;
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.caches.unwrap().between_nodes_at_most < 0.02);
}

#[test]
fn a_run_that_only_fetches_its_memory_once_is_unknown() {
    let mut w = World::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 96);
    w.touch(100, 0, init, a, 96);
    w.use_all_over(2, 160, work, a, 96);
    w.input.meta = small().input.meta;
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("of so short a run"), "{}", r.verdict_why);
}
