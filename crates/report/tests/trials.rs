//! The verdict of runs under several placements: by hand, and on recorded noise.

use nearfar_compare::trials::{Hurts, Judged, Kind, Metric, NotTried, Trial, Trials, against, judge};
use nearfar_report::export::junit;
use nearfar_report::trials::{changes_to_text, to_text};

fn trial(name: &str, kind: Kind, values: &[f64]) -> Trial {
    Trial {
        name: name.to_owned(),
        what: name.to_owned(),
        run: if kind == Kind::Interleave { "-i 0-1".to_owned() } else { String::new() },
        kind,
        values: values.iter().copied().map(Some).collect(),
        ranges: Vec::new(),
        cpus: if kind == Kind::OneNode { 4 } else { 8 },
        busy: Vec::new(),
        failed: None,
        placed: Vec::new(),
    }
}

fn trials(less_is_better: bool, all: Vec<Trial>) -> Trials {
    Trials {
        command: vec!["./app".to_owned(), "-n".to_owned(), "5".to_owned()],
        machine: "two sockets".to_owned(),
        on: None,
        metric: Metric {
            source: if less_is_better { "wall time" } else { "`([0-9.]+) MPoints/s`" }.to_owned(),
            unit: if less_is_better { "s" } else { "MPoints/s" }.to_owned(),
            less_is_better,
        },
        rounds: all[0].values.len(),
        warm_up: None,
        seed: 1,
        interrupted: false,
        trials: all,
        not_tried: vec![NotTried { name: "AutoNUMA".to_owned(), why: "this kernel has none".to_owned() }],
    }
}

/// n values around `middle` that differ by up to ±`noise` in a fixed pattern.
fn around(middle: f64, noise: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| middle * (1.0 + noise * ((i * 7 % n) as f64 / (n - 1) as f64 * 2.0 - 1.0))).collect()
}

fn found<'a>(judged: &'a Judged, name: &str) -> &'a nearfar_compare::trials::Placed {
    judged.placements.iter().find(|p| p.name == name).unwrap()
}

#[test]
fn one_socket_that_is_faster_than_two_is_harmful_and_the_words_have_the_figures() {
    let trials = trials(
        false,
        vec![
            trial("as is", Kind::AsIs, &around(2766.0, 0.004, 12)),
            trial("node 0", Kind::OneNode, &around(2948.0, 0.004, 12)),
            trial("interleave", Kind::Interleave, &around(2700.0, 0.004, 12)),
        ],
    );
    let judged = judge(&trials);
    assert_eq!(judged.verdict, Hurts::Harmful, "{}", judged.why);
    assert!(
        judged.why.contains("node 0 is faster")
            && judged.why.contains("2948 MPoints/s against 2766 MPoints/s")
    );
    let gain = found(&judged, "node 0").gain.unwrap();
    // 2948 / 2766 − 1 = 6.58 %.
    assert!((gain.estimate - 0.0658).abs() < 1e-3 && gain.low > 0.05 && gain.high < 0.08, "{gain:?}");
    assert_eq!(found(&judged, "interleave").words, "slower");
    let text = to_text(&trials, &judged, 100, false);
    assert!(text.starts_with("NUMA hurts this program: node 0 is faster"), "{text}");
    assert!(text.contains("nearfar record -- ./app -n 5"), "{text}");
    assert!(text.contains("AutoNUMA: this kernel has none"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn ci_servers_get_the_verdict_as_a_test_and_the_placements_beside_it() {
    let mut all = trials(
        true,
        vec![
            trial("as is", Kind::AsIs, &around(2.0, 0.01, 12)),
            trial("interleave", Kind::Interleave, &around(1.6, 0.01, 12)),
        ],
    );
    all.command.push("<a & b>".to_owned());
    let suite = junit::trials(&all, &judge(&all));
    assert!(suite.contains(r#"tests="4" failures="1" errors="0" skipped="1""#), "{suite}");
    assert_eq!((suite.matches("<testcase").count(), suite.matches("<failure").count()), (4, 1), "{suite}");
    assert!(suite.contains("./app -n 5 &lt;a &amp; b&gt;</failure>"), "{suite}");
    assert!(suite.contains("<skipped message=\"this kernel has none\"/>"), "{suite}");
    // Without a verdict nothing was tested, so nothing passes.
    let few = trials(true, vec![trial("as is", Kind::AsIs, &[2.0])]);
    let suite = junit::trials(&few, &judge(&few));
    assert!(suite.contains("skipped=\"2\"") && suite.contains("no verdict: "), "{suite}");
}

#[test]
fn less_time_is_better_and_the_way_to_run_it_is_said() {
    let trials = trials(
        true,
        vec![
            trial("as is", Kind::AsIs, &around(2.0, 0.01, 12)),
            trial("interleave", Kind::Interleave, &around(1.6, 0.01, 12)),
        ],
    );
    let judged = judge(&trials);
    assert_eq!(judged.verdict, Hurts::Harmful);
    assert!((found(&judged, "interleave").gain.unwrap().estimate - 0.25).abs() < 0.01);
    assert!(
        to_text(&trials, &judged, 100, false).contains("-i 0-1 -- ./app -n 5    # as it was fastest here")
    );
    // The nodes of an emulated machine are not this host's.
    let emulated = Trials { on: Some("--on 2x2".to_owned()), ..trials };
    let text = to_text(&emulated, &judged, 100, false);
    assert!(text.contains("-i 0-1 -- ./app -n 5    # on a machine like two sockets: as it was"), "{text}");
}

#[test]
fn no_effect_is_said_only_within_two_percent() {
    let of = |noise: f64| {
        judge(&trials(
            true,
            vec![
                trial("as is", Kind::AsIs, &around(1.0, noise, 12)),
                // Another order of the same values: no difference, but noise.
                trial("interleave", Kind::Interleave, &around(1.0, -noise, 12)),
                trial("node 0", Kind::OneNode, &around(2.0, noise, 12)),
            ],
        ))
    };
    let quiet = of(0.005);
    assert_eq!((quiet.verdict, found(&quiet, "interleave").words.as_str()), (Hurts::Harmless, "no effect"));
    let noisy = of(0.1);
    assert_eq!(
        (noisy.verdict, found(&noisy, "interleave").words.as_str()),
        (Hurts::Unknown, "cannot be told")
    );
    assert!(noisy.why.contains("--runs"), "{}", noisy.why);
}

#[test]
fn drift_that_all_placements_share_does_not_matter() {
    // Every round is 10 % slower than the one before; interleave is 5 % faster in each.
    let base: Vec<f64> = (0..12).map(|i| 1.1f64.powi(i)).collect();
    let faster: Vec<f64> =
        base.iter().enumerate().map(|(i, v)| v / (1.05 + 0.001 * (i % 3) as f64)).collect();
    let judged = judge(&trials(
        true,
        vec![trial("as is", Kind::AsIs, &base), trial("interleave", Kind::Interleave, &faster)],
    ));
    assert_eq!(judged.verdict, Hurts::Harmful, "{}", judged.why);
    let gain = found(&judged, "interleave").gain.unwrap();
    assert!((gain.estimate - 0.051).abs() < 0.002, "{gain:?}");
}

#[test]
fn too_few_rounds_say_how_many_it_takes() {
    let of = |n: usize| {
        judge(&trials(
            true,
            vec![
                trial("as is", Kind::AsIs, &around(2.0, 0.001, n)),
                trial("interleave", Kind::Interleave, &around(1.0, 0.001, n)),
            ],
        ))
    };
    // Twice as fast; but four rounds could be luck one time in eight.
    let judged = of(4);
    assert_eq!(judged.verdict, Hurts::Unknown);
    assert!(judged.why.contains("--runs 8"), "{}", judged.why);
    assert_eq!(of(8).verdict, Hurts::Harmful);
}

#[test]
fn huge_pages_and_copies_are_no_numa() {
    for kind in [Kind::HugePages, Kind::Copies] {
        let judged = judge(&trials(
            true,
            vec![
                trial("as is", Kind::AsIs, &around(2.0, 0.004, 12)),
                trial("interleave", Kind::Interleave, &around(2.2, 0.004, 12)),
                trial("node 0", Kind::OneNode, &around(4.0, 0.004, 12)),
                trial("other", kind, &around(1.5, 0.004, 12)),
            ],
        ));
        assert_eq!(judged.verdict, Hurts::Harmless, "{}", judged.why);
        assert_eq!(found(&judged, "other").words, "faster");
        assert!(judged.why.contains("interleave is 9."), "{}", judged.why);
    }
}

#[test]
fn a_placement_that_fails_is_named_and_the_rest_is_judged() {
    let mut failing = trial("node 1", Kind::OneNode, &[]);
    failing.values = vec![None; 12];
    failing.failed = Some("it ended with exit 3".to_owned());
    let trials = trials(
        true,
        vec![
            trial("as is", Kind::AsIs, &around(2.0, 0.004, 12)),
            failing,
            trial("node 0", Kind::OneNode, &around(4.0, 0.004, 12)),
            trial("interleave", Kind::Interleave, &around(2.2, 0.004, 12)),
        ],
    );
    let judged = judge(&trials);
    assert_eq!((judged.verdict, found(&judged, "node 1").words.as_str()), (Hurts::Harmless, "failed"));
    assert_eq!(found(&judged, "node 1").median, None);
    let text = to_text(&trials, &judged, 100, false);
    assert!(text.contains("node 1: 12 runs without a value: it ended with exit 3"), "{text}");
}

#[test]
fn modelled_times_carry_the_range_of_the_figures_taken_together() {
    let modelled = |name: &str, kind, v: f64, range| Trial { ranges: vec![range], ..trial(name, kind, &[v]) };
    let of = |interleave: (f64, f64, f64)| {
        let mut all = trials(
            true,
            vec![
                modelled("as is", Kind::AsIs, 1.0, (0.7, 1.5)),
                modelled("interleave", Kind::Interleave, interleave.0, (interleave.1, interleave.2)),
                modelled("node 0", Kind::OneNode, 2.0, (1.4, 3.0)),
            ],
        );
        all.on = Some("--on x".to_owned());
        judge(&all)
    };
    // The ranges overlap widely, but with each set of figures interleave is faster.
    assert_eq!(of((0.8, 0.6, 1.25)).verdict, Hurts::Harmful);
    assert_eq!(of((0.99, 0.69, 1.49)).verdict, Hurts::Harmless);
    // Faster by one set, slower by another.
    assert_eq!(of((0.9, 0.8, 1.3)).verdict, Hurts::Unknown);
}

/// Simulated runs of as is, and of pages in turns that change nothing, one of which is 10 % faster than all others.
#[test]
fn of_seven_modelled_runs_one_that_is_odd_does_not_decide() {
    let of = |rounds: usize, odd: f64| {
        let modelled = |name: &str, kind, values: Vec<f64>| Trial {
            ranges: values.iter().map(|v| (0.99 * v, 1.01 * v)).collect(),
            ..trial(name, kind, &values)
        };
        let mut interleaved = around(1.0, 0.003, rounds);
        interleaved[1] *= odd;
        let mut all = trials(
            true,
            vec![
                modelled("as is", Kind::AsIs, around(1.0, 0.003, rounds)),
                modelled("interleave", Kind::Interleave, interleaved),
                modelled("node 0", Kind::OneNode, around(2.0, 0.003, rounds)),
            ],
        );
        all.on = Some("--on x".to_owned());
        judge(&all)
    };
    assert_eq!(of(2, 1.0).verdict, Hurts::Harmless);
    let odd = of(2, 0.9);
    assert_eq!(odd.verdict, Hurts::Unknown);
    assert!(
        odd.why.contains("the runs differ too much: with --runs 7, one odd run changes nothing"),
        "{}",
        odd.why
    );
    assert_eq!(of(7, 0.9).verdict, Hurts::Harmless);
}

#[test]
fn an_outlier_is_shown_and_does_not_decide() {
    let mut values = around(1.0, 0.004, 12);
    values[5] = 9.0;
    let trials = trials(
        true,
        vec![
            trial("as is", Kind::AsIs, &values),
            trial("interleave", Kind::Interleave, &around(1.0, 0.004, 12)),
            trial("node 0", Kind::OneNode, &around(2.0, 0.004, 12)),
        ],
    );
    let judged = judge(&trials);
    assert_eq!(found(&judged, "as is").outliers, [5]);
    assert_eq!(judged.verdict, Hurts::Harmless, "{}", judged.why);
    assert!(to_text(&trials, &judged, 100, false).contains("9.000 in round 6"));
}

#[test]
fn earlier_runs_are_compared_by_placement_and_never_across_metrics() {
    let of = |middle: f64, less| trials(less, vec![trial("as is", Kind::AsIs, &around(middle, 0.01, 12))]);
    let changes = against(&of(1.0, true), &of(1.1, true)).unwrap();
    let gain = changes[0].gain.unwrap();
    assert!((gain.estimate - 0.1).abs() < 0.002 && gain.low > 0.05 && gain.high < 0.15, "{gain:?}");
    let text = changes_to_text(&changes, &of(1.0, true), 100, false);
    assert!(text.contains("as is: 1.100 s, now 1.000 s; faster by +10 %"), "{text}");
    assert!(against(&of(1.0, true), &of(1.0, false)).unwrap_err().contains("wall time"));
}

#[test]
fn two_nodes_that_do_little_more_than_one_are_not_called_harmless() {
    let of = |busy: f64, on_one: f64| {
        let mut as_is = trial("as is", Kind::AsIs, &around(1.0, 0.004, 12));
        as_is.busy = vec![busy; 12];
        judge(&trials(true, vec![as_is, trial("node 0", Kind::OneNode, &around(on_one, 0.004, 12))]))
    };
    assert_eq!(of(8.0, 1.9).verdict, Hurts::Harmless);
    let judged = of(8.0, 1.3);
    assert_eq!(judged.verdict, Hurts::Unknown);
    assert!(judged.why.contains("only 1.30 times as fast as on node 0"), "{}", judged.why);
    // Without a single node nothing shows what near memory would be like.
    let interleaved = trial("interleave", Kind::Interleave, &around(1.2, 0.004, 12));
    let judged = judge(&trials(true, vec![trial("as is", Kind::AsIs, &around(1.0, 0.004, 12)), interleaved]));
    assert_eq!(judged.verdict, Hurts::Unknown);
    assert!(judged.why.contains("none of them was a single node"), "{}", judged.why);
    // A program that has work for one node only loses nothing there.
    assert_eq!(of(3.5, 1.0).verdict, Hurts::Harmless);
}

/// Wall times of one program, run after run, with nothing changed between them.
const RECORDED: [(&str, &str); 2] =
    [("chase", include_str!("trials/chase.txt")), ("iso3dfd", include_str!("trials/iso3dfd.txt"))];

/// Twenty checks of `rounds` rounds and `placements` placements on runs of their own; the command as it is
/// takes `factor` times as long as was recorded.
fn checks(recorded: &str, rounds: usize, placements: usize, factor: f64) -> Vec<Judged> {
    let kinds = [Kind::AsIs, Kind::Interleave, Kind::OneNode, Kind::OneNode, Kind::Pinned];
    let lines = recorded.lines().filter(|l| !l.starts_with('#'));
    let times: Vec<f64> = lines.map(|l| l.parse().unwrap()).collect();
    let windows = times.chunks_exact(rounds * placements).take(20);
    windows
        .map(|times| {
            let of = |at: usize| -> Vec<f64> {
                // Another placement is first in each round, as where the order is drawn at random.
                let run = |round: usize| times[round * placements + (at + round * 3) % placements];
                (0..rounds).map(|r| run(r) * if at == 0 { factor } else { 1.0 }).collect()
            };
            let name = |at: usize| format!("{:?} {at}", kinds[at]);
            let mut all: Vec<Trial> =
                (0..placements).map(|at| trial(&name(at), kinds[at], &of(at))).collect();
            // As the chase, whose one thread fits on any node.
            all[0].busy = vec![1.0];
            judge(&trials(true, all))
        })
        .collect()
}

fn count(all: &[Judged], verdict: Hurts) -> usize {
    all.iter().filter(|j| j.verdict == verdict).count()
}

#[test]
fn recorded_noise_is_never_called_harmful() {
    for (name, recorded, rounds, placements) in [
        ("chase", RECORDED[0].1, 12, 5),
        ("chase", RECORDED[0].1, 60, 5),
        ("chase", RECORDED[0].1, 150, 2),
        ("iso3dfd", RECORDED[1].1, 12, 5),
        ("iso3dfd", RECORDED[1].1, 37, 2),
    ] {
        let all = checks(recorded, rounds, placements, 1.0);
        let [harmful, harmless] = [Hurts::Harmful, Hurts::Harmless].map(|v| count(&all, v));
        println!(
            "{name}, {rounds} rounds of {placements}: {harmful} harmful, {harmless} harmless of {}",
            all.len()
        );
        assert_eq!((all.len(), harmful), (20, 0), "{name}");
    }
}

/// The recorded runs differ from their neighbours by 20 % and more, so that it takes many of them: the
/// interval's width falls with the root of their number.
#[test]
fn an_effect_of_five_percent_is_found_in_recorded_noise() {
    let all = checks(RECORDED[0].1, 150, 2, 1.05);
    let [harmful, harmless] = [Hurts::Harmful, Hurts::Harmless].map(|v| count(&all, v));
    println!("found in {harmful} of {}, overlooked in {harmless}", all.len());
    assert!(all.len() == 20 && harmful >= 18 && harmless == 0, "{harmful} found, {harmless} overlooked");
    // Where runs are too few for the noise, that is said: an effect is not overlooked.
    for (name, recorded, rounds) in [("chase", RECORDED[0].1, 12), ("iso3dfd", RECORDED[1].1, 12)] {
        let all = checks(recorded, rounds, 5, 1.05);
        assert_eq!(count(&all, Hurts::Harmless), 0, "{name}");
    }
}
