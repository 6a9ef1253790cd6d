//! What a machine's cores and memory were measured to do, as values. The binary's
//! `measure` fills them in; [`Measured::into_machine`] makes figures of a machine of
//! them, [`predict`] says what placements would give by these figures, and [`peaks`]
//! whether one node's latencies are of one memory or of several. [`mlc`] reads what another tool measured, [`readings`] what others counted.

mod figures;
pub mod mlc;
pub mod peaks;
mod placement;
pub mod predict;
pub mod readings;

pub use placement::Placement;

use nearfar_analyze::stats::median;
use nearfar_machine::NodeId;
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
        Some(Spread { median: median(values)?, low, high, runs: values.len() as u32 })
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Spread {
        let (median, low, high) = (self.median * factor, self.low * factor, self.high * factor);
        Spread { median, low, high, ..self }
    }

    /// The spread as a share of the median.
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / self.median
    }
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The figure, in the unit that the field's name says; `None`: see `why`.
    pub value: Option<Spread>,
    /// Why the figure is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<Result<Spread, String>> for Found {
    fn from(result: Result<Spread, String>) -> Found {
        match result {
            Ok(value) => Found { value: Some(value), why: None },
            Err(why) => Found { value: None, why: Some(why) },
        }
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
    /// Why the value is missing.
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

/// Idle latency, ns: one cpu follows pointers through memory that nothing else uses.
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
    /// `b = s·c`.
    Scale,
    /// `c = a + b`.
    Add,
    /// `a = b + s·c`.
    Triad,
    /// `a = b + s·c`, stored past the caches.
    TriadNt,
}

impl Kernel {
    /// Those of a bandwidth matrix, in the order of a report.
    pub const MATRIX: [Kernel; 7] = [
        Kernel::Read,
        Kernel::Write,
        Kernel::WriteNt,
        Kernel::Copy,
        Kernel::CopyNt,
        Kernel::Triad,
        Kernel::TriadNt,
    ];

    /// STREAM's, in its order.
    pub const STREAM: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// Arrays that it loads, and arrays that it stores.
    pub fn arrays(self) -> (u64, u64) {
        match self {
            Kernel::Read => (1, 0),
            Kernel::Write | Kernel::WriteNt => (0, 1),
            Kernel::Copy | Kernel::CopyNt | Kernel::Scale => (1, 1),
            Kernel::Add | Kernel::Triad | Kernel::TriadNt => (2, 1),
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
            Kernel::Scale => "scale",
            Kernel::Add => "add",
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
    /// Why the curve is missing.
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
    pub seconds: Found,
}

impl Copy {
    /// GB/s read, and as many written.
    pub fn gb_per_s(&self) -> Option<f64> {
        self.seconds.value.map(|s| self.bytes as f64 / s.median / 1e9)
    }
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

/// Triad with so many threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threads {
    /// Which cpus first.
    pub layout: Layout,
    /// Where their memory is.
    pub placement: Placement,
    /// Their cpus.
    pub cpus: Vec<u32>,
    /// Threads on each node, in the order of `Measured::nodes`.
    pub per_node: Vec<u32>,
    /// Of all threads together.
    pub gb_per_s: Found,
    /// Bytes that they loaded and stored in all passes, warm-up included; `None` if no figure exists.
    pub moved_bytes: Option<u64>,
    /// What this run's other figures make of it.
    pub predicted: Option<predict::Predicted>,
}

/// STREAM by its rules: all allowed cpus, one thread each, on memory that they touched first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// Bytes of each of the three arrays.
    pub array_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// How often each function was timed; the first time does not count.
    pub times: u32,
    /// Copy, Scale, Add and Triad; empty: see `why`.
    pub functions: Vec<StreamFunction>,
    /// Largest relative error of any element at the end.
    pub largest_error: f64,
    /// Why the figures are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A line of STREAM's table. MB are 10⁶ bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamFunction {
    /// Which.
    pub kernel: Kernel,
    /// Of the shortest time.
    pub best_mb_per_s: f64,
    /// Mean time, seconds.
    pub average_s: f64,
    /// Shortest time, seconds.
    pub min_s: f64,
    /// Longest time, seconds.
    pub max_s: f64,
}

/// What one core does, the others idle unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Core {
    /// Its cpu.
    pub cpu: u32,
    /// Its node.
    pub node: NodeId,
    /// Clock while every core of the node adds numbers, GHz: one dependent addition is one cycle.
    pub clock_ghz: Found,
    /// Instructions per cycle of a triad whose arrays are in the first-level cache.
    pub ipc: Found,
    /// Lines that it has in flight: random chains followed side by side until more of them gain nothing,
    /// times latency (Little's law).
    pub lines_in_flight: Found,
    /// Reading its own node's memory, in one stream or in four, whichever is more, GB/s.
    pub read_gbs: Found,
    /// Storing to it likewise: read and written bytes, both counted, GB/s.
    pub update_gbs: Found,
    /// Latency of each level of cache, inner first.
    pub caches: Vec<CacheLatency>,
}

/// Latency of a cache, by a chain that fits into it and not into the next inner one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheLatency {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes of the chain.
    pub bytes: u64,
    /// Load to use, ns.
    pub ns: Found,
    /// Whether it has everything that the inner ones have, as the processor says; `None` if it does not.
    pub inclusive: Option<bool>,
}

/// Floating-point operations of a node, one thread on each core: the roofline's flat part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flops {
    /// The node.
    pub node: NodeId,
    /// Threads, one for each core.
    pub cores: u32,
    /// What computed: `AVX2 FMA`.
    pub instructions: String,
    /// Double precision, 10⁹ additions and multiplications per second.
    pub f64_gflops: Found,
    /// Single precision.
    pub f32_gflops: Found,
}

/// Copies between a GPU and pinned memory of a node, by a thread on that node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuCopy {
    /// The driver's number of the GPU.
    pub gpu: u32,
    /// Its name.
    pub name: String,
    /// Node of the pinned memory.
    pub node: NodeId,
    /// Bytes of one copy.
    pub bytes: u64,
    /// Host to device, GB/s.
    pub to_gbs: Found,
    /// Device to host, GB/s.
    pub from_gbs: Found,
}

/// How much of what was measured the last-level caches can hold, where that is more than by the rules: a chain
/// and arrays four times the caches. A figure of memory that has it may be a cache's in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cached {
    /// Of the chain of pointers (latencies, lines in flight), of 1; `None`: a quarter or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_share: Option<f64>,
    /// Of an array (bandwidths, STREAM, scaling, copies), of 1, the largest; `None`: a quarter or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_share: Option<f64>,
}

impl Cached {
    /// Raises `share` to what `caches` bytes can hold of `bytes`.
    pub fn more(share: &mut Option<f64>, caches: u64, bytes: u64) {
        let held = (caches as f64 / bytes.max(1) as f64).min(1.0);
        *share = Some(share.map_or(held, |s| s.max(held)));
    }
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
    /// The core's own figures.
    pub core: Option<Core>,
    /// Arithmetic, by node.
    pub flops: Vec<Flops>,
    /// STREAM.
    pub stream: Option<Stream>,
    /// Bandwidth by number of threads and placement.
    pub scaling: Vec<Threads>,
    /// Why `scaling` has no predictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_prediction: Option<String>,
    /// Copies between cpus.
    pub copies: Vec<Copy>,
    /// Copies to and from GPUs.
    pub gpu: Vec<GpuCopy>,
    /// Latency page by page, of a machine that shows one node.
    pub page_latency: Option<peaks::PageLatency>,
    /// Part of the time that a hypervisor gave to others; `None` if the kernel does not say.
    pub steal_share: Option<f64>,
    /// What the caches can hold of what was measured.
    pub cached: Cached,
    /// What to keep in mind.
    pub caveats: Vec<String>,
}

impl Measured {
    /// As JSON, ended by a newline.
    pub fn to_json(&self) -> String {
        nearfar_figures::json::pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between() {
        let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.low, spread.high, spread.runs), (2.5, 1.0, 4.0, 4));
        assert_eq!(Spread::of(&[]), None);
    }
}
