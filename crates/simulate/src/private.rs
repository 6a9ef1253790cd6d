//! The caches of one core, which only its own cpus touch. Other cores ask by
//! mail (see [`super::mail`]).
//!
//! A dirty line is dirty in its innermost copy only. What leaves both levels is
//! handed to the caller, who tells the directory.

use super::few::FewLines;
use super::layout::Layout;
use super::sets::{DIRTY, IN_L2, Orders, Stamps, Tags};
use nearfar_machine::figures::Inclusion;

/// Entries of the quick filter: 4 KiB, and as many as most first levels have lines.
const FILTER: usize = 512;
/// Position of the virtual line in a filter entry: below it, the slot and two bits.
const FILTER_LINE: u32 = 15;
/// Mask of a slot's number.
const SLOT: usize = (1 << 13) - 1;
/// An entry that no address matches: user addresses have fewer bits.
const NOTHING: u64 = !0b10;
/// No entry of the filter shows this slot.
const NOWHERE: u16 = u16::MAX;

/// The second level.
#[derive(Debug)]
struct Second {
    tags: Tags,
    orders: Orders,
    inclusion: Inclusion,
}

impl Second {
    fn remove(&mut self, slot: usize) {
        let set = self.tags.set_of(slot);
        self.orders.drop(set, slot - self.tags.base(set));
        self.tags.remove(slot);
    }
}

/// First level with its filter, and second level.
#[derive(Debug)]
pub(super) struct Private {
    tags: Tags,
    stamps: Stamps,
    second: Option<Second>,
    /// virtual line → slot in `l1`: bits 15.. line, 2..15 slot, 1 always 0, 0 clear for "may write".
    filter: [u64; FILTER],
    /// The filter's entry that shows a slot; may be out of date.
    shown: Box<[u16]>,
}

impl Private {
    pub fn new(layout: &Layout) -> Private {
        let tags = Tags::new(layout.l1);
        Private {
            shown: vec![NOWHERE; tags.slots()].into(),
            tags,
            stamps: Stamps::new(layout.l1),
            second: layout.l2.map(|(geometry, inclusion)| Second {
                tags: Tags::new(geometry),
                orders: Orders::new(geometry),
                inclusion,
            }),
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
        self.stamps.touch((entry >> 2) as usize & SLOT, stamp);
        true
    }

    /// Makes the filter show a slot under a virtual line.
    #[inline(always)]
    pub fn show(&mut self, virt: u64, slot: usize) {
        self.hide(slot);
        let (line, at) = (virt >> 6, place(virt >> 6));
        let readonly = u64::from(!self.tags.has(slot, DIRTY));
        self.filter[at] = line << FILTER_LINE | (slot as u64) << 2 | readonly;
        self.shown[slot] = at as u16;
    }

    #[inline(always)]
    fn hide(&mut self, slot: usize) {
        let at = self.shown[slot] as usize;
        if at < FILTER && (self.filter[at] >> 2) as usize & SLOT == slot {
            self.filter[at] = NOTHING;
        }
    }

    /// Virtual addresses mean something else now.
    pub fn hide_all(&mut self) {
        self.filter = [NOTHING; FILTER];
    }

    /// The line's slot in the first level, marked as used.
    #[inline(always)]
    pub fn find_first(&mut self, line: u64, stamp: u64) -> Option<usize> {
        let slot = self.tags.find(line)?;
        self.stamps.touch(slot, stamp);
        Some(slot)
    }

    /// Whether the line of a slot is this core's alone, to be written at will.
    #[inline(always)]
    pub fn is_dirty(&self, slot: usize) -> bool {
        self.tags.has(slot, DIRTY)
    }

    #[inline(always)]
    pub fn set_dirty(&mut self, slot: usize) {
        self.tags.put(slot, DIRTY, true);
    }

    /// Brings a line from the second to the first level, if it is there.
    #[inline]
    pub fn find_second(&mut self, line: u64, stamp: u64, leaving: &mut FewLines) -> Option<usize> {
        let second = self.second.as_mut()?;
        let slot = second.tags.find(line)?;
        let dirty = if second.tags.has(slot, DIRTY) { DIRTY } else { 0 };
        let flags = if second.inclusion == Inclusion::Exclusive {
            second.remove(slot);
            dirty
        } else {
            second.tags.put(slot, DIRTY, false);
            let set = second.tags.set(line);
            second.orders.touch(set, slot - second.tags.base(set));
            dirty | IN_L2
        };
        Some(self.insert_first(line, flags, stamp, leaving))
    }

    /// A line from outside, demanded: into the first level, and the second where that keeps it.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool, stamp: u64, leaving: &mut FewLines) -> usize {
        let mut flags = if dirty { DIRTY } else { 0 };
        if let Some(Second { inclusion: Inclusion::Inclusive | Inclusion::Neither, .. }) = self.second {
            self.insert_second(line, 0, leaving);
            flags |= IN_L2;
        }
        self.insert_first(line, flags, stamp, leaving)
    }

    /// A line from outside, prefetched: into the second level where there is one.
    #[inline]
    pub fn fill_ahead(&mut self, line: u64, dirty: bool, stamp: u64, leaving: &mut FewLines) {
        let flags = if dirty { DIRTY } else { 0 };
        if self.second.is_some() {
            self.insert_second(line, flags, leaving);
        } else {
            self.insert_first(line, flags, stamp, leaving);
        }
    }

    /// Whether either level has the line.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        self.second.as_ref().is_some_and(|second| second.tags.find(line).is_some())
            || self.tags.find(line).is_some()
    }

    #[inline]
    fn insert_first(&mut self, line: u64, flags: u64, stamp: u64, leaving: &mut FewLines) -> usize {
        let slot = self.stamps.oldest(self.tags.base(self.tags.set(line)));
        let old = self.tags.replace(slot, line, flags);
        self.stamps.touch(slot, stamp);
        self.hide(slot);
        let Some(victim) = old.line() else { return slot };
        let dirty = if old.has(DIRTY) { DIRTY } else { 0 };
        match &mut self.second {
            None => leaving.push(victim),
            Some(second) if old.has(IN_L2) => {
                if dirty != 0
                    && let Some(place) = second.tags.find(victim)
                {
                    second.tags.put(place, DIRTY, true);
                }
            }
            Some(Second { inclusion: Inclusion::Neither | Inclusion::Inclusive, .. }) if dirty == 0 => {
                leaving.push(victim);
            }
            Some(_) => self.insert_second(victim, dirty, leaving),
        }
        slot
    }

    #[inline]
    fn insert_second(&mut self, line: u64, dirty: u64, leaving: &mut FewLines) {
        let Some(second) = &mut self.second else { return };
        let set = second.tags.set(line);
        let slot = second.tags.base(set) + second.orders.replace(set);
        let Some(victim) = second.tags.replace(slot, line, dirty).line() else { return };
        match self.tags.find(victim) {
            Some(slot) if second.inclusion == Inclusion::Inclusive => {
                self.remove_first(slot);
                leaving.push(victim);
            }
            Some(slot) => self.tags.put(slot, IN_L2, false),
            None => leaving.push(victim),
        }
    }

    fn remove_first(&mut self, slot: usize) {
        self.hide(slot);
        self.tags.remove(slot);
        self.stamps.touch(slot, 0);
    }

    /// Another core writes the line, or an inclusive cache gives it up.
    pub fn invalidate(&mut self, line: u64) {
        if let Some(slot) = self.tags.find(line) {
            self.remove_first(slot);
        }
        if let Some(second) = &mut self.second
            && let Some(slot) = second.tags.find(line)
        {
            second.remove(slot);
        }
    }

    /// Another core reads the line, which was this core's alone.
    pub fn downgrade(&mut self, line: u64) {
        if let Some(slot) = self.tags.find(line) {
            self.hide(slot);
            self.tags.put(slot, DIRTY, false);
        }
        if let Some(second) = &mut self.second
            && let Some(slot) = second.tags.find(line)
        {
            second.tags.put(slot, DIRTY, false);
        }
    }

    /// All lines of both levels, each once.
    pub fn lines(&self) -> Vec<u64> {
        let outer = self.second.iter().flat_map(|second| second.tags.lines());
        let mut lines: Vec<u64> = self.tags.lines().chain(outer).collect();
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
