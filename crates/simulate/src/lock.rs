//! Locks of lines.
//!
//! All shared caches of a machine have the same number of sets, so the number of
//! a line's set locks the line in the directory, its set in every shared cache,
//! and the line that it may push out there. One lock is enough for everything
//! that happens to a line, and no thread holds two.

use super::frames::scattered;
use super::sets::Modulo;
use std::sync::atomic::{AtomicBool, Ordering};

/// Locks at most; each on a line of the host of its own, so 256 KiB.
const LOCKS: u32 = 4096;
/// Sets of machines without a shared cache: only the directory is locked then.
const SETS_WITHOUT_CACHE: u32 = 32768;
/// Tries before the holder is taken to be preempted. It holds for well under a microsecond.
const SPINS: u32 = 200;

#[derive(Debug)]
#[repr(align(64))]
struct Lock(AtomicBool);

#[derive(Debug)]
pub(super) struct Locks {
    modulo: Modulo,
    sets: usize,
    /// Neighbouring sets share a lock: a stream then stays on a line of the host for a while.
    shift: u32,
    locks: Box<[Lock]>,
}

/// While it lives, the line is the holder's.
#[derive(Debug)]
pub(super) struct Locked<'a>(&'a AtomicBool);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Locks {
    pub fn new(sets: Option<u32>) -> Locks {
        let sets = sets.unwrap_or(SETS_WITHOUT_CACHE);
        let shift = sets.div_ceil(LOCKS).next_power_of_two().trailing_zeros();
        let locks = (sets >> shift) + 1;
        let locks = (0..locks).map(|_| Lock(AtomicBool::new(false))).collect();
        Locks { modulo: Modulo::new(sets), sets: sets as usize, shift, locks }
    }

    /// Number of a line's set, and of its lock.
    #[inline(always)]
    pub fn set(&self, line: u64) -> usize {
        self.modulo.of(scattered(line))
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Waits for the lock of a set.
    #[inline(always)]
    pub fn lock(&self, set: usize) -> Locked<'_> {
        let lock = &self.locks[set >> self.shift].0;
        if lock.swap(true, Ordering::Acquire) {
            wait(lock);
        }
        Locked(lock)
    }
}

/// There may be many more simulated cpus than cores of the host: a holder may not
/// be running, and then only giving way helps.
#[cold]
fn wait(lock: &AtomicBool) {
    let mut tries = 0;
    while lock.load(Ordering::Relaxed) || lock.swap(true, Ordering::Acquire) {
        tries += 1;
        if tries % SPINS == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
