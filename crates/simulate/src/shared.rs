//! A cache that several cores share. Its sets are read and written under the
//! lock of their number (see [`super::lock`]), which callers hold.

use super::layout::Geometry;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a slot held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub line: u64,
    pub dirty: bool,
}

/// One shared cache with true LRU.
#[derive(Debug)]
pub(super) struct Shared {
    ways: usize,
    /// Line + 1 of each slot; 0 for an empty one.
    tags: Box<[AtomicU32]>,
    /// Of each set: a bit per way that is dirty, then the list of its ways, a byte
    /// each, the one used last in the lowest byte of the first word.
    state: Box<[AtomicU64]>,
    /// Words of a list.
    words: usize,
}

const ONES: u64 = 0x0101_0101_0101_0101;

impl Shared {
    pub fn new(geometry: Geometry) -> Shared {
        let (sets, ways) = (geometry.sets as usize, geometry.ways as usize);
        let words = ways.div_ceil(8);
        let list = |word: usize| ONES.wrapping_mul(word as u64 * 8).wrapping_add(0x0706_0504_0302_0100);
        let state = (0..sets * (words + 1)).map(|i| match i % (words + 1) {
            0 => AtomicU64::new(0),
            word => AtomicU64::new(list(word - 1)),
        });
        Shared {
            ways,
            tags: (0..sets * ways).map(|_| AtomicU32::new(0)).collect(),
            state: state.collect(),
            words,
        }
    }

    #[inline(always)]
    fn tags(&self, set: usize) -> &[AtomicU32] {
        &self.tags[set * self.ways..(set + 1) * self.ways]
    }

    /// Dirty bits and list of a set.
    #[inline(always)]
    fn state(&self, set: usize) -> (&AtomicU64, &[AtomicU64]) {
        let base = set * (self.words + 1);
        (&self.state[base], &self.state[base + 1..base + 1 + self.words])
    }

    #[inline]
    fn way(&self, set: usize, line: u64) -> Option<usize> {
        let key = line as u32 + 1;
        self.tags(set).iter().position(|tag| tag.load(Relaxed) == key)
    }

    /// Marks a line as used; whether it is dirty, `None` if it is not there.
    pub fn touch(&self, set: usize, line: u64) -> Option<bool> {
        let way = self.way(set, line)?;
        let (dirty, list) = self.state(set);
        let mut first = way as u64;
        for word in list {
            let old = word.load(Relaxed);
            // The way's own byte, if it is in this word, ends the shift.
            let differs = old ^ (ONES * way as u64);
            let zeros = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
            if zeros != 0 {
                let below = (1u64 << (zeros.trailing_zeros() & !7)).wrapping_sub(1);
                let above = !(below << 8 | 0xff);
                word.store(old & above | (old & below) << 8 | first, Relaxed);
                break;
            }
            word.store(old << 8 | first, Relaxed);
            first = old >> 56;
        }
        Some(dirty.load(Relaxed) >> way & 1 != 0)
    }

    /// Whether the line is there and dirty.
    pub fn is_dirty(&self, set: usize, line: u64) -> bool {
        self.way(set, line).is_some_and(|way| self.state(set).0.load(Relaxed) >> way & 1 != 0)
    }

    /// Marks a line dirty or clean, which is not an use of it.
    pub fn set_dirty(&self, set: usize, line: u64, on: bool) {
        if let Some(way) = self.way(set, line) {
            let dirty = self.state(set).0;
            let old = dirty.load(Relaxed);
            dirty.store(if on { old | 1 << way } else { old & !(1 << way) }, Relaxed);
        }
    }

    /// Takes a line out; its slot is the next to be used.
    pub fn remove(&self, set: usize, line: u64) {
        let Some(way) = self.way(set, line) else { return };
        self.set_dirty(set, line, false);
        self.tags(set)[way].store(0, Relaxed);
        let list = self.state(set).1;
        let byte = |at: usize| (list[at / 8].load(Relaxed) >> (at % 8 * 8)) as u8;
        let put = |at: usize, way: u8| {
            let (word, shift) = (&list[at / 8], at % 8 * 8);
            word.store(word.load(Relaxed) & !(0xff << shift) | u64::from(way) << shift, Relaxed);
        };
        let at = (0..self.ways).find(|&at| usize::from(byte(at)) == way).unwrap_or(self.ways - 1);
        for at in at + 1..self.ways {
            put(at - 1, byte(at));
        }
        put(self.ways - 1, way as u8);
    }

    /// Puts in a line that is not there, in place of the least recently used.
    #[inline]
    pub fn insert(&self, set: usize, line: u64, dirty: bool) -> Option<Held> {
        let (dirty_bits, list) = self.state(set);
        let last = self.ways - 1;
        let way = list[last / 8].load(Relaxed) >> (last % 8 * 8) & 0xff;
        let mut first = way;
        for word in list {
            let old = word.load(Relaxed);
            word.store(old << 8 | first, Relaxed);
            first = old >> 56;
        }
        let bits = dirty_bits.load(Relaxed);
        dirty_bits.store(bits & !(1 << way) | u64::from(dirty) << way, Relaxed);
        let tag = &self.tags(set)[way as usize];
        let old = tag.load(Relaxed);
        tag.store(line as u32 + 1, Relaxed);
        (old != 0).then(|| Held { line: u64::from(old - 1), dirty: bits >> way & 1 != 0 })
    }

    /// The lines of a set.
    pub fn lines(&self, set: usize) -> Vec<Held> {
        let dirty = self.state(set).0.load(Relaxed);
        let tags = self.tags(set).iter().map(|tag| tag.load(Relaxed)).enumerate();
        tags.filter(|&(_, tag)| tag != 0)
            .map(|(way, tag)| Held { line: u64::from(tag - 1), dirty: dirty >> way & 1 != 0 })
            .collect()
    }
}
