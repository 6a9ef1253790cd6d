//! What a machine's caches held dirty before the counts began, and wrote back later: no one wrote that while lines were counted.

use super::stats::{SparseBlocks, Sum};

/// How often an object's own lines must fill all caches of the machine until nothing dirty is left in them of what was there
/// before. A line of a set of 16 ways in random order is pushed out by then in all but few cases; in use, one table was written
/// back until its lines had filled them 2.5 times. // chosen
const TURNS: f64 = 4.0;

/// Samples after that from which a share follows. // chosen: one of 2 % is known to a third of it
const ENOUGH: f64 = 500.0;

/// The share of an object's lines that are written back once its lines have filled all caches several times; `None` if that is
/// not known, or more was written back than caches can have held. `blocks`: of all its lines those written back, by time; `sum`: its
/// samples.
pub fn later_share(blocks: &SparseBlocks, sum: &Sum, cached_lines: f64) -> Option<f64> {
    let (mut fetched, mut back, mut later) = (0.0, 0.0, (0.0, 0.0));
    for block in blocks.all() {
        let (part, whole) = (block.part as f64, block.whole as f64);
        if fetched >= TURNS * cached_lines {
            later = (later.0 + part, later.1 + whole);
        }
        fetched += whole - part;
        back += part;
    }
    if cached_lines == 0.0 {
        return None;
    }
    let lines_per_sample = sum.weight as f64 / sum.samples.max(1) as f64;
    (back <= cached_lines && later.1 >= ENOUGH * lines_per_sample).then(|| later.0 / later.1)
}
