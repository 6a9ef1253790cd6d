//! Where a page is: from looking (move_pages), from its first touch, or from its neighbours.

use super::input::Input;
use super::layer::{Layer, Overlap, Span, Spans};
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::placement::{How, Placements};
use super::space::{Spaces, Thing};
use crate::recording::NONE;
use std::collections::BTreeMap;
use std::ops::Range;

/// The answer for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its node.
    pub node: NodeIndex,
    /// The touch that placed it, if one was seen.
    pub touch: u32,
    /// Whether that touch was on another page of the same folio.
    pub folio: bool,
}

impl Home {
    /// Nothing known.
    pub const UNKNOWN: Home = Home { node: UNKNOWN, touch: NONE, folio: false };
}

/// Pages seen on nodes.
#[derive(Debug, Default)]
pub struct Looks {
    layers: Vec<Layer>,
    rows: Vec<Row>,
    /// By space: addresses and strides at which pages were seen present, each once, ascending.
    seen: Vec<Vec<(u64, u64, u64)>>,
    /// Pages whose node changed between two looks.
    pub moved_pages: u64,
    page_bytes: u64,
}

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
    /// Indexes the homes table.
    pub fn new(input: &Input, spaces: &Spaces, nodes: &Nodes) -> Looks {
        let h = &input.homes;
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
        let seen = ids.iter().map(|ids| seen(&rows, ids, page)).collect();
        let moved = ids.iter().map(|ids| moved(&rows, ids, page)).sum();
        let layers = ids.into_iter().map(|ids| Layer::new(ids, &rows[..], Overlap::Replaces)).collect();
        Looks { layers, rows, seen, moved_pages: moved, page_bytes: page }
    }

    /// Whether there is any look at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The look that tells of a page: the latest at or before `time`, else the earliest after it.
    /// `exact`: only looks at this very page, not at a run around it.
    fn row(&self, space: u32, address: u64, time: u64, exact: bool) -> Option<Row> {
        let page = address / self.page_bytes * self.page_bytes;
        let layer = &self.layers[space as usize];
        let fits = |id: u32| {
            let r = &self.rows[id as usize];
            r.present && (!exact || (page - r.address).is_multiple_of(r.stride))
        };
        let before = layer.latest(&self.rows[..], page, time, fits);
        let found = before.or_else(|| layer.next(&self.rows[..], page, time, fits));
        found.map(|id| self.rows[id as usize])
    }

    /// Pages of a range of page numbers that were seen present.
    pub fn pages(&self, space: u32, range: &Range<u64>) -> Vec<Range<u64>> {
        let page = self.page_bytes;
        let (from, to) = (range.start.saturating_mul(page), range.end.saturating_mul(page));
        let mut found = Vec::new();
        for &(first, end, stride) in &self.seen[space as usize] {
            if end <= from || to <= first {
                continue;
            }
            if stride <= page {
                found.push(first.max(from) / page..end.min(to).div_ceil(page));
                continue;
            }
            let next = first + from.saturating_sub(first).div_ceil(stride) * stride;
            let pages = (next..end.min(to)).step_by(stride.try_into().unwrap_or(usize::MAX));
            found.extend(pages.map(|a| a / page..a / page + 1));
        }
        found
    }

    /// Whether the page was ever seen present, and its size's log2 (0 if unknown).
    pub fn present(&self, space: u32, address: u64) -> Option<u8> {
        self.row(space, address, u64::MAX, true).map(|r| r.shift)
    }
}

/// Where pages of one space were seen present: (first byte, one past the last, stride).
fn seen(rows: &[Row], ids: &[u32], page: u64) -> Vec<(u64, u64, u64)> {
    let present = ids.iter().map(|&id| &rows[id as usize]).filter(|r| r.present && r.address < r.to);
    let (mut runs, mut strided): (Vec<_>, Vec<_>) =
        present.map(|r| (r.address, r.to, r.stride)).partition(|r| r.2 <= page);
    runs.sort_unstable();
    let mut all: Vec<(u64, u64, u64)> = Vec::new();
    for run in runs {
        match all.last_mut().filter(|l| run.0 <= l.1) {
            Some(last) => last.1 = last.1.max(run.1),
            None => all.push(run),
        }
    }
    strided.sort_unstable();
    strided.dedup();
    all.extend(strided);
    all
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

/// Answers "where is the page at this address", for samples.
pub struct Finder<'a> {
    /// Spaces, for the parents of forked ones.
    pub spaces: &'a Spaces,
    /// First touches.
    pub placements: &'a Placements,
    /// Looks.
    pub looks: &'a Looks,
    /// Threads and nodes.
    pub nodes: &'a Nodes,
    /// Cpus of the faults.
    pub fault_cpus: &'a [u16],
    /// Their addresses.
    pub fault_addresses: &'a [u64],
    /// log2 of the size of the pages that they mapped.
    pub fault_shifts: &'a [u8],
}

impl Finder<'_> {
    /// Where the page at `address` was at `time`. `folios`: bit s set if the object has folios of 2^s bytes.
    pub fn home(&self, space: u32, address: u64, time: u64, folios: u64) -> Home {
        let page = address / self.placements.page_bytes;
        let mut touch = self.placements.at(space, page, time);
        let mut folio = false;
        if touch.is_none_or(|t| self.placements.touches[t as usize].zero)
            && folios != 0
            && let Some(t) = self.folio_touch(space, page, time, folios)
        {
            (touch, folio) = (Some(t), true);
        }
        let touched = touch.map_or(Home::UNKNOWN, |t| {
            let x = &self.placements.touches[t as usize];
            if x.cache || x.zero && !self.seen_present(space, address) {
                return Home::UNKNOWN;
            }
            // One fault placed the whole of a large page.
            let folio = folio
                || x.fault != NONE
                    && self.is_large(x.fault)
                    && self.fault_addresses[x.fault as usize] / self.placements.page_bytes != page;
            Home { node: self.toucher_node(t), touch: t, folio }
        });
        if self.nodes.assumed || self.looks.is_empty() {
            return touched;
        }
        let looked = |exact| self.look(space, address, time, exact).map(|node| Home { node, ..touched });
        match looked(true) {
            Some(home) => home,
            None if touched.node != UNKNOWN => touched,
            None => looked(false).unwrap_or(touched),
        }
    }

    /// Node of the thread that made a touch, at that time.
    pub fn toucher_node(&self, touch: u32) -> NodeIndex {
        let x = &self.placements.touches[touch as usize];
        match (x.how, x.fault) {
            (How::Gone, _) => UNKNOWN,
            // On which cpu it ran then is not recorded.
            (_, NONE) if !self.nodes.assumed => UNKNOWN,
            (_, NONE) => self.nodes.of_thread(x.thread),
            (_, fault) => self.nodes.running(x.thread, self.fault_cpus[fault as usize]),
        }
    }

    /// Whether a touch was on one of a thing's pages.
    pub fn touched_in(&self, touch: u32, thing: &Thing) -> bool {
        let fault = self.placements.touches[touch as usize].fault;
        let (from, to) = super::pages::page_range(thing, self.placements.page_bytes);
        let at = |fault: u32| self.fault_addresses[fault as usize] / self.placements.page_bytes;
        fault == NONE || (from..to).contains(&at(fault))
    }

    fn look(&self, space: u32, address: u64, time: u64, exact: bool) -> Option<NodeIndex> {
        let own = self.looks.row(space, address, time, exact);
        let row = own.or_else(|| {
            let (parent, fork) = self.spaces.spaces[space as usize].parent?;
            self.looks.row(parent, address, time.min(fork), exact)
        });
        row.map(|r| r.node).filter(|&n| n != UNKNOWN)
    }

    /// Whether a fault mapped more than a base page.
    pub fn is_large(&self, fault: u32) -> bool {
        let shift = self.fault_shifts.get(fault as usize).copied().unwrap_or_default();
        u32::from(shift) > self.placements.page_bytes.trailing_zeros()
    }

    fn seen_present(&self, space: u32, address: u64) -> bool {
        self.looks.present(space, address).is_some()
    }

    /// The touch of the folio that the page lies in: smallest size first.
    pub fn folio_touch(&self, space: u32, page: u64, time: u64, folios: u64) -> Option<u32> {
        let base = self.placements.page_bytes.trailing_zeros();
        let mut left = folios;
        while left != 0 {
            let shift = left.trailing_zeros();
            left &= left - 1;
            if shift > base {
                let found = self.placements.in_folio(space, page, 1 << (shift - base), time);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}
