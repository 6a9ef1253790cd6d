//! Which node's memory a physical address is.

/// The node of every physical address: an offset in the guest's RAM, from 0.
/// Physical addresses decide, so a page that the kernel migrates has its new
/// node of the page as soon as its translation has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageNodeMap {
    /// One past the last byte of each node's range, ascending.
    ends: Vec<u64>,
    /// Firmware interleaving: consecutive 4 KiB pages go round the nodes.
    interleaved: bool,
}

impl PageNodeMap {
    /// Node at position `i` of `Machine::nodes` has the bytes from `ends[i-1]`
    /// (0 for the first) up to `ends[i]`. A node without memory repeats the end before it.
    pub fn ranges(ends: &[u64]) -> PageNodeMap {
        PageNodeMap { ends: ends.to_vec(), interleaved: false }
    }

    /// All nodes' memory interleaved by 4 KiB pages, as firmware does when its
    /// "NUMA" or "node interleaving" setting hides the nodes.
    pub fn interleaved(nodes: usize, bytes: u64) -> PageNodeMap {
        PageNodeMap { ends: vec![bytes; nodes], interleaved: true }
    }

    /// Position of the node; `None` for an address that is not a node's memory.
    #[inline]
    pub fn page_node(&self, physical: u64) -> Option<usize> {
        if physical >= self.bytes() {
            return None;
        }
        if self.interleaved {
            return Some(((physical >> 12) % self.ends.len() as u64) as usize);
        }
        self.ends.iter().position(|&end| physical < end)
    }

    /// Bytes of memory of all nodes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many frames of 4 KiB the node at a position has.
    pub fn frames(&self, node: usize) -> u64 {
        if self.interleaved {
            let (all, nodes) = (self.bytes() >> 12, self.ends.len() as u64);
            return (all + nodes - 1 - node as u64) / nodes;
        }
        let begin = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.ends[node] >> 12) - (begin >> 12)
    }

    /// The frame of that number, from 0, of the node at a position.
    pub fn frame(&self, node: usize, number: u64) -> u64 {
        if self.interleaved {
            return number * self.ends.len() as u64 + node as u64;
        }
        node.checked_sub(1).map_or(0, |before| self.ends[before] >> 12) + number
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.ends.len()
    }

    /// Whether the ranges ascend; interleaving always does.
    pub(super) fn ascends(&self) -> bool {
        self.ends.is_sorted()
    }
}
