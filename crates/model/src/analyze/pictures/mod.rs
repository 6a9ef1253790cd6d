//! Data of pictures: each is aggregated to a fixed number of bins.

mod calls;
mod machine;
mod moments;
mod processes;
mod repaired;
mod strips;

pub use strips::{along, key};

use super::attribute::Context;
use super::facts::RowFacts;
use super::input::Judge;
use super::tally::Tally;
use super::value::{Basis, Finding, Pictures, RepairPart, WhatIf};

/// Gathers them. `matrix` is the report's, of node and node.
pub fn pictures(
    judge: &Judge,
    context: &Context,
    tally: &Tally,
    rows: &[RowFacts],
    findings: &[Finding],
    what_if: Option<&WhatIf>,
    matrix: &[Vec<f64>],
) -> Pictures {
    let best: &[RepairPart] = what_if.and_then(|w| w.best.as_ref()).map_or(&[], |b| &b.parts);
    let repairs: Vec<&RepairPart> = best.iter().chain(findings.iter().flat_map(|f| &f.repairs)).collect();
    let used = strips::used(context, tally, rows, &repairs);
    // Where lines were counted, flows are of lines; the rows whose pages are not their own are of samples.
    let whole = match (context.measure.basis, context.exact) {
        (Basis::DramLines, Some(exact)) => exact.total.all(),
        _ => tally.total.weight as f64,
    };
    let repaired = match matrix.len() {
        0 | 1 => Err("the machine has one node: memory can be nowhere else".to_owned()),
        _ => repaired::matrix(context, &used, matrix, whole),
    };
    Pictures {
        machine: machine::picture(&judge.machine),
        repaired_why: repaired.as_ref().err().cloned(),
        repaired: repaired.ok(),
        strips: used.iter().map(|u| strips::strip(context, u)).collect(),
        moments: moments::moments(context, tally),
        phases: moments::bands(context, context.threads),
        callees: calls::tree(context, tally, true),
        callers: calls::tree(context, tally, false),
        processes: processes::processes(context, tally),
    }
}
