//! Weights of nodes that pages come in turns on.

use crate::value::Repair;
use nearfar_machine::{Machine, NumaNode};

/// Weights that are tried: pages in a row on each node with cpus, and on each without. From step to step the share of either
/// changes by a fifth at most, where the best ratio's neighbours take a hundredth more time. // chosen
const TRIED: [(u32, u32); 21] = [
    (1, 4),
    (1, 3),
    (1, 2),
    (2, 3),
    (1, 1),
    (5, 4),
    (3, 2),
    (7, 4),
    (2, 1),
    (5, 2),
    (3, 1),
    (7, 2),
    (4, 1),
    (5, 1),
    (6, 1),
    (8, 1),
    (10, 1),
    (12, 1),
    (16, 1),
    (24, 1),
    (32, 1),
];
/// Weights by bandwidth: the slowest node's. // chosen: steps of a quarter
const SLOWEST: f64 = 4.0;
/// The largest weight of a placement file.
const MOST: f64 = 255.0;

/// The weights that take least time, by `guess`; `None` on a machine whose nodes all have cpus.
pub fn best(machine: &Machine, guess: impl Fn(Repair) -> f64) -> Option<(Repair, f64)> {
    machine.memory_nodes().next()?;
    let tried = TRIED.map(|(with_cpus, without)| Repair::Weighted { with_cpus, without });
    tried.into_iter().map(|repair| (repair, guess(repair))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Nodes and their weights, as a file says them.
pub fn by_kind(machine: &Machine, with_cpus: u32, without: u32) -> (Vec<u32>, Vec<u32>) {
    let weight = |n: &NumaNode| if n.cpus.is_empty() { without } else { with_cpus };
    let mut all: Vec<&NumaNode> = machine.cpu_nodes().chain(machine.memory_nodes()).collect();
    all.sort_by_key(|n| n.id);
    all.iter().map(|n| (n.id, weight(n))).unzip()
}

/// The nodes with cpus, and weights that are as their bandwidths.
pub fn by_bandwidth(machine: &Machine) -> (Vec<u32>, Vec<u32>) {
    let rate = |n: &NumaNode| machine.figures.bandwidth_of(n.id).and_then(|b| b.rate(0.25)).unwrap_or(0.0);
    let least = machine.cpu_nodes().map(rate).fold(f64::INFINITY, f64::min);
    let weight = |n: &NumaNode| match least > 0.0 {
        true => (SLOWEST * rate(n) / least).round().clamp(1.0, MOST) as u32,
        false => 1,
    };
    machine.cpu_nodes().map(|n| (n.id, weight(n))).unzip()
}
