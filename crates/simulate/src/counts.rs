//! What a core counts. All numbers are running totals; a reader that wants those of an
//! epoch subtracts.

/// A core's totals. Each access to a line is found in one place:
/// `accesses = l1_hits + l2_hits + l3_hits + cache_transfers + dram_lines + stream_stores`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions told by `execute`.
    pub instructions: u64,
    /// Floating-point operations in double precision, told by `compute`.
    pub f64_ops: u64,
    /// In single precision.
    pub f32_ops: u64,
    /// Accesses to lines: an access across two lines counts twice.
    pub accesses: u64,
    /// Found in the core's first level.
    pub l1_hits: u64,
    /// Found in the second level.
    pub l2_hits: u64,
    /// Found in the third level.
    pub l3_hits: u64,
    /// Supplied by another core's cache, or by another socket's.
    pub cache_transfers: u64,
    /// Read from memory on demand: `Demand` and `Rfo` lines.
    pub dram_lines: u64,
    /// Non-temporal stores, which look into no cache.
    pub stream_stores: u64,
    /// Translations of 4 KiB pages that no TLB held.
    pub tlb_misses: u64,
    /// Translations of 2 MiB pages that no TLB held.
    pub huge_tlb_misses: u64,
    /// Of `dram_lines`, those that had to wait for the one before.
    pub dependent_lines: u64,
    /// Accesses to addresses that are not a node's memory, or on a second page. Not simulated.
    pub outside: u64,
    /// Time by the core's clock while it worked, ns.
    pub busy_ns: f64,
}

/// Lines between a core and one node's memory; running totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read: demanded, for ownership, and prefetched.
    pub read_lines: u64,
    /// Of these, prefetched.
    pub prefetch_lines: u64,
    /// Written back.
    pub write_lines: u64,
    /// Streamed by non-temporal stores.
    pub stream_lines: u64,
    /// Supplied by a cache of this node instead of its memory.
    pub transfer_lines: u64,
    /// Page walks for pages of this node.
    pub walks: u64,
}
