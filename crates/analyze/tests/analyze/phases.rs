//! Phases: times add up by construction, samples and faults are those of the phase that the thread was in.

use crate::made_recording::*;
use nearfar_analyze::{FindingPhase, Judge, PhaseFigures, PhaseReport, Report, analyze_with};
use nearfar_machine::binding::Bind;
use nearfar_recording::*;

fn judged(w: &MadeRecording) -> Report {
    let judge = Judge { machine: machine(2, 4), assume: Some(Bind::Compact), whole: false };
    analyze_with(&w.input, &w.samples, &judge, 2).expect("an analysis")
}

fn phases(w: &MadeRecording) -> PhaseReport {
    judged(w).phases.expect("phases")
}

/// Adds a phase; gives its number.
fn phase(w: &mut MadeRecording, thread: u32, parent: u32, name: &str, begin: u64, end: u64) -> u32 {
    let id = w.input.phases.len() as u32;
    let how = PhaseEnd::Ended as u8;
    w.input.phases.push(Phase { id, parent, how, ..Phase::plain(thread, name.into(), begin, end) });
    id
}

/// Position of the path of these names.
fn at(p: &PhaseReport, names: &[&str]) -> usize {
    names.iter().fold(0, |parent, name| {
        p.nodes
            .iter()
            .position(|n| n.parent == Some(parent) && n.name == *name)
            .unwrap_or_else(|| panic!("{name}"))
    })
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Calls and inclusive time by path, as a program that counts for itself would have them.
type Truth = std::collections::BTreeMap<(u32, Vec<String>), (u64, u64)>;

/// A thread that begins and ends phases at random. Some are wrongly recorded: they end late, or name a parent that is
/// not there.
fn nest(w: &mut MadeRecording, dice: &mut Dice, thread: u32, steps: u64, wrong: bool, truth: &mut Truth) {
    let mut now = dice.below(1000);
    let mut open: Vec<(u32, String, u64)> = Vec::new();
    let mut close = |w: &mut MadeRecording, open: &mut Vec<(u32, String, u64)>, now: u64| {
        let names: Vec<String> = open.iter().map(|o| o.1.clone()).collect();
        let (id, _, begin) = open.pop().expect("a phase");
        w.input.phases.end_ns[id as usize] = now;
        let sum = truth.entry((thread, names)).or_default();
        sum.0 += 1;
        sum.1 += now - begin;
    };
    for _ in 0..steps {
        now += dice.below(1000);
        if open.len() < 8 && (open.is_empty() || dice.below(2) == 0) {
            let name = format!("p{}", dice.below(4));
            let parent = open.last().map_or(NONE, |o| o.0);
            let id = phase(w, thread, parent, &name, now, u64::MAX);
            open.push((id, name, now));
        } else {
            close(w, &mut open, now);
        }
    }
    while !open.is_empty() {
        now += dice.below(1000);
        close(w, &mut open, now);
    }
    if wrong {
        for _ in 0..steps / 10 {
            let i = dice.below(w.input.phases.len() as u64) as usize;
            match dice.below(3) {
                0 => w.input.phases.end_ns[i] += dice.below(10_000),
                1 => w.input.phases.parent[i] = 1 << 20,
                _ => {
                    w.input.phases.begin_ns[i] = w.input.phases.begin_ns[i].saturating_sub(dice.below(10_000))
                }
            }
        }
    }
}

/// In each thread, and in all: what is exclusive in a path and in those below adds up to what is inclusive, and to the
/// whole thread at last.
fn adds_up(p: &PhaseReport) {
    let check = |figures: &[PhaseFigures]| {
        for i in 0..p.nodes.len() {
            let below = |f: &dyn Fn(&PhaseFigures) -> u64| -> u64 {
                (0..p.nodes.len()).filter(|&j| p.nodes[j].parent == Some(i)).map(|j| f(&figures[j])).sum()
            };
            let f = &figures[i];
            assert_eq!(f.inclusive.time_ns, f.exclusive.time_ns + below(&|f| f.inclusive.time_ns));
            assert_eq!(f.inclusive.weight, f.exclusive.weight + below(&|f| f.inclusive.weight));
            assert_eq!(f.inclusive.samples, f.exclusive.samples + below(&|f| f.inclusive.samples));
            assert_eq!(f.inclusive.faults, f.exclusive.faults + below(&|f| f.inclusive.faults));
            assert_eq!(f.subrs, below(&|f| f.calls));
        }
    };
    let mut all = vec![PhaseFigures::default(); p.nodes.len()];
    for t in 0..p.threads.len() {
        let mut own = vec![PhaseFigures::default(); p.nodes.len()];
        p.rows.iter().filter(|r| r.thread == t).for_each(|r| own[r.node] = r.figures);
        check(&own);
        for (sum, f) in all.iter_mut().zip(&own) {
            sum.calls += f.calls;
            sum.inclusive.time_ns += f.inclusive.time_ns;
        }
    }
    let nodes: Vec<PhaseFigures> = p.nodes.iter().map(|n| n.all).collect();
    check(&nodes);
    for (sum, node) in all.iter().zip(&nodes) {
        assert_eq!((sum.calls, sum.inclusive.time_ns), (node.calls, node.inclusive.time_ns));
    }
}

#[test]
fn random_nestings_over_threads_add_up_and_are_what_the_program_did() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let threads = 1 + dice.below(5) as u32;
        let mut w = MadeRecording::new(threads);
        let mut truth = Truth::new();
        for thread in 0..threads {
            nest(&mut w, &mut dice, thread, 200, false, &mut truth);
        }
        let work = w.own("work", 20);
        let a = w.array("a", 100);
        w.touch(1000, 0, work, a, 100);
        for i in 0..500 {
            w.sample_as(
                i * 100,
                i as u32 % threads,
                work,
                a + i % 100 * PAGE,
                Resolution::Exact,
                Access::Store,
            );
        }
        let p = phases(&w);
        adds_up(&p);
        assert_eq!(p.nodes[0].all.inclusive.samples, 500);
        assert_eq!(p.nodes[0].all.inclusive.faults, 100);
        let told: Truth = p
            .rows
            .iter()
            .filter(|r| r.node != 0 && r.figures.calls > 0)
            .map(|r| {
                let mut names = Vec::new();
                let mut node = r.node;
                while let Some(parent) = p.nodes[node].parent {
                    names.insert(0, p.nodes[node].name.clone());
                    node = parent;
                }
                ((p.threads[r.thread].tid - 1000, names), (r.figures.calls, r.figures.inclusive.time_ns))
            })
            .collect();
        assert_eq!(told, truth, "seed {seed}");
    }
}

#[test]
fn times_add_up_even_where_the_recording_contradicts_itself() {
    for seed in 100..160 {
        let mut dice = Dice(seed);
        let mut w = MadeRecording::new(2);
        let mut truth = Truth::new();
        nest(&mut w, &mut dice, 0, 200, true, &mut truth);
        nest(&mut w, &mut dice, 1, 200, true, &mut truth);
        if seed % 2 == 0 {
            // As older recordings have them: by their times alone.
            w.input.phases.id.fill(NONE);
            w.input.phases.parent.fill(NONE);
        }
        for path in ["p0\u{1f}p1", "p3"] {
            w.input.phase_counts.push(PhaseCount {
                time_ns: 5000,
                thread: 0,
                path: path.into(),
                source: 0,
                metric: 0,
                calls: 1000,
                inclusive_ns: dice.below(1 << 40),
                sum: 0.0,
                least: 0.0,
                most: 0.0,
            });
        }
        let p = phases(&w);
        adds_up(&p);
        assert_eq!(p.nodes.iter().map(|n| n.all.counted_calls).sum::<u64>(), 2000);
    }
}

#[test]
fn threads_without_phases_work_for_their_processs_first_that_has_some() {
    let mut w = MadeRecording::new(3);
    let work = w.own("work", 20);
    let a = w.array("a", 10);
    w.touch(1000, 0, work, a, 10);
    let main = phase(&mut w, 0, NONE, "main", 2000, 9000);
    phase(&mut w, 0, main, "solve", 3000, 5000);
    phase(&mut w, 2, NONE, "own", 3000, 4000);
    for thread in 0..3 {
        for time in [2500, 3500, 4500, 9500] {
            w.sample_as(time, thread, work, a, Resolution::Exact, Access::Load);
        }
    }
    let p = phases(&w);
    let samples = |names: &[&str]| p.nodes[at(&p, names)].all.exclusive.samples;
    assert_eq!(samples(&["main"]), 3, "all three at 2500");
    assert_eq!(samples(&["main", "solve"]), 5, "except for thread 2, which is in its own");
    assert_eq!(samples(&["own"]), 1);
    assert_eq!(samples(&[]), 3);
}

#[test]
fn the_phase_that_places_and_the_one_that_pays_are_named() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1000);
    phase(&mut w, 0, NONE, "initialise", 500, WORK / 2);
    phase(&mut w, 0, NONE, "solve", WORK / 2, 9 * WORK);
    w.touch(1000, 0, init, a, 1000);
    w.use_blocked(2, 1000, work, a, 1000);
    let p = phases(&w);
    assert_eq!(p.paid.len(), 1, "{:?}", p.paid);
    let paid = &p.paid[0];
    assert_eq!(paid.placed_in, Some(at(&p, &["initialise"])));
    assert_eq!(paid.paid_in, at(&p, &["solve"]));
    assert!((paid.share - 0.5).abs() < 0.01, "{paid:?}");
    assert_eq!(p.nodes[at(&p, &["initialise"])].all.exclusive.faults, 1000);

    let report = judged(&w);
    let of = report.findings[0].phases.as_ref().expect("phases of the finding");
    let row = |name: &str| FindingPhase { node: Some(at(&p, &[name])), name: Some(name.into()), share: 1.0 };
    assert_eq!((&of.placed_in, &of.paid_in), (&vec![row("initialise")], &vec![row("solve")]));
    assert_eq!(of.samples, 1000, "half of the 2000 samples are far");
    let page = nearfar_report::to_text(&report, "r", "r", 120, false);
    assert!(page.contains("placed in initialise (100 %); far use in solve (100 %); 1,000 samples"), "{page}");
}

#[test]
fn functions_are_grouped_by_the_phase_that_they_ran_in() {
    let mut w = MadeRecording::new(2);
    let (first, second) = (w.own("first", 20), w.own("second", 30));
    let a = w.array("a", 64);
    w.touch(100, 0, first, a, 64);
    // 100 samples before any phase, 200 in `outer`, 300 in `outer => inner`: there far.
    let from = |part: u64| WORK + part * 100_000_000;
    let outer = phase(&mut w, 0, NONE, "outer", from(1), from(6));
    phase(&mut w, 0, outer, "inner", from(3), from(6));
    for i in 0..600u64 {
        let (thread, code) = if i < 300 { (0, first) } else { (1, second) };
        w.sample(WORK + i * 1_000_000 + 1, thread, code, a + (i % 64) * PAGE);
    }
    let report = judged(&w);
    let p = report.phases.as_ref().expect("phases");
    let row = |name: &str| report.functions.iter().position(|f| f.function == name).unwrap();
    let groups = &report.pictures.code_by_phase;
    let seen: Vec<_> =
        groups.iter().map(|g| (g.phase.unwrap(), g.functions[0].row, g.remote_share)).collect();
    let (outer, inner) = (at(p, &["outer"]), at(p, &["outer", "inner"]));
    assert_eq!(
        seen,
        [(0, row("first"), Some(0.0)), (outer, row("first"), Some(0.0)), (inner, row("second"), Some(1.0))]
    );
    for (group, share) in groups.iter().zip([1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]) {
        assert!((group.share - share).abs() < 1e-9, "{group:?}");
        assert_eq!(group.functions.len(), 1);
        let whole = report.phases.as_ref().unwrap().nodes[group.phase.unwrap()].all.exclusive;
        assert!((whole.weight as f64 / p.nodes[0].all.inclusive.weight as f64 - share).abs() < 1e-9);
    }
}

#[test]
fn a_finding_names_no_phase_where_there_are_none() {
    let mut w = MadeRecording::new(2);
    let (init, work) = (w.own("init", 10), w.own("work", 20));
    let a = w.array("a", 1000);
    // It begins after all: neither the first touch nor the use is in it.
    phase(&mut w, 0, NONE, "later", 9 * WORK, 10 * WORK);
    w.touch(1000, 0, init, a, 1000);
    w.use_blocked(2, 1000, work, a, 1000);
    let report = judged(&w);
    assert!(!report.findings.is_empty() && report.findings.iter().all(|f| f.phases.is_none()));
}

#[test]
fn calls_that_do_not_pair_have_both_places() {
    let mut w = MadeRecording::new(1);
    let (outer, inner, end, again) = (w.own("f", 10), w.own("f", 11), w.own("f", 20), w.own("f", 21));
    let main = phase(&mut w, 0, NONE, "outer", 100, 200);
    let left = phase(&mut w, 0, main, "inner", 110, 200) as usize;
    let p = &mut w.input.phases;
    (p.begin_at[main as usize], p.end_at[main as usize]) = (outer, end);
    (p.begin_at[left], p.end_at[left], p.how[left]) = (inner, end, PhaseEnd::Unwound as u8);
    let how = PhaseEnd::NotBegun as u8;
    p.push(Phase { how, end_at: again, ..Phase::plain(0, "inner".into(), 300, 300) });
    let u = phases(&w).unbalanced;
    let told: Vec<_> =
        u.iter().map(|u| (u.how.as_str(), u.begun_at.as_deref(), u.ended_at.as_deref(), u.count)).collect();
    let want = [
        ("ended without a beginning", Some("main.c:11"), Some("main.c:21"), 1),
        ("left without an end", Some("main.c:11"), Some("main.c:20"), 1),
    ];
    assert_eq!(told, want);
    // A call is not a phase.
    assert_eq!(phases(&w).nodes.len(), 3);
}

#[test]
fn a_program_without_phases_has_none() {
    assert_eq!(judged(&MadeRecording::new(1)).phases, None);
}
