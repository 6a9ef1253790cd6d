//! What the pass over samples counts. All integers: the sum does not depend on
//! which worker saw which sample.

mod followed;
mod line_use;
mod met;
mod takes;

pub use followed::Followed;
pub use line_use::LineUse;
pub use takes::LineUsers;

use super::hardware::Beside;
use super::hash::{FastMap, Sums};
use super::memory_time::MemoryTime;
use super::nodes::{NodeIndex, UNKNOWN};
use super::over_time::OverTime;
use super::phases::PhaseCounters;
use super::reach::Reach;
use super::spent::Spent;
use super::stats::{BLOCKS, Block, SparseBlocks, Sum};
use super::windowed::LinesInWindows;
use nearfar_recording::{Resolution, SampleSource};

/// Bins of an object's extent, for patterns and ranges.
pub const BINS: usize = 512;

/// A thread's use of a row.
#[derive(Clone, Debug, Default)]
pub struct Use {
    /// Its samples.
    pub sum: Sum,
    /// Weight by node of the page; last: unknown.
    pub by_page_node: Vec<u64>,
    /// Samples with an address, outside the initialisation.
    pub addressed: u64,
    /// These by bin of the row's extent.
    pub bins: Vec<u32>,
    /// Time of its first sample, ns.
    pub begun_ns: Option<u64>,
    /// Time of its last one that stores.
    pub stored_ns: Option<u64>,
    /// Samples of lines that a cache wrote back; another thread may have stored to them.
    pub written_back: u64,
}

impl Use {
    /// Takes note of a sample's time.
    #[inline]
    pub fn at(&mut self, time_ns: u64, store: bool) {
        self.begun_ns = Some(self.begun_ns.map_or(time_ns, |begun| begun.min(time_ns)));
        self.stored_ns = if store { self.stored_ns.max(Some(time_ns)) } else { self.stored_ns };
    }
}

/// Most objects of a row of which each thread's use is kept by bin. // chosen: 2 KiB for each thread and object
pub const FEW_INSTANCES: usize = 16;

/// A thread's use of one of a row's several objects.
#[derive(Clone, Debug, Default)]
pub struct InstanceUse {
    /// Its samples; bins only of rows with up to [`FEW_INSTANCES`] objects, nodes of pages not at all.
    pub used: Use,
    /// Remote weight.
    pub remote: u64,
}

/// Samples on pages of one group of touches.
#[derive(Clone, Copy, Debug, Default)]
pub struct TouchUse {
    /// Weight.
    pub weight: u64,
    /// Remote weight.
    pub remote: u64,
    /// Remote weight on pages that came with another page's touch (same folio).
    pub remote_by_folio: u64,
    /// Weight on pages that are not where the toucher was: near or far, and far only.
    pub away: u64,
    pub away_remote: u64,
}

/// Samples on a line by thread, byte in the line, loop and location of the operand: how many, how many of them store, their weight.
pub type OnLine = FastMap<(u32, u8, u32, u32), [u64; 3]>;

/// Samples that read and that wrote, in two halves.
pub type Halves = [[u64; 2]; 2];

/// Lines alike for what would become of them if memory lay elsewhere: of which row, between whose
/// cpus and whose memory, on pages that which node uses most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The row; [`nearfar_recording::NONE`] for none.
    pub row: u32,
    /// Node of the cpus.
    pub from: NodeIndex,
    /// Node of the memory.
    pub page_node: NodeIndex,
    /// Node that uses the page most.
    pub user: NodeIndex,
}

/// A folio: address space, log2 of its bytes, and its number in that size.
pub type Folio = (u32, u32, u64);

/// A row's use of a folio.
#[derive(Clone, Debug, Default)]
pub struct FolioUse {
    /// Weight by node of the using thread, outside the initialisation.
    pub by_node: Vec<u64>,
    /// Remote weight.
    pub remote: u64,
    /// That of it on pages which another object's first touch placed.
    pub remote_by_neighbour: u64,
}

/// Counts of one row.
#[derive(Clone, Debug, Default)]
pub struct RowCounters {
    /// All its samples.
    pub sum: Sum,
    /// Those whose page's node is known.
    pub known: Sum,
    /// Remote weight.
    pub remote: u64,
    /// Samples that are remote.
    pub remote_samples: u64,
    /// Remote over known, per block of the recorded time.
    pub blocks: SparseBlocks,
    /// The same per block of the time of pictures, where that is the time of an emulated machine; empty otherwise.
    pub shown_blocks: SparseBlocks,
    /// What is not known, per block of the time of pictures.
    pub unknown_blocks: SparseBlocks,
    /// Of counted lines those that a cache wrote back, per block of the time of pictures.
    pub back_blocks: SparseBlocks,
    /// Weight by distance class, in the order of [`super::attribute::CLASSES`].
    pub by_class: [u64; 4],
    /// Threads on followed pages: (page, thread) → samples.
    pub followed: Followed,
}

/// Counts of one thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadCounters {
    /// Its samples.
    pub sum: Sum,
    /// Weight by node of the page; last: unknown.
    pub by_page_node: Vec<u64>,
    /// Weight by node it ran on (by cpu).
    pub by_node: Vec<u64>,
    /// Cpus, one bit each.
    pub cpus: Vec<u64>,
    /// Changes of cpu between consecutive samples.
    pub migrations: u64,
    /// Weight of samples that wait for another thread.
    pub waiting: u64,
    last_cpu: Option<u16>,
}

impl ThreadCounters {
    /// What a thread did away from the node that it ran on most, if that is more than a late pinning explains.
    pub fn wanders(&self) -> Option<u64> {
        let all: u64 = self.by_node.iter().sum();
        let most = self.by_node.iter().copied().max().unwrap_or(0);
        // A fifth of a thread's time is more than that. // assumed
        (self.sum.samples >= 30 && (all - most) as f64 > 0.2 * all as f64).then_some(all - most)
    }

    /// Notes the cpu of a sample; whether it is another than that of the sample before.
    #[inline]
    pub fn on_cpu(&mut self, cpu: u16) -> bool {
        let moved = self.last_cpu.is_some_and(|last| last != cpu);
        if self.last_cpu != Some(cpu) {
            self.migrations += u64::from(moved);
            self.last_cpu = Some(cpu);
            let word = usize::from(cpu / 64);
            if self.cpus.len() <= word {
                self.cpus.resize(word + 1, 0);
            }
            self.cpus[word] |= 1 << (cpu % 64);
        }
        moved
    }
    /// Forgets the last cpu: the next sample is not consecutive.
    pub fn new_segment(&mut self) {
        self.last_cpu = None;
    }
}

/// Counts of everything.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// All samples.
    pub total: Sum,
    /// Those that do not wait for another thread in a runtime's loop: what shares of time are shares of. A thread that
    /// waits asleep has no samples at all, and how a runtime waits is not to decide whether memory matters.
    pub working: Sum,
    /// Samples that touch memory.
    pub memory: Sum,
    /// Weight of samples that touch memory in loops that compute all the same; they are not among `memory`.
    pub computing: u64,
    /// What of that may be waiting for far memory.
    pub computing_waits: u64,
    /// Weight of samples that access what far memory gives ahead of time; they are not among `memory` either.
    pub ahead: u64,
    /// Weight of samples in loops whose iterations were timed.
    pub paced: u64,
    /// What of that is in loops that wait.
    pub paced_waits: u64,
    /// Weight on far pages in loops of known speed that do not compute: by (thread, loop, location of the blamed instruction, row).
    /// The location is [`nearfar_recording::NONE`] of samples that blame none.
    pub far_in_loops: FastMap<(u32, u32, u32, u32), u64>,
    /// Weight beside loops of known speed, of all pages and of far ones: by (location of the blamed instruction, row).
    pub beside_loops: Sums<(u32, u32), [u64; 2]>,
    /// Weight of all samples of a clock by location of the interrupted instruction.
    pub interrupted: Sums<u32, u64>,
    /// Weight of the samples that blame an instruction, by its location.
    pub blamed: Sums<u32, u64>,
    /// Where the time of a clock's samples went.
    pub spent: Spent,
    /// Samples whose page's node is known.
    pub known: Sum,
    /// Remote weight.
    pub remote: u64,
    /// Weight of samples that touch memory, node of the page unknown.
    pub page_node_unknown: u64,
    /// Weight of samples that touch memory, no object.
    pub unattributed: u64,
    /// Weight by resolution code.
    pub by_resolution: [u64; 8],
    /// Samples by source code and resolution code.
    pub by_source: [[u64; 8]; SampleSource::ALL.len() + 1],
    /// Weight by distance class.
    pub by_class: [u64; 4],
    /// Remote over known, per block of the recorded time.
    pub known_blocks: Vec<Block>,
    /// Remote over all that work, per block of the recorded time.
    pub working_blocks: Vec<Block>,
    /// Thread's node × node of the page.
    pub matrix: Vec<u64>,
    /// By thread.
    pub threads: Vec<ThreadCounters>,
    /// By phase.
    pub phases: PhaseCounters,
    /// By row.
    pub rows: Vec<Option<Box<RowCounters>>>,
    /// By (row, thread).
    pub uses: Sums<(u32, u32), Use>,
    /// By (thing, thread), of rows with several things.
    pub instances: Sums<(u32, u32), InstanceUse>,
    /// By (row, node of the cpus): of samples on far pages.
    pub reach: FastMap<(u32, NodeIndex), Reach>,
    /// By (row, site).
    pub lines: Sums<(u32, u32), LineUse>,
    /// By function's site, of all samples.
    pub functions: Sums<u32, LineUse>,
    /// By (function's site, call chain), of all samples.
    pub calls: Sums<(u32, u32), LineUse>,
    /// By part of a row, user's node and page's node ([`super::pictures::key`]): weight, the initialisation left out.
    pub strips: FastMap<u64, u64>,
    /// By (row, touch group).
    pub touchers: Sums<(u32, u32), TouchUse>,
    /// By (row, folio).
    pub folios: FastMap<(u32, Folio), FolioUse>,
    /// By (page on which several rows may lie, row): weight.
    pub shared_pages: FastMap<(u32, u32), u64>,
    /// By (row, site, resource that bound then): weight.
    pub line_bounds: FastMap<(u32, u32, u16), u64>,
    /// By row: lines in each window, if there are any.
    pub in_windows: FastMap<u32, LinesInWindows>,
    /// By (function's site, resource): weight, of all samples.
    pub function_bounds: FastMap<(u32, u16), u64>,
    /// By (phase, kind of line): samples that read and that wrote, in two halves.
    pub cells: FastMap<(u32, Cell), Halves>,
    /// The same by path of the program's own phases.
    pub phase_cells: FastMap<(u32, Cell), Halves>,
    /// Lines that caches of other nodes supplied, or that cores take from each other all the time, by (row, address space, number of the line).
    pub transfers: FastMap<(u32, u32, u64), LineUsers>,
    /// Samples of a clock in loops that access fixed places only, by (row, address space, number of the line).
    pub on_lines: FastMap<(u32, u32, u64), OnLine>,
    /// Samples of a clock on memory, by line: where threads of several nodes meet.
    pub met: met::Lines,
    /// The lines of `transfers` by (row, site): all, and those that were taken to be written.
    pub taken_at: FastMap<(u32, u32), [u64; 2]>,
    /// By location of the instruction: weight, what of it has a known node, what of it is remote.
    pub instructions: Sums<u32, [u64; 3]>,
    /// By part of the run.
    pub over_time: OverTime,
    /// By call chain: weight, and what of it is remote.
    pub paths: FastMap<u32, [u64; 2]>,
    /// Samples left out because they are of another basis.
    pub other_basis: u64,
    /// What was counted beside the samples that shares are of.
    pub beside: Beside,
    /// What each thread's time goes to, where the processor sampled loads.
    pub memory_time: MemoryTime,
}

impl Counters {
    /// Empty counters.
    pub fn new(threads: usize, nodes: usize, rows: usize) -> Counters {
        Counters {
            known_blocks: vec![Block::default(); BLOCKS],
            working_blocks: vec![Block::default(); BLOCKS],
            matrix: vec![0; nodes * nodes],
            threads: vec![
                ThreadCounters {
                    by_page_node: vec![0; nodes + 1],
                    by_node: vec![0; nodes],
                    ..Default::default()
                };
                threads
            ],
            rows: vec![None; rows],
            over_time: OverTime::new(threads, nodes),
            ..Counters::default()
        }
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: Counters) {
        self.total.merge(&other.total);
        self.working.merge(&other.working);
        self.memory.merge(&other.memory);
        self.known.merge(&other.known);
        self.remote += other.remote;
        self.computing += other.computing;
        self.computing_waits += other.computing_waits;
        self.ahead += other.ahead;
        self.paced += other.paced;
        self.paced_waits += other.paced_waits;
        add_map(&mut self.far_in_loops, other.far_in_loops);
        for (row, from) in other.in_windows {
            let to = self.in_windows.entry(row).or_default();
            from.into_iter().for_each(|(key, lines)| add(to.entry(key).or_default(), &lines));
        }
        for (key, from) in other.beside_loops {
            add(self.beside_loops.of(key), &from);
        }
        other.interrupted.into_iter().for_each(|(key, from)| *self.interrupted.of(key) += from);
        other.blamed.into_iter().for_each(|(key, from)| *self.blamed.of(key) += from);
        self.spent.merge(other.spent);
        self.page_node_unknown += other.page_node_unknown;
        self.unattributed += other.unattributed;
        add(&mut self.by_resolution, &other.by_resolution);
        for (to, from) in self.by_source.iter_mut().zip(&other.by_source) {
            add(to, from);
        }
        add(&mut self.by_class, &other.by_class);
        add_blocks(&mut self.known_blocks, &other.known_blocks);
        add_blocks(&mut self.working_blocks, &other.working_blocks);
        add(&mut self.matrix, &other.matrix);
        for (to, from) in self.threads.iter_mut().zip(&other.threads) {
            to.sum.merge(&from.sum);
            to.migrations += from.migrations;
            to.waiting += from.waiting;
            add(&mut to.by_page_node, &from.by_page_node);
            add(&mut to.by_node, &from.by_node);
            to.cpus.resize(to.cpus.len().max(from.cpus.len()), 0);
            to.cpus.iter_mut().zip(&from.cpus).for_each(|(t, f)| *t |= f);
        }
        for (to, from) in self.rows.iter_mut().zip(other.rows) {
            match (to.as_mut(), from) {
                (Some(to), Some(from)) => to.merge(*from),
                (None, Some(from)) => *to = Some(from),
                (_, None) => {}
            }
        }
        for (key, from) in other.uses {
            let to = self.uses.of(key);
            to.sum.merge(&from.sum);
            to.addressed += from.addressed;
            to.begun_ns = [to.begun_ns, from.begun_ns].into_iter().flatten().min();
            to.stored_ns = to.stored_ns.max(from.stored_ns);
            to.written_back += from.written_back;
            grow_add(&mut to.by_page_node, &from.by_page_node);
            grow_add(&mut to.bins, &from.bins);
        }
        for (key, from) in other.instances {
            let to = self.instances.of(key);
            to.remote += from.remote;
            to.used.sum.merge(&from.used.sum);
            to.used.addressed += from.used.addressed;
            grow_add(&mut to.used.bins, &from.used.bins);
        }
        self.phases.merge(other.phases);
        for (key, from) in other.reach {
            self.reach.entry(key).or_default().merge(&from);
        }
        for (key, from) in other.lines {
            self.lines.of(key).merge(&from);
        }
        for (key, from) in other.functions {
            self.functions.of(key).merge(&from);
        }
        for (key, from) in other.calls {
            self.calls.of(key).merge(&from);
        }
        for (key, from) in other.touchers {
            let to = self.touchers.of(key);
            to.weight += from.weight;
            to.remote += from.remote;
            to.remote_by_folio += from.remote_by_folio;
            (to.away, to.away_remote) = (to.away + from.away, to.away_remote + from.away_remote);
        }
        for (key, from) in other.folios {
            let to = self.folios.entry(key).or_default();
            grow_add(&mut to.by_node, &from.by_node);
            to.remote += from.remote;
            to.remote_by_neighbour += from.remote_by_neighbour;
        }
        add_map(&mut self.strips, other.strips);
        add_map(&mut self.shared_pages, other.shared_pages);
        add_map(&mut self.line_bounds, other.line_bounds);
        add_map(&mut self.function_bounds, other.function_bounds);
        for (to, of) in [(&mut self.cells, other.cells), (&mut self.phase_cells, other.phase_cells)] {
            for (key, from) in of {
                let to = to.entry(key).or_default();
                to.iter_mut().zip(&from).for_each(|(to, from)| add(to, from));
            }
        }
        for (line, users) in other.transfers {
            let to = self.transfers.entry(line).or_default();
            users.into_iter().for_each(|(user, n)| to.entry(user).or_default().merge(&n));
        }
        for (line, samples) in other.on_lines {
            let to = self.on_lines.entry(line).or_default();
            samples.into_iter().for_each(|(by, n)| add(to.entry(by).or_default(), &n));
        }
        self.met.merge(other.met);
        for (site, from) in other.taken_at {
            add(self.taken_at.entry(site).or_default(), &from);
        }
        for (chain, from) in other.paths {
            add(self.paths.entry(chain).or_default(), &from);
        }
        for (code, from) in other.instructions {
            add(self.instructions.of(code), &from);
        }
        self.over_time.merge(other.over_time);
        self.other_basis += other.other_basis;
        self.beside.merge(&other.beside);
        self.memory_time.merge(other.memory_time);
    }

    /// Weight of a way of resolution.
    pub fn resolved(&self, r: Resolution) -> u64 {
        self.by_resolution[r as usize]
    }
}

impl RowCounters {
    fn merge(&mut self, other: RowCounters) {
        self.sum.merge(&other.sum);
        self.known.merge(&other.known);
        self.remote += other.remote;
        self.remote_samples += other.remote_samples;
        self.blocks.merge(&other.blocks);
        self.shown_blocks.merge(&other.shown_blocks);
        self.unknown_blocks.merge(&other.unknown_blocks);
        self.back_blocks.merge(&other.back_blocks);
        add(&mut self.by_class, &other.by_class);
        self.followed.merge(other.followed);
    }
}

/// Position of a node in a vector whose last entry is "unknown".
#[inline]
pub fn node_slot(node: NodeIndex, nodes: usize) -> usize {
    if node == UNKNOWN { nodes } else { usize::from(node) }
}

fn add(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
}

fn add_map<K: Eq + std::hash::Hash>(to: &mut FastMap<K, u64>, from: FastMap<K, u64>) {
    for (key, n) in from {
        *to.entry(key).or_default() += n;
    }
}

fn grow_add<T: Copy + Default + std::ops::AddAssign>(to: &mut Vec<T>, from: &[T]) {
    if to.len() < from.len() {
        to.resize(from.len(), T::default());
    }
    to.iter_mut().zip(from).for_each(|(t, f)| *t += *f);
}

fn add_blocks(to: &mut [Block], from: &[Block]) {
    for (t, f) in to.iter_mut().zip(from) {
        t.part += f.part;
        t.whole += f.whole;
    }
}
