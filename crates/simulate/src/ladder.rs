//! Which of several cache sizes holds what one thread accesses.
//!
//! A first-level cache in front keeps most accesses away, as in a processor. What misses it looks into caches of growing size, one
//! behind the other, until one holds the line; all of them have it then. A size further up is asked only for what those
//! before miss, so a line that is used often enough for a small cache gets old in a large one, as behind real second-level caches.

use crate::ahead::Streams;

/// The cache sizes, bytes.
pub const SIZES: [u64; 8] = [1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 26];

/// Lines of a set.
const WAYS: usize = 16;
/// The same in the first level: 32 KiB in 64 sets, as most processors of x86-64 have it or more.
const FIRST_WAYS: usize = 8;
const FIRST_SETS: usize = 64;
/// No line: programs have the lower half of the address space, of which a set of the smallest size has 2^32 lines.
const EMPTY: u32 = u32::MAX;

/// What holds a line that missed the first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The smallest of [`SIZES`] that holds it, by its position; their number if none does.
    pub held_in: usize,
    /// Whether it continues a constant step through its page, so that a prefetcher has asked for it.
    pub in_order: bool,
}

/// How often a line was used. What follows within one span of time counts once: a line does not come from another core and go back in that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Its number, address over 64.
    pub line: u64,
    /// Spans of time in which it was accessed.
    pub spans: u32,
    /// Spans of time in which it was written.
    pub written: u32,
}

/// A line of the first level.
#[derive(Clone, Copy, Debug)]
struct Held {
    used: Use,
    /// The last span of each kind.
    last: [u32; 2],
}

/// The caches.
pub struct Ladder {
    /// By set, what was used last first.
    first: Box<[[u64; FIRST_WAYS]; FIRST_SETS]>,
    held: Box<[[Held; FIRST_WAYS]; FIRST_SETS]>,
    /// Per size, its sets.
    sizes: Vec<Vec<[u32; WAYS]>>,
    streams: Streams,
    /// Uses of lines that left the first level, if they are wanted; and how many there were when they were summed up last.
    uses: Option<Vec<Use>>,
    summed: usize,
}

/// Uses that are kept before they are summed up by line at first. // chosen: 64 MB
const USES: usize = 1 << 22;

impl Ladder {
    /// Empty caches. `uses`: whether it is wanted how often each line is used.
    pub fn new(uses: bool) -> Ladder {
        let sets = |bytes: &u64| vec![[EMPTY; WAYS]; *bytes as usize / 64 / WAYS];
        let none = Held { used: Use { line: u64::MAX, ..Use::default() }, last: [u32::MAX; 2] };
        Ladder {
            first: Box::new([[u64::MAX; FIRST_WAYS]; FIRST_SETS]),
            held: Box::new([[none; FIRST_WAYS]; FIRST_SETS]),
            sizes: SIZES.iter().map(sets).collect(),
            streams: Streams::new(),
            uses: uses.then(Vec::new),
            summed: 0,
        }
    }

    /// An access to a line in a span of time; `None` if the first level has it.
    pub fn access(&mut self, line: u64, span: u32, writes: bool) -> Option<Missed> {
        let set = line as usize % FIRST_SETS;
        let (lines, held) = (&mut self.first[set], &mut self.held[set]);
        let at = lines.iter().position(|&other| other == line);
        if at != Some(0) {
            let to = at.unwrap_or(FIRST_WAYS - 1);
            lines[..=to].rotate_right(1);
            lines[0] = line;
            if let Some(uses) = &mut self.uses {
                held[..=to].rotate_right(1);
                if at.is_none() {
                    uses.push(held[0].used);
                    held[0] = Held { used: Use { line, ..Use::default() }, last: [u32::MAX; 2] };
                }
            }
        }
        if self.uses.is_some() {
            let held = &mut held[0];
            if held.last[0] != span {
                held.last[0] = span;
                held.used.spans += 1;
            }
            if writes && held.last[1] != span {
                held.last[1] = span;
                held.used.written += 1;
            }
        }
        if at.is_some() {
            return None;
        }
        if self.uses.as_ref().is_some_and(|uses| uses.len() >= self.summed + USES) {
            self.sum_up();
        }
        let in_order = self.streams.train(line).on_stream;
        // Steps of a power of two would use few of the sets, and physical pages lie anywhere.
        let spread = line ^ line >> 9 ^ line >> 20;
        let tag = (line >> 9) as u32;
        let held_in = self.sizes.iter_mut().position(|sets| {
            let set = spread as usize & (sets.len() - 1);
            used(&mut sets[set], tag)
        });
        Some(Missed { held_in: held_in.unwrap_or(SIZES.len()), in_order })
    }

    /// How often each line was used, in the order of lines; nothing if that was not wanted.
    pub fn uses(mut self) -> Vec<Use> {
        let last = self.held.iter().flatten().map(|held| held.used);
        if let Some(uses) = &mut self.uses {
            uses.extend(last);
        }
        self.sum_up();
        self.uses.unwrap_or_default()
    }

    fn sum_up(&mut self) {
        let Some(uses) = &mut self.uses else {
            return;
        };
        uses.sort_unstable();
        uses.dedup_by(|next, sum| {
            let same = next.line == sum.line;
            if same {
                sum.spans = sum.spans.saturating_add(next.spans);
                sum.written = sum.written.saturating_add(next.written);
            }
            same
        });
        // No line is there until the first level is full.
        uses.pop_if(|last| last.line == u64::MAX);
        self.summed = uses.len();
    }
}

/// How often lines come from another thread at most: so often as this one uses a line, and as another one writes it. `others`: per other thread, its
/// uses in as much time.
pub fn exchanged(own: &[Use], others: &[&[Use]]) -> u64 {
    let mut at = vec![0; others.len()];
    let mut sum = 0;
    for used in own {
        let mut written = 0;
        for (uses, at) in others.iter().zip(&mut at) {
            *at += uses[*at..].partition_point(|other| other.line < used.line);
            written += uses
                .get(*at)
                .filter(|other| other.line == used.line)
                .map_or(0, |other| u64::from(other.written));
        }
        sum += written.min(used.spans.into());
    }
    sum
}

/// Makes a line the one that its set used last; whether the set had it.
#[inline]
fn used<const N: usize>(set: &mut [u32; N], line: u32) -> bool {
    let at = set.iter().position(|&other| other == line);
    set[..=at.unwrap_or(N - 1)].rotate_right(1);
    set[0] = line;
    at.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs over `lines` lines several times, in the given order; what the last time missed, by size.
    fn passes(lines: u64, order: impl Fn(u64) -> u64) -> [u64; SIZES.len() + 1] {
        let mut ladder = Ladder::new(false);
        for _ in 0..3 {
            for n in 0..lines {
                ladder.access(order(n), 0, false);
            }
        }
        let mut held = [0; SIZES.len() + 1];
        for n in 0..lines {
            if let Some(missed) = ladder.access(order(n), 0, false) {
                held[missed.held_in] += 1;
            }
        }
        held
    }

    #[test]
    fn what_fits_the_first_level_misses_nothing() {
        assert_eq!(passes(500, |n| 77 + n).iter().sum::<u64>(), 0);
    }

    #[test]
    fn a_pass_is_held_by_the_first_size_that_it_fits() {
        // 3 MiB: more than 2, less than 4. An odd factor goes through all of them in another order.
        for order in [1u64, 4801] {
            let held = passes(3 << 14, |n| n * order % (3 << 14));
            let total: u64 = held.iter().sum();
            assert!(held[3] * 100 > total * 97, "{order}: {held:?}");
        }
    }

    #[test]
    fn lines_one_after_the_other_are_in_order_and_random_ones_are_not() {
        let mut ladder = Ladder::new(false);
        let count = |ladder: &mut Ladder, order: &dyn Fn(u64) -> u64| {
            (0..1u64 << 14).filter(|&n| ladder.access(order(n), 0, false).is_some_and(|m| m.in_order)).count()
        };
        assert!(count(&mut ladder, &|n| n) > (1 << 14) * 9 / 10);
        let random = |n: u64| 1 << 30 | n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        assert!(count(&mut ladder, &random) < (1 << 14) / 100);
    }

    #[test]
    fn a_counter_that_two_threads_add_to_is_exchanged_in_each_span_and_a_private_one_never() {
        let uses = |counter: u64| {
            let mut ladder = Ladder::new(true);
            for n in 0..100_000u64 {
                // Private memory goes through the first level meanwhile.
                ladder.access((counter << 20) + (1 << 30) + n % 5000, (n / 100) as u32, true);
                ladder.access(77, (n / 100) as u32, counter == 1);
            }
            ladder.uses()
        };
        let (one, other) = (uses(1), uses(2));
        assert!(one.is_sorted() && one.windows(2).all(|w| w[0].line != w[1].line) && one.len() == 5001);
        assert_eq!(one[0], Use { line: 77, spans: 1000, written: 1000 });
        // The one thread writes it, the other reads it.
        assert_eq!((exchanged(&other, &[&one]), exchanged(&one, &[&other])), (1000, 0));
        assert_eq!(exchanged(&other, &[]), 0);
    }
}
