//! Huge pages: one touch places what several threads use.

use crate::made_recording::*;
use crate::placements::kinds;
use nearfar_recording::*;

/// One fault of hugetlbfs maps 1 GiB: all of it is where the thread that faulted was.
#[test]
fn a_page_of_a_gigabyte_is_placed_as_a_whole() {
    let mut w = MadeRecording::new(4);
    let ip = w.own("init", 10);
    let a = w.array("a", (1 << 30) / PAGE);
    let aligned = a.next_multiple_of(1 << 30);
    w.input.objects.address[0] = aligned;
    w.fault_as(100, 3, ip, aligned + (700 << 20), Access::Store);
    w.input.faults.page_shift[0] = 30;
    w.use_blocked(4, 100, ip, aligned, (1 << 30) / PAGE);
    let r = w.on(2);
    assert_eq!((r.remote_share, r.page_node_unknown_share), (Some(0.5), 0.0));
    // No machine has pages of 1 EiB: such a fault places the page that it names.
    w.input.faults.page_shift[0] = 60;
    assert!(w.on(2).page_node_unknown_share > 0.9);
}

#[test]
fn a_huge_page_is_placed_by_one_fault() {
    let mut w = MadeRecording::new(4);
    w.input.meta.folio_bytes = vec![2 << 20];
    let ip = w.own("init", 10);
    let a = w.array("a", 4 * 512);
    for folio in 0..4 {
        w.fault_as(100 + folio, 0, ip, a + folio * (2 << 20), Access::Store);
    }
    let work = w.own("work", 20);
    w.use_blocked(4, 200, work, a, 4 * 512);
    let r = w.on(2);
    assert_eq!(r.remote_share, Some(0.5));
    assert_eq!(r.objects[0].folio_bytes, [2 << 20]);
    assert_eq!(r.objects[0].pages.touched, 4 * 512);
    // The same with pages that are not one folio: nodes of pages say 4 kB.
    w.page_node(WORK, a, 1, 0, 12);
    let r = w.on(2);
    assert!(r.page_node_unknown_share > 0.9 && r.objects[0].folio_bytes.is_empty());
}

#[test]
fn huge_pages_across_two_nodes_parts_are_straddling() {
    let mut w = MadeRecording::new(2);
    w.input.meta.folio_bytes = vec![2 << 20];
    let ip = w.own("init", 10);
    // Three folios, two threads: the middle one belongs to both.
    let a = w.array("a", 3 * 512);
    for (folio, t) in [(0, 0), (1, 0), (2, 1)] {
        w.fault_as(100 + folio, t, ip, a + folio * (2 << 20), Access::Store);
    }
    let work = w.own("work", 20);
    w.use_blocked(2, 600, work, a, 3 * 512);
    let r = w.on(2);
    assert_eq!(kinds(&r), [("huge_page_straddling", "a")], "{:?}", r.findings);
    assert!((r.remote_share.unwrap() - 1.0 / 6.0).abs() < 0.01);
}

/// Two threads have half of each large page. Both fault on it while it is cleared, and either may have placed it.
#[test]
fn a_race_for_a_huge_page_is_neither_a_policy_nor_a_second_placement() {
    const FOLIO: u64 = 2 << 20;
    let kind = |late_ns: u64, placed_by: i16| {
        let mut w = MadeRecording::new(2);
        w.input.meta.machine = machine(2, 1);
        w.input.meta.numa_balancing = 0;
        w.input.meta.folio_bytes = vec![FOLIO];
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", 4 * 512);
        for folio in 0..4 {
            let time = 1000 + folio;
            w.fault_as(time, 0, init, a + folio * FOLIO, Access::Store);
            w.fault_as(time + late_ns, 1, init, a + folio * FOLIO + FOLIO / 2, Access::Store);
        }
        w.input.faults.page_shift.iter_mut().for_each(|s| *s = 21);
        w.page_node(8 * WORK, a, 4 * 512, placed_by, 12);
        for i in 0..2000 {
            let (folio, thread) = (i % 4, i / 4 % 2);
            let offset = thread * FOLIO / 2 + i * 7919 % 256 * PAGE;
            w.sample(WORK + i * 1_000_000, thread as u32, work, a + folio * FOLIO + offset);
        }
        let r = w.real();
        assert!((r.remote_share.unwrap() - 0.5).abs() < 0.01, "{:?}", r.remote_share);
        r.findings[0].kind.clone()
    };
    for placed_by in [0, 1] {
        assert_eq!(kind(18_000_000, placed_by), "huge_page_straddling", "node {placed_by}");
    }
    // Half a second later it is no race: the pages were lost meanwhile, the second thread placed them, and they were moved.
    assert_eq!(kind(500_000_000, 0), "placed_by_policy");
}

/// Each array is used by one node's thread only; the folio in which both lie is used by both.
#[test]
fn two_arrays_of_different_users_in_one_huge_page_are_straddling() {
    let mut w = MadeRecording::new(2);
    w.input.meta.folio_bytes = vec![2 << 20];
    let ip = w.own("init", 10);
    let a = w.array("a", 512 + 256);
    let b = a + 768 * PAGE;
    w.object(ObjectKind::Heap, b, 768 * PAGE, 1, "b");
    for (folio, t) in [(0, 0), (1, 0), (2, 1)] {
        w.fault_as(100 + folio, t, ip, a + folio * (2 << 20), Access::Store);
    }
    let work = w.own("work", 20);
    for i in 0..600 {
        w.sample(WORK + i * 1_000_000, 0, work, a + i % 768 * PAGE);
        w.sample(WORK + i * 1_000_000 + 1, 1, work, b + i % 768 * PAGE);
    }
    let r = w.on(2);
    assert_eq!(kinds(&r), [("huge_page_straddling", "b")], "{:?}", r.findings);
}

/// The neighbour's part of the folio is too small to call the folio shared, but its touch placed all of it.
#[test]
fn an_array_whose_huge_page_the_next_array_placed_is_straddling() {
    let mut w = MadeRecording::new(2);
    w.input.meta.folio_bytes = vec![2 << 20];
    let ip = w.own("init", 10);
    // Thread 1 uses all of a; the last pages of its second folio are b's, which thread 0 touches first.
    let a = w.array("a", 512 + 500);
    let b = a + 1012 * PAGE;
    w.object(ObjectKind::Heap, b, 524 * PAGE, 1, "b");
    for (page, t) in [(1012, 0), (0, 1), (1024, 0)] {
        w.fault_as(100 + page, t, ip, a + page * PAGE, Access::Store);
    }
    let work = w.own("work", 20);
    for i in 0..1000 {
        w.sample(WORK + i * 1_000_000, 1, work, a + i % 1012 * PAGE);
        w.sample(WORK + i * 1_000_000 + 1, 0, work, b + i * 7 % 524 * PAGE);
    }
    let r = w.on(2);
    assert_eq!(kinds(&r), [("huge_page_straddling", "a")], "{:?}", r.findings);
}
