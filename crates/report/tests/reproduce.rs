//! The cases judged by the counts that arithmetic says: each holds or says why not, and each fails when it is
//! made wrong. What the virtual machine counts is judged in the same way (`nearfar reproduce`).

#[allow(dead_code)] // made for the tests of the time model
#[path = "../../timing/tests/time/made_tables.rs"]
mod made_tables;

use made_tables::{Lines, MadeTables, described};
use nearfar_compare::reproduce::{
    CALCULATED, CASES, Case, Kind, Reproduction, Run, Seen, Sights, TOLERANCE, Value, judge, needs, runs,
};
use nearfar_machine::scale::{ScaleOptions, scale};
use nearfar_recording::{Columns, CpuEpoch};
use nearfar_report::reproduce::{mutated_to_text, to_json, to_text};
use std::collections::BTreeSet;

/// A run whose counts are `tables`'s.
fn seen(run: &Run, tables: MadeTables) -> Seen {
    let whole = described(run.machine);
    let options = ScaleOptions { cpus_per_node: run.cpus_per_node, smt: false, interleaved: run.interleaved };
    let machine = scale(&whole, &options).unwrap();
    let factor = whole.cores_of(0).len() as f64 / machine.cores_of(0).len() as f64;
    let (cpus, traffic) = (tables.cpus, tables.traffic);
    Seen { machine, cpus, traffic, factor, full: false, scale: run.scale.clone(), repeat: run.repeat }
}

/// Each of `cpus` does the same, to the nodes of the pages that `at` says for its cpu.
fn each(cpus: impl IntoIterator<Item = u16>, at: impl Fn(u16) -> Vec<(i16, Lines)>) -> MadeTables {
    let mut tables = MadeTables::default();
    for cpu in cpus {
        tables.epoch(0, 1, cpu, 0.0, &at(cpu));
    }
    tables
}

/// The same lines at each of `page_nodes`.
fn spread(lines: Lines, page_nodes: &[i16]) -> Vec<(i16, Lines)> {
    let part = |n: u64| n / page_nodes.len() as u64;
    let one = Lines {
        demanded: part(lines.demanded),
        prefetched: part(lines.prefetched),
        written: part(lines.written),
        streamed: part(lines.streamed),
        dependent: part(lines.dependent),
        instructions: part(lines.instructions),
        ..Lines::default()
    };
    page_nodes.iter().map(|&page_node| (page_node, one)).collect()
}

/// Points of the stencil in blocks of the published size: prev is read 1.94 times, vel and next once, next is
/// written: 19.8 bytes.
fn stencil(points: f64) -> Lines {
    let lines = |bytes: f64| (points * bytes / 64.0) as u64;
    Lines {
        prefetched: lines(15.8),
        written: lines(4.0),
        instructions: (points * 15.0) as u64,
        ..Lines::default()
    }
}

/// `bytes` read and streamed.
fn streamed(read: f64, written: f64) -> Lines {
    let lines = |bytes: f64| (bytes / 64.0) as u64;
    Lines {
        prefetched: lines(read),
        streamed: lines(written),
        instructions: lines(read + written) * 8,
        ..Lines::default()
    }
}

/// One cpu whose accesses of the second level hit this often.
fn second_level(hits: u64) -> MadeTables {
    let mut tables = MadeTables::default();
    tables.epoch(0, 1, 0, 0.0, &[(0, made_tables::reads(1000))]);
    let row = tables.cpus.rows().next().unwrap();
    tables.cpus = Default::default();
    tables.cpus.push(CpuEpoch {
        accesses: 2000,
        l1_hits: 1000,
        l2_hits: hits,
        l3_hits: 900 - hits.min(900),
        ..row
    });
    tables
}

/// What arithmetic says that each run moves.
fn counts(name: &str) -> MadeTables {
    let points = 432.0 * 176.0 * 368.0;
    let node = |each: u16| move |cpu: u16| (cpu / each) as i16;
    let own = |lines: Lines, each: u16| move |cpu: u16| vec![(node(each)(cpu), lines)];
    match name {
        "iso3dfd-serial" => MadeTables::all(0..8, &[(0, stencil(points / 8.0))]),
        "iso3dfd-one-socket" => MadeTables::all(0..4, &[(0, stencil(points / 4.0))]),
        "iso3dfd-two-processes" => each(0..8, own(stencil(2.0 * 432.0 * 176.0 * 176.0 / 4.0), 4)),
        // One in a hundred is the halo between the sockets.
        "iso3dfd-first-touch" => each(0..8, |cpu| {
            let near = node(4)(cpu);
            vec![(near, stencil(points / 8.0 * 0.99)), (1 - near, stencil(points / 8.0 * 0.01))]
        }),
        // The blocks are handed out in their order: first those on node 0, then those on node 1.
        "iso3dfd-dynamic" => {
            let mut tables = MadeTables::default();
            for (epoch, page_node) in [(0, 0), (1, 1)] {
                (0..8)
                    .for_each(|cpu| tables.epoch(epoch, 1, cpu, 0.0, &[(page_node, stencil(points / 16.0))]));
            }
            tables
        }
        "phase1-remote" => MadeTables::all(0..4, &[(1, phase())]),
        "phase1-local" => MadeTables::all(0..4, &[(0, phase())]),
        "phase2-remote" => {
            MadeTables::all(0..4, &[(0, made_tables::updates(1_000_000)), (1, made_tables::reads(1_000_000))])
        }
        "rows" => second_level(950),
        "rows-without-prefetcher" | "columns" | "first-column" => second_level(10),
        "stream-copy" | "stream-scale" => each(0..8, own(streamed(8.0 * 4e6, 8.0 * 4e6), 4)),
        "stream-add" | "stream-triad" => each(0..8, own(streamed(16.0 * 4e6, 8.0 * 4e6), 4)),
        "openmp-1" => MadeTables::all(0..8, &[(0, made_tables::updates(10_000))]),
        // a, read and written, is remote; b, read, is not.
        "openmp-2" => each(0..8, |cpu| {
            vec![(0, made_tables::updates(10_000)), (cpu as i16, made_tables::reads(10_000))]
        }),
        "openmp-3" => MadeTables::all(0..8, &spread(made_tables::updates(16_000), &[0, 1, 2, 3, 4, 5, 6, 7])),
        "openmp-4" => each(0..8, |cpu| {
            vec![
                (cpu as i16, made_tables::updates(9_970)),
                (((cpu + 1) % 8) as i16, made_tables::updates(30)),
            ]
        }),
        "triad-one-node" => MadeTables::all(0..8, &[(0, triad())]),
        "triad-interleaved" => MadeTables::all(0..8, &spread(triad(), &[0, 1])),
        "triad-first-touch" => each(0..8, own(triad(), 4)),
        "chase-serial" => MadeTables::all(0..8, &[(0, chase())]),
        "chase-parallel" => each(0..8, own(chase(), 4)),
        "large-4" => MadeTables::all(0..4, &[(0, made_tables::updates(400_000))]),
        "large-2+2" => each([0, 1, 4, 5], own(made_tables::updates(400_000), 4)),
        "large-8" => each(0..8, own(made_tables::updates(400_000), 4)),
        "small-4" => MadeTables::all(0..4, &[(0, made_tables::updates(100_000))]),
        "small-2+2" => each([0, 1, 4, 5], own(made_tables::updates(10_000), 4)),
        "small-8" => each(0..8, own(made_tables::updates(100_000), 4)),
        _ if name.ends_with("repaired") => each(0..8, |cpu| vec![(cpu as i16, made_tables::updates(10_000))]),
        _ => {
            let memory: i16 = name.strip_prefix("copy-").unwrap().parse().unwrap();
            let lines = 2 * 16 * 1024 * 1024 / 64;
            let copy =
                Lines { prefetched: 2 * lines, written: lines, instructions: lines * 24, ..Lines::default() };
            // One after the other.
            let mut tables = MadeTables::default();
            for cpu in 0..4 {
                tables.epoch(cpu.into(), 1, cpu, 0.0, &[(memory / 2, copy)]);
            }
            tables
        }
    }
}

fn phase() -> Lines {
    Lines { instructions: 20_000_000, ..made_tables::updates(1_000_000) }
}

fn triad() -> Lines {
    streamed(4.0 * 16.0 * 8_192_000.0 / 8.0, 4.0 * 8.0 * 8_192_000.0 / 8.0)
}

fn chase() -> Lines {
    Lines { demanded: 100_000, dependent: 100_000, instructions: 150_000, ..Lines::default() }
}

fn sights() -> Sights {
    let mut all = Sights::default();
    for run in runs(false) {
        all.0.insert(run.name.into(), seen(&run, counts(run.name)));
    }
    let machine = described("opteron-6174-4s");
    let (cpus, traffic) = Default::default();
    all.0.insert(
        CALCULATED.into(),
        Seen { machine, cpus, traffic, factor: 1.0, full: true, scale: String::new(), repeat: 1.0 },
    );
    all
}

/// The page with the figures of docs/time-model.md: a change of the model or of a machine shows here first.
/// `NEARFAR_UPDATE_GOLDEN=1` writes it anew.
fn golden(text: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/reproduce.txt");
    if std::env::var_os("NEARFAR_UPDATE_GOLDEN").is_some_and(|v| v == "1") {
        std::fs::write(path, text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for (mine, theirs) in text.lines().zip(expected.lines()) {
        assert_eq!(mine, theirs, "{path} differs");
    }
    assert_eq!(text.len(), expected.len(), "{path} differs at its end");
}

#[test]
fn every_case_holds_or_says_why_not() {
    let sights = sights();
    let cases: Vec<Case> = (1..=CASES).map(|id| judge(id, &sights, false)).collect();
    golden(&to_text(&Reproduction { schema: 1, cases: cases.clone() }, 100, false));
    for case in &cases {
        assert!(!case.rows.is_empty(), "case {}: {:?}", case.id, case.obtained);
        assert!(case.holds || case.explained.is_some(), "case {} does not hold", case.id);
        assert!(case.fitted.is_empty(), "case {} has {:?} fitted to it", case.id, case.fitted);
        let numbers = case.rows.iter().filter(|r| r.error.is_some());
        for row in numbers {
            let off = row.error.unwrap();
            assert_eq!(row.holds, Some(off.abs() <= TOLERANCE), "case {}: {}", case.id, row.what);
        }
    }
    let off: Vec<u8> = cases.iter().filter(|c| !c.holds).map(|c| c.id).collect();
    assert_eq!(off, [11, 13, 14], "which cases are off is known");
    let of = |kind| cases.iter().filter(|c| c.kind == kind).map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(of(Kind::Number), [1, 2, 3, 4, 11, 13, 14, 17]);
    assert_eq!(of(Kind::Relation), [5, 6, 7, 8, 9, 12, 15, 16]);
    assert_eq!(of(Kind::Arithmetic), [10]);
}

#[test]
fn every_case_fails_when_it_is_made_wrong() {
    let sights = sights();
    let pairs: Vec<(Case, Case)> =
        (1..=CASES).map(|id| (judge(id, &sights, false), judge(id, &sights, true))).collect();
    println!("{}", mutated_to_text(&pairs, 100, false));
    for (right, wrong) in &pairs {
        assert!(right.lost_in(wrong).next().is_some(), "case {} holds all the same", right.id);
        assert!(!wrong.holds && wrong.mutated && wrong.explained.is_none());
    }
}

#[test]
fn a_case_without_its_runs_is_unknown_and_says_which() {
    for id in (1..=CASES).filter(|&id| !needs(id).is_empty()) {
        let case = judge(id, &Sights::default(), false);
        assert!(!case.holds && case.rows.is_empty() && case.explained.is_none());
        let Value::Words(words) = &case.obtained else { panic!("{:?}", case.obtained) };
        assert!(words.starts_with("unknown: the run `"), "{words}");
        let text = to_text(&Reproduction { schema: 1, cases: vec![case] }, 80, false);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("DOES NOT HOLD") && text.contains("unknown"), "{text}");
    }
}

#[test]
fn the_json_has_what_is_promised() {
    let sights = sights();
    let cases = (1..=CASES).map(|id| judge(id, &sights, false)).collect();
    let json: serde_json::Value = serde_json::from_str(&to_json(&Reproduction { schema: 1, cases })).unwrap();
    let cases = json["cases"].as_array().unwrap();
    assert_eq!(
        cases.iter().map(|c| c["id"].as_u64().unwrap()).collect::<Vec<_>>(),
        (1..=17).collect::<Vec<_>>()
    );
    for case in cases {
        for key in ["kind", "published", "obtained", "unit", "holds", "fitted", "scale"] {
            assert!(!case[key].is_null(), "case {}: no {key}", case["id"]);
        }
        assert!(case.get("error").is_some() && case.get("binds").is_some());
    }
}

#[test]
fn runs_are_the_cases_runs_and_full_ones_are_published_sizes() {
    let needed: BTreeSet<&str> = (1..=CASES).flat_map(needs).copied().collect();
    for full in [false, true] {
        let all = runs(full);
        let names: BTreeSet<&str> = all.iter().map(|r| r.name).collect();
        assert_eq!(names, needed);
        assert_eq!(names.len(), all.len(), "a name twice");
        for run in &all {
            let whole = described(run.machine);
            let options =
                ScaleOptions { cpus_per_node: run.cpus_per_node, smt: false, interleaved: run.interleaved };
            scale(&whole, &options).unwrap_or_else(|e| panic!("{}: {e}", run.name));
        }
    }
    let first = &runs(true)[0];
    assert_eq!(first.command.join(" "), "@iso3dfd 448 2016 1056 10 448 24 96 --init serial");
    assert!(first.environment.contains(&("OMP_NUM_THREADS", "44".into())));
}
