//! What the virtual machine counted, and the time that follows from it.

use super::Region;
use nearfar_timing::Binding;
use schemars::JsonSchema;
use serde::Serialize;

/// A resource and how much of something it bound.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bound {
    /// The resource.
    pub binds: Binding,
    /// Share, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}

/// Lines from and to DRAM, by the distance of the memory from the cpu.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DramLines {
    /// Lines of the cpu's own node.
    pub local: u64,
    /// Lines of other nodes.
    pub remote: u64,
    /// Whether they were counted; if not, they are estimated from samples.
    pub exact: bool,
    /// Half of the 95 % interval of these lines, as a part of them, where they are an object's and accesses were counted in windows: by how much its samples
    /// differ from window to window, how few they are, and 1 % for what two runs of one program differ by. Null otherwise, and if that is not known.
    #[schemars(range(min = 0))]
    pub windows_error: Option<f64>,
    /// The resources that bound when these lines were moved, most first; empty if no time is known.
    pub bound: Vec<Bound>,
}

/// Exact counts of the program's own accesses on a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Counted {
    /// The source that counted: `simulated`.
    pub source: String,
    /// Which part of the run the counts are of.
    pub region: Region,
    /// Epochs that they are of: bins of the cores' simulated clocks.
    pub epochs: u64,
    /// The windows that accesses were counted in; null if all were counted.
    pub windows: Option<CountedInWindows>,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Bytes between each node's cpus and each node's memory.
    pub dram: Vec<DramFlow>,
    /// Bytes over each link and direction; empty if no time is known.
    pub links: Vec<LinkFlow>,
    /// What each cpu did.
    pub cpus: Vec<CpuCounts>,
    /// How hard each node's memory worked; empty if no time is known.
    pub bandwidth: Vec<NodeLoad>,
    /// The same over simulated time; empty if no time is known.
    pub timeline: Vec<Moment>,
    /// Share of the time that memory which answers at once would have saved; null if no time is known.
    #[schemars(range(min = 0, max = 1))]
    pub memory_bound_share: Option<f64>,
    /// Where the program is in the roofline of the machine; null with the reason in `roofline_why`.
    pub roofline: Option<Roofline>,
    /// Why there is none.
    pub roofline_why: Option<String>,
}

/// Accesses were counted in windows of simulated time (`record --on … --sample-windows`). All counts are multiplied to stand for what was not
/// counted between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedInWindows {
    /// How many windows.
    pub windows: u64,
    /// Instructions in them.
    pub counted_instructions: u64,
    /// Instructions that they stand for.
    pub instructions: u64,
    /// Half of the 95 % interval of all lines from and to DRAM, as a part of them; null with fewer than 8 windows. It has what differs from
    /// window to window and 1 % for what two runs of one program differ by, not what caches held less after a span that was not counted.
    #[schemars(range(min = 0))]
    pub lines_error: Option<f64>,
    /// The same of the remote share, in parts of all lines.
    #[schemars(range(min = 0))]
    pub remote_share_error: Option<f64>,
    /// The same of the time, as a part of it: that of the lines of one node's memory, whichever is furthest off, over those of the memory that has
    /// most, for the part of the time that waits. `time` and predictions have it in their ranges.
    #[schemars(range(min = 0))]
    pub seconds_error: Option<f64>,
    /// By how much the time may be shorter, besides, as a part of it: a window cuts loops, and a core that is done with its part is taken to wait there
    /// for the others. `time.low` and predictions have it in their ranges. Null if no time is known.
    #[schemars(range(min = 0, max = 1))]
    pub cut_error: Option<f64>,
}

/// Arithmetic against memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Roofline {
    /// Floating-point operations in double precision; a fused multiply-add is two.
    pub f64_ops: u64,
    /// In single precision.
    pub f32_ops: u64,
    /// Operations per byte from and to DRAM; null if none moved.
    #[schemars(range(min = 0))]
    pub flop_per_byte: Option<f64>,
    /// Operations in 10⁹ per second of the time; null if no time is known.
    #[schemars(range(min = 0))]
    pub gflops: Option<f64>,
    /// What all cores compute at most in this mix of precisions; null if the machine file does not say.
    #[schemars(range(min = 0))]
    pub peak_gflops: Option<f64>,
    /// What the memory of all nodes with cpus sustains in their mixes of reads and writes; null if no time is known.
    #[schemars(range(min = 0))]
    pub memory_gb_per_s: Option<f64>,
    /// The roof at this intensity: the lower of the peak and of intensity times memory; null if either is not known.
    #[schemars(range(min = 0))]
    pub roof_gflops: Option<f64>,
    /// Which one it is.
    pub roof: Option<Roof>,
}

/// What is above a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Roof {
    /// Memory bandwidth.
    Memory,
    /// Arithmetic.
    Arithmetic,
}

/// Bytes between the cpus of a node and the memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DramFlow {
    /// Node of the cpus.
    pub from: u32,
    /// Node of the memory.
    pub page_node: u32,
    /// Bytes read: demanded, for ownership, and prefetched.
    pub read_bytes: u64,
    /// Of these, prefetched.
    pub prefetch_bytes: u64,
    /// Bytes written: written back and streamed.
    pub write_bytes: u64,
    /// Bytes that a cache of node `page_node` supplied instead of its memory; in none of the above.
    pub cache_bytes: u64,
    /// Page walks for pages of this node.
    pub walks: u64,
}

/// Bytes over a link in one direction; where no links are described, between two nodes. From a node
/// to itself: through the port of a group of its cores to memory.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkFlow {
    /// Node that sends.
    pub from: u32,
    /// Node that receives.
    pub to: u32,
    /// Bytes, control messages included.
    pub bytes: u64,
    /// Of these, of lines.
    pub data_bytes: u64,
    /// Mean over the time in GB/s.
    #[schemars(range(min = 0))]
    pub gb_per_s: f64,
    /// What it can carry in this direction, GB/s; null if that is not described.
    #[schemars(range(min = 0))]
    pub capacity_gb_per_s: Option<f64>,
    /// Share of the time below half of that; null if it is not known.
    #[schemars(range(min = 0, max = 1))]
    pub low: Option<f64>,
    /// Share of the time between half and four fifths.
    #[schemars(range(min = 0, max = 1))]
    pub medium: Option<f64>,
    /// Share of the time above four fifths.
    #[schemars(range(min = 0, max = 1))]
    pub high: Option<f64>,
}

/// What a cpu did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CpuCounts {
    /// Kernel index.
    pub cpu: u32,
    /// Its node; null if no node of the machine lists it.
    pub node: Option<u32>,
    /// Instructions of the program in user mode.
    pub instructions: u64,
    /// Instructions per cycle of the phases that it worked in, all waiting included; null if no time is known.
    #[schemars(range(min = 0))]
    pub ipc: Option<f64>,
    /// Share of accesses that the first-level cache served; null without accesses.
    #[schemars(range(min = 0, max = 1))]
    pub l1_hit: Option<f64>,
    /// Share of the first level's misses that the second served; null if it had none.
    #[schemars(range(min = 0, max = 1))]
    pub l2_hit: Option<f64>,
    /// Share of the second level's misses that the third served; null if it had none.
    #[schemars(range(min = 0, max = 1))]
    pub l3_hit: Option<f64>,
    /// Lines from and to the memory of its own node.
    pub dram_local: u64,
    /// Lines from and to the memory of other nodes.
    pub dram_remote: u64,
    /// Accesses that another core's cache served.
    pub cache_transfers: u64,
    /// Translations of 4 KiB pages that no TLB held.
    pub tlb_misses: u64,
    /// Translations of 2 MiB pages that no TLB held.
    pub huge_tlb_misses: u64,
}

/// How hard a node's memory worked, relative to what it can sustain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeLoad {
    /// Node of the memory.
    pub node: u32,
    /// Mean over the time, GB/s.
    #[schemars(range(min = 0))]
    pub gb_per_s: f64,
    /// What it sustains under this mix of reads and writes, GB/s; null if the machine file does not say.
    #[schemars(range(min = 0))]
    pub sustained_gb_per_s: Option<f64>,
    /// Share of the time below half of that; null if it is not known.
    #[schemars(range(min = 0, max = 1))]
    pub low: Option<f64>,
    /// Share of the time between half and four fifths.
    #[schemars(range(min = 0, max = 1))]
    pub medium: Option<f64>,
    /// Share of the time above four fifths, where loaded latency climbs.
    #[schemars(range(min = 0, max = 1))]
    pub high: Option<f64>,
}

/// A phase of simulated time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Begin, seconds after the start of the counts.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// End, seconds.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// The resource that bound for the longest part of it.
    pub binds: Binding,
    /// Each node's memory.
    pub nodes: Vec<MomentNode>,
    /// GB/s over each link, control messages included, in the order of `links`.
    #[schemars(inner(range(min = 0)))]
    pub links_gb_per_s: Vec<f64>,
    /// Remote share of the lines from and to memory; null without lines of which both ends are known.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// Instructions per cycle of the cpus that worked, all waiting included; null if none did.
    #[schemars(range(min = 0))]
    pub ipc: Option<f64>,
}

/// A node's memory in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MomentNode {
    /// Node of the memory.
    pub node: u32,
    /// Read, GB/s.
    #[schemars(range(min = 0))]
    pub read_gb_per_s: f64,
    /// Written, GB/s.
    #[schemars(range(min = 0))]
    pub write_gb_per_s: f64,
}

/// The time that the counted work takes on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Timed {
    /// Seconds.
    #[schemars(range(min = 0))]
    pub seconds: f64,
    /// Lower end of what the machine's figures allow.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// Upper end.
    #[schemars(range(min = 0))]
    pub high: f64,
    /// The resource that binds for the longest part of it.
    pub binds: Binding,
    /// All resources that bind, by their share of the time.
    pub shares: Vec<Bound>,
    /// Figures of the machine that were fitted, assumed or remembered rather than read in a source.
    pub weak_figures: Vec<WeakFigure>,
}

/// A figure of little confidence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WeakFigure {
    /// Its name in the machine file.
    pub name: String,
    /// Its value, in the unit that the name says; null for a matrix.
    pub value: Option<f64>,
    /// `M`, `fitted` or `assumed`, as in the machine file.
    pub confidence: String,
}
