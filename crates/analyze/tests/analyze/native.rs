//! Loops whose speed follows from samples: those that compute, those that wait, those of which nothing is known.

use crate::made_recording::*;
use nearfar_analyze::{Report, Verdict};
use nearfar_machine::Machine;
use nearfar_machine::file::{Cell, Confidence, Figure, Matrix};
use nearfar_recording::*;

/// Pages of the array: no cache of the machine holds it, as none is described.
pub const PAGES: u64 = 4096;
/// Clock of the cores, GHz.
const GHZ: f64 = 4.0;

/// An array that one thread initialises and two use in blocks, each in a loop of which an iteration takes `ns`. The
/// recorder keeps how far they are; `chain` is what the chain of results costs, cycles.
pub fn used(ns: f64, chain: f64) -> MadeRecording {
    let all = PAGES * PAGE / 2 / 8;
    taken(ns, chain, |thread, iteration| (thread * all + iteration % all, all - iteration % all))
}

/// The same where `place` says which element a thread's iteration uses, and how many iterations are left of its entry.
fn taken(ns: f64, chain: f64, place: impl Fn(u64, u64) -> (u64, u64)) -> MadeRecording {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let a = w.array("a", PAGES);
    w.touch(100, 0, init, a, PAGES);
    w.input.meta.core_ghz = Some(GHZ);
    w.input.loops.push(Loop {
        id: 0,
        head: work,
        bytes: 19,
        instructions: 6,
        stream: 0,
        step: 8.0,
        issue_cycles: 1.0,
        chain_cycles: chain,
        high_cycles: chain,
        in_place_cycles: -1.0,
        why: String::new().into(),
        function: NONE,
        function_bytes: 0,
    });
    w.input.loop_streams.push(LoopStream {
        loop_id: 0,
        number: 0,
        ip: work,
        access: Access::Load as u8,
        bytes: 8,
        regular: 1,
        step: 8.0,
        always: 1,
    });
    for thread in 0..2u32 {
        let (mut cpu, mut seed) = (0u64, u64::from(thread) + 1);
        for nth in 0..1500u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cpu += 100_000 + (seed >> 33) % 1_500_000;
            // The interrupt of each sample takes 4 µs from the program.
            let iteration = ((cpu - 4_000 * u64::from(nth)) as f64 / ns) as u64;
            let (element, left) = place(u64::from(thread), iteration);
            let position = a + element * 8;
            let time_ns = WORK + cpu * 2;
            w.sample(time_ns, thread, work, position);
            w.input.progress.push(Progress {
                time_ns,
                cpu_ns: cpu,
                thread,
                cpu: thread as u16,
                ip: work,
                loop_id: 0,
                position,
                other: u16::MAX,
                other_address: 0,
                left,
                nth,
            });
        }
    }
    w
}

fn note(r: &Report) -> &str {
    r.notes.iter().find(|n| n.contains("samples show how long")).map_or("", String::as_str)
}

/// Two nodes whose far memory gives a thread 64 bytes for each of its lines in flight in 128 ns, and all so many GB/s.
pub fn far(lines: f64, pair_gbs: f64) -> Machine {
    let mut machine = machine(2, 4);
    let (source, confidence) = ("chosen for the test".to_owned(), Confidence::H);
    let matrix = |near: f64, far: f64| {
        let rows = [[near, far], [far, near]].map(|row| row.map(|x| Cell(Some(x))).to_vec()).to_vec();
        Some(Matrix { rows, source: source.clone(), confidence })
    };
    machine.figures.latency_ns = matrix(80.0, 128.0);
    machine.figures.pair_read_gbs = matrix(100.0, pair_gbs);
    machine.figures.core.outstanding_lines = Some(Figure { value: lines, source, confidence });
    machine
}

#[test]
fn a_loop_that_computes_with_near_memory_may_wait_for_a_far_one_that_is_too_slow() {
    // A thread takes 10.5 GB/s, both 21; half of what a machine has may be taken.
    let verdict = |lines: f64, pair_gbs: f64| used(0.76, 3.0).on_machine(far(lines, pair_gbs)).verdict;
    assert_eq!(verdict(44.0, 44.0), Verdict::Clean);
    // It did not wait here; there it may or may not.
    assert_eq!(verdict(40.0, 44.0), Verdict::Unknown);
    assert_eq!(verdict(44.0, 40.0), Verdict::Unknown);
    assert_eq!(used(0.76, 3.0).on(2).verdict, Verdict::Unknown, "a machine without figures");
    // An address that does not tell how much is taken.
    let mut w = used(0.76, 3.0);
    w.input.loop_streams.regular[0] = 0;
    assert_eq!(w.on_machine(far(1000.0, 1000.0)).verdict, Verdict::Unknown);
    // A step beyond the line takes the line only: 84 GB/s each instead of ten times as much.
    let mut w = used(0.76, 3.0);
    w.input.loop_streams.step[0] = 640.0;
    assert_eq!(w.on_machine(far(400.0, 400.0)).verdict, Verdict::Clean);
}

#[test]
fn a_loop_that_takes_what_its_arithmetic_takes_has_no_time_on_far_memory() {
    // Three cycles of 4 GHz.
    let r = used(0.76, 3.0).on_machine(far(44.0, 44.0));
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.findings.is_empty());
    assert!(note(&r).contains("100 % is in loops that compute"), "{:?}", r.notes);
}

#[test]
fn a_position_that_runs_past_what_a_thread_leaves_out_says_no_speed() {
    const ALL: u64 = PAGES * PAGE / 8;
    const ENTRY: u64 = 4096;
    // Entries begin so unevenly that the place within one says nothing.
    let within = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    // Two threads take every second piece of the array, as of a dynamic schedule.
    let pieces =
        |thread: u64, i: u64| (((i / ENTRY * 2 + thread) * ENTRY + within(i)) % ALL, ENTRY - 1 - within(i));
    // Each goes through every second row of its half.
    let rows = |thread: u64, i: u64| {
        let own = (i / ENTRY * 2 * ENTRY + within(i)) % (ALL / 2);
        (thread * ALL / 2 + own, ENTRY - 1 - within(i))
    };
    for w in [taken(1.6, 3.0, pieces), taken(1.6, 3.0, rows)] {
        let r = w.on(2);
        assert_eq!(note(&r), "", "an iteration would seem half as long as it is, and to compute");
        assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    }
    // Without gaps, and each in its half, the position tells.
    let whole = |thread: u64, i: u64| {
        let own = (i / ENTRY * ENTRY + within(i)) % (ALL / 2);
        (thread * ALL / 2 + own, ENTRY - 1 - within(i))
    };
    assert!(note(&taken(1.6, 3.0, whole).on(2)).contains("For 100 % of the time"));
}

#[test]
fn the_same_samples_of_a_loop_that_takes_longer_are_time_on_far_memory() {
    let r = used(1.6, 3.0).on(2);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert!(note(&r).contains("0 % is in loops that compute"), "{:?}", r.notes);
    assert!(note(&r).contains("100 % is in loops that wait"), "{:?}", r.notes);
    // At least what it takes beyond 3 cycles of a slow clock, of the half that is far, waits.
    let low = r.remote_time_share_ci.unwrap().low;
    let waits = 0.5 * (1.0 - 3.0 / (0.8 * GHZ) / 1.6);
    assert!((low - waits).abs() < 0.03, "{low} {waits}");
    assert!(r.verdict_why.contains("by how long iterations of its loops take"), "{}", r.verdict_why);
    // Cores that took twice as long for the same instructions while it ran, as of a core that others use, may have computed.
    let mut slower = used(1.6, 3.0);
    slower.input.meta.core_slowdown = Some(2.0);
    let r = slower.on(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    let low = r.remote_time_share_ci.unwrap().low;
    assert!((low - 0.5 * (1.0 - 2.0 * 3.0 / GHZ / 1.6)).abs() < 0.03, "{low}");
    assert!(r.notes.iter().any(|n| n.contains("2.0 times as long as at the fastest")), "{:?}", r.notes);
    // Hardly slower than at their fastest is what a slow clock is taken for anyway.
    let mut even = used(1.6, 3.0);
    even.input.meta.core_slowdown = Some(1.2);
    let r = even.on(2);
    assert!((r.remote_time_share_ci.unwrap().low - waits).abs() < 0.03 && r.verdict == Verdict::Affected);
    // A third more than the arithmetic: neither.
    let r = used(1.0, 3.0).on(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert_eq!(r.loops_may_compute.as_ref().unwrap().objects, ["a"]);
    assert!(r.verdict_why.contains("take no longer than their instructions may take"), "{}", r.verdict_why);
    assert!(used(0.95, 3.0).on(2).findings.is_empty(), "next to nothing of it waits for certain");
    assert!(note(&r).contains("0 % is in loops that compute"), "{:?}", r.notes);
    assert!(note(&r).contains("0 % is in loops that wait"), "{:?}", r.notes);
}

#[test]
fn code_of_unknown_speed_is_not_accused_where_the_recording_can_show_speeds() {
    type Change = fn(&mut MadeRecording);
    let changes: [Change; 5] = [
        // No speed can be known: samples are all there is.
        |w| w.input.meta.core_ghz = None,
        // A kernel that does not tell the CPU time of a thread.
        |w| w.input.progress.cpu_ns.fill(UNCOUNTED),
        |w| w.input.loops.issue_cycles[0] = -1.0,
        |w| w.input.loops.step[0] = 0.0,
        // Samples that are anywhere.
        |w| {
            for i in 0..w.input.progress.len() {
                let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let anywhere = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20;
                let block = PAGES * PAGE / 2;
                let begin = w.input.progress.position[i] / block * block;
                w.input.progress.position[i] = begin + anywhere % block / 8 * 8;
                w.input.progress.left[i] = anywhere % (block / 8);
            }
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut w = used(0.76, 3.0);
        change(&mut w);
        // Next to nothing of the far samples is on this one.
        let (little, init, work) = (w.array("little", 4), w.own("init", 90), w.own("look", 91));
        w.touch(100, 0, init, little, 4);
        (0..10).for_each(|i| w.sample(WORK + i * 1_000_000, 1, work, little + i * 64));
        let r = w.on(2);
        assert_eq!(note(&r), "", "{number}");
        if number < 2 {
            assert_eq!(r.verdict, Verdict::Affected, "{number}: {}", r.verdict_why);
            continue;
        }
        assert_eq!(r.verdict, Verdict::Unknown, "{number}: {}", r.verdict_why);
        assert!(r.verdict_why.contains("do not show whether it computes or waits"), "{}", r.verdict_why);
        let computed = r.loops_may_compute.as_ref().unwrap();
        assert!((computed.untimed_share - 0.5).abs() < 0.05, "{computed:?}");
        assert_eq!(computed.objects, ["a"]);
        assert_eq!(r.remote_time_share_ci.unwrap().low, 0.0);
    }
}

#[test]
fn a_chain_of_results_counts_only_where_an_entry_is_many_iterations() {
    // Entries of 20 iterations overlap: three cycles each are no bound then, and one cycle is far below.
    let mut w = used(0.76, 3.0);
    w.input.progress.left.iter_mut().for_each(|left| *left %= 20);
    let r = w.on(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(!note(&r).contains("100 % is in loops that compute"), "{:?}", r.notes);
}

/// The same, with one instruction in it whose cost is not known.
pub fn with_unknown_cost(ns: f64) -> MadeRecording {
    let mut w = used(ns, 3.0);
    w.input.loops.chain_cycles[0] = -1.0;
    w.input.loops.high_cycles[0] = -1.0;
    w.input.loop_operands.push(LoopOperand {
        loop_id: 0,
        ip: w.input.progress.ip[0],
        hit_cycles: 8.0,
        regular: 0,
        step: 0.0,
        bytes: 0,
        around: 0,
        around_all: 0,
    });
    w
}

#[test]
fn an_instruction_that_takes_longer_than_a_hit_waits_whatever_else_the_loop_has_in_it() {
    let r = with_unknown_cost(10.0).on(2);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    let (low, waits) = (r.remote_time_share_ci.unwrap().low, 0.5 * (1.0 - 8.0 / (0.8 * GHZ) / 10.0));
    assert!((low - waits).abs() < 0.03, "{low} {waits}");
    // Eight cycles of the slowest clock.
    assert_eq!(with_unknown_cost(2.4).on(2).verdict, Verdict::Unknown);
    // Samples on it are a fifth of the loop's: of 10 ns it takes 2.
    let mut w = with_unknown_cost(10.0);
    let other = w.own("other", 30);
    let first = w.input.progress.ip[0];
    w.input.progress.ip.iter_mut().zip(0..).filter(|(_, i)| i % 5 > 0).for_each(|(ip, _)| *ip = other);
    for i in (0..w.samples.ip.len()).filter(|i| i % 5 > 0) {
        if w.samples.ip[i] != first {
            continue;
        }
        (w.samples.ip[i], w.samples.operand_ip[i]) = (other, other);
        w.samples.resolution[i] = Resolution::Compute as u8;
    }
    assert_ne!(w.on(2).verdict, Verdict::Affected);
}

#[test]
fn where_an_outer_loop_may_move_the_position_single_instructions_are_not_certain_to_wait() {
    let short = |left: u64| {
        let mut w = with_unknown_cost(10.0);
        w.input.progress.left.iter_mut().for_each(|l| *l %= left);
        w.on(2).verdict
    };
    // A thread's pass is a million iterations: entries of three quarters of it, and of twenty iterations, which pass too often to be counted.
    let pass = PAGES * PAGE / 2 / 8;
    assert_eq!(short(pass * 3 / 4), Verdict::Affected);
    assert_eq!(short(20), Verdict::Unknown);
}

#[test]
fn time_between_the_entries_is_not_the_loops() {
    assert_eq!(used(1.6, 3.0).on(2).verdict, Verdict::Affected);
    let mut w = used(1.6, 3.0);
    // Samples are 900 µs apart on average; if they are taken each 450, it was elsewhere for half of the time.
    let clock = w.input.meta.sources.iter_mut().find(|s| s.source == Source::Clock).unwrap();
    clock.hz = 2.0e9 / 900e3;
    assert_eq!(w.on(2).verdict, Verdict::Unknown);
}
