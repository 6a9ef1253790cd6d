//! `nearfar check`.

use super::file::{self, Force};
use super::look::Look;
use super::on::OnArgs;
use super::on::on_options;
use super::record::objects_here;
use super::{show, status};
use crate::place::trials::metric::Measure;
use crate::place::trials::native::{self, Rounds};
use crate::place::trials::{Plan, Setting, emulated, plan, whole_nodes};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValue;
use nearfar_compare::trials::{Hurts, Judged, Metric, Trials, against, judge};
use nearfar_figures::json::pretty;
use nearfar_guest::{Relay, Setup};
use nearfar_host::discover;
use nearfar_host::input;
use nearfar_host::target::{find_program, interrupted_by};
use nearfar_machine::Machine;
use nearfar_record::collect::objects::ObjectPolicies;
use nearfar_record::collect::on::{BINDING, require_pinned};
use nearfar_report::export::junit;
use nearfar_report::trials::{changes_to_text, to_text};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// Find out by experiment whether NUMA hurts a program
///
/// Runs the command as it is and under several placements, in rounds of random order after a run to warm
/// up, and compares within rounds. Its outputs are kept aside (the end of a failed run's is shown), its
/// input is empty. With --on, the machine is emulated and the model gives the time.
/// Exit status: 0; with --fail-on 1 if the verdict is that, 3 if there is none; 2 on errors; 130 after Ctrl-C, 143 after
/// SIGTERM (what is known is printed).
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES, override_usage = "nearfar check [OPTIONS] [--] <COMMAND>...")]
pub(super) struct CheckArgs {
    /// Rounds: runs of each placement [default: 12, or 2 with --on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Compare a number of the program's output instead of wall time: the first group of the last match
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["time", "on"])]
    metric: Option<String>,
    /// As --metric was once called, too
    #[arg(short = 'm', value_name = "REGEX", hide = true, value_parser = retired_m)]
    retired_m: Option<String>,
    /// Compare wall time (as without --metric)
    #[arg(short, long, conflicts_with = "on")]
    time: bool,
    /// Of the metric less is better [default: if its unit is one of time]
    #[arg(long, requires = "metric")]
    less_is_better: bool,
    /// Of the metric more is better [default: unless its unit is one of time]
    #[arg(long, requires = "metric", conflicts_with = "less_is_better")]
    more_is_better: bool,
    /// Only these placements beside `as is`, by the names of the report: "node 0,interleave"
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Option<Vec<String>>,
    /// Also try single objects where this file says (docs/placement-file.md); with --on, nodes are that machine's
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Also run a copy on each node at the same time; they must not disturb each other's files
    #[arg(long, conflicts_with = "on")]
    copies: bool,
    /// Write JSON, with every run's value
    #[arg(long)]
    json: bool,
    /// Also write the JSON to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the verdict and the placements as a JUnit test suite to FILE, for CI servers
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Say also what has changed since an earlier --output
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Keep the recordings of --on in this new directory
    #[arg(long, value_name = "DIR", requires = "on")]
    keep: Option<PathBuf>,
    /// Exit with 1 if the verdict is this (with `unknown`, if it is not harmless); with `harmful`, exit with 3 if
    /// the report has no verdict
    #[arg(long, value_name = "VERDICT", value_parser = [PossibleValue::new("harmful").alias("affected"), "unknown".into()])]
    fail_on: Option<String>,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    look: Look,
    #[command(flatten)]
    on: OnArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const CHECK_EXAMPLES: &str = "Examples:
  nearfar check ./app                                             wall time, 12 rounds
  nearfar check --metric 'throughput: ([0-9.]+)' --runs 20 ./app  a number that the program prints
  nearfar check -o before.json ./app                              keep it; later: --against before.json
  nearfar check --on xeon-e5-2699v4-2s --cpus-per-node 4 ./app    on a machine you do not have
";

/// What `--json` and `--output` write.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Version of nearfar.
    nearfar: String,
    #[serde(flatten)]
    judged: Judged,
    /// Every run.
    trials: Trials,
}

/// Rounds unless told: enough for nine placements, and to see what emulated runs differ by.
const NATIVE: u32 = 12;
const EMULATED: u32 = 2;

/// Runs the command under several placements and says what came of it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let measure = measure(args)?;
    let earlier = args.against.as_deref().map(read).transpose()?;
    for file in [&args.output, &args.junit].into_iter().flatten() {
        file::may_write(file, args.force.force)?;
    }
    if let Err(error) = find_program(&args.command[0]) {
        nearfar_host::say!("nearfar: {error}");
        return Ok(ExitCode::from(error.exit_status()));
    }
    let terminal = std::io::stderr().is_terminal();
    let mut progress = |line: &str| {
        match (args.quiet, terminal) {
            (true, _) => {}
            // One line that is written over.
            (false, true) => nearfar_host::out::progress(&format!("nearfar: {line}")),
            (false, false) => nearfar_host::say!("nearfar: {line}"),
        }
    };
    let ran = match &args.on.machine.on {
        Some(name) => emulate(name, args, &mut progress),
        None => here(args, measure, &mut progress),
    };
    if terminal && !args.quiet {
        nearfar_host::out::progress("");
    }
    let (trials, judged, asked) = ran?;
    let written = Written { nearfar: env!("CARGO_PKG_VERSION").to_owned(), judged, trials };
    if let Some(file) = &args.output {
        file::write(file, pretty(&written), args.force.force)?;
    }
    if let Some(file) = &args.junit {
        file::write(file, junit::trials(&written.trials, &written.judged), args.force.force)?;
    }
    let shown = if args.json {
        show::page(&pretty(&written))
    } else {
        let (width, color) = args.look.resolve();
        let mut text = to_text(&written.trials, &written.judged, width, color);
        if let Some(earlier) = earlier {
            let changes = against(&written.trials, &earlier.trials)
                .map_err(|why| anyhow!("--against compares the same metric only: {why}"))?;
            text += &changes_to_text(&changes, &written.trials, width, color);
        }
        show::page(&text)
    };
    if let Some(signal) = asked {
        // After SIGHUP the terminal is gone, so a failed print is no error.
        return Ok(ExitCode::from(status::ended_by(signal)));
    }
    shown?;
    let verdict = written.judged.verdict;
    let gate = status::gate(args.fail_on.as_deref(), verdict == Hurts::Harmful, verdict == Hurts::Unknown);
    Ok(gate.into())
}

fn retired_m(_: &str) -> Result<String, String> {
    Err("-m is --membind, of `run`: this option is called --metric".to_owned())
}

fn measure(args: &CheckArgs) -> Result<Measure> {
    let Some(text) = &args.metric else { return Ok(Measure::Time) };
    let expression =
        Regex::new(text).map_err(|error| anyhow!("--metric is not a regular expression: {error}"))?;
    if expression.captures_len() < 2 {
        bail!(
            "--metric `{text}` has no group, so it is not known which number to compare: put the number in parentheses, \
             as in 'throughput: ([0-9.]+)'"
        );
    }
    let less_is_better = match (args.less_is_better, args.more_is_better) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Ok(Measure::Output { expression, less_is_better })
}

fn read(file: &Path) -> Result<Written> {
    let text =
        input::read(file, input::MOST_MADE).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} was not written by nearfar check --output", file.display()))
}

/// What ran, what came of it, and the signal that asked us to end before all had run.
type Ran = (Trials, Judged, Option<i32>);

fn here(args: &CheckArgs, measure: Measure, progress: &mut dyn FnMut(&str)) -> Result<Ran> {
    let root = Path::new("/");
    let machine = discover::discover(root)?.machine;
    let setting = setting(&machine, args)?;
    let nodes = whole_nodes(&machine, &setting);
    if let [] | [_] = nodes[..] {
        // A name that is wrong everywhere is wrong here, too.
        chosen(plan(&machine, &setting), args.only.as_deref())?;
        let (trials, judged) = one_node(args, &machine, measure.metric(""));
        return Ok((trials, judged, None));
    }
    let plan = chosen(plan(&machine, &setting), args.only.as_deref())?;
    let seed = UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64);
    let rounds = Rounds { count: args.runs.unwrap_or(NATIVE) as usize, measure, seed };
    let trials = native::run(&args.command, &machine.name, &plan, &rounds, progress)?;
    let judged = judge(&trials);
    let asked = interrupted_by().filter(|_| trials.interrupted);
    Ok((trials, judged, asked))
}

/// Where there is nothing to choose between, nothing is run.
fn one_node(args: &CheckArgs, machine: &Machine, metric: Metric) -> (Trials, Judged) {
    let trials = Trials {
        command: args.command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        machine: machine.name.clone(),
        on: None,
        metric,
        rounds: 0,
        warm_up: None,
        seed: 0,
        interrupted: false,
        trials: Vec::new(),
        not_tried: Vec::new(),
    };
    let nodes = match machine.nodes.len() {
        1 => "this machine has one memory node".to_owned(),
        n => format!("of the {n} memory nodes here only one may be used together with its cpus"),
    };
    let why = format!(
        "{nodes}: every placement is the same, so nothing was run. --on emulates a machine with several"
    );
    (trials, Judged { verdict: Hurts::Unknown, why, placements: Vec::new() })
}

fn setting(machine: &Machine, args: &CheckArgs) -> Result<Setting> {
    let topology = discover::topology(Path::new("/"))?;
    let all_cpus = || machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
    let all_nodes = || machine.nodes.iter().map(|n| n.id).collect();
    Ok(Setting {
        cpus: topology.allowed.cpus.unwrap_or_else(all_cpus),
        nodes: topology.allowed.nodes.unwrap_or_else(all_nodes),
        packages: topology.packages.unwrap_or_default().into_iter().map(|p| (p.id, p.cpus)).collect(),
        threads: threads(),
        bound: BINDING.into_iter().find(|name| std::env::var_os(name).is_some()),
        balancing: topology.settings.numa_balancing.map(|mode| mode != 0),
        huge_pages: topology.settings.thp,
        copies: args.copies,
        objects: match &args.placement {
            Some(file) => Some((file.clone(), objects_here(file, &args.command)?)),
            None => None,
        },
    })
}

/// OMP_NUM_THREADS; of a list, as nested parallelism has it, the first.
fn threads() -> Option<usize> {
    std::env::var("OMP_NUM_THREADS").ok()?.split(',').next()?.trim().parse().ok()
}

/// The placements that were asked for, and `as is`.
fn chosen(plan: Plan, only: Option<&[String]>) -> Result<Plan> {
    let Some(only) = only else { return Ok(plan) };
    let names: Vec<String> = plan.candidates.iter().map(|c| c.name.clone()).collect();
    if let Some(wrong) = only.iter().find(|o| !names.contains(o)) {
        bail!("--only: `{wrong}` is not a placement here; the placements are {}", names.join(", "));
    }
    let mut plan = plan;
    plan.candidates.retain(|c| c.name == names[0] || only.contains(&c.name));
    if plan.candidates.len() < 2 {
        bail!("--only leaves nothing to compare with `{}`", names[0]);
    }
    Ok(plan)
}

fn emulate(name: &str, args: &CheckArgs, progress: &mut dyn FnMut(&str)) -> Result<Ran> {
    let on = on_options(name, &args.on, true)?;
    let setting = Setting {
        cpus: on.machine.nodes.iter().flat_map(|n| n.cpus.iter().collect::<Vec<_>>()).collect(),
        nodes: on.machine.nodes.iter().map(|n| n.id).collect(),
        threads: threads(),
        objects: match &args.placement {
            Some(file) => {
                let objects = ObjectPolicies::read(file, &args.command, &on.machine, None)?;
                require_pinned(&objects, &on)?;
                Some((file.clone(), objects))
            }
            None => None,
        },
        ..Setting::default()
    };
    let plan = chosen(plan(&on.machine, &setting), args.only.as_deref())?;
    // A kernel is fetched now, where there is none, while a signal ends us at once and leaves nothing behind.
    Setup::find(&mut |step| progress(&step.to_string())).map_err(anyhow::Error::from)?;
    let relay = Relay::install().context("cannot catch signals")?;
    let temporary = std::env::temp_dir().join(format!("nearfar-check-{}", std::process::id()));
    let directory = args.keep.as_deref().unwrap_or(&temporary);
    std::fs::create_dir(directory)
        .with_context(|| format!("cannot make {} for the recordings", directory.display()))?;
    let count = args.runs.unwrap_or(EMULATED) as usize;
    let rounds = emulated::Rounds { count, directory, relay: &relay };
    let ran = emulated::run(&args.command, &plan, &on, &args.on.flags(), &rounds, progress);
    if args.keep.is_none() {
        let _ = std::fs::remove_dir_all(&temporary);
    }
    let (trials, asked) = ran?;
    let judged = judge(&trials);
    Ok((trials, judged, asked))
}
