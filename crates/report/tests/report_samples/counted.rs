//! Sample reports of runs in the virtual machine.

use super::affected;
use super::parts::*;
use nearfar_analyze::*;
use nearfar_timing::Binding;

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
        o.dram =
            Some(DramLines { local: 4_000_000, remote: 4_000_000, exact: true, windows_error: None, bound });
    }
    r.objects[2].remote_share_exact = false;
    r.objects[2].remote_share_ci = interval(0.431, 0.562);
    r.functions[0].dram = Some(DramLines {
        local: 11_500_000,
        remote: 11_400_000,
        exact: false,
        windows_error: None,
        bound: bound(&[(memory, 0.93), (Binding::Link { from: 0, to: 1 }, 0.07)]),
    });
    let last = r.functions.len() - 1;
    let compute = bound(&[(Binding::Core, 1.0)]);
    r.functions[last].dram =
        Some(DramLines { local: 1000, remote: 0, exact: false, windows_error: None, bound: compute.clone() });
    for row in r.objects.iter_mut().flat_map(|o| &mut o.accessed_at).chain(&mut r.functions[0].lines) {
        row.dram = Some(DramLines {
            local: 1000,
            remote: 1000,
            exact: false,
            windows_error: None,
            bound: compute.clone(),
        });
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
        windows: None,
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
