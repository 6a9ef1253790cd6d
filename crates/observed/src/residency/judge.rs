//! Sums, distances, and where what is differs from what was asked for.

use super::numa_maps::{Mode, Requested};
use super::{Amount, How, Kind, Mapping, Near, Residency};
use nearfar_figures::percent::{change, percent};
use nearfar_figures::sizes::size;
use nearfar_machine::cpulist::NodeList;
use nearfar_machine::{Machine, NodeId};
use std::collections::BTreeMap;

/// Share by which a node's part of interleaved memory may differ from an even part.
const UNEVEN: f64 = 0.05;
/// Memory that may be elsewhere than asked without a word: a huge page of x86, which also is the step in
/// which interleaving proceeds where pages are huge.
const LITTLE: u64 = 2 << 20;
/// Share of memory placed by first touch that may be on nodes without threads: stacks of threads that
/// have moved, and what a loader left.
const FAR: f64 = 0.05;

/// Fills the sums, the distances and the findings.
pub fn judge(mut seen: Residency, machine: &Machine) -> Residency {
    let mut nodes: BTreeMap<NodeId, Amount> = BTreeMap::new();
    let mut kinds: BTreeMap<Kind, BTreeMap<NodeId, Amount>> = BTreeMap::new();
    for mapping in &seen.memory.mappings {
        for (&node, amount) in &mapping.nodes {
            nodes.entry(node).or_default().add(amount);
            kinds.entry(mapping.kind).or_default().entry(node).or_default().add(amount);
        }
    }
    (seen.memory.nodes, seen.memory.kinds) = (nodes, kinds);
    seen.near = near(&seen, machine);
    seen.findings = findings(&seen, machine);
    seen
}

/// Bytes by node of mappings that are not of files.
fn own<'a>(mappings: impl Iterator<Item = &'a Mapping>) -> BTreeMap<NodeId, u64> {
    let mut all = BTreeMap::new();
    for mapping in mappings.filter(|m| m.kind != Kind::File) {
        for (&node, amount) in &mapping.nodes {
            *all.entry(node).or_insert(0) += amount.bytes;
        }
    }
    all
}

fn near(seen: &Residency, machine: &Machine) -> Vec<Near> {
    let memory = own(seen.memory.mappings.iter());
    let mut threads: BTreeMap<NodeId, usize> = BTreeMap::new();
    for node in seen.threads.iter().filter_map(|t| t.node) {
        *threads.entry(node).or_insert(0) += 1;
    }
    let from = |(node, threads)| {
        let mut bytes = BTreeMap::new();
        for (&page_node, &amount) in memory.iter().filter(|(_, b)| **b > 0) {
            *bytes.entry(machine.distance_class(node, page_node)).or_insert(0) += amount;
        }
        Near { node, threads, bytes }
    };
    threads.into_iter().map(from).collect()
}

fn findings(seen: &Residency, machine: &Machine) -> Vec<String> {
    let mut list = Vec::new();
    // Mappings of one name and policy are one to a reader: glibc's arenas, an array that mprotect cut.
    let mut groups: BTreeMap<(&Requested, Kind, &str), BTreeMap<NodeId, u64>> = BTreeMap::new();
    for mapping in seen.memory.mappings.iter().filter(|m| m.kind != Kind::File) {
        let Some(requested) = &mapping.requested else { continue };
        let group = groups.entry((requested, mapping.kind, &mapping.name)).or_default();
        for (&node, amount) in &mapping.nodes {
            *group.entry(node).or_insert(0) += amount.bytes;
        }
    }
    for ((requested, kind, name), nodes) in &groups {
        let what = if name.is_empty() { format!("{} memory", kind.words()) } else { (*name).to_owned() };
        list.extend(difference(&what, requested, nodes));
    }
    list.extend(first_touch(seen, machine));
    list
}

fn outside(nodes: &BTreeMap<NodeId, u64>, inside: &NodeList) -> u64 {
    nodes.iter().filter(|(n, _)| !inside.contains(**n)).map(|(_, b)| b).sum()
}

/// What a policy asked for and where the pages are, if these differ.
fn difference(what: &str, requested: &Requested, nodes: &BTreeMap<NodeId, u64>) -> Option<String> {
    let all: u64 = nodes.values().sum();
    let share = |part: u64| percent(part as f64 / all.max(1) as f64);
    let named = &requested.nodes;
    if requested.only().is_some() {
        let out = outside(nodes, named);
        if out > 0 {
            return Some(format!(
                "{what}: asked for {requested}, {} of {} ({}) are on other nodes. A policy places new pages \
                 only: these were there before it, or were moved. `migratepages` or mbind with MPOL_MF_MOVE moves \
                 them",
                size(out),
                size(all),
                share(out)
            ));
        }
    }
    match requested.mode {
        Mode::Prefer => {
            let out = outside(nodes, named);
            (out > LITTLE).then(|| {
                format!(
                    "{what}: asked for {requested}, {} of {} ({}) are on other nodes: the preferred ones were \
                     full, or the pages were there before",
                    size(out),
                    size(all),
                    share(out)
                )
            })
        }
        Mode::Interleave if named.len() > 1 => {
            let fair = all as f64 / named.len() as f64;
            let of = |node: NodeId| nodes.get(&node).copied().unwrap_or(0);
            let off = |node: NodeId| of(node) as f64 - fair;
            let worst = named.iter().max_by(|&a, &b| off(a).abs().total_cmp(&off(b).abs()))?;
            let uneven = off(worst).abs() > UNEVEN * fair && off(worst).abs() > LITTLE as f64;
            uneven.then(|| {
                format!(
                    "{what}: asked for {requested}, but node {worst} has {} where an even part is {} ({}): a \
                     node was full, or pages were there before",
                    size(of(worst)),
                    size(fair as u64),
                    change(off(worst) / fair)
                )
            })
        }
        _ => None,
    }
}

/// Memory that is where it was first touched, beside where the threads are now.
fn first_touch(seen: &Residency, machine: &Machine) -> Option<String> {
    let threads: NodeList = seen.threads.iter().filter_map(|t| t.node).collect();
    // Without the policies of mappings, what the threads would place counts: all of them first touch.
    let by_threads = || seen.threads.iter().all(|t| t.policy.as_ref().is_some_and(Requested::first_touch));
    let sampled = seen.memory.how == How::Sampled;
    if machine.nodes.len() < 2 || threads.is_empty() || (sampled && !by_threads()) {
        return None;
    }
    let touched = |m: &&Mapping| match &m.requested {
        Some(requested) => requested.first_touch(),
        None => sampled,
    };
    let nodes = own(seen.memory.mappings.iter().filter(touched));
    let (all, out) = (nodes.values().sum::<u64>(), outside(&nodes, &threads));
    if out <= LITTLE || out as f64 <= FAR * all as f64 {
        return None;
    }
    let page_nodes: NodeList = nodes.keys().copied().filter(|n| !threads.contains(*n)).collect();
    let (about, unless) = match sampled {
        true => ("about ", ", unless a mapping has a policy of its own, which was not asked"),
        false => ("", ""),
    };
    Some(format!(
        "{about}{} of {} ({}) placed by first touch are on node {page_nodes}, where no thread ran last (threads: node \
         {threads}){unless}: first touched there, or the threads have moved. `nearfar record` finds who touched them",
        size(out),
        size(all),
        percent(out as f64 / all as f64)
    ))
}

#[cfg(test)]
mod tests;
