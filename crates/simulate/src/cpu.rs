//! What a cpu does with an access: where it looks for the line, whom it asks, what it counts.

use super::ahead::{Streams, Trained};
use super::combining::Combining;
use super::costs::Costs;
use super::counts::{Counts, Traffic};
use super::dependence::Dependence;
use super::directory::Place;
use super::few::FewLines;
use super::layout::LINE_SHIFT;
use super::tlb::{Tlb, Translation};
use super::transact::{Supplier, Want};
use super::unit::Unit;
use super::{Access, DramKind, Hierarchy, Kind, Sink};
use nearfar_machine::LINE_BYTES;

/// Whether the caches have to have the line for writing.
#[inline(always)]
fn is_store(kind: Kind) -> bool {
    matches!(kind, Kind::Store | Kind::Atomic)
}

/// A cpu without its caches.
#[derive(Debug)]
pub(super) struct Cpu {
    pub place: Place,
    pub node: usize,
    /// Stamps of accesses: one for each, and `skew` left out in favour of siblings.
    pub tick: u64,
    pub skew: u64,
    /// All but what `Core::counts` adds.
    pub counts: Counts,
    pub traffic: Vec<Traffic>,
    pub tlb: Tlb,
    pub streams: Streams,
    pub combining: Combining,
    pub dependence: Dependence,
    pub costs: Costs,
    /// Of memory by node of the page, ns.
    pub latency: Vec<f64>,
    pub shared_level: u32,
    pub stall_ns: f64,
    pub idle_ns: f64,
}

impl Cpu {
    pub fn new(hierarchy: &Hierarchy, core: usize) -> Cpu {
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

    pub fn busy_ns(&self) -> f64 {
        let lone = self.dependence.settled(self.counts.instructions).1 * (1.0 - self.costs.demand);
        self.counts.instructions as f64 * self.costs.instruction + self.stall_ns + lone
    }

    /// The core's clock: the time it worked and the time it slept.
    pub fn clock_ns(&self) -> f64 {
        self.busy_ns() + self.idle_ns
    }

    pub fn access(
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
        if access.physical >= shared.page_nodes.bytes() {
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
        let contended = shared.contended.has(line, || self.clock_ns());
        if contended {
            sink.contended();
        }
        let quick = quick && !contended;
        let store = is_store(access.kind);
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
                if let Some(page_node) = shared.page_nodes.page_node(access.physical) {
                    self.traffic[page_node].walks += 1;
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
        let store = is_store(access.kind);
        let mut leaving = FewLines::default();
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
        match got.supplier {
            Supplier::Shared => {
                let count =
                    if self.shared_level == 2 { &mut self.counts.l2_hits } else { &mut self.counts.l3_hits };
                *count += 1;
                self.stall_ns += self.costs.shared;
            }
            Supplier::Neighbour => {
                self.transferred(self.node, self.costs.shared);
                if got.modified {
                    shared.contended.taken(line, self.clock_ns());
                }
            }
            Supplier::Remote(node) => {
                if got.modified {
                    shared.contended.taken(line, self.clock_ns());
                }
                self.transferred(node, self.latency[node] * self.costs.demand);
                sink.transfer(line * LINE_BYTES, node);
            }
            Supplier::Memory => self.demanded(shared, line, access, on_stream, sink),
        }
        self.written(shared, got.written.as_slice(), sink);
        let mut leaving = FewLines::default();
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
        let Some(page_node) = shared.page_nodes.page_node(physical) else { return };
        let load = access.kind == Kind::Load;
        let latency = self.latency[page_node];
        let now = self.counts.instructions;
        let waited = self.dependence.line(line, load, on_stream, access.chain, now, latency);
        self.stall_ns += if waited { latency } else { latency * self.costs.demand };
        self.counts.dram_lines += 1;
        self.traffic[page_node].read_lines += 1;
        sink.dram(physical, page_node, if load { DramKind::Demand } else { DramKind::Rfo });
    }

    /// Fetches what the prefetcher wants.
    #[inline]
    fn ahead(&mut self, shared: &Hierarchy, unit: &mut Unit, trained: &Trained, sink: &mut impl Sink) {
        for &line in trained.lines() {
            let physical = line * LINE_BYTES;
            let Some(page_node) = shared.page_nodes.page_node(physical) else { continue };
            if unit.private.holds(line) {
                continue;
            }
            let Some(got) = shared.fetch_ahead(&self.place, line, &mut unit.inbox) else { continue };
            unit.act();
            if got.supplier == Supplier::Memory {
                self.stall_ns += self.latency[page_node] * self.costs.prefetch;
                self.traffic[page_node].read_lines += 1;
                self.traffic[page_node].prefetch_lines += 1;
                sink.dram(physical, page_node, DramKind::Prefetch);
            } else {
                self.stall_ns += self.costs.shared * self.costs.prefetch / self.costs.demand;
            }
            self.written(shared, got.written.as_slice(), sink);
            let mut leaving = FewLines::default();
            unit.private.fill_ahead(line, got.owned, self.tick, &mut leaving);
            self.leave(shared, &leaving, sink);
        }
    }

    /// Tells the directory of lines that have left the core's caches.
    #[inline]
    fn leave(&mut self, shared: &Hierarchy, leaving: &FewLines, sink: &mut impl Sink) {
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
            if let Some(page_node) = shared.page_nodes.page_node(physical) {
                self.traffic[page_node].write_lines += 1;
                sink.dram(physical, page_node, DramKind::WriteBack);
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
    pub fn streamed(&mut self, shared: &Hierarchy, line: u64, sink: &mut impl Sink) {
        let physical = line * LINE_BYTES;
        if let Some(page_node) = shared.page_nodes.page_node(physical) {
            self.stall_ns += self.latency[page_node] * self.costs.demand;
            self.traffic[page_node].stream_lines += 1;
            sink.dram(physical, page_node, DramKind::Stream);
        }
    }

    pub fn empty(&mut self, shared: &Hierarchy, unit: &mut Unit, sink: &mut impl Sink) {
        unit.read_mail();
        for line in unit.private.lines() {
            let written = shared.leave(&self.place, line);
            self.written(shared, written.as_slice(), sink);
            unit.private.invalidate(line);
        }
    }
}
