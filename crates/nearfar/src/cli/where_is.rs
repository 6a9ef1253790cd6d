//! `nearfar where`.

use super::look::Look;
use super::machine::EMULATED;
use super::parse::parse_seconds;
use crate::place::residency::everyone::look_at_all;
use crate::place::residency::watch::{self, Stopped, Watched};
use crate::place::residency::{Site, Way, look};
use anyhow::{Result, anyhow};
use clap::Args;
use nearfar_figures::escape;
use nearfar_figures::json::pretty;
use nearfar_host::target::interrupt_ends_recording;
use nearfar_observed::residency::Residency;
use nearfar_observed::residency::activity::Activity;
use nearfar_report::residency::{activity_to_text, changes_to_text, everyone_to_text, to_text};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Say where a running process's threads and pages are, and whether that is what was asked for
///
/// Threads with their cpu, cache, node and binding; pages by node, mapping, static variable and kind; the policy
/// asked for beside where the pages are; with -i and with a command also what was migrated meanwhile. Processes of up
/// to 2 GiB are counted page by page, larger ones estimated from random pages.
/// Exit status: 0, or 2 on errors;
/// with a command its own.
#[derive(Args)]
#[command(name = "where", after_help = EXAMPLES)]
#[command(override_usage = "nearfar where [OPTIONS] <PID | --all | [--] COMMAND...>")]
pub(super) struct WhereArgs {
    /// The process
    #[arg(value_name = "PID", required_unless_present_any = ["all", "command"], conflicts_with_all = ["all", "command"], value_parser = super::parse::parse_pid())]
    pid: Option<u32>,
    /// All processes that you may look at, a line each
    #[arg(long, conflicts_with_all = ["command", "interval"])]
    all: bool,
    /// Look again every so many seconds and say what has changed, until Ctrl-C
    #[arg(short, long, value_name = "S", value_parser = parse_seconds)]
    interval: Option<f64>,
    /// End after so many looks
    #[arg(short = 'n', long, value_name = "N", requires = "interval", conflicts_with = "command", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,
    /// Count page by page, however large: mmap and munmap of the process wait meanwhile
    #[arg(long, conflicts_with = "sample")]
    exact: bool,
    /// Estimate from random pages, however small
    #[arg(long)]
    sample: bool,
    /// Write JSON; with -i one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: Look,
    /// A program to run and look at; what was seen comes at its end, on standard error
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  nearfar where $(pgrep -n app)   threads, pages and policies of a process
  nearfar where 1234 -i 5         what changes, every five seconds
  nearfar where ./app             of a program from start to end, with numastat's hits and misses
  sudo nearfar where --all        every process: threads, memory by node, policies
";

/// A look and what was counted since the one before, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    seen: &'a Residency,
    /// Counts of the whole system since the look before, or since the start of the command.
    activity: Option<&'a Activity>,
}

/// A program's end as JSON.
#[derive(Serialize)]
struct WrittenEnd<'a> {
    /// `exit 0`.
    ending: String,
    /// The look that saw most memory.
    look: Option<&'a Residency>,
    /// Why there is none.
    why_none: Option<String>,
    /// Counts of the whole system from start to end.
    activity: &'a Activity,
}

/// Looks and says.
pub fn run(args: &WhereArgs) -> Result<ExitCode> {
    if let Some(why) = nearfar_host::proc::foreign() {
        anyhow::bail!("{why}");
    }
    let site = Site::here()?;
    let way = match (args.exact, args.sample) {
        (true, _) => Way::Exact,
        (_, true) => Way::Sample,
        _ => Way::Auto,
    };
    if !args.command.is_empty() {
        return command(args, &site, way);
    }
    match (args.pid, args.interval) {
        (Some(pid), None) => {
            let seen = look(pid, &site, way, 0.0)?;
            super::show::page(&shown(args, &seen, None, None)?)?;
        }
        (Some(pid), Some(seconds)) => watch(args, pid, seconds, &site, way)?,
        (None, _) => {
            let everyone = look_at_all(&site, way)?;
            if args.json {
                super::show::page(&pretty(&everyone))?;
            } else {
                let (width, color) = args.look.resolve();
                super::show::page(&everyone_to_text(&everyone, width, color))?;
            }
        }
    }
    if site.machine.nodes.len() < 2 {
        say_one_node();
    }
    Ok(ExitCode::SUCCESS)
}

fn say_one_node() {
    nearfar_host::say!(
        "nearfar: this machine has one memory node: all pages are on it, and no thread is far from any. On one that \
         is emulated: nearfar record {EMULATED} -- COMMAND"
    );
}

/// One look, written at once.
fn show(
    args: &WhereArgs,
    out: &mut dyn Write,
    seen: &Residency,
    then: Option<&Residency>,
    activity: Option<&Activity>,
) -> io::Result<()> {
    out.write_all(shown(args, seen, then, activity)?.as_bytes())?;
    out.flush()
}

/// One look; after the first one its difference.
fn shown(
    args: &WhereArgs,
    seen: &Residency,
    then: Option<&Residency>,
    activity: Option<&Activity>,
) -> io::Result<String> {
    if args.json {
        let written = Written { seen, activity };
        return Ok(match args.interval {
            Some(_) => escape::json(serde_json::to_string(&written)? + "\n"),
            None => pretty(&written),
        });
    }
    let (width, color) = args.look.resolve();
    let mut text = match then {
        Some(then) => changes_to_text(seen, then, width, color),
        None => to_text(seen, width, color),
    };
    if let Some(activity) = activity {
        text += &activity_to_text(activity, width, color);
    }
    Ok(text)
}

fn watch(args: &WhereArgs, pid: u32, seconds: f64, site: &Site, way: Way) -> Result<()> {
    interrupt_ends_recording();
    let mut then: Option<Residency> = None;
    let ended =
        watch::repeat(pid, site, way, Duration::from_secs_f64(seconds), args.count, |seen, activity| {
            show(args, &mut io::stdout().lock(), &seen, then.as_ref(), activity.as_ref())?;
            then = Some(seen);
            Ok(())
        });
    match ended {
        Ok(()) => Ok(()),
        Err(Stopped::Output(why)) => Err(why.into()),
        Err(Stopped::Look(why, 0)) => Err(why.into()),
        // Watched to its end, as asked.
        Err(Stopped::Look(crate::place::residency::WhereError::Ended { .. }, looks))
            if args.count.is_none() =>
        {
            nearfar_host::say!("nearfar: process {pid} has ended; it was looked at {looks} times");
            Ok(())
        }
        Err(Stopped::Look(why, looks)) => {
            Err(anyhow!("after {looks} of {} looks: {why}", args.count.unwrap_or(looks + 1)))
        }
    }
}

fn command(args: &WhereArgs, site: &Site, way: Way) -> Result<ExitCode> {
    let every = args.interval.map(Duration::from_secs_f64);
    let mut then: Option<Residency> = None;
    let watched = watch::run(&args.command, site, way, every, |seen| {
        // Standard error that is gone is not a reason to leave the program.
        let _ = show(args, &mut io::stderr().lock(), seen, then.as_ref(), None);
        then = Some(seen.clone());
    });
    let watched = match watched {
        Ok(watched) => watched,
        Err(error) => {
            nearfar_host::say!("nearfar: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let _ = end(args, &watched);
    if site.machine.nodes.len() < 2 {
        say_one_node();
    }
    watched.ending.pass_on()
}

fn end(args: &WhereArgs, watched: &Watched) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let why_none = watched.best.as_ref().err().map(|why| match why {
        Some(why) => why.to_string(),
        None => "the program ended before it could be looked at".to_owned(),
    });
    if args.json {
        let written = WrittenEnd {
            ending: watched.ending.text(),
            look: watched.best.as_ref().ok(),
            why_none,
            activity: &watched.activity,
        };
        let json = match args.interval {
            Some(_) => escape::json(serde_json::to_string(&written)? + "\n"),
            None => pretty(&written),
        };
        return out.write_all(json.as_bytes());
    }
    let (width, color) = args.look.resolve();
    if let Ok(seen) = &watched.best {
        writeln!(out, "nearfar: {:.1} s after the start, when it had most memory:", seen.at_seconds)?;
        write!(out, "{}", to_text(seen, width, color))?;
    }
    if let Some(why) = why_none {
        writeln!(out, "nearfar: {}", escape::lines(&why))?;
    }
    write!(out, "{}", activity_to_text(&watched.activity, width, color))
}
