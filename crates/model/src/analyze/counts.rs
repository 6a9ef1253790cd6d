//! The report's `counters` and `time`: exact sums, and the pace at which they happen.

use super::input::Judge;
use super::nodes::Nodes;
use super::pace::Pace;
use super::region;
use super::shares::Shares;
use super::traffic::Traffic;
use super::value::{Counted, Moment, MomentNode, NodeLoad, Region, Timed};
use super::verdict::rung_text;
use crate::recording::Rung;

/// Most points of the timeline: as many as a wide terminal or a small plot can tell apart. // chosen
const MOMENTS: usize = 200;
/// Below this share of its sustained bandwidth a node's memory is little used: measured loaded latency is
/// 14 to 16 % above the idle one there (MLC on four two-socket Xeons, github gjbex/Code-optimization).
const LOW: f64 = 0.5;
/// Above this share it is 30 to 60 % above, and climbs to 1.7 to 2.8 times (same source).
const HIGH: f64 = 0.8;

/// What was counted and how long it takes; errors say in words why it is not known.
#[derive(Debug)]
pub struct Counts {
    /// The sums.
    pub traffic: Result<Traffic, String>,
    /// The time.
    pub pace: Result<Pace, String>,
}

impl Counts {
    /// Lines from and to DRAM, if they were counted.
    pub fn lines(&self) -> Option<u64> {
        self.traffic.as_ref().ok().map(|t| t.known() + t.unknown)
    }

    /// Shares of everything, if it was counted.
    pub fn shares(&self, nodes: &Nodes) -> Option<Shares> {
        self.traffic.as_ref().ok().map(|t| Shares::of_counts(t, nodes))
    }

    /// Share of the time that is bound by memory.
    pub fn memory_bound(&self) -> Result<f64, String> {
        self.pace.as_ref().map(|p| p.memory_bound).map_err(String::clone)
    }

    /// The report's `time`.
    pub fn timed(&self) -> Option<Timed> {
        let p = self.pace.as_ref().ok()?;
        Some(Timed {
            seconds: p.seconds,
            low: p.low,
            high: p.high,
            binds: p.binds,
            shares: p.shares.clone(),
            weak_figures: p.weak_figures.clone(),
        })
    }

    /// The report's `counters`.
    pub fn counted(&self, judge: &Judge, nodes: &Nodes, region: &region::Region) -> Option<Counted> {
        let traffic = self.traffic.as_ref().ok()?;
        let pace = self.pace.as_ref().ok();
        let cycles = |cpu: u16| {
            let pace = pace?;
            let worked = traffic.epochs.iter().filter(|e| e.cpus.contains(&cpu));
            Some(worked.filter_map(|e| pace.epoch(e.number)).map(|e| e.seconds).sum::<f64>() * pace.hertz)
        };
        Some(Counted {
            rung: rung_text(Rung::Simulated).to_string(),
            region: if region.is_marked() { Region::Marked } else { Region::Whole },
            epochs: traffic.epochs.len() as u64,
            line_bytes: traffic.line_bytes,
            dram: traffic.dram(nodes),
            links: pace.map_or(Vec::new(), |p| p.links.clone()),
            cpus: traffic.cpus(judge, cycles),
            bandwidth: pace.map_or(Vec::new(), |p| loads(traffic, p, nodes)),
            timeline: pace.map_or(Vec::new(), |p| timeline(traffic, p, nodes)),
            memory_bound_share: pace.map(|p| p.memory_bound),
        })
    }
}

fn gb_per_s(bytes: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes / seconds / 1e9 } else { 0.0 }
}

/// How hard each node's memory works, by time.
fn loads(traffic: &Traffic, pace: &Pace, nodes: &Nodes) -> Vec<NodeLoad> {
    let bytes = |lines: [u64; 2]| (lines[0] + lines[1]) as f64 * f64::from(traffic.line_bytes);
    let load = |(n, &node): (usize, &u32)| {
        let sustained = pace.sustained.get(n).copied().flatten();
        let (mut all, mut seconds, mut by_level) = (0.0, 0.0, [0.0; 3]);
        for epoch in &traffic.epochs {
            let Some(paced) = pace.epoch(epoch.number) else { continue };
            let moved = bytes(epoch.nodes[n]);
            all += moved;
            seconds += paced.seconds;
            if let Some(sustained) = sustained {
                let used = gb_per_s(moved, paced.seconds) / sustained;
                by_level[usize::from(used >= LOW) + usize::from(used >= HIGH)] += paced.seconds;
            }
        }
        let level = |i: usize| (sustained.is_some() && seconds > 0.0).then(|| by_level[i] / seconds);
        NodeLoad {
            node,
            gb_per_s: gb_per_s(all, seconds),
            sustained_gb_per_s: sustained,
            low: level(0),
            medium: level(1),
            high: level(2),
        }
    };
    nodes.ids.iter().enumerate().map(load).collect()
}

/// Stretches of equal time, as many as epochs or [`MOMENTS`]; an epoch belongs where its middle is.
fn timeline(traffic: &Traffic, pace: &Pace, nodes: &Nodes) -> Vec<Moment> {
    let all: f64 = traffic.epochs.iter().filter_map(|e| pace.epoch(e.number)).map(|e| e.seconds).sum();
    if all <= 0.0 {
        return Vec::new();
    }
    let count = traffic.epochs.len().clamp(1, MOMENTS);
    let mut moments: Vec<Moment> = Vec::new();
    let mut bound = vec![0.0; pace.resources.len()];
    let mut lines = vec![[0u64; 2]; nodes.count];
    let (mut now, mut begin, mut at) = (0.0, 0.0, 0usize);
    let mut close = |begin: f64, end: f64, bound: &mut Vec<f64>, lines: &mut Vec<[u64; 2]>| {
        let most = bound.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        let Some((most, _)) = most.filter(|_| end > begin) else { return };
        let rate = |lines: u64| gb_per_s(lines as f64 * f64::from(traffic.line_bytes), end - begin);
        let node = |(&node, l): (&u32, &[u64; 2])| MomentNode {
            node,
            read_gb_per_s: rate(l[0]),
            write_gb_per_s: rate(l[1]),
        };
        moments.push(Moment {
            from_s: begin,
            to_s: end,
            binds: pace.resources[most],
            nodes: nodes.ids.iter().zip(lines.iter()).map(node).collect(),
        });
        bound.fill(0.0);
        lines.fill([0; 2]);
    };
    for epoch in &traffic.epochs {
        let Some(paced) = pace.epoch(epoch.number) else { continue };
        let slot = (((now + paced.seconds / 2.0) / all * count as f64) as usize).min(count - 1);
        if slot != at {
            close(begin, now, &mut bound, &mut lines);
            (begin, at) = (now, slot);
        }
        now += paced.seconds;
        bound[usize::from(paced.binds)] += paced.seconds;
        lines.iter_mut().zip(&epoch.nodes).for_each(|(l, e)| {
            l[0] += e[0];
            l[1] += e[1];
        });
    }
    close(begin, now, &mut bound, &mut lines);
    moments
}
