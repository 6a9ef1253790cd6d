//! What is counted of one place in the code.

use crate::stats::Sum;

/// A line's use of a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineUse {
    /// All samples.
    pub sum: Sum,
    /// Weight whose page's node is known.
    pub known: u64,
    /// Weight that is remote.
    pub remote: u64,
    /// Weight in loops that wait for other threads.
    pub waits: u64,
    /// Samples that store.
    pub stores: u64,
    /// Those of them on pages that another thread touched first, at whatever line.
    pub stores_to_others: u64,
}

impl LineUse {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, weight: u64, known: bool, remote: bool, store: bool) {
        self.sum.add(weight);
        self.known += if known { weight } else { 0 };
        self.remote += if remote { weight } else { 0 };
        self.stores += u64::from(store);
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &LineUse) {
        self.sum.merge(&other.sum);
        self.known += other.known;
        self.remote += other.remote;
        self.waits += other.waits;
        self.stores += other.stores;
        self.stores_to_others += other.stores_to_others;
    }
}
