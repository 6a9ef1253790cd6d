//! Whether the launcher bound each rank as it should: `nearfar layout RUN`.

use super::classes::{Class, classes};
use super::differ::bound;
use super::summary::Summary;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, NodeList, RankList};
use std::collections::BTreeMap;

/// A class of ranks, and what is wrong with the binding of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassBinding {
    /// Numbers of its ranks, ascending.
    pub ranks: Vec<u32>,
    /// Program, cpus, nodes and verdict, in words.
    pub of: String,
    /// Which ranks of it are bound wrongly, in words, and why; empty if none is.
    pub wrong: Vec<String>,
}

/// How a run was bound, and what a launcher has to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    /// By class, the largest first.
    pub classes: Vec<ClassBinding>,
    /// Ranks of which it is unknown where they may run.
    pub unknown: Vec<u32>,
    /// Hosts with a summary.
    pub hosts: usize,
    /// Threads that most ranks work with, but no more than the cpus that most ranks were given; at least 1. `None` if
    /// no rank has samples.
    pub threads: Option<usize>,
}

impl Bindings {
    /// Whether a rank is bound wrongly.
    pub fn wrong(&self) -> bool {
        self.classes.iter().any(|class| !class.wrong.is_empty())
    }
}

/// What these ranks' cpus say on `machine`, which each host is.
pub fn bindings(summaries: &[&Summary], machine: &Machine) -> Bindings {
    let (classes, positions) = classes(summaries);
    let nodes_of =
        |s: &Summary| -> NodeList { s.rank.cpus.iter().filter_map(|c| machine.node_of_cpu(c)).collect() };
    // What most ranks have is how the program is run, and no rank's mistake.
    let usual_nodes = usual(summaries.iter().map(|s| nodes_of(s).len()));
    let wide = |s: &Summary| nodes_of(s).len() > usual_nodes;
    // Of ranks that share a cpu only those count that are not named for their nodes anyway.
    let mut owners: Owners = BTreeMap::new();
    for s in summaries.iter().filter(|s| !wide(s)) {
        for cpu in s.rank.cpus.iter() {
            owners.entry(&s.rank.host).or_default().entry(cpu).or_default().push(s.rank.rank);
        }
    }
    let most_on =
        |s: &Summary| s.rank.cpus.iter().map(|cpu| ranks_on(&owners, s, cpu).len()).max().unwrap_or(0);
    let usual_sharing = usual(summaries.iter().filter(|s| !wide(s)).map(|s| most_on(s)));
    let free = |s: &Summary| -> CpuList {
        let cpus = machine.cpu_nodes().flat_map(|n| n.cpus.iter());
        cpus.filter(|&cpu| ranks_on(&owners, s, cpu).is_empty()).collect()
    };
    let why = |s: &Summary| -> Option<String> {
        let (cpus, nodes) = (&s.rank.cpus, nodes_of(s));
        if wide(s) {
            let most = if usual_nodes == 1 { "1 node".to_owned() } else { format!("{usual_nodes} nodes") };
            return Some(format!("bound to cpus {cpus} on nodes {nodes}; most ranks are on {most}"));
        }
        let others: CpuList = cpus
            .iter()
            .flat_map(|cpu| ranks_on(&owners, s, cpu).iter().copied())
            .filter(|&n| n != s.rank.rank)
            .collect();
        if nodes.len() > 1 && !others.is_empty() {
            return Some(format!(
                "not bound to a node: cpus {cpus} of nodes {nodes} are other ranks', too, and the kernel may move threads \
                 away from their memory"
            ));
        }
        let free = free(s);
        (most_on(s) > usual_sharing && !free.is_empty()).then(|| {
            format!("bound to cpus {cpus}, which rank {others} has, too; no rank is bound to cpus {free} of its host")
        })
    };
    let known = |s: &Summary| !s.rank.cpus.is_empty();
    let rows = classes.iter().enumerate().map(|(at, class)| {
        let of = summaries.iter().zip(&positions).filter(|(s, p)| **p == at && known(s)).map(|(s, _)| *s);
        let mut wrong: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for s in of {
            if let Some(why) = why(s) {
                wrong.entry(why).or_default().push(s.rank.rank);
            }
        }
        let mut lines: Vec<(u32, String)> = wrong
            .into_iter()
            .map(|(why, ranks)| {
                (ranks[0], format!("rank {} is {why}", ranks.iter().copied().collect::<RankList>()))
            })
            .collect();
        lines.sort();
        ClassBinding {
            ranks: class.ranks.clone(),
            of: words_of(class),
            wrong: lines.into_iter().map(|(_, line)| line).collect(),
        }
    });
    let mut hosts: Vec<&str> = summaries.iter().map(|s| s.rank.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let working: Vec<u64> = summaries.iter().filter_map(|s| s.working_threads).collect();
    let given = usual(summaries.iter().map(|s| s.rank.cpus.len()).filter(|&n| n > 0));
    let threads = usual(working.iter().map(|&n| n as usize)).min(given.max(1)).max(1);
    Bindings {
        classes: rows.collect(),
        unknown: summaries.iter().filter(|s| !known(s)).map(|s| s.rank.rank).collect(),
        hosts: hosts.len(),
        threads: (!working.is_empty()).then_some(threads),
    }
}

/// By host and cpu: ranks that may run there.
type Owners<'a> = BTreeMap<&'a str, BTreeMap<u32, Vec<u32>>>;

/// Those that may run on a cpu of a rank's host.
fn ranks_on<'a>(owners: &'a Owners, s: &Summary, cpu: u32) -> &'a [u32] {
    owners.get(s.rank.host.as_str()).and_then(|of_host| of_host.get(&cpu)).map_or(&[], Vec::as_slice)
}

/// What a class has in common, in words.
pub fn words_of(class: &Class) -> String {
    let of = &class.of;
    let findings = match of.findings.is_empty() {
        true => String::new(),
        false => format!(" ({})", of.findings.join(", ")),
    };
    format!("{}, {}, {}{findings}", of.program, bound(of), of.verdict)
}

/// Upper median: more than half of the figures are not above it. 0 of none.
fn usual(figures: impl Iterator<Item = usize>) -> usize {
    let mut all: Vec<usize> = figures.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}
