//! Page faults by block of 2 MiB: a huge page has one, small pages have one each.

use crate::pages::{HUGE_SHIFT, Owner, PAGE_SHIFT, zeros};
use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of the small pages of a block.
const WITHIN: u32 = HUGE_SHIFT - PAGE_SHIFT;
/// Bits of a process id, and of the number of a block of user addresses.
const PID_BITS: u32 = 22;
const BLOCK_BITS: u32 = 47 - HUGE_SHIFT;
/// From so many page faults in different pages on they are small ones.
const SMALL: u64 = 2;

/// For each physical block: whose it is, how many page faults it had since then, and in which page the last one was.
pub struct Faults {
    blocks: Vec<AtomicU64>,
}

/// The parts of a word, packed from below: the page, the count, the virtual block, the process.
#[derive(Clone, Copy, PartialEq)]
struct Block {
    key: u64,
    faults: u64,
    page: u64,
}

const COUNT_BITS: u32 = u64::BITS - PID_BITS - BLOCK_BITS - WITHIN;

impl Block {
    fn unpack(word: u64) -> Block {
        Block {
            key: word >> (COUNT_BITS + WITHIN),
            faults: word >> WITHIN & ((1 << COUNT_BITS) - 1),
            page: word & ((1 << WITHIN) - 1),
        }
    }

    fn pack(self) -> u64 {
        self.key << (COUNT_BITS + WITHIN) | self.faults << WITHIN | self.page
    }
}

fn key(owner: Owner) -> u64 {
    (u64::from(owner.pid) & ((1 << PID_BITS) - 1)) << BLOCK_BITS
        | owner.page >> WITHIN & ((1 << BLOCK_BITS) - 1)
}

impl Faults {
    /// For so much RAM.
    pub fn new(bytes: u64) -> Faults {
        Faults { blocks: zeros(bytes.div_ceil(1 << HUGE_SHIFT) as usize) }
    }

    /// The owner's page was missing, and now it is `physical` in QEMU's RAM.
    pub fn add(&self, physical: u64, owner: Owner) {
        let Some(word) = self.blocks.get((physical >> WITHIN) as usize) else { return };
        let (block, page) = (Block::unpack(word.load(Ordering::Relaxed)), physical & ((1 << WITHIN) - 1));
        let faults = match block.key == key(owner) {
            false => 1,
            // Of a huge page that was given back and came again, the same part is missed first.
            true if block.page == page => block.faults.max(1),
            true => (block.faults + 1).min((1 << COUNT_BITS) - 1),
        };
        // Another vCPU's at the same time may be lost; small pages have many.
        word.store(Block { key: key(owner), faults, page }.pack(), Ordering::Relaxed);
    }

    /// Whether the owner's block at `physical` had page faults as only small pages have.
    pub fn are_of_small_pages(&self, physical: u64, owner: Owner) -> bool {
        let word = self.blocks.get((physical >> WITHIN) as usize);
        word.is_some_and(|word| {
            let block = Block::unpack(word.load(Ordering::Relaxed));
            block.key == key(owner) && block.faults >= SMALL
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_fault_one_by_one_and_a_huge_page_faults_once() {
        let faults = Faults::new(4 << HUGE_SHIFT);
        let owner = |pid: u32, page: u64| Owner { pid, page: (0x7_f000_0000 & !0x1ff) + page };
        let small = |pid: u32, page: u64| faults.are_of_small_pages(512 + page, owner(pid, page));
        faults.add(512 + 7, owner(4_194_303, 7));
        assert!(!small(4_194_303, 7), "the first page");
        faults.add(512 + 7, owner(4_194_303, 7));
        assert!(!small(4_194_303, 8), "a huge page that came again");
        faults.add(512 + 8, owner(4_194_303, 8));
        assert!(small(4_194_303, 7) && small(4_194_303, 511), "the block");
        assert!(!small(4_194_302, 7), "another process");
        assert!(!faults.are_of_small_pages(512 + 7, owner(4_194_303, 512 + 7)), "another virtual block");
        assert!(!faults.are_of_small_pages(1024 + 7, owner(4_194_303, 7)), "another physical block");
        for page in 0..300 {
            faults.add(512 + page, owner(4_194_303, page));
        }
        assert!(small(4_194_303, 0), "the count stops at its most");
        faults.add(512 + 9, owner(5, 9));
        assert!(!small(5, 9) && !small(4_194_303, 9), "it is another process's now");
        faults.add(1 << 40, owner(5, 9));
        assert!(!faults.are_of_small_pages(1 << 40, owner(5, 9)), "outside");
    }
}
