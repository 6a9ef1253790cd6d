//! What an analysis says: plain values that `report` writes for people and programs.
//! Field names are the JSON's; docs/report.schema.json describes the same.

mod along;
mod counted;
mod findings;
mod objects;
mod phases;
mod pictures;
mod whatif;

pub use along::*;
pub use counted::*;
pub use findings::*;
pub use objects::*;
pub use phases::*;
pub use pictures::*;
pub use whatif::*;

use nearfar_machine::DistanceClass;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// Is NUMA placement costing this program?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Enough evidence, and little of the time is at risk on far memory.
    Clean,
    /// A share of the time that matters is at risk on far memory.
    Affected,
    /// The evidence does not carry a verdict; `verdict_why` says what is missing.
    Unknown,
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// CPU time of samples (clock and signal sources): where time went, not how often memory was accessed.
    #[default]
    StallTime,
    /// Cache lines moved from and to DRAM, each weighing the same (simulated source): how much traffic, not how much time.
    DramLines,
    /// Loads that memory answered, as the processor sampled them, each for the loads that it stands for (hardware source):
    /// how many, not how much time.
    MemoryLoads,
}

impl Basis {
    /// For people: shares are shares of this.
    pub fn words(self) -> &'static str {
        match self {
            Basis::StallTime => "working time",
            Basis::DramLines => "DRAM traffic",
            Basis::MemoryLoads => "loads that memory answered",
        }
    }
}

/// An interval of a share, both ends within 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    #[schemars(range(min = 0, max = 1))]
    pub low: f64,
    /// Upper end.
    #[schemars(range(min = 0, max = 1))]
    pub high: f64,
}

impl Interval {
    /// Wider by so much on both sides, within 0 and 1.
    pub(crate) fn wider(self, by: f64) -> Interval {
        Interval { low: (self.low - by).max(0.0), high: (self.high + by).min(1.0) }
    }
}

/// Which part of the run shares are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// All of it.
    Whole,
    /// The region of interest that the program marks (nearfar.h).
    Marked,
}

/// What `nearfar report --json` writes: the report of one recording, judged on one machine. Shares are fractions from 0 to
/// 1 of what `basis` names; null means unknown, which is never written as 0.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    title = "nearfar report",
    extend("$id" = "https://github.com/nearfar/nearfar/blob/main/docs/report.schema.json")
)]
pub struct Report {
    /// Version of this schema.
    pub schema: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub verdict_why: String,
    /// The command recorded.
    pub command: Vec<String>,
    /// How it ended: `exit 0`, `signal 11 (SIGSEGV)`; null if unknown.
    pub exit: Option<String>,
    /// Why the recording does not go to the program's own end: stopped, killed, by a signal; null if it does. Such a
    /// run is never `clean`.
    pub ended_early: Option<String>,
    /// The program's parts, as it or its runtime named them; null if there are none.
    pub phases: Option<PhaseReport>,
    /// Length of the recording, seconds of wall time.
    #[schemars(range(min = 0))]
    pub seconds: f64,
    /// The machine it is judged on.
    pub machine: JudgedMachine,
    /// The machine it ran on, in words.
    pub recorded_on: String,
    /// When and by which host it was recorded.
    pub recorded: Recorded,
    /// The sources that produced the numbers.
    pub sources: Vec<SourceUse>,
    /// CPU time that the program took, in the kernel too; null if unknown. Shares are of time outside the kernel.
    pub cpu: Option<CpuTime>,
    /// What every share below is a share of.
    pub basis: Basis,
    /// Which part of the run they are of.
    pub region: Region,
    /// Remote share of all samples whose page's node is known; null if none is, or so few that the interval
    /// covers more than half of everything.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// 95 % interval of `remote_share`; its bounds where it is exact.
    pub remote_share_ci: Option<Interval>,
    /// Whether remote shares, distances and the matrix are of counts of every line (or of every one in windows: `counters.windows`) instead of
    /// samples.
    pub remote_share_exact: bool,
    /// Share of all samples that are remote for certain: the time at risk, or the lines. Of time, waiting for other
    /// threads is left out. Null if unknown: then the interval may still say what it is at most.
    #[schemars(range(min = 0, max = 1))]
    pub remote_time_share: Option<f64>,
    /// 95 % interval of `remote_time_share`.
    pub remote_time_share_ci: Option<Interval>,
    /// What the caches must have answered; null with `caches_why`.
    pub caches: Option<CacheBound>,
    /// Why that is not known.
    pub caches_why: Option<String>,
    /// Objects that caches may have held, in a program that they cannot hold as a whole: their samples on far pages are
    /// in the upper end of `remote_time_share_ci` only. Null if there are hardly any.
    pub caches_may_hold: Option<CacheHeld>,
    /// Samples on far pages that may be computing; they, too, are in the upper end of `remote_time_share_ci` only. Null if there are
    /// hardly any.
    pub loops_may_compute: Option<MayCompute>,
    /// What was counted of copies of the program; null if none were made (`record --excerpts`).
    pub excerpts: Option<ExcerptCounts>,
    /// Share of samples by distance of the node of the page; of the samples whose page's node is known.
    pub distance: Vec<DistanceShare>,
    /// Share of samples whose page's node is unknown, of those that touch memory.
    #[schemars(range(min = 0, max = 1))]
    pub page_node_unknown_share: f64,
    /// Share of samples that touch memory but could not be given to an object.
    #[schemars(range(min = 0, max = 1))]
    pub unattributed_share: f64,
    /// Share of samples that touch no memory (computing); 0 where lines are counted.
    #[schemars(range(min = 0, max = 1))]
    pub compute_share: f64,
    /// Share of samples in a runtime's wait loops (spinning); 0 where lines are counted.
    #[schemars(range(min = 0, max = 1))]
    pub spinning_share: f64,
    /// Rows: node of the thread; columns: node of the page; share of samples. Same order as `machine.node_ids`.
    #[schemars(inner(inner(range(min = 0, max = 1))))]
    pub node_matrix: Vec<Vec<f64>>,
    /// Rows: threads; columns: node of the page.
    pub threads: Vec<ThreadRow>,
    /// Objects by stall share, largest first.
    pub objects: Vec<ObjectRow>,
    /// Functions by stall share, largest first.
    pub functions: Vec<FunctionRow>,
    /// Paths of calls that most samples were taken in, the most first; empty if none were recorded.
    pub call_paths: Vec<CallPath>,
    /// Findings, by rank: by predicted gain, or by what is at risk where no gain is known.
    pub findings: Vec<Finding>,
    /// Exact counts of the virtual machine; null with `counters_why`.
    pub counters: Option<Counted>,
    /// Why the counts are missing.
    pub counters_why: Option<String>,
    /// What the kernel and the processor counted beside the samples; null if nothing was.
    pub counted_along: Option<CountedAlong>,
    /// The time that the counted work takes; null with `time_why`.
    pub time: Option<Timed>,
    /// Why the time is missing.
    pub time_why: Option<String>,
    /// What would become of the time if memory lay elsewhere; null with `what_if_why`.
    pub what_if: Option<WhatIf>,
    /// Why nothing is predicted.
    pub what_if_why: Option<String>,
    /// What near memory would bring by samples; null with `sampled_gain_why`.
    pub sampled_gain: Option<SampledGain>,
    /// Why samples predict nothing.
    pub sampled_gain_why: Option<String>,
    /// What was lost or is missing, in words.
    pub notes: Vec<String>,
    /// What pictures need beyond the above, aggregated to a fixed number of bins.
    pub pictures: Pictures,
}

impl Report {
    /// Samples of the sources that sample; page events are not samples.
    pub fn samples(&self) -> u64 {
        self.sources.iter().filter(|r| r.source != "pages").map(|r| r.samples).sum()
    }

    /// What leaves the verdict open where samples on far pages may not have waited for memory; `None` where something else does.
    pub fn open_because(&self) -> Option<MayNotWait<'_>> {
        let samples = self.verdict == Verdict::Unknown && self.remote_time_share.is_none();
        MayNotWait::new(self.caches_may_hold.as_ref(), self.loops_may_compute.as_ref()).filter(|_| samples)
    }
}

/// What was counted of copies of the running program, each for some hundred million instructions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExcerptCounts {
    /// Excerpts that are long enough.
    pub count: u64,
    /// Excerpts that ended before, most often as they would have waited for another thread.
    pub too_short: u64,
    /// Instructions that were counted, once those before them had filled the caches.
    pub instructions: u64,
    /// Share of the time in code that was counted.
    #[schemars(range(min = 0, max = 1))]
    pub covered_share: f64,
    /// Share of the time that waits for memory at most: what the counted lines take one after the other, and all other code; null with
    /// `why`.
    #[schemars(range(min = 0, max = 1))]
    pub waits_at_most_share: Option<f64>,
    /// Why that is not known.
    pub why: Option<String>,
    /// Where it comes from.
    pub source: String,
}

/// CPU time of all processes that the command waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CpuTime {
    /// All of it, seconds.
    #[schemars(range(min = 0))]
    pub seconds: f64,
    /// Of it, in the kernel, seconds.
    #[schemars(range(min = 0))]
    pub kernel_seconds: f64,
    /// Page faults, the kernel's own on the program's memory included.
    pub page_faults: u64,
}

/// A program whose memory fits the last-level cache: how much of its time far memory can have taken at most.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CacheBound {
    /// Memory that its processes had at a time at most, bytes: that of the largest, times the most processes at a
    /// time.
    pub memory_bytes: u64,
    /// Level of the cache that holds it.
    pub cache_level: u32,
    /// Capacity of one instance of it, bytes.
    pub cache_bytes: u64,
    /// Share of the time that fetching all of it from far memory takes, as often as it can have been fetched.
    #[schemars(range(min = 0, max = 1))]
    pub far_share_at_most: f64,
    /// Share of the time that threads can have spent on fetching their data again after they changed to another cache:
    /// twice the upper end of the 95 % interval of the time that they were away from the one that they were at most.
    #[schemars(range(min = 0, max = 1))]
    pub moving_threads_at_most: f64,
    /// Share of the samples that caches of other nodes can have answered: on data that several nodes use and that can be
    /// written to. Upper end of its 95 % interval.
    #[schemars(range(min = 0, max = 1))]
    pub between_nodes_at_most: f64,
}

impl CacheBound {
    /// Share of the time that went to far memory or to another node's caches, at most.
    pub fn at_most(&self) -> f64 {
        (self.far_share_at_most + self.moving_threads_at_most + self.between_nodes_at_most).min(1.0)
    }
}

/// Objects of which so little is in use that caches may have answered the samples on their far pages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CacheHeld {
    /// Share of the time that has samples on their far pages.
    #[schemars(range(min = 0, max = 1))]
    pub far_share: f64,
    /// Level of the cache.
    #[schemars(range(min = 1))]
    pub cache_level: u32,
    /// Capacity of one instance of it, bytes.
    pub cache_bytes: u64,
    /// Bytes that one node uses at a time of the first of them.
    pub object_bytes: u64,
    /// Their names, those with most such samples first.
    pub objects: Vec<String>,
}

/// Samples on far pages that may be computing: in loops of which an iteration takes no longer than it may without waiting, and in code of
/// which samples do not show how fast it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MayCompute {
    /// Share of the time that these samples are.
    #[schemars(range(min = 0, max = 1))]
    pub far_share: f64,
    /// Of that, the share of the time that is in code of unknown speed.
    #[schemars(range(min = 0, max = 1))]
    pub untimed_share: f64,
    /// Names of their objects, those with most such samples first; without those that have less than a twentieth of them.
    pub objects: Vec<String>,
}

/// Why samples on far pages may not have waited for memory: whichever has more of them.
#[derive(Clone, Copy, Debug)]
pub enum MayNotWait<'a> {
    /// Caches may have answered.
    Cached(&'a CacheHeld),
    /// The code may have computed.
    Computing(&'a MayCompute),
}

impl<'a> MayNotWait<'a> {
    /// Of both, if there are any.
    pub fn new(held: Option<&'a CacheHeld>, computed: Option<&'a MayCompute>) -> Option<MayNotWait<'a>> {
        match (held, computed) {
            (held, Some(computed)) if held.is_none_or(|h| h.far_share < computed.far_share) => {
                Some(MayNotWait::Computing(computed))
            }
            (held, _) => held.map(MayNotWait::Cached),
        }
    }
}

/// When and by which host something was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recorded {
    /// Start, RFC 3339 UTC; null if unknown, as of imported recordings.
    pub started: Option<String>,
    /// Name of the host; null if unknown.
    pub host: Option<String>,
}

/// The machine that a report judges by.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JudgedMachine {
    /// Its name.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Kernel numbers of the nodes.
    pub node_ids: Vec<u32>,
    /// True if the recording was made on another machine and threads and pages are mapped to this one.
    pub assumed: bool,
    /// How threads were mapped: `compact`, `scatter` or `recorded`.
    pub binding: String,
    /// Its figures that are assumed, such as those of a shape (`2x22`): nobody measured or published them for it.
    pub assumed_figures: Vec<AssumedFigure>,
}

/// A figure that is assumed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AssumedFigure {
    /// Its name in the machine file.
    pub name: String,
    /// Its value, in the unit that the name says; null for a matrix.
    pub value: Option<f64>,
    /// From what it is assumed.
    pub source: String,
}

/// One source in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SourceUse {
    /// `clock`, `signal`, `pages`, …
    pub source: String,
    /// Samples or events.
    pub samples: u64,
    /// Events known to be lost.
    pub lost: u64,
    /// Whether that is all: a recorder that was killed did not count what it lost.
    pub lost_known: bool,
    /// Share of samples whose address, or at least object, was found; null for sources without addresses.
    #[schemars(range(min = 0, max = 1))]
    pub resolved_share: Option<f64>,
    /// Asked rate, Hz per thread; null where none.
    #[schemars(range(min = 0))]
    pub hz: Option<f64>,
    /// Share of samples by way of resolution (`exact`, `next`, `object`, `near`, `compute`, …).
    #[schemars(transform = second_is_a_share)]
    pub resolution: Vec<(String, f64)>,
}

/// Of pairs of a name and a share.
fn second_is_a_share(schema: &mut Schema) {
    if let Some(share) = schema.pointer_mut("/items/prefixItems/1") {
        share["minimum"] = 0.into();
        share["maximum"] = 1.into();
    }
}

/// Share of samples at a distance.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DistanceShare {
    /// How far.
    pub class: DistanceClass,
    /// Share, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}

/// A thread's samples by node of the page.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Kernel thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Position in creation order.
    pub index: u32,
    /// Node it is taken to run on (kernel number).
    pub node: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Share of all samples by node of the page, in the order of `machine.node_ids`.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub by_page_node: Vec<f64>,
    /// Cpus it was seen on.
    pub cpus: usize,
    /// Times that consecutive samples were on different cpus: migrations, at least.
    pub migrations: u64,
    /// Share of its own samples that wait for another thread in a runtime's loop. Null without samples.
    #[schemars(range(min = 0, max = 1))]
    pub waiting_share: Option<f64>,
}

/// A function's share.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionRow {
    /// Name.
    pub function: String,
    /// Module path.
    pub module: Option<String>,
    /// Share of all samples, itself only.
    #[schemars(range(min = 0, max = 1))]
    pub stall_share: f64,
    /// Remote, of those whose page's node is known.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// Share of all samples, in its loops that wait for other threads (spinning).
    #[schemars(range(min = 0, max = 1))]
    pub waiting_share: f64,
    /// Its lines from and to DRAM; null where lines are not what is counted.
    pub dram: Option<DramLines>,
    /// Its lines of code, most first.
    pub lines: Vec<UseRow>,
}

impl FunctionRow {
    /// Whether most of its time is waiting for other threads: no page is far there.
    pub fn waits(&self) -> bool {
        self.remote_share.is_none() && self.waiting_share > 0.5 * self.stall_share
    }
}

/// A path of calls that samples were taken in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallPath {
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Share of all samples that are remote, too.
    #[schemars(range(min = 0, max = 1))]
    pub remote: f64,
    /// The program's own functions, the innermost first: `work (main.c:20)`.
    pub frames: Vec<String>,
}
