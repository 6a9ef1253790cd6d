//! Many threads at once, each with its core.

use crate::test_machine::{BASE, LINE, Moved, NODE, Random, machine, private, shared};
use nearfar_machine::file::Inclusion::{self, Exclusive, Inclusive, Neither, Victim};
use nearfar_simulate::{Access, Counts, Hierarchy, Kind, Options, PageNodeMap};

/// Random loads and stores to few lines from `threads` threads; totals and what moved.
fn hammer(inclusion: Inclusion, threads: usize, lines: u64, smt: u32) -> (Vec<Counts>, Moved) {
    let caches = [private(8 * LINE, 4), private(32 * LINE, 8), shared(64 * LINE, 8, 4, inclusion)];
    let mut machine = machine("2x4", &caches);
    machine.threads_per_core = smt;
    let page_nodes = PageNodeMap::ranges(&[NODE, 2 * NODE]);
    let hierarchy = Hierarchy::new(&machine, &Options { prefetch: true, page_nodes }).expect("a hierarchy");
    let run = |cpu: usize| {
        let (mut core, mut moved, mut random) = (hierarchy.core(cpu), Moved::default(), Random(cpu as u64));
        for _ in 0..100_000 {
            let physical = random.below(lines) * LINE + random.below(8) * 8;
            let kind = match random.below(16) {
                0..5 => Kind::Store,
                5 => Kind::StreamStore,
                _ => Kind::Load,
            };
            if !core.quick_hit(BASE + physical, 8, kind) {
                let access =
                    Access { virt: BASE + physical, physical, bytes: 8, kind, huge: false, chain: 0 };
                core.access(&hierarchy, access, &mut moved);
            }
        }
        (core, moved)
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let run = &run;
        let all: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || run(cpu))).collect();
        all.into_iter().map(|t| t.join().expect("a thread")).collect()
    });
    let mut all = Moved::default();
    for (core, moved) in &mut done {
        core.write_back(&hierarchy, moved);
        all.demand += moved.demand;
        all.rfo += moved.rfo;
        all.prefetch += moved.prefetch;
        all.written += moved.written;
        all.streamed += moved.streamed;
    }
    hierarchy.write_back(&mut all);
    (done.iter().map(|(core, _)| core.counts()).collect(), all)
}

#[test]
fn every_access_is_found_in_one_place_under_any_interleaving() {
    for inclusion in [Inclusive, Neither, Exclusive, Victim] {
        for smt in [1, 2] {
            let (counts, moved) = hammer(inclusion, 8, 200, smt);
            for c in &counts {
                assert_eq!(c.accesses, 100_000);
                let elsewhere = c.l2_hits + c.l3_hits + c.cache_transfers + c.dram_lines + c.stream_stores;
                assert_eq!(c.l1_hits + elsewhere, c.accesses);
            }
            let dram: u64 = counts.iter().map(|c| c.dram_lines).sum();
            assert_eq!(dram, moved.demand + moved.rfo, "{inclusion:?}");
            assert!(counts.iter().any(|c| c.cache_transfers > 0), "{inclusion:?}: nothing was shared");
            // A line is written to memory only after a core made it dirty.
            assert!(moved.written <= counts.iter().map(|c| c.accesses).sum::<u64>());
            assert!(moved.written > 0 && moved.streamed > 0);
        }
    }
}

#[test]
fn threads_that_share_nothing_count_as_if_they_were_alone() {
    let run = |threads: usize| {
        let caches = [private(8 * LINE, 4), private(64 * LINE, 8)];
        let machine = machine("2x4", &caches);
        let page_nodes = PageNodeMap::ranges(&[NODE, 2 * NODE]);
        let hierarchy =
            Hierarchy::new(&machine, &Options { prefetch: true, page_nodes }).expect("a hierarchy");
        let one = |cpu: usize| {
            let (mut core, mut random) = (hierarchy.core(cpu), Random(1));
            for _ in 0..200_000 {
                // Memory of the own node.
                let physical = cpu as u64 / 4 * NODE + cpu as u64 * (16 << 20) + random.below(200) * LINE;
                let kind = if random.below(3) == 0 { Kind::Store } else { Kind::Load };
                if !core.quick_hit(BASE + physical, 8, kind) {
                    let access =
                        Access { virt: BASE + physical, physical, bytes: 8, kind, huge: false, chain: 0 };
                    core.access(&hierarchy, access, &mut ());
                }
            }
            core.counts()
        };
        std::thread::scope(|scope| {
            let one = &one;
            let all: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || one(cpu))).collect();
            all.into_iter().map(|t| t.join().expect("a thread")).collect::<Vec<Counts>>()
        })
    };
    let alone = run(1)[0];
    for counts in run(8) {
        assert_eq!(counts, alone);
    }
}
