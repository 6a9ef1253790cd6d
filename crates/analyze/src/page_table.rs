//! Page to latest touch: two levels, as in hardware. Programs touch memory in
//! ranges, so a block of 512 slots is rarely wasted, and one hash lookup finds it.

use super::hash::FastMap;
use super::history::{History, PER_BLOCK, WORDS};
use nearfar_recording::NONE;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages of one address space: blocks of 512 pages, each slot the latest touch.
#[derive(Debug, Default)]
pub struct PageTable {
    blocks: FastMap<u64, u32>,
    /// All blocks' slots, one block after the other.
    pub slots: Vec<u32>,
    /// Per block: slots ever touched, and the last new one.
    pub used: Vec<(u16, u16)>,
    /// Per block with large pages: their sizes, as bits of log2 bytes.
    folios: BTreeMap<u64, u64>,
    /// Per block: pages that are there and were not given back, one bit each.
    there: Vec<[u64; WORDS]>,
    /// Of the blocks of which a page was placed or given back again: every change.
    histories: FastMap<u32, History>,
    /// Numbers of blocks with such pages: a program that maps and unmaps again and again leaves many without.
    in_use: BTreeSet<u64>,
    /// All blocks by number, once nothing is added any more.
    sorted: Vec<(u64, u32)>,
}

impl PageTable {
    /// Position of the block of a page, if anything in it was touched.
    pub fn block(&self, page: u64) -> Option<usize> {
        self.blocks.get(&(page / PER_BLOCK)).map(|&b| b as usize)
    }
    /// Every block that was touched: its number and its slots.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u32])> {
        let slots = |b: u32| &self.slots[b as usize * PER_BLOCK as usize..][..PER_BLOCK as usize];
        self.blocks.iter().map(move |(&number, &b)| (number, slots(b)))
    }
    /// The latest touch of a page.
    pub fn head(&self, page: u64) -> u32 {
        self.block(page).map_or(NONE, |b| self.slots[b * PER_BLOCK as usize + (page % PER_BLOCK) as usize])
    }
    /// Makes a touch the latest of its page, which is there from now on or is not.
    pub fn set(&mut self, page: u64, touch: u32, there: bool) {
        let next = self.used.len() as u32;
        let number = page / PER_BLOCK;
        let b = *self.blocks.entry(number).or_insert(next) as usize;
        if b == self.used.len() {
            self.used.push((0, 0));
            self.there.push([0; WORDS]);
            self.slots.resize(self.slots.len() + PER_BLOCK as usize, NONE);
        }
        let offset = (page % PER_BLOCK) as usize;
        let slot = &mut self.slots[b * PER_BLOCK as usize + offset];
        if *slot == NONE {
            self.used[b] = (self.used[b].0 + 1, offset as u16);
            if let Some(history) = self.histories.get_mut(&(b as u32)) {
                history.add(touch, offset as u16, there);
            }
            *slot = touch;
        } else {
            self.change(b, offset, touch, there);
            self.slots[b * PER_BLOCK as usize + offset] = touch;
        }
        let bits = &mut self.there[b];
        let (word, bit) = (offset / 64, 1 << (offset % 64));
        if there {
            if bits.iter().all(|w| *w == 0) {
                self.in_use.insert(number);
            }
            bits[word] |= bit;
        } else {
            bits[word] &= !bit;
            if bits.iter().all(|w| *w == 0) {
                self.in_use.remove(&number);
            }
        }
    }
    /// A page of a block that had a touch has another one. Until then all pages of the block had one each, and touches
    /// are numbered in the order of time.
    fn change(&mut self, b: usize, offset: usize, touch: u32, there: bool) {
        let slots = &self.slots[b * PER_BLOCK as usize..][..PER_BLOCK as usize];
        let history = self.histories.entry(b as u32).or_insert_with(|| {
            let mut first: Vec<(u32, u16)> =
                slots.iter().zip(0..).filter(|x| *x.0 != NONE).map(|(&t, page)| (t, page)).collect();
            first.sort_unstable();
            let mut history = History::default();
            // The first touch of a page is never that it was given back.
            first.into_iter().for_each(|(t, page)| history.add(t, page, true));
            history
        });
        history.add(touch, offset as u16, there);
    }
    /// The changes of a block, if any of its pages had more than one touch.
    pub fn history(&self, b: usize) -> Option<&History> {
        self.histories.get(&(b as u32))
    }
    /// Nothing is added any more.
    pub fn close(&mut self) {
        self.sorted = self.blocks.iter().map(|(&number, &b)| (number, b)).collect();
        self.sorted.sort_unstable();
    }
    /// Blocks with pages of `from..to` that were ever touched, once the table is closed: the pages that
    /// each has of the range, and its position.
    pub fn blocks_of(&self, from: u64, to: u64) -> impl Iterator<Item = (Range<u64>, usize)> + '_ {
        let first = self.sorted.partition_point(|b| b.0 < from / PER_BLOCK);
        let blocks = self.sorted[first..].iter().take_while(move |b| b.0 * PER_BLOCK < to);
        blocks.map(move |&(number, b)| {
            let base = number * PER_BLOCK;
            (base.max(from)..(base + PER_BLOCK).min(to), b as usize)
        })
    }
    /// Notes that `pages` pages were mapped here at once, as one of 2^`shift` bytes.
    pub fn add_folio(&mut self, page: u64, pages: u64, shift: u32) {
        let first = page / pages * pages / PER_BLOCK;
        for block in first..first + pages.div_ceil(PER_BLOCK) {
            *self.folios.entry(block).or_default() |= 1 << shift;
        }
    }
    /// Sizes of large pages in the blocks of `from..to`.
    pub fn folios(&self, from: u64, to: u64) -> u64 {
        let (first, last) = (from / PER_BLOCK, to.div_ceil(PER_BLOCK));
        self.folios.range(first..last.max(first)).fold(0, |m, f| m | f.1)
    }
    /// Pages of `from..to` that were ever touched, once the table is closed.
    pub fn touched(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        self.blocks_of(from, to).flat_map(move |(pages, b)| {
            let slots = &self.slots[b * PER_BLOCK as usize..][..PER_BLOCK as usize];
            pages.filter(move |p| slots[(p % PER_BLOCK) as usize] != NONE)
        })
    }
    /// Pages of `from..to` that are there now.
    pub fn there(&self, from: u64, to: u64) -> Vec<u64> {
        let (first, last) = (from / PER_BLOCK, to.div_ceil(PER_BLOCK));
        let mut pages = Vec::new();
        for &number in self.in_use.range(first..last.max(first)) {
            let b = self.blocks[&number] as usize;
            for (word, &bits) in self.there[b].iter().enumerate() {
                let mut left = bits;
                while left != 0 {
                    let page = number * PER_BLOCK + word as u64 * 64 + u64::from(left.trailing_zeros());
                    left &= left - 1;
                    if from <= page && page < to {
                        pages.push(page);
                    }
                }
            }
        }
        pages
    }
}
