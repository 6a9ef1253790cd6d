//! Counts with the time that they take: what bound whom, how hard memory and links worked.

use crate::made_recording::*;
use crate::virtual_machine::{PAGES, serial, whole};
use nearfar_analyze::{DramFlow, Moment, MomentNode, Roof, Verdict};
use nearfar_machine::figures::*;
use nearfar_recording::*;
use nearfar_timing::Binding;

/// Figures in round numbers: 1 GHz, one instruction per ns, 10 lines in flight, 10 GB/s per memory.
pub fn figures() -> Figures {
    let figure = |value: f64| Figure { value, source: "round".into(), confidence: Confidence::Assumed };
    let some = |value: f64| Some(figure(value));
    let cells =
        |rows: [[f64; 2]; 2]| rows.iter().map(|r| r.iter().map(|&x| Cell(Some(x))).collect()).collect();
    Figures {
        line_bytes: Some(64),
        core: CoreFigures {
            all_core_ghz: some(1.0),
            ipc: some(1.0),
            outstanding_lines: some(10.0),
            f64_gflops: some(4.0),
            ..CoreFigures::default()
        },
        latency_ns: Some(Matrix {
            rows: cells([[80.0, 120.0], [120.0, 80.0]]),
            source: "round".into(),
            confidence: Confidence::Assumed,
        }),
        bandwidth: vec![NodeBandwidth {
            nodes: "0-1".parse().expect("a list"),
            peak_gbs: None,
            read_gbs: some(10.0),
            update_gbs: None,
            triad_gbs: None,
        }],
        links: vec![Link { from: 0, to: 1, count: figure(1.0), gbs_per_direction: figure(20.0) }],
        time: TimeFigures { control_bytes: some(8.0), ..TimeFigures::default() },
        ..Figures::default()
    }
}

/// Epochs of a millisecond in which every cpu moves `lines` lines of node 0 and executes `instructions`.
fn timed(lines: u64, instructions: u64) -> MadeRecording {
    let mut w = serial(2);
    w.input.meta.machine.figures = figures();
    (w.input.cpu_epochs, w.input.epoch_traffic) = Default::default();
    for epoch in 0..PAGES as u32 / 4 {
        for cpu in 0..4u32 {
            w.works(epoch, 1, cpu, instructions);
            w.input.epoch_traffic.push(EpochTraffic {
                epoch,
                region: 1,
                cpu: cpu as u16,
                page_node: 0,
                read_lines: lines,
                prefetch_lines: 0,
                write_lines: 0,
                stream_lines: 0,
                transfer_lines: 0,
                walks: 0,
            });
        }
    }
    w
}

#[test]
fn what_binds_is_found_and_named_for_all_that_it_bound() {
    // 4 cpus of 10,000 lines are 2.56 MB per epoch: 0.256 ms at 10 GB/s, and 0.08 ms of latency.
    let r = timed(10_000, 1000).real();
    let memory = Binding::Memory { node: 0 };
    let time = r.time.as_ref().expect("a time");
    assert_eq!(time.binds, memory);
    let bytes = 256.0 * 4.0 * 10_000.0 * 64.0;
    assert!(time.seconds >= bytes / 10e9 && time.seconds < 1.5 * bytes / 10e9, "{}", time.seconds);
    assert!(time.low < time.seconds && time.seconds < time.high);
    assert!((time.shares.iter().map(|s| s.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(time.weak_figures.iter().any(|f| f.name == "core.ipc" && f.value == Some(1.0)));
    let assumed = time.weak_figures.iter().filter(|f| f.confidence != "M").count();
    let said = format!("rests on {assumed} figures that were fitted or assumed");
    assert!(assumed > 5 && r.notes.iter().any(|n| n.contains(&said)), "{:?}", r.notes);

    for bound in [&r.objects[0].dram, &r.functions[0].dram, &r.objects[0].accessed_at[0].dram] {
        let bound = &bound.as_ref().unwrap().bound;
        assert_eq!((bound[0].binds, bound[0].share), (memory, 1.0));
    }
    let c = r.counters.as_ref().unwrap();
    assert!(c.memory_bound_share.unwrap() > 0.95);
    assert_eq!((r.verdict, r.remote_share), (Verdict::Affected, Some(0.5)), "{}", r.verdict_why);
    assert!(r.verdict_why.contains("waits for memory"), "{}", r.verdict_why);

    let node = &c.bandwidth[0];
    assert!((node.gb_per_s - bytes / time.seconds / 1e9).abs() < 1e-6, "{node:?}");
    assert_eq!((node.sustained_gb_per_s, node.high), (Some(10.0), Some(1.0)));
    assert_eq!((c.bandwidth[1].gb_per_s, c.bandwidth[1].low), (0.0, Some(1.0)));
    let (first, last) = (c.timeline.first().unwrap(), c.timeline.last().unwrap());
    assert_eq!((first.from_s, first.binds), (0.0, memory));
    assert!((last.to_s - time.seconds).abs() < 1e-9);
    let moved = |m: &Moment| m.nodes.iter().map(|n| n.read_gb_per_s).sum::<f64>() * (m.to_s - m.from_s) * 1e9;
    let all: f64 = c.timeline.iter().map(moved).sum();
    assert!((all / bytes - 1.0).abs() < 1e-9, "{all}");
    // Half of the lines go from node 0 to node 1, with their headers; requests the other way.
    let link = |from, to| c.links.iter().find(|l| (l.from, l.to) == (from, to)).unwrap();
    assert_eq!(link(0, 1).data_bytes, bytes as u64 / 2);
    assert_eq!((link(0, 1).bytes, link(1, 0).data_bytes), (bytes as u64 / 2 / 64 * 72, 0));
    assert_eq!(link(0, 1).capacity_gb_per_s, Some(20.0));
    let ipc = c.cpus[0].ipc.unwrap();
    assert!((ipc - 256.0 * 1000.0 / (time.seconds * 1e9)).abs() < 1e-9, "{ipc}");
}

#[test]
fn traffic_between_nodes_says_its_rate_and_what_the_way_sustains() {
    let r = timed(10_000, 1000).real();
    let (counters, time, traffic) = (r.counters.unwrap(), r.time.unwrap(), r.pictures.traffic);
    // All memory is on node 0: half of the cpus are near it, and half are far.
    let pairs: Vec<_> = traffic.flows.iter().map(|f| (f.from, f.page_node)).collect();
    assert_eq!(pairs, [(0, 0), (1, 0)]);
    for flow in &traffic.flows {
        assert!((flow.share - 0.5).abs() < 1e-9, "{flow:?}");
        let bytes = 256.0 * 2.0 * 10_000.0 * 64.0;
        assert!((flow.gb_per_s.unwrap() - bytes / time.seconds / 1e9).abs() < 1e-9, "{flow:?}");
        assert!(flow.load.unwrap() > 0.1 && flow.load.unwrap() <= 1.0, "{flow:?}");
    }
    assert_eq!(traffic.flows[0].way_sustains_gb_per_s, counters.bandwidth[0].sustained_gb_per_s);
    assert_eq!(traffic.flows[1].way_sustains_gb_per_s, Some(20.0), "the link from node 0 to node 1");
    let [first, second] = &traffic.memories[..] else { panic!("{traffic:?}") };
    assert!((first.near_share - 0.5).abs() < 1e-9 && (first.far_share - 0.5).abs() < 1e-9);
    assert!((first.far_gb_per_s.unwrap() - traffic.flows[1].gb_per_s.unwrap()).abs() < 1e-9);
    assert_eq!((second.near_share, second.far_gb_per_s, second.load), (0.0, Some(0.0), Some(0.0)));
}

#[test]
fn the_roofline_is_operations_over_bytes_and_time() {
    // A quarter of the instructions are operations, all of them in double precision.
    let r = timed(10_000, 1000).real();
    let seconds = r.time.as_ref().unwrap().seconds;
    let roofline = r.counters.as_ref().unwrap().roofline.unwrap();
    let (ops, bytes) = (256.0 * 4.0 * 250.0, 256.0 * 4.0 * 10_000.0 * 64.0);
    assert_eq!((roofline.f64_ops, roofline.f32_ops), (ops as u64, 0));
    assert!((roofline.flop_per_byte.unwrap() - ops / bytes).abs() < 1e-12);
    assert!((roofline.gflops.unwrap() - ops / seconds / 1e9).abs() < 1e-9);
    // Four cores of 4 GFlop/s, and two memories of 10 GB/s.
    assert_eq!(roofline.peak_gflops, Some(16.0));
    assert_eq!((roofline.memory_gb_per_s, roofline.roof), (Some(20.0), Some(Roof::Memory)));
    assert!((roofline.roof_gflops.unwrap() - 20.0 * ops / bytes).abs() < 1e-12);
    // Much arithmetic: the cores are the roof.
    let r = timed(10, 1_000_000).real();
    let roofline = r.counters.unwrap().roofline.unwrap();
    assert_eq!((roofline.roof, roofline.roof_gflops), (Some(Roof::Arithmetic), roofline.peak_gflops));
}

#[test]
fn operations_that_were_not_counted_are_unknown() {
    let mut made = timed(10_000, 1000);
    made.input.cpu_epochs.f64_ops[3] = UNCOUNTED;
    let c = made.real().counters.unwrap();
    assert!(c.roofline.is_none() && c.roofline_why.unwrap().contains("earlier version"));
}

#[test]
fn remote_lines_cost_nothing_where_the_time_is_computing() {
    // 1 ms of instructions against 80 lines, half of them remote: Blackscholes' case.
    let r = timed(80, 1_000_000).real();
    assert_eq!(r.time.as_ref().unwrap().binds, Binding::Core);
    assert_eq!((r.remote_share, r.verdict), (Some(0.5), Verdict::Clean), "{}", r.verdict_why);
    let text = nearfar_report::to_details(&r, "app.nearfar", 100, false);
    assert!(text.starts_with("NUMA placement is fine, although 50 % of DRAM traffic is remote."), "{text}");
    assert!(r.verdict_why.contains("no other placement of memory"), "{}", r.verdict_why);
    assert!(r.counters.unwrap().memory_bound_share.unwrap() < 0.05);
    // What is not at risk is not a finding.
    assert!(r.findings.is_empty(), "{:?}", r.findings);
    assert_eq!(r.objects[0].dram.as_ref().unwrap().bound[0].binds, Binding::Core);
}

#[test]
fn the_time_is_of_the_region_unless_the_whole_run_is_asked_for() {
    let mut w = timed(10_000, 1000);
    let inside = w.real().time.unwrap().seconds;
    for epoch in 500..756 {
        for cpu in 0..4 {
            w.works(epoch, 0, cpu, 1_000_000);
        }
    }
    assert_eq!(w.real().time.unwrap().seconds, inside);
    let r = whole(&w);
    let all = r.time.unwrap().seconds;
    assert!(all > inside + 0.25, "{all} against {inside}");
    assert_eq!(r.counters.unwrap().epochs, 512);
}

#[test]
fn a_missing_figure_is_named_and_the_counts_remain() {
    let mut w = timed(10_000, 1000);
    w.input.meta.machine.figures.latency_ns = None;
    let r = w.real();
    assert!(r.time.is_none());
    assert!(r.time_why.as_ref().unwrap().contains("latency_ns"), "{:?}", r.time_why);
    assert_eq!(r.remote_share, Some(0.5));
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.objects[0].dram.as_ref().unwrap().bound.is_empty());
}

#[test]
fn a_long_course_is_condensed_and_loses_nothing() {
    let mut w = timed(0, 1000);
    w.input.epoch_traffic = Default::default();
    // Epochs that differ: the time model keeps them apart.
    for epoch in 0..1000u32 {
        for cpu in 0..4u32 {
            w.works(1000 + epoch, 1, cpu, if epoch % 2 == 0 { 900_000 } else { 1000 });
            w.input.epoch_traffic.push(EpochTraffic {
                epoch: 1000 + epoch,
                region: 1,
                cpu: cpu as u16,
                page_node: (epoch % 4 / 2) as i16,
                read_lines: if epoch % 2 == 0 { 10 } else { 9000 },
                prefetch_lines: 0,
                write_lines: 100,
                stream_lines: 0,
                transfer_lines: 0,
                walks: 0,
            });
        }
    }
    let r = w.real();
    let c = r.counters.unwrap();
    assert!((100..=200).contains(&c.timeline.len()), "{}", c.timeline.len());
    assert!(c.timeline.windows(2).all(|w| (w[0].to_s - w[1].from_s).abs() < 1e-9));
    let bytes = |f: fn(&MomentNode) -> f64| -> f64 {
        let of = |m: &Moment| m.nodes.iter().map(f).sum::<f64>() * (m.to_s - m.from_s) * 1e9;
        c.timeline.iter().map(of).sum()
    };
    let counted = |f: fn(&DramFlow) -> u64| c.dram.iter().map(f).sum::<u64>() as f64;
    assert!((bytes(|n| n.read_gb_per_s) / counted(|d| d.read_bytes) - 1.0).abs() < 1e-9);
    assert!((bytes(|n| n.write_gb_per_s) / counted(|d| d.write_bytes) - 1.0).abs() < 1e-9);
    for load in &c.bandwidth {
        assert!((load.low.unwrap() + load.medium.unwrap() + load.high.unwrap() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn lines_are_bound_by_what_bound_when_they_moved() {
    let mut w = MadeRecording::simulated(2, 1);
    w.input.meta.machine.figures = figures();
    // 10 instructions per line are less than its latency.
    w.input.meta.machine.figures.core.ipc.as_mut().expect("a figure").value = 10.0;
    let work = w.own("work", 20);
    let (a, b) = (w.array("a", 100), w.array("b", 100));
    for page in 0..100 {
        // One epoch of computing with a little of `a`, then one of moving `b`.
        w.moves((7, 1), 0, work, a + page * PAGE, 0, 1);
        w.moves((8, 1), 0, work, b + page * PAGE, 0, 1000);
    }
    w.works(7, 1, 0, 50_000_000);
    let r = w.real();
    let bound = |name: &str| {
        let o = r.objects.iter().find(|o| o.name == name).unwrap();
        let bound = &o.dram.as_ref().unwrap().bound;
        (bound.len(), bound[0].binds)
    };
    assert_eq!(bound("a"), (1, Binding::Core));
    assert_ne!(bound("b"), (1, Binding::Core));
    let function = &r.functions[0].dram.as_ref().unwrap().bound;
    assert_eq!(function.len(), 2);
    assert!((function[1].share - 100.0 / 100_100.0).abs() < 1e-9, "{function:?}");
}

/// A line that one thread writes and others look at goes from cache to cache as well; nothing else writes there.
#[test]
fn who_writes_to_a_line_that_nodes_share_is_not_made_up() {
    let finding = |writers: &[u32]| taken_back_and_forth(writers, |w| w.own("spin", 40)).expect("a finding");
    let text = finding(&[0]);
    assert!(text.starts_with("a thread writes to "), "{text}");
    assert!(text.ends_with("threads of other nodes read different bytes of the same cache line"), "{text}");
    let text = finding(&[0, 1, 2, 3]);
    assert!(text.starts_with("threads of several nodes write to different bytes"), "{text}");
}

/// A barrier of OpenMP's runtime: nothing of the program's is in that line.
#[test]
fn lines_of_a_runtimes_own_barrier_are_no_finding() {
    let barrier = |w: &mut MadeRecording| w.libc("gomp_barrier_wait");
    assert_eq!(taken_back_and_forth(&[0, 1, 2, 3], barrier), None);
}

/// What is found of a line that four threads, of which some write, take from each other's nodes with code of `ip`.
fn taken_back_and_forth(writers: &[u32], ip: impl Fn(&mut MadeRecording) -> u32) -> Option<String> {
    let mut w = timed(100, 1000);
    let ip = ip(&mut w);
    let a = w.input.objects.address[0];
    for i in 0..64u32 {
        let thread = i % 4;
        let store = writers.contains(&thread);
        w.samples.push(AccessSample {
            time_ns: WORK + u64::from(i),
            thread,
            cpu: thread as u16,
            ip,
            operand_ip: ip,
            address: a + u64::from(thread) * 8,
            resolution: Resolution::Exact as u8,
            access: if store { Access::Store } else { Access::Load } as u8,
            chain: NONE,
            weight_ns: 0,
            source: SampleSource::Transfer as u8,
            lines: 10_000,
            page_node: -1,
            epoch: 0,
            served: 0,
            latency_cycles: 0,
            period: 0,
            data_src: 0,
        });
    }
    let r = w.real();
    r.findings
        .iter()
        .find(|f| f.kind == "false_sharing" || f.kind == "contended_line")
        .map(|f| f.cause.text.clone())
}
