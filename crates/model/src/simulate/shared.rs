//! A cache that several cores share. Its sets are read and written under the
//! lock of their number (see [`super::lock`]).

use super::layout::Geometry;
use super::sets::Modulo;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const VALID: u64 = 1;
const DIRTY: u64 = 2;
const LINE: u32 = 2;
/// Lines have 32 bits ([`super::layout`] sees to it).
const LINE_MASK: u64 = 0xffff_ffff;
/// A slot's upper bits are when it was used last, so that the least slot is the
/// least recently used one, and an empty one is least of all.
const STAMP: u32 = 36;
const MAX_STAMP: u64 = (1 << (64 - STAMP)) - 1;

/// What a slot held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    pub line: u64,
    pub dirty: bool,
}

/// One shared cache with true LRU. A set is its clock and then its slots.
#[derive(Debug)]
pub(super) struct Shared {
    modulo: Modulo,
    ways: usize,
    words: Box<[AtomicU64]>,
}

impl Shared {
    pub fn new(geometry: Geometry) -> Shared {
        let ways = geometry.ways as usize;
        let words = geometry.sets as usize * (ways + 1);
        Shared {
            modulo: Modulo::new(geometry.sets),
            ways,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn set(&self, line: u64) -> (&AtomicU64, &[AtomicU64]) {
        let base = self.modulo.of(line) * (self.ways + 1);
        (&self.words[base], &self.words[base + 1..base + 1 + self.ways])
    }

    #[inline]
    fn slot(&self, line: u64) -> Option<&AtomicU64> {
        let key = line << LINE | VALID;
        let mask = LINE_MASK << LINE | VALID;
        self.set(line).1.iter().find(|slot| slot.load(Relaxed) & mask == key)
    }

    /// The next stamp of a set.
    #[inline]
    fn stamp(clock: &AtomicU64, slots: &[AtomicU64]) -> u64 {
        let next = clock.load(Relaxed) + 1;
        let next = if next > MAX_STAMP { renumber(slots) } else { next };
        clock.store(next, Relaxed);
        next << STAMP
    }

    /// Marks a line as used; whether it is dirty, `None` if it is not there.
    #[inline]
    pub fn touch(&self, line: u64) -> Option<bool> {
        let (clock, slots) = self.set(line);
        let slot = self.slot(line)?;
        let stamp = Self::stamp(clock, slots);
        let old = slot.load(Relaxed);
        slot.store(old & !(MAX_STAMP << STAMP) | stamp, Relaxed);
        Some(old & DIRTY != 0)
    }

    /// Whether the line is there and dirty.
    pub fn is_dirty(&self, line: u64) -> bool {
        self.slot(line).is_some_and(|slot| slot.load(Relaxed) & DIRTY != 0)
    }

    /// Marks a line dirty or clean, which is no use of it. Whether it was there.
    pub fn set_dirty(&self, line: u64, dirty: bool) -> bool {
        let Some(slot) = self.slot(line) else { return false };
        let old = slot.load(Relaxed);
        slot.store(if dirty { old | DIRTY } else { old & !DIRTY }, Relaxed);
        true
    }

    /// Takes a line out.
    pub fn remove(&self, line: u64) {
        if let Some(slot) = self.slot(line) {
            slot.store(0, Relaxed);
        }
    }

    /// Puts in a line that is not there, in place of the least recently used.
    #[inline]
    pub fn insert(&self, line: u64, dirty: bool) -> Option<Evicted> {
        let (clock, slots) = self.set(line);
        let stamp = Self::stamp(clock, slots);
        let (mut least, mut way) = (u64::MAX, 0);
        for (i, slot) in slots.iter().enumerate() {
            let value = slot.load(Relaxed);
            if value < least {
                (least, way) = (value, i);
            }
        }
        let flags = if dirty { VALID | DIRTY } else { VALID };
        slots[way].store(stamp | line << LINE | flags, Relaxed);
        (least & VALID != 0).then_some(Evicted { line: least >> LINE & LINE_MASK, dirty: least & DIRTY != 0 })
    }

    pub fn sets(&self) -> usize {
        self.words.len() / (self.ways + 1)
    }

    /// The lines of a set by number.
    pub fn lines_of_set(&self, set: usize) -> Vec<Evicted> {
        let base = set * (self.ways + 1);
        let slots = self.words[base + 1..base + 1 + self.ways].iter().map(|slot| slot.load(Relaxed));
        let held = slots.filter(|slot| slot & VALID != 0);
        held.map(|slot| Evicted { line: slot >> LINE & LINE_MASK, dirty: slot & DIRTY != 0 }).collect()
    }
}

/// A set's clock has run out of bits: stamps from 1 in the same order; gives the next.
#[cold]
fn renumber(slots: &[AtomicU64]) -> u64 {
    let mut order: Vec<&AtomicU64> = slots.iter().filter(|slot| slot.load(Relaxed) & VALID != 0).collect();
    order.sort_by_key(|slot| slot.load(Relaxed));
    let mut next = 1;
    for slot in order {
        slot.store(slot.load(Relaxed) & !(MAX_STAMP << STAMP) | next << STAMP, Relaxed);
        next += 1;
    }
    next
}
