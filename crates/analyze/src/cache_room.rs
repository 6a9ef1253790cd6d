//! How much the caches of a machine hold.

use nearfar_machine::{CacheLevel, LINE_BYTES, Machine};

/// Bytes that those caches of a level have room for that `places` threads of a node fill: of caches that share no core with a thread, none
/// is used.
pub fn capacity(machine: &Machine, node: usize, level: &CacheLevel, places: usize) -> f64 {
    let cpus = machine.nodes.get(node).map_or(0, |n| n.cpus.iter().count());
    let cores = cpus / machine.threads_per_core.max(1) as usize;
    let instances = (cores / level.cores_per_instance.max(1) as usize).min(places).max(1);
    level.size_bytes as f64 * instances as f64
}

/// Lines that all caches of a machine hold together.
pub fn cached_lines(machine: &Machine) -> f64 {
    let nodes = (0..machine.nodes.len()).filter(|&node| machine.nodes[node].cpus.iter().next().is_some());
    let of_node =
        |node| machine.caches.iter().map(|level| capacity(machine, node, level, usize::MAX)).sum::<f64>();
    nodes.map(of_node).sum::<f64>() / LINE_BYTES as f64
}
