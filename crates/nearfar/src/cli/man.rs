//! `nearfar man`: the pages of all commands as files.

use super::file;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

/// The pages of all commands, or none if one of them exists.
pub(super) fn write(commands: clap::Command, directory: &Path, force: bool) -> anyhow::Result<ExitCode> {
    if directory.exists() && !directory.is_dir() {
        bail!("{} is not a directory: the pages are files in one", directory.display());
    }
    let there = directory.is_dir();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let fresh = directory.join(format!(".nearfar-man-{}", std::process::id()));
    std::fs::create_dir(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    let moved = moved(commands, &fresh, directory, force);
    let _ = std::fs::remove_dir_all(&fresh);
    if moved.is_err() && !there {
        // Only if nothing is in it.
        let _ = std::fs::remove_dir(directory);
    }
    moved.map(|()| ExitCode::SUCCESS)
}

fn moved(commands: clap::Command, fresh: &Path, directory: &Path, force: bool) -> anyhow::Result<()> {
    clap_mangen::generate_to(commands, fresh)
        .with_context(|| format!("cannot write the pages in {}", directory.display()))?;
    let mut pages = Vec::new();
    for page in std::fs::read_dir(fresh)? {
        let page = page?;
        let file = directory.join(page.file_name());
        file::may_write(&file, force)?;
        pages.push((page.path(), file));
    }
    for (page, file) in pages {
        std::fs::rename(page, &file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
