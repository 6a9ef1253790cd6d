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
/// With --to, the best policy of the whole process instead, in the form of another tool, on standard output.
/// Exit status: 0, also where there is nothing to place and no file is written; 2 on errors; with --to 1 if only a
/// placement of single objects gains, 3 if nothing is predicted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FixArgs {
    /// The recording, or a run of several ranks [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    pub(super) recording: Option<PathBuf>,
    /// Write a policy of the whole process instead, as this tool keeps it (docs/what-if.md)
    #[arg(long, value_name = "TOOL")]
    pub(super) to: Option<To>,
    /// Name of the file, `-` for standard output [default: the recording's name with .placement, with --to standard
    /// output]; where ranks need several, of the directory [default: the run's name with .placements]
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

/// Who keeps a policy of a whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum To {
    /// A line of numactl
    Numactl,
    /// linux.memoryPolicy and the cpuset in an OCI runtime's config.json
    Oci,
    /// A pod, and the kubelet's configuration that it needs
    K8s,
    /// A batch script
    Slurm,
    /// A drop-in of a service
    Systemd,
}

const EXAMPLES: &str = "Examples:
  nearfar record --on xeon-e5-2699v4-2s --cpus-per-node 4 -o app.nearfar ./app
  nearfar fix app.nearfar                              app.placement
  nearfar run --bind compact --placement app.placement ./app
  nearfar fix --to numactl app.nearfar                 the best policy of the whole process, as a command line
  nearfar fix --to systemd -o numa.conf app.nearfar    the same as a service's drop-in";
