//! Findings: what was found to cost time, why, and what a change brings.

use super::{FindingPhases, RepairPart};
use nearfar_figures::percent::{percent, range};
use schemars::JsonSchema;
use serde::Serialize;

/// Why it is so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cause {
    /// `file:line`; null if unknown.
    pub at: Option<String>,
    /// Function; null if unknown.
    pub function: Option<String>,
    /// In words.
    pub text: String,
    /// Processes in each of which one thread placed the pages; 0 if that is not the cause.
    pub processes: u32,
}

/// Predicted time after the repair over time before.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// Best guess.
    #[schemars(range(min = 0))]
    pub ratio: f64,
    /// Lower end.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// Upper end.
    #[schemars(range(min = 0))]
    pub high: f64,
}

impl Predicted {
    /// `85–97 % of the cores' time`: what goes with lines that cores take from each other, which has no best guess.
    pub fn of_cores(&self) -> String {
        let (least, most) = ((1.0 - self.high).max(0.0), 1.0 - self.low);
        let share = match least < 0.0005 {
            true => format!("up to {}", percent(most)),
            false => range(least, most),
        };
        format!("{share} of the cores' time")
    }
}

/// A cause with evidence and advice.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// `serial_first_touch`, `schedule_mismatch`, `allocator_placed_pages`, `huge_page_straddling`, `unpinned_threads`, `remote_unexplained`, …
    pub kind: String,
    /// Names of the objects it is about.
    pub objects: Vec<String>,
    /// The cause.
    pub cause: Cause,
    /// What was seen, a sentence each.
    pub evidence: Vec<String>,
    /// What to change, in words that fit this object and this pattern.
    pub advice: String,
    /// What to do with each of the objects: what the time model finds best, or, without counts, what fits how they
    /// are used. Empty if nothing helps.
    pub repairs: Vec<RepairPart>,
    /// Predicted time after these repairs over the time before; null with `predicted_why`. Of lines that caches take from each
    /// other, the cores' time without rivals over their time with them.
    pub predicted: Option<Predicted>,
    /// What it is predicted from; null without a prediction.
    pub predicted_from: Option<String>,
    /// The same if the repairs of all better-ranked findings are made first; null where that is not known, and where it
    /// is the same within 1 % of the time.
    pub predicted_after_better: Option<Predicted>,
    /// Why the prediction is missing.
    pub predicted_why: Option<String>,
    /// Share of all samples that are remote on these objects: what is at risk. Stall shares blame one of several overlapped loads, and lines are not time, so this is not a gain. Of lines that caches take from each other, the share of the cores' time that waits for them at most.
    #[schemars(range(min = 0, max = 1))]
    pub at_risk: f64,
    /// Which of the program's phases placed the pages, and which use them from other nodes. Null if the program names no
    /// phases, if fewer than 20 samples are on these pages, and of findings that are not about where memory is.
    pub phases: Option<FindingPhases>,
    /// 1 is first.
    pub rank: u32,
}

impl Finding {
    /// Whether it is about lines that caches take from each other, not about where memory lies.
    pub fn shares_lines(&self) -> bool {
        matches!(self.kind.as_str(), "false_sharing" | "contended_line")
    }
}
