//! The tables of a recording. docs/recording.md is written from these comments.
//!
//! Times are nanoseconds of the recorded machine's CLOCK_MONOTONIC; addresses are
//! virtual, of one address space (`process`). `u32::MAX` ([`super::NONE`]) means
//! "no such row" in every column that points into another table.

use super::column::Text;
use crate::table;

/// What a count has that was not made.
pub const UNCOUNTED: u64 = u64::MAX;

/// How far ahead of the slowest an emulated cpu may be when lines are counted, simulated ns: a fraction of what a block of
/// a dynamic schedule takes. The emulator keeps to it, and what is judged of the order of accesses rests on it. // chosen
pub const LEAD_NS: f64 = 10_000.0;

table! {
    /// An address space: a program image in a process. `exec` ends one and begins the next.
    Process / Processes = "processes" {
        /// Row id; what other tables call `process`.
        id: u32,
        /// Kernel process id.
        pid: u32,
        /// The address space it was forked or exec'ed from.
        parent: u32,
        /// 1 if it began as a copy of its parent (fork), 0 if as a fresh image (exec).
        forked: u8,
        /// Begin, ns.
        start_ns: u64,
        /// Path of the executable.
        executable: String,
    }
}

table! {
    /// The end of an address space.
    ProcessEnd / ProcessEnds = "process_ends" {
        /// Which address space.
        process: u32,
        /// When, ns.
        time_ns: u64,
    }
}

table! {
    /// A thread, numbered in creation order.
    Thread / Threads = "threads" {
        /// Row id; what other tables call `thread`. Ascending in creation order.
        id: u32,
        /// Its address space.
        process: u32,
        /// Kernel thread id.
        tid: u32,
        /// Begin, ns.
        start_ns: u64,
        /// Name as the kernel knows it (comm).
        name: String,
    }
}

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
        /// Cycles of an iteration that no overlap can go below; −1 if unknown.
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
    /// A code address that other tables refer to.
    Location / Locations = "locations" {
        /// Row id.
        id: u32,
        /// Its address space; a fork's child refers to those of its parent while both have the same file there.
        process: u32,
        /// Virtual address in that address space.
        address: u64,
        /// The module it is in; u32::MAX for generated code.
        module: u32,
        /// Offset in the module's file.
        file_offset: u64,
    }
}

table! {
    /// A mapped file that holds code or static data.
    Module / Modules = "modules" {
        /// Row id.
        id: u32,
        /// Path as the kernel gave it.
        path: String,
        /// Build id in hex; empty if none; `another file` if it was gone and its path led to another one.
        build_id: String,
        /// 1 for libraries that run on behalf of their caller (libc, allocators, libstdc++, OpenMP runtimes): a site inside is reported as its caller's line.
        runtime: u8,
    }
}

table! {
    /// Function and line of a location, one row per inlined frame, innermost (depth 0) first.
    Symbol / Symbols = "symbols" {
        /// Which location.
        location: u32,
        /// 0 is the innermost inlined function; the highest is the real one.
        depth: u16,
        /// Demangled name; empty if unknown.
        function: String,
        /// Source file; empty if unknown.
        file: String,
        /// Line in it; 0 if unknown.
        line: u32,
    }
}

table! {
    /// A frame of a call chain.
    ChainFrame / ChainFrames = "chains" {
        /// Chain id; rows of one chain are adjacent.
        chain: u32,
        /// 0 is where the event happened, 1 its caller, and so on.
        depth: u16,
        /// The frame's location. Callers are return addresses less one, so that their line is the call's.
        location: u32,
    }
}

table! {
    /// A range of memory with a lifetime and, where known, an allocation site and a name.
    MemoryObject / MemoryObjects = "objects" {
        /// Row id; what other tables call `object`.
        id: u32,
        /// Its address space.
        process: u32,
        /// An `ObjectKind`.
        kind: u8,
        /// First byte.
        address: u64,
        /// Size in bytes.
        bytes: u64,
        /// Start of its life, ns; 0 if it was there before the recording.
        born_ns: u64,
        /// Allocating thread.
        thread: u32,
        /// Call chain of the allocation; u32::MAX if unknown.
        chain: u32,
        /// Name known from the system (mapping, symbol, `nearfar_name`); empty if none.
        name: Text,
        /// The object it was reallocated from; its pages may have moved with it.
        previous: u32,
        /// For a sampled small allocation: bytes of allocations that it stands for; else equal to `bytes`.
        represents: u64,
    }
}

table! {
    /// The end of an object's life.
    ObjectEnd / ObjectEnds = "object_ends" {
        /// Which object.
        object: u32,
        /// When, ns.
        time_ns: u64,
    }
}

table! {
    /// Allocations of one site that are not in `objects`: so many came and went at once that they were counted only.
    AllocationGroup / AllocationGroups = "allocation_groups", added {
        /// Address space.
        process: u32,
        /// Call chain of the allocation; u32::MAX if unknown.
        chain: u32,
        /// How many.
        count: u64,
        /// Their bytes in all.
        bytes: u64,
    }
}

table! {
    /// The variables that the functions of an allocation's call chain put the memory into, innermost first.
    SiteName / SiteNames = "site_names" {
        /// The allocation's call chain.
        chain: u32,
        /// The variable's name as in the source; empty where the function returns the memory at once.
        name: String,
        /// How it was found: `dwarf` or `source`.
        how: String,
        /// The frame's location; u32::MAX in older recordings, which name the innermost frame that has a name.
        location: u32 = super::NONE,
        /// Which of the functions inlined there: the symbols' `depth`.
        depth: u16 = 0,
        /// 1 if that function returns the memory to its caller, an allocation helper; 0 if not; 2 if its source was not to be had.
        handed_on: u8 = 2,
    }
}

table! {
    /// A system call that changes what later faults in a range mean.
    RangeEvent / RangeEvents = "range_events" {
        /// When, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// A `RangeKind`.
        kind: u8,
        /// First byte of the range.
        address: u64,
        /// Size in bytes.
        bytes: u64,
        /// New first byte (mremap); else 0.
        to: u64,
        /// The thread that called; u32::MAX if unknown.
        thread: u32 = super::NONE,
    }
}

table! {
    /// Pages seen present on a node: a run of pages with the same answer.
    PageNode / PageNodes = "page_nodes" ["homes"] {
        /// When it was looked at, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// First page's address.
        address: u64,
        /// Number of pages looked at in this run.
        pages: u32,
        /// Distance between the pages looked at, in bytes (4096 = each page).
        stride: u64,
        /// Node; −1 if the page was not present.
        node: i16,
        /// log2 of the page's size where the kernel told; 0 if unknown.
        page_shift: u8,
    }
}

table! {
    /// A mapping of an address space.
    Mapping / Mappings = "mappings" {
        /// When it was seen, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// File offset of `start`.
        offset: u64,
        /// The file as a module; u32::MAX if none.
        module: u32,
        /// Bits: 1 read, 2 write, 4 execute, 8 shared.
        flags: u8,
        /// Name as in /proc/PID/maps: a path, `[heap]`, `[stack]`, `//anon`.
        name: String,
    }
}

table! {
    /// A named phase on a thread, or the region of interest (name empty), which is the process's.
    Phase / Phases = "phases" {
        /// Which thread.
        thread: u32,
        /// Name given by the program.
        name: String,
        /// Begin, ns.
        begin_ns: u64,
        /// End, ns; u64::MAX if it never ended.
        end_ns: u64,
        /// Row id; u32::MAX in older recordings and for the region of interest.
        id: u32 = super::NONE,
        /// The phase of the same thread that it is in; u32::MAX if in none.
        parent: u32 = super::NONE,
        /// How it ended: a `PhaseEnd`.
        how: u8 = 0,
        /// Whose word it is: a `PhaseSource`.
        source: u8 = 0,
        /// The call that began it (a location); u32::MAX if unknown.
        begin_at: u32 = super::NONE,
        /// The call that ended it, which may be that of an outer phase; u32::MAX if unknown.
        end_at: u32 = super::NONE,
        /// The beginning's file and line as the program gave them; empty if it gave none.
        begin_place: Text = Text::default(),
        /// The same of the end.
        end_place: Text = Text::default(),
    }
}

impl Phase {
    /// A phase of which only this is known, as of the region of interest and of older recordings.
    pub fn plain(thread: u32, name: String, begin_ns: u64, end_ns: u64) -> Phase {
        let (id, parent, begin_at, end_at) = (super::NONE, super::NONE, super::NONE, super::NONE);
        let (begin_place, end_place) = (Text::default(), Text::default());
        Phase {
            thread,
            name,
            begin_ns,
            end_ns,
            id,
            parent,
            how: PhaseEnd::Untold as u8,
            source: PhaseSource::Program as u8,
            begin_at,
            end_at,
            begin_place,
            end_place,
        }
    }
}

table! {
    /// Phases that were not recorded one by one, because their path was taken too often, or values of a metric.
    PhaseCount / PhaseCounts = "phase_counts", added {
        /// When it was written, ns.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Names from the outermost phase on, with the character U+001F between them.
        path: String,
        /// Whose word it is: a `PhaseSource`.
        source: u8,
        /// 0: phases; 1: values of the metric that is the last name.
        metric: u8,
        /// How many.
        calls: u64,
        /// Their time in all, those inside them included, ns; 0 for a metric.
        inclusive_ns: u64,
        /// Sum of the metric's values; else 0.
        sum: f64,
        /// The least of them.
        least: f64,
        /// The most of them.
        most: f64,
    }
}

table! {
    /// What time it was by the virtual machine's own clock when a phase began or ended.
    PhaseMark / PhaseMarks = "phase_marks", added {
        /// When, ns: `begin_ns` or `end_ns` of the phase.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Simulated time of the cpu that it ran on, ns.
        simulated_ns: u64,
    }
}

table! {
    /// A value that the program gave: `nearfar_metric`.
    Metric / Metrics = "metrics", added {
        /// When, ns.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Its name.
        name: String,
        /// The value.
        value: f64,
    }
}

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
        /// Who counted it: `perf stat -j`, `kernel`.
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
    /// What one cpu of a virtual machine did in one epoch: a bin of its own simulated clock. Only user accesses of the program.
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

/// [`Module::path`] of the kernel's code: one location stands for all of it.
pub const KERNEL_MODULE: &str = "[kernel]";
/// Path of the module that stands for lines of Python: they have no code of their own.
pub const PYTHON_MODULE: &str = "[python]";

/// Prefix of [`Loss::why`] of the end of a recording that was not closed: its recorder did not live to count what it lost.
pub const KILLED: &str = "the recorder was killed or its disk was full";

/// [`Loss::what`] of perf records that may have been samples or faults: they share a ring.
pub const LOST_EITHER: &str = "samples or faults";

/// The same in the recorder's own words.
pub const LOST_PERF: &str = "perf_records";

/// A `u8` column's meaning, with its name in reports.
macro_rules! codes {
    ($(#[$doc:meta])+ $name:ident { $( $(#[$vdoc:meta])+ $variant:ident = $code:literal $text:literal ),+ $(,)? }) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $( $(#[$vdoc])+ $variant = $code ),+ }
        impl $name {
            /// All values, in code order.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),+];
            /// The value of a code; `None` for a code of a later version.
            pub fn from_code(code: u8) -> Option<$name> {
                match code { $( $code => Some($name::$variant), )+ _ => None }
            }
            /// Its name in reports and JSON.
            pub fn text(self) -> &'static str {
                match self { $( $name::$variant => $text ),+ }
            }
        }
    };
}

codes! {
    /// How a sample's address was found: rule P, in its order of trust.
    Resolution {
        /// Nothing found although the block touches memory.
        Unresolved = 0 "unresolved",
        /// Operand of the instruction that retired last; its address registers are intact.
        Exact = 1 "exact",
        /// A `rep` string instruction at the sampled place: its registers show the progress.
        String = 2 "string",
        /// The next execution of the same load (it overwrote its own address register).
        Next = 3 "next",
        /// Only the base register is intact: the object is known, not the address.
        Object = 4 "object",
        /// An operand nearby in the same block.
        Near = 5 "near",
        /// The block touches no memory: computing.
        Compute = 6 "compute",
        /// A runtime's wait loop.
        Spinning = 7 "spinning",
    }
}

codes! {
    /// What an instruction does to its memory operand.
    Access {
        /// Unknown.
        Unknown = 0 "unknown",
        /// Reads.
        Load = 1 "load",
        /// Writes.
        Store = 2 "store",
        /// Reads and writes.
        LoadStore = 3 "load+store",
    }
}

codes! {
    /// Which source produced a sample (a column's code; the recording's sources with their losses are in its meta).
    SampleSource {
        /// perf clock event.
        Clock = 1 "clock",
        /// SIGPROF timer in the agent.
        Signal = 2 "signal",
        /// PMU samples.
        Hardware = 3 "hardware",
        /// The virtual machine: a line from or to memory.
        Simulated = 4 "simulated",
        /// The virtual machine: a line that a cache of node `page_node` supplied, another one than the cpu's.
        Transfer = 5 "transfer",
    }
}

codes! {
    /// Where the data of a sampled access came from, as the processor said.
    Served {
        /// The processor did not say, or says it for loads only and this is a store.
        Unknown = 0 "unknown",
        /// A cache of the core, or the last-level cache of its node.
        Cache = 1 "own cache",
        /// A cache of another core of the same node.
        OtherCore = 2 "another core's cache",
        /// A cache of another node.
        OtherNodesCache = 3 "another node's cache",
        /// Memory of the core's own node.
        LocalMemory = 4 "local memory",
        /// Memory of another node.
        RemoteMemory = 5 "remote memory",
        /// Memory behind CXL.
        Cxl = 6 "CXL memory",
        /// A line that was on its way already (line fill buffer): from where is not said.
        InFlight = 7 "a line on its way",
    }
}

impl Served {
    /// Whether the data came from memory, of whatever node.
    pub fn is_memory(self) -> bool {
        matches!(self, Served::LocalMemory | Served::RemoteMemory | Served::Cxl)
    }
}

codes! {
    /// Where a memory object comes from.
    ObjectKind {
        /// An allocation of at least the recording's `min_object_bytes`.
        Heap = 1 "heap",
        /// A sampled allocation below that size; reports group these by site.
        SmallHeap = 2 "small heap",
        /// A static variable or COMMON block.
        Static = 3 "static",
        /// A thread's stack.
        Stack = 4 "stack",
        /// An anonymous mapping that no allocation explains.
        Anonymous = 5 "anonymous mapping",
        /// A mapped file.
        File = 6 "file mapping",
        /// Shared memory.
        Shared = 7 "shared mapping",
    }
}

codes! {
    /// How a phase ended.
    PhaseEnd {
        /// Not told: an older recording, or the region of interest.
        Untold = 0 "not recorded",
        /// By its own end.
        Ended = 1 "ended",
        /// An outer phase ended: this one was left by longjmp, an exception, or a return without its end.
        Unwound = 2 "left without an end",
        /// By a call in another thread than began it.
        Elsewhere = 3 "ended by another thread",
        /// Its thread ended.
        ThreadEnded = 4 "open at the end of its thread",
        /// Its process ended.
        Exited = 5 "open at exit",
        /// Neither its end nor its thread's was seen.
        Open = 6 "never ended",
        /// No phase, but a call to end one that had not begun: begin and end are the time of the call.
        NotBegun = 7 "ended without a beginning",
        /// In a fork's child: begun again at the fork, as the parent's.
        Inherited = 8 "inherited by a fork",
    }
}

codes! {
    /// Whose word a phase is.
    PhaseSource {
        /// The program's, through `nearfar.h` and its kin.
        Program = 0 "program",
        /// The OpenMP runtime's, through OMPT.
        OpenMp = 1 "OpenMP",
        /// A call of MPI.
        Mpi = 2 "MPI",
        /// The program's, through ITT notify.
        Itt = 3 "ITT",
        /// The program's, through LIKWID's markers.
        Likwid = 4 "LIKWID",
    }
}

codes! {
    /// What a range event was.
    RangeKind {
        /// madvise(MADV_DONTNEED/FREE/REMOVE) or the like: pages are gone, the next fault places anew.
        Discard = 1 "discard",
        /// munmap.
        Unmap = 2 "unmap",
        /// mremap: pages move from `address` to `to`.
        Move = 3 "move",
        /// mprotect: later faults in the range may be protection faults.
        Protect = 4 "protect",
        /// mbind or set_mempolicy on a range.
        Policy = 5 "policy",
        /// A kernel populate (MAP_POPULATE, MADV_POPULATE_*, mlock): pages placed without a fault.
        Populate = 6 "populate",
        /// move_pages or migrate_pages called by the program.
        Migrate = 7 "migrate",
    }
}

codes! {
    /// What a program under a virtual machine said (`sim_marks`).
    MarkKind {
        /// The program proper begins.
        Main = 1 "main",
        /// The region of interest begins.
        RegionBegin = 2 "region begins",
        /// It ends.
        RegionEnd = 3 "region ends",
    }
}
