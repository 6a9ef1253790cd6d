//! What near memory would bring, by the processor's samples and the clock's.
//!
//! A thread's time is the clock's. What part of it waits for memory, and for far memory, are the parts of the latencies that its
//! loads were sampled with; near memory in place of far saves what the latencies differ by. The run is cut into parts
//! (`slices`), and lasts as long as the longest thread in each: to repair what other threads wait for saves nothing.
//!
//! What is not known becomes the range. Latencies overlap, and those of memory more than those of caches: at least the part
//! of memory is what it would be if a core had all the lines in flight that it can have, and at most all time in
//! instructions that touch memory is memory's. No processor says where the line of a store came from: its page says whether it
//! is far, and it waits as loads do, not at all, or all of its time. Time that no thread's samples explain stays.
//! Sampling errors are those of a bootstrap over blocks of time.

use super::context::Context;
use super::counters::Counters;
use super::hash::FastMap;
use super::input::Judge;
use super::memory_time::{Answer, Far, Spent};
use super::slices::{Clock, slices};
use super::stats::{BLOCKS, LEAST_OF_A_PART, LEAST_SAMPLES, Random};
use super::value::{Predicted, SampledGain};
use std::ops::Range;

/// Where it comes from, in words.
pub const SOURCE: &str = "samples of the processor and of the clock";
/// Most threads that are followed. // chosen: the search for parts takes a second then
const MOST_THREADS: usize = 2048;
/// Lines that a core has in flight where its machine does not say. // assumed: Intel's cores from Nehalem to Broadwell
const IN_FLIGHT: f64 = 10.0;
/// Normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;
/// Additions that a bootstrap may take, and its least and most number of draws. Its standard deviation is used, for which
/// some 50 are enough (Efron & Tibshirani 1993, 6.4). // chosen
const ADDITIONS: usize = 4_000_000;
const DRAWS: [usize; 2] = [50, 200];

/// What the part of the time that waits for memory is taken to be.
const LEAST: usize = 0;
const GUESS: usize = 1;
const MOST: usize = 2;

/// Predicts from samples.
#[derive(Debug)]
pub struct Gains {
    cells: Vec<Cell>,
    /// By row: far accesses, each with the position of their cell.
    rows: FastMap<u32, Vec<(usize, Far)>>,
    /// Parts of the run.
    slices: Vec<Range<usize>>,
    /// How many threads there are.
    threads: usize,
    /// Near latency over far where the samples do not say it.
    near_over_far: Option<f64>,
    /// Whether the machine's latencies are assumed.
    assumed: bool,
    /// Lines that a core can have in flight.
    in_flight: f64,
    /// Length of the run, ns, and what of it is certainly no thread's.
    length: f64,
    idle: f64,
}

/// A thread in a block of time: their positions, and that of the part of the run.
#[derive(Debug)]
struct Cell {
    thread: usize,
    block: usize,
    slice: usize,
    spent: Spent,
}

/// Sums of some cells.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    clock: f64,
    time: f64,
    loads: f64,
    sampled: [f64; 3],
    cycles: [f64; 3],
    events: [f64; 3],
    /// Of the far memory that a repair makes near: cycles of loads, ns of stores.
    far: [f64; 2],
}

impl Sums {
    fn add(&mut self, spent: &Spent, far: Far, weight: f64) {
        self.clock += weight * spent.clock as f64;
        self.time += weight * spent.time as f64;
        self.loads += weight * spent.loads as f64;
        for k in 0..3 {
            self.sampled[k] += weight * spent.sampled[k] as f64;
            self.cycles[k] += weight * spent.cycles[k] as f64;
            self.events[k] += weight * spent.events[k] as f64;
        }
        self.far[0] += weight * far.cycles as f64;
        self.far[1] += weight * far.stores as f64;
    }

    /// Whether so many loads were sampled that their latencies can be divided.
    fn divides(&self) -> bool {
        self.sampled.iter().sum::<f64>() >= LEAST_OF_A_PART as f64 && self.cycles.iter().sum::<f64>() > 0.0
    }

    fn merge(&mut self, other: &Sums) {
        self.clock += other.clock;
        self.time += other.time;
        self.loads += other.loads;
        for k in 0..3 {
            self.sampled[k] += other.sampled[k];
            self.cycles[k] += other.cycles[k];
            self.events[k] += other.events[k];
        }
        (0..2).for_each(|k| self.far[k] += other.far[k]);
    }

    fn near_over_far(&self) -> Option<f64> {
        let mean = |answer: Answer| self.cycles[answer as usize] / self.events[answer as usize];
        let enough = |answer: Answer| self.sampled[answer as usize] >= LEAST_OF_A_PART as f64;
        (enough(Answer::Near) && enough(Answer::Far)).then(|| mean(Answer::Near) / mean(Answer::Far))
    }

    /// The part of the time of loads that waits for memory, and of stores.
    fn waits(&self, taken: usize, in_flight: f64) -> [f64; 2] {
        let [cache, near, far] = self.cycles;
        let memory = near + far;
        match taken {
            _ if memory <= 0.0 => [0.0; 2],
            LEAST => [memory / in_flight / (memory / in_flight + cache), 0.0],
            GUESS => [memory / (memory + cache); 2],
            _ => [1.0; 2],
        }
    }
}

/// The time of the longest threads of all parts: now, and with less far memory.
struct Timed {
    now: f64,
    then: [f64; 3],
    /// Clock samples of these threads.
    samples: f64,
}

impl Gains {
    /// From what was counted.
    ///
    /// # Errors
    /// In words, why nothing can be predicted.
    pub fn new(judge: &Judge, context: &Context, counters: &Counters) -> Result<Gains, String> {
        let beside = &counters.beside;
        let nodes = context.finder.nodes;
        if nodes.count < 2 {
            return Err("the machine has one node: memory can be nowhere else".to_string());
        }
        if nodes.assumed {
            return Err("latencies were sampled on another machine than the one it is judged on".to_string());
        }
        if beside.too_few() {
            return Err(format!(
                "memory answered {} of the sampled loads; {LEAST_SAMPLES} are needed",
                beside.samples()[1]
            ));
        }
        beside.waits().map_err(|why| format!("how much of the time waits for memory is unknown: {why}"))?;
        if beside.filtered {
            return Err(
                "only slow loads or misses were sampled, so which part of the time waits for memory is \
                        unknown: record without --least-latency and --misses-only"
                    .to_string(),
            );
        }
        let mut spent: Vec<((u32, u32), Spent)> =
            counters.memory_time.threads.iter().map(|(&key, &spent)| (key, spent)).collect();
        // Sums of floating-point numbers depend on the order.
        spent.sort_unstable_by_key(|(key, _)| *key);
        let mut threads: Vec<u32> = spent.iter().map(|(key, _)| key.0).collect();
        threads.dedup();
        if threads.len() > MOST_THREADS {
            return Err(format!("{} threads are more than are followed ({MOST_THREADS})", threads.len()));
        }
        let position = |thread: u32| threads.partition_point(|&t| t < thread);
        let mut clocks = vec![vec![Clock::default(); BLOCKS]; threads.len()];
        for ((thread, block), s) in &spent {
            clocks[position(*thread)][*block as usize] = [s.clock as f64, s.time as f64];
        }
        let slices = slices(&clocks);
        let slice_of = |block: usize| slices.partition_point(|part| part.end <= block);
        let cell = |&((thread, block), spent): &((u32, u32), Spent)| {
            let block = block as usize;
            Cell { thread: position(thread), block, slice: slice_of(block), spent }
        };
        let cells: Vec<Cell> = spent.iter().map(cell).collect();
        let mut rows: FastMap<u32, Vec<(usize, Far)>> = FastMap::default();
        for (&(row, thread, block), far) in counters.memory_time.rows.iter() {
            let at = spent.partition_point(|(key, _)| *key < (thread, block));
            rows.entry(row).or_default().push((at, *far));
        }
        let region = context.region;
        let block_ns = region.bounds.1.saturating_sub(region.bounds.0) as f64 / BLOCKS as f64;
        let ran = |block: usize| clocks.iter().map(|thread| thread[block][1]).sum::<f64>();
        let lines = judge.machine.figures.core.outstanding_lines.as_ref().map_or(IN_FLIGHT, |f| f.value);
        let mut gains = Gains {
            cells,
            rows,
            threads: threads.len(),
            near_over_far: None,
            assumed: judge.machine.figures.latency_ns.as_ref().is_some_and(|m| m.unless_assumed().is_none()),
            in_flight: lines.max(1.0),
            length: region.length_ns as f64,
            idle: (0..BLOCKS).map(|block| (block_ns - ran(block)).max(0.0)).sum(),
            slices,
        };
        let all = gains.total();
        if all.cycles.iter().sum::<f64>() <= 0.0 {
            return Err("the processor's samples have no latencies".to_string());
        }
        let is_far = |cell: &Cell| cell.spent.sampled[Answer::Far as usize] > 0 || cell.spent.far_stores > 0;
        // Without far memory there is nothing to bring home.
        if all.near_over_far().is_none() && gains.cells.iter().any(is_far) {
            gains.near_over_far = Some(by_machine(judge).ok_or(
                "too few loads from near or from far memory were sampled for their latencies, and the machine's \
                 file has none",
            )?);
        }
        Ok(gains)
    }

    /// With all far memory near. `repaired`: with the repairs of all findings.
    pub fn every_line_local(&self, repaired: Option<Predicted>) -> SampledGain {
        let far = |cell: &Cell| Far {
            cycles: cell.spent.cycles[Answer::Far as usize],
            stores: cell.spent.far_stores,
        };
        let far: Vec<Far> = self.cells.iter().map(far).collect();
        let now = self.timed(&far, &[1.0; BLOCKS]).now;
        let of_samples = self.total().near_over_far();
        SampledGain {
            every_line_local: self.predicted(&far),
            repaired,
            source: SOURCE.to_string(),
            slices: self.slices.len(),
            explained_share: if self.length > 0.0 { (now / self.length).min(1.0) } else { 1.0 },
            far_over_near: self.near_over_far.or(of_samples).map(|near| 1.0 / near),
            latencies_from: match (self.near_over_far, of_samples) {
                (Some(_), _) if self.assumed => Some("assumed figures".to_string()),
                (Some(_), _) => Some("machine file".to_string()),
                (None, Some(_)) => Some("samples".to_string()),
                (None, None) => None,
            },
        }
    }

    /// With the far memory of some rows near.
    pub fn of_rows(&self, rows: &[u32]) -> Predicted {
        let mut far = vec![Far::default(); self.cells.len()];
        for &(at, of) in rows.iter().filter_map(|row| self.rows.get(row)).flatten() {
            far[at].cycles = far[at].cycles.saturating_add(of.cycles);
            far[at].stores += of.stores;
        }
        self.predicted(&far)
    }

    fn total(&self) -> Sums {
        let mut all = Sums::default();
        self.cells.iter().for_each(|cell| all.add(&cell.spent, Far::default(), 1.0));
        all
    }

    /// `far`: by cell, what becomes near.
    fn predicted(&self, far: &[Far]) -> Predicted {
        let ratios = |timed: &Timed| {
            // What no thread's samples explain may be time that all wait for something else, and then it stays; where some
            // thread ran, it may be theirs.
            let rest = (self.length - timed.now).max(0.0);
            let with = |taken: usize, stays: f64| (stays + timed.then[taken]) / (stays + timed.now).max(1.0);
            [with(LEAST, rest), with(GUESS, rest), with(MOST, rest.min(self.idle))]
        };
        let timed = self.timed(far, &[1.0; BLOCKS]);
        let [high, ratio, low] = ratios(&timed);
        let draws = (ADDITIONS / (self.cells.len() + self.threads * self.slices.len()).max(1))
            .clamp(DRAWS[0], DRAWS[1]);
        let mut random = Random::new(0x6761_696E);
        let drawn: Vec<[f64; 3]> =
            (0..draws).map(|_| ratios(&self.timed(far, &self.resampled(&mut random)))).collect();
        let error = |taken: usize, ratio: f64| {
            let mean = drawn.iter().map(|d| d[taken]).sum::<f64>() / draws as f64;
            let squares: f64 = drawn.iter().map(|d| (d[taken] - mean).powi(2)).sum();
            // Blocks that are alike know nothing of their spread: not below that of independent samples.
            let binomial = ratio * (1.0 - ratio) / timed.samples.max(1.0);
            (squares / (draws - 1) as f64).max(binomial).sqrt()
        };
        // That no sample was of far memory does not say that there is none: of n samples, what is below 3/n of the
        // time may well have none (Hanley & Lippman-Hand 1983, "If nothing goes wrong, is everything all right?").
        let unseen = 3.0 / timed.samples.max(1.0);
        Predicted {
            ratio,
            low: (low - Z * error(2, low)).min(1.0 - unseen).clamp(0.0, ratio),
            // Near memory makes nothing slower.
            high: (high + Z * error(0, high)).clamp(ratio, 1.0),
        }
    }

    /// How often each block counts when as many blocks of each part are drawn with replacement.
    fn resampled(&self, random: &mut Random) -> [f64; BLOCKS] {
        let mut weights = [0.0; BLOCKS];
        for part in &self.slices {
            (0..part.len()).for_each(|_| weights[part.start + random.below(part.len())] += 1.0);
        }
        weights
    }

    fn timed(&self, far: &[Far], weights: &[f64; BLOCKS]) -> Timed {
        let mut sums = vec![Sums::default(); self.threads * self.slices.len()];
        let mut of_thread = vec![Sums::default(); self.threads];
        let mut all = Sums::default();
        for (cell, far) in self.cells.iter().zip(far) {
            let weight = weights[cell.block];
            if weight > 0.0 {
                sums[cell.slice * self.threads + cell.thread].add(&cell.spent, *far, weight);
            }
        }
        for part in sums.chunks_exact(self.threads.max(1)) {
            for (to, from) in of_thread.iter_mut().zip(part) {
                to.merge(from);
                all.merge(from);
            }
        }
        let saved = 1.0 - self.near_over_far.or(all.near_over_far()).unwrap_or(1.0).min(1.0);
        let mut timed = Timed { now: 0.0, then: [0.0; 3], samples: 0.0 };
        for part in sums.chunks_exact(self.threads.max(1)) {
            let longest = part.iter().max_by(|a, b| a.time.total_cmp(&b.time));
            timed.now += longest.map_or(0.0, |sums| sums.time);
            timed.samples += longest.map_or(0.0, |sums| sums.clock);
            for taken in [LEAST, GUESS, MOST] {
                let then = |(sums, thread): (&Sums, &Sums)| {
                    let from = [sums, thread, &all].into_iter().find(|sums| sums.divides()).unwrap_or(&all);
                    let [loads, stores] = from.waits(taken, self.in_flight);
                    let memory = from.cycles[Answer::Near as usize] + from.cycles[Answer::Far as usize];
                    let far = if memory > 0.0 { from.far[0] / memory } else { 0.0 };
                    sums.time - saved * (sums.loads * loads * far + sums.far[1] * stores)
                };
                timed.then[taken] += part.iter().zip(&of_thread).map(then).fold(0.0, f64::max);
            }
        }
        timed
    }
}

/// Near latency over far by the machine: the means over all nodes with cpus.
fn by_machine(judge: &Judge) -> Option<f64> {
    let latencies = judge.machine.figures.latency_ns.as_ref()?;
    let nodes = 0..judge.machine.nodes.len();
    let mean = |near: bool| {
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let known: Vec<f64> = pairs
            .filter(|(from, to)| (from == to) == near && !judge.machine.nodes[*from].cpus.is_empty())
            .filter_map(|(from, to)| latencies.get(from, to))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    Some(mean(true)? / mean(false)?.max(f64::MIN_POSITIVE))
}
