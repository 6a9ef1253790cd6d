//! `nearfar record`.

use super::on::{OnArgs, on_options};
use super::parse::*;
use anyhow::Context;
use clap::Args;
use nearfar_host::discover;
use nearfar_host::discover::pmu::MemoryWish;
use nearfar_host::target::{User, run_instead};
use nearfar_record::collect::attach;
use nearfar_record::collect::objects::{ObjectPolicies, on_one_node};
use nearfar_record::collect::on::{Windows, record_on};
use nearfar_record::collect::openmp;
use nearfar_record::collect::session::{Options, Outcome, RecordError, Subject};
use nearfar_record::collect::within_limits::record_within_limits;
use nearfar_record::ranks;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a program and record where its memory is and where its time goes
///
/// The program's output, exit status and signals are its own. The recording is a
/// new directory; nothing is ever overwritten.
#[derive(Args)]
#[command(
    override_usage = "nearfar record [OPTIONS] [--] <COMMAND>...\n       nearfar record [OPTIONS] --pid <PID>[,<PID>...]\n       nearfar record [OPTIONS] --name <NAME>\n       nearfar record [OPTIONS] --all"
)]
pub(super) struct RecordArgs {
    /// Name of the recording [default: APP-NNN.nearfar, the next free number]
    #[arg(short, long, value_name = "REC")]
    output: Option<PathBuf>,
    /// Samples per second of CPU time and thread
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 997.0, value_parser = parse_hz)]
    frequency: f64,
    /// Record allocations from this size on one by one (64K, 1M); smaller ones are sampled and grouped by site
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = parse_bytes)]
    min_object: u64,
    /// Machine that `report` judges by unless told otherwise: 2x22, or a machine file
    #[arg(long = "as", value_name = "MACHINE", conflicts_with = "on")]
    machine: Option<String>,
    /// Record running processes until they end or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["command", "on"], value_parser = parse_pid())]
    pid: Vec<u32>,
    /// The same with all processes of this name (as `ps -o comm` has it)
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["command", "on"])]
    name: Vec<String>,
    /// Record every process of the machine until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["command", "on", "pid", "name"])]
    all: bool,
    /// With --pid, --name or --all: end the recording after this time (10s, 5m)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["command", "on"])]
    duration: Option<std::time::Duration>,
    /// Call chains with samples: by frame pointers, by .eh_frame from a copy of the stack, or none
    #[arg(long, value_name = "HOW", default_value = "fp")]
    call_graph: nearfar_record::collect::session::CallGraph,
    /// Seconds between queries of the nodes of pages
    #[arg(long, alias = "homes-interval", value_name = "S", default_value_t = 1.0, value_parser = parse_seconds)]
    look_interval: f64,
    /// Run the program as this user; only root can. The recording is that user's, too
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "name", "all", "on", "placement"])]
    user: Option<String>,
    /// Place single objects as this file says (docs/placement-file.md); with --on, nodes are that machine's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "name", "all", "no_agent"])]
    placement: Option<PathBuf>,
    /// Stop recording, not the program, when the recording has reached this size (500M, 2G)
    #[arg(long, value_name = "BYTES", default_value = "8G", value_parser = parse_bytes)]
    max_size: u64,
    /// Copy the running program so often at most, and count what the copies access once it has ended: 320 million instructions
    /// each (x86-64, hosts of one node). It settles what the speed of loops leaves open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with_all = ["pid", "name", "all", "on", "no_perf"])]
    excerpts: Option<u8>,
    /// Do not preload the agent: objects are then known from mappings and symbols only
    #[arg(long, conflicts_with = "on")]
    no_agent: bool,
    /// Do not use perf events, as where they are forbidden: samples come from the agent's timers
    #[arg(long, conflicts_with = "on")]
    no_perf: bool,
    /// Do not sample memory accesses with the processor's own unit (Intel PEBS, AMD IBS), where it has one
    #[arg(long, conflicts_with = "on")]
    no_hardware: bool,
    /// Of these, only loads of at least so many cycles; 0: all that the processor samples (AMD: 128 to 2048)
    #[arg(long, value_name = "CYCLES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65535), conflicts_with_all = ["on", "no_hardware"])]
    least_latency: u32,
    /// Of these, only what missed the last-level cache, where the processor can (AMD since Zen 4)
    #[arg(long, conflicts_with_all = ["on", "no_hardware"])]
    misses_only: bool,
    /// Under mpirun or srun: record this rank by itself, not as a part of its launch's run
    #[arg(long)]
    alone: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// With --on: count accesses in 1 ms of each N ms of simulated time only [default N: 10], in about half of the time. Lines, shares and
    /// seconds have ranges then. For programs that run for more than a tenth of a second by themselves
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        requires = "on",
        conflicts_with = "accesses_per_sample"
    )]
    sample_windows: Option<u32>,
    #[command(flatten)]
    on: OnArgs,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "name", "all"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Records and then ends as the program ended.
pub fn run(args: RecordArgs) -> ExitCode {
    let quiet = args.quiet;
    ended(recorded(args), quiet)
}

/// Ends as the program ended.
fn ended(recorded: Result<Outcome, RecordError>, quiet: bool) -> ExitCode {
    match recorded {
        Ok(outcome) => {
            if outcome.rank.is_some()
                && let Err(error) = super::ranks::leave_summary(&outcome.directory)
            {
                say(&format!("nearfar: no summary of {}: {error:#}", outcome.directory.display()));
            }
            if !quiet {
                outcome.summary.iter().for_each(|line| say(line));
            }
            match outcome.ending {
                Some(ending) => ending.pass_on(),
                None => ExitCode::SUCCESS,
            }
        }
        Err(RecordError::Start(error)) => {
            nearfar_host::say!("nearfar: {error}");
            ExitCode::from(error.exit_status())
        }
        Err(error) => super::status::fail(&error.into()),
    }
}

/// To stderr. Whether anybody reads it does not change how we end.
pub(super) fn say(line: &str) {
    outlive_readers();
    nearfar_host::say!("{line}");
}

/// From here on a pipe without a reader is an error, not our death.
pub(super) fn outlive_readers() {
    // SAFETY: sets a disposition that has no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// `sudo nearfar record` is meant to give its rights to the recorder, and seldom to the program.
pub(super) fn warn_of_root() {
    if let Some(user) = User::behind_sudo() {
        say(&format!(
            "nearfar: the program runs as root, as sudo made nearfar so; --user {0} runs it as {0}",
            user.name
        ));
    }
}

/// Whether running processes are recorded.
fn attaches(args: &RecordArgs) -> bool {
    args.all || !args.pid.is_empty() || !args.name.is_empty()
}

fn recorded(args: RecordArgs) -> Result<Outcome, RecordError> {
    let wished = |name: &String| {
        discover::machine_with_figures(name)
            .with_context(|| format!("--as {name}"))
            .map(|m| (name.clone(), m))
    };
    let wish = args.machine.as_ref().map(wished).transpose()?;
    let attached = attaches(&args);
    let mut options = Options {
        output: args.output,
        // A process that is attached to, and the emulated machine, are not the launcher's.
        rank: match args.alone || attached || args.on.machine.on.is_some() {
            true => None,
            false => ranks::launch::this_process(),
        },
        hz: args.frequency,
        min_object: args.min_object,
        wish,
        call_graph: args.call_graph,
        agent: !args.no_agent,
        no_perf: args.no_perf,
        memory: (!args.no_hardware)
            .then_some(MemoryWish { least_cycles: args.least_latency, misses_only: args.misses_only }),
        look_interval: args.look_interval,
        max_size: args.max_size,
        duration: args.duration,
        progress: !args.quiet && std::io::stderr().is_terminal(),
        user: args.user.as_deref().map(User::asked_for).transpose()?,
        objects: None,
        excerpts: args.excerpts.map(usize::from),
        inside_guest: None,
    };
    // The ranks of a launch would write over each other.
    options.progress &= options.rank.is_none();
    if let Some(name) = args.on.machine.on.as_deref() {
        let mut on = on_options(name, &args.on, args.quiet)?;
        on.windows = args.sample_windows.map(|period_ms| Windows::new(period_ms, &on.machine)).transpose()?;
        if let Some(file) = &args.placement {
            options.objects = Some(ObjectPolicies::read(file, &args.command, &on.machine, None)?);
        }
        return record_on(&args.command, &options, &on);
    }
    if let Some(file) = &args.placement {
        options.objects = Some(objects_here(file, &args.command)?);
    }
    if !args.quiet && options.user.is_none() && !attached {
        warn_of_root();
    }
    let subject = match attached {
        true if args.all => Subject::Everything,
        true => Subject::Processes(attach::chosen(&args.pid, &args.name)?),
        false => Subject::Command(args.command),
    };
    let kept_off = match record_within_limits(&subject, &options)? {
        Ok(outcome) => return Ok(outcome),
        Err(why) => why,
    };
    match &subject {
        Subject::Command(command) if options.user.is_none() && options.objects.is_none() => {
            say(&format!("nearfar: nothing is recorded, as {kept_off}. The program runs without nearfar"));
            Err(run_instead(command).into())
        }
        _ => Err(anyhow::anyhow!("nothing can be recorded, as {kept_off}").into()),
    }
}

/// A placement file for a run on this machine, with threads as the caller's settings have them.
pub(super) fn objects_here(file: &Path, command: &[OsString]) -> anyhow::Result<ObjectPolicies> {
    let machine = discover::discover(Path::new("/"))?.machine;
    let allowed = discover::topology(Path::new("/"))?.allowed;
    let objects = ObjectPolicies::read(file, command, &machine, allowed.nodes.as_ref())?;
    let pinned =
        openmp::pins(|name| std::env::var(name).ok()) || on_one_node(&machine, allowed.cpus.as_ref());
    objects.require_pinned(pinned, "with OMP_PROC_BIND=close OMP_PLACES=cores")?;
    Ok(objects)
}
