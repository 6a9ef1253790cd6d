//! Which touch placed a page.

use super::races::window_ns;
use super::{How, Placements};
use crate::history::{Memo, PER_BLOCK, among};
use nearfar_recording::NONE;
impl Placements {
    /// The latest touch at an address, having looked at it: brings both into the cache.
    #[inline]
    pub fn peek(&self, space: u32, address: u64) -> u32 {
        let head = self.tables[space as usize].head(address / self.page_bytes);
        match self.touches.get(head as usize) {
            Some(touch) if touch.time == u64::MAX => NONE,
            _ => head,
        }
    }

    /// The placement of a page that held at `time`.
    pub fn at(&self, space: u32, page: u64, time: u64) -> Option<u32> {
        let (mut s, mut t) = (space, time);
        loop {
            let touch = self.made_by(self.tables[s as usize].head(page), t);
            if touch != NONE {
                return (self.touches[touch as usize].how != How::Gone).then_some(touch);
            }
            let (parent, fork) = self.parents[s as usize]?;
            (s, t) = (parent, t.min(fork));
        }
    }

    /// The first placement of a page at or after `time`, up to `until`.
    pub fn first_since(&self, space: u32, page: u64, time: u64, until: u64) -> Option<u32> {
        let mut touch = self.made_by(self.tables[space as usize].head(page), until);
        let first = self.touches.get(touch as usize).map_or(NONE, |t| t.first);
        if first != NONE && self.touches[first as usize].time >= time {
            return Some(first);
        }
        let mut found = None;
        // Where none took a page of its own, the latest of the zero page counts.
        while touch != NONE && (first != NONE || found.is_none()) {
            let x = &self.touches[touch as usize];
            if x.time < time {
                break;
            }
            // The zero page is replaced by the store that follows.
            if x.how != How::Gone && (!x.zero || found.is_none()) {
                found = Some(touch);
            }
            touch = x.older;
        }
        found
    }

    /// Whether a fault of a thread may have begun before a touch of its page was done.
    pub(super) fn in_race(&self, touch: u32, time: u64, thread: u32, large: bool) -> bool {
        let now = &self.touches[touch as usize];
        time.saturating_sub(now.time) <= window_ns(large, now.thread != thread)
    }

    /// Faults that raced with a touch, any of which may have placed the page instead.
    pub fn raced(&self, touch: u32) -> &[u32] {
        self.races.late(touch)
    }

    /// The one live touch in an aligned folio of `pages` pages; `None` if there is none or several.
    /// Several faults mean that the folio was never one: a folio faults once.
    pub fn in_folio(&self, space: u32, page: u64, pages: u64, time: u64, memo: &mut Memo) -> Option<u32> {
        let first = page / pages * pages;
        let table = &self.tables[space as usize];
        let mut found = None;
        // Whether there are two.
        let mut add = |page: u64| {
            let touch = self.at(space, page, time).filter(|&t| !self.touches[t as usize].zero);
            touch.is_some_and(|touch| found.replace(touch).is_some())
        };
        for (range, b) in table.blocks_of(first, first + pages) {
            let base = range.start / PER_BLOCK * PER_BLOCK;
            let (used, last) = table.used[b];
            let several = if used == 1 {
                let only = base + u64::from(last);
                range.contains(&only) && add(only)
            } else if let (Some(history), None) = (table.history(b), self.parents[space as usize]) {
                let made = |touch: u32| self.touches[touch as usize].time <= time;
                let there = memo.of(space, b, time, || history.there(made).0);
                among(there, range.start - base..range.end - base).any(|p| add(base + p))
            } else {
                // A page that was touched here only later was the parent's at that time.
                let slots = &table.slots[b * PER_BLOCK as usize..];
                range.into_iter().any(|p| slots[(p % PER_BLOCK) as usize] != NONE && add(p))
            };
            if several {
                return None;
            }
        }
        found.or_else(|| {
            let (parent, fork) = self.parents[space as usize]?;
            self.in_folio(parent, page, pages, time.min(fork), memo)
        })
    }

    /// Pages of `from..to` (page numbers) with any touch in this very space.
    pub fn touched(&self, space: u32, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        self.tables[space as usize].touched(from, to)
    }
}
