//! Which caches have a line: one entry for every line of memory.
//!
//! An entry is a bit for "modified", one for each shared cache, one for each
//! core. Real machines keep this in the tags of an inclusive cache, in a snoop
//! filter or in memory, and may evict cores' lines for want of room; here there is
//! always room. Entries appear with the memory that is touched: 8 bytes per line of 64
//! for up to 63 cores and shared caches, 16 for up to 127, 32 for up to 255.

use super::layout::{Layout, MOST_HOLDERS};
use nearfar_machine::LINE_BYTES;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines of 2 MiB: what is allocated at a time.
const CHUNK_LINES: u64 = 1 << 15;
/// "One core has changed it": the first bit.
const MODIFIED: u64 = 1;
/// Number of the first shared cache's bit.
const FIRST_CACHE: usize = 1;
/// Most words of an entry.
const MOST_WORDS: usize = (FIRST_CACHE + MOST_HOLDERS).div_ceil(u64::BITS as usize);

/// The caches that have a line, in as few words as the machine needs. One word in place of four saves a fifth (`triad`)
/// to a third (`stencil`) of the time of `cargo bench -p nearfar-simulate` on a Zen 5c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<const WORDS: usize>([u64; WORDS]);

/// A set of caches of any machine.
pub(super) type Mask = Entry<MOST_WORDS>;

impl<const WORDS: usize> Default for Entry<WORDS> {
    fn default() -> Entry<WORDS> {
        Entry([0; WORDS])
    }
}

impl<const WORDS: usize> Entry<WORDS> {
    /// What an entry of so many words can have of a mask: all of it, on a machine whose entries have so many.
    #[inline(always)]
    fn of(mask: &Mask) -> Entry<WORDS> {
        Entry(std::array::from_fn(|word| mask.0[word]))
    }

    #[inline(always)]
    fn with(self, other: Entry<WORDS>, each: impl Fn(u64, u64) -> u64) -> Entry<WORDS> {
        Entry(std::array::from_fn(|word| each(self.0[word], other.0[word])))
    }

    /// Exactly one core has it, and has changed it.
    #[inline(always)]
    pub fn modified(self) -> bool {
        self.0[0] & MODIFIED != 0
    }

    #[inline(always)]
    pub fn set_modified(&mut self, on: bool) {
        self.0[0] = self.0[0] & !MODIFIED | u64::from(on);
    }

    /// Whether it has anything of `mask`.
    #[inline(always)]
    pub fn has(self, mask: &Mask) -> bool {
        !self.and(mask).is_empty()
    }

    #[inline(always)]
    pub fn and(self, mask: &Mask) -> Entry<WORDS> {
        self.with(Entry::of(mask), |own, other| own & other)
    }

    /// Adds what `mask` has.
    #[inline(always)]
    pub fn add(&mut self, mask: &Mask) {
        *self = self.with(Entry::of(mask), |own, other| own | other);
    }

    /// Takes out what `mask` has.
    #[inline(always)]
    pub fn remove(&mut self, mask: &Mask) {
        *self = self.without(Entry::of(mask));
    }

    /// Without what `other` has.
    #[inline(always)]
    pub fn without(self, other: Entry<WORDS>) -> Entry<WORDS> {
        self.with(other, |own, other| own & !other)
    }

    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self == Entry::default()
    }

    /// The bits that are on.
    fn bits(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let at = self.0.iter().position(|&word| word != 0)?;
            let bit = self.0[at].trailing_zeros() as usize;
            self.0[at] &= self.0[at] - 1;
            Some(at * u64::BITS as usize + bit)
        })
    }
}

impl Mask {
    /// The bit of that number alone.
    fn bit(number: usize) -> Mask {
        let mut mask = Mask::default();
        mask.0[number / u64::BITS as usize] = 1 << (number % u64::BITS as usize);
        mask
    }
}

/// The place of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a, const WORDS: usize>(&'a [AtomicU64; WORDS]);

impl<const WORDS: usize> Slot<'_, WORDS> {
    #[inline(always)]
    pub fn load(self) -> Entry<WORDS> {
        Entry(std::array::from_fn(|word| self.0[word].load(Relaxed)))
    }

    #[inline(always)]
    pub fn store(self, entry: Entry<WORDS>) {
        self.0.iter().zip(entry.0).for_each(|(place, word)| place.store(word, Relaxed));
    }
}

/// The entries of all lines. An entry is read and written under its line's lock.
#[derive(Debug)]
pub(super) struct Directory {
    /// Words of an entry: 1, 2 or 4.
    pub words: usize,
    first_core: usize,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// By core: the bit that says it has a line.
    core: Vec<Mask>,
    /// By domain: the bit that says its shared cache has a line.
    cache: Vec<Mask>,
    /// By domain: the bits of its cores.
    cores_of: Vec<Mask>,
    cores: Mask,
    caches: Mask,
}

/// A core's place, with the bits of those it has to do with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub domain: usize,
    /// Its own bit.
    pub own: Mask,
    /// That of its shared cache.
    pub cache: Mask,
    /// Those of all cores behind that cache.
    pub cores: Mask,
}

impl Directory {
    pub fn new(layout: &Layout, bytes: u64) -> Directory {
        let first_core = FIRST_CACHE + layout.domains;
        let bits = first_core + layout.domain_of_core.len();
        let core: Vec<Mask> = (first_core..bits).map(Mask::bit).collect();
        let cache: Vec<Mask> = (FIRST_CACHE..first_core).map(Mask::bit).collect();
        let mut cores_of = vec![Mask::default(); layout.domains];
        for (bit, &domain) in core.iter().zip(&layout.domain_of_core) {
            cores_of[domain].add(bit);
        }
        let all = |bits: &[Mask]| {
            bits.iter().fold(Mask::default(), |mut all, bit| {
                all.add(bit);
                all
            })
        };
        Directory {
            words: bits.div_ceil(u64::BITS as usize).next_power_of_two(),
            first_core,
            chunks: (0..bytes.div_ceil(CHUNK_LINES * LINE_BYTES)).map(|_| OnceLock::new()).collect(),
            cores: all(&core),
            caches: all(&cache),
            core,
            cache,
            cores_of,
        }
    }

    /// Where a line's entry is. `WORDS` must be [`Directory::words`].
    #[inline(always)]
    pub fn slot<const WORDS: usize>(&self, line: u64) -> Slot<'_, WORDS> {
        let chunk = self.chunks[(line / CHUNK_LINES) as usize].get_or_init(|| self.new_chunk());
        Slot(&chunk.as_chunks().0[(line % CHUNK_LINES) as usize])
    }

    #[cold]
    fn new_chunk(&self) -> Box<[AtomicU64]> {
        (0..CHUNK_LINES * self.words as u64).map(|_| AtomicU64::new(0)).collect()
    }

    /// A core's place.
    pub fn place(&self, core: usize, domain: usize) -> Place {
        Place { domain, own: self.core[core], cache: self.cache[domain], cores: self.cores_of[domain] }
    }

    /// The bit of a shared cache.
    #[inline(always)]
    pub fn cache(&self, domain: usize) -> &Mask {
        &self.cache[domain]
    }

    /// The cores of an entry.
    pub fn cores_in<const WORDS: usize>(
        &self,
        entry: Entry<WORDS>,
    ) -> impl Iterator<Item = usize> + use<WORDS> {
        let first = self.first_core;
        entry.and(&self.cores).bits().map(move |bit| bit - first)
    }

    /// The domains whose shared cache is in an entry.
    pub fn caches_in<const WORDS: usize>(
        &self,
        entry: Entry<WORDS>,
    ) -> impl Iterator<Item = usize> + use<WORDS> {
        entry.and(&self.caches).bits().map(|bit| bit - FIRST_CACHE)
    }
}
