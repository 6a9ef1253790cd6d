//! What the ranks of a run left: their directories and summaries. No recording is opened here.

use super::join::{Launch, read_launch};
use super::{LAUNCH, SUMMARY};
use crate::store::dir::Dir;
use crate::store::{Interrupted, META, OpenFailure, interrupted, read_meta};
use anyhow::{Context, Result, bail};
use nearfar_compare::ranks::summary::Unread;
use nearfar_compare::ranks::{MOST_BYTES, NoSummary, Summary};
use std::io;
use std::path::{Path, PathBuf};

/// A run, and the ranks whose directories are there.
pub struct RunDir {
    /// Which launch it is.
    pub launch: Launch,
    /// The ranks, by number.
    pub ranks: Vec<RankDir>,
    /// What is odd in it, in words.
    pub notes: Vec<String>,
}

/// A rank's directory.
pub struct RankDir {
    /// Its host, as the directory is called.
    pub host: String,
    /// Its number, as the directory is called.
    pub rank: u32,
    /// The recording.
    pub path: PathBuf,
    dir: Dir,
}

/// Whether it is a run of several ranks, and no recording.
pub fn is_run(path: &Path) -> bool {
    Dir::open(path).is_ok_and(|dir| dir.has(LAUNCH) && !dir.has(META))
}

/// The recording, or run of several ranks, that was begun last in `directory`.
///
/// # Errors
/// If there is none.
pub fn newest(directory: &Path) -> Result<PathBuf, OpenFailure> {
    let named = |p: &PathBuf| p.extension().is_some_and(|e| e == "nearfar");
    recordings(directory)?
        .into_iter()
        .filter(named)
        .max_by_key(|p| begun(p).unwrap_or_default())
        .ok_or_else(|| OpenFailure::NoneHere(directory.to_owned()))
}

/// The recordings and runs of several ranks in `directory`, whatever they are called, in no order.
///
/// # Errors
/// If the directory cannot be read.
pub fn recordings(directory: &Path) -> Result<Vec<PathBuf>, OpenFailure> {
    let entries = std::fs::read_dir(directory)
        .map_err(|error| OpenFailure::Io { path: directory.to_owned(), error })?;
    let paths = entries.flatten().map(|e| match directory == Path::new(".") {
        true => PathBuf::from(e.file_name()),
        false => e.path(),
    });
    let is_one = |path: &PathBuf| match Dir::open(path) {
        Ok(dir) => dir.has(META) || dir.has(LAUNCH),
        // Another user's, by its name: whoever reads it says that it may not be read.
        Err(error) => {
            error.kind() == std::io::ErrorKind::PermissionDenied
                && path.extension().is_some_and(|e| e == "nearfar")
        }
    };
    Ok(paths.filter(is_one).collect())
}

/// When a recording was begun, or the first of a run's ranks that is found.
fn begun(path: &Path) -> Option<(String, u64)> {
    let of = |path: &Path| read_meta(path).ok().map(|m| (m.started, m.start_ns));
    if !is_run(path) {
        return of(path);
    }
    of(&open(path).ok()?.ranks.first()?.path)
}

/// Lists a run's ranks.
///
/// # Errors
/// If its launch.json cannot be read.
pub fn open(path: &Path) -> Result<RunDir> {
    let dir = Dir::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let launch = read_launch(&dir).with_context(|| format!("{} is damaged: {LAUNCH}", path.display()))?;
    let mut ranks = Vec::new();
    let mut notes = Vec::new();
    for host in dir.names()? {
        let Some(name) = host.strip_prefix("host=") else { continue };
        let listed = dir.below(&host).and_then(|below| Ok((below.names()?, below)));
        let (names, below) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                notes.push(format!("{host} cannot be read ({error}): its ranks are missing."));
                continue;
            }
        };
        for own in names {
            let Some(rank) = own.strip_prefix("rank=").and_then(|n| n.parse().ok()) else { continue };
            match below.below(&own) {
                Ok(dir) => {
                    let path = path.join(&host).join(&own);
                    ranks.push(RankDir { host: name.to_owned(), rank, path, dir });
                }
                Err(error) => notes.push(format!("{host}/{own} cannot be read: {error}.")),
            }
        }
    }
    ranks.sort_by(|a, b| (a.rank, &a.host).cmp(&(b.rank, &b.host)));
    Ok(RunDir { launch, ranks, notes })
}

impl RunDir {
    /// The directory of a rank.
    ///
    /// # Errors
    /// If there is none.
    pub fn rank(&self, number: u32) -> Result<&RankDir> {
        let Some(found) = self.ranks.iter().find(|r| r.rank == number) else {
            match self.launch.size {
                Some(size) if number >= size => bail!("the run has {size} ranks: there is no rank {number}"),
                _ => bail!("the run has no recording of rank {number}"),
            }
        };
        Ok(found)
    }
}

impl RankDir {
    /// Its summary, or why there is none.
    ///
    /// # Errors
    /// See [`NoSummary`].
    pub fn summary(&self) -> Result<Summary, NoSummary> {
        match self.dir.read(SUMMARY, MOST_BYTES as u64) {
            Ok(bytes) => {
                let summary = Summary::from_bytes(&bytes).map_err(|unread| match unread {
                    Unread::OtherVersion(by) => NoSummary::OtherVersion(by),
                    Unread::Damaged(why) => NoSummary::Damaged(format!("its {SUMMARY} is damaged: {why}")),
                })?;
                match summary.rank.rank == self.rank {
                    true => Ok(summary),
                    false => {
                        Err(NoSummary::Damaged(format!("its {SUMMARY} is rank {}'s", summary.rank.rank)))
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.without()),
            Err(error) => Err(NoSummary::Damaged(format!("its {SUMMARY} cannot be read: {error}"))),
        }
    }

    fn without(&self) -> NoSummary {
        match interrupted(&self.path) {
            Ok(Interrupted::Running(pid)) => NoSummary::Running(pid),
            Ok(_) => NoSummary::Killed,
            Err(OpenFailure::Newer { by, .. }) => NoSummary::OtherVersion(by),
            Err(error) => NoSummary::Damaged(error.to_string()),
        }
    }

    /// Whether a summary can be made of its recording without disturbing a recorder that may still be at work: one of
    /// another host cannot be asked.
    pub fn can_be_completed(&self) -> bool {
        matches!(interrupted(&self.path), Ok(Interrupted::Ended))
    }

    /// Puts a summary in its place as a whole.
    ///
    /// # Errors
    /// Those of the system, and if the directory is not ours.
    pub fn keep(&self, summary: &Summary) -> io::Result<()> {
        keep(&self.dir, summary)
    }
}

/// Puts a summary in its place as a whole, in a rank's directory.
///
/// # Errors
/// Those of the system, and if the directory is not ours.
pub fn keep(dir: &Dir, summary: &Summary) -> io::Result<()> {
    if let Some(why) = dir.foreign() {
        return Err(io::Error::other(why.to_owned()));
    }
    dir.replace(SUMMARY, &summary.to_bytes())
}
