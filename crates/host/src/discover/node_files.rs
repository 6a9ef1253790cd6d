//! Where the kernel lists nodes, and what is read of them everywhere.

use super::tree::Tree;
use nearfar_machine::{NodeId, NumaNode};

pub(super) const NODE: &str = "sys/devices/system/node";

/// Nodes and their distances.
pub(super) struct Found {
    pub(super) nodes: Vec<NumaNode>,
    pub(super) distances: Vec<Vec<u32>>,
    /// The folders that each node stands for.
    pub(super) folders: Vec<Vec<NodeId>>,
}

/// Bytes of one kind in these nodes together, or in the whole machine if there are
/// no nodes: `Node 0 MemTotal: 16747124 kB`, or without the node in /proc/meminfo.
pub(super) fn memory(tree: &Tree, folders: &[NodeId], key: &str) -> Option<u64> {
    let one = |file: &str| {
        let text = tree.text(file)?;
        let line = text.lines().find(|l| l.contains(key))?;
        let kib: u64 = line.split(key).nth(1)?.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let node = |id: &NodeId| one(&format!("{NODE}/node{id}/meminfo"));
    match folders {
        [] => one("proc/meminfo"),
        [id] => node(id),
        // Nodes that are taken for one are together the machine.
        several => several.iter().map(node).sum::<Option<u64>>().or_else(|| one("proc/meminfo")),
    }
}
