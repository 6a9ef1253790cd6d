//! `nearfar export`: a recording in the formats of other tools.

use super::report::{Judged, judged_with};
use crate::output;
use crate::ranks;
use anyhow::{Context, Result, bail};
use nearfar_model::analyze::Report;
use nearfar_model::export::{caliper, perfetto, tau};
use nearfar_model::machine::binding::Bind;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  nearfar export --to tau -o profiles run.nearfar       then: paraprof profiles, or hatchet's from_tau
  nearfar export --to caliper -o run.json run.nearfar   hatchet's from_caliper
  nearfar export --to perfetto -o run.pftrace           open it in ui.perfetto.dev";

/// Write a recording in the format of another tool
///
/// What the format cannot hold is left out; docs/phases.md says what goes where.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// The recording [default: the newest *.nearfar here]
    #[arg(value_name = "REC")]
    recording: Option<PathBuf>,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    to: To,
    /// File to write, `-` for standard output; for tau a directory, which must not exist [default: beside the recording]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: super::file::Force,
    /// Judge by this machine, as in `report`
    #[arg(long = "as", value_name = "MACHINE")]
    machine: Option<String>,
    /// How the threads are laid out on an assumed machine: compact or scatter
    #[arg(long, value_name = "HOW", default_value = "compact")]
    bind: Bind,
    /// The whole run even if the program marks a region of interest
    #[arg(long)]
    whole: bool,
}

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// TAU's profiles: a directory of MULTI__NAME/profile.N.C.T
    Tau,
    /// Caliper's split JSON
    Caliper,
    /// Perfetto's trace, phases as slices
    Perfetto,
}

impl To {
    /// How a file of the format is called.
    fn extension(self) -> &'static str {
        match self {
            To::Tau => "tau",
            To::Caliper => "caliper.json",
            To::Perfetto => "pftrace",
        }
    }
}

/// Exports a recording.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let path = match &args.recording {
        Some(path) => path.clone(),
        None => ranks::newest(Path::new("."))?,
    };
    if ranks::read::is_run(&path) {
        bail!("{} is a run of several ranks: name the recording of one, host=H/rank=R in it", path.display());
    }
    let Judged { report, meta, .. } = judged_with(&path, args.machine.as_deref(), args.bind, args.whole)?;
    let rank = meta.rank.map_or(0, |rank| rank.rank);
    let out = args.output.clone().unwrap_or_else(|| path.with_extension(args.to.extension()));
    match args.to {
        To::Tau => directory(&out, &report, rank)?,
        To::Caliper => {
            file(&out, caliper::json(&report, rank).with_context(no_phases)?.as_bytes(), args.force.force)?
        }
        To::Perfetto => file(&out, &perfetto::trace(&report).with_context(no_phases)?, args.force.force)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn no_phases() -> String {
    "the recording has no phases, and this format is of nothing else: docs/phases.md says how a program names its parts"
        .into()
}

fn file(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    super::file::write(path, bytes, force)?;
    if path != Path::new("-") {
        crate::say!("nearfar: wrote {}", path.display());
    }
    Ok(())
}

/// All files of an export of several, in a new directory.
fn directory(path: &Path, report: &Report, rank: u32) -> Result<()> {
    let files = tau::files(report, rank);
    if files.is_empty() {
        bail!("{}", no_phases());
    }
    let made = std::fs::create_dir(path);
    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
        bail!("{} exists and is not overwritten: choose another name with -o", path.display());
    }
    made.with_context(|| format!("cannot make {}", path.display()))?;
    for file in &files {
        let to = path.join(&file.path);
        let cannot = || format!("cannot write {}", to.display());
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        output::create(&to, &file.bytes).with_context(cannot)?;
    }
    crate::say!("nearfar: wrote {} profiles to {}", files.len(), path.display());
    Ok(())
}
