//! Objects: how their pages got where they are, and how threads use them.

use super::{DistanceShare, DramLines, Interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an object's pages got where they are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TouchRow {
    /// Kernel thread id that touched first.
    pub thread: u32,
    /// Node of that thread: the node of the pages. Null if unknown.
    pub node: Option<u32>,
    /// Pages of the base size placed.
    pub pages: u64,
    /// `file:line` of the touch, in the program's own code; `module+0xoffset` where lines are unknown.
    pub at: Option<String>,
    /// Function of the touch.
    pub function: Option<String>,
    /// How the pages came: `write`, `read`, `copy-on-write`, `refault`, `populate` (MAP_POPULATE, mlock), `inherited` (recycled heap), `moved`.
    pub how: String,
}

/// Where an object is used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UseRow {
    /// `file:line`.
    pub at: Option<String>,
    /// Function.
    pub function: Option<String>,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub stall_share: f64,
    /// Share of these samples that is remote, of those whose page's node is known.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// Share of all samples that are here and near; null if no page's node is known.
    #[schemars(range(min = 0, max = 1))]
    pub near_share: Option<f64>,
    /// Share of all samples that are here and far: the most that a repair can save at this line. Null likewise.
    #[schemars(range(min = 0, max = 1))]
    pub at_risk: Option<f64>,
    /// Its lines from and to DRAM; null where lines are not what is counted.
    pub dram: Option<DramLines>,
}

/// Lines from and to memory, estimated from samples of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineEstimate {
    /// The likely number.
    pub lines: u64,
    /// Lower end.
    pub low: u64,
    /// Upper end.
    pub high: u64,
}

/// How threads use the address range of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Each thread its own contiguous part.
    Blocked,
    /// Threads take turns in small chunks.
    Cyclic,
    /// Stacks, or objects of one line, each used by a thread of its own.
    OwnThread,
    /// Every thread everywhere.
    AllOver,
    /// Only one thread uses it.
    OneThread,
    /// Too few samples to tell.
    #[default]
    Unknown,
}

/// Address range that one thread uses, as offsets in the object.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadRange {
    /// Kernel thread id.
    pub thread: u32,
    /// Samples with an address.
    pub samples: u64,
    /// 5th percentile offset, bytes.
    pub from: u64,
    /// 95th percentile offset, bytes.
    pub to: u64,
}

/// How many of an object's pages came how.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PageOrigins {
    /// Base pages of the object.
    pub total: u64,
    /// First touched by a thread, seen.
    pub touched: u64,
    /// Recycled: touched before this object was allocated.
    pub inherited: u64,
    /// Present although no touch was seen: placed by the kernel (read, recv, populate) or before the recording.
    pub unseen: u64,
    /// Never seen present (never touched, or not looked at).
    pub absent_or_unknown: u64,
}

/// An object, or all objects of one site.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ObjectRow {
    /// Variable name, symbol, mapping name, `allocation at file:line`, or `allocation in function` where no line is known; of what one line allocates for several callers with
    /// ` called from file:line`.
    pub name: String,
    /// How the name was found: `program` (given by it), `dwarf`, `source`, `symbol`, `mapping`, `site`, `allocator` (memory that an allocator mapped in advance).
    pub name_from: String,
    /// An object kind's text.
    pub kind: String,
    /// Most bytes that the site's objects had at a time; estimated for sampled small ones.
    pub bytes: u64,
    /// Most objects of this row at a time; estimated for sampled small ones.
    pub count: u64,
    /// Objects of this row over the whole run; of small ones those that were sampled.
    pub allocations: u64,
    /// `file:line` of the allocation in the program's own code.
    pub allocated_at: Option<String>,
    /// Function of the allocation.
    pub allocated_in: Option<String>,
    /// `file:line` of the program that led to the allocation, where that is in code whose lines are not known; null where they are.
    pub allocated_for: Option<String>,
    /// Allocation helpers of the program through which that line got the memory, outermost first: `function (file:line)`.
    pub allocated_through: Vec<String>,
    /// Which threads placed the pages, most pages first.
    pub first_touch: Vec<TouchRow>,
    /// Pages by origin.
    pub pages: PageOrigins,
    /// Folio sizes seen, bytes.
    pub folio_bytes: Vec<u64>,
    /// Samples attributed to it.
    pub samples: u64,
    /// Share of all samples.
    #[schemars(range(min = 0, max = 1))]
    pub stall_share: f64,
    /// Share of its samples whose page is on another node, of those whose page's node is known; null if none is known.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: Option<f64>,
    /// 95 % interval. For counted runs: lower and upper bound, because lines of a page shared by two objects cannot be assigned; where they were counted in
    /// windows, wider by how far off these are.
    pub remote_share_ci: Option<Interval>,
    /// Whether `remote_share` is of counts of every line (or of every one in windows: `counters.windows`) instead of samples.
    pub remote_share_exact: bool,
    /// Its lines from and to DRAM; null where lines are not what is counted.
    pub dram: Option<DramLines>,
    /// Its lines from and to memory in the region, by the speed of the loops that use it and the judged machine's caches; null where
    /// lines are counted, where the object is used beside loops of known speed, and where the range is too wide (upper end over lower above 1.5).
    pub estimated_lines: Option<LineEstimate>,
    /// By distance.
    pub distance: Vec<DistanceShare>,
    /// Share of its samples whose page's node is unknown.
    #[schemars(range(min = 0, max = 1))]
    pub page_node_unknown_share: f64,
    /// Where it is used, most first.
    pub accessed_at: Vec<UseRow>,
    /// How threads use it.
    pub pattern: Pattern,
    /// Range per thread.
    pub thread_ranges: Vec<ThreadRange>,
}
