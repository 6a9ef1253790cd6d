//! `nearfar fix`.

use super::file::{self, Force};
use super::layout::quoted;
use super::machine::EMULATED;
use super::report::judged;
use crate::discover;
use crate::ranks;
use crate::ranks::read::is_run;
use anyhow::Result;
use nearfar_analyze::{Report, Verdict};
use nearfar_machine::binding::Bind;
use nearfar_report::placement::{Placement, to_placement};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write what would repair the recorded program, without changing it, as a placement file
///
/// Each object that costs time by where it lies gets the place that is predicted to gain most; what no file can
/// say (copies, other schedules) is listed with the reason. The file is text and can be edited.
/// A run of several ranks gets a file for each kind of rank (docs/ranks.md).
/// Exit status: 0, also where there is nothing to place and no file is written; 2 on errors.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FixArgs {
    /// The recording, or a run of several ranks [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    pub(super) recording: Option<PathBuf>,
    /// Name of the file, `-` for standard output [default: the recording's name with .placement]; where ranks need
    /// several, of the directory [default: the run's name with .placements]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: Force,
    /// Judge by this machine: a shape such as 2x22 (nodes x cpus), a machine file, a name, or `here`
    #[arg(long = "as", value_name = "MACHINE")]
    pub(super) machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    pub(super) bind: Bind,
}

const EXAMPLES: &str = "Examples:
  nearfar record --on xeon-e5-2699v4-2s --cpus-per-node 4 -o app.nearfar ./app
  nearfar fix app.nearfar                              app.placement
  nearfar run --bind compact --placement app.placement ./app";

/// Writes the file, and says what is in it and what is not.
pub(super) fn run(args: &FixArgs) -> Result<ExitCode> {
    let path = match &args.recording {
        Some(path) => path.clone(),
        None => ranks::newest(Path::new("."))?,
    };
    if is_run(&path) {
        return super::fix_run::run(&path, args);
    }
    let report = judged(&path, args.machine.as_deref(), args.bind, false)?;
    let (placement, left) = to_placement(&report);
    for line in &left {
        crate::say!("nearfar: not in the file: {line}");
    }
    let Some(placement) = placement else {
        crate::say!("nearfar: nothing to place: {}", nothing(&report));
        return Ok(ExitCode::SUCCESS);
    };
    let text = placement.file.to_toml();
    let file = args.output.clone().unwrap_or_else(|| path.with_extension("placement"));
    file::write(&file, &text, args.force.force)?;
    if file == Path::new("-") {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<&str> = placement.file.objects.iter().map(|o| o.label()).collect();
    crate::say!("nearfar: {}: places {}; gain {}", file.display(), names.join(", "), placement.predicted);
    let nodes = discover::discover(Path::new("/")).map_or(0, |here| here.machine.nodes.len());
    for line in next_steps(&file, &placement, &report, nodes) {
        crate::say!("nearfar: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Why there is nothing to place.
pub(super) fn nothing(report: &Report) -> String {
    match (report.verdict, report.findings.first()) {
        (Verdict::Clean, _) => report.verdict_why.clone(),
        (_, Some(finding)) => format!("change the source instead: {}", finding.advice),
        (_, None) => report.verdict_why.clone(),
    }
}

/// What to type, on a machine of so many nodes.
fn next_steps(file: &Path, placement: &Placement, report: &Report, nodes: usize) -> Vec<String> {
    let here = next(file, placement, report);
    if nodes != 1 {
        return vec![format!("next: {here}")];
    }
    let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
    let file = quoted(file.as_os_str());
    vec![
        format!("this machine has one node, where nothing can be placed. On one that has several: {here}"),
        format!(
            "on the emulated machine that was recorded, or another: nearfar record {EMULATED} --placement {file} -- {}",
            words.join(" ")
        ),
    ]
}

/// The line that applies it.
pub(super) fn next(file: &Path, placement: &Placement, report: &Report) -> String {
    let bind = if placement.pinned { "--bind compact " } else { "" };
    let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
    format!("nearfar run {bind}--placement {} -- {}", quoted(file.as_os_str()), words.join(" "))
}
