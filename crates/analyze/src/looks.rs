//! Looks at where pages are (move_pages): by page and time.

use super::input::Input;
use super::layer::{Layer, Overlap, Span, Spans};
use super::nodes::{NodeIndex, Nodes};
use super::space::Spaces;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// Pages seen on nodes.
#[derive(Debug, Default)]
pub struct Looks {
    spaces: Vec<SpaceLooks>,
    rows: Vec<Row>,
    /// Pages whose node changed between two looks.
    pub moved_pages: u64,
    page_bytes: u64,
}

/// The looks at one space that saw pages present.
#[derive(Debug, Default)]
struct SpaceLooks {
    /// All of them, by the ranges that they go through; `None` where none has gaps.
    around: Option<Layer>,
    /// By the pages that they looked at: those at every page, then those with gaps, by stride and by where in the stride.
    /// Of a layer every look at an address is one at that page, so the youngest is the answer: memory that is mapped
    /// again and again has a hundred thousand looks that go past a page.
    every: Layer,
    strided: Strided,
    /// Their latest look at each page: disjoint and ascending; first byte, one past the last, row.
    latest: Vec<(u64, u64, u32)>,
    /// The same of looks with gaps, each once, ascending; with the stride.
    gaps: Vec<(u64, u64, u64)>,
    /// Of each of these, the largest end of it and those before it.
    reach: Vec<u64>,
}

/// Looks by stride, and by where in the stride.
type Strided = BTreeMap<u64, BTreeMap<u64, Layer>>;

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    to: u64,
    time: u64,
    stride: u64,
    node: NodeIndex,
    present: bool,
    shift: u8,
}

impl Spans for [Row] {
    #[inline]
    fn span(&self, id: u32) -> Span {
        let row = &self[id as usize];
        Span { from: row.address, to: row.to, born: row.time, died: u64::MAX }
    }
}

impl Looks {
    /// Indexes the nodes of the pages table.
    pub fn new(input: &Input, spaces: &Spaces, nodes: &Nodes) -> Looks {
        let h = &input.page_nodes;
        let page = input.meta.page_bytes.max(1);
        let mut ids: Vec<Vec<u32>> = vec![Vec::new(); spaces.spaces.len()];
        let mut rows = Vec::with_capacity(h.time_ns.len());
        for i in 0..h.time_ns.len() {
            let stride = h.stride[i].max(page);
            let address = h.address[i] / page * page;
            let bytes = u64::from(h.pages[i]).saturating_sub(1).saturating_mul(stride).saturating_add(page);
            let to = if h.pages[i] == 0 { address } else { address.saturating_add(bytes) };
            ids[spaces.position(h.process[i]) as usize].push(i as u32);
            let node = nodes.position(h.node[i]);
            // No page is as large as the address space: a damaged file's shift is as good as none.
            let shift = if h.page_shift[i] < 48 { h.page_shift[i] } else { 0 };
            let (time, present) = (h.time_ns[i], h.node[i] >= 0);
            rows.push(Row { address, to, time, stride, node, present, shift });
        }
        let moved = ids.iter().map(|ids| moved(&rows, ids, page)).sum();
        let spaces = ids.into_iter().map(|ids| SpaceLooks::new(&rows, ids, page)).collect();
        Looks { spaces, rows, moved_pages: moved, page_bytes: page }
    }

    /// Whether there is any look at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The look that says where a page is: the latest at or before `time`, else the earliest after it.
    /// `exact`: only looks at this very page, not at a run around it.
    fn row(&self, space: u32, address: u64, time: u64, exact: bool) -> Option<Row> {
        let page = address / self.page_bytes * self.page_bytes;
        let here = &self.spaces[space as usize];
        let rows = &self.rows[..];
        let ask = |later: bool| {
            let one = |layer: &Layer| match later {
                false => layer.latest(rows, page, time, |_| true),
                true => layer.next(rows, page, time, |_| true),
            };
            if !exact {
                return one(here.around.as_ref().unwrap_or(&here.every));
            }
            let strided = here.strided.iter().filter_map(|(&stride, all)| one(all.get(&(page % stride))?));
            let all = one(&here.every).into_iter().chain(strided);
            let when = |&id: &u32| (rows[id as usize].time, id);
            if later { all.min_by_key(when) } else { all.max_by_key(when) }
        };
        ask(false).or_else(|| ask(true)).map(|id| self.rows[id as usize])
    }

    /// The node that the look says, as of [`Looks::row`].
    pub fn node(&self, space: u32, address: u64, time: u64, exact: bool) -> Option<NodeIndex> {
        self.row(space, address, time, exact).map(|row| row.node)
    }

    /// Pages of a range of page numbers that were seen present; all of it where looks with gaps saw as many as it has.
    pub fn pages(&self, space: u32, range: &Range<u64>) -> Vec<Range<u64>> {
        let page = self.page_bytes;
        let (from, to) = (range.start.saturating_mul(page), range.end.saturating_mul(page));
        let here = &self.spaces[space as usize];
        let first = here.latest.partition_point(|r| r.1 <= from);
        let runs = here.latest[first..].iter().take_while(|r| r.0 < to);
        let mut found: Vec<Range<u64>> =
            runs.map(|r| r.0.max(from) / page..r.1.min(to).div_ceil(page)).collect();
        let mut left = range.end.saturating_sub(range.start);
        let first = here.reach.partition_point(|&end| end <= from);
        for &(first, end, stride) in here.gaps[first..].iter().take_while(|g| g.0 < to) {
            let next = first + from.saturating_sub(first).div_ceil(stride) * stride;
            for address in (next..end.min(to)).step_by(stride.try_into().unwrap_or(usize::MAX)) {
                if left == 0 {
                    return vec![range.clone()];
                }
                left -= 1;
                found.push(address / page..address / page + 1);
            }
        }
        found
    }

    /// Whether the page was ever seen present, and its size's log2 (0 if unknown).
    pub fn present(&self, space: u32, address: u64) -> Option<u8> {
        let here = &self.spaces[space as usize];
        let page = address / self.page_bytes * self.page_bytes;
        let at = here.latest.partition_point(|r| r.1 <= page);
        let every = here.latest.get(at).filter(|r| r.0 <= page).map(|r| r.2);
        let last = |layer: &Layer| layer.latest(&self.rows[..], page, u64::MAX, |_| true);
        let gaps = here.strided.iter().filter_map(|(&stride, all)| last(all.get(&(page % stride))?));
        let id = every.into_iter().chain(gaps).max_by_key(|&id| (self.rows[id as usize].time, id))?;
        Some(self.rows[id as usize].shift)
    }
}

impl SpaceLooks {
    /// Of the rows with these numbers.
    fn new(rows: &[Row], mut ids: Vec<u32>, page: u64) -> SpaceLooks {
        ids.retain(|&id| rows[id as usize].present && rows[id as usize].address < rows[id as usize].to);
        let layer = |ids: Vec<u32>| Layer::new(ids, rows, Overlap::Replaces);
        let (every, gaps): (Vec<u32>, Vec<u32>) =
            ids.iter().partition(|&&id| rows[id as usize].stride <= page);
        let mut strided: BTreeMap<u64, BTreeMap<u64, Vec<u32>>> = BTreeMap::new();
        for &id in &gaps {
            let row = &rows[id as usize];
            strided.entry(row.stride).or_default().entry(row.address % row.stride).or_default().push(id);
        }
        let mut gaps: Vec<(u64, u64, u64)> =
            gaps.iter().map(|&id| &rows[id as usize]).map(|r| (r.address, r.to, r.stride)).collect();
        gaps.sort_unstable();
        gaps.dedup();
        let reach = gaps.iter().scan(0, |most, g| {
            *most = g.1.max(*most);
            Some(*most)
        });
        SpaceLooks {
            reach: reach.collect(),
            gaps,
            latest: latest(rows, &every),
            around: (every.len() < ids.len()).then(|| layer(ids)),
            every: layer(every),
            strided: strided
                .into_iter()
                .map(|(stride, all)| (stride, all.into_iter().map(|(at, ids)| (at, layer(ids))).collect()))
                .collect(),
        }
    }
}

/// Of looks without gaps, the latest at each address.
fn latest(rows: &[Row], ids: &[u32]) -> Vec<(u64, u64, u32)> {
    let mut order = ids.to_vec();
    order.sort_unstable_by_key(|&id| (rows[id as usize].address, id));
    let mut ends: Vec<u64> =
        ids.iter().flat_map(|&id| [rows[id as usize].address, rows[id as usize].to]).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut begun = order.into_iter().peekable();
    // Those that have begun, the latest first; some of them may have ended.
    let mut open: BinaryHeap<(u64, u32)> = BinaryHeap::new();
    let mut found: Vec<(u64, u64, u32)> = Vec::new();
    for pair in ends.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        while let Some(id) = begun.next_if(|&id| rows[id as usize].address <= from) {
            open.push((rows[id as usize].time, id));
        }
        while open.peek().is_some_and(|&(_, id)| rows[id as usize].to <= from) {
            open.pop();
        }
        let Some(&(_, id)) = open.peek() else { continue };
        match found.last_mut().filter(|last| last.1 == from && last.2 == id) {
            Some(last) => last.1 = to,
            None => found.push((from, to, id)),
        }
    }
    found
}

/// Pages of one space whose node changed between two looks: between two addresses at which any look
/// begins or ends, all looks tell of the same pages.
fn moved(rows: &[Row], ids: &[u32], page: u64) -> u64 {
    let mut ends: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * ids.len());
    for &id in ids {
        let row = &rows[id as usize];
        if row.address < row.to {
            ends.extend([(row.address, true, id), (row.to, false, id)]);
        }
    }
    ends.sort_unstable();
    // What lies over the current addresses: looks by node, and by stride.
    let mut nodes: BTreeMap<NodeIndex, u32> = BTreeMap::new();
    let mut strides: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut from, mut moved) = (0, 0);
    for (address, begins, id) in ends {
        if address > from && nodes.len() > 1 {
            let step = strides.last_key_value().map_or(page, |s| *s.0);
            moved += (address - from).div_ceil(step);
        }
        from = address;
        let row = &rows[id as usize];
        if row.present {
            count(&mut nodes, row.node, begins);
            count(&mut strides, row.stride, begins);
        }
    }
    moved
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, more: bool) {
    if more {
        *counts.entry(key).or_default() += 1;
    } else if let Some(n) = counts.get_mut(&key) {
        *n -= 1;
        if *n == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    const PAGE: u64 = 4096;

    /// Looks of random places, sizes, strides and times, some of which found nothing.
    fn some(random: &mut Random) -> Vec<Row> {
        let mut below = |n: u64| (random.unit() * n as f64) as u64;
        let rows = (0..60).map(|_| {
            let (address, pages, stride) =
                (below(40) * PAGE, below(12), [1, 1, 1, 2, 3][below(5) as usize] * PAGE);
            let to = if pages == 0 { address } else { address + (pages - 1) * stride + PAGE };
            let (time, node, present) = (below(20), 0, below(4) > 0);
            Row { address, to, time, stride, node, present, shift: below(200) as u8 }
        });
        rows.collect()
    }

    /// The plain rule: all rows, one after the other.
    fn naive(rows: &[Row], page: u64, time: u64, exact: bool) -> Option<u32> {
        let fits = |r: &Row| {
            r.present
                && r.address <= page
                && page < r.to
                && (!exact || (page - r.address).is_multiple_of(r.stride))
        };
        let all = || (0..).zip(rows).filter(|x| fits(x.1));
        let before = all().filter(|x| x.1.time <= time).max_by_key(|x| (x.1.time, x.0));
        before.or_else(|| all().min_by_key(|x| (x.1.time, x.0))).map(|x| x.0)
    }

    #[test]
    fn every_answer_is_that_of_the_plain_rule() {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let rows = some(&mut random);
            let spaces = vec![SpaceLooks::new(&rows, (0..rows.len() as u32).collect(), PAGE)];
            let looks = Looks { spaces, rows: rows.clone(), moved_pages: 0, page_bytes: PAGE };
            for page in 0..80 {
                let address = page * PAGE + 100;
                for (time, exact) in
                    [(0, true), (7, true), (7, false), (19, true), (30, false), (u64::MAX, true)]
                {
                    let wanted = naive(&rows, page * PAGE, time, exact).map(|id| rows[id as usize].shift);
                    assert_eq!(
                        looks.row(0, address, time, exact).map(|r| r.shift),
                        wanted,
                        "{page} {time} {exact}"
                    );
                }
                let wanted = naive(&rows, page * PAGE, u64::MAX, true).map(|id| rows[id as usize].shift);
                assert_eq!(looks.present(0, address), wanted);
            }
            for from in 0..60 {
                let range = from..from + 9;
                let mut found: Vec<u64> = looks.pages(0, &range).into_iter().flatten().collect();
                found.sort_unstable();
                found.dedup();
                let seen = |p: &u64| looks.present(0, p * PAGE).is_some();
                // All that were seen; and others only where nothing smaller is left to go through.
                assert!(range.clone().filter(seen).all(|p| found.contains(&p)), "{range:?} {found:?}");
                assert!(found.iter().all(seen) || found.len() == 9, "{range:?} {found:?}");
            }
        }
    }

    #[test]
    fn a_page_is_found_in_few_steps_among_any_number_of_looks_that_go_past_it() {
        // Every look at even pages begins elsewhere, one saw page 1.
        let mut rows: Vec<Row> = (0..20_000)
            .map(|i| {
                let (address, stride) = (i % 7 * 2 * PAGE, 2 * PAGE);
                let (to, time) = (address + 1000 * stride, i);
                Row { address, to, time, stride, node: 0, present: true, shift: 12 }
            })
            .collect();
        rows.push(Row {
            address: PAGE,
            to: 2 * PAGE,
            time: 1,
            stride: PAGE,
            node: 1,
            present: true,
            shift: 0,
        });
        let spaces = vec![SpaceLooks::new(&rows, (0..rows.len() as u32).collect(), PAGE)];
        let looks = Looks { spaces, rows, moved_pages: 0, page_bytes: PAGE };
        // Two hundred thousand questions would go through four thousand million looks.
        for i in 0..200_000 {
            assert_eq!(looks.node(0, PAGE, 30_000 - i % 10, true), Some(1));
            assert_eq!(looks.present(0, 3 * PAGE), None);
        }
    }
}
