//! How much of a program's memory its caches may hold.

use crate::cached::{cached, on_two};
use crate::made_recording::*;
use nearfar_analyze::Verdict;
use nearfar_machine::figures::{CacheFigures, Cell, Confidence, Figure, Inclusion, Matrix};
use nearfar_machine::{CacheLevel, Machine};
use nearfar_recording::*;

/// A program of 1 GiB in a cache of 32 MiB: what is used again before one and a half times that is, it may hold.
fn large_program() -> MadeRecording {
    let mut w = MadeRecording::new(2);
    w.input.meta.machine.caches = cached(32 << 20);
    w.input.meta.largest_process_bytes = 1 << 30;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (4.0, 0.01);
    w
}

/// An array of which one thread initialises the first `touched` pages, its first byte, and the line that uses it.
fn serial(w: &mut MadeRecording, name: &str, pages: u64, touched: u64) -> (u64, u32) {
    let line = 10 * w.input.locations.len() as u32 + 10;
    let init = w.own("init", line);
    let work = w.own("work", line + 1);
    let array = w.array(name, pages);
    w.touch(100, 0, init, array, touched);
    (array, work)
}

/// With one array `a` of so many pages, used by two threads for four seconds.
fn of_a_large_program(pages: u64, use_it: fn(&mut MadeRecording, u32, u64, u64)) -> MadeRecording {
    let mut w = large_program();
    let (a, work) = serial(&mut w, "a", pages, pages);
    use_it(&mut w, work, a, pages);
    w
}

fn all_over(w: &mut MadeRecording, ip: u32, a: u64, pages: u64) {
    w.use_all_over(2, 2000, ip, a, pages);
}

fn blocked(w: &mut MadeRecording, ip: u32, a: u64, pages: u64) {
    w.use_blocked(2, 2000, ip, a, pages);
}

#[test]
fn what_a_cache_may_hold_accuses_nobody() {
    let r = on_two(&of_a_large_program(2560, all_over));
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(
        r.verdict_why.contains("50 % of the time is on far pages of a, but a node uses "),
        "{}",
        r.verdict_why
    );
    assert!(
        r.verdict_why
            .contains("uses 10.0 MiB of it at a time, which the level 3 cache of the recorded machine (32 MiB) may have held"),
        "{}",
        r.verdict_why
    );
    // The shape has no caches of its own; a machine with some is a way to a verdict.
    assert!(
        r.verdict_why.contains(" has: `--as` with a machine that comes with nearfar"),
        "{}",
        r.verdict_why
    );
    assert!(r.verdict_why.contains("record --on MACHINE"), "{}", r.verdict_why);
    assert!(r.findings.is_empty());
    // Where the pages lie is known; how much of the time that is, only from 0 on.
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.01);
    assert_eq!(r.remote_time_share, None);
    let interval = r.remote_time_share_ci.unwrap();
    assert!(interval.low < 0.01 && (0.5..0.55).contains(&interval.high), "{interval:?}");
    let held = r.caches_may_hold.unwrap();
    assert_eq!((held.cache_level, held.cache_bytes, held.object_bytes), (3, 32 << 20, 10 << 20));
    assert!((held.far_share - 0.5).abs() < 0.01);
}

#[test]
fn caches_without_a_thread_hold_nothing() {
    // Nodes of 22 cores with a cache for each two cores, as a host with two virtual cpus reports it: one thread fills
    // one of the eleven caches.
    let many = Machine { caches: cached(32 << 20), ..machine(2, 22) };
    let r = of_a_large_program(15360, all_over).on_machine(many);
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
}

#[test]
fn what_no_cache_holds_is_far_memory() {
    let w = of_a_large_program(15360, all_over);
    let r = on_two(&w);
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
    // The same in a larger cache.
    let r = w.on_machine(Machine { caches: cached(64 << 20), ..machine(2, 1) });
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("the level 3 cache (64 MiB) may have held"), "{}", r.verdict_why);
    assert!(!r.verdict_why.contains("recorded machine"), "{}", r.verdict_why);
    // Each node uses 30 of the 60 MiB.
    let r = on_two(&of_a_large_program(15360, blocked));
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert_eq!(r.caches_may_hold.unwrap().object_bytes, 30 << 20);
    // Each node has caches of its own: not the samples of the near one count, but what the far one uses.
    let r = on_two(&of_a_large_program(30720, blocked));
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
}

/// A little more than the last level: the level inside has room for the rest, unless the last one repeats what that holds.
#[test]
fn the_level_inside_the_last_one_has_room_too() {
    let w = of_a_large_program(8_256, all_over);
    let mut machine = Machine { caches: cached(32 << 20), ..machine(2, 1) };
    let verdict = |machine: &Machine| w.on_machine(machine.clone()).verdict;
    assert_eq!(verdict(&machine), Verdict::Affected);
    machine.caches.insert(0, CacheLevel { level: 2, size_bytes: 512 << 10, ..machine.caches[0].clone() });
    assert_eq!(verdict(&machine), Verdict::Unknown);
    let bytes = Figure { value: (32 << 20) as f64, source: "made".to_owned(), confidence: Confidence::H };
    machine.figures.caches.push(CacheFigures {
        level: 3,
        size_bytes: bytes,
        cores_per_instance: 1,
        inclusion: Some(Inclusion::Inclusive),
        ways: None,
        latency_cycles: None,
        read_gbs: None,
        write_gbs: None,
    });
    assert_eq!(verdict(&machine), Verdict::Affected);
}

/// Both are used by both threads, `b` more often: together they do not fit.
#[test]
fn objects_that_fit_one_by_one_need_not_fit_together() {
    let mut w = of_a_large_program(7680, all_over);
    let (b, more) = serial(&mut w, "b", 7680, 7680);
    w.use_all_over(2, 4000, more, b, 7680);
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("% if a cache held b)"), "{}", r.verdict_why);
    let objects: Vec<&str> = r.findings.iter().flat_map(|f| &f.objects).map(String::as_str).collect();
    assert_eq!(objects, ["a"]);
    let interval = r.remote_time_share_ci.unwrap();
    assert!((0.13..0.18).contains(&interval.low) && (0.49..0.53).contains(&interval.high), "{interval:?}");
    assert!((r.remote_time_share.unwrap() - 0.5).abs() < 0.01);
}

/// Two threads go through 256 MiB, of which they are in `window` bytes at a time, so many bytes a millisecond further.
fn through(window: u64, a_ms: u64) -> MadeRecording {
    let mut w = large_program();
    let (a, work) = serial(&mut w, "a", 65536, 65536);
    for i in 0..2000 {
        for t in 0..2 {
            let offset = i * a_ms + w.random() % window;
            w.sample(WORK + i * 1_000_000 + u64::from(t), t, work, a + offset % (65536 * PAGE));
        }
    }
    w
}

#[test]
fn little_pieces_one_after_the_other_accuse_nobody() {
    let r = on_two(&through(256 << 10, 64 << 10));
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    let held = r.caches_may_hold.unwrap();
    assert!((128 << 10..2 << 20).contains(&held.object_bytes), "{}", held.object_bytes);
    assert!(r.findings.is_empty());
}

/// A cache holds what is in use at a time, but so many lines a second that most of the time goes to fetching them.
#[test]
fn who_goes_fast_through_memory_waits_for_it() {
    let r = on_two(&through(64, 512 << 10));
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
}

/// Sixteen threads of a node go through memory slowly, 41 MB/s each: for the latency of a line that is little, and for
/// a link that carries 1 GB/s it is most of the time.
#[test]
fn threads_that_share_a_slow_link_wait_for_it_although_each_is_slow() {
    let mut w = MadeRecording::new(32);
    w.input.meta.machine.caches = cached(32 << 20);
    w.input.meta.largest_process_bytes = 1 << 30;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (13.0, 0.01);
    let (a, work) = serial(&mut w, "a", 65536, 65536);
    for i in 0..400 {
        for t in 0..32 {
            let offset = u64::from(t) * (8 << 20) + (i * (40 << 10) + w.random() % 4096) % (8 << 20);
            w.sample(WORK + i * 1_000_000 + u64::from(t), t, work, a + offset);
        }
    }
    let linked = |gbs: f64| {
        let row = |here: usize| (0..2).map(|to| Cell(Some(if to == here { 60.0 } else { gbs }))).collect();
        let mut machine = machine(2, 16);
        machine.caches = cached(64 << 20);
        machine.caches[0].cores_per_instance = 16;
        let (source, confidence) = (String::new(), Confidence::M);
        machine.figures.pair_read_gbs = Some(Matrix { rows: (0..2).map(row).collect(), source, confidence });
        w.on_machine(machine)
    };
    let r = linked(1.0);
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
    let r = linked(40.0);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
}

/// The estimate is good for a factor of 1.5: what is a little larger than the cache would fit it in one recording of three.
#[test]
fn what_is_a_little_too_large_never_fits_by_chance() {
    for seed in 0..40 {
        let mut w = large_program();
        let (a, work) = serial(&mut w, "a", 26112, 26112);
        for _ in 0..seed {
            w.random();
        }
        // So fast that each sample is in another pass.
        for i in 0..200 {
            for t in 0..2 {
                let offset = u64::from(t) * (51 << 20) + w.random() % (51 << 20);
                w.sample(WORK + i * 1_000_000 + u64::from(t), t, work, a + offset);
            }
        }
        let r = on_two(&w);
        assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{seed}: {}", r.verdict_why);
    }
}

/// What is in use at a time is estimated within a factor of one and a half.
#[test]
fn the_bytes_in_use_at_a_time_are_those_that_were_drawn_from() {
    for mib in [1, 4, 8] {
        let r = on_two(&through(mib << 20, 4096));
        let found = r.caches_may_hold.unwrap().object_bytes as f64 / (mib << 20) as f64;
        assert!((0.67..1.5).contains(&found), "{mib} MiB: {found}");
    }
    let r = on_two(&through(64 << 20, 4096));
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
}

/// Reserved is not used: what was never touched takes no room.
#[test]
fn only_pages_in_use_need_room() {
    let mut w = large_program();
    let (a, work) = serial(&mut w, "a", 65536, 2000);
    w.use_all_over(2, 2000, work, a, 2000);
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert_eq!(r.caches_may_hold.unwrap().object_bytes, 2000 * PAGE);
}

#[test]
fn hardly_any_time_widens_nothing() {
    let mut w = of_a_large_program(15360, blocked);
    let (b, more) = serial(&mut w, "b", 65536, 65536);
    w.use_all_over(2, 200_000, more, b, 65536);
    let r = on_two(&w);
    assert_eq!((r.verdict, r.caches_may_hold), (Verdict::Affected, None), "{}", r.verdict_why);
    assert!(r.remote_time_share.is_some());
}
