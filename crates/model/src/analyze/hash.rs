//! Hash maps keyed by small integers. SipHash would cost more per sample than
//! everything else the pass does; keys here are ids and page numbers of the
//! recording itself, so no adversary chooses them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
