//! Intervals of addresses with lifetimes, and the question "what was here then?".
//!
//! The addresses at which anything begins or ends cut the address space into
//! segments; each segment lists what ever covered it, by birth. A lookup is one
//! binary search for the segment and one for the time.

/// An interval of addresses with a lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Begin of life, ns.
    pub born: u64,
    /// End of life, ns.
    pub died: u64,
    /// What it is.
    pub id: u32,
}

/// Addresses and times within which the answer to a lookup stays the same.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// First ns.
    pub since: u64,
    /// One past the last ns.
    pub until: u64,
}

impl Validity {
    /// Everything.
    pub const ALL: Validity = Validity { from: 0, to: u64::MAX, since: 0, until: u64::MAX };
    /// Whether a point is inside.
    #[inline]
    pub fn holds(&self, address: u64, time: u64) -> bool {
        self.from <= address && address < self.to && self.since <= time && time < self.until
    }
    /// Intersects.
    pub fn clip(&mut self, other: &Validity) {
        self.from = self.from.max(other.from);
        self.to = self.to.min(other.to);
        self.since = self.since.max(other.since);
        self.until = self.until.min(other.until);
    }
    /// Intersects in addresses only.
    pub fn clip_addresses(&mut self, other: &Validity) {
        self.from = self.from.max(other.from);
        self.to = self.to.min(other.to);
    }
}

/// What to do when the youngest span at an address is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// A birth ends whatever was there (heap: a missed free).
    #[default]
    Replaces,
    /// An older span may still be alive below (mappings), and a span seen late
    /// was there before it was seen (maps are read at intervals).
    Nests,
}

/// Spans, ready for lookup.
#[derive(Debug, Default)]
pub struct Layer {
    overlap: Overlap,
    bounds: Vec<u64>,
    first: Vec<u32>,
    items: Vec<(u64, u64, u32)>,
}

impl Layer {
    /// Builds the segments.
    pub fn new(mut spans: Vec<Span>, overlap: Overlap) -> Layer {
        spans.retain(|s| s.from < s.to);
        spans.sort_by_key(|s| (s.born, s.id));
        let mut bounds: Vec<u64> = spans.iter().flat_map(|s| [s.from, s.to]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let range = |s: &Span| {
            let a = bounds.partition_point(|&b| b < s.from);
            a..a + bounds[a..].partition_point(|&b| b < s.to)
        };
        let mut first = vec![0u32; bounds.len() + 1];
        for s in &spans {
            for i in range(s) {
                first[i + 1] += 1;
            }
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let mut items = vec![(0, 0, 0); first.last().map_or(0, |&n| n as usize)];
        for s in &spans {
            for i in range(s) {
                items[next[i] as usize] = (s.born, s.died, s.id);
                next[i] += 1;
            }
        }
        Layer { overlap, bounds, first, items }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    fn segment(&self, address: u64) -> (Validity, &[(u64, u64, u32)]) {
        let i = self.bounds.partition_point(|&b| b <= address);
        let mut valid = Validity::ALL;
        if let Some(&to) = self.bounds.get(i) {
            valid.to = to;
        }
        if i == 0 {
            return (valid, &[]);
        }
        valid.from = self.bounds[i - 1];
        (valid, &self.items[self.first[i - 1] as usize..self.first[i] as usize])
    }

    /// What covers `address` at `time`, and within which bounds that holds.
    pub fn at(&self, address: u64, time: u64) -> (Option<u32>, Validity) {
        let (mut valid, items) = self.segment(address);
        let k = items.partition_point(|i| i.0 <= time);
        if let Some(next) = items.get(k) {
            valid.until = next.0;
        }
        if k == 0 && self.overlap == Overlap::Nests {
            return (items.first().map(|i| i.2), valid);
        }
        for &(born, died, id) in items[..k].iter().rev() {
            if time < died {
                valid.since = valid.since.max(born);
                valid.until = valid.until.min(died);
                return (Some(id), valid);
            }
            valid.since = valid.since.max(died);
            if self.overlap == Overlap::Replaces {
                break;
            }
        }
        (None, valid)
    }

    /// Everything that ever covered `address`, by birth: (born, died, id).
    pub fn ever(&self, address: u64) -> &[(u64, u64, u32)] {
        self.segment(address).1
    }

    /// Everything that covered part of `from..to` and lived at some time of `since..=until`.
    pub fn over(&self, from: u64, to: u64, since: u64, until: u64) -> impl Iterator<Item = u32> + '_ {
        let first = self.bounds.partition_point(|&b| b <= from).saturating_sub(1);
        let last = self.bounds.partition_point(|&b| b < to);
        let lived = move |i: &&(u64, u64, u32)| i.0 <= until && since < i.1;
        let items = if self.bounds.is_empty() {
            &[][..]
        } else {
            &self.items[self.first[first] as usize..self.first[last] as usize]
        };
        items.iter().filter(lived).map(|i| i.2)
    }

    /// All segments with their lists: (from, to, list).
    pub fn segments(&self) -> impl Iterator<Item = (u64, u64, &[(u64, u64, u32)])> + '_ {
        self.bounds
            .windows(2)
            .enumerate()
            .map(|(i, b)| (b[0], b[1], &self.items[self.first[i] as usize..self.first[i + 1] as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u64, to: u64, born: u64, died: u64, id: u32) -> Span {
        Span { from, to, born, died, id }
    }

    #[test]
    fn recycled_addresses_are_told_apart_by_time() {
        let l = Layer::new(vec![span(10, 20, 0, 5, 1), span(10, 30, 7, 9, 2)], Overlap::Replaces);
        assert_eq!(l.at(15, 3).0, Some(1));
        assert_eq!(l.at(15, 6).0, None);
        assert_eq!(l.at(15, 7).0, Some(2));
        assert_eq!(l.at(25, 3).0, None);
        assert_eq!(l.at(25, 8).0, Some(2));
        assert_eq!(l.at(30, 8).0, None);
        assert_eq!(l.at(9, 8).0, None);
    }

    #[test]
    fn the_answer_holds_within_its_validity_and_not_beyond() {
        let l = Layer::new(
            vec![span(10, 20, 1, 5, 1), span(15, 30, 3, 9, 2), span(5, 40, 8, 12, 3)],
            Overlap::Nests,
        );
        for address in 0..45 {
            for time in 0..15 {
                let (found, valid) = l.at(address, time);
                assert!(valid.holds(address, time), "{address} {time} {valid:?}");
                for a in valid.from..valid.to.min(45) {
                    for t in valid.since..valid.until.min(15) {
                        assert_eq!(l.at(a, t).0, found, "{address}/{time} vs {a}/{t}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_range_finds_what_touches_it_while_it_lives() {
        let l = Layer::new(
            vec![span(10, 20, 1, 5, 1), span(15, 30, 3, 9, 2), span(35, 40, 8, 12, 3)],
            Overlap::Nests,
        );
        let over = |from, to, since, until| {
            let mut found: Vec<u32> = l.over(from, to, since, until).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(over(0, 10, 0, 99), [0u32; 0]);
        assert_eq!(over(0, 11, 0, 99), [1]);
        assert_eq!(over(12, 36, 0, 99), [1, 2, 3]);
        assert_eq!(over(12, 36, 5, 7), [2]);
        assert_eq!(over(12, 36, 0, 2), [1]);
        assert_eq!((over(20, 30, 0, 99), over(40, 50, 0, 99)), (vec![2], vec![]));
        assert_eq!(Layer::default().over(0, 9, 0, 9).count(), 0);
    }

    #[test]
    fn a_missed_free_ends_with_the_next_birth_on_the_heap() {
        let spans = vec![span(0, 10, 0, u64::MAX, 1), span(0, 10, 5, 6, 2)];
        assert_eq!(Layer::new(spans.clone(), Overlap::Replaces).at(3, 8).0, None);
        assert_eq!(Layer::new(spans, Overlap::Nests).at(3, 8).0, Some(1));
    }
}
