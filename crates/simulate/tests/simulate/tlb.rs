//! Translations: which pages are walked for, and whose they are.

use crate::naive::Lru;
use crate::test_machine::{BASE, NODE, PAGE, Random, TestMachine, usual};
use nearfar_simulate::{Access, Kind};

fn misses(rig: &TestMachine) -> (u64, u64) {
    let counts = rig.cores[0].counts();
    (counts.tlb_misses, counts.huge_tlb_misses)
}

#[test]
fn what_the_second_level_holds_is_walked_for_once() {
    let mut rig = TestMachine::new(&usual("1x4"));
    for _ in 0..5 {
        (0..1536).for_each(|page| rig.load(0, page * PAGE));
    }
    assert_eq!(misses(&rig), (1536, 0));
}

#[test]
fn more_pages_than_that_are_walked_for_every_time() {
    let mut rig = TestMachine::new(&usual("1x4"));
    for _ in 0..5 {
        // A line of its own in each page, or the filter would know some.
        (0..2048).for_each(|page| rig.load(0, page * PAGE + page % 64 * 64));
    }
    assert_eq!(misses(&rig), (5 * 2048, 0));
    assert_eq!(rig.cores[0].traffic()[0].walks, 5 * 2048);
}

#[test]
fn a_huge_page_is_one_translation() {
    let mut rig = TestMachine::new(&usual("1x4"));
    for page in 0..1024 * 8 {
        let physical = page * PAGE;
        let access =
            Access { virt: BASE + physical, physical, bytes: 8, kind: Kind::Load, huge: true, chain: 0 };
        rig.cores[0].access(&rig.hierarchy, access, &mut ());
    }
    assert_eq!(misses(&rig), (0, 16));
}

#[test]
fn a_walk_belongs_to_the_home_of_the_page() {
    let mut rig = TestMachine::new(&usual("2x4"));
    rig.load(0, 0);
    rig.load(0, NODE);
    rig.load(0, NODE + PAGE);
    let walks: Vec<u64> = rig.cores[0].traffic().iter().map(|t| t.walks).collect();
    assert_eq!(walks, [1, 2]);
}

#[test]
fn flushed_translations_are_walked_for_again() {
    let mut rig = TestMachine::new(&usual("1x4"));
    for _ in 0..3 {
        (0..10).for_each(|page| rig.load(0, page * PAGE));
        rig.cores[0].flush_translations();
    }
    assert_eq!(misses(&rig), (30, 0));
    assert_eq!(rig.moved.read(), 10, "the caches go by physical addresses");
}

/// All pages are of the same line, so that nothing but translations takes time.
#[test]
fn every_page_is_found_where_lists_by_last_use_have_it() {
    let mut rig = TestMachine::new(&usual("1x1"));
    let (mut small, mut huge, mut second) = (Lru::new(16, 4), Lru::new(8, 4), Lru::new(128, 12));
    // Least and most time of a translation that is known, in the second level, walked for.
    let mut times = [(f64::INFINITY, 0f64); 3];
    let mut random = Random(11);
    rig.load(0, 0);
    rig.cores[0].flush_translations();
    for _ in 0..200_000 {
        let is_huge = random.below(4) == 0;
        let page = match random.below(4) {
            // More in one set than it has ways; few enough; near by; anywhere.
            0 => random.below(6) * 16,
            1 => random.below(14) * 128,
            2 => random.below(40),
            _ => random.below(4096),
        };
        let key = page | u64::from(is_huge) << 40;
        let first = if is_huge { &mut huge } else { &mut small };
        let level = if first.hit(key) {
            0
        } else {
            first.put(key);
            let known = second.hit(key);
            if !known {
                second.put(key);
            }
            1 + usize::from(!known)
        };
        let before = rig.cores[0].counts().busy_ns;
        let virt = BASE + page * PAGE * if is_huge { 512 } else { 1 };
        let access = Access { virt, physical: 0, bytes: 8, kind: Kind::Load, huge: is_huge, chain: 0 };
        rig.cores[0].access(&rig.hierarchy, access, &mut ());
        let took = rig.cores[0].counts().busy_ns - before;
        times[level] = (times[level].0.min(took), times[level].1.max(took));
    }
    let [known, second, walk] = times;
    assert!(known.1 == 0.0 && second.0 > 0.0 && second.1 < walk.0, "{times:?}");
    // Rounding of the clock apart, each takes always the same.
    assert!(second.1 - second.0 < 1e-6 && walk.1 - walk.0 < 1e-6, "{times:?}");
}
