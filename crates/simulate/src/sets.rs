//! Sets of a core's own caches: where a line belongs, and which line was used least recently.

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

    #[inline(always)]
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

/// The line was written since it came: only this core has it.
pub(super) const DIRTY: u64 = 1;
/// In a first-level slot: the second level has the line too.
pub(super) const IN_L2: u64 = 2;
/// Bits of flags below a line in its tag.
const FLAG_BITS: u32 = 2;
const FLAGS: u64 = (1 << FLAG_BITS) - 1;

const BYTES: u64 = 0x0101_0101_0101_0101;

/// What a slot held when another line took its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced(u64);

impl Replaced {
    /// The line that was there.
    #[inline(always)]
    pub fn line(self) -> Option<u64> {
        (self.0 != 0).then(|| (self.0 >> FLAG_BITS) - 1)
    }

    #[inline(always)]
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
}

/// The tags of a set-associative cache of up to 16 ways.
///
/// Most lookups of a simulation find nothing. So each set has a byte of every
/// line in one word (two for more than 8 ways), compared all at once; tags are
/// read only where a byte agrees.
#[derive(Debug)]
pub(super) struct Tags {
    modulo: Modulo,
    /// log2 of the distance between sets in `tags`.
    shift: u32,
    /// Whether a set has two words of bytes.
    wide: bool,
    /// Line + 1 above the flags; 0 for an empty slot.
    tags: Box<[u64]>,
    bytes: Box<[u64]>,
}

impl Tags {
    pub fn new(geometry: Geometry) -> Tags {
        let shift = geometry.ways.next_power_of_two().trailing_zeros();
        let sets = geometry.sets as usize;
        let wide = geometry.ways > 8;
        Tags {
            modulo: Modulo::new(geometry.sets),
            shift,
            wide,
            tags: vec![0; sets << shift].into(),
            bytes: vec![0; sets << u32::from(wide)].into(),
        }
    }

    /// Number of a line's set.
    #[inline(always)]
    pub fn set(&self, line: u64) -> usize {
        self.modulo.of(line)
    }

    /// First slot of a set.
    #[inline(always)]
    pub fn base(&self, set: usize) -> usize {
        set << self.shift
    }

    /// Number of a slot's set.
    pub fn set_of(&self, slot: usize) -> usize {
        slot >> self.shift
    }

    /// The slot that holds a line.
    #[inline(always)]
    pub fn find(&self, line: u64) -> Option<usize> {
        let set = self.set(line);
        let base = self.base(set);
        if !self.wide {
            return self.compare(set, line, base);
        }
        self.compare(2 * set, line, base).or_else(|| self.compare(2 * set + 1, line, base + 8))
    }

    #[inline(always)]
    fn compare(&self, word: usize, line: u64, base: usize) -> Option<usize> {
        let differs = self.bytes[word] ^ (BYTES * byte(line));
        // The top bit of every byte that is zero, and of some above the first of those.
        let mut same = differs.wrapping_sub(BYTES) & !differs & (BYTES << 7);
        while same != 0 {
            let slot = base + same.trailing_zeros() as usize / 8;
            if self.tags.get(slot).is_some_and(|tag| tag >> FLAG_BITS == line + 1) {
                return Some(slot);
            }
            same &= same - 1;
        }
        None
    }

    /// Puts a line into a slot.
    #[inline(always)]
    pub fn replace(&mut self, slot: usize, line: u64, flags: u64) -> Replaced {
        let way = slot & ((1 << self.shift) - 1);
        let word = if self.wide { 2 * (slot >> self.shift) + way / 8 } else { slot >> self.shift };
        let at = way % 8 * 8;
        self.bytes[word] = self.bytes[word] & !(0xff << at) | byte(line) << at;
        Replaced(std::mem::replace(&mut self.tags[slot], (line + 1) << FLAG_BITS | flags))
    }

    /// Empties a slot.
    pub fn remove(&mut self, slot: usize) {
        self.tags[slot] = 0;
    }

    #[inline(always)]
    pub fn has(&self, slot: usize, flag: u64) -> bool {
        self.tags[slot] & flag != 0
    }

    #[inline(always)]
    pub fn put(&mut self, slot: usize, flag: u64, on: bool) {
        let tag = &mut self.tags[slot];
        *tag = if on { *tag | flag } else { *tag & !flag };
    }

    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        self.tags.iter().filter_map(|&tag| Replaced(tag & !FLAGS).line())
    }
}

/// A byte that lines of one set seldom share.
#[inline(always)]
fn byte(line: u64) -> u64 {
    line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56
}

/// True LRU by stamps: a use is one store, which is what the quick filter needs.
#[derive(Debug)]
pub(super) struct Stamps {
    shift: u32,
    /// When a slot was used last; 0 for empty ones, the maximum for padding.
    stamps: Box<[u64]>,
}

impl Stamps {
    pub fn new(geometry: Geometry) -> Stamps {
        let shift = geometry.ways.next_power_of_two().trailing_zeros();
        let slots = (geometry.sets as usize) << shift;
        let padding = |slot: usize| slot & ((1 << shift) - 1) >= geometry.ways as usize;
        let stamps = (0..slots).map(|slot| if padding(slot) { u64::MAX } else { 0 }).collect();
        Stamps { shift, stamps }
    }

    #[inline(always)]
    pub fn touch(&mut self, slot: usize, stamp: u64) {
        self.stamps[slot] = stamp;
    }

    /// Slot of the set beginning at `base` to be replaced next.
    #[inline(always)]
    pub fn oldest(&self, base: usize) -> usize {
        let set = &self.stamps[base..];
        base + match self.shift {
            3 => least::<8>(set),
            4 => least::<16>(set),
            2 => least::<4>(set),
            1 => least::<2>(set),
            _ => 0,
        }
    }
}

#[inline(always)]
fn least<const N: usize>(set: &[u64]) -> usize {
    let Some(set): Option<&[u64; N]> = set.first_chunk() else { return 0 };
    let (mut way, mut least) = (0, set[0]);
    for (i, &stamp) in set.iter().enumerate().skip(1) {
        let older = stamp < least;
        way = if older { i } else { way };
        least = if older { stamp } else { least };
    }
    way
}

/// True LRU of up to 16 ways as a list of their numbers, four bits each, the one
/// used last in the lowest. A miss, which replaces the last of the list, costs a shift.
#[derive(Debug)]
pub(super) struct Orders {
    /// Position of the last of the list.
    last: u32,
    orders: Box<[u64]>,
}

impl Orders {
    pub fn new(geometry: Geometry) -> Orders {
        let orders = vec![0xfedc_ba98_7654_3210; geometry.sets as usize].into();
        Orders { last: (geometry.ways - 1) * 4, orders }
    }

    /// The way of a set to be replaced; it is now the one used last.
    #[inline(always)]
    pub fn replace(&mut self, set: usize) -> usize {
        let order = &mut self.orders[set];
        let way = *order >> self.last & 15;
        // What is above the last way is pushed on, and never read.
        *order = *order << 4 | way;
        way as usize
    }

    /// A way was used.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        let order = &mut self.orders[set];
        let below = below(*order, way);
        let above = !(below << 4 | 15);
        *order = *order & above | (*order & below) << 4 | way as u64;
    }

    /// A way was emptied: it should be replaced next.
    pub fn drop(&mut self, set: usize, way: usize) {
        self.touch(set, way);
        let order = &mut self.orders[set];
        let list = (1u64 << self.last << 4).wrapping_sub(1);
        *order = *order & !list | (*order & list) >> 4 | (way as u64) << self.last;
    }
}

/// The bits of a list that come before a way: the first zero digit of the
/// difference to the way's number, found as in Knuth's "Bitwise tricks" (TAOCP 4A, 7.1.3).
#[inline(always)]
fn below(order: u64, way: usize) -> u64 {
    let differs = order ^ (0x1111_1111_1111_1111 * way as u64);
    let zeros = differs.wrapping_sub(0x1111_1111_1111_1111) & !differs & 0x8888_8888_8888_8888;
    let at = zeros.trailing_zeros() & !3;
    (1u64 << at).wrapping_sub(1)
}
