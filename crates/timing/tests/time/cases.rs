//! Arithmetic: what one resource alone allows, and what must hold of any work.

use crate::made_tables::*;
use nearfar_machine::scale::{ScaleOptions, scale};
use nearfar_timing::{Binding, Estimated, Timeline};

pub(crate) const N: u64 = 10_000_000;

#[track_caller]
pub(crate) fn within(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() <= part, "{found} is not {expected} within {part}");
}

/// Broadwell, 2 x 22 cores: 85 and 135 ns, 65.5 GB/s read.
pub(crate) fn broadwell() -> nearfar_machine::Machine {
    described("xeon-e5-2699v4-2s")
}

#[test]
fn one_core_is_limited_by_its_lines_in_flight() {
    let m = broadwell();
    let demanded = Lines { demanded: N, ..Lines::default() };
    let t = MadeTables::all(0..1, &[(0, demanded)]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Concurrency);
    // 10 lines in 85 ns.
    within(gbs(N, t.seconds), 10.0 * 64.0 / 85.0, 0.02);
    // A stream has what was measured of one core, near and, by latency, far.
    within(gbs(N, MadeTables::all(0..1, &[(0, reads(N))]).seconds(&m)), 11.0, 0.03);
    within(gbs(N, MadeTables::all(0..1, &[(1, reads(N))]).seconds(&m)), 11.0 * 85.0 / 135.0, 0.08);
    within(gbs(2 * N, MadeTables::all(0..1, &[(0, updates(N))]).seconds(&m)), 15.0, 0.05);
}

#[test]
fn a_chase_takes_the_latency_for_each_line() {
    let m = broadwell();
    for (page_node, ns) in [(0, 85.0), (1, 135.0)] {
        let lines = Lines { demanded: N, dependent: N, ..Lines::default() };
        let seconds = MadeTables::all(0..1, &[(page_node, lines)]).seconds(&m);
        within(seconds / N as f64 * 1e9, ns, 0.01);
    }
    // A page walk for each, 30 cycles at 2.8 GHz, comes on top.
    let lines = Lines { demanded: N, dependent: N, walks: N, ..Lines::default() };
    within(MadeTables::all(0..1, &[(0, lines)]).seconds(&m) / N as f64 * 1e9, 85.0 + 30.0 / 2.8, 0.01);
}

#[test]
fn computing_takes_its_instructions() {
    let m = broadwell();
    let lines = Lines { instructions: 2_800_000_000, ..Lines::default() };
    let t = MadeTables::all(0..1, &[(0, lines)]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Core);
    within(t.seconds, 0.5, 1e-9); // 2 per cycle
    assert_eq!(t.nodes[0].read_gbs, 0.0);
}

#[test]
fn computing_and_waiting_overlap_in_part() {
    // 8.5 ns per line of each: 10 lines in 85 ns, and 47.6 instructions at 5.6 per ns.
    let lines = Lines { demanded: N, instructions: N * 476 / 10, ..Lines::default() };
    let seconds = MadeTables::all(0..1, &[(0, lines)]).seconds(&broadwell());
    let part = seconds / (8.5e-9 * N as f64);
    assert!(part > 1.1 && part < 1.4, "{part}");
}

#[test]
fn a_full_socket_is_limited_by_its_memory() {
    let m = broadwell();
    for (lines, moved, rate) in [(reads(N), N, 65.5), (updates(N), 2 * N, 53.2)] {
        let t = MadeTables::all(0..22, &[(0, lines)]).on(&m).unwrap();
        assert_eq!(t.binds, Binding::Memory { node: 0 });
        within(gbs(22 * moved, t.seconds), rate, 0.01);
        within(t.nodes[0].read_gbs + t.nodes[0].write_gbs, rate, 0.01);
        within(t.nodes[0].sustained_gbs.unwrap(), rate, 1e-9);
        assert_eq!(t.nodes[1].read_gbs, 0.0);
    }
}

#[test]
fn pages_of_one_node_take_twice_the_time_when_both_use_them() {
    let m = broadwell();
    let stencil = Lines { prefetched: 3 * N, written: N, ..Lines::default() };
    let spread = MadeTables::all(0..22, &[(0, stencil)]).seconds(&m);
    let t = MadeTables::all(0..44, &[(0, stencil)]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Memory { node: 0 });
    // η costs 5 % more.
    within(t.seconds / spread, 2.0 * 1.05, 0.03);
}

#[test]
fn cores_of_the_other_node_are_limited_by_the_link() {
    let m = broadwell();
    let t = MadeTables::all(22..44, &[(0, reads(N))]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Link { from: 0, to: 1 });
    // 16 control bytes with every 64 of data.
    within(gbs(22 * N, t.seconds), 38.4 * 64.0 / 80.0, 0.01);
    let link = t.links.iter().find(|l| (l.from, l.to) == (0, 1)).unwrap();
    assert_eq!(link.carried.data_bytes, 22.0 * N as f64 * 64.0);
    assert_eq!(link.carried.bytes, 22.0 * N as f64 * 80.0);
    let back = t.links.iter().find(|l| (l.from, l.to) == (1, 0)).unwrap();
    assert_eq!((back.carried.data_bytes, back.carried.bytes), (0.0, 22.0 * N as f64 * 16.0));
    // What was measured to come through limits where it is less.
    let mut m = m;
    m.figures.pair_read_gbs.as_mut().unwrap().rows[1][0].0 = Some(20.0);
    m.figures.pair_read_gbs.as_mut().unwrap().rows[0][1].0 = Some(20.0);
    within(gbs(22 * N, MadeTables::all(22..44, &[(0, reads(N))]).seconds(&m)), 20.0, 0.01);
}

#[test]
fn lines_of_other_caches_cross_links_and_leave_memory_alone() {
    let m = broadwell();
    let lines = Lines { transferred: N, ..Lines::default() };
    let t = MadeTables::all(0..1, &[(1, lines)]).on(&m).unwrap();
    assert_eq!(t.nodes[1].moved.read_bytes, 0.0);
    assert_eq!(t.links.iter().map(|l| l.carried.data_bytes).sum::<f64>(), N as f64 * 64.0);
    // From a neighbour's cache behind the same L3, 65 cycles.
    let near = MadeTables::all(0..1, &[(0, Lines { dependent: N, ..lines })]).seconds(&m);
    within(near / N as f64 * 1e9, 65.0 / 2.8, 0.01);
}

#[test]
fn traffic_takes_the_shortest_way() {
    let m = described("opteron-6174-4s");
    let carried = |cpu: u16, page_node: i16| {
        let t = MadeTables::all([cpu], &[(page_node, reads(N))]).on(&m).unwrap();
        let data = |l: &nearfar_timing::LinkTraffic| l.carried.data_bytes > 0.0;
        t.links.iter().filter(|l| data(l)).map(|l| (l.from, l.to)).collect::<Vec<_>>()
    };
    assert_eq!(carried(0, 1), [(1, 0)]);
    let two = carried(0, 5); // distance 22
    assert_eq!(two.len(), 2, "{two:?}");
    assert!(two.iter().any(|l| l.0 == 5) && two.iter().any(|l| l.1 == 0), "{two:?}");
    // Clusters of a socket share its links.
    let m = described("xeon-8480p-2s-snc4");
    let t = MadeTables::all([14], &[(6, reads(N))]).on(&m).unwrap();
    let used: Vec<_> = t.links.iter().filter(|l| l.carried.data_bytes > 0.0).collect();
    assert_eq!((used.len(), used[0].from, used[0].to), (1, 4, 0));
    let t = MadeTables::all([14], &[(0, reads(N))]).on(&m).unwrap();
    assert!(t.links.iter().all(|l| l.carried.bytes == 0.0));
}

#[test]
fn a_core_complex_has_its_port() {
    let m = described("epyc-7763-2s");
    let t = MadeTables::all(0..8, &[(0, reads(N))]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Link { from: 0, to: 0 });
    within(gbs(8 * N, t.seconds), 51.0, 0.02);
    // Four cores in each of two complexes have two ports.
    let t = MadeTables::all((0..4).chain(8..12), &[(0, reads(N))]).on(&m).unwrap();
    assert!(gbs(8 * N, t.seconds) > 85.0);
    // And less to write with.
    let streams = Lines { streamed: N, ..Lines::default() };
    within(gbs(8 * N, MadeTables::all(0..8, &[(0, streams)]).seconds(&m)), 26.0, 0.02);
}

#[test]
fn each_direction_to_an_expander_has_its_own_limit() {
    let m = described("epyc-9224-2s-nps2-cxl");
    let streams = Lines { streamed: N, ..Lines::default() };
    let t = MadeTables::all(0..12, &[(4, streams)]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Link { from: 0, to: 4 });
    within(gbs(12 * N, t.seconds), 17.6, 0.02);
    // Reading and writing at once, 17.6 each way would be more than it sustains.
    let t = MadeTables::all(0..12, &[(4, updates(N))]).on(&m).unwrap();
    assert_eq!(t.binds, Binding::Memory { node: 4 });
    within(gbs(24 * N, t.seconds), 27.2, 0.02);
}

#[test]
fn broadcast_probes_load_the_link_of_local_traffic() {
    let m = described("xeon-x5570-2s");
    let t = MadeTables::all(0..1, &[(0, reads(N))]).on(&m).unwrap();
    assert_eq!(t.links.iter().map(|l| l.carried.bytes).collect::<Vec<_>>(), [16.0 * N as f64; 2]);
    let mut m = m;
    m.figures.time.probe_share = None;
    let t = MadeTables::all(0..1, &[(0, reads(N))]).on(&m).unwrap();
    assert!(t.links.iter().all(|l| l.carried.bytes == 0.0));
    // A directory in memory is written for what others read.
    let before = MadeTables::all(4..8, &[(0, reads(N))]).seconds(&m);
    m.figures.pair_read_gbs = None;
    m.figures.links[0].gbs_per_direction.value = 1000.0;
    let wide = MadeTables::all(4..8, &[(0, reads(N))]).seconds(&m);
    m.figures.time.directory_write_share = Some(m.figures.time.control_bytes.clone().unwrap());
    m.figures.time.directory_write_share.as_mut().unwrap().value = 1.0;
    let with = MadeTables::all(4..8, &[(0, reads(N))]).seconds(&m);
    assert!(wide < before && with > 1.5 * wide, "{before} {wide} {with}");
}

#[test]
fn hardware_threads_share_their_cores_lines() {
    let m = broadwell();
    let lines = |n| Lines { demanded: n, ..Lines::default() };
    let one = MadeTables::all([0], &[(0, lines(2 * N))]).seconds(&m);
    within(MadeTables::all([0, 44], &[(0, lines(N))]).seconds(&m), one, 1e-9);
    assert!(MadeTables::all([0, 1], &[(0, lines(N))]).seconds(&m) < 0.6 * one);
}

#[test]
fn nothing_exceeds_a_capacity() {
    let names = [
        "xeon-e5-2699v4-2s",
        "xeon-x5570-2s",
        "opteron-6174-4s",
        "epyc-9654-2s-nps4",
        "epyc-9224-2s-nps2-cxl",
    ];
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for name in names {
        let four = ScaleOptions { cpus_per_node: Some(4), ..ScaleOptions::default() };
        let m = scale(&described(name), &four).unwrap();
        let cpus: Vec<u16> = m
            .nodes
            .iter()
            .flat_map(|n| m.cores_of(n.id))
            .filter_map(|c| c.first())
            .map(|c| c as u16)
            .collect();
        for _ in 0..12 {
            let mut tables = MadeTables::default();
            for &cpu in &cpus {
                let mut page_nodes = Vec::new();
                for page_node in 0..m.nodes.len() as i16 {
                    if random(3) == 0 {
                        let (demanded, prefetched) = (random(100_000), random(1_000_000));
                        let dependent = random(demanded + 1);
                        let (written, streamed) = (random(500_000), random(2) * random(100_000));
                        page_nodes.push((
                            page_node,
                            Lines { demanded, prefetched, dependent, written, streamed, ..Lines::default() },
                        ));
                    }
                }
                tables.epoch(0, 0, cpu, 0.0, &page_nodes);
            }
            let t = tables.on(&m).unwrap();
            for n in &t.nodes {
                assert!(n.read_gbs + n.write_gbs <= n.sustained_gbs.unwrap() * 1.000_001, "{name}: {n:?}");
            }
            for l in &t.links {
                assert!(l.gbs <= l.capacity_gbs.unwrap() * 1.000_001, "{name}: {l:?}");
            }
            assert!(t.low <= t.seconds && t.seconds <= t.high);
            let shares: f64 = t.shares.iter().map(|s| s.share).sum();
            within(shares, 1.0, 1e-9);
        }
    }
}

/// 8 cores per node and all pages on node 0, as the virtual machine's clocks cut it:
/// a barrier every 4 epochs of the far cores, which the near ones reach earlier.
#[test]
fn near_cores_that_wait_at_barriers_do_not_count_twice() {
    let m = broadwell();
    let total = 6_000_000u64;
    let mut tables = MadeTables::default();
    let rounds = 10;
    for round in 0..rounds {
        for step in 0..4u32 {
            for cpu in 0..44u16 {
                // Far cores need 4 epochs, near ones 4 x 85 / 135 = 2.52.
                let busy =
                    if cpu >= 22 { 1.0 } else { (4.0 * 85.0 / 135.0 - f64::from(step)).clamp(0.0, 1.0) };
                let all = if cpu >= 22 { 4.0 } else { 4.0 * 85.0 / 135.0 };
                let lines = (total as f64 / f64::from(rounds) * busy / all) as u64;
                if busy > 0.0 {
                    let page_nodes =
                        [(0, Lines { prefetched: lines, written: lines / 3, ..Lines::default() })];
                    tables.epoch(round * 4 + step, 1, cpu, 1e6 * busy, &page_nodes);
                }
            }
        }
    }
    let t = tables.on(&m).unwrap();
    let once =
        MadeTables::all(0..44, &[(0, Lines { prefetched: total, written: total / 3, ..Lines::default() })]);
    within(t.seconds, once.seconds(&m), 0.03);
    assert_eq!(t.binds, Binding::Memory { node: 0 });
}

#[test]
fn phases_that_differ_are_added_not_overlapped() {
    let m = broadwell();
    let compute = Lines { instructions: 560_000_000, ..Lines::default() };
    let mut tables = MadeTables::default();
    for epoch in 0..20 {
        for cpu in 0..44 {
            let lines = if epoch % 2 == 0 { compute } else { reads(1_000_000) };
            tables.epoch(epoch, 0, cpu, 1e6, &[(if cpu < 22 { 0 } else { 1 }, lines)]);
        }
    }
    let t = tables.on(&m).unwrap();
    let read = 22.0 * 1e6 * 64.0 / 65.5e9;
    within(t.seconds, 10.0 * (0.1 + read), 0.02);
    assert_eq!(t.phases.len(), 20);
    assert_eq!(t.binds, Binding::Core);
    within(t.shares[0].share, 0.1 / (0.1 + read), 0.02);
    assert!(t.phases[3].begin_seconds > t.phases[2].begin_seconds);
}

#[test]
fn epochs_that_were_cut_may_take_as_little_as_if_all_contended_at_once() {
    let m = broadwell();
    // The memory of one node has nearly all of the work in the first, and that of the other in the second.
    let mut tables = MadeTables::default();
    for epoch in 0..2u32 {
        for cpu in 0..44u16 {
            let node = u32::from(cpu / 22);
            let lines = if node == epoch { 1_000_000 } else { 1000 };
            tables.epoch(2 * epoch, 0, cpu, 1e6, &[(node as i16, reads(lines))]);
        }
    }
    let whole = Timeline::new(&m, &tables.cpus, &tables.traffic).unwrap();
    let cut = whole.clone().cut();
    assert_eq!(whole.least(), 1.0);
    within(cut.least(), 0.5, 0.01);
    let (before, after) = (whole.time().unwrap(), cut.time().unwrap());
    assert_eq!((before.seconds, before.high), (after.seconds, after.high));
    within(after.low, cut.least() * before.low, 1e-9);
    let ratio = |timeline: &Timeline| timeline.comparison().unwrap().ratio(timeline.pieces());
    assert_eq!((ratio(&whole).low, ratio(&whole).high), (1.0, 1.0));
    within(ratio(&cut).low, cut.least(), 1e-9);
    within(ratio(&cut).high, 1.0 / cut.least(), 1e-9);
    let uncertain = whole.clone().uncertain(0.1);
    within(ratio(&uncertain).low, 0.9, 1e-9);
    within(ratio(&uncertain).high, 1.1, 1e-9);
    // What all cores do alike is not shorter in one.
    let alike = MadeTables::all(0..4, &[(0, reads(1_000_000))]);
    within(Timeline::new(&m, &alike.cpus, &alike.traffic).unwrap().cut().least(), 1.0, 1e-9);
}

#[test]
fn memory_brought_home_takes_the_time_of_near_lines() {
    let m = broadwell();
    let chase = Lines { demanded: N, dependent: N, ..Lines::default() };
    let tables = MadeTables::all(0..1, &[(1, chase)]);
    let timeline = Timeline::new(&m, &tables.cpus, &tables.traffic).unwrap();
    let comparison = timeline.comparison().unwrap();
    let mut near = timeline.pieces().to_vec();
    near.iter_mut().flat_map(|p| &mut p.cores).for_each(|c| c.all_to(0));
    let r = comparison.ratio(&near);
    within(r.ratio, 85.0 / 135.0, 0.01);
    assert!(r.low <= r.ratio && r.ratio <= r.high && r.high - r.low < 0.05, "{r:?}");
    within(comparison.guess(timeline.pieces()), 1.0, 1e-9);
}

#[test]
fn estimated_work_takes_the_time_of_the_same_work_counted() {
    let m = broadwell();
    let lines = Lines { instructions: 5_600_000, ..reads(N) };
    let tables = MadeTables::all(0..2, &[(1, lines)]);
    let counted = Timeline::new(&m, &tables.cpus, &tables.traffic).unwrap();
    let piece = &counted.pieces()[0];
    // Instructions become the time that they take.
    let core_ns = counted.time().unwrap().phases.iter().map(|p| p.core_seconds).sum::<f64>() * 1e9;
    let estimated = |cpus: &[u32]| {
        let of = |&cpu: &u32| Estimated { cpu, core_ns, work: piece.cores[cpu as usize].clone() };
        Timeline::estimated(&m, &[cpus.iter().map(of).collect()])
    };
    let found = estimated(&[0, 1]).unwrap();
    within(found.time().unwrap().seconds, counted.time().unwrap().seconds, 0.01);
    // A cpu that the machine does not have is left out, and nothing is no time.
    let more = vec![Estimated { cpu: 9999, core_ns, work: piece.cores[0].clone() }];
    assert!(Timeline::estimated(&m, &[more]).is_err());
    assert!(Timeline::estimated(&m, &[]).is_err());
}

/// Its expanders have no cpus: rows of the latency matrix that was never measured.
#[test]
fn lines_from_other_caches_come_from_nodes_that_have_caches() {
    let m = described("epyc-9224-2s-nps2-cxl");
    assert!(m.nodes.iter().any(|n| n.cpus.is_empty()));
    let tables = MadeTables::all(0..12, &[(0, reads(N))]);
    let ns = Timeline::new(&m, &tables.cpus, &tables.traffic).unwrap().transfer_ns();
    assert!(ns > 80.0 && ns < 400.0, "{ns}");
}

#[test]
fn a_straggler_is_no_phase_where_times_are_compared_and_many_short_phases_are() {
    let m = broadwell();
    let compute = |part: u64| Lines { instructions: part * 5_600_000, ..Lines::default() };
    let pieces = |epochs: &[Lines]| {
        let mut tables = MadeTables::default();
        for (epoch, lines) in epochs.iter().enumerate() {
            for cpu in 0..22 {
                tables.epoch(epoch as u32, 0, cpu, 1e6, &[(0, *lines)]);
            }
        }
        let timeline = Timeline::new(&m, &tables.cpus, &tables.traffic).unwrap();
        let of: Vec<usize> = (0..epochs.len()).map(|s| timeline.piece_of(s)).collect();
        (timeline.pieces().len(), of)
    };
    // 100 ms of computing, and 5 ms of reading at the end.
    assert_eq!(pieces(&[compute(100), reads(230_000)]), (1, vec![0, 0]));
    assert_eq!(pieces(&[reads(230_000), compute(100)]), (1, vec![0, 0]));
    // As long a phase of each kind, and many short ones.
    assert_eq!(pieces(&[compute(100), reads(4_600_000)]).0, 2);
    let turns: Vec<Lines> = (0..20).map(|i| if i % 2 == 0 { compute(5) } else { reads(230_000) }).collect();
    assert_eq!(pieces(&turns).0, 20);
}

#[test]
fn cores_that_take_turns_do_not_overlap() {
    let m = broadwell();
    let mut tables = MadeTables::default();
    for epoch in 0..10 {
        tables.epoch(epoch, 0, (epoch % 2) as u16, 1e6, &[(0, reads(100_000))]);
    }
    let alone = MadeTables::all([0], &[(0, reads(1_000_000))]).seconds(&m);
    within(tables.seconds(&m), alone, 0.01);
    // Within an epoch too: half of it each, one after the other.
    let mut tables = MadeTables::default();
    tables.epoch(0, 0, 0, 1e6, &[(0, reads(100_000))]);
    for epoch in 1..10 {
        tables.epoch(epoch, 0, 0, 5e5, &[(0, reads(50_000))]);
        tables.epoch(epoch, 0, 1, 5e5, &[(0, reads(50_000))]);
    }
    tables.epoch(10, 0, 0, 1e6, &[(0, reads(100_000))]);
    within(tables.seconds(&m), alone * 1.1, 0.02);
}

#[test]
fn the_slowest_core_is_the_time() {
    let m = broadwell();
    let mut tables = MadeTables::all(0..10, &[(0, reads(N / 10))]);
    tables.epoch(0, 1, 10, 0.0, &[(0, reads(N))]);
    let alone = MadeTables::all([10], &[(0, reads(N))]).seconds(&m);
    let t = tables.seconds(&m);
    // The others slow it at first, and are gone soon.
    assert!(t > alone && t < 1.15 * alone, "{t} {alone}");
}

#[test]
fn only_the_region_counts_if_there_is_one() {
    let m = broadwell();
    let mut tables = MadeTables::default();
    tables.epoch(0, 0, 0, 1e6, &[(1, reads(N))]);
    let outside = tables.seconds(&m);
    tables.epoch(0, 1, 0, 1e6, &[(0, reads(N / 2))]);
    tables.epoch(1, 1, 0, 1e6, &[(0, reads(N / 2))]);
    tables.epoch(2, 0, 0, 1e6, &[(1, reads(N))]);
    let t = tables.on(&m).unwrap();
    assert!(t.seconds < outside);
    assert_eq!(t.nodes[1].moved.read_bytes, 0.0);
    assert_eq!(t.nodes[0].moved.read_bytes, N as f64 * 64.0);
}
