//! What the agent's records mean for the tables.
//!
//! Where perf events work they tell of processes, threads and mappings, and the
//! agent adds objects, phases and nodes of pages. Where they do not, the agent tells all of it.

use super::agent::{AgentBody, AgentRecord, Allocation, AllocationKind, LostWhy};
use super::events::{Interpreter, SampleAt};
use super::phases::{self, Phases};
use nearfar_host::proc::{self, Map};

use super::process_table::LiveObject;
use crate::store::Tables;
use nearfar_decode::Registers;
use nearfar_host::symbols::Regs;
use nearfar_recording::*;
use std::collections::{HashMap, VecDeque};

/// Frames of an allocation's call chain at most.
const MAX_FRAMES: usize = 32;

/// Records that wait for their turn, and what they have opened.
#[derive(Default)]
pub struct AgentEvents {
    /// No perf events: processes, threads and mappings come from here.
    alone: bool,
    /// Whether any process reported in.
    pub seen: bool,
    /// Allocations in groups so far.
    pub grouped: u64,
    waiting: VecDeque<AgentRecord>,
    /// Time of the last record of a process: its own order comes before the clock's.
    last_time: HashMap<u32, u64>,
    /// Objects that realloc was called on, by process and address, and when.
    reallocated: HashMap<(u32, u64), (LiveObject, u64)>,
    /// Phases that threads are in.
    phases: Phases,
    /// Open regions of interest, by process.
    regions: HashMap<u32, OpenRegion>,
    /// Pieces of /proc/PID/maps.
    maps: HashMap<u32, Vec<u8>>,
}

/// A region of interest that has begun.
struct OpenRegion {
    /// The thread that began it.
    thread: u32,
    begin_ns: u64,
    /// Threads that have begun it and not ended it.
    inside: Vec<u32>,
}

impl AgentEvents {
    /// `alone`: perf events do not work.
    pub fn new(alone: bool) -> AgentEvents {
        AgentEvents { alone, ..AgentEvents::default() }
    }

    /// Takes a record; records of one process come in their order.
    pub fn add(&mut self, mut record: AgentRecord) {
        let last = self.last_time.entry(record.pid).or_insert(0);
        record.time_ns = record.time_ns.max(*last);
        *last = record.time_ns;
        self.waiting.push_back(record);
    }

    /// Puts what waits in the order of time. The sort is stable.
    pub fn sort(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|r| r.time_ns);
    }

    /// Interprets what happened up to `time_ns`. Called for every perf event: it must not touch what goes on waiting.
    pub fn interpret_before(&mut self, time_ns: u64, processes: &mut Interpreter, tables: &mut Tables) {
        while self.waiting.front().is_some_and(|record| record.time_ns <= time_ns) {
            let record = self.waiting.pop_front().expect("looked at above");
            self.interpret(record, processes, tables);
        }
    }

    /// Ends what is still open at the end of the recording.
    pub fn close(&mut self, tables: &mut Tables) {
        self.phases.close(tables);
        for (_, OpenRegion { thread, begin_ns, .. }) in self.regions.drain() {
            tables.phases.push(Phase::plain(thread, String::new(), begin_ns, u64::MAX));
        }
    }

    fn interpret(&mut self, record: AgentRecord, to: &mut Interpreter, tables: &mut Tables) {
        let AgentRecord { pid, tid, time_ns, body, .. } = record;
        match body {
            AgentBody::Hello { executable, .. } => {
                self.seen = true;
                if self.alone {
                    let name = executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    to.exec(pid, tid, time_ns, name, tables);
                }
                self.mark(pid, time_ns, to, tables);
            }
            AgentBody::Fork { parent, .. } => {
                self.seen = true;
                if self.alone && !to.processes.knows(pid) {
                    let space = to.fork(parent, pid, time_ns, tables);
                    to.processes.add_thread(space, tid, time_ns, proc::name(pid, tid), tables);
                }
                self.mark(pid, time_ns, to, tables);
            }
            AgentBody::Exec => {}
            AgentBody::Exit => self.reallocated.retain(|&(of, _), _| of != pid),
            AgentBody::ThreadStart { stack_low, stack_high } => {
                let space = to.processes.space_of(pid, time_ns, tables);
                if self.alone && !to.processes.knows_thread(pid, tid) {
                    to.processes.add_thread(space, tid, time_ns, proc::name(pid, tid), tables);
                }
                if stack_low != 0 && stack_high > stack_low {
                    let object = MemoryObject {
                        id: to.processes.next_object(),
                        process: space,
                        kind: ObjectKind::Stack as u8,
                        address: stack_low,
                        bytes: stack_high - stack_low,
                        born_ns: time_ns,
                        thread: NONE,
                        chain: NONE,
                        name: "thread's stack".into(),
                        previous: NONE,
                        represents: stack_high - stack_low,
                    };
                    tables.objects.push(object);
                }
            }
            AgentBody::ThreadEnd => {
                if self.alone {
                    to.processes.end_thread(tid);
                }
            }
            AgentBody::Alloc(allocation) => self.allocation(pid, tid, time_ns, allocation, to, tables),
            AgentBody::Free { address, died_ns, reallocated, .. } => {
                let time_ns = if died_ns == 0 { time_ns } else { died_ns };
                let space = to.processes.space_of(pid, time_ns, tables);
                if let Some(old) = to.processes.spaces[space as usize].objects.remove(&address) {
                    tables.object_ends.push(ObjectEnd { object: old.id, time_ns });
                    if reallocated {
                        self.reallocated.insert((pid, address), (old, time_ns));
                    }
                }
            }
            AgentBody::Range { kind, address, bytes, to: target } => {
                let process = to.processes.space_of(pid, time_ns, tables);
                let thread = to.processes.thread(pid, tid, time_ns, tables);
                let to = target;
                tables.range_events.push(RangeEvent { time_ns, process, kind, address, bytes, to, thread });
            }
            AgentBody::PhaseBegin(call) => self.phases.begin(pid, tid, call, to, tables),
            AgentBody::PhaseEnd(call) => self.phases.end(pid, tid, call, to, tables),
            AgentBody::PhaseCount(count) => phases::counted(pid, time_ns, count, to, tables),
            AgentBody::Metric { time_ns, name, value } => {
                let thread = to.processes.thread(pid, tid, time_ns, tables);
                tables.metrics.push(Metric { time_ns, thread, name, value });
            }
            AgentBody::Python { site, frames } => {
                let process = to.processes.space_of(pid, time_ns, tables);
                to.processes.spaces[process as usize].python.insert(site, frames);
            }
            AgentBody::RoiBegin => self.begin_region(pid, tid, time_ns, to, tables),
            AgentBody::RoiEnd => self.end_region(pid, tid, time_ns, to, tables),
            AgentBody::Name { address, bytes, name } => {
                self.named(pid, tid, time_ns, (address, bytes), name, to, tables);
            }
            AgentBody::PageNodes { address, stride, runs } => {
                let process = to.processes.space_of(pid, time_ns, tables);
                let mut at = address;
                for (node, pages) in runs {
                    let page_node =
                        PageNode { time_ns, process, address: at, pages, stride, node, page_shift: 0 };
                    tables.page_nodes.push(page_node);
                    at += u64::from(pages) * stride;
                }
            }
            AgentBody::Sample { cpu, ip, registers, weight_ns, chain } => {
                let [ax, bx, cx, dx, si, di, bp, sp, r8, r9, r10, r11, r12, r13, r14, r15] = registers;
                let gpr = [ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15];
                let chain: Vec<u64> = std::iter::once(ip).chain(chain).collect();
                let weight_ns = weight_ns.min(u64::from(u32::MAX)) as u32;
                let at = SampleAt { time_ns, cpu_ns: UNCOUNTED, pid, tid, cpu, weight_ns };
                to.sample(at, Registers { gpr, ip }, &chain, SampleSource::Signal, tables);
            }
            AgentBody::Group { site, count, bytes } => {
                let process = to.processes.space_of(pid, time_ns, tables);
                let chain = to.processes.site(process, site).unwrap_or(NONE);
                self.grouped = self.grouped.saturating_add(count);
                tables.allocation_groups.push(AllocationGroup { process, chain, count, bytes });
            }
            AgentBody::Lost { count, why } => {
                let (what, count, why) = lost(count, why);
                tables.losses.push(Loss { time_ns, what: what.into(), count, why });
            }
            AgentBody::Maps { text, more } => {
                let pieces = self.maps.entry(pid).or_default();
                pieces.extend_from_slice(&text);
                if !more {
                    let text = self.maps.remove(&pid).expect("inserted above");
                    let space = to.processes.space_of(pid, time_ns, tables);
                    let maps = String::from_utf8_lossy(&text);
                    for map in maps.lines().filter_map(Map::parse) {
                        to.mapping_if_new(space, &map, time_ns, tables);
                    }
                }
            }
        }
    }

    fn mark(&mut self, pid: u32, time_ns: u64, to: &mut Interpreter, tables: &mut Tables) {
        let space = to.processes.space_of(pid, time_ns, tables);
        to.processes.spaces[space as usize].agent = true;
    }

    fn allocation(
        &mut self,
        pid: u32,
        tid: u32,
        time_ns: u64,
        allocation: Allocation,
        to: &mut Interpreter,
        tables: &mut Tables,
    ) {
        let a = allocation;
        if a.reservation || a.file {
            return; // address space without memory; files come as mappings
        }
        let process = to.processes.space_of(pid, time_ns, tables);
        let alive = to.processes.spaces[process as usize].objects.get(&a.address);
        if a.restored && a.previous == a.address && alive.is_some_and(|o| o.bytes == a.bytes) {
            return; // mremap failed, and no end had been recorded
        }
        let mut chain = match to.processes.site(process, a.site) {
            Some(chain) => chain,
            None => {
                // `ip` is a return address: one byte back is the call.
                let regs = Regs { ip: a.ip - 1, sp: a.sp, bp: a.bp, lr: 0 };
                let frames = to.processes.unwinder.unwind(process, regs, a.sp, &a.stack, MAX_FRAMES);
                let python = to.processes.spaces[process as usize].python.remove(&a.site).unwrap_or_default();
                let chain = to.processes.chain_with_python(process, &frames, &python, tables);
                if !a.stack.is_empty() {
                    to.processes.spaces[process as usize].sites.insert(a.site, chain);
                }
                chain
            }
        };
        let kind = match a.kind {
            AllocationKind::Small => ObjectKind::SmallHeap,
            _ if a.shared => ObjectKind::Shared,
            _ => ObjectKind::Heap,
        };
        let thread = to.processes.thread(pid, tid, time_ns, tables);
        let mut previous = NONE;
        if a.previous != 0
            && let Some((old, freed_ns)) = self.reallocated.remove(&(pid, a.previous))
        {
            previous = old.id;
            if a.restored {
                chain = old.chain;
            } else if a.address != a.previous {
                // Large blocks are moved by mremap inside the C library, which takes
                // the pages along; where it copies instead, the faults that follow
                // place the new pages and win over this.
                tables.range_events.push(RangeEvent {
                    time_ns: freed_ns,
                    process,
                    kind: RangeKind::Move as u8,
                    address: a.previous,
                    bytes: old.bytes.min(a.bytes),
                    to: a.address,
                    thread,
                });
            }
        }
        let id = to.processes.next_object();
        tables.objects.push(MemoryObject {
            id,
            process,
            kind: kind as u8,
            address: a.address,
            bytes: a.bytes,
            born_ns: if a.born_ns == 0 { time_ns } else { a.born_ns },
            thread,
            chain,
            name: Text::default(),
            previous,
            represents: a.represents.max(a.bytes),
        });
        // Of one whose end will not be told nothing is kept.
        if kind != ObjectKind::SmallHeap && !a.untracked {
            let object = LiveObject { id, bytes: a.bytes, chain };
            to.processes.spaces[process as usize].objects.insert(a.address, object);
        }
    }

    /// `nearfar_name`: the named range becomes an object of its own.
    #[allow(clippy::too_many_arguments)] // the fields of one record
    fn named(
        &mut self,
        pid: u32,
        tid: u32,
        time_ns: u64,
        (address, bytes): (u64, u64),
        name: String,
        to: &mut Interpreter,
        tables: &mut Tables,
    ) {
        let process = to.processes.space_of(pid, time_ns, tables);
        let thread = to.processes.thread(pid, tid, time_ns, tables);
        let objects = &mut to.processes.spaces[process as usize].objects;
        let (previous, chain) = match objects.get(&address) {
            Some(&old) => {
                if old.bytes <= bytes {
                    tables.object_ends.push(ObjectEnd { object: old.id, time_ns });
                }
                (old.id, old.chain)
            }
            None => (NONE, NONE),
        };
        let id = to.processes.next_object();
        let born_ns = time_ns;
        let kind = ObjectKind::Heap as u8;
        let represents = bytes;
        tables.objects.push(MemoryObject {
            id,
            process,
            kind,
            address,
            bytes,
            born_ns,
            thread,
            chain,
            name: name.into(),
            previous,
            represents,
        });
        to.processes.spaces[process as usize].objects.insert(address, LiveObject { id, bytes, chain });
    }

    fn begin_region(&mut self, pid: u32, tid: u32, begin_ns: u64, to: &mut Interpreter, tables: &mut Tables) {
        let thread = to.processes.thread(pid, tid, begin_ns, tables);
        let process = to.processes.space_of(pid, begin_ns, tables);
        let open = self.regions.entry(process).or_insert_with(|| OpenRegion {
            thread,
            begin_ns,
            inside: Vec::new(),
        });
        if !open.inside.contains(&thread) {
            open.inside.push(thread);
        }
    }

    fn end_region(&mut self, pid: u32, tid: u32, end_ns: u64, to: &mut Interpreter, tables: &mut Tables) {
        let thread = to.processes.thread(pid, tid, end_ns, tables);
        let process = to.processes.space_of(pid, end_ns, tables);
        let Some(open) = self.regions.get_mut(&process) else { return };
        // Ended by another thread than began it: it is that one's end all the same.
        let which = open.inside.iter().position(|&inside| inside == thread).unwrap_or(0);
        open.inside.remove(which);
        if open.inside.is_empty() {
            let OpenRegion { thread, begin_ns, .. } = *open;
            self.regions.remove(&process);
            tables.phases.push(Phase::plain(thread, String::new(), begin_ns, end_ns));
        }
    }
}

/// What was lost, how much (0: not known), and why.
fn lost(count: u64, why: LostWhy) -> (&'static str, u64, String) {
    let (what, count, why) = match why {
        LostWhy::RingFull => ("agent_records", count, "the agent's ring was full: allocations are missing"),
        LostWhy::Busy => ("agent_records", count, "the agent was interrupted while it wrote"),
        LostWhy::PageNodesRefused => ("nodes of pages", 0, "move_pages is not allowed here"),
        LostWhy::PageNodesBudget => (
            "queries of the nodes of pages of freed objects",
            count,
            "the time budget (1/64 of the run) was used up",
        ),
        LostWhy::SigprofTaken => ("samples", 0, "the program uses SIGPROF itself"),
        LostWhy::TimerRefused => ("threads' samples", 1, "the system gave the thread no timer"),
        LostWhy::SmallSignalStack => {
            ("threads' samples", 1, "the thread's alternate signal stack is too short for a handler")
        }
        LostWhy::Sandbox => (
            "samples of the agent's timers, nodes of pages and new threads",
            0,
            "from the moment at which the program shut itself in with a seccomp filter",
        ),
        LostWhy::Other(code) => return ("agent_records", count, format!("reason {code} of a later agent")),
    };
    (what, count, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begin and end of the regions that come of these: process, thread, time, and whether it begins.
    fn regions(events: &[(u32, u32, u64, bool)]) -> Vec<(u64, u64)> {
        let (mut processes, mut tables) = (Interpreter::new(1, false), Tables::default());
        let mut all = AgentEvents::new(true);
        for &(pid, tid, time_ns, begins) in events {
            let body = if begins { AgentBody::RoiBegin } else { AgentBody::RoiEnd };
            all.add(AgentRecord { pid, generation: 1, tid, time_ns, body });
        }
        all.interpret_before(u64::MAX, &mut processes, &mut tables);
        all.close(&mut tables);
        let mut found: Vec<_> = tables.phases.rows().map(|phase| (phase.begin_ns, phase.end_ns)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_region_is_the_processs_whichever_thread_ends_it() {
        assert_eq!(regions(&[(1, 1, 10, true), (1, 2, 20, false)]), [(10, 20)]);
        // Of another process it is another one.
        assert_eq!(regions(&[(1, 1, 10, true), (2, 2, 20, false)]), [(10, u64::MAX)]);
        assert_eq!(regions(&[(1, 1, 10, false), (1, 1, 20, true), (1, 1, 30, false)]), [(20, 30)]);
    }

    #[test]
    fn a_region_that_several_threads_are_in_lasts_until_the_last_one_ends_it() {
        let both = [(1, 1, 10, true), (1, 2, 15, true), (1, 1, 20, false), (1, 2, 30, false)];
        assert_eq!(regions(&both), [(10, 30)]);
        // Begun again without an end by the same thread: once.
        assert_eq!(regions(&[(1, 1, 10, true), (1, 1, 15, true), (1, 1, 20, false)]), [(10, 20)]);
    }
}
