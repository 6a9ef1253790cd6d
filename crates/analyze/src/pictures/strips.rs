//! Page strips: along an object's addresses, on which node its pages are, which threads touched them first, and which use them.
//!
//! The pass over samples counts (object, part of its addresses, node of the thread, node of the page); where an emulated
//! machine counted every line of every page, those counts replace the samples. Pages are looked at here, one by one as long
//! as they are few, else at random places: at regular ones, pages that are interleaved would all look alike.

use crate::context::Context;
use crate::counters::{self, Counters, Use};
use crate::hash::FastMap;
use crate::nodes::{NodeIndex, UNKNOWN};
use crate::object_rows::RowUse;
use crate::rows::Row;
use crate::space::Thing;
use crate::space::page_range;
use crate::value::{Pattern, Repair, RepairPart, Run, Strip, StripAxis, ThreadRun};
use nearfar_recording::{NONE, ObjectKind};

/// Parts of an object's addresses.
pub const BINS: usize = 256;
/// Objects that get a strip: the rest of the table is below anything that a reader opens. // chosen
pub const STRIPS: usize = 100;
/// Pages looked at per part: of the first strips, and of the others. // chosen
const LOOKED: (usize, usize, usize) = (24, 64, 8);
/// Parts of the others: all strips together stay below 3 MB, whatever is in them. // chosen
const COARSE: usize = 64;
/// Nodes named per part, most first; what is left is in none. // chosen
const NAMED: usize = 8;
/// Objects with more allocations are not gone through page by page. // chosen
const ALLOCATIONS: usize = 4096;

/// Where an address lies along its row, from 0 to 1: by its offset, or, where the row has several allocations, in the
/// order of allocation, each as wide.
#[inline]
pub fn along(row: &Row, id: u32, thing: &Thing, address: u64) -> f64 {
    if row.is_area() {
        return address.saturating_sub(row.base) as f64 / row.extent.max(1) as f64;
    }
    let within = (address.saturating_sub(thing.address) as f64 / thing.bytes.max(1) as f64).min(1.0);
    match row.things.len() {
        0 | 1 => within,
        n => (row.things.binary_search(&id).unwrap_or_else(|at| at.min(n - 1)) as f64 + within) / n as f64,
    }
}

/// A part of a row, with the node of the threads that use it and the node of its pages, as one number.
#[inline]
pub fn key(row: u32, along: f64, user: NodeIndex, page_node: NodeIndex) -> u64 {
    let bin = ((along * BINS as f64) as u64).min(BINS as u64 - 1);
    u64::from(row) << 32 | bin << 16 | u64::from(user) << 8 | u64::from(page_node)
}

/// Use of one part of a row: by whom, of whose pages, how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) bin: usize,
    pub(super) user: NodeIndex,
    pub(super) page_node: NodeIndex,
    pub(super) weight: f64,
}

/// A row's use by part, and its repair.
pub(super) struct Used<'a> {
    /// Position among the report's objects.
    pub(super) object: usize,
    pub(super) row_use: &'a RowUse,
    /// By part, ascending.
    pub(super) flows: Vec<Flow>,
    /// Whether every line was counted.
    pub(super) exact: bool,
    pub(super) repair: Option<&'a RepairPart>,
    /// Its use by thread.
    threads: Vec<(u32, &'a Use)>,
}

/// The use of the first rows, by part.
pub(super) fn used<'a>(
    context: &Context,
    counters: &'a Counters,
    rows: &'a [RowUse],
    repairs: &[&'a RepairPart],
) -> Vec<Used<'a>> {
    let first = &rows[..rows.len().min(STRIPS)];
    let mut sampled: FastMap<u32, Vec<Flow>> = first.iter().map(|f| (f.row as u32, Vec::new())).collect();
    for (&key, &weight) in &counters.strips {
        if let Some(list) = sampled.get_mut(&((key >> 32) as u32)) {
            let byte = |shift: u32| (key >> shift) as u8;
            let bin = (key >> 16 & 0xffff) as usize;
            list.push(Flow { bin, user: byte(8), page_node: byte(0), weight: weight as f64 });
        }
    }
    let mut by_thread: FastMap<u32, Vec<(u32, &Use)>> =
        first.iter().map(|f| (f.row as u32, Vec::new())).collect();
    for (&(row, thread), used) in counters.uses.iter().filter(|u| u.0.1 != NONE) {
        if let Some(list) = by_thread.get_mut(&row) {
            list.push((thread, used));
        }
    }
    let of = |(object, row_use): (usize, &'a RowUse)| {
        let counted = counted(context, row_use);
        let exact = counted.is_some();
        let mut flows = counted.or_else(|| sampled.remove(&(row_use.row as u32))).unwrap_or_default();
        flows.sort_by_key(|f| (f.bin, f.user, f.page_node));
        let threads = by_thread.remove(&(row_use.row as u32)).unwrap_or_default();
        Used { object, row_use, flows, exact, repair: repair(context, row_use, repairs), threads }
    };
    first.iter().enumerate().map(of).collect()
}

/// The repair that is meant for a row: objects are named, and of one name there may be several.
fn repair<'a>(context: &Context, row_use: &RowUse, repairs: &[&'a RepairPart]) -> Option<&'a RepairPart> {
    let at = context.rows.rows[row_use.row].site.and_then(|s| context.sites.get(s).at.as_ref());
    let same = |r: &&&RepairPart| {
        r.object == row_use.name && (r.allocated_at.is_none() || r.allocated_at.as_ref() == at)
    };
    repairs.iter().find(same).copied()
}

/// Counted lines of the pages that are a row's own.
fn counted(context: &Context, row_use: &RowUse) -> Option<Vec<Flow>> {
    let exact = context.exact?;
    let row = &context.rows.rows[row_use.row];
    if row.things.len() > ALLOCATIONS || row.kind == ObjectKind::SmallHeap {
        return None;
    }
    let page = context.finder.placements.page_bytes;
    let mut sums: FastMap<u64, f64> = FastMap::default();
    for &id in &row.things {
        let thing = context.finder.spaces.things.get(id);
        let (from, to) = page_range(&thing, page);
        for used in exact.pages_of(thing.space, from, to).iter().filter(|p| p.row == row_use.row as u32) {
            let along = along(row, id, &thing, used.number * page + page / 2);
            for flow in exact.flows(context.input, context.finder.nodes, used) {
                let before = if flow.from == used.user { 0.0 } else { flow.leftover };
                let lines = flow.lines[0] + flow.lines[1] - before;
                *sums.entry(key(0, along, flow.from, flow.page_node)).or_default() += lines.max(0.0);
            }
        }
    }
    let flow = |(key, weight): (u64, f64)| Flow {
        bin: (key >> 16 & 0xffff) as usize,
        user: (key >> 8) as u8,
        page_node: key as u8,
        weight,
    };
    (!sums.is_empty()).then(|| sums.into_iter().map(flow).collect())
}

/// The strip of a row.
pub(super) fn strip(context: &Context, used: &Used) -> Strip {
    let row = &context.rows.rows[used.row_use.row];
    let page = context.finder.placements.page_bytes;
    let several = row.has_several();
    let pages = match row.things.len() {
        n if several && n > ALLOCATIONS => usize::MAX,
        _ if row.is_area() => row.extent.div_ceil(page) as usize,
        _ => row.things.iter().fold(0usize, |sum, &t| {
            let (from, to) = page_range(&context.finder.spaces.things.get(t), page);
            sum.saturating_add((to - from) as usize)
        }),
    };
    // No more parts than pages; a part is one or more of the pass's.
    let most = if used.object < LOOKED.0 { BINS } else { COARSE };
    let bins = 1 << pages.clamp(1, most).ilog2();
    let Looks { mut page_nodes, nodes, threads: touchers } = looks(context, used, row, bins, pages);
    let (mut users, mut lines) = (vec![Parts::default(); bins], vec![Parts::default(); bins]);
    let (mut known, mut far, mut all) = (vec![0.0; bins], vec![0.0; bins], vec![0.0f64; bins]);
    for f in &used.flows {
        let bin = f.bin * bins / BINS;
        users[bin].add(f.user, f.weight);
        lines[bin].add(f.page_node, f.weight);
        all[bin] += f.weight;
        if f.user != UNKNOWN && f.page_node != UNKNOWN {
            known[bin] += f.weight;
            far[bin] += if f.user == f.page_node { 0.0 } else { f.weight };
        }
    }
    // Counted lines name the node of their page; looks are at some of the pages.
    if used.exact {
        for (looked, counted) in page_nodes.iter_mut().zip(&lines).filter(|(_, c)| c.main().is_some()) {
            looked.clone_from(counted);
        }
    }
    let largest = all.iter().copied().fold(0.0, f64::max);
    let repaired = used.repair.and_then(|part| {
        let mixes = (0..bins).map(|bin| {
            repaired(context, row, part, bin as f64 / bins as f64, 1.0 / bins as f64, &users[bin])
        });
        let mixes: Option<Vec<Parts>> = mixes.collect();
        mixes.map(|m| runs(context, &m))
    });
    Strip {
        object: used.object,
        axis: if several { StripAxis::Allocations } else { StripAxis::Offset },
        extent: if several { row.things.len() as u64 } else { row.extent },
        bins,
        node: runs(context, &page_nodes),
        first_touch: runs(context, &nodes),
        first_thread: threads(context, touchers.iter().map(most_of)),
        user: runs(context, &users),
        user_thread: main_threads(context, used, bins),
        remote: (0..bins).map(|b| (known[b] > 0.0).then(|| two_digits(far[b] / known[b]))).collect(),
        density: all.iter().map(|&w| if largest > 0.0 { two_digits(w / largest) } else { 0.0 }).collect(),
        exact: used.exact,
        repair: used.repair.map(|r| r.repair),
        repaired,
        over_time: None,
    }
}

fn two_digits(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}

/// Weight by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parts(Vec<(NodeIndex, f64)>);

impl Parts {
    pub(super) fn add(&mut self, node: NodeIndex, weight: f64) {
        match self.0.iter_mut().find(|p| p.0 == node) {
            Some(part) => part.1 += weight,
            None => self.0.push((node, weight)),
        }
    }
    /// Parts of the whole by node.
    pub(super) fn shares(&self) -> impl Iterator<Item = (NodeIndex, f64)> + '_ {
        let all: f64 = self.0.iter().map(|p| p.1).sum();
        self.0.iter().filter(move |_| all > 0.0).map(move |&(node, weight)| (node, weight / all))
    }
    pub(super) fn main(&self) -> Option<NodeIndex> {
        let known = self.0.iter().filter(|p| p.0 != UNKNOWN && p.1 > 0.0);
        known.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|p| p.0)
    }
}

/// What looks at pages found, by part.
struct Looks {
    page_nodes: Vec<Parts>,
    nodes: Vec<Parts>,
    threads: Vec<FastMap<u32, u32>>,
}

fn looks(context: &Context, used: &Used, row: &Row, bins: usize, pages: usize) -> Looks {
    let page = context.finder.placements.page_bytes;
    let mut found = Looks {
        page_nodes: vec![Parts::default(); bins],
        nodes: vec![Parts::default(); bins],
        threads: vec![FastMap::default(); bins],
    };
    let per_bin = if used.object < LOOKED.0 { LOOKED.1 } else { LOOKED.2 };
    let mut look = |along: f64, id: u32, thing: &Thing, address: u64| {
        let time = thing.died.saturating_sub(1).min(context.survey.last_ns);
        let page_node = context.page_node(id, thing.space, address, time);
        let bin = ((along * bins as f64) as usize).min(bins - 1);
        found.page_nodes[bin].add(page_node.node, 1.0);
        let group = context.groups.of_touch.get(page_node.touch as usize).copied().unwrap_or(NONE);
        let group = context.groups.groups.get(group as usize);
        found.nodes[bin].add(group.map_or(UNKNOWN, |g| g.node), 1.0);
        if let Some(group) = group {
            *found.threads[bin].entry(group.thread).or_default() += 1;
        }
    };
    let Some((&first, n)) = row.things.first().zip(Some(row.things.len())) else { return found };
    if !row.is_area() && pages <= per_bin * bins {
        for &id in &row.things {
            let thing = context.finder.spaces.things.get(id);
            let (from, to) = page_range(&thing, page);
            for number in from..to {
                let address = (number * page).max(thing.address);
                look(along(row, id, &thing, address), id, &thing, address);
            }
        }
    } else {
        let probes = per_bin * bins;
        for k in 0..probes {
            let x = (k as f64 + chance(used.row_use.row as u64, k as u64)) / probes as f64;
            if row.is_area() {
                let thing = context.finder.spaces.things.get(first);
                look(x, first, &thing, row.base + (x * row.extent as f64) as u64);
            } else {
                let at = ((x * n as f64) as usize).min(n - 1);
                let thing = context.finder.spaces.things.get(row.things[at]);
                let within = (x * n as f64 - at as f64).clamp(0.0, 1.0);
                look(x, row.things[at], &thing, thing.address + (within * thing.bytes as f64) as u64);
            }
        }
    }
    found
}

/// A number from 0 to 1 that is the same in every report (splitmix64's finaliser).
fn chance(row: u64, k: u64) -> f64 {
    let mut z = (row << 32 | k).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Where a part's pages would be with the repair, by node; `None` if it moves no memory. The part begins at `from` along
/// the row, and is `width` of it.
pub(super) fn repaired(
    context: &Context,
    row: &Row,
    part: &RepairPart,
    from: f64,
    width: f64,
    users: &Parts,
) -> Option<Parts> {
    let nodes = context.finder.nodes;
    let index = |id: u32| nodes.ids.iter().position(|&n| n == id).map_or(UNKNOWN, |n| n as NodeIndex);
    let mut mix = Parts::default();
    match part.repair {
        Repair::WhereUsed if !part.blocks.is_empty() || !part.turns.is_empty() => {
            // Some places of the part: a boundary between two nodes may be within it.
            for step in 0..8 {
                let x = from + width * (f64::from(step) + 0.5) / 8.0;
                let n = row.things.len().max(1) as f64;
                let ordinal = (x * n) as usize;
                let node = match part.turns.get(ordinal % part.turns.len().max(1)) {
                    Some(&node) => node,
                    None => {
                        let offset = ((x * n - ordinal as f64) * part.bytes as f64) as u64;
                        part.blocks.iter().find(|b| offset < b.0).or(part.blocks.last()).map(|b| b.1)?
                    }
                };
                mix.add(index(node), 1.0);
            }
        }
        Repair::WhereUsed => {
            if let Some(main) = users.main() {
                mix.add(main, 1.0);
            }
        }
        Repair::Interleave | Repair::WeightedInterleave | Repair::Weighted { .. } => {
            let weight = |i: usize| part.weights.get(i).map_or(1.0, |&w| f64::from(w));
            part.nodes.iter().enumerate().for_each(|(i, &n)| mix.add(index(n), weight(i)))
        }
        Repair::Bind { node } => mix.add(index(node), 1.0),
        Repair::Replicate | Repair::SameSchedule => return None,
    }
    Some(mix)
}

/// Equal neighbours as one run.
pub(super) fn runs(context: &Context, parts: &[Parts]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for part in parts {
        let mut mix: Vec<(Option<u32>, u32)> = part
            .shares()
            .map(|(node, share)| {
                (context.finder.nodes.ids.get(usize::from(node)).copied(), (share * 100.0).round() as u32)
            })
            .filter(|m| m.1 > 0)
            .collect();
        mix.sort_by_key(|m| (std::cmp::Reverse(m.1), m.0));
        mix.truncate(NAMED);
        match runs.last_mut().filter(|r| r.mix == mix) {
            Some(last) => last.bins += 1,
            None => runs.push(Run { bins: 1, mix }),
        }
    }
    runs
}

fn most_of(counts: &FastMap<u32, u32>) -> Option<u32> {
    counts.iter().max_by_key(|c| (*c.1, std::cmp::Reverse(*c.0))).map(|c| *c.0)
}

fn threads(context: &Context, of: impl Iterator<Item = Option<u32>>) -> Vec<ThreadRun> {
    let mut runs: Vec<ThreadRun> = Vec::new();
    for thread in of {
        let tid = thread.and_then(|t| context.input.threads.tid.get(t as usize).copied());
        match runs.last_mut().filter(|r| r.tid == tid) {
            Some(last) => last.bins += 1,
            None => runs.push(ThreadRun { bins: 1, tid }),
        }
    }
    runs
}

/// The thread that uses each part most; of several allocations no offset is known of a thread.
fn main_threads(context: &Context, used: &Used, bins: usize) -> Vec<ThreadRun> {
    if context.rows.rows[used.row_use.row].things.len() != 1 || used.row_use.pattern == Pattern::Unknown {
        return Vec::new();
    }
    let mut by_bin: Vec<FastMap<u32, u32>> = vec![FastMap::default(); bins];
    for &(thread, u) in &used.threads {
        for (at, &samples) in u.bins.iter().enumerate().filter(|b| *b.1 > 0) {
            *by_bin[at * bins / counters::BINS].entry(thread).or_default() += samples;
        }
    }
    threads(context, by_bin.iter().map(most_of))
}
