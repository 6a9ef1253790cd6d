//! The program's parts: how long each took, and what happened in it.

use super::{Basis, Predicted};
use crate::MOST_UNKNOWN;
use schemars::JsonSchema;
use serde::Serialize;

/// Names of phases that a program, its runtime or a tool gave, by path: which phase in which. Within a thread a phase's
/// exclusive amounts and those of the phases in it add up to its inclusive ones, exactly.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseReport {
    /// Whose clock the times are of: `monotonic`, the recorded machine's; `simulated`, that of the virtual machine's cpus.
    pub clock: String,
    /// What `weight`, `near` and `far` of amounts are: ns of CPU time, or lines.
    pub basis: Basis,
    /// Paths; a phase before those in it. The first is each thread as a whole.
    pub nodes: Vec<PhaseNode>,
    /// Threads that were in phases, or worked for one that was; the first 1000.
    pub threads: Vec<PhaseThread>,
    /// What each thread did in each phase, the 20,000 rows that took longest.
    pub rows: Vec<PhaseRow>,
    /// Rows beyond those.
    pub rows_left_out: usize,
    /// When threads were in which phase, the 2000 longest.
    pub intervals: Vec<PhaseInterval>,
    /// Phases that did not end by an end of their own, and ends without a beginning: at most 200, the most frequent first.
    pub unbalanced: Vec<Unbalanced>,
    /// Values that the program gave, by name and phase.
    pub metrics: Vec<MetricRow>,
    /// Parallel regions of GCC's OpenMP, known by samples of the functions that it puts them into; at most 500.
    pub regions: Vec<RegionRow>,
    /// Objects with far memory: in which phase their pages were placed and in which they are paid for, largest first.
    pub paid: Vec<PaidRow>,
    /// What the best repair of the run that a placement file can say (`what_if.placeable`), or where that is none the best
    /// of all (`what_if.best`), would make of each phase's time, longest first; at most 32.
    pub gains: Vec<PhaseGain>,
    /// Why `gains` is empty; null if it is not.
    pub gains_why: Option<String>,
}

/// A phase's time with its memory elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseGain {
    /// Position in `nodes`. Phases in it are part of it.
    pub node: usize,
    /// Its time with the repair over its time without; null if unknown.
    pub predicted: Option<Predicted>,
    /// Why it is unknown; null if it is not.
    pub why: Option<String>,
}

/// A path of phases.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseNode {
    /// Name of the innermost phase; empty for the threads as a whole.
    pub name: String,
    /// Position of the phase around it; null for the first.
    pub parent: Option<usize>,
    /// Phases around it.
    pub depth: usize,
    /// Whose word it is: `program`, `OpenMP`, `MPI`, `ITT`, `LIKWID`.
    pub source: String,
    /// Over all threads.
    pub all: PhaseFigures,
    /// Inclusive time of the threads that were in it, ns.
    pub spread: Spread,
    /// Time from its beginning to its end by the time model, in which busy memory and links make others wait, ns: what
    /// predictions of the phase are ratios of. Null if it is unknown: without counted lines, if it is not one of the 32
    /// longest, or for the reason that `gains` names.
    pub modelled_ns: Option<f64>,
}

/// What happened in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PhaseFigures {
    /// How often it began.
    pub calls: u64,
    /// Of these, those that were too many to be recorded one by one: samples in them count for the phase around.
    pub counted_calls: u64,
    /// Phases that began directly in it.
    pub subrs: u64,
    /// In it and in phases in it.
    pub inclusive: PhaseAmounts,
    /// In it and in no phase in it.
    pub exclusive: PhaseAmounts,
}

/// Amounts of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PhaseAmounts {
    /// Time, ns; of several threads added.
    pub time_ns: u64,
    /// Samples taken in it, of the part of the run that the report is of.
    pub samples: u64,
    /// What they stand for: ns of CPU time, or cache lines from and to memory.
    pub weight: u64,
    /// Of that, on pages of the thread's own node.
    pub near: u64,
    /// Of that, on pages of other nodes: the time at risk, or lines from and to far memory.
    pub far: u64,
    /// Of that, on pages whose node is unknown: in neither `near` nor `far`.
    pub page_node_unknown: u64,
    /// Page faults, of the whole run.
    pub faults: u64,
    /// Bytes allocated, of the whole run; small allocations by samples.
    pub bytes: u64,
}

impl PhaseAmounts {
    /// Adds those of another phase or thread.
    pub fn add(&mut self, other: &PhaseAmounts) {
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.near = self.near.saturating_add(other.near);
        self.far = self.far.saturating_add(other.far);
        self.page_node_unknown = self.page_node_unknown.saturating_add(other.page_node_unknown);
        self.faults += other.faults;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Share of what was sampled on memory whose page's node is unknown; `None` if no memory was sampled.
    pub fn page_node_unknown_share(&self) -> Option<f64> {
        let all = self.near as f64 + self.far as f64 + self.page_node_unknown as f64;
        (all > 0.0).then(|| self.page_node_unknown as f64 / all)
    }

    /// Whether enough is known of its pages to say how much of its memory is near or far: as in a verdict.
    pub fn page_nodes_known(&self) -> bool {
        self.page_node_unknown_share().is_none_or(|share| share <= MOST_UNKNOWN)
    }
}

/// Of several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// How many.
    pub threads: usize,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// Standard deviation over these threads (divided by their number).
    pub std_dev: f64,
}

/// A thread with phases.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseThread {
    /// Kernel process id.
    pub pid: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// Name as the kernel knows it.
    pub name: String,
}

/// A thread in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseRow {
    /// Position in `threads`.
    pub thread: usize,
    /// Position in `nodes`.
    pub node: usize,
    /// What it did there.
    pub figures: PhaseFigures,
}

/// A part of time that a thread was in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseInterval {
    /// Position in `threads`.
    pub thread: usize,
    /// Position in `nodes`.
    pub node: usize,
    /// Begin, seconds after the start of the recording; by the simulated clock after the first phase's beginning.
    pub from_s: f64,
    /// End.
    pub to_s: f64,
}

/// Calls that do not pair.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unbalanced {
    /// The phase.
    pub name: String,
    /// What is wrong, as in `PhaseEnd` of the recording.
    pub how: String,
    /// How many times.
    pub count: u64,
    /// Where it began, file and line; null if unknown. Of an end without a beginning: where it had begun before.
    pub begun_at: Option<String>,
    /// The call that ended it, which may be that of another phase; null if none or unknown.
    pub ended_at: Option<String>,
}

/// Values of a metric in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetricRow {
    /// The metric.
    pub name: String,
    /// Position in `nodes`.
    pub node: usize,
    /// Values given.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Samples of a function's parallel regions in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RegionRow {
    /// The function.
    pub function: String,
    /// Position in `nodes` of the phase.
    pub node: usize,
    /// Samples.
    pub samples: u64,
    /// What they stand for: ns of CPU time of all threads, or lines.
    pub weight: u64,
    /// Of that, on pages of the thread's own node.
    pub near: u64,
    /// Of that, on pages of other nodes.
    pub far: u64,
}

/// Which phase placed what another one pays for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PaidRow {
    /// The object.
    pub object: String,
    /// Position in `nodes` of the phase in which the first touch of these pages was; null if that was not seen.
    pub placed_in: Option<usize>,
    /// Position of the phase in which they are used from other nodes.
    pub paid_in: usize,
    /// Share of all samples.
    pub share: f64,
}

/// The phases of a finding: "the init phase places, the solver phase pays".
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FindingPhases {
    /// Phases in which the first touch of these pages was, most first, at most 8. Shares are of the far samples on the finding's objects.
    pub placed_in: Vec<FindingPhase>,
    /// Phases in which they are used from other nodes, as `placed_in`.
    pub paid_in: Vec<FindingPhase>,
    /// Far samples that the shares are of; they are weighted like all samples.
    pub samples: u64,
}

/// A phase of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FindingPhase {
    /// Position in the `nodes` of `phases`, 0 for outside of all phases; null if the first touch was not seen.
    pub node: Option<usize>,
    /// Its path, `a => b` is b within a; empty outside of all phases; null if the first touch was not seen.
    pub name: Option<String>,
    /// Share of the far samples on the finding's objects.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}
