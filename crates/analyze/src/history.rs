//! Which pages of a block were there at a time, where pages come and go: a buffer that is mapped and unmapped in a
//! loop places its pages a hundred thousand times, and few of them are there at once.

use std::ops::Range;

/// Changes between two marks. // chosen: as long to replay as a mark should copy
const STEP: usize = 64;

/// Pages per block: 2 MiB of 4 KiB pages, so that a huge page is one block.
pub const PER_BLOCK: u64 = 512;

/// Words of a bit for each page of a block.
pub const WORDS: usize = PER_BLOCK as usize / 64;

/// The changes of a block in the order of time.
#[derive(Debug, Default)]
pub struct History {
    /// The touch, and the page within the block with the bit [`THERE`] if it is there from then on.
    changes: Vec<(u32, u16)>,
    /// Pages that are there before each [`STEP`]th change, one bit each.
    marks: Vec<[u64; WORDS]>,
    now: [u64; WORDS],
}

const THERE: u16 = 1 << 15;

impl History {
    /// A page's latest touch is this one; it is there from then on or is not.
    pub fn add(&mut self, touch: u32, page: u16, there: bool) {
        if self.changes.len().is_multiple_of(STEP) {
            self.marks.push(self.now);
        }
        set(&mut self.now, page, there);
        self.changes.push((touch, page | if there { THERE } else { 0 }));
    }

    /// The pages that are there after all touches for which `made` holds, which are the first ones; and how many
    /// changes were looked at.
    pub fn there(&self, made: impl Fn(u32) -> bool) -> ([u64; WORDS], usize) {
        let end = self.changes.partition_point(|&(touch, _)| made(touch));
        let Some(mark) = self.marks.get(end / STEP) else {
            return (self.now, 0);
        };
        let mut pages = *mark;
        let replayed = &self.changes[end / STEP * STEP..end];
        replayed.iter().for_each(|&(_, page)| set(&mut pages, page & !THERE, page & THERE != 0));
        (pages, replayed.len())
    }
}

/// The pages of a block that are there, as of the last question: callers go through the pages of an object in order, at one
/// time and for several sizes of folios.
#[derive(Debug, Default)]
pub struct Memo {
    /// Space, block and time of the question.
    of: Option<(u32, usize, u64)>,
    pages: [u64; WORDS],
}

impl Memo {
    /// The answer, which `find` gives if the question is another one.
    pub fn of(
        &mut self,
        space: u32,
        block: usize,
        time: u64,
        find: impl FnOnce() -> [u64; WORDS],
    ) -> &[u64; WORDS] {
        if self.of != Some((space, block, time)) {
            (self.of, self.pages) = (Some((space, block, time)), find());
        }
        &self.pages
    }
}

/// The pages of a range (within a block) that are there, ascending.
pub fn among(pages: &[u64; WORDS], range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
    (range.start / 64..range.end.div_ceil(64)).flat_map(move |word| {
        let first = range.start.saturating_sub(word * 64);
        let behind = 64 - (range.end - word * 64).min(64);
        let mut left = pages[word as usize] & u64::MAX << first & u64::MAX >> behind;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
            left &= left - 1;
            Some(word * 64 + bit)
        })
    })
}

fn set(pages: &mut [u64; WORDS], page: u16, there: bool) {
    let (word, bit) = (usize::from(page) / 64, 1 << (page % 64));
    if there { pages[word] |= bit } else { pages[word] &= !bit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    #[test]
    fn what_is_there_at_a_time_is_what_a_replay_from_the_start_gives_and_takes_few_steps() {
        let mut random = Random::new(5);
        let mut history = History::default();
        let mut naive = vec![[0u64; WORDS]];
        for touch in 0..1000 {
            let (page, there) = ((random.unit() * 512.0) as u16, random.unit() < 0.6);
            history.add(touch, page, there);
            let mut pages = naive[touch as usize];
            set(&mut pages, page, there);
            naive.push(pages);
        }
        for (made, pages) in naive.iter().enumerate() {
            let (found, steps) = history.there(|touch| (touch as usize) < made);
            assert_eq!(found, *pages, "after {made}");
            assert!(steps < STEP);
        }
    }

    #[test]
    fn pages_of_a_range_are_those_of_the_bits() {
        let mut pages = [0; WORDS];
        [0, 3, 63, 64, 127, 200, 511].into_iter().for_each(|p| set(&mut pages, p, true));
        let within = |from, to| among(&pages, from..to).collect::<Vec<_>>();
        assert_eq!(within(0, 512), [0, 3, 63, 64, 127, 200, 511]);
        assert_eq!(within(1, 64), [3, 63]);
        assert_eq!(within(3, 4), [3]);
        assert_eq!(within(64, 128), [64, 127]);
        assert_eq!(within(4, 63), [0u64; 0]);
        assert_eq!(within(200, 512), [200, 511]);
        assert_eq!(within(100, 100), [0u64; 0]);
    }
}
