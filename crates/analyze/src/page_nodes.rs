//! Where a page is: from looking (move_pages), from its first touch, or from its neighbours.

use super::history::Memo;
use super::looks::Looks;
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::placement::{How, Placements};
use super::space::{Spaces, Thing};
use nearfar_recording::NONE;

/// The answer for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageNode {
    /// Its node.
    pub node: NodeIndex,
    /// The touch that placed it, if one was seen.
    pub touch: u32,
    /// Whether that touch was on another page of the same folio.
    pub folio: bool,
}

impl PageNode {
    /// Nothing known.
    pub const UNKNOWN: PageNode = PageNode { node: UNKNOWN, touch: NONE, folio: false };
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
    /// Where the page at `address` was at `time`. `folios`: bit s set if the object has folios of 2^s bytes. `elsewhere`: whether
    /// something else than first touches placed its pages, so that only looks say where one is.
    pub fn page_node(&self, space: u32, address: u64, time: u64, folios: u64, elsewhere: bool) -> PageNode {
        let page = address / self.placements.page_bytes;
        let mut touch = self.placements.at(space, page, time);
        let mut folio = false;
        if touch.is_none_or(|t| self.placements.touches[t as usize].zero)
            && folios != 0
            && let Some(t) = self.folio_touch(space, page, time, folios, &mut Memo::default())
        {
            (touch, folio) = (Some(t), true);
        }
        let touched = touch.map_or(PageNode::UNKNOWN, |t| {
            let x = &self.placements.touches[t as usize];
            if x.cache || x.zero && !self.seen_present(space, address) {
                return PageNode::UNKNOWN;
            }
            // One fault placed the whole of a large page.
            let folio = folio
                || x.fault != NONE
                    && self.is_large(x.fault)
                    && self.fault_addresses[x.fault as usize] / self.placements.page_bytes != page;
            PageNode { node: self.toucher_node(t), touch: t, folio }
        });
        if self.nodes.assumed || self.looks.is_empty() {
            return touched;
        }
        let looked = |exact| self.look(space, address, time, exact).map(|node| PageNode { node, ..touched });
        match looked(true) {
            Some(page_node) => page_node,
            None if touched.node != UNKNOWN && !elsewhere => touched,
            None => {
                let guess = if elsewhere { UNKNOWN } else { touched.node };
                looked(false).unwrap_or(PageNode { node: guess, ..touched })
            }
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

    /// Whether the page is where the thread of a touch ran then, or another one that touched it at the same time.
    pub fn is_where_touched(&self, touch: u32, node: NodeIndex) -> bool {
        let raced = |&fault: &u32| self.nodes.of_cpu(self.fault_cpus[fault as usize]) == node;
        self.toucher_node(touch) == node || self.placements.raced(touch).iter().any(raced)
    }

    /// Whether a touch was on one of a thing's pages.
    pub fn touched_in(&self, touch: u32, thing: &Thing) -> bool {
        let fault = self.placements.touches[touch as usize].fault;
        let (from, to) = super::space::page_range(thing, self.placements.page_bytes);
        let at = |fault: u32| self.fault_addresses[fault as usize] / self.placements.page_bytes;
        fault == NONE || (from..to).contains(&at(fault))
    }

    fn look(&self, space: u32, address: u64, time: u64, exact: bool) -> Option<NodeIndex> {
        let own = self.looks.node(space, address, time, exact);
        let node = own.or_else(|| {
            let (parent, fork) = self.spaces.spaces[space as usize].parent?;
            self.looks.node(parent, address, time.min(fork), exact)
        });
        node.filter(|&n| n != UNKNOWN)
    }

    /// Whether a fault mapped more than a base page.
    pub fn is_large(&self, fault: u32) -> bool {
        let shift = self.fault_shifts.get(fault as usize).copied().unwrap_or_default();
        u32::from(shift) > self.placements.page_bytes.trailing_zeros()
    }

    fn seen_present(&self, space: u32, address: u64) -> bool {
        self.looks.present(space, address).is_some()
    }

    /// The touch of the folio that the page is in: smallest size first.
    pub fn folio_touch(&self, space: u32, page: u64, time: u64, folios: u64, memo: &mut Memo) -> Option<u32> {
        let base = self.placements.page_bytes.trailing_zeros();
        let mut left = folios;
        while left != 0 {
            let shift = left.trailing_zeros();
            left &= left - 1;
            if shift > base {
                let found = self.placements.in_folio(space, page, 1 << (shift - base), time, memo);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}
