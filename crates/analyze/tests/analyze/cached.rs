//! What caches must have answered: programs whose whole memory fits one.

use crate::made_recording::*;
use nearfar_analyze::{Report, Verdict};
use nearfar_machine::{CacheLevel, Machine};
use nearfar_recording::*;

pub(crate) fn cached(bytes: u64) -> Vec<CacheLevel> {
    vec![CacheLevel {
        level: 3,
        size_bytes: bytes,
        ways: Some(16),
        latency_cycles: None,
        cores_per_instance: 2,
    }]
}

/// 384 KiB that one thread initialises and two use, in a process of 5 MiB; the array, and the line that uses it.
pub(crate) fn initialised() -> (MadeRecording, u64, u32) {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", 96);
    w.touch(100, 0, init, a, 96);
    w.input.meta.machine.caches = cached(32 << 20);
    w.input.meta.largest_process_bytes = 5 << 20;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (4.0, 0.01);
    w.input.meta.target_faults = 200;
    (w, a, work)
}

/// Each reads its half for four seconds.
pub(crate) fn small() -> MadeRecording {
    let (mut w, a, work) = initialised();
    w.use_blocked(2, 2000, work, a, 96);
    w
}

pub(crate) fn on_two(w: &MadeRecording) -> Report {
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
    // None of 4000 samples: not none at all.
    assert!((0.0005..0.002).contains(&bound.between_nodes_at_most), "{}", bound.between_nodes_at_most);
    assert_eq!(bound.moving_threads_at_most, 0.0);
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
    assert_eq!(r.verdict, Verdict::Unknown, "the array alone may fit");
    assert!(r.caches_why.unwrap().contains("more than half of the level 3 cache of 8 MiB"));
    let r = judged(64 << 10);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
}

#[test]
fn what_nobody_knows_bounds_nothing() {
    let without = |change: &dyn Fn(&mut MadeRecording)| {
        let mut w = small();
        change(&mut w);
        let r = on_two(&w);
        assert!(r.caches.is_none());
        // The array alone may be held still, if there are caches at all.
        let expected =
            if w.input.meta.machine.caches.is_empty() { Verdict::Affected } else { Verdict::Unknown };
        assert_eq!(r.verdict, expected, "{}", r.verdict_why);
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
    let four = |w: &mut MadeRecording| {
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

/// One thread that writes to it makes the others fetch it, and no sample needs to hit the store.
#[test]
fn lines_that_nodes_share_stay_unknown_though_no_store_was_sampled() {
    for access in [Access::Load, Access::LoadStore] {
        let (mut w, a, work) = initialised();
        w.use_all_over(2, 2000, work, a, 96);
        w.samples.access.fill(access as u8);
        let r = on_two(&w);
        assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
        assert!(r.verdict_why.contains("data that threads of several nodes use"), "{}", r.verdict_why);
        assert!(r.verdict_why.contains("record --on MACHINE"), "{}", r.verdict_why);
        assert!(r.findings.is_empty());
        // On near pages, too.
        assert!(r.caches.unwrap().between_nodes_at_most > 0.99);
    }
}

/// A table of constants in pages that cannot be written to.
#[test]
fn constants_that_nodes_share_are_not_taken_from_each_other() {
    let constant = |flags: u8, protect: bool| {
        let mut w = initialised().0;
        let work = w.own("look up", 30);
        let table = 0x600000;
        w.object(ObjectKind::Static, table, 64 * PAGE, 0, "table");
        w.input.mappings.push(Mapping {
            time_ns: 5,
            process: 0,
            start: table,
            end: table + 64 * PAGE,
            offset: 0,
            module: 0,
            flags,
            name: "/home/u/p/app".into(),
        });
        if protect {
            w.range(10, RangeKind::Protect, table, PAGE, 0);
        }
        w.use_all_over(2, 2000, work, table, 64);
        on_two(&w)
    };
    let r = constant(1, false);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert_eq!(constant(3, false).verdict, Verdict::Unknown);
    assert_eq!(constant(1, true).verdict, Verdict::Unknown, "mprotect may have made it writable");
}

/// Two threads count in one line of 512 bytes of the program's own: nothing is known of where its page is.
#[test]
fn two_threads_that_write_one_cache_line_have_no_verdict() {
    let mut w = initialised().0;
    let work = w.own("count", 30);
    w.object(ObjectKind::Static, 0x600040, 512, 0, "counters");
    for i in 0..2000u64 {
        for t in 0..2 {
            let time = WORK + i * 1_000_000 + u64::from(t);
            w.sample_as(time, t, work, 0x600040 + 8 * u64::from(t), Resolution::Exact, Access::LoadStore);
        }
    }
    let r = on_two(&w);
    assert_eq!(r.page_node_unknown_share, 1.0);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(
        r.verdict_why.contains("up to 100 % of the time is on data that threads of several"),
        "{}",
        r.verdict_why
    );
    // The same where nothing is known of the object.
    w.input.objects.address[1] = 0x700000;
    assert_eq!(on_two(&w).verdict, Verdict::Unknown);
}

/// A vector for each thread, all allocated at one line, is that thread's alone.
#[test]
fn objects_of_one_line_that_have_a_thread_each_are_not_shared() {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    for t in 0..2u64 {
        let address = BASE + t * (2 << 20);
        w.object(ObjectKind::Heap, address, 96 * PAGE, 10 + t, "mine");
        w.touch(100 + 100 * t, 0, init, address, 96);
        for i in 0..1000 {
            let offset = w.random() % (96 * PAGE);
            w.sample(WORK + i * 1_000_000 + t, t as u32, work, address + offset);
        }
    }
    w.input.meta.machine.caches = cached(32 << 20);
    w.input.meta.largest_process_bytes = 5 << 20;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (2.0, 0.01);
    w.input.meta.target_faults = 300;
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
}

/// The largest resident size has no hugetlb pages.
#[test]
fn hugetlb_pages_are_not_taken_to_be_none() {
    let with = |pool: Option<u64>| {
        let mut w = small();
        w.input.meta.hugetlb_bytes = pool;
        on_two(&w)
    };
    let r = with(Some(10 << 30));
    assert!(r.caches.is_none());
    assert!(r.caches_why.unwrap().contains("hugetlb pages of 10.0 GiB"));
    assert!(with(None).caches_why.unwrap().contains("whether the program had hugetlb pages is not known"));
    assert_eq!(with(Some(2 << 20)).caches.unwrap().memory_bytes, 7 << 20);
}

/// What a process had that was not waited for is not in the largest resident size.
#[test]
fn memory_of_processes_that_nobody_waited_for_is_what_they_faulted_in() {
    let with_child = |pages: u64, change: &dyn Fn(&mut MadeRecording)| {
        let mut w = small();
        let child = w.process(0, false, 50);
        let thread = w.thread(child);
        let init = w.own("fill", 50);
        w.touch(60, thread, init, BASE + (1 << 30), pages);
        w.input.process_ends.push(ProcessEnd { process: child, time_ns: WORK });
        // Without what the mapping is, each fault may map 64 KiB of a file.
        let (start, end) = (BASE + (1 << 30), BASE + (2 << 30));
        let name = "[anon]".into();
        w.input.mappings.push(Mapping {
            time_ns: 5,
            process: child,
            start,
            end,
            offset: 0,
            module: NONE,
            flags: 3,
            name,
        });
        w.input.meta.target_faults = 200 + pages;
        change(&mut w);
        on_two(&w)
    };
    let r = with_child(100, &|_| ());
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    // 20 MiB, and two processes at a time.
    let why =
        |pages, change: &dyn Fn(&mut MadeRecording)| with_child(pages, change).caches_why.expect("no bound");
    assert!(why(5120, &|_| ()).contains("up to 40.0 MiB of memory at a time"));
    assert!(why(100, &|w| w.input.meta.target_faults = 150).contains("more page faults"));
    assert!(why(100, &|w| w.input.meta.target_cpu_s = 2.0).contains("more CPU time"));
    assert!(why(0, &|w| w.input.faults = Default::default()).contains("page faults were not recorded"));
}

/// The machine that it ran on, each thread on a node of its own except for each `every`-th sample.
fn wandering(every: u64) -> Report {
    let mut w = small();
    w.input.meta.machine = Machine { caches: cached(32 << 20), ..machine(2, 1) };
    for i in 0..w.samples.len() {
        if (i as u64 / 2).is_multiple_of(every) {
            w.samples.cpu[i] = 1 - w.samples.cpu[i];
        }
    }
    w.real()
}

#[test]
fn a_thread_that_changes_sockets_fetches_its_cache_again() {
    let r = wandering(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("each change fetches their data again"), "{}", r.verdict_why);
    assert_eq!(r.caches.unwrap().moving_threads_at_most, 1.0);
    // Threads that were never seen elsewhere may have been there between samples.
    let bound = wandering(1 << 20).caches.unwrap();
    assert!((0.001..0.01).contains(&bound.moving_threads_at_most), "{}", bound.moving_threads_at_most);
}

#[test]
fn too_few_samples_are_too_few_although_none_is_on_shared_data() {
    let (mut w, a, work) = initialised();
    w.use_blocked(2, 100, work, a, 96);
    w.input.meta.largest_process_bytes = 512 << 10;
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("200 samples are too few"), "{}", r.verdict_why);
    assert!(r.caches.unwrap().between_nodes_at_most > 0.01);
}

/// Each thread writes its own half: no node takes a line from another.
#[test]
fn parts_of_their_own_that_caches_hold_are_clean() {
    let (mut w, a, work) = initialised();
    w.use_blocked(2, 2000, work, a, 96);
    w.samples.access.fill(Access::Store as u8);
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.caches.unwrap().between_nodes_at_most < 0.02);
}

#[test]
fn a_run_that_only_fetches_its_memory_once_is_unknown() {
    let (mut w, a, work) = initialised();
    w.use_all_over(2, 160, work, a, 96);
    let r = on_two(&w);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("of so short a run"), "{}", r.verdict_why);
}
