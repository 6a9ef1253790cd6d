//! Small allocations, of which some are sampled.

use crate::made_recording::*;
use nearfar_recording::*;

#[test]
fn small_allocations_whose_headers_malloc_wrote() {
    let mut w = MadeRecording::new(4);
    let malloc = w.libc("_int_malloc");
    let caller = w.own("build", 10);
    let chain = w.chain(&[malloc, caller]);
    for i in 0..64u64 {
        let id = w.object(ObjectKind::SmallHeap, BASE + i * 16 * PAGE, 2048, 10 + i, "");
        w.input.objects.chain[id as usize] = chain;
        w.input.objects.represents[id as usize] = 65536;
    }
    w.touch(100, 0, malloc, BASE, 1024);
    // One fault in many carries the chain.
    w.input.faults.chain[7] = chain;
    let work = w.own("walk", 20);
    w.use_blocked(4, 128, work, BASE, 1024);
    let r = w.on(2);
    assert_eq!(r.objects.len(), 1);
    assert_eq!(r.objects[0].name, "allocation at main.c:10");
    // 32 times as many as were sampled.
    assert_eq!((r.objects[0].count, r.objects[0].bytes), (64 * 32, 64 * 65536));
    let f = &r.findings[0];
    assert_eq!(f.kind, "allocator_placed_pages");
    assert_eq!(f.cause.at.as_deref(), Some("main.c:10"));
}

/// Nothing says when a sampled allocation is freed. A loop that allocates and frees has one block at a time, though its samples stand for
/// gigabytes; and no more bytes live at a time than have room where they are.
#[test]
fn small_allocations_that_were_freed_are_no_memory() {
    let row = |address: fn(u64) -> u64| {
        let mut w = MadeRecording::new(2);
        let caller = w.own("build", 10);
        let chain = w.chain(&[caller]);
        for i in 0..1000 {
            let id = w.object(ObjectKind::SmallHeap, BASE + address(i), 2048, 10 + i, "");
            w.input.objects.chain[id as usize] = chain;
            w.input.objects.represents[id as usize] = 65536;
        }
        w.touch(2000, 0, caller, BASE, 1024);
        let work = w.own("walk", 20);
        w.use_blocked(2, 128, work, BASE, 1024);
        let r = w.on(2);
        (r.objects[0].count, r.objects[0].bytes)
    };
    assert_eq!(row(|_| 0), (32, 65536));
    assert_eq!(row(|i| i % 4 * 65536), (128, 4 * 65536));
    // Always another place, in 64 KiB.
    assert_eq!(row(|i| i * 64), (64, 63936 + 2048 + 65536));
}

/// A block of 1,764 bytes was once blamed for what lay 34 KB behind it.
#[test]
fn an_address_belongs_to_a_small_allocation_inside_it_or_between_two_of_its_site() {
    let mut w = MadeRecording::new(4);
    let chains = [w.own("nodes", 10), w.own("others", 30)].map(|ip| w.chain(&[ip]));
    let small = |w: &mut MadeRecording, page: u64, chain: u32| {
        let id = w.object(ObjectKind::SmallHeap, BASE + page * PAGE, 1764, 10, "");
        w.input.objects.chain[id as usize] = chain;
        w.input.objects.represents[id as usize] = 65536;
    };
    // Two of one site, 16 pages apart; then one of another, and far behind it nothing.
    small(&mut w, 0, chains[0]);
    small(&mut w, 16, chains[0]);
    small(&mut w, 32, chains[1]);
    let init = w.own("init", 5);
    w.touch(100, 0, init, BASE, 128);
    let work = w.own("work", 20);
    let mut sample = |page: u64, byte: u64, n: u64| {
        (0..n).for_each(|i| w.sample(WORK + page * 1000 + i, 3, work, BASE + page * PAGE + byte));
    };
    sample(0, 1000, 10); // in the first
    sample(8, 0, 20); // between two of one site
    sample(24, 0, 40); // between two of different sites
    sample(32, 1763, 80); // the last byte of the last
    sample(32, 1764, 160); // one behind it
    sample(40, 0, 320); // 32 KB behind it
    let r = w.on(2);
    let share =
        |name: &str| r.objects.iter().find(|o| o.name == name).map(|o| (o.stall_share * 630.0).round());
    assert_eq!(share("allocation at main.c:10"), Some(30.0), "{:?}", r.objects);
    assert_eq!(share("allocation at main.c:30"), Some(80.0));
    assert!((r.unattributed_share * 630.0 - 520.0).abs() < 1e-6, "{}", r.unattributed_share);
}
