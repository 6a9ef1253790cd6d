//! How fast a thread goes through a loop, from samples alone.
//!
//! Two samples of one thread in one loop say how far it came between them, up to whole passes: a position that runs
//! through E iterations and begins again advances by v·Δt modulo E. Of many pairs with different Δt, only one v explains
//! all advances: R(v) = mean of cos 2π(Δu − v·Δt)/E is 1 for it and small for others (the periodogram of unevenly spaced
//! times, with the phase known to be zero: the V test of circular statistics). The samples' own jitter makes Δt uneven. The
//! length of the mean of exp 2πi(…) instead would also be 1 where each sample is the same piece further than the one before,
//! whatever the time between them.

use std::f64::consts::TAU as TURN;

/// CPU time that a sample itself takes from the program, where it does not follow from the samples ([`taken`]), ns: measured on a virtual machine with
/// timer interrupts (4.4 µs).
pub(super) const INTERRUPT_NS: f64 = 4_000.0;
/// Longest Δt of the pairs that are tried, ns: short ones leave no doubt about whole passes, long ones are exact. // chosen
const LONGEST_NS: [f64; 6] = [100e3, 200e3, 400e3, 800e3, 1_650e3, 3_300e3];
/// Shortest Δt, ns: below it the interrupt's own time matters. // chosen
pub(super) const SHORTEST_NS: f64 = 15e3;
/// Pairs are not farther apart, ns.
pub(super) const FARTHEST_NS: f64 = LONGEST_NS[LONGEST_NS.len() - 1];
/// How many samples apart the two of a pair are at most. // chosen
const APART: usize = 3;
/// Pairs that are looked at: more say no more. // chosen
const MOST_PAIRS: usize = 600;
/// Velocities that are tried for one longest Δt. // chosen
const MOST_TRIED: usize = 60_000;
/// Least pairs. // chosen
const LEAST_PAIRS: usize = 40;
/// Least R. Below 0.7, velocities that were wrong by a third to three quarters passed all other tests.
const LEAST_R: f64 = 0.7;
/// Least log odds against chance, n·R² − ln(velocities tried). // chosen: one in 8,000
const LEAST_ODDS: f64 = 9.0;
/// Largest second peak, as part of the first. // chosen
const SECOND: f64 = 0.85;
/// Largest distance of the quartiles of the pairs' own velocities, as part of the median. // chosen
const SPREAD: f64 = 0.35;

/// Largest part of the pairs of a thread with a changing speed that went farther than it can be. // chosen
const ELSEWHERE: f64 = 0.05;
/// How far apart the velocities of halves of its pairs may be from that of all. // chosen
const HALVES: f64 = 0.2;
/// Largest distance of the quartiles of its pairs' own velocities, as part of the velocity. // chosen
const UNSTEADY: f64 = 0.8;
/// What a sample may take from the program at most, ns. // chosen
const MOST_TAKEN_NS: f64 = 50_000.0;

/// An iteration that took less than this part of the least that it can cost was not measured right. // chosen
pub(super) const IMPOSSIBLE: f64 = 0.85;
/// Part of the fastest clock that cores run at, at least, while the program does. // chosen
pub(super) const SLOWEST: f64 = 0.8;

/// A sample's place in its loop.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// CPU time of the thread, ns.
    pub cpu_ns: f64,
    /// Time, ns.
    pub time_ns: f64,
    /// Iterations from the beginning of the pass.
    pub at: f64,
    /// Number of the sample among those of the thread in the loop.
    pub nth: u32,
}

/// A velocity that passed the tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Velocity {
    /// Iterations per ns.
    pub per_ns: f64,
    /// The same while it is at its fastest: of a thread whose speed changes, what nine of ten pairs do not reach.
    pub fast_per_ns: f64,
    /// Pairs behind it.
    pub pairs: usize,
}

/// The velocity of a thread whose position runs through `extent` iterations again and again; at most `fastest` iterations a
/// ns. `None` where the samples do not say one, or more than one.
pub fn velocity(points: &[Point], extent: f64, fastest: f64) -> Option<Velocity> {
    if !(extent > 0.0 && fastest > 0.0 && extent.is_finite() && fastest.is_finite())
        || blocked(points, extent)
    {
        return None;
    }
    let within = within_a_pass(points, extent, fastest);
    let taken = taken(&within).unwrap_or(INTERRUPT_NS);
    let pairs = pairs(points, taken);
    let tried = LONGEST_NS.iter().filter_map(|&longest| of_pairs(&pairs, longest, extent, fastest));
    let steady = tried.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, found)| found);
    steady.or_else(|| unsteady(within, taken))
}

/// CPU time between two samples of which the second is `apart` behind the first. `None` where samples that were left out lie between
/// them, which took an interrupt each, and where it is longer than the time: then that of a thread that ended was added to it.
fn cpu_between(a: &Point, b: &Point, apart: usize) -> Option<f64> {
    let (cpu, wall) = (b.cpu_ns - a.cpu_ns, b.time_ns - a.time_ns);
    (cpu <= wall + INTERRUPT_NS && b.nth.wrapping_sub(a.nth) == apart as u32).then_some(cpu)
}

/// Neighbouring samples so near in time that even the fastest iterations make no whole pass between them: how far the thread came is known
/// of each pair. Sorted by time; none if too many positions are farther apart than the thread can have come.
fn within_a_pass(points: &[Point], extent: f64, fastest: f64) -> Vec<Pair> {
    let pair = |w: &[Point]| {
        let cpu = cpu_between(&w[0], &w[1], 1)?;
        let within = cpu > SHORTEST_NS && cpu * fastest < extent;
        within.then(|| (cpu, (w[1].at - w[0].at).rem_euclid(extent)))
    };
    let mut pairs: Vec<Pair> = points.windows(2).filter_map(pair).collect();
    let all = pairs.len();
    pairs.retain(|&(dt, du)| du <= dt * fastest);
    if pairs.len() < LEAST_PAIRS || (all - pairs.len()) as f64 > ELSEWHERE * all as f64 {
        return Vec::new();
    }
    let mut pairs = evenly(pairs);
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

/// CPU time that a sample takes from the program, ns, by pairs within a pass: 15 to 27 µs on one virtual machine. It is the same for short
/// and long pairs, so the time of an iteration is the slope between these (the median of all slopes, after Theil and Sen), and the rest
/// is the sample's. `None` if there are too few pairs.
fn taken(pairs: &[Pair]) -> Option<f64> {
    let third = pairs.len() / 3;
    let far = &pairs[pairs.len() - third..];
    let slopes = pairs[..third].iter().flat_map(|a| far.iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    let slope = middle(slopes.collect()).filter(|&slope| slope > 0.0)?;
    Some(middle(pairs.iter().map(|&(dt, du)| dt - du / slope).collect())?.clamp(0.0, MOST_TAKEN_NS))
}

/// The mean velocity of a thread whose speed changes, as of one that waits for memory which others use, too: no single velocity explains
/// all pairs, but each pair within a pass has its own.
fn unsteady(mut pairs: Vec<Pair>, taken: f64) -> Option<Velocity> {
    pairs.iter_mut().for_each(|pair| pair.0 -= taken);
    pairs.retain(|pair| pair.0 > SHORTEST_NS);
    let n = pairs.len();
    if n < LEAST_PAIRS {
        return None;
    }
    let own = |pair: &Pair| pair.1 / pair.0;
    // By how long they are, every second one: halves that say the same.
    let half = |odd: usize| middle(pairs.iter().skip(odd).step_by(2).map(own).collect());
    let halves = [half(0)?, half(1)?];
    pairs.sort_by(|a, b| own(a).total_cmp(&own(b)));
    let (median, spread) = (own(&pairs[n / 2]), own(&pairs[n * 3 / 4]) - own(&pairs[n / 4]));
    // The slow part of the time counts as the fast one does; but some of the slowest were elsewhere for a while.
    let kept = &pairs[n / 10..n - n / 10];
    let per_ns = kept.iter().map(|p| p.1).sum::<f64>() / kept.iter().map(|p| p.0).sum::<f64>();
    let accepted = spread < UNSTEADY * median
        && halves.iter().all(|half| (half / median - 1.0).abs() < HALVES)
        && per_ns > 0.0;
    let fast_per_ns = own(&pairs[n * 9 / 10]).max(per_ns);
    accepted.then_some(Velocity { per_ns, fast_per_ns, pairs: n })
}

/// At most [`MOST_PAIRS`], evenly over the run.
fn evenly(pairs: Vec<Pair>) -> Vec<Pair> {
    if pairs.len() <= MOST_PAIRS {
        return pairs;
    }
    let step = pairs.len() as f64 / MOST_PAIRS as f64;
    (0..MOST_PAIRS).map(|i| pairs[(i as f64 * step) as usize]).collect()
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// CPU time and iterations between two samples.
type Pair = (f64, f64);

/// Pairs whose advance is known up to whole passes, without what samples took from them.
fn pairs(points: &[Point], taken: f64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for apart in 1..=APART {
        for (a, b) in points.iter().zip(points.iter().skip(apart)) {
            let Some(cpu) = cpu_between(a, b, apart) else { continue };
            let dt = cpu - taken * apart as f64;
            if dt > SHORTEST_NS && dt < FARTHEST_NS {
                pairs.push((dt, b.at - a.at));
            }
        }
    }
    pairs
}

/// Log odds and velocity of the pairs up to a longest Δt.
fn of_pairs(all: &[Pair], longest: f64, extent: f64, fastest: f64) -> Option<(f64, Velocity)> {
    let pairs = evenly(all.iter().copied().filter(|p| p.0 < longest).collect());
    let n = pairs.len();
    if n < LEAST_PAIRS {
        return None;
    }
    let mut times: Vec<f64> = pairs.iter().map(|p| p.0).collect();
    times.sort_by(f64::total_cmp);
    let (middle, long) = (times[n / 2], times[(n * 95 / 100).min(n - 1)]);
    // An eighth of a turn over the longest: no peak falls between two steps.
    let step = extent / long / 8.0;
    let tried = (fastest / step) as usize + 2;
    if tried > MOST_TRIED {
        return None;
    }
    let r =
        |v: f64| pairs.iter().map(|&(dt, du)| (TURN * (du - v * dt) / extent).cos()).sum::<f64>() / n as f64;
    // From one velocity to the next, the phase of a pair turns by the same: a product instead of two trigonometric functions.
    let mut sums = vec![0.0f64; tried];
    for &(dt, du) in &pairs {
        let (mut s, mut c) = (TURN * du / extent).sin_cos();
        let (turn_s, turn_c) = (-TURN * step * dt / extent).sin_cos();
        for sum in &mut sums {
            *sum += c;
            (c, s) = (c * turn_c - s * turn_s, c * turn_s + s * turn_c);
        }
    }
    let grid: Vec<f64> = sums.into_iter().map(|c| c / n as f64).collect();
    let best = grid.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?.0;
    let fine = (0..=80).map(|i| ((best as f64 - 1.0 + i as f64 / 40.0) * step).max(0.0));
    let (peak, most) = fine.map(|v| (v, r(v))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let odds = n as f64 * most * most - (tried as f64).ln();
    // Another velocity is one that differs by more than a pass in the middle Δt.
    let away = |i: usize| (i as f64 * step - peak).abs() > 1.2 * extent / middle;
    let second = grid.iter().enumerate().filter(|(i, _)| away(*i)).map(|(_, r)| *r).fold(0.0, f64::max);
    // With the whole passes known, each pair has a velocity of its own; the longer ones are more exact.
    let mut own: Vec<f64> = pairs
        .iter()
        .filter(|p| p.0 >= middle)
        .map(|&(dt, du)| (du + ((peak * dt - du) / extent).round() * extent) / dt)
        .collect();
    own.sort_by(f64::total_cmp);
    let part = |share: usize| own[(own.len() * share / 100).min(own.len() - 1)];
    let per_ns = part(50);
    let accepted = odds > LEAST_ODDS
        && most >= LEAST_R
        && second < SECOND * most
        && most - second > 2.0 / (n as f64).sqrt()
        && per_ns > 0.0
        && part(75) - part(25) < SPREAD * per_ns;
    accepted.then_some((odds, Velocity { per_ns, fast_per_ns: per_ns, pairs: n }))
}

/// Whether the loop goes through pieces, each of them several times: then its position says how fast it changes pieces.
/// Neighbours in time are near to each other, and as often before each other as behind.
fn blocked(points: &[Point], extent: f64) -> bool {
    const NEIGHBOURS: usize = 6;
    if points.len() < 2 * NEIGHBOURS {
        return false;
    }
    let mut ranges: Vec<f64> = points
        .windows(NEIGHBOURS)
        .map(|w| {
            let (low, high) = w.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p.at), h.max(p.at)));
            high - low
        })
        .collect();
    ranges.sort_by(f64::total_cmp);
    let near = ranges[ranges.len() / 2] < 0.5 * extent;
    let small = points.windows(2).map(|w| w[1].at - w[0].at).filter(|d| d.abs() < 0.25 * extent);
    let (back, all) = small.fold((0, 0), |(back, all), d| (back + u32::from(d < 0.0), all + 1));
    near && f64::from(back) > 0.08 * f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from 0 to 1, the same in each run.
    fn random() -> impl FnMut() -> f64 {
        let mut seed = 7u64;
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Samples of two timers as the recorder has them, of a loop with `extent` iterations a pass and `ns` each, and every
    /// `wrong`th of them anywhere.
    fn samples(n: usize, extent: f64, ns: f64, wrong: usize) -> Vec<Point> {
        let mut cpu = 0.0;
        let mut random = random();
        (0..n)
            .map(|i| {
                cpu += 20_000.0 + random() * 1_600_000.0;
                // Interrupts take more or less time.
                let free = cpu - INTERRUPT_NS * i as f64 + random() * 500.0;
                let at = if wrong > 0 && i % wrong == 0 { random() * extent } else { (free / ns) % extent };
                Point { cpu_ns: cpu, time_ns: cpu * 1.01, at, nth: i as u32 }
            })
            .collect()
    }

    #[test]
    fn the_time_of_an_iteration_follows_from_where_samples_are() {
        for (extent, ns) in [(8e6, 1.0), (1e6, 0.83), (4e5, 1.6), (2e5, 15.4)] {
            let found = velocity(&samples(400, extent, ns, 0), extent, 2.0).unwrap();
            assert!((found.per_ns * ns - 1.0).abs() < 0.02, "{extent} {ns}: {found:?}");
            let noisy = velocity(&samples(400, extent, ns, 12), extent, 2.0).unwrap();
            assert!((noisy.per_ns * ns - 1.0).abs() < 0.05, "{extent} {ns}: {noisy:?}");
        }
    }

    #[test]
    fn no_velocity_where_samples_are_anywhere_or_few() {
        assert_eq!(velocity(&samples(400, 1e6, 1.0, 1), 1e6, 2.0), None);
        assert_eq!(velocity(&samples(12, 1e6, 1.0, 0), 1e6, 2.0), None);
        // Each sample is as much further than the one before, whatever the time between them.
        let mut points = samples(400, 1e6, 1.0, 0);
        points.iter_mut().for_each(|p| p.at = f64::from(p.nth) * 618_034.0 % 1e6);
        assert_eq!(velocity(&points, 1e6, 2.0), None);
        // A pass takes 100 ns: nothing tells one pass from thousands.
        assert_eq!(velocity(&samples(400, 100.0, 1.0, 0), 100.0, 2.0), None);
    }

    /// As [`samples`], of a thread whose iterations take up to `slow` times as long, in every stretch of 3 ms otherwise, and of which
    /// each sample takes `taken` ns. The mean time of an iteration, and the samples.
    fn changing(n: usize, extent: f64, ns: f64, slow: f64, taken: f64) -> (f64, Vec<Point>) {
        let mut random = random();
        let (mut cpu, mut ran, mut at) = (0.0, 0.0f64, 0.0);
        let points = (0..n)
            .map(|nth| {
                let until = ran + 15_000.0 + random() * 1_600_000.0;
                cpu += until - ran + taken;
                while ran < until {
                    let step = (until - ran).min(1_000.0);
                    // The golden ratio's multiples are everywhere between 0 and 1.
                    let part = ((ran / 3e6).floor() * 0.618_034).fract();
                    at += step / (ns * (1.0 + (slow - 1.0) * part));
                    ran += step;
                }
                Point { cpu_ns: cpu, time_ns: cpu * 1.01, at: at % extent, nth: nth as u32 }
            })
            .collect();
        (ran / at, points)
    }

    #[test]
    fn a_thread_whose_speed_changes_has_its_mean_speed() {
        for (slow, taken) in [(1.0, 22e3), (1.6, 4e3), (2.5, 22e3), (3.0, 10e3)] {
            let (true_ns, points) = changing(1500, 557e3, 2.5, slow, taken);
            let found = velocity(&points, 557e3, 4.0).unwrap();
            assert!((found.per_ns * true_ns - 1.0).abs() < 0.1, "{slow} {taken}: {true_ns} {found:?}");
        }
        // Entries of many lengths: the position begins anew before the pass is over.
        let (_, mut points) = changing(1500, 557e3, 0.3, 1.6, 4e3);
        points.iter_mut().for_each(|p| p.at %= 100e3 + f64::from(p.nth % 7) * 20e3);
        assert_eq!(velocity(&points, 557e3, 4.0), None);
    }

    #[test]
    fn a_loop_that_goes_through_pieces_again_and_again_has_none() {
        let mut points = samples(400, 1e6, 1.0, 0);
        // Pieces of 2,000 iterations, each for 40 ms: the position creeps.
        for point in &mut points {
            let piece = (point.cpu_ns / 40e6).floor() * 2e4;
            point.at = (piece + (point.cpu_ns * 1.0) % 2e3) % 1e6;
        }
        assert_eq!(velocity(&points, 1e6, 2.0), None);
    }

    #[test]
    fn pairs_with_lost_samples_between_them_or_impossible_times_are_left_out() {
        let mut points = samples(400, 1e6, 1.0, 0);
        points.iter_mut().for_each(|p| p.nth *= 7);
        assert_eq!(velocity(&points, 1e6, 2.0), None);
        let mut points = samples(400, 1e6, 1.0, 0);
        points.iter_mut().for_each(|p| p.time_ns = p.cpu_ns / 2.0);
        assert_eq!(velocity(&points, 1e6, 2.0), None);
    }
}
