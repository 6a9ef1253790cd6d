//! Translations: which pages a cpu knows.
//!
//! Sizes are those of Intel cores from Skylake on, also close to Broadwell's and
//! Zen 2's: 64 entries for 4 KiB pages and 32 for 2 MiB pages, 4 ways each, and a
//! second level of 1536 for both, 12 ways (Intel's optimization reference manual,
//! "Cache and TLB parameters"). No described machine has figures of its own yet.
//!
//! Accesses that the quick filter takes are not looked up here. Their lines were
//! used so recently that their pages are known; but such a use keeps no page young.

/// Log2 of the bytes of small and of huge pages.
const SMALL: u32 = 12;
const HUGE: u32 = 21;
const VALID: u64 = 1 << 63;

/// What a translation needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// Nothing: the first level knew it.
    Known,
    /// The second level knew it.
    Second,
    /// A page walk.
    Walk,
}

#[derive(Debug)]
struct Level {
    ways: usize,
    mask: u64,
    keys: Box<[u64]>,
    used: Box<[u64]>,
}

impl Level {
    fn new(sets: usize, ways: usize) -> Level {
        let slots = sets * ways;
        Level { ways, mask: sets as u64 - 1, keys: vec![0; slots].into(), used: vec![0; slots].into() }
    }

    /// Whether the page is here; from now on it is.
    #[inline]
    fn look(&mut self, page: u64, key: u64, now: u64) -> bool {
        let base = (page & self.mask) as usize * self.ways;
        let range = base..base + self.ways;
        if let Some(way) = self.keys[range.clone()].iter().position(|&k| k == key) {
            self.used[base + way] = now;
            return true;
        }
        let oldest = self.used[range].iter().enumerate().min_by_key(|(_, used)| **used);
        let slot = base + oldest.map_or(0, |(way, _)| way);
        (self.keys[slot], self.used[slot]) = (key, now);
        false
    }

    fn clear(&mut self) {
        self.keys.fill(0);
        self.used.fill(0);
    }
}

#[derive(Debug)]
pub(super) struct Tlb {
    small: Level,
    huge: Level,
    second: Level,
    last: u64,
    now: u64,
}

impl Tlb {
    pub fn new() -> Tlb {
        Tlb { small: Level::new(16, 4), huge: Level::new(8, 4), second: Level::new(128, 12), last: 0, now: 0 }
    }

    #[inline]
    pub fn look(&mut self, virt: u64, huge: bool) -> Translation {
        let page = virt >> if huge { HUGE } else { SMALL };
        let key = VALID | page << 1 | u64::from(huge);
        if key == self.last {
            return Translation::Known;
        }
        self.last = key;
        self.now += 1;
        let first = if huge { &mut self.huge } else { &mut self.small };
        if first.look(page, key, self.now) {
            Translation::Known
        } else if self.second.look(page, key, self.now) {
            Translation::Second
        } else {
            Translation::Walk
        }
    }

    pub fn clear(&mut self) {
        self.small.clear();
        self.huge.clear();
        self.second.clear();
        self.last = 0;
    }
}
