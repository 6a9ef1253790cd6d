//! What a program moved and computed, estimated from samples of a clock, and what it would take with its memory elsewhere.
//!
//! In loops of known speed (`native`), lines follow from the loop's streams ([`streams`]), and what an iteration computes is between its
//! least and most cost. Of time beside such loops only which memory an instruction accessed is known: it may all be
//! waiting, for one line after the other or for as many as a core has in flight, or not be waiting at all. The time model that
//! times counted lines times what is likely and both ends of all this: the range of what is predicted.

mod gain;
mod loops;
mod streams;

use super::blame::Waiting;
use super::bounds::Bounds;
use super::cached::last_level;
use super::context::Context;
use super::core_figures::{Figures, figures, own_cache};
use super::counters::Counters;
use super::hash::FastSet;
use super::input::{Input, Judge};
use super::nodes::UNKNOWN;
use super::slices::{Clock, slices};
use super::spent::Spot;
use super::stats::BLOCKS;
use super::value::{LineEstimate, RepairPart};
use loops::{Loop, loops};
use nearfar_machine::Machine;
use nearfar_recording::NONE;
use std::collections::BTreeMap;

/// Where it comes from, in words.
pub const SOURCE: &str = "samples of a clock, the speed of loops, and the time model";
/// Most threads that are followed. // chosen: the search for parts takes a second then
const MOST_THREADS: usize = 2048;
/// Upper end of a number of lines over its lower end, from which on the number is unknown. // chosen
const TOLD: f64 = 1.5;
/// Part of a row's time outside of loops whose lines are known, from which on the row's lines are unknown. // chosen
const BESIDE: f64 = 0.05;

/// What a thread did.
#[derive(Debug)]
struct Thread {
    /// Position of its node, and a cpu there that no other thread has as long as there are enough.
    node: usize,
    cpu: u32,
    /// Time that is certainly no memory's, ns.
    core_ns: f64,
    loops: Vec<Loop>,
    /// Time on memory beside loops of known speed.
    beside: Vec<Beside>,
}

/// Time on memory beside loops of known speed.
#[derive(Clone, Copy, Debug)]
struct Beside {
    spot: Spot,
    ns: f64,
    /// Part of it that waits at least.
    at_least: f64,
    /// The same at most, if no two lines are on their way at a time: so many lines it is at most.
    at_most: f64,
}

/// The estimate.
#[derive(Debug)]
pub struct Estimate {
    machine: Machine,
    /// Kernel numbers of the nodes, by position.
    ids: Vec<u32>,
    /// Positions of the nodes with cpus.
    with_cpus: Vec<usize>,
    threads: Vec<Thread>,
    /// By part of the run: of each thread's time, a part of 1.
    slices: Vec<Vec<f64>>,
    figures: Figures,
    samples: f64,
    /// Part of the run that the longest threads of its parts were at work.
    explained: f64,
    /// Time on each row in loops whose lines are known, and elsewhere, ns.
    on_rows: BTreeMap<u32, [f64; 2]>,
}

impl Estimate {
    /// From what was counted. `waiting`: what waits for certain. `cached`: rows that caches may hold, whose waiting may be for a cache.
    ///
    /// # Errors
    /// In words, why there is none.
    pub fn new(
        input: &Input,
        judge: &Judge,
        context: &Context,
        counters: &Counters,
        waiting: &Waiting,
        bounds: &Bounds,
        cached: impl Fn(u32) -> bool,
    ) -> Result<Estimate, String> {
        let nodes = context.finder.nodes;
        let machine = &judge.machine;
        if nodes.count < 2 {
            return Err("the machine has one node: memory can be nowhere else".to_string());
        }
        let figures = figures(machine)?;
        let spent = &counters.spent;
        let mut clocks: BTreeMap<u32, Vec<Clock>> = BTreeMap::new();
        for (&(thread, block), &[samples, weight]) in spent.blocks.iter() {
            let of = clocks.entry(thread).or_insert_with(|| vec![Clock::default(); BLOCKS]);
            of[block as usize] = [samples as f64, weight as f64];
        }
        if clocks.len() > MOST_THREADS {
            return Err(format!("{} threads are more than are followed ({MOST_THREADS})", clocks.len()));
        }
        let mut on_node = vec![0usize; nodes.count];
        let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
        for (&id, clock) in &clocks {
            let node = context.threads.get(id).map_or(UNKNOWN, |t| context.node_of_user(counters, t as u32));
            let cpus = machine.nodes.get(usize::from(node)).map(|n| &n.cpus).filter(|cpus| !cpus.is_empty());
            let Some(cpus) = cpus.filter(|_| node != UNKNOWN) else {
                return Err("on which node's cpus some thread ran is not known".to_string());
            };
            let node = usize::from(node);
            let nth = on_node[node] % cpus.len();
            on_node[node] += 1;
            let cpu = cpus.iter().nth(nth).unwrap_or_default();
            let core_ns = clock.iter().map(|c| c[1]).sum();
            threads.insert(id, Thread { node, cpu, core_ns, loops: Vec::new(), beside: Vec::new() });
        }
        let here = &input.meta.machine;
        let caches = |id: u32| {
            let node = threads.get(&id).map_or(0, |t| t.node);
            let judged =
                last_level(input, judge).and_then(|last| own_cache(machine, node, last, on_node[node]));
            // On which node it ran here does not matter: all threads may have been on one.
            let last = here.caches.iter().max_by_key(|c| c.level);
            [judged, last.and_then(|last| own_cache(here, 0, last, 1))]
        };
        let loops = loops(input, context, counters, figures, &caches);
        // What is not known of a loop's lines makes its time on memory like that beside loops.
        let estimated: FastSet<(u32, u32)> = loops.iter().map(|l| (l.thread, l.id)).collect();
        let others = spent.operands.iter().filter(|(key, _)| !estimated.contains(&(key.0, key.1)));
        let others = others.map(|(&(thread, _, _, spot), &weight)| ((thread, spot, NONE), weight, true));
        let mut beside: Vec<((u32, Spot, u32), u64, bool)> =
            spent.beside.iter().map(|(&key, &weight)| (key, weight, false)).chain(others).collect();
        beside.sort_unstable();
        let mut on_rows: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
        let known = spent.operands.iter().filter(|(key, _)| estimated.contains(&(key.0, key.1)));
        known.for_each(|(key, weight)| on_rows.entry(key.3.row).or_default()[0] += *weight as f64);
        beside.iter().for_each(|(key, weight, _)| on_rows.entry(key.1.row).or_default()[1] += *weight as f64);
        for ((id, spot, page), weight, in_loop) in beside {
            if let Some(thread) = threads.get_mut(&id) {
                thread.core_ns -= weight as f64;
                let waits = if in_loop || cached(spot.row) { 0.0 } else { waiting.part(spot.row) };
                let at_most = bounds.of_spot(context, counters, id, spot, page);
                let at_least = waits.min(at_most);
                thread.beside.push(Beside { spot, ns: weight as f64, at_least, at_most });
            }
        }
        for of in loops {
            if let Some(thread) = threads.get_mut(&of.thread) {
                thread.core_ns -= of.weight;
                thread.loops.push(of);
            }
        }
        let clocks: Vec<Vec<Clock>> = clocks.into_values().collect();
        let times: Vec<f64> = clocks.iter().map(|of| of.iter().map(|c| c[1]).sum()).collect();
        let of_slice = |part: std::ops::Range<usize>| -> Vec<f64> {
            let of = |(thread, all): (&Vec<Clock>, &f64)| {
                thread[part.clone()].iter().map(|c| c[1]).sum::<f64>() / all.max(1.0)
            };
            clocks.iter().zip(&times).map(of).collect()
        };
        let parts = slices(&clocks);
        let longest = |part: &std::ops::Range<usize>| {
            clocks.iter().map(|c| c[part.clone()].iter().map(|c| c[1]).sum()).fold(0.0, f64::max)
        };
        let length = context.region.length_ns as f64;
        Ok(Estimate {
            explained: (parts.iter().map(longest).sum::<f64>() / length.max(1.0)).min(1.0),
            machine: machine.clone(),
            ids: nodes.ids.clone(),
            with_cpus: machine.cpu_nodes().filter_map(|n| machine.position(n.id)).collect(),
            slices: parts.into_iter().map(of_slice).collect(),
            samples: clocks.iter().flatten().map(|c| c[0]).sum(),
            threads: threads.into_values().collect(),
            figures,
            on_rows,
        })
    }

    /// Lines of each row from and to memory; `None` of those of which the range is too wide to say a number, as of rows that are also
    /// used beside loops of known speed.
    pub fn lines(&self) -> BTreeMap<u32, Option<LineEstimate>> {
        let mut sums: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
        for moved in self.threads.iter().flat_map(|t| &t.loops).flat_map(|l| &l.moved) {
            let times = if moved.written { 2.0 } else { 1.0 };
            let sum = sums.entry(moved.spot.row).or_default();
            (0..3).for_each(|i| sum[i] += times * moved.lines[i]);
        }
        let told = |(row, [low, lines, high]): (u32, [f64; 3])| {
            let [inside, beside] = self.on_rows.get(&row).copied().unwrap_or_default();
            let part = beside / (inside + beside).max(1.0);
            let high = high * (1.0 + part);
            let known = high > 0.0 && high <= TOLD * low && part <= BESIDE;
            (row, known.then_some(LineEstimate { lines: lines as u64, low: low as u64, high: high as u64 }))
        };
        sums.into_iter().map(told).collect()
    }
}

/// Repairs with their rows; `None` if some row has none, or there is none.
pub fn paired<'a>(rows: &[u32], repairs: &'a [RepairPart]) -> Option<Vec<(u32, &'a RepairPart)>> {
    (!rows.is_empty() && rows.len() == repairs.len()).then(|| rows.iter().copied().zip(repairs).collect())
}
