//! Reports as an analysis would make them.

use nearfar_analyze::*;
use nearfar_machine::{DistanceClass, NodeKind};
use nearfar_timing::Binding;

fn interval(low: f64, high: f64) -> Option<Interval> {
    Some(Interval { low, high })
}

fn distance(local: f64, other: f64) -> Vec<DistanceShare> {
    [(DistanceClass::Local, local), (DistanceClass::OtherSocket, other)]
        .map(|(class, share)| DistanceShare { class, share })
        .to_vec()
}

fn predicted(ratio: f64) -> Predicted {
    Predicted { ratio, low: ratio - 0.06, high: ratio + 0.07 }
}

/// What to do with an object of two parts; as if several had been allocated at its line, too.
fn repair(object: &str, repair: Repair) -> RepairPart {
    RepairPart {
        object: object.into(),
        repair,
        allocated_at: Some("triad.c:12".into()),
        variable: None,
        module: None,
        nodes: vec![0, 1],
        bytes: 256 << 20,
        blocks: vec![(128 << 20, 0), (256 << 20, 1)],
        turns: vec![0, 1],
        not_placeable: None,
    }
}

fn what_if() -> WhatIf {
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

fn used(at: &str, function: &str, share: f64, remote: Option<f64>) -> UseRow {
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

fn object(name: &str, line: u32, share: f64, remote: f64) -> ObjectRow {
    ObjectRow {
        name: name.into(),
        name_from: "source".into(),
        kind: "heap".into(),
        bytes: 256 << 20,
        count: 1,
        allocated_at: Some(format!("triad.c:{line}")),
        allocated_in: Some("main".into()),
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
        distance: distance(1.0 - remote, remote),
        page_node_unknown_share: 0.004,
        accessed_at: vec![used("triad.c:30", "triad._omp_fn.0", share, Some(remote))],
        pattern: Pattern::Blocked,
        thread_ranges: vec![ThreadRange { thread: 4242, samples: 700, from: 0, to: 32 << 20 }],
    }
}

fn thread(index: u32, node: u32, by_page_node: Vec<f64>) -> ThreadRow {
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

fn traffic() -> Traffic {
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

fn pictures() -> Pictures {
    let node = |id: u32, cpus: &str| NodePicture {
        id,
        package: Some(id),
        cpus: cpus.into(),
        cpu_count: 44,
        cores: 22,
        kind: NodeKind::Dram,
        memory_bytes: Some(64 << 30),
        read_gb_per_s: Some(65.5),
    };
    let far = |near: f64, far: f64| vec![vec![Some(near), Some(far)], vec![Some(far), Some(near)]];
    Pictures {
        machine: MachinePicture {
            nodes: vec![node(0, "0-21,44-65"), node(1, "22-43,66-87")],
            caches: vec![CachePicture { level: 3, size_bytes: 55 << 20, cores_per_instance: 22 }],
            links: vec![LinkPicture { from: 0, to: 1, gb_per_s: 38.4 }],
            distances: vec![vec![10, 21], vec![21, 10]],
            latency_ns: far(85.0, 135.0),
            read_gb_per_s: far(65.5, 32.0),
            sources: vec!["latency: a relative's MLC figures (confidence P)".into()],
        },
        traffic: traffic(),
        repaired: Some(Repaired {
            node_matrix: vec![vec![0.48, 0.0], vec![0.0, 0.463]],
            remote_share: Some(0.0),
            objects: vec!["a".into()],
        }),
        repaired_why: None,
        strips: vec![strip(0, StripAxis::Offset), strip(1, StripAxis::Allocations)],
        timeline: Some(timeline()),
        phases: vec![Band { name: "sweep".into(), from_s: 0.5, to_s: 9.0 }],
        instructions: vec![HotInstruction {
            at: Some("triad.c:12".into()),
            function: "triad._omp_fn.0".into(),
            module: "/home/user/bench/triad".into(),
            build_id: None,
            file_offset: 0x12f0,
            share: 0.31,
            remote_share: Some(0.5),
        }],
        code_by_node: vec![group(Some(0), None, None)],
        code_by_thread: vec![group(None, Some(4242), None)],
        code_by_phase: vec![group(None, None, Some(1))],
        callees: vec![call("main", None, 1.0, 0.0), call("triad._omp_fn.0", Some(0), 0.93, 0.93)],
        callers: vec![call("triad._omp_fn.0", None, 0.93, 0.93), call("main", Some(0), 0.93, 0.0)],
        processes: vec![ProcessPicture {
            pid: 4242,
            executable: "/home/user/bench/triad".into(),
            threads: 4,
            share: 1.0,
            by_page_node: vec![0.943, 0.0],
        }],
    }
}

fn group(node: Option<u32>, tid: Option<u32>, phase: Option<usize>) -> CodeGroup {
    let functions = vec![GroupPart { row: 0, share: 0.48, remote_share: Some(0.0) }];
    CodeGroup { node, tid, phase, share: 0.5, remote_share: Some(0.0), functions }
}

fn timeline() -> Timeline {
    let weights = || Weights {
        near: vec![240_000, 240_000],
        far: vec![230_000, 233_000],
        other: vec![28_500, 28_500],
        waiting: vec![0, 0],
    };
    Timeline {
        clock: TimelineClock::Recorded,
        from_s: 0.1,
        to_s: 9.1,
        parts: 2,
        all: weights(),
        objects: vec![PartsOf { row: 0, weights: weights() }],
        functions: vec![PartsOf { row: 0, weights: weights() }],
        threads: vec![ThreadParts { tid: 4242, weights: weights(), cpu: vec![Some(0), None] }],
        threads_why: None,
        node_matrix: vec![vec![240_000, 0, 230_000, 0], vec![240_000, 0, 233_000, 0]],
        node_matrix_why: None,
        migrations: vec![0, 1],
    }
}

/// As of the program of document 004: two tests in main, the second one paying for what the first has placed.
pub fn phases() -> PhaseReport {
    let amounts = |time_ns, far| PhaseAmounts {
        time_ns,
        samples: 10,
        weight: 10_000_000,
        near: 10_000_000 - far,
        far,
        page_node_unknown: 0,
        faults: 4,
        bytes: 4096,
    };
    let figures = |calls, subrs, inclusive, exclusive| PhaseFigures {
        calls,
        counted_calls: 0,
        subrs,
        inclusive,
        exclusive,
    };
    let node = |name: &str, parent, depth, all| PhaseNode {
        name: name.into(),
        parent,
        depth,
        source: "program".into(),
        all,
        spread: Spread { threads: 1, mean: 9e9, min: 9e9, max: 9e9, std_dev: 0.0 },
        modelled_ns: (depth == 2).then_some(8_400_000_000.0),
    };
    let leaf = amounts(8_000_000_000, 9_000_000);
    let main = figures(1, 1, amounts(9_000_000_000, 9_000_000), amounts(1_000_000_000, 0));
    let test = figures(4, 0, leaf, leaf);
    PhaseReport {
        clock: "monotonic".into(),
        basis: Basis::StallTime,
        nodes: vec![
            node("", None, 0, figures(1, 1, amounts(9_320_000_000, 9_000_000), amounts(320_000_000, 0))),
            node("main()", Some(0), 1, main),
            node("Test on CPU 2", Some(1), 2, test),
        ],
        threads: vec![PhaseThread { pid: 4242, tid: 4242, name: "triad".into() }],
        rows: vec![
            PhaseRow { thread: 0, node: 1, figures: main },
            PhaseRow { thread: 0, node: 2, figures: test },
        ],
        rows_left_out: 0,
        gains: vec![
            PhaseGain { node: 1, predicted: None, why: Some("12 samples of its lines are too few".into()) },
            PhaseGain {
                node: 2,
                predicted: Some(Predicted { ratio: 0.71, low: 0.64, high: 0.79 }),
                why: None,
            },
        ],
        gains_why: None,
        intervals: vec![PhaseInterval { thread: 0, node: 1, from_s: 0.1, to_s: 9.1 }],
        unbalanced: vec![Unbalanced {
            name: "inner".into(),
            how: "left without an end".into(),
            count: 2,
            begun_at: Some("triad.c:10".into()),
            ended_at: Some("triad.c:20".into()),
        }],
        metrics: vec![MetricRow {
            name: "residual".into(),
            node: 2,
            count: 4,
            sum: 2.0,
            min: 0.25,
            max: 1.0,
        }],
        regions: vec![RegionRow {
            function: "triad".into(),
            node: 2,
            samples: 10,
            weight: 10_000_000,
            near: 1_000_000,
            far: 9_000_000,
        }],
        paid: vec![PaidRow { object: "a".into(), placed_in: Some(1), paid_in: 2, share: 0.31 }],
    }
}

fn call(function: &str, parent: Option<usize>, share: f64, own_share: f64) -> CallNode {
    CallNode { function: function.into(), parent, share, own_share, remote_share: Some(0.5) }
}

fn strip(object: usize, axis: StripAxis) -> Strip {
    let on = |bins, node| Run { bins, mix: vec![(Some(node), 100)] };
    let by = |bins, tid| ThreadRun { bins, tid: Some(tid) };
    Strip {
        object,
        axis,
        extent: 256 << 20,
        bins: 4,
        node: vec![on(4, 0)],
        first_touch: vec![on(4, 0)],
        first_thread: vec![by(4, 4242)],
        user: vec![on(2, 0), on(1, 1), Run { bins: 1, mix: vec![(Some(1), 60), (None, 40)] }],
        user_thread: vec![by(1, 4242), by(1, 4243), by(1, 4244), by(1, 4245)],
        remote: vec![Some(0.0), Some(0.0), Some(1.0), None],
        density: vec![1.0, 0.9, 1.0, 0.0],
        exact: false,
        repair: Some(Repair::WhereUsed),
        repaired: Some(vec![on(2, 0), on(2, 1)]),
        over_time: Some(PagesOverTime {
            bins: 4,
            looks: vec![
                LookRow { at_s: 1.0, node: vec![on(4, 0)], moved: vec![0] },
                LookRow { at_s: 2.0, node: vec![on(2, 0), on(2, 1)], moved: vec![2, 3] },
            ],
        }),
    }
}

pub fn affected() -> Report {
    Report {
        schema: 2,
        verdict: Verdict::Affected,
        verdict_why: "Half of the time of threads 2 and 3 is spent on pages that thread 0 placed \
                      on node 0."
            .into(),
        command: vec!["./triad".into(), "33554432".into()],
        exit: Some("exit 0".into()),
        ended_early: None,
        phases: Some(phases()),
        seconds: 9.32,
        machine: JudgedMachine {
            name: "2x22".into(),
            nodes: 2,
            node_ids: vec![0, 1],
            assumed: true,
            binding: "compact".into(),
        },
        recorded_on: "AMD EPYC, 1 node, 4 cpus".into(),
        sources: vec![
            SourceUse {
                source: "clock".into(),
                samples: 9100,
                lost: 12,
                lost_known: true,
                resolved_share: Some(0.942),
                hz: Some(997.0),
                resolution: vec![("exact".into(), 0.91), ("next".into(), 0.032)],
            },
            SourceUse {
                source: "pages".into(),
                samples: 196_713,
                lost: 0,
                lost_known: true,
                resolved_share: None,
                hz: None,
                resolution: vec![("exact".into(), 1.0)],
            },
        ],
        cpu: None,
        basis: Basis::StallTime,
        region: Region::Whole,
        remote_share: Some(0.501),
        remote_share_ci: interval(0.479, 0.522),
        remote_share_exact: false,
        remote_time_share: Some(0.463),
        remote_time_share_ci: interval(0.443, 0.483),
        caches: None,
        caches_why: None,
        caches_may_hold: None,
        distance: distance(0.499, 0.501),
        page_node_unknown_share: 0.004,
        unattributed_share: 0.021,
        compute_share: 0.043,
        spinning_share: 0.0003,
        node_matrix: vec![vec![0.48, 0.0], vec![0.463, 0.0]],
        threads: vec![
            thread(0, 0, vec![0.242, 0.0]),
            thread(1, 0, vec![0.238, 0.0]),
            thread(2, 1, vec![0.231, 0.0]),
            thread(3, 1, vec![0.232, 0.0]),
        ],
        objects: vec![
            object("a", 12, 0.401, 0.502),
            object("b", 13, 0.312, 0.499),
            object("c", 14, 0.22, 0.501),
        ],
        functions: vec![
            FunctionRow {
                function: "triad._omp_fn.0".into(),
                module: Some("/home/user/bench/triad".into()),
                stall_share: 0.93,
                remote_share: Some(0.501),
                dram: None,
                lines: vec![used("triad.c:30", "triad._omp_fn.0", 0.93, Some(0.501))],
            },
            FunctionRow {
                function: "std::__detail::_Hashtable_alloc<std::allocator<int>>::_M_allocate_node".into(),
                module: Some("/usr/lib/x86_64-linux-gnu/libstdc++.so.6".into()),
                stall_share: 0.01,
                remote_share: None,
                dram: None,
                lines: vec![],
            },
        ],
        call_paths: vec![CallPath {
            share: 0.93,
            remote: 0.46,
            frames: vec!["triad._omp_fn.0 (triad.c:30)".into(), "main (triad.c:29)".into()],
        }],
        findings: vec![Finding {
            kind: "serial_first_touch".into(),
            objects: vec!["a".into(), "b".into(), "c".into()],
            cause: Cause {
                at: Some("triad.c:21".into()),
                function: Some("init".into()),
                text: "thread 0 wrote all pages first, so all are on node 0".into(),
            },
            evidence: vec![
                "65,536 of 65,536 pages of each array were first touched by thread 0.".into(),
                "Threads 0 to 3 each work on their own quarter of a, b and c.".into(),
            ],
            advice: "Initialise a, b and c in a parallel loop with the same schedule as \
                     triad.c:30: `#pragma omp parallel for schedule(static)` at triad.c:20."
                .into(),
            repairs: vec![repair("grid", Repair::WhereUsed)],
            predicted: None,
            predicted_after_better: None,
            predicted_why: Some("the machine 2x22 has no bandwidths; use a described one".into()),
            at_risk: 0.463,
            phases: Some(FindingPhases {
                placed_in: vec![FindingPhase { node: Some(1), name: Some("init".into()), share: 1.0 }],
                paid_in: vec![FindingPhase { node: Some(2), name: Some("sweep".into()), share: 0.97 }],
                samples: 4210,
            }),
            rank: 1,
        }],
        counters: None,
        counters_why: Some("nothing was counted".into()),
        counted_along: None,
        time: None,
        time_why: Some("nothing was counted".into()),
        what_if: None,
        what_if_why: Some("no page was counted".to_string()),
        notes: vec!["numa_balancing was off.".into()],
        pictures: pictures(),
    }
}

pub fn clean() -> Report {
    let mut r = affected();
    r.counted_along = Some(counted_along());
    r.verdict = Verdict::Clean;
    r.verdict_why = "Threads use pages on their own node.".into();
    r.machine = JudgedMachine {
        name: "2x Intel(R) Xeon(R) CPU E5-2699 v4 @ 2.20GHz".into(),
        assumed: false,
        binding: "recorded".into(),
        ..r.machine
    };
    r.remote_share = Some(0.0);
    r.remote_share_ci = interval(0.0, 0.0004);
    r.remote_time_share = Some(0.0);
    r.remote_time_share_ci = interval(0.0, 0.0004);
    r.distance = distance(1.0, 0.0);
    r.findings.clear();
    for o in &mut r.objects {
        o.remote_share = Some(0.0);
        o.remote_share_ci = interval(0.0, 0.001);
        o.first_touch.push(TouchRow { thread: 4243, node: Some(1), ..o.first_touch[0].clone() });
    }
    for t in &mut r.threads {
        let page_node = t.node.unwrap() as usize;
        t.by_page_node = vec![0.0; 2];
        t.by_page_node[page_node] = 0.24;
    }
    for f in &mut r.functions {
        f.remote_share = f.remote_share.map(|_| 0.0);
    }
    r.notes.clear();
    r
}

pub fn unknown() -> Report {
    let mut r = affected();
    r.verdict = Verdict::Unknown;
    r.verdict_why = "Only 41 samples, and the node of none of their pages is known; record for \
                     10 s or more."
        .into();
    r.exit = None;
    r.sources.truncate(1);
    r.sources[0].samples = 41;
    r.sources[0].source = "signal".into();
    r.remote_share = None;
    r.remote_share_ci = None;
    r.remote_time_share = None;
    r.remote_time_share_ci = None;
    r.distance.clear();
    r.page_node_unknown_share = 1.0;
    r.spinning_share = 0.02;
    r.findings.clear();
    r.node_matrix = vec![vec![0.0; 2]; 2];
    for t in &mut r.threads {
        t.by_page_node = vec![0.0; 2];
        t.node = None;
    }
    for o in &mut r.objects {
        o.name =
            format!("allocation at src/very/deep/folder/of/sources/with_a_long_name_{}.cpp:1234", o.name);
        o.count = 1200;
        o.remote_share = None;
        o.remote_share_ci = None;
        o.distance.clear();
        o.first_touch.clear();
        o.allocated_at = None;
        o.accessed_at.clear();
        o.pattern = Pattern::Unknown;
    }
    for f in &mut r.functions {
        f.remote_share = None;
    }
    r
}

pub fn no_samples() -> Report {
    let mut r = unknown();
    r.verdict_why = "The clock source gave no samples: the program ran for 0.4 ms.".into();
    r.command.clear();
    r.sources[0].samples = 0;
    r.sources[0].source = "clock".into();
    r.sources[0].resolved_share = None;
    r.page_node_unknown_share = 0.0;
    r.unattributed_share = 0.0;
    r.compute_share = 0.0;
    r.spinning_share = 0.0;
    r.objects.clear();
    r.functions.clear();
    r.threads.clear();
    r.node_matrix.clear();
    r
}

pub fn one_node() -> Report {
    let mut r = clean();
    r.verdict = Verdict::Unknown;
    r.verdict_why = "This machine has one node, so nothing can be remote here.".into();
    r.machine.name = "AMD EPYC".into();
    r.machine.nodes = 1;
    r.machine.node_ids = vec![0];
    r.node_matrix = vec![vec![0.95]];
    r.remote_share = None;
    r.remote_share_ci = None;
    r.remote_time_share = None;
    r.remote_time_share_ci = None;
    r.distance.truncate(1);
    for t in &mut r.threads {
        t.by_page_node = vec![0.24];
    }
    for o in &mut r.objects {
        o.remote_share = None;
        o.remote_share_ci = None;
        o.distance.truncate(1);
    }
    for f in &mut r.functions {
        f.remote_share = None;
    }
    r
}

pub fn many_threads() -> Report {
    let mut r = affected();
    let n = 44;
    r.threads = (0..n).map(|i| thread(i, i / 22, vec![0.02, 0.0])).collect();
    let mut more = r.findings[0].clone();
    more.kind = "unpinned_threads".into();
    more.objects = (0..7).map(|i| format!("part{i}")).collect();
    more.rank = 2;
    more.predicted = Some(Predicted { ratio: 0.71, low: 0.64, high: 0.8 });
    more.predicted_after_better = Some(Predicted { ratio: 0.95, low: 0.88, high: 1.04 });
    more.evidence.truncate(1);
    r.findings.push(more);
    r
}

fn bound(shares: &[(Binding, f64)]) -> Vec<Bound> {
    shares.iter().map(|&(binds, share)| Bound { binds, share }).collect()
}

/// A run in the virtual machine: serial initialisation, all pages on node 0, whose memory binds.
pub fn simulated() -> Report {
    let memory = Binding::Memory { node: 0 };
    let mut r = affected();
    r.verdict_why =
        "50 % of the DRAM traffic goes to far memory, and 81 % of the time waits for memory; first cause: \
                     one thread touches the pages of a, b and c first, and other nodes' threads use them."
            .into();
    r.what_if = Some(what_if());
    r.what_if_why = None;
    r.findings[0].repairs = ["a", "b", "c"].map(|o| repair(o, Repair::WhereUsed)).to_vec();
    r.findings[0].predicted = Some(predicted(0.51));
    r.findings[0].predicted_why = None;
    r.machine.name = "2x Xeon E5-2699 v4, scaled to 4 of 22 cores per node".into();
    r.machine.assumed = false;
    r.machine.binding = "recorded".into();
    r.recorded_on = "2x Xeon E5-2699 v4, scaled to 4 of 22 cores per node: 2 nodes, 8 cpus".into();
    r.sources[0] = SourceUse {
        source: "simulated".into(),
        samples: 12_345,
        lost: 0,
        lost_known: true,
        resolved_share: Some(1.0),
        hz: None,
        resolution: vec![("exact".into(), 1.0)],
    };
    r.basis = Basis::DramLines;
    r.region = Region::Marked;
    (r.remote_share, r.remote_share_ci) = (Some(0.5), interval(0.5, 0.5));
    (r.remote_time_share, r.remote_time_share_ci) = (Some(0.5), interval(0.5, 0.5));
    r.remote_share_exact = true;
    r.distance = distance(0.5, 0.5);
    (r.page_node_unknown_share, r.compute_share, r.spinning_share) = (0.0, 0.0, 0.0);
    r.node_matrix = vec![vec![0.5, 0.0], vec![0.5, 0.0]];
    for o in &mut r.objects {
        o.remote_share = Some(0.5);
        o.remote_share_ci = interval(0.5, 0.5);
        o.remote_share_exact = true;
        o.distance = distance(0.5, 0.5);
        let bound = bound(&[(memory, 0.93), (Binding::Concurrency, 0.07)]);
        o.dram = Some(DramLines { local: 4_000_000, remote: 4_000_000, exact: true, bound });
    }
    r.objects[2].remote_share_exact = false;
    r.objects[2].remote_share_ci = interval(0.431, 0.562);
    r.functions[0].dram = Some(DramLines {
        local: 11_500_000,
        remote: 11_400_000,
        exact: false,
        bound: bound(&[(memory, 0.93), (Binding::Link { from: 0, to: 1 }, 0.07)]),
    });
    let last = r.functions.len() - 1;
    let compute = bound(&[(Binding::Core, 1.0)]);
    r.functions[last].dram = Some(DramLines { local: 1000, remote: 0, exact: false, bound: compute.clone() });
    for row in r.objects.iter_mut().flat_map(|o| &mut o.accessed_at).chain(&mut r.functions[0].lines) {
        row.dram = Some(DramLines { local: 1000, remote: 1000, exact: false, bound: compute.clone() });
    }
    r.findings[0].predicted_why = Some(
        "the counts are of this placement; record the repaired program on the same machine and compare the times".into(),
    );
    let flow = |from, read_bytes, write_bytes| DramFlow {
        from,
        page_node: 0,
        read_bytes,
        prefetch_bytes: read_bytes / 10 * 8,
        write_bytes,
        cache_bytes: read_bytes / 1000,
        walks: 12_000,
    };
    let cpu = |cpu: u32| CpuCounts {
        cpu,
        node: Some(cpu / 4),
        instructions: 151_000_000 + u64::from(cpu),
        ipc: Some(0.31 + 0.01 * f64::from(cpu % 4)),
        l1_hit: Some(0.979),
        l2_hit: Some(0.12 + 0.001 * f64::from(cpu)),
        l3_hit: Some(0.021),
        dram_local: if cpu < 4 { 2_900_000 } else { 0 },
        dram_remote: if cpu < 4 { 0 } else { 2_900_000 },
        cache_transfers: 3,
        tlb_misses: 9_000,
        huge_tlb_misses: 0,
    };
    let moment = |i: u32, rate: f64| Moment {
        from_s: 0.02 * f64::from(i),
        to_s: 0.02 * f64::from(i + 1),
        binds: memory,
        nodes: vec![
            MomentNode { node: 0, read_gb_per_s: rate, write_gb_per_s: rate / 3.0 },
            MomentNode { node: 1, read_gb_per_s: 0.0, write_gb_per_s: 0.0 },
        ],
        links_gb_per_s: vec![rate / 2.0, rate / 5.0],
        remote_share: Some(0.5),
        ipc: Some(0.32),
    };
    let load = |node, gb_per_s, [low, medium, high]: [f64; 3]| NodeLoad {
        node,
        gb_per_s,
        sustained_gb_per_s: Some(10.4),
        low: Some(low),
        medium: Some(medium),
        high: Some(high),
    };
    let link = |from, to, gb_per_s: f64| LinkFlow {
        from,
        to,
        bytes: (gb_per_s * 0.14e9) as u64,
        data_bytes: (gb_per_s * 0.1e9) as u64,
        gb_per_s,
        capacity_gb_per_s: Some(6.98),
        low: Some(0.08),
        medium: Some(0.92),
        high: Some(0.0),
    };
    r.counters = Some(Counted {
        source: "simulated".into(),
        region: Region::Marked,
        epochs: 143,
        line_bytes: 64,
        dram: vec![flow(0, 512_000_000, 171_000_000), flow(1, 511_000_000, 170_000_000)],
        links: vec![link(0, 1, 4.41), link(1, 0, 1.97)],
        cpus: (0..8).map(cpu).collect(),
        bandwidth: vec![load(0, 9.8, [0.08, 0.0, 0.92]), load(1, 0.0, [1.0, 0.0, 0.0])],
        timeline: [2.0, 7.8, 7.7, 7.8, 7.8, 7.7, 4.0].iter().zip(0..).map(|(&x, i)| moment(i, x)).collect(),
        memory_bound_share: Some(0.81),
        roofline: Some(Roofline {
            f64_ops: 0,
            f32_ops: 1_330_000_000,
            flop_per_byte: Some(0.974),
            gflops: Some(9.57),
            peak_gflops: Some(716.0),
            memory_gb_per_s: Some(20.8),
            roof_gflops: Some(20.3),
            roof: Some(Roof::Memory),
        }),
        roofline_why: None,
    });
    r.counters_why = None;
    let names = [("time.eta", Some(1.05), "fitted"), ("latency_ns", None, "M")];
    r.time = Some(Timed {
        seconds: 0.139,
        low: 0.128,
        high: 0.155,
        binds: memory,
        shares: bound(&[(memory, 0.92), (Binding::Core, 0.08)]),
        weak_figures: names
            .map(|(name, value, confidence)| WeakFigure {
                name: name.into(),
                value,
                confidence: confidence.into(),
            })
            .to_vec(),
    });
    r.time_why = None;
    r.notes = vec![
        "Shares are of the region of interest that the program marks: 12345 of 15000 samples (`--whole` reports all)."
            .into(),
        "The time rests on figures that were fitted or assumed: time.eta 1.05 (fitted).".into(),
    ];
    r
}

/// The same where the machine does not say enough for a time, and on more nodes than fit.
pub fn untimed() -> Report {
    let mut r = simulated();
    r.verdict = Verdict::Unknown;
    r.verdict_why =
        "50 % of the DRAM traffic goes to far memory, but how much of the time waits for memory is unknown \
                     (no latencies)."
            .into();
    r.machine.nodes = 10;
    r.machine.node_ids = (0..10).collect();
    r.node_matrix = vec![vec![0.01; 10]; 10];
    r.threads.iter_mut().for_each(|t| t.by_page_node = vec![0.025; 10]);
    r.time = None;
    r.time_why = Some("the machine has no latencies".into());
    let c = r.counters.as_mut().unwrap();
    c.memory_bound_share = None;
    c.roofline = None;
    c.roofline_why = Some("the recording has no floating-point operations".into());
    c.links.clear();
    c.bandwidth.clear();
    c.timeline.clear();
    for cpu in &mut c.cpus {
        (cpu.ipc, cpu.l3_hit) = (None, None);
    }
    for o in &mut r.objects {
        o.dram.as_mut().unwrap().bound.clear();
    }
    r.functions[0].dram.as_mut().unwrap().bound.clear();
    r
}

/// Values made by hand: no machine that this is built on has hardware counters.
fn counted_along() -> CountedAlong {
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
