//! Writing a recording while its program runs.

use super::dir::Dir;
use super::{JOURNAL, META, Tables, tables_of};
use nearfar_recording::{Columns, Loss, Meta};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Appends rows to a recording. A disk that fills up stops the recording, never
/// the program that is recorded.
pub struct Writer {
    directory: PathBuf,
    dir: Dir,
    journal: File,
    /// Rows that wait for the next [`Writer::flush`].
    pub tables: Tables,
    /// What the recording says about itself.
    pub meta: Meta,
    failed: Option<io::Error>,
    frames: Vec<u8>,
    /// Bytes of the journal so far, and how long it may become.
    written: u64,
    most: u64,
    full: bool,
}

/// What is kept free below the limit for what is known only at the end: losses, ends, names of modules. Bytes. // chosen
const KEPT_FREE: u64 = 1 << 20;

/// Why a recording could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is something of that name already.
    #[error(
        "{0} exists already. Nothing recorded is overwritten: choose another name with -o, or remove it."
    )]
    Exists(PathBuf),
    /// The directory is a run of other ranks than ours.
    #[error(
        "{path} has ranks of another launch ({by}). Nothing recorded is overwritten or mixed: choose another name with \
         -o, or remove it."
    )]
    OtherLaunch {
        /// What was to be made.
        path: PathBuf,
        /// The launch that is there.
        by: String,
    },
    /// The directory or a file in it could not be made.
    #[error("cannot write the recording {path}: {error}. Choose a place to write to with -o.")]
    Io {
        /// What was to be made.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

/// Makes the directory of a new recording: `output`, or the first of the form
/// `APP-001.nearfar` in the current directory that does not exist. Others may be looking
/// for theirs at the same time: the process that makes it has it. Nothing else may enter it: a recording has the names of
/// files, functions and arguments.
///
/// # Errors
/// If it exists or cannot be made.
pub fn reserve(output: Option<&Path>, app: &str) -> Result<PathBuf, CreateError> {
    let make = |path: &Path| {
        let io = |error| CreateError::Io { path: path.to_owned(), error };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        Dir::make(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CreateError::Exists(path.to_owned()),
            _ => io(error),
        })?;
        path.canonicalize().map_err(io)
    };
    if let Some(path) = output {
        return make(path);
    }
    for number in 1.. {
        match make(Path::new(&format!("./{app}-{number:03}.nearfar"))) {
            Err(CreateError::Exists(_)) => {}
            made => return made,
        }
    }
    unreachable!("some number is free")
}

impl Writer {
    /// Begins a recording in a directory that [`reserve`] made, and writes its first meta.json. Its journal takes at
    /// most about `most` bytes.
    ///
    /// # Errors
    /// If something was recorded there already, or nothing can be written.
    pub fn create(directory: &Path, meta: Meta, most: u64) -> Result<Writer, CreateError> {
        let io = |error| CreateError::Io { path: directory.to_owned(), error };
        let dir = Dir::open(directory).map_err(io)?;
        let journal = dir.create(JOURNAL, true).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CreateError::Exists(directory.to_owned()),
            _ => io(error),
        })?;
        dir.below_or_make(tables_of(&meta)).map_err(io)?;
        write_meta(&dir, &meta).map_err(io)?;
        let directory = directory.to_owned();
        let (tables, failed, frames) = (Tables::default(), None, Vec::new());
        let (written, full) = (0, false);
        Ok(Writer { directory, dir, journal, tables, meta, failed, frames, written, most, full })
    }

    /// Writes meta.json as it is known by now, so that the recording of a recorder that is killed knows it, too.
    ///
    /// # Errors
    /// Those of the system.
    pub fn note_meta(&self) -> io::Result<()> {
        write_meta(&self.dir, &self.meta)
    }

    /// The recording's absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Notes a loss, to be printed in every report of this recording.
    pub fn lose(&mut self, time_ns: u64, what: &str, count: u64, why: impl Into<String>) {
        self.tables.losses.push(Loss { time_ns, what: what.to_owned(), count, why: why.into() });
    }

    /// Appends all waiting rows. After the first failure rows are dropped; the
    /// error is returned once, and [`Writer::failure`] keeps it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.frames.clear();
        if self.full {
            // What others refer to and what ends still belongs in; it is little.
            self.tables = Tables {
                losses: std::mem::take(&mut self.tables.losses),
                process_ends: std::mem::take(&mut self.tables.process_ends),
                object_ends: std::mem::take(&mut self.tables.object_ends),
                phases: std::mem::take(&mut self.tables.phases),
                phase_counts: std::mem::take(&mut self.tables.phase_counts),
                ..Tables::default()
            };
        }
        self.tables.encode(&mut self.frames);
        if self.failed.is_some() {
            return Ok(());
        }
        let after = self.written.saturating_add(self.frames.len() as u64);
        // A batch that would not fit is kept out as a whole, except for the last words.
        if after > self.most.saturating_sub(KEPT_FREE) && (!self.full || after > self.most) {
            self.full = true;
            return Ok(());
        }
        self.written = after;
        if let Err(error) = self.journal.write_all(&self.frames) {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failed = Some(error);
            return Err(copy);
        }
        Ok(())
    }

    /// Bytes of the journal.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Whether the journal has reached its limit: no more rows are taken.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Why rows are being dropped, if they are.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Writes what waits and the final meta.json, and closes the journal.
    /// [`super::finish()`] then turns it into Parquet.
    pub fn close(mut self) -> io::Result<PathBuf> {
        let _ = self.flush();
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.journal.sync_data()?;
        write_meta(&self.dir, &self.meta)?;
        Ok(self.directory)
    }
}

/// Replaces meta.json as a whole: a crash leaves the old one or the new one.
pub(super) fn write_meta(dir: &Dir, meta: &Meta) -> io::Result<()> {
    dir.replace(META, meta.to_json().map_err(io::Error::other)?.as_bytes())
}
