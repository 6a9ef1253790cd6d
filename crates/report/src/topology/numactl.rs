//! The text of `numactl -H`, for scripts that read it.

use nearfar_machine::cpulist::NodeList;
use nearfar_machine::topology::Topology;
use std::fmt::Write as _;

/// Nodes, cpus, sizes and distances as numactl 2.0.16 writes them. Sizes are in
/// MiB, which numactl calls MB, rounded down.
pub fn to_numactl(t: &Topology) -> String {
    let mut out = String::new();
    let ids: NodeList = t.nodes.iter().map(|n| n.id).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "available: {} nodes ({ids})", t.nodes.len());
    for node in &t.nodes {
        let cpus: String = node.cpus.iter().map(|c| format!(" {c}")).collect();
        let size =
            |kb: Option<u64>| kb.map_or("<not available>".to_owned(), |kb| format!("{} MB", kb / 1024));
        let _ = writeln!(out, "node {} cpus:{cpus}", node.id);
        let _ = writeln!(out, "node {} size: {}", node.id, size(node.memory_kb));
        let _ = writeln!(out, "node {} free: {}", node.id, size(node.free_kb));
    }
    if t.nodes.iter().any(|n| n.distances.len() != t.nodes.len()) {
        out.push_str("No distance information available.\n");
        return out;
    }
    // C's "% 3d": three columns, at least one of them blank.
    let cell = |n: u32| format!("{:>3}", format!(" {n}"));
    let header: String = t.nodes.iter().map(|n| cell(n.id) + " ").collect();
    let _ = writeln!(out, "node distances:\nnode {header}");
    for node in &t.nodes {
        let row: String = node.distances.values().map(|&d| cell(d) + " ").collect();
        let _ = writeln!(out, "{}: {row}", cell(node.id));
    }
    out
}
