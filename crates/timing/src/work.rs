//! What the cores did: the tables' rows added up by core and epoch.

use super::parameters::Parameters;
use nearfar_recording::*;
use std::collections::HashMap;

/// What one core did to the memory of one node. Numbers of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeWork {
    /// Read from memory, prefetched ones included.
    pub reads: f64,
    /// Of these, prefetched.
    pub prefetches: f64,
    /// Written back.
    pub writes: f64,
    /// Streamed to memory by non-temporal stores.
    pub streams: f64,
    /// Supplied by a cache of that node.
    pub transfers: f64,
    /// Page walks for its pages.
    pub walks: f64,
}

impl NodeWork {
    /// Lines that the core waits for: all but those written back.
    pub fn requests(&self) -> f64 {
        self.reads + self.streams + self.transfers
    }

    fn add(&mut self, other: &NodeWork) {
        self.reads += other.reads;
        self.prefetches += other.prefetches;
        self.writes += other.writes;
        self.streams += other.streams;
        self.transfers += other.transfers;
        self.walks += other.walks;
    }

    fn is_nothing(&self) -> bool {
        *self == NodeWork::default()
    }
}

/// What one core did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreWork {
    /// Instructions.
    pub instructions: f64,
    /// Hits in each level of cache, inner first; those of the first cost nothing extra.
    pub hits: [f64; 3],
    /// Lines demanded one at a time, each address from the line before.
    pub dependent: f64,
    /// By its own simulated clock, ns.
    pub busy_ns: f64,
    /// By position of the node of the page; empty for none.
    pub page_nodes: Vec<NodeWork>,
}

impl CoreWork {
    /// The nodes of pages that it used, with their positions.
    pub fn used(&self) -> impl Iterator<Item = (usize, &NodeWork)> {
        self.page_nodes.iter().enumerate().filter(|(_, h)| !h.is_nothing())
    }

    /// Moves all its memory to the node of the page at a position.
    pub fn all_to(&mut self, page_node: usize) {
        let mut sum = NodeWork::default();
        self.page_nodes.iter().for_each(|h| sum.add(h));
        if let Some(new) = self.page_nodes.get_mut(page_node) {
            *new = sum;
            (0..self.page_nodes.len())
                .filter(|&h| h != page_node)
                .for_each(|h| self.page_nodes[h] = NodeWork::default());
        }
    }

    /// Whether it did anything.
    pub fn is_idle(&self) -> bool {
        self.instructions == 0.0 && self.used().next().is_none()
    }

    fn page_node(&mut self, at: usize, count: usize) -> &mut NodeWork {
        if self.page_nodes.is_empty() {
            self.page_nodes.resize(count, NodeWork::default());
        }
        &mut self.page_nodes[at]
    }

    pub(super) fn add(&mut self, other: &CoreWork) {
        self.instructions += other.instructions;
        self.dependent += other.dependent;
        self.busy_ns += other.busy_ns;
        for (mine, hits) in self.hits.iter_mut().zip(other.hits) {
            *mine += hits;
        }
        for (at, page_node) in other.used() {
            self.page_node(at, other.page_nodes.len()).add(page_node);
        }
    }
}

/// What all cores did in an epoch, or in several that are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// First epoch.
    pub first_epoch: u32,
    /// Last epoch, inclusive.
    pub last_epoch: u32,
    /// Time that passed by the simulated clocks, ns; 0 if not known. More than the
    /// busiest core's own where cores waited for each other in turns.
    pub elapsed_ns: f64,
    /// By core, in the order of the parameters' cores.
    pub cores: Vec<CoreWork>,
}

impl Work {
    /// One piece of work by threads on cpus; `None` if a cpu is not the machine's.
    pub(super) fn steady(parameters: &Parameters, threads: &[(u32, Vec<NodeWork>)]) -> Option<Work> {
        let mut work = Work { cores: vec![CoreWork::default(); parameters.places.len()], ..Work::default() };
        for (cpu, page_nodes) in threads {
            let core = parameters.places.iter().position(|p| p.cpus.contains(cpu))?;
            let mine = CoreWork { page_nodes: page_nodes.clone(), ..CoreWork::default() };
            work.cores[core].add(&mine);
        }
        Some(work)
    }

    /// Adds a later epoch.
    pub fn add(&mut self, later: &Work) {
        self.last_epoch = later.last_epoch;
        self.elapsed_ns += later.elapsed_ns;
        for (mine, other) in self.cores.iter_mut().zip(&later.cores) {
            mine.add(other);
        }
    }

    /// The same work divided evenly among the cores that did any, each with its own part of the memory of its
    /// own node: what a static schedule makes of a loop whose pages were touched by it first.
    ///
    /// `node_of`: position of a core's node.
    pub fn evened(&mut self, node_of: impl Fn(usize) -> usize) {
        let active: Vec<usize> = (0..self.cores.len()).filter(|&c| !self.cores[c].is_idle()).collect();
        let mut all = CoreWork::default();
        active.iter().for_each(|&c| all.add(&self.cores[c]));
        let part = 1.0 / active.len().max(1) as f64;
        let count = all.page_nodes.len();
        let mut lines = NodeWork::default();
        all.page_nodes.iter().for_each(|h| lines.add(h));
        let scaled = |w: &NodeWork| NodeWork {
            reads: w.reads * part,
            prefetches: w.prefetches * part,
            writes: w.writes * part,
            streams: w.streams * part,
            transfers: w.transfers * part,
            walks: w.walks * part,
        };
        for &core in &active {
            let own = &mut self.cores[core];
            own.instructions = all.instructions * part;
            own.hits = all.hits.map(|h| h * part);
            own.dependent = all.dependent * part;
            own.busy_ns = all.busy_ns * part;
            own.page_nodes = vec![NodeWork::default(); count];
            if let Some(page_node) = own.page_nodes.get_mut(node_of(core)) {
                *page_node = scaled(&lines);
            }
        }
        self.elapsed_ns = self.busiest_ns();
    }

    /// The busiest core's own clock, ns.
    pub fn busiest_ns(&self) -> f64 {
        self.cores.iter().map(|c| c.busy_ns).fold(0.0, f64::max)
    }

    /// By how much waiting in turns stretched the time; 1 if nothing is known of it.
    pub fn wait_factor(&self) -> f64 {
        let busiest = self.busiest_ns();
        if busiest > 0.0 && self.elapsed_ns > busiest { self.elapsed_ns / busiest } else { 1.0 }
    }
}

/// Rows that could not be used as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Lines whose page's node is not known; counted as of the cpu's own node.
    pub lines_without_node: u64,
    /// Rows of cpus that the machine does not have; not counted.
    pub foreign_rows: u64,
}

/// The epochs that count, in order: those of the region of interest, or all if
/// the run marked none.
pub(super) fn epochs(
    parameters: &Parameters,
    cpus: &CpuEpochs,
    traffic: &EpochTraffics,
) -> (Vec<Work>, Left) {
    let region = cpus.region.iter().chain(&traffic.region).any(|&r| r == 1);
    let counts = |r: u8| !region || r == 1;
    let mut left = Left::default();
    let mut core_of: HashMap<u16, usize> = HashMap::new();
    for (core, place) in parameters.places.iter().enumerate() {
        core_of.extend(place.cpus.iter().filter_map(|&c| Some((u16::try_from(c).ok()?, core))));
    }
    let count = parameters.nodes.len();
    let mut at: HashMap<u32, usize> = HashMap::new();
    let mut found: Vec<Work> = Vec::new();
    let mut numbers: Vec<u32> =
        cpus.epoch.iter().zip(&cpus.region).filter(|(_, r)| counts(**r)).map(|(e, _)| *e).collect();
    numbers.extend(traffic.epoch.iter().zip(&traffic.region).filter(|(_, r)| counts(**r)).map(|(e, _)| *e));
    numbers.sort_unstable();
    numbers.dedup();
    for epoch in numbers {
        at.insert(epoch, found.len());
        let cores = vec![CoreWork::default(); parameters.places.len()];
        found.push(Work { first_epoch: epoch, last_epoch: epoch, elapsed_ns: 0.0, cores });
    }
    // A cpu that was ahead may have gone on when a barrier ended the epoch; one that was the last of all knows no end.
    let mut lengths = vec![f64::INFINITY; found.len()];
    for row in cpus.rows().filter(|r| counts(r.region)) {
        let Some(&core) = core_of.get(&row.cpu) else {
            left.foreign_rows += 1;
            continue;
        };
        let work = &mut found[at[&row.epoch]].cores[core];
        work.instructions += row.instructions as f64;
        work.dependent += row.dependent_lines as f64;
        work.busy_ns += row.busy_ns.max(0.0);
        lengths[at[&row.epoch]] = lengths[at[&row.epoch]].min(row.epoch_ns);
        for (mine, hits) in work.hits.iter_mut().zip([row.l1_hits, row.l2_hits, row.l3_hits]) {
            *mine += hits as f64;
        }
    }
    for row in traffic.rows().filter(|r| counts(r.region)) {
        let Some(&core) = core_of.get(&row.cpu) else {
            left.foreign_rows += 1;
            continue;
        };
        let page_node =
            u32::try_from(row.page_node).ok().and_then(|h| parameters.nodes.iter().position(|&n| n == h));
        if page_node.is_none() {
            left.lines_without_node += row.read_lines + row.write_lines + row.stream_lines;
        }
        let own = parameters.places[core].node;
        found[at[&row.epoch]].cores[core].page_node(page_node.unwrap_or(own), count).add(&NodeWork {
            reads: row.read_lines as f64,
            prefetches: row.prefetch_lines.min(row.read_lines) as f64,
            writes: row.write_lines as f64,
            streams: row.stream_lines as f64,
            transfers: row.transfer_lines as f64,
            walks: row.walks as f64,
        });
    }
    for (work, length) in found.iter_mut().zip(lengths) {
        work.elapsed_ns =
            if length.is_finite() && length > 0.0 { length.max(work.busiest_ns()) } else { 0.0 };
    }
    found.retain(|w| w.cores.iter().any(|c| !c.is_idle()));
    elapsed(&mut found);
    (found, left)
}

/// The time that passed in each epoch, where it is not recorded: an epoch between others is a whole one,
/// and the longest that any core was busy in one tells how long that is. At the
/// ends of the region an epoch is cut; there the busiest core must do.
fn elapsed(epochs: &mut [Work]) {
    // A hardware core with two threads has both their clocks in it.
    let whole = epochs.iter().map(Work::busiest_ns).fold(0.0, f64::max);
    let last = epochs.len().saturating_sub(1);
    for i in 0..epochs.len() {
        let follows = |a: usize, b: usize| epochs[a].last_epoch + 1 == epochs[b].first_epoch;
        let inside = i > 0 && i < last && follows(i - 1, i) && follows(i, i + 1);
        if epochs[i].elapsed_ns == 0.0 {
            epochs[i].elapsed_ns = if inside { whole } else { epochs[i].busiest_ns() };
        }
    }
}
