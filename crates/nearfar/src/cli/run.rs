//! `nearfar run`.

use super::look::Look;
use super::show;
use crate::place::{Placement, Ran, RunError, Seen, run as run_placed};
use anyhow::Context;
use clap::Args;
use nearfar_figures::json::pretty;
use nearfar_host::discover;
use nearfar_host::policy::Policy;
use nearfar_host::target::User;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::select::{cpus, cpus_of_nodes, nodes, thread_cpus};
use nearfar_record::collect::objects::{ObjectPolicies, on_one_node};
use nearfar_record::collect::openmp;
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a program on chosen cpus and memory, and say whether it is there
///
/// Cpus, memory policy and threads are set before the program's first page. While it runs, the kernel is
/// asked where its threads may run and on which nodes its pages are; the end says what was seen. Lists
/// are numactl's: 0-3,8, all, !2 (all but), +0-1 (counted within what is allowed here).
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
#[command(override_usage = "nearfar run [OPTIONS] [--] <COMMAND>...")]
pub(super) struct RunArgs {
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
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Write JSON instead, at the program's end: what was asked, and what was seen. On standard error, since standard
    /// output is the program's; with --dry-run on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: Look,
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

/// Runs and then ends as the program ended.
pub fn run(args: &RunArgs) -> ExitCode {
    let prepared = prepare(args);
    let (machine, placement) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return super::status::fail(&error),
    };
    let say = |line: &str| {
        if !args.quiet && !args.json {
            args.look.say(line);
        }
    };
    say(&placement.words());
    let warnings = placement.warnings(&machine);
    if !args.json {
        warnings.iter().for_each(|warning| args.look.say(&format!("mind: {warning}")));
    }
    if args.dry_run {
        return match args.json.then(|| written(&placement, &warnings, None).map(|json| show::page(&json))) {
            Some(Err(error)) => super::status::fail(&error.into()),
            Some(Ok(Err(error))) => super::status::fail(&error.into()),
            _ => ExitCode::SUCCESS,
        };
    }
    super::record::outlive_readers();
    let user = match args.user.as_deref().map(User::asked_for).transpose() {
        Ok(user) => user,
        Err(error) => return super::status::fail(&error),
    };
    if user.is_none() && !args.quiet && !args.json {
        super::record::warn_of_root();
    }
    match run_placed(&args.command, &placement, &machine, user.as_ref()) {
        Ok(ran) => {
            ran.lines.iter().for_each(|line| say(line));
            if args.json
                && let Ok(json) = written(&placement, &warnings, Some(&ran))
            {
                nearfar_host::out::page_to_stderr(&json);
            }
            ran.ending.pass_on()
        }
        Err(RunError::Start(error)) => {
            nearfar_host::say!("nearfar: {error}");
            ExitCode::from(error.exit_status())
        }
        Err(error) => super::status::fail(&error.into()),
    }
}

/// What was asked for and what became of it, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    /// Cpus of the process; null: as they were.
    cpus: Option<&'a CpuList>,
    /// Policy of its memory, in words; null: as it was.
    memory: Option<String>,
    /// Threads that it should make; null: its own matter.
    threads: Option<usize>,
    /// The cpu of each thread in the order of their creation; empty: not pinned.
    pinned_to: &'a [u32],
    /// Single objects and their places, in words.
    objects: Vec<String>,
    /// What is probably not meant.
    warnings: &'a [String],
    /// `exit 0`; null in a dry run.
    ending: Option<String>,
    /// The look that saw most threads; null if there was none.
    seen: Option<&'a Seen>,
    /// What was seen beside what was asked, in words.
    remarks: &'a [String],
}

fn written(placement: &Placement, warnings: &[String], ran: Option<&Ran>) -> serde_json::Result<String> {
    let written = Written {
        cpus: placement.cpus.as_ref(),
        memory: placement.policy.as_ref().map(Policy::words),
        threads: placement.count,
        pinned_to: &placement.threads,
        objects: placement.objects.as_ref().map(ObjectPolicies::lines).unwrap_or_default(),
        warnings,
        ending: ran.map(|ran| ran.ending.text()),
        seen: ran.and_then(|ran| ran.seen.as_ref()),
        remarks: ran.map_or(&[], |ran| &ran.lines),
    };
    Ok(pretty(&written))
}

fn prepare(args: &RunArgs) -> anyhow::Result<(Machine, Placement)> {
    let root = Path::new("/");
    let machine = discover::discover(root)?.machine;
    let topology = discover::topology(root)?;
    let allowed = topology.allowed;
    let (may_run, may_have) = (allowed.cpus.as_ref(), allowed.nodes.as_ref());
    let with_memory: NodeList =
        machine.nodes.iter().filter(|n| n.memory_bytes != Some(0)).map(|n| n.id).collect();
    let node_list = |text: &str, option: &str| {
        let list = nodes(text, &machine, may_have).with_context(|| option.to_owned())?;
        let without: NodeList = list.iter().filter(|&n| !with_memory.contains(n)).collect();
        anyhow::ensure!(without.is_empty(), "{option}: node {without} has no memory");
        Ok(list)
    };
    let mut cpu_list = None;
    if let Some(text) = &args.physcpubind {
        cpu_list = Some(cpus(text, &machine, may_run).context("--physcpubind")?);
    }
    if let Some(text) = &args.cpunodebind {
        cpu_list = Some(cpus_of_nodes(text, &machine, may_run).context("--cpunodebind")?);
    }
    let policy = match args {
        RunArgs { membind: Some(text), .. } => Some(Policy::Bind(node_list(text, "--membind")?)),
        RunArgs { interleave: Some(text), .. } => Some(Policy::Interleave(node_list(text, "--interleave")?)),
        RunArgs { weighted_interleave: Some(text), .. } => {
            Some(Policy::WeightedInterleave(node_list(text, "--weighted-interleave")?))
        }
        RunArgs { preferred: Some(text), .. } => {
            let list = node_list(text, "--preferred")?;
            let [node] = list.as_slice() else {
                anyhow::bail!("--preferred takes one node, {list} are more; --preferred-many takes several");
            };
            Some(Policy::Preferred(*node))
        }
        RunArgs { preferred_many: Some(text), .. } => {
            Some(Policy::PreferredMany(node_list(text, "--preferred-many")?))
        }
        RunArgs { localalloc: true, .. } => Some(Policy::Local),
        _ => None,
    };
    let count = args.threads.map(|n| n as usize);
    let within = cpu_list.as_ref().or(may_run);
    let threads = match &args.bind {
        Some(text) => {
            let packages = topology.packages.unwrap_or_default().into_iter().map(|p| (p.id, p.cpus));
            let packages: Vec<(u32, CpuList)> = packages.collect();
            thread_cpus(text, count, &machine, &packages, within).context("--bind")?
        }
        None => Vec::new(),
    };
    let count = count.or((!threads.is_empty()).then_some(threads.len()));
    let objects = match &args.placement {
        Some(file) => {
            let objects = ObjectPolicies::read(file, &args.command, &machine, may_have)?;
            let pinned = !threads.is_empty()
                || openmp::pins(|name| std::env::var(name).ok())
                || on_one_node(&machine, within);
            objects.require_pinned(pinned, "with --bind compact, or OMP_PROC_BIND=close OMP_PLACES=cores")?;
            Some(objects)
        }
        None => None,
    };
    let mut skip = args.skip.clone();
    skip.sort_unstable();
    skip.dedup();
    anyhow::ensure!(skip.len() <= 64, "--skip takes at most 64 threads");
    let placement = Placement { cpus: cpu_list, policy, count, threads, skip, objects };
    anyhow::ensure!(
        placement != Placement::default(),
        "nothing is asked for: where is it to run? For example: nearfar run --cpunodebind 0 --membind 0 -- ./app"
    );
    Ok((machine, placement))
}
