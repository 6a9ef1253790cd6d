//! What `record` counts of each thread while it samples, by its name in the table `counters`.

/// A counter of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Along {
    /// CPU time in user and kernel mode.
    CpuTime,
    /// Page faults.
    Faults,
    /// Context switches.
    Switches,
    /// Moves to another cpu.
    Migrations,
    /// Instructions that retired in user mode.
    Instructions,
    /// Cycles in user mode.
    Cycles,
    /// Misses of the last-level cache.
    Misses,
    /// Lines from the memory of the own node.
    LocalLines,
    /// Lines from the memory of other nodes.
    RemoteLines,
}

impl Along {
    /// All, in the order in which they are shown.
    pub const ALL: [Along; 9] = [
        Along::CpuTime,
        Along::Faults,
        Along::Switches,
        Along::Migrations,
        Along::Instructions,
        Along::Cycles,
        Along::Misses,
        Along::LocalLines,
        Along::RemoteLines,
    ];

    /// Its name in the table and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Along::CpuTime => "cpu time",
            Along::Faults => "page faults",
            Along::Switches => "context switches",
            Along::Migrations => "cpu migrations",
            Along::Instructions => "instructions",
            Along::Cycles => "cycles",
            Along::Misses => "last-level cache misses",
            Along::LocalLines => "lines from local memory",
            Along::RemoteLines => "lines from remote memory",
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Along::CpuTime => "ns",
            _ => "",
        }
    }

    /// The counter of a name.
    pub fn named(name: &str) -> Option<Along> {
        Along::ALL.into_iter().find(|along| along.name() == name)
    }
}
