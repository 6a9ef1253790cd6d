//! Windows of simulated time in which accesses are counted, and the longer spans between them in which they are not.
//!
//! Looking each access up in the caches takes more than half of a run. With windows, it is done in a part of each period only: first to
//! fill the caches, uncounted, then counted. In between a core's clock goes on with its instructions, at the speed that it had in its last window.

use nearfar_simulate::Core;
use std::sync::atomic::{AtomicU64, Ordering};

/// A core that ran fewer instructions in a window keeps the speed that it had: so few may all have missed, or none. // chosen
const LEAST_INSTRUCTIONS: u64 = 1000;

/// What the latest window counts for in a core's speed, of all before it. // chosen
const LATEST: f64 = 0.25;

/// What is done with accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// They are looked up and counted.
    Counted,
    /// They are looked up, so that the caches hold what they would, and not counted.
    Warming,
    /// Only instructions are counted.
    Skipped,
}

/// How long the parts of a period are, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// A period.
    pub period_ns: f64,
    /// The part of it in which the caches are filled.
    pub warming_ns: f64,
    /// The part in which accesses are counted.
    pub counted_ns: f64,
}

/// Where the windows are: one in each period, at a place that is drawn. A program whose loops take as long as a period would show the
/// same one of them all the time otherwise.
#[derive(Debug)]
pub struct Windows {
    lengths: Lengths,
    /// Where the first period begins, ns.
    origin_ns: AtomicU64,
}

/// A span of time in which the same is done with all accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What is done.
    pub detail: Detail,
    /// Where it begins, ns.
    pub begin_ns: f64,
    /// Where the next one begins, ns.
    pub end_ns: f64,
}

impl Span {
    /// Everything is counted.
    pub const ALL: Span = Span { detail: Detail::Counted, begin_ns: 0.0, end_ns: f64::INFINITY };
}

impl Windows {
    /// A window in each period, from 0 on.
    pub fn new(lengths: Lengths) -> Windows {
        Windows { lengths, origin_ns: AtomicU64::new(0) }
    }

    /// Periods begin anew at that time.
    pub fn begin(&self, ns: f64) {
        self.origin_ns.store(ns.to_bits(), Ordering::Relaxed);
    }

    /// What is done at that time.
    pub fn at(&self, ns: f64) -> Span {
        let Lengths { period_ns, warming_ns, counted_ns } = self.lengths;
        let origin_ns = f64::from_bits(self.origin_ns.load(Ordering::Relaxed));
        if ns < origin_ns {
            return Span { detail: Detail::Skipped, begin_ns: 0.0, end_ns: origin_ns };
        }
        let period = ((ns - origin_ns) / period_ns).floor();
        let window = |period: f64| origin_ns + period * period_ns + self.offset_ns(period as u64);
        let warms_ns = window(period);
        let counts_ns = warms_ns + warming_ns;
        let ends_ns = counts_ns + counted_ns;
        let (detail, begin_ns, end_ns) = match () {
            () if ns < warms_ns && period == 0.0 => (Detail::Skipped, origin_ns, warms_ns),
            () if ns < warms_ns => {
                (Detail::Skipped, window(period - 1.0) + warming_ns + counted_ns, warms_ns)
            }
            () if ns < counts_ns => (Detail::Warming, warms_ns, counts_ns),
            () if ns < ends_ns => (Detail::Counted, counts_ns, ends_ns),
            () => (Detail::Skipped, ends_ns, window(period + 1.0)),
        };
        Span { detail, begin_ns, end_ns }
    }

    /// How far into its period a window begins, ns. The first one at once: until then no core has a speed.
    fn offset_ns(&self, period: u64) -> f64 {
        let Lengths { period_ns, warming_ns, counted_ns } = self.lengths;
        if period == 0 {
            return 0.0;
        }
        drawn(period) * (period_ns - warming_ns - counted_ns).max(0.0)
    }
}

/// A number from 0 up to 1, for each other one: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn drawn(number: u64) -> f64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// How fast a core was when its accesses were counted. Between windows its clock goes on at the mean of some windows, and not at the speed of the last one:
/// else a window would come the sooner the slower the last one was, and tell less of places that are not like it.
#[derive(Debug, Default)]
pub struct Speed {
    instructions: u64,
    busy_ns: f64,
    known: bool,
    /// How long an instruction waited, ns.
    pub stall_ns: f64,
}

impl Speed {
    /// A window begins.
    pub fn begin(&mut self, core: &Core) {
        self.instructions = core.counts().instructions;
        self.busy_ns = core.busy_ns();
    }

    /// It ends.
    pub fn end(&mut self, core: &Core) {
        let ran = core.counts().instructions - self.instructions;
        if ran >= LEAST_INSTRUCTIONS {
            let ns = (core.busy_ns() - self.busy_ns) / ran as f64;
            let stall_ns = (ns - core.instruction_ns()).max(0.0);
            let part = if self.known { LATEST } else { 1.0 };
            self.stall_ns += part * (stall_ns - self.stall_ns);
            self.known = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { period_ns: 100.0, warming_ns: 10.0, counted_ns: 20.0 };

    #[test]
    fn each_period_has_one_window_and_spanes_follow_each_other() {
        let windows = Windows::new(LENGTHS);
        windows.begin(1000.0);
        assert_eq!(windows.at(999.0), Span { detail: Detail::Skipped, begin_ns: 0.0, end_ns: 1000.0 });
        let mut at = windows.at(1000.0);
        assert_eq!((at.detail, at.begin_ns), (Detail::Warming, 1000.0));
        let mut offsets = Vec::new();
        for period in 0..1000 {
            let begin_ns = at.begin_ns;
            offsets.push(begin_ns - 1000.0 - 100.0 * f64::from(period));
            for (detail, ns) in [(Detail::Warming, 10.0), (Detail::Counted, 20.0)] {
                assert_eq!(at.detail, detail, "{at:?}");
                assert!((at.end_ns - at.begin_ns - ns).abs() < 1e-6, "{at:?}");
                assert_eq!(windows.at((at.begin_ns + at.end_ns) / 2.0), at);
                at = windows.at(at.end_ns + 1e-7);
            }
            assert_eq!(at.detail, Detail::Skipped);
            at = windows.at(at.end_ns + 1e-7);
        }
        assert_eq!(offsets[0], 0.0);
        assert!(offsets.iter().all(|o| (0.0..=70.0).contains(o)));
        let mean = offsets.iter().sum::<f64>() / 1000.0;
        // Uniform from 0 to 70: the mean of 1000 is within 5 standard deviations of 35.
        assert!((mean - 35.0).abs() < 5.0 * 70.0 / 12f64.sqrt() / 1000f64.sqrt(), "{mean}");
    }
}
