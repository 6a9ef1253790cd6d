//! Data of pictures: each is aggregated to a fixed number of bins.

mod bands;
mod calls;
mod groups;
mod instructions;
mod looked;
mod machine;
mod processes;
mod repaired;
mod strips;
mod timeline;
mod traffic;

pub use strips::{along, key};

use super::context::Context;
use super::counters::Counters;
use super::input::Judge;
use super::object_rows::RowUse;
use super::value::{Basis, Counted, Finding, FunctionRow, Pictures, RepairPart, Strip, Timed, WhatIf};

/// What the rest of the report says already.
pub struct Told<'a> {
    /// Its findings.
    pub findings: &'a [Finding],
    /// Its functions.
    pub functions: &'a [FunctionRow],
    /// Its predictions.
    pub what_if: Option<&'a WhatIf>,
    /// Its matrix of node and node.
    pub matrix: &'a [Vec<f64>],
    /// What was counted, and the time that it takes.
    pub counted: Option<(&'a Counted, &'a Timed)>,
}

/// Gathers them.
pub fn pictures(
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    rows: &[RowUse],
    told: &Told,
) -> Pictures {
    let Told { findings, functions, what_if, matrix, counted } = *told;
    let best: &[RepairPart] = what_if.and_then(|w| w.best.as_ref()).map_or(&[], |b| &b.parts);
    let repairs: Vec<&RepairPart> = best.iter().chain(findings.iter().flat_map(|f| &f.repairs)).collect();
    let used = strips::used(context, counters, rows, &repairs);
    // Where lines were counted, flows are of lines; the rows whose pages are not their own are of samples.
    let whole = match (context.measure.basis, context.exact) {
        (Basis::DramLines, Some(exact)) => exact.total.all(),
        _ => counters.total.weight as f64,
    };
    let repaired = match matrix.len() {
        0 | 1 => Err("the machine has one node: memory can be nowhere else".to_owned()),
        _ => repaired::matrix(context, &used, matrix, whole),
    };
    let clock = bands::Clock::new(context, counters);
    let pages = looked::over_time(context, &used, &clock);
    let strip = |(u, over_time)| Strip { over_time, ..strips::strip(context, u) };
    let strips = used.iter().zip(pages).map(strip).collect();
    Pictures {
        machine: machine::picture(&judge.machine),
        traffic: traffic::traffic(&context.finder.nodes.ids, matrix, counted),
        repaired_why: repaired.as_ref().err().cloned(),
        repaired: repaired.ok(),
        strips,
        timeline: timeline::timeline(context, counters, rows, functions),
        phases: bands::bands(context, &clock),
        instructions: instructions::instructions(context, counters),
        code_by_node: groups::by_node(context, counters, functions),
        code_by_thread: groups::by_thread(context, counters, functions),
        code_by_phase: groups::by_phase(context, counters, functions),
        callees: calls::tree(context, counters, true),
        callers: calls::tree(context, counters, false),
        processes: processes::processes(context, counters),
    }
}
