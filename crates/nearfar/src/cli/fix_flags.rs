//! The flags of `nearfar fix`.

use super::file::Force;
use super::look::Look;
use nearfar_machine::binding::Bind;
use std::path::PathBuf;

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
    /// Write JSON instead of messages: the files, what they place, what no file can say, what to type next
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) look: Look,
}

const EXAMPLES: &str = "Examples:
  nearfar record --on xeon-e5-2699v4-2s --cpus-per-node 4 -o app.nearfar ./app
  nearfar fix app.nearfar                              app.placement
  nearfar run --bind compact --placement app.placement ./app";
