//! Memory on a chosen node, and the proof that it is there.

use super::bench::PageNode;
use nearfar_host::page_nodes::{Range, look};
use nearfar_machine::NodeId;
use nearfar_observed::measured::Pages;
use nearfar_recording::PageNodes;
use std::io;
use std::ptr::{NonNull, null_mut};

/// Bytes of a huge page on x86-64 and, with 4 KiB base pages, on aarch64.
const HUGE: usize = 2 << 20;
/// Pages that are asked for their node: evenly spread, so a tenth of a per cent would show.
const ASKED: usize = 4096;

/// Private memory of one node, every page present.
pub struct Memory {
    base: NonNull<u8>,
    mapped: usize,
    start: usize,
    bytes: usize,
    /// What its pages are.
    pub pages: Pages,
}

// SAFETY: the mapping belongs to this value alone; its users' pointers decide which bytes are written.
unsafe impl Send for Memory {}
// SAFETY: as above; no method writes through a shared reference.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` of memory at `page_node`, every page present.
    ///
    /// # Errors
    /// In words: what the kernel refused, or how many pages are elsewhere.
    pub fn new(bytes: usize, page_node: &PageNode, wanted: Pages) -> Result<Memory, String> {
        let mut memory = Memory::map(bytes, wanted)?;
        match page_node {
            PageNode::Only => {}
            PageNode::Node(node) => memory.policy(libc::MPOL_BIND, std::slice::from_ref(node))?,
            PageNode::Interleaved(nodes) => memory.policy(libc::MPOL_INTERLEAVE, nodes)?,
        }
        memory.touch();
        memory.prove(0, bytes, page_node)?;
        if wanted == Pages::Huge && memory.huge_bytes() >= bytes / 100 * 95 {
            memory.pages = Pages::Huge;
        }
        Ok(memory)
    }

    /// `bytes` that the calling thread touches first, wherever that puts them; proved to be at `page_node`.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn touched(bytes: usize, page_node: &PageNode) -> Result<Memory, String> {
        let memory = Memory::map(bytes, Pages::Huge)?;
        memory.touch();
        memory.prove(0, bytes, page_node)?;
        Ok(memory)
    }

    fn touch(&self) {
        for offset in (0..self.bytes).step_by(4096) {
            // SAFETY: inside the mapping, which nothing else knows yet.
            unsafe { self.at(offset).write_volatile(1) };
        }
    }

    /// `bytes` of which no page is present yet.
    ///
    /// # Errors
    /// If the address space is used up.
    pub fn map(bytes: usize, wanted: Pages) -> Result<Memory, String> {
        let mapped = bytes.next_multiple_of(HUGE) + HUGE;
        // SAFETY: a new private mapping; the result is checked.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(null_mut(), mapped, access, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(format!("no {bytes} bytes to be had: {}", io::Error::last_os_error()));
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or("the kernel mapped address 0")?;
        let start = (base.as_ptr() as usize).next_multiple_of(HUGE) - base.as_ptr() as usize;
        let memory = Memory { base, mapped, start, bytes, pages: Pages::Base };
        let advice = if wanted == Pages::Huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is inside our mapping. Refused without huge pages; `new` looks.
        unsafe { libc::madvise(memory.at(0).cast(), bytes, advice) };
        Ok(memory)
    }

    /// Address of a byte; the first is aligned to 2 MiB.
    pub fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        // SAFETY: `start + bytes` is within the mapping.
        unsafe { self.base.as_ptr().add(self.start + offset) }
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn policy(&self, mode: i32, nodes: &[NodeId]) -> Result<(), String> {
        let last = nodes.iter().copied().max().unwrap_or(0) as usize;
        let mut mask = vec![0u64; last / 64 + 1];
        for &node in nodes {
            mask[node as usize / 64] |= 1 << (node % 64);
        }
        // SAFETY: the mask has as many bits as is said (mbind(2) wants one more), and the range is ours.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.at(0),
                self.bytes,
                mode,
                mask.as_ptr(),
                mask.len() * 64 + 1,
                0,
            )
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let whose = format!("memory of node {}", names.join(", "));
        Err(match error.raw_os_error() {
            Some(libc::EINVAL) => format!("{whose} is not allowed here (cpuset) or not there"),
            _ => format!("{whose} is refused: mbind: {error}"),
        })
    }

    /// That every page asked of `bytes` at `offset` is at `page_node`.
    ///
    /// # Errors
    /// How many are elsewhere, or how they are divided instead.
    pub fn prove(&self, offset: usize, bytes: usize, page_node: &PageNode) -> Result<(), String> {
        let nodes = match page_node {
            PageNode::Only => return Ok(()),
            PageNode::Node(node) => std::slice::from_ref(node),
            PageNode::Interleaved(nodes) => nodes,
        };
        let range = Range { process: 0, address: self.at(offset) as u64, bytes: bytes as u64 };
        let mut page_nodes = PageNodes::default();
        // Every so many-th page would always be of the same turn.
        let asked = if nodes.len() > 1 { bytes / 4096 } else { ASKED };
        look(0, range, 4096, asked, 0, &mut page_nodes)
            .map_err(|e| format!("where the pages are cannot be asked: move_pages: {e}"))?;
        let asked: u32 = page_nodes.pages.iter().sum();
        let on = |node: NodeId| -> u32 {
            let there = page_nodes
                .node
                .iter()
                .zip(&page_nodes.pages)
                .filter(|(n, _)| i64::from(**n) == i64::from(node));
            there.map(|(_, pages)| pages).sum()
        };
        let there: Vec<u32> = nodes.iter().map(|&n| on(n)).collect();
        let elsewhere = asked - there.iter().sum::<u32>();
        if elsewhere > 0 {
            let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
            return Err(format!("{elsewhere} of {asked} pages are not on node {}", names.join(", ")));
        }
        // Turns are taken by page, and pages may be of 2 MiB: one more or less on each node is fair.
        let fair = f64::from(asked) / nodes.len() as f64;
        let slack = 0.02 * f64::from(asked) + f64::from(asked) * HUGE as f64 / bytes as f64 + 1.0;
        if there.iter().any(|&n| (f64::from(n) - fair).abs() > slack) {
            return Err(format!("pages are not in turns on the nodes: {there:?} of {asked}"));
        }
        Ok(())
    }

    /// Bytes in huge pages, as the kernel accounts them.
    fn huge_bytes(&self) -> usize {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let (from, to) = (self.base.as_ptr() as usize, self.base.as_ptr() as usize + self.mapped);
        let mut inside = false;
        let mut kb = 0;
        for line in text.lines() {
            let first = line.split_whitespace().next().unwrap_or("");
            if let Some((low, _)) = first.split_once('-')
                && let Ok(low) = usize::from_str_radix(low, 16)
            {
                inside = (from..to).contains(&low);
            } else if inside && first == "AnonHugePages:" {
                kb += line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
            }
        }
        kb * 1024
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, not used after this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}
