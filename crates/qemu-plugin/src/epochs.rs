//! Where epochs begin, on the simulated clock that all cores share.
//!
//! Epochs are equally long, but the kernel knows better where work is over: an epoch ends where threads leave a barrier together.
//! With ends elsewhere, an epoch has the end of one loop and the beginning of the next, and its slowest core is neither's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The shortest epoch that a barrier ends, ns: threads that meet more often have several meetings in one. Rows are what epochs
/// cost. // chosen
const SHORTEST_NS: f64 = 100_000.0;

/// Far above the rounding of a clock of days (2^-8 ns at 2^45 ns), far below anything that takes time.
const ROUNDING_NS: f64 = 0.01;

/// One epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Its number.
    pub number: u32,
    /// Where it begins, ns.
    pub begin_ns: f64,
    /// Where the next begins, ns.
    pub end_ns: f64,
    /// Its length, ns. Where a region begins or ends, the next epoch begins a little later than this one ends.
    pub length_ns: f64,
}

/// An epoch that begins where no length of an epoch ends.
#[derive(Clone, Copy, Debug)]
struct Cut {
    number: u32,
    /// Where it begins, ns.
    ns: f64,
    /// Where the one before it ended, ns.
    before_ns: f64,
}

/// The epochs of a run. What is cut stays cut; numbers go up with time.
#[derive(Debug)]
pub struct Epochs {
    length_ns: f64,
    cuts: Mutex<Vec<Cut>>,
    version: AtomicU32,
}

impl Epochs {
    /// Epochs of this length from 0 on.
    pub fn new(length_ns: f64) -> Epochs {
        let cuts = Mutex::new(vec![Cut { number: 0, ns: 0.0, before_ns: 0.0 }]);
        Epochs { length_ns, cuts, version: AtomicU32::new(0) }
    }

    fn cuts(&self) -> MutexGuard<'_, Vec<Cut>> {
        self.cuts.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// How often epochs were cut.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The epoch at a time, and the version of the list that it was read from. A clock is a sum of busy and idle times: one that was
    /// put forward to an epoch's beginning may stand a rounding error before it. It counts as in that epoch.
    pub fn at(&self, clock_ns: f64) -> (Bin, u32) {
        let cuts = self.cuts();
        (self.bin(&cuts, clock_ns + ROUNDING_NS), self.version())
    }

    /// The epoch of that number, and the version of the list that it was read from.
    pub fn of(&self, number: u32) -> (Bin, u32) {
        let cuts = self.cuts();
        let last = cuts.partition_point(|cut| cut.number <= number) - 1;
        (self.after(&cuts, last, number - cuts[last].number), self.version())
    }

    fn bin(&self, cuts: &[Cut], ns: f64) -> Bin {
        let last = cuts.partition_point(|cut| cut.ns <= ns).max(1) - 1;
        // A clock of 2^32 epochs is 49 days of simulated time at 1 ms.
        self.after(cuts, last, ((ns - cuts[last].ns) / self.length_ns) as u32)
    }

    fn after(&self, cuts: &[Cut], cut: usize, epochs: u32) -> Bin {
        let Cut { number, ns, .. } = cuts[cut];
        let begin_ns = ns + f64::from(epochs) * self.length_ns;
        let next = cuts.get(cut + 1).filter(|next| next.number == number + epochs + 1);
        let (end_ns, length_ns) = next
            .map_or((begin_ns + self.length_ns, self.length_ns), |next| (next.ns, next.before_ns - begin_ns));
        Bin { number: number + epochs, begin_ns, end_ns, length_ns }
    }

    /// Threads leave a barrier together: an epoch ends, unless it has only begun.
    pub fn barrier(&self, ns: f64) {
        self.cut(ns, ns, SHORTEST_NS.min(self.length_ns));
    }

    /// Accesses are counted from here on, or no more: an epoch ends, unless it has only begun.
    pub fn edge(&self, ns: f64) {
        self.cut(ns, ns, 1.0);
    }

    /// An epoch ends here whatever happens, and the next begins a moment later. The number of that, which no core is in before.
    pub fn change(&self, before_ns: f64, ns: f64) -> u32 {
        self.cut(before_ns, ns, 0.0)
    }

    fn cut(&self, before_ns: f64, ns: f64, shortest_ns: f64) -> u32 {
        let mut cuts = self.cuts();
        let now = self.bin(&cuts, ns);
        let behind = cuts.last().is_some_and(|last| ns < last.ns);
        if behind || ns - now.begin_ns < shortest_ns {
            return now.number;
        }
        let before_ns = before_ns.max(now.begin_ns);
        cuts.push(Cut { number: now.number + 1, ns, before_ns });
        self.version.fetch_add(1, Ordering::Release);
        now.number + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    fn number(epochs: &Epochs, ns: f64) -> u32 {
        epochs.at(ns).0.number
    }

    #[test]
    fn without_barriers_all_are_equally_long() {
        let epochs = Epochs::new(MS);
        let bin = epochs.at(7.5 * MS).0;
        assert_eq!(bin, Bin { number: 7, begin_ns: 7.0 * MS, end_ns: 8.0 * MS, length_ns: MS });
        assert_eq!(epochs.of(7).0, bin);
    }

    #[test]
    fn a_clock_put_forward_to_an_epochs_beginning_is_in_it() {
        let epochs = Epochs::new(MS);
        for epoch in 1..2000u32 {
            // Idle until the beginning, as `Core::sleep_until` does.
            let (begin, busy) = (f64::from(epoch) * MS, f64::from(epoch) * MS / 3.0 - 0.1);
            assert_eq!(number(&epochs, busy + (begin - busy)), epoch);
            assert_eq!(number(&epochs, begin - 1e-7), epoch);
            assert_eq!(number(&epochs, begin - 1.0), epoch - 1);
        }
    }

    #[test]
    fn a_barrier_ends_an_epoch_and_the_next_has_its_whole_length() {
        let epochs = Epochs::new(MS);
        let version = epochs.version();
        epochs.barrier(2.4 * MS);
        assert_ne!(epochs.version(), version);
        let cut = [(2, 2.0 * MS, 2.4 * MS), (3, 2.4 * MS, 3.4 * MS), (4, 3.4 * MS, 4.4 * MS)];
        for (number, begin_ns, end_ns) in cut {
            let bin = Bin { number, begin_ns, end_ns, length_ns: end_ns - begin_ns };
            assert_eq!(epochs.of(number).0, bin);
            assert_eq!(epochs.at(begin_ns).0, bin);
            assert_eq!(epochs.at(end_ns - 1.0).0, bin);
        }
        // Who slept for long finds the numbers that would have been.
        assert_eq!(number(&epochs, 103.0 * MS), 103);
        epochs.barrier(102.55 * MS);
        assert_eq!((number(&epochs, 102.54 * MS), number(&epochs, 103.0 * MS)), (103, 104));
    }

    #[test]
    fn an_epoch_that_has_only_begun_goes_on() {
        let epochs = Epochs::new(MS);
        epochs.barrier(2.4 * MS);
        let version = epochs.version();
        // Too soon after it, and before it.
        epochs.barrier(2.4 * MS + SHORTEST_NS - 1.0);
        epochs.barrier(2.2 * MS);
        assert_eq!(epochs.version(), version);
        epochs.barrier(2.4 * MS + SHORTEST_NS);
        assert_eq!(number(&epochs, 2.5 * MS), 4);
    }

    #[test]
    fn what_turns_has_an_epoch_of_its_own() {
        let epochs = Epochs::new(MS);
        epochs.barrier(2.4 * MS);
        for ns in [2.4 * MS + 1.0, 2.4 * MS + 2.0, 9.9 * MS] {
            let before = number(&epochs, ns - 0.5);
            assert_eq!(epochs.change(ns - 0.75, ns), before + 1);
            assert_eq!((number(&epochs, ns - 0.5), number(&epochs, ns)), (before, before + 1));
            let bin = epochs.of(before).0;
            assert_eq!((bin.end_ns, bin.length_ns), (ns, ns - 0.75 - bin.begin_ns));
        }
    }
}
