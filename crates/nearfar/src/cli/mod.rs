//! The command line: one definition of all flags, from which parser, help, man
//! pages and completions come.

mod cache;
mod check;
mod cure;
mod diff;
mod doctor;
mod export;
mod exporter;
mod file;
mod fix;
mod fix_run;
mod html;
mod import;
mod layout;
mod layout_run;
mod list;
mod listing;
mod look;
mod machine;
mod measure;
mod parse;
mod ranks;
mod record;
mod report;
mod reproduce;
mod run;
mod show;
mod sources;
mod status;
mod top;
mod topo;
mod web;
mod where_is;
mod words;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use parse::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  nearfar record ./app --its-flags        run the program and record it
  nearfar record --on xeon-e5-2699v4-2s --cpus-per-node 4 ./app
                                          the same on an emulated machine: every access counted
  nearfar report                          where it touches far memory, who placed it, what to change
  nearfar report --as 4x16 --json         the same recording judged on a machine of 4 nodes
  nearfar list                            the recordings of this directory
  nearfar cure ./app                      all of it: find, repair without a recompile, prove
  nearfar fix                             what repairs it without a recompile, as a placement file
  nearfar diff before.nearfar after.nearfar
                                          what a change brought: time, objects, nodes
  nearfar check ./app                     is NUMA hurting it? several placements, timed in random order
  nearfar where 1234                      where a running process's threads and pages are
  nearfar top                             the machine while it works: nodes, cores, processes
  nearfar topo                            the machine: nodes, cpus, memory, caches, distances
  nearfar doctor                          what works here, and what unlocks the rest";

/// Which memory accesses are near, which are far, why, and what to change.
#[derive(Parser)]
#[command(name = "nearfar", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(RecordArgs),
    Report(ReportArgs),
    List(list::ListArgs),
    Diff(diff::DiffArgs),
    Export(export::ExportArgs),
    Fix(fix::FixArgs),
    Cure(cure::CureArgs),
    Run(RunArgs),
    Check(check::CheckArgs),
    Layout(layout::LayoutArgs),
    Where(where_is::WhereArgs),
    Topo(TopoArgs),
    Top(top::TopArgs),
    Exporter(exporter::ExporterArgs),
    Measure(MeasureArgs),
    Reproduce(reproduce::ReproduceArgs),
    Import(import::ImportArgs),
    /// Say which sources work here, why the others do not, and the command that unlocks each
    Doctor(DoctorArgs),
    Cache(cache::CacheArgs),
    /// Keep what the recorder inherited to us open
    #[command(name = crate::host::holder::COMMAND, hide = true)]
    Hold,
    /// Print a shell's completions: nearfar completions bash > /etc/bash_completion.d/nearfar
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a directory
    Man {
        /// Where to
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        #[command(flatten)]
        force: file::Force,
    },
}

/// Run a program and record where its memory is and where its time goes
///
/// The program's output, exit status and signals are its own. The recording is a
/// new directory; nothing is ever overwritten.
#[derive(Args)]
#[command(
    override_usage = "nearfar record [OPTIONS] [--] <COMMAND>...\n       nearfar record [OPTIONS] --pid <PID>[,<PID>...]\n       nearfar record [OPTIONS] --name <NAME>\n       nearfar record [OPTIONS] --all"
)]
struct RecordArgs {
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
    call_graph: crate::collect::session::CallGraph,
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
    #[command(flatten)]
    on: OnArgs,
    /// The recorder's side inside the virtual machine: what the one outside tells it
    #[arg(long, value_name = "FILE", hide = true)]
    inside_guest: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "name", "all"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Run a program on chosen cpus and memory, and say whether it is there
///
/// Cpus, memory policy and threads are set before the program's first page. While it runs, the kernel is
/// asked where its threads may run and on which nodes its pages are; the end says what was seen. Lists
/// are numactl's: 0-3,8, all, !2 (all but), +0-1 (counted within what is allowed here).
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
#[command(override_usage = "nearfar run [OPTIONS] [--] <COMMAND>...")]
struct RunArgs {
    /// Run on these cpus
    #[arg(short = 'C', long, value_name = "CPUS", allow_hyphen_values = true)]
    physcpubind: Option<String>,
    /// Run on the cpus of these nodes
    #[arg(
        short = 'N',
        visible_short_alias = 'c',
        long,
        visible_alias = "cpubind",
        value_name = "NODES",
        conflicts_with = "physcpubind"
    )]
    cpunodebind: Option<String>,
    /// Memory on these nodes only
    #[arg(short, long, value_name = "NODES", group = "policy")]
    membind: Option<String>,
    /// Pages in turns on these nodes
    #[arg(short, long, value_name = "NODES", group = "policy")]
    interleave: Option<String>,
    /// The same by the kernel's weights
    #[arg(short, long, value_name = "NODES", group = "policy")]
    weighted_interleave: Option<String>,
    /// Memory on this node while it has some
    #[arg(short, long, value_name = "NODE", group = "policy")]
    preferred: Option<String>,
    /// Memory on these nodes while they have some
    #[arg(short = 'P', long, value_name = "NODES", group = "policy")]
    preferred_many: Option<String>,
    /// Memory on the node of the thread that touches it first
    #[arg(short, long, group = "policy")]
    localalloc: bool,
    /// Threads that the program should make [default: as many as --bind lists]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    threads: Option<u32>,
    /// Pin each thread as it is created: compact, scatter, close, spread, 0,2,4-7 or S0:0-3@S1:0-3
    #[arg(long, value_name = "LAYOUT")]
    bind: Option<String>,
    /// Do not pin these threads, counted by creation from 1: helpers of a runtime (OpenMP runtimes know their own)
    #[arg(long, value_name = "THREADS", value_delimiter = ',', requires = "bind", value_parser = clap::value_parser!(u32).range(1..=65536))]
    skip: Vec<u32>,
    /// Place single objects as this file says (docs/placement-file.md)
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Run the program as this user; only root can
    #[arg(long, value_name = "NAME", conflicts_with = "placement")]
    user: Option<String>,
    /// Only say what would be set
    #[arg(long)]
    dry_run: bool,
    /// Say nothing but what is wrong
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "dry_run", value_name = "COMMAND")]
    command: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "Examples:
  nearfar run -N 0 -m 0 ./app                  one node, cpus and memory
  nearfar run -i all ./app                     pages in turns over all nodes
  nearfar run --threads 8 --bind spread ./app  eight threads, spread over all cores, each pinned
  nearfar run --bind S0:0-3@S1:0-3 ./app       the first four cores of two sockets, in this order
  nearfar run --placement fix.toml ./app       single objects where the file says, the rest as it is

compact divides the threads in blocks over the nodes, scatter in turns; close fills a node before it
takes the next, spread leaves equal gaps. OpenMP runtimes are told by their own variables, all other
threads are pinned as they are created.
";

/// The virtual machine of `record --on`.
#[derive(Args)]
#[command(next_help_heading = "On a machine you do not have")]
struct OnArgs {
    #[command(flatten)]
    machine: machine::MachineArgs,
    /// The firmware spreads memory over all nodes, page by page ("NUMA off")
    #[arg(long, requires = "on")]
    interleaved: bool,
    /// Leave OpenMP threads unbound [default: OMP_PROC_BIND=close, OMP_PLACES=cores unless you set them]
    #[arg(long, requires = "on")]
    unbound: bool,
    /// Huge pages in the guest
    #[arg(long, value_name = "WHEN", default_value = "madvise", value_parser = parse_huge_pages, requires = "on")]
    thp: crate::guest::HugePages,
    /// Let the guest's kernel migrate pages to the cpus that use them (AutoNUMA)
    #[arg(long, requires = "on")]
    numa_balancing: bool,
    /// Simulate without a hardware prefetcher
    #[arg(long, requires = "on")]
    no_prefetch: bool,
    /// DRAM lines per sample, for objects and source lines; the traffic itself is counted exactly
    #[arg(long, value_name = "LINES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "on")]
    lines_per_sample: u32,
    /// Accesses per sample, with which the run is sampled as a processor and a clock would, to compare with its counts
    #[arg(long, value_name = "ACCESSES", hide = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "on")]
    accesses_per_sample: Option<u32>,
    /// Keep what the program writes in the virtual machine: no file of this host changes but the recording
    #[arg(long, requires = "on")]
    read_only: bool,
    /// Stop the program after this time (90s, 5m, 1h) and report what is known by then
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "on")]
    budget: Option<std::time::Duration>,
}

impl OnArgs {
    /// The same as words, to be typed again.
    fn flags(&self) -> String {
        let mut words = self.machine.flags();
        let mut add = |on: bool, word: &str| {
            if on {
                words.push(word.to_owned())
            }
        };
        add(self.interleaved, "--interleaved");
        add(self.unbound, "--unbound");
        add(self.thp != crate::guest::HugePages::Madvise, &format!("--thp {}", self.thp.text()));
        add(self.numa_balancing, "--numa-balancing");
        add(self.no_prefetch, "--no-prefetch");
        add(self.read_only, "--read-only");
        words.join(" ")
    }
}

/// Say which objects are far, who placed their pages, where they are used, and what to change
///
/// On a machine with one node the recording is judged as if on a machine of two
/// such nodes; --as chooses another. Exit status: 0; with --fail-on 1 if the verdict is that, 3 if there is none;
/// 2 on errors (docs/exit-status.md).
#[derive(Args)]
struct ReportArgs {
    /// The recording, or a run of several ranks [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    recording: Option<PathBuf>,
    /// Of a run: the report of this rank alone
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Write JSON, which is everything (docs/report.schema.json)
    #[arg(long, conflicts_with = "page")]
    json: bool,
    #[command(flatten)]
    html: html::HtmlArgs,
    /// Write each picture of the report as an SVG file into this directory, for papers
    #[arg(long, value_name = "DIR", group = "page")]
    svg_dir: Option<PathBuf>,
    /// Show the page of --html at an address of this machine that only its token opens, until interrupted; of a
    /// recording that is still running, what is written until now, again and again
    #[arg(long, group = "page")]
    web: bool,
    /// Add the evidence, all notes and all tables
    #[arg(long, conflicts_with_all = ["json", "page"])]
    details: bool,
    /// Add the paths of calls that most samples were taken in
    #[arg(long, conflicts_with_all = ["json", "page"])]
    callers: bool,
    /// The program's parts instead: calls, exclusive and inclusive time of each phase (docs/phases.md); with =far, =near,
    /// =samples, =faults or =bytes the same of that
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "time")]
    #[arg(value_parser = ["time", "far", "near", "samples", "faults", "bytes"], conflicts_with_all = ["details", "callers", "page"])]
    phases: Option<String>,
    /// With --phases: each thread's own table, too
    #[arg(long, requires = "phases")]
    per_thread: bool,
    /// Judge by this machine: a shape such as 2x22 (nodes x cpus), a machine file, a name, or `here`
    #[arg(long = "as", value_name = "MACHINE")]
    machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    bind: nearfar_machine::binding::Bind,
    /// Report the whole run even if the program marks a region of interest (nearfar.h)
    #[arg(long)]
    whole: bool,
    /// Exit with 1 if the verdict is this (with `unknown`, if it is not clean); with `affected`, exit with 3 if there
    /// is not a verdict or the run ended early
    #[arg(long, value_name = "VERDICT", value_parser = ["affected", "unknown"])]
    fail_on: Option<String>,
    #[command(flatten)]
    look: look::Look,
}

/// Show the machine: packages, nodes, caches, memory, distances, devices, and what you may use of it
///
/// What is unknown is called unknown (null in JSON). `Mind` at the end says what is wrong or easily
/// misread: a cpuset with its memory elsewhere, distances that was never measured, GPU memory among the nodes.
/// Memory modules and hardware prefetchers are only root's to read.
#[derive(Args)]
#[command(after_help = TOPO_EXAMPLES)]
struct TopoArgs {
    /// Write JSON
    #[arg(long, conflicts_with_all = ["numactl", "svg", "capture"])]
    json: bool,
    /// Write what `numactl -H` would
    #[arg(long, conflicts_with_all = ["svg", "capture"])]
    numactl: bool,
    /// Draw a picture for a slide and write it to FILE, `-` for standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the files that all of this is read from to FILE, `-` for standard output: a tar archive, compressed by gzip,
    /// that `--from` reads on any machine; for a bug report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "machine", "from"])]
    capture: Option<PathBuf>,
    #[command(flatten)]
    force: file::Force,
    /// Read a captured machine: an archive of `--capture` or of hwloc-gather-topology, or a folder with copies of its
    /// sys/ and proc/
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["machine", "on"])]
    from: Option<PathBuf>,
    /// Show a described machine: a machine file, the name of one that comes with nearfar, or a shape such as 2x22
    #[arg(long = "as", alias = "machine", value_name = "MACHINE", conflicts_with = "on")]
    machine: Option<String>,
    #[command(flatten)]
    on: machine::MachineArgs,
    /// Inside the virtual machine: the cpus on which programs run there
    #[arg(long, value_name = "CPUS", hide = true)]
    on_cpus: Option<nearfar_machine::cpulist::CpuList>,
    #[command(flatten)]
    look: look::Look,
}

const TOPO_EXAMPLES: &str = "Examples:
  nearfar topo                              this machine, as a picture of text
  nearfar topo --svg machine.svg            the same for a slide
  nearfar topo --as epyc-9654-2s-nps4       a machine that you do not have
  nearfar topo --on 4x2                     one that is emulated, as its Linux kernel sees it
  nearfar topo --capture machine.tar.gz     what a bug report about it needs
  nearfar topo --from machine.tar.gz        that machine, read anywhere
  nearfar topo --json | jq '.nodes[] | {id, cpus, memory_kb}'

A captured machine has the files that nearfar reads and no others (`tar tzf` lists them); the firmware's
table of memory modules is left out, because it has serial numbers. hwloc-gather-topology writes more.
";

/// Measure the machine: latency and bandwidth of every node's memory, caches, cores, STREAM, scaling
///
/// Threads are pinned and pages are bound; a figure whose pages are elsewhere is not printed but explained.
/// On a busy machine the figures are of what the others leave, and the report notes it.
#[derive(Args)]
#[command(after_help = MEASURE_EXAMPLES)]
struct MeasureArgs {
    /// What to measure
    #[arg(value_name = "WHAT", default_value = "all", value_enum)]
    what: crate::measure::Part,
    /// Fewer and shorter repetitions, fewer kinds of bandwidth
    #[arg(long)]
    quick: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Bytes of each array of a bandwidth (64M) [default: four times the caches of the threads]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    array: Option<u64>,
    /// Also write this machine with its figures as a machine file, for --as and --on
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: file::Force,
    #[command(flatten)]
    look: look::Look,
}

const MEASURE_EXAMPLES: &str = "Examples:
  nearfar measure --quick                   the whole matrix in seconds
  nearfar measure -o machines/mine.toml     and kept, so that predictions use this machine's own figures
  nearfar report --as machines/mine.toml
";

#[derive(Args)]
struct DoctorArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Run known loads on every node instead, and compare each counter with what it must have seen; `top` and
    /// `exporter` then flag those that are off by more than 10 %. Takes seconds per pair of nodes
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    look: look::Look,
}

/// The command line as clap knows it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line and gives the exit status.
pub fn main() -> ExitCode {
    // A pipe that closes early (| head) ends us silently, as it does other tools.
    // SAFETY: sets a disposition before any other thread runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // What the program is, is the same everywhere: words.rs.
    let words = words::separated(std::env::args_os().collect(), &command());
    let result = match Cli::parse_from(words).command {
        Command::Record(args) => return record::run(args),
        Command::Run(args) => return run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Layout(args) => return layout::run(&args),
        Command::Where(args) => where_is::run(&args),
        Command::Report(args) => report::run(args),
        Command::List(args) => list::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Cure(args) => cure::run(&args),
        Command::Topo(args) => topo::run(&args),
        Command::Top(args) => top::run(args),
        Command::Exporter(args) => exporter::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Hold => crate::host::holder::wait(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut command(), "nearfar", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { directory, force } => write_man(&directory, force.force),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Prints an error and gives the status for it.
fn fail(error: &anyhow::Error) -> ExitCode {
    crate::say!("nearfar: {error:#}");
    ExitCode::from(status::ERROR)
}

/// The pages of all commands, or none if one of them exists.
fn write_man(directory: &std::path::Path, force: bool) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let fresh = directory.join(format!(".nearfar-man-{}", std::process::id()));
    std::fs::create_dir(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    let moved = moved_man(&fresh, directory, force);
    let _ = std::fs::remove_dir_all(&fresh);
    moved.map(|()| ExitCode::SUCCESS)
}

fn moved_man(fresh: &std::path::Path, directory: &std::path::Path, force: bool) -> anyhow::Result<()> {
    clap_mangen::generate_to(command(), fresh)?;
    let mut pages = Vec::new();
    for page in std::fs::read_dir(fresh)? {
        let page = page?;
        let file = directory.join(page.file_name());
        file::may_write(&file, force)?;
        pages.push((page.path(), file));
    }
    for (page, file) in pages {
        std::fs::rename(page, &file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// Whether the parser takes `value` for `arg`. What is missing beside it is another error, and comes later.
    fn takes(sub: &str, arg: &clap::Arg, value: &str) -> bool {
        let word = match arg.get_long() {
            Some(long) => format!("--{long}={value}"),
            None => value.to_owned(),
        };
        match command().try_get_matches_from(["nearfar", sub, &word]) {
            Ok(_) => true,
            Err(error) => {
                use clap::error::ErrorKind::{InvalidValue, UnknownArgument, ValueValidation};
                !matches!(error.kind(), InvalidValue | UnknownArgument | ValueValidation)
            }
        }
    }

    #[test]
    fn every_number_of_every_flag_has_limits() {
        let absurd = [
            "1e308",
            "-1e308",
            "inf",
            "-inf",
            "nan",
            "1e19",
            "1e18",
            "-1",
            "4294967296",
            "18446744073709551615",
            "18446744073709551616",
            "340282366920938463463374607431768211456",
        ];
        let mut numbers = Vec::new();
        for sub in command().get_subcommands() {
            for arg in
                sub.get_arguments().filter(|a| a.get_action().takes_values() && a.get_id() != "command")
            {
                let name = format!("{} {}", sub.get_name(), arg.get_id());
                let sane = ["1", "2", "64", "100"].iter().any(|value| takes(sub.get_name(), arg, value));
                if !sane || takes(sub.get_name(), arg, "words") {
                    continue;
                }
                // Sizes may have more than 32 bits.
                let size = takes(sub.get_name(), arg, "1G");
                for value in absurd.iter().filter(|v| !size || **v != "4294967296") {
                    assert!(!takes(sub.get_name(), arg, value), "{name} takes {value}");
                }
                numbers.push(name);
            }
        }
        for known in ["record look_interval", "record max_size", "where pid", "report width", "run skip"] {
            assert!(numbers.iter().any(|n| n == known), "{known} is not among {numbers:?}");
        }
        assert!(numbers.len() > 40, "{numbers:?}");
    }
}
