//! Why no cause is named although much of the time is on far memory.
//!
//! "Too many objects" is one reason of several: one object may have all of it, and too few samples to be certain.

use super::value::Interval;
use nearfar_figures::percent::{ends, percent};

/// The cause with most at risk of those that are not certain enough to be a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Unnamed {
    /// The object that has most of it.
    pub object: String,
    /// How many more objects have the same cause.
    pub others: usize,
    /// Share of the time, or of the lines, that is on far memory because of it.
    pub at_risk: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Samples on far memory.
    pub samples: u64,
    /// What was needed: a lower end of the interval.
    pub least: f64,
    /// And samples.
    pub least_samples: u64,
}

impl Unnamed {
    /// The sentence's end: `…, but ` and this. `what` is what shares are of: `of the time`.
    pub fn why(&self, what: &str) -> String {
        let object = match self.others {
            0 => self.object.clone(),
            n => format!("{} and {n} more placed by the same cause", self.object),
        };
        if self.samples < self.least_samples {
            return format!(
                "only {} samples are on far pages of {object}, too few to name a cause ({} are needed): record longer or \
                 with a higher rate (-F).",
                self.samples, self.least_samples
            );
        }
        let [low, high] = ends(self.interval.low, self.interval.high);
        format!(
            "no cause is certain: {} {what} is on far pages of {object}, and the 95 % interval of that ({low} to {high}) begins \
             below the {} that a cause needs: record longer or with a higher rate (-F).",
            percent(self.at_risk),
            percent(self.least)
        )
    }
}
