//! Where the memory of a sample is: its object, its page and the page's node.

use super::worker::{CACHE, Worker};
use crate::hash::FastMap;
use crate::nodes::{NodeIndex, UNKNOWN, class};
use crate::page_nodes::PageNode;
use crate::space::page_range;
use nearfar_recording::{AccessSamples, NONE, Resolution};

/// Where the memory of a sample is.
pub struct Located {
    /// Its object.
    pub thing: Option<u32>,
    /// Node of its page by what was seen of pages.
    pub page: NodeIndex,
    /// The page; its node by what the processor said of the access as well, unknown where the thread's node is.
    pub page_node: PageNode,
    /// Whether the processor said that it is far.
    pub told: Option<bool>,
}

impl Worker<'_> {
    pub(super) fn peek(&self, thread: u32, address: u64) -> u32 {
        let context = self.context;
        let Some(thread) = context.threads.get(thread) else {
            return 0;
        };
        let space = context.spaces_of_threads[thread];
        if context.blocks.page_node(space, address / context.finder.placements.page_bytes, u64::MAX).is_some()
        {
            return 0;
        }
        let touch = context.finder.placements.peek(space, address);
        touch ^ context.groups.of_touch.get(touch as usize).map_or(0, |g| *g)
    }

    #[inline]
    pub(super) fn thing(&mut self, space: u32, address: u64, time: u64) -> Option<u32> {
        // Neighbouring 64 MiB areas get different places; threads in different areas do not evict each other.
        let key = (address >> 26) ^ (address >> 36) ^ (u64::from(space) << 3);
        let slot = &mut self.cache[key as usize % CACHE];
        if slot.0 == space && slot.1.holds(address, time) {
            return (slot.2 != NONE).then_some(slot.2);
        }
        let (thing, validity) = self.context.finder.spaces.at(space, address, time);
        *slot = (space, validity, thing.unwrap_or(NONE));
        thing
    }

    /// Where the memory of a sample is whose thread ran on `node`; nowhere if it touches none.
    pub fn locate(
        &mut self,
        s: &AccessSamples,
        i: usize,
        space: u32,
        node: NodeIndex,
        resolution: Resolution,
    ) -> Located {
        let (mut thing, mut page_node) = (None, PageNode::UNKNOWN);
        if matches!(resolution, Resolution::Compute | Resolution::Spinning) {
            return Located { thing, page: UNKNOWN, page_node, told: None };
        }
        let measure = self.context.measure;
        if resolution != Resolution::Unresolved {
            thing = self.thing(space, s.address[i], s.time_ns[i]);
            page_node = self.page_node(space, s.address[i], s.time_ns[i], thing, resolution);
            let own = measure.page_node(s, i, self.context.finder.nodes);
            if own != UNKNOWN {
                // Which thread touched first remains the answer to why; where it is, the source saw.
                page_node.node = own;
            }
        }
        let page = page_node.node;
        let (settled, told) = measure.settle(s, i, node, page);
        // Memory whose user's place is unknown is neither near nor far, unless the processor said.
        page_node.node = if node == UNKNOWN { UNKNOWN } else { settled };
        Located { thing, page, page_node, told }
    }

    /// Code of the distance between them.
    #[inline]
    pub fn class(&self, node: u8, page_node: PageNode) -> usize {
        class(self.context.finder.nodes.class(node, page_node.node))
    }

    pub(super) fn page_node(
        &mut self,
        space: u32,
        address: u64,
        time: u64,
        thing: Option<u32>,
        how: Resolution,
    ) -> PageNode {
        let finder = &self.context.finder;
        let Some(id) = thing else {
            return finder.page_node(space, address, time, 0, false);
        };
        let t = finder.spaces.things.get(id);
        if how == Resolution::Object && t.bytes > finder.placements.page_bytes {
            if let Some(&page_node) = self.uniform.get(&id) {
                return page_node;
            }
            let page_node = self.uniform_page_node(id);
            self.uniform.insert(id, page_node);
            return page_node;
        }
        self.context.node_at(id, space, address, time)
    }

    /// The node of the page that all placed pages of an object share, if they do. Judged at the end of its life,
    /// so that the answer does not depend on which sample asks first.
    fn uniform_page_node(&self, id: u32) -> PageNode {
        let finder = &self.context.finder;
        let thing = finder.spaces.things.get(id);
        let page = finder.placements.page_bytes;
        let (from, to) = page_range(&thing, page);
        let time = thing.died.saturating_sub(1).min(self.context.survey.last_ns);
        let step =
            if finder.nodes.assumed || finder.looks.is_empty() { 0 } else { ((to - from) / 4096).max(1) };
        let mut pages: Vec<u64> = finder.placements.touched(thing.space, from, to).collect();
        if let Some((parent, _)) = finder.spaces.spaces[thing.space as usize].parent {
            pages.extend(finder.placements.touched(parent, from, to));
        }
        if step > 0 {
            pages.extend((from..to).step_by(step as usize));
        }
        let mut found: Option<PageNode> = None;
        // Pages and a touch of each group of touches.
        let mut by_group: FastMap<u32, (u64, u32)> = FastMap::default();
        for p in pages {
            let page_node = self.context.page_node(id, thing.space, p * page, time);
            if let Some(&group) = self.context.groups.of_touch.get(page_node.touch as usize)
                && page_node.node != UNKNOWN
                && group != NONE
            {
                by_group.entry(group).or_insert((0, page_node.touch)).0 += 1;
            }
            match found {
                _ if page_node.node == UNKNOWN => {}
                None => found = Some(page_node),
                Some(f) if f.node == page_node.node => {}
                Some(_) => return PageNode::UNKNOWN,
            }
        }
        // The first page may be the allocator's: what placed most of the pages speaks for all of them.
        let touched = by_group.into_values().max_by_key(|&(pages, touch)| (pages, std::cmp::Reverse(touch)));
        found.map_or(PageNode::UNKNOWN, |page_node| match touched {
            Some((_, touch)) => PageNode { touch, ..page_node },
            None => page_node,
        })
    }
}
