//! What a timer's samples say beyond where they are: which loops compute.
//!
//! The recorder keeps how far threads were in their loops, and what an iteration of each costs where caches answer at once.
//! [`super::velocity`] finds how long an iteration took. Where that is what it costs, the loop computes: no access
//! of it is waited for, wherever its pages are: on the machine that was recorded. On another one, only if its far memory is
//! fast enough for what the loop reads. docs/native.md has the derivation.

use super::hash::FastMap;
use super::input::{Input, Judge};
use super::spans::Fixed;
use super::velocity::{IMPOSSIBLE, Point, SLOWEST, velocity};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::figures::Matrix;
use nearfar_recording::{Access, Columns, UNCOUNTED};

/// Time of an iteration, over the least that it can cost, up to which its loop computes. What is above 1 may be waiting, and
/// is in the upper end of the interval. // chosen
const COMPUTES: f64 = 1.15;
/// Iterations of one entry from which on the chain of results decides: chains of short entries overlap. // chosen
const LONG: u64 = 200;
/// Time of an iteration, over the most that it costs where no access waits, from which on its loop waits. // chosen
const WAITS: f64 = 1.5;
/// Faster than the least cost by this much is tried, so that a wrong velocity there shows. // chosen
const BEYOND: f64 = 1.15;
/// Samples of a thread in a loop below which nothing is asked. // chosen
const LEAST: usize = 50;
/// Part of the samples that a piece of memory must have to count. // chosen
const PIECE: f64 = 0.05;

/// Part of what a machine's far memory gives that loops may take and still compute there: figures of machines are of the best
/// case. // chosen
const SUSTAINED: f64 = 0.5;

/// What a loop of a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time of an iteration, ns.
    pub iteration_ns: f64,
    /// The least that it can cost, ns.
    pub least_ns: f64,
    /// The most that it costs where no access waits, ns.
    pub most_ns: f64,
    /// What it takes from memory where no cache holds it, bytes per ns; `None` where its addresses do not tell.
    pub bytes_per_ns: Option<f64>,
    /// Whether the far memory of the machine that is judged gives that.
    pub sustained: bool,
}

impl Pace {
    /// Whether the loop computes, on the machine that is judged, too.
    pub fn computes(&self) -> bool {
        self.sustained && self.iteration_ns <= COMPUTES * self.least_ns
    }

    /// Whether it waits: for a cache, for memory or for another thread's line.
    pub fn waits(&self) -> bool {
        self.iteration_ns >= WAITS * self.most_ns
    }

    /// Part of its time that may be waiting all the same.
    pub fn may_wait(&self) -> f64 {
        (1.0 - self.least_ns / self.iteration_ns).clamp(0.0, 1.0)
    }
}

/// Paces of loops, by thread and instruction.
#[derive(Clone, Debug, Default)]
pub struct Native {
    /// Loop of an instruction's location.
    loops: FastMap<u32, u32>,
    /// By thread and loop: those that are known.
    paces: FastMap<(u32, u32), Pace>,
    /// By thread and loop: those that access fixed places only.
    fixed: FastMap<(u32, u32), Fixed>,
}

impl Native {
    /// From the recording's tables, for a machine.
    pub fn new(input: &Input, judge: &Judge) -> Native {
        let p = &input.progress;
        let loops = (0..p.len()).map(|i| (p.ip[i], p.loop_id[i])).collect();
        let Some(ghz) = input.meta.core_ghz else { return Native { loops, ..Native::default() } };
        let mut by_thread: FastMap<(u32, u32), Vec<usize>> = FastMap::default();
        for i in 0..p.len() {
            by_thread.entry((p.thread[i], p.loop_id[i])).or_default().push(i);
        }
        let rows: FastMap<u32, usize> = input.loops.id.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        by_thread.retain(|_, samples| samples.len() >= LEAST);
        by_thread.values_mut().for_each(|samples| samples.sort_by_key(|&i| p.time_ns[i]));
        let fixed = by_thread
            .iter()
            .filter_map(|(&key, samples)| Some((key, Fixed::of(input, *rows.get(&key.1)?, samples, ghz)?)))
            .collect();
        let mut paces: FastMap<(u32, u32), Pace> = by_thread
            .into_iter()
            .filter_map(|(key, samples)| Some((key, pace(input, *rows.get(&key.1)?, samples, ghz)?)))
            .collect();
        sustain(&mut paces, judge);
        Native { loops, paces, fixed }
    }

    /// The loop that a thread was in, if it accesses fixed places only and how fast it was is known.
    #[inline]
    pub fn fixed_loop(&self, thread: u32, ip: u32) -> Option<u32> {
        if self.fixed.is_empty() {
            return None;
        }
        let loop_id = *self.loops.get(&ip)?;
        self.fixed.contains_key(&(thread, loop_id)).then_some(loop_id)
    }

    /// How fast a thread was in such a loop.
    pub fn fixed(&self, thread: u32, loop_id: u32) -> Option<&Fixed> {
        self.fixed.get(&(thread, loop_id))
    }

    /// The pace of the loop that a thread was in; `None` where it is not known, or there is no loop.
    #[inline]
    pub fn pace(&self, thread: u32, ip: u32) -> Option<Pace> {
        if self.paces.is_empty() {
            return None;
        }
        self.paces.get(&(thread, *self.loops.get(&ip)?)).copied()
    }
}

fn pace(input: &Input, row: usize, samples: Vec<usize>, ghz: f64) -> Option<Pace> {
    let (p, l) = (&input.progress, &input.loops);
    let step = l.step[row];
    if step == 0.0 || l.issue_cycles[row] <= 0.0 || samples.iter().any(|&i| p.cpu_ns[i] == UNCOUNTED) {
        return None;
    }
    let mut left: Vec<u64> = samples.iter().map(|&i| p.left[i]).collect();
    left.sort_unstable();
    // Half of a pass is left in the middle; where nothing counts, all bits are set.
    let middle = left[left.len() / 2];
    let long = middle != UNCOUNTED && middle >= LONG / 2;
    let least_ns = if long { l.chain_cycles[row] } else { l.issue_cycles[row] } / ghz;
    let fastest = BEYOND * ghz / l.issue_cycles[row];
    let point = |i: usize, at: f64| Point {
        cpu_ns: p.cpu_ns[i] as f64,
        time_ns: p.time_ns[i] as f64,
        at,
        nth: p.nth[i],
    };
    // Iterations that are left begin anew with each entry into the loop: where all entries are of one length, they count best.
    let most = left[left.len() - 1];
    let by_entry = (most != UNCOUNTED).then(|| {
        let points: Vec<Point> = samples.iter().map(|&i| point(i, -(p.left[i] as f64))).collect();
        velocity(&points, most as f64 * (1.0 + 1.0 / points.len() as f64), fastest)
    });
    let by_memory = || {
        let (pieces, extent) = pieces(samples.iter().map(|&i| p.position[i]).collect());
        let point = |&i: &usize| {
            let begin = pieces.iter().find(|piece| (piece.0..=piece.1).contains(&p.position[i]))?.0;
            Some(point(i, p.position[i].wrapping_sub(begin) as f64 / step))
        };
        let points: Vec<Point> = samples.iter().filter_map(point).collect();
        velocity(&points, extent / step.abs(), fastest)
    };
    let found = by_entry.flatten().or_else(by_memory)?;
    let iteration_ns = 1.0 / found.per_ns;
    // Two threads of a core share its pipes.
    let shared = f64::from(input.meta.machine.threads_per_core.max(1));
    let most_ns = l.high_cycles[row] * shared / (SLOWEST * ghz);
    let bytes_per_ns = bytes(input, l.id[row]).map(|bytes| bytes / iteration_ns);
    let found = Pace { iteration_ns, least_ns, most_ns, bytes_per_ns, sustained: true };
    (iteration_ns >= IMPOSSIBLE * least_ns).then_some(found)
}

/// Bytes that an iteration takes from memory where no cache holds them; `None` where an address is not regular, or a fixed place is
/// written.
fn bytes(input: &Input, loop_id: u32) -> Option<f64> {
    let s = &input.loop_streams;
    (0..s.len()).filter(|&i| s.loop_id[i] == loop_id).try_fold(0.0, |sum, i| {
        // A line that is written at a fixed place may be one that other threads want: how fast it is alone does not tell.
        let stores = [Access::Store as u8, Access::LoadStore as u8].contains(&s.access[i]);
        if stores && s.step[i] == 0.0 {
            return None;
        }
        // Of a step that is wider than what it touches, the lines that it touches.
        let touched = u64::from(s.bytes[i]).max(LINE_BYTES).next_multiple_of(LINE_BYTES) as f64;
        (s.regular[i] != 0).then(|| sum + s.step[i].abs().min(touched))
    })
}

/// Whether the machine's far memory gives what the loops take. On the recorded machine it was seen to; on another one its
/// figures must say so: lines in flight over the latency for each thread, and for all of them the bandwidth between two nodes and of one.
fn sustain(paces: &mut FastMap<(u32, u32), Pace>, judge: &Judge) {
    if judge.assume.is_none() {
        return;
    }
    let figures = &judge.machine.figures;
    let nodes = judge.machine.nodes.len();
    let far = || (0..nodes).flat_map(|a| (0..nodes).filter(move |&b| b != a).map(move |b| (a, b)));
    let cpus = |node: usize| !judge.machine.nodes[node].cpus.is_empty();
    let latency = figures.latency_ns.as_ref().and_then(Matrix::unless_assumed).and_then(|m| {
        far().filter(|&(from, _)| cpus(from)).filter_map(|(a, b)| m.get(a, b)).reduce(f64::max)
    });
    let lines = figures.core.outstanding_lines.as_ref().map(|f| f.value);
    let of_core = figures.core.read_gbs.as_ref().map_or(f64::INFINITY, |f| f.value);
    let a_thread = latency.zip(lines).map(|(ns, lines)| of_core.min(lines * LINE_BYTES as f64 / ns));
    let pair = figures.pair_read_gbs.as_ref().and_then(Matrix::unless_assumed).and_then(|m| {
        far().filter(|&(from, _)| cpus(from)).filter_map(|(a, b)| m.get(a, b)).reduce(f64::min)
    });
    let link = figures.links.iter().map(|l| l.count.value * l.gbs_per_direction.value).reduce(f64::min);
    let between = pair.into_iter().chain(link).reduce(f64::min);
    // All of it may be one node's.
    let memory =
        figures.bandwidth.iter().filter_map(|b| b.read_gbs.as_ref()).map(|f| f.value).reduce(f64::min);
    let all = between.map(|gbs| gbs.min(memory.unwrap_or(f64::INFINITY)));
    let mut of_threads: FastMap<u32, f64> = FastMap::default();
    for ((thread, _), pace) in paces.iter() {
        let most = of_threads.entry(*thread).or_default();
        *most = most.max(pace.bytes_per_ns.unwrap_or(f64::INFINITY));
    }
    let together: f64 = of_threads.values().sum();
    for pace in paces.values_mut() {
        pace.sustained = nodes < 2
            || pace.bytes_per_ns.zip(a_thread).zip(all).is_some_and(|((takes, thread), all)| {
                takes <= SUSTAINED * thread && together <= SUSTAINED * all
            });
    }
}

/// The pieces of memory that positions are in, and how long a pass through one is: those of about the longest length. A loop
/// that works on one array after the other, or on two in turn, has a piece for each.
fn pieces(mut positions: Vec<u64>) -> (Vec<(u64, u64)>, f64) {
    positions.sort_unstable();
    let n = positions.len();
    let mut gaps: Vec<u64> = positions.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_unstable();
    // Of n samples anywhere in a piece, the widest gap is ln n times the mean, and a tenth are wider than ln 10 times the mean.
    let usual = gaps.get(gaps.len() * 9 / 10).copied().unwrap_or(0).max(1) as f64 / std::f64::consts::LN_10;
    let widest = usual * 3.0 * (n.max(3) as f64).ln();
    let mut found: Vec<(u64, u64, usize)> = Vec::new();
    for position in positions {
        match found.last_mut().filter(|piece| (position - piece.1) as f64 <= widest) {
            Some(piece) => *piece = (piece.0, position, piece.2 + 1),
            None => found.push((position, position, 1)),
        }
    }
    // Samples do not reach quite to the ends.
    let length = |piece: &(u64, u64, usize)| {
        let samples = piece.2 as f64;
        (piece.1 - piece.0) as f64 * (samples + 1.0) / (samples - 1.0).max(1.0)
    };
    found.retain(|piece| piece.2 as f64 >= PIECE * n as f64 && piece.2 >= 10);
    let longest = found.iter().map(length).fold(0.0, f64::max);
    found.retain(|piece| length(piece) > 0.94 * longest);
    (found.into_iter().map(|piece| (piece.0, piece.1)).collect(), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_arrays_of_one_length_are_two_pieces_and_a_shorter_one_is_left_out() {
        let spread = |from: u64, bytes: u64, n: u64| (0..n).map(move |i| from + i * 7919 % bytes);
        let all = spread(0x1000_0000, 800_000, 300).chain(spread(0x2000_0000, 800_000, 300));
        let (pieces, extent) = pieces(all.chain(spread(0x3000_0000, 20_000, 100)).collect());
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!((extent / 800_000.0 - 1.0).abs() < 0.05, "{extent}");
    }
}
