//! Samples of accesses, the loops that they are in, and page faults.

use crate::column::Text;
use crate::table;

/// In place of the number of a loop's stream: a register that counts, or none.
pub const NO_STREAM: u16 = u16::MAX;

table! {
    /// One sampled instruction and what it touched. The sample says where time went, not how often memory was accessed.
    AccessSample / AccessSamples = "samples" {
        /// When, ns.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Kernel index of the cpu.
        cpu: u16,
        /// The interrupted instruction (a location).
        ip: u32,
        /// The instruction whose operand is blamed (a location); equals `ip` where none was found.
        operand_ip: u32,
        /// The data address; 0 where `resolution` has none. For `object` it is the base register's value.
        address: u64,
        /// How the address was found: a `Resolution`.
        resolution: u8,
        /// Load, store or both: an `Access`. Unknown for a line written back: the instruction made room, it did not access that line.
        access: u8,
        /// Call chain; u32::MAX if none was taken.
        chain: u32,
        /// CPU time that this sample stands for, ns (clock and signal sources); 0 for others.
        weight_ns: u32,
        /// Which source produced it: a `SampleSource`.
        source [rung]: u8,
        /// Cache lines moved from or to DRAM that this sample stands for (simulated source); 0 for others.
        lines: u32 = 0,
        /// Node of the memory accessed, where the source itself knows it; −1 if it does not.
        page_node [home]: i16 = -1,
        /// The epoch of `cpu_epochs` that it is in (simulated source); u32::MAX for others.
        epoch: u32 = u32::MAX,
        /// Where the data came from, for a hardware sample: a `Served`; 0 for others and where the processor did not say.
        served: u8 = 0,
        /// Cycles until the data was there, for a hardware sample; 0 if unknown.
        latency_cycles: u32 = 0,
        /// Events that a hardware sample stands for (its period); 0 for others.
        period: u32 = 0,
        /// PERF_SAMPLE_DATA_SRC of a hardware sample as the kernel gave it; 0 for others.
        data_src: u64 = 0,
    }
}

table! {
    /// A loop of machine code that samples were in.
    Loop / Loops = "loops", added {
        /// Row id; what other tables call `loop_id`.
        id: u32,
        /// Its first instruction (a location).
        head: u32,
        /// Bytes from there to its last jump back.
        bytes: u32,
        /// Instructions between them.
        instructions: u32,
        /// Number of the stream whose address `progress.position` is; 65535: a register that counts.
        stream: u16,
        /// What an iteration adds to `progress.position`; 0 if nothing tells how far the loop is.
        step: f64,
        /// Cycles of an iteration that no overlap can go below, without those of instructions whose cost is not known; −1 if unknown.
        issue_cycles: f64,
        /// The same for one entry of many iterations, with the chain of results from one to the next; −1 if unknown.
        chain_cycles: f64,
        /// Cycles of an iteration at most where no access waits; −1 if unknown.
        high_cycles: f64,
        /// The same of a loop that accesses fixed places only, where what one iteration stores is at hand for the next at once; −1 for
        /// other loops.
        in_place_cycles: f64 = -1.0,
        /// Why they are not known; empty if they are.
        why: Text,
        /// First instruction of its function (a location); u32::MAX if unknown.
        function: u32 = u32::MAX,
        /// Bytes from there to the function's last instruction.
        function_bytes: u32 = 0,
    }
}

table! {
    /// Memory that a loop goes through with one set of address registers.
    LoopStream / LoopStreams = "loop_streams", added {
        /// Which loop.
        loop_id: u32,
        /// Its number among the loop's streams, from 0.
        number: u16,
        /// First instruction that uses it (a location).
        ip: u32,
        /// What the loop does there: an `Access`.
        access: u8,
        /// Bytes that one iteration touches.
        bytes: u32,
        /// 1 if every iteration adds the same to the address.
        regular: u8,
        /// What it adds, bytes; 0 where it is not regular.
        step: f64,
        /// 1 if every iteration accesses it; 0 if only some may.
        always: u8,
    }
}

table! {
    /// An instruction of a loop that accesses memory, and what it costs where a cache answers at once.
    LoopOperand / LoopOperands = "loop_operands", added {
        /// Which loop.
        loop_id: u32,
        /// The instruction (a location).
        ip: u32,
        /// Cycles at most from when all instructions before it are done until it is, where the first-level cache answers; −1 if unknown.
        hit_cycles: f64,
        /// 1 if every iteration adds the same to its address.
        regular: u8,
        /// What it adds, bytes; 0 where it is not regular.
        step: f64,
        /// Bytes of the instruction; 0 if the next one is also jumped to or returned to, and in recordings from before this was kept.
        bytes: u8 = 0,
        /// Instructions of the loop at least that are executed between two executions of this one; 0 if unknown.
        around: u32 = 0,
        /// The same of the whole function.
        around_all: u32 = 0,
    }
}

table! {
    /// How far a thread was in a loop when a clock sample was taken. Of a loop that many samples of a thread are in, not each.
    Progress / Progresses = "progress", added {
        /// When, ns.
        time_ns: u64,
        /// CPU time that the thread had used, ns; all bits set if unknown.
        cpu_ns: u64,
        /// Which thread.
        thread: u32,
        /// Kernel index of the cpu.
        cpu: u16,
        /// The interrupted instruction (a location).
        ip: u32,
        /// Which loop.
        loop_id: u32,
        /// Address of the loop's stream `stream`, or value of the register that counts.
        position: u64,
        /// Number of another stream of the loop; 65535 if it has none.
        other: u16,
        /// Address of that stream.
        other_address: u64,
        /// Iterations that were left until the loop ends; all bits set if nothing counts them.
        left: u64,
        /// Number of the sample among those of this thread in this loop: where two rows follow each other, no sample is between them.
        nth: u32,
    }
}

table! {
    /// One user page fault. Which of them placed a page is decided in the analysis.
    PageFault / PageFaults = "faults" {
        /// When, ns.
        time_ns: u64,
        /// Which thread faulted.
        thread: u32,
        /// Kernel index of the cpu it ran on.
        cpu: u16,
        /// The faulting instruction (a location); that of module `[kernel]` where the kernel filled or read the page for the program.
        ip: u32,
        /// The faulting data address (not rounded).
        address: u64,
        /// What the faulting instruction does to it: an `Access`.
        access: u8,
        /// Call chain, if one was taken with this fault; else u32::MAX.
        chain: u32,
        /// log2 of the size of the page that the kernel mapped (12: 4 KiB, 21: 2 MiB); 0 if unknown. A folio of several base pages that is mapped page by page shows as 12.
        page_shift: u8,
    }
}

table! {
    /// A part of the program of which each access was counted: a copy of a process, running on from one moment in one thread.
    Excerpt / Excerpts = "excerpts", added {
        /// Row id; what other tables call `excerpt`.
        id: u32,
        /// When the copy was made, ns.
        time_ns: u64,
        /// The thread that it goes on as.
        thread: u32,
        /// Instructions in all: first those that fill the caches.
        instructions: u64,
        /// Of these, instructions that are in `excerpt_blocks`; 0 if it ended before any.
        counted: u64,
        /// Times that a cache line may have come from another thread at most, of all its instructions: how often it used lines that
        /// other excerpts write.
        exchanged: u64,
        /// Why it ended before its length; empty if it did not.
        ended: Text,
    }
}

table! {
    /// A block of code in an excerpt.
    ExcerptBlock / ExcerptBlocks = "excerpt_blocks", added {
        /// Which excerpt.
        excerpt: u32,
        /// Its first instruction (a location).
        ip: u32,
        /// Instructions that were executed in it.
        instructions: u64,
        /// Accesses to memory in it.
        accesses: u64,
        /// Lines that missed the first-level cache in order, beyond 512 KiB of cache.
        in_order_512k: u64,
        /// The same in order, beyond 1 MiB.
        in_order_1m: u64,
        /// The same in order, beyond 2 MiB.
        in_order_2m: u64,
        /// The same in order, beyond 4 MiB.
        in_order_4m: u64,
        /// The same in order, beyond 8 MiB.
        in_order_8m: u64,
        /// The same in order, beyond 16 MiB.
        in_order_16m: u64,
        /// The same in order, beyond 32 MiB.
        in_order_32m: u64,
        /// The same in order, beyond 64 MiB.
        in_order_64m: u64,
        /// The same of lines that were in no order, beyond 512 KiB of cache.
        at_random_512k: u64,
        /// The same, beyond 1 MiB.
        at_random_1m: u64,
        /// The same, beyond 2 MiB.
        at_random_2m: u64,
        /// The same, beyond 4 MiB.
        at_random_4m: u64,
        /// The same, beyond 8 MiB.
        at_random_8m: u64,
        /// The same, beyond 16 MiB.
        at_random_16m: u64,
        /// The same, beyond 32 MiB.
        at_random_32m: u64,
        /// The same, beyond 64 MiB.
        at_random_64m: u64,
    }
}

/// Cache sizes that `excerpt_blocks` tells apart, bytes.
pub const EXCERPT_CACHES: [u64; 8] = [1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 26];

impl ExcerptBlocks {
    /// Lines of a row that were in order, beyond each of [`EXCERPT_CACHES`].
    pub fn in_order(&self, row: usize) -> [u64; EXCERPT_CACHES.len()] {
        let columns = [
            &self.in_order_512k,
            &self.in_order_1m,
            &self.in_order_2m,
            &self.in_order_4m,
            &self.in_order_8m,
            &self.in_order_16m,
            &self.in_order_32m,
            &self.in_order_64m,
        ];
        columns.map(|column| column[row])
    }

    /// Lines of a row that were in no order, beyond each of [`EXCERPT_CACHES`].
    pub fn at_random(&self, row: usize) -> [u64; EXCERPT_CACHES.len()] {
        let columns = [
            &self.at_random_512k,
            &self.at_random_1m,
            &self.at_random_2m,
            &self.at_random_4m,
            &self.at_random_8m,
            &self.at_random_16m,
            &self.at_random_32m,
            &self.at_random_64m,
        ];
        columns.map(|column| column[row])
    }
}
