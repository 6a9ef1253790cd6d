//! What `nearfar diff` says of two reports, on constructed ones with known answers.

mod compared;

use compared::*;
use nearfar_analyze::*;
use nearfar_compare::{Change, DecidedBy, Gate, compare, compare_same_work};
use nearfar_report::compare::{to_json, to_text};
use nearfar_timing::Binding;
use serde_json::Value;

#[test]
fn a_repair_is_called_one_by_time_and_for_each_part() {
    let c = compare(&counted(SERIAL, 0.040), &counted(NEAR, 0.021));
    assert_eq!((c.verdict, c.decided_by), (Change::Repaired, Some(DecidedBy::Time)), "{}", c.why);
    assert!((c.time.unwrap().ratio - 0.525).abs() < 1e-9);
    assert_eq!(named(&c.objects, "grid").change, Change::Repaired);
    assert_eq!(c.nodes[0].change, Change::Repaired);
    // Nothing of node 1 was far, nothing is.
    assert_eq!(c.nodes[1].change, Change::NoEffect);
    assert_eq!((c.before.dram.unwrap().remote, c.after.dram.unwrap().remote), (32_000_000, 0));
    assert!(c.warnings.is_empty() && c.renumbered.is_empty(), "{c:?}");
    assert_eq!(c.gate(5.0), Gate::Passed);
}

#[test]
fn a_repair_is_called_one_by_shares_where_no_time_is_known() {
    let c = compare(&clock(SERIAL), &clock(NEAR));
    assert_eq!((c.verdict, c.decided_by), (Change::Repaired, Some(DecidedBy::RemoteShare)), "{}", c.why);
    assert!(c.why.contains("nearfar check"), "{}", c.why);
    assert!(c.time.is_none() && c.time_why.is_some());
    for change in [named(&c.objects, "grid").change, named(&c.functions, "sweep").change, c.nodes[0].change] {
        assert_eq!(change, Change::Repaired);
    }
    assert_eq!(c.before.cpu_seconds, Some(10.0));
}

#[test]
fn half_a_repair_is_better_and_its_loss_is_worse() {
    let half = [[0.5, 0.0], [0.2, 0.3]];
    for (before, after) in [(clock(SERIAL), clock(half)), (counted(SERIAL, 0.04), counted(half, 0.03))] {
        let c = compare(&before, &after);
        assert_eq!(c.verdict, Change::Better, "{}", c.why);
        assert_eq!(named(&c.objects, "grid").change, Change::Better);
        let back = compare(&after, &before);
        assert_eq!(back.verdict, Change::Worse, "{}", back.why);
        assert_eq!(named(&back.objects, "grid").change, Change::Worse);
        assert!(matches!(back.gate(5.0), Gate::Worse(_)));
        assert_eq!(back.gate(50.0), Gate::Passed);
    }
}

#[test]
fn the_same_is_no_effect_and_so_is_what_runs_differ_by() {
    for r in [clock(SERIAL), clock(NEAR), counted(SERIAL, 0.04), counted(NEAR, 0.02)] {
        let mut again = r.clone();
        again.seconds += 0.1;
        let c = compare(&r, &again);
        assert_eq!(c.verdict, Change::NoEffect, "{}", c.why);
        assert!(c.decided_by.is_some());
        assert!(
            c.objects.iter().chain(&c.functions).all(|o| o.change == Change::NoEffect),
            "{:?}",
            c.objects
        );
        assert!(c.nodes.iter().all(|n| n.change == Change::NoEffect));
        assert_eq!(c.gate(0.0), Gate::Passed);
    }
    assert_eq!(compare(&counted(NEAR, 0.0400), &counted(NEAR, 0.0417)).verdict, Change::NoEffect);
    assert_eq!(compare(&counted(NEAR, 0.0400), &counted(NEAR, 0.0425)).verdict, Change::Worse);
    let little = [[0.5, 0.0], [0.485, 0.015]];
    assert_eq!(compare(&clock(SERIAL), &clock(little)).verdict, Change::NoEffect);
}

#[test]
fn one_recording_twice_is_no_effect_however_little_it_knows() {
    let mut r = clock(SERIAL);
    r.remote_time_share_ci = ci(0.1, 0.9);
    (r.objects[0].remote_share, r.objects[0].remote_share_ci) = (None, None);
    r.remote_share = Some(f64::NAN);
    let c = compare(&r, &r.clone());
    assert_eq!((c.verdict, c.decided_by), (Change::NoEffect, None));
    assert!(c.objects.iter().all(|o| o.change == Change::NoEffect));
    assert_eq!(c.gate(0.0), Gate::Passed);
    let mut again = r.clone();
    again.seconds += 0.1;
    let c = compare(&r, &again);
    assert_eq!(c.verdict, Change::Unknown);
    assert_eq!(named(&c.objects, "grid").change, Change::Unknown);
}

#[test]
fn far_memory_that_cost_nothing_is_no_effect_when_it_is_gone() {
    let c = compare(&counted(SERIAL, 0.04), &counted(NEAR, 0.04));
    assert_eq!(c.verdict, Change::NoEffect);
    assert!(c.why.contains("hardly anything had waited for it"), "{}", c.why);
    assert_eq!(named(&c.objects, "grid").change, Change::Repaired);
}

/// The modelled time has no waits for lines that nodes take from each other: a report that says what they cost, and a comparison
/// that says "no effect" when they are gone, would contradict each other.
#[test]
fn waits_for_contended_lines_are_compared_on_top_of_the_modelled_time() {
    let finding = |low: f64, high: f64| Finding {
        kind: "false_sharing".into(),
        objects: vec!["counters".into()],
        cause: Cause { at: None, function: None, text: String::new(), processes: 0 },
        evidence: Vec::new(),
        advice: String::new(),
        repairs: Vec::new(),
        predicted: (high > 0.0).then(|| Predicted { ratio: (low * high).sqrt(), low, high }),
        predicted_from: None,
        predicted_after_better: None,
        predicted_why: None,
        at_risk: 1.0 - high,
        phases: None,
        rank: 1,
    };
    let with = |findings: Vec<Finding>| Report { findings, ..counted(NEAR, 0.02) };
    let of = |before: Vec<Finding>, after: Vec<Finding>| compare_same_work(&with(before), &with(after));
    let gone = of(vec![finding(0.03, 0.15)], Vec::new());
    assert_eq!(gone.verdict, Change::Repaired, "{}", gone.why);
    assert!(gone.why.contains("counters") && gone.why.contains("85–97 %"), "{}", gone.why);
    assert!(gone.why.contains("0.03 to 0.15 times as long"), "{}", gone.why);
    assert_eq!(gone.gate(5.0), Gate::Passed);
    // A gate sees new ones, though the modelled time is the same.
    let new = of(Vec::new(), vec![finding(0.03, 0.15)]);
    assert_eq!(new.verdict, Change::Worse, "{}", new.why);
    assert!(matches!(new.gate(50.0), Gate::Worse(_)), "{:?}", new.gate(50.0));
    assert_eq!(new.gate(1e6), Gate::Passed);
    assert_eq!(of(vec![finding(0.03, 0.05)], vec![finding(0.5, 0.6)]).verdict, Change::Better);
    // Ranges that overlap leave it open, and so does a cost that is not known.
    assert_eq!(of(vec![finding(0.1, 0.5)], vec![finding(0.2, 0.6)]).verdict, Change::Unknown);
    assert_eq!(of(vec![finding(0.1, 1.0)], Vec::new()).verdict, Change::Unknown);
    assert_eq!(of(vec![finding(0.0, 0.0)], Vec::new()).verdict, Change::Unknown);
}

#[test]
fn sockets_that_exchange_their_parts_are_no_change() {
    let skewed = [[0.6, 0.0], [0.3, 0.1]];
    let swapped = [[0.1, 0.3], [0.0, 0.6]];
    for (before, mut after) in
        [(clock(skewed), clock(swapped)), (counted(skewed, 0.04), counted(swapped, 0.04))]
    {
        if let Some(t) = &mut after.time {
            t.binds = Binding::Memory { node: 1 };
        }
        let c = compare(&before, &after);
        assert_eq!(c.renumbered, [(0, 1), (1, 0)]);
        assert!(warned(&c, "exchanged their parts"), "{:?}", c.warnings);
        assert_eq!(c.verdict, Change::NoEffect, "{}", c.why);
        assert!(c.nodes.iter().all(|n| n.change == Change::NoEffect), "{:?}", c.nodes);
        assert_eq!((c.nodes[0].node, c.nodes[0].node_after), (Some(0), Some(1)));
        assert!(c.after.time.is_none_or(|t| t.binds == Binding::Memory { node: 0 }));
    }
    // A repair looks alike both ways: the numbers stay.
    assert!(compare(&clock(SERIAL), &clock(NEAR)).renumbered.is_empty());
}

#[test]
fn any_renumbering_of_many_nodes_is_found() {
    // Node i uses its own memory and a little of the next one's, each a bit more than the one before.
    let of = |n: usize, order: &[usize]| {
        let mut r = clock(NEAR);
        let mut m = vec![vec![0.0; n]; n];
        for i in 0..n {
            m[order[i]][order[i]] = (1 + i) as f64;
            m[order[i]][order[(i + 1) % n]] = 0.2;
        }
        let all: f64 = m.iter().flatten().sum();
        m.iter_mut().flatten().for_each(|x| *x /= all);
        r.machine.node_ids = (0..n as u32).collect();
        r.node_matrix = m;
        r.threads.clear();
        r.remote_time_share_ci = ci(0.0, 0.0004);
        r
    };
    for (n, order) in [(4, vec![2, 0, 3, 1]), (8, vec![7, 6, 5, 4, 3, 2, 1, 0])] {
        let same: Vec<usize> = (0..n).collect();
        let c = compare(&of(n, &same), &of(n, &order));
        let found: Vec<usize> = c.renumbered.iter().map(|p| p.1 as usize).collect();
        assert_eq!(found, order);
        assert!(c.nodes.iter().all(|x| x.change == Change::NoEffect), "{:?}", c.nodes);
    }
}

#[test]
fn memory_without_cpus_is_not_taken_for_a_socket() {
    // Threads on node 0 only; its memory before, that of node 1, which has no cpus, after.
    let one = |page_node: usize| {
        let mut r = clock([[0.0; 2]; 2]);
        r.node_matrix[0][page_node] = 1.0;
        r.threads.truncate(4);
        r
    };
    assert!(compare(&one(0), &one(1)).renumbered.is_empty());
}

#[test]
fn what_makes_them_hard_to_compare_is_said() {
    let before = counted(SERIAL, 0.04);
    let mut after = counted(NEAR, 0.02);
    after.machine.name = "another".into();
    after.command = vec!["/tmp/build/grid".into(), "1024".into()];
    after.exit = Some("signal 11 (SIGSEGV)".into());
    after.threads.pop();
    let c = compare(&before, &after);
    assert_eq!(c.verdict, Change::Unknown);
    assert!(c.why.contains("one ended with exit 0, the other with signal 11 (SIGSEGV)"), "{}", c.why);
    let c = compare_same_work(&before, &after);
    for words in
        ["two sockets and another", "`512` is now `1024`", "signal 11", "8 threads before and 7 after"]
    {
        assert!(warned(&c, words), "{words}: {:?}", c.warnings);
    }
    assert!(!warned(&c, "build"), "{:?}", c.warnings);
    assert_eq!(c.verdict, Change::Repaired);
    // Figures of different machines do not move alike.
    let mut slower = counted(SERIAL, 0.05);
    slower.machine.name = "another".into();
    let c = compare(&before, &slower);
    assert_eq!(c.verdict, Change::Unknown, "{}", c.why);
    assert!(matches!(c.gate(5.0), Gate::Unknown(_)));

    let mut signal = clock(NEAR);
    signal.sources[0].source = "signal".into();
    signal.command.push("--fast".into());
    let c = compare(&clock(SERIAL), &signal);
    assert_eq!(c.verdict, Change::Unknown);
    assert!(c.why.contains("arguments differ") && c.why.contains("--same-work"), "{}", c.why);
    assert!(c.objects.iter().all(|o| o.change == Change::Unknown));
    assert!(matches!(c.gate(1000.0), Gate::Unknown(_)));
    let c = compare_same_work(&clock(SERIAL), &signal);
    assert!(warned(&c, "clock and signal") && warned(&c, "`--fast` is new"), "{:?}", c.warnings);
    assert_eq!(c.verdict, Change::Repaired);
}

#[test]
fn two_runs_that_caches_hold_are_no_effect() {
    let held = |most: f64| {
        let mut r = clock(SERIAL);
        (r.remote_time_share, r.remote_time_share_ci) = (None, ci(0.0, most));
        r
    };
    let c = compare(&held(0.012), &held(0.004));
    assert_eq!(c.verdict, Change::NoEffect, "{}", c.why);
    assert!(c.why.contains("at most 1.2 % and 0.4 %"), "{}", c.why);
    assert_eq!(c.gate(5.0), Gate::Passed);
    // What may be much is not known.
    let c = compare(&held(0.012), &held(0.3));
    assert_eq!(c.verdict, Change::Unknown);
    assert!(matches!(c.gate(5.0), Gate::Unknown(_)));
}

/// Half the problem takes half the time.
#[test]
fn fewer_instructions_are_other_work() {
    let ran = |instructions: u64, matrix: [[f64; 2]; 2], seconds: f64| {
        let mut r = counted(matrix, seconds);
        let counters = r.counters.as_mut().expect("counted");
        let cpu = CpuCounts {
            cpu: 0,
            node: Some(0),
            instructions,
            ipc: None,
            l1_hit: None,
            l2_hit: None,
            l3_hit: None,
            dram_local: 0,
            dram_remote: 0,
            cache_transfers: 0,
            tlb_misses: 0,
            huge_tlb_misses: 0,
        };
        counters.cpus = vec![cpu.clone(), CpuCounts { cpu: 1, ..cpu }];
        r
    };
    let before = ran(1_000_000_000, SERIAL, 0.04);
    let c = compare(&before, &ran(500_000_000, NEAR, 0.02));
    assert_eq!((c.verdict, c.decided_by), (Change::Unknown, None));
    assert!(c.why.contains("1.00 billion instructions, the first 2.00 billion: 0.50 times"), "{}", c.why);
    assert!(matches!(c.gate(1000.0), Gate::Unknown(_)));
    // The same count is the same work, whatever the arguments are.
    let mut after = ran(1_050_000_000, NEAR, 0.02);
    after.command = vec!["grid".into(), "--init=parallel".into()];
    let c = compare(&before, &after);
    assert_eq!(c.verdict, Change::Repaired, "{}", c.why);
    assert_eq!(c.work_why, None);
}

#[test]
fn stall_time_and_lines_are_not_compared() {
    let c = compare(&clock(SERIAL), &counted(NEAR, 0.02));
    assert_eq!((c.verdict, c.decided_by), (Change::Unknown, None));
    assert!(c.why.contains("working time") && c.why.contains("DRAM traffic"), "{}", c.why);
    assert!(c.time.is_none() && c.remote.is_none());
    assert!(c.objects.iter().chain(&c.functions).all(|o| o.change == Change::Unknown));
    assert!(warned(&c, "they are not compared"), "{:?}", c.warnings);
    assert!(matches!(c.gate(1000.0), Gate::Unknown(_)));
}

#[test]
fn a_region_and_a_whole_run_are_not_the_same_work() {
    let mut after = counted(NEAR, 0.02);
    after.region = Region::Marked;
    let c = compare(&counted(SERIAL, 0.04), &after);
    assert_eq!(c.verdict, Change::Unknown, "{}", c.why);
    assert!(c.why.contains("--whole") && warned(&c, "--whole"));
    // The remote part of an object is still the remote part.
    assert_eq!(named(&c.objects, "grid").change, Change::Repaired);
}

#[test]
fn too_little_evidence_is_unknown() {
    let mut few = clock(NEAR);
    few.remote_time_share_ci = ci(0.0, 0.6);
    few.objects[0].remote_share_ci = ci(0.0, 0.6);
    few.sources[0].samples = 5;
    let c = compare(&clock(SERIAL), &few);
    assert_eq!(c.verdict, Change::Unknown, "{}", c.why);
    assert!(c.why.contains("too few samples"), "{}", c.why);
    assert_eq!(named(&c.objects, "grid").change, Change::Unknown);
    assert!(matches!(c.gate(5.0), Gate::Unknown(_)));

    // Nodes of pages that were not seen may be far.
    let mut unseen = clock([[0.5, 0.0], [0.1, 0.0]]);
    unseen.page_node_unknown_share = 0.4;
    let c = compare(&unseen, &clock([[0.5, 0.0], [0.2, 0.3]]));
    assert_eq!(c.verdict, Change::Unknown, "{}", c.why);
    assert!(c.why.contains("unknown for 40 % and 0 %"), "{}", c.why);

    let mut nothing = clock(NEAR);
    (nothing.remote_time_share, nothing.remote_time_share_ci) = (None, None);
    assert_eq!(compare(&clock(SERIAL), &nothing).verdict, Change::Unknown);
}

#[test]
fn objects_are_found_again_in_moved_lines_and_other_folders() {
    let before = clock(SERIAL);
    let mut after = clock(NEAR);
    after.objects[0].allocated_at = Some("src/grid.c:17".into());
    after.objects[1].name = "plane".into();
    // Two rows of one line, which another call chain led to.
    let mut more = object("grid", 17, 0.1, 0.0);
    more.allocated_at = Some("/elsewhere/grid.c:17".into());
    after.objects.push(more);
    let c = compare(&before, &after);
    let grid = named(&c.objects, "grid");
    assert_eq!(grid.change, Change::Repaired);
    assert!((grid.after.as_ref().unwrap().share - 0.9).abs() < 1e-9);
    assert_eq!(grid.before.as_ref().unwrap().rows, [0]);
    assert_eq!(
        grid.after.as_ref().unwrap().rows,
        [0, after.objects.len() - 1],
        "both rows are compared as one"
    );
    assert_eq!(named(&c.objects, "table").change, Change::OnlyBefore);
    assert_eq!(named(&c.objects, "plane").change, Change::OnlyAfter);
    assert_eq!(c.objects.len(), 3);
}

#[test]
fn the_text_fits_and_the_json_has_it_all() {
    let mut odd = counted(NEAR, 0.02);
    odd.objects.clear();
    odd.functions[0].function =
        "std::very::long<name, of, a, function>::with::a::lot::of::it::operator()".into();
    odd.remote_share = Some(f64::NAN);
    odd.command.clear();
    let cases = [
        compare(&counted(SERIAL, 0.04), &counted(NEAR, 0.02)),
        compare(&clock(SERIAL), &clock(NEAR)),
        compare(&clock(SERIAL), &counted(NEAR, 0.02)),
        compare(&clock(SERIAL), &odd),
        compare(&odd, &counted(SERIAL, 0.04)),
    ];
    for c in &cases {
        for width in [0, 60, 80, 100, 160] {
            let text = to_text(c, width, false);
            assert!(!text.contains("NaN"), "{text}");
            let longest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(longest <= width.max(100), "{longest} columns\n{text}");
            let colored = to_text(c, width, true);
            let plain: String = colored
                .split('\x1b')
                .map(|p| p.split_once('m').map_or(p, |x| if p.starts_with('[') { x.1 } else { p }))
                .collect();
            assert_eq!(plain, text);
        }
        let json: Value = serde_json::from_str(&to_json(c)).unwrap();
        assert_eq!(json["schema"], 2);
        assert_eq!(json["objects"].as_array().unwrap().len(), c.objects.len());
    }
    let text = to_text(&cases[0], 100, false);
    assert!(text.starts_with("Repaired: the modelled time of the counted work fell by 50 %"), "{text}");
    assert!(text.contains("grid (grid.c:12)") && text.contains("40.0 ms (32.0–50.0) → 20.0 ms"), "{text}");
    let json: Value = serde_json::from_str(&to_json(&cases[0])).unwrap();
    assert_eq!(json["verdict"], "repaired");
    assert_eq!(json["decided_by"], "time");
    assert_eq!(json["objects"][0]["before"]["remote_lines"], 400_000);
}

#[test]
fn an_object_that_moved_is_not_called_no_effect_however_small_it_is() {
    let near = |remote: f64| {
        let mut r = clock(NEAR);
        r.objects = vec![object("grid", 12, 0.97, 0.0), object("border", 20, 0.03, remote)];
        r
    };
    let c = compare(&near(0.0), &near(0.5));
    assert_eq!(named(&c.objects, "border").change, Change::Worse);
    assert_eq!(named(&c.objects, "grid").change, Change::NoEffect);
    assert_eq!(named(&compare(&near(0.5), &near(0.0)).objects, "border").change, Change::Repaired);
    // What runs differ by is none.
    assert_eq!(named(&compare(&near(0.1), &near(0.15)).objects, "border").change, Change::NoEffect);
}

#[test]
fn better_is_not_said_alone_where_each_object_that_changed_is_worse() {
    let mut after = clock([[0.5, 0.15], [0.15, 0.2]]);
    let mut before = clock(SERIAL);
    before.objects.iter_mut().for_each(|o| (o.remote_share, o.remote_share_ci) = (Some(0.1), ci(0.08, 0.12)));
    after.objects.iter_mut().for_each(|o| (o.remote_share, o.remote_share_ci) = (Some(0.4), ci(0.38, 0.42)));
    let c = compare(&before, &after);
    assert_eq!(named(&c.objects, "grid").change, Change::Worse);
    assert_eq!(c.verdict, Change::Unknown, "{}", c.why);
    assert!(c.why.contains("each object that changed is worse, grid first"), "{}", c.why);
    // Where a time decides, it stays decided, and the contradiction is explained.
    let c = compare(&counted(NEAR, 0.040), &counted([[0.5, 0.0], [0.2, 0.3]], 0.030));
    assert_eq!(c.verdict, Change::Better, "{}", c.why);
    assert!(c.why.contains("placement is not what made it faster"), "{}", c.why);
}

#[test]
fn a_program_and_its_repair_are_the_same_work_and_two_programs_are_not() {
    let of = |command: &[&str], function: &str| {
        let mut r = clock(SERIAL);
        r.command = command.iter().map(|w| w.to_string()).collect();
        r.functions[0].function = function.into();
        r
    };
    let work_why = |b: &Report, a: &Report| compare(b, a).work_why;
    let serial = of(&["./app", "512", "--init", "serial"], "sweep");
    assert_eq!(work_why(&serial, &of(&["./app", "512", "--init", "parallel"], "sweep")), None);
    assert_eq!(work_why(&serial, &of(&["./app-repaired", "512", "--init", "serial"], "sweep")), None);
    assert!(work_why(&serial, &of(&["./app", "1024", "--init", "serial"], "sweep")).is_some());
    let other = work_why(&serial, &of(&["./sort", "512", "--init", "serial"], "merge"));
    assert!(other.is_some_and(|why| why.contains("app and sort are different programs")));
}
