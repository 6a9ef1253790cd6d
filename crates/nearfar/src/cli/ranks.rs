//! Summaries of ranks, and all of a run together.

use super::judged::{Judged, judged_sharing};
use super::report_flags::ReportArgs;
use super::status::{self, Gate};
use anyhow::{Context, Result};
use nearfar_analyze::Verdict;
use nearfar_compare::ranks::{Found, NoSummary, Run, Summary, merge, summarize};
use nearfar_machine::binding::Bind;
use nearfar_record::ranks::read::{self, RankDir, RunDir};
use nearfar_record::store::SharedFiles;
use nearfar_record::store::dir::Dir;
use nearfar_report::html;
use std::io::IsTerminal;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Recordings that are read at a time, each with its samples in memory. // chosen
const MOST_AT_ONCE: usize = 8;

/// Leaves the summary of a rank whose recording has just been finished.
///
/// # Errors
/// If it cannot be analysed or written. The recording is complete without it.
pub(super) fn leave_summary(recording: &Path) -> Result<()> {
    let dir = Dir::open(recording)?;
    if dir.has(nearfar_record::store::JOURNAL) {
        // It is finished, and summarised, when it is first reported.
        return Ok(());
    }
    let how = How { machine: None, bind: Bind::Compact, whole: false };
    let summary = summary_of(recording, how, &SharedFiles::default())?;
    read::keep(&dir, &summary).context("cannot write its summary")
}

fn summary_of(recording: &Path, how: How, files: &SharedFiles) -> Result<Summary> {
    let Judged { report, meta, modules, machine } =
        judged_sharing(recording, how.machine, how.bind, how.whole, files)?;
    summarize(&report, &meta, &modules, &machine)
        .with_context(|| format!("{} is not the recording of a rank", recording.display()))
}

/// All of its ranks' summaries together.
pub(super) fn merged(run: RunDir, args: &ReportArgs) -> Run {
    let found = found(&run, How { machine: args.machine.as_deref(), bind: args.bind, whole: args.whole });
    let RunDir { launch, notes, .. } = run;
    merge(&launch.launch, &launch.launcher, launch.size, found, notes)
}

/// The page of a run as it is now.
pub(super) fn page_of(path: &Path, args: &ReportArgs) -> Result<String> {
    Ok(html::ranks(&merged(read::open(path)?, args), &path.display().to_string()))
}

/// Whether the recorder of one of its ranks still runs, on this host.
pub(super) fn is_running(path: &Path) -> bool {
    read::open(path)
        .is_ok_and(|run| run.ranks.iter().any(|rank| nearfar_record::store::is_running(&rank.path)))
}

/// A rank that is dead or missing passes no gate.
pub(super) fn gate(fail_on: Option<&str>, run: &Run) -> Gate {
    let verdict = run.verdict();
    status::gate(fail_on, verdict == Verdict::Affected, verdict != Verdict::Clean)
}

/// How recordings are judged.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    /// The machine that is asked for.
    pub machine: Option<&'a str>,
    /// How threads are laid out on an assumed one.
    pub bind: Bind,
    /// Whether a marked region of interest does not count.
    pub whole: bool,
}

impl How<'_> {
    /// Whether the summaries that ranks leave are of this.
    fn as_recorded(self) -> bool {
        self.machine.is_none() && self.bind == Bind::Compact && !self.whole
    }
}

/// The summaries of all ranks. Where a recorder was killed, or another machine is asked for, one is made of the
/// recording: several at a time, since each spends much of its time in one thread.
pub(super) fn found(run: &RunDir, how: How) -> Vec<Found> {
    let ranks = &run.ranks;
    let results: Vec<Mutex<Option<Found>>> = ranks.iter().map(|_| Mutex::new(None)).collect();
    let (next, terminal) = (AtomicUsize::new(0), std::io::stderr().is_terminal());
    let files = SharedFiles::default();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(rank) = ranks.get(at) else { return };
            let one = found_of(rank, how, &files, terminal);
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(one);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_AT_ONCE);
    std::thread::scope(|scope| (0..workers).for_each(|_| _ = scope.spawn(work)));
    if terminal {
        nearfar_host::out::progress("");
    }
    results.into_iter().filter_map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// The summary of a rank.
fn found_of(rank: &RankDir, how: How, files: &SharedFiles, terminal: bool) -> Found {
    let summary = match rank.summary() {
        Ok(summary) if how.as_recorded() => Ok(summary),
        Err(NoSummary::Killed) if !rank.can_be_completed() => Err(NoSummary::Killed),
        Ok(_) | Err(NoSummary::Killed) => {
            if terminal {
                nearfar_host::out::progress(&format!("nearfar: reading the recording of rank {}", rank.rank));
            }
            let made = summary_of(&rank.path, how, files);
            if let (Ok(summary), true) = (&made, how.as_recorded()) {
                // Of another user's run, or where no room exists, it is made again the next time.
                let _ = rank.keep(summary);
            }
            made.map_err(|error| NoSummary::Damaged(format!("{error:#}")))
        }
        Err(why) => Err(why),
    };
    Found { host: rank.host.clone(), rank: rank.rank, summary: summary.map(Box::new) }
}
