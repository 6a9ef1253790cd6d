//! Lines of memory that a loop of known speed moves, by its streams.
//!
//! A stream that goes through memory in order fetches a line every 64 bytes of its way, if no cache holds what it comes to. It
//! comes back to a place after one pass through its extent; what all streams of the loop went over in the meantime is what a
//! cache would have to hold (a reuse distance: Mattson et al. 1970, IBM Systems Journal 9, 78–117). Accesses in no order come back after
//! about as much as all the streams extend over.

use crate::cached::SURELY_HELD;
use crate::context::Context;
use crate::hash::FastMap;
use crate::input::Input;
use crate::native::{Pace, is_written};
use crate::nodes;
use crate::pieces::pieces;
use crate::spent::{NO_PART, PARTS, Spot};
use nearfar_machine::LINE_BYTES;
use nearfar_recording::{Columns, NONE};

/// Capacities of a cache from which on it does not hold what is used in between. // chosen
const NEVER_HELD: f64 = 1.5;
/// Time of a line of near memory, over its latency as machine files have it, at most: with page walks, on a busy memory. // chosen
const LONGEST: f64 = 3.0;
/// By how many bytes the distance of two streams may differ from sample to sample, for one to go behind the other: fields of a record in turn, or
/// rows of a block that fits any second-level cache. // chosen
const NEAR: u64 = 64 << 10;
/// Samples of a stream's address below which nothing is said of its extent. // chosen
const LEAST: usize = 20;

/// Least, likely and most.
pub type Range = [f64; 3];

/// What a loop moves on a part of an object, of one iteration.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Where.
    pub spot: Spot,
    /// Lines read.
    pub lines: Range,
    /// Whether they are written, too.
    pub written: bool,
    /// Whether they are fetched ahead.
    pub ahead: bool,
}

/// What samples of a thread in a loop show.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Rows of the progress table.
    pub progress: Vec<usize>,
    /// Samples by location of the instruction that is blamed.
    pub operands: FastMap<u32, Vec<(Spot, u64)>>,
}

impl Moved {
    /// So many iterations of it.
    pub fn times(self, iterations: f64) -> Moved {
        Moved { lines: self.lines.map(|lines| lines * iterations), ..self }
    }
}

/// A stream of a loop, as the samples of a thread show it.
struct Stream {
    /// What an iteration takes of it where nothing is held: lines, at least and at most.
    takes: [f64; 2],
    regular: bool,
    step: f64,
    written: bool,
    /// How far it extends, bytes; `None` if too few samples say it.
    extent: Option<f64>,
    /// How far it is from the loop's main stream, bytes, where that is always the same.
    offset: Option<f64>,
    /// Where its samples are: parts of 1.
    spots: Vec<(Spot, f64)>,
}

impl Stream {
    /// Bytes that it goes over in so many iterations, at most.
    fn over(&self, iterations: f64) -> f64 {
        self.extent.unwrap_or(f64::INFINITY).min(iterations * self.takes[1] * LINE_BYTES as f64)
    }
}

/// What a thread has of caches and memory.
#[derive(Clone, Copy, Debug)]
pub struct Has {
    /// Bytes of the last-level cache that it has for itself, on the judged machine; `None` if that is not known.
    pub cache: Option<f64>,
    /// The same on the machine that was recorded.
    pub cache_here: Option<f64>,
    /// Latency of near memory, ns.
    pub near_ns: f64,
    /// What a line takes where as many as possible are in flight, ns.
    pub line_ns: f64,
}

/// What a thread's loop moves by an iteration; `None` where no stream of it is known.
pub fn moved(
    input: &Input,
    context: &Context,
    loop_row: usize,
    seen: &Seen,
    pace: &Pace,
    has: Has,
) -> Option<Vec<Moved>> {
    let cache = has.cache;
    let streams = streams(input, context, loop_row, seen);
    if streams.is_empty() {
        return None;
    }
    // Lines that accesses without order can have waited for: each takes at least what it takes where as many as possible are in flight.
    let spare = (pace.inside_ns.unwrap_or(pace.iteration_ns) - pace.least_ns).max(0.0) / has.line_ns;
    let orderless: f64 =
        streams.iter().filter(|s| !s.regular).map(|s| s.takes[1] * (1.0 - held(s, &streams, cache)[0])).sum();
    let waited = (spare / orderless.max(f64::MIN_POSITIVE)).min(1.0);
    let certain = missed(&streams, pace, has);
    let mut moved = Vec::new();
    for (at, stream) in streams.iter().enumerate() {
        let held = held(stream, &streams, cache);
        let behind = behind(at, &streams, cache);
        let [least, most] = stream.takes;
        let takes = [least, f64::midpoint(least, most), most];
        let lines: Range = [0, 1, 2].map(|i| {
            let fetched = takes[i] * (1.0 - held[2 - i]) * (1.0 - behind[2 - i]);
            fetched
                * match (stream.regular, pace.swept, i) {
                    // A tenth for what the speed is wrong by, and for lines that are fetched and not used.
                    (true, Some(part), _) => part[i] * [0.9, 1.0, 1.1][i],
                    // It may go through a block many times that a cache holds.
                    (true, None, _) => [0.0, 0.5, 1.0][i],
                    // Where waiting for each of them would have taken longer, some did not come from memory.
                    (false, _, 0) => certain.min(waited),
                    (false, _, 1) if waited < 1.0 => 0.5 * waited,
                    (false, ..) => waited,
                }
        });
        let ahead = stream.regular && stream.step.abs() <= 2048.0;
        // What a stream behind it writes is written back once.
        let written = stream.written
            || streams
                .iter()
                .enumerate()
                .any(|(other, s)| s.written && follows(other, at, &streams).is_some());
        let spots = stream.spots.iter().map(|&(spot, part)| Moved {
            spot,
            lines: lines.map(|lines| lines * part),
            written,
            ahead,
        });
        moved.extend(spots);
    }
    Some(moved)
}

/// Part of the accesses in no order that memory answered for certain: what an iteration waits longer than it may compute, less what the
/// recorded machine's cache and streams in order explain of it, at most so long for each.
fn missed(streams: &[Stream], pace: &Pace, has: Has) -> f64 {
    let Some(own_ns) = pace.own_ns else { return 0.0 };
    let (mut orderless, mut explained) = (0.0, 0.0);
    for stream in streams {
        let takes = stream.takes[1];
        let from_cache = held(stream, streams, has.cache_here)[2];
        orderless += if stream.regular { 0.0 } else { takes };
        explained += has.near_ns * if stream.regular { takes } else { takes * from_cache };
    }
    let waits = own_ns - pace.most_ns - explained;
    if orderless > 0.0 { (waits / (LONGEST * has.near_ns * orderless)).clamp(0.0, 1.0) } else { 0.0 }
}

/// Part of a stream's lines that a cache holds when it comes back to them: least, likely, most.
fn held(stream: &Stream, all: &[Stream], cache: Option<f64>) -> Range {
    let (Some(extent), Some(cache)) = (stream.extent, cache) else { return UNKNOWN };
    // Of accesses in no order, each line is used again after about as many as there are lines.
    let iterations = match stream.regular {
        true => extent / stream.step.abs(),
        false => extent / (LINE_BYTES as f64 * stream.takes[1]),
    };
    let between: f64 = all.iter().map(|s| s.over(iterations)).sum();
    let part = cache / between;
    match kept(between, cache) {
        // What is held of it anywhere; more, where some parts are used more often than others.
        NOT_KEPT if !stream.regular => [0.0, 0.5 * part, part],
        kept => kept,
    }
}

const UNKNOWN: Range = [0.0, 0.5, 1.0];
const NOT_KEPT: Range = [0.0; 3];

/// Part of lines that a cache keeps while so many bytes are used in between.
fn kept(between: f64, cache: f64) -> Range {
    if between <= SURELY_HELD * cache {
        [1.0; 3]
    } else if between < NEVER_HELD * cache {
        UNKNOWN
    } else {
        NOT_KEPT
    }
}

/// By how many bytes a stream goes behind another one through the same memory, if it does.
fn follows(stream: usize, other: usize, all: &[Stream]) -> Option<f64> {
    let (a, b) = (&all[stream], &all[other]);
    let same = stream != other && a.regular && b.regular && a.step == b.step && a.step != 0.0;
    let (Some(at), Some(ahead)) = (a.offset.filter(|_| same), b.offset) else { return None };
    let bytes = (ahead - at) * a.step.signum();
    // Of two at one place the first one fetches.
    let before = bytes > 0.0 || bytes == 0.0 && other < stream;
    (before && a.extent.is_some_and(|extent| bytes < 0.5 * extent)).then_some(bytes)
}

/// Part of a stream's lines that one before it has fetched and a cache has kept: least, likely, most.
fn behind(stream: usize, all: &[Stream], cache: Option<f64>) -> Range {
    let nearest = (0..all.len()).filter_map(|other| follows(stream, other, all)).min_by(f64::total_cmp);
    let Some(bytes) = nearest else { return NOT_KEPT };
    let between = all.iter().map(|s| s.over(bytes / all[stream].step.abs())).sum();
    cache.map_or(UNKNOWN, |cache| kept(between, cache))
}

fn streams(input: &Input, context: &Context, loop_row: usize, of: &Seen) -> Vec<Stream> {
    let samples = &of.progress;
    let (l, s, p) = (&input.loops, &input.loop_streams, &input.progress);
    let id = l.id[loop_row];
    let mut addresses: FastMap<u16, Vec<usize>> = FastMap::default();
    for &i in samples {
        addresses.entry(p.other[i]).or_default().push(i);
    }
    let of_loop = (0..s.len()).filter(|&i| s.loop_id[i] == id && (s.regular[i] == 0 || s.step[i] != 0.0));
    of_loop
        .map(|i| {
            let number = s.number[i];
            let main = number == l.stream[loop_row];
            let seen: Vec<(u64, u64, u32)> = match main {
                true => samples.iter().map(|&k| (p.position[k], p.time_ns[k], p.thread[k])).collect(),
                false => addresses
                    .get(&number)
                    .into_iter()
                    .flatten()
                    .map(|&k| (p.other_address[k], p.time_ns[k], p.thread[k]))
                    .collect(),
            };
            let regular = s.regular[i] != 0;
            let touched = u64::from(s.bytes[i]).max(1);
            let lines = match regular {
                true => {
                    s.step[i].abs().min(touched.max(LINE_BYTES).next_multiple_of(LINE_BYTES) as f64)
                        / LINE_BYTES as f64
                }
                false => touched.div_ceil(LINE_BYTES) as f64,
            };
            let offset = match main {
                true => Some(0.0),
                false => addresses.get(&number).and_then(|list| offset(input, list)),
            };
            let (mut extent, mut spots) = (extent(&seen), spots(context, &seen));
            if spots.is_empty() {
                // An address that is loaded or computed in the loop is known only where a sample blames the instruction.
                (extent, spots) =
                    of.operands.get(&s.ip[i]).map_or((None, Vec::new()), |list| by_samples(context, list));
            }
            if spots.is_empty() {
                spots = vec![(Spot::unknown(nodes::UNKNOWN), 1.0)];
            }
            Stream {
                takes: [if s.always[i] != 0 { lines } else { 0.0 }, lines],
                regular,
                step: s.step[i],
                written: is_written(input, i),
                extent,
                offset,
                spots,
            }
        })
        .collect()
}

/// How far another stream is from the main one in nine tenths of the samples.
fn offset(input: &Input, samples: &[usize]) -> Option<f64> {
    let p = &input.progress;
    let mut all: Vec<i64> =
        samples.iter().map(|&i| p.other_address[i].wrapping_sub(p.position[i]) as i64).collect();
    all.sort_unstable();
    let at = |part: usize| all.get(all.len() * part / 100).copied();
    let (low, middle, high) = (at(5)?, at(50)?, at(95)?);
    (all.len() >= LEAST && high.abs_diff(low) <= NEAR).then_some(middle as f64)
}

/// How far samples extend, and where they are.
fn by_samples(context: &Context, list: &[(Spot, u64)]) -> (Option<f64>, Vec<(Spot, f64)>) {
    let all: u64 = list.iter().map(|s| s.1).sum();
    let mut parts: Vec<(u32, u8)> = list.iter().map(|(spot, _)| (spot.thing, spot.part)).collect();
    parts.sort_unstable();
    parts.dedup();
    let bytes = |&(thing, part): &(u32, u8)| match (thing, part) {
        (NONE, _) => 0.0,
        (thing, NO_PART) => context.finder.spaces.things.get(thing).bytes as f64,
        (thing, _) => context.finder.spaces.things.get(thing).bytes as f64 / PARTS as f64,
    };
    let extent: f64 = parts.iter().map(bytes).sum();
    let spots = list.iter().map(|&(spot, weight)| (spot, weight as f64 / all.max(1) as f64)).collect();
    ((extent > 0.0).then_some(extent), spots)
}

fn extent(seen: &[(u64, u64, u32)]) -> Option<f64> {
    if seen.len() < LEAST {
        return None;
    }
    let (pieces, _) = pieces(seen.iter().map(|s| s.0).collect());
    let sum: u64 = pieces.iter().map(|p| p.1 - p.0).sum();
    (sum > 0).then_some(sum as f64)
}

/// Objects, parts of them and nodes of their pages, as often as samples are there.
fn spots(context: &Context, seen: &[(u64, u64, u32)]) -> Vec<(Spot, f64)> {
    let spaces = context.finder.spaces;
    let mut counts: FastMap<Spot, u64> = FastMap::default();
    for &(address, time, thread) in seen {
        let space = context.threads.get(thread).map_or(0, |t| context.spaces_of_threads[t]);
        let Some(thing) = spaces.at(space, address, time).0 else { continue };
        let node = context.node_at(thing, space, address, time).node;
        *counts.entry(context.spot(thing, address, true, node)).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    let mut spots: Vec<(Spot, f64)> =
        counts.into_iter().map(|(spot, n)| (spot, n as f64 / all.max(1) as f64)).collect();
    spots.sort_unstable_by_key(|s| s.0);
    spots
}
