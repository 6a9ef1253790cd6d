//! Page to latest touch: two levels, as in hardware. Programs touch memory in
//! stretches, so a block of 512 slots is rarely wasted, and one hash lookup finds it.

use super::hash::FastMap;
use crate::recording::NONE;

/// Pages per block: 2 MiB of 4 KiB pages, so that a huge page is one block.
pub const PER_BLOCK: u64 = 512;

/// Pages of one address space: blocks of 512 pages, each slot the latest touch.
#[derive(Debug, Default)]
pub struct PageTable {
    blocks: FastMap<u64, u32>,
    /// All blocks' slots, one block after the other.
    pub slots: Vec<u32>,
    /// Per block: slots ever touched, and the last new one.
    pub used: Vec<(u16, u16)>,
    /// Per block with large pages: their sizes, as bits of log2 bytes.
    folios: FastMap<u64, u64>,
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
    /// Makes a touch the latest of its page.
    pub fn set(&mut self, page: u64, touch: u32) {
        let next = self.used.len() as u32;
        let b = *self.blocks.entry(page / PER_BLOCK).or_insert(next) as usize;
        if b == self.used.len() {
            self.used.push((0, 0));
            self.slots.resize(self.slots.len() + PER_BLOCK as usize, NONE);
        }
        let offset = page % PER_BLOCK;
        let slot = &mut self.slots[b * PER_BLOCK as usize + offset as usize];
        if *slot == NONE {
            self.used[b] = (self.used[b].0 + 1, offset as u16);
        }
        *slot = touch;
    }
    /// Notes that a page of this size was mapped here.
    pub fn add_folio(&mut self, page: u64, shift: u32) {
        *self.folios.entry(page / PER_BLOCK).or_default() |= 1 << shift;
    }
    /// Sizes of large pages in the blocks of `from..to`.
    pub fn folios(&self, from: u64, to: u64) -> u64 {
        let (first, last) = (from / PER_BLOCK, to.div_ceil(PER_BLOCK));
        if last - first <= self.folios.len() as u64 {
            (first..last).filter_map(|b| self.folios.get(&b)).fold(0, |m, f| m | f)
        } else {
            let inside = self.folios.iter().filter(|f| first <= *f.0 && *f.0 < last);
            inside.fold(0, |m, f| m | f.1)
        }
    }
    /// Pages of `from..to` that were ever touched.
    pub fn touched(&self, from: u64, to: u64) -> Vec<u64> {
        let (first, last) = (from / PER_BLOCK, to.div_ceil(PER_BLOCK));
        let mut blocks: Vec<(u64, u32)> = if last - first <= self.blocks.len() as u64 {
            (first..last).filter_map(|b| self.blocks.get(&b).map(|&i| (b, i))).collect()
        } else {
            self.blocks.iter().map(|(&b, &i)| (b, i)).filter(|b| first <= b.0 && b.0 < last).collect()
        };
        blocks.sort_unstable();
        let mut pages = Vec::new();
        for (number, b) in blocks {
            let base = number * PER_BLOCK;
            let slots = &self.slots[b as usize * PER_BLOCK as usize..][..PER_BLOCK as usize];
            for (i, _) in slots.iter().enumerate().filter(|s| *s.1 != NONE) {
                let page = base + i as u64;
                if from <= page && page < to {
                    pages.push(page);
                }
            }
        }
        pages
    }
}
