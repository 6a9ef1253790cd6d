//! Pictures and phases of the sample reports.

use super::parts::*;
use nearfar_analyze::*;
use nearfar_machine::NodeKind;

pub(super) fn pictures() -> Pictures {
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

pub(super) fn group(node: Option<u32>, tid: Option<u32>, phase: Option<usize>) -> CodeGroup {
    let functions = vec![GroupPart { row: 0, share: 0.48, remote_share: Some(0.0) }];
    CodeGroup { node, tid, phase, share: 0.5, remote_share: Some(0.0), functions }
}

pub(super) fn timeline() -> Timeline {
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

pub(super) fn call(function: &str, parent: Option<usize>, share: f64, own_share: f64) -> CallNode {
    CallNode { function: function.into(), parent, share, own_share, remote_share: Some(0.5) }
}

pub(super) fn strip(object: usize, axis: StripAxis) -> Strip {
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
