//! Writing a recording while its program runs.

use super::{JOURNAL, META, RANK, Tables};
use nearfar_model::recording::{Columns, Loss, Meta};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Appends rows to a recording. A disk that fills up stops the recording, never
/// the program that is recorded.
pub struct Writer {
    directory: PathBuf,
    journal: File,
    /// Rows that wait for the next [`Writer::flush`].
    pub tables: Tables,
    /// What the recording says about itself.
    pub meta: Meta,
    failed: Option<io::Error>,
    frames: Vec<u8>,
}

/// Why a recording could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is something of that name already.
    #[error(
        "{0} exists already. Nothing recorded is overwritten: choose another name with -o, or remove it."
    )]
    Exists(PathBuf),
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
/// for theirs at the same time: whoever makes it has it.
///
/// # Errors
/// If it exists or cannot be made.
pub fn reserve(output: Option<&Path>, app: &str) -> Result<PathBuf, CreateError> {
    let make = |path: &Path| {
        let io = |error| CreateError::Io { path: path.to_owned(), error };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        fs::create_dir(path).map_err(|error| match error.kind() {
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
    /// Begins a recording in a directory that [`reserve`] made, and writes its first meta.json.
    ///
    /// # Errors
    /// If something was recorded there already, or nothing can be written.
    pub fn create(directory: &Path, meta: Meta) -> Result<Writer, CreateError> {
        let io = |error| CreateError::Io { path: directory.to_owned(), error };
        let journal = OpenOptions::new().append(true).create_new(true).open(directory.join(JOURNAL));
        let journal = journal.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CreateError::Exists(directory.to_owned()),
            _ => io(error),
        })?;
        fs::create_dir_all(directory.join(RANK)).map_err(io)?;
        write_meta(directory, &meta).map_err(io)?;
        let directory = directory.to_owned();
        Ok(Writer { directory, journal, tables: Tables::default(), meta, failed: None, frames: Vec::new() })
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
        self.tables.encode(&mut self.frames);
        if self.failed.is_some() {
            return Ok(());
        }
        if let Err(error) = self.journal.write_all(&self.frames) {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failed = Some(error);
            return Err(copy);
        }
        Ok(())
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
        write_meta(&self.directory, &self.meta)?;
        Ok(self.directory)
    }
}

/// Replaces meta.json as a whole: a crash leaves the old one or the new one.
pub(super) fn write_meta(directory: &Path, meta: &Meta) -> io::Result<()> {
    let text = serde_json::to_string_pretty(meta).map_err(io::Error::other)?;
    let temporary = directory.join("meta.json.new");
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(temporary, directory.join(META))
}
