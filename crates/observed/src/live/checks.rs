//! Counters beside what they must have counted: a known load, what was seen of it, and what follows.
//!
//! Some counters are of one thread, and must be right to the tolerance. Others are of a cpu, a node or the whole system:
//! other programs add to them. These must have counted at least the load, and what they counted beyond it is compared
//! with what they count while no load runs.

use nearfar_machine::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// By how much a counter may be off before it is flagged. // the issue of the counters asks for it
pub const TOLERANCE: f64 = 0.10;

/// What is known of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Within the tolerance.
    Right,
    /// Off by more.
    Off,
    /// It cannot be told here.
    Unknown,
}

/// A counter and a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What counts: `page faults`, `instructions`, …
    pub counter: String,
    /// Where it is read.
    pub source: String,
    /// Node of the cpu that made the load.
    pub cpu_node: NodeId,
    /// Node of the memory that was loaded; null where none was.
    pub memory_node: Option<NodeId>,
    /// What the load is.
    pub load: String,
    /// What must be seen.
    pub expected: f64,
    /// What was seen, less what other programs do at most; null where nothing was read.
    pub seen: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// What follows.
    pub outcome: Outcome,
    /// Seen over expected, where both are known.
    pub factor: Option<f64>,
    /// Why it is unknown; empty otherwise.
    pub why: String,
    /// Columns of `nearfar top` that rest on it: `table.column`.
    pub columns: Vec<String>,
}

/// What else a counter may have counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Others {
    /// Nothing: it is of the one thread that made the load.
    None,
    /// As much as this, measured over the same time without the load.
    About(f64),
}

impl Check {
    /// Judges what was seen.
    pub fn judged(mut self, seen: Result<f64, String>, others: Others) -> Check {
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                (self.outcome, self.why) = (Outcome::Unknown, why);
                return self;
            }
        };
        let others = match others {
            Others::None => 0.0,
            Others::About(n) => n.max(0.0),
        };
        let own = seen - others;
        let (low, high) = (own / self.expected, seen / self.expected);
        let right = |factor: f64| (factor - 1.0).abs() <= TOLERANCE;
        // With all that others may have done, it is still too little: off. Without it, it is still too much: off.
        let (outcome, factor) = match () {
            () if right(low) => (Outcome::Right, low),
            () if high < 1.0 - TOLERANCE => (Outcome::Off, high),
            // Others may do twice as much in one second as in the one before.
            () if seen - 2.0 * others > self.expected * (1.0 + TOLERANCE) => (Outcome::Off, low),
            () => {
                self.why = format!(
                    "other programs counted about {:.0} in the same time, too much beside {:.0}: repeat it on a quiet machine",
                    others, self.expected
                );
                (Outcome::Unknown, low)
            }
        };
        (self.seen, self.outcome, self.factor) = (Some(own), outcome, Some(factor));
        self
    }
}

/// The checks of a machine, kept for `top` and `exporter`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The machine's name, and its processor.
    pub machine: String,
    /// When, as a timestamp.
    pub at: String,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Checked {
    /// Columns that rest on counters that are off, with a sentence each.
    pub fn flags(&self) -> BTreeMap<String, String> {
        let mut flags: BTreeMap<String, String> = BTreeMap::new();
        for check in self.checks.iter().filter(|c| c.outcome == Outcome::Off) {
            let of = match check.memory_node {
                Some(memory) => format!("cpus of node {} and memory of node {memory}", check.cpu_node),
                None => format!("cpus of node {}", check.cpu_node),
            };
            let factor = check.factor.map_or_else(|| "unknown".to_owned(), |f| format!("{f:.2}"));
            let say = format!(
                "{} is off by the factor {factor} for {of} (doctor --counters, {})",
                check.counter, self.at
            );
            for column in &check.columns {
                let text = flags.entry(column.clone()).or_default();
                if !text.is_empty() {
                    text.push_str("; ");
                }
                text.push_str(&say);
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        Check {
            counter: "page faults".into(),
            source: "stat".into(),
            cpu_node: 0,
            memory_node: Some(1),
            load: "touching 1000 pages".into(),
            expected: 1000.0,
            seen: None,
            unit: "faults".into(),
            outcome: Outcome::Unknown,
            factor: None,
            why: String::new(),
            columns: vec!["threads.faults".into()],
        }
    }

    #[test]
    fn a_counter_of_one_thread_is_right_within_the_tolerance() {
        let of = |seen| check().judged(Ok(seen), Others::None);
        assert_eq!(
            (of(1000.0).outcome, of(1090.0).outcome, of(910.0).outcome),
            (Outcome::Right, Outcome::Right, Outcome::Right)
        );
        assert_eq!((of(1200.0).outcome, of(1200.0).factor), (Outcome::Off, Some(1.2)));
        assert_eq!((of(0.0).outcome, of(0.0).factor), (Outcome::Off, Some(0.0)));
    }

    #[test]
    fn what_others_count_excuses_too_much_and_never_too_little() {
        let of = |seen, others| check().judged(Ok(seen), Others::About(others)).outcome;
        assert_eq!(of(1500.0, 480.0), Outcome::Right);
        assert_eq!(of(1500.0, 300.0), Outcome::Unknown);
        assert_eq!(of(3000.0, 300.0), Outcome::Off);
        assert_eq!(of(500.0, 300.0), Outcome::Off);
        assert_eq!(check().judged(Err("no PMU".into()), Others::None).outcome, Outcome::Unknown);
    }

    #[test]
    fn columns_are_flagged_only_by_counters_that_are_off() {
        let off = check().judged(Ok(2000.0), Others::None);
        let right = check().judged(Ok(1000.0), Others::None);
        let checked = Checked { machine: "m".into(), at: "2026".into(), checks: vec![right.clone(), off] };
        let flags = checked.flags();
        assert!(
            flags["threads.faults"].contains("the factor 2.00 for cpus of node 0 and memory of node 1"),
            "{flags:?}"
        );
        assert!(Checked { checks: vec![right], ..Checked::default() }.flags().is_empty());
        let json = serde_json::to_string(&checked).unwrap();
        assert_eq!(serde_json::from_str::<Checked>(&json).unwrap(), checked);
    }
}
