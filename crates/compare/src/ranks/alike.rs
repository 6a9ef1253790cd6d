//! Ranks for which one placement file can be written: of one class, with cpus of the same nodes.
//!
//! A class does not say which nodes its ranks are on, only how many. A placement file names nodes, so a rank on node 0
//! and one on node 1 cannot share it.

use super::classes::classes;
use super::summary::Summary;
use std::collections::{BTreeMap, HashMap};

/// Ranks of one class on the same nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Position of their class in [`super::Run::classes`].
    pub class: usize,
    /// Nodes of the judged machine that their cpus belong to.
    pub nodes: Vec<u32>,
    /// Their numbers, ascending.
    pub ranks: Vec<u32>,
    /// The one with the most time at risk on far memory; the first if that is unknown of all.
    pub worst: u32,
    /// Whether a thread of one of them may run on several nodes, and not all of the cpus are the rank's alone: nothing
    /// keeps its threads where they were.
    pub adrift: bool,
}

/// The groups, those of the largest class first.
pub fn alike(summaries: &[&Summary]) -> Vec<Alike> {
    let (_, positions) = classes(summaries);
    let mut owners: HashMap<(&str, u32), u32> = HashMap::new();
    for s in summaries {
        for cpu in s.rank.cpus.iter() {
            *owners.entry((&s.rank.host, cpu)).or_default() += 1;
        }
    }
    let alone = |s: &Summary| {
        !s.rank.cpus.is_empty() && s.rank.cpus.iter().all(|cpu| owners[&(s.rank.host.as_str(), cpu)] == 1)
    };
    let mut groups: BTreeMap<(usize, &[u32]), Vec<&Summary>> = BTreeMap::new();
    for (s, class) in summaries.iter().zip(positions) {
        groups.entry((class, &s.given_nodes)).or_default().push(s);
    }
    let worst = |of: &[&Summary]| {
        let far = |s: &Summary| s.far_share.unwrap_or(-1.0);
        // Of equals the first.
        of.iter().rev().max_by(|a, b| far(a).total_cmp(&far(b))).map_or(0, |s| s.rank.rank)
    };
    groups
        .into_iter()
        .map(|((class, nodes), mut of)| {
            of.sort_by_key(|s| s.rank.rank);
            Alike {
                class,
                nodes: nodes.to_vec(),
                ranks: of.iter().map(|s| s.rank.rank).collect(),
                worst: worst(&of),
                adrift: nodes.len() != 1 && !of.iter().all(|s| alone(s)),
            }
        })
        .collect()
}
