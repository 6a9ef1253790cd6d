//! The cores' clocks, and lines that wait for each other.

use crate::test_machine::{LINE, NODE, Random, TestMachine, usual};
use nearfar_machine::Machine;
use nearfar_machine::file::{Cell, Confidence, Figure, Matrix};
use nearfar_simulate::{Access, Kind};

/// 2 GHz, 2 instructions per cycle, 10 lines in flight, 80 ns local and 130 ns remote.
fn timed() -> Machine {
    let mut machine = usual("2x4");
    let figure = |value| Some(Figure { value, source: "test".into(), confidence: Confidence::Assumed });
    machine.figures.core.all_core_ghz = figure(2.0);
    machine.figures.core.ipc = figure(2.0);
    machine.figures.core.outstanding_lines = figure(10.0);
    let row = |a, b| vec![Cell(Some(a)), Cell(Some(b))];
    machine.figures.latency_ns = Some(Matrix {
        rows: vec![row(80.0, 130.0), row(130.0, 80.0)],
        source: "test".into(),
        confidence: Confidence::Assumed,
    });
    machine
}

/// Reads lines with `gap` instructions between; `chain` of each.
fn read(rig: &mut TestMachine, lines: impl Iterator<Item = (u64, u32)>, gap: u32) {
    for (line, chain) in lines {
        rig.cores[0].execute(gap);
        let physical = line * LINE;
        let access =
            Access { virt: 1 << 40 | physical, physical, bytes: 8, kind: Kind::Load, huge: false, chain };
        rig.cores[0].access(&rig.hierarchy, access, &mut ());
    }
}

/// Lines all over a node's memory, none near another.
fn anywhere(n: u64) -> Vec<u64> {
    let mut random = Random(9);
    (0..n).map(|_| random.below(NODE / LINE)).collect()
}

#[test]
fn instructions_take_their_time_and_sleep_is_not_busy() {
    let mut rig = TestMachine::new(&timed());
    let core = &mut rig.cores[0];
    core.execute(4_000_000);
    assert!((core.clock_ns() - 1e6).abs() < 1e-3);
    core.sleep_until(3e6);
    core.sleep_until(2e6);
    assert!((core.clock_ns() - 3e6).abs() < 1e-3);
    assert!((core.counts().busy_ns - 1e6).abs() < 1e-3);
}

#[test]
fn independent_lines_cost_a_tenth_of_their_latency_and_chained_ones_all_of_it() {
    // Page walks cost the same in all of these: one for each line.
    let base = |page_node: u64, chain: u32| {
        let mut rig = TestMachine::new(&timed());
        let lines = anywhere(1000);
        read(&mut rig, lines.iter().map(|line| (line + page_node * NODE / LINE, chain)), 4);
        let counts = rig.cores[0].counts();
        assert_eq!(counts.dram_lines, 1000);
        (counts.busy_ns, counts.dependent_lines)
    };
    let (local, remote, chained) = (base(0, 0), base(1, 0), base(0, 7));
    assert!((remote.0 - local.0 - 1000.0 * 5.0).abs() < 1.0);
    assert!((chained.0 - local.0 - 1000.0 * 72.0).abs() < 1.0);
    assert_eq!((local.1, remote.1, chained.1), (0, 0, 1000));
}

#[test]
fn of_two_chains_at_a_time_one_waits() {
    let mut rig = TestMachine::new(&timed());
    read(&mut rig, anywhere(1000).into_iter().zip([1, 2].into_iter().cycle()), 4);
    assert_eq!(rig.cores[0].counts().dependent_lines, 500);
    // One after the other, both do.
    let mut rig = TestMachine::new(&timed());
    let lines = anywhere(1000).into_iter().enumerate().map(|(i, line)| (line, 1 + i as u32 / 500));
    read(&mut rig, lines, 300);
    assert_eq!(rig.cores[0].counts().dependent_lines, 1000);
}

#[test]
fn a_line_alone_in_its_window_has_nothing_to_overlap_with() {
    for (gap, waits) in [(4, 0), (100, 0), (225, 1000), (1000, 1000)] {
        let mut rig = TestMachine::new(&timed());
        read(&mut rig, anywhere(1000).into_iter().map(|line| (line, 0)), gap);
        // Nothing may follow the last within its window.
        rig.cores[0].execute(225);
        assert_eq!(rig.cores[0].counts().dependent_lines, waits, "{gap} instructions apart");
    }
}

#[test]
fn a_stream_waits_for_nothing_however_slow_it_is() {
    let mut rig = TestMachine::new(&timed());
    read(&mut rig, (0..1000).map(|line| (line, 0)), 1000);
    let counts = rig.cores[0].counts();
    assert!(counts.dependent_lines <= 2, "{}", counts.dependent_lines);
}

#[test]
fn totals_never_go_back() {
    let mut rig = TestMachine::new(&timed());
    let mut random = Random(3);
    let mut last = rig.cores[0].counts();
    for _ in 0..20_000 {
        let gap = random.below(500) as u32;
        let chain = random.below(3) as u32;
        let line = random.below(1 << 16);
        read(&mut rig, std::iter::once((line, chain)), gap);
        let now = rig.cores[0].counts();
        assert!(now.busy_ns >= last.busy_ns && now.dependent_lines >= last.dependent_lines);
        assert!(now.dependent_lines <= now.dram_lines);
        last = now;
    }
}
