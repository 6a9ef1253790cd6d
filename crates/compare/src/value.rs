//! What a comparison says: plain values, written by `report::compare`. Field names are the JSON's.

use nearfar_analyze::{Basis, Interval, Region, Verdict};
use nearfar_timing::Binding;
use serde::Serialize;

/// What became of something between two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was far, now it is near: far lines or time fell by half at least, to a few percent. Or nodes took cache lines from each other,
    /// and do so no more.
    Repaired,
    /// Less time, or less of it far.
    Better,
    /// No difference beyond what two runs of the same program show.
    NoEffect,
    /// More time, or more of it far.
    Worse,
    /// It cannot be told.
    Unknown,
    /// Only the first recording has it.
    OnlyBefore,
    /// Only the second recording has it.
    OnlyAfter,
}

impl Change {
    /// The word for people.
    pub fn words(self) -> &'static str {
        match self {
            Change::Repaired => "repaired",
            Change::Better => "better",
            Change::NoEffect => "no effect",
            Change::Worse => "worse",
            Change::Unknown => "unknown",
            Change::OnlyBefore => "only before",
            Change::OnlyAfter => "only after",
        }
    }
}

/// What the verdict is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The time that the model gives for the counted work.
    Time,
    /// The remote share of all working time, or of all DRAM lines where no time is known.
    RemoteShare,
}

/// A verdict, why, and what it is decided by.
pub(super) type Decided = (Change, String, Option<DecidedBy>);

/// Two reports, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of the JSON; it rises when a field is renamed, removed or changes its meaning.
    pub schema: u32,
    /// What became of the program as a whole.
    pub verdict: Change,
    /// Why, in one sentence.
    pub why: String,
    /// What decided; null if nothing could, or nothing had to: one recording twice.
    pub decided_by: Option<DecidedBy>,
    /// The first recording.
    pub before: Side,
    /// The second.
    pub after: Side,
    /// Why the two are not known to have done the same work; null if they did as far as can be seen.
    pub work_why: Option<String>,
    /// Modelled time after over before; null with `time_why`.
    pub time: Option<TimeChange>,
    /// The same with the waits for cache lines that nodes take from each other; null if neither report names such lines, or if
    /// what they cost is unknown. Then the verdict is decided by this.
    pub time_with_waits: Option<TimeChange>,
    /// Why the times are not compared.
    pub time_why: Option<String>,
    /// Remote share of everything, after minus before; null with `remote_why`.
    pub remote: Option<Difference>,
    /// Why the shares are not compared.
    pub remote_why: Option<String>,
    /// Pairs of nodes, of the first and of the second recording, that are taken for the same; empty if all
    /// have kept their numbers.
    pub renumbered: Vec<(u32, u32)>,
    /// Objects, the most at risk first.
    pub objects: Vec<RowChange>,
    /// Functions, the most at risk first.
    pub functions: Vec<RowChange>,
    /// Memory of each node.
    pub nodes: Vec<NodeChange>,
    /// The program's phases by path, in the order of the first recording; times are of one run each.
    pub phases: Vec<PhaseChange>,
    /// What makes the two hard to compare, a sentence each.
    pub warnings: Vec<String>,
}

/// One of the two recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Its name; empty unless the caller gives one.
    pub recording: String,
    /// The command recorded.
    pub command: Vec<String>,
    /// How it ended; null if unknown.
    pub exit: Option<String>,
    /// The machine it is judged on.
    pub machine: String,
    /// Whether that is another machine than it ran on.
    pub assumed: bool,
    /// What its shares are shares of.
    pub basis: Basis,
    /// Which part of the run they are of.
    pub region: Region,
    /// Sources that gave samples.
    pub sources: Vec<String>,
    /// Their samples.
    pub samples: u64,
    /// Threads.
    pub threads: usize,
    /// The verdict of its own report.
    pub verdict: Verdict,
    /// Length of the whole recording, seconds of wall time; null where an emulated machine's clock says nothing.
    pub wall_seconds: Option<f64>,
    /// CPU time of the samples, seconds; null where samples are not of time.
    pub cpu_seconds: Option<f64>,
    /// The time that the counted work takes; null if no time is known.
    pub time: Option<TimeRange>,
    /// Remote share of all samples or lines; null if unknown.
    pub remote_share: Option<f64>,
    /// 95 % interval of it; its bounds where lines are counted.
    pub remote_share_ci: Option<Interval>,
    /// Share of the samples that touch memory whose page's node is unknown.
    pub page_node_unknown_share: f64,
    /// Share of the samples that touch memory.
    pub memory_share: f64,
    /// Bytes from and to DRAM; null unless counted.
    pub dram: Option<Bytes>,
}

/// A modelled time.
#[derive(Clone, Debug, Serialize)]
pub struct TimeRange {
    /// Seconds.
    pub seconds: f64,
    /// Lower end of what the machine's figures allow, seconds.
    pub low: f64,
    /// Upper end, seconds.
    pub high: f64,
    /// The resource that binds for the longest part, by the node numbers of its own recording.
    pub binds: Binding,
}

/// Bytes from and to DRAM, by where the cpu is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Between memory and cpus of its own node.
    pub local: u64,
    /// Between memory and cpus of other nodes.
    pub remote: u64,
}

/// Modelled time after over before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeChange {
    /// Of the best guesses.
    pub ratio: f64,
    /// Least that the ranges allow if the machine's figures were wrong differently for each.
    pub low: f64,
    /// Most.
    pub high: f64,
}

/// A difference of two shares; 0.1 is ten percentage points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// After minus before.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// An object or a function in both recordings, or in one.
#[derive(Clone, Debug, Serialize)]
pub struct RowChange {
    /// Its name, as the later recording has it.
    pub name: String,
    /// `file:line` of the allocation; null for functions and if unknown.
    pub at: Option<String>,
    /// What became of it.
    pub change: Change,
    /// Before; null if only the second has it.
    pub before: Option<RowSide>,
    /// After; null if only the first has it.
    pub after: Option<RowSide>,
}

/// An object or function in one recording.
#[derive(Clone, Debug, Serialize)]
pub struct RowSide {
    /// Positions in that report's `objects` or `functions`: rows of one name and line are compared as one.
    pub rows: Vec<usize>,
    /// Share of all samples or lines.
    pub share: f64,
    /// Remote share of it; null if unknown.
    pub remote_share: Option<f64>,
    /// 95 % interval; its bounds where lines are counted.
    pub remote_share_ci: Option<Interval>,
    /// Share of its samples whose page's node is unknown; for functions that of all samples.
    pub page_node_unknown_share: f64,
    /// Its lines from and to the own node's DRAM; null unless counted.
    pub local_lines: Option<u64>,
    /// Its lines from and to other nodes' DRAM; null unless counted.
    pub remote_lines: Option<u64>,
    /// CPU time of its samples, seconds; null where samples are not of time.
    pub cpu_seconds: Option<f64>,
}

/// The memory of a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeChange {
    /// Its number in the first recording; null if only the second has it.
    pub node: Option<u32>,
    /// Its number in the second.
    pub node_after: Option<u32>,
    /// What became of its far traffic.
    pub change: Change,
    /// Before.
    pub before: Option<NodeSide>,
    /// After.
    pub after: Option<NodeSide>,
}

/// The memory of a node in one recording.
#[derive(Clone, Debug, Serialize)]
pub struct NodeSide {
    /// Threads on its cpus.
    pub threads: usize,
    /// Its share of all traffic, or of the samples whose page's node is known.
    pub share: f64,
    /// Share of that with cpus of other nodes; null if there is none.
    pub remote_share: Option<f64>,
    /// 95 % interval; its bounds where lines are counted.
    pub remote_share_ci: Option<Interval>,
    /// Share of all samples whose page's node is unknown; 0 where traffic is counted.
    pub page_node_unknown_share: f64,
    /// Bytes from and to its DRAM; null unless counted.
    pub dram: Option<Bytes>,
}

/// A phase in both recordings, or in one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseChange {
    /// Names from the outermost phase on, ` => ` between them.
    pub path: String,
    /// Before; null if only the second has it.
    pub before: Option<PhaseSide>,
    /// After; null if only the first has it.
    pub after: Option<PhaseSide>,
}

/// A phase in one recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseSide {
    /// How often it began.
    pub calls: u64,
    /// Time in it, of all threads, seconds.
    pub inclusive_s: f64,
    /// Without that of phases in it, seconds.
    pub exclusive_s: f64,
    /// Far memory used in it and in no phase in it, as a share of all samples' time or lines; null without samples,
    /// or if too much of it is on pages whose node is unknown.
    pub far_share: Option<f64>,
}
