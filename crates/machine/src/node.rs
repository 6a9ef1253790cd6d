//! A NUMA node, and the number that names it.

use super::cpulist::CpuList;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernel number of a NUMA node (`P#`). Numbers may have gaps.
pub type NodeId = u32;

/// What a node's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Ordinary memory of a socket.
    #[default]
    Dram,
    /// High-bandwidth memory.
    Hbm,
    /// Memory behind CXL.
    Cxl,
    /// A GPU's memory.
    Gpu,
    /// Persistent memory.
    Pmem,
}

/// A NUMA node: a part of memory and the cpus that are near it. Either may be missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Kernel number.
    pub id: NodeId,
    /// Kernel indexes of its cpus; empty for a CPU-less node.
    pub cpus: CpuList,
    /// Memory in bytes; `None` if unknown.
    pub memory_bytes: Option<u64>,
    /// What kind of memory.
    #[serde(default)]
    pub kind: NodeKind,
    /// Physical package (socket) it belongs to; `None` if unknown.
    pub package: Option<u32>,
}
