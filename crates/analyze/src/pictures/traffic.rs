//! Traffic between nodes, for the picture of the machine.

use crate::value::{Counted, DramFlow, MemoryTraffic, Timed, Traffic, TrafficFlow};

/// GB/s and load where lines were counted and timed, else shares of what was sampled.
pub fn traffic(ids: &[u32], matrix: &[Vec<f64>], counted: Option<(&Counted, &Timed)>) -> Traffic {
    let mut flows = match counted {
        Some((counted, time)) => of_lines(counted, time.seconds),
        None => of_samples(ids, matrix),
    };
    flows.sort_by(|a, b| b.share.total_cmp(&a.share));
    let memories = ids.iter().map(|&node| {
        let own = |near: bool| flows.iter().filter(move |f| f.page_node == node && (f.from == node) == near);
        // An empty sum of floats is -0.
        let share = |near| own(near).map(|f| f.share).fold(0.0, |a, b| a + b);
        let rate = |near| counted.and_then(|_| own(near).try_fold(0.0, |sum, f| Some(sum + f.gb_per_s?)));
        let load = counted.and_then(|(c, _)| c.bandwidth.iter().find(|b| b.node == node));
        MemoryTraffic {
            node,
            near_share: share(true),
            far_share: share(false),
            near_gb_per_s: rate(true),
            far_gb_per_s: rate(false),
            load: load.and_then(|l| part(l.gb_per_s, l.sustained_gb_per_s)),
        }
    });
    Traffic { memories: memories.collect(), flows }
}

fn part(now: f64, most: Option<f64>) -> Option<f64> {
    most.filter(|&most| most > 0.0).map(|most| now / most)
}

fn of_lines(counted: &Counted, seconds: f64) -> Vec<TrafficFlow> {
    let bytes = |f: &DramFlow| (f.read_bytes + f.write_bytes) as f64;
    let all: f64 = counted.dram.iter().map(bytes).sum();
    let flow = |f: &DramFlow| {
        // Data comes from the memory's node to the cpus'.
        let way = if f.from == f.page_node {
            let memory = counted.bandwidth.iter().find(|b| b.node == f.page_node);
            memory.map(|m| (m.gb_per_s, m.sustained_gb_per_s))
        } else {
            let link = counted.links.iter().find(|l| l.from == f.page_node && l.to == f.from);
            link.map(|l| (l.gb_per_s, l.capacity_gb_per_s))
        };
        TrafficFlow {
            from: f.from,
            page_node: f.page_node,
            share: bytes(f) / all,
            gb_per_s: (seconds > 0.0).then(|| bytes(f) / seconds / 1e9),
            way_gb_per_s: way.map(|w| w.0),
            way_sustains_gb_per_s: way.and_then(|w| w.1),
            load: way.and_then(|(now, most)| part(now, most)),
        }
    };
    counted.dram.iter().filter(|f| bytes(f) > 0.0).map(flow).collect()
}

fn of_samples(ids: &[u32], matrix: &[Vec<f64>]) -> Vec<TrafficFlow> {
    let all: f64 = matrix.iter().flatten().sum();
    let mut flows = Vec::new();
    for (row, &from) in matrix.iter().zip(ids) {
        for (&share, &page_node) in row.iter().zip(ids).filter(|(share, _)| **share > 0.0) {
            flows.push(TrafficFlow {
                from,
                page_node,
                share: share / all,
                gb_per_s: None,
                way_gb_per_s: None,
                way_sustains_gb_per_s: None,
                load: None,
            });
        }
    }
    flows
}
