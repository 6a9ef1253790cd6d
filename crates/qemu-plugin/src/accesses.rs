//! What a processor that samples its own accesses, and a clock beside it, would have sampled of the same run: what is
//! concluded from such samples can then be compared with what was counted.
//!
//! An access is chosen by its number, whatever it does, as processors choose them. It has the place where the simulated
//! caches found its line, and the latency of that place. Time is sampled every so many ns of a core's own work. What stalls
//! is the access's; the time of instructions is shared out evenly, so that a sample in it is one of an access as often as
//! instructions are.

use crate::sample::Sampler;
use crate::userdata::Site;
use nearfar_recording::raw::RawSample;
use nearfar_recording::tables::{Access as AccessKind, SampleSource};
use nearfar_recording::{NONE, Served};
use nearfar_simulate::{Core, Counts, Found, Kind, Traffic};

/// A core's own time between two samples of it, ns: 250 kHz, because emulated runs are short. // chosen
const CLOCK_NS: u32 = 4_000;
/// The sampler of clocks and that of accesses of one core are not in step. // chosen
const CLOCKS: u64 = 1 << 32;

/// What one core samples.
pub struct Accesses {
    accesses: Sampler,
    clock: Sampler,
    /// The core's own time up to which its clock was looked at, ns.
    seen_ns: f64,
    /// Which samples of time are of accesses.
    parts: Parts,
}

/// An access that was chosen, before it is made.
pub struct Chosen {
    period: u32,
    counts: Counts,
    traffic: Vec<Traffic>,
}

/// An access of the program.
pub struct Made {
    /// The instruction.
    pub site: Site,
    /// Address of the data.
    pub address: u64,
    /// What it does.
    pub kind: Kind,
}

impl Made {
    fn access(&self) -> AccessKind {
        if self.kind == Kind::Load { AccessKind::Load } else { AccessKind::Store }
    }
}

/// Where and when it was made.
#[derive(Clone, Copy)]
pub struct Here {
    /// Guest's time, ns.
    pub time_ns: u64,
    /// Kernel index of the cpu.
    pub cpu: u16,
    /// Kernel thread id.
    pub tid: u32,
}

impl Accesses {
    /// For core `core`, one in `mean` accesses.
    pub fn new(core: u64, mean: u32) -> Accesses {
        let (accesses, clock) = (Sampler::new(core, mean), Sampler::new(core + CLOCKS, CLOCK_NS));
        Accesses { accesses, clock, seen_ns: 0.0, parts: Parts::default() }
    }

    /// Another access comes: what the core has counted before it, if it is chosen.
    #[inline]
    pub fn next(&mut self, core: &Core) -> Option<Chosen> {
        self.parts.accesses += 1;
        let period = self.accesses.line()?;
        Some(Chosen { period, counts: core.counts(), traffic: core.traffic().to_vec() })
    }

    /// A chosen access was made.
    pub fn made(&self, chosen: &Chosen, core: &Core, made: &Made, here: Here) -> Option<RawSample> {
        let found = core.found_since(&chosen.counts, &chosen.traffic)?;
        let local = core.node();
        let served = match found {
            Found::First | Found::Second | Found::Shared => Served::Cache,
            Found::Neighbour => Served::OtherCore,
            Found::OtherNode(_) => Served::OtherNodesCache,
            Found::Memory(node) if node == local => Served::LocalMemory,
            Found::Memory(_) => Served::RemoteMemory,
        };
        Some(RawSample {
            served: served as u8,
            latency_cycles: core.latency_cycles(found).round() as u32,
            ..row(SampleSource::Hardware, chosen.period, made.address, made, here)
        })
    }

    /// Samples of the time since this was called last, in which the core ran `instructions` and waited for this access.
    pub fn time(&mut self, core: &Core, instructions: u64, made: &Made, here: Here) -> Vec<RawSample> {
        // What is less than one ns waits for more.
        let passed = (core.busy_ns() - self.seen_ns).max(0.0).floor();
        self.seen_ns += passed;
        let running = (instructions as f64 * core.instruction_ns()).min(passed);
        let part = self.parts.of(instructions);
        let mut samples = Vec::new();
        let mut left = passed as u64;
        while let Some(ns) = self.clock.after(&mut left) {
            // Whether the sample is of the time of instructions, and then of one without an access.
            let drawn = self.parts.draw();
            let without = drawn < running / passed.max(f64::MIN_POSITIVE) * (1.0 - part);
            let address = if without { 0 } else { made.address };
            samples.push(row(SampleSource::Clock, ns, address, made, here));
        }
        samples
    }
}

fn row(source: SampleSource, stands_for: u32, address: u64, made: &Made, here: Here) -> RawSample {
    RawSample {
        time_ns: here.time_ns,
        cpu: here.cpu,
        tid: here.tid,
        ip: made.site.address(),
        address,
        access: if address == 0 { AccessKind::Unknown } else { made.access() } as u8,
        page_node: -1,
        source: source as u8,
        stands_for,
        epoch: NONE,
        served: 0,
        latency_cycles: 0,
    }
}

/// Which part of the instructions are accesses, and draws by it.
#[derive(Default)]
struct Parts {
    /// Since the last look at instructions.
    accesses: u64,
    state: u64,
}

impl Parts {
    /// The part of these instructions, which ran since the last look.
    fn of(&mut self, instructions: u64) -> f64 {
        if instructions == 0 {
            return 1.0;
        }
        (std::mem::take(&mut self.accesses) as f64 / instructions as f64).min(1.0)
    }

    /// From 0 up to 1; the generator of [`Sampler`].
    fn draw(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 32) as f64 / f64::from(u32::MAX)
    }
}
