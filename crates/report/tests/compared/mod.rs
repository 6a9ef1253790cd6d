//! Reports to compare, of runs with known answers.

use nearfar_analyze::*;
use nearfar_compare::{Comparison, RowChange};
use nearfar_machine::DistanceClass;
use nearfar_timing::Binding;

pub fn ci(low: f64, high: f64) -> Option<Interval> {
    Some(Interval { low, high })
}

pub fn object(name: &str, line: u32, share: f64, remote: f64) -> ObjectRow {
    ObjectRow {
        name: name.into(),
        name_from: "dwarf".into(),
        kind: "heap".into(),
        bytes: 1 << 26,
        count: 1,
        allocated_at: Some(format!("/home/me/src/grid.c:{line}")),
        allocated_in: Some("main".into()),
        allocated_for: None,
        allocated_through: Vec::new(),
        allocations: 1,
        first_touch: Vec::new(),
        pages: PageOrigins::default(),
        folio_bytes: Vec::new(),
        samples: (10_000.0 * share) as u64,
        stall_share: share,
        remote_share: Some(remote),
        remote_share_ci: ci((remote - 0.02).max(0.0), (remote + 0.02).min(1.0)),
        remote_share_exact: false,
        dram: None,
        estimated_lines: None,
        distance: vec![DistanceShare { class: DistanceClass::OtherSocket, share: remote }],
        page_node_unknown_share: 0.0,
        accessed_at: Vec::new(),
        pattern: Pattern::Blocked,
        thread_ranges: Vec::new(),
    }
}

/// Samples of a clock on two sockets, four threads each: node of the threads by node of the memory.
pub fn clock(matrix: [[f64; 2]; 2]) -> Report {
    let remote = matrix[0][1] + matrix[1][0];
    let thread = |i: u32| ThreadRow {
        tid: 100 + i,
        name: "grid".into(),
        index: i,
        node: Some(i / 4),
        samples: 1250,
        share: 0.125,
        by_page_node: vec![0.125, 0.0],
        cpus: 1,
        migrations: 0,
        waiting_share: Some(0.01),
    };
    Report {
        schema: 2,
        verdict: if remote > 0.1 { Verdict::Affected } else { Verdict::Clean },
        verdict_why: String::new(),
        command: vec!["/home/me/grid".into(), "512".into()],
        exit: Some("exit 0".into()),
        ended_early: None,
        phases: None,
        seconds: 3.0,
        machine: JudgedMachine {
            name: "two sockets".into(),
            nodes: 2,
            node_ids: vec![0, 1],
            assumed: false,
            binding: "recorded".into(),
            assumed_figures: Vec::new(),
        },
        recorded_on: "two sockets".into(),
        recorded: Recorded::default(),
        sources: vec![SourceUse {
            source: "clock".into(),
            samples: 10_000,
            lost: 0,
            lost_known: true,
            resolved_share: Some(1.0),
            hz: Some(1000.0),
            resolution: Vec::new(),
        }],
        cpu: None,
        basis: Basis::StallTime,
        region: Region::Whole,
        remote_share: Some(remote),
        remote_share_ci: ci((remote - 0.015).max(0.0), remote + 0.015),
        remote_share_exact: false,
        remote_time_share: Some(remote),
        remote_time_share_ci: ci((remote - 0.015).max(0.0), remote + 0.015),
        caches: None,
        caches_why: None,
        caches_may_hold: None,
        loops_may_compute: None,
        excerpts: None,
        distance: Vec::new(),
        page_node_unknown_share: 0.0,
        unattributed_share: 0.0,
        compute_share: 0.0,
        spinning_share: 0.0,
        node_matrix: matrix.map(|row| row.to_vec()).to_vec(),
        threads: (0..8).map(thread).collect(),
        objects: vec![object("grid", 12, 0.8, remote), object("table", 20, 0.2, remote)],
        functions: vec![FunctionRow {
            function: "sweep".into(),
            module: Some("/home/me/grid".into()),
            stall_share: 1.0,
            remote_share: Some(remote),
            waiting_share: 0.0,
            dram: None,
            lines: Vec::new(),
        }],
        call_paths: Vec::new(),
        findings: Vec::new(),
        counters: None,
        counters_why: Some("nothing was counted".into()),
        counted_along: None,
        time: None,
        time_why: Some("nothing was counted".into()),
        what_if: None,
        what_if_why: Some("nothing was counted".into()),
        sampled_gain: None,
        sampled_gain_why: None,
        notes: Vec::new(),
        pictures: Default::default(),
    }
}

/// Lines of the virtual machine; `matrix` in parts of 64 MB, `seconds` by the model.
pub fn counted(matrix: [[f64; 2]; 2], seconds: f64) -> Report {
    let mut r = clock(matrix);
    let lines = |part: f64| (part * 1e6) as u64;
    r.basis = Basis::DramLines;
    r.sources[0].source = "simulated".into();
    r.sources[0].hz = None;
    r.remote_share_ci = ci(r.remote_share.unwrap(), r.remote_share.unwrap());
    r.remote_time_share_ci = r.remote_share_ci;
    r.remote_share_exact = true;
    for o in &mut r.objects {
        let (share, remote) = (o.stall_share, o.remote_share.unwrap());
        o.remote_share_ci = ci(remote, remote);
        o.remote_share_exact = true;
        o.dram = Some(DramLines {
            local: lines(share * (1.0 - remote)),
            remote: lines(share * remote),
            exact: true,
            windows_error: None,
            bound: Vec::new(),
        });
    }
    let flow = |from: u32, page_node: u32| DramFlow {
        from,
        page_node,
        read_bytes: lines(matrix[from as usize][page_node as usize]) * 64,
        prefetch_bytes: 0,
        write_bytes: 0,
        cache_bytes: 0,
        walks: 0,
    };
    r.counters = Some(Counted {
        source: "simulated".into(),
        region: Region::Whole,
        epochs: 10,
        windows: None,
        line_bytes: 64,
        dram: vec![flow(0, 0), flow(0, 1), flow(1, 0), flow(1, 1)],
        links: Vec::new(),
        cpus: Vec::new(),
        bandwidth: Vec::new(),
        timeline: Vec::new(),
        memory_bound_share: Some(0.9),
        roofline: None,
        roofline_why: Some("not asked".into()),
    });
    r.time = Some(Timed {
        seconds,
        low: 0.8 * seconds,
        high: 1.25 * seconds,
        binds: Binding::Memory { node: 0 },
        shares: Vec::new(),
        weak_figures: Vec::new(),
    });
    r.time_why = None;
    r
}

/// All pages on node 0, used from both.
pub const SERIAL: [[f64; 2]; 2] = [[0.5, 0.0], [0.5, 0.0]];

/// Each page where it is used.
pub const NEAR: [[f64; 2]; 2] = [[0.5, 0.0], [0.0, 0.5]];

pub fn named<'a>(rows: &'a [RowChange], name: &str) -> &'a RowChange {
    rows.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

pub fn warned(c: &Comparison, words: &str) -> bool {
    c.warnings.iter().any(|w| w.contains(words))
}
