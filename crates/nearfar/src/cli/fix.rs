//! `nearfar fix`.

use super::file;
use super::fix_flags::FixArgs;
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
    if is_run(&path) {
        return super::fix_run::run(&path, args);
    }
    let report = judged(&path, args.machine.as_deref(), args.bind, false)?;
    let (placement, left) = to_placement(&report);
    for line in &left {
        nearfar_host::say!("nearfar: not in the file: {line}");
    }
    let Some(placement) = placement else {
        nearfar_host::say!("nearfar: nothing to place: {}", nothing(&report));
        return Ok(ExitCode::SUCCESS);
    };
    let text = placement.file.to_toml();
    let file = args.output.clone().unwrap_or_else(|| path.with_extension("placement"));
    file::write(&file, &text, args.force.force)?;
    if file == Path::new("-") {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<&str> = placement.file.objects.iter().map(|o| o.label()).collect();
    nearfar_host::say!(
        "nearfar: {}: places {}; gain {}",
        file.display(),
        names.join(", "),
        placement.predicted
    );
    let nodes = discover::discover(Path::new("/")).map_or(0, |here| here.machine.nodes.len());
    for line in next_steps(&file, &placement, &report, nodes) {
        nearfar_host::say!("nearfar: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What to type, on a machine of so many nodes.
fn next_steps(file: &Path, placement: &Placement, report: &Report, nodes: usize) -> Vec<String> {
    let here = next(file, placement, report);
    if nodes != 1 {
        return vec![format!("next: {here}")];
    }
    let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
    let file = quoted(file.as_os_str());
    vec![
        format!("this machine has one node, where nothing can be placed. On one that has several: {here}"),
        format!(
            "on the emulated machine that was recorded, or another: nearfar record {EMULATED} --placement {file} -- {}",
            words.join(" ")
        ),
    ]
}
