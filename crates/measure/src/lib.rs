//! What this machine's cores and memory do. Threads are pinned, and a figure whose pages are not
//! where they should be is not printed but explained.

mod bandwidth;
pub mod bench;
mod caveats;
mod core;
mod flops;
mod gpu;
pub mod kernels;
pub mod latency;
mod loaded;
mod memcpy;
pub mod memory;
mod pages;
mod region;
mod scaling;
mod stream;

use bench::Bench;
use nearfar_host::discover::{self, cpu_times};
use nearfar_machine::Machine;
use nearfar_observed::measured::{Cached, Measured, SCHEMA_VERSION, predict};
use std::path::Path;
use std::time::Instant;

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Idle latency of every node's memory from every node's cpus
    Latency,
    /// Bandwidth of the same, with ordinary and non-temporal stores
    Bandwidth,
    /// Latency while the other cpus load the memory
    Loaded,
    /// One core: clock, caches, lines in flight; and each node's arithmetic, for the roofline
    Core,
    /// STREAM by its rules, with its table
    Stream,
    /// Triad by number of threads, compact and scattered, local, interleaved and on one node
    Scaling,
    /// The C library's memcpy, every cpu in memory that every other touched first
    Memcpy,
    /// Copies between pinned memory and GPUs, where libcuda is found
    Gpu,
    /// All of these
    All,
}

/// What is wanted, and how.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Which measurements.
    pub part: Part,
    /// Fewer and shorter repetitions, and of the bandwidth kernels those that a machine file needs.
    pub quick: bool,
    /// Bytes of each array of a bandwidth; `None`: four times the caches of the threads.
    pub array_bytes: Option<u64>,
}

type Measure = fn(&mut Bench, &mut Measured);

/// In the order of a report. Core and node figures come before those that are predicted from them.
const PARTS: [(Part, Measure); 10] = [
    (Part::Latency, latency::run),
    (Part::Latency, pages::run),
    (Part::Bandwidth, bandwidth::run),
    (Part::Loaded, loaded::run),
    (Part::Core, core::run),
    (Part::Core, flops::run),
    (Part::Stream, stream::run),
    (Part::Scaling, scaling::run),
    (Part::Memcpy, memcpy::run),
    (Part::Gpu, gpu::run),
];

/// Most bytes of memory that the measurement will have at a time, which decides how long it takes.
///
/// # Errors
/// If the machine's topology cannot be read.
pub fn most_bytes(wanted: &Wanted) -> anyhow::Result<u64> {
    let root = Path::new("/");
    let (machine, topology) = (discover::discover(root)?.machine, discover::topology(root)?);
    let &Wanted { part, quick, array_bytes } = wanted;
    let (all, cached) = (part == Part::All, Cached::default());
    let told = &mut |_: &str| {};
    Ok(Bench { machine, topology, quick, all, array_bytes, cached, part: (0, 1), told }.most())
}

/// Measures. `say` gets a line for each step.
///
/// # Errors
/// If the machine's topology cannot be read.
pub fn measure(wanted: &Wanted, say: &mut dyn FnMut(&str)) -> anyhow::Result<(Machine, Measured)> {
    let begin = Instant::now();
    let root = Path::new("/");
    let machine = discover::discover(root)?.machine;
    let topology = discover::topology(root)?;
    let (load, ticks) = (caveats::load(), cpu_times(root));
    let mut measured = Measured {
        schema: SCHEMA_VERSION,
        name: machine.name.clone(),
        day: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        quick: wanted.quick,
        nodes: machine.nodes.iter().map(|n| n.id).collect(),
        ..Measured::default()
    };
    let all = wanted.part == Part::All;
    let parts: Vec<Measure> = PARTS.iter().filter(|p| all || p.0 == wanted.part).map(|p| p.1).collect();
    let mut bench = Bench {
        machine: machine.clone(),
        topology,
        quick: wanted.quick,
        all,
        array_bytes: wanted.array_bytes,
        cached: Cached::default(),
        part: (0, parts.len()),
        told: say,
    };
    for part in parts {
        bench.part.0 += 1;
        part(&mut bench, &mut measured);
    }
    measured.cached = bench.cached;
    predict(&machine, &mut measured);
    measured.seconds = begin.elapsed().as_secs_f64();
    measured.steal_share =
        ticks.zip(cpu_times(root)).and_then(|(before, now)| now.steal_share_since(&before));
    let caveats = caveats::of(&bench.topology, &measured, load);
    measured.caveats.extend(caveats);
    Ok((machine, measured))
}

/// Puts beside each placement what this run's other figures make of it.
fn predict(machine: &Machine, measured: &mut Measured) {
    let known = measured.into_machine(machine.clone());
    for row in &mut measured.scaling {
        match predict::triad(&known, &row.cpus, row.placement) {
            Ok(predicted) => row.predicted = Some(predicted),
            Err(why) => {
                let how = "`nearfar measure all` measures that too";
                measured.no_prediction = Some(format!("{why} ({how})"));
                return;
            }
        }
    }
}
