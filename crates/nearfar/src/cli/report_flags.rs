//! The flags of `nearfar report`.

use super::{html, look};
use clap::Args;
use std::path::PathBuf;

/// Say which objects are far, who placed their pages, where they are used, and what to change
///
/// On a machine with one node the recording is judged as if on a machine of two
/// such nodes; --as chooses another. Exit status: 0; with --fail-on 1 if the verdict is that, 3 if there is none;
/// 2 on errors (docs/exit-status.md).
#[derive(Args)]
pub(super) struct ReportArgs {
    /// The recording, or a run of several ranks [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    pub(super) recording: Option<PathBuf>,
    /// Of a run: the report of this rank alone
    #[arg(long, value_name = "N")]
    pub(super) rank: Option<u32>,
    /// Write JSON, which is everything (docs/report.schema.json)
    #[arg(long, conflicts_with = "page")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: html::HtmlArgs,
    /// Write each picture of the report as an SVG file into this directory, for papers
    #[arg(long, value_name = "DIR", group = "page")]
    pub(super) svg_dir: Option<PathBuf>,
    /// Show the page of --html at an address of this machine that only its token opens, until interrupted; of a
    /// recording that is still running, what is written until now, again and again
    #[arg(long, group = "page")]
    pub(super) web: bool,
    /// Add the evidence, all notes and all tables
    #[arg(long, conflicts_with_all = ["json", "page"])]
    pub(super) details: bool,
    /// Add the paths of calls that most samples were taken in
    #[arg(long, conflicts_with_all = ["json", "page"])]
    pub(super) callers: bool,
    /// The program's parts instead: calls, exclusive and inclusive time of each phase (docs/phases.md); with =far, =near,
    /// =samples, =faults or =bytes the same of that
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "time")]
    #[arg(value_parser = ["time", "far", "near", "samples", "faults", "bytes"], conflicts_with_all = ["details", "callers", "page"])]
    pub(super) phases: Option<String>,
    /// With --phases: each thread's own table, too
    #[arg(long, requires = "phases")]
    pub(super) per_thread: bool,
    /// Judge by this machine: a shape such as 2x22 (nodes x cpus), a machine file, a name, or `here`
    #[arg(long = "as", value_name = "MACHINE")]
    pub(super) machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    pub(super) bind: nearfar_machine::binding::Bind,
    /// Report the whole run even if the program marks a region of interest (nearfar.h)
    #[arg(long)]
    pub(super) whole: bool,
    /// Exit with 1 if the verdict is this (with `unknown`, if it is not clean); with `affected`, exit with 3 if there
    /// is not a verdict or the run ended early
    #[arg(long, value_name = "VERDICT", value_parser = ["affected", "unknown"])]
    pub(super) fail_on: Option<String>,
    #[command(flatten)]
    pub(super) look: look::Look,
}
