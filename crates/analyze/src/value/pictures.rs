//! What pictures of a report need beyond its tables: aggregated to a fixed number of bins, so that its size does not
//! grow with the recording.

use nearfar_machine::NodeKind;
use schemars::JsonSchema;
use serde::Serialize;

/// Data of pictures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pictures {
    /// The parts of the judged machine.
    pub machine: MachinePicture,
    /// What goes between its nodes.
    pub traffic: Traffic,
    /// `node_matrix` as it would be with the repairs; null with `repaired_why`.
    pub repaired: Option<Repaired>,
    /// Why that is not known.
    pub repaired_why: Option<String>,
    /// Of the first 100 objects: what is where along their addresses.
    pub strips: Vec<Strip>,
    /// What each part of the run was spent on; null without samples.
    pub timeline: Option<Timeline>,
    /// Phases that the program marks, the 200 longest.
    pub phases: Vec<Band>,
    /// The instructions with most samples, at most 40.
    pub instructions: Vec<HotInstruction>,
    /// Functions by the node of the threads that ran them, the 12 with most of each node.
    pub code_by_node: Vec<CodeGroup>,
    /// Functions by thread, the 5 with most of the 64 threads with most; empty in programs of more than 2048 threads.
    pub code_by_thread: Vec<CodeGroup>,
    /// Functions by phase, the 8 with most of the 64 phases with most; without the phases in it. Empty where no phase is
    /// known.
    pub code_by_phase: Vec<CodeGroup>,
    /// Which function calls which, from the outermost function inward: at most 600 nodes, a parent before its children.
    pub callees: Vec<CallNode>,
    /// The same from the function that was sampled outward.
    pub callers: Vec<CallNode>,
    /// Processes with samples, the 500 with most.
    pub processes: Vec<ProcessPicture>,
}

/// The node × node matrix with the repairs of objects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Repaired {
    /// Rows: node of the thread; columns: node of the page; share of samples, as `node_matrix`.
    pub node_matrix: Vec<Vec<f64>>,
    /// Remote share of it; null if it is empty.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// The objects that are repaired.
    pub objects: Vec<String>,
}

/// What the length of a strip is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StripAxis {
    /// Bytes from the start of the object.
    Offset,
    /// Allocations in their order, each as wide as the others.
    Allocations,
}

/// Along an object's addresses: on which node its pages are, which threads touched them first, and which threads use them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Strip {
    /// Position in `objects`.
    pub object: usize,
    /// What its length is.
    pub axis: StripAxis,
    /// The length: bytes, or allocations.
    pub extent: u64,
    /// Parts of equal length that it is divided into, at most 256.
    #[schemars(range(min = 1, max = 256))]
    pub bins: usize,
    /// Node of the pages, at the end of the object's life: looked at, or their toucher's unless looks disagree with that;
    /// where lines were counted, of the lines of the part.
    pub node: Vec<Run>,
    /// Node of the threads that touched the pages first.
    pub first_touch: Vec<Run>,
    /// The thread that touched most pages first.
    pub first_thread: Vec<ThreadRun>,
    /// Node of the threads that use it, the initialisation left out.
    pub user: Vec<Run>,
    /// The thread that uses it most; empty where the object has several allocations.
    pub user_thread: Vec<ThreadRun>,
    /// Remote share by part, of the use whose nodes are known; null where there is none.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub remote: Vec<Option<f64>>,
    /// Use of a part over that of the part with most.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub density: Vec<f64>,
    /// Whether use is of counts of every line instead of samples.
    pub exact: bool,
    /// The repair that is meant for it; null if none is.
    pub repair: Option<super::Repair>,
    /// Node of the pages with that repair; null if it moves no memory.
    pub repaired: Option<Vec<Run>>,
    /// The node of the pages at each look; null where pages were looked at once or never, where the row has several
    /// allocations, and on an assumed machine.
    pub over_time: Option<PagesOverTime>,
}

/// Pages × time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PagesOverTime {
    /// Parts of equal length along the addresses, at most 64.
    #[schemars(range(min = 1, max = 64))]
    pub bins: usize,
    /// Looks in order, at most 40.
    pub looks: Vec<LookRow>,
}

/// A look at pages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LookRow {
    /// When, seconds on the clock of `timeline`.
    #[schemars(range(min = 0))]
    pub at_s: f64,
    /// Node of the pages; no mix where none was looked at or present.
    pub node: Vec<Run>,
    /// Parts whose node with most pages is another than at the look before.
    pub moved: Vec<usize>,
}

/// Neighbouring parts of a strip with the same nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Run {
    /// How many parts.
    pub bins: usize,
    /// Nodes with their percentages, most first, at most four; null is an unknown node. Empty if nothing was seen.
    pub mix: Vec<(Option<u32>, u32)>,
}

/// Neighbouring parts of a strip with the same thread.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThreadRun {
    /// How many parts.
    pub bins: usize,
    /// Kernel thread id; null if unknown or none.
    pub tid: Option<u32>,
}

/// Which clock a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimelineClock {
    /// Seconds after the start of the recording.
    Recorded,
    /// Seconds after the start of the counts, in the time that the counted work takes on the machine.
    Simulated,
}

/// What each part of the run was spent on. Any part of it is the sum of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// Which clock it is of: `recorded` are seconds after the start of the recording, `simulated` seconds after the start of
    /// the counts, in the time that the counted work takes on the machine.
    pub clock: TimelineClock,
    /// Start of the first part, seconds.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// End of the last part, seconds.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// Parts of equal length, at most 200.
    #[schemars(range(min = 1, max = 200))]
    pub parts: usize,
    /// All samples.
    pub all: Weights,
    /// By object, of the first 60: `row` is its position in `objects`.
    pub objects: Vec<PartsOf>,
    /// By function, of the first 60: `row` is its position in `functions`.
    pub functions: Vec<PartsOf>,
    /// By thread, of the 64 with most samples, in the order of `threads`.
    pub threads: Vec<ThreadParts>,
    /// Why the threads are missing; null if there may be.
    pub threads_why: Option<String>,
    /// For each part, the pairs of nodes of thread and page, as the rows of `node_matrix` one after the other, in
    /// millionths of the weight of all samples.
    pub node_matrix: Vec<Vec<u32>>,
    /// Why that is empty; null if it is not.
    pub node_matrix_why: Option<String>,
    /// Changes of cpu between consecutive samples of a thread, for each part: at least so many.
    pub migrations: Vec<u64>,
}

/// Weight by part of the run, in millionths of the weight of all samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Weights {
    /// On pages of the thread's own node.
    pub near: Vec<u32>,
    /// On pages of other nodes.
    pub far: Vec<u32>,
    /// Touches no memory, or memory of an unknown node.
    pub other: Vec<u32>,
    /// Waits for another thread in a runtime's loop.
    pub waiting: Vec<u32>,
}

/// Weights of a row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartsOf {
    /// Position in the table.
    pub row: usize,
    /// Its weights.
    #[serde(flatten)]
    pub weights: Weights,
}

/// Weights of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThreadParts {
    /// Kernel thread id.
    pub tid: u32,
    /// Its weights.
    #[serde(flatten)]
    pub weights: Weights,
    /// The cpu that it was seen on most, for each part; null where it was not seen.
    pub cpu: Vec<Option<u32>>,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// Its name; empty for the region of interest.
    pub name: String,
    /// Start, seconds after the start of the recording.
    pub from_s: f64,
    /// End, seconds.
    pub to_s: f64,
}

/// An instruction with samples.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HotInstruction {
    /// Line of code as `file:line`, else `module+offset`; null if unknown.
    pub at: Option<String>,
    /// Function.
    pub function: String,
    /// Path of the file that it is in.
    pub module: String,
    /// Build id of that file in hex when it was recorded; null if it has none.
    pub build_id: Option<String>,
    /// Where in that file, bytes.
    pub file_offset: u64,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Remote, of those whose node is known; null if none is.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
}

/// What the threads of a node, a thread, or the threads in a phase spent their time on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CodeGroup {
    /// Of groups by node: the node; null if unknown.
    pub node: Option<u32>,
    /// Of groups by thread: its kernel id.
    pub tid: Option<u32>,
    /// Of groups by phase: position in `phases.nodes`; the first is what ran in no phase.
    pub phase: Option<usize>,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Remote, of those whose node is known; null if none is.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// Functions, most first.
    pub functions: Vec<GroupPart>,
}

/// A function's part of a group.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupPart {
    /// Position in `functions`.
    pub row: usize,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Remote, of those whose node is known; null if none is.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
}

/// A function in a tree of calls.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallNode {
    /// Its name.
    pub function: String,
    /// Position of its parent in the tree; null for a root.
    pub parent: Option<usize>,
    /// Share of all samples, what it calls included; in `callers`, of the samples whose root it leads to.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Of it, itself only.
    #[schemars(range(min = 0, max = 1))]
    pub own_share: f64,
    /// Remote, of those whose node is known; null if none is.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProcessPicture {
    /// Kernel process id.
    pub pid: u32,
    /// Path of its executable.
    pub executable: String,
    /// Threads with samples.
    pub threads: usize,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Share of all samples by node of the page, in the order of `machine.node_ids`.
    pub by_page_node: Vec<f64>,
}

/// The parts of a machine, and what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachinePicture {
    /// Nodes, in the order of `machine.node_ids`.
    pub nodes: Vec<NodePicture>,
    /// Caches of one core, inner first; empty if unknown.
    pub caches: Vec<CachePicture>,
    /// Links between nodes; empty if none are described.
    pub links: Vec<LinkPicture>,
    /// Firmware distances: rows are nodes of cpus, columns nodes of memory, as `nodes`; empty if unknown.
    pub distances: Vec<Vec<u32>>,
    /// Idle latency in ns, likewise; null for an unknown pair, empty if all are unknown.
    pub latency_ns: Vec<Vec<Option<f64>>>,
    /// Read bandwidth in GB/s with all cpus of the row reading, likewise.
    pub read_gb_per_s: Vec<Vec<Option<f64>>>,
    /// Where latency and bandwidth come from: `latency: SOURCE (confidence C)`; empty if unknown.
    pub sources: Vec<String>,
}

/// A node of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodePicture {
    /// Kernel number.
    pub id: u32,
    /// Physical package; null if unknown.
    pub package: Option<u32>,
    /// Kernel numbers of its cpus as a list: `0-21,44-65`; empty for a node without cpus.
    pub cpus: String,
    /// Number of its cpus.
    pub cpu_count: usize,
    /// Number of its cores.
    pub cores: usize,
    /// What kind of memory.
    pub kind: NodeKind,
    /// Bytes of memory; null if unknown.
    pub memory_bytes: Option<u64>,
    /// Read bandwidth that its memory sustains, GB/s; null if unknown.
    #[schemars(range(min = 0))]
    pub read_gb_per_s: Option<f64>,
}

/// A cache level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CachePicture {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes of one instance.
    pub size_bytes: u64,
    /// Cores that share one instance.
    pub cores_per_instance: u32,
}

/// Links between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkPicture {
    /// One end, kernel number.
    pub from: u32,
    /// The other end.
    pub to: u32,
    /// What all links between the two carry in one direction, GB/s.
    #[schemars(range(min = 0))]
    pub gb_per_s: f64,
}

/// What goes from cpus to memory and back: of counted lines, or of samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Between two nodes, most first.
    pub flows: Vec<TrafficFlow>,
    /// Of each node's memory, in the order of `machine.node_ids`.
    pub memories: Vec<MemoryTraffic>,
}

/// Traffic of the cpus of one node with the memory of one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrafficFlow {
    /// Node of the cpus.
    pub from: u32,
    /// Node of the memory.
    pub page_node: u32,
    /// Share of all traffic whose nodes are known.
    #[schemars(range(min = 0, max = 1.000001))]
    pub share: f64,
    /// Read and written, GB/s over the time that the counted work takes; null unless lines were counted and timed.
    #[schemars(range(min = 0))]
    pub gb_per_s: Option<f64>,
    /// What the way carries in all, GB/s: the memory of the node, or the link from the memory's node to the cpus'. Null
    /// if unknown.
    #[schemars(range(min = 0))]
    pub way_gb_per_s: Option<f64>,
    /// What the way sustains, GB/s; null if unknown.
    #[schemars(range(min = 0))]
    pub way_sustains_gb_per_s: Option<f64>,
    /// The first over the second.
    #[schemars(range(min = 0))]
    pub load: Option<f64>,
}

/// Near and far traffic of the memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MemoryTraffic {
    /// Node of the memory.
    pub node: u32,
    /// With cpus of the same node, share of all traffic.
    #[schemars(range(min = 0, max = 1.000001))]
    pub near_share: f64,
    /// With cpus of other nodes.
    #[schemars(range(min = 0, max = 1.000001))]
    pub far_share: f64,
    /// With cpus of the same node, GB/s; null unless lines were counted and timed.
    #[schemars(range(min = 0))]
    pub near_gb_per_s: Option<f64>,
    /// With cpus of other nodes.
    #[schemars(range(min = 0))]
    pub far_gb_per_s: Option<f64>,
    /// Over what the memory sustains; null if unknown.
    #[schemars(range(min = 0))]
    pub load: Option<f64>,
}
