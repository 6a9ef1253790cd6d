//! `nearfar import`.

use crate::discover::machine_from_argument;
use crate::import::{Options, import};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a recording of what another tool recorded: perf.data
///
/// The file's samples of memory, time and page faults become a recording like any other, for `nearfar report`. What
/// cannot be read is named, one line each, and left out. What the file does not have is unknown: a file without
/// memory samples does not say that nothing is remote.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// perf.data, of `perf record` or `perf mem record`, written to a file or to a pipe, compressed or not
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the recording [default: FILE-NNN.nearfar, the next free number]
    #[arg(short, long, value_name = "REC")]
    output: Option<PathBuf>,
    /// The machine that it was recorded on, where the file does not say: a shape such as 2x22, a machine file, or a name
    #[arg(long = "as", alias = "machine", value_name = "MACHINE")]
    machine: Option<String>,
    /// Say nothing but errors and what is damaged
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  perf mem record -a -- ./app && nearfar import perf.data     where its loads were served from
  perf record -e page-faults -c 1 -d -- ./app && nearfar import perf.data -o touches.nearfar
                                                              who touched which page first";

/// Imports, and says what was damaged.
pub(super) fn run(args: &ImportArgs) -> Result<ExitCode> {
    let machine = args.machine.as_deref().map(machine_from_argument).transpose().context("--as")?;
    let outcome = import(&args.file, &Options { output: args.output.clone(), machine })?;
    for line in &outcome.damage {
        crate::say!("nearfar: {}: {line}", args.file.display());
    }
    if !args.quiet {
        outcome.summary.iter().for_each(|line| crate::say!("nearfar: {line}"));
    }
    Ok(ExitCode::SUCCESS)
}
