//! The cache hierarchy of a machine, driven by every access of a program.
//!
//! [`Hierarchy`] is what the machine's cores share; each simulated cpu's thread
//! owns one [`Core`] and hands it the accesses of its cpu. Lines that move from
//! or to memory go to a [`Sink`] one by one, everything else is counted.
//!
//! ```text
//!  access ──► filter ──► TLB, L1, L2 (the core's own) ──► directory, shared caches ──► Sink: memory
//! ```

#![forbid(unsafe_code)]

mod ahead;
mod combining;
mod contended;
mod core;
mod costs;
mod counts;
mod cpu;
mod dependence;
mod directory;
mod few;
mod frames;
mod hierarchy;
pub mod ladder;
mod layout;
mod lock;
mod mail;
mod page_nodes;
mod private;
mod sets;
mod shared;
mod tlb;
mod transact;
mod unit;

pub use self::core::Core;
pub use counts::{Counts, Traffic};
pub use hierarchy::Hierarchy;
pub use layout::SimulateError;
pub use page_nodes::PageNodeMap;

/// What is not in the machine's description.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the stream prefetcher is on.
    pub prefetch: bool,
    /// Which node's memory a physical address is.
    pub page_nodes: PageNodeMap,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Reads.
    Load = 0,
    /// Writes; the line is read first (write-allocate).
    Store = 1,
    /// Writes past the caches (non-temporal).
    StreamStore = 2,
    /// Reads and writes at once, with the line locked meanwhile (x86: `lock`, `xchg`). To the caches it is a store.
    Atomic = 3,
}

/// One access of a program.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Virtual address: pages and the quick filter go by it.
    pub virt: u64,
    /// Physical address, an offset in the machine's memory from 0: caches and nodes of pages go by it.
    pub physical: u64,
    /// Bytes, from 1. An access across two lines counts as two; what is on a
    /// second 4 KiB page has another physical address and must be an access of its own.
    pub bytes: u8,
    /// What it does.
    pub kind: Kind,
    /// Whether its page has 2 MiB instead of 4 KiB.
    pub huge: bool,
    /// For a load whose address was computed from what the same instruction
    /// loaded before (`p = p->next`): a number of that instruction, not 0.
    /// 0 if it was not, or if it was not looked up.
    pub chain: u32,
}

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the core's first level.
    First,
    /// In its second level.
    Second,
    /// In the shared level.
    Shared,
    /// In a cache of another core of the node.
    Neighbour,
    /// In a cache of the node at this position.
    OtherNode(usize),
    /// In the memory of the node at this position.
    Memory(usize),
}

/// Why a line moved from or to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramKind {
    /// Read because a load missed.
    Demand,
    /// Read because a store missed: read for ownership.
    Rfo,
    /// Read ahead by the prefetcher.
    Prefetch,
    /// Written back from a cache.
    WriteBack,
    /// Written by non-temporal stores.
    Stream,
}

/// Hears of every line that moves from or to memory, once per line, and of those from other nodes' caches.
pub trait Sink {
    /// The line at `physical` moved. `page_node` is a position in `Machine::nodes`.
    fn dram(&mut self, physical: u64, page_node: usize, kind: DramKind);
    /// A cache of another node supplied the line at `physical` for the core's own access. `node`: its position.
    fn transfer(&mut self, _physical: u64, _node: usize) {}
    /// The core accesses a line that cores take from each other all the time.
    fn contended(&mut self) {}
}

/// For callers who only want the counts.
impl Sink for () {
    fn dram(&mut self, _: u64, _: usize, _: DramKind) {}
}

#[cfg(test)]
mod invariants;
