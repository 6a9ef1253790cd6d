//! What a machine's cores do, as far as its file says.

use nearfar_machine::{CacheLevel, Machine};

/// Figures of the judged machine.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Latency of near memory, ns.
    pub near_ns: f64,
    /// Lines that a core has in flight at most.
    pub in_flight: f64,
    /// Time of an instruction, ns.
    pub instruction_ns: f64,
}

/// Of a machine.
///
/// # Errors
/// Which figure is missing, in words.
pub fn figures(machine: &Machine) -> Result<Figures, String> {
    if let Some(first) = machine.missing_to_time().first() {
        return Err(format!("the machine's file does not have what the time model needs: {first}"));
    }
    let core = &machine.figures.core;
    let latency = machine.figures.latency_ns.as_ref();
    let near: Vec<f64> =
        (0..machine.nodes.len()).filter_map(|n| latency?.get(n, n)).filter(|ns| ns.is_finite()).collect();
    match (core.clock_ghz(), &core.ipc, &core.outstanding_lines) {
        (Some(clock), Some(ipc), Some(lines)) if !near.is_empty() => Ok(Figures {
            near_ns: near.iter().sum::<f64>() / near.len() as f64,
            in_flight: lines.value.max(1.0),
            instruction_ns: 1.0 / (clock.value * ipc.value),
        }),
        _ => Err("the machine's latencies or the rates of its cores are not known".to_string()),
    }
}

/// Bytes of the last-level cache that one of `threads` on a node has, if all have as much.
pub fn own_cache(machine: &Machine, node: usize, last: &CacheLevel, threads: usize) -> Option<f64> {
    let cores = machine.nodes.get(node)?.cpus.len() / machine.threads_per_core.max(1) as usize;
    let threads = threads.max(1);
    let instances = (cores / last.cores_per_instance.max(1) as usize).clamp(1, threads);
    Some(last.size_bytes as f64 * instances as f64 / threads as f64)
}
