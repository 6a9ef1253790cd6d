//! Of a finding: the phases that placed its pages and those that use them from other nodes.

use super::tree::ROOT;
use super::{Phases, Sampled};
use crate::counters::Counters;
use crate::stats::LEAST_OF_A_PART;
use crate::value::{FindingPhase, FindingPhases};
use nearfar_recording::NONE;
use std::collections::BTreeMap;

/// Phases of either list at most. // chosen
const MOST: usize = 8;

impl Phases {
    /// Of the far samples on these rows; `None` if they are too few, or if none of their phases is known by name.
    pub fn of_rows(&self, rows: &[u32], counters: &Counters) -> Option<FindingPhases> {
        let mut placed: BTreeMap<u32, u64> = BTreeMap::new();
        let mut paid: BTreeMap<u32, u64> = BTreeMap::new();
        let mut all = Sampled::default();
        for (&(row, from, to), far) in &counters.phases.paid {
            if rows.contains(&row) {
                *placed.entry(from).or_default() += far.weight;
                *paid.entry(to).or_default() += far.weight;
                all.merge(far);
            }
        }
        let named = |path: &u32| *path != ROOT && *path != NONE;
        if all.samples < LEAST_OF_A_PART || all.weight == 0 || !placed.keys().chain(paid.keys()).any(named) {
            return None;
        }
        let list = |by: BTreeMap<u32, u64>| {
            let mut by: Vec<(u32, u64)> = by.into_iter().collect();
            by.sort_by_key(|&(path, weight)| (std::cmp::Reverse(weight), path));
            let phase = |(path, weight): (u32, u64)| FindingPhase {
                node: (path != NONE).then_some(path as usize),
                name: (path != NONE).then(|| self.name_of(path)),
                share: weight as f64 / all.weight as f64,
            };
            by.into_iter().take(MOST).map(phase).collect()
        };
        Some(FindingPhases { placed_in: list(placed), paid_in: list(paid), samples: all.samples })
    }

    /// `a => b`; empty for no phase.
    fn name_of(&self, path: u32) -> String {
        let mut names = Vec::new();
        let mut at = path;
        while at != ROOT {
            let here = &self.tree.paths[at as usize];
            names.push(here.name.as_str());
            at = here.parent;
        }
        names.reverse();
        names.join(" => ")
    }
}
