//! The cache simulator against arithmetic, a naive model and the rules of coherence.

#[path = "simulate/rig.rs"]
mod rig;

use nearfar_model::machine::figures::Inclusion;
use nearfar_model::simulate::{DramKind, Kind};
use rig::{LINE, Rig, Sizes};

/// 64 MiB: more than all caches of the rigs.
const LINES: u64 = 1 << 20;

#[test]
fn a_triad_moves_four_lines_for_three_arrays() {
    for prefetch in [false, true] {
        let mut rig = Rig::new(2, 1, Sizes::default(), prefetch);
        let n = LINES / 16;
        for line in 0..n {
            for word in 0..8 {
                let at = line * LINE + word * 8;
                rig.load(0, at + LINES * LINE);
                rig.load(0, at + 2 * LINES * LINE);
                rig.access(0, at, 8, Kind::Store);
            }
        }
        rig.write_back();
        let moved = rig.moved(0);
        assert_eq!(moved.written, n, "prefetch {prefetch}");
        // A prefetcher runs past the ends of the three arrays.
        let over = moved.read - 3 * n;
        assert!(
            if prefetch { over <= 3 * 64 } else { over == 0 },
            "{over} lines too many, prefetch {prefetch}"
        );
        if prefetch {
            assert!(moved.prefetched > 2 * n, "only {} of {} prefetched", moved.prefetched, 3 * n);
        } else {
            assert_eq!(moved.prefetched, 0);
        }
    }
}

#[test]
fn streaming_stores_write_a_line_once_and_read_nothing() {
    let mut rig = Rig::new(1, 1, Sizes::default(), false);
    for at in (0..1000 * LINE).step_by(16) {
        rig.access(0, at, 16, Kind::StreamStore);
    }
    rig.flush_streams();
    let moved = rig.moved(0);
    assert_eq!((moved.streamed, moved.read, moved.written), (1000, 0, 0));
}

#[test]
fn homes_follow_the_physical_address() {
    for (nodes, expected) in [(2u64, 0.5), (4, 0.75), (8, 0.875)] {
        let mut rig = Rig::new(nodes as usize, 1, Sizes::default(), false);
        // All of it in the first node's memory.
        for line in 0..LINES / 16 {
            rig.load((line % nodes) as usize, line * LINE);
        }
        let remote: u64 = (1..nodes as usize).map(|cpu| rig.traffic(cpu, 0).read_lines).sum();
        assert_eq!(remote as f64 / (LINES / 16) as f64, expected);
    }
    let mut rig = Rig::interleaved(2, Sizes::default());
    for line in 0..LINES / 16 {
        rig.load(0, line * LINE);
    }
    assert_eq!(rig.traffic(0, 0).read_lines, rig.traffic(0, 1).read_lines);
}

/// The least recently used line goes, set by set: compared with a list per set.
#[test]
fn the_first_level_is_least_recently_used() {
    let mut rig = Rig::new(1, 1, Sizes::default(), false);
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); 64];
    let (mut hits, mut random) = (0, 12345u64);
    for i in 0..200_000u64 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Half of it near, half anywhere in 128 KiB: L1 has 32.
        let line = if i % 2 == 0 { (random >> 33) % 256 } else { (random >> 33) % 2048 };
        let set = &mut sets[(line % 64) as usize];
        match set.iter().position(|&l| l == line) {
            Some(at) => {
                set.remove(at);
                hits += 1;
            }
            None if set.len() == 8 => drop(set.remove(0)),
            None => {}
        }
        set.push(line);
        rig.access(0, line * LINE, 8, if random >> 63 == 0 { Kind::Load } else { Kind::Store });
    }
    let counts = rig.counts(0);
    assert_eq!((counts.accesses, counts.l1_hits), (200_000, hits));
}

#[test]
fn a_line_written_by_one_core_is_supplied_by_its_cache() {
    // Two cores of one socket, then of two.
    for (nodes, cpus) in [(1, 2), (2, 1)] {
        let mut rig = Rig::new(nodes, cpus, Sizes::default(), false);
        for round in 0..1000u64 {
            rig.store((round % 2) as usize, 64);
        }
        let (a, b) = (rig.counts(0), rig.counts(1));
        let read: u64 =
            (0..nodes).map(|home| rig.traffic(0, home).read_lines + rig.traffic(1, home).read_lines).sum();
        assert_eq!(read, 1, "memory is read once, then the line goes to and fro");
        assert_eq!((a.l1_hits, b.l1_hits), (0, 0), "each finds its copy invalid");
        assert_eq!(a.cache_transfers + b.cache_transfers + a.l3_hits + b.l3_hits, 999);
        if nodes == 2 {
            assert_eq!(a.cache_transfers + b.cache_transfers, 999);
        }
        rig.write_back();
        let written: u64 = (0..2).map(|cpu| rig.traffic(cpu, 0).write_lines).sum();
        assert!(rig.written_back() >= 1 && written <= 1000, "the last value reaches memory");
    }
}

#[test]
fn readers_share_a_line_and_keep_it() {
    let mut rig = Rig::new(2, 2, Sizes::default(), false);
    for _ in 0..100 {
        for cpu in 0..4 {
            rig.load(cpu, 64);
        }
    }
    for cpu in 0..4 {
        assert_eq!(rig.counts(cpu).l1_hits, 99, "cpu {cpu}");
    }
    // One writes: the others' copies are gone, once.
    rig.store(0, 64);
    for cpu in 1..4 {
        rig.load(cpu, 64);
        rig.load(cpu, 64);
        assert_eq!(rig.counts(cpu).l1_hits, 100, "cpu {cpu}");
    }
}

#[test]
fn false_sharing_costs_transfers_and_padding_does_not() {
    let transfers = |distance: u64| {
        let mut rig = Rig::new(2, 1, Sizes::default(), false);
        for _ in 0..500 {
            rig.store(0, 0);
            rig.store(1, distance);
        }
        rig.counts(0).cache_transfers + rig.counts(1).cache_transfers
    };
    assert_eq!(transfers(8), 999);
    assert_eq!(transfers(64), 0);
}

/// A line that a core uses all the time is never seen by the L3, which forgets it.
#[test]
fn an_inclusive_third_level_takes_lines_out_of_the_first() {
    let misses = |inclusion| {
        let sizes = Sizes { l3_kib: 128, inclusion, ..Sizes::default() };
        let mut rig = Rig::new(1, 2, sizes, false);
        for line in 1..20_000u64 {
            rig.load(0, 0);
            // The other core drives the shared cache.
            rig.load(1, line * LINE);
        }
        19_999 - rig.counts(0).l1_hits
    };
    assert!(misses(Inclusion::Inclusive) > 5);
    assert_eq!(misses(Inclusion::Victim), 1);
    assert_eq!(misses(Inclusion::Exclusive), 1);
}

#[test]
fn an_exclusive_third_level_adds_to_the_second() {
    let second_pass = |inclusion| {
        let sizes = Sizes { l2_kib: 256, l3_kib: 256, inclusion };
        let mut rig = Rig::new(1, 1, sizes, false);
        // 384 KiB: more than either, less than both.
        let pass = |rig: &mut Rig| (0..6144).for_each(|line| rig.load(0, line * LINE));
        pass(&mut rig);
        let before = rig.counts(0).dram_lines;
        (0..3).for_each(|_| pass(&mut rig));
        rig.counts(0).dram_lines - before
    };
    assert_eq!(second_pass(Inclusion::Exclusive), 0);
    assert!(second_pass(Inclusion::Inclusive) > 3 * 6000);
}

#[test]
fn pages_beyond_the_translation_buffers_are_walked() {
    let misses = |huge: bool| {
        let mut rig = Rig::new(1, 1, Sizes::default(), false);
        rig.huge = huge;
        for _ in 0..2 {
            (0..8192).for_each(|page| rig.load(0, page * 4096));
        }
        (rig.counts(0).tlb_misses, rig.counts(0).huge_tlb_misses)
    };
    let (small, none) = misses(false);
    assert_eq!((small, none), (2 * 8192, 0), "8192 pages are more than any TLB holds");
    assert_eq!(misses(true), (0, 16), "16 huge pages are missed once");
}

#[test]
fn every_line_is_told_to_the_sink_once() {
    let mut rig = Rig::new(2, 1, Sizes::default(), true);
    for line in 0..LINES / 16 {
        rig.load((line % 2) as usize, line * LINE);
        rig.store(0, (line + LINES) * LINE);
    }
    let told = |rig: &Rig, kinds: &[DramKind]| kinds.iter().map(|&k| rig.told(k)).sum::<u64>();
    let counted = |f: fn(&nearfar_model::simulate::Traffic) -> u64| -> u64 {
        (0..2).flat_map(|cpu| (0..2).map(move |home| (cpu, home))).map(|(c, h)| f(&rig.traffic(c, h))).sum()
    };
    assert_eq!(counted(|t| t.read_lines), told(&rig, &[DramKind::Demand, DramKind::Rfo, DramKind::Prefetch]));
    assert_eq!(counted(|t| t.prefetch_lines), told(&rig, &[DramKind::Prefetch]));
    assert_eq!(counted(|t| t.write_lines), told(&rig, &[DramKind::WriteBack]));
}

#[test]
fn threads_that_hammer_the_same_lines_lose_no_access() {
    let rig = Rig::new(2, 2, Sizes::default(), true);
    let all = rig.hammer(4, 200_000);
    for c in all {
        assert_eq!(c.accesses, 200_000);
        let found = c.l1_hits + c.l2_hits + c.l3_hits + c.cache_transfers + c.dram_lines + c.stream_stores;
        assert_eq!(found, c.accesses, "{c:?}");
    }
}
