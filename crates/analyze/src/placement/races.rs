//! Two threads that store to a page at once both fault, and one of them places it.
//!
//! A fault's time is that of its begin. Of a large page each thread clears one of its own before it asks whether
//! the page is still missing (`__do_huge_pmd_anonymous_page` of mm/huge_memory.c), so the one that began first need not be the one that
//! placed it. Where looks or counts say that the page is where another of these threads ran, that one placed it.

use crate::hash::FastMap;

/// As long as clearing a small page may take, with a cpu taken away meanwhile. // assumed
const SMALL_NS: u64 = 1_000_000;
/// The same for a large page. Clearing 2 MiB takes a fraction of a millisecond, and 18 ms were seen on an emulated machine; a
/// thread whose cpu is taken away meanwhile takes tens of milliseconds more. // chosen
const LARGE_NS: u64 = 100_000_000;

/// The faults that came too late, by the touch that was there.
#[derive(Debug, Default)]
pub(super) struct Races {
    late: FastMap<u32, Vec<u32>>,
}

/// How long after a thread's fault another one may still be part of the same race.
pub(super) fn window_ns(large: bool, other_thread: bool) -> u64 {
    if large && other_thread { LARGE_NS } else { SMALL_NS }
}

impl Races {
    /// A fault on a page that a touch had just placed.
    pub(super) fn add(&mut self, touch: u32, fault: u32) {
        self.late.entry(touch).or_default().push(fault);
    }

    /// The faults that raced with a touch.
    pub(super) fn late(&self, touch: u32) -> &[u32] {
        self.late.get(&touch).map_or(&[], Vec::as_slice)
    }
}
