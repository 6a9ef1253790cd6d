//! `--html FILE`: a page is written as a whole or not at all, and what is there stays unless the user says otherwise.

use super::file::Force;
use super::words::quoted;
use anyhow::{Context, Result};
use nearfar_analyze::Report;
use nearfar_figures::sizes::size;
use nearfar_report::html::{About, Step};
use nearfar_report::placement::to_placement;
use nearfar_report::svg::Picture;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The flags of every command with a page.
#[derive(clap::Args)]
pub(super) struct HtmlArgs {
    /// Write one HTML file for a browser, `-` for standard output; what exists is not overwritten
    #[arg(long, value_name = "FILE", group = "page")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: Force,
    /// Of the page: show source lines and machine instructions around the hottest ones, too
    #[arg(long, requires = "page")]
    pub(super) source: bool,
}

impl HtmlArgs {
    /// Adds source lines to what a page says, where they were asked for.
    pub(super) fn add_sources(&self, about: &mut About, recording: &Path, report: &Report) {
        if self.source {
            let recorded = recording.join("meta.json").metadata().and_then(|m| m.modified()).ok();
            (about.sources, about.sources_missing) = super::sources::gather(report, recorded);
            (about.code, about.code_missing) = super::listing::gather(report);
        }
    }

    /// Writes the page to the file that was asked for.
    pub(super) fn write(&self, file: &Path, page: &str) -> Result<()> {
        super::file::write(file, page, self.force.force)?;
        if file != Path::new("-") {
            nearfar_host::say!(
                "nearfar: {}: {}, open it in a browser",
                file.display(),
                size(page.len() as u64)
            );
        }
        Ok(())
    }
}

/// Writes pictures into a directory, which is made if it is not there.
pub(super) fn write_pictures(directory: &Path, pictures: &[Picture], force: bool) -> Result<()> {
    let made = std::fs::create_dir(directory);
    let fresh = made.is_ok();
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the directory {}", directory.display()));
        }
        _ => {}
    }
    for picture in pictures {
        super::file::write(&directory.join(format!("{}.svg", picture.name)), &picture.svg, force)
            .inspect_err(|_| {
                if fresh {
                    // Only if nothing is in it.
                    let _ = std::fs::remove_dir(directory);
                }
            })?;
    }
    let s = if pictures.len() == 1 { "" } else { "s" };
    nearfar_host::say!("nearfar: {}: {} picture{s}", directory.display(), pictures.len());
    Ok(())
}

/// What the reader of a recording's page types next.
pub(super) fn about(recording: &Path, machine: Option<&str>, report: &Report) -> About {
    let rec = quoted(recording.as_os_str());
    let judged = machine.map_or(String::new(), |m| format!(" --as {}", quoted(m.as_ref())));
    let step = |what: &str, command: String| Step { what: what.to_owned(), command };
    let mut steps = Vec::new();
    if let (Some(placement), _) = to_placement(report) {
        let file = recording.with_extension("placement");
        steps.push(step("write the repair as a placement file", format!("nearfar fix{judged} {rec}")));
        steps.push(step("run with it, without a recompile", super::repair::next(&file, &placement, report)));
    }
    if !report.findings.is_empty() && !report.command.is_empty() {
        let words: Vec<String> = report.command.iter().map(|w| quoted(w.as_ref())).collect();
        let command = words.join(" ");
        steps.push(step(
            "record the changed program",
            format!("nearfar record -o after.nearfar -- {command}"),
        ));
        steps.push(step("compare", format!("nearfar diff{judged} {rec} after.nearfar")));
    }
    About { recording: recording.display().to_string(), steps, ..About::default() }
}
