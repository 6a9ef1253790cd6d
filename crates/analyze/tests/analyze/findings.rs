//! Findings and their gains: own, within the bound, of what one change repairs; and what is not a finding.

use crate::cached::cached;
use crate::made_recording::*;
use crate::whatif::waiting;
use nearfar_analyze::{Pattern, Repair, Report, Verdict};
use nearfar_recording::*;

const EPOCHS: u64 = 256;

/// One array of `pages` pages that thread 0 initialises at `line` and four threads use in parts, `lines` lines a page.
fn serial(w: &mut MadeRecording, name: &str, line: u32, pages: u64, lines: u32) -> u64 {
    let (init, work) = (w.own("init", line), w.own("work", 20));
    let a = w.array(name, pages);
    w.touch(100, 0, init, a, pages);
    for page in 0..pages {
        let at = ((page * EPOCHS / pages) as u32, 1);
        w.moves(at, (page * 4 / pages) as u32, work, a + page * PAGE, 0, lines);
    }
    a
}

fn bound(r: &Report) -> f64 {
    r.what_if.as_ref().expect("predictions").all_local.ratio
}

/// Every prediction of a report is within the bound, and findings are in the order of their gains.
fn consistent(r: &Report) {
    let w = r.what_if.as_ref().expect("predictions");
    let findings = r.findings.iter().filter_map(|f| f.predicted.as_ref());
    let all = findings.chain(w.repairs.iter().map(|r| &r.predicted));
    for p in all.chain(w.best.iter().chain(&w.placeable).map(|c| &c.predicted)) {
        assert!(p.ratio >= bound(r) - 1e-9, "{p:?} is better than {:?}", w.all_local);
    }
    let ratios: Vec<f64> = r.findings.iter().filter_map(|f| Some(f.predicted.as_ref()?.ratio)).collect();
    assert!(ratios.windows(2).all(|w| w[0] <= w[1]), "{ratios:?}");
}

/// Thirty fields of one class, each with too little to matter: one loop of one constructor placed them, and one change
/// repairs them.
#[test]
fn thirty_fields_of_one_class_are_judged_together() {
    let mut w = waiting();
    for field in 0..30u32 {
        let (init, work) = (w.own("Fields::Fields", 10 + field), w.own("work", 100 + field));
        let a = w.array(&format!("field{field}"), 32);
        w.touch(100, 0, init, a, 32);
        for page in 0..32u64 {
            let epoch = (u64::from(field) * 32 + page) % EPOCHS;
            w.moves((epoch as u32, 1), (page / 8) as u32, work, a + page * PAGE, 0, 200);
        }
    }
    let r = w.real();
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert_eq!((r.findings.len(), r.findings[0].objects.len()), (1, 30));
    let gain = 1.0 - r.findings[0].predicted.as_ref().expect("a gain").ratio;
    assert!(gain > 0.1, "{gain}");
    assert_eq!(r.findings[0].repairs.len(), 30);
    consistent(&r);
}

/// Threads take turns on the pages that others touched first, and the emulator gave one of them more to do. A schedule would
/// also divide that work anew, which is not what memory gains.
#[test]
fn no_finding_gains_more_than_every_line_local() {
    let r = turns_on_others_pages(false);
    consistent(&r);
    // One loop is one change: not a finding for each array.
    let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
    assert_eq!((r.verdict, kinds), (Verdict::Affected, vec!["schedule_mismatch"]), "{}", r.verdict_why);
    let what_if = r.what_if.as_ref().unwrap();
    let schedules = what_if.repairs.iter().filter(|part| part.repair == Repair::SameSchedule);
    assert_eq!(schedules.count(), 1, "{:?}", what_if.repairs);
    // The bound is the time of the same work with every line where it is used, and nothing is better. The report's own bound
    // cannot tell: it is as good as the best of what it predicts.
    let seconds = |r: &Report| r.time.as_ref().expect("a time").seconds;
    let local = seconds(&turns_on_others_pages(true)) / seconds(&r);
    assert!((bound(&r) - local).abs() < 0.01, "{} is not {local}", bound(&r));
    for part in &what_if.repairs {
        assert!(part.predicted.ratio > local - 0.01, "{part:?} is better than {local}");
        assert!(part.objects != ["small"] || part.predicted.ratio > 0.95, "{part:?}");
    }
}

/// Three arrays, of whose pages four threads take a line each in turn; thread 0 has more operations. With `local`, each thread's
/// lines come from its own node.
fn turns_on_others_pages(local: bool) -> Report {
    let mut w = waiting();
    // A narrow link between the nodes, or it would not matter where the pages are.
    w.input.meta.machine.figures.links[0].gbs_per_direction.value = 2.0;
    let work = w.own("work", 20);
    let mut arrays = Vec::new();
    for (name, line, pages) in [("ranks", 10, 512u64), ("sums", 11, 512), ("small", 12, 40)] {
        let init = w.own(&format!("init_{name}"), line);
        let a = w.array(name, pages);
        for page in 0..pages {
            w.touch(100 + page, (page * 4 / pages) as u32, init, a + page * PAGE, 1);
        }
        arrays.push((a, pages));
    }
    for (a, pages) in arrays {
        for page in 0..pages {
            for turn in 0..4u64 {
                let at = (((page * 4 + turn) % EPOCHS) as u32, 1);
                let thread = (page + turn) % 4;
                let page_node = if local { thread / 2 } else { page * 4 / pages / 2 };
                w.moves(at, thread as u32, work, a + page * PAGE + turn * 64, page_node as i16, 40);
            }
        }
    }
    // Most are fetched ahead, in order: what a static schedule may be advised for. The others are waited for.
    let ahead = |lines: &u64| lines * 6 / 10;
    w.input.epoch_traffic.prefetch_lines = w.input.epoch_traffic.read_lines.iter().map(ahead).collect();
    for epoch in 0..EPOCHS as u32 {
        w.works(epoch, 1, 0, 40_000);
    }
    w.real()
}

/// Two arrays on one node: its memory has too much to do, and moving either relieves it.
#[test]
fn what_a_finding_gains_after_better_ones_is_said() {
    let mut w = waiting();
    serial(&mut w, "a", 10, 1024, 1000);
    let init = w.own("setup", 11);
    let work = w.own("more", 21);
    let b = w.array("b", 1024);
    w.touch(5000, 0, init, b, 1024);
    for page in 0..1024u64 {
        w.moves(((page / 4) as u32, 1), (page / 256) as u32, work, b + page * PAGE, 0, 900);
    }
    let r = w.real();
    assert_eq!(r.findings.len(), 2, "{:?}", r.findings);
    consistent(&r);
    let best = r.what_if.as_ref().unwrap().best.as_ref().expect("a best").predicted.ratio;
    let first = r.findings[0].predicted.as_ref().unwrap().ratio;
    let second = &r.findings[1];
    let after = second.predicted_after_better.as_ref().or(second.predicted.as_ref()).unwrap().ratio;
    assert!(r.findings[0].predicted_after_better.is_none());
    // One after the other gives what both together give.
    assert!((first * after - best).abs() < 0.02, "{first} × {after} is not {best}");
}

/// Counted from the program's start, a table's initialisation is among the counts.
#[test]
fn a_table_that_is_only_read_after_its_initialisation_is_offered_copies_when_counted() {
    let mut w = waiting();
    let (init, work) = (w.own("init", 10), w.own("look_up", 20));
    let table = w.array("table", 256);
    w.touch(100, 0, init, table, 256);
    for page in 0..256u64 {
        w.moves((page as u32, 0), 0, init, table + page * PAGE, 0, 64);
        *w.samples.access.last_mut().unwrap() = Access::Store as u8;
        // Each line was written back once.
        w.input.page_traffic.write_lines[page as usize * 5] = 64;
        for thread in 0..4 {
            w.moves((page as u32, 0), thread, work, table + page * PAGE, 0, 400);
        }
    }
    let r = w.real();
    assert_eq!(r.objects[0].pattern, Pattern::AllOver);
    assert_eq!(r.findings[0].kind, "shared_read_mostly", "{:?}", r.findings[0]);
    let tried = &r.what_if.as_ref().unwrap().repairs;
    assert!(tried.iter().any(|t| t.objects == ["table"] && t.repair == Repair::Replicate), "{tried:?}");
}

/// Filled, then shuffled in place: written more than once, and never after another thread began to read.
#[test]
fn a_table_that_one_thread_sets_up_in_two_loops_is_only_read_afterwards() {
    let with = |later: u64| {
        let mut w = MadeRecording::new(4);
        let (fill, shuffle, look) = (w.own("fill", 10), w.own("shuffle", 12), w.own("look_up", 20));
        let table = w.array("table", 1024);
        w.touch(100, 0, fill, table, 1024);
        for i in 0..200 {
            let address = table + w.random() % (1024 * PAGE);
            w.sample_as(WORK - 1_000_000 + i + later, 0, shuffle, address, Resolution::Exact, Access::Store);
        }
        w.use_all_over(4, 500, look, table, 1024);
        w.on(2).findings.into_iter().next().expect("a finding").kind
    };
    assert_eq!(with(0), "shared_read_mostly");
    assert_eq!(with(50_000_000), "shared_read_write");
}

/// A counted loop loads what it then stores to: its samples name the load, and its stores show only in the lines that are
/// written back.
#[test]
fn a_table_that_is_written_back_again_and_again_is_not_only_read() {
    let with = |written: bool| {
        let mut w = waiting();
        let (init, work) = (w.own("init", 10), w.own("add", 20));
        let table = w.array("table", 256);
        w.touch(100, 0, init, table, 256);
        for page in 0..256u32 {
            let address = table + u64::from(page) * PAGE;
            w.moves((page, 0), 0, init, address, 0, 64);
            *w.samples.access.last_mut().unwrap() = Access::Store as u8;
            w.input.page_traffic.write_lines[page as usize] = if written { 5 * 64 } else { 64 };
        }
        for page in 0..256u32 {
            for thread in 0..4 {
                let address = table + u64::from(page) * PAGE;
                w.moves((256 + page, 0), thread, work, address, 0, 64);
                if written || thread == 0 {
                    w.moves((256 + page, 0), thread, work, address, 0, 64);
                    *w.samples.access.last_mut().unwrap() = Access::Unknown as u8;
                }
            }
        }
        w.real().findings.into_iter().next().expect("a finding").kind
    };
    assert_eq!(with(false), "shared_read_mostly");
    assert_eq!(with(true), "shared_read_write");
}

/// Counts that begin after the initialisation: the first lookups write back what it left dirty in the caches, and
/// later ones do not.
#[test]
fn what_caches_held_before_the_counts_began_is_not_written_in_use() {
    const PAGES: u64 = 256;
    // Two caches of 4,096 lines; each turn of the threads through the table fetches 65,536.
    let with = |is_written: fn(u32, u64) -> bool| {
        let mut w = waiting();
        w.input.meta.machine.caches = cached(256 << 10);
        let (init, work) = (w.own("init", 10), w.own("look_up", 20));
        let table = w.array("table", PAGES);
        w.touch(100, 0, init, table, PAGES);
        for (turn, page) in (0..2).flat_map(|turn| (0..PAGES).map(move |page| (turn, page))) {
            let (at, address) = ((turn * 256 + page as u32, 1), table + page * PAGE);
            for thread in 0..4 {
                w.moves(at, thread, work, address, 0, 64);
            }
            if is_written(turn, page) {
                w.moves(at, 3, work, address, 0, 64);
                *w.samples.access.last_mut().unwrap() = Access::Unknown as u8;
                // The same node read the page's other lines, so that its counts do not tell what was dirty before.
                let counts = &mut w.input.page_traffic;
                let last = counts.read_lines.len() - 1;
                (counts.read_lines[last], counts.write_lines[last - 1]) = (0, 64);
            }
        }
        w.real().findings.into_iter().next().expect("a finding").kind
    };
    assert_eq!(with(|turn, page| turn == 0 && page < 64), "shared_read_mostly");
    // As many lines, but as late as the rest; and at first only, but more than the caches hold.
    assert_eq!(with(|turn, page| turn == 1 && page % 4 == 0), "shared_read_write");
    assert_eq!(with(|turn, _| turn == 0), "shared_read_write");
}

/// A chain of pointers: each load overwrites its address, so samples name the object only. Its first page is malloc's.
#[test]
fn a_random_chase_is_placed_by_its_loop_and_divided_by_none() {
    let mut w = MadeRecording::new(4);
    let malloc = w.libc("malloc");
    let (allocate, fill, chase) = (w.own("allocate", 5), w.own("fill", 10), w.own("chase", 20));
    let table = w.array("table", 1024);
    w.fault_as(90, 0, malloc, table + 8, Access::Store);
    let chain = w.chain(&[malloc, allocate]);
    *w.input.faults.chain.last_mut().unwrap() = chain;
    w.touch(100, 0, fill, table + PAGE, 1023);
    for i in 0..1300u64 {
        for t in 0..4 {
            w.sample_as(
                WORK + i * 1_000_000 + u64::from(t),
                t,
                chase,
                table,
                Resolution::Object,
                Access::Load,
            );
        }
    }
    let r = w.on(2);
    let f = &r.findings[0];
    assert_eq!(f.cause.at.as_deref(), Some("main.c:10"), "{f:?}");
    let text = format!("{} {}", f.advice, f.evidence.join(" "));
    assert!(!text.contains("divided as the loop") && !text.contains("too few samples"), "{text}");
    assert!(text.contains("not the address") && f.advice.starts_with("Interleave"), "{text}");
}

/// A clean program with a small finding is not told that nothing is worth changing above the advice.
#[test]
fn a_clean_verdict_above_a_finding_says_that_it_is_small() {
    let mut w = MadeRecording::new(4);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let (a, b) = (w.array("a", 1024), w.array("b", 1024));
    w.touch(100, 0, init, a, 1024);
    for t in 0..4 {
        w.touch(5000, t, init, b + u64::from(t) * 256 * PAGE, 256);
    }
    w.use_blocked(4, 100, work, a, 1024);
    w.use_blocked(4, 1000, work, b, 1024);
    let r = w.on(2);
    assert_eq!((r.verdict, r.findings.len()), (Verdict::Clean, 1), "{}", r.verdict_why);
    assert!(!r.verdict_why.contains("nothing is worth"), "{}", r.verdict_why);
    assert!(r.verdict_why.contains("Small findings, of 4.5 % at most, are listed"), "{}", r.verdict_why);
}

/// Fields of one class that ten loops use get one sentence of advice, and a screen that ends.
#[test]
fn thirty_fields_have_a_report_of_one_screen() {
    let mut w = MadeRecording::new(4);
    let init = w.own("Fields::Fields", 10);
    for field in 0..30u32 {
        let work = w.own(&format!("loop{field}"), 100 + field);
        let a = w.array(&format!("field{field}"), 128);
        w.touch(100, 0, init, a, 128);
        w.use_blocked(4, 40, work, a, 128);
    }
    let r = w.on(2);
    assert_eq!((r.findings.len(), r.findings[0].objects.len()), (1, 30));
    assert_eq!(r.findings[0].advice.matches(". ").count(), 0, "{}", r.findings[0].advice);
    let text = nearfar_report::to_text(&r, "app.nearfar", "app.nearfar", 100, false);
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.to_lowercase().matches("record longer").count() <= 1, "{text}");
}

#[test]
fn call_paths_come_with_the_chains_of_samples() {
    let mut w = MadeRecording::new(2);
    let (init, work, main) = (w.own("init", 10), w.own("work", 20), w.own("main", 30));
    let a = w.array("a", 64);
    w.touch(100, 0, init, a, 64);
    w.use_blocked(2, 100, work, a, 64);
    assert!(w.on(2).call_paths.is_empty());
    let chain = w.chain(&[work, main]);
    w.samples.chain.fill(chain);
    let r = w.on(2);
    let path = &r.call_paths[0];
    assert_eq!(path.frames, ["work (main.c:20)", "main (main.c:30)"]);
    assert!((path.share - 1.0).abs() < 1e-9 && (path.remote - 0.5).abs() < 1e-9, "{path:?}");
}
