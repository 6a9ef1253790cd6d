//! Translations: which pages are walked for, and whose they are.

use crate::world::{BASE, NODE, PAGE, World, usual};
use nearfar_model::simulate::{Access, Kind};

fn misses(world: &World) -> (u64, u64) {
    let counts = world.cores[0].counts();
    (counts.tlb_misses, counts.huge_tlb_misses)
}

#[test]
fn what_the_second_level_holds_is_walked_for_once() {
    let mut world = World::new(&usual("1x4"));
    for _ in 0..5 {
        (0..1536).for_each(|page| world.load(0, page * PAGE));
    }
    assert_eq!(misses(&world), (1536, 0));
}

#[test]
fn more_pages_than_that_are_walked_for_every_time() {
    let mut world = World::new(&usual("1x4"));
    for _ in 0..5 {
        // A line of its own in each page, or the filter would know some.
        (0..2048).for_each(|page| world.load(0, page * PAGE + page % 64 * 64));
    }
    assert_eq!(misses(&world), (5 * 2048, 0));
    assert_eq!(world.cores[0].traffic()[0].walks, 5 * 2048);
}

#[test]
fn a_huge_page_is_one_translation() {
    let mut world = World::new(&usual("1x4"));
    for page in 0..1024 * 8 {
        let physical = page * PAGE;
        let access =
            Access { virt: BASE + physical, physical, bytes: 8, kind: Kind::Load, huge: true, chain: 0 };
        world.cores[0].access(&world.hierarchy, access, &mut ());
    }
    assert_eq!(misses(&world), (0, 16));
}

#[test]
fn a_walk_belongs_to_the_home_of_the_page() {
    let mut world = World::new(&usual("2x4"));
    world.load(0, 0);
    world.load(0, NODE);
    world.load(0, NODE + PAGE);
    let walks: Vec<u64> = world.cores[0].traffic().iter().map(|t| t.walks).collect();
    assert_eq!(walks, [1, 2]);
}

#[test]
fn flushed_translations_are_walked_for_again() {
    let mut world = World::new(&usual("1x4"));
    for _ in 0..3 {
        (0..10).for_each(|page| world.load(0, page * PAGE));
        world.cores[0].flush_translations();
    }
    assert_eq!(misses(&world), (30, 0));
    assert_eq!(world.moved.read(), 10, "the caches go by physical addresses");
}
