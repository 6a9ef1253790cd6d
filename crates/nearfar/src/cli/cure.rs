//! `nearfar cure`: record, report, fix, the same again with the fix, runs with and without, and one page.

use super::html::{HtmlArgs, about};
use super::judged::judged;
use super::machine::EMULATED;
use super::on::OnArgs;
use super::repair::next;
use super::{look, show, status};
use anyhow::{Context, Result, bail};
use nearfar_compare::compare;
use nearfar_compare::trials::Judged;
use nearfar_guest::Relay;
use nearfar_host::discover;
use nearfar_host::out::command;
use nearfar_host::target::{Ending, find_program};
use nearfar_machine::binding::Bind;
use nearfar_report::cure::{Cure, Outcome, to_json, to_text};
use nearfar_report::html::{Step, compared, to_html};
use nearfar_report::placement::to_placement;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// Find what is wrong, apply what repairs it, and prove it: record, fix, check and compare in one command
///
/// The program runs once to be recorded, once more with the repair, and a few times with and without it. Nothing
/// of it is changed: the repair is a placement file, which the last page names together with the edit of the source
/// that makes it last. OpenMP threads are bound (OMP_PROC_BIND=close, OMP_PLACES=cores) unless you say otherwise.
/// Exit status: 0 if it is cured, or there is nothing to do (nothing is wrong, or this machine has one node); 1 if it is
/// not cured; 2 on errors; 3 if that cannot be told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "nearfar cure [OPTIONS] [--] <COMMAND>...")]
pub(super) struct CureArgs {
    /// Directory for the recordings, the placement file and the runs [default: APP-NNN.cure]; never overwritten
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Runs with and without the repair [default: 12, or 2 with --on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// A number in the program's output instead of its run time: `throughput: ([0-9.]+) MPoints/s`
    #[arg(long, value_name = "REGEX", conflicts_with = "on")]
    metric: Option<String>,
    /// Write JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    on: OnArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    look: look::Look,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  nearfar cure ./app                                               on a machine with several nodes
  nearfar cure --on xeon-e5-2699v4-2s --cpus-per-node 4 ./app      on an emulated one";

/// Names in the directory.
const BEFORE: &str = "before.nearfar";
const AFTER: &str = "after.nearfar";
const FILE: &str = "fix.placement";
const RUNS: &str = "check.json";

/// Does all of it.
pub(super) fn run(args: &CureArgs) -> Result<ExitCode> {
    // Before anything is said of it.
    if let Err(error) = find_program(&args.command[0]) {
        nearfar_host::say!("nearfar: {error}");
        return Ok(ExitCode::from(error.exit_status()));
    }
    if args.on.machine.on.is_none() {
        let machine = discover::discover(Path::new("/"))?.machine;
        if machine.nodes.len() < 2 {
            nearfar_host::say!(
                "nearfar: nothing to do: this machine has one memory node, where no placement differs from another, so \
                 nothing was run. Try it on an emulated one: nearfar cure {EMULATED} -- {}",
                command(&args.command)
            );
            return Ok(ExitCode::SUCCESS);
        }
    }
    let directory = directory(args)?;
    cured(args, &directory).inspect_err(|_| {
        // Only if nothing is in it.
        let _ = std::fs::remove_dir(&directory);
    })
}

fn cured(args: &CureArgs, directory: &Path) -> Result<ExitCode> {
    let at = |name: &str| directory.join(name);
    step(args, "record", &["-o".into(), at(BEFORE).into()], directory)?;
    let before = judged(&at(BEFORE), None, Bind::Compact, false)?;
    let (placement, left) = to_placement(&before);
    let file = at(FILE);
    let (mut after, mut trials) = (None, None);
    if let Some(placement) = placement.as_ref().filter(|_| !before.findings.is_empty()) {
        // Its directory is new.
        super::file::write(&file, placement.file.to_toml(), false)?;
        let with = [OsString::from("--placement"), file.clone().into()];
        step(args, "record", &[&with[..], &["-o".into(), at(AFTER).into()]].concat(), directory)?;
        after = Some(judged(&at(AFTER), None, Bind::Compact, false)?);
        trials = Some(check(args, &with, &at(RUNS), directory)?);
    }
    let name = file.display().to_string();
    let placement = placement.as_ref().filter(|_| after.is_some());
    let comparison = after.as_ref().map(|after| compare(&before, after));
    let cure = Cure {
        before: &before,
        placement,
        left: &left,
        file: &name,
        after: after.as_ref(),
        comparison: comparison.as_ref(),
        judged: trials.as_ref(),
    };
    let apply = match (placement, cure.outcome()) {
        (Some(placement), Outcome::Cured) => Some(next(&file, placement, &before)),
        _ => None,
    };
    if let Some(file) = &args.html.html {
        args.html.write(file, &html_page(args, &cure, &at(BEFORE), apply.as_deref()))?;
    }
    if args.json {
        show::page(&to_json(&cure, apply.as_deref()))?;
    } else {
        let (width, color) = args.look.resolve();
        let mut text = to_text(&cure, width, color);
        if let Some(line) = apply {
            // Node numbers are those of the machine that was cured, which this host need not be like.
            if args.on.machine.on.is_some() {
                let machine = nearfar_figures::escape::line(&before.machine.name);
                text += &format!("\nOn a machine like {machine}, which was emulated:");
            }
            text += &format!("\n{}\n", nearfar_figures::escape::line(&line));
        }
        show::page(&text)?;
    }
    Ok(match cure.outcome() {
        Outcome::Healthy | Outcome::Cured => status::Gate::Passed,
        Outcome::NotCured | Outcome::SourceOnly => status::Gate::Caught,
        Outcome::Unknown => status::Gate::Undecided,
    }
    .into())
}

/// Before and after side by side, with the line that applies the repair if that cures; the report alone where nothing was
/// applied.
fn html_page(args: &CureArgs, cure: &Cure, before: &Path, apply: Option<&str>) -> String {
    let mut about = about(before, None, cure.before);
    args.html.add_sources(&mut about, before, cure.before);
    match (cure.comparison, cure.after) {
        (Some(comparison), Some(after)) => {
            let text = |width| to_text(cure, width, false);
            let step = |line: &str| Step {
                what: "run with the repair, without a recompile".to_owned(),
                command: line.to_owned(),
            };
            about.steps = apply.into_iter().map(step).collect();
            compared(comparison, (cure.before, after), &about, cure.proven().as_ref(), text)
        }
        _ => to_html(cure.before, &about),
    }
}

/// A directory that was not there.
fn directory(args: &CureArgs) -> Result<PathBuf> {
    if let Some(path) = &args.output {
        std::fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
        return Ok(path.clone());
    }
    let program = Path::new(&args.command[0]).file_name().unwrap_or(args.command[0].as_os_str());
    for number in 1..1000 {
        let path = PathBuf::from(format!("{}-{number:03}.cure", program.to_string_lossy()));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }
    bail!("there are 999 directories of this name already: choose one with -o")
}

/// nearfar itself, as it would be typed.
fn nearfar(args: &CureArgs, what: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find nearfar itself")?);
    command.arg(what).args(args.on.flags().split_whitespace());
    if args.on.machine.on.is_none() {
        for (name, value) in [("OMP_PROC_BIND", "close"), ("OMP_PLACES", "cores")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    }
    Ok(command)
}

/// Runs one of them to its end, also when we are asked to end: it then writes what it has, and we end afterwards, as
/// asked.
fn finished(command: &mut Command, directory: &Path) -> Result<ExitStatus> {
    let relay = Relay::install().context("cannot catch signals")?;
    let (status, asked) = relay.wait_for(&mut command.spawn()?)?;
    drop(relay);
    if let Some(signal) = asked {
        match std::fs::remove_dir(directory) {
            // Nothing was in it.
            Ok(()) => nearfar_host::say!("nearfar: interrupted before anything was recorded"),
            Err(_) => nearfar_host::say!(
                "nearfar: interrupted; what was recorded until then is in {}",
                directory.display()
            ),
        }
        Ending::Signal(signal).pass_on();
    }
    Ok(status)
}

fn step(args: &CureArgs, what: &str, words: &[OsString], directory: &Path) -> Result<()> {
    let mut command = nearfar(args, what)?;
    let status = finished(command.args(words).arg("--").args(&args.command), directory)?;
    if !status.success() {
        bail!(
            "the program ended with {status} while it was recorded; what it did until then is in the directory"
        );
    }
    Ok(())
}

fn check(args: &CureArgs, with: &[OsString], file: &Path, directory: &Path) -> Result<Judged> {
    let mut command = nearfar(args, "check")?;
    let name = format!("placement {}", Path::new(&with[1]).file_name().unwrap_or_default().to_string_lossy());
    command.args(with).arg("--only").arg(name).arg("-o").arg(file);
    if let Some(runs) = args.runs {
        command.arg("--runs").arg(runs.to_string());
    }
    if let Some(metric) = &args.metric {
        command.arg("--metric").arg(metric);
    }
    let status = finished(command.arg("--").args(&args.command).stdout(Stdio::null()), directory)?;
    let text = nearfar_host::input::read_text(file, nearfar_host::input::MOST_MADE)
        .with_context(|| format!("the runs with and without the repair failed ({status})"))?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}
