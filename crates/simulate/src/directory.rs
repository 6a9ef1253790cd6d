//! Which caches have a line: one entry for every line of memory.
//!
//! An entry is a bit for "modified", one for each shared cache, one for each
//! core. Real machines keep this in the tags of an inclusive cache, in a snoop
//! filter or in memory, and may evict cores' lines for want of room; here there is
//! always room. Entries appear with the memory that is touched: 8 bytes per line
//! of 64 (for up to 63 cores and shared caches), an eighth of the program's memory.

use super::layout::Layout;
use nearfar_machine::LINE_BYTES;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines of 2 MiB: what is allocated at a time.
const CHUNK_LINES: u64 = 1 << 15;
/// "One core has changed it."
const MODIFIED: u128 = 1;
/// Number of the first shared cache's bit.
const FIRST_CACHE: usize = 1;

/// The caches that have a line, or a set of those that may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry(u128);

impl Entry {
    /// Exactly one core has it, and has changed it.
    #[inline(always)]
    pub fn modified(self) -> bool {
        self.0 & MODIFIED != 0
    }

    #[inline(always)]
    pub fn set_modified(&mut self, on: bool) {
        self.0 = self.0 & !MODIFIED | u128::from(on);
    }

    /// Whether it has anything of `mask`.
    #[inline(always)]
    pub fn has(self, mask: Entry) -> bool {
        self.0 & mask.0 != 0
    }

    #[inline(always)]
    pub fn and(self, mask: Entry) -> Entry {
        Entry(self.0 & mask.0)
    }

    /// Adds what `mask` has.
    #[inline(always)]
    pub fn add(&mut self, mask: Entry) {
        self.0 |= mask.0;
    }

    /// Takes out what `mask` has.
    #[inline(always)]
    pub fn remove(&mut self, mask: Entry) {
        self.0 &= !mask.0;
    }

    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits that are on.
    fn bits(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let bit = self.0.trailing_zeros() as usize;
            (self.0 != 0).then(|| {
                self.0 &= self.0 - 1;
                bit
            })
        })
    }
}

/// The place of an entry, of one or two words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a>(&'a AtomicU64, Option<&'a AtomicU64>);

impl Slot<'_> {
    #[inline(always)]
    pub fn load(self) -> Entry {
        let high = self.1.map_or(0, |high| high.load(Relaxed));
        Entry(u128::from(self.0.load(Relaxed)) | u128::from(high) << 64)
    }

    #[inline(always)]
    pub fn store(self, entry: Entry) {
        self.0.store(entry.0 as u64, Relaxed);
        if let Some(high) = self.1 {
            high.store((entry.0 >> 64) as u64, Relaxed);
        }
    }
}

/// The entries of all lines. An entry is read and written under its line's lock.
#[derive(Debug)]
pub(super) struct Directory {
    /// An entry has one word, or two for more than 63 cores and shared caches.
    wide: bool,
    first_core: usize,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// By core: the bit that says it has a line.
    core: Vec<Entry>,
    /// By domain: the bits of its cores.
    cores_of: Vec<Entry>,
    cores: Entry,
    caches: Entry,
}

/// A core's place, with the bits of those it has to do with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub domain: usize,
    /// Its own bit.
    pub own: Entry,
    /// That of its shared cache.
    pub cache: Entry,
    /// Those of all cores behind that cache.
    pub cores: Entry,
}

impl Directory {
    pub fn new(layout: &Layout, bytes: u64) -> Directory {
        let first_core = FIRST_CACHE + layout.domains;
        let bits = first_core + layout.domain_of_core.len();
        let core: Vec<Entry> = (first_core..bits).map(|bit| Entry(1 << bit)).collect();
        let mut cores_of = vec![Entry::default(); layout.domains];
        for (&bit, &domain) in core.iter().zip(&layout.domain_of_core) {
            cores_of[domain].add(bit);
        }
        let mut cores = Entry::default();
        core.iter().for_each(|&bit| cores.add(bit));
        Directory {
            wide: bits > 64,
            first_core,
            chunks: (0..bytes.div_ceil(CHUNK_LINES * LINE_BYTES)).map(|_| OnceLock::new()).collect(),
            core,
            cores_of,
            cores,
            caches: Entry((1 << first_core) - 1 - MODIFIED),
        }
    }

    /// Where a line's entry is.
    #[inline(always)]
    pub fn slot(&self, line: u64) -> Slot<'_> {
        let chunk = self.chunks[(line / CHUNK_LINES) as usize].get_or_init(|| self.new_chunk());
        let at = (line % CHUNK_LINES) as usize;
        if self.wide { Slot(&chunk[2 * at], Some(&chunk[2 * at + 1])) } else { Slot(&chunk[at], None) }
    }

    #[cold]
    fn new_chunk(&self) -> Box<[AtomicU64]> {
        (0..CHUNK_LINES << u32::from(self.wide)).map(|_| AtomicU64::new(0)).collect()
    }

    /// A core's place.
    pub fn place(&self, core: usize, domain: usize) -> Place {
        let cache = self.cache(domain);
        Place { domain, own: self.core[core], cache, cores: self.cores_of[domain] }
    }

    /// The bit of a shared cache.
    pub fn cache(&self, domain: usize) -> Entry {
        Entry(1 << (FIRST_CACHE + domain))
    }

    /// The cores of an entry or mask.
    pub fn cores_in(&self, entry: Entry) -> impl Iterator<Item = usize> + use<> {
        let first = self.first_core;
        entry.and(self.cores).bits().map(move |bit| bit - first)
    }

    /// The domains whose shared cache is in an entry.
    pub fn caches_in(&self, entry: Entry) -> impl Iterator<Item = usize> + use<> {
        entry.and(self.caches).bits().map(|bit| bit - FIRST_CACHE)
    }
}
