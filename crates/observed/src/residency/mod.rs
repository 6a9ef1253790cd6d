//! Where a running process is: its threads' cpus and nodes, its pages' nodes, the policy that was asked
//! for, and what follows from them side by side. What `nearfar where` shows.
//!
//! Every number of bytes was either counted page by page or estimated from random pages, and says which.
//! What is unknown is `None`, in JSON null.

pub mod activity;
mod judge;
pub mod numa_maps;

pub use judge::judge;

use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::topology::Limits;
use nearfar_machine::{DistanceClass, NodeId};
use numa_maps::Requested;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON, for [`Residency::schema`]. It rises when a field is renamed, removed or changes
/// its meaning; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// A look at a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residency {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Process id.
    pub pid: u32,
    /// Name as the kernel has it.
    pub name: String,
    /// Seconds since the first look, or since the start of a program that was started for this.
    pub at_seconds: f64,
    /// Time that this look took, milliseconds.
    pub took_ms: f64,
    /// Threads in the order of their numbers.
    pub threads: Vec<Thread>,
    /// Nodes that it may take memory from, by its cpuset.
    pub nodes_allowed: Option<NodeList>,
    /// What its control groups allow.
    pub limits: Limits,
    /// Its memory.
    pub memory: Memory,
    /// How far its own memory is from its threads; filled by [`judge`].
    pub near: Vec<Near>,
    /// Where what is differs from what was asked for; filled by [`judge`].
    pub findings: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// Kernel number.
    pub tid: u32,
    /// Name as the kernel has it.
    pub name: String,
    /// The cpu it runs on or ran on last.
    pub cpu: Option<u32>,
    /// Number of that cpu's last-level cache (a CCD on AMD Zen), counted by first cpu.
    pub l3: Option<usize>,
    /// That cpu's node.
    pub node: Option<NodeId>,
    /// Where it may run.
    pub allowed: CpuList,
    /// Whether that is less than all cpus that are online.
    pub bound: bool,
    /// Memory policy for what it touches and no mapping's policy covers.
    pub policy: Option<Requested>,
    /// How often it changed its cpu, since it began.
    pub migrations: Option<u64>,
    /// Pages that AutoNUMA moved for it, since it began.
    pub pages_migrated: Option<u64>,
}

/// How pages were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// All of them, one by one.
    Exact,
    /// Random ones of each mapping.
    Sampled,
}

/// A process's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// How it was looked at.
    pub how: How,
    /// Why so, and what it means for the numbers.
    pub why: String,
    /// Bytes that the kernel counts as resident (VmRSS, which leaves out reserved huge pages).
    pub resident_bytes: Option<u64>,
    /// Pages that were asked for, present or not, where they were sampled.
    pub asked: Option<u64>,
    /// Of them in transparent huge pages, bytes; `None` if that was not asked, because it takes another walk.
    pub transparent_huge_bytes: Option<u64>,
    /// By mapping, in the order of addresses; those without pages are left out.
    pub mappings: Vec<Mapping>,
    /// Large objects inside of these mappings, the one with most pages first. Their bytes are in the mappings'
    /// already.
    pub objects: Vec<Object>,
    /// Objects that there may be and that are not among them, and why.
    pub without: Vec<String>,
    /// Sum by node; filled by [`judge`].
    pub nodes: BTreeMap<NodeId, Amount>,
    /// Sum by kind and node; filled by [`judge`].
    pub kinds: BTreeMap<Kind, BTreeMap<NodeId, Amount>>,
}

/// What a mapping is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Of reserved huge pages (hugetlb).
    Huge,
    /// The heap that brk gives.
    Heap,
    /// The first thread's stack; those of other threads are anonymous.
    Stack,
    /// Private memory without a file.
    Anonymous,
    /// Shared with other processes: shared memory, files that are written to.
    Shared,
    /// A private mapping of a file: code, libraries, their data.
    File,
}

impl Kind {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Huge => "huge",
            Kind::Heap => "heap",
            Kind::Stack => "stack",
            Kind::Anonymous => "anonymous",
            Kind::Shared => "shared",
            Kind::File => "file",
        }
    }
}

/// A mapping and where its pages are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: Option<u64>,
    /// Path, or the kernel's name for it such as `[heap]`; empty if it has none.
    pub name: String,
    /// What it is of.
    pub kind: Kind,
    /// Policy asked for; `None` if only a walk would tell.
    pub requested: Option<Requested>,
    /// Bytes of a page as counted.
    pub page_bytes: u64,
    /// Where they are.
    pub nodes: BTreeMap<NodeId, Amount>,
    /// Pages that were asked for and pages of them that were there, where they were sampled.
    pub sample: Option<Sample>,
}

/// A large object of the program's source and where its pages are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Object {
    /// Its name there.
    pub name: String,
    /// Path of the program or library that it belongs to.
    pub module: String,
    /// File of its declaration; empty if unknown.
    pub file: String,
    /// Line of its declaration; 0 if unknown.
    pub line: u32,
    /// First byte.
    pub start: u64,
    /// Its size in bytes, touched or not.
    pub bytes: u64,
    /// Policies of the mappings it is in; `None` if only a walk would tell.
    pub requested: Option<Vec<Requested>>,
    /// Where the pages are that it is on. The first and the last one may be shared with neighbours.
    pub nodes: BTreeMap<NodeId, Amount>,
    /// How its pages were asked for.
    pub sample: Sample,
}

/// Random pages of a mapping or an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Asked for.
    pub drawn: u64,
    /// Of them present.
    pub present: u64,
    /// Whether these were all its pages, so that the amounts are exact.
    pub all: bool,
}

/// An amount of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amount {
    /// Bytes; an estimate if there is an interval.
    pub bytes: u64,
    /// Pages of the mapping's page size; only where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// 95 % interval, bytes, where they were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(u64, u64)>,
}

impl Amount {
    /// So many pages, counted.
    pub fn counted(pages: u64, page_bytes: u64) -> Amount {
        Amount { bytes: pages * page_bytes, pages: Some(pages), interval: None }
    }

    /// Adds another one. The interval of a sum has the sums of the ends: wider than it need be.
    /// Pages of different sizes have no sum.
    pub fn add(&mut self, other: &Amount) {
        self.interval = match (self.interval, other.interval) {
            (None, None) => None,
            (mine, others) => {
                let (a, b) = mine.unwrap_or((self.bytes, self.bytes));
                let (c, d) = others.unwrap_or((other.bytes, other.bytes));
                Some((a + c, b + d))
            }
        };
        self.bytes += other.bytes;
        self.pages = None;
    }
}

/// How far a process's own memory (not that of files) is from the threads of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Near {
    /// Node of the threads.
    pub node: NodeId,
    /// How many threads ran there last.
    pub threads: usize,
    /// Bytes by distance class from there.
    pub bytes: BTreeMap<DistanceClass, u64>,
}

/// A process in a line, for many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Brief {
    /// Process id.
    pub pid: u32,
    /// Name.
    pub name: String,
    /// Threads.
    pub threads: usize,
    /// Nodes that its threads ran on last.
    pub thread_nodes: NodeList,
    /// How its pages were looked at.
    pub how: How,
    /// Bytes by node.
    pub nodes: BTreeMap<NodeId, Amount>,
    /// Policies of its mappings; `None` if only a walk would tell.
    pub policies: Option<Vec<Requested>>,
}

impl Brief {
    /// Of a look.
    pub fn new(seen: &Residency) -> Brief {
        let mappings = &seen.memory.mappings;
        let mut policies: Vec<Requested> = mappings.iter().filter_map(|m| m.requested.clone()).collect();
        let known = policies.len() == mappings.len();
        policies.sort();
        policies.dedup();
        Brief {
            pid: seen.pid,
            name: seen.name.clone(),
            threads: seen.threads.len(),
            thread_nodes: seen.threads.iter().filter_map(|t| t.node).collect(),
            how: seen.memory.how,
            nodes: seen.memory.nodes.clone(),
            policies: known.then_some(policies),
        }
    }

    /// All its bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.values().map(|a| a.bytes).sum()
    }
}

/// All processes that may be looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Everyone {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The one with most memory first.
    pub processes: Vec<Brief>,
    /// Process ids that the kernel does not let the caller look at.
    pub not_permitted: Vec<u32>,
    /// Kernel threads and processes that were ending: without memory.
    pub without_memory: usize,
}
