//! What each part of the run spends its time on: by function, thread and pair of nodes. Objects have their own blocks.

use super::hash::Sums;
use super::nodes::{NodeIndex, UNKNOWN};
use super::stats::BLOCKS;

/// Weight of samples on near pages, on far pages, on what is neither known to be near nor far, and of threads that
/// wait for others.
pub type Parts = [u64; 4];

/// Most threads that are followed over time. // chosen: a thread that is seen in all blocks takes 15 kB
pub const MOST_THREADS: usize = 2048;
/// Most nodes of which each pair is followed over time. // chosen: 400 kB for each worker of the pass
pub const MOST_NODES: usize = 16;

/// Sums by block of time. All integers: the order in which samples come does not matter.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    /// Everything, by block.
    pub all: Vec<Parts>,
    /// By (function's site, block).
    pub functions: Sums<(u32, u32), Parts>,
    /// By (function's site, node of the thread).
    pub by_node: Sums<(u32, NodeIndex), Parts>,
    /// By (function's site, thread); empty with more than [`MOST_THREADS`] threads.
    pub by_thread: Sums<(u32, u32), Parts>,
    /// By (thread, block, cpu); empty with more than [`MOST_THREADS`] threads.
    pub threads: Sums<(u32, u32, u16), Parts>,
    /// By block, node of the thread and node of the page; empty with more than [`MOST_NODES`] nodes.
    pub matrix: Vec<u64>,
    /// Changes of cpu between consecutive samples of a thread, by block: at least so many.
    pub migrations: Vec<u64>,
    /// By epoch of an emulated machine: when its samples were recorded.
    pub clock: Sums<u32, Recorded>,
    follow: bool,
    nodes: usize,
}

/// First and last time of some samples, ns.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// The first; the largest number there is where there are none.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Default for Recorded {
    fn default() -> Self {
        Recorded { first: u64::MAX, last: 0 }
    }
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its block of time.
    pub block: usize,
    /// The epoch of an emulated machine that it is of, if that says its block.
    pub epoch: Option<u32>,
    /// Its weight.
    pub weight: u64,
    /// Position in [`Parts`].
    pub kind: usize,
    /// The function's site.
    pub function: u32,
    /// The thread; `None` if it is not known.
    pub thread: Option<usize>,
    /// Its cpu.
    pub cpu: u16,
    /// Node of the thread.
    pub from: NodeIndex,
    /// Node of the page; [`UNKNOWN`] unless it touches memory of a known node.
    pub page_node: NodeIndex,
}

impl OverTime {
    /// Nothing yet.
    pub fn new(threads: usize, nodes: usize) -> OverTime {
        let pairs = if nodes <= MOST_NODES { nodes * nodes } else { 0 };
        OverTime {
            all: vec![Parts::default(); BLOCKS],
            matrix: vec![0; pairs * BLOCKS],
            migrations: vec![0; BLOCKS],
            follow: threads <= MOST_THREADS,
            nodes,
            ..OverTime::default()
        }
    }

    /// Counts a sample.
    #[inline]
    pub fn add(&mut self, time_ns: u64, seen: Seen) {
        let Seen { block, weight, kind, .. } = seen;
        self.all[block][kind] += weight;
        if let Some(epoch) = seen.epoch {
            let recorded = self.clock.of(epoch);
            *recorded = Recorded { first: recorded.first.min(time_ns), last: recorded.last.max(time_ns) };
        }
        self.functions.of((seen.function, block as u32))[kind] += weight;
        self.by_node.of((seen.function, seen.from))[kind] += weight;
        if let Some(thread) = seen.thread.filter(|_| self.follow) {
            self.by_thread.of((seen.function, thread as u32))[kind] += weight;
            self.threads.of((thread as u32, block as u32, seen.cpu))[kind] += weight;
        }
        if seen.from != UNKNOWN && seen.page_node != UNKNOWN && !self.matrix.is_empty() {
            let pair = usize::from(seen.from) * self.nodes + usize::from(seen.page_node);
            self.matrix[block * self.nodes * self.nodes + pair] += weight;
        }
    }

    /// Adds another worker's sums.
    pub fn merge(&mut self, other: OverTime) {
        let parts = |to: &mut Parts, from: &Parts| to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
        self.all.iter_mut().zip(&other.all).for_each(|(to, from)| parts(to, from));
        for (key, from) in other.functions {
            parts(self.functions.of(key), &from);
        }
        for (key, from) in other.by_node {
            parts(self.by_node.of(key), &from);
        }
        for (key, from) in other.by_thread {
            parts(self.by_thread.of(key), &from);
        }
        for (key, from) in other.threads {
            parts(self.threads.of(key), &from);
        }
        self.matrix.iter_mut().zip(&other.matrix).for_each(|(to, from)| *to += from);
        self.migrations.iter_mut().zip(&other.migrations).for_each(|(to, from)| *to += from);
        for (epoch, from) in other.clock {
            let to = self.clock.of(epoch);
            *to = Recorded { first: to.first.min(from.first), last: to.last.max(from.last) };
        }
    }
}
