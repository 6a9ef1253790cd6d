//! Which node and cpu a thread runs on when a recording is judged as if on
//! another machine. There is one mapping, here, so that the report, the virtual
//! machine and the launch line of a placement cannot disagree.
//!
//! Threads are taken in creation order and divided evenly over the nodes that
//! have cpus; where it does not come out even, earlier nodes get one more.
//!
//! ```text
//! 5 threads, 2 nodes   compact: 0 0 0 1 1    scatter: 0 1 0 1 0
//! ```

use super::{Machine, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How threads are divided over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Neighbours in creation order together: one contiguous block per node.
    /// What `OMP_PROC_BIND=spread OMP_PLACES=cores` gives one thread per core.
    #[default]
    Compact,
    /// Taking turns over the nodes.
    Scatter,
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bind::Compact => "compact",
            Bind::Scatter => "scatter",
        })
    }
}

/// Not a way to bind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way to divide threads over nodes; there are compact and scatter")]
pub struct BindError(String);

impl FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        match text {
            "compact" => Ok(Bind::Compact),
            "scatter" => Ok(Bind::Scatter),
            _ => Err(BindError(text.to_owned())),
        }
    }
}

/// The node of each of `threads` threads, in creation order. Empty if no node of
/// the machine has cpus.
pub fn assign(threads: usize, machine: &Machine, bind: Bind) -> Vec<NodeId> {
    let nodes: Vec<NodeId> = machine.cpu_nodes().map(|n| n.id).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    match bind {
        Bind::Scatter => (0..threads).map(|t| nodes[t % nodes.len()]).collect(),
        Bind::Compact => {
            let (each, more) = (threads / nodes.len(), threads % nodes.len());
            nodes
                .iter()
                .enumerate()
                .flat_map(|(i, &node)| std::iter::repeat_n(node, each + usize::from(i < more)))
                .collect()
        }
    }
}

/// The cpu of each of `threads` threads, in creation order: on the node that
/// [`assign`] gives, the node's distinct cores first, then their other hardware
/// threads, then from the start again. Empty if no node has cpus.
pub fn cpu_of(threads: usize, machine: &Machine, bind: Bind) -> Vec<u32> {
    let orders: Vec<Vec<u32>> = machine.nodes.iter().map(|n| cores_first(machine, n.id)).collect();
    let mut taken = vec![0usize; orders.len()];
    assign(threads, machine, bind)
        .into_iter()
        .filter_map(|node| {
            let at = machine.position(node)?;
            let cpu = orders[at][taken[at] % orders[at].len()];
            taken[at] += 1;
            Some(cpu)
        })
        .collect()
}

/// The cpus of a node, the first hardware thread of every core before any second.
///
/// Where the machine does not say which cpus share a core, the numbering decides:
/// x86 numbers all first threads, then all second ones (`0-21,44-65`), so
/// ascending order is right; in one contiguous range (POWER, most ARM, QEMU)
/// a core's threads are neighbours.
pub(super) fn cores_first(machine: &Machine, node: NodeId) -> Vec<u32> {
    let Some(at) = machine.position(node) else {
        return Vec::new();
    };
    let cpus = &machine.nodes[at].cpus;
    let mut keyed: Vec<(usize, u32)> = if !machine.figures.cores.is_empty() {
        cpus.iter()
            .map(|cpu| {
                let core = machine.figures.cores.iter().find(|c| c.contains(cpu));
                let nth = core.and_then(|c| c.iter().position(|s| s == cpu));
                (nth.unwrap_or(0), cpu)
            })
            .collect()
    } else {
        let smt = machine.threads_per_core.max(1) as usize;
        let contiguous = match (cpus.first(), cpus.last()) {
            (Some(a), Some(b)) => (b - a) as usize + 1 == cpus.len(),
            _ => false,
        };
        let nth = |i: usize| if contiguous { i % smt } else { 0 };
        cpus.iter().enumerate().map(|(i, c)| (nth(i), c)).collect()
    };
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, cpu)| cpu).collect()
}
