//! One thread of the pass over samples: what it has counted, and what it remembers of the last samples.

use crate::context::Context;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::layer::Validity;
use crate::page_nodes::PageNode;
use crate::reach::Trail;
use crate::stats::BLOCKS;
use nearfar_recording::NONE;

/// Answers of the object lookup that a worker remembers. // chosen
pub(super) const CACHE: usize = 1024;
/// One thread's part of the pass.
pub struct Worker<'a> {
    /// What it looks things up in.
    pub context: &'a Context<'a>,
    pub(super) nodes: usize,
    pub(super) counters: Counters,
    pub(super) trail: Trail,
    /// Direct-mapped answers of the object lookup: (space, validity, thing).
    pub(super) cache: Vec<(u32, Validity, u32)>,
    /// Node of the page of a whole object, for samples that know only the object.
    pub(super) uniform: FastMap<u32, PageNode>,
    /// Start of the first block of time, and blocks per ns.
    pub(super) first_ns: u64,
    pub(super) per_block: f64,
}

impl<'a> Worker<'a> {
    /// One that has counted nothing.
    pub fn new(context: &'a Context<'a>) -> Worker<'a> {
        let nodes = context.finder.nodes.count;
        let (first_ns, last_ns) = context.region.bounds;
        let never = Validity { from: 1, to: 0, since: 1, until: 0 };
        Worker {
            context,
            nodes,
            counters: Counters::new(context.spaces_of_threads.len(), nodes, context.rows.rows.len()),
            trail: Trail::default(),
            cache: vec![(NONE, never, NONE); CACHE],
            uniform: FastMap::default(),
            first_ns,
            per_block: BLOCKS as f64 / (last_ns.saturating_sub(first_ns) + 1) as f64,
        }
    }
}

/// What was found out about a sample.
pub(super) struct Fact {
    pub(super) weight: u64,
    /// Its block of the recorded time, for intervals.
    pub(super) block: usize,
    /// Its block of the pictures over time, which may be of another clock.
    pub(super) shown: usize,
    pub(super) page_node: PageNode,
    pub(super) class: usize,
    pub(super) known: bool,
    pub(super) remote: bool,
    pub(super) store: bool,
    pub(super) node: u8,
    pub(super) space: u32,
    /// The resource that bound at that time.
    pub(super) bound: Option<u16>,
}
