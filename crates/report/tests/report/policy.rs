//! What `nearfar fix` offers: policies of whole processes, which one is chosen of what a report predicts, and what is said where none
//! gains; and files of objects, where they can say something.

use crate::{samples, to_text};
use nearfar_analyze::{OneNode, Predicted, Repair, RepairRow, Report};
use nearfar_machine::cpulist::NodeList;
use nearfar_report::policy::{Form, Known, Policy, Refused, choose, text};

fn nodes() -> NodeList {
    [0, 1].into_iter().collect()
}

fn predicted(ratio: f64) -> Predicted {
    Predicted { ratio, low: ratio - 0.02, high: ratio + 0.02 }
}

/// The sample with other predictions of policies of the whole process: pages in turns, by bandwidth, one node.
fn with(even: f64, weighted: Option<f64>, one_node: Option<f64>) -> Report {
    let mut r = samples::simulated();
    let w = r.what_if.as_mut().unwrap();
    let all =
        |repair, ratio| RepairRow { objects: vec![], repair, predicted: predicted(ratio), remote_share: 0.5 };
    w.repairs.retain(|row| !row.objects.is_empty() || row.repair == Repair::WhereUsed);
    w.repairs.push(all(Repair::Interleave, even));
    w.repairs.extend(weighted.map(|ratio| all(Repair::WeightedInterleave, ratio)));
    w.one_node = one_node.map(|ratio| OneNode { node: 1, predicted: predicted(ratio) });
    r
}

#[test]
fn what_gains_most_is_chosen_and_says_what_it_keeps_of_single_objects() {
    let choice = choose(&with(0.66, None, Some(0.9)), &nodes(), &NodeList::default(), Form::Numactl).unwrap();
    assert_eq!(choice.policy, Policy::Interleave(nodes()));
    // 34 % of the time where single objects gain 49 %.
    assert_eq!(choice.gain(), "34 % less time (32 to 36 %)");
    assert!(choice.kept().starts_with("This keeps 69 % of"), "{}", choice.kept());
    assert!(choice.kept().contains("49 % less time (42 to 55 %)"), "{}", choice.kept());
    let choice = choose(&with(0.95, None, Some(0.9)), &nodes(), &NodeList::default(), Form::Slurm).unwrap();
    assert_eq!(choice.policy, Policy::OneNode(1));
    let choice = choose(&with(0.4, None, None), &nodes(), &NodeList::default(), Form::Oci).unwrap();
    assert_eq!(choice.kept(), "Placing single objects is not predicted to gain more.");
}

#[test]
fn what_a_form_does_not_have_is_named_and_the_next_is_written() {
    let report = with(0.66, Some(0.6), None);
    for form in Form::ALL {
        let choice = choose(&report, &nodes(), &NodeList::default(), form).unwrap();
        let written = text(form, &choice, &Known::default());
        match form {
            Form::Systemd => {
                assert_eq!(choice.policy, Policy::Interleave(nodes()));
                assert!(
                    written.contains("not to be had here: all memory in turns on nodes 0-1, by"),
                    "{written}"
                );
            }
            _ => {
                assert_eq!(choice.policy, Policy::WeightedInterleave(nodes()));
                assert!(written.contains("Linux 6.9"), "{written}");
            }
        }
    }
}

#[test]
fn weights_of_the_whole_machine_are_said_as_root_types_them() {
    let mut report = with(0.9, None, None);
    let repair = Repair::Weighted { with_cpus: 5, without: 2 };
    let row = RepairRow { objects: vec![], repair, predicted: predicted(0.6), remote_share: 0.5 };
    report.what_if.as_mut().unwrap().repairs.push(row);
    let memory: NodeList = [2].into_iter().collect();
    for form in Form::ALL {
        let choice = choose(&report, &nodes(), &memory, form).unwrap();
        let written = text(form, &choice, &Known::default());
        if form == Form::Systemd {
            assert_eq!(choice.policy, Policy::Interleave(nodes()));
            continue;
        }
        assert_eq!(choice.policy, Policy::Weights(vec![(0, 5), (1, 5), (2, 2)]));
        assert!(written.contains("echo 2 > /sys/kernel/mm/mempolicy/weighted_interleave/node2"), "{written}");
        let on = if form == Form::Oci { "MPOL_WEIGHTED_INTERLEAVE" } else { "--weighted-interleave=0-2" };
        assert!(written.contains(on), "{written}");
    }
}

#[test]
fn where_only_single_objects_gain_nothing_is_chosen() {
    // One gains too little, the other may as well lose: its range reaches beyond 1.
    let mut report = with(0.98, None, Some(0.9));
    report.what_if.as_mut().unwrap().one_node.as_mut().unwrap().predicted.high = 1.01;
    let Err(Refused::OnlyObjects(why)) = choose(&report, &nodes(), &NodeList::default(), Form::Numactl)
    else {
        panic!()
    };
    for said in ["2.0 % less time", "threads and memory on node 1", "49 % less time (42 to 55 %)"] {
        assert!(why.contains(said), "{said}: {why}");
    }
    let mut slower = with(1.16, None, None);
    let Err(Refused::OnlyObjects(why)) = choose(&slower, &nodes(), &NodeList::default(), Form::Numactl)
    else {
        panic!()
    };
    assert!(why.contains("time × 1.16"), "{why}");
    let w = slower.what_if.as_mut().unwrap();
    (w.best, w.placeable) = (None, None);
    assert_eq!(choose(&slower, &nodes(), &NodeList::default(), Form::Numactl), Err(Refused::NothingGains));
    let sampled = samples::affected();
    assert_eq!(
        choose(&sampled, &nodes(), &NodeList::default(), Form::Numactl),
        Err(Refused::Unpredicted("no page was counted".to_owned()))
    );
}

#[test]
fn no_name_of_the_program_leaves_its_comment_or_its_word() {
    let evil = "a\nb\u{1b}[2J\u{202e}: 'x'\" # -".to_owned();
    let known = Known { command: vec![evil.clone(), evil], machine: "m\nx".into(), ..Known::default() };
    for policy in [Policy::Interleave(nodes()), Policy::OneNode(0)] {
        let mut choice = choose(&with(0.66, None, None), &nodes(), &NodeList::default(), Form::Oci).unwrap();
        choice.policy = policy;
        for form in Form::ALL {
            let written = text(form, &choice, &known);
            let obeyed = |c: char| c != '\n' && nearfar_figures::escape::is_command(c);
            assert!(!written.contains(obeyed), "{written:?}");
            // A name that ended a line would begin the next one.
            assert!(written.lines().all(|line| !line.starts_with('b') && line != "x"), "{written}");
        }
    }
}

/// Two arrays of one line, of which samples show different users: a file cannot tell them apart, and none is offered.
#[test]
fn fix_is_offered_only_where_a_file_can_say_something() {
    let offered = |r: &Report| to_text(r, 100, false).contains("nearfar fix");
    let mut r = samples::affected();
    assert!(offered(&r));
    let mut other = r.findings[0].repairs[0].clone();
    other.object = "other".into();
    other.blocks = vec![(64 << 20, 0), (256 << 20, 1)];
    r.findings[0].repairs.push(other);
    assert!(!offered(&r));
}
