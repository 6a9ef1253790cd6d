//! What all measurements share: the machine, how long they may take, whose cpus, how much memory.

use nearfar_figures::sizes::capacity;
use nearfar_host::proc;
use nearfar_machine::topology::{Limit, Topology};
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::measured::{Cached, Pair, Spread};

/// The machine under measurement and the caller's wishes.
pub struct Bench<'a> {
    /// Nodes, cpus, caches.
    pub machine: Machine,
    /// What is allowed and free.
    pub topology: Topology,
    /// Fewer and shorter repetitions.
    pub quick: bool,
    /// Everything is measured: no part may take most of the time.
    pub all: bool,
    /// Bytes of each array; `None`: four times the caches of the threads.
    pub array_bytes: Option<u64>,
    /// What the caches may have held of what was measured so far.
    pub cached: Cached,
    /// Which part it is, from 1, and of how many.
    pub part: (usize, usize),
    /// Told what is being done.
    pub told: &'a mut dyn FnMut(&str),
}

/// How long and how often something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seconds of one repetition.
    pub seconds: f64,
    /// Repetitions after the first, which only warms up.
    pub runs: usize,
}

/// Where memory should be.
#[derive(Clone, Debug, PartialEq)]
pub enum PageNode {
    /// Where the machine's only node is: the kernel is not asked, since the kernel may know of none.
    Only,
    /// On a node.
    Node(NodeId),
    /// In turns on these nodes.
    Interleaved(Vec<NodeId>),
}

/// Whose cpus against whose memory.
pub struct Place {
    /// The node of the cpus.
    pub from: NodeId,
    /// Its cpus that may be used.
    pub cpus: Vec<u32>,
    /// The node of the memory.
    pub memory: NodeId,
    /// The same as memory is asked for.
    pub page_node: PageNode,
}

/// STREAM's rule: each array at least four times the caches that its threads have.
pub const ARRAY_CACHES: u64 = 4;
/// Of the last-level cache: lines of a chain that is this much larger are in it one time in eight.
const CHAIN_CACHES: u64 = 8;
/// The same without the time to make a long chain.
const QUICK_CHAIN_CACHES: u64 = 4;
/// Longest chain of `--quick`: a cache that a virtual machine shares with others may be called 480 MiB, and a
/// chain four times that takes minutes to make. // chosen
const QUICK_CHAIN: u64 = 1 << 30;
/// Largest array of `--quick`, of which there are three. // chosen
const QUICK_ARRAY: u64 = 512 << 20;
/// If the kernel does not tell of caches.
const CACHE_BYTES: u64 = 32 << 20;

impl Bench<'_> {
    /// Says what is being done.
    pub fn say(&mut self, what: &str) {
        let (part, parts) = self.part;
        (self.told)(&format!("[{part} of {parts}] {what}"));
    }

    /// So long for so many figures together, divided fairly.
    pub fn effort(&self, full_seconds: f64, quick_seconds: f64, figures: usize) -> Effort {
        let (total, runs) = if self.quick { (quick_seconds, 3) } else { (full_seconds, 7) };
        // The warm-up is a run too.
        let seconds = total / (figures.max(1) * (runs + 1)) as f64;
        Effort { seconds: seconds.clamp(0.01, 0.5), runs }
    }

    /// The cpus of a node that the caller may use.
    pub fn cpus(&self, node: NodeId) -> Vec<u32> {
        let allowed = |cpu: &u32| self.topology.allowed.cpus.as_ref().is_none_or(|a| a.contains(*cpu));
        let node = self.machine.nodes.iter().find(|n| n.id == node);
        node.map(|n| n.cpus.iter().filter(allowed).collect()).unwrap_or_default()
    }

    /// One usable cpu of each core of a node.
    pub fn cores(&self, node: NodeId) -> Vec<u32> {
        let cpus = self.cpus(node);
        let Some(cores) = &self.topology.cores else { return cpus };
        cores.iter().filter_map(|core| cpus.iter().copied().find(|c| core.contains(*c))).collect()
    }

    /// Nodes that have both memory and usable cpus, with these.
    pub fn nodes(&self) -> Vec<(NodeId, Vec<u32>)> {
        let nodes = self.machine.nodes.iter().filter(|n| n.memory_bytes != Some(0));
        nodes.map(|n| (n.id, self.cpus(n.id))).filter(|(_, cpus)| !cpus.is_empty()).collect()
    }

    /// Memory of one node.
    pub fn page_node(&self, node: NodeId) -> PageNode {
        if self.machine.nodes.len() == 1 { PageNode::Only } else { PageNode::Node(node) }
    }

    /// All pairs of nodes with cpus and nodes with memory, by the memory.
    pub fn pairs(&self) -> Vec<Place> {
        let mut all = Vec::new();
        for to in self.machine.nodes.iter().filter(|n| n.memory_bytes != Some(0)) {
            for from in self.machine.nodes.iter().filter(|n| !n.cpus.is_empty()) {
                let (cpus, page_node) = (self.cpus(from.id), self.page_node(to.id));
                all.push(Place { from: from.id, cpus, memory: to.id, page_node });
            }
        }
        all
    }

    /// Bytes of one last-level cache.
    pub fn last_cache(&self) -> u64 {
        self.machine.caches.iter().max_by_key(|c| c.level).map_or(CACHE_BYTES, |c| c.size_bytes)
    }

    /// Bytes of the last-level caches of so many cpus of a node.
    pub fn caches_of(&self, cpus: usize) -> u64 {
        let Some(last) = self.machine.caches.iter().max_by_key(|c| c.level) else { return CACHE_BYTES };
        let sharing = (last.cores_per_instance * self.machine.threads_per_core.max(1)).max(1);
        last.size_bytes * (cpus as u64).div_ceil(u64::from(sharing)).max(1)
    }

    /// Bytes of a chain of pointers that caches hardly hold; with `--quick` no more than `QUICK_CHAIN`,
    /// and `cached` has what they may hold of it.
    pub fn chain(&mut self) -> usize {
        let last = self.last_cache();
        let bytes =
            if self.quick { (QUICK_CHAIN_CACHES * last).min(QUICK_CHAIN) } else { CHAIN_CACHES * last };
        let bytes = bytes.max(128 << 20);
        if bytes < QUICK_CHAIN_CACHES * last {
            Cached::more(&mut self.cached.chain_share, last, bytes);
        }
        bytes as usize
    }

    /// Bytes of each array that threads with these caches stream through: as the caller wishes, or by
    /// STREAM's rule; with `--quick` no more than `QUICK_ARRAY` for each of `nodes` that share it. `cached`
    /// has what the caches may hold of it.
    pub fn array(&mut self, caches: u64, nodes: u64) -> u64 {
        let rule = ARRAY_CACHES * caches;
        let most = if self.quick { QUICK_ARRAY * nodes.max(1) } else { u64::MAX };
        let bytes = self.array_bytes.unwrap_or(rule.min(most));
        if bytes < rule {
            Cached::more(&mut self.cached.array_share, caches, bytes);
        }
        bytes
    }

    /// Most bytes of memory that a part has at a time: a chain with its order, or three arrays of all cpus of a node.
    pub fn most(&mut self) -> u64 {
        let before = self.cached;
        let chain = self.chain() as u64;
        let cpus = self.nodes().iter().map(|(_, cpus)| cpus.len()).max().unwrap_or(1);
        let (caches, nodes) = (self.caches_of(cpus), self.nodes().len().max(1) as u64);
        let arrays = 3 * self.array(caches * nodes, nodes);
        // What was only asked for has not been measured.
        self.cached = before;
        arrays.max(chain + chain / 16)
    }

    /// That a node can give so much: bound memory that runs out is an end by the kernel's hand.
    ///
    /// # Errors
    /// In words.
    pub fn room(&self, node: NodeId, bytes: u64) -> Result<(), String> {
        if let Limit::Limited { limit, from } = &self.topology.allowed.limits.memory_max_kb
            && limit * 1024 / 4 * 3 < bytes
        {
            let (needs, limit) = (capacity(bytes), capacity(limit * 1024));
            return Err(format!("needs {needs} and a quarter to spare; {from} allows {limit}"));
        }
        match proc::available_memory(node) {
            Some(there) if there < bytes + bytes / 4 => Err(format!(
                "needs {} and a quarter to spare, node {node} has {} free or in the page cache",
                capacity(bytes),
                capacity(there)
            )),
            _ => Ok(()),
        }
    }
}

/// Keeps the calling thread on a cpu.
///
/// # Errors
/// In words.
pub fn pin(cpu: u32) -> Result<(), String> {
    nearfar_host::target::stay_on(&std::iter::once(cpu).collect())
        .map_err(|e| format!("cpu {cpu} may not be used: {e}"))
}

/// Runs on a thread of its own, so that the caller's cpus stay as they are.
pub fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
}

/// The spread of so many repetitions.
///
/// # Errors
/// If there is none.
pub fn spread(values: &[f64]) -> Result<Spread, String> {
    Spread::of(values).ok_or_else(|| "nothing was measured".into())
}

pub(super) fn pair(place: &Place, result: Result<(Spread, Option<u64>), String>) -> Pair {
    let (from, memory) = (place.from, place.memory);
    match result {
        Ok((value, moved_bytes)) => Pair { from, memory, value: Some(value), moved_bytes, why: None },
        Err(why) => Pair { from, memory, value: None, moved_bytes: None, why: Some(why) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::CacheLevel;

    /// A machine whose only cache has `size_bytes`, asked in haste or not.
    fn sizes(size_bytes: u64, quick: bool, array_bytes: Option<u64>) -> (u64, u64, Cached) {
        let mut machine = Machine::from_shape("1x2").unwrap();
        machine.caches = vec![CacheLevel {
            level: 3,
            size_bytes,
            ways: None,
            latency_cycles: None,
            cores_per_instance: 2,
        }];
        let topology = nearfar_host::discover::topology(std::path::Path::new("/")).unwrap();
        let (cached, told) = (Cached::default(), &mut |_: &str| {});
        let mut bench =
            Bench { machine, topology, quick, all: true, array_bytes, cached, part: (0, 1), told };
        let chain = bench.chain() as u64;
        let array = bench.array(size_bytes, 1);
        let cached = bench.cached;
        assert_eq!(bench.most(), (3 * array).max(chain / 16 * 17));
        (chain, array, cached)
    }

    #[test]
    fn a_quick_measurement_takes_bounded_memory_and_says_what_caches_can_hold() {
        // What a virtual machine with two cpus was told by its hypervisor.
        let (chain, array, cached) = sizes(480 << 20, true, None);
        assert_eq!((chain, array), (1 << 30, 512 << 20));
        assert_eq!((cached.chain_share, cached.array_share), (Some(480.0 / 1024.0), Some(480.0 / 512.0)));
        let (chain, array, cached) = sizes(480 << 20, false, None);
        assert_eq!((chain, array), (3840 << 20, 1920 << 20));
        assert_eq!(cached, Cached::default());
        assert_eq!(sizes(32 << 20, true, None), (128 << 20, 128 << 20, Cached::default()));
        // Arrays as small as the caller wishes are in a cache, and it is said.
        let (_, array, cached) = sizes(32 << 20, false, Some(8 << 20));
        assert_eq!((array, cached.array_share, cached.chain_share), (8 << 20, Some(1.0), None));
    }
}
