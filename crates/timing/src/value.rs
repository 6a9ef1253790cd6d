//! What the time model answers.

use super::parameters::Parameters;
use super::work::{Left, Work};
use nearfar_machine::NodeId;
use nearfar_machine::needs::Missing;
use schemars::JsonSchema;
use serde::Serialize;

/// The resource that makes the time what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Binding {
    /// Instructions and hits in caches.
    Core,
    /// Latency: too few lines, or page walks, in flight at a core.
    Concurrency,
    /// The memory of a node.
    #[serde(rename = "dram")]
    Memory {
        /// The node.
        node: NodeId,
    },
    /// A link, or the way between two nodes, in one direction. From a node to
    /// itself: the port of a group of its cores to memory.
    Link {
        /// Where the bytes come from.
        from: NodeId,
        /// Where they go.
        to: NodeId,
    },
}

/// Why the time is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The machine does not say enough.
    #[error("the time is unknown, because the machine does not say: {}", list(.0))]
    Machine(Vec<Missing>),
    /// No epoch counts.
    #[error("the time is unknown: the recording has no counted traffic; record with --on MACHINE")]
    NoTraffic,
    /// Figures at the ends of arithmetic.
    #[error(
        "the time is unknown: by the machine's figures it would never end; check its latencies and bandwidths"
    )]
    NoNumber,
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Bytes moved by a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moved {
    /// Read.
    pub read_bytes: f64,
    /// Written.
    pub write_bytes: f64,
}

/// Bytes carried in one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Carried {
    /// Of cache lines.
    pub data_bytes: f64,
    /// With requests, headers, acknowledgements and probes.
    pub bytes: f64,
}

/// The time of a piece of work: an epoch, or several that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochTime {
    /// Time, ns.
    pub ns: f64,
    /// What binds.
    pub binds: Binding,
    /// The time that the binding resource alone would take: a lower bound, ns.
    pub bound_ns: f64,
    /// Lower bound from computing, of the core with the most of it, ns.
    pub core_ns: f64,
    /// Lower bound from latency and lines in flight, of the core with the most, ns.
    pub concurrency_ns: f64,
    /// When each core was done, ns.
    pub finish_ns: Vec<f64>,
    /// By position of the node.
    pub memory: Vec<Moved>,
    /// By direction, in the order of [`Time::links`].
    pub links: Vec<Carried>,
}

/// The time of work that is alike from begin to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Time, ns.
    pub ns: f64,
    /// If the machine's figures are as good as their confidence allows, ns.
    pub low_ns: f64,
    /// If they are as bad, ns.
    pub high_ns: f64,
    /// What binds.
    pub binds: Binding,
}

/// A phase of the run's time: epochs alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// First epoch.
    pub first_epoch: u32,
    /// Last epoch, inclusive.
    pub last_epoch: u32,
    /// When it began, seconds from the start of what is timed.
    pub begin_seconds: f64,
    /// How long it took.
    pub seconds: f64,
    /// Least time for its computing alone, of the core with the most of it.
    pub core_seconds: f64,
    /// What bound it.
    pub binds: Binding,
    /// Bytes by node, in the order of [`Time::nodes`].
    pub memory: Vec<Moved>,
    /// Bytes by direction, in the order of [`Time::links`].
    pub links: Vec<Carried>,
}

/// Part of the time that a resource bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BoundShare {
    /// The resource.
    pub binds: Binding,
    /// Of the time, 0 to 1.
    pub share: f64,
}

/// The traffic of a node's memory over the whole time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeTraffic {
    /// The node.
    pub node: NodeId,
    /// Bytes.
    pub moved: Moved,
    /// Reads, GB/s.
    pub read_gbs: f64,
    /// Writes, GB/s.
    pub write_gbs: f64,
    /// What it can sustain with this mix of reads and writes, GB/s; `None` if unknown.
    pub sustained_gbs: Option<f64>,
}

/// The traffic of one direction of a link over the whole time. Where no links
/// are described, of what went from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinkTraffic {
    /// From this node.
    pub from: NodeId,
    /// To this one.
    pub to: NodeId,
    /// Bytes.
    pub carried: Carried,
    /// With control bytes, GB/s.
    pub gbs: f64,
    /// What it can carry, GB/s; `None` if unknown.
    pub capacity_gbs: Option<f64>,
}

/// How long a run takes, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Time {
    /// The time.
    pub seconds: f64,
    /// Low end of its range, from the confidence of the machine's figures.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// What bound for most of the time.
    pub binds: Binding,
    /// All that bound, the longest first.
    pub shares: Vec<BoundShare>,
    /// Its phases in order.
    pub phases: Vec<Phase>,
    /// Memory by node.
    pub nodes: Vec<NodeTraffic>,
    /// Links by direction.
    pub links: Vec<LinkTraffic>,
    /// The clock that instructions per cycle refer to, GHz.
    pub clock_ghz: f64,
    /// Lines whose page's node is not known, counted as of the cpu's own node.
    pub lines_without_node: u64,
    /// Rows of cpus that the machine does not have, not counted.
    pub foreign_rows: u64,
}

impl Time {
    pub(super) fn new(
        p: &Parameters,
        pieces: &[Work],
        timed: Vec<EpochTime>,
        [low, ns, high]: [f64; 3],
        left: Left,
    ) -> Time {
        let seconds = ns * 1e-9;
        let mut shares: Vec<BoundShare> = Vec::new();
        let mut memory = vec![Moved::default(); p.nodes.len()];
        let mut links = vec![Carried::default(); p.routes.directions.len()];
        let mut phases = Vec::with_capacity(timed.len());
        let mut begin = 0.0;
        for (work, t) in pieces.iter().zip(timed) {
            let share = if ns > 0.0 { t.ns / ns } else { 0.0 };
            match shares.iter_mut().find(|s| s.binds == t.binds) {
                Some(known) => known.share += share,
                None => shares.push(BoundShare { binds: t.binds, share }),
            }
            for (sum, moved) in memory.iter_mut().zip(&t.memory) {
                sum.read_bytes += moved.read_bytes;
                sum.write_bytes += moved.write_bytes;
            }
            for (sum, carried) in links.iter_mut().zip(&t.links) {
                sum.data_bytes += carried.data_bytes;
                sum.bytes += carried.bytes;
            }
            phases.push(Phase {
                first_epoch: work.first_epoch,
                last_epoch: work.last_epoch,
                begin_seconds: begin * 1e-9,
                seconds: t.ns * 1e-9,
                core_seconds: t.core_ns * 1e-9,
                binds: t.binds,
                memory: t.memory,
                links: t.links,
            });
            begin += t.ns;
        }
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        let gbs = |bytes: f64| if ns > 0.0 { bytes / ns } else { 0.0 };
        let node = |(at, moved): (usize, &Moved)| {
            let all = moved.read_bytes + moved.write_bytes;
            let (bandwidth, factor) = &p.memory[at];
            let writes = if all > 0.0 { moved.write_bytes / all } else { 0.0 };
            NodeTraffic {
                node: p.nodes[at],
                moved: *moved,
                read_gbs: gbs(moved.read_bytes),
                write_gbs: gbs(moved.write_bytes),
                sustained_gbs: bandwidth.rate(writes).map(|rate| rate * factor),
            }
        };
        let link = |(carried, direction): (&Carried, &super::routes::Direction)| LinkTraffic {
            from: direction.from,
            to: direction.to,
            carried: *carried,
            gbs: gbs(carried.bytes),
            capacity_gbs: direction.rate,
        };
        Time {
            seconds,
            low: low * 1e-9,
            high: high * 1e-9,
            binds: shares.first().map_or(Binding::Core, |s| s.binds),
            shares,
            phases,
            nodes: memory.iter().enumerate().map(node).collect(),
            links: links.iter().zip(&p.routes.directions).map(link).collect(),
            clock_ghz: p.clock_ghz,
            lines_without_node: left.lines_without_node,
            foreign_rows: left.foreign_rows,
        }
    }
}
