//! Lines between a core and memory: each is counted for its page, some become samples.

use crate::pages::PAGE_SHIFT;
use crate::plugin_state::PluginState;
use crate::sample::Sampler;
use crate::userdata::Site;
use nearfar_recording::column::Columns;
use nearfar_recording::raw::RawSample;
use nearfar_recording::tables::{Access as AccessKind, SampleSource};
use nearfar_simulate::{Access, DramKind, Kind, Sink};

/// Hears of the lines that one access moves.
pub struct Lines<'a> {
    /// Whether they count: else the caches are only filled.
    pub counted: bool,
    /// Where they are counted.
    pub plugin: &'a PluginState,
    /// Chooses samples.
    pub sampler: &'a mut Sampler,
    /// Chooses samples of lines from other nodes' caches.
    pub transfers: &'a mut Sampler,
    /// Chooses samples of accesses to lines that cores take from each other all the time.
    pub contended: &'a mut Sampler,
    /// Position of the core's node.
    pub node: usize,
    /// Kernel index of the cpu.
    pub cpu: u16,
    /// Process and thread.
    pub ids: (u32, u32),
    /// Number of the core's epoch.
    pub epoch: u32,
    /// The instruction.
    pub site: Site,
    /// Its access.
    pub access: Access,
}

impl Sink for Lines<'_> {
    #[inline]
    fn dram(&mut self, physical: u64, page_node: usize, kind: DramKind) {
        if !self.counted {
            return;
        }
        let write = matches!(kind, DramKind::WriteBack | DramKind::Stream);
        self.plugin.traffic.line(physical >> PAGE_SHIFT, self.node, write);
        if let Some(lines) = self.sampler.line() {
            let kind = match kind {
                DramKind::Demand => AccessKind::Load,
                DramKind::Prefetch if self.access.kind == Kind::Load => AccessKind::Load,
                DramKind::Prefetch | DramKind::Rfo | DramKind::Stream => AccessKind::Store,
                // The instruction made room for another line. It did not touch this one, and its thread
                // need not be the one that wrote it.
                DramKind::WriteBack => AccessKind::Unknown,
            };
            self.sample(physical, page_node, kind, lines, SampleSource::Simulated);
        }
    }

    fn transfer(&mut self, physical: u64, node: usize) {
        if !self.counted {
            return;
        }
        if let Some(lines) = self.transfers.line() {
            let kind = if self.access.kind == Kind::Load { AccessKind::Load } else { AccessKind::Store };
            self.sample(physical, node, kind, lines, SampleSource::Transfer);
        }
    }

    fn contended(&mut self) {
        if !self.counted {
            return;
        }
        if let Some(accesses) = self.contended.line() {
            let kind = match self.access.kind {
                Kind::Load => AccessKind::Load,
                Kind::Store | Kind::StreamStore => AccessKind::Store,
                Kind::Atomic => AccessKind::LoadStore,
            };
            self.sample(self.access.physical, self.node, kind, accesses, SampleSource::Contended);
        }
    }
}

impl Lines<'_> {
    #[cold]
    fn sample(&self, physical: u64, page_node: usize, kind: AccessKind, lines: u32, source: SampleSource) {
        let (page, access) = (physical >> PAGE_SHIFT, &self.access);
        // A line that another one drives out, or that is fetched ahead, may be of another page.
        let virtual_page = if page == access.physical >> PAGE_SHIFT {
            Some(access.virt >> PAGE_SHIFT)
        } else {
            let owner = self.plugin.traffic.owner(page);
            owner.filter(|owner| owner.pid == self.ids.0).map(|owner| owner.page)
        };
        let address = virtual_page.map_or(0, |page| page << PAGE_SHIFT | physical & ((1 << PAGE_SHIFT) - 1));
        // Which cpus share a line with which others follows from the bytes that each touches.
        let address = if source == SampleSource::Simulated { address } else { access.virt };
        self.plugin.output.rows().samples.push(RawSample {
            time_ns: self.plugin.time.now(),
            cpu: self.cpu,
            tid: self.ids.1,
            ip: self.site.address(),
            address,
            access: kind as u8,
            page_node: self.plugin.node(page_node),
            source: source as u8,
            stands_for: lines,
            epoch: self.epoch,
            served: 0,
            latency_cycles: 0,
        });
    }
}
