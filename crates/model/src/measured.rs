//! What a machine's memory was measured to do: latency and bandwidth of each node's
//! memory from each node's cpus, as values. The binary's `measure` fills them in.

use crate::analyze::stats::median;
use crate::machine::figures::{Cell as FigureCell, Confidence, Figure, Matrix};
use crate::machine::file::NodeBandwidth;
use crate::machine::{Machine, NodeId, NodeKind};
use serde::Serialize;

/// Version of the JSON form; rises when a field is renamed, removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The middle and the ends of some repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
    /// Repetitions, warm-up not among them.
    pub runs: u32,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Spread { median: median(values), low, high, runs: values.len() as u32 })
    }

    /// The spread as a share of the median.
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / self.median
    }
}

/// One pair of a node's cpus and a node's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Node of the cpus.
    pub from: NodeId,
    /// Node of the memory.
    pub memory: NodeId,
    /// What was measured, in the table's unit; `None`: see `why`.
    pub value: Option<Spread>,
    /// Bytes that a bandwidth's kernel loaded and stored in all its passes, warm-up included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<u64>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Pages on which something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// 2 MiB: translations are always at hand.
    Huge,
    /// The base page: translations are part of what is measured.
    Base,
}

/// Idle latency, ns: one cpu follows pointers through memory that nobody else uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Kind of page.
    pub pages: Pages,
    /// Bytes that the chain covers.
    pub bytes: u64,
    /// Every node's first allowed cpu against every node's memory.
    pub pairs: Vec<Pair>,
}

/// What a thread does with its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// Loads one array.
    Read,
    /// Stores to one array; each line is read first.
    Write,
    /// Stores past the caches to one array.
    WriteNt,
    /// `c = a`.
    Copy,
    /// `c = a`, stored past the caches.
    CopyNt,
    /// `a = b + s·c`.
    Triad,
    /// `a = b + s·c`, stored past the caches.
    TriadNt,
}

impl Kernel {
    /// All of them, in the order of a report.
    pub const ALL: [Kernel; 7] = [
        Kernel::Read,
        Kernel::Write,
        Kernel::WriteNt,
        Kernel::Copy,
        Kernel::CopyNt,
        Kernel::Triad,
        Kernel::TriadNt,
    ];

    /// Arrays that it loads, and arrays that it stores.
    pub fn arrays(self) -> (u64, u64) {
        match self {
            Kernel::Read => (1, 0),
            Kernel::Write | Kernel::WriteNt => (0, 1),
            Kernel::Copy | Kernel::CopyNt => (1, 1),
            Kernel::Triad | Kernel::TriadNt => (2, 1),
        }
    }

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Read => "read",
            Kernel::Write => "write",
            Kernel::WriteNt => "write, non-temporal",
            Kernel::Copy => "copy",
            Kernel::CopyNt => "copy, non-temporal",
            Kernel::Triad => "triad",
            Kernel::TriadNt => "triad, non-temporal",
        }
    }
}

/// Bandwidth, GB/s (10⁹ bytes per second) of the bytes that the program names, as STREAM
/// counts them: what a cache reads before a store is not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// What was done.
    pub kernel: Kernel,
    /// Bytes of all arrays together, the largest of all pairs; `None` if no pair has a value.
    pub bytes: Option<u64>,
    /// All allowed cpus of every node, one thread each, against every node's memory.
    pub pairs: Vec<Pair>,
}

/// Latency under a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadPoint {
    /// What all cpus of the node together moved meanwhile, GB/s.
    pub gb_per_s: f64,
    /// ns per step of the one that followed pointers.
    pub latency_ns: Spread,
}

/// The curve of latency over load for one pair of nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Node of the cpus.
    pub from: NodeId,
    /// Node of the memory.
    pub memory: NodeId,
    /// From full load to idle.
    pub points: Vec<LoadPoint>,
    /// Why there is no curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One cpu's copy of memory that another touched first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Copy {
    /// Cpu that touched the memory first.
    pub toucher: u32,
    /// Cpu that copies.
    pub cpu: u32,
    /// Bytes copied: each is loaded once and stored once.
    pub bytes: u64,
    /// Seconds of one copy.
    pub seconds: Option<Spread>,
    /// Why there is no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How threads are laid out over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One node after the other.
    Compact,
    /// In turns over the nodes.
    Scatter,
}

/// Triad with so many threads, each on memory of its own node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threads {
    /// Which cpus first.
    pub layout: Layout,
    /// How many threads.
    pub threads: u32,
    /// Threads on each node, in the order of `Measured::nodes`.
    pub per_node: Vec<u32>,
    /// GB/s of all threads together.
    pub gb_per_s: Option<Spread>,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Everything that one run measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The machine's name.
    pub name: String,
    /// Day of the measurement, `YYYY-MM-DD`.
    pub day: String,
    /// Fewer and shorter repetitions.
    pub quick: bool,
    /// Seconds that it took.
    pub seconds: f64,
    /// Nodes in the order of the matrices.
    pub nodes: Vec<NodeId>,
    /// Idle latencies.
    pub latency: Vec<Latency>,
    /// Bandwidths.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency under load.
    pub loaded: Vec<Loaded>,
    /// Copies between cpus.
    pub copies: Vec<Copy>,
    /// Bandwidth by number of threads.
    pub scaling: Vec<Threads>,
    /// Part of the time that a hypervisor gave to others; `None` if the kernel does not say.
    pub steal_share: Option<f64>,
    /// What to keep in mind.
    pub caveats: Vec<String>,
}

impl Measured {
    /// As JSON, ended by a newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The machine with what was measured in place of what it had. What was not measured stays as it was.
    pub fn into_machine(&self, mut machine: Machine) -> Machine {
        let quick = if self.quick { " --quick" } else { "" };
        let source = format!("measured here on {} by nearfar measure{quick}", self.day);
        let matrix = |pairs: &[Pair], what: &str| -> Option<Matrix> {
            let at = |from, memory| pairs.iter().find(|p| p.from == from && p.memory == memory);
            let rows: Vec<Vec<FigureCell>> = machine
                .nodes
                .iter()
                .map(|f| {
                    let cell = |m| FigureCell(at(f.id, m).and_then(|p| p.value).map(|v| round(v.median)));
                    machine.nodes.iter().map(|m| cell(m.id)).collect()
                })
                .collect();
            let any = rows.iter().flatten().any(|c| c.0.is_some());
            any.then(|| Matrix { rows, source: format!("{source}, {what}"), confidence: Confidence::H })
        };
        // Where the kernel gives no 2 MiB pages, latency with address translation is what there is.
        let latency =
            [(Pages::Huge, "2 MiB pages"), (Pages::Base, "base pages: address translation included")];
        let latency = latency
            .into_iter()
            .find_map(|(pages, what)| matrix(&self.latency.iter().find(|l| l.pages == pages)?.pairs, what));
        let of = |kernel| self.bandwidth.iter().find(|b| b.kernel == kernel);
        let read = of(Kernel::Read).and_then(|b| matrix(&b.pairs, "all cpus of the row's node"));
        // The file asks for traffic. An ordinary store reads its line first, so `factor` times the bytes that
        // the kernel names are moved; that is arithmetic, not seen.
        let own = |kernel, node: NodeId, factor: f64| {
            let value = of(kernel)?.pairs.iter().find(|p| p.from == node && p.memory == node)?.value?;
            let (low, high) = (round(value.low * factor), round(value.high * factor));
            let derived = factor != 1.0;
            let how = if derived { ", with the lines that stores read first" } else { "" };
            Some(Figure {
                value: round(value.median * factor),
                source: format!("{source}, {low} to {high} in {} runs{how}", value.runs),
                confidence: if derived { Confidence::D } else { Confidence::H },
            })
        };
        let mut bandwidth: Vec<NodeBandwidth> = Vec::new();
        for node in machine.nodes.iter().filter(|n| !n.cpus.is_empty() && n.kind != NodeKind::Gpu) {
            let figures = NodeBandwidth {
                nodes: std::iter::once(node.id).collect(),
                peak_gbs: None,
                read_gbs: own(Kernel::Read, node.id, 1.0),
                update_gbs: own(Kernel::Write, node.id, 2.0),
                triad_gbs: own(Kernel::Triad, node.id, 4.0 / 3.0),
            };
            if figures.read_gbs.is_some() || figures.update_gbs.is_some() || figures.triad_gbs.is_some() {
                bandwidth.push(figures);
            }
        }
        let figures = &mut machine.figures;
        figures.latency_ns = latency.or(figures.latency_ns.take());
        figures.pair_read_gbs = read.or(figures.pair_read_gbs.take());
        if !bandwidth.is_empty() {
            figures.bandwidth = bandwidth;
        }
        machine
    }
}

/// Three digits are more than any two measurements agree on.
fn round(value: f64) -> f64 {
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(from: NodeId, memory: NodeId, median: f64) -> Pair {
        let value = Some(Spread { median, low: median, high: median, runs: 1 });
        Pair { from, memory, value, moved_bytes: None, why: None }
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between() {
        let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.low, spread.high, spread.runs), (2.5, 1.0, 4.0, 4));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_machine_file_of_what_was_measured_can_be_read_back() {
        let machine = Machine::from_shape("2x2").unwrap();
        let measured = Measured {
            day: "2026-11-22".into(),
            // No 2 MiB pages were to be had.
            latency: vec![
                Latency { pages: Pages::Huge, bytes: 1, pairs: Vec::new() },
                Latency {
                    pages: Pages::Base,
                    bytes: 1,
                    pairs: vec![pair(0, 0, 81.234), pair(0, 1, 130.06), pair(1, 0, 129.0), pair(1, 1, 80.0)],
                },
            ],
            bandwidth: vec![Bandwidth {
                kernel: Kernel::Triad,
                bytes: Some(1),
                pairs: vec![pair(0, 0, 30.0), pair(1, 1, 33.0)],
            }],
            ..Measured::default()
        };
        let file = measured.into_machine(machine).to_toml();
        let read = Machine::from_toml(&file).unwrap();
        let latency = read.figures.latency_ns.as_ref().unwrap();
        assert_eq!((latency.get(0, 0), latency.get(0, 1)), (Some(81.2), Some(130.0)), "{file}");
        assert!(latency.source.contains("base pages"), "{file}");
        let triad: Vec<&Figure> =
            read.figures.bandwidth.iter().map(|b| b.triad_gbs.as_ref().unwrap()).collect();
        assert_eq!(triad.iter().map(|f| f.value).collect::<Vec<_>>(), [40.0, 44.0]);
        // A third of the traffic was not seen.
        assert!(triad.iter().all(|f| f.confidence == Confidence::D && f.source.contains("in 1 runs")));
        assert!(read.figures.pair_read_gbs.is_none() && read.figures.bandwidth[0].read_gbs.is_none());
    }
}
