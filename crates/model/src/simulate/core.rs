//! One cpu: what it does with an access, and what it counts.

use super::ahead::{Streams, Trained};
use super::combining::Combining;
use super::costs::Costs;
use super::counts::{Counts, Traffic};
use super::dependence::Dependence;
use super::directory::Place;
use super::layout::{LINE_SHIFT, Layout};
use super::mail::{Inbox, Mailbox, Request};
use super::private::{Leaving, Private};
use super::tlb::{Tlb, Translation};
use super::transact::{Source, Want};
use super::{Access, DramKind, Hierarchy, Kind, LINE_BYTES, Sink};
use std::sync::{Arc, Mutex, PoisonError};

/// One simulated cpu. Its thread owns it; see [`Hierarchy::core`].
#[derive(Debug)]
pub struct Core {
    cpu: Cpu,
    /// The caches of a core with one cpu. For one of several cpus, empty ones, whose filter shows nothing.
    unit: Unit,
    /// The caches of a core with several cpus.
    siblings: Option<Arc<Mutex<Unit>>>,
}

/// The caches of a core, and what others ask of them.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) private: Private,
    pub(super) inbox: Inbox,
    /// Latest stamp that a cpu of the core has used.
    latest: u64,
}

impl Unit {
    pub(super) fn new(layout: &Layout, mailbox: Arc<Mailbox>) -> Unit {
        Unit { private: Private::new(layout), inbox: Inbox::new(mailbox), latest: 0 }
    }

    /// Acts on what was taken from the mailbox.
    #[inline]
    fn act(&mut self) {
        if self.inbox.has_taken() {
            self.act_on_all();
        }
    }

    #[cold]
    fn act_on_all(&mut self) {
        for request in self.inbox.pop_all() {
            match request {
                Request::Invalidate(line) => self.private.invalidate(line),
                Request::Downgrade(line) => self.private.downgrade(line),
            }
        }
    }

    /// Reads the mailbox and acts on it.
    #[inline]
    pub(super) fn read_mail(&mut self) {
        if !self.inbox.is_empty() {
            self.inbox.take();
            self.act();
        }
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
            && self.unit.private.quick(virt, kind as u64, stamp);
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

    /// Lines from and to each node's memory so far, by position in `Machine::nodes`.
    pub fn traffic(&self) -> &[Traffic] {
        &self.cpu.traffic
    }

    /// The core's clock: the time it worked and the time it slept.
    pub fn clock_ns(&self) -> f64 {
        self.cpu.busy_ns() + self.cpu.idle_ns
    }

    /// The cpu slept until `ns`. A clock does not go back.
    pub fn sleep_until(&mut self, ns: f64) {
        self.cpu.idle_ns += (ns - self.clock_ns()).max(0.0);
    }

    /// The caches, for tests.
    #[cfg(test)]
    pub(super) fn with_unit<T>(&mut self, look: impl FnOnce(&mut Unit) -> T) -> T {
        match &self.siblings {
            None => look(&mut self.unit),
            Some(shared) => look(&mut shared.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// A cpu without its caches.
#[derive(Debug)]
struct Cpu {
    place: Place,
    node: usize,
    /// Stamps of accesses: one for each, and `skew` left out in favour of siblings.
    tick: u64,
    skew: u64,
    /// All but what `Core::counts` adds.
    counts: Counts,
    traffic: Vec<Traffic>,
    tlb: Tlb,
    streams: Streams,
    combining: Combining,
    dependence: Dependence,
    costs: Costs,
    /// Of memory by home, ns.
    latency: Vec<f64>,
    shared_level: u32,
    stall_ns: f64,
    idle_ns: f64,
}

impl Cpu {
    fn new(hierarchy: &Hierarchy, core: usize) -> Cpu {
        let layout = &hierarchy.layout;
        Cpu {
            place: hierarchy.directory.place(core, layout.domain_of_core[core]),
            node: layout.node_of_core[core],
            tick: 0,
            skew: 0,
            counts: Counts::default(),
            traffic: vec![Traffic::default(); layout.nodes],
            tlb: Tlb::new(),
            streams: Streams::new(),
            combining: Combining::new(layout.costs.buffers),
            dependence: Dependence::new(),
            costs: layout.costs.clone(),
            latency: layout.costs.latency[layout.node_of_core[core]].clone(),
            shared_level: layout.shared.map_or(3, |s| s.level),
            stall_ns: 0.0,
            idle_ns: 0.0,
        }
    }

    fn busy_ns(&self) -> f64 {
        let lone = self.dependence.settled(self.counts.instructions).1 * (1.0 - self.costs.demand);
        self.counts.instructions as f64 * self.costs.instruction + self.stall_ns + lone
    }

    fn access(
        &mut self,
        shared: &Hierarchy,
        unit: &mut Unit,
        access: Access,
        quick: bool,
        sink: &mut impl Sink,
    ) {
        let mut left = u64::from(access.bytes.max(1));
        if (access.virt & (LINE_BYTES - 1)) + left <= LINE_BYTES {
            self.piece(shared, unit, &access, quick, sink);
            return;
        }
        let mut piece = access;
        loop {
            let bytes = left.min(LINE_BYTES - (piece.virt & (LINE_BYTES - 1)));
            piece.bytes = bytes as u8;
            self.piece(shared, unit, &piece, quick, sink);
            left -= bytes;
            if left == 0 {
                return;
            }
            piece.virt += bytes;
            piece.physical += bytes;
            let page = if access.huge { 1 << 21 } else { 1 << 12 };
            if piece.virt & (page - 1) == 0 {
                self.counts.outside += 1;
                return;
            }
        }
    }

    /// An access within one line.
    #[inline]
    fn piece(
        &mut self,
        shared: &Hierarchy,
        unit: &mut Unit,
        access: &Access,
        quick: bool,
        sink: &mut impl Sink,
    ) {
        unit.read_mail();
        if access.physical >= shared.homes.bytes() {
            self.counts.outside += 1;
            return;
        }
        self.tick += 1;
        self.translate(shared, access);
        let line = access.physical >> LINE_SHIFT;
        if access.kind == Kind::StreamStore {
            self.stream_store(shared, line, access, sink);
            return;
        }
        if !self.combining.is_empty() && self.combining.evict(line) {
            self.streamed(shared, line, sink);
        }
        let store = access.kind == Kind::Store;
        if let Some(slot) = unit.private.find_first(line, self.tick)
            && (!store || self.upgrade(shared, unit, slot, line))
        {
            if quick {
                unit.private.show(access.virt, slot);
            }
            return;
        }
        let trained = self.streams.train(line);
        let slot = self.miss(shared, unit, line, access, trained.on_stream, sink);
        // Before prefetching, which may push this very line out again.
        if quick {
            unit.private.show(access.virt, slot);
        }
        if shared.prefetch {
            self.ahead(shared, unit, &trained, sink);
        }
    }

    fn translate(&mut self, shared: &Hierarchy, access: &Access) {
        match self.tlb.look(access.virt, access.huge) {
            Translation::Known => {}
            Translation::Second => self.stall_ns += self.costs.stlb,
            Translation::Walk => {
                self.stall_ns += self.costs.walk;
                let count =
                    if access.huge { &mut self.counts.huge_tlb_misses } else { &mut self.counts.tlb_misses };
                *count += 1;
                if let Some(home) = shared.homes.home(access.physical) {
                    self.traffic[home].walks += 1;
                }
            }
        }
    }

    /// Makes a line of the first level this core's alone. `false` if another core was faster.
    #[inline]
    fn upgrade(&mut self, shared: &Hierarchy, unit: &mut Unit, slot: usize, line: u64) -> bool {
        if unit.private.is_dirty(slot) {
            return true;
        }
        let owned = shared.own(&self.place, line, &mut unit.inbox);
        unit.act();
        if owned {
            unit.private.set_dirty(slot);
        }
        owned
    }

    /// A line that is not in the first level; gives its slot there.
    fn miss(
        &mut self,
        shared: &Hierarchy,
        unit: &mut Unit,
        line: u64,
        access: &Access,
        on_stream: bool,
        sink: &mut impl Sink,
    ) -> usize {
        let store = access.kind == Kind::Store;
        let mut leaving = Leaving::default();
        if let Some(slot) = unit.private.find_second(line, self.tick, &mut leaving) {
            self.leave(shared, &leaving, sink);
            if !store || self.upgrade(shared, unit, slot, line) {
                self.counts.l2_hits += 1;
                self.stall_ns += self.costs.l2;
                return slot;
            }
        }
        let want = if store { Want::Own } else { Want::Read };
        let got = shared.fetch(&self.place, line, want, &mut unit.inbox);
        unit.act();
        match got.source {
            Source::Shared => {
                let count =
                    if self.shared_level == 2 { &mut self.counts.l2_hits } else { &mut self.counts.l3_hits };
                *count += 1;
                self.stall_ns += self.costs.shared;
            }
            Source::Neighbour => self.transferred(self.node, self.costs.shared),
            Source::Remote(node) => {
                self.transferred(node, self.latency[node] * self.costs.demand);
            }
            Source::Memory => self.demanded(shared, line, access, on_stream, sink),
        }
        self.written(shared, got.written.as_slice(), sink);
        let mut leaving = Leaving::default();
        let slot = unit.private.fill(line, got.owned, self.tick, &mut leaving);
        self.leave(shared, &leaving, sink);
        slot
    }

    fn transferred(&mut self, node: usize, ns: f64) {
        self.counts.cache_transfers += 1;
        self.traffic[node].transfer_lines += 1;
        self.stall_ns += ns;
    }

    fn demanded(
        &mut self,
        shared: &Hierarchy,
        line: u64,
        access: &Access,
        on_stream: bool,
        sink: &mut impl Sink,
    ) {
        let physical = line * LINE_BYTES;
        let Some(home) = shared.homes.home(physical) else { return };
        let load = access.kind == Kind::Load;
        let latency = self.latency[home];
        let now = self.counts.instructions;
        let waited = self.dependence.line(line, load, on_stream, access.chain, now, latency);
        self.stall_ns += if waited { latency } else { latency * self.costs.demand };
        self.counts.dram_lines += 1;
        self.traffic[home].read_lines += 1;
        sink.dram(physical, home, if load { DramKind::Demand } else { DramKind::Rfo });
    }

    /// Fetches what the prefetcher wants.
    #[inline]
    fn ahead(&mut self, shared: &Hierarchy, unit: &mut Unit, trained: &Trained, sink: &mut impl Sink) {
        for &line in trained.lines() {
            let physical = line * LINE_BYTES;
            let Some(home) = shared.homes.home(physical) else { continue };
            if unit.private.holds(line) {
                continue;
            }
            let Some(got) = shared.fetch_ahead(&self.place, line, &mut unit.inbox) else { continue };
            unit.act();
            if got.source == Source::Memory {
                self.stall_ns += self.latency[home] * self.costs.prefetch;
                self.traffic[home].read_lines += 1;
                self.traffic[home].prefetch_lines += 1;
                sink.dram(physical, home, DramKind::Prefetch);
            } else {
                self.stall_ns += self.costs.shared * self.costs.prefetch / self.costs.demand;
            }
            self.written(shared, got.written.as_slice(), sink);
            let mut leaving = Leaving::default();
            unit.private.fill_ahead(line, got.owned, self.tick, &mut leaving);
            self.leave(shared, &leaving, sink);
        }
    }

    /// Tells the directory of lines that have left the core's caches.
    #[inline]
    fn leave(&mut self, shared: &Hierarchy, leaving: &Leaving, sink: &mut impl Sink) {
        for &line in leaving.as_slice() {
            let written = shared.leave(&self.place, line);
            self.written(shared, written.as_slice(), sink);
        }
    }

    /// Lines were written back to memory, by this core or on its behalf.
    #[inline]
    fn written(&mut self, shared: &Hierarchy, lines: &[u64], sink: &mut impl Sink) {
        for &line in lines {
            let physical = line * LINE_BYTES;
            if let Some(home) = shared.homes.home(physical) {
                self.traffic[home].write_lines += 1;
                sink.dram(physical, home, DramKind::WriteBack);
            }
        }
    }

    fn stream_store(&mut self, shared: &Hierarchy, line: u64, access: &Access, sink: &mut impl Sink) {
        self.counts.stream_stores += 1;
        let offset = (access.physical & (LINE_BYTES - 1)) as u32;
        let combined = self.combining.store(line, offset, u32::from(access.bytes));
        if let Some(line) = combined.pushed_out {
            self.streamed(shared, line, sink);
        }
        if combined.began {
            let written = shared.purge(line);
            self.written(shared, written.as_slice(), sink);
        }
        if combined.full {
            self.streamed(shared, line, sink);
        }
    }

    /// A line went to memory past the caches.
    fn streamed(&mut self, shared: &Hierarchy, line: u64, sink: &mut impl Sink) {
        let physical = line * LINE_BYTES;
        if let Some(home) = shared.homes.home(physical) {
            self.stall_ns += self.latency[home] * self.costs.demand;
            self.traffic[home].stream_lines += 1;
            sink.dram(physical, home, DramKind::Stream);
        }
    }

    fn empty(&mut self, shared: &Hierarchy, unit: &mut Unit, sink: &mut impl Sink) {
        unit.read_mail();
        for line in unit.private.lines() {
            let written = shared.leave(&self.place, line);
            self.written(shared, written.as_slice(), sink);
            unit.private.invalidate(line);
        }
    }
}
