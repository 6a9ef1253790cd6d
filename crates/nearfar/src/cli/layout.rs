//! `nearfar layout`.

use super::layout_plan::{RANKFILE, plan};
use super::layout_run;
use crate::layout::launcher::choose;
use crate::layout::table::{Verdict, judge};
use crate::layout::{Meeting, execute, rank};
use anyhow::{Context, Result, ensure};
use clap::Args;
use nearfar_host::discover;
use nearfar_host::target::{Ending, find_program};
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::launch::launch;
use nearfar_machine::layout::{Ask, lay_out};
use nearfar_machine::select::cpus;
use nearfar_record::ranks::read::is_run;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    ranks: Option<u32>,
    /// Threads of each rank [default: the cores of a NUMA node divided by its ranks]
    #[arg(short, long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=65536))]
    threads: Option<u32>,
    /// Hosts (a batch system's nodes, not NUMA nodes), all alike
    #[arg(long, visible_alias = "hosts", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// What starts the ranks; Open MPI 4 and 5 are recognised by their version [default: the first that is here]
    #[arg(long, value_name = "LAUNCHER", value_parser = ["mpirun", "srun", "mpiexec"])]
    launcher: Option<String>,
    /// Each host is this machine: a machine file, the name of one that comes with nearfar, or a shape such as 2x22
    /// [default: as this one]
    #[arg(long = "as", alias = "machine", value_name = "MACHINE")]
    machine: Option<String>,
    /// Use only these cpus of each host
    #[arg(short = 'C', long, value_name = "CPUS", allow_hyphen_values = true)]
    cpus: Option<String>,
    /// A thread for each hardware thread, not for each core
    #[arg(long)]
    hwthreads: bool,
    /// Let ranks share cores if there are too few
    #[arg(long)]
    oversubscribe: bool,
    /// Only print the layout and the line
    #[arg(long)]
    dry_run: bool,
    /// One rank of it: where it leaves what was seen
    #[arg(long, value_name = "DIR", hide = true)]
    as_rank: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "dry_run", value_name = "COMMAND")]
    command: Vec<OsString>,
}

const LAYOUT_EXAMPLES: &str = "Examples:
  nearfar layout ./app                          one rank per NUMA node, a thread per core, here
  nearfar layout run/                           of a recorded run: which rank was bound wrongly, and the line
  nearfar layout -n 8 -t 12 --dry-run           what eight ranks of twelve threads would get, and the line
  nearfar layout -n 16 --nodes 2 --launcher srun --as epyc-9654-2s-nps4 --dry-run ./app
                                                the line for two hosts that you do not have
";

/// Says the layout, runs it and says what became of it.
pub fn run(args: &LayoutArgs) -> ExitCode {
    if let Some(meeting) = &args.as_rank {
        return match rank::run(&args.command, meeting) {
            Ok(ending) => ending.pass_on(),
            Err(error) => {
                nearfar_host::say!("nearfar: {error}");
                ExitCode::from(error.exit_status())
            }
        };
    }
    let recorded = match &args.command[..] {
        [one] if is_run(Path::new(one)) => Some(Path::new(one)),
        _ => None,
    };
    let done = match recorded {
        Some(path) => layout_run::run(path, args.machine.as_deref(), args.launcher.as_deref(), args.threads),
        None => go(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => super::status::fail(&error),
    }
}

fn go(args: &LayoutArgs) -> Result<ExitCode> {
    let (machine, allowed) = machine(args)?;
    let ask = Ask {
        ranks: args.ranks.map(|n| n as usize),
        threads: args.threads.map(|n| n as usize),
        hosts: args.nodes as usize,
        hwthreads: args.hwthreads,
        oversubscribe: args.oversubscribe,
    };
    let layout = lay_out(&machine, allowed.as_ref(), &ask)?;
    let chosen = choose(args.launcher.as_deref(), args.dry_run)?;
    let line = launch(&layout, chosen.launcher, &chosen.program, RANKFILE);
    let plan = plan(&layout, &machine, &chosen, &line, &args.command);
    if args.dry_run {
        nearfar_host::out::page(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = find_program(&args.command[0]) {
        nearfar_host::say!("nearfar: {error}");
        return Ok(ExitCode::from(error.exit_status()));
    }
    if args.machine.is_some() && layout.hosts == 1 && chosen.program != "srun" {
        let here = nearfar_record::ranks::launch::own_cpus();
        let out: CpuList =
            layout.ranks.iter().flat_map(|r| r.cpus.iter()).filter(|&c| !here.contains(c)).collect();
        ensure!(
            out.is_empty(),
            "the layout is for {} and takes cpus {out}, which may not be used here (there are {here}); add --dry-run \
             to see its line, or start it on that machine",
            machine.name
        );
    }
    nearfar_host::out::page_to_stderr(&plan);
    let meeting = Meeting::new(layout.hosts).context("ranks cannot leave what they see")?;
    let file = meeting.rankfile();
    let line = launch(&layout, chosen.launcher, &chosen.program, &file.to_string_lossy());
    if let Some(text) = &line.rankfile {
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let (ending, seen) = match execute(&line.words, &args.command, &meeting.path) {
        Ok(ran) => ran,
        Err(error) => {
            nearfar_host::say!("nearfar: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    drop(meeting);
    if seen.is_empty() && ending != Ending::Exit(0) {
        nearfar_host::say!(
            "nearfar: {} started no rank ({}); its own words are above",
            chosen.program,
            ending.text()
        );
        ending.pass_on();
    }
    let Verdict { table, errors } = judge(&layout, &machine, chosen.launcher, &seen);
    nearfar_host::out::page_to_stderr(&format!("\n{table}"));
    errors.iter().for_each(|error| nearfar_host::say!("nearfar: {error}"));
    if errors.is_empty() {
        let shared = if layout.shared { "; they share cores, as --oversubscribe allows" } else { "" };
        nearfar_host::say!("nearfar: every rank is where it was asked to be{shared}");
    }
    if ending != Ending::Exit(0) {
        ending.pass_on();
    }
    Ok(ExitCode::from(u8::from(!errors.is_empty())))
}

/// The machine of each host, and which of its cpus may be used, if not all.
fn machine(args: &LayoutArgs) -> Result<(Machine, Option<CpuList>)> {
    let (machine, mut allowed) = match &args.machine {
        Some(name) => (discover::machine_from_argument(name)?, None),
        None => {
            let root = Path::new("/");
            (discover::discover(root)?.machine, discover::topology(root)?.allowed.cpus)
        }
    };
    if let Some(text) = &args.cpus {
        allowed = Some(cpus(text, &machine, allowed.as_ref()).context("--cpus")?);
    }
    Ok((machine, allowed))
}
