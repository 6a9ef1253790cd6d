//! `nearfar fix`.

use super::file;
use super::fix_flags::FixArgs;
use super::fix_said::Said;
use super::judged::judged;
use super::machine::EMULATED;
use super::repair::{next, nothing};
use super::words::quoted;
use anyhow::Result;
use nearfar_analyze::Report;
use nearfar_host::discover;
use nearfar_record::ranks;
use nearfar_record::ranks::read::is_run;
use nearfar_report::placement::{Placement, to_placement};
use std::path::Path;
use std::process::ExitCode;

/// Writes the file, and says what is in it and what is not.
pub(super) fn run(args: &FixArgs) -> Result<ExitCode> {
    let path = match &args.recording {
        Some(path) => path.clone(),
        None => ranks::newest(Path::new("."))?,
    };
    if let Some(to) = args.to {
        return super::fix_to::run(&path, to, args);
    }
    if is_run(&path) {
        return super::fix_run::run(&path, args);
    }
    let report = judged(&path, args.machine.as_deref(), args.bind, false)?;
    let (placement, left) = to_placement(&report);
    let mut said = Said::new(args)?;
    left.into_iter().for_each(|line| said.left("", line));
    let Some(placement) = placement else {
        let why = nothing(&report);
        said.nothing(&format!("nothing to place: {why}"), why.clone());
        said.end()?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = placement.file.to_toml();
    let file = args.output.clone().unwrap_or_else(|| path.with_extension("placement"));
    file::write(&file, &text, args.force.force)?;
    if file == Path::new("-") {
        return Ok(ExitCode::SUCCESS);
    }
    said.file(&file, None, &placement);
    let nodes = discover::discover(Path::new("/")).map_or(0, |here| here.machine.nodes.len());
    next_steps(&mut said, &file, &placement, &report, nodes);
    said.end()?;
    Ok(ExitCode::SUCCESS)
}

/// What to type, on a machine of so many nodes.
fn next_steps(said: &mut Said, file: &Path, placement: &Placement, report: &Report, nodes: usize) {
    let here = next(file, placement, report);
    if nodes != 1 {
        said.next("next", "here", here);
        return;
    }
    let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
    let file = quoted(file.as_os_str());
    said.next(
        "this machine has one node, where nothing can be placed. On one that has several",
        "several nodes",
        here,
    );
    said.next(
        "on the emulated machine that was recorded, or another",
        "an emulated machine",
        format!("nearfar record {EMULATED} --placement {file} -- {}", words.join(" ")),
    );
}
