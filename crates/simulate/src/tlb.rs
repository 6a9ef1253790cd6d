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

/// Entries of a set, as many as the compiler knows: keys, and when each was used last.
#[derive(Clone, Debug)]
struct Set<const WAYS: usize> {
    keys: [u64; WAYS],
    used: [u64; WAYS],
}

#[derive(Debug)]
struct Level<const WAYS: usize>(Box<[Set<WAYS>]>);

impl<const WAYS: usize> Level<WAYS> {
    /// `sets` is a power of two.
    fn new(sets: usize) -> Level<WAYS> {
        Level(vec![Set { keys: [0; WAYS], used: [0; WAYS] }; sets].into())
    }

    /// Whether the page is here; from now on it is.
    #[inline]
    fn look(&mut self, page: u64, key: u64, now: u64) -> bool {
        let at = page as usize & (self.0.len() - 1);
        let set = &mut self.0[at];
        for way in 0..WAYS {
            if set.keys[way] == key {
                set.used[way] = now;
                return true;
            }
        }
        let mut oldest = 0;
        for way in 1..WAYS {
            if set.used[way] < set.used[oldest] {
                oldest = way;
            }
        }
        (set.keys[oldest], set.used[oldest]) = (key, now);
        false
    }

    fn clear(&mut self) {
        self.0.fill(Set { keys: [0; WAYS], used: [0; WAYS] });
    }
}

#[derive(Debug)]
pub(super) struct Tlb {
    small: Level<4>,
    huge: Level<4>,
    second: Level<12>,
    /// Looked up last: nothing is younger than it.
    last: u64,
    now: u64,
}

impl Tlb {
    pub fn new() -> Tlb {
        Tlb { small: Level::new(16), huge: Level::new(8), second: Level::new(128), last: 0, now: 0 }
    }

    #[inline(always)]
    pub fn look(&mut self, virt: u64, huge: bool) -> Translation {
        let page = virt >> if huge { HUGE } else { SMALL };
        let key = VALID | page << 1 | u64::from(huge);
        if key == self.last {
            return Translation::Known;
        }
        self.last = key;
        self.look_in_levels(page, key, huge)
    }

    fn look_in_levels(&mut self, page: u64, key: u64, huge: bool) -> Translation {
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
