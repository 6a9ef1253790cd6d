//! What other placements of memory would give, what a file can say of it, and verdicts that rest on both.

use crate::made_recording::*;
use crate::timed::figures;
use crate::virtual_machine::PAGES;
use nearfar_analyze::{Combination, Repair, RepairPart, Report, Verdict, WORTH};
use nearfar_machine::figures::Cell;
use nearfar_machine::placement_file::PlacementFile;
use nearfar_recording::*;
use nearfar_report::placement::to_placement;
use nearfar_report::to_details;

/// Two nodes of two cpus whose threads wait for memory: ten instructions per line are less than its latency.
pub fn waiting() -> MadeRecording {
    let mut w = MadeRecording::simulated(2, 2);
    w.input.meta.machine.figures = figures();
    w.input.meta.machine.figures.core.ipc.as_mut().expect("a figure").value = 10.0;
    w.input.meta.machine.figures.core.outstanding_lines.as_mut().expect("a figure").value = 20.0;
    w
}

#[test]
fn lines_whose_ends_are_unknown_do_not_make_a_program_clean() {
    for (unknown, verdict) in [(0, Verdict::Clean), (20, Verdict::Clean), (PAGES, Verdict::Unknown)] {
        let mut w = waiting();
        let work = w.own("work", 20);
        let a = w.array("a", PAGES);
        for page in 0..PAGES {
            let user = page * 4 / PAGES;
            w.touch(100 + page, user as u32, work, a + page * PAGE, 1);
            let at = ((page % 256) as u32, 1);
            w.moves(at, user as u32, work, a + page * PAGE, (user / 2) as i16, 1000);
            if page < unknown {
                w.moves(at, user as u32, work, a + page * PAGE, -1, 300);
            }
        }
        let r = w.real();
        assert_eq!(r.verdict, verdict, "{unknown}: {}", r.verdict_why);
        assert!(r.findings.is_empty() && r.what_if.is_some());
        let said = r.verdict_why.contains("where 23 % of the lines went is not known");
        assert_eq!(said, verdict == Verdict::Unknown, "{}", r.verdict_why);
    }
}

#[test]
fn many_small_gains_without_a_cause_are_unknown_not_clean() {
    // One node's memory serves forty objects of its own threads: each of them elsewhere gains next to nothing.
    let mut w = waiting();
    let work = w.own("work", 20);
    for object in 0..40 {
        let init = w.own(&format!("init{object}"), 100 + object);
        let a = w.array(&format!("a{object}"), 32);
        w.touch(100, 0, init, a, 32);
        for page in 0..32 {
            w.moves((page as u32 / 2, 1), (page % 2) as u32, work, a + page * PAGE, 0, 1000);
        }
    }
    let r = w.real();
    let best = &r.what_if.as_ref().unwrap().best.as_ref().unwrap().predicted;
    assert!(best.high < 0.9, "{best:?}");
    assert!(r.findings.is_empty(), "{:?}", r.findings);
    assert_eq!((r.remote_share, r.verdict), (Some(0.0), Verdict::Unknown), "{}", r.verdict_why);
    assert!(r.verdict_why.contains("of none of them enough to name a cause"), "{}", r.verdict_why);
}

/// Half of an array is remote, and each page comes with so many operations.
fn half_remote(operations: u64) -> Report {
    let mut w = waiting();
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", PAGES);
    w.touch(100, 0, init, a, PAGES);
    for page in 0..PAGES {
        let (epoch, user) = ((page % 256) as u32, (page * 4 / PAGES) as u32);
        w.moves((epoch, 1), user, work, a + page * PAGE, 0, 20);
        w.works(epoch, 1, user, operations);
    }
    w.real()
}

#[test]
fn no_prediction_is_certain() {
    // Half of it is remote, and nothing waits for it.
    let r = half_remote(10_000_000);
    let what_if = r.what_if.as_ref().unwrap();
    let not_worth = what_if.not_worth.iter().map(|n| &n.predicted);
    let all = not_worth.chain(what_if.repairs.iter().map(|r| &r.predicted)).chain([&what_if.all_local]);
    let all: Vec<_> = all.chain(what_if.one_node.iter().map(|o| &o.predicted)).collect();
    assert_eq!(what_if.not_worth.len(), 1);
    for p in all {
        assert!(p.low < p.ratio - 0.05 && p.ratio + 0.05 < p.high, "{p:?}");
    }
}

/// Runs that differ by a tenth of their arithmetic: between clean and affected there is room for two runs of one program.
#[test]
fn verdicts_of_runs_that_hardly_differ_are_never_opposite() {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut unsure = 0;
    let mut operations = 200.0;
    while operations < 1e7 {
        let r = half_remote(operations as u64);
        let best = r.what_if.as_ref().unwrap().best.as_ref();
        let gain = best.map_or(0.0, |best| 1.0 - best.predicted.ratio);
        assert!(
            r.verdict != Verdict::Clean || gain < WORTH,
            "clean, and {gain} may be gained: {}",
            r.verdict_why
        );
        unsure += usize::from(r.verdict_why.contains("but it may save nothing"));
        verdicts.push(r.verdict);
        operations *= 1.1;
    }
    assert!(unsure > 0, "{verdicts:?}");
    assert!(verdicts.contains(&Verdict::Clean) && verdicts.contains(&Verdict::Affected), "{verdicts:?}");
    let opposite = |pair: &[Verdict]| pair.contains(&Verdict::Clean) && pair.contains(&Verdict::Affected);
    assert!(!verdicts.windows(2).any(opposite), "{verdicts:?}");
}

/// Allocations by one line that thread 0 initialises: (address, bytes, node that uses each page).
fn allocations(list: &[(u64, u64, Vec<u32>)]) -> MadeRecording {
    let mut w = waiting();
    let (init, work, line) = (w.own("init", 10), w.own("work", 20), w.own("make", 5));
    let chain = w.chain(&[line]);
    for (i, (address, bytes, users)) in list.iter().enumerate() {
        let id = w.object(ObjectKind::Heap, *address, *bytes, 10 + i as u64, "a");
        w.input.objects.chain[id as usize] = chain;
        w.touch(100, 0, init, *address, users.len() as u64);
        for (page, node) in users.iter().enumerate() {
            // Within the object, whose first page may begin before it.
            let at = (address / PAGE + page as u64) * PAGE + if page == 0 { address % PAGE } else { 0 };
            w.moves((i as u32 / 2 % 64, 1), 2 * node + page as u32 % 2, work, at, 0, 400);
        }
    }
    w
}

fn part(r: &Report) -> &RepairPart {
    &r.what_if.as_ref().unwrap().best.as_ref().expect("a repair").parts[0]
}

/// What `fix` writes of a report, read back.
fn file(r: &Report) -> PlacementFile {
    let (placement, left) = to_placement(r);
    let text = placement.unwrap_or_else(|| panic!("{left:?}")).file.to_toml();
    PlacementFile::from_toml(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn turns_that_a_file_cannot_list_are_not_placeable() {
    let turns = |count: u64| -> Vec<_> {
        (0..count).map(|i| (BASE + i * 32 * PAGE, 16 * PAGE, vec![i as u32 % 2])).collect()
    };
    let r = allocations(&turns(4096)).real();
    assert_eq!((part(&r).turns.len(), &part(&r).not_placeable), (4096, &None), "{:?}", part(&r));
    assert_eq!(file(&r).objects[0].turns.as_ref().unwrap()[..3], [0, 1, 0]);
    let r = allocations(&turns(4097)).real();
    assert!(part(&r).turns.is_empty());
    assert!(part(&r).not_placeable.as_ref().unwrap().contains("4097 allocations"), "{:?}", part(&r));
}

#[test]
fn blocks_end_at_the_last_byte_once() {
    // As malloc does it: 16 bytes behind the start of a page, so that the last 16 are on a page more.
    let users: Vec<u32> = (0..65).map(|page| u32::from((32..64).contains(&page))).collect();
    let two = [BASE + 16, BASE + (1 << 20) + 16].map(|address| (address, 64 * PAGE, users.clone()));
    let r = allocations(&two).real();
    assert_eq!(part(&r).blocks, [(32 * PAGE, 0), (64 * PAGE, 1)]);
    assert_eq!(file(&r).objects[0].blocks.as_ref(), Some(&part(&r).blocks));
}

#[test]
fn pages_that_are_only_initialised_go_with_the_part_beside_them() {
    // The halo of a stencil: pages that no loop uses, at the end of an array that thread 0 has initialised.
    let used: Vec<u32> = (0..48).map(|page| page / 24).collect();
    let mut w = allocations(&[(BASE, 64 * PAGE, used)]);
    for page in 48..64 {
        // Dirty in the caches when the region begins.
        w.counts(BASE + page * PAGE, 0, 0, 0, PAGE / 64);
    }
    let r = w.real();
    assert_eq!(part(&r).blocks, [(24 * PAGE, 0), (64 * PAGE, 1)]);
    // A few lines that were fetched besides make no user of who left the others in the caches.
    w.input.page_traffic.read_lines.iter_mut().rev().take(16).for_each(|read| *read = 3);
    let r = w.real();
    assert_eq!(part(&r).blocks, [(24 * PAGE, 0), (64 * PAGE, 1)]);
    // What is written again and again is used.
    let mut w = allocations(&[(BASE, 64 * PAGE, (0..48).map(|page| page / 24).collect())]);
    for page in 48..64 {
        w.counts(BASE + page * PAGE, 0, 0, 5 * PAGE / 64, 5 * PAGE / 64);
    }
    let r = w.real();
    assert_eq!(part(&r).blocks, [(24 * PAGE, 0), (48 * PAGE, 1), (64 * PAGE, 0)]);
}

#[test]
fn predictions_name_files_as_briefly_as_the_rest_of_the_page() {
    let mut w = allocations(&[(BASE, 64 * PAGE, (0..64).map(|page| page / 32).collect())]);
    w.input.objects.name[0] = Text::default();
    w.input.symbols.file.fill("/opt/library/source/make.c".to_string());
    let r = w.real();
    assert_eq!(part(&r).object, "allocation at /opt/library/source/make.c:5");
    let text = to_details(&r, "app.nearfar", 200, false);
    assert!(text.contains("allocation at make.c:5 where it is used"), "{text}");
    assert!(!text.contains("/opt/library"), "{text}");
}

#[test]
fn what_a_file_can_say_is_the_best_of_it_together() {
    // Two tables that all read are on node 0. Copies are best, which no file can say. Either table alone had better
    // are on node 1, but not both.
    let mut w = waiting();
    let figures = &mut w.input.meta.machine.figures;
    figures.core.outstanding_lines.as_mut().expect("a figure").value = 6.0;
    let latency = &mut figures.latency_ns.as_mut().expect("figures").rows;
    (latency[0][1], latency[1][0]) = (Cell(Some(200.0)), Cell(Some(200.0)));
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    for name in ["a", "b"] {
        let line = w.own("make", if name == "a" { 5 } else { 6 });
        let chain = w.chain(&[line]);
        let table = w.array(name, 256);
        *w.input.objects.chain.last_mut().expect("an object") = chain;
        w.touch(100, 0, init, table, 256);
        for (page, thread) in (0..256).flat_map(|page| (0..4).map(move |thread| (page, thread))) {
            w.moves(
                (page as u32, 1),
                thread,
                work,
                table + page * PAGE,
                0,
                if thread < 2 { 1000 } else { 1100 },
            );
        }
    }
    let r = w.real();
    let what_if = r.what_if.as_ref().unwrap();
    let of = |c: &Option<Combination>| -> Vec<Repair> {
        c.as_ref().unwrap().parts.iter().map(|p| p.repair).collect()
    };
    assert_eq!(of(&what_if.best), [Repair::Replicate; 2]);
    assert_eq!(of(&what_if.placeable), [Repair::Interleave; 2]);
    let (best, placeable) = (what_if.best.as_ref().unwrap(), what_if.placeable.as_ref().unwrap());
    assert!(placeable.parts.iter().all(|p| p.not_placeable.is_none()), "{:?}", placeable.parts);
    let (best, placeable) = (&best.predicted, &placeable.predicted);
    assert!(best.ratio < placeable.ratio && placeable.ratio < 1.0 - WORTH, "{best:?}, {placeable:?}");
}

/// A table that all threads read everywhere and an array of which each uses its part, all on node 0. `lines`: of the source,
/// which allocate them.
fn table_and_array(lines: [u32; 2]) -> Report {
    let mut w = waiting();
    let figures = &mut w.input.meta.machine.figures;
    figures.core.outstanding_lines.as_mut().expect("a figure").value = 6.0;
    let latency = &mut figures.latency_ns.as_mut().expect("figures").rows;
    (latency[0][1], latency[1][0]) = (Cell(Some(200.0)), Cell(Some(200.0)));
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    for (name, line) in ["table", "array"].into_iter().zip(lines) {
        let line = w.own("make", line);
        let chain = w.chain(&[line]);
        let address = w.array(name, 256);
        *w.input.objects.chain.last_mut().expect("an object") = chain;
        // By two threads of node 0: copies are for what one thread made.
        w.touch(100, 0, init, address, 128);
        w.touch(100, 1, init, address + 128 * PAGE, 128);
        for page in 0..256 {
            let user = |thread: u64| name == "table" || thread == page / 64;
            for thread in (0..4).filter(|&thread| user(thread)) {
                let lines = if name == "table" { 500 } else { 2000 };
                w.moves((page as u32, 1), thread as u32, work, address + page * PAGE, 0, lines);
            }
        }
    }
    w.real()
}

#[test]
fn objects_of_one_line_are_placed_alike_or_not_at_all() {
    let chosen = |c: &Option<Combination>| -> Vec<(String, Repair)> {
        c.iter().flat_map(|c| &c.parts).map(|p| (p.object.clone(), p.repair)).collect()
    };
    let apart = table_and_array([5, 6]);
    let what_if = apart.what_if.as_ref().unwrap();
    let both = [("table".to_owned(), Repair::Interleave), ("array".to_owned(), Repair::WhereUsed)];
    assert_eq!(chosen(&what_if.best), both);
    assert_eq!(chosen(&what_if.placeable), both);
    let mut same = table_and_array([5, 5]);
    let what_if = same.what_if.as_ref().unwrap();
    assert_eq!(chosen(&what_if.best), both);
    let (best, placeable) = (what_if.best.as_ref().unwrap(), what_if.placeable.as_ref().unwrap());
    for part in &best.parts {
        assert!(part.not_placeable.as_ref().is_some_and(|why| why.contains("tell them apart")), "{part:?}");
    }
    assert!(placeable.parts.iter().all(|p| p.repair == Repair::Interleave && p.not_placeable.is_none()));
    assert_eq!(placeable.parts.len(), 2);
    assert!(best.predicted.ratio < placeable.predicted.ratio);
    assert_eq!(file(&same).objects.len(), 2);
    // Without counts, a file says what the findings suggest.
    let parts = same.what_if.take().and_then(|w| w.best).expect("a repair").parts;
    same.findings[0].repairs =
        parts.into_iter().map(|part| RepairPart { not_placeable: None, ..part }).collect();
    let (placement, left) = to_placement(&same);
    assert!(placement.is_none() && left.len() == 2, "{left:?}");
    assert!(left.iter().all(|why| why.contains("tell them apart")), "{left:?}");
}

#[test]
fn a_file_names_the_program_that_another_one_starts() {
    let mut r = table_and_array([5, 6]);
    let executable = r.pictures.processes[0].executable.clone();
    r.command = vec![executable.clone(), "--size".to_owned()];
    assert_eq!(file(&r).program, None);
    r.command.insert(0, "numactl".to_owned());
    assert_eq!(file(&r).program, Some(executable));
}

#[test]
fn a_handful_of_remote_lines_is_not_what_an_object_suffers_from() {
    // b is its users' own, except for four of its pages' lines; a, which all use, is on node 0 as half of b does.
    let mut w = waiting();
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let (a, b) = (w.array("a", PAGES), w.array("b", PAGES));
    w.touch(100, 0, init, a, PAGES);
    for page in 0..PAGES {
        let user = page * 4 / PAGES;
        let at = ((page % 256) as u32, 1);
        w.moves(at, user as u32, work, a + page * PAGE, 0, 1000);
        w.touch(200 + page, user as u32, init, b + page * PAGE, 1);
        w.moves(at, user as u32, work, b + page * PAGE, (user / 2) as i16, 1000);
        if page < 4 {
            w.moves(at, 3, work, b + page * PAGE, 0, 1000);
        }
    }
    let r = w.real();
    let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
    assert_eq!(kinds[0], "serial_first_touch", "{kinds:?}");
    assert_eq!(r.findings[0].objects, ["a"]);
    assert!(!kinds.contains(&"remote_unexplained"), "{:?}", r.findings);
}

#[test]
fn a_thread_that_wanders_is_accused_of_what_its_far_lines_cost_only() {
    for (far, accused) in [(20, false), (60, true)] {
        // A third of its lines are moved on the other node, nearly all of them from there.
        let mut w = waiting();
        let work = w.own("work", 20);
        let a = w.array("a", PAGES);
        for page in 0..PAGES {
            let away = page % 3 == 0;
            let page_node = i16::from(away && page >= 3 * far);
            w.touch(100 + page, 0, work, a + page * PAGE, 1);
            w.moves(
                ((page % 256) as u32, 1),
                if away { 2 } else { 0 },
                work,
                a + page * PAGE,
                page_node,
                1000,
            );
            *w.samples.thread.last_mut().unwrap() = 0;
        }
        let r = w.real();
        let kinds: Vec<&str> = r.findings.iter().map(|f| f.kind.as_str()).collect();
        assert_eq!(kinds.contains(&"unpinned_threads"), accused, "{far}: {kinds:?}, {:?}", r.remote_share);
        assert_eq!(r.verdict == Verdict::Affected, accused, "{}", r.verdict_why);
    }
}
