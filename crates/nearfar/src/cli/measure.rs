//! `nearfar measure`.

use super::parse::parse_bytes;
use super::{file, look};
use anyhow::Result;
use clap::Args;
use nearfar_figures::sizes::size;
use nearfar_measure::{Part, Wanted, measure, most_bytes};
use nearfar_report::measured::to_text;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the machine: latency and bandwidth of every node's memory, caches, cores, STREAM, scaling
///
/// Threads are pinned and pages are bound; a figure whose pages are elsewhere is not printed but explained.
/// On a busy machine the figures are of what the others leave, and the report notes it.
/// The last-level caches decide how much memory is used and so how long it takes: a minute where they have 32 MiB,
/// many minutes and gigabytes where they have hundreds. --quick has limits; figures of memory of which the caches
/// can hold more than a quarter are marked then.
#[derive(Args)]
#[command(after_help = MEASURE_EXAMPLES)]
pub(super) struct MeasureArgs {
    /// What to measure
    #[arg(value_name = "WHAT", default_value = "all", value_enum)]
    what: Part,
    /// Fewer and shorter repetitions, fewer kinds of bandwidth, arrays of 512 MiB and chains of 1 GiB at most
    #[arg(long)]
    quick: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Bytes of each array of a bandwidth (64M) [default: four times the caches of the threads]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    array: Option<u64>,
    /// Also write this machine with its figures as a machine file, for --as and --on
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: file::Force,
    #[command(flatten)]
    look: look::Look,
}

const MEASURE_EXAMPLES: &str = "Examples:
  nearfar measure --quick                   the whole matrix in less than a minute
  nearfar measure -o machines/mine.toml     and kept, so that predictions use this machine's own figures
  nearfar report --as machines/mine.toml
";

/// Memory from which it is said beforehand how much it takes. // chosen
const MUCH: u64 = 2 << 30;

/// Measures and prints.
pub fn run(args: &MeasureArgs) -> Result<ExitCode> {
    if let Some(file) = &args.output {
        super::file::may_write(file, args.force.force)?;
    }
    let wanted = Wanted { part: args.what, quick: args.quick, array_bytes: args.array };
    let most = most_bytes(&wanted)?;
    if most > MUCH && !args.quick && !matches!(args.what, Part::Gpu) {
        args.look.say(&format!(
            "this takes up to {} of memory and many minutes, because the last-level caches are large; --quick takes less \
             of both, and says what the caches can hold",
            size(most)
        ));
    }
    let terminal = std::io::stderr().is_terminal();
    let mut say = |what: &str| {
        if terminal {
            // Over the last line, of which nothing is left.
            nearfar_host::out::progress(&format!("nearfar: {what}"));
        }
    };
    let (machine, measured) = measure(&wanted, &mut say)?;
    if terminal {
        nearfar_host::out::progress("");
    }
    if args.json {
        super::show::page(&measured.to_json())?;
    } else {
        let (width, color) = args.look.resolve();
        super::show::page(&to_text(&measured, width, color))?;
    }
    if let Some(file) = &args.output {
        super::file::write(file, measured.into_machine(machine).to_toml(), args.force.force)?;
    }
    Ok(ExitCode::SUCCESS)
}
