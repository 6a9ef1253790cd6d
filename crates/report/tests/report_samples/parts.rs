//! Parts of the sample reports.

use nearfar_analyze::*;
use nearfar_machine::DistanceClass;

pub(super) fn interval(low: f64, high: f64) -> Option<Interval> {
    Some(Interval { low, high })
}

pub(super) fn distance(local: f64, other: f64) -> Vec<DistanceShare> {
    [(DistanceClass::Local, local), (DistanceClass::OtherSocket, other)]
        .map(|(class, share)| DistanceShare { class, share })
        .to_vec()
}

pub(super) fn predicted(ratio: f64) -> Predicted {
    Predicted { ratio, low: ratio - 0.06, high: ratio + 0.07 }
}

/// What to do with an object of two parts; as if several had been allocated at its line, too.
pub(super) fn repair(object: &str, repair: Repair) -> RepairPart {
    RepairPart {
        object: object.into(),
        repair,
        allocated_at: Some("triad.c:12".into()),
        variable: None,
        module: None,
        nodes: vec![0, 1],
        bytes: 256 << 20,
        blocks: vec![(128 << 20, 0), (256 << 20, 1)],
        weights: vec![1, 1],
        turns: vec![0, 1],
        not_placeable: None,
    }
}

pub(super) fn what_if() -> WhatIf {
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let row = |objects: &[&str], repair, ratio, remote_share| RepairRow {
        objects: names(objects),
        repair,
        predicted: predicted(ratio),
        remote_share,
    };
    let best = || Combination {
        parts: ["a", "b", "c"].map(|o| repair(o, Repair::WhereUsed)).to_vec(),
        predicted: predicted(0.51),
        remote_share: 0.0,
    };
    WhatIf {
        remote_share: 0.5,
        repairs: vec![
            row(&["a"], Repair::WhereUsed, 0.74, 0.33),
            row(&["b"], Repair::Bind { node: 1 }, 0.8, 0.5),
            row(&["c"], Repair::Interleave, 0.99, 0.5),
            row(&[], Repair::WhereUsed, 0.51, 0.0),
            row(&[], Repair::Interleave, 0.66, 0.5),
        ],
        best: Some(best()),
        placeable: Some(best()),
        all_local: predicted(0.51),
        one_node: Some(OneNode { node: 0, predicted: predicted(0.9) }),
        not_worth: vec![NotWorth {
            kind: "schedule_mismatch".into(),
            objects: names(&["halo"]),
            predicted: predicted(0.98),
        }],
    }
}

pub(super) fn used(at: &str, function: &str, share: f64, remote: Option<f64>) -> UseRow {
    UseRow {
        at: Some(at.into()),
        function: Some(function.into()),
        stall_share: share,
        remote_share: remote,
        near_share: remote.map(|far| share * (1.0 - far)),
        at_risk: remote.map(|far| share * far),
        dram: None,
    }
}

pub(super) fn object(name: &str, line: u32, share: f64, remote: f64) -> ObjectRow {
    ObjectRow {
        name: name.into(),
        name_from: "source".into(),
        kind: "heap".into(),
        bytes: 256 << 20,
        count: 1,
        allocated_at: Some(format!("triad.c:{line}")),
        allocated_in: Some("main".into()),
        allocated_for: None,
        allocated_through: vec!["take (pool.c:7)".into()],
        allocations: 1,
        first_touch: vec![TouchRow {
            thread: 4242,
            node: Some(0),
            pages: 65_536,
            at: Some("triad.c:21".into()),
            function: Some("init".into()),
            how: "write".into(),
        }],
        pages: PageOrigins { total: 65_536, touched: 65_536, ..PageOrigins::default() },
        folio_bytes: vec![4096],
        samples: (share * 9100.0) as u64,
        stall_share: share,
        remote_share: Some(remote),
        remote_share_ci: interval(remote - 0.021, remote + 0.022),
        remote_share_exact: false,
        dram: None,
        estimated_lines: None,
        distance: distance(1.0 - remote, remote),
        page_node_unknown_share: 0.004,
        accessed_at: vec![used("triad.c:30", "triad._omp_fn.0", share, Some(remote))],
        pattern: Pattern::Blocked,
        thread_ranges: vec![ThreadRange { thread: 4242, samples: 700, from: 0, to: 32 << 20 }],
    }
}

pub(super) fn thread(index: u32, node: u32, by_page_node: Vec<f64>) -> ThreadRow {
    ThreadRow {
        tid: 4242 + index,
        name: "triad".into(),
        index,
        node: Some(node),
        samples: 2275,
        share: 0.25,
        by_page_node,
        cpus: 1,
        migrations: 0,
        waiting_share: Some(0.01),
    }
}

pub(super) fn traffic() -> Traffic {
    let flow = |from, share| TrafficFlow {
        from,
        page_node: 0,
        share,
        gb_per_s: Some(40.0 * share),
        way_gb_per_s: Some(20.0),
        way_sustains_gb_per_s: Some(38.4),
        load: Some(0.52),
    };
    let memory = |node, near_share, far_share| MemoryTraffic {
        node,
        near_share,
        far_share,
        near_gb_per_s: None,
        far_gb_per_s: None,
        load: None,
    };
    Traffic {
        flows: vec![flow(0, 0.51), flow(1, 0.49)],
        memories: vec![memory(0, 0.51, 0.49), memory(1, 0.0, 0.0)],
    }
}

/// Values made by hand: no machine that this is built on has hardware counters.
pub(super) fn counted_along() -> CountedAlong {
    let value = |name: &str, of: &str, value: Option<f64>, unit: &str, source: &str| CountedValue {
        name: name.into(),
        of: of.into(),
        value,
        unit: unit.into(),
        running_share: value.map(|_| 1.0),
        source: source.into(),
        why: value.is_none().then(|| "this machine shows no such counter".into()),
    };
    let fills = "PMU: raw event 0x4044, user mode";
    let remote = CountedValue {
        running_share: Some(0.5),
        ..value("lines from remote memory", "the counted threads", Some(6e7), "", fills)
    };
    let thread = |tid: u32, remote_lines: Option<f64>| CountedThread {
        tid,
        name: "triad".into(),
        cpu_seconds: Some(4.25),
        page_faults: Some(1234.0),
        context_switches: Some(12.0),
        cpu_migrations: Some(0.0),
        instructions: None,
        cycles: None,
        last_level_misses: None,
        local_lines: Some(1e7),
        remote_lines,
    };
    CountedAlong {
        program: vec![
            value("cpu time", "the program", Some(8.6e9), "ns", "kernel: task-clock"),
            value("cycles", "the program", None, "", ""),
            value("instructions", "the program", None, "", ""),
            remote,
        ],
        threads_share: Some(0.988),
        threads: vec![thread(4242, Some(6e7)), thread(4243, None)],
        host: vec![
            value("bytes read", "node 0", Some(1.5e9), "bytes", "uncore_imc"),
            value("numa_hit", "node 0", Some(4096.0), "pages", "numastat of the node"),
            value("bytes sent to other sockets", "the host", None, "bytes", ""),
        ],
        host_seconds: Some(4.4),
        remote_share: Some(0.75),
        remote_share_why: None,
        agrees: Some(false),
    }
}
