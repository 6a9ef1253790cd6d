//! A machine as a value: its nodes, caches and figures.

use super::figures::Figures;
use super::node::NumaNode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Measured or published figures; see [`mod@crate::file`].
    #[serde(default)]
    pub figures: Figures,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
