//! The caches of one core, which only its own cpus touch. Other cores ask by
//! mail (see [`super::mail`]).
//!
//! A dirty line is dirty in its innermost copy only. What leaves both levels is
//! handed to the caller, who tells the directory.

use super::layout::Layout;
use super::sets::{DIRTY, IN_L2, Lines, VALID, line_of};
use crate::machine::figures::Inclusion;

/// Entries of the quick filter: 4 KiB, and as many as most first levels have lines.
const FILTER: usize = 512;
/// Position of the virtual line in a filter entry: below it, the slot and two bits.
const FILTER_LINE: u32 = 15;
/// An entry that no address matches: user addresses have fewer bits.
const NOTHING: u64 = !0b10;
/// No entry of the filter shows this slot.
const NOWHERE: u16 = u16::MAX;

/// Lines that have left both levels of a core.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    lines: [u64; 4],
    len: usize,
}

impl Leaving {
    fn push(&mut self, line: u64) {
        self.lines[self.len] = line;
        self.len += 1;
    }

    pub fn as_slice(&self) -> &[u64] {
        &self.lines[..self.len]
    }
}

/// First level with its filter, and second level.
#[derive(Debug)]
pub(super) struct Private {
    l1: Lines,
    l2: Option<(Lines, Inclusion)>,
    /// virtual line → slot in `l1`: bits 15.. line, 2..15 slot, 1 always 0, 0 clear for "may write".
    filter: [u64; FILTER],
    /// The filter's entry that shows a slot; may be out of date.
    shown: Box<[u16]>,
}

impl Private {
    pub fn new(layout: &Layout) -> Private {
        let l1 = Lines::new(layout.l1);
        Private {
            shown: vec![NOWHERE; l1.slots()].into(),
            l1,
            l2: layout.l2.map(|(geometry, inclusion)| (Lines::new(geometry), inclusion)),
            filter: [NOTHING; FILTER],
        }
    }

    /// Whether the filter shows the line of `virt` with the permission that `kind`
    /// needs (0 load, 1 store, 2 never). Marks it as used then.
    #[inline(always)]
    pub fn quick(&mut self, virt: u64, kind: u64, stamp: u64) -> bool {
        let line = virt >> 6;
        let entry = self.filter[place(line)];
        let differs = entry ^ (line << FILTER_LINE | 0b10);
        if (differs >> FILTER_LINE) | (differs & kind) != 0 {
            return false;
        }
        self.l1.stamps[(entry >> 2) as usize & 0x1fff] = stamp;
        true
    }

    /// Makes the filter show a slot under a virtual line.
    #[inline]
    pub fn show(&mut self, virt: u64, slot: usize) {
        self.hide(slot);
        let (line, at) = (virt >> 6, place(virt >> 6));
        let readonly = u64::from(!self.l1.has(slot, DIRTY));
        self.filter[at] = line << FILTER_LINE | (slot as u64) << 2 | readonly;
        self.shown[slot] = at as u16;
    }

    #[inline]
    fn hide(&mut self, slot: usize) {
        let at = self.shown[slot] as usize;
        if at < FILTER && (self.filter[at] >> 2) & 0x1fff == slot as u64 {
            self.filter[at] = NOTHING;
        }
    }

    /// Virtual addresses mean something else now.
    pub fn hide_all(&mut self) {
        self.filter = [NOTHING; FILTER];
    }

    /// The line's slot in the first level, marked as used.
    #[inline]
    pub fn find_l1(&mut self, line: u64, stamp: u64) -> Option<usize> {
        let slot = self.l1.find(line)?;
        self.l1.stamps[slot] = stamp;
        Some(slot)
    }

    /// Whether the line of a slot is this core's alone, to be written at will.
    #[inline]
    pub fn is_dirty(&self, slot: usize) -> bool {
        self.l1.has(slot, DIRTY)
    }

    #[inline]
    pub fn set_dirty(&mut self, slot: usize) {
        self.l1.set(slot, DIRTY);
    }

    /// Brings a line from the second to the first level, if it is there.
    #[inline]
    pub fn find_l2(&mut self, line: u64, stamp: u64, leaving: &mut Leaving) -> Option<usize> {
        let (l2, inclusion) = self.l2.as_mut()?;
        let slot = l2.find(line)?;
        let dirty = if l2.has(slot, DIRTY) { DIRTY } else { 0 };
        let flags = if *inclusion == Inclusion::Exclusive {
            l2.remove(slot);
            dirty
        } else {
            l2.clear(slot, DIRTY);
            l2.stamps[slot] = stamp;
            dirty | IN_L2
        };
        Some(self.insert_l1(line, flags, stamp, leaving))
    }

    /// A line from outside, demanded: into the first level, and the second where that keeps it.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool, stamp: u64, leaving: &mut Leaving) -> usize {
        let mut flags = if dirty { DIRTY } else { 0 };
        if let Some((_, Inclusion::Inclusive | Inclusion::Neither)) = self.l2 {
            self.insert_l2(line, 0, stamp, leaving);
            flags |= IN_L2;
        }
        self.insert_l1(line, flags, stamp, leaving)
    }

    /// A line from outside, prefetched: into the second level where there is one.
    pub fn fill_ahead(&mut self, line: u64, dirty: bool, stamp: u64, leaving: &mut Leaving) {
        let flags = if dirty { DIRTY } else { 0 };
        if self.l2.is_some() {
            self.insert_l2(line, flags, stamp, leaving);
        } else {
            self.insert_l1(line, flags, stamp, leaving);
        }
    }

    /// Whether either level has the line.
    pub fn holds(&self, line: u64) -> bool {
        self.l2.as_ref().is_some_and(|(l2, _)| l2.find(line).is_some()) || self.l1.find(line).is_some()
    }

    #[inline]
    fn insert_l1(&mut self, line: u64, flags: u64, stamp: u64, leaving: &mut Leaving) -> usize {
        let (slot, old) = self.l1.replace(line, flags, stamp);
        self.hide(slot);
        if old & VALID == 0 {
            return slot;
        }
        let (victim, dirty) = (line_of(old), old & DIRTY);
        match &mut self.l2 {
            None => leaving.push(victim),
            Some((l2, _)) if old & IN_L2 != 0 => {
                if dirty != 0
                    && let Some(place) = l2.find(victim)
                {
                    l2.set(place, DIRTY);
                }
            }
            Some((_, Inclusion::Neither | Inclusion::Inclusive)) if dirty == 0 => leaving.push(victim),
            Some(_) => self.insert_l2(victim, dirty, stamp, leaving),
        }
        slot
    }

    #[inline]
    fn insert_l2(&mut self, line: u64, dirty: u64, stamp: u64, leaving: &mut Leaving) {
        let Some((l2, inclusion)) = &mut self.l2 else { return };
        let (_, old) = l2.replace(line, dirty, stamp);
        if old & VALID == 0 {
            return;
        }
        let victim = line_of(old);
        match self.l1.find(victim) {
            Some(slot) if *inclusion == Inclusion::Inclusive => {
                self.hide(slot);
                self.l1.remove(slot);
                leaving.push(victim);
            }
            Some(slot) => self.l1.clear(slot, IN_L2),
            None => leaving.push(victim),
        }
    }

    /// Another core writes the line, or an inclusive cache gives it up.
    pub fn invalidate(&mut self, line: u64) {
        if let Some(slot) = self.l1.find(line) {
            self.hide(slot);
            self.l1.remove(slot);
        }
        if let Some((l2, _)) = &mut self.l2
            && let Some(slot) = l2.find(line)
        {
            l2.remove(slot);
        }
    }

    /// Another core reads the line, which was this core's alone.
    pub fn downgrade(&mut self, line: u64) {
        if let Some(slot) = self.l1.find(line) {
            self.hide(slot);
            self.l1.clear(slot, DIRTY);
        }
        if let Some((l2, _)) = &mut self.l2
            && let Some(slot) = l2.find(line)
        {
            l2.clear(slot, DIRTY);
        }
    }

    /// All lines of both levels, each once.
    pub fn lines(&self) -> Vec<u64> {
        let outer = self.l2.iter().flat_map(|(l2, _)| l2.iter());
        let mut lines: Vec<u64> = self.l1.iter().chain(outer).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

/// Entry of the filter for a virtual line: Fibonacci hashing, because arrays that
/// lie a power of two apart would else share their entries.
#[inline(always)]
fn place(line: u64) -> usize {
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}
