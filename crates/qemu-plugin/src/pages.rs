//! From virtual pages to pages of QEMU's RAM, and what moved from and to each of these.

use nearfar_recording::column::Columns;
use nearfar_recording::raw::{RawPage, RawPages};
use nearfar_simulate::PageNodeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of a page's bytes.
pub const PAGE_SHIFT: u32 = 12;
/// log2 of a large page's bytes.
pub const HUGE_SHIFT: u32 = 21;

/// Pages that a vCPU's own cache of translations remembers: 8 MiB, about as far as second-level TLBs
/// reach. 48 KiB of the host's caches, of which a program with few pages uses little.
const REMEMBERED: usize = 2048;
/// Blocks of 2 MiB of which it remembers how they are mapped.
const BLOCKS: usize = 256;

/// log2 of the pages of a large one.
const WITHIN: u32 = HUGE_SHIFT - PAGE_SHIFT;

/// Whether a page of RAM is as far into a block of 2 MiB as the virtual page is.
pub fn is_aligned(page: u64, physical: u64) -> bool {
    (page ^ physical) & ((1 << WITHIN) - 1) == 0
}

/// Where a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its frame in the simulated caches.
    pub frame: u64,
    /// Whether it looks like part of a page of 2 MiB.
    pub huge: bool,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Virtual page number and generation; 0 is not a page's.
    tag: u64,
    place: Place,
}

/// A vCPU's translations. QEMU's answer costs more than the simulation of an access, so each is
/// remembered until the guest's kernel makes translations invalid.
///
/// Whether a page is a part of a large one cannot be asked. It is inferred: a page of 2 MiB maps
/// every 4 KiB of a 2 MiB block to the same place in one physical block. Small pages fit by chance once in
/// 512 times, and where the kernel gives out frames in order all of an array does; but each of them has its own
/// page fault (`faults`).
pub struct Translations {
    entries: Box<[Entry; REMEMBERED]>,
    blocks: Box<[Block; BLOCKS]>,
    generation: u64,
}

#[derive(Clone, Copy, Default)]
struct Block {
    /// Virtual block number and generation.
    tag: u64,
    /// Physical block, and whether all its pages seen are where a large page would have them.
    physical: u64,
    fits: bool,
}

/// Bits of a tag for the generation; above are 47 − 12 bits of page number, and one to spare.
const GENERATION_BITS: u32 = 28;

impl Translations {
    /// None are known.
    pub fn new() -> Translations {
        Translations {
            entries: Box::new([Entry::default(); REMEMBERED]),
            blocks: Box::new([Block::default(); BLOCKS]),
            generation: 1,
        }
    }

    /// Forgets all.
    pub fn flush(&mut self) {
        self.generation += 1;
        if self.generation >> GENERATION_BITS != 0 {
            *self = Translations::new();
        }
    }

    fn tag(&self, number: u64) -> u64 {
        number << GENERATION_BITS | self.generation
    }

    /// Where virtual page `page` is, if that is remembered.
    #[inline]
    pub fn known(&self, page: u64) -> Option<Place> {
        let entry = &self.entries[(page % REMEMBERED as u64) as usize];
        (entry.tag == self.tag(page)).then_some(entry.place)
    }

    /// Remembers that virtual page `page` is at `physical` in QEMU's RAM, and that this has `frame`; `small` if it is surely a small page.
    pub fn learn(&mut self, page: u64, physical: u64, frame: u64, small: bool) -> Place {
        let (block, physical_block) = (page >> WITHIN, physical >> WITHIN);
        let fits_here = !small && is_aligned(page, physical);
        let tag = self.tag(block);
        let known = &mut self.blocks[(block % BLOCKS as u64) as usize];
        if known.tag != tag {
            *known = Block { tag, physical: physical_block, fits: fits_here };
        }
        known.fits &= fits_here && known.physical == physical_block;
        let place = Place { frame, huge: known.fits };
        self.entries[(page % REMEMBERED as u64) as usize] = Entry { tag: self.tag(page), place };
        place
    }
}

/// Whose page a page of QEMU's RAM is: process and virtual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Kernel process id; 0 if unknown.
    pub pid: u32,
    /// Virtual page number.
    pub page: u64,
}

impl Owner {
    /// 36 bits of page number are enough for user addresses; Linux has process ids below 2^22.
    fn pack(self) -> u64 {
        1 << 63 | u64::from(self.pid) << 36 | self.page
    }

    fn unpack(packed: u64) -> Option<Owner> {
        (packed >> 63 == 1)
            .then_some(Owner { pid: (packed >> 36) as u32 & 0x3f_ffff, page: packed & ((1 << 36) - 1) })
    }
}

/// Exact traffic of every page of QEMU's RAM, by node of the cpu.
///
/// One word for each page and node, in place rather than in a map: a program that uses 4 GiB on two
/// nodes needs 8 MiB for the owners and 16 MiB here. Only what is touched takes memory.
pub struct Traffic {
    owners: Vec<AtomicU64>,
    /// For each page, for each node of cpus: lines read in the lower half, written in the upper.
    lines: Vec<AtomicU64>,
    nodes: usize,
}

/// One line written, in the upper half.
const WRITTEN: u64 = 1 << 32;

impl Traffic {
    /// For so much RAM and so many nodes.
    pub fn new(bytes: u64, nodes: usize) -> Traffic {
        let pages = bytes.div_ceil(1 << PAGE_SHIFT) as usize;
        Traffic { owners: zeros(pages), lines: zeros(pages * nodes), nodes }
    }

    /// Counts a line from or to page `page` for a cpu of the node at position `from`.
    #[inline]
    pub fn line(&self, page: u64, from: usize, write: bool) {
        if let Some(word) = self.lines.get(page as usize * self.nodes + from) {
            word.fetch_add(if write { WRITTEN } else { 1 }, Ordering::Relaxed);
        }
    }

    /// Whose page it was when it was last translated.
    pub fn owner(&self, page: u64) -> Option<Owner> {
        Owner::unpack(self.owners.get(page as usize)?.load(Ordering::Relaxed))
    }

    /// Says whose page it is. If it was another's, that one's traffic comes back.
    pub fn own(&self, page: u64, owner: Owner, row: &Row) -> Option<RawPages> {
        let slot = self.owners.get(page as usize)?;
        let new = owner.pack();
        if slot.load(Ordering::Relaxed) == new {
            return None;
        }
        let old = Owner::unpack(slot.swap(new, Ordering::Relaxed))?;
        let mut rows = RawPages::default();
        self.take_page(page, old, row, &mut rows);
        (!rows.is_empty()).then_some(rows)
    }

    /// Moves the traffic of all pages to `rows`.
    pub fn take_all(&self, row: &Row, rows: &mut RawPages) {
        for (page, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = Owner::unpack(owner.load(Ordering::Relaxed)) {
                self.take_page(page as u64, owner, row, rows);
            }
        }
    }

    fn take_page(&self, page: u64, owner: Owner, row: &Row, rows: &mut RawPages) {
        for from in 0..self.nodes {
            let word = &self.lines[page as usize * self.nodes + from];
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let lines = word.swap(0, Ordering::Relaxed);
            rows.push(RawPage {
                pid: owner.pid,
                address: owner.page << PAGE_SHIFT,
                from: row.nodes[from],
                page_node: row
                    .page_nodes
                    .page_node(page << PAGE_SHIFT)
                    .map_or(-1, |page_node| row.nodes[page_node]),
                read_lines: lines & (WRITTEN - 1),
                write_lines: lines >> 32,
                region: row.region,
            });
        }
    }
}

/// What rows of traffic need to know besides the counts.
pub struct Row<'a> {
    /// Kernel number of the node at each position.
    pub nodes: &'a [i16],
    /// Position of each node of the page.
    pub page_nodes: &'a PageNodeMap,
    /// 1 if counted in the region of interest.
    pub region: u8,
}

/// Zeros that take no memory until they are touched: the allocator gets such pages from the kernel.
pub fn zeros(count: usize) -> Vec<AtomicU64> {
    let mut plain = std::mem::ManuallyDrop::new(vec![0u64; count]);
    // SAFETY: AtomicU64 has the size, alignment and bits of u64, and `plain` is not used again.
    unsafe { Vec::from_raw_parts(plain.as_mut_ptr().cast(), plain.len(), plain.capacity()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_is_known_until_translations_change() {
        let mut translations = Translations::new();
        translations.learn(0x7_f001_2345, 77, 12, false);
        assert_eq!(translations.known(0x7_f001_2345).map(|p| p.frame), Some(12));
        assert_eq!(translations.known(0x7_f001_2345 + REMEMBERED as u64), None, "same place, another page");
        translations.flush();
        assert_eq!(translations.known(0x7_f001_2345), None);
        translations.learn(0, 5, 5, false);
        assert_eq!(translations.known(0).map(|p| p.frame), Some(5));
    }

    #[test]
    fn old_translations_do_not_come_back_when_generations_run_out() {
        let mut translations = Translations::new();
        translations.learn(9, 1, 1, false);
        translations.generation = (1 << GENERATION_BITS) - 1;
        translations.flush();
        assert_eq!((translations.generation, translations.known(9)), (1, None));
    }

    #[test]
    fn a_block_mapped_as_a_large_page_would_be_is_one_until_a_page_lies_elsewhere() {
        let mut translations = Translations::new();
        let (virt, physical) = (0x7_f000_0000, 0x4_0000);
        assert!(translations.learn(virt + 3, physical + 3, 1, false).huge);
        assert!(translations.learn(virt + 511, physical + 511, 1, false).huge);
        assert!(!translations.learn(virt + 4, physical + 5, 1, false).huge);
        assert!(!translations.learn(virt + 6, physical + 6, 1, false).huge, "its block has small pages");
        assert!(!translations.learn(virt + 512, physical + 511, 1, false).huge);
        assert!(translations.learn(virt + 1024, physical + 1024, 1, false).huge, "another block");
        assert!(
            !translations.learn(virt + 1025, physical + 2049, 1, false).huge,
            "fits, but in another physical block"
        );
    }

    fn rows(rows: &RawPages) -> Vec<(u32, u64, i16, i16, u64, u64, u8)> {
        let of = |r: RawPage| (r.pid, r.address, r.from, r.page_node, r.read_lines, r.write_lines, r.region);
        rows.rows().map(of).collect()
    }

    #[test]
    fn lines_are_counted_by_page_and_node_and_given_to_the_owner_of_the_time() {
        let page_nodes = PageNodeMap::ranges(&[8 << PAGE_SHIFT, 16 << PAGE_SHIFT]);
        let row = Row { nodes: &[0, 4], page_nodes: &page_nodes, region: 1 };
        let traffic = Traffic::new(page_nodes.bytes(), 2);
        let (first, second) = (Owner { pid: 4_194_303, page: (1 << 35) - 1 }, Owner { pid: 8, page: 5 });
        assert!(traffic.own(9, first, &row).is_none(), "it was nobody's");
        traffic.line(9, 0, false);
        traffic.line(9, 0, false);
        traffic.line(9, 1, true);
        assert!(traffic.own(9, first, &row).is_none(), "it is his already");
        assert_eq!(traffic.owner(9), Some(first));
        let taken = traffic.own(9, second, &row).expect("lines of the first");
        let address = ((1 << 35) - 1) << PAGE_SHIFT;
        assert_eq!(rows(&taken), [(4_194_303, address, 0, 4, 2, 0, 1), (4_194_303, address, 4, 4, 0, 1, 1)]);
        traffic.line(9, 0, true);
        let mut rest = RawPages::default();
        traffic.take_all(&row, &mut rest);
        assert_eq!(rows(&rest), [(8, 5 << PAGE_SHIFT, 0, 4, 0, 1, 1)]);
        let mut nothing = RawPages::default();
        traffic.take_all(&row, &mut nothing);
        assert!(nothing.is_empty(), "what was taken is gone");
    }

    #[test]
    fn pages_outside_are_nobodys() {
        let page_nodes = PageNodeMap::ranges(&[1 << PAGE_SHIFT]);
        let traffic = Traffic::new(page_nodes.bytes(), 1);
        traffic.line(1, 0, false);
        assert!(
            traffic
                .own(1, Owner { pid: 1, page: 1 }, &Row { nodes: &[0], page_nodes: &page_nodes, region: 0 })
                .is_none()
        );
        assert_eq!(traffic.owner(1), None);
    }
}
