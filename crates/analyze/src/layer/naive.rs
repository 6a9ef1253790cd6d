//! The rules of a layer written down as plainly as can be, in memory that grows with the square of the
//! spans: what the layer is checked against.

use super::{Overlap, Span, Validity};

/// Every span listed in every segment that it covers.
#[derive(Debug)]
pub struct Naive {
    overlap: Overlap,
    bounds: Vec<u64>,
    first: Vec<u32>,
    items: Vec<(u64, u64, u32)>,
}

impl Naive {
    /// Builds the segments.
    pub fn new(spans: &[Span], overlap: Overlap) -> Naive {
        let mut spans: Vec<(u32, Span)> = (0..).zip(spans.iter().copied()).collect();
        spans.retain(|(_, s)| s.from < s.to);
        spans.sort_by_key(|(id, s)| (s.born, *id));
        let mut bounds: Vec<u64> = spans.iter().flat_map(|(_, s)| [s.from, s.to]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let range = |s: &Span| {
            let a = bounds.partition_point(|&b| b < s.from);
            a..a + bounds[a..].partition_point(|&b| b < s.to)
        };
        let mut first = vec![0u32; bounds.len() + 1];
        for (_, s) in &spans {
            for i in range(s) {
                first[i + 1] += 1;
            }
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let mut items = vec![(0, 0, 0); first.last().map_or(0, |&n| n as usize)];
        for (id, s) in &spans {
            for i in range(s) {
                items[next[i] as usize] = (s.born, s.died, *id);
                next[i] += 1;
            }
        }
        Naive { overlap, bounds, first, items }
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
}
