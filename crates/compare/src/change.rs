//! When a difference is a change.

use super::value::{Change, Difference};
use nearfar_analyze::stats::draws_interval;
use nearfar_analyze::{Interval, MOST_UNKNOWN};

/// Remote shares that differ by less have no effect, as in `check`.
pub const EFFECT: f64 = 0.02;
/// Modelled times, and counts of lines, that differ by less have no effect: two emulated runs of the same
/// program differ, too (docs/diff.md has measured ones).
pub const SAME_RUN: f64 = 0.05;
/// Remote share up to which nothing more should be repaired. // chosen
pub const FEW: f64 = 0.05;
/// Half of an interval's width, in parts of what is judged, beyond which "no effect" would be said of what
/// is not known: half of the share that a report calls affected.
const OPEN: f64 = 0.05;

/// Something far, in parts of what it is compared in.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// Share of everything that the row has.
    pub share: f64,
    /// Remote share of the row, if known.
    pub remote: Option<(f64, Interval)>,
    /// Share of its samples whose page's node is unknown.
    pub unknown: f64,
    /// All lines of the row, where lines are counted.
    pub lines: Option<f64>,
}

/// After minus before, with the interval of a difference of two independent shares (Newcombe 1998, Statist.
/// Med. 17, 873–890, method 10).
pub fn difference(before: (f64, Interval), after: (f64, Interval)) -> Difference {
    let ((b, bi), (a, ai)) = (before, after);
    let value = a - b;
    Difference {
        value,
        low: value - (a - ai.low).hypot(bi.high - b),
        high: value + (ai.high - a).hypot(b - bi.low),
    }
}

/// `Better`, `NoEffect`, `Worse` or `Unknown` of a difference: it is none below `least`, and not known to be
/// none if its interval reaches beyond `open`.
pub fn direction(d: Difference, least: f64, open: f64) -> Change {
    let told = d.low > -open && d.high < open;
    match () {
        () if d.value <= -least && d.high < 0.0 => Change::Better,
        () if d.value >= least && d.low > 0.0 => Change::Worse,
        () if told => Change::NoEffect,
        () => Change::Unknown,
    }
}

/// Of the whole: `OPEN` is of it.
pub fn whole(d: Difference) -> Change {
    direction(d, EFFECT, OPEN)
}

/// Smallest difference of an object's own remote share that is shown although little of the whole is at risk, and the
/// smallest part of the whole that such an object has. // chosen
const MOVED: f64 = 0.2;
const LISTED: f64 = 0.01;

/// Whether a row that matters little to the whole has its memory elsewhere than before: 0 to 50 % is no "no effect".
fn moved(before: &Far, after: &Far) -> bool {
    let listed = before.share.min(after.share) >= LISTED;
    let (Some(b), Some(a)) = (before.remote, after.remote) else { return false };
    listed && matches!(direction(difference(b, a), MOVED, OPEN), Change::Better | Change::Worse)
}

/// Of an object, a function or a node's memory.
pub fn row(before: &Far, after: &Far) -> Change {
    let most = |f: &Far| f.share * f.remote.map_or(1.0, |(value, ci)| ci.high.max(value));
    if most(before) < EFFECT && most(after) < EFFECT && !moved(before, after) {
        return Change::NoEffect;
    }
    let wide = |f: &Far| f.remote.map(|(value, ci)| (value, blind(ci, f.unknown)));
    let (Some(b), Some(a)) = (wide(before), wide(after)) else { return Change::Unknown };
    // Counts of the same work are compared as such: half of the lines is better, whatever part of them is far.
    let (scale_b, scale_a, least) = match (before.lines, after.lines) {
        (Some(x), Some(y)) if x.max(y) > 0.0 => {
            let most = x.max(y);
            (x / most, y / most, EFFECT.max(SAME_RUN * b.0 * x / most))
        }
        _ => (1.0, 1.0, EFFECT),
    };
    let scaled = |(value, ci): (f64, Interval), by: f64| {
        (value * by, Interval { low: ci.low * by, high: ci.high * by })
    };
    let open = OPEN.max(EFFECT / before.share.max(after.share));
    match direction(difference(scaled(b, scale_b), scaled(a, scale_a)), least, open) {
        Change::Better if repaired(b.0, a.0) && a.0 * after.share <= b.0 * before.share / 2.0 => {
            Change::Repaired
        }
        change => change,
    }
}

/// The interval of a remote share of samples whose page's node is known, widened to all: what is unknown may be
/// far or near. Little of it is the code and the constants that every program has; a report bears as much.
fn blind(ci: Interval, unknown: f64) -> Interval {
    match unknown > MOST_UNKNOWN {
        true => Interval { low: ci.low * (1.0 - unknown), high: ci.high * (1.0 - unknown) + unknown },
        false => ci,
    }
}

/// The same of a share of everything, which counts unknown page nodes as near.
pub fn blind_whole(ci: Interval, unknown: f64, touching: f64) -> Interval {
    match unknown > MOST_UNKNOWN {
        true => Interval { low: ci.low, high: (ci.high + unknown * touching).min(1.0) },
        false => ci,
    }
}

/// Whether a remote share was worth a repair and got one.
pub fn repaired(before: f64, after: f64) -> bool {
    before > FEW && after <= FEW && after <= before / 2.0
}

/// The interval of a share that was found in so many samples. Neighbouring samples resemble each other:
/// `spread` says of how many one speaks.
pub fn interval(share: f64, samples: f64, spread: f64) -> Option<Interval> {
    let draws = (samples / spread).round().max(if samples > 0.0 { 1.0 } else { 0.0 });
    let found = draws_interval((share * draws).round() as u64, draws as u64)?;
    Some(Interval { low: found.low.min(share), high: found.high.max(share) })
}

/// Of how many samples one speaks, from how much wider the interval of the whole is than that of so many draws.
pub fn spread(share: f64, ci: Interval, samples: f64) -> f64 {
    let Some(draws) = draws_interval((share * samples).round() as u64, samples.round() as u64) else {
        return 1.0;
    };
    let ratio = (ci.high - ci.low) / (draws.high - draws.low).max(1e-9);
    // An interval's width falls with the root of the draws; that of next to nothing among them with their number.
    let rare = share.min(1.0 - share) * samples < 10.0;
    (if rare { ratio } else { ratio.powi(2) }).clamp(1.0, samples.max(1.0))
}
