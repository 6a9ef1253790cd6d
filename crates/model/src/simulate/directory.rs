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

/// Most words of an entry.
const WORDS: usize = 4;
/// Lines of 2 MiB: what is allocated at a time.
const CHUNK_LINES: u64 = 1 << 15;
/// The bit for "one core has changed it".
const MODIFIED: usize = 0;
/// The bit of the first shared cache.
const SHARED: usize = 1;

/// A set of those who have a line. Or a mask for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry([u64; WORDS]);

impl Entry {
    #[inline]
    fn get(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }

    #[inline]
    fn put(&mut self, bit: usize, on: bool) {
        let mask = 1 << (bit % 64);
        let word = &mut self.0[bit / 64];
        *word = if on { *word | mask } else { *word & !mask };
    }

    /// Exactly one core has it, and has changed it.
    #[inline]
    pub fn modified(&self) -> bool {
        self.get(MODIFIED)
    }

    #[inline]
    pub fn set_modified(&mut self, on: bool) {
        self.put(MODIFIED, on);
    }

    /// Whether the shared cache of a domain has it.
    #[inline]
    pub fn shared(&self, domain: usize) -> bool {
        self.get(SHARED + domain)
    }

    #[inline]
    pub fn set_shared(&mut self, domain: usize, on: bool) {
        self.put(SHARED + domain, on);
    }

    /// What both have.
    #[inline]
    pub fn and(&self, mask: &Entry) -> Entry {
        Entry(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }

    /// Takes out what `mask` has.
    #[inline]
    pub fn remove(&mut self, mask: &Entry) {
        for (word, mask) in self.0.iter_mut().zip(mask.0) {
            *word &= !mask;
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The bits that are on.
    fn bits(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(i, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                (word != 0).then(|| {
                    word &= word - 1;
                    i * 64 + bit
                })
            })
        })
    }
}

/// The entries of all lines. An entry is read and written under its line's lock.
#[derive(Debug)]
pub(super) struct Directory {
    words: usize,
    first_core: usize,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// All cores; the cores of each domain; all shared caches.
    pub cores: Entry,
    pub cores_of: Vec<Entry>,
    pub caches: Entry,
}

impl Directory {
    pub fn new(layout: &Layout, bytes: u64) -> Directory {
        let first_core = SHARED + layout.domains;
        let mut directory = Directory {
            words: (first_core + layout.domain_of_core.len()).div_ceil(64),
            first_core,
            chunks: (0..bytes.div_ceil(CHUNK_LINES * 64)).map(|_| OnceLock::new()).collect(),
            cores: Entry::default(),
            cores_of: vec![Entry::default(); layout.domains],
            caches: Entry::default(),
        };
        for (core, &domain) in layout.domain_of_core.iter().enumerate() {
            directory.cores.put(first_core + core, true);
            directory.cores_of[domain].put(first_core + core, true);
        }
        for domain in 0..layout.domains {
            directory.caches.put(SHARED + domain, true);
        }
        directory
    }

    #[inline]
    fn entry(&self, line: u64) -> &[AtomicU64] {
        let chunk = self.chunks[(line / CHUNK_LINES) as usize].get_or_init(|| self.chunk());
        let at = (line % CHUNK_LINES) as usize * self.words;
        &chunk[at..at + self.words]
    }

    #[cold]
    fn chunk(&self) -> Box<[AtomicU64]> {
        (0..CHUNK_LINES as usize * self.words).map(|_| AtomicU64::new(0)).collect()
    }

    #[inline]
    pub fn load(&self, line: u64) -> Entry {
        let mut entry = Entry::default();
        for (word, stored) in entry.0.iter_mut().zip(self.entry(line)) {
            *word = stored.load(Relaxed);
        }
        entry
    }

    #[inline]
    pub fn store(&self, line: u64, entry: &Entry) {
        for (word, stored) in entry.0.iter().zip(self.entry(line)) {
            stored.store(*word, Relaxed);
        }
    }

    /// Whether a core has the line.
    #[inline]
    pub fn holds(&self, entry: &Entry, core: usize) -> bool {
        entry.get(self.first_core + core)
    }

    #[inline]
    pub fn set_holds(&self, entry: &mut Entry, core: usize, on: bool) {
        entry.put(self.first_core + core, on);
    }

    /// The cores of an entry or mask.
    pub fn cores_in(&self, entry: &Entry) -> impl Iterator<Item = usize> + use<> {
        let first = self.first_core;
        entry.and(&self.cores).bits().map(move |bit| bit - first)
    }

    /// The domains whose shared cache is in an entry.
    pub fn caches_in(&self, entry: &Entry) -> impl Iterator<Item = usize> + use<> {
        entry.and(&self.caches).bits().map(|bit| bit - SHARED)
    }
}
