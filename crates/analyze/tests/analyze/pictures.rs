//! Data of pictures: strips of pages, the matrix after repairs, trees of calls.

use crate::made_recording::*;
use crate::virtual_machine;
use nearfar_analyze::{Run, StripAxis};
use nearfar_recording::*;

fn on(bins: usize, node: u32) -> Run {
    Run { bins, mix: vec![(Some(node), 100)] }
}

#[test]
fn a_serial_first_touch_and_its_blocks_are_told_apart_along_the_object() {
    let mut w = MadeRecording::new(4);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1024);
    w.touch(100, 0, init, a, 1024);
    w.use_blocked(4, 400, work, a, 1024);
    let r = w.on(2);
    let strip = &r.pictures.strips[0];
    assert_eq!(
        (strip.object, strip.axis, strip.extent, strip.bins),
        (0, StripAxis::Offset, 1024 * PAGE, 256)
    );
    assert_eq!(strip.node, [on(256, 0)]);
    assert_eq!(strip.first_touch, [on(256, 0)]);
    assert_eq!(strip.first_thread.len(), 1);
    assert_eq!(strip.user, [on(128, 0), on(128, 1)]);
    let tids: Vec<_> = strip.user_thread.iter().map(|t| (t.bins, t.tid)).collect();
    assert_eq!(tids, [(64, Some(1000)), (64, Some(1001)), (64, Some(1002)), (64, Some(1003))]);
    assert!(
        strip.remote[..128].iter().all(|&s| s == Some(0.0))
            && strip.remote[128..].iter().all(|&s| s == Some(1.0))
    );
    assert_eq!(strip.repaired.as_deref(), Some(&[on(128, 0), on(128, 1)][..]));
    let repaired = r.pictures.repaired.expect("a repair");
    assert_eq!(repaired.objects, ["a"]);
    assert_eq!(repaired.remote_share, Some(0.0));
    assert!((repaired.node_matrix[1][1] - 0.5).abs() < 1e-9, "{:?}", repaired.node_matrix);
    assert_eq!(r.node_matrix[1][1], 0.0);
}

#[test]
fn pages_in_turns_are_half_of_each_node_in_every_part() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 4096);
    for page in 0..4096u64 {
        w.touch(100 + page, (page % 2) as u32, init, a + page * PAGE, 1);
    }
    w.use_blocked(2, 2000, work, a, 4096);
    let half = |r: &Run| {
        let mut mix = r.mix.clone();
        mix.sort_unstable();
        mix == [(Some(0), 50), (Some(1), 50)]
    };
    let strip = &w.on(2).pictures.strips[0];
    assert!(strip.node.iter().all(half), "{:?}", strip.node);
}

#[test]
fn several_allocations_of_one_line_are_beside_each_other_in_their_order() {
    let mut w = MadeRecording::new(4);
    let work = w.own("work", 20);
    for thread in 0..4u32 {
        let a = w.array("part", 64);
        w.touch(100, thread, work, a, 64);
        for i in 0..200 {
            w.sample(WORK + i * 1_000_000, thread, work, a + (i % 64) * PAGE);
        }
    }
    let r = w.on(2);
    let strip = &r.pictures.strips[0];
    assert_eq!((strip.axis, strip.extent), (StripAxis::Allocations, 4));
    assert_eq!(strip.user, [on(128, 0), on(128, 1)]);
    assert_eq!(strip.node, [on(128, 0), on(128, 1)]);
}

#[test]
fn counted_strips_need_no_samples_and_the_matrix_follows_the_best_repair() {
    let r = virtual_machine::serial(2).real();
    let strip = &r.pictures.strips[0];
    assert!(strip.exact);
    assert_eq!(strip.user, [on(128, 0), on(128, 1)]);
    assert_eq!(r.node_matrix, [[0.5, 0.0], [0.5, 0.0]]);
    if let Some(repaired) = r.pictures.repaired {
        assert_eq!(repaired.remote_share, Some(0.0));
        assert_eq!(repaired.node_matrix, [[0.5, 0.0], [0.0, 0.5]]);
    } else {
        assert!(r.findings.iter().all(|f| f.repairs.is_empty()), "{:?}", r.pictures.repaired_why);
    }
}

#[test]
fn calls_are_trees_from_both_ends() {
    let mut w = MadeRecording::new(1);
    let (main, solve, sweep, other) =
        (w.own("main", 1), w.own("solve", 10), w.own("sweep", 20), w.own("other", 30));
    let a = w.array("a", 64);
    w.touch(100, 0, main, a, 64);
    let through = w.chain(&[sweep, solve, main]);
    let direct = w.chain(&[other, main]);
    for i in 0..400u64 {
        let (code, chain) = if i < 300 { (sweep, through) } else { (other, direct) };
        w.sample(WORK + i * 1_000_000, 0, code, a + (i % 64) * PAGE);
        *w.samples.chain.last_mut().expect("a sample") = chain;
    }
    let r = w.on(1);
    let tree = |nodes: &[nearfar_analyze::CallNode]| -> Vec<(String, Option<usize>, f64, f64)> {
        nodes.iter().map(|n| (n.function.clone(), n.parent, n.share, n.own_share)).collect()
    };
    let named = |name: &str, parent, share, own| (name.to_owned(), parent, share, own);
    assert_eq!(
        tree(&r.pictures.callees),
        [
            named("main", None, 1.0, 0.0),
            named("solve", Some(0), 0.75, 0.0),
            named("sweep", Some(1), 0.75, 0.75),
            named("other", Some(0), 0.25, 0.25),
        ]
    );
    let up = tree(&r.pictures.callers);
    assert_eq!(up[0], named("sweep", None, 0.75, 0.75));
    assert!(up.contains(&named("solve", Some(0), 0.75, 0.0)), "{up:?}");
    assert!(up.contains(&named("other", None, 0.25, 0.25)), "{up:?}");
}

#[test]
fn what_pictures_keep_does_not_grow_with_the_recording() {
    let mut w = MadeRecording::new(4);
    let work = w.own("work", 20);
    for i in 0..400u64 {
        let a = w.array(&format!("a{i}"), 64);
        w.touch(100, (i % 4) as u32, work, a, 64);
        for page in 0..64 {
            w.sample(WORK + i * 1_000_000 + page, (page % 4) as u32, work, a + page * PAGE);
        }
    }
    let r = w.on(2);
    assert_eq!(r.objects.len(), 400);
    assert_eq!(r.pictures.strips.len(), 100);
    assert!(r.pictures.strips.iter().all(|s| s.bins <= 64 && s.remote.len() == s.bins));
    let timeline = r.pictures.timeline.expect("a timeline");
    assert!(
        timeline.parts <= 200 && timeline.objects.len() == 60 && timeline.all.near.len() == timeline.parts
    );
}

fn sum(list: &[u32]) -> f64 {
    list.iter().map(|&n| f64::from(n)).sum::<f64>() / 1e6
}

#[test]
fn any_stretch_of_the_run_is_told_by_object_function_thread_and_nodes() {
    let mut w = MadeRecording::new(2);
    let (first, second) = (w.own("first", 20), w.own("second", 30));
    let (a, b) = (w.array("a", 64), w.array("b", 64));
    w.touch(100, 0, first, a, 64);
    w.touch(100, 0, first, b, 64);
    // In the first half thread 0 is near on `a`, in the second thread 1 is far on `b`.
    for i in 0..8000u64 {
        let (thread, code, at) = if i < 4000 { (0, first, a) } else { (1, second, b) };
        w.sample(WORK + i * 1_000_000, thread, code, at + (i % 64) * PAGE);
    }
    let r = w.on(2);
    let c = r.pictures.timeline.expect("a timeline");
    assert_eq!(c.parts, 200);
    let half = c.parts / 2;
    assert!((sum(&c.all.near[..half]) - 0.5).abs() < 0.01 && sum(&c.all.far[..half]) < 0.01, "{:?}", c.all);
    assert!((sum(&c.all.far[half..]) - 0.5).abs() < 0.01);
    for (row, object) in r.objects.iter().enumerate() {
        let own = c.objects.iter().find(|o| o.row == row).expect("it is followed");
        assert!((sum(&own.weights.near) + sum(&own.weights.far) - object.stall_share).abs() < 1e-3);
        let late = sum(&own.weights.far[half..]);
        assert!(
            if object.name == "b" { (late - 0.5).abs() < 0.01 } else { late < 0.01 },
            "{}: {late}",
            object.name
        );
    }
    for (row, function) in r.functions.iter().enumerate() {
        let own = &c.functions.iter().find(|f| f.row == row).expect("it is followed").weights;
        let all = sum(&own.near) + sum(&own.far) + sum(&own.other) + sum(&own.waiting);
        assert!((all - function.stall_share).abs() < 1e-3, "{}: {all}", function.function);
    }
    for line in r.functions.iter().flat_map(|f| &f.lines) {
        let (near, far) = (line.near_share.unwrap(), line.at_risk.unwrap());
        assert!((near + far - line.stall_share).abs() < 1e-9, "every page's node is known: {line:?}");
        assert!((far / (near + far) - line.remote_share.unwrap()).abs() < 1e-9, "{line:?}");
    }
    let tids: Vec<u32> = c.threads.iter().map(|t| t.tid).collect();
    assert_eq!(tids, [1000, 1001]);
    assert!(
        c.threads[0].cpu[..half].iter().all(Option::is_some)
            && c.threads[0].cpu[half + 1..].iter().all(Option::is_none)
    );
    let by_node: Vec<_> =
        r.pictures.code_by_node.iter().map(|g| (g.node, g.functions[0].row, g.remote_share)).collect();
    let row = |name: &str| r.functions.iter().position(|f| f.function == name).unwrap();
    assert_eq!(by_node, [(Some(0), row("first"), Some(0.0)), (Some(1), row("second"), Some(1.0))]);
    let by_thread: Vec<_> = r.pictures.code_by_thread.iter().map(|g| (g.tid, g.functions[0].row)).collect();
    assert_eq!(by_thread, [(Some(1000), row("first")), (Some(1001), row("second"))]);
    let traffic = &r.pictures.traffic;
    assert!((traffic.flows.iter().map(|f| f.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((traffic.memories[0].far_share - 0.5).abs() < 0.01, "{traffic:?}");
    assert!(
        traffic.flows.iter().all(|f| f.gb_per_s.is_none() && f.load.is_none()),
        "samples of time count no bytes"
    );
    let matrix = |pair: usize| c.node_matrix.iter().map(|p| f64::from(p[pair])).sum::<f64>() / 1e6;
    for (pair, share) in r.node_matrix.iter().flatten().enumerate() {
        assert!((matrix(pair) - share).abs() < 1e-3, "{pair}: {} {share}", matrix(pair));
    }
}

/// A page for 10 MB at most is a promise: a peer's 12 GB recording became 1.6 GB that no browser opened.
#[test]
fn a_hundred_thousand_objects_and_ten_thousand_threads_make_a_page_below_ten_megabytes() {
    let (objects, threads) = (100_000u64, 10_000u32);
    let mut w = MadeRecording::new(threads);
    let work = w.own("work", 20);
    for i in 0..objects {
        let address = BASE + i * 64 * PAGE;
        w.object(ObjectKind::Heap, address, 32 * PAGE, 10, &format!("an_object_with_a_long_name_{i:06}"));
        w.touch(100, (i % u64::from(threads)) as u32, work, address, 1);
    }
    for i in 0..2 * objects {
        // Every part of the first objects is another thread's.
        let object = if i < objects { i } else { i % 100 };
        let address = BASE + object * 64 * PAGE + (i / 7 % 32) * PAGE;
        // An hour.
        w.sample(WORK + i * 18_000_000, (i * 7919 % u64::from(threads)) as u32, work, address);
    }
    let r = w.on(8);
    assert_eq!((r.threads.len(), r.pictures.strips.len()), (10_000, 100));
    let page = nearfar_report::to_html(&r, &Default::default());
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    // For web/bench.mjs, which says how long a browser takes to show it.
    if let Some(file) = std::env::var_os("NEARFAR_LARGE_PAGE") {
        std::fs::write(file, page).unwrap();
    }
}

#[test]
fn pages_that_moved_between_looks_are_shown_over_time() {
    let mut w = MadeRecording::new(2);
    let work = w.own("work", 20);
    let (a, b) = (w.array("a", 64), w.array("b", 64));
    w.touch(100, 0, work, a, 64);
    w.touch(100, 0, work, b, 64);
    w.use_blocked(2, 400, work, a, 64);
    w.use_blocked(2, 200, work, b, 64);
    // Half of `a` moves; `b` is looked at once, its parts one after the other.
    w.page_node(WORK, a, 64, 0, 12);
    w.page_node(WORK + 200_000_000, a, 32, 0, 12);
    w.page_node(WORK + 200_000_000, a + 32 * PAGE, 32, 1, 12);
    w.page_node(WORK + 200_000_000, b, 32, 0, 12);
    w.page_node(WORK + 300_000_000, b + 32 * PAGE, 32, 0, 12);
    let mut machine = machine(2, 2);
    machine.name = "two nodes".into();
    w.input.meta.machine = machine;
    let r = w.real();
    let strip = |name: &str| r.pictures.strips.iter().find(|s| r.objects[s.object].name == name).unwrap();
    let looks = strip("a").over_time.as_ref().expect("its pages were looked at twice");
    assert_eq!((looks.bins, looks.looks.len()), (64, 2));
    assert_eq!(looks.looks[0].node, [on(64, 0)]);
    assert_eq!(looks.looks[1].node, [on(32, 0), on(32, 1)]);
    assert_eq!(looks.looks[0].moved, [0usize; 0]);
    assert_eq!(looks.looks[1].moved, (32..64).collect::<Vec<_>>());
    assert!(looks.looks[0].at_s < looks.looks[1].at_s);
    assert_eq!(strip("b").over_time, None);
}

#[test]
fn pages_that_a_policy_placed_are_not_taken_for_their_touchers() {
    let mut w = MadeRecording::new(2);
    let work = w.own("work", 20);
    let a = w.array("a", 64);
    w.touch(100, 0, work, a, 64);
    w.use_blocked(2, 400, work, a, 64);
    // Interleaved, and looked at one page of four.
    for page in (0..64).step_by(4) {
        w.page_node(WORK, a + page * PAGE, 1, i16::from(page % 8 == 0), 12);
    }
    let mut machine = machine(2, 2);
    machine.name = "two nodes".into();
    w.input.meta.machine = machine;
    let r = w.real();
    let strip = r.pictures.strips.iter().find(|s| r.objects[s.object].name == "a").unwrap();
    let unknown = || Run { bins: 3, mix: vec![(None, 100)] };
    assert_eq!(strip.node[..4], [on(1, 1), unknown(), on(1, 0), unknown()], "{:?}", strip.node);
    assert_eq!(strip.first_touch, [on(64, 0)], "who touched them is known");
}
