//! The tables that a host and a recording have in common: same columns, other sources.

use super::{Cell, Column, Row, Table, Unit};
use nearfar_machine::NodeId;
use std::borrow::Cow;

/// A column with texts that are known beforehand.
pub(super) fn column(
    key: &'static str,
    head: &'static str,
    unit: Unit,
    what: &'static str,
    source: impl Into<Cow<'static, str>>,
) -> Column {
    Column { key: key.into(), head: head.into(), unit, what: what.into(), source: source.into() }
}

/// The number of something per second.
pub(super) fn per_second(count: Option<f64>, interval_s: f64) -> Cell {
    count.map(|c| c / interval_s).into()
}

/// A part of a sum; `None` if the sum is nothing.
pub(super) fn share(part: Option<f64>, rest: Option<f64>) -> Option<f64> {
    let (part, rest) = (part?, rest?);
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// What one cpu did in the interval: counts, not rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Core {
    pub cpu: u32,
    pub node: Option<NodeId>,
    pub busy: Option<f64>,
    pub stolen: Option<f64>,
    pub cycles: Option<f64>,
    pub instructions: Option<f64>,
    pub l2_hits: Option<f64>,
    pub l2_misses: Option<f64>,
    pub l3_hits: Option<f64>,
    pub l3_misses: Option<f64>,
    pub local_lines: Option<f64>,
    pub remote_lines: Option<f64>,
}

/// Where the numbers of cores come from.
pub(super) struct CoreSources {
    pub time: &'static str,
    pub cycles: String,
    pub caches: String,
    pub lines: String,
}

/// The table of cores.
pub(super) fn cores(cores: &[Core], interval_s: f64, from: &CoreSources) -> Table {
    use Unit::{PerSecond, Ratio, Share, Text};
    let (cycles, caches, lines) = (from.cycles.clone(), from.caches.clone(), from.lines.clone());
    let columns = vec![
        column("cpu", "cpu", Text, "kernel index of the hardware thread (P#)", "sysfs"),
        column("node", "node", Text, "NUMA node of the cpu", "sysfs"),
        column("busy", "busy", Share, "part of the interval in which the cpu worked", from.time),
        column("stolen", "stolen", Share, "part of the interval that the hypervisor took", from.time),
        column("ipc", "IPC", Ratio, "instructions per cycle", cycles.clone()),
        column("instructions", "instr/s", PerSecond, "instructions that retired", cycles.clone()),
        column("cycles", "cycles/s", PerSecond, "cycles in which the cpu was not halted", cycles),
        column(
            "l2_hit",
            "L2 hit",
            Share,
            "part of what missed the first level that the second served",
            caches.clone(),
        ),
        column(
            "l3_hit",
            "L3 hit",
            Share,
            "part of what missed the second level that the third served",
            caches,
        ),
        column("local", "local/s", PerSecond, "lines from the memory of the cpu's own node", lines.clone()),
        column("remote", "remote/s", PerSecond, "lines from the memory of other nodes", lines.clone()),
        column(
            "remote_share",
            "remote",
            Share,
            "part of the lines from memory that came from other nodes",
            lines,
        ),
    ];
    let row = |c: &Core| Row {
        id: u64::from(c.cpu),
        cells: vec![
            c.cpu.to_string().into(),
            c.node.map_or(Cell::Unknown, |n| n.to_string().into()),
            c.busy.into(),
            c.stolen.into(),
            c.instructions.zip(c.cycles).map(|(i, c)| i / c).into(),
            per_second(c.instructions, interval_s),
            per_second(c.cycles, interval_s),
            share(c.l2_hits, c.l2_misses).into(),
            share(c.l3_hits, c.l3_misses).into(),
            per_second(c.local_lines, interval_s),
            per_second(c.remote_lines, interval_s),
            share(c.remote_lines, c.local_lines).into(),
        ],
    };
    let mut table = Table { columns, rows: cores.iter().map(row).collect(), main: 2, ..Table::default() };
    table.explain("node", "no node of the machine lists this cpu");
    table
}

/// What one node did in the interval: counts, not rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub id: NodeId,
    pub cpus: String,
    pub busy: Option<f64>,
    pub total: Option<f64>,
    pub free: Option<f64>,
    pub anonymous: Option<f64>,
    pub files: Option<f64>,
    /// numastat's hit, miss, foreign, interleave_hit, other_node.
    pub placed: [Option<f64>; 5],
    pub read: Option<f64>,
    pub written: Option<f64>,
    /// Bytes per second that the memory sustains in this mix.
    pub sustained: Option<f64>,
    pub own: Option<f64>,
    pub others: Option<f64>,
}

/// Where the numbers of nodes come from.
pub(super) struct NodeSources {
    pub time: &'static str,
    pub memory: &'static str,
    pub placed: &'static str,
    pub moved: String,
    pub sustained: String,
    pub own: String,
}

/// The table of nodes.
pub(super) fn nodes(nodes: &[Node], interval_s: f64, from: &NodeSources) -> Table {
    use Unit::{Bytes, BytesPerSecond, PerSecond, Share, Text};
    let columns = vec![
        column("node", "node", Text, "kernel number of the node", "sysfs"),
        column("cpus", "cpus", Text, "kernel indexes of its cpus; none for memory alone", "sysfs"),
        column("busy", "busy", Share, "part of the interval in which its cpus worked, mean", from.time),
        column("used_share", "used", Share, "part of its memory that is not free", from.memory),
        column("free", "free", Bytes, "free memory", from.memory),
        column("anonymous", "anon", Bytes, "memory of programs without a file", from.memory),
        column("files", "files", Bytes, "page cache", from.memory),
        column("hit", "hit/s", PerSecond, "pages placed here as asked", from.placed),
        column("miss", "miss/s", PerSecond, "pages placed here that were to go to another node", from.placed),
        column(
            "foreign",
            "foreign/s",
            PerSecond,
            "pages placed on another node that were to come here",
            from.placed,
        ),
        column("interleave", "interl/s", PerSecond, "pages placed here by interleaving", from.placed),
        column("other_node", "other/s", PerSecond, "pages placed here by a cpu of another node", from.placed),
        column("read", "read", BytesPerSecond, "bytes read from its memory, by all cpus", from.moved.clone()),
        column(
            "write",
            "write",
            BytesPerSecond,
            "bytes written to its memory, by all cpus",
            from.moved.clone(),
        ),
        column(
            "bandwidth_share",
            "of max",
            Share,
            "read and written bytes per second, as a part of what its memory sustains in this mix of reads and writes",
            from.sustained.clone(),
        ),
        column(
            "own",
            "to own",
            BytesPerSecond,
            "bytes that its cpus moved from and to its own memory",
            from.own.clone(),
        ),
        column(
            "others",
            "to others",
            BytesPerSecond,
            "bytes that its cpus moved from and to other nodes",
            from.own.clone(),
        ),
    ];
    let row = |n: &Node| {
        let [hit, miss, foreign, interleave, other] = n.placed.map(|p| per_second(p, interval_s));
        let bandwidth = n.read.zip(n.written).map(|(r, w)| (r + w) / interval_s);
        Row {
            id: u64::from(n.id),
            cells: vec![
                n.id.to_string().into(),
                n.cpus.as_str().into(),
                n.busy.into(),
                n.total.zip(n.free).map(|(total, free)| (total - free) / total).into(),
                n.free.into(),
                n.anonymous.into(),
                n.files.into(),
                hit,
                miss,
                foreign,
                interleave,
                other,
                per_second(n.read, interval_s),
                per_second(n.written, interval_s),
                bandwidth.zip(n.sustained).map(|(b, s)| b / s).into(),
                per_second(n.own, interval_s),
                per_second(n.others, interval_s),
            ],
        }
    };
    let known = nodes.iter().any(|n| n.read.is_some());
    let mut table = Table { columns, rows: nodes.iter().map(row).collect(), ..Table::default() };
    table.main = table.position(if known { "bandwidth_share" } else { "used_share" }).unwrap_or(0);
    if nodes.iter().all(|n| n.sustained.is_none()) && known {
        table.main = table.position("read").unwrap_or(0);
    }
    table.explain("busy", "the node has no cpus");
    table
}
