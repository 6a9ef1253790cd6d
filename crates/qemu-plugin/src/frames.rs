//! Which frame of its node a page has in the simulated caches: the next one at its first use.
//!
//! The guest's kernel gives out frames from lists that hold what everything since the boot has freed, and those of a recorder,
//! of a loader, of threads that start in another order come in between. Physically indexed caches have other misses for each
//! such order: the same stencil had up to 4 % more or fewer far lines from one run to the next. So the simulated machine has frames of its own. As in the
//! kernel, each vCPU takes some in a row for itself, or threads that initialise their parts side by side would have every
//! eighth. A huge page has 512 in a row.

use crate::pages::{HUGE_SHIFT, PAGE_SHIFT, zeros};
use nearfar_simulate::PageNodeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Frames that a vCPU takes at a time: the kernel's lists per cpu are filled by up to 63 (`zone_batchsize` of Linux 6.1).
const RUN: u64 = 64;
/// Frames of a huge page.
const HUGE: u64 = 1 << (HUGE_SHIFT - PAGE_SHIFT);
/// The program proper begins at a multiple of so many frames (8 MiB): what was loaded before differs by some pages. // chosen
const BEGINNING: u64 = 2048;

/// The frames of all pages of QEMU's RAM. None has two pages, and each is of its page's node.
pub struct Frames {
    /// By page of RAM: its frame + 1; 0 if it has none yet.
    of: Vec<AtomicU64>,
    page_nodes: PageNodeMap,
    /// Which of many orders.
    order: u64,
    /// Huge pages that the kernel has cleared and that have not been used yet; not known of every kernel.
    cleared: AtomicU64,
    knows_huge: bool,
    /// By position of the node.
    nodes: Mutex<Vec<Node>>,
}

/// The frames of a node that no page has, by their numbers within the node.
struct Node {
    /// How many frames it has.
    count: u64,
    /// The first of those that no vCPU has taken.
    next: u64,
    /// By vCPU: those that it has taken and not used.
    runs: Vec<Range<u64>>,
    /// Frames that were passed over. They are used when no others are left.
    left: Vec<Range<u64>>,
}

impl Frames {
    /// Of that memory, for so many vCPUs. Each `order` is another one; 0: as they are first used. `knows_huge`: [`Frames::cleared`] is called for
    /// each huge page.
    pub fn new(page_nodes: PageNodeMap, vcpus: usize, order: u64, knows_huge: bool) -> Frames {
        let nodes = (0..page_nodes.nodes()).map(|node| Node {
            count: page_nodes.frames(node),
            next: 0,
            runs: vec![0..0; vcpus],
            left: Vec::new(),
        });
        Frames {
            of: zeros(page_nodes.bytes().div_ceil(1 << PAGE_SHIFT) as usize),
            nodes: Mutex::new(nodes.collect()),
            page_nodes,
            order,
            cleared: AtomicU64::new(0),
            knows_huge,
        }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The frame of page `page` of RAM. `vcpu` uses it; `aligned`: it is where it would be in a huge page.
    #[inline]
    pub fn of(&self, page: u64, vcpu: usize, aligned: bool) -> u64 {
        match self.of.get(page as usize).map(|frame| frame.load(Ordering::Relaxed)) {
            Some(0) => self.first_use(page, vcpu, aligned),
            Some(frame) => frame - 1,
            None => page,
        }
    }

    #[cold]
    fn first_use(&self, page: u64, vcpu: usize, aligned: bool) -> u64 {
        let mut nodes = self.nodes();
        let slot = &self.of[page as usize];
        let known = slot.load(Ordering::Relaxed);
        if known != 0 {
            return known - 1;
        }
        let Some(at) = self.page_nodes.page_node(page << PAGE_SHIFT) else { return page };
        // One small page in 512 is aligned by chance. The kernel has cleared no huge page for it.
        let huge = aligned && (!self.knows_huge || self.cleared.load(Ordering::Relaxed) > 0);
        if huge && let Some(frame) = self.huge(&mut nodes[at], at, page) {
            if self.knows_huge {
                self.cleared.fetch_sub(1, Ordering::Relaxed);
            }
            return frame;
        }
        // There is one, as each page of a node takes one.
        let frame = nodes[at].one(vcpu).map_or(page, |number| self.frame(at, nodes[at].count, number, true));
        slot.store(frame + 1, Ordering::Relaxed);
        frame
    }

    /// The kernel has cleared a huge page.
    pub fn cleared(&self) {
        self.cleared.fetch_add(1, Ordering::Relaxed);
    }

    /// The frame of a page if all of its block get frames in a row: no page of the block has one yet, and there are as many.
    fn huge(&self, node: &mut Node, at: usize, page: u64) -> Option<u64> {
        let block = page / HUGE * HUGE;
        let slots = self.of.get(block as usize..(block + HUGE) as usize)?;
        let number = node.next.next_multiple_of(HUGE);
        let of = |number| self.frame(at, node.count, number, false);
        let (first, last) = (of(number), of(number + HUGE - 1));
        let of_node = |page: u64| self.page_nodes.page_node(page << PAGE_SHIFT) == Some(at);
        if number + HUGE > node.count
            || last - first != HUGE - 1
            || !of_node(block)
            || !of_node(block + HUGE - 1)
            || slots.iter().any(|slot| slot.load(Ordering::Relaxed) != 0)
        {
            return None;
        }
        node.go_on_at(number);
        node.next += HUGE;
        slots.iter().zip(first..).for_each(|(slot, frame)| slot.store(frame + 1, Ordering::Relaxed));
        Some(first + page % HUGE)
    }

    /// The frame of that number of a node with `count`, in the order asked for. A huge page's stay in a row, a small page's do not.
    fn frame(&self, at: usize, count: u64, number: u64, small: bool) -> u64 {
        let (block, within) = (number / HUGE, number % HUGE);
        let number = if self.order == 0 || block >= count / HUGE {
            number
        } else {
            let within = if small { shuffled(within, HUGE, self.order ^ block << 32) } else { within };
            shuffled(block, count / HUGE, self.order) * HUGE + within
        };
        self.page_nodes.frame(at, number)
    }

    /// The program proper begins: it gets the same frames, whatever was loaded before.
    pub fn begin(&self) {
        self.nodes().iter_mut().for_each(Node::begin);
    }
}

impl Node {
    /// The next frame for a vCPU, if there is one.
    fn one(&mut self, vcpu: usize) -> Option<u64> {
        let run = &mut self.runs[vcpu];
        if run.is_empty() && self.next < self.count {
            *run = self.next..(self.next + RUN).min(self.count);
            self.next = run.end;
        }
        if let Some(number) = run.next() {
            return Some(number);
        }
        // The node's memory is as good as used up.
        self.left.retain(|range| !range.is_empty());
        let last = self.left.last_mut().and_then(Iterator::next);
        last.or_else(|| self.runs.iter_mut().find_map(Iterator::next))
    }

    /// The next frame is that one; those before it are passed over.
    fn go_on_at(&mut self, number: u64) {
        if self.next < number {
            self.left.push(self.next..number);
        }
        self.next = number;
    }

    /// From here on, each vCPU has its first frames at a place of its own, whichever comes first.
    fn begin(&mut self) {
        let begin = (self.next + 1).next_multiple_of(BEGINNING);
        let all = RUN * self.runs.len() as u64;
        if begin + all > self.count {
            return;
        }
        self.left.append(&mut self.runs);
        self.go_on_at(begin);
        self.next += all;
        self.runs = (begin..self.next).step_by(RUN as usize).map(|first| first..first + RUN).collect();
    }
}

/// Where `number` is among those below `count` in an order of that key: a Feistel network of the next even number of bits, again until
/// what comes out is below `count`.
fn shuffled(number: u64, count: u64, key: u64) -> u64 {
    let half = (u64::BITS - (count - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1 << half) - 1;
    let mut number = number;
    loop {
        let (mut high, mut low) = (number >> half, number & mask);
        for round in 0..ROUNDS {
            (high, low) = (low, high ^ mixed(low ^ mixed(key ^ round << 56)) & mask);
        }
        number = high << half | low;
        if number < count {
            return number;
        }
    }
}

/// Enough for each bit to depend on all (Luby and Rackoff 1988).
const ROUNDS: u64 = 4;

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Two nodes of 8192 pages each, two vCPUs.
    fn frames() -> Frames {
        Frames::new(PageNodeMap::ranges(&[8192 << PAGE_SHIFT, 16384 << PAGE_SHIFT]), 2, 0, false)
    }

    #[test]
    fn pages_get_the_next_frames_of_their_node_whatever_they_are() {
        let frames = frames();
        let given: Vec<u64> = [77, 5, 9000, 1234].iter().map(|&page| frames.of(page, 0, false)).collect();
        assert_eq!(given, [0, 1, 8192, 2]);
        assert_eq!(frames.of(5, 1, true), 1, "it keeps it");
    }

    #[test]
    fn vcpus_that_use_pages_in_turns_have_frames_in_a_row_each() {
        let frames = frames();
        let both: Vec<[u64; 2]> =
            (0..100).map(|i| [frames.of(2 * i, 0, false), frames.of(2 * i + 1, 1, false)]).collect();
        assert_eq!(both[..64], (0..64).map(|i| [i, RUN + i]).collect::<Vec<_>>());
        assert_eq!(both[64], [2 * RUN, 3 * RUN]);
    }

    #[test]
    fn a_huge_page_has_frames_in_a_row() {
        let frames = frames();
        assert_eq!(frames.of(3, 0, false), 0);
        assert_eq!(frames.of(1024 + 7, 0, true), HUGE + 7);
        assert_eq!((frames.of(1024, 1, true), frames.of(1535, 1, true)), (HUGE, 2 * HUGE - 1));
        // A block of which a page is already used as a small one.
        assert_eq!(frames.of(4, 0, true), 1);
        assert_eq!(frames.of(2048, 1, false), 2 * HUGE);
    }

    #[test]
    fn a_program_begins_at_the_same_frame_whatever_was_loaded() {
        for loaded in [1, 50, 700] {
            let frames = frames();
            for page in 0..loaded {
                frames.of(page, 0, false);
            }
            frames.begin();
            let first = [frames.of(9000, 1, false), frames.of(5000, 1, false), frames.of(6000, 0, false)];
            assert_eq!(first, [8192 + BEGINNING + RUN, BEGINNING + RUN, BEGINNING], "{loaded}");
        }
    }

    #[test]
    fn all_pages_of_a_node_get_different_frames_of_it() {
        let ranges = PageNodeMap::ranges(&[4000 << PAGE_SHIFT, 9000 << PAGE_SHIFT]);
        let interleaved = PageNodeMap::interleaved(2, 9000 << PAGE_SHIFT);
        for (page_nodes, order) in [(&ranges, 0), (&ranges, 1), (&interleaved, 0), (&interleaved, 9)] {
            let frames = Frames::new(page_nodes.clone(), 3, order, false);
            let mut given = BTreeSet::new();
            for i in 0..9000 {
                // A generator of all numbers below 9000: 7 has no factor in common with it.
                let page = i * 7 % 9000;
                if i == 100 {
                    frames.begin();
                }
                let frame = frames.of(page, (i % 3) as usize, i > 200 && i % 5 == 0);
                let node = |page: u64| page_nodes.page_node(page << PAGE_SHIFT);
                assert_eq!(node(frame), node(page), "page {page}");
                given.insert(frame);
            }
            assert_eq!((given.len(), given.last()), (9000, Some(&8999)));
        }
    }

    #[test]
    fn each_order_is_another_one_and_always_the_same() {
        let given = |order: u64| -> Vec<u64> {
            let frames = Frames::new(PageNodeMap::ranges(&[8192 << PAGE_SHIFT]), 1, order, false);
            (0..1000).map(|page| frames.of(page, 0, false)).collect()
        };
        assert_eq!(given(0), (0..1000).collect::<Vec<u64>>());
        assert_eq!(given(3), given(3));
        for (one, other) in [(0, 1), (1, 2), (2, 3)] {
            let same = given(one).iter().zip(given(other)).filter(|(a, b)| **a == *b).count();
            assert!(same < 20, "{same} of 1000 frames are the same in orders {one} and {other}");
        }
    }

    #[test]
    fn a_huge_page_has_frames_in_a_row_in_any_order() {
        let frames = Frames::new(PageNodeMap::ranges(&[8192 << PAGE_SHIFT]), 1, 5, false);
        let first = frames.of(1024, 0, true);
        assert_eq!(first % HUGE, 0);
        assert!((0..HUGE).all(|i| frames.of(1024 + i, 0, true) == first + i));
    }

    #[test]
    fn a_small_page_that_is_aligned_by_chance_is_no_huge_one() {
        let frames = Frames::new(PageNodeMap::ranges(&[8192 << PAGE_SHIFT]), 1, 0, true);
        let first = frames.of(700, 0, false);
        assert_eq!(frames.of(1024, 0, true), first + 1);
        frames.cleared();
        let huge = frames.of(2048, 0, true);
        assert_eq!((huge % HUGE, frames.of(2048 + 511, 0, true)), (0, huge + 511));
        assert_eq!(frames.of(4096, 0, true), first + 2, "one was cleared, and is used");
    }
}
