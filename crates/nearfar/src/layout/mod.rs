//! `nearfar layout`: the ranks of a hybrid program put where they belong by the launcher at hand, and
//! looked at there.
//!
//! The launcher starts this program once per rank ([`rank`]), which runs the real one, looks at it and
//! leaves a file; afterwards all files make one table ([`table`]).

pub mod launcher;
pub mod rank;
pub mod table;

use nearfar_host::target::{Before, Ending, Held, StartError};
use rank::{RankSeen, read_all};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder into which ranks write, removed at the end.
pub struct Meeting {
    /// Where it is.
    pub path: PathBuf,
}

impl Meeting {
    /// A fresh one. Hosts seldom share /tmp, and mostly the folder that they work in.
    ///
    /// # Errors
    /// If none can be made there.
    pub fn new(hosts: usize) -> io::Result<Meeting> {
        let parent = if hosts > 1 { std::env::current_dir()? } else { std::env::temp_dir() };
        let id = std::process::id();
        // Another host's process may have this one's number, and a killed one may have left its folder.
        for attempt in 0..100 {
            let path = parent.join(format!(".nearfar-layout-{id}-{attempt}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Meeting { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let why = format!("no folder can be made in {}: {error}", parent.display());
                    return Err(io::Error::new(error.kind(), why));
                }
            }
        }
        Err(io::Error::other(format!("remove the folders .nearfar-layout-{id}-* in {}", parent.display())))
    }

    /// Where the rankfile is, if there is one.
    pub fn rankfile(&self) -> PathBuf {
        self.path.join("rankfile")
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // What cannot be removed is small and says whose it is.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Runs the launcher's `words` with `command` under this program's eyes; how it ended, and what was seen.
///
/// # Errors
/// If the launcher cannot be started.
pub fn execute(
    words: &[String],
    command: &[OsString],
    meeting: &Path,
) -> Result<(Ending, BTreeMap<usize, RankSeen>), StartError> {
    let own = std::env::current_exe()?;
    let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
    line.extend([own.into(), "layout".into(), "--as-rank".into(), meeting.into(), "--".into()]);
    line.extend(command.iter().cloned());
    let mut held = Held::start(&line, &[], &Before::default())?;
    held.pass_signals();
    let running = held.release()?;
    let ending = loop {
        running.wait(Duration::from_secs(1));
        if let Some((ending, _)) = running.try_wait() {
            break ending;
        }
    };
    Ok((ending, read_all(meeting)))
}
