//! Functions by the node that ran them, by the thread, and by the phase.

use super::timeline::row_of_function;
use crate::context::Context;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::nodes::UNKNOWN;
use crate::over_time::Parts;
use crate::phases::Sampled;
use crate::value::{CodeGroup, FunctionRow, GroupPart};

/// Most functions of a node and of a thread, and most threads. // chosen
const OF_NODE: usize = 12;
const OF_THREAD: usize = 5;
const THREADS: usize = 64;
/// Most phases, and most functions of one. // chosen
const PHASES: usize = 64;
const OF_PHASE: usize = 8;

/// By the nodes of the threads, in the order of the machine; the unknown node last.
pub(super) fn by_node(context: &Context, counters: &Counters, functions: &[FunctionRow]) -> Vec<CodeGroup> {
    let sums = counters.over_time.by_node.iter().map(|(&(site, node), parts)| (site, u32::from(node), parts));
    let mut groups = groups(context, counters, functions, sums, OF_NODE);
    groups.sort_by_key(|g| g.0);
    let id = |node: u32| context.finder.nodes.ids.get(node as usize).copied();
    let unknown = u32::from(UNKNOWN);
    groups
        .into_iter()
        .map(|(node, group)| CodeGroup { node: id(node).filter(|_| node != unknown), ..group })
        .collect()
}

/// By thread: those with most samples, in the order of their creation.
pub(super) fn by_thread(context: &Context, counters: &Counters, functions: &[FunctionRow]) -> Vec<CodeGroup> {
    let sums = counters.over_time.by_thread.iter().map(|(&(site, thread), parts)| (site, thread, parts));
    let mut groups = groups(context, counters, functions, sums, OF_THREAD);
    groups.sort_by(|a, b| b.1.share.total_cmp(&a.1.share).then(a.0.cmp(&b.0)));
    groups.truncate(THREADS);
    groups.sort_by_key(|g| context.finder.nodes.order[g.0 as usize]);
    let tid = |thread: u32| context.input.threads.tid.get(thread as usize).copied();
    groups.into_iter().map(|(thread, group)| CodeGroup { tid: tid(thread), ..group }).collect()
}

/// By phase, without the phases in it: those with most samples, in the order of `phases.nodes`. The first node is each
/// thread as a whole: what ran in no phase. Empty where no phase is known.
pub(super) fn by_phase(context: &Context, counters: &Counters, functions: &[FunctionRow]) -> Vec<CodeGroup> {
    // Near, far and the rest, as in the other groups; what of the rest is waiting is not kept by phase.
    let parts = |s: &Sampled| [s.near, s.far, s.weight - s.near - s.far, 0];
    let sampled: Vec<_> =
        counters.phases.functions.iter().map(|(&(p, site), s)| (site, p, parts(s))).collect();
    let sums = sampled.iter().map(|(site, path, parts)| (*site, *path, parts));
    let mut groups = groups(context, counters, functions, sums, OF_PHASE);
    groups.sort_by(|a, b| b.1.share.total_cmp(&a.1.share).then(a.0.cmp(&b.0)));
    groups.truncate(PHASES);
    groups.sort_by_key(|g| g.0);
    groups.into_iter().map(|(path, group)| CodeGroup { phase: Some(path as usize), ..group }).collect()
}

/// Sums by group and function, of each group the functions with most.
fn groups<'a>(
    context: &Context,
    counters: &Counters,
    functions: &[FunctionRow],
    sums: impl Iterator<Item = (u32, u32, &'a Parts)>,
    most: usize,
) -> Vec<(u32, CodeGroup)> {
    let row = row_of_function(context, functions);
    let mut found: FastMap<u32, (Parts, FastMap<usize, Parts>)> = FastMap::default();
    let add = |to: &mut Parts, from: &Parts| to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
    for (site, key, parts) in sums {
        let group = found.entry(key).or_default();
        add(&mut group.0, parts);
        if let Some(row) = row(site) {
            add(group.1.entry(row).or_default(), parts);
        }
    }
    let all = counters.total.weight.max(1) as f64;
    let share = |p: &Parts| p.iter().sum::<u64>() as f64 / all;
    let remote = |p: &Parts| (p[0] + p[1] > 0).then(|| p[1] as f64 / (p[0] + p[1]) as f64);
    let group = |(key, (whole, rows)): (u32, (Parts, FastMap<usize, Parts>))| {
        let part = |(&row, p): (&usize, &Parts)| GroupPart { row, share: share(p), remote_share: remote(p) };
        let mut functions: Vec<GroupPart> = rows.iter().map(part).collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.row.cmp(&b.row)));
        functions.truncate(most);
        (
            key,
            CodeGroup {
                node: None,
                tid: None,
                phase: None,
                share: share(&whole),
                remote_share: remote(&whole),
                functions,
            },
        )
    };
    found.into_iter().map(group).collect()
}
