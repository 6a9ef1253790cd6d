//! What a timer's samples say beyond where they are: which loops compute.
//!
//! The recorder keeps how far threads were in their loops, and what an iteration of each costs where caches answer at once.
//! [`super::velocity`] finds how long an iteration took. Where that is what it costs, the loop computes: no access
//! of it is waited for, wherever its pages are: on the machine that was recorded. On another one, only if its far memory is
//! fast enough for what the loop reads. docs/native.md has the derivation.

use super::blame::Blame;
use super::hash::{FastMap, FastSet};
use super::input::{Input, Judge};
use super::pieces::{among_others, leaves_out, pieces};
use super::spans::Fixed;
use super::velocity::{IMPOSSIBLE, Point, SLOWEST, velocity};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::figures::Matrix;
use nearfar_recording::{Access, Columns, Source, UNCOUNTED};

/// Time of an iteration, over the least that it can cost, up to which its loop computes. What is above 1 may be waiting, and
/// is in the upper end of the interval. // chosen
const COMPUTES: f64 = 1.15;
/// Iterations of one entry from which on the chain of results decides: chains of short entries overlap. // chosen
const LONG: u64 = 200;
/// Time of an iteration, over the most that it costs where no access waits, from which on its loop waits. // chosen
const WAITS: f64 = 1.5;
/// Faster than the least cost by this much is tried, so that a wrong velocity there shows. // chosen
const BEYOND: f64 = 1.15;
/// Part of a pass through memory that one entry into the loop must be, for the position to be moved by its iterations only: an
/// outer loop may go through pieces several times between two samples. // chosen
const ONE_ENTRY: f64 = 0.5;
/// Part of the neighbouring samples that are in different pieces, up to which the number of changes follows. // chosen
const RARELY: f64 = 0.5;
/// Samples of a thread in a loop below which nothing is asked. // chosen
const LEAST: usize = 50;

/// Pieces of memory that a loop may go through in turn, as two grids, for its position alone to say how many lines it moves. // chosen
const IN_TURN: usize = 2;
/// Iterations over those that the position says, where there are more pieces. // chosen: in `trisolve`, whose threads have a piece for
/// each level, there are 1.2 times as many
const UNCERTAIN: [f64; 3] = [0.5, 1.0, 1.5];

/// Part of what a machine's far memory gives that loops may take and still compute there: figures of machines are of the best
/// case. // chosen
const SUSTAINED: f64 = 0.5;

/// What a loop of a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time of an iteration, ns; what runs between two entries into the loop may be in it.
    pub iteration_ns: f64,
    /// What of that the loop itself took, ns; `None` where its position may have been moved by more than its iterations.
    pub own_ns: Option<f64>,
    /// What of it passed in the loop, ns; `None` if that is not known.
    pub inside_ns: Option<f64>,
    /// Part of its iterations that bring its position to memory where it was not just before: less than 1 where an outer loop goes
    /// through blocks several times, more than 1 at most where the number of iterations itself is uncertain. Least, likely and most;
    /// `None` if that is not known.
    pub swept: Option<[f64; 3]>,
    /// The least that it can cost, ns.
    pub least_ns: f64,
    /// The most that it costs where no access waits, ns; infinite where that is not known. `changes` is in it.
    pub most_ns: f64,
    /// How many times faster it is at its fastest; 1 where its speed is one.
    pub changes: f64,
    /// What it takes from memory where no cache holds it, bytes per ns; `None` where its addresses do not tell.
    pub bytes_per_ns: Option<f64>,
    /// Whether the far memory of the machine that is judged gives that.
    pub sustained: bool,
    /// What its streams that are fetched ahead take, bytes per ns while it runs; `None` if that is not known.
    pub ahead_per_ns: Option<f64>,
    /// Whether the far memory of another machine than the recorded one gives that: then it waits for them no more than here.
    pub ahead: bool,
}

impl Pace {
    /// Whether the loop computes, on the machine that is judged, too.
    pub fn computes(&self) -> bool {
        self.sustained && self.iteration_ns <= COMPUTES * self.least_ns
    }

    /// Whether it waits: for a cache, for memory or for another thread's line.
    pub fn waits(&self) -> bool {
        self.own_ns.is_some_and(|ns| ns >= WAITS * self.most_ns)
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
    /// By loop and instruction's location: ns at most from when all before it are done until it is, if the first-level cache answers.
    hits: FastMap<(u32, u32), f64>,
    /// By loop and instruction's location: those whose lines are fetched ahead.
    ahead: FastSet<(u32, u32)>,
    /// Which samples blame an instruction.
    pub blame: Blame,
    /// Whether the recorder knew the clock of a core, and the CPU time of threads.
    knows_speeds: bool,
}

impl Native {
    /// From the recording's tables, for a machine.
    pub fn new(input: &Input, judge: &Judge) -> Native {
        let p = &input.progress;
        let loops = (0..p.len()).map(|i| (p.ip[i], p.loop_id[i])).collect();
        let blame = Blame::new(input);
        let Some(ghz) = input.meta.core_ghz else { return Native { loops, blame, ..Native::default() } };
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
        let among = among_others(input, &by_thread, &rows);
        let mut paces: FastMap<(u32, u32), Pace> = by_thread
            .into_iter()
            .filter_map(|(key, samples)| {
                Some((key, pace(input, *rows.get(&key.1)?, samples, ghz, among.contains(&key))?))
            })
            .collect();
        sustain(&mut paces, judge);
        let (o, slow) = (&input.loop_operands, slow_cycle_ns(input, ghz));
        let known = (0..o.len()).filter(|&i| o.hit_cycles[i] > 0.0);
        let hits = known.map(|i| ((o.loop_id[i], o.ip[i]), o.hit_cycles[i] * slow)).collect();
        let ahead = (0..o.len()).filter(|&i| fetched_ahead(o.regular[i], o.step[i]));
        let ahead = ahead.map(|i| (o.loop_id[i], o.ip[i])).collect();
        let knows_speeds = p.cpu_ns.iter().any(|&ns| ns != UNCOUNTED);
        Native { loops, paces, fixed, hits, ahead, blame, knows_speeds }
    }

    /// Whether the recording can show how fast loops are: then code of which it does not is code of unknown speed.
    pub fn knows_speeds(&self) -> bool {
        self.knows_speeds
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

    /// The loop that a thread was in, and its pace; `None` if no loop of known pace is there.
    #[inline]
    pub fn pace(&self, thread: u32, ip: u32) -> Option<(u32, Pace)> {
        if self.paces.is_empty() {
            return None;
        }
        let loop_id = *self.loops.get(&ip)?;
        Some((loop_id, self.pace_of(thread, loop_id)?))
    }

    /// The pace of a thread's loop.
    pub fn pace_of(&self, thread: u32, loop_id: u32) -> Option<Pace> {
        self.paces.get(&(thread, loop_id)).copied()
    }

    /// Whether the lines of an instruction of a loop are fetched ahead.
    pub fn is_ahead(&self, loop_id: u32, ip: u32) -> bool {
        self.ahead.contains(&(loop_id, ip))
    }

    /// Time that an instruction of a loop takes at most once all before it are done and the first-level cache answers, ns; `None` where
    /// its cost is not known.
    pub fn hit_ns(&self, loop_id: u32, ip: u32) -> Option<f64> {
        self.hits.get(&(loop_id, ip)).copied()
    }
}

/// Whether lines come before they are asked for: prefetchers follow constant steps within a page of 4 KiB, so at least two of them must be
/// in one (Intel, "Optimization Reference Manual", on data prefetching: strides up to 2 KiB; AMD's stride prefetchers stay in a page, too).
fn fetched_ahead(regular: u8, step: f64) -> bool {
    regular != 0 && step != 0.0 && step.abs() <= 2048.0
}

/// A cycle at most, ns: of a core whose clock is slow, and which two threads share; or longer, if the recorder saw that instructions
/// took longer while the program ran. A virtual machine does not say that another one uses the core's other thread.
fn slow_cycle_ns(input: &Input, ghz: f64) -> f64 {
    let shared = f64::from(input.meta.machine.threads_per_core.max(1));
    (shared / SLOWEST).max(input.meta.core_slowdown.unwrap_or(1.0)) / ghz
}

/// The pace of a thread's loop. `among`: its positions lie among those of other threads.
fn pace(input: &Input, row: usize, samples: Vec<usize>, ghz: f64, among: bool) -> Option<Pace> {
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
    let chain = Some(l.chain_cycles[row]).filter(|&cycles| long && cycles > 0.0);
    let least_ns = chain.unwrap_or(l.issue_cycles[row]) / ghz;
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
    let mut of_one_entry = by_entry.flatten().is_some();
    let mut by_memory = || {
        let (pieces, extent) = pieces(samples.iter().map(|&i| p.position[i]).collect());
        let point = |&i: &usize| {
            let begin = pieces.iter().find(|piece| (piece.0..=piece.1).contains(&p.position[i]))?.0;
            Some(point(i, p.position[i].wrapping_sub(begin) as f64 / step))
        };
        let points: Vec<Point> = samples.iter().filter_map(point).collect();
        of_one_entry |= middle != UNCOUNTED && 2.0 * middle as f64 * step.abs() >= ONE_ENTRY * extent;
        (velocity(&points, extent / step.abs(), fastest), pieces.len() <= IN_TURN)
    };
    let by_entry = by_entry.flatten();
    let (by_memory, in_turn) = by_memory();
    // Where entries are short, the position may run past what the thread leaves out.
    let alone = of_one_entry || !among && !leaves_out(input, &samples, step);
    let found = by_entry.or(by_memory.filter(|_| alone))?;
    let swept = match (by_entry, by_memory) {
        (Some(entry), Some(memory)) => Some([(memory.per_ns / entry.per_ns).min(1.0); 3]),
        // From one piece to the next the position jumps, and entries that do not count say nothing of how often.
        (None, Some(_)) => Some(if in_turn { [1.0; 3] } else { UNCERTAIN }),
        // Of two samples in pieces beside each other, half are no farther apart than a piece is long.
        (Some(entry), None) => changed(input, &samples, most as f64 * step.abs()).map(|per_ns| {
            [1.0, 1.5, 2.0].map(|times| (times * per_ns * most as f64 / entry.per_ns).min(1.0))
        }),
        _ => None,
    };
    let iteration_ns = 1.0 / found.per_ns;
    // A thread is slower for a while because of memory, or because another program has the core: what it takes at its fastest shows
    // less of either.
    let changes = found.fast_per_ns / found.per_ns;
    let most_ns = match l.high_cycles[row] {
        cycles if cycles > 0.0 => cycles * slow_cycle_ns(input, ghz) * changes,
        _ => f64::INFINITY,
    };
    let bytes_per_ns = bytes(input, l.id[row]).map(|bytes| bytes / iteration_ns);
    let inside_ns = inside(input, &samples).map(|part| iteration_ns * part);
    let own_ns = inside_ns.filter(|_| of_one_entry);
    let ahead_per_ns = inside_ns.map(|ns| ahead_bytes(input, l.id[row]) / ns);
    let found = Pace {
        iteration_ns,
        own_ns,
        inside_ns,
        swept,
        least_ns,
        most_ns,
        changes,
        bytes_per_ns,
        sustained: true,
        ahead_per_ns,
        ahead: false,
    };
    (iteration_ns >= IMPOSSIBLE * least_ns).then_some(found)
}

/// How often a loop that goes through pieces of `bytes` several times each comes to another one, 1/ns: as rarely as neighbouring samples are in
/// different ones. `None` where most are: then it is anything.
fn changed(input: &Input, samples: &[usize], bytes: f64) -> Option<f64> {
    let p = &input.progress;
    let (mut other, mut all, mut ns) = (0u64, 0u64, 0.0);
    for w in samples.windows(2).filter(|w| p.nth[w[1]].wrapping_sub(p.nth[w[0]]) == 1) {
        all += 1;
        other += u64::from(p.position[w[0]].abs_diff(p.position[w[1]]) as f64 > bytes);
        ns += p.cpu_ns[w[1]].saturating_sub(p.cpu_ns[w[0]]) as f64;
    }
    let part = other as f64 / all.max(1) as f64;
    (all >= LEAST as u64 && part < RARELY).then(|| -(1.0 - part).ln() * all as f64 / ns.max(1.0))
}

/// Part of the time between neighbouring samples in a loop that the thread was in it. If it was nowhere else, they are as far apart as
/// samples are. `None` if that is not known.
fn inside(input: &Input, samples: &[usize]) -> Option<f64> {
    let p = &input.progress;
    let clock = input.meta.sources.iter().find(|s| s.source == Source::Clock && s.active && s.hz > 0.0)?;
    let neighbours = samples.windows(2).filter(|w| p.nth[w[1]].wrapping_sub(p.nth[w[0]]) == 1);
    let apart = neighbours.map(|w| p.cpu_ns[w[1]].saturating_sub(p.cpu_ns[w[0]]) as f64);
    let near: Vec<f64> = apart.filter(|&ns| ns < super::velocity::FARTHEST_NS).collect();
    let mean = near.iter().sum::<f64>() / near.len() as f64;
    (mean > 0.0).then(|| (1e9 / clock.hz / mean).min(1.0))
}

/// Bytes that an iteration takes from memory where no cache holds them; `None` where an address is not regular, or a fixed place is
/// written.
fn bytes(input: &Input, loop_id: u32) -> Option<f64> {
    let s = &input.loop_streams;
    (0..s.len()).filter(|&i| s.loop_id[i] == loop_id).try_fold(0.0, |sum, i| {
        // A line that is written at a fixed place may be one that other threads want: how fast it is alone does not tell.
        if is_written(input, i) && s.step[i] == 0.0 {
            return None;
        }
        // Of a step that is wider than what it touches, the lines that it touches.
        (s.regular[i] != 0).then(|| sum + s.step[i].abs().min(line_bytes(s.bytes[i])))
    })
}

/// Whether a loop writes to a stream, by the stream's row.
pub(super) fn is_written(input: &Input, stream: usize) -> bool {
    let access = Access::from_code(input.loop_streams.access[stream]);
    matches!(access, Some(Access::Store | Access::LoadStore))
}

/// Bytes that an iteration takes from memory by its streams that are fetched ahead. If an outer loop goes through a piece of them several
/// times, so little comes from memory as the position moves.
fn ahead_bytes(input: &Input, loop_id: u32) -> f64 {
    let s = &input.loop_streams;
    let ahead = (0..s.len()).filter(|&i| s.loop_id[i] == loop_id && fetched_ahead(s.regular[i], s.step[i]));
    ahead.map(|i| s.step[i].abs().min(line_bytes(s.bytes[i]))).sum()
}

/// Bytes of the lines that so many neighbouring bytes are in.
fn line_bytes(bytes: u32) -> f64 {
    u64::from(bytes).max(LINE_BYTES).next_multiple_of(LINE_BYTES) as f64
}

/// Whether the machine's far memory gives what the loops take. On the recorded machine it was seen to; on another one its
/// figures must say so.
fn sustain(paces: &mut FastMap<(u32, u32), Pace>, judge: &Judge) {
    if judge.assume.is_none() {
        return;
    }
    let together = |paces: &FastMap<(u32, u32), Pace>, of: fn(&Pace) -> Option<f64>| -> f64 {
        let mut of_threads: FastMap<u32, f64> = FastMap::default();
        for ((thread, _), pace) in paces.iter() {
            let most = of_threads.entry(*thread).or_default();
            *most = most.max(of(pace).unwrap_or(f64::INFINITY));
        }
        of_threads.values().sum()
    };
    let all_bytes = together(paces, |pace| pace.bytes_per_ns);
    let all_ahead = together(paces, |pace| pace.ahead_per_ns);
    let gives = Gives::new(judge);
    let given = |takes: Option<f64>, together: f64| takes.is_some_and(|takes| gives.enough(takes, together));
    for pace in paces.values_mut() {
        pace.sustained = judge.machine.nodes.len() < 2 || given(pace.bytes_per_ns, all_bytes);
        pace.ahead = given(pace.ahead_per_ns, all_ahead);
    }
}

/// What a machine's far memory gives: lines in flight over the latency for each thread, and for all of them the bandwidth between two nodes and
/// of one. Bytes per ns; `None` where a figure is missing.
pub(super) struct Gives {
    a_thread: Option<f64>,
    all: Option<f64>,
}

impl Gives {
    pub(super) fn new(judge: &Judge) -> Gives {
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
        Gives { a_thread, all: between.map(|gbs| gbs.min(memory.unwrap_or(f64::INFINITY))) }
    }

    /// Whether that is enough for what a thread takes, and for what all of them take together.
    pub(super) fn enough(&self, takes: f64, together: f64) -> bool {
        self.a_thread
            .zip(self.all)
            .is_some_and(|(thread, all)| takes <= SUSTAINED * thread && together <= SUSTAINED * all)
    }
}
