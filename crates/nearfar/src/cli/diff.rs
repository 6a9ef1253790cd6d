//! `nearfar diff`.

use super::html::HtmlArgs;
use super::judged::judged;
use super::look::Look;
use super::{show, status};
use anyhow::{Context, Result};
use clap::Args;
use nearfar_compare::{Gate, compare, compare_same_work};
use nearfar_machine::binding::Bind;
use nearfar_report::compare::{to_json, to_text};
use nearfar_report::html::{About, compared};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare two recordings: what a change brought, in all and for each object, node and function
///
/// Where both were counted on an emulated machine, the modelled time decides; else the remote share of the
/// working time and its interval. docs/diff.md says how.
/// Exit status: 0; with --fail-if-worse 1 if AFTER is worse than that, 3 if it cannot be told; 2 on errors.
#[derive(Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(super) struct DiffArgs {
    /// The recording before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The recording after it
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Exit with 1 if the time is more by this percentage, or, where no time is known of both, the remote share
    /// by as many percentage points (5%, 5)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    fail_if_worse: Option<f64>,
    /// Both did the same work, although arguments, exit status or instructions differ
    #[arg(long)]
    same_work: bool,
    /// Write JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    html: HtmlArgs,
    /// Judge both by this machine: a shape such as 2x22 (nodes x cpus), a machine file, a name, or `here`
    #[arg(long = "as", value_name = "MACHINE")]
    machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    bind: Bind,
    /// Compare the whole runs even if the programs mark a region of interest (nearfar.h)
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    look: Look,
}

const DIFF_EXAMPLES: &str = "Examples:
  nearfar diff before.nearfar after.nearfar
  nearfar diff --fail-if-worse 5% main.nearfar branch.nearfar    for continuous integration
  nearfar diff --as 4x16 --json before.nearfar after.nearfar
";

/// Compares and prints.
pub fn run(args: &DiffArgs) -> Result<ExitCode> {
    let report = |path: &Path| {
        judged(path, args.machine.as_deref(), args.bind, args.whole)
            .with_context(|| format!("cannot compare {}", path.display()))
    };
    let (before, after) = (report(&args.before)?, report(&args.after)?);
    let mut comparison =
        if args.same_work { compare_same_work(&before, &after) } else { compare(&before, &after) };
    comparison.before.recording = args.before.display().to_string();
    comparison.after.recording = args.after.display().to_string();
    if let Some(file) = &args.html.html {
        let about = About {
            recording: format!("{} and {}", args.before.display(), args.after.display()),
            ..About::default()
        };
        let text = |width| to_text(&comparison, width, false);
        args.html.write(file, &compared(&comparison, (&before, &after), &about, None, text))?;
    }
    if args.html.html.is_some() {
        // The page was asked for instead.
    } else if args.json {
        show::page(&to_json(&comparison))?;
    } else {
        let (width, color) = args.look.resolve();
        show::page(&to_text(&comparison, width, color))?;
    }
    Ok(match args.fail_if_worse.map(|allowed| comparison.gate(allowed)) {
        None | Some(Gate::Passed) => ExitCode::SUCCESS,
        Some(Gate::Worse(why)) => {
            nearfar_host::say!("nearfar: {why} (--fail-if-worse)");
            status::Gate::Caught.into()
        }
        Some(Gate::Unknown(why)) => {
            nearfar_host::say!("nearfar: {why} (--fail-if-worse)");
            status::Gate::Undecided.into()
        }
    })
}

/// `5%` or `5`.
fn parse_percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if (0.0..1e6).contains(&percent) => Ok(percent),
        _ => Err(format!("`{text}` is not a percentage: give 5% or 5")),
    }
}
