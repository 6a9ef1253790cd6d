//! What pictures of a report need beyond its tables: aggregated to a fixed number of bins, so that its size does not
//! grow with the recording.

use crate::machine::NodeKind;
use serde::Serialize;

/// Data of pictures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pictures {
    /// The parts of the judged machine.
    pub machine: MachinePicture,
}

/// The parts of a machine, and what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachinePicture {
    /// Nodes, in the order of `machine.node_ids`.
    pub nodes: Vec<NodePicture>,
    /// Caches of one core, inner first; empty if unknown.
    pub caches: Vec<CachePicture>,
    /// Links between nodes; empty if none are described.
    pub links: Vec<LinkPicture>,
    /// Firmware distances: rows are nodes of cpus, columns nodes of memory, as `nodes`; empty if unknown.
    pub distances: Vec<Vec<u32>>,
    /// Idle latency in ns, likewise; null for an unknown pair, empty if all are unknown.
    pub latency_ns: Vec<Vec<Option<f64>>>,
    /// Read bandwidth in GB/s with all cpus of the row reading, likewise.
    pub read_gb_per_s: Vec<Vec<Option<f64>>>,
    /// Where latency and bandwidth come from: `latency: SOURCE (confidence C)`; empty if unknown.
    pub sources: Vec<String>,
}

/// A node of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodePicture {
    /// Kernel number.
    pub id: u32,
    /// Physical package; null if unknown.
    pub package: Option<u32>,
    /// Kernel numbers of its cpus as a list: `0-21,44-65`; empty for a node without cpus.
    pub cpus: String,
    /// Number of its cpus.
    pub cpu_count: usize,
    /// Number of its cores.
    pub cores: usize,
    /// What kind of memory.
    pub kind: NodeKind,
    /// Bytes of memory; null if unknown.
    pub memory_bytes: Option<u64>,
    /// Read bandwidth that its memory sustains, GB/s; null if unknown.
    pub read_gb_per_s: Option<f64>,
}

/// A cache level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachePicture {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes of one instance.
    pub size_bytes: u64,
    /// Cores that share one instance.
    pub cores_per_instance: u32,
}

/// Links between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkPicture {
    /// One end, kernel number.
    pub from: u32,
    /// The other end.
    pub to: u32,
    /// What all links between the two carry in one direction, GB/s.
    pub gb_per_s: f64,
}
