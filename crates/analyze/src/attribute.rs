//! The pass over samples: each is given a thread's node, an object's row and its
//! node of the page, and counted. It runs on several threads; columns are read in place.

mod beside;
mod count;
mod locate;
mod spend;
mod worker;

pub use locate::Located;
use nearfar_machine::LINE_BYTES;
pub use worker::Worker;

use super::context::Context;
use super::counters::{Cell, Counters, node_slot};
use super::input::SampleReader;
use super::memory_time::Answer;
use super::nodes::UNKNOWN;
use super::nodes::class;
use super::over_time::Seen;
use super::page_nodes::PageNode;
use super::phases::PageOf;
use super::reach::PIECE;
use super::stats::BLOCKS;
use super::value::Basis;
use nearfar_machine::DistanceClass;
use nearfar_recording::{Access, AccessSamples, NONE, Resolution, SampleSource};
use std::sync::atomic::{AtomicUsize, Ordering};
use worker::Fact;

/// Counts all samples on `workers` threads.
pub fn attribute(context: &Context, samples: &dyn SampleReader, workers: usize) -> Result<Counters, String> {
    let workers = workers.max(1);
    let segments = samples.segments();
    if segments >= workers * 2 {
        let next = AtomicUsize::new(0);
        return gather(workers, |_| {
            let mut worker = Worker::new(context);
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= segments {
                    return Ok(worker.counters);
                }
                let segment = samples.segment(i)?;
                worker.segment(&segment, 0..segment.time_ns.len());
            }
        });
    }
    // Few segments: the workers share each.
    let mut total: Option<Counters> = None;
    for i in 0..segments {
        let segment = samples.segment(i)?;
        let n = segment.time_ns.len();
        let part = gather(workers, |w| {
            let mut worker = Worker::new(context);
            let pieces = n.div_ceil(PIECE);
            let begin = |w: usize| (pieces * w / workers * PIECE).min(n);
            worker.segment(&segment, begin(w)..begin(w + 1));
            Ok(worker.counters)
        })?;
        match &mut total {
            Some(t) => t.merge(part),
            None => total = Some(part),
        }
    }
    Ok(total.unwrap_or_else(|| Worker::new(context).counters))
}

fn gather<F>(workers: usize, work: F) -> Result<Counters, String>
where
    F: Fn(usize) -> Result<Counters, String> + Sync,
{
    let parts: Vec<Result<Counters, String>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..workers).map(|w| scope.spawn(move || work(w))).collect();
        let join = |h: std::thread::ScopedJoinHandle<'_, Result<Counters, String>>| {
            h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    });
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_else(|| Ok(Counters::default()))?;
    for part in parts {
        total.merge(part?);
    }
    Ok(total)
}

/// Where in its epoch a sample is taken to be, from 0 to 1. Nothing says it; an epoch that is longer than a block of time
/// belongs to all blocks that it is in. Multiples of the golden ratio are spread evenly, however many there are.
#[inline]
fn within_epoch(i: usize) -> f64 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1u64 << 53) as f64
}

/// Whether such a sample is of memory.
fn touches_memory(resolution: Resolution) -> bool {
    !matches!(resolution, Resolution::Compute | Resolution::Spinning)
}

/// Samples whose memory is fetched ahead: what a first-level cache holds with room to spare.
const BATCH: usize = 64;

impl Worker<'_> {
    fn segment(&mut self, s: &AccessSamples, range: std::ops::Range<usize>) {
        self.counters.threads.iter_mut().for_each(|t| t.new_segment());
        // Most of a sample's time is waiting for memory: its page's slot, touch and group lie
        // anywhere. Looking at those of a batch first, without using them, lets the processor
        // fetch them at the same time.
        let mut batch = range.start;
        while batch < range.end {
            let end = range.end.min(batch + BATCH);
            let mut seen = 0;
            for i in batch..end {
                seen ^= self.peek(s.thread[i], s.address[i]);
            }
            std::hint::black_box(seen);
            for i in batch..end {
                if i % PIECE == 0 {
                    self.trail.clear();
                }
                self.sample(s, i);
            }
            batch = end;
        }
    }

    fn sample(&mut self, s: &AccessSamples, i: usize) {
        let time = s.time_ns[i];
        let thread = self.context.threads.get(s.thread[i]);
        let space = thread.map(|t| self.context.spaces_of_threads[t]);
        let measure = self.context.measure;
        if !measure.in_region(s, i, space, self.context.region) {
            return;
        }
        let space = space.unwrap_or(0);
        let shared = [SampleSource::Transfer as u8, SampleSource::Contended as u8].contains(&s.source[i]);
        if shared && s.address[i] != 0 {
            self.transfer(s, i, space, thread.map_or(NONE, |t| t as u32));
            return;
        }
        if s.source[i] == SampleSource::Hardware as u8 {
            self.counters.beside.add(s.served[i], s.period[i], s.latency_cycles[i]);
        }
        let block = (time.saturating_sub(self.first_ns) as f64 * self.per_block) as usize;
        let block = block.min(BLOCKS - 1);
        let Some(weight) = measure.weight(s, i) else {
            self.counters.other_basis += 1;
            if measure.basis == Basis::MemoryLoads {
                self.beside(s, i, space, thread.map_or(NONE, |t| t as u32), block);
            }
            let source = usize::from(s.source[i]).min(SampleSource::ALL.len());
            self.counters.by_source[source][usize::from(s.resolution[i]).min(7)] += 1;
            return;
        };
        // Pictures of counted lines are in the time that their epochs take on the machine. Intervals are not: samples
        // are spread over an epoch there, and neighbours in time would count as independent of each other.
        let simulated = self.context.timing.and_then(|p| p.moment(s.epoch[i], within_epoch(i)));
        let shown = simulated.map_or(block, |part| ((part * BLOCKS as f64) as usize).min(BLOCKS - 1));
        let resolution = Resolution::from_code(s.resolution[i]).unwrap_or(Resolution::Unresolved);
        let counters = &mut self.counters;
        counters.total.add(weight);
        if resolution != Resolution::Spinning {
            counters.working.add(weight);
            counters.working_blocks[block].whole += weight;
        }
        counters.by_resolution[resolution as usize] += weight;
        counters.by_source[usize::from(s.source[i]).min(SampleSource::ALL.len())][resolution as usize] += 1;
        // A loop that computes waits for no memory, wherever its pages are.
        let native = self.context.native;
        let paced = native.pace(s.thread[i], s.ip[i]).filter(|_| measure.basis == Basis::StallTime);
        let pace = paced.map(|(_, pace)| pace);
        counters.paced += if pace.is_some() { weight } else { 0 };
        counters.paced_waits += if pace.is_some_and(|pace| pace.waits()) { weight } else { 0 };
        let computing = pace.filter(|pace| pace.computes() && touches_memory(resolution));
        // Nor is what far memory gives ahead of time waited for.
        let ahead = paced.is_some_and(|(loop_id, pace)| {
            pace.ahead && computing.is_none() && native.is_ahead(loop_id, s.operand_ip[i])
        }) && touches_memory(resolution);
        counters.ahead += if ahead { weight } else { 0 };
        // Its speed says how much of its far samples waits at least.
        let in_loop = paced.filter(|(_, pace)| !pace.computes()).map(|(loop_id, _)| loop_id);
        counters.computing += if computing.is_some() { weight } else { 0 };
        let nodes = self.context.finder.nodes;
        // Whose thread it was need not be known to say where it ran.
        let node = nodes.running(thread.map_or(NONE, |t| t as u32), s.cpu[i]);
        if let Some(t) = thread {
            let by_cpu = nodes.of_cpu(s.cpu[i]);
            let x = &mut counters.threads[t];
            x.sum.add(weight);
            x.waiting += if resolution == Resolution::Spinning { weight } else { 0 };
            if x.on_cpu(s.cpu[i]) {
                counters.over_time.migrations[shown] += 1;
            }
            if by_cpu != UNKNOWN {
                x.by_node[usize::from(by_cpu)] += weight;
            }
        }
        let memory = touches_memory(resolution);
        let blames = measure.basis == Basis::StallTime && memory && native.blame.is_certain(s, i);
        if measure.basis == Basis::StallTime {
            *self.counters.interrupted.of(s.ip[i]) += weight;
        }
        if blames {
            *self.counters.blamed.of(s.operand_ip[i]) += weight;
        }
        let Located { thing, page, mut page_node, mut told } = self.locate(s, i, space, node, resolution);
        if measure.basis == Basis::StallTime && resolution != Resolution::Spinning {
            let loop_id = paced.map(|(loop_id, _)| loop_id);
            self.spend(s, i, [weight, block as u64], loop_id, thing, page_node.node);
        }
        // Which object it is in, and which thread uses that, is counted all the same.
        let counted = memory && computing.is_none() && !ahead;
        if ahead {
            (page_node.node, told) = (UNKNOWN, None);
        }
        if let Some(pace) = computing {
            // What it may wait for is far memory only where the page is not a near one.
            if page_node.node == UNKNOWN || node == UNKNOWN || self.class(node, page_node) != 0 {
                self.counters.computing_waits += (pace.may_wait() * weight as f64) as u64;
            }
            (page_node.node, told) = (UNKNOWN, None);
        }
        if counted {
            self.counters.memory.add(weight);
            if told.is_some() && page != UNKNOWN && node != UNKNOWN {
                let agree = told == Some(self.class(node, PageNode { node: page, ..page_node }) != 0);
                self.counters.beside.agree[usize::from(!agree)] += 1;
            }
        }
        let known = page_node.node != UNKNOWN || told.is_some();
        let class = match told {
            _ if page_node.node != UNKNOWN => self.class(node, page_node),
            Some(true) => class(DistanceClass::OtherSocket),
            _ => 0,
        };
        let remote = known && class != 0;
        let counters = &mut self.counters;
        let row = thing.map_or(NONE, |thing| self.context.rows.of_thing[thing as usize]);
        let blamed = if blames { s.operand_ip[i] } else { NONE };
        if counted && in_loop.is_none() && measure.basis == Basis::StallTime {
            let far = if remote { weight } else { 0 };
            let sums = counters.beside_loops.of((blamed, row));
            (sums[0], sums[1]) = (sums[0] + weight, sums[1] + far);
        }
        if counted {
            if known {
                counters.known.add(weight);
                counters.by_class[class] += weight;
                if page_node.node != UNKNOWN {
                    counters.matrix[usize::from(node) * self.nodes + usize::from(page_node.node)] += weight;
                }
                counters.known_blocks[block].whole += weight;
                if remote {
                    if let Some(loop_id) = in_loop {
                        let key = (s.thread[i], loop_id, blamed, row);
                        *counters.far_in_loops.entry(key).or_default() += weight;
                    }
                    counters.remote += weight;
                    counters.known_blocks[block].part += weight;
                    counters.working_blocks[block].part += weight;
                }
            } else {
                counters.page_node_unknown += weight;
            }
            if thing.is_none() {
                counters.unattributed += weight;
            }
            if let Some(t) = thread {
                counters.threads[t].by_page_node[node_slot(page_node.node, self.nodes)] += weight;
            }
        }
        let store = matches!(Access::from_code(s.access[i]), Some(Access::Store | Access::LoadStore));
        let code = if memory { s.operand_ip[i] } else { s.ip[i] };
        if s.chain[i] != NONE {
            let path = counters.paths.entry(s.chain[i]).or_default();
            path[0] += weight;
            path[1] += if remote { weight } else { 0 };
        }
        let instruction = counters.instructions.of(code);
        instruction[0] += weight;
        instruction[1] += if known { weight } else { 0 };
        instruction[2] += if remote { weight } else { 0 };
        let function = self.context.sites.function_of(code);
        let kind = match (known, remote) {
            (true, remote) => usize::from(remote),
            _ => 2 + usize::from(resolution == Resolution::Spinning),
        };
        let seen = Seen {
            block: shown,
            epoch: simulated.map(|_| s.epoch[i]),
            weight,
            kind,
            function,
            thread,
            cpu: s.cpu[i],
            from: node,
            page_node: if memory { page_node.node } else { UNKNOWN },
        };
        counters.over_time.add(time, seen);
        let of_function = counters.functions.of(function);
        of_function.add(weight, known, remote, store);
        of_function.waits += if resolution == Resolution::Spinning { weight } else { 0 };
        counters.calls.of((function, s.chain[i])).add(weight, known, remote, store);
        let bound = self.context.timing.and_then(|p| p.resource(s.epoch[i]));
        if let Some(resource) = bound {
            *counters.function_bounds.entry((function, resource)).or_default() += weight;
        }
        let mut of_phase = None;
        if page_node.node != UNKNOWN
            && let (Some(exact), Some(timing)) = (self.context.exact, self.context.timing)
        {
            let page = s.address[i] / self.context.finder.placements.page_bytes;
            let written = s.access[i] == Access::Unknown as u8;
            let user = exact
                .page(space, page)
                .map_or(UNKNOWN, |p| exact.user(self.context.input, nodes, p, node, written));
            let row = thing.map_or(NONE, |t| self.context.rows.of_thing[t as usize]);
            let piece = timing.phase(s.epoch[i]).map(|s| timing.timeline.piece_of(s));
            let cell = Cell { row, from: node, page_node: page_node.node, user };
            of_phase = Some((cell, usize::from(written)));
            if let Some(piece) = piece.filter(|_| timing.timeline.pieces().len() > 1) {
                counters.cells.entry((piece as u32, cell)).or_default()[i % 2][usize::from(written)] += 1;
            }
        }
        if let (Some(phases), Some(t)) = (self.context.phases, thread) {
            let path = phases.at(t as u32, time);
            let page = match (counted, known, remote) {
                (false, ..) => PageOf::NoMemory,
                (true, false, _) => PageOf::UnknownNode,
                (true, true, false) => PageOf::OwnNode,
                (true, true, true) => PageOf::OtherNode,
            };
            counters.phases.sampled.entry((t as u32, path)).or_default().add(weight, page);
            counters.phases.functions.entry((path, function)).or_default().add(weight, page);
            if let Some((cell, kind)) = of_phase {
                *counters.phases.epochs.entry((s.epoch[i], path)).or_default() += 1;
                counters.phase_cells.entry((path, cell)).or_default()[i % 2][kind] += 1;
            }
            if let (true, Some(thing)) = (remote, thing) {
                let touch = self.context.finder.placements.touches.get(page_node.touch as usize);
                let placed = touch.filter(|x| x.thread != NONE).map_or(NONE, |x| phases.at(x.thread, x.time));
                let row = self.context.rows.of_thing[thing as usize];
                counters.phases.paid.entry((row, placed, path)).or_default().add(weight, page);
            }
        }
        let exact = resolution == Resolution::Exact && measure.basis == Basis::StallTime;
        // A barrier or queue of the runtime: its threads wait for each other. A lock that is a variable of the program is its own.
        if exact && counted && (!self.context.sites.is_runtime(code) || self.context.is_variable(row)) {
            let line = self.context.finder.spaces.line(self.context.input, space, s.address[i], time);
            counters.met.add(line, node, weight, store);
        }
        if exact
            && let (Some(t), Some(thing)) = (thread, thing)
            && let Some(loop_id) = self.context.native.fixed_loop(s.thread[i], s.ip[i])
        {
            let address = s.address[i];
            let line = (self.context.rows.of_thing[thing as usize], space, address / LINE_BYTES);
            let by = (t as u32, (address % LINE_BYTES) as u8, loop_id, s.operand_ip[i]);
            let sums = counters.on_lines.entry(line).or_default().entry(by).or_default();
            *sums = [sums[0] + 1, sums[1] + u64::from(store), sums[2] + weight];
        }
        if measure.basis == Basis::MemoryLoads && resolution != Resolution::Spinning {
            // Memory of an unknown node is taken for near: nothing is gained by it.
            let answer = if remote { Answer::Far } else { Answer::Near };
            let row = thing.map(|t| self.context.rows.of_thing[t as usize]);
            self.load(s, i, thread.map_or(NONE, |t| t as u32), block, answer, row);
        }
        if let Some(thing) = thing {
            let fact =
                Fact { weight, block, shown, page_node, class, known, remote, store, node, space, bound };
            self.count_row(s, i, thing, thread.map_or(NONE, |t| t as u32), &fact);
        }
    }

    #[cold]
    fn transfer(&mut self, s: &AccessSamples, i: usize, space: u32, thread: u32) {
        let address = s.address[i];
        let thing = self.thing(space, address, s.time_ns[i]);
        let row = thing.map_or(NONE, |t| self.context.rows.of_thing[t as usize]);
        let (stands_for, access) = (u64::from(s.lines[i]), Access::from_code(s.access[i]));
        // Few such threads have samples of memory, which would tell where they ran.
        let node = self.context.finder.nodes.running(thread, s.cpu[i]);
        let by_runtime = self.context.sites.is_runtime(s.operand_ip[i]);
        let line = self.counters.transfers.entry((row, space, address / LINE_BYTES)).or_default();
        let user = line.entry((thread, (address % LINE_BYTES) as u8, node)).or_default();
        user.samples += 1;
        if s.source[i] == SampleSource::Contended as u8 {
            // A lock that is a variable of the program is its own, also where a library takes it.
            let own = !by_runtime || self.context.is_variable(row);
            match access {
                Some(Access::Store) if own => user.written += stands_for,
                Some(Access::LoadStore) if own => user.locked += stands_for,
                _ => {}
            }
            return;
        }
        let stored = if access == Some(Access::Store) { stands_for } else { 0 };
        user.lines += stands_for;
        user.stored += stored;
        user.by_runtime += if by_runtime { stands_for } else { 0 };
        let sites = &self.context.sites;
        // Without a caller, a library's own function says what it is written for: that of a lock.
        let site = sites.of_code(s.operand_ip[i], s.chain[i]);
        let site = site.unwrap_or_else(|| sites.function_of(s.operand_ip[i]));
        let at = self.counters.taken_at.entry((row, site)).or_default();
        at[0] += stands_for;
        at[1] += stored;
    }
}
