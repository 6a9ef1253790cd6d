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
    /// By (thread, block, cpu); empty with more than [`MOST_THREADS`] threads.
    pub threads: Sums<(u32, u32, u16), Parts>,
    /// By block, node of the thread and node of the page; empty with more than [`MOST_NODES`] nodes.
    pub matrix: Vec<u64>,
    /// Changes of cpu between consecutive samples of a thread, by block: at least so many.
    pub migrations: Vec<u64>,
    /// First and last recorded time of the samples of each block, in ns.
    pub clock: Vec<(u64, u64)>,
    follow: bool,
    nodes: usize,
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its block of time.
    pub block: usize,
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
    pub home: NodeIndex,
}

impl OverTime {
    /// Nothing yet.
    pub fn new(threads: usize, nodes: usize) -> OverTime {
        let pairs = if nodes <= MOST_NODES { nodes * nodes } else { 0 };
        OverTime {
            all: vec![Parts::default(); BLOCKS],
            matrix: vec![0; pairs * BLOCKS],
            migrations: vec![0; BLOCKS],
            clock: vec![(u64::MAX, 0); BLOCKS],
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
        let clock = &mut self.clock[block];
        *clock = (clock.0.min(time_ns), clock.1.max(time_ns));
        self.functions.of((seen.function, block as u32))[kind] += weight;
        if let Some(thread) = seen.thread.filter(|_| self.follow) {
            self.threads.of((thread as u32, block as u32, seen.cpu))[kind] += weight;
        }
        if seen.from != UNKNOWN && seen.home != UNKNOWN && !self.matrix.is_empty() {
            let pair = usize::from(seen.from) * self.nodes + usize::from(seen.home);
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
        for (key, from) in other.threads {
            parts(self.threads.of(key), &from);
        }
        self.matrix.iter_mut().zip(&other.matrix).for_each(|(to, from)| *to += from);
        self.migrations.iter_mut().zip(&other.migrations).for_each(|(to, from)| *to += from);
        for (to, from) in self.clock.iter_mut().zip(&other.clock) {
            *to = (to.0.min(from.0), to.1.max(from.1));
        }
    }
}
