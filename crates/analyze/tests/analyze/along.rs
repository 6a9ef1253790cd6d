//! What was counted beside the samples. All values of hardware counters are made by hand: no machine that this is built on
//! has them.

use crate::made_recording::*;
use nearfar_analyze::CountedAlong;
use nearfar_machine::Machine;
use nearfar_recording::*;

fn row(along: Along, thread: u32, value: f64, ran: f64) -> Counter {
    Counter {
        time_ns: WORK,
        cpu: u16::MAX,
        node: -1,
        name: along.name().into(),
        value,
        unit: along.unit().into(),
        place: String::new(),
        running_share: ran,
        source: "made by hand".into(),
        why: if value.is_finite() { String::new() } else { "no such counter".into() },
        thread,
        interval_ns: 1_000_000_000,
    }
}

fn counted(rows: Vec<Counter>, machine: Machine) -> CountedAlong {
    let mut w = MadeRecording::new(2);
    let work = w.own("work", 20);
    let array = w.array("a", 64);
    w.touch(100, 0, work, array, 64);
    w.input.meta.machine = machine;
    rows.into_iter().for_each(|row| w.input.counters.push(row));
    w.real().counted_along.expect("there are counters")
}

#[test]
fn hand_made_lines_of_threads_give_a_remote_share_and_the_least_time_that_they_ran() {
    let (local, remote) = (Along::LocalLines, Along::RemoteLines);
    let of = |value, ran| (value, ran);
    let mut rows = vec![row(Along::CpuTime, NONE, 10e9, 1.0), row(Along::CpuTime, 0, 8e9, 1.0)];
    for (thread, (near, ran), (far, _)) in
        [(0, of(100.0, 1.0), of(300.0, 1.0)), (1, of(500.0, 0.5), of(100.0, 0.5))]
    {
        rows.extend([row(local, thread, near, ran), row(remote, thread, far, ran)]);
    }
    let along = counted(rows, machine(2, 1));
    assert_eq!(along.remote_share, Some(0.4));
    assert_eq!(along.threads_share, Some(0.8));
    let lines = along.program.iter().find(|v| v.name == local.name()).unwrap();
    assert_eq!(
        (lines.value, lines.running_share, lines.of.as_str()),
        (Some(600.0), Some(0.5), "the counted threads")
    );
    let mut own: Vec<Option<f64>> = along.threads.iter().map(|t| t.remote_lines).collect();
    own.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(own, [Some(100.0), Some(300.0)]);
}

#[test]
fn a_hand_made_value_that_is_missing_makes_sum_and_share_unknown_and_not_smaller() {
    let rows = vec![
        row(Along::LocalLines, 0, 100.0, 1.0),
        row(Along::RemoteLines, 0, 300.0, 1.0),
        row(Along::RemoteLines, 1, f64::NAN, -1.0),
        row(Along::Cycles, NONE, f64::NAN, -1.0),
    ];
    let along = counted(rows, machine(2, 1));
    let value = |what: Along| along.program.iter().find(|v| v.name == what.name()).unwrap();
    assert_eq!((value(Along::RemoteLines).value, value(Along::Cycles).value), (None, None));
    assert_eq!(value(Along::Cycles).why.as_deref(), Some("no such counter"));
    assert_eq!(along.remote_share, None);
    assert!(along.remote_share_why.unwrap().contains("1 of 2 readings"));
}

#[test]
fn hand_made_lines_on_sockets_of_several_nodes_give_no_share() {
    let mut clustered = machine(2, 1);
    clustered.nodes.iter_mut().for_each(|n| n.package = Some(0));
    let rows = vec![row(Along::LocalLines, 0, 100.0, 1.0), row(Along::RemoteLines, 0, 300.0, 1.0)];
    let along = counted(rows, clustered);
    assert_eq!(along.remote_share, None);
    assert!(along.remote_share_why.unwrap().contains("SNC"));
}
