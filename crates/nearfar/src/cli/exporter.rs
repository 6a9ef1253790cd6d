//! `nearfar exporter`.

use super::judged::judged;
use crate::live::read::{Reader, Wanted};
use crate::live::server;
use anyhow::{Context, Result, bail};
use clap::Args;
use nearfar_host::proc;
use nearfar_host::target::{INTERRUPTED, interrupt_ends_recording};
use nearfar_machine::binding::Bind;
use nearfar_observed::live::metrics::{Metrics, of_checks, of_host, of_recording};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Serve the machine's counters, chosen processes and a recording's verdict to Prometheus
///
/// OpenMetrics on /metrics, read anew for each scrape. Numbers without a source are left out, and
/// nearfar_source_available says why. Processes have numbers only if -p, --name or --all chooses them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExporterArgs {
    /// Address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9843")]
    listen: SocketAddr,
    /// Let other hosts ask: needed for addresses that are not this host's own (127.0.0.1, ::1)
    #[arg(long)]
    public: bool,
    /// Also these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = super::parse::parse_pid())]
    pid: Vec<u32>,
    /// Also all processes of this name (as `ps -o comm` has it)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,
    /// Also all processes; the largest ones, if there are more than --most
    #[arg(long, conflicts_with_all = ["pid", "name"])]
    all: bool,
    /// At most so many processes: each has a dozen time series
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    most: u32,
    /// Also the verdict and the shares of this recording, with their source
    #[arg(long, value_name = "REC")]
    recording: Vec<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  nearfar exporter                            nodes and cpus
  nearfar exporter --name postgres,java       and these processes
  nearfar exporter --recording app.nearfar    and what was found of a program
  curl -s http://127.0.0.1:9843/metrics

share/grafana/nearfar.json is a dashboard of these numbers; docs/exporter.md lists them.
";

/// A reading is used again by scrapes that come this soon after it.
const FRESH: Duration = Duration::from_millis(200);

/// Serves until it is interrupted.
pub fn run(args: &ExporterArgs) -> Result<ExitCode> {
    if !args.listen.ip().is_loopback() && !args.public {
        bail!(
            "--listen {}: other hosts could ask there, and would learn names of processes, objects and recordings. \
             If that is meant: --public",
            args.listen
        );
    }
    if let Some(pid) = args.pid.iter().find(|pid| proc::start_time(**pid).is_none()) {
        bail!("process {pid} does not exist (see `ps -e`)");
    }
    let mut recorded = Vec::new();
    for path in &args.recording {
        let report = judged(path, None, Bind::Compact, false)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        recorded.push((report, name));
    }
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    interrupt_ends_recording();
    // With -p only these are read; a name may be anybody's.
    let only = if args.name.is_empty() { args.pid.clone() } else { Vec::new() };
    let nobody = args.pid.is_empty() && args.name.is_empty() && !args.all;
    let reader =
        Reader::new(Wanted { processes: only, figures: None, no_processes: nobody, no_threads: true })?;
    let state = Mutex::new((reader, Instant::now()));
    nearfar_host::say!("nearfar: serving http://{}/metrics until Ctrl-C", listener.local_addr()?);
    let page = |format| {
        let mut metrics = Metrics::default();
        {
            // One reading at a time; a reader that panicked is still a reader.
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if state.1.elapsed() >= FRESH {
                state.0.read_again();
                state.1 = Instant::now();
            }
            let (host, reading) = (state.0.host(), state.0.reading());
            let mut chosen: Vec<(u64, u32)> = reading
                .processes
                .iter()
                .filter(|(pid, p)| args.all || args.pid.contains(pid) || args.name.contains(&p.stat.name))
                .map(|(pid, p)| (p.stat.resident_pages, *pid))
                .collect();
            chosen.sort_unstable_by(|a, b| b.cmp(a));
            chosen.truncate(args.most as usize);
            if let Some(checked) = state.0.checked() {
                of_checks(&mut metrics, checked);
            }
            of_host(&mut metrics, host, reading, |pid, _| chosen.iter().any(|(_, c)| *c == pid));
        }
        recorded.iter().for_each(|(report, name)| of_recording(&mut metrics, report, name));
        metrics.to_text(format)
    };
    server::serve(&listener, page, || INTERRUPTED.load(Ordering::Relaxed))?;
    Ok(ExitCode::SUCCESS)
}
