//! What the kernel and the processor counted while the program was recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters beside the samples: of the program, its threads, and the host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedAlong {
    /// What was counted of the program.
    pub program: Vec<CountedValue>,
    /// CPU time of the threads whose own counters ran, of that of all; null if either is unknown.
    pub threads_share: Option<f64>,
    /// The threads, most CPU time first.
    pub threads: Vec<CountedThread>,
    /// What was counted of the host, the program and all others together.
    pub host: Vec<CountedValue>,
    /// For how long the host was counted, seconds; null if it was not.
    pub host_seconds: Option<f64>,
    /// Lines from remote memory, of those from local and remote memory; null with `remote_share_why`.
    pub remote_share: Option<f64>,
    /// Why that is unknown.
    pub remote_share_why: Option<String>,
    /// Whether it is within the 95 % interval of the sampled `remote_share`; null if either is unknown.
    pub agrees: Option<bool>,
}

/// A counter's value over the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedValue {
    /// What is counted.
    pub name: String,
    /// What it is of: `the program`, `the counted threads`, `node 0`, `socket 1`.
    pub of: String,
    /// The value, scaled where counters took turns; null with `why`.
    pub value: Option<f64>,
    /// Its unit; empty for events.
    pub unit: String,
    /// Smallest part of the time that it ran, of all threads and intervals: 1 if it never took turns. Null if unknown.
    pub running_share: Option<f64>,
    /// What counted it: the kernel, or an event of the processor.
    pub source: String,
    /// Why it is unknown, or, beside a value, for how many intervals and threads it is.
    pub why: Option<String>,
}

/// What was counted of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedThread {
    /// Kernel thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time, seconds.
    pub cpu_seconds: Option<f64>,
    /// Page faults.
    pub page_faults: Option<f64>,
    /// Context switches.
    pub context_switches: Option<f64>,
    /// Moves to another cpu.
    pub cpu_migrations: Option<f64>,
    /// Instructions in user mode.
    pub instructions: Option<f64>,
    /// Cycles in user mode.
    pub cycles: Option<f64>,
    /// Misses of the last-level cache.
    pub last_level_misses: Option<f64>,
    /// Lines from the memory of its node.
    pub local_lines: Option<f64>,
    /// Lines from the memory of other nodes.
    pub remote_lines: Option<f64>,
}
