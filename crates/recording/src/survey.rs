//! What has to be known of the samples before they are read.

use serde::{Deserialize, Serialize};

/// Which threads were sampled and when: threads are mapped to nodes by it, and time is cut
/// into blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSurvey {
    /// Number of samples.
    pub samples: u64,
    /// Time of the first, ns.
    pub first_ns: u64,
    /// Time of the last, ns.
    pub last_ns: u64,
    /// Ids of the threads that have samples, ascending.
    pub threads: Vec<u32>,
    /// Of each of them: how many samples, and when. Empty in recordings that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Seen>,
}

/// When a thread was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of its samples.
    pub samples: u64,
    /// Time of the first, ns.
    pub first_ns: u64,
    /// Time of the last, ns.
    pub last_ns: u64,
}

impl SampleSurvey {
    /// Adds samples, given their columns.
    pub fn add(&mut self, time_ns: &[u64], thread: &[u32]) {
        if let (Some(&low), Some(&high)) = (time_ns.iter().min(), time_ns.iter().max()) {
            self.first_ns = if self.samples == 0 { low } else { self.first_ns.min(low) };
            self.last_ns = self.last_ns.max(high);
            self.samples += time_ns.len() as u64;
        }
        // Where the thread of the row before is.
        let mut at = 0;
        for (&t, &time) in thread.iter().zip(time_ns) {
            // Rows of a thread come in runs and threads are few: this loop rarely searches.
            if self.threads.get(at) != Some(&t) {
                at = self.threads.binary_search(&t).unwrap_or_else(|new| {
                    self.threads.insert(new, t);
                    self.seen.insert(new, Seen { samples: 0, first_ns: time, last_ns: time });
                    new
                });
            }
            let seen = &mut self.seen[at];
            seen.samples += 1;
            seen.first_ns = seen.first_ns.min(time);
            seen.last_ns = seen.last_ns.max(time);
        }
    }
}
