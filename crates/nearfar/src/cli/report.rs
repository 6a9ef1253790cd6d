//! `nearfar report`.

use super::{ReportArgs, status};
use crate::discover::machine_from_argument;
use crate::store;
use anyhow::{Context, Result};
use nearfar_model::analyze::{Judge, Report, Verdict, analyze_owned};
use nearfar_model::machine::Machine;
use nearfar_model::machine::binding::Bind;
use nearfar_model::recording::Meta;
use nearfar_model::report::{to_html, to_json, to_text};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Analyses a recording and prints the report.
pub fn run(args: ReportArgs) -> Result<ExitCode> {
    let path = match args.recording {
        Some(path) => path,
        None => store::newest_recording(Path::new("."))?,
    };
    let report = judged(&path, args.machine.as_deref(), args.bind, args.whole)?;
    let mut out = std::io::stdout().lock();
    if let Some(file) = &args.html.html {
        let mut about = super::html::about(&path, args.machine.as_deref(), &report);
        args.html.add_sources(&mut about, &path, &report);
        // The page may go to standard output.
        drop(out);
        args.html.write(file, &to_html(&report, &about))?;
    } else if args.json {
        writeln!(out, "{}", to_json(&report))?;
    } else {
        let (width, color) = args.look.resolve();
        write!(out, "{}", to_text(&report, width, color))?;
    }
    if let (Some(_), Some(early)) = (&args.fail_on, &report.ended_early) {
        crate::say!("nearfar: the run ended early ({early}): it passes no gate (--fail-on)");
    }
    let bad = report.verdict == Verdict::Affected;
    let unknown = report.verdict == Verdict::Unknown || report.ended_early.is_some();
    Ok(status::gate(args.fail_on.as_deref(), bad, unknown).into())
}

/// The report of a recording.
pub(super) fn judged(path: &Path, machine: Option<&str>, bind: Bind, whole: bool) -> Result<Report> {
    let stored = store::open(path)?;
    let judge = judge(machine, &stored.input.meta, bind, whole)?;
    let mut report = analyze_owned(stored.input, &stored.samples, &judge)
        .with_context(|| format!("cannot analyse {}", path.display()))?;
    report.notes.extend(stored.remarks);
    report.notes.extend(stored.samples.unusable());
    Ok(report)
}

/// Which machine to judge by: the one asked for, the one wished at the recording,
/// the recorded one if it has several nodes, else two of it.
fn judge(asked: Option<&str>, meta: &Meta, bind: Bind, whole: bool) -> Result<Judge> {
    let recorded = || Judge { machine: meta.machine.clone(), assume: None, whole };
    let argument = match (asked, &meta.wish) {
        (Some("here"), _) => return Ok(recorded()),
        (Some(asked), _) => asked.to_owned(),
        (None, Some(wish)) => wish.clone(),
        (None, None) if meta.machine.nodes.len() > 1 => return Ok(recorded()),
        (None, None) => {
            let cpus: usize = meta.machine.nodes.iter().map(|n| n.cpus.len()).sum();
            let machine = Machine::from_shape(&format!("2x{}", cpus.max(1)))?;
            return Ok(Judge { machine, assume: Some(bind), whole });
        }
    };
    let machine = machine_from_argument(&argument).with_context(|| format!("--as {argument}"))?;
    Ok(Judge { machine, assume: Some(bind), whole })
}
