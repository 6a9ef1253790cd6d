//! Lines that several cores want.

use crate::test_machine::{LINE, NODE, TestMachine, machine, private, shared, usual};
use nearfar_machine::file::Inclusion;
use nearfar_simulate::Kind;

/// Cpus 0 to 3 are on node 0, 4 to 7 on node 1, each node with its third level.
fn rig() -> TestMachine {
    TestMachine::new(&usual("2x4"))
}

#[test]
fn a_line_written_in_turn_goes_to_and_fro() {
    for (other, node) in [(1, 0), (4, 1)] {
        let mut rig = rig();
        for _ in 0..100 {
            rig.store(0, 0);
            rig.store(other, 0);
        }
        let (a, b) = (rig.cores[0].counts(), rig.cores[other].counts());
        assert_eq!((a.dram_lines, b.dram_lines), (1, 0));
        assert_eq!((a.cache_transfers, b.cache_transfers), (99, 100));
        assert_eq!((a.l1_hits, b.l1_hits), (0, 0));
        assert_eq!(rig.cores[0].traffic()[node].transfer_lines, 99, "supplied by node {node}");
        // Dirty lines pass on dirty.
        assert_eq!(rig.moved.written, 0);
        rig.write_back();
        assert_eq!(rig.moved.written, 1);
    }
}

#[test]
fn a_dirty_line_read_by_another_socket_is_written_to_memory_once() {
    let mut rig = rig();
    rig.store(0, 0);
    rig.load(4, 0);
    assert_eq!(rig.cores[4].counts().cache_transfers, 1);
    assert_eq!(rig.cores[4].traffic()[0].transfer_lines, 1);
    assert_eq!((rig.moved.read(), rig.moved.written), (1, 1));
    // Both have it clean now; a third reader of that socket finds it in the third level.
    rig.load(0, 0);
    rig.load(5, 0);
    assert_eq!(rig.cores[0].counts().l1_hits, 1);
    assert_eq!(rig.cores[5].counts().l3_hits, 1);
    rig.write_back();
    assert_eq!(rig.moved.written, 1);
}

#[test]
fn a_dirty_line_read_within_the_socket_stays_in_its_third_level() {
    let mut rig = rig();
    rig.store(0, 0);
    rig.load(1, 0);
    assert_eq!(rig.cores[1].counts().cache_transfers, 1);
    assert_eq!(rig.moved.written, 0);
    rig.load(2, 0);
    assert_eq!(rig.cores[2].counts().l3_hits, 1);
    // From the other socket the same data are dirty still.
    rig.load(4, 0);
    assert_eq!(rig.cores[4].counts().cache_transfers, 1);
    assert_eq!(rig.moved.written, 1);
}

#[test]
fn readers_share_and_a_writer_takes_it_from_all() {
    let mut rig = rig();
    for cpu in 0..8 {
        rig.load(cpu, 0);
        rig.load(cpu, 0);
    }
    // Memory supplied each socket once.
    assert_eq!(rig.moved.read(), 2);
    let l3: u64 = rig.cores.iter().map(|c| c.counts().l3_hits).sum();
    assert_eq!(l3, 6);
    rig.store(0, 0);
    assert_eq!(rig.cores[0].counts().l1_hits, 2, "to write what one has is a hit");
    for cpu in 1..8 {
        assert!(
            !rig.cores[cpu].quick_hit(crate::test_machine::BASE, 8, Kind::Load),
            "cpu {cpu} has it still"
        );
    }
    for cpu in [1, 4] {
        rig.load(cpu, 0);
        assert_eq!(rig.cores[cpu].counts().cache_transfers, 1, "cpu {cpu}");
    }
}

#[test]
fn the_filter_gives_no_permission_to_write_what_is_shared() {
    let mut rig = rig();
    rig.load(0, 0);
    assert!(rig.cores[0].quick_hit(crate::test_machine::BASE, 8, Kind::Load));
    assert!(!rig.cores[0].quick_hit(crate::test_machine::BASE, 8, Kind::Store));
    rig.store(0, 0);
    assert!(rig.cores[0].quick_hit(crate::test_machine::BASE, 8, Kind::Store));
    rig.load(4, 0);
    assert!(!rig.cores[0].quick_hit(crate::test_machine::BASE, 8, Kind::Store));
    assert!(!rig.cores[0].quick_hit(crate::test_machine::BASE, 8, Kind::StreamStore));
}

/// Two cores in turns of 50 accesses, as emulated cpus have them. After the line was taken four times, the sink hears of each
/// access, also of those that the filter could answer.
#[test]
fn the_sink_hears_of_each_access_to_a_line_that_is_taken_again_and_again() {
    // The line is taken in turns 1 to 4; all accesses of later turns are heard of.
    for (distance, heard) in [(8, 50 * 95), (LINE, 0)] {
        for kind in [Kind::Store, Kind::Atomic] {
            let mut rig = TestMachine::new(&usual("2x4"));
            for turn in 0..100 {
                let cpu = turn % 2 * 4;
                for _ in 0..50 {
                    rig.cores[cpu].execute(10);
                    rig.touch(cpu, (turn % 2) as u64 * distance, 8, kind);
                }
                let now = rig.cores[cpu].clock_ns();
                rig.cores[4 - cpu].sleep_until(now);
            }
            assert_eq!(rig.moved.contended, heard, "{distance} bytes apart");
            let counts = rig.cores[0].counts();
            assert_eq!(counts.accesses, 2500);
            assert_eq!(counts.cache_transfers, if distance < LINE { 49 } else { 0 });
        }
    }
}

/// A line that goes from hand to hand once in a long while is an ordinary one.
#[test]
fn the_sink_does_not_hear_of_a_line_that_is_taken_now_and_then() {
    let mut rig = TestMachine::new(&usual("2x4"));
    for turn in 0..100 {
        let cpu = turn % 2 * 4;
        for _ in 0..50 {
            rig.touch(cpu, 0, 8, Kind::Store);
        }
        let later = rig.cores[cpu].clock_ns() + 1e6;
        rig.cores.iter_mut().for_each(|core| core.sleep_until(later));
    }
    assert_eq!(rig.moved.contended, 0);
}

#[test]
fn false_sharing_costs_transfers_and_padding_does_not() {
    for (distance, transfers) in [(8, 2 * 1000 - 1), (LINE, 0)] {
        let mut rig = rig();
        for _ in 0..1000 {
            rig.store(0, 0);
            rig.store(4, distance);
        }
        let total: u64 = rig.cores.iter().map(|c| c.counts().cache_transfers).sum();
        assert_eq!(total, transfers, "{distance} bytes apart");
    }
}

/// One core reads line after line behind a third level of 16 lines; another has a line of its own.
fn pushed_out(inclusion: Inclusion) -> (u64, u64) {
    let caches = [private(4 << 10, 8), private(8 << 10, 8), shared(16 * LINE, 16, 4, inclusion)];
    let mut rig = TestMachine::new(&machine("1x4", &caches));
    rig.store(0, 0);
    for line in 1..=32 {
        rig.load(1, line * LINE);
    }
    let written = rig.moved.written;
    rig.load(0, 0);
    (rig.cores[0].counts().l1_hits, written)
}

#[test]
fn an_inclusive_cache_takes_a_line_from_the_cores_when_it_evicts_it() {
    assert_eq!(pushed_out(Inclusion::Inclusive), (0, 1));
    for other in [Inclusion::Neither, Inclusion::Exclusive, Inclusion::Victim] {
        assert_eq!(pushed_out(other), (1, 0), "{other:?}");
    }
}

#[test]
fn an_exclusive_cache_adds_to_the_cores_and_an_inclusive_one_does_not() {
    // 128 lines in the second level, 256 in the third; 320 are read again and again.
    for (inclusion, fits) in [
        (Inclusion::Exclusive, true),
        (Inclusion::Victim, true),
        (Inclusion::Inclusive, false),
        (Inclusion::Neither, false),
    ] {
        let caches = [private(8 * LINE, 8), private(128 * LINE, 8), shared(256 * LINE, 16, 2, inclusion)];
        let mut rig = TestMachine::new(&machine("1x2", &caches));
        for _ in 0..4 {
            (0..320).for_each(|line| rig.load(0, line * LINE));
        }
        let again = rig.moved.demand - 320;
        assert_eq!(again == 0, fits, "{inclusion:?}: {again} lines read again");
    }
}

#[test]
fn a_victim_cache_keeps_what_cores_share_and_an_exclusive_one_does_not() {
    for (inclusion, kept) in [(Inclusion::Victim, 1), (Inclusion::Exclusive, 0)] {
        let caches = [private(8 * LINE, 8), private(64 * LINE, 8), shared(256 * LINE, 16, 4, inclusion)];
        let mut rig = TestMachine::new(&machine("1x4", &caches));
        rig.load(0, 0);
        rig.load(1, 0);
        assert_eq!(rig.cores[1].counts().cache_transfers, 1, "clean lines come from the neighbour");
        rig.load(2, 0);
        assert_eq!(rig.cores[2].counts().l3_hits, kept, "{inclusion:?}");
        assert_eq!(rig.moved.read(), 1);
    }
}

#[test]
fn dirty_data_survive_every_way_through_the_caches() {
    for second in [Inclusion::Inclusive, Inclusion::Neither, Inclusion::Exclusive, Inclusion::Victim] {
        for third in [Inclusion::Inclusive, Inclusion::Neither, Inclusion::Exclusive, Inclusion::Victim] {
            let mut caches = [private(8 * LINE, 4), private(32 * LINE, 4), shared(128 * LINE, 16, 2, third)];
            caches[1].inclusion = second;
            let mut rig = TestMachine::new(&machine("2x2", &caches));
            // More than all caches hold; each line is written by one core and read by another.
            for line in 0..1000 {
                rig.store(line as usize % 4, line * LINE);
                rig.load((line as usize + 1 + line as usize / 4) % 4, line * LINE);
            }
            rig.write_back();
            assert_eq!(rig.moved.written, 1000, "{second:?} {third:?}");
            let mut lines: Vec<u64> = (0..1000).map(|line| line * LINE).collect();
            let mut moved_lines = rig.moved.addresses.clone();
            moved_lines.sort_unstable();
            moved_lines.dedup();
            lines.retain(|line| !moved_lines.contains(line));
            assert!(lines.is_empty());
        }
    }
}

#[test]
fn two_levels_are_a_machine_too() {
    // As Opteron 285: exclusive second level, no third.
    let mut caches = [private(64 << 10, 2), private(1 << 20, 16)];
    caches[1].inclusion = Inclusion::Exclusive;
    let mut rig = TestMachine::new(&machine("2x2", &caches));
    let lines = (1 << 20) / LINE + 512;
    for _ in 0..2 {
        (0..lines).for_each(|line| rig.load(0, line * LINE));
    }
    assert_eq!(rig.moved.read(), lines, "both levels together hold them all");
    rig.store(0, NODE);
    rig.load(2, NODE);
    assert_eq!(rig.cores[2].counts().cache_transfers, 1);
    assert_eq!(rig.moved.written, 1, "read by another core, dirty data go to memory");
    rig.store(1, NODE);
    rig.store(0, NODE);
    assert_eq!(rig.cores[0].counts().cache_transfers, 1);
    assert_eq!(rig.moved.written, 1);
}

#[test]
fn a_second_level_that_cores_share_is_counted_as_such() {
    let caches = [private(4 << 10, 4), shared(64 << 10, 8, 2, Inclusion::Inclusive)];
    let mut rig = TestMachine::new(&machine("1x4", &caches));
    rig.load(0, 0);
    rig.load(1, 0);
    rig.load(2, 0);
    assert_eq!(rig.cores[1].counts().l2_hits, 1);
    assert_eq!(rig.cores[2].counts().dram_lines, 1, "another cache");
}

#[test]
fn hardware_threads_share_their_cores_caches() {
    let mut machine = usual("1x4");
    machine.threads_per_core = 2;
    let mut rig = TestMachine::new(&machine);
    rig.load(0, 0);
    rig.load(1, 0);
    rig.store(1, 0);
    rig.store(0, 0);
    for cpu in [0, 1] {
        assert_eq!(rig.cores[cpu].counts().cache_transfers, 0);
    }
    assert_eq!(rig.cores[1].counts().l1_hits, 2);
    assert_eq!(rig.moved.read(), 1);
    rig.load(2, 0);
    assert_eq!(rig.cores[2].counts().cache_transfers, 1, "cpus 2 and 3 are another core");
    rig.write_back();
    assert_eq!(rig.moved.written, 1);
}
