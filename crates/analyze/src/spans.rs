//! How fast threads were from one sample to the next, in loops that access fixed places only.
//!
//! Such a loop is in its caches at once: nothing but another core takes a line away that every iteration uses. So time
//! beyond what its instructions take is waiting for other cores' writes. Where nothing else writes, it runs at its cost;
//! this changes within a run, as threads begin, end and lose their cpus, so each pair of samples has a speed of its own.
//! That needs no estimate of whole passes: only pairs count between which no pass can have ended unseen.

use super::input::Input;
use super::velocity::{IMPOSSIBLE, INTERRUPT_NS, SHORTEST_NS, SLOWEST};
use nearfar_recording::{Columns, UNCOUNTED};

/// Least part of the samples in the first half of a pass. Where entries are of one length it is a half; many short entries among
/// long ones would hide ends of passes. // chosen
const FIRST_HALF: f64 = 0.4;
/// Time beyond the CPU time between two samples of a thread that ran all the while: part of it, and ns. // chosen
const RAN: (f64, f64) = (1.05, 10_000.0);
/// Shortest pair that tells how fast the loop can be, ns: of shorter ones, the interrupt's time is a part. // chosen
const TELLING_NS: f64 = 30_000.0;
/// Which of these, from the fastest, is taken for what the loop takes where no access waits; and by how much that may be more. //
/// chosen
const FASTEST: (f64, f64) = (0.1, 1.15);
/// Which of them is taken for the fastest that there is. // chosen
const NEVER_FASTER: f64 = 0.02;
/// How much a thread must be away from its cpus inside of entries, over how much it is in all, for others to have taken the cpu. // chosen
const HELD: f64 = 0.5;
/// CPU time between two samples with none between them, ns at most: of timers of about 1 kHz. // chosen
const NEIGHBOURS_NS: f64 = 5e6;

/// A thread between two samples in a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First sample, ns.
    pub from_ns: u64,
    /// Second, ns.
    pub to_ns: u64,
    /// Cpu on which both were.
    pub cpu: u16,
    /// CPU time between them, the interrupt's left out, ns.
    pub took_ns: f64,
    /// Iterations between them.
    pub iterations: f64,
}

/// A thread in a loop that accesses fixed places only.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Pairs of samples without the end of a pass between them.
    pub spans: Vec<Span>,
    /// When it ran without a break, and on which cpu; in order.
    running: Vec<(u64, u64, u16)>,
    /// When it was in the loop, running or waiting for a cpu that others had; in order.
    present: Vec<(u64, u64)>,
    /// The least that an iteration can take, ns.
    pub least_ns: f64,
    /// The most that it takes where no access waits, ns.
    pub most_ns: f64,
}

impl Fixed {
    /// From the samples of a thread in a loop, in order of time; `None` where the loop accesses other places, too, or how
    /// many iterations are left is not known.
    pub fn of(input: &Input, row: usize, samples: &[usize], ghz: f64) -> Option<Fixed> {
        let (p, l, streams) = (&input.progress, &input.loops, &input.loop_streams);
        let in_place_ns = input.meta.in_place_ns?;
        let fixed = |i: usize| streams.regular[i] != 0 && streams.step[i] == 0.0;
        let mut own = (0..streams.len()).filter(|&i| streams.loop_id[i] == l.id[row]).peekable();
        own.peek()?;
        if l.in_place_cycles[row] <= 0.0 || l.issue_cycles[row] <= 0.0 || !own.all(fixed) {
            return None;
        }
        if samples.iter().any(|&i| p.cpu_ns[i] == UNCOUNTED || p.left[i] == UNCOUNTED) {
            return None;
        }
        let pass = samples.iter().map(|&i| p.left[i]).max()? as f64;
        let early = samples.iter().filter(|&&i| p.left[i] as f64 >= pass / 2.0).count();
        if (early as f64) < FIRST_HALF * samples.len() as f64 {
            return None;
        }
        let least_ns = l.issue_cycles[row] / ghz;
        // A whole pass cannot be in a pair of less CPU time: by the loop's cost, then by what was seen of its speed.
        let pairs = || samples.windows(2).filter_map(|pair| Pair::of(input, pair[0], pair[1]));
        let spans = |fastest_ns: f64| -> Vec<Span> {
            pairs().filter_map(|pair| pair.span(pass * IMPOSSIBLE * fastest_ns)).collect()
        };
        let first = spans(least_ns);
        let fastest_ns = quantile(&first, NEVER_FASTER).map_or(least_ns, |ns| ns.max(least_ns));
        let spans = spans(fastest_ns);
        let longest_ns = pass * IMPOSSIBLE * fastest_ns;
        let held = [true, false].map(|inside| {
            let of = pairs().filter(|p| !inside || p.iterations > 0.0 && p.cpu_ns < longest_ns);
            let (away, ran) = of.fold((0.0, 0.0), |(away, ran), p| (away + p.away_ns(), ran + p.cpu_ns));
            if ran > 0.0 { away / ran } else { 0.0 }
        });
        // The loop calls nothing: where it leaves its cpu inside as well as between entries, others took the cpu.
        let held = held[0] >= HELD * held[1] || held[1] < RAN.0 - 1.0;
        let present = |p: &Pair| p.ran() || held && p.cpu_ns < NEIGHBOURS_NS;
        let shared = f64::from(input.meta.machine.threads_per_core.max(1));
        let cost = shared * (l.in_place_cycles[row] / ghz + in_place_ns) / SLOWEST;
        let seen = quantile(&spans, FASTEST.0).map(|ns| ns * FASTEST.1 * shared / SLOWEST);
        let most_ns = seen.map_or(cost, |seen| cost.min(seen));
        let running = pairs().filter(Pair::ran).map(|p| (p.from_ns, p.to_ns, p.cpu)).collect();
        let present = pairs().filter(present).map(|p| (p.from_ns, p.to_ns)).collect();
        Some(Fixed { spans, running, present, least_ns, most_ns })
    }

    /// Part of a span in which the thread ran on another cpu.
    pub fn beside(&self, span: &Span) -> f64 {
        meets(span, &self.running, |r| (r.0, r.1), |r| r.2 != span.cpu)
    }

    /// Part of a span in which the thread was in the loop: it would have run beside, had there been a cpu for each thread.
    pub fn present(&self, span: &Span) -> f64 {
        meets(span, &self.present, |r| *r, |_| true)
    }
}

/// Part of a span that is in those of some intervals, which are in order.
fn meets<T>(span: &Span, all: &[T], ends: fn(&T) -> (u64, u64), counts: impl Fn(&T) -> bool) -> f64 {
    let first = all.partition_point(|r| ends(r).1 <= span.from_ns);
    let meets = all[first..].iter().take_while(|r| ends(r).0 < span.to_ns).filter(|r| counts(r)).map(ends);
    let ns: u64 = meets.map(|r| r.1.min(span.to_ns) - r.0.max(span.from_ns)).sum();
    ns as f64 / (span.to_ns - span.from_ns).max(1) as f64
}

/// Two samples of a thread in a loop, without another of that loop between them.
struct Pair {
    from_ns: u64,
    to_ns: u64,
    /// Cpu of the second.
    cpu: u16,
    one_cpu: bool,
    cpu_ns: f64,
    iterations: f64,
}

impl Pair {
    fn of(input: &Input, a: usize, b: usize) -> Option<Pair> {
        let p = &input.progress;
        (p.nth[b] == p.nth[a].wrapping_add(1)).then(|| Pair {
            from_ns: p.time_ns[a],
            to_ns: p.time_ns[b],
            cpu: p.cpu[b],
            one_cpu: p.cpu[a] == p.cpu[b],
            cpu_ns: p.cpu_ns[b].saturating_sub(p.cpu_ns[a]) as f64,
            iterations: p.left[a] as f64 - p.left[b] as f64,
        })
    }

    fn time_ns(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64
    }

    fn away_ns(&self) -> f64 {
        (self.time_ns() - self.cpu_ns).max(0.0)
    }

    /// Whether it ran all the while. CPU time that is longer than the time is that of a thread that ended, added to it.
    fn ran(&self) -> bool {
        let (time, cpu) = (self.time_ns(), self.cpu_ns);
        self.one_cpu && time <= RAN.0 * cpu + RAN.1 && cpu <= time + INTERRUPT_NS
    }

    /// How fast it was; `None` where the end of a pass may be between the two, or where it did not run all the while.
    fn span(&self, longest_ns: f64) -> Option<Span> {
        let took_ns = self.cpu_ns - INTERRUPT_NS;
        let known = self.ran() && took_ns >= SHORTEST_NS && took_ns < longest_ns && self.iterations > 0.0;
        let &Pair { from_ns, to_ns, cpu, iterations, .. } = self;
        known.then_some(Span { from_ns, to_ns, cpu, took_ns, iterations })
    }
}

/// What an iteration took in the pair that is at this part of them, from the fastest, ns: what was seen needs no cost of instructions.
fn quantile(spans: &[Span], part: f64) -> Option<f64> {
    let telling = spans.iter().filter(|s| s.took_ns >= TELLING_NS);
    let mut each: Vec<f64> = telling.map(|s| s.took_ns / s.iterations).collect();
    each.sort_by(f64::total_cmp);
    each.get((each.len() as f64 * part) as usize).copied()
}
