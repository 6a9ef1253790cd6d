//! Programs that are large in some way: the answers are those of small ones. That steps and memory stay
//! within bounds is asserted by counting in `layer`'s tests; here the plain rules would not come to an end.

use super::made_recording::*;
use nearfar_recording::*;

/// A loop of allocations with sizes of their own at one address, every one known by name.
#[test]
fn a_hundred_thousand_sizes_at_one_address_are_told_apart() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let sizes = 100_000;
    for i in 0..sizes {
        let bytes = 65_536 + w.random() % 100_000_000 / 16 * 16;
        let born = 1000 + i * 100;
        let name = if i == sizes / 2 { "wanted" } else { "others" };
        let id = w.object(ObjectKind::Heap, BASE, bytes, born, name);
        w.end(id, born + 50);
    }
    w.touch(1, 0, init, BASE, 16);
    let born = 1000 + sizes / 2 * 100;
    for i in 0..40 {
        w.sample(born + i, (i % 2) as u32, work, BASE + 4096 * (i % 16));
        // Between two lives it belongs to no object.
        w.sample(born + 60, (i % 2) as u32, work, BASE + 4096 * (i % 16));
    }
    let r = w.on(2);
    assert_eq!(r.objects.len(), 1);
    assert_eq!((r.objects[0].name.as_str(), r.objects[0].samples, r.objects[0].count), ("wanted", 40, 1));
    assert_eq!(r.unattributed_share, 0.5);
}

/// The same pages again and again, placed by another thread each time: which placed them when a sample was taken?
#[test]
fn of_fifty_thousand_placements_of_a_page_the_one_of_the_time_is_found() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    w.object(ObjectKind::Heap, BASE, 4 * PAGE, 1, "buffer");
    for i in 0..50_000u64 {
        let time = WORK + i * 1000;
        w.touch(time, (i % 2) as u32, init, BASE, 4);
        if i % 100 < 2 {
            // Thread 0 reads what it placed itself, then what thread 1 placed.
            w.sample(time + 500, 0, work, BASE + 64);
        }
        w.range(time + 900, RangeKind::Unmap, BASE, 4 * PAGE, 0);
    }
    // Thread 1 has samples, too: else it would be given the other's node.
    w.compute(2, 10, work);
    let r = w.on(2);
    assert_eq!((r.objects[0].samples, r.objects[0].remote_share), (1000, Some(0.5)));
}

#[test]
fn processes_that_descend_from_each_other_are_no_endless_loop() {
    let mut w = MadeRecording::new(1);
    let work = w.own("work", 20);
    let (a, b) = (w.process(2, true, 5), w.process(1, true, 6));
    let deep: Vec<u32> = (0..1000).map(|i| w.process(if i == 0 { b } else { 2 + i }, true, 7)).collect();
    let last = *deep.last().expect("a process");
    let threads = [a, b, last].map(|p| w.thread(p));
    for i in 0..100 {
        threads.iter().for_each(|&t| w.sample(WORK + i, t, work, BASE));
    }
    assert_eq!(w.on(2).unattributed_share, 1.0);
}

#[test]
fn a_terabyte_is_looked_at_where_anything_was_seen() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    const PAGES: u64 = 1 << 28;
    w.object(ObjectKind::Anonymous, BASE, PAGES * PAGE, 1, "");
    w.input.meta.folio_bytes = vec![2 << 20];
    let far = 1 << 33;
    for i in 0..100 {
        w.touch(10 + i, 0, init, BASE + i * far, 1);
        w.sample(WORK + i, 0, work, BASE + i * far);
    }
    let stride = 8191 * PAGE;
    let row =
        PageNode { time_ns: 5, process: 0, address: BASE, pages: 1000, stride, node: 0, page_shift: 12 };
    w.input.page_nodes.push(row);
    let r = w.real();
    let pages = &r.objects[0].pages;
    // As many pages as are counted of one object: those touched are among them, and those only looked at.
    assert_eq!(pages.total, 64 << 20);
    assert_eq!((pages.touched, pages.unseen), (32, 999));
    assert_eq!(pages.absent_or_unknown, pages.total - 32 - 999);
}

#[test]
fn a_name_outlives_more_growth_than_anyone_counts() {
    let mut w = MadeRecording::new(1);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let chain = w.chain(&[init]);
    for i in 0..5000u32 {
        let id =
            w.object(ObjectKind::Heap, BASE, 65_536, 10 + u64::from(i), if i == 0 { "grown" } else { "" });
        w.input.objects.chain[id as usize] = chain;
        if i > 0 {
            w.input.objects.previous[id as usize] = i - 1;
        }
    }
    (0..50).for_each(|i| w.sample(WORK + i, 0, work, BASE + i * 64));
    let r = w.on(2);
    assert_eq!((r.objects[0].name.as_str(), r.objects[0].count), ("grown", 1));
}

#[test]
fn no_page_size_of_a_damaged_file_is_believed() {
    let mut w = MadeRecording::new(1);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1024);
    w.input.meta.folio_bytes = vec![2 << 20];
    w.touch(1, 0, init, a, 64);
    for shift in [0, 63, 64, 76, 255] {
        w.page_node(5, a, 64, 0, shift);
        w.fault_as(20, 0, init, a, Access::Store);
        *w.input.faults.page_shift.last_mut().expect("a fault") = shift;
    }
    (0..50).for_each(|i| w.sample(WORK + i, 0, work, a + i * 64));
    assert_eq!(w.real().objects[0].folio_bytes, [0u64; 0]);
    assert_eq!(w.on(2).objects[0].samples, 50);
}

/// A loop that maps a buffer of another size each time, touches three of its pages, has them looked at, and unmaps it.
#[test]
fn fifty_thousand_mappings_of_their_own_sizes_one_at_a_time_are_told_apart() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    w.input.meta.folio_bytes = vec![64 << 10, 2 << 20];
    let chain = w.chain(&[init]);
    let count = 50_000u64;
    // The kernel maps downwards: all end at one address.
    let end = BASE + (8 << 20);
    for i in 0..count {
        let pages = 16 + w.random() % 1024;
        let (time, address) = (WORK + i * 1000, end - pages * PAGE);
        let id = w.object(ObjectKind::Anonymous, address, pages * PAGE, time, "buffer");
        w.input.objects.chain[id as usize] = chain;
        w.end(id, time + 900);
        let thread = (i % 2) as u32;
        for (at, page) in [0, pages / 2, pages - 1].into_iter().enumerate() {
            w.touch(time + 1 + at as u64, thread, init, address + page * PAGE, 1);
            w.page_node(time + 800, address + page * PAGE, 1, thread as i16, 12);
        }
        if i % 100 < 2 {
            // Thread 0 reads what it placed itself, then what thread 1 placed.
            w.sample(time + 500, 0, work, address + pages / 2 * PAGE + 64);
        }
        w.range(time + 900, RangeKind::Unmap, address, pages * PAGE, 0);
    }
    w.compute(2, 10, work);
    let r = w.real();
    let buffer = &r.objects[0];
    assert_eq!((buffer.name.as_str(), buffer.samples, buffer.allocations), ("buffer", 1000, count));
    assert_eq!(buffer.count, 1, "at a time");
    assert!(w.on(2).objects[0].remote_share == Some(0.5));
}
