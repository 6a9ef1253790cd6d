//! Lines that nodes take from each other.

use crate::hash::FastMap;
use crate::nodes::NodeIndex;

/// How a thread uses a line that nodes take from each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    /// Times that the line was taken, as samples stand for them.
    pub lines: u64,
    /// Of these, to be written.
    pub stored: u64,
    /// Of these, by a runtime's code.
    pub by_runtime: u64,
    /// Accesses while cores took it from each other all the time: plain ones that write.
    pub written: u64,
    /// The same: those that lock it.
    pub locked: u64,
    /// Samples of all of these.
    pub samples: u64,
}

impl Takes {
    pub(super) fn merge(&mut self, other: &Takes) {
        self.lines += other.lines;
        self.stored += other.stored;
        self.by_runtime += other.by_runtime;
        self.written += other.written;
        self.locked += other.locked;
        self.samples += other.samples;
    }

    /// Counted accesses that write.
    pub fn writes(&self) -> u64 {
        self.written + self.locked
    }
}

/// The takers of a line, by thread, byte in the line and node.
pub type LineUsers = FastMap<(u32, u8, NodeIndex), Takes>;
