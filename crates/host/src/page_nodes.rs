//! On which node pages are: move_pages(2) in query mode, which moves nothing.
//! The one place that asks the kernel for nodes of pages.

use nearfar_machine::NodeId;
use nearfar_recording::{Columns, PageNode, PageNodes};
use std::io;

/// A range to look at.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Address space (the recording's number).
    pub process: u32,
    /// First byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Looks where the pages of `range` in process `pid` are, at most `limit` of
/// them, evenly spread, and appends a row per run of pages with the same answer.
/// About 0.15 µs a page.
///
/// # Errors
/// If the kernel refuses: no such process, or none of ours.
pub fn look(
    pid: libc::pid_t,
    range: Range,
    page_bytes: u64,
    limit: usize,
    time_ns: u64,
    page_nodes: &mut PageNodes,
) -> io::Result<()> {
    let first = range.address / page_bytes * page_bytes;
    let pages = (range.address + range.bytes).div_ceil(page_bytes) - first / page_bytes;
    let step = apart(pages.div_ceil(limit.max(1) as u64).max(1));
    let stride = step * page_bytes;
    let addresses: Vec<u64> = (0..pages.div_ceil(step)).map(|i| first + i * stride).collect();
    let status = ask(pid, &addresses)?;
    let mut i = 0;
    while i < status.len() {
        let node = node_of(status[i]);
        let run = status[i..].iter().take_while(|&&s| node_of(s) == node).count();
        page_nodes.push(PageNode {
            time_ns,
            process: range.process,
            address: first + i as u64 * stride,
            pages: run as u32,
            stride,
            node,
            page_shift: 0,
        });
        i += run;
    }
    Ok(())
}

/// The node of the page at each address; `None` for a page that is not present. The kernel takes the
/// target's mmap lock for 16 pages at a time (`do_pages_stat` in mm/migrate.c).
///
/// # Errors
/// If the kernel refuses: no such process, or none of ours.
pub fn nodes(pid: libc::pid_t, addresses: &[u64]) -> io::Result<Vec<Option<NodeId>>> {
    Ok(ask(pid, addresses)?.into_iter().map(|status| NodeId::try_from(status).ok()).collect())
}

/// The kernel's word on each page.
fn ask(pid: libc::pid_t, addresses: &[u64]) -> io::Result<Vec<i32>> {
    let mut status = vec![0i32; addresses.len()];
    let addresses: Vec<*mut libc::c_void> = addresses.iter().map(|&a| a as *mut libc::c_void).collect();
    // SAFETY: both arrays have `count` elements; with no target nodes the call only queries.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

/// The least step of at least so many pages that is 1 or has no divisor below 11: programs stride by powers of two, folios
/// are as large, and pages that are interleaved over 3, 5, 6 or 7 nodes would all look alike at a multiple.
fn apart(least: u64) -> u64 {
    (least..).find(|step| [2, 3, 5, 7].iter().all(|p| !step.is_multiple_of(*p))).unwrap_or(least)
}

/// A page's status is its node, or a negative error: ENOENT if it is not
/// present, EFAULT for the zero page or no mapping (move_pages(2)).
fn node_of(status: i32) -> i16 {
    i16::try_from(status).unwrap_or(-1).max(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_interleaved_over_up_to_eight_nodes_do_not_look_alike() {
        assert_eq!([1, 2, 9, 12].map(apart), [1, 11, 11, 13]);
        for nodes in 2..=8u64 {
            for step in (1..400).map(apart) {
                assert_ne!((0..nodes).map(|i| i * step % nodes).max(), Some(0), "{nodes} nodes, step {step}");
            }
        }
    }

    #[test]
    fn touched_pages_are_present_and_untouched_ones_are_not() {
        let page = 4096usize;
        // SAFETY: a fresh private mapping, written within its bounds.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                64 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            libc::madvise(base, 64 * page, libc::MADV_NOHUGEPAGE);
            for i in 0..16 {
                base.cast::<u8>().add(i * page).write(1);
            }
            base as u64
        };
        let mut page_nodes = PageNodes::default();
        let range = Range { process: 0, address: base, bytes: 64 * page as u64 };
        look(0, range, page as u64, 1000, 1, &mut page_nodes).unwrap();
        assert_eq!(page_nodes.len(), 2);
        assert!(page_nodes.node[0] >= 0 && page_nodes.pages[0] == 16, "{page_nodes:?}");
        assert!(page_nodes.node[1] == -1 && page_nodes.pages[1] == 48, "{page_nodes:?}");
    }
}
