//! Sets of a cache: which one a line belongs to, and which line was used least recently.

use super::layout::Geometry;

/// `line % sets` without a division: Lemire, Kaser, Kurz, "Faster remainder by
/// direct computation" (2019), exact for 32-bit lines and sets. Sizes of scaled
/// caches are seldom powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulo {
    sets: u32,
    /// 2⁶⁴ / sets, rounded up; 0 for one set, which then gives remainder 0.
    reciprocal: u64,
    /// sets − 1 where that is a mask, which is cheaper still.
    mask: Option<u64>,
}

impl Modulo {
    pub fn new(sets: u32) -> Modulo {
        let reciprocal = (u64::MAX / u64::from(sets)).wrapping_add(1);
        Modulo { sets, reciprocal, mask: sets.is_power_of_two().then(|| u64::from(sets) - 1) }
    }

    #[inline]
    pub fn of(&self, line: u64) -> usize {
        match self.mask {
            Some(mask) => (line & mask) as usize,
            None => {
                let fraction = self.reciprocal.wrapping_mul(line);
                ((u128::from(fraction) * u128::from(self.sets)) >> 64) as usize
            }
        }
    }
}

/// Slot is valid.
pub(super) const VALID: u64 = 1;
/// The line was written since it came: only this core has it.
pub(super) const DIRTY: u64 = 2;
/// In a first-level slot: the second level has the line too.
pub(super) const IN_L2: u64 = 4;
/// Bits below the line's number in a tag.
const FLAG_BITS: u32 = 3;
/// What two tags of one line have in common.
const KEY: u64 = !(DIRTY | IN_L2);

/// A set-associative array of lines with true LRU: the least stamp leaves.
#[derive(Debug)]
pub(super) struct Lines {
    modulo: Modulo,
    ways: usize,
    tags: Box<[u64]>,
    /// When a slot was used last; 0 for empty ones, so that they are taken first.
    pub stamps: Box<[u64]>,
}

impl Lines {
    pub fn new(geometry: Geometry) -> Lines {
        let slots = geometry.sets as usize * geometry.ways as usize;
        Lines {
            modulo: Modulo::new(geometry.sets),
            ways: geometry.ways as usize,
            tags: vec![0; slots].into(),
            stamps: vec![0; slots].into(),
        }
    }

    /// The slot that holds a line.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        let base = self.modulo.of(line) * self.ways;
        let key = line << FLAG_BITS | VALID;
        let set = &self.tags[base..base + self.ways];
        set.iter().position(|tag| tag & KEY == key).map(|way| base + way)
    }

    /// Puts a line where the least recently used one of its set is; gives the
    /// slot and the tag that was there (0 if none).
    #[inline]
    pub fn replace(&mut self, line: u64, flags: u64, stamp: u64) -> (usize, u64) {
        let base = self.modulo.of(line) * self.ways;
        let set = &self.stamps[base..base + self.ways];
        let (mut way, mut least) = (0, u64::MAX);
        for (i, &stamp) in set.iter().enumerate() {
            if stamp < least {
                (way, least) = (i, stamp);
            }
        }
        let slot = base + way;
        self.stamps[slot] = stamp;
        (slot, std::mem::replace(&mut self.tags[slot], line << FLAG_BITS | VALID | flags))
    }

    #[inline]
    pub fn has(&self, slot: usize, flag: u64) -> bool {
        self.tags[slot] & flag != 0
    }

    #[inline]
    pub fn set(&mut self, slot: usize, flag: u64) {
        self.tags[slot] |= flag;
    }

    #[inline]
    pub fn clear(&mut self, slot: usize, flag: u64) {
        self.tags[slot] &= !flag;
    }

    /// Empties a slot; gives its tag.
    pub fn remove(&mut self, slot: usize) -> u64 {
        self.stamps[slot] = 0;
        std::mem::take(&mut self.tags[slot])
    }

    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    /// All lines.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.tags.iter().filter(|&&tag| tag & VALID != 0).map(|&tag| line_of(tag))
    }
}

/// Line of a tag.
#[inline]
pub(super) fn line_of(tag: u64) -> u64 {
    tag >> FLAG_BITS
}
