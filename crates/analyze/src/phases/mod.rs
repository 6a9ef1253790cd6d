//! Phases: which path of phases each thread was on at each time, and what its samples, faults and allocations there
//! come to.
//!
//! A thread that is in no phase of its own works for the phase that its process's leader is in: threads of a parallel
//! region seldom say what the thread that began it has said.

mod names;
mod placed;
mod report;
mod tree;
mod unbalanced;

pub use report::report;

use names::{Names, outlined};

use super::hash::{FastMap, IdIndex};
use super::input::Input;
use nearfar_recording::*;
use tree::{Calls, CallsOf, ROOT, Tree};

/// Between names of a path in `phase_counts`.
const SEPARATOR: char = '\u{1f}';

/// What samples come to in a thread and path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    pub samples: u64,
    pub weight: u64,
    pub near: u64,
    pub far: u64,
    pub page_node_unknown: u64,
}

/// Which page a sample touches, seen from its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOf {
    /// None: it touches no memory.
    NoMemory,
    /// One on the thread's node.
    OwnNode,
    /// One on another node.
    OtherNode,
    /// One whose node is not known.
    UnknownNode,
}

impl Sampled {
    /// Counts a sample.
    #[inline]
    pub fn add(&mut self, weight: u64, page: PageOf) {
        self.samples += 1;
        self.weight += weight;
        match page {
            PageOf::NoMemory => {}
            PageOf::OwnNode => self.near += weight,
            PageOf::OtherNode => self.far += weight,
            PageOf::UnknownNode => self.page_node_unknown += weight,
        }
    }

    fn merge(&mut self, other: &Sampled) {
        self.samples += other.samples;
        self.weight += other.weight;
        self.near += other.near;
        self.far += other.far;
        self.page_node_unknown += other.page_node_unknown;
    }
}

/// What the pass over samples counts by phase.
#[derive(Clone, Debug, Default)]
pub struct PhaseCounters {
    /// By thread and path.
    pub sampled: FastMap<(u32, u32), Sampled>,
    /// By path and function.
    pub functions: FastMap<(u32, u32), Sampled>,
    /// Far samples by row, path of the fault that placed the page (NONE: unknown), and path of the sample.
    pub paid: FastMap<(u32, u32, u32), Sampled>,
    /// By epoch of counted lines and path: samples.
    pub epochs: FastMap<(u32, u32), u64>,
}

impl PhaseCounters {
    /// Adds another's counts.
    pub fn merge(&mut self, other: PhaseCounters) {
        for (key, from) in other.sampled {
            self.sampled.entry(key).or_default().merge(&from);
        }
        for (key, from) in other.functions {
            self.functions.entry(key).or_default().merge(&from);
        }
        for (key, from) in other.paid {
            self.paid.entry(key).or_default().merge(&from);
        }
        for (key, samples) in other.epochs {
            *self.epochs.entry(key).or_default() += samples;
        }
    }
}

/// A part of time on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeRange {
    thread: u32,
    path: u32,
    begin: u64,
    end: u64,
}

/// Where every thread was when. `thread` is a position in the table.
#[derive(Debug)]
pub struct Phases {
    tree: Tree,
    calls: CallsOf,
    /// By thread: from when on it is on which path.
    lines: Vec<Vec<(u64, u32)>>,
    /// By thread: the thread whose phase it works for when it is in none.
    leaders: Vec<u32>,
    /// Of recorded phases.
    parts: Vec<TimeRange>,
    /// Bytes allocated by thread and path.
    bytes: FastMap<(u32, u32), u64>,
    /// Path of each fault.
    of_faults: Vec<u32>,
    /// Whether times are those of the virtual machine's clock, in which its program runs as on the machine.
    simulated: bool,
}

/// Simulated times of beginnings and ends, by thread.
struct Clock(FastMap<(u32, u64), u64>);

impl Clock {
    fn new(input: &Input, threads: &IdIndex) -> Clock {
        let m = &input.phase_marks;
        let mark = |i: usize| Some(((threads.get(m.thread[i])? as u32, m.time_ns[i]), m.simulated_ns[i]));
        Clock((0..m.len()).filter_map(mark).collect())
    }

    /// The time that counts for a beginning or end at `time_ns`.
    fn of(&self, thread: u32, time_ns: u64) -> Option<u64> {
        if self.0.is_empty() { Some(time_ns) } else { self.0.get(&(thread, time_ns)).copied() }
    }
}

impl Phases {
    /// Reads the phases; `None` if there are none.
    pub fn new(input: &Input, threads: &IdIndex) -> Option<Phases> {
        let p = &input.phases;
        let begun = |&i: &usize| !p.name[i].is_empty() && p.how[i] != PhaseEnd::NotBegun as u8;
        let mut rows: Vec<(u32, usize)> =
            (0..p.len()).filter(begun).filter_map(|i| Some((threads.get(p.thread[i])? as u32, i))).collect();
        let regions = || input.symbols.function.iter().any(|f| outlined(f).is_some());
        if rows.is_empty() && input.phase_counts.is_empty() && input.metrics.is_empty() && !regions() {
            return None;
        }
        rows.sort_by_key(|&(thread, i)| (thread, p.begin_ns[i], std::cmp::Reverse(p.end_ns[i]), p.id[i]));
        let mut phases = Phases {
            tree: Tree::default(),
            calls: CallsOf::default(),
            lines: vec![Vec::new(); input.threads.len()],
            leaders: (0..input.threads.len() as u32).collect(),
            parts: Vec::with_capacity(rows.len()),
            bytes: FastMap::default(),
            of_faults: Vec::new(),
            simulated: !input.phase_marks.is_empty(),
        };
        let (clock, names) = (Clock::new(input, threads), Names::new(input));
        for of_thread in rows.chunk_by(|a, b| a.0 == b.0) {
            phases.thread(input, of_thread[0].0, of_thread, &clock, &names);
        }
        phases.counted(input, threads, &names);
        phases.lead(input);
        phases.lives(input);
        phases.allocated(input, threads);
        let f = &input.faults;
        phases.of_faults = (0..f.len())
            .map(|i| threads.get(f.thread[i]).map_or(ROOT, |t| phases.at(t as u32, f.time_ns[i])))
            .collect();
        Some(phases)
    }

    /// When a process is over.
    fn ends(input: &Input) -> FastMap<u32, u64> {
        let mut ends: FastMap<u32, u64> = FastMap::default();
        for i in 0..input.process_ends.len() {
            ends.insert(input.process_ends.process[i], input.process_ends.time_ns[i]);
        }
        ends
    }

    /// The phases of one thread: each in the one that it says it is in, or that contains it.
    fn thread(&mut self, input: &Input, thread: u32, rows: &[(u32, usize)], clock: &Clock, names: &Names) {
        let p = &input.phases;
        let last = rows
            .iter()
            .flat_map(|&(_, i)| [p.begin_ns[i], p.end_ns[i]])
            .filter(|&end| end != u64::MAX)
            .fold(input.meta.end_ns, u64::max);
        let life = Self::ends(input).get(&input.threads.process[thread as usize]).copied().unwrap_or(last);
        /// A phase that others may be in.
        struct Open {
            id: u32,
            path: u32,
            end: u64,
            /// Up to where it is filled with phases.
            filled: u64,
            /// The same two by the clock that counts.
            counted: (u64, u64),
        }
        let counted = (0, u64::MAX);
        let mut open: Vec<Open> = vec![Open { id: NONE, path: ROOT, end: u64::MAX, filled: 0, counted }];
        let line = &mut self.lines[thread as usize];
        let leave = |line: &mut Vec<(u64, u32)>, open: &mut Vec<Open>| {
            let left = open.pop().expect("the thread itself stays");
            let outer = open.last_mut().expect("the thread itself stays");
            outer.filled = outer.filled.max(left.end);
            outer.counted.0 = outer.counted.0.max(left.counted.1);
            line.push((left.end, outer.path));
        };
        for &(_, i) in rows {
            let begin = p.begin_ns[i];
            let end = if p.end_ns[i] == u64::MAX { life.max(begin) } else { p.end_ns[i] };
            let (id, parent) = (p.id[i], p.parent[i]);
            loop {
                let top = open.last().expect("the thread itself stays");
                // What names its parent is in that one, if it is still open; what does not is where it fits.
                let fits = if id != NONE { top.id == parent } else { end <= top.end && begin < top.end };
                let over = top.end <= begin && top.id != parent;
                let listed = id != NONE && open.iter().any(|o| o.id == parent);
                if open.len() == 1 || fits || (id != NONE && !listed && !over) {
                    break;
                }
                leave(line, &mut open);
            }
            let outer = open.last_mut().expect("the thread itself stays");
            let begin = begin.max(outer.filled).min(outer.end);
            let end = end.clamp(begin, outer.end.max(begin));
            outer.filled = begin;
            let path = self.tree.child(outer.path, names.of(&p.name[i]), p.source[i]);
            let calls = self.calls.entry((thread, path)).or_default();
            calls.calls += u64::from(p.how[i] != PhaseEnd::Inherited as u8);
            // An end without a mark of its own is that of the phase around: the process ended.
            let marks = (clock.of(thread, p.begin_ns[i]), clock.of(thread, p.end_ns[i]));
            let limit = outer.counted;
            let counted = match (self.simulated, marks) {
                (false, _) => (begin, end),
                (true, (None, _)) => (limit.0, limit.0),
                (true, (Some(begin), end)) => {
                    let begin = begin.clamp(limit.0, limit.1);
                    let end = end.or((limit.1 != u64::MAX).then_some(limit.1)).unwrap_or(begin);
                    (begin, end.clamp(begin, limit.1))
                }
            };
            calls.inclusive_ns += counted.1 - counted.0;
            outer.counted.0 = counted.0;
            self.parts.push(TimeRange { thread, path, begin: counted.0, end: counted.1 });
            line.push((begin, path));
            open.push(Open { id, path, end, filled: begin, counted });
        }
        while open.len() > 1 {
            leave(line, &mut open);
        }
        // Stable: of one time the last is where the thread is.
        line.sort_by_key(|x| x.0);
    }

    /// Phases that were only counted.
    fn counted(&mut self, input: &Input, threads: &IdIndex, names: &Names) {
        let c = &input.phase_counts;
        for i in (0..c.len()).filter(|&i| c.metric[i] == 0) {
            let Some(thread) = threads.get(c.thread[i]) else { continue };
            let path = self.path(&c.path[i], c.source[i], names);
            let calls = self.calls.entry((thread as u32, path)).or_default();
            calls.calls += c.calls[i];
            calls.counted += c.calls[i];
            if !self.simulated {
                calls.inclusive_ns = calls.inclusive_ns.saturating_add(c.inclusive_ns[i]);
            }
        }
    }

    fn path(&mut self, path: &str, source: u8, names: &Names) -> u32 {
        path.split(SEPARATOR).fold(ROOT, |path, name| self.tree.child(path, names.of(name), source))
    }

    /// Of each process the first thread with phases leads.
    fn lead(&mut self, input: &Input) {
        let mut leaders: FastMap<u32, u32> = FastMap::default();
        for thread in 0..input.threads.len() {
            if !self.lines[thread].is_empty() {
                leaders.entry(input.threads.process[thread]).or_insert(thread as u32);
            }
        }
        for thread in 0..input.threads.len() {
            if let Some(&leader) = leaders.get(&input.threads.process[thread]) {
                self.leaders[thread] = leader;
            }
        }
    }

    /// How long threads with phases lived: from their beginning to that of their last phase's end or their process's.
    fn lives(&mut self, input: &Input) {
        let ends = Self::ends(input);
        let with: std::collections::BTreeSet<u32> = self.calls.keys().map(|k| k.0).collect();
        for thread in with {
            let i = thread as usize;
            let last = self.lines[i].last().map_or(0, |x| x.0);
            let end = ends.get(&input.threads.process[i]).copied().unwrap_or(input.meta.end_ns).max(last);
            let begin = input.threads.start_ns[i].max(input.meta.start_ns.min(end));
            let first = self.lines[i].first().map_or(begin, |x| x.0).min(begin);
            let mut calls = Calls { calls: 1, counted: 0, inclusive_ns: end.saturating_sub(first) };
            if self.simulated {
                // Threads have no such time of their own: from the first phase's beginning to the last one's end.
                let own = self.parts.iter().filter(|s| s.thread == thread);
                let (from, to) = own.fold((u64::MAX, 0), |(a, b), s| (a.min(s.begin), b.max(s.end)));
                calls.inclusive_ns = to.saturating_sub(from);
            }
            self.calls.insert((thread, ROOT), calls);
        }
    }

    fn allocated(&mut self, input: &Input, threads: &IdIndex) {
        let o = &input.objects;
        for i in 0..o.len() {
            let heap = o.kind[i] == ObjectKind::Heap as u8 || o.kind[i] == ObjectKind::SmallHeap as u8;
            if let (true, Some(thread)) = (heap, threads.get(o.thread[i])) {
                let thread = thread as u32;
                let path = self.at(thread, o.born_ns[i]);
                let bytes = self.bytes.entry((thread, path)).or_default();
                *bytes = bytes.saturating_add(o.represents[i]);
            }
        }
    }

    /// The path that a thread, or the one that it works for, is on at a time.
    #[inline]
    pub fn at(&self, thread: u32, time: u64) -> u32 {
        let of = |thread: u32| {
            let line = &self.lines[thread as usize];
            line[..line.partition_point(|x| x.0 <= time)].last().map_or(ROOT, |x| x.1)
        };
        match of(thread) {
            ROOT if self.leaders[thread as usize] != thread => of(self.leaders[thread as usize]),
            path => path,
        }
    }
}
