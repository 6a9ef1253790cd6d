//! Why a verdict is missing, where samples on far pages may not have waited for memory.

use super::evidence::Evidence;
use crate::advice::listed;
use crate::value::{CacheHeld, Interval, MayCompute, MayNotWait, Predicted};
use nearfar_figures::percent::{ends, percent};
use nearfar_figures::sizes::{capacity, size};

/// Why the verdict is missing where what decides it may not have waited for memory. `shape`: the judged one, if its caches are
/// taken from the recorded machine.
pub(super) fn may_not_wait(evidence: &Evidence, interval: Interval, shape: Option<&str>) -> String {
    match MayNotWait::new(evidence.held, evidence.computed) {
        Some(MayNotWait::Computing(computed)) => may_compute(computed, interval),
        Some(MayNotWait::Cached(held)) => may_be_held(held, interval, shape),
        None => String::new(),
    }
}

/// The same where loops take no longer than they may without waiting.
fn may_compute(computed: &MayCompute, interval: Interval) -> String {
    let code = if computed.untimed_share > computed.far_share / 2.0 {
        "in code of which samples of a clock do not show whether it computes or waits"
    } else {
        "in loops whose iterations take no longer than their instructions may take without waiting for memory"
    };
    // Both kinds are in the share.
    let mostly =
        if (0.01..0.99).contains(&(computed.untimed_share / computed.far_share)) { "mostly " } else { "" };
    format!(
        "{} of the time is on far pages of {}, {mostly}{code}: far memory took {} to {} of the time. `nearfar record --on MACHINE` counts what \
         came from memory.",
        percent(computed.far_share),
        listed(&computed.objects.iter().map(String::as_str).collect::<Vec<_>>()),
        low_end(interval),
        high_end(interval)
    )
}

/// The same where near memory would likely save too little to be worth a change: `share` of the time is on far pages.
pub(super) fn saves_little(share: f64, saves: &Predicted) -> String {
    let likely = match 1.0 - saves.ratio {
        gain if gain < 0.0005 => "nothing".to_owned(),
        gain => percent(gain),
    };
    format!(
        "{} of the time is on far pages, but by how long iterations of its loops take, near memory is likely to save {likely} ({} at most): \
         what they wait for may be caches. `nearfar record --on MACHINE` counts what came from memory.",
        percent(share),
        percent(1.0 - saves.low)
    )
}

/// Why the verdict is missing where caches may have answered what decides it.
fn may_be_held(held: &CacheHeld, interval: Interval, shape: Option<&str>) -> String {
    // Those of a shape are assumed, and the recorded machine's are the only ones that are known.
    let (whose, also) = match shape {
        Some(shape) => (
            " of the recorded machine",
            format!(
                " Nothing says which caches {shape} has: `--as` with a machine that comes with nearfar takes that one's."
            ),
        ),
        None => ("", String::new()),
    };
    format!(
        "{} of the time is on far pages of {}, but a node uses {} of {} at a time, which the level {} cache{whose} ({}) may have held: \
         a clock cannot tell its hits from far memory, which took {} to {} of the time. `nearfar record --on MACHINE` counts what \
         came from memory.{also}",
        percent(held.far_share),
        objects(held),
        size(held.object_bytes),
        if held.objects.len() == 1 { "it" } else { "the first" },
        held.cache_level,
        capacity(held.cache_bytes),
        low_end(interval),
        high_end(interval)
    )
}

/// The names of what caches may hold.
pub(super) fn objects(held: &CacheHeld) -> String {
    listed(&held.objects.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The ends of an interval as they stand beside its share: rounded outward.
pub(super) fn low_end(interval: Interval) -> String {
    let [low, _] = ends(interval.low, interval.high);
    low
}

pub(super) fn high_end(interval: Interval) -> String {
    let [_, high] = ends(interval.low, interval.high);
    high
}
