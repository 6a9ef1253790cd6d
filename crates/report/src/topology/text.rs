//! The terminal's picture: packages as boxes with their nodes, then what is between
//! them (caches, distances, tiers, devices) and what the caller may use.

use super::super::layout::{Page, Style, plural};
use super::{boxes, devices, limits, modules, tables};
use nearfar_machine::cpulist::{IndexList, NodeList};
use nearfar_machine::topology::{Reading, Topology};

/// Wider than this a box is a corridor.
const MAX_WIDTH: usize = 100;

/// The topology as text of at most `width` columns, and never more than 100; `color`
/// adds terminal styles, no meaning.
pub fn to_text(t: &Topology, width: usize, color: bool) -> String {
    let mut page = Page::new(width.min(MAX_WIDTH), color);
    page.headline(Style::Heading, &t.name);
    page.paragraph(&format!("{}; from {}", counts(t), t.source));
    let style = if t.warnings.is_empty() { Style::Good } else { Style::Unsure };
    page.headline(style, &format!("NUMA: {}", t.numa.why));
    page.blank();
    boxes::draw(&mut page, t);
    tables::caches(&mut page, t);
    modules::list(&mut page, t);
    tables::distances(&mut page, t);
    devices::list(&mut page, t);
    page.heading("Kernel and caller");
    settings(&mut page, t);
    if !t.warnings.is_empty() {
        page.heading("Mind");
        for warning in &t.warnings {
            page.bullet(warning);
        }
    }
    page.finish()
}

/// `2 packages, 4 nodes, 32 cores, 64 cpus (2 per core)`.
pub(super) fn counts(t: &Topology) -> String {
    let packages = match &t.packages {
        Some(packages) => plural(packages.len(), "package"),
        None => "packages unknown".to_owned(),
    };
    let cores = match (&t.cores, t.threads_per_core) {
        (Some(cores), Some(threads)) => {
            let cores = plural(cores.len(), "core");
            let each = if threads > 1 { format!(" ({threads} per core)") } else { String::new() };
            format!("{cores}, {}{each}", plural(t.cpus.online.len(), "cpu"))
        }
        _ => format!("{} in an unknown number of cores", plural(t.cpus.online.len(), "cpu")),
    };
    let virtual_machine = if t.virtual_machine == Some(true) { ", a virtual machine" } else { "" };
    format!("{packages}, {}, {cores}{virtual_machine}", plural(t.nodes.len(), "node"))
}

fn list<T>(list: Option<&IndexList<T>>) -> String {
    match list {
        None => "unknown".to_owned(),
        Some(list) if list.is_empty() => "none".to_owned(),
        Some(list) => list.to_string(),
    }
}

fn nodes(ids: Option<&NodeList>) -> String {
    let word = if ids.is_some_and(|l| l.len() == 1) { "node" } else { "nodes" };
    format!("{word} {}", list(ids))
}

fn settings(page: &mut Page, t: &Topology) {
    let unknown = || "unknown".to_owned();
    let s = &t.settings;
    let balancing = match s.numa_balancing {
        Some(0) => "off".to_owned(),
        Some(1) => "on (pages follow their users)".to_owned(),
        Some(2) => "tiering (hot pages move to faster nodes)".to_owned(),
        Some(other) => other.to_string(),
        None => unknown(),
    };
    page.item(0, "settings", &format!(
        "NUMA balancing {balancing}; zone_reclaim_mode {}; transparent huge pages {}; demotion to slower tiers {}",
        s.zone_reclaim_mode.map_or_else(unknown, |m| m.to_string()),
        s.thp.clone().unwrap_or_else(unknown),
        s.demotion.map_or_else(unknown, |d| if d { "on" } else { "off" }.to_owned()),
    ));
    let tiers = t.tiers.as_ref().map(|tiers| {
        let each: Vec<String> =
            tiers.iter().map(|t| format!("tier {}: {}", t.id, nodes(Some(&t.nodes)))).collect();
        if each.is_empty() {
            "none".to_owned()
        } else {
            format!("{} (the first is fastest)", each.join(", "))
        }
    });
    page.item(0, "tiers", &tiers.unwrap_or_else(unknown));
    page.item(
        0,
        "cpus",
        &format!(
            "online {}; offline {}; isolated {}",
            t.cpus.online,
            list(t.cpus.offline.as_ref()),
            list(t.cpus.isolated.as_ref())
        ),
    );
    if !t.cpus_without_node.is_empty() {
        page.item(0, "", &format!("in no node: {}", t.cpus_without_node));
    }
    page.item(
        0,
        "caller",
        &format!(
            "may use cpus {} and memory of {}; policy {}; cgroup {}",
            list(t.allowed.cpus.as_ref()),
            nodes(t.allowed.nodes.as_ref()),
            t.allowed.policy.clone().unwrap_or_else(unknown),
            t.allowed.cgroup.clone().unwrap_or_else(unknown),
        ),
    );
    page.item(0, "limits", &limits::words(&t.allowed.limits));
    prefetchers(page, t);
}

fn prefetchers(page: &mut Page, t: &Topology) {
    let known = match &t.prefetchers {
        Reading::Known(known) => known,
        Reading::Unknown { why } => return page.item(0, "prefetch", &format!("unknown: {why}")),
    };
    let mut label = "prefetch";
    for state in &known.states {
        let whose = if known.states.len() > 1 { format!("cpus {}: ", state.cpus) } else { String::new() };
        let each = match (state.on.as_slice(), state.off.as_slice()) {
            (on, []) => format!("all on ({})", on.join(", ")),
            ([], off) => format!("all off ({})", off.join(", ")),
            (on, off) => format!("off: {}; on: {}", off.join(", "), on.join(", ")),
        };
        page.item(0, std::mem::take(&mut label), &format!("{whose}{each}"));
    }
    if !known.unread.is_empty() {
        page.item(0, label, &format!("unknown of cpus {}, which were not readable", known.unread));
    }
}
