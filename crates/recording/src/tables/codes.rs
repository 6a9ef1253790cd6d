//! The meaning of `u8` columns, and of some texts.

/// [`path`](crate::Module::path) of the kernel's code: one location stands for all of it.
pub const KERNEL_MODULE: &str = "[kernel]";
/// Path of the module that stands for lines of Python: they have no code of their own.
pub const PYTHON_MODULE: &str = "[python]";

/// Prefix of [`crate::Loss::why`] of the end of a recording that was not closed: its recorder did not live to count what it lost.
pub const KILLED: &str = "the recorder was killed or its disk was full";

/// [`crate::Loss::what`] of instructions, where accesses are counted in windows and a cpu ran in none of them.
pub const BETWEEN_WINDOWS: &str = "instructions";

/// [`crate::Loss::what`] of perf records that may have been samples or faults: they share a ring.
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
        /// A loop that waits for other threads: of OpenMP's or MPI's libraries, or with a `pause`.
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
        /// The virtual machine: an access to a line that cores take from each other all the time. `lines` are accesses;
        /// [`Access::LoadStore`] is one that locks the line.
        Contended = 6 "contended line",
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
