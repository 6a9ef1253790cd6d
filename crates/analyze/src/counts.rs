//! The report's `counters` and `time`: exact sums, and the time that they take.

use super::hash::FastMap;
use super::input::Judge;
use super::names::source_text;
use super::nodes::Nodes;
use super::region;
use super::roofline::roofline;
use super::shares::{Shares, share};
use super::timing::Timing;
use super::traffic::{Epoch, Traffic};
use super::value::{Bound, Counted, CountedInWindows, LinkFlow, Moment, MomentNode, NodeLoad, Region, Timed};
use nearfar_recording::Source;
use nearfar_timing::{Moved, Phase};

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
    pub timing: Result<Timing, String>,
    /// How far off they are, if accesses were counted in windows only.
    pub windows: Option<CountedInWindows>,
}

impl Counts {
    /// Lines from and to DRAM, if they were counted.
    pub fn lines(&self) -> Option<u64> {
        self.traffic.as_ref().ok().map(|t| t.known() + t.unknown)
    }

    /// Shares of everything, if it was counted.
    pub fn shares(&self, nodes: &Nodes) -> Option<Shares> {
        let mut shares = Shares::of_counts(self.traffic.as_ref().ok()?, nodes);
        if let Some(windows) = &self.windows {
            shares.remote_ci = shares.remote_ci.map(|share| windows.widen(share));
            shares.remote_of_all_ci = shares.remote_of_all_ci.map(|share| windows.widen(share));
        }
        Some(shares)
    }

    /// Share of the time that is bound by memory.
    pub fn memory_bound(&self) -> Result<f64, String> {
        self.timing.as_ref().map(|p| p.memory_bound).map_err(String::clone)
    }

    /// The report's `time`.
    pub fn timed(&self) -> Option<Timed> {
        let p = self.timing.as_ref().ok()?;
        let bound = |s: &nearfar_timing::BoundShare| Bound { binds: s.binds, share: s.share };
        let range = [p.time.low, p.time.high];
        let windows = self.windows.as_ref();
        let [low, high] = windows.map_or(range, |windows| windows.widen_seconds(p.time.seconds, range));
        Some(Timed {
            seconds: p.time.seconds,
            low,
            high,
            binds: p.time.binds,
            shares: p.time.shares.iter().map(bound).collect(),
            weak_figures: p.weak_figures.clone(),
        })
    }

    /// The report's `counters`.
    pub fn counted(&self, judge: &Judge, nodes: &Nodes, region: &region::Region) -> Option<Counted> {
        let traffic = self.traffic.as_ref().ok()?;
        let timing = self.timing.as_ref().ok();
        let worked = timing.map(|p| worked(traffic, p));
        let cycles = |cpu: u16| {
            let seconds = worked.as_ref()?.get(&u32::from(cpu))?;
            Some(seconds * timing?.time.clock_ghz * 1e9)
        };
        let roofline = roofline(&judge.machine, traffic, timing.map(|p| &p.time));
        let roofline_why = roofline.as_ref().err().cloned();
        Some(Counted {
            source: source_text(Source::Simulated).to_string(),
            region: if region.is_marked() { Region::Marked } else { Region::Whole },
            epochs: traffic.epochs.len() as u64,
            windows: self.windows,
            line_bytes: traffic.line_bytes,
            dram: traffic.dram(nodes),
            links: timing.map_or(Vec::new(), links),
            cpus: traffic.cpus(judge, cycles),
            bandwidth: timing.map_or(Vec::new(), loads),
            timeline: timing.map_or(Vec::new(), |p| timeline(traffic, p)),
            memory_bound_share: timing.map(|p| p.memory_bound),
            roofline: roofline.ok(),
            roofline_why,
        })
    }
}

/// Seconds of the phases that each cpu worked in.
fn worked(traffic: &Traffic, timing: &Timing) -> FastMap<u32, f64> {
    let mut last: FastMap<u32, (usize, f64)> = FastMap::default();
    for epoch in &traffic.epochs {
        let Some(phase) = timing.phase(epoch.number) else { continue };
        let seconds = timing.time.phases[phase].seconds;
        for &cpu in &epoch.cpus {
            let entry = last.entry(u32::from(cpu)).or_insert((usize::MAX, 0.0));
            if entry.0 != phase {
                *entry = (phase, entry.1 + seconds);
            }
        }
    }
    last.into_iter().map(|(cpu, (_, seconds))| (cpu, seconds)).collect()
}

fn links(timing: &Timing) -> Vec<LinkFlow> {
    let flow = |(n, l): (usize, &nearfar_timing::LinkTraffic)| {
        let moved = |s: &Phase| s.links.get(n).map_or(0.0, |c| c.bytes);
        let [low, medium, high] = levels(timing, l.capacity_gbs, moved);
        LinkFlow {
            from: l.from,
            to: l.to,
            bytes: l.carried.bytes.round() as u64,
            data_bytes: l.carried.data_bytes.round() as u64,
            gb_per_s: l.gbs,
            capacity_gb_per_s: l.capacity_gbs,
            low,
            medium,
            high,
        }
    };
    timing.time.links.iter().enumerate().map(flow).collect()
}

/// Shares of the time that something which sustains `most` GB/s had little, medium or much to do.
fn levels(timing: &Timing, most: Option<f64>, bytes: impl Fn(&Phase) -> f64) -> [Option<f64>; 3] {
    let mut by_level = [0.0; 3];
    for s in &timing.time.phases {
        let used = gb_per_s(bytes(s), s.seconds) / most.unwrap_or(1.0);
        by_level[usize::from(used >= LOW) + usize::from(used >= HIGH)] += s.seconds;
    }
    let seconds: f64 = by_level.iter().sum();
    by_level.map(|level| (most.is_some() && seconds > 0.0).then(|| level / seconds))
}

fn gb_per_s(bytes: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes / seconds / 1e9 } else { 0.0 }
}

/// How hard each node's memory works, by time.
fn loads(timing: &Timing) -> Vec<NodeLoad> {
    let load = |(n, t): (usize, &nearfar_timing::NodeTraffic)| {
        let sustained = t.sustained_gbs.filter(|s| s.is_finite() && *s > 0.0);
        let moved = |s: &Phase| s.memory.get(n).map_or(0.0, |m| m.read_bytes + m.write_bytes);
        let [low, medium, high] = levels(timing, sustained, moved);
        NodeLoad {
            node: t.node,
            gb_per_s: t.read_gbs + t.write_gbs,
            sustained_gb_per_s: sustained,
            low,
            medium,
            high,
        }
    };
    timing.time.nodes.iter().enumerate().map(load).collect()
}

/// The epochs of a phase.
fn epochs_of<'a>(traffic: &'a Traffic, s: &Phase) -> &'a [Epoch] {
    let epochs = &traffic.epochs;
    let from = epochs.partition_point(|e| e.number < s.first_epoch);
    &epochs[from..epochs.partition_point(|e| e.number <= s.last_epoch).max(from)]
}

/// The phases in order; where there are very many, those of one slot of the time as one.
fn timeline(traffic: &Traffic, timing: &Timing) -> Vec<Moment> {
    let all = timing.time.seconds;
    let phases = &timing.time.phases;
    let slot = |s: &Phase| match phases.len() > MOMENTS && all > 0.0 {
        true => ((s.begin_seconds + s.seconds / 2.0) / all * MOMENTS as f64) as usize,
        false => 0,
    };
    let few = phases.len() <= MOMENTS;
    let mut moments = Vec::new();
    for joined in phases.chunk_by(|a, b| !few && slot(a) == slot(b)) {
        let seconds: f64 = joined.iter().map(|s| s.seconds).sum();
        let Some(longest) = joined.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { continue };
        let node = |(n, t): (usize, &nearfar_timing::NodeTraffic)| {
            let sum = |f: fn(&Moved) -> f64| joined.iter().filter_map(|s| s.memory.get(n)).map(f).sum();
            MomentNode {
                node: t.node,
                read_gb_per_s: gb_per_s(sum(|m| m.read_bytes), seconds),
                write_gb_per_s: gb_per_s(sum(|m| m.write_bytes), seconds),
            }
        };
        let (mut lines, mut instructions, mut cycles) = ([0u64; 2], 0u64, 0.0);
        for s in joined {
            let epochs = epochs_of(traffic, s);
            let mut cpus: Vec<u16> = epochs.iter().flat_map(|e| e.cpus.iter().copied()).collect();
            cpus.sort_unstable();
            cpus.dedup();
            cycles += s.seconds * timing.time.clock_ghz * 1e9 * cpus.len() as f64;
            for e in epochs {
                instructions += e.instructions;
                lines = [lines[0] + e.lines[0], lines[1] + e.lines[1]];
            }
        }
        let link = |n: usize| joined.iter().filter_map(|s| s.links.get(n)).map(|c| c.bytes).sum();
        moments.push(Moment {
            from_s: joined[0].begin_seconds,
            to_s: joined[0].begin_seconds + seconds,
            binds: longest.binds,
            nodes: timing.time.nodes.iter().enumerate().map(node).collect(),
            links_gb_per_s: (0..timing.time.links.len()).map(|n| gb_per_s(link(n), seconds)).collect(),
            remote_share: (lines[0] + lines[1] > 0).then(|| share(lines[1], lines[0] + lines[1])),
            ipc: (cycles > 0.0 && instructions > 0).then(|| instructions as f64 / cycles),
        });
    }
    moments
}
