//! A repair without a recompile, in words: the line that applies it, or why there is none.

use super::words::quoted;
use nearfar_analyze::{Report, Verdict};
use nearfar_report::placement::Placement;
use std::path::Path;

/// Why there is nothing to place.
pub(super) fn nothing(report: &Report) -> String {
    match (report.verdict, report.findings.first()) {
        (Verdict::Clean, _) => report.verdict_why.clone(),
        (_, Some(finding)) => format!("change the source instead: {}", finding.advice),
        (_, None) => report.verdict_why.clone(),
    }
}

/// The line that applies it.
pub(super) fn next(file: &Path, placement: &Placement, report: &Report) -> String {
    let bind = if placement.pinned { "--bind compact " } else { "" };
    let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
    format!("nearfar run {bind}--placement {} -- {}", quoted(file.as_os_str()), words.join(" "))
}
