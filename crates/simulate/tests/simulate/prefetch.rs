//! The prefetcher: what it takes over, and what it leaves alone.

use crate::test_machine::{LINE, Moved, NODE, PAGE, Random, TestMachine, usual};
use nearfar_simulate::PageNodeMap;

fn run(prefetch: bool, lines: impl Iterator<Item = u64>) -> (Moved, TestMachine) {
    let mut rig = TestMachine::with(&usual("1x4"), prefetch, PageNodeMap::ranges(&[NODE]));
    lines.for_each(|line| rig.load(0, line * LINE));
    (rig.take(), rig)
}

const PAGES: u64 = 100;
const LINES: u64 = PAGE / LINE;

#[test]
fn of_a_stream_three_lines_a_page_are_demanded() {
    let (moved, rig) = run(true, 0..PAGES * LINES);
    assert_eq!((moved.demand, moved.prefetch), (3 * PAGES, 61 * PAGES));
    let traffic = rig.cores[0].traffic()[0];
    assert_eq!((traffic.read_lines, traffic.prefetch_lines), (64 * PAGES, 61 * PAGES));
    assert_eq!(rig.cores[0].counts().l2_hits, 61 * PAGES, "they were there when they were wanted");
    let (moved, _) = run(true, (0..PAGES * LINES).rev());
    assert_eq!((moved.demand, moved.prefetch), (3 * PAGES, 61 * PAGES), "downward");
}

#[test]
fn switched_off_it_does_nothing() {
    let (moved, rig) = run(false, 0..PAGES * LINES);
    assert_eq!((moved.demand, moved.prefetch), (64 * PAGES, 0));
    assert_eq!(rig.cores[0].traffic()[0].prefetch_lines, 0);
}

#[test]
fn a_stride_is_followed_and_nothing_between_is_read() {
    let (moved, _) = run(true, (0..PAGES * LINES).step_by(4));
    assert_eq!((moved.demand, moved.prefetch), (3 * PAGES, 13 * PAGES));
    // Alternating strides are none.
    let (moved, _) = run(true, (0..PAGES * LINES).filter(|line| line % 7 == 0 || line % 7 == 2));
    assert!(moved.prefetch < moved.demand / 4, "{} of {}", moved.prefetch, moved.demand);
}

#[test]
fn it_stays_within_the_page_and_twenty_lines_ahead() {
    let (moved, _) = run(true, LINES - 4..LINES);
    assert_eq!((moved.demand, moved.prefetch), (3, 1));
    assert!(moved.addresses.iter().all(|&at| at < PAGE));
    // Ten lines, then the loop ends: 2 more at each step after the third.
    let (moved, _) = run(true, 0..10);
    assert_eq!((moved.demand, moved.prefetch), (3, 16));
    let (moved, _) = run(true, 0..30);
    assert_eq!(moved.addresses.iter().max(), Some(&((29 + 20) * LINE)));
}

#[test]
fn several_streams_at_a_time_are_several_streams() {
    let streams = 16;
    let lines = (0..PAGES * LINES).flat_map(|line| (0..streams).map(move |s| s * 8192 + line));
    let (moved, _) = run(true, lines);
    let all = streams * PAGES * LINES;
    assert_eq!(moved.read(), all);
    // Some of the 64 places that watch pages are shared.
    assert!(moved.prefetch > all * 80 / 100, "{} of {all}", moved.prefetch);
}

#[test]
fn random_lines_are_nobodys_stream() {
    let mut random = Random(5);
    let lines: Vec<u64> = (0..20_000).map(|_| random.below(1 << 20)).collect();
    let (moved, _) = run(true, lines.into_iter());
    assert!(moved.prefetch < moved.demand / 100, "{} of {}", moved.prefetch, moved.demand);
}

#[test]
fn a_line_that_another_core_has_modified_is_left_there() {
    let mut rig = TestMachine::with(&usual("1x4"), true, PageNodeMap::ranges(&[NODE]));
    rig.store(1, 3 * LINE);
    (0..3).for_each(|line| rig.load(0, line * LINE));
    assert!(rig.cores[1].quick_hit(crate::test_machine::BASE + 3 * LINE, 8, nearfar_simulate::Kind::Store));
    rig.load(0, 3 * LINE);
    assert_eq!(rig.cores[0].counts().cache_transfers, 1);
}

#[test]
fn what_is_prefetched_and_modified_is_written_back_once() {
    let mut rig = TestMachine::with(&usual("2x4"), true, PageNodeMap::ranges(&[NODE, 2 * NODE]));
    let lines = 1000;
    for line in 0..lines {
        rig.store(0, line * LINE);
    }
    rig.write_back();
    assert_eq!(rig.moved.written, lines);
}
