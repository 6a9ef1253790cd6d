//! A machine from a shape such as `2x22`: enough to ask "what if this ran there".

use super::cpulist::CpuList;
use super::file::{Confidence, Figures, Provenance};
use super::{Machine, NodeKind, NumaNode};

/// Most nodes that a shape may have; Linux allows 1024 (`MAX_NUMNODES`).
pub const MAX_NODES: u32 = 1024;
/// Most cpus that a shape may have; Linux is built with at most 8192.
pub const MAX_CPUS: u32 = 8192;

/// SLIT of a node to itself, fixed by ACPI.
const LOCAL: u32 = 10;
/// Convention of most firmware between nodes of one socket (sub-NUMA clusters: 11 or 12).
const SAME_SOCKET: u32 = 12;
/// Convention of most two-socket firmware between sockets.
const OTHER_SOCKET: u32 = 21;

/// Why a text is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Not two or three numbers with `x` between.
    #[error(
        "`{0}` is not a shape. A shape is NODESxCPUS, such as 2x22 (two nodes of 22 cpus), \
         or PACKAGESxNODESxCPUS, such as 2x4x14 (two sockets of four nodes of 14 cpus)"
    )]
    Form(String),
    /// A zero, or more than Linux can have.
    #[error("the shape {shape} has {what}; {limit}")]
    Size {
        /// The shape.
        shape: String,
        /// What is too large or missing.
        what: String,
        /// What is accepted.
        limit: String,
    },
}

impl Machine {
    /// A machine from `NODESxCPUS` (each node its own package) or
    /// `PACKAGESxNODESxCPUS`. Cpus are numbered node by node, one hardware
    /// thread per core. Distances are 10 local, 12 within a socket, 21 between
    /// sockets: a convention, marked as assumed in [`Figures::distances`].
    pub fn from_shape(shape: &str) -> Result<Machine, ShapeError> {
        let shape = shape.trim();
        let numbers: Option<Vec<u32>> = shape
            .split(['x', 'X', '×'])
            .map(|n| {
                let digits = !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
                digits.then(|| n.parse().unwrap_or(u32::MAX))
            })
            .collect();
        let (packages, per_package, cpus) = match numbers.as_deref() {
            Some(&[nodes, cpus]) => (nodes, 1, cpus),
            Some(&[packages, nodes, cpus]) => (packages, nodes, cpus),
            _ => return Err(ShapeError::Form(shape.to_owned())),
        };
        let nodes = packages.saturating_mul(per_package);
        let size = |what: String, limit: String| ShapeError::Size { shape: shape.to_owned(), what, limit };
        if nodes == 0 || cpus == 0 {
            let what = if nodes == 0 { "no nodes" } else { "no cpus" };
            return Err(size(what.into(), "every number must be 1 or more".into()));
        }
        if nodes > MAX_NODES {
            return Err(size(format!("{nodes} nodes"), format!("at most {MAX_NODES} are possible")));
        }
        let all = nodes.saturating_mul(cpus);
        if all > MAX_CPUS {
            return Err(size(format!("{all} cpus"), format!("at most {MAX_CPUS} are possible")));
        }
        let distance = |a: u32, b: u32| match (a == b, a / per_package == b / per_package) {
            (true, _) => LOCAL,
            (_, true) => SAME_SOCKET,
            _ => OTHER_SOCKET,
        };
        let assumed = Provenance {
            source: format!("by convention, from the shape {shape}"),
            confidence: Confidence::Assumed,
        };
        Ok(Machine {
            name: shape.to_owned(),
            nodes: (0..nodes)
                .map(|id| NumaNode {
                    id,
                    cpus: CpuList::from(id * cpus..=id * cpus + cpus - 1),
                    memory_bytes: None,
                    kind: NodeKind::Dram,
                    package: Some(id / per_package),
                })
                .collect(),
            distances: (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect(),
            caches: Vec::new(),
            threads_per_core: 1,
            figures: Figures {
                topology: Some(assumed.clone()),
                distances: Some(assumed),
                ..Figures::default()
            },
        })
    }
}
