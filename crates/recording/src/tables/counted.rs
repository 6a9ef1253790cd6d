//! What was counted, and what was lost.

use crate::table;

/// What a count has that was not made.
pub const UNCOUNTED: u64 = u64::MAX;

/// How far ahead of the slowest an emulated cpu may be when lines are counted, simulated ns: a fraction of what a block of
/// a dynamic schedule takes. The emulator keeps to it, and what is judged of the order of accesses rests on it. // chosen
pub const LEAD_NS: f64 = 10_000.0;

table! {
    /// A counter's value over an interval.
    Counter / Counters = "counters" {
        /// End of the interval, ns.
        time_ns: u64,
        /// Cpu it is of; u16::MAX if of no single cpu.
        cpu: u16,
        /// Node it is of; −1 if of no single node.
        node: i16,
        /// What is counted.
        name: String,
        /// The value; NaN if unknown, with `why`.
        value: f64,
        /// Its unit.
        unit: String,
        /// What it is of, in words: `node 0`, `socket 1`, `thread 123`; empty for everything that was recorded.
        place: String = String::new(),
        /// Part of the time that the counter ran, where it shared a counter with others, and by which the value was scaled; −1 if unknown.
        running_share: f64 = -1.0,
        /// What counted it: `perf stat -j`, `kernel`.
        source: String = String::new(),
        /// Why the value is unknown; else empty.
        why: String = String::new(),
        /// Thread it is of; u32::MAX if of no single thread.
        thread: u32 = u32::MAX,
        /// Length of the interval, ns; 0 if unknown.
        interval_ns: u64 = 0,
    }
}

table! {
    /// What one cpu of a virtual machine did in one epoch: a bin of the simulated clock, which ends where threads leave a barrier
    /// together, or after 1 ms. Only user accesses of the program.
    CpuEpoch / CpuEpochs = "cpu_epochs", added {
        /// Number of the epoch, ascending through the run.
        epoch: u32,
        /// 1 inside the region of interest, else 0.
        region: u8,
        /// Kernel index of the cpu.
        cpu: u16,
        /// Instructions retired in user mode by the program.
        instructions: u64,
        /// Accesses to cache lines: an access across two lines counts twice.
        accesses: u64,
        /// Of these, found in the first-level cache.
        l1_hits: u64,
        /// Found in the second.
        l2_hits: u64,
        /// Found in the third.
        l3_hits: u64,
        /// Supplied by another core's cache.
        cache_transfers: u64,
        /// Translations of 4 KiB pages that no TLB held.
        tlb_misses: u64,
        /// Translations of 2 MiB pages that no TLB held.
        huge_tlb_misses: u64,
        /// Of the lines demanded from DRAM, those whose address came from the line demanded before: one at a time.
        dependent_lines: u64,
        /// Time by the core's own simulated clock, without waiting for saturated resources, ns.
        busy_ns: f64,
        /// Floating-point operations in double precision, a fused multiply-add is two; u64::MAX if not counted.
        f64_ops: u64 = UNCOUNTED,
        /// The same in single precision.
        f32_ops: u64 = UNCOUNTED,
        /// Length of the epoch on the clock that all cpus share, ns; 0 if not recorded, or if the run ended before the epoch.
        epoch_ns: f64 = 0.0,
    }
}

table! {
    /// Cache lines that one cpu of a virtual machine moved from and to one node in one epoch. Exact counts.
    EpochTraffic / EpochTraffics = "epoch_traffic", added {
        /// Number of the epoch.
        epoch: u32,
        /// 1 inside the region of interest, else 0.
        region: u8,
        /// Kernel index of the cpu.
        cpu: u16,
        /// Node whose memory it is.
        page_node [home]: i16,
        /// Lines read from DRAM: demanded, for ownership, and prefetched.
        read_lines: u64,
        /// Of these, prefetched.
        prefetch_lines: u64,
        /// Lines written back to DRAM.
        write_lines: u64,
        /// Lines streamed to DRAM by non-temporal stores.
        stream_lines: u64,
        /// Lines supplied by a cache of node `page_node` instead of its memory.
        transfer_lines: u64,
        /// Page walks that a TLB miss made for pages of this node.
        walks: u64,
    }
}

table! {
    /// Cache lines moved from and to one page in the region of interest, by node of the cpu. Exact counts.
    PageTraffic / PageTraffics = "page_traffic", added {
        /// Address space.
        process: u32,
        /// First byte of the page.
        address: u64,
        /// Node of the cpus that moved them.
        from: i16,
        /// Node of the page.
        page_node [home]: i16,
        /// Lines read from DRAM.
        read_lines: u64,
        /// Lines written to DRAM, streamed ones included.
        write_lines: u64,
    }
}

table! {
    /// Where accesses were counted, if only in windows (`record --on … --sample-windows`): consecutive epochs, whose counts, and samples, are
    /// multiplied by what each cpu ran until the middle of the way to the next window, over what it ran in this one. Without rows, all was counted.
    CountedWindow / CountedWindows = "counted_windows", added {
        /// Its first epoch. Only epochs in windows have numbers.
        first_epoch: u32,
        /// Its last epoch.
        last_epoch: u32,
        /// 1 inside the region of interest, else 0.
        region: u8,
        /// Instructions of all cpus in it.
        counted_instructions: u64,
        /// Instructions that it stands for, its own included.
        instructions: u64,
    }
}

table! {
    /// Something that was not recorded, and how much of it.
    Loss / Losses = "losses" {
        /// When it was noticed, ns.
        time_ns: u64,
        /// What was lost: `samples`, `faults`, `agent_records`, `journal_bytes`, …
        what: String,
        /// How many; 0 if not countable.
        count: u64,
        /// The reason, in words.
        why: String,
    }
}
