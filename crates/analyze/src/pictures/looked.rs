//! Pages × time: on which nodes an object's pages were at each look, and which parts had moved since the one before.

use super::bands::Clock;
use super::strips::{Parts, Used, runs};
use crate::context::Context;
use crate::space::page_range;
use crate::value::{LookRow, PagesOverTime};
use nearfar_recording::Columns;
use std::collections::BTreeMap;

/// Parts of an object's addresses, and looks that are distinguished: later ones of a slot of the run join the first.
const BINS: usize = 64; // chosen
const SLOTS: usize = 40; // chosen
/// Most looks that are gone through; what is beyond is left out, and a recording has seldom as many. // chosen
const LOOKS: usize = 4_000_000;

/// An object with one range of pages.
struct Range {
    space: u32,
    from: u64,
    to: u64,
    born: u64,
    died: u64,
    /// Position among the strips.
    strip: usize,
    bins: usize,
    slots: BTreeMap<usize, (u64, Vec<Parts>)>,
}

/// For each strip, what looks at different times saw; `None` where there was one time or none, and for rows of several
/// allocations.
pub(super) fn over_time(context: &Context, used: &[Used], clock: &Clock) -> Vec<Option<PagesOverTime>> {
    let h = &context.input.page_nodes;
    let page = context.finder.placements.page_bytes;
    let mut none: Vec<Option<PagesOverTime>> = used.iter().map(|_| None).collect();
    let (Some(&first), Some(&last)) = (h.time_ns.iter().min(), h.time_ns.iter().max()) else { return none };
    // On an assumed machine the looks are at another one's nodes.
    if context.finder.nodes.assumed || first == last {
        return none;
    }
    let mut ranges: Vec<Range> =
        used.iter().enumerate().filter_map(|(strip, u)| range(context, page, strip, u)).collect();
    ranges.sort_by_key(|r| (r.space, r.from));
    // Ranges may follow one another at the same addresses: no end before is larger than this.
    let longest = ranges.iter().map(|r| r.to - r.from).max().unwrap_or(0);
    for i in 0..h.len().min(LOOKS) {
        if h.node[i] < 0 || h.pages[i] == 0 {
            continue;
        }
        let (time, stride) = (h.time_ns[i], h.stride[i].max(page));
        let space = context.finder.spaces.position(h.process[i]);
        let begin = h.address[i] / page * page;
        let end = begin.saturating_add(u64::from(h.pages[i] - 1).saturating_mul(stride)).saturating_add(page);
        let from = ranges.partition_point(|r| (r.space, r.from) < (space, begin.saturating_sub(longest)));
        for r in ranges[from..].iter_mut().take_while(|r| r.space == space && r.from < end) {
            if r.to <= begin || time < r.born || time > r.died {
                continue;
            }
            let slot = ((time - first) as f64 / (last - first) as f64 * (SLOTS as f64 - 1.0)) as usize;
            let (bytes, bins) = ((r.to - r.from).max(1), r.bins);
            let slot = r.slots.entry(slot).or_insert_with(|| (time, vec![Parts::default(); bins]));
            let bin_of = |address: u64| ((address - r.from) as f64 / bytes as f64 * bins as f64) as usize;
            let (a, b) = (begin.max(r.from), end.min(r.to));
            for bin in bin_of(a)..=bin_of(b - 1).min(bins - 1) {
                let edge = |bin: usize| r.from + (bytes as f64 * bin as f64 / bins as f64) as u64;
                let (low, high) = (edge(bin).max(a), edge(bin + 1).min(b));
                let until = |x: u64| (x - begin).div_ceil(stride);
                let pages = until(high.max(low)) - until(low);
                if pages > 0 {
                    slot.1[bin].add(context.finder.nodes.position(h.node[i]), pages as f64);
                }
            }
        }
    }
    // Of one look the ranges may come one after the other: without a part that was looked at twice there is no history.
    let twice =
        |r: &Range| (0..r.bins).any(|bin| r.slots.values().filter(|s| s.1[bin].main().is_some()).count() > 1);
    for r in ranges.into_iter().filter(twice) {
        let mut rows: Vec<LookRow> = Vec::new();
        let mut before: Vec<Option<u8>> = vec![None; r.bins];
        for (time, parts) in r.slots.values() {
            let mut moved = Vec::new();
            for (bin, now) in parts.iter().map(Parts::main).enumerate().filter(|b| b.1.is_some()) {
                if before[bin].is_some() && before[bin] != now {
                    moved.push(bin);
                }
                before[bin] = now;
            }
            rows.push(LookRow { at_s: clock.seconds(*time), node: runs(context, parts), moved });
        }
        none[r.strip] = Some(PagesOverTime { bins: r.bins, looks: rows });
    }
    none
}

fn range(context: &Context, page: u64, strip: usize, used: &Used) -> Option<Range> {
    let row = &context.rows.rows[used.row_use.row];
    let &[id] = &row.things[..] else { return None };
    if row.is_area() {
        return None;
    }
    let thing = context.finder.spaces.things.get(id);
    let (first, end) = page_range(&thing, page);
    let bins = 1 << ((end - first) as usize).clamp(1, BINS).ilog2();
    let (from, to) = (first * page, end * page);
    let (space, born, died) = (thing.space, thing.born, thing.died);
    (to > from).then(|| Range { space, from, to, born, died, strip, bins, slots: BTreeMap::new() })
}
