//! How much of an object threads use at a time, from how near to each other their samples of it lie.
//!
//! A large buffer may be used in little pieces, one after the other: a picture, a block to compress, a row. Its bytes
//! say nothing of what a cache has to hold, but the addresses of successive samples do: they are as near to each other
//! as what is in use at a time is small.

use super::hash::FastMap;
use nearfar_machine::LINE_BYTES;

/// Samples of a thread on an object that a sample is compared with.
const BEFORE: usize = 8;
/// Distances from which on their median is one. // chosen
const ENOUGH: u64 = 20;
/// Samples after which everything before is forgotten, so that the result does not depend on how samples were shared
/// out: begins of a segment's pieces are multiples of it.
pub const PIECE: usize = 1 << 16;

/// A thread's last samples of an object: address and time, ns.
#[derive(Clone, Debug, Default)]
struct Recent {
    samples: [(u64, u64); BEFORE],
    count: usize,
}

/// The last samples of each thread on each object.
#[derive(Debug, Default)]
pub struct Trail {
    recent: FastMap<(u32, u32), Recent>,
}

impl Trail {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.recent.clear();
    }

    /// Notes a sample of a (row, thread): the distance in bytes to the nearest of the last ones, and how long ago that
    /// one was, ns; `None` until there are enough of them.
    #[inline]
    pub fn step(&mut self, key: (u32, u32), address: u64, time: u64) -> Option<(u64, u64)> {
        let recent = self.recent.entry(key).or_default();
        let step = (recent.count >= BEFORE).then(|| {
            let all = recent.samples.iter().map(|&(a, t)| (a.abs_diff(address), time.saturating_sub(t)));
            all.min().unwrap_or_default()
        });
        recent.samples[recent.count % BEFORE] = (address, time);
        recent.count += 1;
        step
    }
}

/// How often numbers occurred, by their logarithm: a median is as exact as a bin is wide, a fifth.
#[derive(Clone, Debug, Default)]
struct Histogram {
    bins: Vec<u64>,
    count: u64,
}

/// Bins that a doubling takes.
const PER_DOUBLING: f64 = 4.0;

impl Histogram {
    fn add(&mut self, number: u64) {
        let bin = (number.max(1) as f64).log2() * PER_DOUBLING;
        let bin = bin as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
    }

    fn merge(&mut self, other: &Histogram) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(to, from)| *to += from);
        self.count += other.count;
    }

    /// The median; `None` of fewer than [`ENOUGH`].
    fn median(&self) -> Option<f64> {
        let mut below = 0;
        let bin = self.bins.iter().position(|n| {
            below += n;
            2 * below >= self.count
        })?;
        (self.count >= ENOUGH).then(|| 2f64.powf((bin as f64 + 0.5) / PER_DOUBLING))
    }
}

/// Steps of a node's threads on an object.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Distances to the nearest of the last samples, bytes.
    distance: Histogram,
    /// These distances over the time between, bytes a second.
    rate: Histogram,
}

impl Reach {
    /// Counts a step.
    #[inline]
    pub fn add(&mut self, (bytes, ns): (u64, u64)) {
        self.distance.add(bytes);
        self.rate.add((bytes as f64 * 1e9 / ns.max(1) as f64) as u64);
    }

    /// Adds another worker's steps.
    pub fn merge(&mut self, other: &Reach) {
        self.distance.merge(&other.distance);
        self.rate.merge(&other.rate);
    }

    /// Bytes that a thread has in use at a time: those over which samples at random would lie so near to each other.
    /// `None` with too few samples.
    ///
    /// Of `k` points anywhere in `S` bytes, none lies nearer than `d` to another with probability (1 − 2d/S)^k, apart
    /// from the ends; at the median that is one half.
    pub fn in_use(&self) -> Option<f64> {
        let median = self.distance.median()?;
        let nearest = (1.0 - 0.5f64.powf(1.0 / BEFORE as f64)) / 2.0;
        Some(median / nearest)
    }

    /// Part of the time that goes to memory if each line is fetched when a thread comes to it, one after the other, and
    /// stays in a cache while the thread is near: how fast threads move on times what a line takes, `ns`.
    pub fn fetching(&self, ns: f64) -> Option<f64> {
        let median = self.rate.median()?;
        Some(median / LINE_BYTES as f64 * ns / 1e9)
    }
}
