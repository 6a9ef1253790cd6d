//! Parts of a run in each of which one thread takes longest.
//!
//! Where threads wait for each other, a run lasts as long as its longest thread in each part. How many parts there are is not
//! known. With too few, threads that take turns look as if they ran side by side. With too many, the longest thread of each
//! part is one that chance gave the most samples, and the sum of such maxima is above the time that the run took. So a
//! part counts for what its longest thread took for certain: its time less [`CERTAIN`] standard errors of the number of its
//! samples. Of all ways to cut the run, the one with the largest sum is taken; cuts that only noise pays for cost more than they bring.

use std::ops::Range;

/// Standard errors that are taken off: a cut is the best of thousands, of all threads. // chosen
const CERTAIN: f64 = 4.0;

/// Samples of a clock of one thread in one block of time: how many, and their time, ns.
pub type Clock = [f64; 2];

/// Cuts the blocks of time into parts. `threads`: of each thread, its samples by block, as many of each thread.
/// No blocks give no parts.
pub fn slices(threads: &[Vec<Clock>]) -> Vec<Range<usize>> {
    let blocks = threads.iter().map(Vec::len).max().unwrap_or(0);
    let up_to: Vec<Vec<Clock>> = threads.iter().map(|blocks| running(blocks)).collect();
    let certain = |from: usize, to: usize| {
        let of = |sums: &Vec<Clock>| {
            let [n, time] = [0, 1].map(|k| sums[to][k] - sums[from][k]);
            if n > 0.0 { time * (1.0 - CERTAIN / n.sqrt()) } else { 0.0 }
        };
        up_to.iter().map(of).fold(0.0, f64::max)
    };
    // The best sum of the first blocks, and where its last part begins. Of equal ones, that with the longest last part.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for to in 1..=blocks {
        let mut found = (f64::NEG_INFINITY, 0);
        for (from, before) in best.iter().enumerate() {
            let sum = before.0 + certain(from, to);
            // Sums of the same samples in another order differ in the last digits.
            if sum > found.0 + 1e-9 * sum.abs() {
                found = (sum, from);
            }
        }
        best.push(found);
    }
    let mut parts = Vec::new();
    let mut to = blocks;
    while to > 0 {
        let from = best[to].1;
        parts.push(from..to);
        to = from;
    }
    parts.reverse();
    parts
}

/// Sums of the first blocks, from none to all.
fn running(blocks: &[Clock]) -> Vec<Clock> {
    let mut sum = [0.0; 2];
    let mut sums = vec![sum];
    for block in blocks {
        sum = [sum[0] + block[0], sum[1] + block[1]];
        sums.push(sum);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    /// A thread with so many samples of 1 ns in each of 200 blocks, as chance has them.
    fn thread(random: &mut Random, mean: impl Fn(usize) -> f64) -> Vec<Clock> {
        let mut drawn = |block| {
            let n = (0..1000).filter(|_| random.unit() < mean(block) / 1000.0).count() as f64;
            [n, n]
        };
        (0..200).map(&mut drawn).collect()
    }

    fn explained(threads: &[Vec<Clock>], parts: &[Range<usize>]) -> f64 {
        let time = |thread: &Vec<Clock>, part: &Range<usize>| -> f64 {
            thread[part.clone()].iter().map(|block| block[1]).sum()
        };
        parts.iter().map(|part| threads.iter().map(|t| time(t, part)).fold(0.0, f64::max)).sum()
    }

    #[test]
    fn threads_side_by_side_are_one_part_whatever_chance_gives_each() {
        let mut random = Random::new(7);
        let threads: Vec<Vec<Clock>> = (0..32).map(|_| thread(&mut random, |_| 10.0)).collect();
        assert_eq!(slices(&threads), std::slice::from_ref(&(0..200)));
        // With a fixed number of parts the run would seem to take longer than any thread ran.
        let fixed: Vec<Range<usize>> = (0..25).map(|i| i * 8..(i + 1) * 8).collect();
        assert!(explained(&threads, &fixed) > 1.15 * 2000.0);
    }

    #[test]
    fn threads_that_take_turns_are_parts() {
        let mut random = Random::new(11);
        let turn = |block: usize, of: usize| if block / 40 % 2 == of { 20.0 } else { 0.0 };
        let threads: Vec<Vec<Clock>> =
            (0..2).map(|of| thread(&mut random, |block| turn(block, of))).collect();
        let parts = slices(&threads);
        assert_eq!(parts.len(), 5, "{parts:?}");
        assert!((explained(&threads, &parts) / 4000.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn without_samples_it_is_one_part_and_without_threads_none() {
        assert_eq!(slices(&[vec![[0.0; 2]; 3]]), std::slice::from_ref(&(0..3)));
        assert!(slices(&[]).is_empty());
    }
}
