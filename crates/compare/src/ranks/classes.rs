//! Ranks that behave alike: the same program on the same kind of machine, bound in the same way, with the same verdict.

use super::summary::Summary;
use nearfar_analyze::Verdict;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Ranks that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Their numbers, ascending.
    pub ranks: Vec<u32>,
    /// What they have in common.
    pub of: Kind,
}

/// What makes ranks alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kind {
    /// The program's name.
    pub program: String,
    /// Build id of its file; `null` if it has none.
    pub build: Option<String>,
    /// The machine they ran on, in words.
    pub machine: String,
    /// The same for comparing.
    pub machine_key: String,
    /// Cpus that the launcher gave each; 0 if unknown.
    pub cpus: u64,
    /// Nodes that these belong to.
    pub nodes: u64,
    /// Whether more ranks may run on one of these cpus than is usual on the host.
    pub shared: bool,
    /// Nodes that their threads ran on.
    pub thread_nodes: u64,
    /// The verdict: `clean`, `affected` or `unknown`.
    pub verdict: String,
    /// Kinds of the findings.
    pub findings: Vec<String>,
}

/// The classes, largest first, and of each summary the position of its class.
pub fn classes(summaries: &[&Summary]) -> (Vec<Class>, Vec<usize>) {
    let shared = shared(summaries);
    let kinds: Vec<Kind> = summaries.iter().zip(shared).map(|(s, shared)| kind(s, shared)).collect();
    let mut by_kind: BTreeMap<&Kind, Vec<u32>> = BTreeMap::new();
    for (kind, summary) in kinds.iter().zip(summaries) {
        by_kind.entry(kind).or_default().push(summary.rank.rank);
    }
    let mut classes: Vec<Class> = by_kind
        .into_iter()
        .map(|(kind, mut ranks)| {
            ranks.sort_unstable();
            Class { ranks, of: kind.clone() }
        })
        .collect();
    classes.sort_by_key(|class| (std::cmp::Reverse(class.ranks.len()), class.ranks[0]));
    let positions = kinds
        .iter()
        .map(|kind| classes.iter().position(|class| class.of == *kind).expect("each kind is a class"))
        .collect();
    (classes, positions)
}

fn kind(s: &Summary, shared: bool) -> Kind {
    let mut findings = s.findings.clone();
    findings.sort();
    findings.dedup();
    Kind {
        program: s.program().to_owned(),
        build: s.build.clone(),
        machine: s.recorded_on.clone(),
        machine_key: s.machine_key.clone(),
        cpus: s.rank.cpus.len() as u64,
        nodes: s.given_nodes.len() as u64,
        shared,
        thread_nodes: s.thread_nodes.len() as u64,
        verdict: word(s.verdict).to_owned(),
        // What was found in too little data differs by chance.
        findings: if s.verdict == Verdict::Affected { findings } else { Vec::new() },
    }
}

/// A verdict as in JSON.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "clean",
        Verdict::Affected => "affected",
        Verdict::Unknown => "unknown",
    }
}

/// Of each rank, whether more ranks may run on one of its cpus than is usual on its host. Where a host's ranks are not
/// bound, all of them have all cpus, and none stands out.
fn shared(summaries: &[&Summary]) -> Vec<bool> {
    let mut ranks_of: HashMap<(&str, u32), u64> = HashMap::new();
    for s in summaries {
        for cpu in s.rank.cpus.iter() {
            *ranks_of.entry((&s.rank.host, cpu)).or_default() += 1;
        }
    }
    let most =
        |s: &Summary| s.rank.cpus.iter().map(|cpu| ranks_of[&(s.rank.host.as_str(), cpu)]).max().unwrap_or(0);
    let most: Vec<u64> = summaries.iter().map(|s| most(s)).collect();
    let mut by_host: HashMap<&str, Vec<u64>> = HashMap::new();
    for (s, &ranks) in summaries.iter().zip(&most) {
        by_host.entry(&s.rank.host).or_default().push(ranks);
    }
    by_host.values_mut().for_each(|ranks| ranks.sort_unstable());
    let usual = |host: &str| by_host[host][(by_host[host].len() - 1) / 2];
    summaries.iter().zip(&most).map(|(s, &ranks)| ranks > usual(&s.rank.host)).collect()
}
