//! Excerpts: code of unknown speed that hardly takes lines from memory does not wait.

use crate::estimate::with_cache;
use crate::made_recording::*;
use crate::native::used;
use nearfar_analyze::{Report, Verdict};
use nearfar_machine::file::Confidence;
use nearfar_recording::*;

/// Instructions that are counted in an excerpt.
const COUNTED: u64 = 80_000_000;

/// An array that is far for one of two threads, in code of unknown speed, with two excerpts of each thread. By 1000 instructions, `random` lines in
/// no order and `order` in order come from beyond a thread's cache.
fn made(random: f64, order: f64) -> MadeRecording {
    let mut w = used(0.76, 3.0);
    w.input.loops.step[0] = 0.0;
    w.samples.period.iter_mut().for_each(|p| *p = 1_000_000);
    let ip = w.input.progress.ip[0];
    let lines = |by_1000: f64| (by_1000 * COUNTED as f64 / 1000.0) as u64;
    for id in 0..4 {
        w.input.excerpts.push(Excerpt {
            id,
            time_ns: WORK,
            thread: id % 2,
            instructions: 4 * COUNTED,
            counted: COUNTED,
            exchanged: 0,
            ended: String::new().into(),
        });
        w.input.excerpt_blocks.push(ExcerptBlock {
            excerpt: id,
            ip,
            instructions: COUNTED,
            accesses: COUNTED / 3,
            in_order_512k: lines(order),
            in_order_1m: 0,
            in_order_2m: 0,
            in_order_4m: 0,
            in_order_8m: 0,
            in_order_16m: 0,
            in_order_32m: 0,
            in_order_64m: 0,
            at_random_512k: lines(random),
            at_random_1m: 0,
            at_random_2m: 0,
            at_random_4m: 0,
            at_random_8m: 0,
            at_random_16m: 0,
            at_random_32m: 0,
            at_random_64m: 0,
        });
    }
    w
}

/// On two nodes, whose two threads have so much cache each.
fn judged(w: &MadeRecording, cache: u64) -> Report {
    let mut machine = with_cache(cache);
    if let Some(latency) = &mut machine.figures.latency_ns {
        latency.confidence = Confidence::Fitted;
    }
    w.on_machine(machine)
}

fn open(r: &Report) {
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.loops_may_compute.as_ref().unwrap().untimed_share > 0.45, "{:?}", r.loops_may_compute);
}

fn why(r: &Report) -> &str {
    let excerpts = r.excerpts.as_ref().unwrap();
    assert_eq!(excerpts.waits_at_most_share, None);
    excerpts.why.as_deref().unwrap()
}

#[test]
fn code_that_takes_next_to_no_lines_from_memory_is_clean_and_without_excerpts_it_is_open() {
    let r = judged(&made(0.02, 1.0), 1 << 20);
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    let excerpts = r.excerpts.as_ref().unwrap();
    assert_eq!((excerpts.count, excerpts.too_short, excerpts.instructions), (4, 0, 4 * COUNTED));
    assert!(excerpts.covered_share > 0.99, "{excerpts:?}");
    // 0.02 lines in 1000 instructions, with the error of so many; an instruction takes 1 ns, and a near line 80.
    let expected = 0.02 * 80.0 / (0.02 * 80.0 + 1000.0);
    let share = excerpts.waits_at_most_share.unwrap();
    assert!(share > expected && share < 1.2 * expected + 0.001, "{share} {expected}");
    let mut w = made(0.02, 1.0);
    w.input.excerpts = Excerpts::default();
    w.input.excerpt_blocks = ExcerptBlocks::default();
    let r = judged(&w, 1 << 20);
    open(&r);
    assert_eq!(r.excerpts, None);
}

#[test]
fn many_lines_leave_it_open_unless_the_judged_cache_holds_them() {
    open(&judged(&made(100.0, 1.0), 1 << 20));
    // What is in order comes in time, up to what far memory gives.
    open(&judged(&made(0.02, 200.0), 1 << 20));
    // With 1 MiB for each thread, none of either is from memory.
    let r = judged(&made(100.0, 200.0), 1 << 21);
    assert_ne!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert!(r.excerpts.unwrap().waits_at_most_share.unwrap() < 0.01);
}

#[test]
fn lines_that_other_threads_write_count_and_a_busy_thread_without_an_excerpt_leaves_all_open() {
    let mut w = made(0.02, 1.0);
    w.input.excerpts.exchanged[2] = 4 * COUNTED / 10;
    open(&judged(&w, 1 << 20));
    let mut w = made(0.02, 1.0);
    w.input.excerpts.thread.fill(0);
    let r = judged(&w, 1 << 20);
    open(&r);
    assert_eq!(why(&r), "1 of 2 threads have none: they may write to what the others use");
}

#[test]
fn one_excerpt_or_short_ones_say_nothing() {
    let mut w = made(0.02, 1.0);
    w.input.excerpts.counted[1..].fill(1000);
    let r = judged(&w, 1 << 20);
    open(&r);
    assert_eq!(why(&r), "1 of 4 are long enough, and 2 are needed");
    assert_eq!(r.excerpts.unwrap().too_short, 3);
}
