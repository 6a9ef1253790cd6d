//! Sums whose key is a row and something else, by row.

use super::hash::FastMap;

/// Sums in the order of their second key, by row.
pub type ByRow<K, V> = FastMap<u32, Vec<(K, V)>>;

/// Sums of (row, key), by row.
pub fn by_row<'a, K: Copy + Ord + 'a, V>(
    sums: impl Iterator<Item = (&'a (u32, K), &'a V)>,
) -> ByRow<K, &'a V> {
    let mut rows: ByRow<K, &'a V> = FastMap::default();
    for (&(row, key), value) in sums {
        rows.entry(row).or_default().push((key, value));
    }
    rows.values_mut().for_each(|list| list.sort_by_key(|x| x.0));
    rows
}
