//! Hash maps keyed by small integers. SipHash would cost more per sample than
//! everything else the pass does; keys here are ids and page numbers of the
//! recording itself, so no adversary chooses them. The hash is the same in every
//! run: no sum of floating-point numbers depends on the order of a map.

use foldhash::fast::FixedState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// A map with a fast hash.
pub type FastMap<K, V> = HashMap<K, V, FixedState>;

/// A set with a fast hash.
pub type FastSet<K> = HashSet<K, FixedState>;

/// The hash of a text, the same in every run.
pub fn hash_of(text: &str) -> u64 {
    FixedState::default().hash_one(text)
}

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

    /// The sum of a key, if anything was added to it.
    pub fn get(&self, key: K) -> Option<&V> {
        self.places.get(&key).map(|&place| &self.rows[place as usize].1)
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
