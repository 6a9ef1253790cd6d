//! From a recording and a machine to objects, first touches, patterns and findings.
//!
//! The way of a number: `space` says which object an address was, `placement`
//! which fault placed its page, `page_nodes` and `nodes` on which node that is;
//! `attribute` counts every sample with these answers into `counters`;
//! `object_rows` gathers how each object is placed and used, `whatif` asks the time model what
//! its memory elsewhere would give and `estimate` does so without counts, `cases` and `sharing` know the causes,
//! `findings` ranks them, `verdict` decides and `assemble` writes the `Report`.
//! `stats` gives every share its interval.
#![forbid(unsafe_code)]

pub mod input;
pub mod stats;
pub mod value;

mod advice;
mod along;
mod assemble;
mod attribute;
mod blame;
mod blocks;
mod bounds;
mod by_row;
mod cache_room;
mod cached;
mod cases;
mod code;
mod computed;
mod context;
mod core_figures;
mod counters;
mod counts;
mod elsewhere;
mod ended;
mod estimate;
mod exact;
mod excerpted;
mod findings;
mod gain;
mod hardware;
mod hash;
mod held;
mod helpers;
mod history;
mod instances;
mod layer;
mod looks;
mod measure;
mod memory_time;
mod names;
mod native;
mod nodes;
mod notes;
mod object_rows;
mod over_time;
mod page_nodes;
mod page_table;
mod pages;
mod pattern;
mod phases;
mod pictures;
mod pieces;
mod placement;
mod program;
mod reach;
mod readings;
mod region;
mod replay;
mod roofline;
mod rows;
mod shares;
mod sharing;
mod sites;
mod slices;
mod space;
mod spans;
mod spent;
mod spots;
mod thresholds;
mod timing;
mod touchers;
mod traffic;
mod unnamed;
mod velocity;
mod verdict;
mod waits;
mod whatif;
mod windowed;
mod written;

pub use input::{Input, Judge, SampleReader};
pub use replay::Found;
pub use thresholds::{MOST_UNKNOWN, THRESHOLD, WORTH};
pub use timing::{assumed_figures, weak_figures};
pub use value::*;

pub use names::base;
pub use rows::CALLED_FROM;

use hash::IdIndex;
use thiserror::Error;

/// Why a recording could not be analysed.
#[derive(Debug, Error)]
pub enum AnalyzeError {
    /// The samples could not be read.
    #[error("cannot read the samples: {0}")]
    Samples(String),
    /// No machine can have so many nodes or none.
    #[error("the machine `{0}` has {1} nodes; between 1 and {max} can be judged by", max = nodes::MAX_NODES)]
    Nodes(String, usize),
    /// Threads cannot be mapped to a machine without cpus.
    #[error("the machine `{0}` has no cpus: no thread can be mapped to it")]
    NoCpus(String),
}

/// Analyses a recording on as many threads as the host has to offer, at most 8.
pub fn analyze(input: &Input, samples: &dyn SampleReader, judge: &Judge) -> Result<Report, AnalyzeError> {
    analyze_with(input, samples, judge, workers())
}

fn workers() -> usize {
    // Memory bandwidth, not arithmetic, limits the pass beyond a few threads; each costs its own counts.
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(1, 8))
}

/// Analyses a recording on a given number of threads. The report does not depend on it,
/// except for the number of migrations, which is a lower bound.
pub fn analyze_with(
    input: &Input,
    samples: &dyn SampleReader,
    judge: &Judge,
    workers: usize,
) -> Result<Report, AnalyzeError> {
    take_apart(&mut input.clone(), samples, judge, workers)
}

/// Analyses a recording that is not needed afterwards: of ten million objects, each column is let go as
/// soon as nothing asks for it any more.
///
/// # Errors
/// See [`AnalyzeError`].
pub fn analyze_owned(
    mut input: Input,
    samples: &dyn SampleReader,
    judge: &Judge,
) -> Result<Report, AnalyzeError> {
    take_apart(&mut input, samples, judge, workers())
}

fn take_apart(
    input: &mut Input,
    samples: &dyn SampleReader,
    judge: &Judge,
    workers: usize,
) -> Result<Report, AnalyzeError> {
    prepared(input, samples, judge, |context, counts| {
        let by_time = context.measure.by_time();
        let mut context = context;
        let mut counters = attribute::attribute(&context, samples, workers).map_err(AnalyzeError::Samples)?;
        counters.beside.filtered = context.input.meta.hardware_filtered;
        // Where the processor sampled next to nothing, the clock decides.
        if let Some(time) = by_time.as_ref().filter(|_| counters.beside.samples()[0] < stats::LEAST_SAMPLES) {
            context.measure = time;
            counters = attribute::attribute(&context, samples, workers).map_err(AnalyzeError::Samples)?;
        }
        let row_uses = object_rows::gather(context.input, &context, &counters, &judge.machine);
        let waits = waits::findings(&context, &counters, &row_uses);
        Ok(assemble::assemble(context.input, judge, &context, &counters, &row_uses, counts, waits))
    })
}

/// Gives each sample that counts, with what was found out about it; and the names of the objects.
///
/// # Errors
/// See [`AnalyzeError`].
pub fn replay(
    input: &Input,
    samples: &dyn SampleReader,
    judge: &Judge,
    mut each: impl FnMut(&nearfar_recording::AccessSamples, usize, &Found),
) -> Result<(Basis, Vec<String>), AnalyzeError> {
    prepared(&mut input.clone(), samples, judge, |context, _| {
        replay::replay(&context, samples, &mut each).map_err(AnalyzeError::Samples)?;
        Ok((context.measure.basis, context.rows.rows.iter().map(|row| row.name.clone()).collect()))
    })
}

/// Prepares what samples are looked up in, and has it used.
fn prepared<T>(
    input: &mut Input,
    samples: &dyn SampleReader,
    judge: &Judge,
    used: impl FnOnce(context::Context<'_>, &counts::Counts) -> Result<T, AnalyzeError>,
) -> Result<T, AnalyzeError> {
    let machine = &judge.machine;
    if machine.nodes.is_empty() || machine.nodes.len() > nodes::MAX_NODES {
        return Err(AnalyzeError::Nodes(machine.name.clone(), machine.nodes.len()));
    }
    if judge.assume.is_some() && machine.cpu_nodes().next().is_none() {
        return Err(AnalyzeError::NoCpus(machine.name.clone()));
    }
    let survey = samples.survey().map_err(AnalyzeError::Samples)?;
    let threads = IdIndex::new(&input.threads.id);
    let phases = phases::Phases::new(input, &threads);
    let things = space::Things::new(input);
    let mut sites = sites::Sites::new(input);
    let mut rows = rows::Rows::new(input, &things, &sites);
    // What tells objects apart is in their rows now; there may be ten million.
    input.objects.name = Vec::new();
    input.objects.chain = Vec::new();
    input.objects.represents = Vec::new();
    let input = &*input;
    let spaces = space::Spaces::new(input, things, &rows.of_thing);
    let nodes = nodes::Nodes::new(input, judge, &survey, &threads);
    let placements = placement::Placements::new(input, &spaces, &threads);
    rows.split(&spaces.things, &placements);
    let looks = looks::Looks::new(input, &spaces, &nodes);
    let finder = page_nodes::Finder {
        spaces: &spaces,
        placements: &placements,
        looks: &looks,
        nodes: &nodes,
        fault_cpus: &input.faults.cpu,
        fault_addresses: &input.faults.address,
        fault_shifts: &input.faults.page_shift,
    };
    let folios = pages::Folios::new(spaces.things.len());
    let groups = touchers::Groups::new(input, &finder, &mut sites);
    let blocks = blocks::Blocks::new(&finder, &groups);
    let spaces_of_threads: Vec<u32> = input.threads.process.iter().map(|&p| spaces.position(p)).collect();
    let region = region::Region::new(input, judge.whole, &spaces, &threads, &survey);
    let measure = measure::Measure::new(input, judge);
    let exact = exact::Exact::new(input, judge, measure.basis, &spaces, &rows, &nodes, &region);
    let traffic = traffic::Traffic::new(input, judge, &nodes, &region);
    let timing = match &traffic {
        Ok(_) => timing::Timing::new(input, judge),
        Err(why) => Err(why.clone()),
    };
    let known = timing.as_ref().ok();
    let windowed = traffic.as_ref().ok().and_then(|_| windowed::Windowed::new(input, judge, &nodes));
    let windows = windowed.as_ref().map(|windowed| windowed.errors(known));
    let timing = match &windows {
        Some(windows) => timing.and_then(|timing| timing.in_windows(windows)),
        None => timing,
    };
    let counts = counts::Counts { traffic, timing, windows };
    let native = native::Native::new(input, judge);
    let excerpted = excerpted::Excerpted::new(input);
    let elsewhere = elsewhere::rows(input, &finder, &rows);
    let context = context::Context {
        input,
        finder,
        elsewhere: &elsewhere,
        rows: &rows,
        sites: &sites,
        groups: &groups,
        blocks: &blocks,
        folios: &folios,
        threads: &threads,
        spaces_of_threads: &spaces_of_threads,
        survey: &survey,
        region: &region,
        measure: &measure,
        native: &native,
        excerpted: &excerpted,
        exact: exact.as_ref(),
        timing: counts.timing.as_ref().ok(),
        windowed: windowed.as_ref(),
        phases: phases.as_ref(),
    };
    used(context, &counts)
}
