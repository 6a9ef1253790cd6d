//! Where the memory of a measured thread is.

use nearfar_machine::NodeId;
use serde::Serialize;

/// Where the memory of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the thread's own node.
    Local,
    /// In turns over all nodes that have both cpus and memory.
    Interleaved,
    /// All on one node.
    OneNode(NodeId),
}
