//! The phases of all ranks, by name.

use super::spread::Spread;
use super::summary::{RankPhase, Summary};
use serde::Serialize;
use std::collections::BTreeMap;

/// Phases of a run at most. // chosen
const MOST: usize = 100;

/// A phase that ranks have in common. Times are of a rank's threads together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommonPhase {
    /// Its path: `a => b` is b within a.
    pub name: String,
    /// How often it began, over ranks.
    pub calls: Option<Spread>,
    /// Time in it and in phases within, seconds.
    pub seconds: Option<Spread>,
    /// Time in it and in no phase within, seconds.
    pub own_seconds: Option<Spread>,
    /// Far part of its own memory samples, of the ranks of which it is known.
    pub far_share: Option<Spread>,
    /// The rank that spent most own time in it.
    pub longest_rank: Option<u32>,
}

/// The phases of these ranks, those first in which a rank spent most own time. Ranks without a phase of that name are
/// not among its figures.
pub fn common_phases<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Vec<CommonPhase> {
    let mut by_name: BTreeMap<&str, Vec<(u32, &RankPhase)>> = BTreeMap::new();
    for summary in summaries {
        for phase in &summary.phases {
            by_name.entry(&phase.name).or_default().push((summary.rank.rank, phase));
        }
    }
    let mut phases: Vec<CommonPhase> = by_name
        .into_iter()
        .map(|(name, of)| CommonPhase {
            name: name.to_owned(),
            calls: Spread::of(of.iter().map(|(_, p)| p.calls as f64)),
            seconds: Spread::of(of.iter().map(|(_, p)| p.seconds)),
            own_seconds: Spread::of(of.iter().map(|(_, p)| p.own_seconds)),
            far_share: Spread::of(of.iter().filter_map(|(_, p)| p.far_share)),
            longest_rank: of.iter().max_by(|a, b| a.1.own_seconds.total_cmp(&b.1.own_seconds)).map(|x| x.0),
        })
        .collect();
    let most = |p: &CommonPhase| p.own_seconds.map_or(0.0, |s| s.max);
    phases.sort_by(|a, b| most(b).total_cmp(&most(a)).then_with(|| a.name.cmp(&b.name)));
    phases.truncate(MOST);
    phases
}
