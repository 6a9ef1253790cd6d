//! `nearfar list`: the recordings of a directory, by what they say of themselves. None is analysed.

use super::look::Look;
use super::show;
use anyhow::Result;
use nearfar_analyze::Verdict;
use nearfar_figures::columns::{columns as letters, cut, left, right};
use nearfar_figures::escape;
use nearfar_figures::json::pretty;
use nearfar_figures::sizes::size;
use nearfar_record::ranks::read::{self, is_run, recordings};
use nearfar_record::store::{Interrupted, interrupted, read_meta};
use nearfar_recording::Meta;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List the recordings of a directory, the latest first
///
/// Name, start, command, machine, sources, duration and size of each. A verdict is shown where one is kept (runs of
/// several ranks); `nearfar report` finds it of any other.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// The directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: Look,
}

/// A recording, or a run of several ranks.
#[derive(Default, Serialize)]
struct Row {
    /// Its path, as it is given to other commands.
    name: String,
    /// Start, RFC 3339 UTC; null if it cannot be read.
    started: Option<String>,
    /// The recorded command; empty if it was attached to.
    command: Vec<String>,
    /// The machine that the program ran on, emulated ones included; null if unknown.
    machine: Option<String>,
    /// What produced data.
    sources: Vec<String>,
    /// From start to end, seconds; null while it is being recorded, or if it was interrupted.
    seconds: Option<f64>,
    /// Of all its files.
    bytes: Option<u64>,
    /// Ranks whose directories are there; null: a single recording.
    ranks: Option<usize>,
    /// The worst of its ranks' verdicts; null where none is kept.
    verdict: Option<Verdict>,
    /// `recording`, `interrupted`, or what cannot be read; null of one that is complete.
    state: Option<String>,
}

/// Lists.
pub(super) fn run(args: &ListArgs) -> Result<ExitCode> {
    let mut rows: Vec<Row> = recordings(&args.directory)?.iter().map(|path| row(path)).collect();
    rows.sort_by(|a, b| (&b.started, &a.name).cmp(&(&a.started, &b.name)));
    if args.json {
        show::page(&pretty(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        let here = args.directory.display();
        nearfar_host::say!("nearfar: no recording in {here}. Make one with `nearfar record ./app`");
        return Ok(ExitCode::SUCCESS);
    }
    let (width, color) = args.look.resolve();
    show::page(&text(&rows, width, color))?;
    Ok(ExitCode::SUCCESS)
}

fn row(path: &Path) -> Row {
    let named = Row { name: path.display().to_string(), bytes: bytes(path), ..Row::default() };
    if is_run(path) {
        return of_run(path, named);
    }
    match read_meta(path) {
        Ok(meta) => of_meta(path, &meta, named),
        Err(error) => Row { state: Some(error.to_string()), ..named },
    }
}

fn of_meta(path: &Path, meta: &Meta, row: Row) -> Row {
    let state = match meta.state.as_str() {
        "open" => match interrupted(path) {
            Ok(Interrupted::Running(pid)) => Some(format!("is being recorded by process {pid}")),
            Ok(Interrupted::Elsewhere) => {
                Some("is being recorded on another host, or was interrupted".to_owned())
            }
            _ => Some("was interrupted; its first report completes it".to_owned()),
        },
        _ => None,
    };
    Row {
        started: Some(meta.started.clone()),
        command: meta.command.clone(),
        machine: Some(meta.machine.name.clone()),
        sources: meta
            .sources
            .iter()
            .filter(|r| r.active)
            .map(|r| format!("{:?}", r.source).to_lowercase())
            .collect(),
        seconds: (meta.end_ns > meta.start_ns).then(|| (meta.end_ns - meta.start_ns) as f64 / 1e9),
        state,
        ..row
    }
}

/// Its first rank speaks for the others, except for the verdict.
fn of_run(path: &Path, row: Row) -> Row {
    let run = match read::open(path) {
        Ok(run) => run,
        Err(error) => return Row { state: Some(format!("{error:#}")), ..row },
    };
    let count = run.ranks.len();
    let first = run.ranks.iter().find_map(|rank| Some((rank, read_meta(&rank.path).ok()?)));
    let row = match first {
        Some((rank, meta)) => of_meta(&rank.path, &meta, row),
        None => row,
    };
    let worst = |verdict: &Verdict| match verdict {
        Verdict::Affected => 2,
        Verdict::Unknown => 1,
        Verdict::Clean => 0,
    };
    let verdicts: Option<Vec<Verdict>> =
        run.ranks.iter().map(|r| r.summary().ok().map(|s| s.verdict)).collect();
    Row { ranks: Some(count), verdict: verdicts.and_then(|all| all.into_iter().max_by_key(worst)), ..row }
}

/// Of all files below, links apart; `None` if a directory may not be read.
fn bytes(path: &Path) -> Option<u64> {
    let mut all = 0;
    for entry in std::fs::read_dir(path).ok()?.flatten() {
        all += match entry.metadata() {
            Ok(about) if about.is_dir() => bytes(&entry.path())?,
            Ok(about) if about.is_file() => about.len(),
            _ => 0,
        };
    }
    Some(all)
}

fn text(rows: &[Row], width: usize, color: bool) -> String {
    let mut table =
        vec![["Recording", "started", "s", "size", "sources", "machine", "command"].map(str::to_owned)];
    for row in rows {
        let base =
            |word: &String| Path::new(word).file_name().map_or(word.clone(), |n| n.to_string_lossy().into());
        let mut command: Vec<String> = row.command.clone();
        if let Some(first) = command.first_mut() {
            *first = base(first);
        }
        let mut what = match command.is_empty() {
            true if row.started.is_some() => "(attached)".to_owned(),
            _ => command.join(" "),
        };
        if let Some(ranks) = row.ranks {
            what = format!("{ranks} ranks: {what}");
        }
        if let Some(verdict) = row.verdict {
            what += match verdict {
                Verdict::Affected => " (affected)",
                Verdict::Clean => " (clean)",
                Verdict::Unknown => " (no verdict)",
            };
        }
        let when = row.started.as_deref().map_or("unknown", |s| s.get(..16).unwrap_or(s)).replace('T', " ");
        table.push([
            row.name.clone(),
            when,
            row.seconds.map_or("unknown".to_owned(), |s| format!("{s:.1}")),
            row.bytes.map_or_else(|| "unknown".to_owned(), size),
            row.sources.join(" "),
            row.machine.clone().unwrap_or_else(|| "unknown".to_owned()),
            what,
        ]);
    }
    let lines = columns(&table, width);
    // Writing to a String cannot fail.
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = escape::line(line);
        let _ = match (at, color) {
            (0, true) => writeln!(text, "\x1b[1m{line}\x1b[0m"),
            _ => writeln!(text, "{line}"),
        };
        if let Some(state) = at.checked_sub(1).and_then(|row| rows[row].state.as_deref()) {
            let _ = write!(text, "{}", super::look::wrapped(2, &escape::line(state), width));
        }
    }
    text
}

/// Most letters of each column but the last, which gets what is left.
const MOST: [usize; 6] = [32, 16, 9, 9, 12, 24];
/// Columns that a command should have.
const LEAST_COMMAND: usize = 20;
/// Columns of numbers.
const RIGHT: [bool; 6] = [false, false, true, true, false, false];

fn columns(table: &[[String; 7]], width: usize) -> Vec<String> {
    let wide: Vec<usize> =
        (0..6).map(|i| table.iter().map(|row| letters(&row[i])).max().unwrap_or(0).min(MOST[i])).collect();
    // What is dropped first where the command does not fit.
    let mut shown = vec![0, 1, 2, 3, 4, 5];
    for least in [5, 4, 3, 2] {
        let taken: usize = shown.iter().map(|&i| wide[i] + 2).sum();
        if taken + LEAST_COMMAND > width {
            shown.retain(|&i| i != least);
        }
    }
    table
        .iter()
        .map(|row| {
            let mut line = String::new();
            for &i in &shown {
                let cell = cut(&row[i], wide[i]);
                line += &if RIGHT[i] { right(&cell, wide[i]) } else { left(&cell, wide[i]) };
                line += "  ";
            }
            let room = width.saturating_sub(letters(&line)).max(1);
            (line + &cut(&row[6], room)).trim_end().to_owned()
        })
        .collect()
}
