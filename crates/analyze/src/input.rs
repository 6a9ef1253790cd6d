//! What an analysis reads.

use nearfar_machine::{Machine, binding::Bind};
use nearfar_recording::*;

/// Where samples come from, a segment at a time, so that a long recording never
/// has to be in memory as a whole. Segments may be asked for from several
/// threads at once, in any order; an analysis surveys first and then reads each once.
pub trait SampleReader: Sync {
    /// Number of segments.
    fn segments(&self) -> usize;
    /// The rows of segment `i`, ascending in time within it for each thread.
    fn segment(&self, i: usize) -> Result<AccessSamples, String>;
    /// Which threads were sampled and when. This default reads everything; a source that
    /// can read the columns `time_ns` and `thread` alone should.
    fn survey(&self) -> Result<SampleSurvey, String> {
        let mut survey = SampleSurvey::default();
        for i in 0..self.segments() {
            let segment = self.segment(i)?;
            survey.add(&segment.time_ns, &segment.thread);
        }
        Ok(survey)
    }
}

impl SampleReader for AccessSamples {
    fn segments(&self) -> usize {
        1
    }
    fn segment(&self, _: usize) -> Result<AccessSamples, String> {
        Ok(self.clone())
    }
    fn survey(&self) -> Result<SampleSurvey, String> {
        let mut survey = SampleSurvey::default();
        survey.add(&self.time_ns, &self.thread);
        Ok(survey)
    }
}

/// The tables of a recording; the samples stay where they are until asked for.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each field is the table of its name, described in `tables`
pub struct Input {
    pub meta: Meta,
    pub processes: Processes,
    pub process_ends: ProcessEnds,
    pub threads: Threads,
    pub loops: Loops,
    pub loop_streams: LoopStreams,
    /// Their instructions that access memory.
    pub loop_operands: LoopOperands,
    pub progress: Progresses,
    pub excerpts: Excerpts,
    pub excerpt_blocks: ExcerptBlocks,
    pub faults: PageFaults,
    pub locations: Locations,
    pub modules: Modules,
    pub symbols: Symbols,
    pub chains: ChainFrames,
    pub objects: MemoryObjects,
    pub object_ends: ObjectEnds,
    pub allocation_groups: AllocationGroups,
    pub site_names: SiteNames,
    pub range_events: RangeEvents,
    pub page_nodes: PageNodes,
    pub mappings: Mappings,
    pub phases: Phases,
    pub phase_counts: PhaseCounts,
    pub phase_marks: PhaseMarks,
    pub metrics: Metrics,
    pub counters: Counters,
    pub cpu_epochs: CpuEpochs,
    pub epoch_traffic: EpochTraffics,
    pub page_traffic: PageTraffics,
    pub counted_windows: CountedWindows,
    pub losses: Losses,
}

impl Input {
    /// Whether the agent reported. A recorder that was killed did not report it, but only the agent knows heap objects.
    pub(super) fn agent_reported(&self) -> bool {
        let heap = |&k: &u8| k == ObjectKind::Heap as u8 || k == ObjectKind::SmallHeap as u8;
        self.meta.agent || self.objects.kind.iter().any(heap)
    }
}

/// The machine to judge by, and how the recording's threads map to it.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The machine.
    pub machine: Machine,
    /// `None`: the recording's own cpus and nodes of pages are used. `Some`: the
    /// threads that have samples are mapped to the machine's nodes in creation
    /// order, and each page to the node of the thread that first touched it.
    pub assume: Option<Bind>,
    /// Judge the whole run even if the program marks a region of interest.
    pub whole: bool,
}
