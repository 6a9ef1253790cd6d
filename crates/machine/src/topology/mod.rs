//! The topology of a machine as a person asks for it: what `nearfar topo` shows.
//!
//! A [`Topology`] is a [`Machine`](crate::Machine) and more: what is free,
//! offline, allowed, switched on, and which devices hang where. Analysis needs only
//! the machine, so it does not carry the rest. The value comes from sysfs (the
//! binary's `discover::topology`) or from a described machine ([`Topology::from_machine`]);
//! [`judge`] says what follows from it.
//!
//! What is unknown is `None`, in JSON null; a 0 was read as 0.

mod described;
mod devices;
mod judge;
mod limits;
mod modules;
mod prefetchers;
mod reading;

pub use devices::{Device, DeviceKind, Gpu, GpuLink, Interrupts, NodeSource};
pub use judge::judge;
pub use limits::{Limit, Limits};
pub use modules::channels;
pub use modules::{MemoryModules, Module, Slot};
pub use prefetchers::{PrefetcherState, Prefetchers};
pub use reading::Reading;

use crate::cpulist::{CpuList, NodeList};
use crate::{NodeId, NodeKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON, for [`Topology::schema`]. It rises when a field is renamed,
/// removed or changes its meaning; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Why something is unknown that no description and no older file has.
const ONLY_LIVE: &str = "only the machine itself tells";

/// What is known of a machine's topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Name of the machine.
    pub name: String,
    /// Where all this is from, in words.
    pub source: String,
    /// Whether memory is divided, and how.
    pub numa: Numa,
    /// Whether this is a virtual machine.
    pub virtual_machine: Option<bool>,
    /// Sockets, ascending; those of cpus that do not tell theirs are left out.
    pub packages: Option<Vec<Package>>,
    /// Nodes, ascending by number.
    pub nodes: Vec<Node>,
    /// Cpus by their state.
    pub cpus: Cpus,
    /// Online cpus that no node lists.
    pub cpus_without_node: CpuList,
    /// The online cpus of each core, by the first one.
    pub cores: Option<Vec<CpuList>>,
    /// Hardware threads of the core that has most of them online.
    pub threads_per_core: Option<u32>,
    /// Caches, from the core outward.
    pub caches: Option<Vec<Cache>>,
    /// Which hardware prefetchers are on.
    #[serde(default)]
    pub prefetchers: Reading<Prefetchers>,
    /// Memory modules and the slots for them, by the firmware.
    #[serde(default)]
    pub memory_modules: Reading<MemoryModules>,
    /// Memory tiers of the kernel, the fastest first.
    pub tiers: Option<Vec<Tier>>,
    /// Network, storage and computing devices.
    pub devices: Option<Vec<Device>>,
    /// What the caller may use.
    pub allowed: Allowed,
    /// What the kernel is set to do.
    pub settings: Settings,
    /// What is wrong, missing or easily misread; a sentence or two each.
    pub warnings: Vec<String>,
}

/// Whether memory is divided into nodes, and what a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numa {
    /// How.
    pub state: NumaState,
    /// The same in words.
    pub why: String,
}

/// How nodes and packages go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumaState {
    /// One node has all cpus, in one package.
    OneNode,
    /// One node has the cpus of several packages: memory is interleaved by the
    /// firmware, or a hypervisor hides where it is.
    Interleaved,
    /// A node for each package.
    NodePerPackage,
    /// Several nodes in a package: SNC, NPS, cluster-on-die, or chips in one package.
    NodesPerPackage,
    /// Several nodes, each with cpus of several packages: boards or cells whose sockets share a memory.
    PackagesPerNode,
    /// Several nodes, or one, in packages that are not known.
    Unknown,
}

/// A socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// Kernel number.
    pub id: u32,
    /// Its online cpus.
    pub cpus: CpuList,
    /// The nodes that have cpus in it.
    pub nodes: Vec<NodeId>,
    /// Dies in it.
    pub dies: Option<u32>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Kernel number.
    pub id: NodeId,
    /// Its online cpus; empty for a node without.
    pub cpus: CpuList,
    /// Memory that the kernel manages, in units of 1024 bytes.
    pub memory_kb: Option<u64>,
    /// Free memory, in units of 1024 bytes; page cache is not free.
    pub free_kb: Option<u64>,
    /// What its memory is; unknown also where there is none.
    pub kind: Option<NodeKind>,
    /// The package of its cpus; unknown if there are none or they are in several.
    pub package: Option<u32>,
    /// Firmware distances (SLIT) to each node, itself included; empty if unknown.
    pub distances: BTreeMap<NodeId, u32>,
    /// Reserved huge pages, the smallest first.
    pub huge_pages: Option<Vec<HugePages>>,
    /// Caches in front of this node's memory, e.g. DRAM before persistent memory.
    pub side_caches: Vec<SideCache>,
    /// Memory figures of the firmware (HMAT), from the nearest cpus.
    pub access: Option<Access>,
}

/// Reserved huge pages (hugetlb) of one size on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of a page, in units of 1024 bytes.
    pub page_kb: u64,
    /// Reserved pages.
    pub total: u64,
    /// Those not in use.
    pub free: u64,
}

/// A memory-side cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideCache {
    /// 1 is nearest to the memory.
    pub level: u32,
    /// Capacity in units of 1024 bytes.
    pub size_kb: Option<u64>,
    /// Line, bytes.
    pub line_bytes: Option<u32>,
    /// Whether a line has one place only.
    pub direct_mapped: Option<bool>,
}

/// What the firmware says of a node's memory (HMAT). The kernel writes 0 for
/// what it was not told; that is unknown here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The nodes that the figures are for: the nearest initiators.
    pub from: Vec<NodeId>,
    /// Read bandwidth, 10⁶ bytes per second.
    pub read_mbs: Option<u64>,
    /// Write bandwidth, 10⁶ bytes per second.
    pub write_mbs: Option<u64>,
    /// Read latency, ns.
    pub read_ns: Option<u64>,
    /// Write latency, ns.
    pub write_ns: Option<u64>,
}

/// Cpus by their state, as kernel indexes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpus {
    /// Those that run.
    pub online: CpuList,
    /// Those that are there but switched off.
    pub offline: Option<CpuList>,
    /// Those that the scheduler leaves alone (`isolcpus=`, isolated cpusets).
    pub isolated: Option<CpuList>,
}

/// What a cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// All caches of one level, kind and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// What it keeps.
    pub kind: CacheKind,
    /// Capacity of one, in units of 1024 bytes.
    pub size_kb: u64,
    /// Associativity.
    pub ways: Option<u32>,
    /// Line, bytes.
    pub line_bytes: Option<u32>,
    /// The online cpus that share each one, by the first cpu.
    pub instances: Vec<CpuList>,
}

/// Nodes that the kernel counts as equally fast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// The kernel's number; lower is faster.
    pub id: u32,
    /// Its nodes.
    pub nodes: NodeList,
}

/// What the caller may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// Cpus, by affinity and cpuset.
    pub cpus: Option<CpuList>,
    /// Nodes to take memory from, by cpuset.
    pub nodes: Option<NodeList>,
    /// Memory policy as the kernel words it: `default`, `interleave:0-1`.
    pub policy: Option<String>,
    /// Control group (of cpusets, where that is one of its own).
    pub cgroup: Option<String>,
    /// How much of them, by control groups.
    #[serde(default)]
    pub limits: Limits,
}

/// What the kernel is set to do with memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `kernel.numa_balancing`: 0 off, 1 on, 2 memory tiering.
    pub numa_balancing: Option<i32>,
    /// `vm.zone_reclaim_mode`: not 0 means that a full node drops its page cache
    /// before memory is taken from another.
    pub zone_reclaim_mode: Option<i32>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Whether the kernel moves cold pages to slower tiers.
    pub demotion: Option<bool>,
}

impl Topology {
    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// The topology as JSON, indented, with a final line feed.
    pub fn to_json(&self) -> String {
        // Node numbers, which are keys of maps, are written as strings.
        nearfar_figures::json::pretty(self)
    }
}
