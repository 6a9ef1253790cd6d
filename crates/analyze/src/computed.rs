//! What of the samples on far pages loops of known speed may have computed.
//!
//! A sample on an instruction that accesses far memory is time of that instruction, and no more. How long an iteration took is known from
//! the samples ([`super::native`]), and what it takes at most where no access waits is known from its code. So of the
//! time that a thread was in a loop, that part at most is not waiting, and it may all be of the samples on far pages:
//!
//! ```text
//! all · most / iteration
//! ```
//!
//! An instruction, too, has its time: the part of the loop's samples that blame it, times the iteration. A core ends instructions in their order, so
//! what it takes once all before it are done is at most its own latency with the data in the first-level cache, whatever else the
//! loop has in it: branches, divisions, calls. Of the samples that blame it, no more than that is not waiting:
//!
//! ```text
//! all · hit / iteration
//! ```
//!
//! What is left of a loop's far samples waits for certain: for a cache ([`super::held`]), for memory, or for another thread's line. A sample that
//! blames no instruction may be computing, whichever object it is counted for.
//!
//! Of code whose speed is not known (calls, short loops, branches between two samples), all far samples may be computing: a load that a
//! first-level cache answers is time of its instruction, too. `sort` goes through 50 MB, and 98.5 % of its accesses hit that cache. But an
//! instruction that has nearly all samples of its loop waits, at whatever speed ([`super::blame`]).

use super::blame::Waiting;
use super::bounds::Bounds;
use super::context::Context;
use super::counters::Counters;
use super::hash::{FastMap, FastSet};
use super::held::{Held, LEAST};
use super::native::Native;
use super::object_rows::RowUse;
use super::thresholds::WORTH;
use super::value::{Basis, MayCompute};
use nearfar_recording::NONE;
use std::collections::BTreeMap;

/// Part of an object's far samples of which it is open whether they waited for memory, from which on it is not a finding, unless the
/// rest is enough for one. // chosen
const MOSTLY: f64 = 0.5;

/// Part of them all that an object must have to be named. // chosen
const NAMED: f64 = 0.05;

/// Samples on far pages that may not have waited for memory: what caches may have held, and what may have computed.
#[derive(Debug, Default)]
pub struct Open {
    /// Share of the time.
    pub share: f64,
    /// Rows that are not findings for it.
    pub rows: FastSet<usize>,
    /// What may have computed, for the report; `None` if that is hardly any of the time.
    pub computed: Option<MayCompute>,
}

impl Open {
    /// Both together. `cached`: the program fits a cache as a whole, so that another bound holds.
    pub fn new(
        context: &Context,
        counters: &Counters,
        row_uses: &[RowUse],
        waiting: &Waiting,
        held: Option<&Held>,
        bounds: &Bounds,
        cached: bool,
    ) -> Open {
        if context.measure.basis != Basis::StallTime || context.finder.nodes.count < 2 || cached {
            return Open::default();
        }
        let time = counters.working.weight.max(1) as f64;
        let mut computed = Computed::new(context.native, counters);
        if computed.far / time < LEAST {
            computed = Computed { timed_by_row: computed.timed_by_row, ..Computed::default() };
        }
        // Of each row, what is not in loops of known speed and does not wait in others; next to nothing of the time is left alone, as above.
        let timed =
            |row: u32| computed.timed_by_row.get(&row).copied().unwrap_or(0) + waiting.far(row) as u64;
        // Nor of what excerpts say that it cannot wait.
        let settled = |row: u32| bounds.settled.get(&row).copied().unwrap_or(0.0) as u64;
        let mut untimed: Vec<u64> = row_uses
            .iter()
            .map(|f| f.remote.saturating_sub(timed(f.row as u32) + settled(f.row as u32)))
            .collect();
        let untimed_of_all = untimed.iter().sum::<u64>() as f64;
        let told = context.native.knows_speeds() && untimed_of_all / time >= LEAST;
        let untimed_of_all = if told { untimed_of_all } else { 0.0 };
        untimed.iter_mut().filter(|_| !told).for_each(|weight| *weight = 0);
        let mut open = Open::default();
        let mut named: Vec<(f64, usize)> = Vec::new();
        let mut of_rows = computed.by_row.get(&NONE).copied().unwrap_or(0.0);
        for (at, f) in row_uses.iter().enumerate() {
            let row = f.row as u32;
            let may_compute = computed.by_row.get(&row).copied().unwrap_or(0.0);
            let untimed = untimed[at] as f64;
            let may_be_held = held.and_then(|h| h.far.get(&row)).copied().unwrap_or(0) as f64;
            let may = f.remote.saturating_sub(settled(row)) as f64;
            let both = (may_compute + may_be_held).min(may);
            of_rows += (both + untimed).min(may);
            let both = both + settled(row) as f64;
            let certain = (f.remote as f64 - both) / time;
            if both > 0.0 && both >= MOSTLY * f.remote as f64 && certain < WORTH {
                open.rows.insert(f.row);
            }
            if may_compute + untimed > 0.0 {
                named.push((may_compute + untimed, at));
            }
        }
        named.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let all: f64 = named.iter().map(|n| n.0).sum();
        named.retain(|n| n.0 >= NAMED * all);
        open.share = (of_rows / time).clamp(0.0, 1.0);
        let far = computed.far + untimed_of_all;
        open.computed = (far > 0.0).then(|| MayCompute {
            far_share: (far / time).min(1.0),
            untimed_share: (untimed_of_all / time).min(1.0),
            objects: named.iter().map(|&(_, at)| row_uses[at].name.clone()).collect(),
        });
        open
    }
}

/// Weights of samples on far pages that may be computing.
#[derive(Clone, Debug, Default)]
struct Computed {
    /// Of all rows.
    far: f64,
    /// By row.
    by_row: FastMap<u32, f64>,
    /// By row: all samples on far pages in loops of known speed, computing or waiting.
    timed_by_row: FastMap<u32, u64>,
}

impl Computed {
    /// From the samples in loops of known speed.
    fn new(native: &Native, counters: &Counters) -> Computed {
        // Sums of floating-point numbers depend on the order.
        let mut loops: BTreeMap<(u32, u32), BTreeMap<u32, BTreeMap<u32, u64>>> = BTreeMap::new();
        for (&(thread, loop_id, operand, row), &far) in &counters.far_in_loops {
            let rows = loops.entry((thread, loop_id)).or_default().entry(operand).or_default();
            *rows.entry(row).or_default() += far;
        }
        let mut computed = Computed::default();
        for (&(thread, loop_id), operands) in &loops {
            let Some(pace) = native.pace_of(thread, loop_id) else { continue };
            for (&row, &far) in operands.values().flatten() {
                *computed.timed_by_row.entry(row).or_default() += far;
            }
            let all = counters.spent.loops.get((thread, loop_id)).copied().unwrap_or(0) as f64;
            // Where an outer loop goes through blocks several times, the position moves slower than iterations pass, and an
            // iteration looks longer than it is: then what is known of single instructions is not certain.
            let own = pace.own_ns.unwrap_or(pace.iteration_ns);
            let part = |ns: f64| (ns / own).min(1.0);
            let most = all * part(pace.most_ns);
            let mut rows: BTreeMap<u32, f64> = BTreeMap::new();
            for (&operand, far_by_row) in operands {
                let far = far_by_row.values().sum::<u64>() as f64;
                let hit = native.hit_ns(loop_id, operand).filter(|_| pace.own_ns.is_some());
                let hit = hit.map_or(far, |ns| all * part(ns * pace.changes));
                let part = (hit / far.max(1.0)).min(1.0);
                for (&row, &far) in far_by_row {
                    *rows.entry(row).or_default() += part * far as f64;
                }
            }
            // What may be any row's is each one's in proportion.
            let all_rows: f64 = rows.values().sum();
            let together = all_rows.min(most);
            computed.far += together;
            for (row, may) in rows {
                *computed.by_row.entry(row).or_default() += may * together / all_rows.max(1.0);
            }
        }
        computed
    }
}
