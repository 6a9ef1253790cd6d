//! Lines by object, and what becomes of them where memory is elsewhere.
//!
//! The page table of counts says exactly which node moved how many lines of each page, over the whole
//! region. The epochs say exactly when how many lines moved between which nodes, but not of which
//! pages. Samples have both. So the parts of a phase's lines come from its samples, and as far as
//! these are few, from the parts of the whole region.

use crate::counters::{Cell, Counters, Halves};
use crate::exact::Exact;
use crate::hash::FastMap;
use crate::input::Input;
use crate::nodes::{NodeIndex, Nodes, UNKNOWN};
use crate::value::Repair;
use nearfar_machine::{Machine, NodeId};
use nearfar_timing::work::{NodeWork, Work};
use nearfar_timing::{Comparison, Timeline};

/// So many samples count as much as what is known of the whole region. // chosen
const PRIOR: f64 = 32.0;

/// Part of the lines between two nodes: of which row, on pages that which node uses most; read and written.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    row: u32,
    user: NodeIndex,
    of: [f64; 2],
}

/// By pair of nodes.
pub type Parts = Vec<Vec<Part>>;

/// Lines of each kind.
#[derive(Debug)]
pub struct Flows {
    /// Kernel numbers of the nodes, by position.
    ids: Vec<NodeId>,
    /// Over the region, lines.
    cells: Vec<(Cell, [f64; 2])>,
    /// Of the region, by pair.
    whole: Parts,
    /// By phase, by half of the samples and of all (index 2).
    phases: FastMap<u32, [Parts; 3]>,
    /// Positions and weights of the nodes that pages may be interleaved over.
    turns: Vec<(usize, f64)>,
    /// The same, by bandwidth.
    weighted: Vec<(usize, f64)>,
    /// Positions of nodes without cpus whose memory pages may be on.
    without_cpus: Vec<usize>,
}

impl Flows {
    /// Adds up what was counted.
    pub fn new(input: &Input, nodes: &Nodes, exact: &Exact, counters: &Counters, machine: &Machine) -> Flows {
        let parts = exact.parts(counters);
        let mut cells: FastMap<Cell, [f64; 2]> = FastMap::default();
        for page in &exact.pages {
            for flow in exact.flows(input, nodes, page) {
                let (from, page_node) = (flow.from, flow.page_node);
                if from == UNKNOWN || page_node == UNKNOWN || page.user == UNKNOWN {
                    continue;
                }
                let one = [(page.row, 1.0)];
                let shared = parts.get(page.shared as usize).map_or(&one[..], Vec::as_slice);
                let [read, written] = flow.lines;
                for &(row, part) in shared {
                    let mut add = |user, [read, written]: [f64; 2]| {
                        let sum = cells.entry(Cell { row, from, page_node, user }).or_default();
                        sum[0] += read * part;
                        sum[1] += written * part;
                    };
                    add(page.user, [read, written - flow.leftover]);
                    if flow.leftover > 0.0 {
                        add(from, [0.0, flow.leftover]);
                    }
                }
            }
        }
        let mut cells: Vec<(Cell, [f64; 2])> = cells.into_iter().collect();
        cells.sort_by_key(|c| c.0);
        let whole = normal(nodes.count, cells.iter().copied());
        let mut sampled: FastMap<u32, Vec<(Cell, Halves)>> = FastMap::default();
        for (&(phase, cell), &halves) in &counters.cells {
            sampled.entry(phase).or_default().push((cell, halves));
        }
        let ids: Vec<NodeId> = machine.nodes.iter().map(|n| n.id).collect();
        let with_cpus: Vec<usize> = machine.cpu_nodes().filter_map(|n| machine.position(n.id)).collect();
        let rate = |n: usize| machine.figures.bandwidth_of(ids[n]).and_then(|b| b.rate(0.25));
        let even = 1.0 / with_cpus.len().max(1) as f64;
        let all: Option<f64> = with_cpus.iter().map(|&n| rate(n)).sum();
        Flows {
            turns: with_cpus.iter().map(|&n| (n, even)).collect(),
            weighted: with_cpus
                .iter()
                .map(|&n| (n, all.map_or(even, |all| rate(n).unwrap_or(0.0) / all)))
                .collect(),
            without_cpus: machine.memory_nodes().filter_map(|n| machine.position(n.id)).collect(),
            phases: sampled
                .into_iter()
                .map(|(phase, mut cells)| {
                    cells.sort_by_key(|c| c.0);
                    (phase, [0, 1, 2].map(|half| blend(nodes.count, &cells, half, &whole)))
                })
                .collect(),
            cells,
            whole,
            ids,
        }
    }

    /// Positions of the nodes with cpus.
    pub fn with_cpus(&self) -> impl Iterator<Item = usize> + '_ {
        self.turns.iter().map(|t| t.0)
    }

    /// Whether the nodes' memory is not equally fast.
    pub fn uneven(&self) -> bool {
        self.turns.iter().zip(&self.weighted).any(|(even, weighted)| (even.1 - weighted.1).abs() > 0.02)
    }

    /// Whether samples had to tell phases apart.
    pub fn sampled(&self) -> bool {
        !self.phases.is_empty()
    }

    /// Rows by their lines, the most first.
    pub fn rows(&self) -> Vec<(u32, f64)> {
        let mut rows: FastMap<u32, f64> = FastMap::default();
        for (cell, [read, written]) in &self.cells {
            *rows.entry(cell.row).or_default() += read + written;
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        rows
    }

    /// Remote share of a row's lines.
    pub fn remote_of(&self, row: u32, repair: Option<Repair>) -> f64 {
        self.far(&|_| repair, &|x| x == row)
    }

    /// Remote share of all lines.
    pub fn remote(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> f64 {
        self.far(repair, &|_| true)
    }

    fn far(&self, repair: &dyn Fn(u32) -> Option<Repair>, of: &dyn Fn(u32) -> bool) -> f64 {
        let (mut all, mut far) = (0.0, 0.0);
        let mut page_nodes = vec![0.0; self.ids.len()];
        for (cell, [read, written]) in self.cells.iter().filter(|c| of(c.0.row)) {
            page_nodes.fill(0.0);
            self.page_node(
                repair(cell.row),
                cell.from,
                usize::from(cell.page_node),
                cell.user,
                &mut page_nodes,
            );
            all += read + written;
            far += (read + written) * (1.0 - page_nodes[usize::from(cell.from)]);
        }
        if all > 0.0 { far / all } else { 0.0 }
    }

    /// Adds where lines between `from` and `old` go, in parts of 1.
    fn page_node(
        &self,
        repair: Option<Repair>,
        from: NodeIndex,
        old: usize,
        user: NodeIndex,
        to: &mut [f64],
    ) {
        match repair {
            None => to[old] += 1.0,
            Some(Repair::WhereUsed) => to[usize::from(user)] += 1.0,
            Some(Repair::Replicate | Repair::SameSchedule) => to[usize::from(from)] += 1.0,
            Some(Repair::Interleave) => self.turns.iter().for_each(|&(n, part)| to[n] += part),
            Some(Repair::WeightedInterleave) => self.weighted.iter().for_each(|&(n, part)| to[n] += part),
            Some(Repair::Weighted { with_cpus, without }) => {
                let [near, far] = [f64::from(with_cpus), f64::from(without)];
                let all = near * self.turns.len() as f64 + far * self.without_cpus.len() as f64;
                self.turns.iter().for_each(|t| to[t.0] += near / all);
                self.without_cpus.iter().for_each(|&n| to[n] += far / all);
            }
            Some(Repair::Bind { node }) => {
                to[self.ids.iter().position(|&id| id == node).unwrap_or(old)] += 1.0;
            }
        }
    }

    /// The timeline's work with the memory of rows elsewhere. `half`: 0 and 1 for what one half of the samples says, 2 for
    /// all. `divides`: loops with another schedule divide their work evenly.
    pub fn moved(
        &self,
        timeline: &Timeline,
        comparison: &Comparison,
        repair: &dyn Fn(u32) -> Option<Repair>,
        half: usize,
        divides: bool,
    ) -> Vec<Work> {
        let parts = |at: usize| self.phases.get(&(at as u32)).map_or(&self.whole, |halves| &halves[half]);
        self.moved_by(&parts, timeline, comparison, repair, divides)
    }

    /// What these samples say of the lines of a part of the run: each half of them, and all.
    pub fn parts_of(&self, cells: &[(Cell, Halves)]) -> [Parts; 3] {
        [0, 1, 2].map(|half| blend(self.ids.len(), cells, half, &self.whole))
    }

    /// As [`Flows::moved`], of any timeline, with what is known of each of its pieces.
    pub fn moved_by<'p>(
        &self,
        parts: &dyn Fn(usize) -> &'p Parts,
        timeline: &Timeline,
        comparison: &Comparison,
        repair: &dyn Fn(u32) -> Option<Repair>,
        divides: bool,
    ) -> Vec<Work> {
        let mut pieces = timeline.pieces().to_vec();
        // In order; one that takes long is there several times.
        for same in comparison.chosen().chunk_by(|a, b| a == b) {
            let at = same[0];
            let parts = parts(at);
            apply(&self.transitions(parts, repair), &mut pieces[at], timeline);
            // A schedule is of a loop, not of an object: if one that matters gets it, all do.
            if divides && parts.iter().flatten().any(|p| repair(p.row) == Some(Repair::SameSchedule)) {
                pieces[at].evened(|core| timeline.node_of_core(core));
            }
        }
        pieces
    }

    /// Where the lines of each pair of nodes go.
    fn transitions(&self, parts: &Parts, repair: &dyn Fn(u32) -> Option<Repair>) -> Transitions {
        let n = self.ids.len();
        let mut to = vec![[vec![0.0; n], vec![0.0; n]]; n * n];
        let mut page_nodes = vec![0.0; n];
        for (pair, list) in parts.iter().enumerate() {
            let (from, old) = ((pair / n) as NodeIndex, pair % n);
            let mut sums = [0.0; 2];
            for part in list {
                page_nodes.fill(0.0);
                self.page_node(repair(part.row), from, old, part.user, &mut page_nodes);
                for kind in 0..2 {
                    sums[kind] += part.of[kind];
                    to[pair][kind].iter_mut().zip(&page_nodes).for_each(|(t, h)| *t += part.of[kind] * h);
                }
            }
            for kind in 0..2 {
                // What nothing is known of stays.
                to[pair][kind][old] += 1.0 - sums[kind];
            }
        }
        to
    }
}

/// New nodes of pages of lines, parts of 1: `[pair of nodes][read or written][new node]`.
type Transitions = Vec<[Vec<f64>; 2]>;

/// Moves the lines of a piece of work to their new nodes.
fn apply(to: &Transitions, piece: &mut Work, timeline: &Timeline) {
    for (core, work) in piece.cores.iter_mut().enumerate().filter(|(_, w)| !w.page_nodes.is_empty()) {
        let (from, n) = (timeline.node_of_core(core), work.page_nodes.len());
        let mut new = vec![NodeWork::default(); n];
        for (old, w) in work.page_nodes.iter().enumerate() {
            let [read, written] = &to[from * n + old];
            for (page_node, new) in new.iter_mut().enumerate() {
                new.reads += w.reads * read[page_node];
                new.prefetches += w.prefetches * read[page_node];
                new.walks += w.walks * read[page_node];
                new.writes += w.writes * written[page_node];
                new.streams += w.streams * written[page_node];
            }
            // A cache supplies its lines wherever their memory is.
            new[old].transfers += w.transfers;
        }
        work.page_nodes = new;
    }
}

/// Parts of 1 by pair of nodes; where nothing was written (read), writes are taken to be as reads are.
fn normal(nodes: usize, cells: impl Iterator<Item = (Cell, [f64; 2])>) -> Parts {
    let mut pairs: Parts = vec![Vec::new(); nodes * nodes];
    for (cell, of) in cells {
        let pair = usize::from(cell.from) * nodes + usize::from(cell.page_node);
        pairs[pair].push(Part { row: cell.row, user: cell.user, of });
    }
    for list in &mut pairs {
        let sums = list.iter().fold([0.0; 2], |s, p| [s[0] + p.of[0], s[1] + p.of[1]]);
        for part in list.iter_mut() {
            let of = part.of;
            for kind in 0..2 {
                let other = if sums[kind] > 0.0 { kind } else { 1 - kind };
                part.of[kind] = if sums[other] > 0.0 { of[other] / sums[other] } else { 0.0 };
            }
        }
    }
    pairs
}

/// A phase's parts: its samples and, with the weight of [`PRIOR`] samples, the whole region.
fn blend(nodes: usize, cells: &[(Cell, Halves)], half: usize, whole: &Parts) -> Parts {
    let count = |halves: &Halves, kind: usize| match half {
        2 => (halves[0][kind] + halves[1][kind]) as f64,
        one => halves[one][kind] as f64,
    };
    let mut sums: FastMap<Cell, [f64; 2]> = FastMap::default();
    for (pair, list) in whole.iter().enumerate() {
        let (from, page_node) = ((pair / nodes) as NodeIndex, (pair % nodes) as NodeIndex);
        for p in list {
            let cell = Cell { row: p.row, from, page_node, user: p.user };
            sums.insert(cell, p.of.map(|part| part * PRIOR));
        }
    }
    for (cell, halves) in cells.iter().filter(|c| c.0.user != UNKNOWN) {
        let sum = sums.entry(*cell).or_default();
        (0..2).for_each(|kind| sum[kind] += count(halves, kind));
    }
    let mut sums: Vec<(Cell, [f64; 2])> = sums.into_iter().collect();
    sums.sort_by_key(|c| c.0);
    normal(nodes, sums.into_iter())
}
