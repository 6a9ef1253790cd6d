//! Reports as an analysis would make them.

mod counted;
mod drawn;
mod parts;

pub use counted::{simulated, untimed};
pub use drawn::phases;

use drawn::*;
use nearfar_analyze::*;
use parts::*;

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
            assumed_figures: vec![
                AssumedFigure {
                    name: "core.all_core_ghz".into(),
                    value: Some(3.2),
                    source: "median of 11 machines that come with nearfar (2.6 to 3.6)".into(),
                },
                AssumedFigure {
                    name: "latency_ns".into(),
                    value: None,
                    source: "own memory: median of 14 machines that come with nearfar (60 to 125)".into(),
                },
            ],
        },
        recorded_on: "AMD EPYC, 1 node, 4 cpus".into(),
        recorded: Recorded {
            started: Some("2026-11-20T09:30:12.123456Z".into()),
            host: Some("node17".into()),
        },
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
        loops_may_compute: None,
        excerpts: None,
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
                waiting_share: 0.0,
                dram: None,
                lines: vec![used("triad.c:30", "triad._omp_fn.0", 0.93, Some(0.501))],
            },
            FunctionRow {
                function: "std::__detail::_Hashtable_alloc<std::allocator<int>>::_M_allocate_node".into(),
                module: Some("/usr/lib/x86_64-linux-gnu/libstdc++.so.6".into()),
                stall_share: 0.01,
                remote_share: None,
                waiting_share: 0.0,
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
                processes: 0,
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
            predicted_from: None,
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
        sampled_gain: None,
        sampled_gain_why: Some("samples of a clock do not say which loads memory answered".to_string()),
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
        assumed_figures: Vec::new(),
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
