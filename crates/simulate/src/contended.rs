//! Lines that cores take from each other all the time.
//!
//! Emulated cpus run in turns of some microseconds, and a cpu keeps such a line for its whole turn. A real core has to give the
//! line away after a few accesses. How often the line would move follows from how often it is accessed. So the sink hears of
//! each access to these lines: they bypass the filter.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Places for lines that are watched. Two lines may have the same place: the second gets it when the first is not taken any more.
const PLACES: usize = 1024;
/// So often a line is taken from a core that has changed it, within [`WITHIN_NS`], before it counts. // chosen
const TIMES: u32 = 4;
/// Several turns of emulated cpus, simulated ns: 10 µs behind and as much ahead. // chosen
const WITHIN_NS: u64 = 200_000;
/// A line that was not taken for so long is contended no more, simulated ns. // chosen
const KEPT_NS: u64 = 1_000_000;

#[derive(Debug, Default)]
struct Place {
    /// Number of the line + 1; 0 for none.
    line: AtomicU64,
    /// How often it was taken since `since`.
    times: AtomicU32,
    since: AtomicU64,
    /// Until when it counts; 0: it does not.
    until: AtomicU64,
}

/// The lines that are contended now. Threads that change a place at the same time may forget a transfer.
#[derive(Debug)]
pub(super) struct Contended {
    places: Box<[Place]>,
}

impl Contended {
    pub fn new() -> Contended {
        Contended { places: (0..PLACES).map(|_| Place::default()).collect() }
    }

    #[inline(always)]
    fn place(&self, line: u64) -> &Place {
        &self.places[(line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize]
    }

    /// Whether a line is; `now` gives the core's clock, ns.
    #[inline(always)]
    pub fn has(&self, line: u64, now: impl FnOnce() -> f64) -> bool {
        let place = self.place(line);
        place.line.load(Relaxed) == line + 1 && (now() as u64) < place.until.load(Relaxed)
    }

    /// A core took a line that another one had changed; `now`: its clock, ns.
    #[cold]
    pub fn taken(&self, line: u64, now: f64) {
        let (place, now) = (self.place(line), now as u64);
        let since = place.since.load(Relaxed);
        let begin = || {
            place.line.store(line + 1, Relaxed);
            place.since.store(now, Relaxed);
            place.times.store(1, Relaxed);
            place.until.store(0, Relaxed);
        };
        if place.line.load(Relaxed) != line + 1 {
            let given_up = place.until.load(Relaxed).max(since + WITHIN_NS) <= now;
            if place.line.load(Relaxed) == 0 || given_up {
                begin();
            }
            return;
        }
        let until = place.until.load(Relaxed);
        if until > now {
            place.until.store(until.max(now + KEPT_NS), Relaxed);
        } else if now > since + WITHIN_NS {
            begin();
        } else if place.times.fetch_add(1, Relaxed) + 1 >= TIMES {
            place.until.store(now + KEPT_NS, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_while_it_is_taken_again_and_again() {
        let contended = Contended::new();
        let has = |at: f64| contended.has(7, || at);
        for at in [0.0, 10_000.0, 20_000.0] {
            contended.taken(7, at);
            assert!(!has(at));
        }
        contended.taken(7, 30_000.0);
        assert!(has(31_000.0) && has(1_000_000.0) && !has(1_040_000.0));
        contended.taken(7, 500_000.0);
        assert!(has(1_400_000.0) && !has(1_600_000.0));
        assert!(!contended.has(8, || 31_000.0));
    }

    #[test]
    fn a_line_that_is_taken_now_and_then_does_not() {
        let contended = Contended::new();
        for turn in 0..100 {
            let at = f64::from(turn) * 90_000.0;
            contended.taken(7, at);
            assert!(!contended.has(7, || at), "{turn}");
        }
    }

    #[test]
    fn a_line_on_the_same_place_waits_until_the_other_is_taken_no_more() {
        let contended = Contended::new();
        let other = (8..).find(|&line| std::ptr::eq(contended.place(line), contended.place(7))).unwrap();
        let take = |line: u64, at: f64| (0..4).for_each(|i| contended.taken(line, at + f64::from(i)));
        take(7, 0.0);
        take(other, 100.0);
        assert!(contended.has(7, || 200.0) && !contended.has(other, || 200.0));
        take(other, 2_000_000.0);
        assert!(!contended.has(7, || 2_000_100.0) && contended.has(other, || 2_000_100.0));
    }
}
