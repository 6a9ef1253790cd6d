//! What threads' loops of known speed moved and computed.

use super::streams::{Has, Moved, Range, Seen, moved};
use crate::context::Context;
use crate::core_figures::Figures;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::input::Input;
use crate::native::is_written;
use crate::spent::Spot;
use nearfar_recording::Columns;

/// A thread's time in a loop of known speed.
#[derive(Debug)]
pub struct Loop {
    /// The thread's id.
    pub thread: u32,
    /// The loop's id and row.
    pub id: u32,
    row: usize,
    /// Time in it, ns.
    pub weight: f64,
    /// Time of an iteration that was computing, parts of the time in it: least, by what the machine's cores do, most.
    pub computing: Range,
    /// What it moved, lines.
    pub moved: Vec<Moved>,
    /// Whether it writes to a place that is the same in every iteration, or in no order.
    pub writes_in_place: bool,
    /// Lines that it had in flight at least, as far as lines in no order go.
    pub flight: f64,
}

/// The loops of all threads. `caches`: bytes of the last-level cache that a thread has for itself, on the judged machine and on the recorded one.
pub fn loops(
    input: &Input,
    context: &Context,
    counters: &Counters,
    figures: Figures,
    caches: &dyn Fn(u32) -> [Option<f64>; 2],
) -> Vec<Loop> {
    let seen = seen(input, context, counters);
    let rows: FastMap<u32, usize> = input.loops.id.iter().enumerate().map(|(i, &id)| (id, i)).collect();
    let mut spent: Vec<((u32, u32), f64)> =
        counters.spent.loops.iter().map(|(&key, &weight)| (key, weight as f64)).collect();
    spent.sort_unstable_by_key(|s| s.0);
    let of = |((thread, id), weight): ((u32, u32), f64)| {
        let row = *rows.get(&id)?;
        let pace = context.native.pace_of(thread, id)?;
        let ns = pace.inside_ns?;
        let [cache, cache_here] = caches(thread);
        let has =
            Has { cache, cache_here, near_ns: figures.near_ns, line_ns: figures.near_ns / figures.in_flight };
        let moved = moved(input, context, row, seen.get(&(thread, id))?, &pace, has)?;
        // By what the judged machine's cores are said to do, as for counted lines; by the loop's own costs it may be less, or more.
        let likely = f64::from(input.loops.instructions[row]) * figures.instruction_ns;
        let least = pace.least_ns.min(ns).min(likely);
        let most = pace.most_ns.min(ns).max(likely);
        Some(Loop {
            thread,
            id,
            row,
            weight,
            computing: [least, likely, most].map(|computing| computing / ns),
            moved: moved.into_iter().map(|m| m.times(weight / ns)).collect(),
            flight: 1.0,
            writes_in_place: writes_in_place(input, id),
        })
    };
    let mut loops: Vec<Loop> = spent.into_iter().filter_map(of).collect();
    inner_first(input, &mut loops);
    for of in &mut loops {
        let orderless: f64 = of.moved.iter().filter(|m| !m.ahead).map(|m| m.lines[1]).sum();
        of.flight = (orderless * figures.near_ns / of.weight.max(1.0)).clamp(1.0, figures.in_flight);
    }
    loops
}

fn writes_in_place(input: &Input, loop_id: u32) -> bool {
    let s = &input.loop_streams;
    (0..s.len())
        .any(|i| s.loop_id[i] == loop_id && is_written(input, i) && (s.regular[i] == 0 || s.step[i] == 0.0))
}

/// What loops inside a loop move is theirs: how often the outer one comes to the same lines again is not known.
fn inner_first(input: &Input, loops: &mut [Loop]) {
    for at in 0..loops.len() {
        let inside = |l: &&Loop| l.thread == loops[at].thread && contains(input, loops[at].row, l.row);
        let theirs: Vec<u32> =
            loops.iter().filter(inside).flat_map(|l| l.moved.iter().map(|m| m.spot.row)).collect();
        for moved in loops[at].moved.iter_mut().filter(|m| theirs.contains(&m.spot.row)) {
            moved.lines = [0.0, 0.0, moved.lines[2]];
        }
    }
}

/// Whether the code of a loop contains that of another one.
fn contains(input: &Input, outer: usize, inner: usize) -> bool {
    let (l, at) = (&input.loops, &input.locations);
    let place = |row: usize| {
        let location = l.head[row] as usize;
        Some((*at.process.get(location)?, *at.address.get(location)?))
    };
    let (Some((space, from)), Some((other, head))) = (place(outer), place(inner)) else { return false };
    outer != inner
        && space == other
        && l.bytes[inner] < l.bytes[outer]
        && (from..from.saturating_add(u64::from(l.bytes[outer]))).contains(&head)
}

/// What samples of the region show, by thread and loop.
fn seen(input: &Input, context: &Context, counters: &Counters) -> FastMap<(u32, u32), Seen> {
    let p = &input.progress;
    let mut seen: FastMap<(u32, u32), Seen> = FastMap::default();
    for i in 0..p.len() {
        let space = context.threads.get(p.thread[i]).map(|t| context.spaces_of_threads[t]);
        if context.region.holds(space, p.time_ns[i]) {
            seen.entry((p.thread[i], p.loop_id[i])).or_default().progress.push(i);
        }
    }
    type Operand = (u32, u32, u32, Spot);
    let mut operands: Vec<(Operand, u64)> =
        counters.spent.operands.iter().map(|(&key, &w)| (key, w)).collect();
    operands.sort_unstable();
    for ((thread, loop_id, ip, spot), weight) in operands {
        seen.entry((thread, loop_id)).or_default().operands.entry(ip).or_default().push((spot, weight));
    }
    seen
}
