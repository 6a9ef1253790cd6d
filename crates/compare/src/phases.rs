//! Phases of two reports side by side, by path.

use super::value::{PhaseChange, PhaseSide};
use nearfar_analyze::{PhaseReport, Report};
use std::collections::BTreeMap;

/// Paths and what was in them, in one report.
fn sides(phases: &PhaseReport, total: u64) -> BTreeMap<String, (usize, PhaseSide)> {
    let mut paths: Vec<String> = Vec::new();
    let mut sides = BTreeMap::new();
    for (i, node) in phases.nodes.iter().enumerate() {
        let path = match node.parent {
            None => String::new(),
            Some(0) => node.name.clone(),
            Some(parent) => format!("{} => {}", paths[parent], node.name),
        };
        if i > 0 {
            let (calls, own, all) = (node.all.calls, node.all.exclusive, node.all.inclusive);
            let side = PhaseSide {
                calls,
                inclusive_s: all.time_ns as f64 / 1e9,
                exclusive_s: own.time_ns as f64 / 1e9,
                far_share: (total > 0 && own.page_nodes_known()).then(|| own.far as f64 / total as f64),
            };
            sides.insert(path.clone(), (i, side));
        }
        paths.push(path);
    }
    sides
}

/// The phases of both, in the order of the first report, then those that only the second has. Empty if neither has any.
pub fn phases(before: &Report, after: &Report) -> Vec<PhaseChange> {
    let of = |r: &Report| {
        let total = |p: &PhaseReport| p.nodes.first().map_or(0, |whole| whole.all.inclusive.weight);
        r.phases.as_ref().map_or_else(BTreeMap::new, |p| sides(p, total(p)))
    };
    let (before, mut after) = (of(before), of(after));
    let mut all: Vec<(usize, PhaseChange)> = Vec::new();
    let last = before.len() + 1;
    for (path, (order, side)) in before {
        let after = after.remove(&path).map(|a| a.1);
        all.push((order, PhaseChange { path, before: Some(side), after }));
    }
    for (path, (order, side)) in after {
        all.push((last + order, PhaseChange { path, before: None, after: Some(side) }));
    }
    all.sort_by_key(|x| x.0);
    all.into_iter().map(|x| x.1).collect()
}
