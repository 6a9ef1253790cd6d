//! What near memory would bring, predicted from made samples and from the same by hand.

use crate::hardware::Made;
use nearfar_analyze::{Report, SampledGain};
use nearfar_machine::figures::Cell;
use nearfar_recording::*;

fn gain(report: &Report) -> SampledGain {
    report.sampled_gain.clone().unwrap_or_else(|| panic!("{:?}", report.sampled_gain_why))
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.01
}

/// Two threads of 1 s each, of which 80 % are in loads; what they load takes `cycles`, and what caches answer a little.
fn two(cycles: [(Served, u32); 2], percent: [u64; 2]) -> Made {
    let mut m = Made::new();
    for (thread, (served, latency)) in (0..).zip(cycles) {
        m.loads(thread, served, latency, 500);
        m.loads(thread, Served::Cache, 10, 1000);
        m.clock(thread, percent[thread as usize], 1000);
    }
    m
}

#[test]
fn near_memory_for_one_thread_saves_nothing_while_another_takes_as_long() {
    let g = gain(&two([(Served::LocalMemory, 200), (Served::RemoteMemory, 400)], [80, 80]).report());
    assert!(near(g.every_line_local.ratio, 1.0), "{g:?}");
    assert_eq!((g.slices, g.source.as_str()), (1, "samples of the processor and of the clock"));
    assert!((g.far_over_near.unwrap() - 2.0).abs() < 1e-9, "{g:?}");
    assert_eq!(g.latencies_from.as_deref(), Some("samples"));
}

#[test]
fn where_the_longest_thread_waits_for_far_memory_its_part_of_the_latencies_becomes_near() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::RemoteMemory, 400, 500);
    m.loads(1, Served::Cache, 10, 1000);
    // The first thread works for half of the time.
    m.clock(0, 80, 500);
    m.clock(1, 80, 1000);
    let r = m.report();
    let g = gain(&r);
    // 500 · 400 of 500 · 400 + 1000 · 10 cycles are of far memory, and half of that is saved.
    let waits = 0.8 * 200_000.0 / 210_000.0;
    assert!(near(g.every_line_local.ratio, 1.0 - waits / 2.0), "{g:?}");
    // At most all loads wait for memory; at least they do with ten lines in flight.
    let least = 0.8 * 20_000.0 / 30_000.0;
    let range = (g.every_line_local.low, g.every_line_local.high);
    assert!(range.0 < 1.0 - 0.8 / 2.0 && range.0 > 0.55, "{range:?}");
    assert!(range.1 > 1.0 - least / 2.0 && range.1 < 0.85, "{range:?}");
    // The only object with far memory is what the only finding repairs.
    let f = &r.findings[0];
    assert_eq!(f.objects, ["a"]);
    assert!(near(f.predicted.as_ref().unwrap().ratio, g.every_line_local.ratio), "{f:?}");
    assert_eq!(f.predicted_from.as_deref(), Some("samples of the processor and of the clock"));
}

/// CAMP (ASPLOS 2026) interleaves a program's pages: y(x) = [C1((r1-1)(1-x)^3 + (1-x))/r1 + C2((r2-1)x^3 + x)/r2 - C1] /
/// cycles1, for x of the lines remote, C1 and C2 cycles stalled with all of them local or remote, and r how much
/// latencies rise under load. Samples have the latencies of the run as they are: r = 1.
#[test]
fn for_one_thread_it_is_the_closed_form_for_a_whole_program() {
    for far in [100u64, 300, 600] {
        let mut m = Made::new();
        m.loads(0, Served::LocalMemory, 200, 700 - far);
        m.loads(0, Served::RemoteMemory, 340, far);
        m.loads(0, Served::Cache, 10, 1000);
        m.clock(0, 80, 1000);
        let (near_cycles, far_cycles) = ((700 - far) as f64 * 200.0, far as f64 * 340.0);
        let waits = 0.8 * (near_cycles + far_cycles) / (near_cycles + far_cycles + 10_000.0);
        let c1 = waits * 700.0 * 200.0 / (near_cycles + far_cycles);
        let c2 = c1 * 340.0 / 200.0;
        let (x, r1, r2) = (far as f64 / 700.0, 1.0, 1.0);
        let stalls = c1 * ((r1 - 1.0) * (1.0f64 - x).powi(3) + (1.0 - x)) / r1
            + c2 * ((r2 - 1.0) * x.powi(3) + x) / r2;
        let y = (stalls - c1) / (1.0 - stalls + c1);
        let g = gain(&m.report());
        assert!(near(g.every_line_local.ratio, 1.0 / (1.0 + y)), "{far}: {y} {g:?}");
    }
}

#[test]
fn where_no_sample_is_of_far_memory_little_can_be_gained_and_no_latency_is_said() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(0, Served::Cache, 10, 1000);
    m.clock(0, 80, 1000);
    let g = gain(&m.report());
    assert_eq!((g.far_over_near, g.latencies_from.as_deref()), (None, None));
    let p = g.every_line_local;
    assert!(p.ratio == 1.0 && p.high == 1.0, "{p:?}");
    // Of 1000 samples of the clock, three in a thousand may have missed it.
    assert!((p.low - 0.997).abs() < 1e-9, "{p:?}");
}

#[test]
fn time_that_no_thread_runs_in_stays() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(0, Served::RemoteMemory, 400, 500);
    m.clock(0, 100, 1000);
    let all = gain(&m.report());
    assert!(all.explained_share > 0.99 && near(all.every_line_local.ratio, 1.0 - 1.0 / 3.0), "{all:?}");
    // The same work in a run of twice the length: a sample of another thread ends it.
    let last = m.w.samples.time_ns.iter().copied().max().unwrap();
    m.clock(1, 0, 1);
    let at = m.w.samples.time_ns.len() - 1;
    m.w.samples.time_ns[at] = 2 * last - m.w.samples.time_ns.iter().min().unwrap();
    let half = gain(&m.report());
    assert!(near(half.explained_share, 0.5), "{half:?}");
    assert!(near(half.every_line_local.ratio, 1.0 - 1.0 / 6.0), "{half:?}");
}

#[test]
fn where_no_near_load_was_sampled_the_machines_latencies_are_taken_and_without_them_nothing_is_said() {
    let mut m = two([(Served::RemoteMemory, 400), (Served::RemoteMemory, 400)], [80, 80]);
    let r = m.report();
    assert!(r.sampled_gain.is_none());
    assert!(r.sampled_gain_why.unwrap().contains("the machine's file has none"));
    know_latencies(&mut m);
    let g = gain(&m.report());
    assert!((g.far_over_near.unwrap() - 1.25).abs() < 1e-9, "{g:?}");
    assert_eq!(g.latencies_from.as_deref(), Some("machine file"));
    let waits = 0.8 * 200_000.0 / 210_000.0;
    assert!(near(g.every_line_local.ratio, 1.0 - waits / 5.0), "{g:?}");
}

/// Far memory takes 1.25 times as long as near memory.
fn know_latencies(m: &mut Made) {
    let rows = vec![vec![Cell(Some(80.0)), Cell(Some(100.0))], vec![Cell(Some(100.0)), Cell(Some(80.0))]];
    let confidence = nearfar_machine::figures::Confidence::M;
    let matrix = nearfar_machine::figures::Matrix { rows, source: "made".into(), confidence };
    m.w.input.meta.machine.figures.latency_ns = Some(matrix);
}

/// No load says how much longer far memory takes, and yet near memory would bring something.
#[test]
fn a_thread_that_only_stores_to_far_memory_gains_by_the_machines_latencies() {
    let mut m = Made::new();
    for thread in 0..2 {
        m.loads(thread, Served::LocalMemory, 200, 500);
        m.loads(thread, Served::Cache, 10, 1000);
    }
    m.clock(0, 80, 500);
    m.clock(1, 80, 1000);
    let at = m.w.samples.time_ns.len() - 1000;
    m.w.samples.access[at..].fill(Access::Store as u8);
    let r = m.report();
    assert!(r.sampled_gain_why.unwrap().contains("the machine's file has none"));
    know_latencies(&mut m);
    let g = gain(&m.report());
    assert_eq!(g.latencies_from.as_deref(), Some("machine file"));
    // Stores wait as loads do, not at all, or all of their time.
    let waits = 0.8 * 100_000.0 / 110_000.0;
    assert!(near(g.every_line_local.ratio, 1.0 - waits / 5.0), "{g:?}");
    assert!(g.every_line_local.low < 1.0 - 0.8 / 5.0 + 0.01 && near(g.every_line_local.high, 1.0), "{g:?}");
}

#[test]
fn without_a_clock_or_with_slow_loads_only_nothing_is_predicted() {
    let mut m = two([(Served::LocalMemory, 200), (Served::RemoteMemory, 400)], [80, 80]);
    m.w.input.meta.hardware_filtered = true;
    assert!(m.report().sampled_gain_why.unwrap().contains("only slow loads or misses were sampled"));
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::RemoteMemory, 400, 500);
    let r = m.report();
    assert!(r.sampled_gain.is_none() && r.sampled_gain_why.unwrap().contains("clock samples"));
}
