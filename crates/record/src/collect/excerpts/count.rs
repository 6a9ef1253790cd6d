//! Counts what a copy's code writes down: blocks, and the addresses of their accesses, which go through modelled caches.

use nearfar_decode::translate::Word;
use nearfar_simulate::ladder::{Ladder, SIZES, Use};
use std::collections::HashSet;

/// Instructions of a span of time in which a line does not come from another core and go back. // chosen: some 100 ns
const SPAN: u64 = 512;

/// What was counted of a block of code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Instructions.
    pub instructions: u64,
    /// Accesses to memory.
    pub accesses: u64,
    /// Lines that missed the first level and were in order, by the smallest of the cache sizes that holds them; last: none of them.
    pub in_order: [u64; SIZES.len() + 1],
    /// The same of lines that were not in order.
    pub at_random: [u64; SIZES.len() + 1],
}

/// What came of an excerpt.
#[derive(Debug, Default)]
pub struct Ran {
    /// Instructions in all.
    pub instructions: u64,
    /// Why it ended early.
    pub ended: Option<String>,
    /// Its length: the part that is counted.
    pub counted: u64,
    /// Lines that it used, in their order, where other threads or processes may use them, too.
    pub uses: Vec<Use>,
    /// Lines of memory that it shares with other processes.
    pub shared: Vec<(u64, u64)>,
    /// By the address of a block's first instruction, what was counted once the caches had been filled.
    pub blocks: Vec<(u64, Counted)>,
}

/// How long an excerpt is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Instructions that fill the caches.
    pub before: u64,
    /// Instructions that are counted then.
    pub counted: u64,
}

/// One block that was translated.
pub(super) struct Known {
    /// Address of its first instruction.
    pub start: u64,
    pub instructions: u32,
    pub words: Vec<Word>,
    pub elements: u32,
    pub pauses: u32,
    pub counted: Counted,
}

/// What is counted, and where in the words it is.
pub(super) struct Counting {
    /// By number.
    pub blocks: Vec<Known>,
    pub ladder: Ladder,
    /// Instructions so far.
    pub instructions: u64,
    /// Instructions so far by which a thread says that it waits.
    pub pauses: u64,
    /// Pages, by number, of which code was translated, and whether one of them was written to.
    pub code_pages: HashSet<u64>,
    pub wrote_code: bool,
    /// Instructions that fill the caches before any is counted.
    before: u64,
    /// What is added to addresses of the thread's own segment.
    fs_base: u64,
    /// The block whose words come next, and how many of them came.
    within: Option<(usize, usize)>,
    /// Of a repeated instruction: first addresses, sizes and whether they are written, and how many there are at most.
    runs: Vec<(u64, u64, bool)>,
    count: u64,
}

impl Counting {
    pub(super) fn new(ladder: Ladder, before: u64, fs_base: u64) -> Counting {
        Counting {
            blocks: Vec::new(),
            ladder,
            instructions: 0,
            pauses: 0,
            code_pages: HashSet::new(),
            wrote_code: false,
            before,
            fs_base,
            within: None,
            runs: Vec::new(),
            count: 0,
        }
    }

    /// A word that was written down.
    #[inline]
    pub(super) fn one(&mut self, word: u64) {
        let Some((index, came)) = self.within else {
            let index = word as usize;
            // A word that is none: cannot be, as the translation is ours.
            let Some(block) = self.blocks.get_mut(index) else {
                return;
            };
            self.instructions += u64::from(block.instructions);
            self.pauses += u64::from(block.pauses);
            if self.instructions > self.before {
                block.counted.instructions += u64::from(block.instructions);
                block.counted.accesses += u64::from(block.elements);
                block.counted.at_random[SIZES.len()] += u64::from(block.elements);
            }
            self.within = (!block.words.is_empty()).then_some((index, 0));
            return;
        };
        let block = &self.blocks[index];
        self.within = (came + 1 < block.words.len()).then_some((index, came + 1));
        match block.words[came] {
            Word::Access { bytes, writes, of_thread } => {
                let base = if of_thread { self.fs_base } else { 0 };
                self.access(index, word.wrapping_add(base), bytes.into(), writes);
            }
            Word::Run { bytes, writes } => self.runs.push((word, bytes.into(), writes)),
            Word::Count => {
                self.count = word;
                // A comparison ends when it ends.
                if !block.words.get(came + 1).is_some_and(|next| *next == Word::Left) {
                    self.repeated(index, word);
                }
            }
            Word::Left => self.repeated(index, self.count.wrapping_sub(word)),
        }
    }

    fn repeated(&mut self, index: usize, times: u64) {
        for (start, bytes, writes) in std::mem::take(&mut self.runs) {
            // No program repeats it for more than its memory.
            let bytes = bytes.saturating_mul(times).min(1 << 40);
            if bytes > 0 {
                self.access(index, start, bytes, writes);
            }
        }
    }

    #[inline]
    fn access(&mut self, index: usize, address: u64, bytes: u64, writes: bool) {
        let counts = self.instructions > self.before;
        if counts {
            self.blocks[index].counted.accesses += 1;
        }
        for line in address >> 6..=address.saturating_add(bytes - 1) >> 6 {
            let Some(missed) = self.ladder.access(line, (self.instructions / SPAN) as u32, writes) else {
                continue;
            };
            if counts {
                let counted = &mut self.blocks[index].counted;
                let lines = if missed.in_order { &mut counted.in_order } else { &mut counted.at_random };
                lines[missed.held_in] += 1;
            }
            self.wrote_code |= writes && self.code_pages.contains(&(line >> 6));
        }
    }
}
