//! Hash maps keyed by small integers. SipHash would cost more per sample than
//! everything else the pass does; keys here are ids and page numbers of the
//! recording itself, so no adversary chooses them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// Multiply-and-rotate hash (the scheme of Firefox and rustc's `FxHasher`).
#[derive(Clone, Copy, Default)]
pub struct Mix(u64);

/// 2^64 / golden ratio, odd: Knuth, TAOCP vol. 3, 6.4 (multiplicative hashing).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // The table takes its control bits from the top and its slot from the bottom:
        // fold, because a product is well mixed only in its upper half.
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(GOLDEN);
    }
}

/// A map with [`Mix`] as its hash.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A set with [`Mix`] as its hash.
pub type FastSet<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Answers that [`Sums`] remembers: 12 KiB for pairs of ids, so that a few of them stay in a cache.
const REMEMBERED: usize = 1024;

/// Sums by key, for a pass that asks for the same few hundred keys ten million times: an answer of
/// a moment ago is found by one comparison, without the map's probing.
#[derive(Clone, Debug)]
pub struct Sums<K, V> {
    places: FastMap<K, u32>,
    rows: Vec<(K, V)>,
    /// By hash: a key and its place in `rows`.
    recent: Vec<(K, u32)>,
}

impl<K, V> Default for Sums<K, V> {
    fn default() -> Self {
        Sums { places: FastMap::default(), rows: Vec::new(), recent: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Sums<K, V> {
    /// The sum of a key, zero at first.
    #[inline]
    pub fn of(&mut self, key: K) -> &mut V {
        let slot = self.places.hasher().hash_one(key) as usize % REMEMBERED;
        let place = match self.recent.get(slot) {
            Some(&(known, place)) if known == key => place,
            _ => self.find(key, slot),
        };
        &mut self.rows[place as usize].1
    }

    #[cold]
    fn find(&mut self, key: K, slot: usize) -> u32 {
        let next = self.rows.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.rows.push((key, V::default()));
        }
        if self.recent.is_empty() {
            // Any true pair will do to fill it.
            self.recent = vec![(key, place); REMEMBERED];
        }
        self.recent[slot] = (key, place);
        place
    }

    /// All sums, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, sum)| (key, sum))
    }
}

impl<K, V> IntoIterator for Sums<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

/// An id (row number of another table) to its position. Ids are dense in every
/// producer we know, but nothing forces them to be: so a vector where they are
/// and a map where they are not.
#[derive(Clone, Debug, Default)]
pub struct IdIndex {
    dense: Vec<u32>,
    sparse: FastMap<u32, u32>,
}

impl IdIndex {
    /// Indexes `ids`; of equal ids the last wins.
    pub fn new(ids: &[u32]) -> IdIndex {
        let mut index = IdIndex::default();
        let limit = ids.len() * 4 + 64;
        for (i, &id) in ids.iter().enumerate() {
            if (id as usize) < limit {
                if index.dense.len() <= id as usize {
                    index.dense.resize(id as usize + 1, u32::MAX);
                }
                index.dense[id as usize] = i as u32;
            } else {
                index.sparse.insert(id, i as u32);
            }
        }
        index
    }

    /// Position of `id`.
    #[inline]
    pub fn get(&self, id: u32) -> Option<usize> {
        match self.dense.get(id as usize) {
            Some(&u32::MAX) => None,
            Some(&i) => Some(i as usize),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&id).map(|&i| i as usize),
        }
    }
}
