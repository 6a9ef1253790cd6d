//! The agent's records as values.

use std::path::PathBuf;

/// One record of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRecord {
    /// Kernel process id.
    pub pid: u32,
    /// Which image of it: grows with every fork and exec, over all processes.
    pub generation: u64,
    /// Kernel thread id.
    pub tid: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// What happened.
    pub body: AgentBody,
}

/// What an [`AgentRecord`] tells. The order of ends and beginnings is explained in `agent/protocol.h`.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentBody {
    /// A new image begins (exec, or the first process).
    Hello {
        /// Parent process id.
        parent: u32,
        /// Path of the executable; empty if unknown.
        executable: PathBuf,
    },
    /// A copy of another process begins.
    Fork {
        /// The process it is a copy of.
        parent: u32,
        /// That process's generation.
        parent_generation: u64,
    },
    /// An exec is about to be tried; it may fail.
    Exec,
    /// The process ends; destructors may still write records.
    Exit,
    /// A thread begins.
    ThreadStart {
        /// Its stack's lowest address; 0 if unknown.
        stack_low: u64,
        /// Its stack's end; 0 if unknown.
        stack_high: u64,
    },
    /// The thread ends.
    ThreadEnd,
    /// Memory was allocated or mapped.
    Alloc(Allocation),
    /// A recorded object is about to end.
    Free {
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u64,
        /// When it ended, ns of CLOCK_MONOTONIC, where that is recorded late; else 0.
        died_ns: u64,
        /// Because realloc was called on it: an `Alloc` with this `previous` follows.
        reallocated: bool,
    },
    /// A call that changes what later faults in a range mean.
    Range {
        /// Code of `nearfar_recording`'s `RangeKind`.
        kind: u8,
        /// First byte.
        address: u64,
        /// Size.
        bytes: u64,
        /// New first byte for a move; else 0.
        to: u64,
    },
    /// The program begins a phase on this thread.
    PhaseBegin(PhaseCall),
    /// The program ends one.
    PhaseEnd(PhaseCall),
    /// Phases that were only counted.
    PhaseCount(PhaseCount),
    /// A value of the program's.
    Metric {
        /// When, ns of CLOCK_MONOTONIC.
        time_ns: u64,
        /// Its name.
        name: String,
        /// The value.
        value: f64,
    },
    /// The lines of Python that a site was called from, innermost first.
    Python {
        /// The site's key.
        site: u64,
        /// Line, file and function of each.
        frames: Vec<PythonFrame>,
    },
    /// The region of interest begins.
    RoiBegin,
    /// The region of interest ends.
    RoiEnd,
    /// The program names a range.
    Name {
        /// First byte.
        address: u64,
        /// Size.
        bytes: u64,
        /// Its name.
        name: String,
    },
    /// Where pages of an object were when it ended.
    PageNodes {
        /// The first page looked at.
        address: u64,
        /// Bytes between pages looked at.
        stride: u64,
        /// Runs of (node, pages); node −1: not present.
        runs: Vec<(i16, u32)>,
    },
    /// A sample of the signal source.
    Sample {
        /// Kernel index of the cpu.
        cpu: u32,
        /// The interrupted instruction.
        ip: u64,
        /// rax rbx rcx rdx rsi rdi rbp rsp r8..r15.
        registers: [u64; 16],
        /// CPU time of the thread since its last sample.
        weight_ns: u64,
        /// Return addresses by frame pointers, innermost first.
        chain: Vec<u64>,
    },
    /// Something was not recorded.
    Lost {
        /// How much; 0 if not countable.
        count: u64,
        /// Why.
        why: LostWhy,
    },
    /// A piece of /proc/PID/maps.
    Maps {
        /// Its text; lines may be cut at piece ends.
        text: Vec<u8>,
        /// More pieces follow.
        more: bool,
    },
    /// Allocations that were not told one by one.
    Group {
        /// Key of their call chain; 0: of sites beyond those that are counted apart.
        site: u64,
        /// How many.
        count: u64,
        /// Their bytes in all.
        bytes: u64,
    },
}

/// An allocation or mapping and its site.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Which call made it.
    pub kind: AllocationKind,
    /// Its address.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of allocations that it stands for.
    pub represents: u64,
    /// Address it was reallocated from; else 0. May equal `address`.
    pub previous: u64,
    /// realloc, mremap or munmap failed: the object at `previous` lives on.
    pub restored: bool,
    /// The agent could not note it: no `Free` will come.
    pub untracked: bool,
    /// Mapping: MAP_SHARED.
    pub shared: bool,
    /// Mapping: of a file.
    pub file: bool,
    /// Mapping: PROT_NONE.
    pub reservation: bool,
    /// Mapping: MAP_HUGETLB.
    pub huge: bool,
    /// calloc.
    pub zeroed: bool,
    /// Key of its call chain, valid in the sending process and its fork descendants.
    pub site: u64,
    /// Return address of the allocating call: the innermost frame, unless in a runtime library.
    pub ip: u64,
    /// Stack pointer after the return.
    pub sp: u64,
    /// Frame pointer of the caller.
    pub bp: u64,
    /// When it was made, ns of CLOCK_MONOTONIC, where that is recorded late; else 0.
    pub born_ns: u64,
    /// Memory from `sp` upwards; empty if this key's stack was sent before.
    pub stack: Vec<u8>,
}

/// A call that begins or ends a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCall {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Return address of the call; 0 if unknown.
    pub site: u64,
    /// The thread's number of it.
    pub id: u32,
    /// Its name; of an end only where it is not in this thread.
    pub name: String,
    /// File and line as the program gave them.
    pub place: String,
    /// Of a beginning: whose word it is, a `PhaseSource`.
    pub source: u8,
    /// Of a beginning: it was begun before the fork, in the parent.
    pub inherited: bool,
    /// Of an end: how, `NF_PHASE_ENDED` and so on, in the protocol's numbers.
    pub how: u8,
}

/// Phases or values of one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCount {
    /// Whose.
    pub tid: u32,
    /// Names, U+001F between them.
    pub path: String,
    /// Whose word it is.
    pub source: u8,
    /// Values of a metric, not phases.
    pub metric: bool,
    /// How many.
    pub calls: u64,
    /// Their time, ns.
    pub inclusive_ns: u64,
    /// Sum, least and most of the values.
    pub values: [f64; 3],
}

/// Which call made an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationKind {
    /// malloc and its relatives, of at least the recorded size.
    Heap,
    /// A sampled smaller one: no `Free` will come.
    Small,
    /// mmap.
    Mapping,
}

/// Why something was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// The ring was full.
    RingFull,
    /// A signal handler met the writer's lock.
    Busy,
    /// move_pages is not allowed.
    PageNodesRefused,
    /// Looking up nodes of pages would have cost too much time.
    PageNodesBudget,
    /// The program uses SIGPROF itself.
    SigprofTaken,
    /// A thread got no timer; the count is the error number.
    TimerRefused,
    /// The thread's alternate signal stack is too short for a handler; the count is its bytes.
    SmallSignalStack,
    /// The program shut itself in with a seccomp filter.
    Sandbox,
    /// A code of a later version.
    Other(u32),
}

/// A line of Python.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PythonFrame {
    /// Its number.
    pub line: u32,
    /// The file, as the interpreter names it.
    pub file: String,
    /// The function; `<module>` outside of any.
    pub function: String,
}
