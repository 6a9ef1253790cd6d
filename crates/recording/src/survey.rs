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
}

impl SampleSurvey {
    /// Adds samples, given their columns.
    pub fn add(&mut self, time_ns: &[u64], thread: &[u32]) {
        if let (Some(&low), Some(&high)) = (time_ns.iter().min(), time_ns.iter().max()) {
            self.first_ns = if self.samples == 0 { low } else { self.first_ns.min(low) };
            self.last_ns = self.last_ns.max(high);
            self.samples += time_ns.len() as u64;
        }
        let mut last = None;
        for &t in thread {
            // Rows of a thread come in runs and threads are few: this loop rarely searches.
            if last != Some(t)
                && let Err(at) = self.threads.binary_search(&t)
            {
                self.threads.insert(at, t);
            }
            last = Some(t);
        }
    }
}
