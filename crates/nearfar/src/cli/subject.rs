//! `nearfar show`: all that a recording says of one object or function.

use super::judged::{judged, judged_running, typed};
use super::look::Look;
use super::show;
use anyhow::{Result, bail};
use nearfar_machine::binding::Bind;
use nearfar_record::ranks::read::{self, is_run};
use nearfar_record::{ranks, store};
use nearfar_report::subject::{NotFound, Only, find, names, to_json, to_text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show all that a recording says of one object or one function
///
/// Sizes, the lines that allocated it and touched it first, threads and nodes, shares with their interval, the lines
/// that use it, the findings that name it, what is predicted of it, and the command that repairs it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowArgs {
    /// The object or function: its name, the line that allocates it (main.c:12), NAME@main.c:12 where several have the
    /// name, or a part of the name that only one has
    #[arg(value_name = "NAME")]
    name: String,
    /// The recording, or with --rank a run of several ranks [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    recording: Option<PathBuf>,
    /// Of a run: this rank
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// An object of that name, not a function
    #[arg(long, conflicts_with = "function")]
    object: bool,
    /// A function of that name, not an object
    #[arg(long)]
    function: bool,
    /// Write JSON: the rows of `report --json` that are about it
    #[arg(long)]
    json: bool,
    /// Judge by this machine: a shape such as 2x22 (nodes x cpus), a machine file, a name, or `here`
    #[arg(long = "as", value_name = "MACHINE")]
    machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    bind: Bind,
    /// The whole run even if the program marks a region of interest (nearfar.h)
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    look: Look,
}

const EXAMPLES: &str = "Examples:
  nearfar show grid                       of the newest recording
  nearfar show main.c:12 app.nearfar      the object that this line allocates
  nearfar show --function solve --json";

/// Names that are listed at most, and how alike an unknown name must be to be named.
const NAMES: usize = 20;
const ALIKE: f64 = 0.7; // chosen: what clap asks of an option that it names

/// Shows it.
pub(super) fn run(args: &ShowArgs) -> Result<ExitCode> {
    let path = match &args.recording {
        Some(path) => path.clone(),
        None => ranks::newest(Path::new("."))?,
    };
    let path = match (is_run(&path), args.rank) {
        (true, Some(rank)) => read::open(&path)?.rank(rank)?.path.clone(),
        (true, None) => bail!("{} is a run of several ranks: add --rank N", path.display()),
        (false, Some(rank)) => bail!("--rank {rank}: {} is not a run of several ranks", path.display()),
        (false, None) => path,
    };
    let judged = if store::is_running(&path) { judged_running } else { judged };
    let report = judged(&path, args.machine.as_deref(), args.bind, args.whole)?;
    let only = match (args.object, args.function) {
        (true, _) => Only::Objects,
        (_, true) => Only::Functions,
        _ => Only::Any,
    };
    let names = names(&report, only);
    let subject = match find(&names, &args.name) {
        Ok(subject) => subject,
        Err(NotFound::Several(all)) => bail!(
            "`{}` is several: {}. Type one of these names as it stands, and --object or --function if both have it",
            args.name,
            listed(&all)
        ),
        Err(NotFound::Unknown) => {
            let near = near(&args.name, names.iter().map(|n| n.name.as_str()));
            let near = match near.is_empty() {
                true => String::new(),
                false => format!(". Near to it: {}", near.join(", ")),
            };
            bail!(
                "nothing in {} is called `{}`{near}. `nearfar report --details` lists objects and functions",
                path.display(),
                args.name
            )
        }
    };
    let again = typed(args.machine.as_deref(), args.bind, &path);
    if args.json {
        show::page(&to_json(&report, subject, &again))?;
    } else {
        let (width, color) = args.look.resolve();
        show::page(&to_text(&report, subject, &path.display().to_string(), &again, width, color))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The first of many names.
fn listed(all: &[String]) -> String {
    let more = match all.len().saturating_sub(NAMES) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{more}", all.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// Names that may have been meant, the nearest first.
fn near<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let alike = |name: &str| strsim::jaro(&typed.to_lowercase(), &name.to_lowercase());
    let mut near: Vec<(f64, &str)> = names.map(|n| (alike(n), n)).filter(|n| n.0 > ALIKE).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    near.dedup_by_key(|n| n.1);
    near.into_iter().take(5).map(|n| n.1).collect()
}
