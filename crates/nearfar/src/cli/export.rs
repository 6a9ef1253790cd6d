//! `nearfar export`: a recording in the formats of other tools.

use super::judged::{Judged, judge, judged_with};
use anyhow::{Context, Result, bail};
use nearfar_analyze::{Input, Report};
use nearfar_host::output;
use nearfar_machine::binding::Bind;
use nearfar_perf::features::Node;
use nearfar_perf::records::Mapped;
use nearfar_record::ranks;
use nearfar_record::store;
use nearfar_recording::Columns;
use nearfar_report::export::samples::{Samples, Weight};
use nearfar_report::export::{
    caliper, csv, firefox, flamegraph, junit, parquet, perf, perf_script, perfetto, pprof, sarif, tau,
};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  nearfar export --to tau -o profiles run.nearfar       then: paraprof profiles, or hatchet's from_tau
  nearfar export --to caliper -o run.json run.nearfar   hatchet's from_caliper
  nearfar export --to perfetto -o run.pftrace           open it in ui.perfetto.dev
  nearfar export --to perf.data --weight remote -o far.data   perf mem report -i far.data: what far memory takes
  nearfar export --to firefox -o firefox.json           load it in profiler.firefox.com: it stays in the browser
  nearfar export --to sarif -o far.sarif                findings beside the line, on the code host
  nearfar export --to flamegraph -o - | flamegraph.pl > run.svg";

/// Write a recording in the format of another tool
///
/// What the format cannot hold is left out; docs/phases.md and docs/export.md say what goes where.
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
    /// What samples weigh, where the format is of samples: all (time, lines or loads, as the recording counts), remote (the
    /// same, of samples on far memory only) or latency (cycles, of the processor's own samples)
    #[arg(long, value_name = "WHAT", default_value = "all")]
    weight: By,
    /// The whole run even if the program marks a region of interest
    #[arg(long)]
    whole: bool,
    /// sarif: the root of the sources; paths below it become relative, as code hosts want them [default: this directory]
    #[arg(long, value_name = "DIR")]
    source_root: Option<PathBuf>,
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
    /// What `perf script` prints
    PerfScript,
    /// perf's own file, for `perf script`, `perf report` and `perf mem report`
    #[value(name = "perf.data")]
    PerfData,
    /// pprof's profile
    Pprof,
    /// The Firefox Profiler's profile: threads in the colours of near and far memory, with tracks of both
    Firefox,
    /// Collapsed stacks, with the object as the innermost frame
    Flamegraph,
    /// A line for each sample
    Csv,
    /// A row for each sample, for DuckDB, pandas and polars
    Parquet,
    /// Findings for code hosts, which show them beside the line (SARIF 2.1.0)
    Sarif,
    /// The verdict and the findings as tests, for CI servers
    Junit,
}

/// What samples weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// As the recording counts
    All,
    /// The same, of samples on far memory
    Remote,
    /// Cycles of the processor's samples
    Latency,
}

impl To {
    fn is_of_samples(self) -> bool {
        use To::{Csv, Firefox, Flamegraph, Parquet, PerfData, PerfScript, Pprof};
        matches!(self, PerfScript | PerfData | Pprof | Firefox | Flamegraph | Csv | Parquet)
    }

    /// How a file of the format is called.
    fn extension(self) -> &'static str {
        match self {
            To::Tau => "tau",
            To::Caliper => "caliper.json",
            To::Perfetto => "pftrace",
            To::PerfScript => "perf.txt",
            To::PerfData => "perf.data",
            To::Pprof => "pprof",
            To::Firefox => "firefox.json",
            To::Flamegraph => "folded",
            To::Csv => "csv",
            To::Parquet => "parquet",
            To::Sarif => "sarif",
            To::Junit => "junit.xml",
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
    if args.to.is_of_samples() {
        return of_samples(args, &path);
    }
    let root = args.source_root.as_deref().map(absolute).transpose()?;
    let Judged { report, meta, .. } = judged_with(&path, args.machine.as_deref(), args.bind, args.whole)?;
    let rank = meta.rank.map_or(0, |rank| rank.rank);
    let out = args.output.clone().unwrap_or_else(|| path.with_extension(args.to.extension()));
    match args.to {
        To::Tau => directory(&out, &report, rank)?,
        To::Caliper => {
            file(&out, caliper::json(&report, rank).with_context(no_phases)?.as_bytes(), args.force.force)?
        }
        To::Perfetto => file(&out, &perfetto::trace(&report).with_context(no_phases)?, args.force.force)?,
        To::Sarif => file(
            &out,
            sarif::log(&report, &root.map_or_else(|| absolute(Path::new(".")), Ok)?).as_bytes(),
            args.force.force,
        )?,
        To::Junit => file(&out, junit::suite(&report).as_bytes(), args.force.force)?,
        _ => unreachable!("done above"),
    }
    Ok(ExitCode::SUCCESS)
}

/// A directory as an absolute path without links.
///
/// # Errors
/// If it is no directory.
fn absolute(directory: &Path) -> Result<String> {
    if !directory.is_dir() {
        bail!("--source-root {} is not a directory", directory.display());
    }
    let absolute =
        directory.canonicalize().with_context(|| format!("cannot find {}", directory.display()))?;
    Ok(absolute.to_string_lossy().into_owned())
}

/// Writes what is of samples.
fn of_samples(args: &ExportArgs, path: &Path) -> Result<ExitCode> {
    let stored = store::open(path)?;
    let judge = judge(args.machine.as_deref(), &stored.input.meta, args.bind, args.whole)?;
    let samples = Samples::gather(&stored.input, &stored.samples, &judge)
        .with_context(|| format!("cannot analyse {}", path.display()))?;
    let by = match args.weight {
        By::All => Weight::All,
        By::Remote => Weight::Remote,
        By::Latency => Weight::Latency,
    };
    let weights = || samples.samples.iter().filter_map(|s| samples.weight(s, by));
    let (n, sum) = (weights().count(), weights().fold(0u64, u64::saturating_add));
    if n == 0 {
        match by {
            Weight::Latency => {
                bail!("the recording has no samples with a latency: those are the processor's own")
            }
            Weight::Remote => bail!(
                "no sample is known to be on far memory; of {} samples that is unknown. `nearfar report {}` says why",
                samples.unknown(),
                nearfar_host::out::quoted_path(path)
            ),
            Weight::All => bail!("the recording has no samples"),
        }
    }
    let bytes = match args.to {
        To::PerfScript => perf_script::text(&samples, by).into_bytes(),
        To::Pprof => pprof::profile(&samples, by),
        To::Firefox => {
            let started = samples.started.parse::<jiff::Timestamp>().map_or(0, |t| t.as_millisecond());
            firefox::profile(&samples, by, started as f64)?
        }
        To::Flamegraph => flamegraph::collapsed(&samples, by, true).into_bytes(),
        To::Csv => csv::text(&samples).into_bytes(),
        To::Parquet => parquet::file(&samples)?,
        _ => {
            let around = around(&stored.input);
            perf::write(std::io::Cursor::new(Vec::new()), &samples, &around, by)?.into_inner()
        }
    };
    let out = args.output.clone().unwrap_or_else(|| path.with_extension(args.to.extension()));
    file(&out, &bytes, args.force.force)?;
    nearfar_host::say!("nearfar: {n} samples, {sum} {} in all", samples.unit(by));
    if by == Weight::Remote && samples.unknown() > 0 {
        nearfar_host::say!(
            "nearfar: left out: {} samples on memory of which it is unknown whether it is far",
            samples.unknown()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The machine and the mapped code, for perf.data.
fn around(input: &Input) -> perf::Around {
    let machine = &input.meta.machine;
    let node = |n: &nearfar_machine::NumaNode| Node {
        id: n.id,
        memory_bytes: n.memory_bytes.unwrap_or(0),
        cpus: n.cpus.clone(),
    };
    let pids: HashMap<u32, u32> = input.processes.rows().map(|p| (p.id, p.pid)).collect();
    let build_ids: HashMap<u32, Vec<u8>> = input.modules.rows().map(|m| (m.id, unhex(&m.build_id))).collect();
    let code = |m: nearfar_recording::Mapping| {
        let pid = pids.get(&m.process).copied().unwrap_or(0);
        perf::Code {
            mapped: Mapped {
                pid,
                tid: pid,
                start: m.start,
                bytes: m.end - m.start,
                offset: m.offset,
                build_id: build_ids.get(&m.module).cloned().unwrap_or_default(),
                protection: u32::from(m.flags & 7),
                flags: if m.flags & 8 != 0 { 1 } else { 2 },
                name: m.name,
                ..Mapped::default()
            },
            time_ns: m.time_ns,
        }
    };
    let mapped = input.mappings.rows().filter(|m| m.flags & 4 != 0 && m.name.starts_with('/'));
    perf::Around {
        machine: machine.name.clone(),
        nodes: machine.nodes.iter().map(node).collect(),
        code: mapped.map(code).collect(),
        version: format!("nearfar {}", env!("CARGO_PKG_VERSION")),
    }
}

/// Bytes of hex digits; none if it is something else.
fn unhex(text: &str) -> Vec<u8> {
    let pair = |i: usize| text.get(i..i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(pair).collect::<Option<_>>().unwrap_or_default()
}

fn no_phases() -> String {
    "the recording has no phases, and this format is of nothing else: docs/phases.md says how a program names its parts"
        .into()
}

fn file(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    super::file::write(path, bytes, force)?;
    if path != Path::new("-") {
        nearfar_host::say!("nearfar: wrote {}", path.display());
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
    nearfar_host::say!("nearfar: wrote {} profiles to {}", files.len(), path.display());
    Ok(())
}
