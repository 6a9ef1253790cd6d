//! Lines that threads of several nodes use, from clock samples.

use crate::hash::FastMap;
use crate::nodes::{NodeIndex, UNKNOWN};

/// Lines that a worker remembers: 40 MB. Beyond, those with fewest samples are forgotten. // chosen
const MOST: usize = 1 << 20;

/// How one line is used.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    weight: u64,
    samples: u32,
    /// The node of the first user, and whether there are others.
    node: NodeIndex,
    several: bool,
    written: bool,
}

/// Samples of memory by line: whether nodes meet there.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    lines: FastMap<(u32, u64), Met>,
    /// Samples that a line needs to be remembered beyond [`MOST`].
    bar: u32,
}

impl Lines {
    /// Adds a sample on a line ([`crate::space::Spaces::line`]) by a thread of a node.
    pub fn add(&mut self, line: (u32, u64), node: NodeIndex, weight: u64, written: bool) {
        self.merge_one(line, Met { weight, samples: 1, node, several: false, written });
        self.forget(MOST);
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: Lines) {
        self.bar = self.bar.max(other.bar);
        for (line, met) in other.lines {
            self.merge_one(line, met);
        }
        self.forget(MOST);
    }

    fn merge_one(&mut self, line: (u32, u64), met: Met) {
        let to = self.lines.entry(line).or_insert(Met { node: met.node, ..Met::default() });
        to.weight += met.weight;
        to.samples = to.samples.saturating_add(met.samples);
        to.several |= met.several || to.node != met.node || met.node == UNKNOWN;
        to.written |= met.written;
    }

    /// Only lines with many samples are part of a share that matters.
    fn forget(&mut self, most: usize) {
        while self.lines.len() > most {
            self.bar += 1;
            let bar = self.bar;
            self.lines.retain(|_, met| met.samples > bar);
        }
    }

    /// Weight on lines that threads of several nodes use, and one was seen to write.
    pub fn between_nodes(&self) -> u64 {
        self.lines.values().filter(|met| met.several && met.written).map(|met| met.weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_meet_where_one_writes_and_another_uses() {
        let mut lines = Lines::default();
        // Read by both; written by one node only; written and read.
        lines.add((0, 1), 0, 10, false);
        lines.add((0, 1), 1, 10, false);
        lines.add((0, 2), 0, 10, true);
        lines.add((0, 2), 0, 10, true);
        assert_eq!(lines.between_nodes(), 0);
        lines.add((0, 3), 0, 10, true);
        let mut other = Lines::default();
        other.add((0, 3), 1, 30, false);
        // Another process's line of that address.
        other.add((1, 2), 1, 30, true);
        lines.merge(other);
        assert_eq!(lines.between_nodes(), 40);
    }

    #[test]
    fn what_was_sampled_once_is_forgotten_first() {
        let mut lines = Lines::default();
        (0..100).for_each(|line| lines.add((0, line), 0, 1, true));
        (0..10).for_each(|_| lines.add((0, 7), 1, 1, true));
        lines.forget(50);
        assert_eq!((lines.lines.len(), lines.between_nodes()), (1, 11));
    }
}
