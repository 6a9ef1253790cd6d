//! The pieces of memory that a thread goes through in a loop, and what it leaves out.
//!
//! Where entries into a loop are short and do not count, its position alone says how far a thread came. That is wrong where the thread
//! leaves memory out between two entries: pieces that other threads take (a dynamic schedule, tasks, levels that are divided
//! anew), every second row, the rest of longer rows. The position then passes more than the iterations do.

use super::hash::{FastMap, FastSet};
use super::input::Input;
use nearfar_recording::UNCOUNTED;

/// Part of the samples that a piece of memory must have to count. // chosen
const PIECE: f64 = 0.05;
/// Part of a thread's positions among those of another one from which on both take pieces of the same memory. Threads that
/// have a part each meet at its border only. // chosen
const AMONG: f64 = 0.2;
/// Outermost part of the positions at either end that another thread's are not held against: few are far from the others. // chosen
const OUTER: f64 = 0.05;
/// Positions of a thread in a piece below which nothing is asked. // chosen
const LEAST: usize = 20;
/// Distance between the ends of entries, over the length of an entry, from which on memory is left out. // chosen
const APART: f64 = 1.05;
/// In place of the number of a stream: the position is a register that counts, which passes iterations only.
const NO_STREAM: u16 = u16::MAX;

/// The pieces of memory that positions are in, and how long a pass through one is: those of about the longest length. A loop
/// that works on one array after the other, or on two in turn, has a piece for each.
pub(super) fn pieces(mut positions: Vec<u64>) -> (Vec<(u64, u64)>, f64) {
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

/// Threads and loops whose positions lie among those of another thread of the process. `samples`: rows of progress by thread and loop.
/// `rows`: rows of the loops.
pub(super) fn among_others(
    input: &Input,
    samples: &FastMap<(u32, u32), Vec<usize>>,
    rows: &FastMap<u32, usize>,
) -> FastSet<(u32, u32)> {
    let mut by_loop: FastMap<(u32, u32), Vec<u32>> = FastMap::default();
    for &(thread, loop_id) in samples.keys() {
        let by_memory = rows.get(&loop_id).is_some_and(|&row| input.loops.stream[row] != NO_STREAM);
        if let Some(&process) = input.threads.process.get(thread as usize).filter(|_| by_memory) {
            by_loop.entry((process, loop_id)).or_default().push(thread);
        }
    }
    let mut found = FastSet::default();
    for ((_, loop_id), threads) in by_loop.into_iter().filter(|(_, threads)| threads.len() > 1) {
        // Of each thread, its positions in each of its pieces, in order.
        let placed: Vec<Vec<Vec<u64>>> = threads
            .iter()
            .map(|&thread| {
                let mut all: Vec<u64> =
                    samples[&(thread, loop_id)].iter().map(|&i| input.progress.position[i]).collect();
                all.sort_unstable();
                let inside = |&(first, last): &(u64, u64)| {
                    all[all.partition_point(|&p| p < first)..all.partition_point(|&p| p <= last)].to_vec()
                };
                pieces(all.clone()).0.iter().map(inside).collect()
            })
            .collect();
        for (a, &thread) in threads.iter().enumerate() {
            let among = |b: usize| {
                let both = placed[a].iter().flat_map(|own| placed[b].iter().map(move |others| (own, others)));
                both.map(|(own, others)| between(own, others)).sum::<usize>() as f64
            };
            let all = placed[a].iter().map(Vec::len).sum::<usize>() as f64;
            if (0..threads.len()).any(|b| b != a && among(b) > AMONG * all) {
                found.insert((thread, loop_id));
            }
        }
    }
    found
}

/// How many positions lie between those of another thread; both in order.
fn between(own: &[u64], others: &[u64]) -> usize {
    if others.len() < LEAST {
        return 0;
    }
    let outer = (others.len() as f64 * OUTER) as usize;
    let (first, last) = (others[outer], others[others.len() - 1 - outer]);
    own.partition_point(|&p| p <= last).saturating_sub(own.partition_point(|&p| p < first))
}

/// Whether a loop's entries are of memory with gaps between: the ends of all entries are farther apart than the longest is long.
/// `samples`: rows of progress of a thread in it. `step`: what an iteration adds to the position.
pub(super) fn leaves_out(input: &Input, samples: &[usize], step: f64) -> bool {
    let p = &input.progress;
    let step = step as i64;
    let ends = || {
        let known = samples.iter().filter(|&&i| p.left[i] != UNCOUNTED);
        known.map(|&i| p.position[i].wrapping_add_signed(step.wrapping_mul(p.left[i] as i64)))
    };
    let Some(first) = ends().next() else { return false };
    let apart = ends().map(|end| end.abs_diff(first)).fold(0, common_divisor);
    let longest = samples.iter().map(|&i| p.left[i]).filter(|&left| left != UNCOUNTED).max().unwrap_or(0);
    apart as f64 > APART * (longest + 1) as f64 * step.unsigned_abs() as f64
}

/// Greatest common divisor.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_between_those_of_another_thread_are_counted() {
        let others: Vec<u64> = (100..200).collect();
        assert_eq!(between(&[50, 104, 105, 194, 195, 300], &others), 2);
        assert_eq!(between(&[150, 151], &others[..10]), 0, "too few");
        assert_eq!(between(&[], &others), 0);
    }

    #[test]
    fn common_divisors() {
        assert_eq!([common_divisor(0, 12), common_divisor(12, 0), common_divisor(12, 18)], [12, 12, 6]);
    }

    #[test]
    fn two_arrays_of_one_length_are_two_pieces_and_a_shorter_one_is_left_out() {
        let spread = |from: u64, bytes: u64, n: u64| (0..n).map(move |i| from + i * 7919 % bytes);
        let all = spread(0x1000_0000, 800_000, 300).chain(spread(0x2000_0000, 800_000, 300));
        let (pieces, extent) = pieces(all.chain(spread(0x3000_0000, 20_000, 100)).collect());
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!((extent / 800_000.0 - 1.0).abs() < 0.05, "{extent}");
    }
}
