//! The run over time: what each part of it was spent on, by object, function, thread and pair of nodes.

use crate::context::Context;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::object_rows::RowUse;
use crate::over_time::{MOST_NODES, MOST_THREADS, Parts};
use crate::sites::function_of;
use crate::stats::BLOCKS;
use crate::value::{FunctionRow, PartsOf, ThreadParts, Timeline, TimelineClock, Weights};
use nearfar_timing::Phase;

/// Samples per part at least, about: fewer say nothing of a share. // chosen
const SAMPLES: u64 = 40;
/// Numbers of parts that divide the blocks of the pass.
const PARTS: [usize; 6] = [200, 100, 50, 40, 20, 10];
/// Most objects and functions, and most threads, that are followed: a page has at most 10 MB. // chosen
const ROWS: usize = 60;
const THREADS: usize = 64;
/// Weights are in millionths of all.
const UNIT: f64 = 1e6;

/// Sums blocks into parts and tells them in millionths of all.
struct Scale {
    parts: usize,
    per: usize,
    total: f64,
}

impl Scale {
    fn millionths(&self, weight: u64) -> u32 {
        (weight as f64 / self.total * UNIT).round() as u32
    }

    fn weights(&self, blocks: &[Parts]) -> Weights {
        let sum = |part: usize, kind: usize| -> u64 {
            blocks[part * self.per..(part + 1) * self.per].iter().map(|b| b[kind]).sum()
        };
        let list = |kind| (0..self.parts).map(|part| self.millionths(sum(part, kind))).collect();
        Weights { near: list(0), far: list(1), other: list(2), waiting: list(3) }
    }
}

/// `None` without samples. `rows`: the objects of the report; `functions`: its functions; `tids`: its threads.
pub(super) fn timeline(
    context: &Context,
    counters: &Counters,
    rows: &[RowUse],
    functions: &[FunctionRow],
) -> Option<Timeline> {
    let (first, last) = context.region.bounds;
    if counters.total.samples == 0 || context.timing.is_none() && last <= first {
        return None;
    }
    // No shorter than an epoch of what was counted: nothing is known of when in it a line moved.
    let epochs = context.timing.map_or(u64::MAX, |p| p.time.phases.iter().map(epochs_of).sum());
    let fits = |p: &u64| counters.total.samples / p >= SAMPLES && epochs >= *p;
    let parts = PARTS.into_iter().find(|&p| fits(&(p as u64))).unwrap_or(PARTS[5]);
    let scale = Scale { parts, per: BLOCKS / parts, total: counters.total.weight.max(1) as f64 };
    let over = &counters.over_time;
    let nodes = context.finder.nodes.count;
    let (clock, from_s, to_s) = match context.timing {
        Some(timing) => (TimelineClock::Simulated, 0.0, timing.time.seconds),
        None => (TimelineClock::Recorded, seconds(context, first), seconds(context, last + 1)),
    };
    let pairs = nodes * nodes;
    let pair = |part: usize, pair: usize| -> u64 {
        (part * scale.per..(part + 1) * scale.per).map(|block| over.matrix[block * pairs + pair]).sum()
    };
    let matrix = match over.matrix.is_empty() {
        true => Vec::new(),
        false => (0..parts).map(|p| (0..pairs).map(|i| scale.millionths(pair(p, i))).collect()).collect(),
    };
    let moves = |part: usize| over.migrations[part * scale.per..(part + 1) * scale.per].iter().sum();
    Some(Timeline {
        clock,
        from_s,
        to_s,
        parts,
        all: scale.weights(&over.all),
        objects: rows
            .iter()
            .take(ROWS)
            .enumerate()
            .filter_map(|(at, f)| object(context, counters, &scale, at, f))
            .collect(),
        functions: by_function(context, counters, &scale, functions),
        threads: by_thread(context, counters, &scale),
        node_matrix: matrix,
        node_matrix_why: (nodes > MOST_NODES).then(|| {
            format!("pairs of nodes are followed over time on machines of up to {MOST_NODES} nodes")
        }),
        threads_why: (counters.threads.len() > MOST_THREADS).then(|| {
            format!(
                "threads are followed over time in programs of up to {MOST_THREADS}; this one has {}",
                counters.threads.len()
            )
        }),
        migrations: (0..parts).map(moves).collect(),
    })
}

fn epochs_of(s: &Phase) -> u64 {
    u64::from(s.last_epoch - s.first_epoch) + 1
}

fn seconds(context: &Context, time_ns: u64) -> f64 {
    time_ns.saturating_sub(context.input.meta.start_ns) as f64 / 1e9
}

fn object(context: &Context, counters: &Counters, scale: &Scale, at: usize, f: &RowUse) -> Option<PartsOf> {
    let counts = counters.rows[f.row].as_deref()?;
    let known = if context.timing.is_some() { &counts.shown_blocks } else { &counts.blocks };
    let known = known.all();
    let unknown = counts.unknown_blocks.all();
    let blocks: Vec<Parts> =
        known.iter().zip(&unknown).map(|(k, u)| [k.whole - k.part, k.part, u.whole, 0]).collect();
    Some(PartsOf { row: at, weights: scale.weights(&blocks) })
}

/// Of a site, the row of the function that names it, if it is one of these.
pub(super) fn row_of_function<'a>(
    context: &'a Context,
    functions: &'a [FunctionRow],
) -> impl Fn(u32) -> Option<usize> + 'a {
    let rows = functions.iter().enumerate();
    let place: FastMap<(&str, Option<&str>), usize> =
        rows.map(|(at, f)| ((f.function.as_str(), f.module.as_deref()), at)).collect();
    move |site| {
        let (name, module) = function_of(context.sites.get(site));
        let module = module.and_then(|m| context.input.modules.path.get(m as usize));
        place.get(&(name, module.map(String::as_str))).copied()
    }
}

/// The functions with most time, by the names that the report's rows have.
fn by_function(
    context: &Context,
    counters: &Counters,
    scale: &Scale,
    functions: &[FunctionRow],
) -> Vec<PartsOf> {
    let of = row_of_function(context, &functions[..functions.len().min(ROWS)]);
    let mut blocks: Vec<Vec<Parts>> = vec![Vec::new(); functions.len().min(ROWS)];
    for (&(site, block), parts) in counters.over_time.functions.iter() {
        let Some(at) = of(site) else { continue };
        blocks[at].resize(BLOCKS, Parts::default());
        blocks[at][block as usize].iter_mut().zip(parts).for_each(|(to, from)| *to += from);
    }
    let row = |(row, b): (usize, &Vec<Parts>)| PartsOf { row, weights: scale.weights(b) };
    blocks.iter().enumerate().filter(|b| !b.1.is_empty()).map(row).collect()
}

/// The threads with most samples, in the order of the report.
fn by_thread(context: &Context, counters: &Counters, scale: &Scale) -> Vec<ThreadParts> {
    let mut most: Vec<usize> =
        (0..counters.threads.len()).filter(|&t| counters.threads[t].sum.weight > 0).collect();
    most.sort_by_key(|&t| (std::cmp::Reverse(counters.threads[t].sum.weight), t));
    most.truncate(THREADS);
    most.sort_by_key(|&t| context.finder.nodes.order[t]);
    let place: FastMap<u32, usize> = most.iter().enumerate().map(|(at, &t)| (t as u32, at)).collect();
    let mut blocks = vec![vec![Parts::default(); BLOCKS]; most.len()];
    let mut cpus: Vec<FastMap<(usize, u16), u64>> = vec![FastMap::default(); most.len()];
    for (&(thread, block, cpu), parts) in counters.over_time.threads.iter() {
        let Some(&at) = place.get(&thread) else { continue };
        let block = block as usize;
        blocks[at][block].iter_mut().zip(parts).for_each(|(to, from)| *to += from);
        *cpus[at].entry((block / scale.per, cpu)).or_default() += parts.iter().sum::<u64>();
    }
    let mut rows = Vec::new();
    for (at, &thread) in most.iter().enumerate() {
        let mut cpu: Vec<Option<(u64, u16)>> = vec![None; scale.parts];
        for (&(part, number), &weight) in &cpus[at] {
            let best = &mut cpu[part];
            let now = (weight, number);
            if best.is_none_or(|b| now.0 > b.0 || now.0 == b.0 && number < b.1) {
                *best = Some(now);
            }
        }
        if cpu.iter().any(Option::is_some) {
            let cpu = cpu.into_iter().map(|c| c.map(|c| u32::from(c.1))).collect();
            let tid = context.input.threads.tid[thread];
            rows.push(ThreadParts { tid, weights: scale.weights(&blocks[at]), cpu });
        }
    }
    rows
}
