//! Where the time of a clock's samples went, thread by thread: in loops of known speed, and beside them on which memory. `estimate`
//! makes lines and times of it.

use super::hash::Sums;
use super::nodes::NodeIndex;
use nearfar_recording::NONE;

/// How many equal parts an object is divided into.
pub const PARTS: u64 = 64;
/// The part of a sample of which only the object is known.
pub const NO_PART: u8 = u8::MAX;

/// A part of an object on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// Its row; `NONE` if no object is known.
    pub row: u32,
    /// The object; `NONE` if none is known, and where a row has several: there may be a million.
    pub thing: u32,
    /// Which of [`PARTS`] of it, or [`NO_PART`].
    pub part: u8,
    /// Node of the page.
    pub page_node: NodeIndex,
}

impl Spot {
    /// Where nothing is known of.
    pub fn unknown(page_node: NodeIndex) -> Spot {
        Spot { row: NONE, thing: NONE, part: NO_PART, page_node }
    }
}

/// Sums of weights.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// By (thread, block of time): samples and weight while it worked.
    pub blocks: Sums<(u32, u32), [u64; 2]>,
    /// By (thread, loop of known speed).
    pub loops: Sums<(u32, u32), u64>,
    /// By (thread, loop of known speed, location of the blamed instruction, spot): samples that touch memory.
    pub operands: Sums<(u32, u32, u32, Spot), u64>,
    /// By (thread, spot, page of code that excerpts were in): samples that touch memory, outside of such loops.
    pub beside: Sums<(u32, Spot, u32), u64>,
    /// By page of code that excerpts were in: all samples.
    pub pages: Sums<u32, u64>,
}

impl Spent {
    /// Adds another worker's sums.
    pub fn merge(&mut self, other: Spent) {
        for (key, from) in other.blocks {
            let to = self.blocks.of(key);
            (0..2).for_each(|i| to[i] += from[i]);
        }
        other.loops.into_iter().for_each(|(key, from)| *self.loops.of(key) += from);
        other.operands.into_iter().for_each(|(key, from)| *self.operands.of(key) += from);
        other.pages.into_iter().for_each(|(key, from)| *self.pages.of(key) += from);
        other.beside.into_iter().for_each(|(key, from)| *self.beside.of(key) += from);
    }
}
