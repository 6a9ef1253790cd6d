//! Figures of a machine: published or measured numbers, each with its source and
//! how far it can be trusted. What is not known is `None` or empty, never 0.
//!
//! GB/s are 1e9 bytes per second. A latency is idle load-to-use in ns, as a
//! pointer chase sees it.

use super::NodeId;
use super::cpulist::{CpuList, NodeList};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line, for all that is counted by lines: that of x86-64 and of every machine in `machines/`. A machine file
/// may name another size ([`Figures::line`]); the simulator refuses it.
pub const LINE_BYTES: u64 = 64;

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confidence {
    /// The number itself was read in a source, for the same CPU (or from the host).
    H,
    /// Read in a source for a close relative, which the source names.
    P,
    /// Derived: arithmetic from published link or DIMM rates.
    D,
    /// From memory of the literature: a default, to be replaced.
    M,
    /// Fitted so that a model meets a measurement; not a property of its own.
    #[serde(rename = "fitted")]
    Fitted,
    /// A convention, of a machine that may not exist.
    #[serde(rename = "assumed")]
    Assumed,
}

impl Confidence {
    /// As written in a machine file.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::H => "H",
            Confidence::P => "P",
            Confidence::D => "D",
            Confidence::M => "M",
            Confidence::Fitted => "fitted",
            Confidence::Assumed => "assumed",
        }
    }
}

/// Where something comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Source in words: document, tool, person.
    pub source: String,
    /// How far it can be trusted.
    pub confidence: Confidence,
}

/// A number with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawFigure")]
pub struct Figure {
    /// The number, in the unit that its name says.
    pub value: f64,
    /// Source in words.
    pub source: String,
    /// How far it can be trusted.
    pub confidence: Confidence,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    value: f64,
    source: String,
    confidence: Confidence,
}

impl TryFrom<RawFigure> for Figure {
    type Error = String;

    fn try_from(raw: RawFigure) -> Result<Figure, String> {
        if !raw.value.is_finite() || raw.value <= 0.0 {
            return Err(format!(
                "{} is not a figure: it must be above 0; leave out what is not known",
                raw.value
            ));
        }
        if raw.source.trim().is_empty() {
            return Err("a figure needs a source, even if it is \"a guess\"".to_owned());
        }
        Ok(Figure { value: raw.value, source: raw.source, confidence: raw.confidence })
    }
}

/// One entry of a [`Matrix`]: a number, or `"unknown"` in the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RawCell", into = "RawCell")]
pub struct Cell(pub Option<f64>);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "every entry of a matrix must be a number or \"unknown\"")]
enum RawCell {
    Number(f64),
    Unknown(UnknownWord),
}

#[derive(Serialize, Deserialize)]
enum UnknownWord {
    #[serde(rename = "unknown")]
    Unknown,
}

impl From<RawCell> for Cell {
    fn from(raw: RawCell) -> Self {
        match raw {
            RawCell::Number(n) => Cell(Some(n)),
            RawCell::Unknown(_) => Cell(None),
        }
    }
}

impl From<Cell> for RawCell {
    fn from(cell: Cell) -> Self {
        match cell.0 {
            Some(n) => RawCell::Number(n),
            None => RawCell::Unknown(UnknownWord::Unknown),
        }
    }
}

/// A number for each pair of nodes, from one source. The row is the node of the
/// cpu, the column the node of the memory, in the order of `Machine::nodes`.
/// Rows of nodes without cpus mean nothing and are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// Source in words.
    pub source: String,
    /// How far it can be trusted.
    pub confidence: Confidence,
}

impl Matrix {
    /// The entry at positions (not node numbers) `row` and `column`.
    pub fn get(&self, row: usize, column: usize) -> Option<f64> {
        self.rows.get(row)?.get(column)?.0
    }

    /// The matrix, unless it is assumed: where a number decides that something costs nothing, a bound serves better than
    /// a guess.
    pub fn unless_assumed(&self) -> Option<&Matrix> {
        (self.confidence != Confidence::Assumed).then_some(self)
    }
}

/// Core clock and what a core can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreFigures {
    /// Guaranteed clock, GHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ghz: Option<Figure>,
    /// Clock with all cores busy, GHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_core_ghz: Option<Figure>,
    /// Instructions per cycle while nothing waits for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipc: Option<Figure>,
    /// Cache lines that one core can have in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_lines: Option<Figure>,
    /// Most that one core can read, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_gbs: Option<Figure>,
    /// Most that one core can move reading and writing in place, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_gbs: Option<Figure>,
    /// Lines that the hardware prefetcher runs ahead of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_lines: Option<Figure>,
    /// Core cycles of a page walk, whose entries are in a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cycles: Option<Figure>,
    /// Page walks that one core can have in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_walkers: Option<Figure>,
    /// Most double-precision operations of one core while all work, 10⁹ per second; a fused
    /// multiply-add is two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f64_gflops: Option<Figure>,
    /// The same in single precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f32_gflops: Option<Figure>,
}

impl CoreFigures {
    /// The clock while all cores work, GHz: the all-core clock, or the guaranteed one.
    pub fn clock_ghz(&self) -> Option<&Figure> {
        self.all_core_ghz.as_ref().or(self.base_ghz.as_ref())
    }
}

/// What a cache level keeps of the level inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inclusion {
    /// Everything: evicting a line here evicts it inside.
    Inclusive,
    /// Nothing: lines move between the levels.
    Exclusive,
    /// Filled by what the inner level evicts, and may keep a copy.
    Victim,
    /// Neither promised.
    Neither,
}

/// A cache level's figures, with their sources. The plain numbers are in
/// `Machine::caches` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFigures {
    /// 1, 2, 3.
    pub level: u32,
    /// Capacity of one instance, bytes.
    pub size_bytes: Figure,
    /// Cores that share one instance.
    pub cores_per_instance: u32,
    /// What it keeps of the level inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<Inclusion>,
    /// Associativity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Figure>,
    /// Load-to-use latency, core cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_cycles: Option<Figure>,
    /// Most that one instance can read from memory, GB/s, where its port is
    /// narrower than the node's memory (a core complex of an EPYC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_gbs: Option<Figure>,
    /// Most that one instance can write to memory, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_gbs: Option<Figure>,
}

/// A table of address translations (TLB) of one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbFigures {
    /// 1, 2.
    pub level: u32,
    /// Bytes of the pages whose translations share its entries.
    pub page_bytes: Vec<u64>,
    /// Translations that it holds.
    pub entries: Figure,
    /// Associativity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Figure>,
}

/// Bandwidth of the memory of some nodes, all their own cpus at work, GB/s per node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeBandwidth {
    /// The nodes that these figures hold for, one by one.
    pub nodes: NodeList,
    /// What the memory channels could do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_gbs: Option<Figure>,
    /// Sustained, reading only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_gbs: Option<Figure>,
    /// Sustained, one write per read, in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_gbs: Option<Figure>,
    /// Sustained, about two reads per write, as STREAM triad with write-allocate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triad_gbs: Option<Figure>,
}

impl NodeBandwidth {
    /// Sustained rate, reads and writes together, GB/s, where `writes` is the
    /// written part of all bytes. Between the mixes that are known, the time per
    /// byte is taken to change in a straight line; beyond them it stays. `None`
    /// if no sustained rate is known.
    pub fn rate(&self, writes: f64) -> Option<f64> {
        let known = [(0.0, &self.read_gbs), (1.0 / 3.0, &self.triad_gbs), (0.5, &self.update_gbs)];
        let mut below: Option<(f64, f64)> = None;
        for (share, figure) in known {
            let Some(figure) = figure else { continue };
            let time = 1.0 / figure.value;
            if share >= writes {
                return Some(match below {
                    Some((s, t)) => 1.0 / (t + (time - t) * (writes - s) / (share - s)),
                    None => figure.value,
                });
            }
            below = Some((share, time));
        }
        below.map(|(_, time)| 1.0 / time)
    }
}

/// Links between two nodes. They work the same in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// How many there are in parallel.
    pub count: Figure,
    /// Raw rate of one link in one direction, GB/s.
    pub gbs_per_direction: Figure,
}

/// Parameters of the time model that belong to the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeFigures {
    /// Control bytes per message on a link (H).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_bytes: Option<Figure>,
    /// Cost factor of a memory controller when several nodes stream from it (η).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Figure>,
    /// Lines of other nodes' memory that all cores of a node together can have in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_lines: Option<Figure>,
    /// Part of the lines read from memory for which the node of the page asks every other
    /// node's caches: 1 without a directory, less with one or with a probe filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_share: Option<Figure>,
    /// Extra writes to the node of the page's memory per line that another node reads, where
    /// the directory is kept in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory_write_share: Option<Figure>,
}

/// Everything about a machine that is a measurement or a publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// What the machine is, in a sentence or two.
    pub description: Option<String>,
    /// Where nodes, cpus, memory and packages come from.
    pub topology: Option<Provenance>,
    /// Where `Machine::distances` comes from.
    pub distances: Option<Provenance>,
    /// Cpus of each core; empty if unknown.
    pub cores: Vec<CpuList>,
    /// Dies in one package.
    pub dies_per_package: Option<u32>,
    /// Bytes of a cache line.
    pub line_bytes: Option<u32>,
    /// Whether the firmware spreads memory over all nodes ("non-NUMA mode"), so
    /// that the kernel sees one node. `nodes` still are the physical ones.
    pub interleaved: bool,
    /// The core.
    pub core: CoreFigures,
    /// The caches, inner first.
    pub caches: Vec<CacheFigures>,
    /// The tables of translations, inner first; empty if unknown.
    pub tlbs: Vec<TlbFigures>,
    /// Idle latency between nodes, ns.
    pub latency_ns: Option<Matrix>,
    /// Read bandwidth between nodes, all cpus of the row reading, GB/s.
    pub pair_read_gbs: Option<Matrix>,
    /// Bandwidth of the nodes' memory.
    pub bandwidth: Vec<NodeBandwidth>,
    /// The links.
    pub links: Vec<Link>,
    /// The time model's parameters.
    pub time: TimeFigures,
}

impl Figures {
    /// Bytes of a cache line; [`LINE_BYTES`] where the machine's file does not say.
    pub fn line(&self) -> u32 {
        self.line_bytes.unwrap_or(LINE_BYTES as u32)
    }

    /// Bandwidth of a node's memory.
    pub fn bandwidth_of(&self, node: NodeId) -> Option<&NodeBandwidth> {
        self.bandwidth.iter().find(|b| b.nodes.contains(node))
    }

    /// The links between two nodes, whichever way round they were written.
    pub fn links_between(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = &Link> + '_ {
        self.links.iter().filter(move |l| (l.from, l.to) == (a, b) || (l.from, l.to) == (b, a))
    }
}
