//! What would become of the time if memory or threads were elsewhere.

use super::Predicted;
use schemars::JsonSchema;
use serde::Serialize;

/// Where an object's memory would lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Repair {
    /// Each page on the node that moves most of its lines: what a first touch in the order of the work gives,
    /// or blocks that are bound in advance.
    WhereUsed,
    /// Pages in turns over all nodes that have cpus.
    Interleave,
    /// The same, as many as each node's memory is fast.
    WeightedInterleave,
    /// Pages in turns over all nodes that have memory of the machine's own, more on the faster ones: so many in a row on each.
    Weighted {
        /// On each node with cpus.
        with_cpus: u32,
        /// On each node without, as of a CXL device.
        without: u32,
    },
    /// All pages on one node.
    Bind {
        /// The node.
        node: u32,
    },
    /// Memory stays, and the work comes to it: the loop that uses it gets the (static) schedule of the loop that
    /// touched it first. A change of the source.
    SameSchedule,
    /// A copy on each node that uses it; only for what is never written after its initialisation.
    Replicate,
}

/// What one repair would give.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RepairRow {
    /// The objects that it is applied to, all else as it was; empty: the whole program.
    pub objects: Vec<String>,
    /// What is done.
    pub repair: Repair,
    /// The time with it over the time without.
    pub predicted: Predicted,
    /// Remote share of all DRAM lines then.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: f64,
}

/// An object's part in the best combination, and how to say it to the kernel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RepairPart {
    /// The object.
    pub object: String,
    /// What is done with it.
    pub repair: Repair,
    /// `file:line` that allocates it; null for a static variable, and where the line is not known.
    pub allocated_at: Option<String>,
    /// The static variable's name; null for what is allocated.
    pub variable: Option<String>,
    /// Path of the library whose code allocates it; null for the program's own.
    pub module: Option<String>,
    /// For `interleave`, `weighted` and `bind`: the nodes.
    pub nodes: Vec<u32>,
    /// For `weighted` and `weighted_interleave`: pages in a row on each of the nodes.
    pub weights: Vec<u32>,
    /// Bytes of one of its allocations.
    pub bytes: u64,
    /// For `where_used`: parts of the object by ascending end (bytes from its begin), each with its node.
    pub blocks: Vec<(u64, u32)>,
    /// For `where_used` and several allocations of one line: the node of each, in the order of allocation.
    pub turns: Vec<u32>,
    /// Why no placement file can say it; null if one can.
    pub not_placeable: Option<String>,
}

/// Parts of one object and of another end at the same place if the ends differ by less than this part of the object. Blocks
/// are scaled to each allocation's size. // chosen
const SAME_END: f64 = 0.01;

impl RepairPart {
    /// Whether a file would place another object in the same way. A file names objects by the line that allocates them: those
    /// of one line are placed alike.
    pub fn is_like(&self, other: &RepairPart) -> bool {
        let ends = |part: &RepairPart| -> Vec<(f64, u32)> {
            part.blocks.iter().map(|&(end, node)| (end as f64 / part.bytes.max(1) as f64, node)).collect()
        };
        let (own, others) = (ends(self), ends(other));
        self.repair == other.repair
            && (&self.nodes, &self.weights) == (&other.nodes, &other.weights)
            && self.turns == other.turns
            && own.len() == others.len()
            && own.iter().zip(&others).all(|(a, b)| a.1 == b.1 && (a.0 - b.0).abs() < SAME_END)
    }

    /// Whether a file would name both by the same line or variable.
    pub fn is_named_as(&self, other: &RepairPart) -> bool {
        (&self.allocated_at, &self.variable, &self.module)
            == (&other.allocated_at, &other.variable, &other.module)
    }
}

/// The best combination found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Combination {
    /// What is done with each object; those not named stay as they are.
    pub parts: Vec<RepairPart>,
    /// The time with it over the time without.
    pub predicted: Predicted,
    /// Remote share of all DRAM lines then.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: f64,
}

/// Threads and all memory on one node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OneNode {
    /// The node.
    pub node: u32,
    /// The time with it over the time without, as far as memory goes: caches that more threads would share
    /// are not in it.
    pub predicted: Predicted,
}

/// Predictions of the time from the counts of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatIf {
    /// Remote share of all DRAM lines now.
    #[schemars(range(min = 0, max = 1))]
    pub remote_share: f64,
    /// Repairs of single objects, then of all of them alike; the most gain first.
    pub repairs: Vec<RepairRow>,
    /// The best combination of repairs of single objects; null if none gains anything.
    pub best: Option<Combination>,
    /// The best of what a placement file can say for an unmodified program; null if that is nothing.
    pub placeable: Option<Combination>,
    /// If every line were local, or, where that is better, the best that was found (one node's memory may have too much
    /// to do although all of it is local): no placement can be faster by more than what caches would change.
    pub all_local: Predicted,
    /// All threads and memory on one node; null where they do not fit, or run on one node already.
    pub one_node: Option<OneNode>,
    /// Findings that would gain less than 3 %: kind, objects, and the ratio.
    pub not_worth: Vec<NotWorth>,
}

/// A finding that is not worth a change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NotWorth {
    /// The finding's kind.
    pub kind: String,
    /// Its objects.
    pub objects: Vec<String>,
    /// The time after its repair over the time before.
    pub predicted: Predicted,
}

/// What near memory would bring, by samples: of a clock with the speeds of loops, or the processor's of loads and the clock's.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SampledGain {
    /// The time over the time now if every line were local.
    pub every_line_local: Predicted,
    /// The same with the repairs of all findings; null if there are none, and where that is not known.
    pub repaired: Option<Predicted>,
    /// What it is predicted from.
    pub source: String,
    /// Parts of the run that have a longest thread each; the run lasts as long as these.
    pub slices: usize,
    /// Share of the run that these threads' samples explain. The rest is taken to stay as it is.
    #[schemars(range(min = 0, max = 1))]
    pub explained_share: f64,
    /// Latency of far memory over that of near memory; null if no sample was of far memory, and where the time model has it.
    #[schemars(range(min = 0))]
    pub far_over_near: Option<f64>,
    /// Where that ratio is from: `samples`, `machine file` or `assumed figures`; null with it.
    pub latencies_from: Option<String>,
}
