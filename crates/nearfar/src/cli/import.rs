//! `nearfar import`.

use super::file::Force;
use anyhow::{Context, Result};
use nearfar_host::discover::machine_from_argument;
use nearfar_record::import::{Measurements, Options, import, measurements};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a recording, or a machine file, of what another tool recorded or measured
///
/// The file's samples of memory, time and page faults become a recording like any other, for `nearfar report`. What
/// cannot be read is named, one line each, and left out. What the file does not have is unknown: a file without
/// memory samples does not say that nothing is remote.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// perf.data, of `perf record` or `perf mem record`, written to a file or to a pipe, compressed or not; the text of
    /// `perf script`; counters as text (`perf stat -j` or `-x,`, numastat, Intel PCM's CSV, NUMAPROF's JSON); or the text of
    /// Intel's Memory Latency Checker (MLC)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the recording [default: FILE-NNN.nearfar, the next free number], or of the machine file [default:
    /// FILE.toml; - is standard output]
    #[arg(short, long, value_name = "REC")]
    output: Option<PathBuf>,
    /// The machine that it was recorded or measured on, where the file does not say: a shape such as 2x22, a machine file,
    /// or a name
    #[arg(long = "as", alias = "machine", value_name = "MACHINE")]
    machine: Option<String>,
    /// Say nothing but errors and what is damaged
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    force: Force,
}

const EXAMPLES: &str = "Examples:
  perf mem record -a -- ./app && nearfar import perf.data     where its loads were served from
  perf record -e page-faults -c 1 -d -- ./app && nearfar import perf.data -o touches.nearfar
                                                              who touched which page first
  perf script --header -I --ns -G --show-mmap-events --show-task-events \
      -F comm,pid,tid,cpu,time,period,event,addr,data_src,weight,ip,sym,symoff,dso > perf.txt
  nearfar import perf.txt                                     the same from text, on another host
  perf stat -j -I 1000 --per-node -e cycles -o stat.json ./app && nearfar import stat.json
                                                              counters, with their source; no verdict comes of them
  nearfar import mlc.txt --as 2x28 -o ours.toml               latencies and bandwidths for --as and --on";

/// Imports, and says what was damaged.
pub(super) fn run(args: &ImportArgs) -> Result<ExitCode> {
    let machine = args.machine.as_deref().map(machine_from_argument).transpose().context("--as")?;
    if let Some(found) = measurements(&args.file, machine.as_ref())? {
        return write_machine(args, &found);
    }
    let outcome = import(&args.file, &Options { output: args.output.clone(), machine })?;
    for line in &outcome.damage {
        nearfar_host::say!("nearfar: {}: {line}", args.file.display());
    }
    if !args.quiet {
        outcome.summary.iter().for_each(|line| nearfar_host::say!("nearfar: {line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_machine(args: &ImportArgs, found: &Measurements) -> Result<ExitCode> {
    let name = || PathBuf::from(args.file.file_stem().unwrap_or_default()).with_extension("toml");
    let output = args.output.clone().unwrap_or_else(name);
    for line in &found.damage {
        nearfar_host::say!("nearfar: {}: {line}", args.file.display());
    }
    super::file::write(&output, found.machine.to_toml(), args.force.force)?;
    if !args.quiet && output != Path::new("-") {
        let shown = output.display();
        let typed = nearfar_host::out::quoted_path(&output);
        nearfar_host::say!(
            "nearfar: machine file {shown}; next: nearfar topo --as {typed}, nearfar report REC --as {typed}"
        );
    }
    Ok(ExitCode::SUCCESS)
}
