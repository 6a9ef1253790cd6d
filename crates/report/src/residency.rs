//! Writes where a process is: threads, pages, policies, and what differs from what was asked.

use super::layout::{Page, Style, count, left, percent, plural, right, shorten, size};
use super::table::{Form, table};
use super::topology::limits;
use nearfar_analyze::base;
use nearfar_machine::{DistanceClass, NodeId};
use nearfar_observed::residency::activity::{Activity, MIGRATION, PLACEMENT};
use nearfar_observed::residency::numa_maps::Requested;
use nearfar_observed::residency::{Amount, Everyone, How, Kind, Mapping, Memory, Residency, Thread};
use std::collections::BTreeMap;

/// Threads that are shown one by one; more are shown by node and cpus.
const THREADS: usize = 16;
/// Mappings that are shown; the rest is a sum.
const MAPPINGS: usize = 12;
/// Widest column of a number.
const NUMBER: usize = 12;

/// All of a look, in `width` columns.
pub fn to_text(seen: &Residency, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    head(&mut page, seen);
    page.heading("Threads");
    threads(&mut page, &seen.threads);
    page.heading("Memory by node");
    if seen.memory.nodes.is_empty() {
        page.line("  no page is present");
    } else {
        kinds(&mut page, seen);
        page.heading("Mappings, and the policy asked for");
        mappings(&mut page, &seen.memory.mappings);
        page.heading("Large objects in them");
        objects(&mut page, &seen.memory);
        page.heading("Threads beside their own memory (without files)");
        near(&mut page, seen);
    }
    page.heading("Asked for, and is");
    seen.findings.iter().for_each(|f| page.bullet(f));
    if seen.findings.is_empty() {
        let none = match seen.memory.how {
            How::Exact => "pages are where the policies ask for them",
            How::Sampled => "nothing was found; the policies of mappings are unknown (see above)",
        };
        page.bullet(none);
    }
    page.finish()
}

fn head(page: &mut Page, seen: &Residency) {
    let resident = seen.memory.resident_bytes.map_or_else(|| "unknown".to_owned(), size);
    let nodes = seen.nodes_allowed.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    page.headline(
        Style::Heading,
        &format!(
            "{} (pid {}): {}, {resident} resident, may take memory from node {nodes}",
            seen.name,
            seen.pid,
            plural(seen.threads.len(), "thread")
        ),
    );
    page.item(0, "limits", &limits::words(&seen.limits));
    let how = match seen.memory.how {
        How::Exact => "Pages: exact",
        How::Sampled => "Pages: sampled",
    };
    page.paragraph(&format!("{how}: {}; this look took {:.0} ms", seen.memory.why, seen.took_ms));
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |v| v.to_string())
}

fn threads(page: &mut Page, threads: &[Thread]) {
    let mut rows = vec![
        ["tid", "name", "cpu", "L3", "node", "may run on", "bound", "policy", "changes of cpu"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for thread in threads.iter().take(THREADS) {
        rows.push(vec![
            thread.tid.to_string(),
            thread.name.clone(),
            or_unknown(thread.cpu),
            or_unknown(thread.l3),
            or_unknown(thread.node),
            thread.allowed.to_string(),
            if thread.bound { "yes" } else { "no" }.to_owned(),
            or_unknown(thread.policy.as_ref()),
            or_unknown(thread.migrations),
        ]);
    }
    table(page, &rows, Form { to_left: &[1, 5, 7], spare: &[3, 8, 6], names: 2 });
    if threads.len() > THREADS {
        let mut nodes: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        for thread in &threads[THREADS..] {
            *nodes.entry(thread.node).or_insert(0) += 1;
        }
        let list: Vec<String> =
            nodes.iter().map(|(node, n)| format!("{n} on node {}", or_unknown(*node))).collect();
        page.indented(&format!(
            "and {} more: {} (--json has them)",
            threads.len() - THREADS,
            list.join(", ")
        ));
    }
}

/// Bytes, with the interval of an estimate.
fn amount(amount: Option<&Amount>) -> String {
    match amount {
        None => "-".to_owned(),
        Some(Amount { bytes, interval: None, .. }) => size(*bytes),
        Some(Amount { bytes, interval: Some((low, high)), .. }) => {
            format!("{} ({}–{})", size(*bytes), size(*low), size(*high))
        }
    }
}

fn heading(seen: impl Iterator<Item = NodeId>, first: &str, last: &str) -> Vec<String> {
    let mut row = vec![first.to_owned()];
    row.extend(seen.map(|n| format!("node {n}")));
    row.push(last.to_owned());
    row
}

fn kinds(page: &mut Page, seen: &Residency) {
    let memory = &seen.memory;
    let mut rows = vec![heading(memory.nodes.keys().copied(), "", "all")];
    let row = |name: &str, nodes: &BTreeMap<NodeId, Amount>| {
        let mut all = Amount::default();
        nodes.values().for_each(|a| all.add(a));
        let mut row = vec![name.to_owned()];
        row.extend(memory.nodes.keys().map(|n| amount(nodes.get(n))));
        row.push(amount(Some(&all)));
        row
    };
    rows.extend(memory.kinds.iter().map(|(kind, nodes)| row(kind.words(), nodes)));
    rows.push(row("all", &memory.nodes));
    table(page, &rows, Form { to_left: &[0], spare: &[], names: 1 });
    let huge =
        memory.transparent_huge_bytes.map_or_else(|| "unknown, it would take another walk".to_owned(), size);
    page.indented(&format!("of it in transparent huge pages: {huge}"));
}

/// Mappings of one name, kind and policy are one object to a reader.
fn mappings(page: &mut Page, mappings: &[Mapping]) {
    type Key<'a> = (&'a str, Kind, Option<&'a Requested>);
    let mut groups: BTreeMap<Key, (u64, usize, BTreeMap<NodeId, Amount>)> = BTreeMap::new();
    for mapping in mappings {
        let key = (mapping.name.as_str(), mapping.kind, mapping.requested.as_ref());
        let group = groups.entry(key).or_insert_with(|| (mapping.start, 0, BTreeMap::new()));
        group.1 += 1;
        for (&node, amount) in &mapping.nodes {
            group.2.entry(node).or_default().add(amount);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    let bytes = |nodes: &BTreeMap<NodeId, Amount>| nodes.values().map(|a| a.bytes).sum::<u64>();
    groups.sort_by_key(|(_, (_, _, nodes))| std::cmp::Reverse(bytes(nodes)));
    let nodes: BTreeMap<NodeId, ()> =
        groups.iter().flat_map(|(_, (_, _, nodes))| nodes.keys().map(|&n| (n, ()))).collect();
    let mut rows = vec![heading(nodes.keys().copied(), "object", "asked for")];
    rows[0].insert(1, "kind".to_owned());
    let most = page.width.saturating_sub(40 + NUMBER * nodes.len()).max(20);
    for ((name, kind, requested), (start, many, by_node)) in groups.iter().take(MAPPINGS) {
        let times = if *many > 1 { format!(" ×{many}") } else { String::new() };
        let name = if name.is_empty() { format!("at {start:#x}") } else { (*name).to_owned() };
        let mut row = vec![format!("{}{times}", shorten(&name, most)), kind.words().to_owned()];
        row.extend(nodes.keys().map(|n| amount(by_node.get(n))));
        row.push(or_unknown(*requested));
        rows.push(row);
    }
    let last = nodes.len() + 2;
    table(page, &rows, Form { to_left: &[0, 1, last], spare: &[1], names: 1 });
    if groups.len() > MAPPINGS {
        let rest: u64 = groups[MAPPINGS..].iter().map(|(_, (_, _, nodes))| bytes(nodes)).sum();
        page.indented(&format!("and {} more with {} (--json has them)", groups.len() - MAPPINGS, size(rest)));
    }
}

fn objects(page: &mut Page, memory: &Memory) {
    let nodes: BTreeMap<NodeId, ()> =
        memory.objects.iter().flat_map(|o| o.nodes.keys().map(|&n| (n, ()))).collect();
    let mut rows = vec![heading(nodes.keys().copied(), "object", "asked for")];
    ["size", "from"].iter().for_each(|h| rows[0].insert(1, (*h).to_owned()));
    let most = page.width.saturating_sub(40 + NUMBER * nodes.len()).max(20) / 2;
    for object in memory.objects.iter().take(MAPPINGS) {
        let from = match object.line {
            0 => base(&object.module).to_owned(),
            line => format!("{}:{line}", base(&object.file)),
        };
        let mut row = vec![shorten(&object.name, most), shorten(&from, most), size(object.bytes)];
        row.extend(nodes.keys().map(|n| amount(object.nodes.get(n))));
        row.push(match &object.requested {
            Some(policies) => policies.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            None => "unknown".to_owned(),
        });
        rows.push(row);
    }
    if memory.objects.is_empty() {
        page.line("  no static variable of 64 KiB or more has pages");
    } else {
        table(page, &rows, Form { to_left: &[0, 1, nodes.len() + 3], spare: &[], names: 1 });
    }
    if memory.objects.len() > MAPPINGS {
        page.indented(&format!("and {} more (--json has them)", memory.objects.len() - MAPPINGS));
    }
    memory.without.iter().for_each(|why| page.bullet(why));
}

fn class_words(class: DistanceClass) -> &'static str {
    match class {
        DistanceClass::Local => "on the same node",
        DistanceClass::SameSocket => "on another node of the socket",
        DistanceClass::OtherSocket => "on another socket",
        DistanceClass::CpuLess => "on a node without cpus",
    }
}

fn near(page: &mut Page, seen: &Residency) {
    for near in &seen.near {
        let all: u64 = near.bytes.values().sum();
        let parts: Vec<String> = near
            .bytes
            .iter()
            .map(|(class, &b)| format!("{} {}", percent(Some(b as f64 / all as f64)), class_words(*class)))
            .collect();
        let parts = if all == 0 { "none".to_owned() } else { parts.join(", ") };
        page.bullet(&format!("node {}, {}: {parts}", near.node, plural(near.threads, "thread")));
    }
    if seen.near.is_empty() {
        page.bullet("unknown: no thread's cpu belongs to a node");
    }
}

/// What is different from an earlier look, in a few lines.
pub fn changes_to_text(now: &Residency, then: &Residency, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.heading(&format!("After {:.1} s", now.at_seconds));
    let nodes: BTreeMap<NodeId, ()> =
        now.memory.nodes.keys().chain(then.memory.nodes.keys()).map(|&n| (n, ())).collect();
    let bytes = |seen: &Residency, node| seen.memory.nodes.get(node).map_or(0, |a| a.bytes);
    let parts: Vec<String> = nodes
        .keys()
        .map(|node| {
            let (before, after) = (bytes(then, node), bytes(now, node));
            let change = match after.cmp(&before) {
                std::cmp::Ordering::Equal => String::new(),
                std::cmp::Ordering::Greater => format!(" (+{})", size(after - before)),
                std::cmp::Ordering::Less => format!(" (−{})", size(before - after)),
            };
            format!("node {node} {}{change}", size(after))
        })
        .collect();
    page.bullet(&format!("memory: {}", parts.join(", ")));
    let earlier: BTreeMap<u32, &Thread> = then.threads.iter().map(|t| (t.tid, t)).collect();
    let known = || now.threads.iter().filter_map(|t| Some((t, *earlier.get(&t.tid)?)));
    let moved = known().filter(|(t, e)| t.node != e.node).count();
    let new = now.threads.len() - known().count();
    let gone = then.threads.len() - known().count();
    page.bullet(&format!(
        "threads: {}, {new} new, {gone} ended, {moved} on another node than before",
        now.threads.len()
    ));
    let sum = |of: fn(&Thread) -> Option<u64>| {
        known().map(|(t, e)| Some(of(t)?.saturating_sub(of(e)?))).sum::<Option<u64>>()
    };
    page.bullet(&format!(
        "they changed their cpu {} times; AutoNUMA moved {} pages for them",
        or_unknown(sum(|t| t.migrations)),
        or_unknown(sum(|t| t.pages_migrated))
    ));
    if now.findings != then.findings {
        now.findings.iter().for_each(|f| page.bullet(f));
    }
    page.finish()
}

fn counter(page: &mut Page, name: &str, n: &str, what: &str) {
    page.hanging(format!("  {}{}  ", left(name, 24), right(n, NUMBER)), NUMBER + 28, what);
}

/// What the whole system did meanwhile.
pub fn activity_to_text(activity: &Activity, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.heading("Meanwhile, of all processes together");
    for (name, what) in MIGRATION {
        let n = activity.migration.get(name).map_or_else(|| "unknown".to_owned(), |&n| count(n));
        counter(&mut page, name, &n, what);
    }
    for (node, counts) in &activity.placement {
        for (name, what) in PLACEMENT {
            let n = counts.get(name).map_or_else(|| "unknown".to_owned(), |&n| count(n));
            let label = format!("node {node} {name}");
            counter(&mut page, &label, &n, what);
        }
    }
    page.finish()
}

/// A line per process.
pub fn everyone_to_text(everyone: &Everyone, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let nodes: BTreeMap<NodeId, ()> =
        everyone.processes.iter().flat_map(|p| p.nodes.keys().map(|&n| (n, ()))).collect();
    let mut rows = vec![heading(nodes.keys().copied(), "pid", "policies")];
    ["name", "threads", "on node"].iter().rev().for_each(|h| rows[0].insert(1, (*h).to_owned()));
    for process in &everyone.processes {
        let mut row = vec![
            process.pid.to_string(),
            process.name.clone(),
            process.threads.to_string(),
            match process.thread_nodes.is_empty() {
                true => "unknown".to_owned(),
                false => process.thread_nodes.to_string(),
            },
        ];
        let about = if process.how == How::Sampled { "~" } else { "" };
        row.extend(
            nodes
                .keys()
                .map(|n| process.nodes.get(n).map_or("-".into(), |a| format!("{about}{}", size(a.bytes)))),
        );
        row.push(match &process.policies {
            Some(policies) => policies.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            None => "unknown".to_owned(),
        });
        rows.push(row);
    }
    let last = nodes.len() + 4;
    table(&mut page, &rows, Form { to_left: &[1, last], spare: &[], names: 2 });
    if everyone.processes.iter().any(|p| p.how == How::Sampled) {
        page.indented("~ estimated from random pages; nearfar where PID has the interval");
    }
    let refused = everyone.not_permitted.len();
    if refused > 0 {
        let processes = if refused == 1 { "process" } else { "processes" };
        page.bullet(&format!(
            "{refused} {processes} of other users may not be looked at and are left out; as root: sudo nearfar where --all"
        ));
    }
    page.finish()
}
