//! How threads share the address range of an object.
//!
//! Two signs per object: how wide each thread's range is (5th to 95th percentile
//! of its offsets), and how exclusive small pieces are: the probability that two
//! samples of one piece come from the same thread, against what chance gives.
//! Narrow ranges: blocked. Wide but exclusive, and in turns: cyclic. Wide and shared: all over.

use super::counters::{BINS, Followed, Use};
use super::stats::wilson;
use super::value::Pattern;

/// Samples that a thread needs for its percentiles to mean something: the 5th
/// percentile of 30 is its second smallest.
pub const ENOUGH: u64 = 30;

/// Bins that must be in use for parts of an object to be told apart: two threads' blocks with a border in one. // chosen
const FEWEST: usize = 4;

/// Standard errors by which pieces must be exclusive for turns: half a thousandth above. // chosen
const CERTAIN: f64 = 3.3;

/// A thread's range in an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Thread (position in the threads table).
    pub thread: u32,
    /// Samples with an address.
    pub samples: u64,
    /// 5th percentile, as a share of the extent.
    pub from: f64,
    /// 95th percentile.
    pub to: f64,
}

/// The ranges of threads that have any addressed sample, and the pattern.
pub fn pattern(uses: &[(u32, &Use)], followed: &Followed) -> (Pattern, Vec<Range>) {
    let mut ranges: Vec<Range> = uses.iter().filter(|u| u.1.addressed > 0).map(|u| range(u.0, u.1)).collect();
    ranges.sort_by_key(|r| r.thread);
    let total: u64 = uses.iter().map(|u| u.1.sum.samples).sum();
    let most = uses.iter().map(|u| u.1.sum.samples).max().unwrap_or(0);
    if total >= ENOUGH && most as f64 >= 0.97 * total as f64 {
        return (Pattern::OneThread, ranges);
    }
    let good: Vec<&Range> = ranges.iter().filter(|r| r.samples >= ENOUGH).collect();
    let addressed: u64 = ranges.iter().map(|r| r.samples).sum();
    let covered: u64 = good.iter().map(|r| r.samples).sum();
    // Too few threads with enough samples to stand for the others.
    if good.len() < 2 || (covered as f64) < 0.6 * addressed as f64 {
        return (Pattern::Unknown, ranges);
    }
    // In the order of threads, as the ranges are.
    let threads: Vec<u32> = good.iter().map(|r| r.thread).collect();
    let asked = |thread: u32| threads.binary_search(&thread).is_ok();
    let chosen: Vec<&Use> = uses.iter().filter(|u| asked(u.0)).map(|u| u.1).collect();
    // A large object of which little is in use, as static arrays of the largest size are, has few bins.
    let used_at = |bin: &usize| chosen.iter().any(|u| u.bins[*bin] > 0);
    let first = (0..BINS).find(used_at).unwrap_or(0);
    let end = (0..BINS).rfind(used_at).map_or(BINS, |last| last + 1);
    let extent = end - first;
    let pieces = |count: usize| {
        let chosen = &chosen;
        let count = count.min(extent);
        (0..count).map(move |p| {
            let bins = first + p * extent / count..first + (p + 1) * extent / count;
            chosen.iter().map(|u| u.bins[bins.clone()].iter().map(|&n| u64::from(n)).sum()).collect()
        })
    };
    // Few pieces, four per thread, to compare blocks; all bins to see turns.
    let parts = (good.len() * 4).clamp(8, BINS);
    let blocks = exclusive(pieces(parts), &chosen).map(|e| e.found);
    let coarse = exclusive(pieces(BINS), &chosen);
    let fine = exclusive(
        followed.pages().map(|p| p.iter().filter(|x| asked(x.0)).map(|x| u64::from(x.1)).collect()),
        &chosen,
    );
    let of_extent = BINS as f64 / extent as f64;
    let mut widths: Vec<f64> = good.iter().map(|r| (r.to - r.from) * of_extent).collect();
    widths.sort_by(f64::total_cmp);
    let k = widths.len();
    let width = (widths[(k - 1) / 2] + widths[k / 2]) / 2.0;
    // k blocks of 1/k each have 5–95 % ranges of 0.9/k; half as much again leaves room for halos
    // and rounding to bins, and is still below what two threads all over show (0.9 of 1/2 · 1.5 = 0.75).
    let narrow = width * k as f64 <= 1.5 && width < 0.75;
    // Narrow ranges at one place (all threads use the same part) are not blocks: they must differ.
    let apart = blocks.is_some_and(|e| e >= 0.4);
    // Where each thread has one part that is mostly its own, pieces are exclusive at every size, however wide the ranges
    // are: an array that is written by parts in one loop and read everywhere in another one. Turns change hands often.
    let one_part_each = blocks.is_some_and(|e| e >= 0.2) && changes_of_hands(pieces(parts)) <= good.len();
    let pattern = if (narrow && apart) || (one_part_each && blocks.is_some_and(|e| e >= 0.5)) {
        Pattern::Blocked
    } else if one_part_each {
        Pattern::AllOver
    } else if extent < FEWEST {
        // Neither turns nor blocks show in so few bins.
        Pattern::Unknown
    } else if coarse.is_some_and(|e| e.at_least >= 0.5) || fine.is_some_and(|e| e.at_least >= 0.5) {
        Pattern::Cyclic
    } else if blocks.is_some() {
        Pattern::AllOver
    } else {
        Pattern::Unknown
    };
    (pattern, ranges)
}

/// How often the thread that has most of a piece is another one than in the piece before.
fn changes_of_hands(pieces: impl Iterator<Item = Vec<u64>>) -> usize {
    let owners: Vec<usize> = pieces
        .filter(|p| p.iter().any(|&n| n > 0))
        .map(|p| (0..p.len()).max_by_key(|&t| p[t]).unwrap_or(0))
        .collect();
    owners.windows(2).filter(|two| two[0] != two[1]).count()
}

/// How exclusive pieces are. 0: threads meet in a piece as chance would have it; 1: each piece has one thread.
#[derive(Clone, Copy)]
struct Exclusive {
    /// As the pairs of samples say.
    found: f64,
    /// What it is at least: chance makes it more than that in one case of a thousand.
    at_least: f64,
}

/// The pair estimator is unbiased for few samples per piece (Simpson 1949, Nature 163:688).
/// `None` if there are too few pairs.
fn exclusive(pieces: impl Iterator<Item = Vec<u64>>, uses: &[&Use]) -> Option<Exclusive> {
    let (mut same, mut pairs) = (0u64, 0u64);
    for piece in pieces {
        let n: u64 = piece.iter().sum();
        pairs += n * n.saturating_sub(1);
        same += piece.iter().map(|&t| t * t.saturating_sub(1)).sum::<u64>();
    }
    if pairs < 2 * ENOUGH {
        return None;
    }
    let all: u64 = uses.iter().map(|u| u.addressed).sum();
    let chance: f64 = uses.iter().map(|u| (u.addressed as f64 / all as f64).powi(2)).sum();
    let of = |same: f64| (same - chance) / (1.0 - chance);
    let found = same as f64 / pairs as f64;
    // Each pair was counted from both its sides.
    let at_least = wilson(found, pairs as f64 / 2.0, CERTAIN).low;
    (chance < 0.99).then(|| Exclusive { found: of(found), at_least: of(at_least) })
}

fn range(thread: u32, used: &Use) -> Range {
    let n = used.addressed;
    let at = |rank: f64, upper: bool| {
        let (mut seen, want) = (0.0, rank * n as f64);
        for (b, &count) in used.bins.iter().enumerate() {
            let next = seen + f64::from(count);
            if count > 0 && (next > want || (upper && next >= want)) {
                // Within the bin, samples are taken to be spread evenly.
                let inside = ((want - seen) / f64::from(count)).clamp(0.0, 1.0);
                return (b as f64 + inside) / BINS as f64;
            }
            seen = next;
        }
        1.0
    };
    Range { thread, samples: n, from: at(0.05, false), to: at(0.95, true) }
}

#[cfg(test)]
mod tests {
    use super::super::stats::{Random, Sum};
    use super::*;

    /// Samples of `threads` threads at pages of a 4096-page object, by a rule.
    fn uses(threads: u32, samples: u64, rule: impl Fn(u32, f64) -> f64, seed: u64) -> (Vec<Use>, Followed) {
        let mut random = Random::new(seed);
        let mut followed = Followed::default();
        let mut all = Vec::new();
        for t in 0..threads {
            let mut u = Use { bins: vec![0; BINS], ..Use::default() };
            for _ in 0..samples {
                let x = rule(t, random.unit()).clamp(0.0, 0.999_999);
                u.bins[(x * BINS as f64) as usize] += 1;
                u.addressed += 1;
                followed.add((x * 4096.0) as u64, t, 1);
            }
            u.sum = Sum { samples, weight: samples, squares: u128::from(samples) };
            all.push(u);
        }
        (all, followed)
    }

    fn found(threads: u32, samples: u64, rule: impl Fn(u32, f64) -> f64) -> Pattern {
        drawn(threads, samples, rule, 42)
    }

    fn drawn(threads: u32, samples: u64, rule: impl Fn(u32, f64) -> f64, seed: u64) -> Pattern {
        let (all, followed) = uses(threads, samples, rule, seed);
        let refs: Vec<(u32, &Use)> = all.iter().enumerate().map(|(i, u)| (i as u32, u)).collect();
        pattern(&refs, &followed).0
    }

    #[test]
    fn blocks_are_blocked_for_any_number_of_threads() {
        for k in [2, 3, 4, 16, 64] {
            assert_eq!(found(k, 60, |t, x| (f64::from(t) + x) / f64::from(k)), Pattern::Blocked, "{k}");
        }
    }

    #[test]
    fn blocks_at_the_start_of_a_large_array_are_blocked() {
        for part in [1.0, 0.3, 0.1, 0.03] {
            for k in [2, 4] {
                let kf = f64::from(k);
                // Pages are exclusive too, and that alone would look like turns.
                let rule = |t: u32, x: f64| part * (f64::from(t) + x) / kf;
                let found = found(k, 400, rule);
                assert_eq!(found, Pattern::Blocked, "{k} threads in {part} of it");
            }
        }
        // Too little of it to tell.
        assert_eq!(found(2, 400, |t, x| 0.0005 * (f64::from(t) + x) / 2.0), Pattern::Unknown);
        assert_eq!(found(2, 400, |_, x| 0.1 * x), Pattern::AllOver);
    }

    #[test]
    fn a_halo_does_not_unblock() {
        for k in [2, 4, 8] {
            let kf = f64::from(k);
            let rule = |t: u32, x: f64| (f64::from(t) + x * 1.2 - 0.1) / kf;
            assert_eq!(found(k, 200, rule), Pattern::Blocked, "{k}");
        }
    }

    #[test]
    fn everywhere_is_all_over() {
        for k in [2, 4, 16] {
            assert_eq!(found(k, 300, |_, x| x), Pattern::AllOver, "{k}");
        }
    }

    #[test]
    fn pages_in_turn_are_cyclic() {
        let rule = |t: u32, x: f64| (((x * 1024.0) as u64 * 4 + u64::from(t)) as f64 + 0.5) / 4096.0;
        assert_eq!(found(4, 4000, rule), Pattern::Cyclic);
        let coarse = |t: u32, x: f64| (((x * 16.0) as u64 * 4 + u64::from(t)) as f64 + x * 16.0 % 1.0) / 64.0;
        assert_eq!(found(4, 400, coarse), Pattern::Cyclic);
    }

    #[test]
    fn parts_in_one_loop_and_everywhere_in_another_are_no_turns() {
        // How much of the use is in the loop with parts; the rest is anywhere.
        for (k, own) in [(2, 0.3), (2, 0.5), (2, 0.7), (2, 0.72), (2, 0.75), (2, 0.8), (4, 0.7), (4, 0.75)] {
            let kf = f64::from(k);
            let found = found(k, 4000, |t, x| match x < own {
                true => (f64::from(t) + x / own) / kf,
                false => (x - own) / (1.0 - own),
            });
            assert_ne!(found, Pattern::Cyclic, "{k} threads, {own} of it in parts");
        }
    }

    #[test]
    fn few_samples_make_no_turns_of_what_all_use() {
        // So few samples fall on one page that the pairs on one can be of one thread by chance.
        for samples in [120, 160, 250, 500] {
            for seed in 1..=400 {
                let mostly_all_over = |t: u32, x: f64| match x < 0.2 {
                    true => (f64::from(t) + x / 0.2) / 2.0,
                    false => (x - 0.2) / 0.8,
                };
                let found = drawn(2, samples, mostly_all_over, seed);
                assert_ne!(found, Pattern::Cyclic, "{samples} samples of each, seed {seed}");
            }
        }
        // Turns are seen in as few.
        let turns = |t: u32, x: f64| (((x * 2048.0) as u64 * 2 + u64::from(t)) as f64 + 0.5) / 4096.0;
        let seen = (1..=50).filter(|&seed| drawn(2, 500, turns, seed) == Pattern::Cyclic).count();
        assert!(seen >= 45, "turns are seen in {seen} of 50");
    }

    #[test]
    fn all_threads_in_one_corner_are_not_blocked() {
        assert_ne!(found(4, 200, |_, x| x * 0.1), Pattern::Blocked);
    }

    #[test]
    fn one_thread_and_too_few() {
        assert_eq!(found(1, 200, |_, x| x), Pattern::OneThread);
        assert_eq!(found(4, 10, |_, x| x), Pattern::Unknown);
    }
}
