//! Recordings of the virtual machine: lines are counted, nodes of pages are known, pages are exact.

use crate::made_recording::*;
use nearfar_analyze::{Basis, Judge, Region, Report, Verdict, analyze_with};
use nearfar_machine::binding::Bind;
use nearfar_recording::*;

const CPUS: u32 = 2;
pub const PAGES: u64 = 1024;

/// Every thread moves its block of an array. `page_node` names the node of a page's memory; thread
/// `toucher(page)` placed it.
fn array(nodes: u32, region: u8, toucher: impl Fn(u64) -> u32) -> MadeRecording {
    let mut w = MadeRecording::simulated(nodes, CPUS);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", PAGES);
    let threads = u64::from(nodes * CPUS);
    for page in 0..PAGES {
        let first = toucher(page);
        w.touch(100 + page, first, init, a + page * PAGE, 1);
        let page_node = (first / CPUS) as i16;
        let user = (page * threads / PAGES) as u32;
        let epoch = (page % (PAGES / threads)) as u32;
        w.moves((epoch, region), user, work, a + page * PAGE, page_node, 64);
    }
    w
}

pub fn serial(nodes: u32) -> MadeRecording {
    array(nodes, 1, |_| 0)
}

fn own(nodes: u32) -> MadeRecording {
    let threads = u64::from(nodes * CPUS);
    array(nodes, 1, |page| (page * threads / PAGES) as u32)
}

pub fn whole(w: &MadeRecording) -> Report {
    let judge = Judge { machine: w.input.meta.machine.clone(), assume: None, whole: true };
    analyze_with(&w.input, &w.samples, &judge, 2).expect("an analysis")
}

#[test]
fn serial_initialisation_is_remote_but_for_one_node() {
    for (nodes, expected) in [(2, 0.5), (4, 0.75), (8, 0.875)] {
        let r = serial(nodes).real();
        assert_eq!((r.basis, r.remote_share_exact), (Basis::DramLines, true));
        assert_eq!(r.remote_share, Some(expected));
        let ci = r.remote_share_ci.unwrap();
        assert_eq!((ci.low, ci.high), (expected, expected));
        let a = &r.objects[0];
        assert_eq!((a.remote_share, a.remote_share_exact), (Some(expected), true));
        let dram = a.dram.as_ref().unwrap();
        assert_eq!(dram.local + dram.remote, PAGES * 64);
        assert_eq!(dram.remote, (PAGES as f64 * 64.0 * expected) as u64);
        assert_eq!(r.functions[0].dram.as_ref().unwrap().remote, dram.remote);
        assert_eq!(r.findings[0].kind, "serial_first_touch", "{nodes}");
        assert_eq!(r.findings[0].cause.at.as_deref(), Some("main.c:10"));
        assert!((r.findings[0].at_risk - expected).abs() < 1e-9);
        assert_eq!(r.node_matrix[1][0], 1.0 / f64::from(nodes));
    }
}

#[test]
fn first_touch_by_the_user_is_clean() {
    let r = own(2).real();
    assert_eq!(r.remote_share, Some(0.0));
    // No figures of the machine, no time; but nothing is remote whatever the time.
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("DRAM traffic"), "{}", r.verdict_why);
    assert!(r.findings.is_empty());
}

/// The same, as if so many windows of equally many epochs stood for all of it.
fn in_windows(mut w: MadeRecording, windows: u32) -> Report {
    let last = w.input.cpu_epochs.epoch.iter().copied().max().expect("epochs");
    let each = (last + 1) / windows;
    for window in 0..windows {
        w.input.counted_windows.push(CountedWindow {
            first_epoch: window * each,
            last_epoch: (window + 1) * each - 1,
            region: 1,
            counted_instructions: 1000,
            instructions: 10_000,
        });
    }
    w.real()
}

#[test]
fn windows_widen_intervals_and_few_of_them_carry_no_verdict() {
    let r = in_windows(serial(2), 8);
    let windows = r.counters.as_ref().unwrap().windows.unwrap();
    assert_eq!((windows.windows, windows.counted_instructions, windows.instructions), (8, 8000, 80_000));
    // All windows are alike, and two runs of one program differ by 1 %.
    let error = windows.remote_share_error.unwrap();
    assert!((error - 0.005).abs() < 1e-9, "{error}");
    let ci = r.remote_share_ci.unwrap();
    assert_eq!((r.remote_share, ci.low, ci.high), (Some(0.5), 0.5 - error, 0.5 + error));
    // So do its objects, and few samples in each window make their intervals wider.
    let a = &r.objects[0];
    let (ci, lines_error) = (a.remote_share_ci.unwrap(), a.dram.as_ref().unwrap().windows_error.unwrap());
    assert!(ci.low <= 0.5 - error && ci.high >= 0.5 + error, "{ci:?}");
    assert!((0.01..0.2).contains(&lines_error), "{lines_error}");
    assert_eq!(serial(2).real().objects[0].dram.as_ref().unwrap().windows_error, None);
    assert_eq!(in_windows(own(2), 8).verdict, Verdict::Clean);
    let few = in_windows(own(2), 4);
    assert_eq!((few.verdict, few.remote_share), (Verdict::Unknown, Some(0.0)));
    assert!(few.verdict_why.contains("counted in 4 windows, too few"), "{}", few.verdict_why);
    for ci in [few.remote_share_ci.unwrap(), few.objects[0].remote_share_ci.unwrap()] {
        assert_eq!((ci.low, ci.high), (0.0, 1.0));
    }
    assert_eq!(few.objects[0].dram.as_ref().unwrap().windows_error, None);
}

#[test]
fn remote_lines_without_a_time_carry_no_verdict() {
    let r = serial(2).real();
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(r.verdict_why.contains("waits for memory is unknown"), "{}", r.verdict_why);
    assert!(r.time.is_none() && r.time_why.is_some());
    let counters = r.counters.unwrap();
    assert_eq!(counters.memory_bound_share, None);
    assert!(counters.cpus.iter().all(|c| c.ipc.is_none()));
    assert!(counters.links.is_empty() && counters.timeline.is_empty());
}

#[test]
fn weights_are_lines_and_homes_are_the_samples_own() {
    let mut w = MadeRecording::simulated(2, 1);
    let work = w.own("work", 20);
    let (a, b) = (w.array("a", 100), w.array("b", 100));
    // Thread 0 placed all of it, and the kernel moved `b` to node 1.
    w.touch(100, 0, work, a, 100);
    w.touch(100, 0, work, b, 100);
    for page in 0..100 {
        w.moves((0, 0), 0, work, a + page * PAGE, 0, 30);
        w.moves((0, 0), 0, work, b + page * PAGE, 1, 10);
    }
    let r = w.real();
    let of = |name: &str| r.objects.iter().find(|o| o.name == name).unwrap();
    assert_eq!((of("a").stall_share, of("b").stall_share), (0.75, 0.25));
    assert_eq!((of("a").remote_share, of("b").remote_share), (Some(0.0), Some(1.0)));
    assert_eq!(r.threads[0].by_page_node, [0.75, 0.25]);
    assert_eq!(r.remote_share, Some(0.25));
    // The page table agrees; without it, samples say the same with an interval.
    w.input.page_traffic = PageTraffics::default();
    let r = w.real();
    let b = r.objects.iter().find(|o| o.name == "b").unwrap();
    assert_eq!((b.remote_share, b.remote_share_exact), (Some(1.0), false));
    assert!(b.remote_share_ci.unwrap().low < 1.0);
    assert!(!b.dram.as_ref().unwrap().exact);
}

#[test]
fn an_objects_remote_share_is_that_of_its_pages() {
    let mut w = MadeRecording::simulated(2, 1);
    let work = w.own("work", 20);
    let a = w.array("a", 10);
    w.touch(100, 0, work, a, 10);
    for page in 0..10 {
        w.moves((0, 0), 0, work, a + page * PAGE, 0, 7);
    }
    // Lines that no sample fell on.
    w.counts(a, 1, 0, 20, 3);
    w.counts(a + 9 * PAGE, 1, 0, 0, 7);
    let r = w.real();
    let a = &r.objects[0];
    assert_eq!((a.remote_share, a.remote_share_exact), (Some(0.3), true));
    let ci = a.remote_share_ci.unwrap();
    assert_eq!((ci.low, ci.high), (0.3, 0.3));
    let dram = a.dram.as_ref().unwrap();
    assert_eq!((dram.local, dram.remote, dram.exact), (70, 30, true));
}

#[test]
fn a_page_of_two_objects_is_divided_by_samples_and_widens_both() {
    let mut w = MadeRecording::simulated(2, 1);
    let work = w.own("work", 20);
    // `b` begins in the middle of the last page of `a`.
    w.object(ObjectKind::Heap, BASE, 9 * PAGE + PAGE / 2, 10, "a");
    w.object(ObjectKind::Heap, BASE + 9 * PAGE + PAGE / 2, 9 * PAGE + PAGE / 2, 10, "b");
    w.touch(100, 0, work, BASE, 19);
    for page in 0..19 {
        let thread = u32::from(page > 9);
        w.moves((0, 0), thread, work, BASE + page * PAGE, 0, 8);
    }
    // The shared page: 8 local lines sampled on `a` above, 24 remote ones on `b`.
    w.moves((0, 0), 1, work, BASE + 10 * PAGE - 8, 0, 24);
    let r = w.real();
    let of = |name: &str| r.objects.iter().find(|o| o.name == name).unwrap();
    let (a, b) = (of("a"), of("b"));
    // A quarter of the page's samples are of `a`: 2 local and 6 remote lines.
    assert!((a.remote_share.unwrap() - 6.0 / 80.0).abs() < 1e-9, "{:?}", a.remote_share);
    let ci = a.remote_share_ci.unwrap();
    assert_eq!((ci.low, ci.high), (0.0, 24.0 / 96.0));
    assert!((b.remote_share.unwrap() - 90.0 / 96.0).abs() < 1e-9);
    let lines = |o: &nearfar_analyze::ObjectRow| o.dram.as_ref().map(|d| d.local + d.remote).unwrap();
    assert_eq!(lines(a) + lines(b), 176);
}

#[test]
fn what_is_outside_the_region_does_not_count() {
    let mut w = own(2);
    let init = w.own("init", 10);
    let a = w.input.objects.address[0];
    // The initialisation: all by thread 0, much more of it, in epochs outside; its pages were not counted.
    let pages = w.input.page_traffic.clone();
    for page in 0..PAGES {
        w.moves((10_000, 0), 0, init, a + page * PAGE, 1, 1000);
    }
    w.input.page_traffic = pages;
    let r = w.real();
    assert_eq!(r.region, Region::Marked);
    assert_eq!(r.remote_share, Some(0.0));
    assert_eq!(r.objects[0].samples, PAGES);
    let counters = r.counters.as_ref().unwrap();
    assert_eq!((counters.region, counters.epochs), (Region::Marked, PAGES / 4));
    let read: u64 = counters.dram.iter().map(|d| d.read_bytes).sum();
    assert_eq!(read, PAGES * 64 * 64);
    let instructions: u64 = counters.cpus.iter().map(|c| c.instructions).sum();
    assert_eq!(instructions, PAGES * 640);
    assert!(r.notes.iter().any(|n| n.contains("1,024 of 2,048 samples")), "{:?}", r.notes);

    let r = whole(&w);
    assert_eq!(r.region, Region::Whole);
    assert!(r.remote_share.unwrap() > 0.9, "{:?}", r.remote_share);
    // The pages were counted in the region only: of the whole run, there are samples.
    assert!(r.remote_share_exact && !r.objects[0].remote_share_exact);
    assert!(r.objects[0].remote_share.unwrap() > 0.9);
}

#[test]
fn counters_are_sums_and_ratios_of_what_was_asked() {
    let mut w = MadeRecording::simulated(2, 1);
    w.input.meta.machine.figures.line_bytes = Some(128);
    w.works(1, 0, 0, 1000);
    w.works(2, 0, 0, 1000);
    w.works(2, 0, 1, 0);
    let mut row = EpochTraffic {
        epoch: 1,
        region: 0,
        cpu: 0,
        page_node: 1,
        read_lines: 100,
        prefetch_lines: 40,
        write_lines: 20,
        stream_lines: 5,
        transfer_lines: 7,
        walks: 9,
    };
    w.input.epoch_traffic.push(row.clone());
    row.epoch = 2;
    w.input.epoch_traffic.push(row.clone());
    (row.page_node, row.read_lines) = (0, 11);
    w.input.epoch_traffic.push(row.clone());
    // Of unknown node of the page: neither near nor far.
    row.page_node = -1;
    w.input.epoch_traffic.push(row);
    let r = w.real();
    let c = r.counters.unwrap();
    assert_eq!((c.source.as_str(), c.line_bytes, c.epochs, c.region), ("simulated", 128, 2, Region::Whole));
    assert_eq!(c.dram.len(), 2);
    let far = &c.dram[1];
    assert_eq!((far.from, far.page_node), (0, 1));
    assert_eq!((far.read_bytes, far.prefetch_bytes), (200 * 128, 80 * 128));
    assert_eq!((far.write_bytes, far.cache_bytes, far.walks), (50 * 128, 14 * 128, 18));
    let cpu = &c.cpus[0];
    assert_eq!((cpu.cpu, cpu.node, cpu.instructions), (0, Some(0), 2000));
    assert_eq!((cpu.l1_hit, cpu.l2_hit), (Some(0.5), Some(0.5)));
    // The machine has no third level.
    assert_eq!(cpu.l3_hit, None);
    assert_eq!((cpu.dram_local, cpu.dram_remote), (36, 250));
    assert_eq!((cpu.tlb_misses, cpu.huge_tlb_misses), (6, 2));
    // A cpu that did nothing hit nothing, which is not a ratio of 0.
    assert_eq!((c.cpus[1].l1_hit, c.cpus[1].l2_hit), (None, None));
    // 250 of 286 lines whose ends are known; 36 more may be anywhere.
    assert!((r.remote_share.unwrap() - 250.0 / 286.0).abs() < 1e-9);
    let ci = r.remote_share_ci.unwrap();
    assert!((ci.low - 250.0 / 322.0).abs() < 1e-9 && (ci.high - 286.0 / 322.0).abs() < 1e-9, "{ci:?}");
}

#[test]
fn other_recordings_have_no_counters_and_say_why() {
    let mut w = MadeRecording::new(2);
    let work = w.own("work", 20);
    let a = w.array("a", 100);
    w.touch(100, 0, work, a, 100);
    w.use_blocked(2, 200, work, a, 100);
    let r = w.on(2);
    assert_eq!(r.basis, Basis::StallTime);
    assert!(r.counters.is_none() && r.time.is_none());
    assert!(r.counters_why.unwrap().contains("record --on"));
    assert!(r.time_why.is_some());
    assert!(r.objects[0].dram.is_none() && !r.remote_share_exact);
}

#[test]
fn judged_on_another_machine_pages_follow_their_first_toucher_and_nothing_is_counted() {
    // Each thread uses what it placed, on any machine; the nodes of the pages of the recorded one mean nothing there.
    let judged = |w: &MadeRecording| {
        let judge = Judge { machine: machine(4, 1), assume: Some(Bind::Compact), whole: false };
        analyze_with(&w.input, &w.samples, &judge, 2).expect("an analysis")
    };
    assert_eq!(judged(&own(2)).remote_share, Some(0.0));
    let r = judged(&serial(2));
    assert_eq!((r.basis, r.remote_share_exact), (Basis::DramLines, false));
    assert_eq!(r.remote_share, Some(0.75));
    assert!(r.counters.is_none());
    assert!(r.counters_why.unwrap().contains("2x2"));
    assert!(!r.objects[0].remote_share_exact && r.objects[0].distance[0].share == 0.25);
}

#[test]
fn no_line_moved_is_clean_and_no_home_known_is_not() {
    let mut w = MadeRecording::simulated(2, 1);
    w.works(0, 0, 0, 1000);
    let r = w.real();
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert_eq!(r.remote_share, None);

    let mut w = MadeRecording::simulated(2, 1);
    let work = w.own("work", 20);
    let a = w.array("a", 500);
    for page in 0..500 {
        w.moves((0, 0), 0, work, a + page * PAGE, -1, 10);
    }
    let r = w.real();
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert_eq!((r.remote_share, r.objects[0].remote_share), (None, None));
    assert_eq!(r.objects[0].page_node_unknown_share, 1.0);
}

#[test]
fn timer_samples_beside_counted_lines_are_left_out_and_named() {
    let mut w = serial(2);
    let work = w.own("wait", 30);
    let before = w.real();
    for i in 0..5000 {
        w.sample(WORK + i, 0, work, BASE);
    }
    let r = w.real();
    assert_eq!(r.objects[0].samples, before.objects[0].samples);
    assert_eq!(r.remote_share, before.remote_share);
    assert!(r.notes.iter().any(|n| n.starts_with("5000 timer samples")), "{:?}", r.notes);
}

#[test]
fn written_back_lines_do_not_blur_who_uses_what() {
    let mut w = own(2);
    let (a, work) = (w.input.objects.address[0], 1);
    let n = w.samples.len();
    // Each line goes back when some other thread of the socket needs room.
    for page in 0..PAGES {
        let thread = (page % 4) as u32;
        w.moves((0, 1), thread, work, a + page * PAGE, (page / 512) as i16, 64);
    }
    w.samples.access[n..].fill(Access::Unknown as u8);
    let r = w.real();
    assert_eq!(r.objects[0].pattern, nearfar_analyze::Pattern::Blocked);
    w.samples.access[n..].fill(Access::Load as u8);
    assert_ne!(w.real().objects[0].pattern, nearfar_analyze::Pattern::Blocked);
}

#[test]
fn pages_that_one_node_uses_each_can_be_placed_there_however_threads_take_turns() {
    // Threads take turns page by page: in turns for the pattern, parted for the pages.
    let turns = |stride: u64| {
        let mut w = MadeRecording::simulated(2, CPUS);
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let a = w.array("a", PAGES);
        w.touch(100, 0, init, a, PAGES);
        for page in 0..PAGES {
            for use_ in 0..4u64 {
                let user = (page + use_ * stride) % 4;
                w.moves((page as u32, 1), user as u32, work, a + page * PAGE + use_ * 64, 0, 64);
            }
        }
        w.input.meta.machine.caches.clear();
        w.real().findings.remove(0)
    };
    let parted = turns(0);
    assert!(parted.advice.contains("nearly every page is used from one node"), "{}", parted.advice);
    assert!(
        parted.evidence[0].ends_with("50 % remote, 0 % if each page were on the node that uses it most"),
        "{parted:?}"
    );
    // Every page is used by all: no place is right.
    let mixed = turns(1);
    assert!(!mixed.advice.contains("nearly every page"), "{}", mixed.advice);
    assert!(mixed.evidence[0].contains("50 % if each page were"), "{:?}", mixed.evidence);
}

#[test]
fn objects_that_share_all_their_pages_are_known_from_samples() {
    let mut w = MadeRecording::simulated(2, 1);
    let work = w.own("work", 20);
    for page in 0..200 {
        let at = BASE + page * PAGE;
        w.object(ObjectKind::Heap, at, PAGE / 2, 10, "a");
        w.object(ObjectKind::Heap, at + PAGE / 2, PAGE / 2, 10, "b");
        w.touch(100, 0, work, at, 1);
        // `a` is used from node 0, where it is, `b` from node 1.
        for i in 0..4 {
            w.moves((page as u32, 1), 0, work, at + i * 64, 0, 8);
            w.moves((page as u32, 1), 1, work, at + PAGE / 2 + i * 64, 0, 8);
        }
    }
    let r = w.real();
    assert_eq!((r.remote_share, r.remote_share_exact), (Some(0.5), true));
    for (name, remote) in [("a", 0.0), ("b", 1.0)] {
        let o = r.objects.iter().find(|o| o.name == name).unwrap();
        assert_eq!((o.remote_share, o.remote_share_exact), (Some(remote), false), "{name}");
        let ci = o.remote_share_ci.unwrap();
        assert!(ci.high - ci.low < 0.02, "{name}: {ci:?}");
    }
}
