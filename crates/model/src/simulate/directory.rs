//! Who has a line: one entry for every line of memory.
//!
//! An entry is a bit for "modified", one for each shared cache, one for each
//! core. Real machines keep this in the tags of an inclusive cache, in a snoop
//! filter or in memory, and may evict cores' lines for want of room; here there is
//! always room. Entries appear with the memory that is touched: 8 bytes per line
//! of 64 (for up to 63 cores and shared caches), an eighth of the program's memory.

use super::layout::Layout;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines of 2 MiB: what is allocated at a time.
const CHUNK_LINES: u64 = 1 << 15;
/// "One core has changed it."
const MODIFIED: u128 = 1;
/// Number of the first shared cache's bit.
const FIRST_CACHE: usize = 1;

/// Who has a line. Or a set of those who might.
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

    /// Whether the shared cache of a domain has it.
    #[inline(always)]
    pub fn shared(self, domain: usize) -> bool {
        self.0 >> (FIRST_CACHE + domain) & 1 != 0
    }

    #[inline(always)]
    pub fn set_shared(&mut self, domain: usize, on: bool) {
        let bit = FIRST_CACHE + domain;
        self.0 = self.0 & !(1 << bit) | u128::from(on) << bit;
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

/// The entries of all lines. An entry is read and written under its line's lock.
#[derive(Debug)]
pub(super) struct Directory {
    /// An entry has one word, or two for more than 63 cores and shared caches.
    wide: bool,
    first_core: usize,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// By core: the bit that says it has a line.
    pub core: Vec<Entry>,
    /// By domain: the bits of its cores.
    pub cores_of: Vec<Entry>,
    cores: Entry,
    caches: Entry,
}

impl Directory {
    /// Most cores and shared caches together.
    pub const MAX: usize = 127;

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
            chunks: (0..bytes.div_ceil(CHUNK_LINES * 64)).map(|_| OnceLock::new()).collect(),
            core,
            cores_of,
            cores,
            caches: Entry((1 << first_core) - 1 - MODIFIED),
        }
    }

    #[inline(always)]
    fn chunk(&self, line: u64) -> &[AtomicU64] {
        self.chunks[(line / CHUNK_LINES) as usize].get_or_init(|| self.new_chunk())
    }

    #[cold]
    fn new_chunk(&self) -> Box<[AtomicU64]> {
        (0..CHUNK_LINES << u32::from(self.wide)).map(|_| AtomicU64::new(0)).collect()
    }

    #[inline(always)]
    pub fn load(&self, line: u64) -> Entry {
        let (chunk, at) = (self.chunk(line), (line % CHUNK_LINES) as usize);
        if !self.wide {
            return Entry(u128::from(chunk[at].load(Relaxed)));
        }
        let (low, high) = (chunk[2 * at].load(Relaxed), chunk[2 * at + 1].load(Relaxed));
        Entry(u128::from(low) | u128::from(high) << 64)
    }

    #[inline(always)]
    pub fn store(&self, line: u64, entry: Entry) {
        let (chunk, at) = (self.chunk(line), (line % CHUNK_LINES) as usize);
        if !self.wide {
            chunk[at].store(entry.0 as u64, Relaxed);
        } else {
            chunk[2 * at].store(entry.0 as u64, Relaxed);
            chunk[2 * at + 1].store((entry.0 >> 64) as u64, Relaxed);
        }
    }

    /// Whether a core has the line.
    #[inline(always)]
    pub fn holds(&self, entry: Entry, core: usize) -> bool {
        !entry.and(self.core[core]).is_empty()
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
