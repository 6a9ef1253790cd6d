//! `nearfar doctor`: which sources work here, why the others do not, what unlocks them.

use super::look;
use super::look::wrapped;
use crate::live::reference_load;
use anyhow::Result;
use clap::Args;
use nearfar_figures::percent::percent;
use nearfar_guest::{Kernel, Qemu};
use nearfar_host::confined::{Confined, confined};
use nearfar_host::discover::{self, cpu_times};
use nearfar_host::page_nodes::{Range, look};
use nearfar_host::target::find_program;
use nearfar_observed::live::checks::Outcome;
use nearfar_record::collect::agent::{AgentFile, Settings};
use nearfar_record::collect::on::parts::parts;
use nearfar_record::collect::selftest::{Skid, measure_skid};
use nearfar_record::collect::setup::{probe_memory, probe_perf};
use nearfar_recording::PageNodes;
use nearfar_report::live::checks_to_text;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Say which sources work here, why the others do not, and the command that unlocks each
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Run known loads on every node instead, and compare each counter with what it must have seen; `top` and
    /// `exporter` then flag those that are off by more than 10 %. Takes seconds per pair of nodes
    #[arg(long)]
    counters: bool,
    /// Build the virtual machine's plugin by cargo in SOURCES, a checkout of nearfar, and put it beside this command:
    /// `cargo install --path crates/nearfar` leaves it out
    #[arg(long, value_name = "SOURCES", conflicts_with_all = ["counters", "json"])]
    install_plugin: Option<PathBuf>,
    #[command(flatten)]
    look: look::Look,
}

/// What was found.
#[derive(Serialize)]
struct Diagnosis {
    sources: Vec<SourceState>,
    machine: MachineState,
    /// What limits this process more than the machine does.
    confined: Vec<Confined>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct SourceState {
    source: &'static str,
    /// What it gives.
    gives: &'static str,
    works: bool,
    /// Evidence that it works, or why it does not.
    why: String,
    /// The command that unlocks it; null if it works or nothing does.
    unlock: Option<String>,
}

#[derive(Serialize)]
struct MachineState {
    name: String,
    nodes: usize,
    cpus: usize,
    virtual_machine: bool,
    numa_balancing: Option<i32>,
    transparent_huge_pages: Option<String>,
    folio_bytes: Vec<u64>,
    perf_event_paranoid: Option<i32>,
    allowed_cpus: Option<String>,
    allowed_nodes: Option<String>,
    /// Share of the last half second that the hypervisor took; null if unknown.
    steal_share: Option<f64>,
    warnings: Vec<String>,
}

/// Half a second tells whether a neighbour is taking the cpus now.
const STEAL_WINDOW: Duration = Duration::from_millis(500);

/// Columns below which texts stand below their names, not beside them. // chosen
const NARROW: usize = 80;

/// Looks at everything that recordings need and prints what it finds.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(sources) = &args.install_plugin {
        super::install_plugin::install(sources)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.counters {
        return counters(args);
    }
    let diagnosis = diagnose()?;
    if args.json {
        super::show::page(&nearfar_figures::json::pretty(&diagnosis))?;
    } else {
        let (width, color) = args.look.resolve();
        let mut text = nearfar_figures::escape::page(&text(&diagnosis, width)).into_owned();
        if color {
            text = text.replace("\nworks ", "\n\x1b[32mworks\x1b[0m ");
        }
        super::show::page(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Counters beside known loads; kept for `top` and `exporter`.
fn counters(args: &DoctorArgs) -> Result<ExitCode> {
    let host = discover::discover(Path::new("/"))?;
    let checked = reference_load::check(&host.machine, &mut |what| nearfar_host::say!("nearfar: {what}"))?;
    let json = nearfar_figures::json::pretty(&checked);
    if let Some(file) = reference_load::file() {
        let kept = file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| nearfar_host::output::replace(&file, json.as_bytes()));
        match kept {
            Ok(()) => nearfar_host::say!("nearfar: kept in {} for `top` and `exporter`", file.display()),
            Err(why) => nearfar_host::say!("nearfar: cannot be kept in {}: {why}", file.display()),
        }
    }
    if args.json {
        nearfar_host::out::page(&json)?;
    } else {
        let (width, color) = args.look.resolve();
        nearfar_host::out::page(&checks_to_text(&checked, width, color))?;
    }
    let off = checked.checks.iter().any(|c| c.outcome == Outcome::Off);
    Ok(ExitCode::from(if off { super::status::CAUGHT } else { 0 }))
}

fn diagnose() -> Result<Diagnosis> {
    let before = cpu_times(Path::new("/"));
    let host = discover::discover(Path::new("/"))?;
    let sources = vec![simulated(), hardware(), clock(), signal(), first_touches(), page_nodes()];
    std::thread::sleep(STEAL_WINDOW);
    let steal = before.zip(cpu_times(Path::new("/"))).and_then(|(b, now)| now.steal_share_since(&b));
    let kernel = &host.kernel;
    let machine = MachineState {
        name: host.machine.name.clone(),
        nodes: host.machine.nodes.len(),
        cpus: host.machine.nodes.iter().map(|n| n.cpus.len()).sum(),
        virtual_machine: kernel.virtual_machine == Some(true),
        numa_balancing: kernel.numa_balancing,
        transparent_huge_pages: kernel.thp.clone(),
        folio_bytes: kernel.folio_bytes.clone(),
        perf_event_paranoid: kernel.perf_event_paranoid,
        allowed_cpus: kernel.allowed_cpus.as_ref().map(ToString::to_string),
        allowed_nodes: kernel.allowed_mems.as_ref().map(ToString::to_string),
        steal_share: steal,
        warnings: host.warnings.clone(),
    };
    Ok(Diagnosis { notes: notes(&machine, &sources), sources, machine, confined: confined() })
}

fn simulated() -> SourceState {
    let mut state = SourceState {
        source: "simulated",
        gives: "every access, counted exactly, on a machine you do not have (--on)",
        works: false,
        why: String::new(),
        unlock: None,
    };
    match virtual_machine() {
        Ok(why) => (state.works, state.why) = (true, why),
        Err((why, unlock)) => (state.why, state.unlock) = (why, unlock),
    }
    state
}

/// What a virtual machine would run with; else what is missing, and the command that brings it.
fn virtual_machine() -> Result<String, (String, Option<String>)> {
    let qemu =
        Qemu::find().map_err(|error| (error.to_string(), Some("sudo apt install qemu-system-x86".into())))?;
    qemu.require_plugins().map_err(|error| (error.to_string(), None))?;
    parts().map_err(|error| (error.to_string(), None))?;
    match Kernel::here().map_err(|error| (error.to_string(), None))? {
        Some(kernel) => {
            Ok(format!("QEMU {} with kernel {} ({})", qemu.version, kernel.release, kernel.image.display()))
        }
        None if find_program("apt-get".as_ref()).is_ok() => Ok(format!(
            "QEMU {}; the guest's kernel is downloaded from Debian's archive when it is first needed (70 MB, apt-get)",
            qemu.version
        )),
        None => Err((
            "the guest has no kernel yet, and apt-get is missing, which downloads Debian's".into(),
            Some("export NEARFAR_GUEST_KERNEL=linux-image-VERSION-amd64.deb, Debian's package".into()),
        )),
    }
}

fn hardware() -> SourceState {
    let mut state = SourceState {
        source: "hardware",
        gives: "which loads memory answered, of which node, in how many cycles",
        works: false,
        why: String::new(),
        unlock: None,
    };
    match probe_memory() {
        Ok(why) => (state.works, state.why) = (true, why),
        Err((why, unlock)) => {
            state.unlock = unlock.or_else(|| command_in(&why));
            state.why = why;
        }
    }
    state
}

fn clock() -> SourceState {
    let mut state = SourceState {
        source: "clock",
        gives: "where time goes, by object and line",
        works: false,
        why: String::new(),
        unlock: None,
    };
    match probe_perf() {
        Err(why) => {
            state.unlock = command_in(&why);
            state.why = why;
        }
        Ok(()) => {
            let supported = nearfar_decode::supported(std::env::consts::ARCH);
            let skid = if supported { measure_skid() } else { Skid::Unsupported };
            state.works = matches!(skid, Skid::Holds(_) | Skid::Untested);
            state.why = skid.text();
        }
    }
    state
}

fn signal() -> SourceState {
    let agent = AgentFile::create(&Settings::default());
    SourceState {
        source: "signal",
        gives: "the same from timers in the program, where perf is forbidden",
        works: agent.is_ok(),
        why: match &agent {
            Ok(_) => "the agent can be preloaded (dynamically linked programs, not setuid ones)".into(),
            Err(error) => format!("the agent cannot be set up: {error}"),
        },
        unlock: agent.is_err().then(|| "export XDG_CACHE_HOME=DIR, a directory that allows execution".into()),
    }
}

fn first_touches() -> SourceState {
    let probe = probe_perf();
    SourceState {
        source: "pages: first touches",
        gives: "which thread placed each page, at which line",
        works: probe.is_ok(),
        why: match &probe {
            Ok(()) => "page-fault events work".into(),
            Err(why) => why.clone(),
        },
        unlock: probe.err().as_deref().and_then(command_in),
    }
}

fn page_nodes() -> SourceState {
    let probe = [0u8; 4096];
    let range = Range { process: 0, address: probe.as_ptr() as u64, bytes: 4096 };
    let answer = look(0, range, 4096, 1, 0, &mut PageNodes::default());
    std::hint::black_box(&probe);
    SourceState {
        source: "pages: nodes",
        gives: "on which node pages are",
        works: answer.is_ok(),
        why: match &answer {
            Ok(()) => "move_pages answers".into(),
            Err(error) => format!("move_pages is refused: {error}"),
        },
        unlock: answer.is_err().then(|| "docker run --cap-add SYS_NICE, or without a seccomp profile".into()),
    }
}

/// The command quoted in an explanation, between backticks.
fn command_in(why: &str) -> Option<String> {
    let mut parts = why.split('`');
    parts.nth(1).map(str::to_owned)
}

fn notes(machine: &MachineState, sources: &[SourceState]) -> Vec<String> {
    let mut notes = Vec::new();
    let works = |name: &str| sources.iter().any(|r| r.source == name && r.works);
    if machine.nodes < 2 {
        notes.push(
            "One node: no memory is far here. `nearfar report` predicts for a machine of two nodes, or for the \
             one that --as names."
                .into(),
        );
    }
    if !works("pages: first touches") && machine.nodes < 2 {
        notes.push(
            "Without page-fault events the first toucher of a page is unknown, so nothing can be predicted for \
             another machine; verdicts will be `unknown`."
                .into(),
        );
    }
    match machine.numa_balancing {
        Some(mode) if mode > 0 => notes.push(
            "Automatic NUMA balancing is on: the kernel moves pages towards their users while a program runs."
                .into(),
        ),
        _ => {}
    }
    if machine.transparent_huge_pages.as_deref() == Some("always") {
        notes.push(
            "Transparent huge pages are `always`: a first touch places 2 MiB, which may straddle the parts of \
             two threads."
                .into(),
        );
    }
    if let Some(share) = machine.steal_share.filter(|s| *s > 0.02) {
        notes.push(format!(
            "The hypervisor took {} of the cpu time in the last half second: times vary, shares less so.",
            percent(share)
        ));
    }
    notes.extend(machine.warnings.iter().cloned());
    notes
}

fn text(d: &Diagnosis, width: usize) -> String {
    let mut out = String::new();
    let m = &d.machine;
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
    let head = format!(
        "{}: {} NUMA node{}, {} cpus{}",
        m.name,
        m.nodes,
        if m.nodes == 1 { "" } else { "s" },
        m.cpus,
        if m.virtual_machine { ", a virtual machine" } else { "" }
    );
    out += &wrapped(0, &head, width);
    let settings = format!(
        "numa_balancing {}, transparent huge pages {}, perf_event_paranoid {}, stolen time {}",
        or_unknown(m.numa_balancing.map(|b| b.to_string())),
        or_unknown(m.transparent_huge_pages.clone()),
        or_unknown(m.perf_event_paranoid.map(|p| p.to_string())),
        or_unknown(m.steal_share.map(percent)),
    );
    out += &wrapped(0, &settings, width);
    let allowed = format!(
        "this shell may use cpus {} and memory of nodes {}",
        or_unknown(m.allowed_cpus.clone()),
        or_unknown(m.allowed_nodes.clone())
    );
    out += &wrapped(0, &allowed, width);
    out.push('\n');
    // Beside a name of 28 letters a narrow page has no room for sentences: they stand below it.
    let hang = if width < NARROW { 4 } else { 29 };
    let beside = |name: &str, text: &str| match width < NARROW {
        true => format!("{}\n{}", name.trim_end(), wrapped(hang, text, width)),
        false => format!("{name:<29}{}", wrapped(hang, text, width).trim_start()),
    };
    for limit in &d.confined {
        out += &beside("limited", &limit.what);
        out += &wrapped(hang, &format!("by {}", limit.by), width);
        if let Some(unlock) = &limit.unlock {
            out += &wrapped(hang, &format!("unlock: {unlock}"), width);
        }
    }
    if !d.confined.is_empty() {
        out.push('\n');
    }
    for source in &d.sources {
        let mark = if source.works { "works" } else { "no   " };
        out += &beside(&format!("{mark}  {}", source.source), source.gives);
        out += &wrapped(hang, &source.why, width);
        if let Some(unlock) = &source.unlock {
            // To be copied: in one line. Writing to a String cannot fail.
            let _ = writeln!(out, "{:hang$}unlock: {unlock}", "");
        }
    }
    if !d.notes.is_empty() {
        out.push('\n');
    }
    for note in &d.notes {
        out += "- ";
        out += wrapped(2, note, width).trim_start();
    }
    out
}
