//! The objects of a process and where their pages are.

use super::super::tabs::column;
use super::super::{Cell, Column, Row, Table, Unit};
use super::PAGES;
use crate::residency::Residency;
use nearfar_machine::{Machine, NodeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
/// The table of a process's mappings and static variables.
pub fn objects(seen: &Residency, machine: &Machine) -> Table {
    use Unit::{Bytes, Share, Text};
    let nodes: Vec<NodeId> = machine.nodes.iter().map(|n| n.id).collect();
    let mut columns = vec![
        column("address", "address", Text, "first byte", "/proc/PID/maps"),
        column("kind", "kind", Text, "what it is of", "/proc/PID/maps, numa_maps"),
        column("name", "name", Text, "path, kernel's name or variable", "/proc/PID/maps, symbols"),
        column("bytes", "present", Bytes, "bytes of its pages that are in memory", PAGES),
        column(
            "far_pages",
            "far pages",
            Share,
            "part of its pages on other nodes than the process's threads, each thread alike",
            PAGES,
        ),
        column("policy", "policy", Text, "memory policy asked for", "numa_maps"),
    ];
    columns.extend(nodes.iter().map(bytes_on));
    let mut on: BTreeMap<NodeId, f64> = BTreeMap::new();
    for node in seen.threads.iter().filter_map(|t| t.node) {
        *on.entry(node).or_insert(0.0) += 1.0;
    }
    let row = |id: u64,
               kind: &str,
               name: String,
               policy: Option<String>,
               amounts: &BTreeMap<NodeId, crate::residency::Amount>| {
        let pages: BTreeMap<NodeId, u64> = amounts.iter().map(|(n, a)| (*n, a.bytes)).collect();
        let mut cells: Vec<Cell> = vec![
            format!("{id:x}").into(),
            kind.into(),
            name.into(),
            (pages.values().sum::<u64>() as f64).into(),
            far(&pages, &on).into(),
            policy.map_or(Cell::Unknown, Cell::from),
        ];
        cells.extend(nodes.iter().map(|n| Cell::from(pages.get(n).copied().unwrap_or(0) as f64)));
        Row { id, cells }
    };
    let mappings = seen.memory.mappings.iter().map(|m| {
        let name = if m.name.is_empty() { "(no name)".to_owned() } else { m.name.clone() };
        row(m.start, m.kind.words(), name, m.requested.as_ref().map(ToString::to_string), &m.nodes)
    });
    let variables = seen.memory.objects.iter().map(|o| {
        let policy =
            o.requested.as_ref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        row(o.start | 1 << 63, "variable", o.name.clone(), policy, &o.nodes)
    });
    let mut rows: Vec<Row> = mappings.chain(variables).collect();
    for row in &mut rows {
        // Marked above to be told from the mapping at the same address.
        row.cells[0] = format!("{:x}", row.id & !(1 << 63)).into();
    }
    let mut table = Table { columns, rows, main: 3, ..Table::default() };
    table.explain(
        "policy",
        "only a walk of numa_maps tells it, and this process is so large that its pages are sampled",
    );
    table.explain("far_pages", "no page is present, or no thread's node is known");
    table
}

/// The column of the bytes that are on a node.
pub(super) fn bytes_on(node: &NodeId) -> Column {
    Column {
        key: format!("node{node}").into(),
        head: format!("on {node}").into(),
        unit: Unit::Bytes,
        what: Cow::Owned(format!("bytes of its pages on node {node}")),
        source: PAGES.into(),
    }
}

/// Part of the pages that is on other nodes than the threads' time.
pub(super) fn far(pages: &BTreeMap<NodeId, u64>, on: &BTreeMap<NodeId, f64>) -> Option<f64> {
    let all: f64 = pages.values().map(|b| *b as f64).sum();
    let time: f64 = on.values().sum();
    if all <= 0.0 || time <= 0.0 {
        return None;
    }
    let near: f64 = on.iter().map(|(n, t)| t / time * pages.get(n).copied().unwrap_or(0) as f64 / all).sum();
    Some((1.0 - near).clamp(0.0, 1.0))
}
