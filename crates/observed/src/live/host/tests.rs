//! Hand-made readings of which every rate is known.

use super::super::events::Missing;
use super::super::reading::{Count, CpuTicks, Monitored, Moved, NodeMemory, Pages, Source, Stat, Thread};
use super::*;
use crate::residency::activity::Activity;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn host() -> Host {
    Host {
        machine: Machine::from_shape("2x2").unwrap(),
        page_bytes: 4096,
        figures: String::new(),
        lines: "lines",
    }
}

fn numastat(hit: u64, miss: u64) -> String {
    format!("numa_hit {hit}\nnuma_miss {miss}\nnuma_foreign 0\ninterleave_hit 0\nother_node {miss}\n")
}

/// A host with four cpus, a process of two threads, and no counters but the kernel's.
fn reading(at_s: u64) -> Reading {
    let cpus = (0..4u32).map(|cpu| {
        // Cpu 0 works all the time, cpu 1 half of it, the hypervisor takes a quarter of cpu 2's.
        let (busy, stolen) = [(100, 0), (50, 0), (0, 25), (0, 0)][cpu as usize];
        (cpu, CpuTicks { busy: busy * at_s, idle: (100 - busy - stolen) * at_s, stolen: stolen * at_s })
    });
    let memory = NodeMemory { total: Some(1000), free: Some(250), anonymous: Some(5), files: None };
    let stat = |name: &str, ticks: u64, cpu: u32| Stat {
        name: name.into(),
        state: 'R',
        minor_faults: 10 * at_s,
        ticks,
        threads: 2,
        started: 7,
        resident_pages: 3,
        cpu: Some(cpu),
        ..Stat::default()
    };
    let thread = |ticks, cpu, migrations| Thread {
        pid: 50,
        stat: stat("worker", ticks, cpu),
        migrations,
        pages_migrated: None,
    };
    let pages = Pages { at_ns: SECOND, nodes: BTreeMap::from([(0, 1000), (1, 3000)]), sampled: false };
    Reading {
        at_ns: at_s * SECOND,
        cpus: cpus.collect(),
        nodes: BTreeMap::from([(0, memory), (1, memory)]),
        activity: Activity::read(
            &format!("numa_pages_migrated {}\n", 5 * at_s),
            [(0, numastat(100 * at_s, 0)), (1, numastat(0, 20 * at_s))],
        ),
        faults: Some(30 * at_s),
        processes: BTreeMap::from([(
            50,
            super::super::reading::Process {
                stat: stat("app", 100 * at_s, 0),
                pages: Some(pages),
                pages_why: None,
            },
        )]),
        threads: BTreeMap::from([
            (50, thread(75 * at_s, 0, Some(2 * at_s))),
            (51, thread(25 * at_s, if at_s == 1 { 0 } else { 2 }, Some(0))),
        ]),
        missing_events: Event::ALL.iter().map(|e| (*e, Missing { why: "no PMU here".into() })).collect(),
        ticks_per_second: 100.0,
        ..Reading::default()
    }
}

#[test]
fn rates_are_differences_over_the_interval() {
    let frame = host().frame(&reading(1), &reading(3), SECOND);
    assert_eq!((frame.at_s, frame.interval_s), (2.0, 2.0));
    let (cores, nodes) = (frame.table(Tab::Cores).unwrap(), frame.table(Tab::Nodes).unwrap());
    let busy: Vec<_> = (0..4).map(|cpu| cores.number(cpu, "busy")).collect();
    assert_eq!(busy, [Some(1.0), Some(0.5), Some(0.0), Some(0.0)]);
    assert_eq!(cores.number(2, "stolen"), Some(0.25));
    assert_eq!(
        (nodes.number(0, "busy"), nodes.number(0, "hit"), nodes.number(1, "miss")),
        (Some(0.75), Some(100.0), Some(20.0))
    );
    assert_eq!(nodes.number(0, "used_share"), Some(0.75));
    let machine = frame.table(Tab::Machine).unwrap();
    assert_eq!((machine.number(0, "busy"), machine.number(0, "faults")), (Some(1.5), Some(30.0)));
    assert_eq!((machine.number(0, "numa_migrated"), machine.number(0, "migrated")), (Some(5.0), None));
    let processes = frame.table(Tab::Processes).unwrap();
    assert_eq!((processes.number(50, "cpu"), processes.number(50, "faults")), (Some(1.0), Some(10.0)));
    assert_eq!(
        (processes.number(50, "migrations"), processes.number(50, "node1")),
        (Some(2.0), Some(3000.0))
    );
    assert_eq!(processes.cell(50, "on"), Some(&Cell::Text("0,1".into())));
    // Three quarters of the time on node 0 with a quarter of the pages, a quarter on node 1 with the rest.
    let far = processes.number(50, "far_pages").unwrap();
    assert!((far - (0.75 * 0.75 + 0.25 * 0.25)).abs() < 1e-4, "{far}");
    let threads = frame.table(Tab::Threads).unwrap();
    assert_eq!((threads.number(50, "cpu"), threads.number(50, "migrations")), (Some(0.75), Some(2.0)));
    assert_eq!(threads.cell(51, "moved"), Some(&Cell::Text("0→1".into())));
}

#[test]
fn what_has_no_source_is_unknown_with_its_reason_and_never_nothing() {
    let frame = host().frame(&reading(1), &reading(3), SECOND);
    for (tab, table) in frame.tables() {
        assert_eq!(table.unexplained(), [""; 0], "{tab:?}");
    }
    let cores = frame.table(Tab::Cores).unwrap();
    for key in ["ipc", "instructions", "l2_hit", "local", "remote", "remote_share"] {
        assert_eq!(cores.cell(0, key), Some(&Cell::Unknown), "{key}");
        assert_eq!(cores.why[key], "no PMU here");
    }
    let missing: Vec<&str> =
        frame.table(Tab::Nodes).unwrap().missing().iter().map(|(c, _)| c.key.as_ref()).collect();
    assert_eq!(missing, ["files", "read", "write", "bandwidth_share", "own", "others"]);
    // The same moment twice: nothing has ticked.
    let frame = host().frame(&reading(1), &reading(1), SECOND);
    assert_eq!(frame.table(Tab::Cores).unwrap().cell(0, "busy"), Some(&Cell::Unknown));
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let (then, mut now) = (reading(1), reading(3));
    now.processes.get_mut(&50).unwrap().stat.started = 8;
    let frame = host().frame(&then, &now, SECOND);
    let processes = frame.table(Tab::Processes).unwrap();
    assert_eq!(processes.cell(50, "cpu"), Some(&Cell::Unknown));
    assert_eq!(processes.cell(50, "faults"), Some(&Cell::Unknown));
}

#[test]
fn hardware_counts_and_bandwidth_are_shown_where_they_are() {
    let mut host = host();
    let (mut then, mut now) = (reading(1), reading(3));
    for (reading, n) in [(&mut then, 0), (&mut now, 1)] {
        let count = |value| Count { value: value * n, enabled_ns: 100 * n, running_ns: 100 * n };
        let events = [
            (Event::Cycles, 4_000),
            (Event::Instructions, 2_000),
            (Event::L2Hits, 30),
            (Event::L2Misses, 10),
            (Event::L3Hits, 0),
            (Event::L3Misses, 0),
            (Event::LocalLines, 25),
            (Event::RemoteLines, 75),
        ];
        reading.events.insert(0, events.iter().map(|(e, v)| (*e, count(*v))).collect());
        let moved = Moved { read: 20 * n, written: 10 * n };
        reading.controllers = Source::Is(BTreeMap::from([(0, moved), (1, moved)]), "uncore_imc".into());
        reading.monitored =
            Source::Is(BTreeMap::from([(0, Monitored { total: 9 * n, local: 4 * n })]), "resctrl".into());
    }
    let frame = host.frame(&then, &now, SECOND);
    let cores = frame.table(Tab::Cores).unwrap();
    assert_eq!((cores.number(0, "ipc"), cores.number(0, "l2_hit")), (Some(0.5), Some(0.75)));
    assert_eq!((cores.number(0, "local"), cores.number(0, "remote_share")), (Some(12.5), Some(0.75)));
    // No load missed the second level: the third has no rate.
    assert_eq!(cores.cell(0, "l3_hit"), Some(&Cell::Unknown));
    let nodes = frame.table(Tab::Nodes).unwrap();
    assert_eq!(
        (nodes.number(0, "read"), nodes.number(0, "own"), nodes.number(0, "others")),
        (Some(10.0), Some(2.0), Some(2.5))
    );
    assert_eq!(nodes.cell(1, "own"), Some(&Cell::Unknown));
    assert!(nodes.why["bandwidth_share"].contains("nearfar measure"));
    host.figures = "mine.toml".into();
    assert!(
        host.frame(&then, &now, SECOND).table(Tab::Nodes).unwrap().why["bandwidth_share"]
            .contains("mine.toml")
    );
    for (tab, table) in frame.tables() {
        assert_eq!(table.unexplained(), [""; 0], "{tab:?}");
    }
}
