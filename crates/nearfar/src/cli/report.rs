//! `nearfar report`.

use super::judged::{judged, judged_running, typed};
use super::ranks::{gate, merged};
use super::report_flags::ReportArgs;
use super::{html, show, status, web};
use anyhow::{Result, bail};
use nearfar_analyze::Verdict;
use nearfar_record::ranks::read::{self, is_run};
use nearfar_record::{ranks, store};
use nearfar_report::html::ranks as page_of_ranks;
use nearfar_report::phases::{Quantity, Wanted, phases_json};
use nearfar_report::ranks::{to_json as ranks_to_json, to_text as ranks_to_text};
use nearfar_report::{callers, svg, to_details, to_html, to_json, to_phases, to_text};
use std::path::Path;
use std::process::ExitCode;

/// Analyses a recording and prints the report.
pub fn run(args: ReportArgs) -> Result<ExitCode> {
    let path = match args.recording.clone() {
        Some(path) => path,
        None => ranks::newest(Path::new("."))?,
    };
    match (is_run(&path), args.rank) {
        (true, Some(rank)) => of_recording(&read::open(&path)?.rank(rank)?.path, &args),
        (true, None) => of_ranks(&path, &args),
        (false, Some(rank)) => bail!("--rank {rank}: {} is not a run of several ranks", path.display()),
        (false, None) => of_recording(&path, &args),
    }
}

fn of_recording(path: &Path, args: &ReportArgs) -> Result<ExitCode> {
    if args.web {
        return web::of_recording(path, args);
    }
    // A recording that runs for hours is worth a look before its end.
    let judged = if store::is_running(path) { judged_running } else { judged };
    let report = judged(path, args.machine.as_deref(), args.bind, args.whole)?;
    if let Some(file) = &args.html.html {
        let mut about = html::about(path, args.machine.as_deref(), &report);
        args.html.add_sources(&mut about, path, &report);
        args.html.write(file, &to_html(&report, &about))?;
    } else if let Some(directory) = &args.svg_dir {
        html::write_pictures(directory, &svg::pictures(&report), args.html.force.force)?;
    } else if args.json && args.phases.is_some() {
        show::page(&phases_json(&report))?;
    } else if args.json {
        show::page(&(to_json(&report) + "\n"))?;
    } else {
        let (width, color) = args.look.resolve();
        let mut text = match (&args.phases, args.details) {
            (Some(of), _) => {
                let quantity = Quantity::ALL.into_iter().find(|q| q.name() == of).unwrap_or(Quantity::Time);
                let wanted = Wanted { quantity, threads: args.per_thread };
                to_phases(&report, wanted, width, color)
            }
            (None, true) => to_details(&report, &path.display().to_string(), width, color),
            (None, false) => {
                let again = typed(args.machine.as_deref(), args.bind, path);
                to_text(&report, &path.display().to_string(), &again, width, color)
            }
        };
        if args.callers {
            text += &callers(&report, width, color);
        }
        show::page(&text)?;
    }
    if let (Some(_), Some(early)) = (&args.fail_on, &report.ended_early) {
        nearfar_host::say!("nearfar: the run ended early ({early}): it passes no gate (--fail-on)");
    }
    let bad = report.verdict == Verdict::Affected;
    let unknown = report.verdict == Verdict::Unknown || report.ended_early.is_some();
    Ok(status::gate(args.fail_on.as_deref(), bad, unknown).into())
}

/// Reports a run of several ranks.
fn of_ranks(path: &Path, args: &ReportArgs) -> Result<ExitCode> {
    let run = read::open(path)?;
    for (asked, flag) in
        [(args.html.source, "--source"), (args.phases.is_some(), "--phases"), (args.callers, "--callers")]
    {
        if asked {
            bail!("{flag} shows one rank: add --rank N ({} is a run of several)", path.display());
        }
    }
    if args.web {
        return web::of_run(path, args);
    }
    let merged = merged(run, args);
    let name = path.display().to_string();
    if let Some(file) = &args.html.html {
        args.html.write(file, &page_of_ranks(&merged, &name))?;
    } else if let Some(directory) = &args.svg_dir {
        html::write_pictures(directory, &svg::of_ranks(&merged), args.html.force.force)?;
    } else if args.json {
        show::page(&ranks_to_json(&merged))?;
    } else {
        let (width, color) = args.look.resolve();
        show::page(&ranks_to_text(&merged, &name, width, color))?;
    }
    Ok(gate(args.fail_on.as_deref(), &merged).into())
}
