//! What a verdict rests on.

use super::between_nodes::BetweenNodes;
use crate::hardware::Beside;
use crate::thresholds::THRESHOLD;
use crate::unnamed::Unnamed;
use crate::value::{Basis, CacheBound, CacheHeld, CountedInWindows, Interval, MayCompute, Predicted, WhatIf};
use crate::windowed::MORE_WINDOWS;
use nearfar_figures::percent::percent;

/// What a verdict rests on, beside the counts.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What shares are shares of.
    pub basis: Basis,
    /// Remote share of all time, or of all lines.
    pub remote_time: Option<f64>,
    /// 95 % interval of it.
    pub interval: Option<Interval>,
    /// Whether only a marked region counts.
    pub marked: bool,
    /// Weight of samples on mapped files whose unknown page nodes do not matter.
    pub files: u64,
    /// Lines counted, if they were: then few samples are not an obstacle.
    pub counted: Option<u64>,
    /// How far off the counts are, if accesses were counted in windows only.
    pub windows: Option<CountedInWindows>,
    /// What other placements of memory are predicted to give, if that could be predicted.
    pub what_if: Option<&'a WhatIf>,
    /// Why the cause with most at risk is not named, if one is not certain enough.
    pub unnamed: Option<&'a Unnamed>,
    /// What the caches must have answered.
    pub caches: Option<&'a CacheBound>,
    /// What lines may take that nodes take from each other, where only samples of a clock are known.
    pub between_nodes: Option<BetweenNodes>,
    /// Objects that caches may have held.
    pub held: Option<&'a CacheHeld>,
    /// Samples on far pages that may be computing.
    pub computed: Option<&'a MayCompute>,
    /// Most that near memory in place of far can save, as a part of the time, where every loop's lines are known well enough.
    pub saves_at_most: Option<f64>,
    /// Share of the time on far pages and what near memory saves, where that is likely so little that samples on far pages accuse nothing.
    pub saves_little: Option<(f64, Predicted)>,
    /// Share of the time that is bound by memory; an error says why it is not known.
    pub memory_bound: Result<f64, String>,
    /// What was counted beside, where the processor's samples decide.
    pub beside: Option<&'a Beside>,
}

/// How far from a limit counted runs have to be: two runs of one program may differ by as much, and are not to get
/// opposite verdicts (docs/diff.md has what runs differed by). // chosen
const MARGIN: f64 = 0.01;

impl Evidence<'_> {
    /// How far from a limit a part of the time has to be for a verdict: further where accesses were counted in windows only.
    pub fn margin(&self) -> f64 {
        let cut = self.windows.and_then(|windows| windows.cut_error).unwrap_or(0.0);
        MARGIN + self.windows_error().unwrap_or(0.0) + cut
    }

    /// How far off the time on far memory is because accesses were counted in windows only, as a part of all time.
    fn windows_error(&self) -> Option<f64> {
        let bound = self.memory_bound.as_ref().copied().unwrap_or(1.0);
        self.windows?.remote_share_error.map(|error| error * bound)
    }

    /// Why windows tell too little for a verdict, if they do.
    pub fn too_few_windows(&self) -> Option<String> {
        let windows = self.windows?;
        match self.windows_error() {
            None => Some(windows.too_few()),
            Some(error) if error > THRESHOLD / 2.0 => Some(format!(
                "Accesses were counted in {} windows, which differ so much that the time on far memory is not known to {}: {MORE_WINDOWS}",
                windows.windows,
                percent(error)
            )),
            Some(_) => None,
        }
    }

    /// Whether samples on far pages may not have waited for memory.
    pub fn leaves_open(&self) -> bool {
        self.held.is_some() || self.computed.is_some() || self.saves_little.is_some()
    }
}
