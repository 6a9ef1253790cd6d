//! Blocks of 512 pages that were all placed once, by one thread from one line.
//!
//! In the arrays that take the time nearly every block is like that. Its pages need
//! no lookup of their own: what would be a cache miss for the page's slot and another
//! for its touch becomes one entry for 2 MiB.

use super::hash::FastMap;
use super::history::PER_BLOCK;
use super::page_nodes::{Finder, PageNode};
use super::placement::How;
use super::touchers::Groups;
use nearfar_recording::NONE;

/// Uniform blocks by space and block number: their node, and the time since which it holds, ns.
#[derive(Debug, Default)]
pub struct Blocks {
    spaces: Vec<FastMap<u64, (PageNode, u64)>>,
}

impl Blocks {
    /// Looks for uniform blocks. There are none where nodes of pages were looked at on
    /// the recorded machine: a look tells more than a touch.
    pub fn new(finder: &Finder, groups: &Groups) -> Blocks {
        if !finder.nodes.assumed && !finder.looks.is_empty() {
            return Blocks::default();
        }
        let uniform = |slots: &[u32]| -> Option<(PageNode, u64)> {
            let mut group = None;
            let mut since = 0;
            for &slot in slots {
                let touch = finder.placements.touches.get(slot as usize)?;
                let own = *groups.of_touch.get(slot as usize)?;
                let plain = touch.older == NONE && touch.how != How::Gone && !touch.zero && !touch.cache;
                if !plain || own == NONE || *group.get_or_insert(own) != own || finder.is_large(touch.fault) {
                    return None;
                }
                since = since.max(touch.time);
            }
            let node = groups.groups[group? as usize].node;
            Some((PageNode { node, touch: slots[0], folio: false }, since))
        };
        let spaces = finder.placements.tables.iter().map(|table| {
            table.blocks().filter_map(|(number, slots)| Some((number, uniform(slots)?))).collect()
        });
        Blocks { spaces: spaces.collect() }
    }

    /// The node of a page at `time`, if its block is uniform by then. The touch is one
    /// of the same thread and line, not always the page's own.
    #[inline]
    pub fn page_node(&self, space: u32, page: u64, time: u64) -> Option<PageNode> {
        let &(page_node, since) = self.spaces.get(space as usize)?.get(&(page / PER_BLOCK))?;
        (since <= time).then_some(page_node)
    }
}
