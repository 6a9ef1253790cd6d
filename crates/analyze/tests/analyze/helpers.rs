//! Objects of programs that allocate through functions of their own.

use super::made_recording::*;
use nearfar_analyze::{ObjectRow, Pattern, Report};
use nearfar_recording::*;

/// A call: `inner` at its line, inlined in `outer` at the line that called it.
fn inlined(w: &mut MadeRecording, inner: (&str, u32), outer: (&str, u32)) -> u32 {
    let location = w.own(inner.0, inner.1);
    let mut symbol = w.input.symbols.row(w.input.symbols.len() - 1);
    (symbol.depth, symbol.function, symbol.line) = (1, outer.0.to_owned(), outer.1);
    w.input.symbols.push(symbol);
    location
}

/// What was found of a frame of a chain.
fn received(w: &mut MadeRecording, chain: u32, location: u32, depth: u16, name: &str, handed_on: u8) {
    let how = "source".to_owned();
    w.input.site_names.push(SiteName { chain, name: name.to_owned(), how, location, depth, handed_on });
}

/// A block of a megabyte that came through `chain`, used by both threads.
fn block(w: &mut MadeRecording, chain: u32, number: u64) {
    let address = BASE + number * (2 << 20);
    let object = w.object(ObjectKind::Heap, address, 1 << 20, 1000 + number, "");
    w.input.objects.chain[object as usize] = chain;
    let init = w.own("init", 500);
    w.touch(10_000, 0, init, address, 256);
    let work = w.own("work", 600);
    w.use_blocked(2, 50, work, address, 256);
}

/// Name, line and helpers of each heap row.
fn rows(r: &Report) -> Vec<(String, String, Vec<String>)> {
    let heap = r.objects.iter().filter(|o| o.kind == "heap");
    let base =
        |at: &Option<String>| at.as_deref().unwrap_or("?").rsplit('/').next().unwrap_or("?").to_owned();
    let mut rows: Vec<_> =
        heap.map(|o| (o.name.clone(), base(&o.allocated_at), o.allocated_through.clone())).collect();
    rows.sort();
    rows
}

fn row(name: &str, line: u32, through: &[&str]) -> (String, String, Vec<String>) {
    (name.to_owned(), format!("main.c:{line}"), through.iter().map(|&t| t.to_owned()).collect())
}

/// Findings and repairs refer to objects by name.
#[test]
fn allocations_of_one_line_are_named_after_their_callers_where_there_are_several() {
    let names = |callers: &[u32]| {
        let mut w = MadeRecording::new(2);
        let take = w.own("take", 5);
        for (number, &line) in (0..).zip(callers) {
            let caller = w.own("start", line);
            let chain = w.chain(&[take, caller]);
            block(&mut w, chain, number);
        }
        rows(&w.on(2)).into_iter().map(|row| row.0).collect::<Vec<_>>()
    };
    let base = |name: &str| format!("allocation at main.c:5{name}");
    assert_eq!(names(&[20]), [base("")]);
    assert_eq!(names(&[20, 30]), [base(" called from main.c:20"), base(" called from main.c:30")]);
}

/// A library without debug information: its functions have names, at best.
#[test]
fn an_allocation_without_a_line_is_named_after_its_function_and_has_the_line_that_led_to_it() {
    let told = |frames: &[&[&str]], main: bool| {
        let mut w = MadeRecording::new(2);
        for (number, frames) in (0..).zip(frames) {
            let mut chain: Vec<u32> = frames.iter().map(|function| w.code(function, "", 0, 0)).collect();
            chain.extend(main.then(|| w.own("main", 30)));
            let chain = w.chain(&chain);
            block(&mut w, chain, number);
        }
        let r = w.on(2);
        r.objects.iter().map(|o| (o.name.clone(), o.allocated_for.clone())).collect::<Vec<_>>()
    };
    let line = Some("main.c:30".to_owned());
    assert_eq!(told(&[&["make_table"]], true), [("allocation in make_table".to_owned(), line.clone())]);
    // The inner function has no name, as a static one of a stripped library; further out are more than are kept.
    let mut deep = vec!["", "setup"];
    deep.extend(["solve"; 12]);
    assert_eq!(told(&[&deep], true), [("allocation in setup".to_owned(), line.clone())]);
    assert_eq!(told(&[&["", ""]], true), [("allocation in main".to_owned(), line)]);
    assert_eq!(told(&[&["", ""]], false), [("allocation at app+0x0".to_owned(), None)]);
    // Two places in one function.
    let names: Vec<String> =
        told(&[&["make_table"], &["make_table"]], true).into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["allocation in make_table at app+0x0", "allocation in make_table at app+0x10"]);
}

/// An allocator maps memory when one of many lines asks it for a little; what it gives out of that is anybody's.
#[test]
fn memory_that_an_allocator_maps_in_advance_is_one_object_of_no_line() {
    let told = |function: &str| {
        let mut w = MadeRecording::new(2);
        for (number, line) in [(0, 20), (1, 30)] {
            let (map, caller) = (w.code(function, "", 0, 0), w.own("parse", line));
            let chain = w.chain(&[map, caller]);
            block(&mut w, chain, number);
        }
        let r = w.on(2);
        r.objects
            .iter()
            .map(|o| (o.name.clone(), o.name_from.clone(), o.count, o.allocated_at.clone()))
            .collect::<Vec<_>>()
    };
    for (function, name) in
        [("_PyObject_ArenaMmap", "Python's small objects"), ("_rjem_je_pages_map", "jemalloc's memory")]
    {
        assert_eq!(told(function), [(name.to_owned(), "allocator".to_owned(), 2, None)]);
    }
    assert_eq!(told("map_pages").len(), 2);
}

/// Objects of the program reach from one piece that the allocator mapped into the next: laid over one another, all threads would use all.
#[test]
fn who_uses_what_of_an_allocators_memory_is_seen_across_its_pieces() {
    const PIECES: u64 = 20;
    let pattern = |function: &str| {
        let mut w = MadeRecording::new(2);
        let (map, init, work) = (w.code(function, "", 0, 0), w.own("init", 10), w.own("work", 20));
        for piece in 0..PIECES {
            let chain = w.chain(&[map]);
            let object = w.object(ObjectKind::Heap, BASE + piece * 256 * PAGE, 256 * PAGE, 1000 + piece, "");
            w.input.objects.chain[object as usize] = chain;
            w.touch(10_000 + 100 * piece, 0, init, BASE + piece * 256 * PAGE, 256);
        }
        w.use_blocked(2, 2000, work, BASE, PIECES * 256);
        let r = w.on(2);
        assert_eq!(r.objects[0].allocations, PIECES);
        r.objects[0].pattern
    };
    assert_eq!(pattern("je_pages_map"), Pattern::Blocked);
    // Of other functions each is an object of its own.
    assert_ne!(pattern("map_pages"), Pattern::Blocked);
}

/// Go maps its memory without its C library, piece by piece.
#[test]
fn anonymous_memory_of_go_is_go_s() {
    let name = |function: &str| {
        let mut w = MadeRecording::new(2);
        let (init, work) = (w.own("main.fill", 10), w.own("main.work", 20));
        w.code(function, "", 0, 0);
        // Two pieces, and what is only reserved.
        for (piece, flags) in [(0, 3), (1, 3), (2, 0)] {
            let (start, end) = (BASE + piece * 512 * PAGE, BASE + (piece + 1) * 512 * PAGE);
            let name = "//anon".into();
            w.input.mappings.push(Mapping {
                time_ns: 5,
                process: 0,
                start,
                end,
                offset: 0,
                module: NONE,
                flags,
                name,
            });
            w.object(ObjectKind::Anonymous, start, end - start, 5, "anonymous mapping");
        }
        w.touch(10_000, 0, init, BASE, 1024);
        w.use_blocked(2, 2000, work, BASE, 1024);
        let used = |o: &ObjectRow| (o.name.clone(), o.allocations, o.bytes);
        w.on(2).objects.iter().map(used).collect::<Vec<_>>()
    };
    assert_eq!(name("runtime.mallocgc"), [("Go's memory".to_owned(), 2, 1024 * PAGE)]);
    assert_eq!(name("main.f").len(), 2);
}

#[test]
fn a_helper_that_was_inlined_is_seen_through() {
    let mut w = MadeRecording::new(2);
    for (number, name, line) in [(0, "edges", 100), (1, "seen", 101)] {
        let call = inlined(&mut w, ("memory", 38), ("bfs", line));
        let chain = w.chain(&[call]);
        received(&mut w, chain, call, 0, "p", 1);
        received(&mut w, chain, call, 1, name, 0);
        block(&mut w, chain, number);
    }
    let through = ["memory (main.c:38)"];
    assert_eq!(rows(&w.on(2)), [row("edges", 100, &through), row("seen", 101, &through)]);
}

#[test]
fn helpers_of_helpers_are_seen_through_and_a_field_keeps_what_it_gets() {
    let mut w = MadeRecording::new(2);
    let take = w.own("take", 10);
    let pool = w.own("pool", 20);
    let build = w.own("build", 30);
    let make = w.own("make", 40);
    let main = w.own("main", 50);
    let chain = w.chain(&[take, pool, build]);
    received(&mut w, chain, take, 0, "", 1);
    received(&mut w, chain, pool, 0, "q", 1);
    received(&mut w, chain, build, 0, "table", 0);
    block(&mut w, chain, 0);
    // `return g->cells = take(n)`.
    let chain = w.chain(&[take, make, main]);
    received(&mut w, chain, take, 0, "", 1);
    received(&mut w, chain, make, 0, "g->cells", 1);
    received(&mut w, chain, main, 0, "grid", 0);
    block(&mut w, chain, 1);
    let [a, b] = ["take (main.c:10)", "pool (main.c:20)"];
    assert_eq!(rows(&w.on(2)), [row("g->cells", 40, &[a]), row("table", 30, &[b, a])]);
}

#[test]
fn without_a_source_a_helper_is_known_by_its_name_and_its_callers() {
    let mut w = MadeRecording::new(2);
    let malloc = w.own("xmalloc", 10);
    let solve = w.own("solve", 20);
    for (number, line) in [(0, 100), (1, 101)] {
        let main = w.own("main", line);
        let chain = w.chain(&[malloc, main]);
        received(&mut w, chain, malloc, 0, "p", 2);
        block(&mut w, chain, number);
        // Not a helper: its caller says nothing of what its `x` is for.
        let main = w.own("main", line + 100);
        let chain = w.chain(&[solve, main]);
        received(&mut w, chain, solve, 0, "x", 2);
        block(&mut w, chain, 2 + number);
    }
    let through = ["xmalloc (main.c:10)"];
    assert_eq!(
        rows(&w.on(2)),
        [
            row("allocation at main.c:100", 100, &through),
            row("allocation at main.c:101", 101, &through),
            row("x called from main.c:200", 20, &[]),
            row("x called from main.c:201", 20, &[]),
        ]
    );
}

#[test]
fn threads_of_a_parallel_region_share_a_row_although_only_one_of_them_knows_who_called() {
    let mut w = MadeRecording::new(2);
    let region = w.own("solve [omp parallel]", 20);
    let main = w.own("main", 100);
    for (number, frames) in [(0, vec![region, main]), (1, vec![region])] {
        let chain = w.chain(&frames);
        received(&mut w, chain, region, 0, "mine", 0);
        block(&mut w, chain, number);
    }
    assert_eq!(rows(&w.on(2)), [row("mine", 20, &[])]);
}

#[test]
fn recordings_that_do_not_say_which_frame_a_name_is_of_keep_it() {
    let mut w = MadeRecording::new(2);
    let memory = w.own("memory", 38);
    let main = w.own("main", 100);
    let chain = w.chain(&[memory, main]);
    received(&mut w, chain, NONE, 0, "p", 2);
    block(&mut w, chain, 0);
    assert_eq!(rows(&w.on(2)), [row("p", 38, &[])]);
}
