//! `nearfar reproduce`: published results, run and counted anew.

use super::look::{Look, wrapped};
use anyhow::{Context, Result, bail};
use clap::Args;
use nearfar_compare::reproduce::{
    CALCULATED, CASES, Case, Reproduction, Run, Seen, Sights, judge, needs, runs,
};
use nearfar_figures::shell;
use nearfar_guest::memory_file::in_memory;
use nearfar_guest::{Progress, Relay, Setup};
use nearfar_host::discover::machine_from_argument;
use nearfar_host::target::Ending;
use nearfar_machine::Machine;
use nearfar_machine::scale::{ScaleOptions, scale};
use nearfar_record::store;
use nearfar_report::reproduce::{mutated_to_text, to_json, to_text};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Run published NUMA results on the machines they were measured on, emulated, and compare
///
/// Seventeen results of five public documents: each workload runs on the described machine, made smaller as is said,
/// every access is counted, and the time model gives the time. What was published stands beside what came out.
/// docs/reproduce.md has the cases and their traps.
/// Exit status: 0 if every case holds or is off for a reason that is stated; 1 if one is off without;
/// 2 on errors. With --mutate: 0 if every case fails that was made wrong, 1 if one does not.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReproduceArgs {
    /// Cases, 1 to 17 [default: all]
    #[arg(value_name = "CASE", value_parser = clap::value_parser!(u8).range(1..=i64::from(CASES)))]
    cases: Vec<u8>,
    /// At the published sizes and numbers of cores: hours for each stencil, and tens of GB of memory
    #[arg(long)]
    full: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Make each case wrong on purpose (bandwidth −20 %, every line near, …) and see it fail
    #[arg(long, conflicts_with = "json")]
    mutate: bool,
    /// Keep the recordings in this new directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Judge the recordings that an earlier run kept there, without running anything
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    from: Option<PathBuf>,
    /// The directory with the built workloads [default: beside this binary, or $NEARFAR_WORKLOADS]
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// List the cases and their runs; run nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    look: Look,
}

const EXAMPLES: &str = "Examples:
  nearfar reproduce                     all of them: about ten minutes on two cores
  nearfar reproduce 13 17               two of them
  nearfar reproduce -o kept; nearfar reproduce --from kept --mutate
";

/// Runs, judges and prints.
pub(super) fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let wanted: BTreeSet<u8> =
        if args.cases.is_empty() { (1..=CASES).collect() } else { args.cases.iter().copied().collect() };
    let names: BTreeSet<&str> = wanted.iter().flat_map(|&id| needs(id)).copied().collect();
    let plan: Vec<Run> = runs(args.full).into_iter().filter(|r| names.contains(r.name)).collect();
    if args.list {
        return list(&wanted, &plan, args.look.resolve().0);
    }
    let mut sights = Sights::default();
    sights.0.insert(CALCULATED.into(), calculated()?);
    match &args.from {
        Some(from) => {
            if !from.is_dir() {
                bail!("directory {} does not exist; `nearfar reproduce -o {0}` makes one", from.display());
            }
            for run in &plan {
                match seen(run, args.full, &from.join(format!("{}.nearfar", run.name))) {
                    Ok(one) => drop(sights.0.insert(run.name.into(), one)),
                    Err(error) => nearfar_host::say!("nearfar: {}: {error:#}", run.name),
                }
            }
        }
        None => do_runs(args, &plan, &mut sights)?,
    }
    let cases: Vec<Case> = wanted.iter().map(|&id| judge(id, &sights, false)).collect();
    let (width, color) = args.look.resolve();
    let good = if args.mutate {
        let pairs: Vec<(Case, Case)> =
            cases.into_iter().map(|right| (right.clone(), judge(right.id, &sights, true))).collect();
        super::show::page(&mutated_to_text(&pairs, width, color))?;
        pairs.iter().all(|(right, wrong)| right.lost_in(wrong).next().is_some())
    } else {
        let good = cases.iter().all(|c| c.holds || c.explained.is_some());
        let all = Reproduction { schema: 1, cases };
        let text = if args.json { to_json(&all) } else { to_text(&all, width, color) };
        super::show::page(&text)?;
        good
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn list(wanted: &BTreeSet<u8>, plan: &[Run], width: usize) -> Result<ExitCode> {
    let mut out = String::new();
    for &id in wanted {
        let case = judge(id, &Sights::default(), false);
        let title = format!("{} ({})", case.title, case.document.name());
        write!(out, "{id:>2}  {}", wrapped(4, &title, width).trim_start())?;
        for run in plan.iter().filter(|r| needs(id).contains(&r.name)) {
            let command = format!("{}: {} {}", run.name, flags(run).join(" "), shell::command(&run.command));
            // What is behind the first line of a run stands further in, so that runs can be told apart.
            write!(out, "      {}", wrapped(8, &command, width).trim_start())?;
        }
        if plan.iter().all(|r| !needs(id).contains(&r.name)) {
            out += &wrapped(6, "nothing is run: it follows from the figures of a machine file", width);
        }
    }
    super::show::lines(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// The machine of the case that is arithmetic.
fn calculated() -> Result<Seen> {
    Ok(Seen {
        machine: machine_from_argument("opteron-6174-4s")?,
        cpus: Default::default(),
        traffic: Default::default(),
        factor: 1.0,
        full: true,
        scale: String::new(),
        repeat: 1.0,
    })
}

/// The flags of `nearfar record` for a run.
fn flags(run: &Run) -> Vec<String> {
    let mut all = vec!["--on".to_owned(), run.machine.to_owned()];
    all.extend(run.cpus_per_node.iter().flat_map(|n| ["--cpus-per-node".to_owned(), n.to_string()]));
    if run.interleaved {
        all.push("--interleaved".into());
    }
    if !run.prefetch {
        all.push("--no-prefetch".into());
    }
    if run.memory_per_node > 1 << 30 {
        all.extend(["--memory-per-node".to_owned(), format!("{}G", run.memory_per_node >> 30)]);
    }
    all
}

/// The machine of a run as it is emulated, and how many times as many cores a node of the whole one has.
fn machine(run: &Run) -> Result<(Machine, f64)> {
    let whole = machine_from_argument(run.machine)?;
    let options = ScaleOptions { cpus_per_node: run.cpus_per_node, smt: false, interleaved: run.interleaved };
    let scaled = scale(&whole, &options)?;
    let cores = |m: &Machine| m.cores_of(m.nodes[0].id).len() as f64;
    let factor = cores(&whole) / cores(&scaled);
    Ok((scaled, factor))
}

fn seen(run: &Run, full: bool, recording: &Path) -> Result<Seen> {
    let stored = store::open(recording)?.input;
    // Kept recordings may be of other sizes: rates would be of work that was not done.
    if !is_of(run, &stored.meta.command) {
        bail!(
            "{} has another command: `{}`; was it made with or without --full?",
            recording.display(),
            stored.meta.command.join(" ")
        );
    }
    if stored.meta.exit != "exit 0" {
        bail!("the program ended with `{}`: its result is not right", stored.meta.exit);
    }
    // Samples may be missing, which no case looks at.
    if let Some(at) = stored.losses.what.iter().position(|what| what == "counts" || what == "end") {
        bail!("counts are missing: {}", stored.losses.why[at]);
    }
    let (machine, factor) = machine(run)?;
    let (cpus, traffic) = (stored.cpu_epochs, stored.epoch_traffic);
    Ok(Seen { machine, cpus, traffic, factor, full, scale: run.scale.clone(), repeat: run.repeat })
}

/// Whether a recorded command is the run's, wherever its workloads were.
fn is_of(run: &Run, recorded: &[String]) -> bool {
    let same = |(wanted, found): (&String, &String)| {
        // What stands before the first workload, then each one's name behind a folder, with what follows.
        let mut pieces = wanted.split('@');
        let mut rest = pieces.next().and_then(|first| found.strip_prefix(first));
        for piece in pieces {
            rest = rest.and_then(|r| Some(&r[r.find(&format!("/{piece}"))? + 1 + piece.len()..]));
        }
        rest == Some("")
    };
    run.command.len() == recorded.len() && run.command.iter().zip(recorded).all(same)
}

/// A directory that ends with the command, unless it was asked for.
struct Kept {
    path: PathBuf,
    keep: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn directory(args: &ReproduceArgs) -> Result<Kept> {
    let (path, keep) = match &args.output {
        Some(path) => (path.clone(), true),
        None => (std::env::temp_dir().join(format!("nearfar-reproduce-{}", std::process::id())), false),
    };
    std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(Kept { path: path.canonicalize()?, keep })
}

fn do_runs(args: &ReproduceArgs, plan: &[Run], sights: &mut Sights) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let workloads = workloads(args, plan)?;
    // Once, not for each run.
    let mut progress = |progress: Progress| nearfar_host::say!("nearfar: {progress}");
    Setup::find(&mut progress)
        .map_err(anyhow::Error::from)?
        .qemu()
        .require_plugins()
        .map_err(anyhow::Error::from)?;
    let kept = directory(args)?;
    // A signal ends the run in progress; then we clean up and end by it.
    let relay = Relay::install().context("cannot catch signals")?;
    let begin = Instant::now();
    for (at, run) in plan.iter().enumerate() {
        nearfar_host::say!(
            "nearfar: {} of {}, {:.0} s so far: {} on {}",
            at + 1,
            plan.len(),
            begin.elapsed().as_secs_f64(),
            run.name,
            run.machine
        );
        let recording = kept.path.join(format!("{}.nearfar", run.name));
        let (trouble, asked) = record(run, &recording, &workloads, &relay)?;
        if let Some(signal) = asked {
            // Half a run is of no use to --from.
            let _ = std::fs::remove_dir_all(&recording);
            let is_kept = kept.keep && std::fs::remove_dir(&kept.path).is_err();
            let kept_in =
                if is_kept { format!("; they are in {}", kept.path.display()) } else { String::new() };
            nearfar_host::say!("nearfar: interrupted after {at} of {} runs{kept_in}", plan.len());
            drop((kept, relay));
            Ending::Signal(signal).pass_on();
        }
        match trouble {
            None => match seen(run, args.full, &recording) {
                Ok(one) => drop(sights.0.insert(run.name.into(), one)),
                Err(error) => nearfar_host::say!("nearfar: {}: {error:#}", run.name),
            },
            Some(trouble) => nearfar_host::say!("nearfar: {} failed:\n{trouble}", run.name),
        }
    }
    nearfar_host::say!("nearfar: {} runs in {:.0} s", plan.len(), begin.elapsed().as_secs_f64());
    Ok(())
}

/// Records a run; what it said, if it failed, and the signal that asked us to end meanwhile.
fn record(
    run: &Run,
    recording: &Path,
    workloads: &Path,
    relay: &Relay,
) -> Result<(Option<String>, Option<i32>)> {
    let mut command = Command::new(std::env::current_exe().context("cannot find nearfar itself")?);
    command.args(["record", "--quiet", "-o"]).arg(recording).args(flags(run)).arg("--");
    let folder = workloads.to_str().context("the workloads' path is not UTF-8")?;
    // A word with blanks in it is a shell's.
    let quote = |word: &str| if word.contains(' ') { "'" } else { "" };
    command.args(run.command.iter().map(|word| word.replace('@', &format!("{0}{folder}{0}/", quote(word)))));
    for name in
        ["OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE", "OMP_DYNAMIC", "GOMP_CPU_AFFINITY"]
    {
        command.env_remove(name);
    }
    command.envs(run.environment.iter().map(|(name, value)| (*name, value.as_str())));
    let mut outputs = [File::from(in_memory(&[])?), File::from(in_memory(&[])?)];
    command.stdin(Stdio::null()).stdout(outputs[0].try_clone()?).stderr(outputs[1].try_clone()?);
    let (status, asked) = relay.wait_for(&mut command.spawn()?)?;
    if status.success() {
        return Ok((None, asked));
    }
    let mut said = Vec::new();
    for output in &mut outputs {
        let mut all = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut all)?;
        said.push(String::from_utf8_lossy(&all).trim_end().to_owned());
    }
    Ok((Some(said.join("\n")), asked))
}

/// Where the built workloads are.
fn workloads(args: &ReproduceArgs, plan: &[Run]) -> Result<PathBuf> {
    let has = |folder: &Path| plan.iter().flat_map(programs).find(|name| !folder.join(name).is_file());
    let mut tried = Vec::new();
    let named = args.workloads.clone().or_else(|| std::env::var_os("NEARFAR_WORKLOADS").map(PathBuf::from));
    let candidates = match named {
        Some(folder) => vec![folder],
        // target/debug/nearfar and target/workloads.
        None => std::env::current_exe()?.ancestors().skip(1).take(3).map(|d| d.join("workloads")).collect(),
    };
    for folder in candidates {
        match has(&folder) {
            None => return Ok(folder.canonicalize()?),
            Some(missing) => tried.push(folder.join(missing).display().to_string()),
        }
    }
    bail!(
        "the workloads are not built. Tried: {}. In nearfar's source, type:\n    \
         cmake -S workloads -B target/workloads-build && cmake --build target/workloads-build\n\
         and name their directory with --workloads if it is not beside this binary",
        tried.join(", ")
    )
}

/// Names of the workloads in a run's command.
fn programs(run: &Run) -> impl Iterator<Item = &str> {
    let words = run.command.iter().flat_map(|word| word.split_whitespace());
    words.filter_map(|word| word.strip_prefix('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_recording_is_told_by_its_command_wherever_the_workloads_were() {
        let made = |run: &Run, folder: &str| -> Vec<String> {
            run.command.iter().map(|word| word.replace('@', &format!("{folder}/"))).collect()
        };
        for (small, full) in runs(false).iter().zip(&runs(true)) {
            for folder in ["/a/b", "/my programs/w", "'/my programs/w'"] {
                assert!(is_of(small, &made(small, folder)), "{}", small.name);
                assert_eq!(
                    is_of(full, &made(small, folder)),
                    small.command == full.command,
                    "{}",
                    small.name
                );
            }
            assert!(!is_of(small, &made(small, "/a")[1..]));
        }
    }
}
