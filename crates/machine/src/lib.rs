//! What a NUMA machine is: nodes, cpus, caches, distances, measured figures.
//!
//! A [`Machine`] is a value. It comes from the host's sysfs (the binary's
//! `discover`), from a machine file ([`mod@file`]) or from a shape such as `2x22`
//! ([`shape`]). Which node a thread runs on when a recording is judged as if on
//! another machine is decided in one place, [`binding`].

#![forbid(unsafe_code)]

pub mod binding;
mod check;
pub mod cpulist;
pub mod figures;
pub mod file;
pub mod launch;
pub mod layout;
pub mod needs;
pub mod query;
pub mod scale;
pub mod select;
pub mod shape;
mod write;

use cpulist::CpuList;
use serde::{Deserialize, Serialize};

/// Kernel number of a NUMA node (`P#`). Numbers may have gaps.
pub type NodeId = u32;

/// What a node's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A machine as far as it is known. What is not known is absent, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name for reports.
    pub name: String,
    /// Nodes, ascending by id.
    pub nodes: Vec<NumaNode>,
    /// Firmware distances (SLIT), row and column in the order of `nodes`; empty if unknown.
    #[serde(default)]
    pub distances: Vec<Vec<u32>>,
    /// Caches of one core outward; empty if unknown.
    #[serde(default)]
    pub caches: Vec<CacheLevel>,
    /// Hardware threads per core; 0 if unknown.
    #[serde(default)]
    pub threads_per_core: u32,
    /// Measured or published figures; see [`mod@file`].
    #[serde(default)]
    pub figures: file::Figures,
}

/// A cache level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheLevel {
    /// 1, 2, 3.
    pub level: u32,
    /// Capacity of one instance, bytes.
    pub size_bytes: u64,
    /// Associativity; `None` if unknown.
    pub ways: Option<u32>,
    /// Load-to-use latency in core cycles; `None` if unknown.
    pub latency_cycles: Option<f64>,
    /// How many cores share one instance.
    pub cores_per_instance: u32,
}

/// How far memory is from a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistanceClass {
    /// The cpu's own node.
    Local,
    /// Another node of the same socket.
    SameSocket,
    /// A node of another socket.
    OtherSocket,
    /// A node without cpus (CXL, HBM, GPU, PMEM).
    CpuLess,
}
