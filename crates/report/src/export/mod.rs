//! A report in the formats of other tools. Pure: from values to named files.

pub mod caliper;
pub mod csv;
pub mod firefox;
pub mod flamegraph;
pub mod junit;
pub mod parquet;
pub mod perf;
pub mod perf_script;
pub mod perfetto;
pub mod pprof;
mod protobuf;
mod rows;
pub mod samples;
pub mod sarif;
pub mod tau;

use crate::whatif;
use nearfar_analyze::{Basis, Finding, Report};
use nearfar_figures::percent::percent;

/// What a finding's repair gains, or what is at risk where that is not predicted.
fn gain(report: &Report, f: &Finding) -> String {
    let of = match report.basis {
        _ if f.shares_lines() => "the cores' time",
        Basis::StallTime => "the time",
        Basis::DramLines | Basis::MemoryLoads => report.basis.words(),
    };
    match &f.predicted {
        Some(p) if f.shares_lines() => format!("Predicted: {}", p.of_cores()),
        Some(predicted) => format!("Predicted: {}", whatif::gain(predicted)),
        None => format!("At risk: at most {} of {of}", percent(f.at_risk)),
    }
}

/// A file of an export: where it is in the directory that was asked for, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFile {
    /// Path below the directory, parts separated by `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
