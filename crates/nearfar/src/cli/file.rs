//! Files that a command is asked to write: one rule for all. What is there stays, unless `--force` says otherwise;
//! `-` is standard output; a file is there as a whole or not at all.

use anyhow::{Context, Result, bail};
use nearfar_host::output;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The flag of every command that writes a file.
#[derive(clap::Args)]
pub(super) struct Force {
    /// Replace the file that is written if it exists (regular files only)
    #[arg(long, alias = "overwrite")]
    pub(super) force: bool,
}

/// Before work that takes long: refuses what [`write`] would refuse.
///
/// # Errors
/// If something of that name exists and may not be replaced.
pub(super) fn may_write(file: &Path, force: bool) -> Result<()> {
    if file == Path::new("-") {
        return Ok(());
    }
    match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", file.display())),
        Ok(_) if !force => {
            bail!("{} exists and is not overwritten: choose another name, or add --force", file.display())
        }
        // Through a link to where it points.
        Ok(_) if !file.metadata().is_ok_and(|there| there.is_file()) => {
            bail!("{} is not a regular file and is not overwritten", file.display())
        }
        Ok(_) => Ok(()),
    }
}

/// Writes a file that was asked for.
///
/// # Errors
/// If it may not be replaced, or cannot be written.
pub(super) fn write(file: &Path, content: impl AsRef<[u8]>, force: bool) -> Result<()> {
    let content = content.as_ref();
    if file == Path::new("-") {
        let mut out = std::io::stdout().lock();
        return out.write_all(content).and_then(|()| out.flush()).context("cannot write to standard output");
    }
    may_write(file, force)?;
    let made = match force {
        true => output::replace(file, content),
        false => output::create(file, content),
    };
    made.with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_replaced_only_by_force_and_only_if_it_is_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        write(&at("a"), "one", false).unwrap();
        let refused = write(&at("a"), "two", false).unwrap_err().to_string();
        assert!(refused.contains("--force"), "{refused}");
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "one");
        write(&at("a"), "two", true).unwrap();
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "two");
        assert!(write(directory.path(), "x", true).unwrap_err().to_string().contains("regular"));
        assert!(write(Path::new("/dev/full"), "x", false).is_err());
        // A link without a target is something that exists.
        std::os::unix::fs::symlink("gone", at("link")).unwrap();
        assert!(write(&at("link"), "x", false).is_err() && write(&at("link"), "x", true).is_err());
        write(Path::new("-"), "", false).unwrap();
    }
}
