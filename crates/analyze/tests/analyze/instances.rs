//! Several objects that one line allocates, and memory that the program did not allocate.

use crate::made_recording::*;
use nearfar_analyze::{Pattern, Repair, Report};
use nearfar_recording::*;

/// Pages of each object: more than caches are taken to hold.
const PAGES: u64 = 4096;

/// Four objects of one line, all initialised by the first thread; `user` says which thread takes sample `i` of object `k`.
fn four_of_a_line(user: impl Fn(u32, u64) -> u32) -> Report {
    let mut w = MadeRecording::new(4);
    let (init, work, allocate) = (w.own("init", 10), w.own("work", 20), w.own("resize", 5));
    let chain = w.chain(&[allocate]);
    for k in 0..4u32 {
        let address = BASE + u64::from(k) * (64 << 20);
        let object = w.object(ObjectKind::Heap, address, PAGES * PAGE, 10 + u64::from(k), "parts");
        w.input.objects.chain[object as usize] = chain;
        w.touch(1000 + 10_000 * u64::from(k), 0, init, address, PAGES);
        for i in 0..400 {
            let offset = w.random() % (PAGES * PAGE);
            w.sample(WORK + i * 1_000_000 + u64::from(k), user(k, i), work, address + offset);
        }
    }
    w.on(2)
}

#[test]
fn a_vector_for_each_thread_is_each_threads_own() {
    let r = four_of_a_line(|k, _| k);
    let o = &r.objects[0];
    assert_eq!((o.name.as_str(), o.count, o.pattern), ("parts", 4, Pattern::OwnThread));
    let repairs: Vec<Repair> = r.findings.iter().flat_map(|f| &f.repairs).map(|p| p.repair).collect();
    assert_eq!(repairs, [Repair::WhereUsed]);
    let part = &r.findings[0].repairs[0];
    assert_eq!((&*part.turns, &part.not_placeable), (&[0, 0, 1, 1][..], &None));
    assert!(!r.findings[0].advice.to_lowercase().contains("interleave"), "{}", r.findings[0].advice);
}

/// How two objects of one line look that the first thread fills before two others use one each. `code` makes what touches
/// their pages first and what stores to them then. A fault knows who called it, a sample does not.
fn filled_by(code: impl Fn(&mut MadeRecording) -> (u32, u32)) -> Pattern {
    let mut w = MadeRecording::new(3);
    let (touch, fill) = code(&mut w);
    let (work, allocate) = (w.own("work", 20), w.own("resize", 5));
    let chain = w.chain(&[touch, allocate]);
    for k in 0..2u32 {
        let address = of_one_line(&mut w, u64::from(k), "parts", chain);
        w.touch(1000 + 10_000 * u64::from(k), 0, touch, address, PAGES);
        w.input.faults.chain.fill(chain);
        for i in 0..400 {
            let offset = w.random() % (PAGES * PAGE);
            let time = WORK + i * 1_000_000 + u64::from(k);
            w.sample_as(time, 0, fill, address + offset, Resolution::Exact, Access::Store);
            w.sample(time + 10, 1 + k, work, address + offset);
        }
    }
    w.on(2).objects[0].pattern
}

/// memset fills both, and few of its samples say who called it: they are the initialisation all the same.
#[test]
fn what_a_runtimes_function_fills_is_no_use_of_it() {
    let with = |filled_in: &'static str| filled_by(move |w| (w.libc("memset"), w.libc(filled_in)));
    assert_eq!(with("memset"), Pattern::OwnThread);
    // Another function of the library came later: it may be a use.
    assert_ne!(with("memcpy"), Pattern::OwnThread);
    // Of a library without symbols an instruction is known by its place alone.
    let nameless = |w: &mut MadeRecording| w.libc("");
    assert_eq!(
        filled_by(|w| {
            let fill = nameless(w);
            (fill, fill)
        }),
        Pattern::OwnThread
    );
    assert_ne!(filled_by(|w| (nameless(w), nameless(w))), Pattern::OwnThread);
}

/// `std::fill` is compiled into the program, from a header.
#[test]
fn what_a_headers_function_fills_is_no_use_of_it() {
    let at = |w: &mut MadeRecording, function: &str, line| {
        w.code(function, "/usr/include/c++/12/bits/stl_algobase.h", line, 0)
    };
    let with = |filled_in| filled_by(|w| (at(w, "std::__fill_a1", 922), at(w, filled_in, 924)));
    assert_eq!(with("std::__fill_a1"), Pattern::OwnThread);
    assert_ne!(with("std::__reverse"), Pattern::OwnThread);
}

/// The address of the `k`th object that a call chain allocates.
fn of_one_line(w: &mut MadeRecording, k: u64, name: &str, chain: u32) -> u64 {
    let address = BASE + k * (64 << 20);
    let object = w.object(ObjectKind::Heap, address, PAGES * PAGE, 10 + k, name);
    w.input.objects.chain[object as usize] = chain;
    address
}

/// Of each other's offsets the two say nothing: in the first each thread has its half, of the second every thread uses all,
/// and what is remote is on it.
#[test]
fn the_pattern_of_objects_of_one_line_is_that_of_the_one_with_far_pages() {
    let pattern = |far: u64| {
        let mut w = MadeRecording::new(2);
        let (init, work, allocate) = (w.own("init", 10), w.own("work", 20), w.own("resize", 5));
        let chain = w.chain(&[allocate]);
        for k in 0..2u64 {
            let address = of_one_line(&mut w, k, "parts", chain);
            // Half of each by each thread: what is used in blocks is near where the halves are the users'.
            for part in 0..2u64 {
                let thread = if k == 0 && far == 0 { 1 - part } else { part };
                let begin = address + part * PAGES / 2 * PAGE;
                w.touch(1000 + 10_000 * k + part, thread as u32, init, begin, PAGES / 2);
            }
        }
        w.use_blocked(2, 1000, work, BASE, PAGES);
        w.use_all_over(2, if far == 0 { 100 } else { 1000 }, work, BASE + (64 << 20), PAGES);
        w.on(2).objects[0].pattern
    };
    assert_eq!(pattern(0), Pattern::Blocked);
    assert_eq!(pattern(1), Pattern::AllOver);
}

/// Each of two objects is used in halves, by thread 0 the first of one and the second of the other. Page by page each has one
/// user, at the offsets of both every thread is: that is what turns look like.
#[test]
fn objects_of_one_line_that_threads_use_in_different_halves_are_used_in_blocks() {
    let pattern = |far: bool, each: u64| {
        let mut w = MadeRecording::new(2);
        let (init, work, allocate) = (w.own("init", 10), w.own("work", 20), w.own("resize", 5));
        let chain = w.chain(&[allocate]);
        for k in 0..2u64 {
            let address = of_one_line(&mut w, k, "parts", chain);
            for part in 0..2u64 {
                let (user, begin) = ((part + k) % 2, address + part * PAGES / 2 * PAGE);
                w.touch(1000 + 10_000 * k + part, if far { 0 } else { user as u32 }, init, begin, PAGES / 2);
                for i in 0..each {
                    // The same pages again and again, so that each is known to have one user.
                    let page = i % 4 * (PAGES / 8);
                    w.sample(WORK + i * 1_000_000 + 2 * k + part, user as u32, work, begin + page * PAGE);
                }
            }
        }
        let r = w.on(2);
        (r.objects[0].pattern, r.findings.iter().map(|f| f.advice.clone()).collect::<Vec<_>>())
    };
    let (found, advice) = pattern(true, 1000);
    assert_eq!(found, Pattern::Blocked, "{advice:?}");
    assert!(
        advice.len() == 1 && !advice[0].contains("turn") && !advice[0].contains("nterleave"),
        "{advice:?}"
    );
    // Where nothing is far, too.
    assert_eq!(pattern(false, 1000).0, Pattern::Blocked);
    // So few samples of each that neither is known by itself: together they say nothing of turns.
    assert_eq!(pattern(true, 20).0, Pattern::Unknown);
}

/// Page by page by two threads in both objects: only the pages themselves show it, and they do.
#[test]
fn turns_in_each_of_several_objects_are_turns() {
    let mut w = MadeRecording::new(2);
    let (init, work, allocate) = (w.own("init", 10), w.own("work", 20), w.own("resize", 5));
    let chain = w.chain(&[allocate]);
    for k in 0..2u64 {
        let address = of_one_line(&mut w, k, "parts", chain);
        w.touch(1000 + 10_000 * k, 0, init, address, PAGES);
        for i in 0..8000 {
            let page = w.random() % PAGES;
            w.sample(WORK + i * 100_000 + k, ((page + k) % 2) as u32, work, address + page * PAGE);
        }
    }
    assert_eq!(w.on(2).objects[0].pattern, Pattern::Cyclic);
}

#[test]
fn objects_that_every_thread_uses_are_not_each_threads_own() {
    let r = four_of_a_line(|k, i| ((u64::from(k) + i) % 4) as u32);
    assert_eq!(r.objects[0].pattern, Pattern::AllOver);
    // All by one thread.
    assert_eq!(four_of_a_line(|_, _| 2).objects[0].pattern, Pattern::OneThread);
}

/// Two arrays of one line, used in blocks by two threads: the first is initialised as it is used, the second by one thread.
fn two_of_a_line(name: &str) -> Report {
    let mut w = MadeRecording::new(2);
    let (init, serial, work) = (w.own("init", 10), w.own("init", 12), w.own("work", 20));
    let allocate = w.own("main", 5);
    let chain = w.chain(&[allocate]);
    for k in 0..2u64 {
        let address = of_one_line(&mut w, k, name, chain);
        for part in 0..2u64 {
            let (ip, thread) = if k == 0 { (init, part as u32) } else { (serial, 0) };
            w.touch(1000 + 10_000 * k + part, thread, ip, address + part * PAGES / 2 * PAGE, PAGES / 2);
        }
        w.use_blocked(2, 1000, work, address, PAGES);
    }
    w.on(2)
}

#[test]
fn of_two_arrays_of_one_line_the_one_that_is_placed_wrong_is_the_finding() {
    let r = two_of_a_line("a|b");
    let share = |name: &str| r.objects.iter().find(|o| o.name == name).expect("a row").remote_share;
    assert_eq!((share("a"), share("b")), (Some(0.0), Some(0.5)));
    assert_eq!(r.findings.len(), 1, "{:?}", r.findings);
    let f = &r.findings[0];
    assert_eq!((f.kind.as_str(), f.objects.join(", ")), ("serial_first_touch", "b".to_owned()));
    assert_eq!(f.cause.at.as_deref(), Some("main.c:12"));
    // A placement file names lines, and this one allocates both.
    assert!(f.repairs[0].not_placeable.as_ref().is_some_and(|why| why.contains("other objects")));
    let r = two_of_a_line("rows");
    assert_eq!(r.findings[0].objects, ["rows (2 of 2)"]);
}

/// `double *u = malloc(n), *v = malloc(n);` in `main`: what calls `main` has no line, so the line is still what names both.
#[test]
fn two_variables_of_one_line_of_main_are_named_by_that_line() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let (allocate, start) = (w.own("main", 5), w.code("_start", "", 0, 0));
    let chain = w.chain(&[allocate, start]);
    for (k, name) in ["u", "v"].into_iter().enumerate() {
        let address = BASE + k as u64 * (64 << 20);
        let object = w.object(ObjectKind::Heap, address, PAGES * PAGE, 10 + k as u64, name);
        w.input.objects.chain[object as usize] = chain;
        w.touch(1000 + 10_000 * k as u64, 0, init, address, PAGES);
        w.use_blocked(2, 1000, work, address, PAGES);
    }
    let r = w.on(2);
    let parts: Vec<_> = r.findings.iter().flat_map(|f| &f.repairs).collect();
    assert!(!parts.is_empty(), "{:?}", r.findings);
    for part in parts {
        assert_eq!((part.allocated_at.as_deref(), &part.not_placeable), (Some("main.c:5"), &None));
    }
}

/// Two hundred times a megabyte, each freed before the next.
#[test]
fn an_object_is_as_large_as_what_lived_of_it_at_a_time() {
    let mut w = MadeRecording::new(1);
    let work = w.own("work", 20);
    for i in 0..200u64 {
        let born = 1000 * i;
        let object = w.object(ObjectKind::Heap, BASE + (i % 3) * (4 << 20), 1 << 20, born, "start_");
        // The last two live together.
        w.end(object, if i < 198 { born + 500 } else { 10 * WORK });
    }
    w.use_blocked(1, 100, work, BASE, 256);
    let r = w.on(2);
    let o = r.objects.iter().find(|o| o.name == "start_").expect("a row");
    assert_eq!((o.bytes, o.count, o.allocations), (2 << 20, 2, 200));
}

/// The loader places a library's data, on whatever node it ran; nothing in the program's source does.
#[test]
fn a_library_is_no_finding() {
    let file = |name: &str, flags: u8| {
        let mut w = MadeRecording::new(2);
        w.input.meta.machine = machine(2, 1);
        let work = w.own("work", 20);
        let at = BASE + (1 << 30);
        let row = |start: u64, end: u64, flags: u8| Mapping {
            time_ns: 5,
            process: 0,
            start,
            end,
            offset: 0,
            module: 0,
            flags,
            name: name.into(),
        };
        w.input.mappings.push(row(at, at + PAGES * PAGE, 3));
        w.input.mappings.push(row(at - PAGE, at, flags));
        w.page_node(WORK / 2, at, PAGES as u32, 0, 12);
        w.use_all_over(2, 1000, work, at, PAGES);
        w.real()
    };
    let r = file("/lib/libm.so.6", 5);
    assert_eq!((r.objects[0].name.as_str(), r.findings.len()), ("/lib/libm.so.6", 0), "{:?}", r.findings);
    // A file of data that the program mapped is its own.
    assert_eq!(file("/data/table.bin", 3).findings.len(), 1);
}

#[test]
fn a_remote_share_of_few_samples_is_unknown() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let (a, b) = (w.array("a", PAGES), w.array("b", PAGES));
    w.touch(1000, 0, init, a, PAGES);
    w.touch(10_000, 0, init, b, PAGES);
    w.use_all_over(2, 1000, work, a, PAGES);
    w.use_all_over(2, 2, work, b, PAGES);
    let r = w.on(2);
    let share = |name: &str| {
        let o = r.objects.iter().find(|o| o.name == name).expect("a row");
        (o.remote_share.is_some(), o.remote_share_ci.is_some())
    };
    assert_eq!((share("a"), share("b")), ((true, true), (false, true)));
}
