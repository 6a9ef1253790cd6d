//! Which fault placed a page: fork, discard, hint faults, recycled memory, large folios, moves.

use crate::made_recording::*;
use nearfar_analyze::{Pattern, Report};
use nearfar_recording::*;

/// Thread 3 samples page `p` of the array and thread 0 makes the other node exist.
pub(crate) fn pages_of(r: &Report, how: &str) -> u64 {
    r.objects[0].first_touch.iter().filter(|t| t.how == how).map(|t| t.pages).sum()
}

/// Four threads; the array has 64 pages that thread 3 samples evenly, later than everything else.
/// What each finding is, and its first object.
pub(crate) fn kinds(r: &Report) -> Vec<(&str, &str)> {
    r.findings.iter().map(|f| (f.kind.as_str(), f.objects[0].as_str())).collect()
}

pub(crate) fn made() -> (MadeRecording, u32, u64) {
    let mut w = MadeRecording::new(4);
    let ip = w.own("init", 10);
    let a = w.array("a", 64);
    (w, ip, a)
}

pub(crate) fn sampled(w: &mut MadeRecording, a: u64) -> Report {
    let work = w.own("work", 20);
    for i in 0..400 {
        w.sample(WORK + i, 3, work, a + i % 64 * PAGE);
    }
    let other = w.own("other", 30);
    for t in 0..3 {
        w.sample_as(WORK + 1, t, other, 0, Resolution::Compute, Access::Unknown);
    }
    w.on(2)
}

#[test]
fn a_store_places_and_a_hint_fault_does_not() {
    let (mut w, ip, a) = made();
    w.touch(100, 3, ip, a, 64);
    w.touch(1000, 0, ip, a, 64);
    let r = sampled(&mut w, a);
    assert_eq!(r.remote_share, Some(0.0));
    assert!(
        r.notes
            .iter()
            .any(|n| n.starts_with("Page faults on pages that were already placed") && n.contains(": 64.")),
        "{:?}",
        r.notes
    );
    // Beside a hundred times as many that place a page they are not worth a line.
    let b = w.array("b", 6_400);
    w.touch(2000, 3, ip, b, 6_400);
    let r = w.on(2);
    assert!(!r.notes.iter().any(|n| n.contains("already placed")), "{:?}", r.notes);
}

/// MAP_POPULATE and mlock take the pages that are not there yet, on the node of the thread that calls.
#[test]
fn a_call_that_populates_places_what_is_not_there() {
    let populated = |thread: u32, before: u64, discarded: u64| {
        let (mut w, ip, a) = made();
        w.touch(100, 3, ip, a, before);
        w.range(500, RangeKind::Discard, a, discarded * PAGE, 0);
        w.range_by(thread, 600, RangeKind::Populate, (a, 64 * PAGE), 0);
        let r = sampled(&mut w, a);
        (r.remote_share, pages_of(&r, "populate"))
    };
    assert_eq!(populated(0, 0, 0), (Some(1.0), 64));
    assert_eq!(populated(3, 0, 0), (Some(0.0), 64));
    assert_eq!(populated(0, 64, 0), (Some(0.0), 0));
    // Half of the pages, and samples on the first 16 once more than on the others; what is listed is who came first.
    assert_eq!(populated(0, 64, 32), (Some(0.5 + 8.0 / 400.0), 0));
    // Recorded before threads were: the caller is unknown, and is not guessed.
    assert_eq!(populated(NONE, 0, 0), (None, 0));
}

/// Loads mapped the zero page, which a call that populates replaces: what it takes is the caller's, not the reader's.
#[test]
fn what_was_only_read_before_is_placed_by_the_call_that_populates() {
    for seen in [false, true] {
        let (mut w, ip, a) = made();
        for page in 0..32 {
            w.fault_as(100 + page, 3, ip, a + page * PAGE, Access::Load);
        }
        w.range_by(0, 600, RangeKind::Populate, (a, 64 * PAGE), 0);
        if seen {
            w.page_node(WORK / 2, a, 64, 0, 0);
        }
        let r = sampled(&mut w, a);
        assert_eq!(
            (r.remote_share, pages_of(&r, "populate"), pages_of(&r, "read")),
            (Some(1.0), 64, 0),
            "{seen}"
        );
    }
}

#[test]
fn a_populated_range_without_end_takes_no_memory_and_places_nothing() {
    let (mut w, _, a) = made();
    w.range_by(0, 600, RangeKind::Populate, (a, 1 << 56), 0);
    assert_eq!(sampled(&mut w, a).remote_share, None);
}

#[test]
fn after_a_discard_the_next_store_places_anew() {
    let (mut w, ip, a) = made();
    w.touch(100, 3, ip, a, 64);
    w.range(500, RangeKind::Discard, a, 32 * PAGE, 0);
    w.touch(1000, 0, ip, a, 64);
    let r = sampled(&mut w, a);
    assert_eq!(r.remote_share, Some(0.5 + 8.0 / 400.0));
}

#[test]
fn samples_see_the_placement_of_their_time() {
    let (mut w, ip, a) = made();
    w.touch(100, 3, ip, a, 64);
    w.range(2 * WORK, RangeKind::Discard, a, 64 * PAGE, 0);
    w.touch(2 * WORK + 1, 0, ip, a, 64);
    assert_eq!(sampled(&mut w, a).remote_share, Some(0.0));
}

#[test]
fn a_load_maps_the_zero_page_and_places_nothing() {
    let (mut w, ip, a) = made();
    for p in 0..64 {
        w.fault_as(100 + p, 0, ip, a + p * PAGE, Access::Load);
    }
    let r = sampled(&mut w, a);
    assert_eq!(r.page_node_unknown_share, 1.0);
    // The store that follows places.
    w.touch(1000, 3, ip, a, 64);
    assert_eq!(w.on(2).remote_share, Some(0.0));
    // A load whose page is seen present did place it after all.
    let (mut w, ip, a) = made();
    for p in 0..64 {
        w.fault_as(100 + p, 0, ip, a + p * PAGE, Access::Load);
    }
    w.page_node(WORK / 2, a, 64, 0, 0);
    let r = sampled(&mut w, a);
    assert_eq!(r.remote_share, Some(1.0));
    assert_eq!(pages_of(&r, "read"), 64);
}

#[test]
fn a_child_copies_on_write_and_reads_its_parents_pages() {
    let (mut w, ip, a) = made();
    w.touch(100, 0, ip, a, 64);
    let child = w.process(0, true, 500);
    let t = w.thread(child);
    w.touch(1000, t, ip, a, 32);
    let work = w.own("work", 20);
    for i in 0..64 {
        w.sample(WORK + i, t, work, a + i * PAGE);
        w.sample(WORK + i, 0, work, a + i * PAGE);
    }
    let r = w.on(2);
    // The child (second node) copied half; the parent still has all of its own.
    assert_eq!(r.remote_share, Some(0.25));
}

#[test]
fn a_parent_copies_only_while_a_child_shares() {
    let (mut w, ip, a) = made();
    w.touch(100, 0, ip, a, 64);
    let child = w.process(0, true, 500);
    w.thread(child);
    w.touch(1000, 3, ip, a, 64);
    let r = sampled(&mut w, a);
    assert_eq!((r.remote_share, pages_of(&r, "write")), (Some(0.0), 64));
    // The child was gone: the page is reused, not copied.
    w.input.process_ends.push(ProcessEnd { process: child, time_ns: 700 });
    assert_eq!(w.on(2).remote_share, Some(1.0));
}

#[test]
fn an_execed_space_starts_empty() {
    let (mut w, ip, a) = made();
    w.touch(100, 0, ip, a, 64);
    let next = w.process(0, false, 500);
    let t = w.thread(next);
    for i in 0..10 {
        w.sample(WORK + i, t, ip, a + i * PAGE);
    }
    assert_eq!(w.on(2).unattributed_share, 1.0);
}

#[test]
fn recycled_heap_is_inherited_from_its_last_owner() {
    let mut w = MadeRecording::new(4);
    let ip = w.own("init", 10);
    let old = w.object(ObjectKind::Heap, BASE, 64 * PAGE, 10, "old");
    w.touch(100, 0, ip, BASE, 64);
    w.end(old, 500);
    w.object(ObjectKind::Heap, BASE, 64 * PAGE, 600, "a");
    let r = sampled(&mut w, BASE);
    assert_eq!(r.objects[0].name, "a");
    assert_eq!((r.objects[0].pages.inherited, r.objects[0].pages.touched), (64, 0));
    assert_eq!(r.remote_share, Some(1.0));
    // If the memory had gone back to the kernel, the next fault places it.
    w.touch(700, 3, ip, BASE, 64);
    let r = w.on(2);
    assert_eq!(r.remote_share, Some(0.0));
    assert_eq!((r.objects[0].pages.touched, pages_of(&r, "refault")), (64, 64));
    // But not a fault that a change of protection explains.
    w.range(650, RangeKind::Protect, BASE, 64 * PAGE, 0);
    assert_eq!(w.on(2).remote_share, Some(1.0));
}

#[test]
fn a_moved_range_keeps_its_touches() {
    let (mut w, ip, a) = made();
    let to = BASE + (1 << 30);
    w.touch(100, 0, ip, a, 64);
    w.range(500, RangeKind::Move, a, 64 * PAGE, to);
    w.object(ObjectKind::Heap, to, 64 * PAGE, 600, "b");
    w.input.objects.previous[1] = 0;
    w.end(0, 600);
    let r = sampled(&mut w, to);
    assert_eq!(r.remote_share, Some(1.0));
    assert_eq!(pages_of(&r, "moved"), 64);
}

#[test]
fn a_realloc_moves_pages_although_nobody_reports_it() {
    let (mut w, ip, a) = made();
    let to = BASE + (1 << 30);
    w.touch(100, 0, ip, a, 64);
    w.object(ObjectKind::Heap, to, 128 * PAGE, 600, "");
    w.input.objects.previous[1] = 0;
    w.end(0, 590);
    w.touch(1000, 3, ip, to + 64 * PAGE, 64);
    let r = sampled(&mut w, to);
    assert_eq!(r.objects[0].name, "a");
    assert_eq!(r.remote_share, Some(1.0));
    assert_eq!((pages_of(&r, "moved"), pages_of(&r, "write")), (64, 64));
}

#[test]
fn a_touch_inside_libc_is_named_by_its_caller_or_marked() {
    let (mut w, _, a) = made();
    let memset = w.libc("memset");
    let caller = w.own("clear", 15);
    let chain = w.chain(&[memset, caller]);
    w.touch(100, 0, memset, a, 64);
    let r = sampled(&mut w, a);
    assert_eq!(r.objects[0].first_touch[0].function.as_deref(), Some("memset"));
    w.input.faults.chain[60] = chain;
    let r = w.on(2);
    assert_eq!(r.objects[0].first_touch[0].at.as_deref(), Some("main.c:15"));
}

/// fork protects the parent's pages; once the child has gone, a store faults and takes its page back as it is.
#[test]
fn a_page_taken_back_after_a_fork_is_not_placed_anew() {
    let run = |gone: u64| {
        let mut w = MadeRecording::new(2);
        let (init, again, work) = (w.own("init", 10), w.own("again", 20), w.own("work", 30));
        let a = w.array("a", 64);
        w.touch(1_000_000, 0, init, a, 64);
        let process = w.process(0, true, 10_000_000);
        w.input.process_ends.push(ProcessEnd { process, time_ns: gone });
        w.touch(900_000_000, 1, again, a, 64);
        w.use_blocked(1, 400, work, a, 64);
        w.samples.thread.fill(1);
        w.samples.cpu.fill(1);
        // Both threads have samples, so each has a node.
        w.compute(2, 100, work);
        w.on(2)
    };
    // The child lived until half a second: the pages stay with thread 0, which is far from thread 1.
    let r = run(500_000_000);
    assert_eq!(r.remote_share, Some(1.0));
    assert_eq!(r.objects[0].first_touch.len(), 1, "{:?}", r.objects[0].first_touch);
    assert_eq!(r.objects[0].first_touch[0].function.as_deref(), Some("init"));
    // It lives on: the store takes a copy, on the writer's node.
    assert_eq!(run(5_000_000_000).remote_share, Some(0.0));
}

/// glibc's pthread_create writes the new thread's descriptor into the top of its stack, where its thread-local data are.
#[test]
fn stacks_that_their_creator_touched_first_are_no_finding() {
    let mut w = MadeRecording::new(2);
    let create = w.own("main", 10);
    let work = w.own("work", 20);
    let mut tops = Vec::new();
    for t in 0..2u64 {
        let stack = BASE + (t << 24);
        w.object(ObjectKind::Stack, stack, 64 * PAGE, 20, "thread's stack");
        tops.push(stack + 63 * PAGE);
    }
    for &top in &tops {
        w.touch(100, 0, create, top, 1);
    }
    for i in 0..1000u64 {
        for t in 0..2u32 {
            w.sample(WORK + i * 1_000_000 + u64::from(t), t, work, tops[t as usize] + i % 4000);
        }
    }
    let r = w.on(2);
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.01);
    assert!(r.findings.is_empty(), "{}", r.findings[0].cause.text);
    assert_eq!(r.objects[0].pattern, Pattern::OwnThread);
    // The main thread's stack may hold what others use: a variable that is shared by mistake.
    w.input.objects.name.iter_mut().for_each(|name| *name = "main thread's stack".into());
    assert_eq!(w.on(2).findings.len(), 1);
}

/// A hundred pages by one line, a thousand by two kinds of touches at another: each kind alone has fewer remote samples.
#[test]
fn touches_of_one_line_count_together() {
    let mut w = MadeRecording::new(2);
    let (few, many, work) = (w.own("sys_used", 10), w.own("fill", 20), w.own("work", 30));
    let a = w.array("a", 1000);
    w.touch(100, 0, few, a, 400);
    // Half of the others are read first: two groups.
    for p in 400..1000 {
        if p % 2 == 0 {
            w.fault_as(600 + 2 * p, 0, many, a + p * PAGE, Access::Load);
        }
        w.fault_as(601 + 2 * p, 0, many, a + p * PAGE, Access::Store);
    }
    for i in 0..4000u64 {
        w.sample(WORK + i * 250_000, 1, work, a + (i * 7919 % 1000) * PAGE);
        w.sample(WORK + i * 250_000 + 1, 0, work, a + 17 * PAGE);
    }
    let r = w.on(2);
    let f = &r.findings[0];
    assert_eq!(f.cause.function.as_deref(), Some("fill"), "{:?}", f.evidence);
    let said = &f.evidence[0];
    assert!(said.contains("all 1,000 pages placed by thread 0 (node 0), 600 of them (with most of the remote accesses) at main.c:20"), "{said}");
}

/// Users do not have libc's source: its lines are not shown, and in a static program its functions are not the program's.
#[test]
fn a_source_line_of_libc_is_no_site() {
    const FILE: &str = "./string/../sysdeps/x86_64/multiarch/memset-vec-unaligned-erms.S";
    for runtime in [1, 0] {
        let (mut w, _, a) = made();
        let memset = w.code("memset", FILE, 245, runtime);
        let caller = w.own("clear", 15);
        let chain = w.chain(&[memset, caller]);
        w.touch(100, 0, memset, a, 64);
        let r = sampled(&mut w, a);
        let at = r.objects[0].first_touch[0].at.clone().unwrap_or_default();
        assert!(!at.contains("sysdeps"), "{at}");
        w.input.faults.chain[60] = chain;
        let r = w.on(2);
        assert_eq!(r.objects[0].first_touch[0].at.as_deref(), Some("main.c:15"));
    }
}

#[test]
fn a_real_machine_is_judged_by_where_pages_are() {
    let (mut w, ip, a) = made();
    w.input.meta.machine = machine(2, 2);
    w.touch(100, 0, ip, a, 64);
    // First seen where they were touched, then moved to the user's node.
    w.page_node(WORK + 100, a, 64, 0, 12);
    w.page_node(WORK + 200, a, 64, 1, 12);
    let work = w.own("work", 20);
    for i in 0..400 {
        w.sample(WORK + i, 3, work, a + i % 64 * PAGE);
    }
    let r = w.real();
    assert_eq!(r.remote_share, Some(0.5));
    assert!(r.notes.iter().any(|n| n.contains("64 pages changed their node")), "{:?}", r.notes);
    assert_eq!(r.machine.binding, "recorded");
}

/// The kernel's first call was by one thread alone: its line touched the pages first, and all threads write there later.
#[test]
fn a_kernel_that_was_first_called_serially_is_no_initialisation() {
    let kind = |access: Access| {
        let mut w = MadeRecording::new(4);
        let kernel = w.own("kernel", 10);
        let a = w.array("a", 128);
        w.touch(100, 0, kernel, a, 128);
        for i in 0..1600 {
            let address = a + i / 4 % 128 * PAGE;
            w.sample_as(WORK + i, (i % 4) as u32, kernel, address, Resolution::Exact, access);
        }
        let r = w.on(2);
        kinds(&r).first().map(|k| k.0.to_owned())
    };
    assert_eq!(kind(Access::Load).as_deref(), Some("shared_read_mostly"));
    assert_eq!(kind(Access::Store).as_deref(), Some("shared_read_write"));
}

#[test]
fn a_thread_that_migrates_while_it_initialises_is_still_one_thread() {
    let mut w = MadeRecording::new(4);
    let ip = w.own("init", 10);
    let a = w.array("a", 128);
    w.input.meta.machine = machine(2, 2);
    w.touch(100, 0, ip, a, 128);
    // The second half from the other node.
    w.input.faults.cpu.iter_mut().skip(64).for_each(|cpu| *cpu = 2);
    let work = w.own("work", 20);
    for i in 0..1600 {
        w.sample(WORK + i, (i % 4) as u32, work, a + i / 4 % 128 * PAGE);
    }
    let r = w.real();
    assert_eq!(r.remote_share, Some(0.5));
    assert_eq!(kinds(&r), [("shared_read_mostly", "a")], "{:?}", r.findings);
    let said = &r.findings[0].evidence[0];
    assert!(said.contains("all 128 pages placed by thread 0 (nodes 0, 1)"), "{said}");
}

#[test]
fn pages_seen_but_never_touched_are_unseen() {
    let (mut w, ip, a) = made();
    w.touch(100, 0, ip, a, 16);
    w.page_node(WORK, a, 48, 0, 12);
    let r = sampled(&mut w, a);
    let p = &r.objects[0].pages;
    assert_eq!((p.total, p.touched, p.unseen, p.absent_or_unknown), (64, 16, 32, 16));
}

#[test]
fn threads_that_wander_between_nodes_are_found_on_a_real_machine_only() {
    let (mut w, ip, a) = made();
    w.input.meta.machine = machine(2, 2);
    w.touch(100, 0, ip, a, 64);
    for i in 0..400u64 {
        for t in 0..4u32 {
            w.sample(WORK + i * 10 + u64::from(t), t, ip, a + i % 64 * PAGE);
            *w.samples.cpu.last_mut().unwrap() = ((i / 20 + u64::from(t)) % 4) as u16;
        }
    }
    assert!(w.real().findings.iter().any(|f| f.kind == "unpinned_threads"));
    assert!(!w.on(2).findings.iter().any(|f| f.kind == "unpinned_threads"));
}

/// Two ranks under one recording: each initialises its own array in its first thread. Two threads placed what the report calls one object, and
/// neither of them did it for the other.
#[test]
fn a_serial_first_touch_in_each_of_two_processes_is_serial() {
    let ranks = |kind: ObjectKind, parallel: bool| {
        let mut w = MadeRecording::new(2);
        let second = w.process(NONE, false, 0);
        let (init, work) = (w.own("init", 10), w.own("work", 20));
        let threads = [[0, 1], [w.thread(second), w.thread(second)]];
        let main = w.own("main", 5);
        let site = w.chain(&[main]);
        for (process, pair) in [0, second].into_iter().zip(threads) {
            let a = BASE + u64::from(process) * (64 << 20);
            w.object(kind, a, 1024 * PAGE, 10, "a");
            let last = w.input.objects.process.len() - 1;
            (w.input.objects.process[last], w.input.objects.chain[last]) = (process, site);
            for (half, thread) in pair.into_iter().enumerate() {
                let part = a + half as u64 * 512 * PAGE;
                w.touch(100, if parallel { thread } else { pair[0] }, init, part, 512);
                for i in 0..300u64 {
                    let at = part + (i * 7919 % 300) * (512 * PAGE / 300);
                    w.sample(WORK + i * 1_000_000 + u64::from(thread), thread, work, at);
                }
            }
        }
        w.on(4)
    };
    let r = ranks(ObjectKind::Heap, false);
    assert_eq!(r.objects[0].count, 2, "{:?}", r.objects);
    let f = &r.findings[0];
    assert_eq!((f.kind.as_str(), f.cause.processes), ("serial_first_touch", 2), "{f:?}");
    assert_eq!(
        f.cause.text,
        "in each process, one thread touches the pages of a first, and threads on other nodes use them"
    );
    assert!(
        f.evidence[0].contains("all 2,048 pages placed by one thread in each of 2 processes at main.c:10"),
        "{:?}",
        f.evidence
    );
    assert!(ranks(ObjectKind::Heap, true).findings.is_empty());
    // What processes have in common is placed by both of them.
    let f = &ranks(ObjectKind::Shared, false).findings[0];
    assert_eq!((f.kind.as_str(), f.cause.processes), ("schedule_mismatch", 0), "{f:?}");
}
