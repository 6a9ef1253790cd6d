//! `nearfar top`.

use super::on::OnArgs;
use super::on::on_options;
use crate::live::read::{Reader, Wanted};
use crate::live::screen;
use anyhow::{Context, Result, bail};
use clap::Args;
use nearfar_host::discover::machine_from_argument;
use nearfar_host::proc;
use nearfar_host::target::{Ending, INTERRUPTED, interrupt_ends_recording};
use nearfar_observed::live::{Frame, Tab, recorded};
use nearfar_record::collect::on::record_on;
use nearfar_record::collect::session::{CallGraph, Options};
use nearfar_record::store;
use nearfar_report::live::{Csv, to_json, to_text};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Watch the machine: nodes, cores, processes, threads and objects, with the source of every number
///
/// On a terminal a screen (? lists its keys); else, and with --csv, a page or CSV per interval. Works without hardware
/// counters and without root: what has no source is `?`, and the key w says why. It is never 0.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "nearfar top [OPTIONS] [INTERVAL]\n       nearfar top --on <REC> [OPTIONS] [INTERVAL]\n       \
                            nearfar top --on <MACHINE> [OPTIONS] [INTERVAL] -- COMMAND..."
)]
pub(super) struct TopArgs {
    /// Seconds between readings; of a recording, simulated seconds [default: 1; of a recording, a fortieth of it]
    #[arg(value_name = "INTERVAL", value_parser = parse_interval)]
    interval: Option<f64>,
    /// Only these processes, with all their threads
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "on", value_parser = super::parse::parse_pid())]
    pid: Vec<u32>,
    /// Write CSV to FILE instead of showing a screen; - is standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Which CSV: all numbers with unit and source, or the columns of pcm-numa or pcm-memory
    #[arg(long, value_name = "WHICH", default_value = "long", value_parser = ["long", "pcm-numa", "pcm-memory"], requires = "csv")]
    columns: String,
    /// Write pages of text instead of showing a screen, as where standard output is not a terminal
    #[arg(short, long)]
    batch: bool,
    /// End after so many intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,
    /// Machine file that says what each node's memory sustains (nearfar measure -o FILE)
    #[arg(long = "as", value_name = "MACHINE", conflicts_with = "on")]
    machine: Option<String>,
    /// Write a line of JSON per interval instead of showing a screen
    #[arg(long, conflicts_with_all = ["csv", "batch"])]
    json: bool,
    #[command(flatten)]
    force: super::file::Force,
    /// Of a recording: only its region of interest
    #[arg(long, requires = "on")]
    region: bool,
    #[command(flatten)]
    look: super::look::Look,
    #[command(flatten)]
    on: OnArgs,
    /// A program to run on the emulated machine first; its recording stays
    #[arg(last = true, value_name = "COMMAND", requires = "on")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  nearfar top                                the machine, every second
  nearfar top 5 -p 1234                      one process with all its threads, every five seconds
  nearfar top 1 --csv - -n 10                ten readings, every number with its unit and source
  nearfar top 1 --csv - --columns pcm-numa   what pcm-numa -csv prints
  nearfar top --on app-001.nearfar           a counted recording over its simulated time
  nearfar top --on xeon-e5-2699v4-2s --cpus-per-node 4 -- ./app
                                             record on an emulated machine, then show that
";

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (1e-6..=1e6).contains(&s) => Ok(s),
        _ => Err("give between 0.000001 and 1000000 seconds".into()),
    }
}

/// Watches until it is ended.
pub fn run(args: TopArgs) -> Result<ExitCode> {
    match args.on.machine.on.clone() {
        Some(on) => on_recording(&args, &on),
        None => on_host(&args),
    }
}

fn csv(args: &TopArgs) -> Csv {
    match args.columns.as_str() {
        "pcm-numa" => Csv::PcmNuma,
        "pcm-memory" => Csv::PcmMemory,
        _ => Csv::Long,
    }
}

/// Where pages or CSV go.
struct Out<'a> {
    args: &'a TopArgs,
    to: Box<dyn Write>,
    begun: bool,
}

impl<'a> Out<'a> {
    fn open(args: &'a TopArgs) -> Result<Out<'a>> {
        let to: Box<dyn Write> = match args.csv.as_deref() {
            Some(path) if path != Path::new("-") => {
                super::file::may_write(path, args.force.force)?;
                Box::new(create(path).with_context(|| format!("cannot write {}", path.display()))?)
            }
            _ => Box::new(io::stdout()),
        };
        Ok(Out { args, to, begun: false })
    }

    /// `at` is the moment of the frame's end.
    fn write(&mut self, frame: &Frame, at: jiff::Timestamp) -> io::Result<()> {
        if self.args.json {
            self.to.write_all(to_json(frame).as_bytes())?;
            return self.to.flush();
        }
        if self.args.csv.is_none() {
            let (width, color) = self.args.look.resolve();
            self.to.write_all(to_text(frame, width, color).as_bytes())?;
            return self.to.flush();
        }
        let csv = csv(self.args);
        if !self.begun {
            self.begun = true;
            self.to.write_all(csv.begin(frame).as_bytes())?;
        }
        let text = at.to_string();
        let (date, clock) = text.trim_end_matches('Z').split_once('T').unwrap_or((&text, ""));
        // Milliseconds, as PCM has them.
        let clock = clock.get(..12).unwrap_or(clock);
        self.to.write_all(csv.frame(frame, date, clock).as_bytes())?;
        self.to.flush()
    }
}

/// A file that grows while we write. A FIFO that is not read is not waited for.
fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    // From here on a slow reader is waited for.
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok(file)
}

/// Whether there is a screen to show.
fn shows_a_screen(args: &TopArgs) -> bool {
    !args.batch && !args.json && args.csv.is_none() && io::stdout().is_terminal()
}

fn on_host(args: &TopArgs) -> Result<ExitCode> {
    if !args.command.is_empty() {
        bail!(
            "a command needs --on MACHINE; `nearfar where -- COMMAND` watches a program that it starts here"
        );
    }
    let seconds = args.interval.unwrap_or(1.0);
    if seconds < 0.1 {
        bail!(
            "an interval of {seconds} s is too short for this host, whose clocks tick 100 times a second: give 0.1 or more"
        );
    }
    let interval = Duration::from_secs_f64(seconds);
    let started: Vec<(u32, Option<u64>)> = args.pid.iter().map(|&pid| (pid, proc::start_time(pid))).collect();
    if let Some((pid, _)) = started.iter().find(|(_, started)| started.is_none()) {
        bail!("process {pid} does not exist (see `ps -e`)");
    }
    let all_ended = || !started.is_empty() && started.iter().all(|(pid, at)| proc::start_time(*pid) != *at);
    let figures = args
        .machine
        .as_ref()
        .map(|name| {
            let machine = machine_from_argument(name).with_context(|| format!("--as {name}"))?;
            anyhow::Ok((machine, format!("machine file {name}")))
        })
        .transpose()?;
    let mut reader = Reader::new(Wanted { processes: args.pid.clone(), figures, ..Wanted::default() })?;
    if shows_a_screen(args) {
        let machine = reader.machine();
        let title = match args.pid.is_empty() {
            true => format!("{}: {} cpus, {}", machine.name, machine.cpu_count(), nodes(machine.nodes.len())),
            false => {
                format!("process {}", args.pid.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        };
        let mut left = args.count;
        screen::live(&mut reader, title, interval, || {
            left = left.map(|n| n.saturating_sub(1));
            left == Some(0) || all_ended()
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    interrupt_ends_recording();
    let mut out = Out::open(args)?;
    let begin = Instant::now();
    for number in 1.. {
        if !sleep_until(begin + interval.mul_f64(number as f64)) {
            break;
        }
        let frame = reader.frame(None, !args.pid.is_empty(), interval);
        out.write(&frame, jiff::Timestamp::now())?;
        if args.count == Some(number) {
            break;
        }
        if all_ended() {
            nearfar_host::say!(
                "nearfar: {} ended",
                if args.pid.len() == 1 { "the process has" } else { "all processes have" }
            );
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn nodes(number: usize) -> String {
    if number == 1 { "1 node".to_owned() } else { format!("{number} nodes") }
}

/// Whether the moment came before Ctrl-C.
fn sleep_until(due: Instant) -> bool {
    while !INTERRUPTED.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

fn on_recording(args: &TopArgs, on: &str) -> Result<ExitCode> {
    let path = match args.command.is_empty() {
        false => record_first(args, on)?,
        true if Path::new(on).is_dir() => PathBuf::from(on),
        true => bail!(
            "--on {on}: no recording has that name. To run a program on a machine of that name first: \
             nearfar top --on {on} -- COMMAND"
        ),
    };
    let stored = store::open(&path)?;
    let input = &stored.input;
    if input.cpu_epochs.epoch.is_empty() {
        bail!(
            "{} has no counts over time: it was recorded here, by samples. `nearfar report` shows it; \
             `nearfar record --on MACHINE -- COMMAND` counts every access",
            path.display()
        );
    }
    let machine = &input.meta.machine;
    let frames =
        recorded::frames(machine, &input.cpu_epochs, &input.epoch_traffic, args.region, args.interval)
            .with_context(|| format!("cannot show {} over time", path.display()))?;
    let count = args.count.map_or(frames.len(), |n| frames.len().min(n as usize));
    let frames = &frames[..count];
    if shows_a_screen(args) {
        let name = input.meta.command.first().cloned().unwrap_or_default();
        screen::recorded(frames, format!("{name} on {} ({})", machine.name, nodes(machine.nodes.len())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let started: jiff::Timestamp = input.meta.started.parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let mut out = Out::open(args)?;
    for frame in frames {
        let after = jiff::SignedDuration::try_from_secs_f64(frame.at_s).unwrap_or_default();
        out.write(frame, started.checked_add(after).unwrap_or(started))?;
    }
    debug_assert!(frames.iter().all(|f| f.table(Tab::Processes).is_none()));
    Ok(ExitCode::SUCCESS)
}

/// Records the command on the machine, as `record --on` does, and gives the recording's name.
fn record_first(args: &TopArgs, on: &str) -> Result<PathBuf> {
    let options = Options {
        output: None,
        rank: None,
        hz: 997.0,
        min_object: 64 << 10,
        wish: None,
        call_graph: CallGraph::Fp,
        agent: true,
        no_perf: false,
        memory: None,
        look_interval: 1.0,
        max_size: 8 << 30,
        duration: None,
        progress: false,
        objects: None,
        user: None,
        excerpts: None,
        inside_guest: None,
    };
    let outcome = record_on(&args.command, &options, &on_options(on, &args.on, false)?)?;
    if let Some(ending) = outcome.ending.as_ref().filter(|e| !matches!(e, Ending::Exit(0))) {
        nearfar_host::say!("nearfar: the program ended with {}", ending.text());
    }
    nearfar_host::say!(
        "nearfar: {} is kept: nearfar report {}",
        outcome.directory.display(),
        nearfar_host::out::quoted_path(&outcome.directory)
    );
    Ok(outcome.directory)
}
