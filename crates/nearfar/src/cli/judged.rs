//! The report of a recording, judged by the machine that was asked for.

use super::words::quoted;
use anyhow::{Context, Result, bail};
use nearfar_analyze::{Judge, Report, analyze_owned};
use nearfar_compare::ranks::slice;
use nearfar_host::discover::{machine_with_figures, machine_without_a_file};
use nearfar_host::live::Busy;
use nearfar_machine::Machine;
use nearfar_machine::binding::Bind;
use nearfar_machine::cpulist::CpuList;
use nearfar_record::store;
use nearfar_recording::{Meta, Modules};
use std::path::Path;

/// What is typed behind a command to judge a recording in the same way.
pub(super) fn typed(machine: Option<&str>, bind: Bind, recording: &Path) -> String {
    let machine = machine.map_or(String::new(), |machine| format!("--as {} ", quoted(machine.as_ref())));
    let bind = if bind == Bind::Compact { String::new() } else { format!("--bind {bind} ") };
    format!("{machine}{bind}{}", quoted(recording.as_os_str()))
}

/// The report of a recording.
pub(super) fn judged(path: &Path, machine: Option<&str>, bind: Bind, whole: bool) -> Result<Report> {
    Ok(judged_with(path, machine, bind, whole)?.report)
}

/// A report with what it was made of.
pub(super) struct Judged {
    /// The report.
    pub report: Report,
    /// What the recording says about itself.
    pub meta: Meta,
    /// The program's files.
    pub modules: Modules,
    /// The machine that it was judged by; of a rank, with the rank's own cpus only.
    pub machine: Machine,
}

/// The same with what it was made of.
pub(super) fn judged_with(path: &Path, machine: Option<&str>, bind: Bind, whole: bool) -> Result<Judged> {
    let stored = {
        let _busy = Busy::with(format!("reading {}", path.display()));
        store::open(path)?
    };
    let _busy = Busy::with(format!("analysing {}", path.display()));
    judged_as(stored, path, machine, bind, whole)
}

/// The same of one of several recordings of the same files.
pub(super) fn judged_sharing(
    path: &Path,
    machine: Option<&str>,
    bind: Bind,
    whole: bool,
    files: &store::SharedFiles,
) -> Result<Judged> {
    judged_as(store::open_sharing(path, files)?, path, machine, bind, whole)
}

/// The report of a recording that may still be running.
pub(super) fn judged_running(path: &Path, machine: Option<&str>, bind: Bind, whole: bool) -> Result<Report> {
    Ok(judged_as(store::open_running(path)?, path, machine, bind, whole)?.report)
}

fn judged_as(
    stored: store::Stored,
    path: &Path,
    machine: Option<&str>,
    bind: Bind,
    whole: bool,
) -> Result<Judged> {
    let judge = judge(machine, &stored.input.meta, bind, whole)?;
    let (meta, modules) = (stored.input.meta.clone(), stored.input.modules.clone());
    let mut report = analyze_owned(stored.input, &stored.samples, &judge)
        .with_context(|| format!("cannot analyse {}", path.display()))?;
    report.notes.extend(stored.remarks);
    report.notes.extend(stored.samples.unusable());
    if let (Some(rank), Some(_)) = (&meta.rank, judge.assume) {
        let cpus: CpuList = judge.machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
        report.notes.push(format!(
            "This is rank {} of a launch: on the assumed machine it has the cpus {cpus} (docs/ranks.md).",
            rank.rank
        ));
    }
    Ok(Judged { report, meta, modules, machine: judge.machine })
}

/// Which machine to judge by: the one asked for, the one wished at the recording,
/// the recorded one if it has several nodes, else two of it.
pub(super) fn judge(asked: Option<&str>, meta: &Meta, bind: Bind, whole: bool) -> Result<Judge> {
    let of_rank = |machine: Machine| match &meta.rank {
        Some(rank) => slice::of_rank(&machine, &meta.machine, rank),
        None => machine,
    };
    let recorded = || Judge { machine: meta.machine.clone(), assume: None, whole };
    let machine = match (asked, &meta.wish) {
        (Some("here"), _) => return Ok(recorded()),
        (Some(asked), _) => machine_with_figures(asked).with_context(|| format!("--as {asked}"))?,
        (None, Some(wish)) => wished(wish, meta)?,
        (None, None) if meta.machine.nodes.len() > 1 => return Ok(recorded()),
        (None, None) => {
            let cpus: usize = meta.machine.nodes.iter().map(|n| n.cpus.len()).sum();
            let machine = machine_with_figures(&format!("2x{}", cpus.max(1)))?;
            return Ok(Judge { machine: of_rank(machine), assume: Some(bind), whole });
        }
    };
    Ok(Judge { machine: of_rank(machine), assume: Some(bind), whole })
}

/// The machine that `record --as` asked for. Older recordings have only its name: no file of this host is opened
/// because a recording names it.
fn wished(name: &str, meta: &Meta) -> Result<Machine> {
    if let Some(machine) = &meta.wished_machine {
        return Ok(machine.clone());
    }
    machine_without_a_file(name).unwrap_or_else(|| {
        bail!(
            "the recording asks to be judged by the machine file `{name}`, which is not in it, and files that a \
             recording names are not opened. If that is your file, name it: --as {name}; --as here judges by the \
             machine that was recorded"
        )
    })
}
