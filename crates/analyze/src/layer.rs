//! Intervals of addresses with lifetimes, and the question "what was here then?".
//!
//! Some of the addresses at which anything begins or ends cut the address space into
//! cells. A span is listed in few places: with the nodes of a binary tree over the cells
//! that together are all cells it fills (de Berg and others, Computational Geometry, 10.3:
//! segment trees), and with the one or two cells that it fills in part. So a loop that
//! allocates a million times costs a few million numbers, not the square of a million.
//! Every list is in the order of births. A lookup visits the lists on the way from one cell
//! to the root, with a binary search in each.

mod deaths;
mod groups;
mod steps;

use deaths::Deaths;
pub use groups::Groups;
use steps::step;

/// An interval of addresses with a lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Start of life, ns.
    pub born: u64,
    /// End of life, ns.
    pub died: u64,
}

impl Span {
    fn covers(&self, address: u64) -> bool {
        self.from <= address && address < self.to
    }
}

/// Where the spans themselves are: a layer keeps only their ids.
pub trait Spans {
    /// The span of an id.
    fn span(&self, id: u32) -> Span;
}

impl Spans for [Span] {
    #[inline]
    fn span(&self, id: u32) -> Span {
        self[id as usize]
    }
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

/// Up to so many spans, every address at which one begins or ends is a border of cells: lookups need not
/// ask the spans themselves. // chosen
const FEW: usize = 1 << 16;
/// Beyond, one in so many is: a cell then has at most twice as many spans that fill it in part. // chosen
const GRAIN: usize = 16;

/// Ids of spans, ready for lookup. "Rank" is a span's place in the order of births.
#[derive(Debug, Default)]
pub struct Layer {
    overlap: Overlap,
    /// Ids by rank.
    by_birth: Vec<u32>,
    /// Where cells begin, ascending, and where the last one ends.
    borders: Vec<u64>,
    /// By node of the tree, leaves last: ranks of spans that fill its cells.
    whole: Lists,
    /// By cell: ranks of spans that fill a part of it.
    part: Lists,
    /// Deaths along `whole`, where spans nest and any of them dies.
    deaths: Option<Deaths>,
}

/// Lists of ranks, one after the other.
#[derive(Debug, Default)]
struct Lists {
    first: Vec<usize>,
    ranks: Vec<u32>,
}

impl Lists {
    fn of(&self, i: usize) -> std::ops::Range<usize> {
        self.first[i]..self.first[i + 1]
    }
    /// From how many ranks each list will have.
    fn new(mut first: Vec<usize>) -> Lists {
        let mut sum = 0;
        for n in &mut first {
            sum += std::mem::replace(n, sum);
        }
        first.push(sum);
        Lists { first, ranks: vec![0; sum] }
    }
    /// Appends to a list; `first` is where its next rank goes until all are there.
    fn add(&mut self, i: usize, rank: u32) {
        self.ranks[self.first[i]] = rank;
        self.first[i] += 1;
    }
    /// All ranks are there: every list begins where the one before ended.
    fn close(&mut self) {
        if let Some(lists) = self.first.len().checked_sub(1) {
            self.first.copy_within(0..lists, 1);
            self.first[0] = 0;
        }
    }
}

impl Layer {
    /// Of the spans with these ids.
    pub fn new<S: Spans + ?Sized>(ids: Vec<u32>, spans: &S, overlap: Overlap) -> Layer {
        let grain = if ids.len() <= FEW { 1 } else { GRAIN };
        Layer::with_grain(ids, spans, overlap, grain)
    }

    fn with_grain<S: Spans + ?Sized>(mut ids: Vec<u32>, spans: &S, overlap: Overlap, grain: usize) -> Layer {
        ids.retain(|&id| {
            let s = spans.span(id);
            s.from < s.to
        });
        ids.sort_by_key(|&id| (spans.span(id).born, id));
        let borders = borders(&ids, spans, grain);
        let mut layer = Layer { overlap, by_birth: ids, borders, ..Layer::default() };
        let cells = layer.borders.len().saturating_sub(1);
        let (mut whole, mut part) = (vec![0; 2 * layer.leaves()], vec![0; cells]);
        for &id in &layer.by_birth {
            layer.places(&spans.span(id), |n| whole[n] += 1, |n| part[n] += 1);
        }
        let (mut whole, mut part) = (Lists::new(whole), Lists::new(part));
        for (rank, &id) in layer.by_birth.iter().enumerate() {
            let rank = rank as u32;
            layer.places(&spans.span(id), |n| whole.add(n, rank), |n| part.add(n, rank));
        }
        whole.close();
        part.close();
        let died = |rank: &u32| spans.span(layer.by_birth[*rank as usize]).died;
        if overlap == Overlap::Nests && whole.ranks.iter().any(|r| died(r) != u64::MAX) {
            layer.deaths = Some(Deaths::new(whole.ranks.iter().map(died).collect()));
        }
        (layer.whole, layer.part) = (whole, part);
        layer
    }

    /// The node of the first cell: a full tree, though the last of its leaves may be no cells.
    fn leaves(&self) -> usize {
        self.borders.len().saturating_sub(1).next_power_of_two()
    }

    /// In which lists a span belongs: nodes whose cells it fills, cells that it fills in part.
    fn places(&self, span: &Span, mut whole: impl FnMut(usize), mut part: impl FnMut(usize)) {
        let mut first = self.borders.partition_point(|&b| b <= span.from) - 1;
        let end = first + self.borders[first..].partition_point(|&b| b <= span.to) - 1;
        if self.borders[first] < span.from {
            part(first);
            first += 1;
        }
        // It ends within the cell `end`, which may be the one that it began in.
        if end >= first && self.borders[end] < span.to {
            part(end);
        }
        let leaves = self.leaves();
        let (mut low, mut high) = (first + leaves, end.max(first) + leaves);
        while low < high {
            if low & 1 == 1 {
                whole(low);
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                whole(high);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.by_birth.is_empty()
    }

    /// How many numbers it keeps, for what it costs.
    #[cfg(test)]
    pub fn entries(&self) -> usize {
        self.whole.ranks.len() + self.part.ranks.len()
    }

    /// The cell of an address, if there is one, and what bounds it.
    fn cell(&self, address: u64) -> (Validity, Option<usize>) {
        let i = self.borders.partition_point(|&b| b <= address);
        let mut valid = Validity::ALL;
        if let Some(&to) = self.borders.get(i) {
            valid.to = to;
        }
        if i == 0 {
            return (valid, None);
        }
        valid.from = self.borders[i - 1];
        (valid, (i < self.borders.len()).then_some(i - 1))
    }

    /// The lists of spans that fill a cell, as places in `whole.ranks`.
    fn around(&self, cell: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let leaf = cell + self.leaves();
        std::iter::successors(Some(leaf), |n| Some(n / 2).filter(|n| *n > 0))
            .map(|n| self.whole.of(n))
            .filter(|list| !list.is_empty())
    }

    /// Of the spans that fill part of a cell, the ranks of those at an address.
    fn within<'a, S: Spans + ?Sized>(
        &'a self,
        spans: &'a S,
        cell: usize,
        address: u64,
    ) -> impl DoubleEndedIterator<Item = u32> + 'a {
        let ranks = &self.part.ranks[self.part.of(cell)];
        ranks.iter().copied().filter(move |&r| spans.span(self.by_birth[r as usize]).covers(address))
    }

    /// How many spans were born at or before a time: the first rank that was not.
    fn born_by<S: Spans + ?Sized>(&self, spans: &S, time: u64) -> u32 {
        self.by_birth.partition_point(|&id| spans.span(id).born <= time) as u32
    }

    /// What covers `address` at `time`, and within which bounds that holds.
    pub fn at<S: Spans + ?Sized>(&self, spans: &S, address: u64, time: u64) -> (Option<u32>, Validity) {
        let (mut valid, cell) = self.cell(address);
        let Some(cell) = cell else {
            return (None, valid);
        };
        let span = |rank: u32| spans.span(self.by_birth[rank as usize]);
        let now = self.born_by(spans, time);
        let replaces = self.overlap == Overlap::Replaces;
        // The youngest that counts, the next to be born, the first ever.
        let (mut best, mut next, mut first) = (None, u32::MAX, u32::MAX);
        for list in self.around(cell) {
            step();
            let ranks = &self.whole.ranks[list.clone()];
            let born = ranks.partition_point(|&r| r < now);
            next = next.min(ranks.get(born).copied().unwrap_or(u32::MAX));
            first = first.min(ranks[0]);
            best = best.max(match &self.deaths {
                _ if replaces || born == 0 => ranks[..born].last().copied(),
                // An object without an end is alive at every time but u64::MAX, the query "after everything".
                None if time < u64::MAX => ranks.get(born - 1).copied(),
                None => {
                    valid.since = u64::MAX;
                    None
                }
                Some(deaths) => {
                    let (alive, since) = deaths.last_alive(list.start, list.start + born, time);
                    valid.since = valid.since.max(since);
                    alive.map(|place| self.whole.ranks[place])
                }
            });
        }
        for &rank in &self.part.ranks[self.part.of(cell)] {
            step();
            let s = span(rank);
            if s.to <= address {
                valid.from = valid.from.max(s.to);
                continue;
            }
            if s.from > address {
                valid.to = valid.to.min(s.from);
                continue;
            }
            valid.from = valid.from.max(s.from);
            valid.to = valid.to.min(s.to);
            first = first.min(rank);
            if rank >= now {
                next = next.min(rank);
            } else if replaces || time < s.died {
                best = best.max(Some(rank));
            } else {
                valid.since = valid.since.max(s.died);
            }
        }
        if next != u32::MAX {
            valid.until = span(next).born;
        }
        if !replaces && first != u32::MAX && first >= now {
            return (Some(self.by_birth[first as usize]), valid);
        }
        let Some(best) = best else {
            return (None, valid);
        };
        let s = span(best);
        if time < s.died {
            valid.since = valid.since.max(s.born);
            valid.until = valid.until.min(s.died);
            return (Some(self.by_birth[best as usize]), valid);
        }
        valid.since = valid.since.max(s.died);
        (None, valid)
    }

    /// The youngest of those that ever covered `address`, were born at or before `time` and fit.
    pub fn latest<S: Spans + ?Sized>(
        &self,
        spans: &S,
        address: u64,
        time: u64,
        fits: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.nearest(spans, address, time, true, fits)
    }

    /// The oldest of those that ever cover `address`, were born after `time` and fit.
    pub fn next<S: Spans + ?Sized>(
        &self,
        spans: &S,
        address: u64,
        time: u64,
        fits: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.nearest(spans, address, time, false, fits)
    }

    /// The birth nearest to `time`, before or after it. Every list is gone through away from `time`.
    fn nearest<S: Spans + ?Sized>(
        &self,
        spans: &S,
        address: u64,
        time: u64,
        before: bool,
        mut fits: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let cell = self.cell(address).1?;
        let now = self.born_by(spans, time);
        let mut best: Option<u32> = None;
        let mut search = |ranks: &mut dyn Iterator<Item = u32>| {
            step();
            let nearer = ranks.take_while(|&r| best.is_none_or(|b| if before { r > b } else { r < b }));
            if let Some(rank) = nearer.into_iter().find(|&r| fits(self.by_birth[r as usize])) {
                best = Some(rank);
            }
        };
        for list in self.around(cell) {
            let ranks = &self.whole.ranks[list];
            let (born, later) = ranks.split_at(ranks.partition_point(|&r| r < now));
            if before {
                search(&mut born.iter().rev().copied());
            } else {
                search(&mut later.iter().copied());
            }
        }
        let within = self.within(spans, cell, address);
        if before {
            search(&mut within.rev().filter(|&r| r < now));
        } else {
            search(&mut within.filter(|&r| r >= now));
        }
        best.map(|rank| self.by_birth[rank as usize])
    }

    /// The youngest few of those that ever covered `address` and were born at or before `time`, youngest first.
    pub fn youngest<const N: usize, S: Spans + ?Sized>(
        &self,
        spans: &S,
        address: u64,
        time: u64,
    ) -> impl Iterator<Item = u32> + '_ {
        let mut found = [None; N];
        let mut add = |rank: u32| {
            let place = found.iter().position(|f| *f < Some(rank));
            if let Some(place) = place {
                found[place..].rotate_right(1);
                found[place] = Some(rank);
            }
        };
        if let (_, Some(cell)) = self.cell(address) {
            let now = self.born_by(spans, time);
            for list in self.around(cell) {
                let ranks = &self.whole.ranks[list];
                let born = ranks.partition_point(|&r| r < now);
                ranks[..born].iter().rev().take(N).for_each(|&r| add(r));
            }
            self.within(spans, cell, address).filter(|&r| r < now).for_each(add);
        }
        found.into_iter().flatten().map(|rank| self.by_birth[rank as usize])
    }

    /// The cells that a range is in part in: the first, and one past the last.
    fn cells_of(&self, from: u64, to: u64) -> Option<(usize, usize)> {
        let cells = self.borders.len().saturating_sub(1);
        let first = self.borders.partition_point(|&b| b <= from).saturating_sub(1);
        let end = self.borders.partition_point(|&b| b < to).min(cells);
        (from < to && first < end).then_some((first, end))
    }

    /// Everything that covered part of `from..to` and lived at some time of `since..=until`; some of it repeatedly.
    pub fn over<S: Spans + ?Sized>(
        &self,
        spans: &S,
        from: u64,
        to: u64,
        since: u64,
        until: u64,
        mut found: impl FnMut(u32),
    ) {
        let Some((first, end)) = self.cells_of(from, to) else { return };
        let mut check = |rank: u32| {
            step();
            let id = self.by_birth[rank as usize];
            let s = spans.span(id);
            if s.from < to && from < s.to && s.born <= until && since < s.died {
                found(id);
            }
        };
        let (mut low, mut high) = (first + self.leaves(), end - 1 + self.leaves());
        while high > 0 {
            for node in low..=high {
                self.whole.ranks[self.whole.of(node)].iter().for_each(|&r| check(r));
            }
            (low, high) = (low / 2, high / 2);
        }
        for cell in first..end {
            self.part.ranks[self.part.of(cell)].iter().for_each(|&r| check(r));
        }
    }
}

/// Begins and ends of cells: the outermost addresses and every so many'th begin and end of spans.
fn borders<S: Spans + ?Sized>(ids: &[u32], spans: &S, grain: usize) -> Vec<u64> {
    let mut borders: Vec<u64> = Vec::new();
    let ends: [fn(&Span) -> u64; 2] = [|s| s.from, |s| s.to];
    for end in ends {
        let mut all: Vec<u64> = ids.iter().map(|&id| end(&spans.span(id))).collect();
        all.sort_unstable();
        borders.extend(all.iter().step_by(grain));
        borders.extend(all.last());
    }
    borders.sort_unstable();
    borders.dedup();
    borders
}

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;
