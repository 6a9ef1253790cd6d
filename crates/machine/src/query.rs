//! Questions to a machine that more than one reader asks.

use super::cpulist::CpuList;
use super::figures::Figures;
use super::{DistanceClass, Machine, NodeId, NodeKind, NumaNode};

impl Machine {
    /// A machine of which nothing is known.
    pub fn unknown() -> Machine {
        Machine {
            name: String::new(),
            nodes: Vec::new(),
            distances: Vec::new(),
            caches: Vec::new(),
            threads_per_core: 0,
            figures: Figures::default(),
        }
    }

    /// The node that a cpu belongs to; `None` for a cpu that no node lists.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<NodeId> {
        self.nodes.iter().find(|n| n.cpus.contains(cpu)).map(|n| n.id)
    }

    /// Row and column of a node in `nodes`, `distances` and every matrix.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&node, |n| n.id).ok()
    }

    /// The node with this kernel number.
    pub fn node(&self, node: NodeId) -> Option<&NumaNode> {
        self.position(node).map(|at| &self.nodes[at])
    }

    /// The nodes that have cpus.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = &NumaNode> + '_ {
        self.nodes.iter().filter(|n| !n.cpus.is_empty())
    }

    /// The nodes without cpus whose memory a program's pages may be on as on any other: a GPU's is its own, and what persists is a
    /// file's.
    pub fn memory_nodes(&self) -> impl Iterator<Item = &NumaNode> + '_ {
        self.nodes.iter().filter(|n| n.cpus.is_empty() && !matches!(n.kind, NodeKind::Gpu | NodeKind::Pmem))
    }

    /// Number of cpus.
    pub fn cpu_count(&self) -> usize {
        self.nodes.iter().map(|n| n.cpus.len()).sum()
    }

    /// The cores of a node as sets of cpus, by their first cpu.
    ///
    /// Where the machine does not list its cores, the numbering decides, as in
    /// [`binding`](super::binding): a contiguous range has a core's threads side
    /// by side, another set all first threads before all second ones.
    pub fn cores_of(&self, node: NodeId) -> Vec<CpuList> {
        let Some(node) = self.node(node) else {
            return Vec::new();
        };
        let mut cores: Vec<CpuList> = if !self.figures.cores.is_empty() {
            let own = |core: &CpuList| core.iter().filter(|&c| node.cpus.contains(c)).collect();
            self.figures.cores.iter().map(own).filter(|core: &CpuList| !core.is_empty()).collect()
        } else {
            let cpus = node.cpus.as_slice();
            let smt = self.threads_per_core.max(1) as usize;
            let count = cpus.len().div_ceil(smt);
            let contiguous = match (cpus.first(), cpus.last()) {
                (Some(a), Some(b)) => (b - a) as usize + 1 == cpus.len(),
                _ => false,
            };
            let core = |i: usize| if contiguous { i / smt } else { i % count };
            (0..count).map(|c| (0..cpus.len()).filter(|&i| core(i) == c).map(|i| cpus[i]).collect()).collect()
        };
        cores.sort_by_key(CpuList::first);
        cores
    }

    /// Firmware distance between two nodes; `None` if unknown.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let row = self.distances.get(self.position(from)?)?;
        row.get(self.position(to)?).copied()
    }

    /// How far memory of node `to` is from a cpu of node `from`.
    ///
    /// A node without cpus is [`DistanceClass::CpuLess`] from everywhere: that it
    /// is slower in kind matters more than which socket it hangs on. Where a
    /// package is unknown, another node counts as another socket unless the
    /// firmware distance is at most [`SAME_SOCKET_AT_MOST`]; a wrong "same
    /// socket" would hide cost, a wrong "other socket" only names it differently.
    pub fn distance_class(&self, from: NodeId, to: NodeId) -> DistanceClass {
        if from == to {
            return DistanceClass::Local;
        }
        let (a, b) = (self.node(from), self.node(to));
        if b.is_some_and(|n| n.cpus.is_empty()) {
            return DistanceClass::CpuLess;
        }
        let packages = a.and_then(|n| n.package).zip(b.and_then(|n| n.package));
        let same = match packages {
            Some((a, b)) => a == b,
            None => self.distance(from, to).is_some_and(|d| d <= SAME_SOCKET_AT_MOST),
        };
        if same { DistanceClass::SameSocket } else { DistanceClass::OtherSocket }
    }
}

/// Largest firmware distance taken for "same socket" where packages are unknown.
/// Sub-NUMA clusters report 11 (Skylake-SP) to 12 (Milan, Sapphire Rapids);
/// the nearest other socket seen is 16 (Interlagos, whose 16 is also used
/// within a package, so it cannot decide).
pub const SAME_SOCKET_AT_MOST: u32 = 12;
