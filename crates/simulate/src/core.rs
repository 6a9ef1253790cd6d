//! One cpu as its thread has it.

use super::counts::{Counts, Traffic};
use super::cpu::Cpu;
use super::unit::Unit;
use super::{Access, Found, Hierarchy, Kind, Sink};
use nearfar_machine::LINE_BYTES;
use std::sync::{Arc, Mutex, PoisonError};

/// One simulated cpu. Its thread owns it; see [`Hierarchy::core`].
#[derive(Debug)]
pub struct Core {
    cpu: Cpu,
    /// The caches of a core with one cpu. For one of several cpus, empty ones, whose filter shows nothing.
    pub(super) unit: Unit,
    /// The caches of a core with several cpus.
    siblings: Option<Arc<Mutex<Unit>>>,
}

/// What the filter has to allow: 0 nothing, 1 writing, 2 what it never does.
#[inline(always)]
fn permission(kind: Kind) -> u64 {
    match kind {
        Kind::Load => 0,
        Kind::Store | Kind::Atomic => 1,
        Kind::StreamStore => 2,
    }
}

impl Hierarchy {
    /// The part of the cpu at a position. To be taken once per cpu.
    pub fn core(&self, position: usize) -> Core {
        Core::new(self, position)
    }
}

impl Core {
    pub(super) fn new(hierarchy: &Hierarchy, position: usize) -> Core {
        let layout = &hierarchy.layout;
        let core = layout.core_of[position];
        let siblings = hierarchy.units[core].clone();
        let mailbox = match siblings {
            Some(_) => Arc::default(),
            None => hierarchy.mailboxes[core].clone(),
        };
        Core { cpu: Cpu::new(hierarchy, core), unit: Unit::new(layout, mailbox), siblings }
    }

    /// Whether nothing but the count changes: the line is in the first level, was
    /// found by its virtual address, and may be written if this is a store. The
    /// access is counted then; if not, nothing has happened and [`Core::access`] must follow.
    #[inline(always)]
    pub fn quick_hit(&mut self, virt: u64, bytes: u8, kind: Kind) -> bool {
        let stamp = self.cpu.tick + 1;
        let hit = (virt & (LINE_BYTES - 1)) + u64::from(bytes) <= LINE_BYTES
            && self.unit.inbox.is_empty()
            && self.unit.private.quick(virt, permission(kind), stamp);
        self.cpu.tick += u64::from(hit);
        hit
    }

    /// An access that `quick_hit` did not take.
    pub fn access(&mut self, hierarchy: &Hierarchy, access: Access, sink: &mut impl Sink) {
        match &self.siblings {
            None => self.cpu.access(hierarchy, &mut self.unit, access, true, sink),
            Some(shared) => {
                let mut unit = shared.lock().unwrap_or_else(PoisonError::into_inner);
                // The siblings' accesses take turns in the order of stamps.
                self.cpu.skew += unit.latest.saturating_sub(self.cpu.tick);
                self.cpu.tick = self.cpu.tick.max(unit.latest);
                self.cpu.access(hierarchy, &mut unit, access, false, sink);
                unit.latest = self.cpu.tick;
            }
        }
    }

    /// Instructions that the cpu ran. To be called before their accesses.
    #[inline(always)]
    pub fn execute(&mut self, instructions: u32) {
        self.cpu.counts.instructions += u64::from(instructions);
    }

    /// The cpu waited, for what no access told of, ns.
    pub fn wait(&mut self, ns: f64) {
        self.cpu.stall_ns += ns;
    }

    /// Floating-point operations that the cpu ran.
    #[inline]
    pub fn compute(&mut self, f64_ops: u64, f32_ops: u64) {
        self.cpu.counts.f64_ops += f64_ops;
        self.cpu.counts.f32_ops += f32_ops;
    }

    /// Translations have changed: another address space, or a page was unmapped or moved.
    pub fn flush_translations(&mut self) {
        self.unit.private.hide_all();
        self.cpu.tlb.clear();
    }

    /// Sends partly filled write-combining buffers to memory, as the end of a thread or a fence does.
    pub fn flush_streams(&mut self, hierarchy: &Hierarchy, sink: &mut impl Sink) {
        for line in self.cpu.combining.drain() {
            self.cpu.streamed(hierarchy, line, sink);
        }
    }

    /// Empties the core's own caches and buffers: what is modified goes outward.
    /// [`Hierarchy::write_back`] does the rest of the way.
    pub fn write_back(&mut self, hierarchy: &Hierarchy, sink: &mut impl Sink) {
        self.flush_streams(hierarchy, sink);
        match &self.siblings {
            None => self.cpu.empty(hierarchy, &mut self.unit, sink),
            Some(shared) => {
                let mut unit = shared.lock().unwrap_or_else(PoisonError::into_inner);
                self.cpu.empty(hierarchy, &mut unit, sink);
            }
        }
    }

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        let cpu = &self.cpu;
        let accesses = cpu.tick - cpu.skew;
        let c = &cpu.counts;
        let elsewhere = c.l2_hits + c.l3_hits + c.cache_transfers + c.dram_lines + c.stream_stores;
        Counts {
            accesses,
            l1_hits: accesses - elsewhere,
            dependent_lines: cpu.dependence.settled(c.instructions).0,
            busy_ns: cpu.busy_ns(),
            ..*c
        }
    }

    /// Where the line was of the one access that was made since the core had these counts and this traffic; `None` if it looked
    /// into no cache. Of an access across two lines, the farther one.
    pub fn found_since(&self, before: &Counts, traffic: &[Traffic]) -> Option<Found> {
        let now = self.counts();
        let moved = |lines: fn(&Traffic) -> u64| {
            self.cpu.traffic.iter().zip(traffic).position(|(now, before)| lines(now) > lines(before))
        };
        match () {
            () if now.dram_lines > before.dram_lines => {
                moved(|t| t.read_lines - t.prefetch_lines).map(Found::Memory)
            }
            () if now.cache_transfers > before.cache_transfers => {
                let node = moved(|t| t.transfer_lines)?;
                Some(if node == self.cpu.node { Found::Neighbour } else { Found::OtherNode(node) })
            }
            () if now.l3_hits > before.l3_hits => Some(Found::Shared),
            () if now.l2_hits > before.l2_hits => Some(Found::Second),
            () => (now.l1_hits > before.l1_hits).then_some(Found::First),
        }
    }

    /// Cycles that an access waits for a line there, if it waits for nothing else.
    pub fn latency_cycles(&self, found: Found) -> f64 {
        let costs = &self.cpu.costs;
        let ns = match found {
            Found::First => return costs.first_cycles,
            // Their costs are those of one of many in flight.
            Found::Second => costs.l2 / costs.demand,
            Found::Shared | Found::Neighbour => costs.shared / costs.demand,
            Found::OtherNode(node) | Found::Memory(node) => self.cpu.latency[node],
        };
        ns / costs.cycle
    }

    /// Position of its node.
    pub fn node(&self) -> usize {
        self.cpu.node
    }

    /// Time of one instruction that waits for nothing, ns.
    pub fn instruction_ns(&self) -> f64 {
        self.cpu.costs.instruction
    }

    /// The time that the core worked, ns.
    pub fn busy_ns(&self) -> f64 {
        self.cpu.busy_ns()
    }

    /// Lines from and to each node's memory so far, by position in `Machine::nodes`.
    pub fn traffic(&self) -> &[Traffic] {
        &self.cpu.traffic
    }

    /// The core's clock: the time it worked and the time it slept.
    pub fn clock_ns(&self) -> f64 {
        self.cpu.clock_ns()
    }

    /// The cpu slept until `ns`. A clock does not go back.
    pub fn sleep_until(&mut self, ns: f64) {
        self.cpu.idle_ns += (ns - self.clock_ns()).max(0.0);
    }
}
