//! Objects that a cache may have held, in a program that no cache holds as a whole: all the time, or what of them is in
//! use at a time.
//!
//! A sample on a page of another node says which access was waited for, not who answered. Where little of an object is
//! in use, a cache of the user's node may have held it all the time: packed blocks of a matrix product, a table of
//! constants, the data of a library. Nothing in a clock's samples tells such hits from memory, so what fits a cache is
//! no evidence that memory was far. It is not evidence of the contrary either: the interval gets wider, and a count on
//! the virtual machine settles it.

use super::by_row::by_row;
use super::cache_room::capacity;
use super::cached::{PER_PIECE, far_latency, last_level, level_beside};
use super::context::Context;
use super::counters::{BINS, Counters, Use};
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::NodeIndex;
use super::object_rows::RowUse;
use super::value::{Basis, CacheHeld};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::figures::Matrix;
use nearfar_machine::{CacheLevel, Machine};

/// Far samples of less than this part of the time are not worth a wider interval. // chosen
pub(super) const LEAST: f64 = 0.01;
/// Part of the time that must not be spent on fetching what is in use. // chosen
const MOSTLY: f64 = 0.5;

/// Part of what a node uses of an object that is in use at a time, from which on all of it is taken to be: the estimate is
/// good for a factor of 1.5, and what is a little larger than a cache must not fit it by chance. // chosen
const LITTLE: f64 = 0.5;
/// Bandwidth between two nodes of a machine that says none, GB/s: two sockets of the last ten years have 30 to 60.
/// // assumed: the least of them, Xeon E5 v3
const FAR_GBS: f64 = 30.0;

/// What caches may have held.
#[derive(Debug)]
pub struct Held {
    /// For the report.
    pub report: CacheHeld,
    /// Weight of these samples, by row.
    pub far: FastMap<u32, u64>,
}

/// A row's far samples from one node.
struct Item {
    node: NodeIndex,
    /// Position among the uses of rows.
    row_use: usize,
    bytes: f64,
    far: u64,
}

/// The objects that caches may have held, together; `None` if that is hardly any of the time, or not a matter of time.
pub fn held(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    row_uses: &[RowUse],
) -> Option<Held> {
    let nodes = context.finder.nodes;
    if context.measure.basis != Basis::StallTime || nodes.count < 2 {
        return None;
    }
    let last = last_level(input, judge)?;
    let mut items = items(input, judge, context, counters, row_uses);
    // Where most far time is per byte comes first: so caches can have answered most of it.
    items.sort_by(|a, b| {
        let density = |i: &Item| i.far as f64 / i.bytes;
        density(b).total_cmp(&density(a)).then(a.row_use.cmp(&b.row_use)).then(a.node.cmp(&b.node))
    });
    let levels: Vec<&CacheLevel> = [last].into_iter().chain(level_beside(input, judge, last)).collect();
    let mut room: Vec<f64> = (0..nodes.count)
        .map(|n| {
            let places = places(context, counters, n);
            levels.iter().map(|level| capacity(&judge.machine, n, level, places)).sum()
        })
        .collect();
    let mut by_row_use = vec![0u64; row_uses.len()];
    let (mut far, mut bytes) = (0u64, vec![0.0f64; row_uses.len()]);
    for item in items {
        let room = &mut room[usize::from(item.node)];
        if item.bytes > *room {
            continue;
        }
        *room -= item.bytes;
        far += item.far;
        by_row_use[item.row_use] += item.far;
        bytes[item.row_use] = bytes[item.row_use].max(item.bytes);
    }
    let share = far as f64 / counters.working.weight.max(1) as f64;
    if share < LEAST {
        return None;
    }
    let mut order: Vec<usize> = (0..row_uses.len()).filter(|&f| by_row_use[f] > 0).collect();
    order.sort_by_key(|&f| (std::cmp::Reverse(by_row_use[f]), f));
    let far = order.iter().map(|&f| (row_uses[f].row as u32, by_row_use[f])).collect();
    Some(Held {
        report: CacheHeld {
            far_share: share.min(1.0),
            cache_level: last.level,
            cache_bytes: last.size_bytes,
            object_bytes: order.first().map_or(0, |&f| bytes[f] as u64),
            objects: order.iter().map(|&f| row_uses[f].name.clone()).collect(),
        },
        far,
    })
}

/// What each node's threads use of each object, and how much of the time they were on its far pages.
fn items(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    row_uses: &[RowUse],
) -> Vec<Item> {
    let far_ns = far_latency(judge);
    let uses = by_row(counters.uses.iter());
    let page = input.meta.page_bytes.max(1) as f64;
    let mut items = Vec::new();
    for (row_use, f) in row_uses.iter().enumerate() {
        let in_use = f.pages.total.saturating_sub(f.pages.absent_or_unknown) as f64 * page;
        let Some(list) = uses.get(&(f.row as u32)).filter(|_| f.remote > 0 && in_use > 0.0) else {
            continue;
        };
        let used: Vec<(NodeIndex, &Use)> =
            list.iter().map(|u| (context.node_of_user(counters, u.0), u.1)).collect();
        let addressed: u64 = used.iter().map(|u| u.1.addressed).sum();
        let pieces = ((addressed / PER_PIECE) as usize).clamp(1, BINS);
        for node in 0..context.finder.nodes.count as NodeIndex {
            let of_node = || used.iter().filter(|u| u.0 == node).map(|u| u.1);
            let far = |u: &Use| -> u64 {
                let known = u.by_page_node.iter().take(context.finder.nodes.count).enumerate();
                known.filter(|(page_node, _)| *page_node != usize::from(node)).map(|(_, weight)| weight).sum()
            };
            let far: u64 = of_node().map(far).sum();
            if far > 0 {
                let part = parts(of_node(), pieces) / parts(used.iter().map(|u| u.1), pieces);
                let threads = of_node().count() as f64;
                // One after the other, or as fast as the link lets all of them together.
                let line_ns = far_ns.max(threads * LINE_BYTES as f64 / far_bandwidth(&judge.machine, node));
                let at_a_time = counters.reach.get(&(f.row as u32, node)).and_then(|reach| {
                    // A thread that fetches so much is slowed by memory, though a cache holds each line while it is in use.
                    let each =
                        reach.in_use().filter(|_| reach.fetching(line_ns).is_some_and(|f| f < MOSTLY))?;
                    Some(each * threads)
                });
                let whole = in_use * part;
                let bytes = at_a_time.filter(|&b| b < LITTLE * whole).unwrap_or(whole);
                items.push(Item { node, row_use, bytes: bytes.max(page), far });
            }
        }
    }
    items
}

/// What the slowest way from another node's memory carries, GB/s, which is bytes a ns.
fn far_bandwidth(machine: &Machine, node: NodeIndex) -> f64 {
    let to = usize::from(node);
    let pairs = machine.figures.pair_read_gbs.as_ref().and_then(Matrix::unless_assumed);
    let others = (0..machine.nodes.len()).filter(|&from| from != to);
    let known = others.filter_map(|page_node| pairs?.get(to, page_node)).filter(|gbs| *gbs > 0.0);
    known.min_by(f64::total_cmp).unwrap_or(FAR_GBS)
}

/// How many of an object's `pieces` are used; all of them if no address is known.
fn parts<'a>(uses: impl Iterator<Item = &'a Use>, pieces: usize) -> f64 {
    let mut used = vec![false; pieces];
    for u in uses {
        if u.addressed == 0 {
            return pieces as f64;
        }
        for (bin, _) in u.bins.iter().enumerate().filter(|b| *b.1 > 0) {
            used[bin * pieces / BINS] = true;
        }
    }
    used.iter().filter(|&&u| u).count().max(1) as f64
}

/// Places where threads of a node run: threads on an assumed machine, where each stays on a cpu; else the cpus of the
/// node that they were seen on.
fn places(context: &Context, counters: &Counters, node: usize) -> usize {
    let nodes = context.finder.nodes;
    let of_node = |t: usize| usize::from(context.node_of_user(counters, t as u32)) == node;
    let ran = counters.threads.iter().enumerate().filter(|(t, x)| x.sum.weight > 0 && of_node(*t));
    if nodes.assumed {
        return ran.count();
    }
    let mut cpus: Vec<u64> = Vec::new();
    for (_, thread) in ran {
        cpus.resize(cpus.len().max(thread.cpus.len()), 0);
        cpus.iter_mut().zip(&thread.cpus).for_each(|(all, word)| *all |= word);
    }
    cpus.iter().map(|word| word.count_ones() as usize).sum()
}
