//! `nearfar cache`.

use super::look::{Look, wrapped};
use anyhow::Result;
use clap::Args;
use nearfar_figures::sizes::size;
use nearfar_guest::{Kept, clear, kept};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Show what is kept for emulated machines, how much room it takes, and remove it with --clear
///
/// Booted machines are kept as files, up to 2 GiB, so that the next run begins in less than a second; and so is the
/// kernel that they run, as downloaded and unpacked. The next `--on` makes again what was removed.
#[derive(Args)]
pub(super) struct CacheArgs {
    /// Remove all of it; machines that run are not disturbed
    #[arg(long)]
    clear: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: Look,
}

/// Shows or removes.
pub(super) fn run(args: &CacheArgs) -> Result<ExitCode> {
    let kept = kept()?;
    let all = kept.snapshots.iter().map(|s| s.1).chain(kept.kernels.iter().map(|k| k.1)).sum::<u64>();
    if args.json {
        if args.clear {
            clear()?;
        }
        return written(&kept, args.clear);
    }
    let (width, _) = args.look.resolve();
    // What takes how much room; names are not broken.
    let row = |bytes: u64, what: String| {
        let lines = wrapped(10, &what, width);
        format!("{:>8}  {}", size(bytes), lines.trim_start())
    };
    // Writing to a String cannot fail.
    let mut text = String::new();
    if args.clear {
        clear()?;
        let _ = writeln!(text, "removed {} from {}", size(all), kept.directory.display());
        super::show::lines(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let _ = writeln!(text, "{}: {}", kept.directory.display(), size(all));
    for (name, bytes, used) in &kept.snapshots {
        let days = used.elapsed().map_or(0, |age| age.as_secs() / 86_400);
        let when = match days {
            0 => "used today".to_owned(),
            1 => "used yesterday".to_owned(),
            n => format!("used {n} days ago"),
        };
        text += &row(*bytes, format!("booted machine {name}, {when}"));
    }
    for (name, bytes) in &kept.kernels {
        text += &row(*bytes, format!("kernel {name}"));
    }
    if all > 0 {
        text.push_str("nearfar cache --clear removes all of it\n");
    }
    super::show::lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is kept, or was until now.
#[derive(Serialize)]
struct Written<'a> {
    directory: &'a Path,
    removed: bool,
    booted_machines: Vec<File<'a>>,
    kernels: Vec<File<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    bytes: u64,
}

fn written(kept: &Kept, removed: bool) -> Result<ExitCode> {
    let written = Written {
        directory: &kept.directory,
        removed,
        booted_machines: kept.snapshots.iter().map(|(name, bytes, _)| File { name, bytes: *bytes }).collect(),
        kernels: kept.kernels.iter().map(|(name, bytes)| File { name, bytes: *bytes }).collect(),
    };
    super::show::page(&nearfar_figures::json::pretty(&written))?;
    Ok(ExitCode::SUCCESS)
}
