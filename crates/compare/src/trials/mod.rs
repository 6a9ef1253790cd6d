//! Runs of one command under several placements: what each was like, and whether placement hurts.
//!
//! Native runs come in rounds: each round has one run of each placement, in an order drawn at random. Placements
//! are compared within rounds, so that a machine that gets slower during an hour, or a neighbour that comes
//! and goes, changes both sides alike. Runs on an emulated machine are timed by the model instead; there the
//! comparison carries the range of all pairs of runs (threads do not meet at the same moment each time), of five rounds or more
//! without the outermost, and of what the machine's figures allow.

mod judge;
pub mod rank;

pub use judge::{EFFECT, gain, judge, value};

use nearfar_analyze::stats::{bootstrap_interval, median, median_interval, resampled_median};
use serde::{Deserialize, Serialize};

/// Whether NUMA hurts the program as it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hurts {
    /// A placement is faster than none.
    Harmful,
    /// No placement tried is faster by [`EFFECT`] or more, and all nodes do about as much more than one as they
    /// have more cpus.
    Harmless,
    /// Neither can be said.
    Unknown,
}

/// What a placement changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing: the command as it is.
    AsIs,
    /// One node for threads and memory: no far memory, fewer cpus.
    OneNode,
    /// Pages in turns on all nodes.
    Interleave,
    /// Single objects where a placement file says.
    Objects,
    /// Threads that stay where they are, and near their memory with it.
    Pinned,
    /// A copy of the command on each node.
    Copies,
    /// AutoNUMA.
    Balancing,
    /// Huge pages: paging, not NUMA; never a reason to call NUMA harmful.
    HugePages,
}

/// What is measured of each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Where it comes from: `wall time`, `simulated time`, or the regular expression.
    pub source: String,
    /// Its unit as the program prints it; empty if it prints none.
    pub unit: String,
    /// Whether less is better, as of times.
    pub less_is_better: bool,
}

/// The runs of the command under one placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its short name, unique.
    pub name: String,
    /// What it sets, in words.
    pub what: String,
    /// The flags of `nearfar run` that set the same; empty if there are none.
    pub run: String,
    /// What it changes.
    pub kind: Kind,
    /// One per round, in the metric's unit; `None` where a run gave no value.
    pub values: Vec<Option<f64>>,
    /// Of each modelled value the lower and upper end that the machine's figures allow; empty where values
    /// are measured.
    pub ranges: Vec<(f64, f64)>,
    /// Cpus that it may use; 0 if that is not known.
    pub cpus: usize,
    /// Cpus in use on average (CPU time by wall time), or threads of an emulated run; of the runs with a value.
    pub busy: Vec<f64>,
    /// Why runs gave no value, of the first that did not.
    pub failed: Option<String>,
    /// What was placed of single objects in its first run, a line each.
    #[serde(default)]
    pub placed: Vec<String>,
}

/// A placement that was not tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotTried {
    /// Its name.
    pub name: String,
    /// Why not, and what would allow it.
    pub why: String,
}

/// All runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The machine's name.
    pub machine: String,
    /// The flags that emulate it; `None` if the command ran on the machine itself. Emulated times are modelled.
    pub on: Option<String>,
    /// What is measured.
    pub metric: Metric,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// Value of the run before the first round, which does not count.
    pub warm_up: Option<f64>,
    /// Seed of the order within rounds.
    pub seed: u64,
    /// Whether it was stopped before all rounds were done.
    pub interrupted: bool,
    /// The first is the command as it is.
    pub trials: Vec<Trial>,
    /// What was left out.
    pub not_tried: Vec<NotTried>,
}

/// By how much something is faster, as a part of the other: 0.05 is 5 % more work in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Best estimate.
    pub estimate: f64,
    /// Lower end: of the 95 % interval, or of what the model's figures allow.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a placement was like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The trial's name.
    pub name: String,
    /// What it sets.
    pub what: String,
    /// The flags of `nearfar run` that set the same; empty if there are none.
    pub run: String,
    /// What it changes.
    pub kind: Kind,
    /// Median of the runs; `None` if none gave a value.
    pub median: Option<f64>,
    /// Lower end of the median's 95 % bootstrap interval; of a modelled time, of its range.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The metric's unit.
    pub unit: String,
    /// Runs with a value.
    pub runs: usize,
    /// Rounds (from 0) whose value is far from the others (modified z-score above 3.5: Iglewicz and
    /// Hoaglin 1993). They count: an outlier may be the finding.
    pub outliers: Vec<usize>,
    /// Against the command as it is; `None` for that itself, or if it cannot be said.
    pub gain: Option<Gain>,
    /// What that means, in words.
    pub words: String,
    /// Why runs gave no value.
    pub failed: Option<String>,
}

/// The verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Whether NUMA hurts.
    pub verdict: Hurts,
    /// In a sentence or two.
    pub why: String,
    /// In the order of the trials.
    pub placements: Vec<Placed>,
}

impl Trials {
    /// Whether times are modelled.
    pub fn simulated(&self) -> bool {
        self.on.is_some()
    }
}

impl Trial {
    /// The values that there are.
    pub fn known(&self) -> Vec<f64> {
        self.values.iter().copied().flatten().collect()
    }

    /// Of each modelled run the value by the figures as they are, and by their lower and upper ends.
    fn modelled(&self) -> impl Iterator<Item = [f64; 3]> {
        self.known().into_iter().zip(&self.ranges).map(|(value, range)| [value, range.0, range.1])
    }

    /// Median and its interval.
    pub fn summary(&self) -> Option<(f64, f64, f64)> {
        let values = self.known();
        if values.is_empty() {
            return None;
        }
        let (low, high) = match self.ranges.iter().copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            Some(range) => range,
            None => median_interval(&values)?,
        };
        Some((median(&values)?, low, high))
    }

    /// Rounds whose value is far from the others.
    pub fn outliers(&self) -> Vec<usize> {
        /// Of the modified z-score, and the factor that makes it one standard deviation of a normal
        /// distribution (Iglewicz and Hoaglin 1993, How to Detect and Handle Outliers).
        const FAR: f64 = 3.5;
        const TO_SIGMA: f64 = 0.6745;
        let values = self.known();
        let Some(middle) = median(&values) else { return Vec::new() };
        let spread = median(&values.iter().map(|v| (v - middle).abs()).collect::<Vec<_>>());
        let Some(spread) = spread.filter(|spread| *spread > 0.0) else { return Vec::new() };
        let far = |v: &f64| TO_SIGMA * (v - middle).abs() / spread > FAR;
        let of_round = self.values.iter().enumerate();
        of_round.filter(|(_, v)| v.as_ref().is_some_and(far)).map(|(round, _)| round).collect()
    }
}

/// A placement then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The placement's name.
    pub name: String,
    /// Median then, in the metric's unit.
    pub then: f64,
    /// Median now.
    pub now: f64,
    /// By how much it is faster now; `None` if either has fewer than [`FEWEST`] runs. The runs are not in
    /// common rounds, so a machine that has changed meanwhile changes this too.
    pub gain: Option<Gain>,
}

/// Runs from which a bootstrap interval of a median is printed: of fewer it is far too narrow.
pub const FEWEST: usize = 6;

/// What has changed since `then`, placement by placement.
///
/// # Errors
/// If the two are of different metrics; in words.
pub fn against(now: &Trials, then: &Trials) -> Result<Vec<Change>, String> {
    if now.metric != then.metric || now.simulated() != then.simulated() {
        let of = |t: &Trials| format!("{} in {}", t.metric.source, t.metric.unit);
        return Err(format!("that one has {}, this one {}", of(then), of(now)));
    }
    let pairs = now.trials.iter().filter_map(|n| Some((n, then.trials.iter().find(|t| t.name == n.name)?)));
    let changes = pairs.filter_map(|(now_trial, then_trial)| {
        let (a, b) = (then_trial.known(), now_trial.known());
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let enough = a.len() >= FEWEST && b.len() >= FEWEST;
        let gain = enough.then(|| ratio_interval(&a, &b, now.metric.less_is_better)).flatten();
        Some(Change { name: now_trial.name.clone(), then: median(&a)?, now: median(&b)?, gain })
    });
    Ok(changes.collect())
}

/// Of two independent sets of runs: the ratio of medians with its 95 % bootstrap interval.
fn ratio_interval(then: &[f64], now: &[f64], less_is_better: bool) -> Option<Gain> {
    let ratio = |a: f64, b: f64| if less_is_better { a / b } else { b / a } - 1.0;
    let (low, high) =
        bootstrap_interval(|random| ratio(resampled_median(then, random), resampled_median(now, random)));
    Some(Gain { estimate: ratio(median(then)?, median(now)?), low, high })
}
