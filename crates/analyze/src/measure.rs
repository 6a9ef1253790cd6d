//! What a sample counts for, and what its source knows by itself.
//!
//! A timer's sample stands for CPU time; one of the virtual machine stands for cache
//! lines moved from or to DRAM, and knows the node they came from. The two cannot be
//! added, so a recording has one basis, and samples of another kind are left out.

use super::hardware::Places;
use super::input::{Input, Judge};
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::region::Region;
use super::value::Basis;
use nearfar_recording::{AccessSamples, NONE, SampleSource, Served, Source};

/// How samples of one recording are counted.
#[derive(Debug)]
pub struct Measure {
    /// What every share is a share of.
    pub basis: Basis,
    /// Whether the samples' own nodes hold: not where pages are placed anew for another machine.
    own_page_nodes: bool,
    /// What the machine lets the processor's words mean, where its samples are counted.
    places: Option<Places>,
    /// Whether there are samples of time beside them.
    timed: bool,
}

impl Measure {
    /// A recording of the virtual machine counts lines; every other counts time.
    pub fn new(input: &Input, judge: &Judge) -> Measure {
        let simulated = input.meta.sources.iter().any(|r| r.source == Source::Simulated && r.active);
        let active = |source: Source| input.meta.sources.iter().any(|s| s.source == source && s.active);
        let basis = match () {
            () if simulated || !input.cpu_epochs.epoch.is_empty() => Basis::DramLines,
            () if active(Source::Hardware) => Basis::MemoryLoads,
            () => Basis::StallTime,
        };
        Measure {
            basis,
            own_page_nodes: basis != Basis::StallTime && judge.assume.is_none(),
            places: (basis == Basis::MemoryLoads).then(|| Places::new(judge)),
            timed: active(Source::Clock) || active(Source::Signal),
        }
    }

    /// The same recording by its samples of time; `None` if it is counted so, or has none.
    pub fn by_time(&self) -> Option<Measure> {
        (self.basis == Basis::MemoryLoads && self.timed).then_some(Measure {
            basis: Basis::StallTime,
            own_page_nodes: false,
            places: None,
            timed: true,
        })
    }

    /// Where the memory of sample `i` is, and whether that is far where the processor said it: by its word, the node of
    /// the cpu and that of the page.
    #[inline]
    pub fn settle(
        &self,
        s: &AccessSamples,
        i: usize,
        node: NodeIndex,
        page: NodeIndex,
    ) -> (NodeIndex, Option<bool>) {
        match (&self.places, Served::from_code(s.served[i])) {
            (Some(places), Some(served)) if self.own_page_nodes => places.settle(served, node, page),
            _ => (page, None),
        }
    }

    /// What sample `i` weighs; `None` if it is of another basis.
    #[inline]
    pub fn weight(&self, s: &AccessSamples, i: usize) -> Option<u64> {
        let lines = s.source[i] == SampleSource::Simulated as u8;
        let hardware = s.source[i] == SampleSource::Hardware as u8;
        match self.basis {
            Basis::DramLines => lines.then(|| u64::from(s.lines[i])),
            // A sample without a weight is still a sample.
            Basis::MemoryLoads => {
                let memory = hardware && Served::from_code(s.served[i]).is_some_and(Served::is_memory);
                memory.then(|| u64::from(s.period[i].max(1)))
            }
            Basis::StallTime => (!lines && !hardware).then(|| u64::from(s.weight_ns[i].max(1))),
        }
    }

    /// The node of the memory, where the sample itself tells.
    #[inline]
    pub fn page_node(&self, s: &AccessSamples, i: usize, nodes: &Nodes) -> NodeIndex {
        if self.own_page_nodes { nodes.position(s.page_node[i]) } else { UNKNOWN }
    }

    /// Whether sample `i` is in the region that counts. Its epoch tells exactly: the counters are
    /// of the same epochs.
    #[inline]
    pub fn in_region(&self, s: &AccessSamples, i: usize, space: Option<u32>, region: &Region) -> bool {
        match (self.basis, s.epoch[i]) {
            (Basis::DramLines, epoch) if epoch != NONE => region.holds_epoch(epoch),
            _ => region.holds(space, s.time_ns[i]),
        }
    }
}
