//! The pieces of memory that a thread goes through in a loop, and what it leaves out.
//!
//! Where entries into a loop are short and do not count, its position alone says how far a thread came. That is wrong where the thread
//! leaves memory out between two entries: pieces that other threads take (a dynamic schedule, tasks, levels that are divided
//! anew), every second row, the rest of longer rows. The position then passes more than the iterations do.

use super::hash::{FastMap, FastSet};
use super::input::Input;
use nearfar_recording::{NO_STREAM, UNCOUNTED};

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
        // A register that counts passes iterations only.
        let by_memory = rows.get(&loop_id).is_some_and(|&row| input.loops.stream[row] != NO_STREAM);
        if let Some(&process) = input.threads.process.get(thread as usize).filter(|_| by_memory) {
            by_loop.entry((process, loop_id)).or_default().push(thread);
        }
    }
    let mut found = FastSet::default();
    for ((_, loop_id), threads) in by_loop.into_iter().filter(|(_, threads)| threads.len() > 1) {
        let of = |thread: u32| {
            let rows = &samples[&(thread, loop_id)];
            rows.iter().map(|&i| input.progress.position[i]).collect::<Vec<u64>>()
        };
        let covered = Covered::new(threads.iter().flat_map(|&t| inner(of(t)).map(move |range| (t, range))));
        for &thread in &threads {
            let own = of(thread);
            let among = own.iter().filter(|&&p| covered.by_another(thread, p)).count();
            if among as f64 > AMONG * own.len() as f64 {
                found.insert((thread, loop_id));
            }
        }
    }
    found
}

/// What of each piece is between the outermost of a thread's positions.
fn inner(mut positions: Vec<u64>) -> impl Iterator<Item = (u64, u64)> {
    positions.sort_unstable();
    let (found, _) = pieces(positions.clone());
    found.into_iter().filter_map(move |(first, last)| {
        let from = positions.partition_point(|&p| p < first);
        let inside = &positions[from..positions.partition_point(|&p| p <= last)];
        let outer = (inside.len() as f64 * OUTER) as usize;
        (inside.len() >= LEAST).then(|| (inside[outer], inside[inside.len() - 1 - outer]))
    })
}

/// Ranges of several threads.
struct Covered {
    /// By where they begin: of all that begin there or before, the one that reaches farthest, and that of the other threads.
    reach: Vec<(u64, [(u32, u64); 2])>,
}

impl Covered {
    fn new(ranges: impl Iterator<Item = (u32, (u64, u64))>) -> Covered {
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|&(thread, (first, last))| (first, last, thread));
        // Of no thread yet.
        let mut farthest = [(u32::MAX, 0); 2];
        let reach = ranges.into_iter().map(|(thread, (first, last))| {
            let [most, next] = farthest;
            farthest = match (thread == most.0, last > most.1) {
                (true, _) => [(thread, most.1.max(last)), next],
                (false, true) => [(thread, last), most],
                (false, false) if last > next.1 => [most, (thread, last)],
                (false, false) => [most, next],
            };
            (first, farthest)
        });
        Covered { reach: reach.collect() }
    }

    /// Whether a position is in a range of another thread.
    fn by_another(&self, thread: u32, position: u64) -> bool {
        let Some(before) = self.reach.partition_point(|r| r.0 <= position).checked_sub(1) else {
            return false;
        };
        self.reach[before]
            .1
            .iter()
            .any(|&(other, last)| other != thread && other != u32::MAX && position <= last)
    }
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
    fn positions_in_ranges_of_other_threads_are_known() {
        let ranges = [(1, (100, 200)), (2, (150, 400)), (3, (160, 170)), (1, (500, 600))];
        let covered = Covered::new(ranges.into_iter());
        for position in 0..700 {
            for thread in 1..5 {
                let among = ranges
                    .iter()
                    .any(|&(t, (first, last))| t != thread && (first..=last).contains(&position));
                assert_eq!(covered.by_another(thread, position), among, "{position} of {thread}");
            }
        }
        assert!(!Covered::new([].into_iter()).by_another(1, 5));
    }

    #[test]
    fn the_outermost_positions_of_a_piece_are_left_out() {
        let positions: Vec<u64> = (0..100).map(|i| 1000 + 8 * i).collect();
        assert_eq!(inner(positions.clone()).collect::<Vec<_>>(), [(1040, 1752)]);
        assert_eq!(inner(positions[..19].to_vec()).count(), 0, "too few");
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
