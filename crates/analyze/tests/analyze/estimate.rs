//! Lines and gains from the speed of loops, and the same by hand.

use crate::made_recording::*;
use crate::native::used;
use crate::timed::figures;
use nearfar_analyze::{LineEstimate, Predicted, Report, Verdict};
use nearfar_machine::{CacheLevel, Machine};
use nearfar_recording::*;

/// Time of an iteration, ns: it waits, whatever the machine.
const SLOW: f64 = 1.6;
/// CPU time of a sample, ns, as the made recordings weigh it.
const SAMPLE_NS: u32 = 1_000_000;

/// Two nodes of 4 cpus that share a cache of so many bytes.
pub fn with_cache(bytes: u64) -> Machine {
    let mut machine = machine(2, 4);
    machine.figures = figures();
    machine.caches = vec![CacheLevel {
        level: 3,
        size_bytes: bytes,
        ways: Some(16),
        latency_cycles: None,
        cores_per_instance: 4,
    }];
    machine
}

/// The array of [`used`], each sample of which stands for a millisecond.
fn made() -> MadeRecording {
    let mut w = used(SLOW, 3.0);
    w.samples.period.iter_mut().for_each(|p| *p = SAMPLE_NS);
    w
}

fn lines(r: &Report) -> Option<LineEstimate> {
    r.objects.iter().find(|o| o.name == "a").unwrap().estimated_lines
}

/// Lines of all samples: an iteration goes 8 bytes.
fn expected() -> f64 {
    3000.0 * f64::from(SAMPLE_NS) / SLOW / 8.0
}

fn is(found: Option<LineEstimate>, expected: f64) -> bool {
    let e = found.unwrap();
    (e.lines as f64 / expected - 1.0).abs() < 0.03 && (e.low as f64) < expected && expected < e.high as f64
}

#[test]
fn a_stream_that_no_cache_holds_moves_a_line_every_64_bytes() {
    // Both threads together use 16 MiB.
    assert!(is(lines(&made().on_machine(with_cache(1 << 20))), expected()));
    // Stores read the line and write it back.
    let mut w = made();
    w.input.loop_streams.access[0] = Access::LoadStore as u8;
    assert!(is(lines(&w.on_machine(with_cache(1 << 20))), 2.0 * expected()));
    // A wide step takes a line each.
    let mut w = made();
    w.input.loop_streams.step[0] = 256.0;
    w.input.loops.step[0] = 256.0;
    let wide = lines(&w.on_machine(with_cache(1 << 20))).unwrap();
    assert!(wide.lines > lines(&made().on_machine(with_cache(1 << 20))).unwrap().lines / 8);
}

/// A thread that goes through several pieces in turn, and whose iterations do not count: two grids have a number, more pieces none, and
/// the range of gains is wider.
#[test]
fn pieces_of_memory_in_turn_have_a_number_only_if_they_are_two() {
    let in_pieces = |pieces: u64| {
        let mut w = made();
        let p = &mut w.input.progress;
        for i in 0..p.len() {
            p.left[i] = UNCOUNTED;
            let iteration = ((p.cpu_ns[i] - 4_000 * u64::from(p.nth[i])) as f64 / SLOW) as u64;
            p.position[i] += iteration / (8 << 20 >> 3) % pieces * (64 << 20);
        }
        w.on_machine(with_cache(1 << 20))
    };
    assert!(is(lines(&in_pieces(1)), expected()));
    assert!(is(lines(&in_pieces(2)), expected()));
    assert_eq!(lines(&in_pieces(3)), None);
    let width = |pieces| {
        let p = in_pieces(pieces).sampled_gain.unwrap().every_line_local;
        p.high - p.low
    };
    assert!(width(3) > width(2));
}

#[test]
fn what_a_cache_holds_or_may_hold_has_no_number() {
    // Each thread's 8 MiB fit half of its 64 MiB, and 10 MiB may hold them or not.
    assert_eq!(lines(&made().on_machine(with_cache(64 << 20))), None);
    assert_eq!(lines(&made().on_machine(with_cache(10 << 20))), None);
    let predicted = |bytes| made().on_machine(with_cache(bytes)).sampled_gain.unwrap().every_line_local;
    assert!((predicted(64 << 20).ratio - 1.0).abs() < 1e-9);
    assert!(predicted(10 << 20).low < 0.9 && predicted(10 << 20).high >= 1.0);
}

#[test]
fn a_stream_behind_another_one_moves_what_that_one_does_not() {
    let second = |offset: i64, seen: &dyn Fn(usize) -> bool| {
        let mut w = made();
        let mut row = w.input.loop_streams.row(0);
        row.number = 1;
        w.input.loop_streams.push(row);
        for i in (0..w.input.progress.len()).filter(|&i| seen(i)) {
            w.input.progress.other[i] = 1;
            w.input.progress.other_address[i] = w.input.progress.position[i].wrapping_add_signed(offset);
        }
        w
    };
    let cache = || with_cache(1 << 20);
    // The row before, and the next one: whichever comes first brings the lines.
    for offset in [-4096, 4096] {
        assert!(is(lines(&second(offset, &|_| true).on_machine(cache())), expected()), "{offset}");
    }
    // Farther than the cache reaches.
    let far = second(-(3 << 20), &|_| true).on_machine(cache());
    assert!(lines(&far).unwrap().lines as f64 > 1.8 * expected());
    // Its place is not known: the range says so, not a number.
    assert_eq!(lines(&second(-4096, &|i| i < 10).on_machine(cache())), None);
}

#[test]
fn an_object_that_is_used_beside_loops_of_known_speed_has_no_number() {
    let mut w = made();
    let other = w.own("other", 30);
    let a = w.input.progress.position[0];
    for i in 0..300 {
        w.sample(WORK + i * 1000, 0, other, a + i * 64);
    }
    w.samples.period.iter_mut().for_each(|p| *p = SAMPLE_NS);
    assert_eq!(lines(&w.on_machine(with_cache(1 << 20))), None);
}

#[test]
fn what_moves_no_lines_gains_nothing_wherever_its_pages_are() {
    // A third more than its instructions take: it may compute or wait for a cache.
    let with = |bytes, change: fn(&mut MadeRecording)| {
        let mut w = used(1.0, 3.0);
        w.samples.period.iter_mut().for_each(|p| *p = SAMPLE_NS);
        change(&mut w);
        w.on_machine(with_cache(bytes))
    };
    let clean = with(64 << 20, |_| ());
    assert_eq!(clean.verdict, Verdict::Clean, "{}", clean.verdict_why);
    assert!(clean.verdict_why.contains("would save"), "{}", clean.verdict_why);
    // What no cache holds may come from far memory.
    assert_eq!(with(1 << 20, |_| ()).verdict, Verdict::Unknown);
    // And so may a line that both threads write.
    let shared = with(64 << 20, |w| {
        let mut row = w.input.loop_streams.row(0);
        (row.number, row.step, row.access) = (1, 0.0, Access::LoadStore as u8);
        w.input.loop_streams.push(row);
    });
    assert_eq!(shared.verdict, Verdict::Unknown, "{}", shared.verdict_why);
}

#[test]
fn an_object_that_a_loop_without_known_lines_uses_has_no_number() {
    let mut w = made();
    let other = w.own("other", 30);
    // The second thread is in a loop of known speed of which no stream is known.
    let mut row = w.input.loops.row(0);
    (row.id, row.head) = (1, other);
    w.input.loops.push(row);
    for i in (0..w.input.progress.len()).filter(|&i| w.input.progress.thread[i] == 1) {
        (w.input.progress.loop_id[i], w.input.progress.ip[i]) = (1, other);
    }
    for i in (0..w.samples.ip.len()).filter(|&i| w.samples.thread[i] == 1) {
        (w.samples.ip[i], w.samples.operand_ip[i]) = (other, other);
    }
    assert_eq!(lines(&w.on_machine(with_cache(1 << 20))), None);
}

fn only(r: &Report) -> Predicted {
    assert_eq!(r.findings.len(), 1, "{:?}", r.verdict_why);
    let f = &r.findings[0];
    assert_eq!(
        f.predicted_from.as_deref(),
        Some("samples of a clock, the speed of loops, and the time model")
    );
    f.predicted.clone().unwrap()
}

#[test]
fn a_repair_saves_what_the_time_model_says_of_the_lines() {
    let r = made().on_machine(with_cache(1 << 20));
    let found = only(&r);
    let g = r.sampled_gain.clone().unwrap();
    assert!((g.every_line_local.ratio - found.ratio).abs() < 1e-9, "{g:?} {found:?}");
    assert_eq!(g.repaired.as_ref(), Some(&found));
    // A line every 8 iterations of 3 cycles at least; ten lines in flight take 8 ns each from near memory, 12 from far.
    // Six instructions of a nanosecond each for an iteration are 48 ns a line: the likely case computes.
    assert!(found.ratio > 0.97 && found.low < 0.8 && found.high >= 1.0, "{found:?}");
    // Cores that are fast enough wait.
    let mut machine = with_cache(1 << 20);
    machine.figures.core.ipc.as_mut().unwrap().value = 100.0;
    let r = made().on_machine(machine);
    let found = only(&r);
    assert!((found.ratio - 80.0 / 120.0).abs() < 0.1, "{found:?}");
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
}

/// What loops wait for on far pages accuses far memory only if near memory is likely to save something.
#[test]
fn far_pages_accuse_nothing_where_near_memory_is_likely_to_save_nothing() {
    let judged = |ipc: f64| {
        let mut machine = with_cache(1 << 20);
        machine.figures.core.ipc.as_mut().unwrap().value = ipc;
        made().on_machine(machine)
    };
    let [slow, fast] = [1.0, 100.0].map(judged);
    // The same samples: a fifth of the time waits, on far pages, whatever the machine.
    assert!(fast.remote_time_share_ci.unwrap().low > 0.15 && fast.verdict == Verdict::Affected);
    assert_eq!(slow.verdict, Verdict::Unknown, "{}", slow.verdict_why);
    assert!(slow.verdict_why.contains("near memory is likely to save"), "{}", slow.verdict_why);
    // Between them: as much as the time model may be wrong by.
    let mut close = 0;
    for step in 0..40 {
        let r = judged(1.0 + 0.05 * f64::from(step));
        let gain = r.sampled_gain.as_ref().unwrap();
        let best = gain
            .repaired
            .iter()
            .fold(gain.every_line_local.ratio, |least, repaired| least.min(repaired.ratio));
        close += i32::from((0.94..0.97).contains(&best));
        let wanted = if best <= 0.94 { Verdict::Affected } else { Verdict::Unknown };
        assert_eq!(r.verdict, wanted, "{best}: {}", r.verdict_why);
    }
    assert!(close > 0);
    assert_eq!((slow.remote_time_share, slow.remote_time_share_ci.unwrap().low), (None, 0.0));
    assert_eq!(slow.findings.len(), 1, "a repair that may gain is listed");
}

#[test]
fn where_no_speed_is_known_the_range_is_from_nothing_to_all() {
    let mut w = made();
    w.input.meta.core_ghz = None;
    let found = only(&w.on_machine(with_cache(1 << 20)));
    assert!(found.low < 0.72 && found.high >= 1.0 && found.ratio < 0.95, "{found:?}");
    // Without figures there is no prediction, and the reason names what is missing.
    let r = w.on(2);
    assert!(r.findings[0].predicted.is_none());
    assert!(
        r.findings[0].predicted_why.as_ref().unwrap().contains("the machine's file"),
        "{:?}",
        r.findings[0]
    );
}
