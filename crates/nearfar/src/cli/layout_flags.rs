//! The flags of `nearfar layout`.

use super::look::Look;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Lay out the ranks and threads of a hybrid MPI program, start it, and say whether each rank is there
///
/// Each rank gets cores of its own within one NUMA node as long as its threads fit there. The launcher's line
/// is printed and run; each rank is looked at while it runs, and one table at the end says where it was and
/// where its memory was. In place of a program, a recorded run of ranks: which of them was bound wrongly, and the
/// line that repairs it. Exit status: the launcher's if not 0, 1 if a rank is elsewhere or was not seen, 2 if
/// nothing was started, else 0.
#[derive(Args)]
#[command(after_help = LAYOUT_EXAMPLES, override_usage = "nearfar layout [OPTIONS] [--] <COMMAND>...")]
pub(super) struct LayoutArgs {
    /// MPI ranks on all hosts together [default: one per NUMA node that has cpus]
    #[arg(short = 'n', long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) ranks: Option<u32>,
    /// Threads of each rank [default: the cores of a NUMA node divided by its ranks]
    #[arg(short, long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) threads: Option<u32>,
    /// Hosts (a batch system's nodes, not NUMA nodes), all alike
    #[arg(long, visible_alias = "hosts", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) nodes: u32,
    /// What starts the ranks; Open MPI 4 and 5 are recognised by their version [default: the first that is here]
    #[arg(long, value_name = "LAUNCHER", value_parser = ["mpirun", "srun", "mpiexec"])]
    pub(super) launcher: Option<String>,
    /// Each host is this machine: a machine file, the name of one that comes with nearfar, or a shape such as 2x22
    /// [default: as this one]
    #[arg(long = "as", alias = "machine", value_name = "MACHINE")]
    pub(super) machine: Option<String>,
    /// Use only these cpus of each host
    #[arg(short = 'C', long, value_name = "CPUS", allow_hyphen_values = true)]
    pub(super) cpus: Option<String>,
    /// A thread for each hardware thread, not for each core
    #[arg(long)]
    pub(super) hwthreads: bool,
    /// Let ranks share cores if there are too few
    #[arg(long)]
    pub(super) oversubscribe: bool,
    /// Only print the layout and the line
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Write JSON instead: the layout, its line and, of a launch, what each rank was seen to have. On standard output; of a
    /// launch at its end, on standard error, since standard output is the program's
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) look: Look,
    /// One rank of it: where it leaves what was seen
    #[arg(long, value_name = "DIR", hide = true)]
    pub(super) as_rank: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "dry_run", value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

const LAYOUT_EXAMPLES: &str = "Examples:
  nearfar layout ./app                          one rank per NUMA node, a thread per core, here
  nearfar layout run/                           of a recorded run: which rank was bound wrongly, and the line
  nearfar layout -n 8 -t 12 --dry-run           what eight ranks of twelve threads would get, and the line
  nearfar layout -n 16 --nodes 2 --launcher srun --as epyc-9654-2s-nps4 --dry-run ./app
                                                the line for two hosts that you do not have
";
