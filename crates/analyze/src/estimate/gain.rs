//! The time with memory elsewhere over the time now.

use super::{Beside, Estimate, Thread};
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::nodes::UNKNOWN;
use crate::spent::{NO_PART, PARTS, Spot};
use crate::thresholds::MODEL;
use crate::value::{Predicted, Repair, RepairPart, SampledGain};
use nearfar_recording::NONE;
use nearfar_timing::work::{CoreWork, NodeWork};
use nearfar_timing::{Estimated, Timeline};

/// Normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;

/// Where memory is then.
enum Then<'a> {
    /// All of it where it is used.
    Near,
    /// That of some rows as a repair has it, everything else where it is.
    Repaired(FastMap<u32, &'a RepairPart>),
}

/// Part of the time on pages of unknown nodes up to which a bound of all far memory is one. // chosen
const UNKNOWN_NODES: f64 = 0.01;

/// What is taken to be true of what samples leave open.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Which of least, likely and most lines.
    lines: usize,
    /// Which of the least, likely and most time of iterations is computing.
    core: usize,
    /// Part of the time on memory beside loops of known speed that is waiting.
    waits: f64,
    /// Lines in flight of accesses in no order: a part from 0 (as few as the time allows) to 1 (as many as a core can have), by their
    /// logarithm.
    flight: f64,
    /// The same of accesses beside loops of known speed, where the least is one.
    beside: f64,
}

/// In loops of known speed addresses are computed, not loaded, so as many lines are in flight as fit. // chosen: waits, beside
const LIKELY: Taken = Taken { lines: 1, core: 1, waits: 0.7, flight: 1.0, beside: 0.5 };
/// The ends: of what may be waiting, and of how.
const ENDS: [Taken; 3] = [
    Taken { lines: 0, core: 2, waits: 0.0, flight: 1.0, beside: 0.5 },
    Taken { lines: 2, core: 0, waits: 1.0, flight: 0.0, beside: 0.0 },
    Taken { lines: 2, core: 0, waits: 1.0, flight: 1.0, beside: 1.0 },
];

impl Estimate {
    /// The time with some rows elsewhere over the time now: `repairs`, each with its row. `at_risk`: the part of the time that is on
    /// them, for the error of samples. `None` if there is nothing to time.
    pub fn of_rows(&self, repairs: &[(u32, &RepairPart)], at_risk: f64) -> Option<Predicted> {
        self.predicted(&Then::Repaired(repairs.iter().copied().collect()), at_risk)
    }

    /// Most that near memory in place of far can save, as a part of the time. `None` where that is not known: of lines that threads take from
    /// each other nothing is, so no loop of known speed may write to a fixed place; and the pages' nodes have to be known.
    pub fn saves_at_most(&self, counters: &Counters) -> Option<f64> {
        let unknown = (counters.page_node_unknown + counters.unattributed) as f64;
        let moved = || self.threads.iter().flat_map(|t| &t.loops).flat_map(|l| &l.moved);
        let lines: f64 = moved().map(|m| m.lines[2]).sum();
        let nowhere: f64 = moved().filter(|m| m.spot.page_node == UNKNOWN).map(|m| m.lines[2]).sum();
        let writes = self.threads.iter().flat_map(|t| &t.loops).any(|l| l.writes_in_place);
        let known =
            nowhere <= UNKNOWN_NODES * lines && unknown <= UNKNOWN_NODES * counters.working.weight as f64;
        if writes || !known {
            return None;
        }
        let all = ENDS.iter().chain([&LIKELY]).map(|&taken| Some(self.ratio(&Then::Near, taken)?[0]));
        let least = all.collect::<Option<Vec<f64>>>()?.into_iter().fold(1.0, f64::min);
        Some(1.0 - least)
    }

    fn predicted(&self, then: &Then, at_risk: f64) -> Option<Predicted> {
        let likely = self.ratio(then, LIKELY)?;
        let ends: Vec<[f64; 3]> = ENDS.iter().filter_map(|&taken| self.ratio(then, taken)).collect();
        let all = || ends.iter().chain([&likely]);
        let low = all().map(|r| r[0]).fold(f64::INFINITY, f64::min);
        let high = all().map(|r| r[2]).fold(0.0, f64::max);
        let ratio = likely[1];
        // The part of the time on these objects is a share of so many samples.
        let spread = ((1.0 - at_risk).max(0.0) / (at_risk * self.samples).max(1.0)).sqrt();
        let sampling = Z * (1.0 - low).abs() * spread;
        let wider = |by: f64| (by * by + sampling * sampling + MODEL * MODEL).sqrt();
        Some(Predicted {
            ratio,
            low: (ratio - wider(ratio - low)).max(0.0),
            high: ratio + wider(high - ratio),
        })
    }

    /// The same with every line near. `repaired`: with the repairs of all findings.
    pub fn every_line_local(&self, far: f64, repaired: Option<Predicted>) -> Option<SampledGain> {
        Some(SampledGain {
            every_line_local: self.predicted(&Then::Near, far)?,
            repaired,
            source: super::SOURCE.to_string(),
            slices: self.slices.len(),
            explained_share: self.explained,
            far_over_near: None,
            latencies_from: None,
        })
    }

    /// Low end, guess and high end of the ratio for what is taken to be true.
    fn ratio(&self, then: &Then, taken: Taken) -> Option<[f64; 3]> {
        let now = Then::Repaired(FastMap::default());
        let now = Timeline::estimated(&self.machine, &self.work(&now, taken)).ok()?;
        let then = Timeline::estimated(&self.machine, &self.work(then, taken)).ok()?;
        let ratio = now.comparison().ok()?.ratio(then.pieces());
        Some([ratio.low, ratio.ratio, ratio.high])
    }

    fn work(&self, then: &Then, taken: Taken) -> Vec<Vec<Estimated>> {
        let whole: Vec<Estimated> = self.threads.iter().map(|t| self.of_thread(t, then, taken)).collect();
        let part = |parts: &Vec<f64>| {
            let at_work = whole.iter().zip(parts).filter(|(_, part)| **part > 0.0);
            at_work.map(|(e, &part)| scaled(e, part)).collect()
        };
        self.slices.iter().map(part).collect()
    }

    fn of_thread(&self, thread: &Thread, then: &Then, taken: Taken) -> Estimated {
        let count = self.ids.len();
        let most = self.figures.in_flight;
        let mut work = CoreWork { page_nodes: vec![NodeWork::default(); count], ..CoreWork::default() };
        let mut core_ns = thread.core_ns;
        let between = |least: f64, part: f64| (least.ln() + (most.ln() - least.ln()).max(0.0) * part).exp();
        // Of lines of which `flight` are on their way at a time, so many go one after the other that the mean is that.
        let alone = |flight: f64| match most > 1.0 {
            true => ((1.0 / flight - 1.0 / most) / (1.0 - 1.0 / most)).clamp(0.0, 1.0),
            false => 1.0,
        };
        let mut to = vec![0.0; count];
        for in_loop in &thread.loops {
            core_ns += in_loop.weight * in_loop.computing[taken.core];
            let alone = alone(between(in_loop.flight, taken.flight));
            for moved in &in_loop.moved {
                self.nodes_of(moved.spot, thread.node, then, taken, &mut to);
                let lines = moved.lines[taken.lines];
                for (node, part) in work.page_nodes.iter_mut().zip(&to) {
                    node.reads += lines * part;
                    node.prefetches += if moved.ahead { lines * part } else { 0.0 };
                    node.writes += if moved.written { lines * part } else { 0.0 };
                }
                work.dependent += if moved.ahead { 0.0 } else { lines * alone };
            }
        }
        let flight = between(1.0, taken.beside);
        for &Beside { spot, ns, at_least, at_most } in &thread.beside {
            // As many lines as there are take less time the more of them are on their way at a time.
            let waits = taken.waits.min(at_most / flight).max(at_least);
            core_ns += ns * (1.0 - waits);
            let lines = ns * waits / self.figures.near_ns * flight;
            self.nodes_of(spot, thread.node, then, taken, &mut to);
            for (node, part) in work.page_nodes.iter_mut().zip(&to) {
                node.reads += lines * part;
            }
            work.dependent += lines * alone(flight);
        }
        Estimated { cpu: thread.cpu, core_ns: core_ns.max(0.0), work }
    }

    /// Where the lines of a thread on a part of an object come from, in parts of 1.
    fn nodes_of(&self, spot: Spot, own: usize, then: &Then, taken: Taken, to: &mut [f64]) {
        to.fill(0.0);
        let now = if spot.page_node == UNKNOWN { own } else { usize::from(spot.page_node) };
        let repair = match then {
            Then::Near => return to[own] = 1.0,
            Then::Repaired(of) => of.get(&spot.row).filter(|_| spot.row != NONE),
        };
        let Some(repair) = repair else { return to[now] = 1.0 };
        let position = |id: u32| self.ids.iter().position(|&n| n == id);
        match &repair.repair {
            Repair::Replicate | Repair::SameSchedule => to[own] = 1.0,
            Repair::Bind { node } => to[position(*node).unwrap_or(now)] = 1.0,
            // Weights are chosen by counts, so no sampled recording has them.
            Repair::Interleave | Repair::WeightedInterleave | Repair::Weighted { .. } => {
                let part = 1.0 / self.with_cpus.len().max(1) as f64;
                self.with_cpus.iter().for_each(|&n| to[n] = part);
            }
            Repair::WhereUsed if spot.part == NO_PART || repair.blocks.is_empty() => {
                // Which part of it is not known: at its best it becomes the thread's own, else it stays.
                to[if taken.waits > 0.0 { own } else { now }] = 1.0;
            }
            Repair::WhereUsed => {
                let middle =
                    u128::from(repair.bytes) * (2 * u128::from(spot.part) + 1) / u128::from(2 * PARTS);
                let block = repair.blocks.iter().find(|b| middle < u128::from(b.0)).or(repair.blocks.last());
                to[block.and_then(|b| position(b.1)).unwrap_or(now)] = 1.0;
            }
        }
    }
}

fn scaled(e: &Estimated, part: f64) -> Estimated {
    let lines = |w: &NodeWork| NodeWork {
        reads: w.reads * part,
        prefetches: w.prefetches * part,
        writes: w.writes * part,
        ..NodeWork::default()
    };
    let page_nodes = e.work.page_nodes.iter().map(lines).collect();
    let work = CoreWork { dependent: e.work.dependent * part, page_nodes, ..CoreWork::default() };
    Estimated { cpu: e.cpu, core_ns: e.core_ns * part, work }
}
