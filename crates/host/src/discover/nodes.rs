//! Nodes: numbers with gaps, nodes without cpus or memory, and the ways in which
//! sysfs is wrong.

use super::node_files::{Found, NODE, memory};
use super::tree::Tree;
use super::{cpus, without_sys};
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::{NodeId, NodeKind, NumaNode};

/// The firmware's distance of a node to itself, fixed by ACPI.
const LOCAL: u32 = 10;

pub(super) fn read(tree: &Tree, online: &CpuList, warnings: &mut Vec<String>) -> Found {
    let present: NodeList = tree.numbered(NODE, "node");
    // Old kernels have no list of online nodes; then the folders are the list.
    let listed = tree.list(&format!("{NODE}/online")).filter(|l| !l.is_empty());
    let order = listed.unwrap_or_else(|| present.clone());
    let ids: NodeList = order.iter().filter(|&n| present.contains(n)).collect();
    if ids.is_empty() {
        if let Some(found) = without_sys::nodes(tree, online, warnings) {
            return found;
        }
        warnings.push(format!(
            "{} has no nodes (a kernel without NUMA, or a container that hides them): \
             taken for one node with all cpus",
            tree.shown(NODE)
        ));
        return one_node(tree, online, &[]);
    }
    let mut nodes: Vec<NumaNode> = ids
        .iter()
        .map(|id| NumaNode {
            id,
            cpus: node_cpus(tree, id, online, warnings),
            memory_bytes: memory(tree, &[id], "MemTotal:"),
            kind: NodeKind::Dram,
            package: None,
        })
        .collect();
    if let Some((a, b, cpu)) = shared_cpu(&nodes) {
        // Some hypervisors and container runtimes list every cpu in every node.
        warnings.push(format!(
            "cpu {cpu} is in node {a} and in node {b} according to {}: nodes that share cpus \
             cannot be told apart, so all are taken for one node",
            tree.shown(NODE)
        ));
        return one_node(tree, online, ids.as_slice());
    }
    let added = by_their_cpus(tree, online, &order, &mut nodes, warnings);
    let missing: NodeList = order.iter().filter(|&n| !nodes.iter().any(|node| node.id == n)).collect();
    if !missing.is_empty() {
        warnings
            .push(format!("node {missing} is online but has no folder in {}: left out", tree.shown(NODE)));
    }
    let alone = nodes.iter().filter(|n| !n.cpus.is_empty()).count() == 1;
    for node in &mut nodes {
        node.package = package(tree, node, alone, warnings);
    }
    kinds(tree, online, &mut nodes, warnings);
    let without_node: CpuList =
        online.iter().filter(|&c| !nodes.iter().any(|n| n.cpus.contains(c))).collect();
    if !without_node.is_empty() {
        warnings.push(format!("cpu {without_node} is in no node: what threads do there counts as unknown"));
    }
    let distances = distances(tree, &order, &nodes, &added, warnings);
    let folders = nodes.iter().map(|n| vec![n.id]).collect();
    Found { nodes, distances, folders }
}

fn one_node(tree: &Tree, online: &CpuList, folders: &[NodeId]) -> Found {
    let mut node = NumaNode {
        id: folders.first().copied().unwrap_or(0),
        cpus: online.clone(),
        memory_bytes: memory(tree, folders, "MemTotal:"),
        kind: NodeKind::Dram,
        package: None,
    };
    node.package = package(tree, &node, true, &mut Vec::new());
    Found { nodes: vec![node], distances: vec![vec![10]], folders: vec![folders.to_vec()] }
}

/// The online cpus of a node, from its list, its mask, or its links to cpus.
fn node_cpus(tree: &Tree, id: u32, online: &CpuList, warnings: &mut Vec<String>) -> CpuList {
    let folder = format!("{NODE}/node{id}");
    let file = format!("{folder}/cpulist");
    let listed = tree.list_or_mask(&file, &format!("{folder}/cpumap"));
    let cpus = listed.unwrap_or_else(|| {
        let links: CpuList = tree.numbered(&folder, "cpu");
        if let (true, Some(text)) = (links.is_empty(), tree.text(&file)) {
            warnings.push(format!(
                "{} holds `{text}`, which is not a list of cpus: which cpus node {id} has is unknown",
                tree.shown(&file)
            ));
        }
        links
    });
    cpus.iter().filter(|&c| online.contains(c)).collect()
}

/// Two nodes that list the same cpu.
fn shared_cpu(nodes: &[NumaNode]) -> Option<(u32, u32, u32)> {
    nodes.iter().enumerate().find_map(|(i, a)| {
        let pair = |b: &NumaNode| Some((a.id, b.id, a.cpus.first_common(&b.cpus)?));
        nodes[i + 1..].iter().find_map(pair)
    })
}

/// The package that all of a node's cpus are in. `alone`: it is the only one with cpus.
fn package(tree: &Tree, node: &NumaNode, alone: bool, warnings: &mut Vec<String>) -> Option<u32> {
    let first = cpus::package(tree, node.cpus.first()?)?;
    let other = node.cpus.iter().filter_map(|c| cpus::package(tree, c)).find(|&p| p != first);
    if let Some(other) = other {
        let id = node.id;
        warnings.push(if alone {
            format!(
                "node {id} spans packages {first} and {other}: the firmware interleaves memory over \
                 sockets (NUMA off), or a hypervisor hides where it is, or the sockets share one memory (a \
                 front-side bus); far accesses cannot be told from near ones here"
            )
        } else {
            format!(
                "node {id} spans packages {first} and {other}: one of them has no memory of its own, or a \
                 hypervisor shows sockets that do not exist; which of the node's cpus are near its memory \
                 cannot be told"
            )
        });
        return None;
    }
    Some(first)
}

/// What the memory of nodes without cpus is, where a driver tells.
fn kinds(tree: &Tree, online: &CpuList, nodes: &mut [NumaNode], warnings: &mut Vec<String>) {
    let gpu: Vec<u32> = tree
        .names("proc/driver/nvidia/gpus")
        .iter()
        .filter_map(|g| tree.text(&format!("proc/driver/nvidia/gpus/{g}/numa_status")))
        .filter_map(|s| {
            let line = s.lines().find_map(|l| l.strip_prefix("Node:"))?;
            line.trim().parse().ok()
        })
        .collect();
    let dax: Vec<(u32, NodeKind)> = tree
        .names("sys/bus/dax/devices")
        .iter()
        .filter_map(|d| {
            let device = format!("sys/bus/dax/devices/{d}");
            let node = tree.parsed(&format!("{device}/target_node"))?;
            let path = tree.canonical(&device)?;
            let path = path.to_string_lossy();
            // The device's place tells its bus: ndbus is the NVDIMM bus.
            let kind = match () {
                () if path.contains("/ndbus") => NodeKind::Pmem,
                () if path.contains("/cxl") || path.contains("region") => NodeKind::Cxl,
                () => return None,
            };
            Some((node, kind))
        })
        .collect();
    for node in nodes.iter_mut().filter(|n| n.cpus.is_empty()) {
        if gpu.contains(&node.id) {
            node.kind = NodeKind::Gpu;
        } else if let Some(&(_, kind)) = dax.iter().find(|(n, _)| *n == node.id) {
            node.kind = kind;
        } else if node.memory_bytes.is_some_and(|b| b > 0) {
            let present = cpus::present(tree).unwrap_or_default();
            let offline: CpuList = present.iter().filter(|&c| !online.contains(c)).collect();
            // A cpu that is switched off is in no node.
            warnings.push(match offline.is_empty() {
                true => format!(
                    "node {} has memory but no cpus, and nothing says what memory it is (CXL, HBM, …)",
                    node.id
                ),
                false => format!(
                    "node {} has memory but no cpus that are online: {offline} are offline, and may be its; or it is \
                     other memory (CXL, HBM, …), which nothing says",
                    node.id
                ),
            });
        }
    }
}

/// Adds the nodes that no folder or list of online nodes has, but links of online cpus: their memory is switched off, or a
/// sandbox hides their folder. Their cpus would be in no node, and their package without one.
fn by_their_cpus(
    tree: &Tree,
    online: &CpuList,
    order: &NodeList,
    nodes: &mut Vec<NumaNode>,
    warnings: &mut Vec<String>,
) -> NodeList {
    let listed = |nodes: &[NumaNode], cpu: u32| nodes.iter().any(|n| n.cpus.contains(cpu));
    let mut found: Vec<(NodeId, u32)> = Vec::new();
    for cpu in online.iter().filter(|&cpu| !listed(nodes, cpu)) {
        let linked: NodeList = tree.numbered(&format!("{}/cpu{cpu}", cpus::CPU), "node");
        // A node that is there says itself which cpus it has.
        found.extend(linked.first().filter(|&id| !nodes.iter().any(|n| n.id == id)).map(|id| (id, cpu)));
    }
    found.sort_unstable();
    for of_node in found.chunk_by(|a, b| a.0 == b.0) {
        let id = of_node[0].0;
        let own: CpuList = of_node.iter().map(|&(_, cpu)| cpu).collect();
        let online = order.contains(id);
        warnings.push(match online {
            true => format!(
                "node {id} is online but has no folder in {}: of it only its cpus are known",
                tree.shown(NODE)
            ),
            false => format!(
                "node {id} is not online, but its cpus {own} are: it has no memory, so theirs is other nodes'"
            ),
        });
        let memory_bytes = if online { None } else { Some(0) };
        nodes.push(NumaNode { id, cpus: own, memory_bytes, kind: NodeKind::Dram, package: None });
    }
    nodes.sort_by_key(|n| n.id);
    found.into_iter().map(|(id, _)| id).collect()
}

/// Rows and columns in the order of `nodes`; the rows of `added` nodes are the columns of the others, as there is no file of
/// theirs and no firmware was seen whose distances differ by direction. The kernel writes a column per online
/// node, in ascending order, with no gaps for numbers that do not exist.
fn distances(
    tree: &Tree,
    order: &NodeList,
    nodes: &[NumaNode],
    added: &NodeList,
    warnings: &mut Vec<String>,
) -> Vec<Vec<u32>> {
    let with_added: NodeList = order.iter().chain(added.iter()).collect();
    let mut rows: Vec<Vec<Option<u32>>> = Vec::new();
    for node in nodes {
        if added.contains(node.id) {
            rows.push(Vec::new());
            continue;
        }
        let file = format!("{NODE}/node{}/distance", node.id);
        let Some(text) = tree.text(&file) else {
            warnings.push(format!("{} cannot be read: distances are unknown", tree.shown(&file)));
            return Vec::new();
        };
        let row: Option<Vec<u32>> = text.split_whitespace().map(|d| d.parse().ok()).collect();
        let columns =
            row.as_ref().and_then(|r| [order, &with_added].into_iter().find(|c| c.len() == r.len()));
        let (Some(row), Some(columns)) = (row, columns) else {
            warnings.push(format!(
                "{} holds `{text}`, not one distance for each of the {} online nodes: distances \
                 are unknown",
                tree.shown(&file),
                order.len()
            ));
            return Vec::new();
        };
        let known: Vec<(NodeId, u32)> = columns.iter().zip(row).collect();
        let to = |n: &NumaNode| known.iter().find(|(id, _)| *id == n.id).map(|&(_, distance)| distance);
        rows.push(nodes.iter().map(to).collect());
    }
    let at = |row: usize, column: usize| rows[row].get(column).copied().flatten();
    let to = |a: usize, b: usize| at(a, b).or(if a == b { Some(LOCAL) } else { at(b, a) });
    let filled: Option<Vec<Vec<u32>>> =
        (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| to(a, b)).collect()).collect();
    if filled.is_none() {
        warnings.push(format!("nothing says how far node {added} is from others: distances are unknown"));
    }
    filled.unwrap_or_default()
}
