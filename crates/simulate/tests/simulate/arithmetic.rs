//! Loops whose traffic can be calculated.

use crate::test_machine::{LINE, NODE, PAGE, TestMachine, near, private, shared, usual};
use nearfar_machine::file::Inclusion;
use nearfar_simulate::{Kind, PageNodeMap, Traffic};

/// Doubles in an array: four times what the third level holds.
const N: u64 = (4 << 20) / 8;

fn arrays(rig: &mut TestMachine, reads: &[u64], write: u64, kind: Kind) {
    for i in 0..N {
        for array in reads {
            rig.load(0, array * N * 8 + i * 8);
        }
        rig.touch(0, write * N * 8 + i * 8, 8, kind);
    }
}

#[test]
fn a_triad_moves_24_bytes_and_8_to_allocate() {
    for prefetch in [false, true] {
        let mut rig = TestMachine::with(&usual("2x4"), prefetch, PageNodeMap::ranges(&[NODE, 2 * NODE]));
        arrays(&mut rig, &[1, 2], 0, Kind::Store);
        rig.write_back();
        // A prefetcher runs past the ends of the arrays, within the page.
        let over = rig.moved.read() - 3 * N / 8;
        assert!(if prefetch { over <= 3 * PAGE / LINE } else { over == 0 }, "{over} lines too many");
        assert_eq!((rig.moved.written, rig.moved.streamed), (N / 8, 0));
        assert_eq!(rig.cores[0].counts().accesses, 3 * N);
        assert_eq!(rig.moved.prefetch > 2 * N / 8, prefetch);
        assert!(rig.quick > 3 * N * 85 / 100, "the filter takes 7 of 8 accesses, not {}", rig.quick);
    }
}

#[test]
fn every_line_is_told_to_the_sink_once() {
    let mut rig = TestMachine::with(&usual("2x4"), true, PageNodeMap::ranges(&[NODE, 2 * NODE]));
    // Both nodes' cpus and memories, more than the caches hold.
    for line in 0..1 << 16 {
        rig.load((line % 8) as usize, line * LINE);
        rig.store(4, NODE + line * LINE);
    }
    rig.touch(0, 0, 64, Kind::StreamStore);
    let counted =
        |f: fn(&Traffic) -> u64| -> u64 { rig.cores.iter().flat_map(|core| core.traffic()).map(f).sum() };
    let moved = &rig.moved;
    assert_eq!(counted(|t| t.read_lines), moved.read());
    assert_eq!(counted(|t| t.prefetch_lines), moved.prefetch);
    assert_eq!(counted(|t| t.write_lines), moved.written);
    assert_eq!(counted(|t| t.stream_lines), moved.streamed);
    assert!(moved.prefetch > 0 && moved.written > 0 && moved.streamed > 0);
}

#[test]
fn a_copy_reads_two_lines_for_each_it_writes() {
    let mut rig = TestMachine::new(&usual("2x4"));
    arrays(&mut rig, &[1], 0, Kind::Store);
    rig.write_back();
    near(rig.moved.demand, N / 8);
    near(rig.moved.rfo, N / 8);
    near(rig.moved.written, N / 8);
}

#[test]
fn non_temporal_stores_save_the_allocation() {
    let mut rig = TestMachine::new(&usual("2x4"));
    arrays(&mut rig, &[1, 2], 0, Kind::StreamStore);
    rig.write_back();
    near(rig.moved.read(), 2 * N / 8);
    near(rig.moved.streamed, N / 8);
    assert_eq!(rig.moved.written, 0);
    assert_eq!(rig.cores[0].counts().stream_stores, N);
}

#[test]
fn rows_of_a_matrix_are_lines_and_columns_are_accesses() {
    // 4096 rows of 512 doubles: a row is a page, a column more pages than any TLB
    // has and more lines than the caches hold.
    let (rows, columns) = (4096, PAGE / 8);
    let third = shared(128 << 10, 16, 4, Inclusion::Inclusive);
    let machine = crate::test_machine::machine("2x4", &[private(32 << 10, 8), private(64 << 10, 8), third]);
    let mut rig = TestMachine::new(&machine);
    for row in 0..rows {
        for column in 0..columns {
            rig.load(0, row * PAGE + column * 8);
        }
    }
    near(rig.take().demand, rows * columns / 8);
    near(rig.cores[0].counts().tlb_misses, rows);
    for column in 0..columns {
        for row in 0..rows {
            rig.load(0, row * PAGE + column * 8);
        }
    }
    near(rig.take().demand, rows * columns);
    near(rig.cores[0].counts().tlb_misses, rows + rows * columns);
}

/// Every line once per round, in an order without pattern.
fn chase(rig: &mut TestMachine, lines: u64) {
    let mut at = 0;
    for _ in 0..lines {
        // Full period for powers of two: multiplier 1 mod 4, odd increment.
        at = (at * 1_664_525 + 1_013_904_223) % lines;
        rig.load(0, at * LINE);
    }
}

#[test]
fn a_chase_finds_its_lines_in_the_level_that_holds_them() {
    let machine = usual("2x4");
    // Bytes, and lines from memory in each round after the first.
    for (bytes, level) in [(16 << 10, 1), (128 << 10, 2), (512 << 10, 3), (2 << 20, 4)] {
        let mut rig = TestMachine::new(&machine);
        let lines = bytes / LINE;
        chase(&mut rig, lines);
        near(rig.take().demand, lines);
        let before = rig.cores[0].counts();
        chase(&mut rig, lines);
        let after = rig.cores[0].counts();
        let found = [
            after.l1_hits - before.l1_hits,
            after.l2_hits - before.l2_hits,
            after.l3_hits - before.l3_hits,
            after.dram_lines - before.dram_lines,
        ];
        // LRU and a fixed order: a level either holds all or nothing.
        near(found[level - 1], lines);
        assert_eq!(rig.take().demand, found[3]);
    }
}

#[test]
fn an_access_across_two_lines_counts_twice() {
    let mut rig = TestMachine::new(&usual("2x4"));
    rig.touch(0, 60, 8, Kind::Load);
    assert_eq!(rig.cores[0].counts().accesses, 2);
    assert_eq!(rig.moved.addresses, [0, 64]);
    rig.touch(0, 60, 8, Kind::Load);
    assert_eq!(rig.cores[0].counts().l1_hits, 2);
    // What is on the next page has an unknown address.
    rig.touch(0, PAGE - 4, 8, Kind::Load);
    let counts = rig.cores[0].counts();
    assert_eq!((counts.accesses, counts.outside), (5, 1));
    // Neither has what is not a node's memory.
    rig.load(0, 2 * NODE);
    let counts = rig.cores[0].counts();
    assert_eq!((counts.accesses, counts.outside), (5, 2));
}
