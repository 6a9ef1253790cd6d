//! The Parquet files of a recording: in its directory, or, where that is not ours to write to, in files
//! without a name, which vanish with this process however it ends.

use super::dir::{Dir, read_at_most};
use bytes::Bytes;
use nearfar_parquet::{StoreError, most_memory, read_within};
use nearfar_recording::Columns;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::Mutex;

/// Largest file that is read, bytes; a segment of a million samples has ten million. // chosen
const MOST_FILE: u64 = 4 << 30;

/// Memory that the files of a recording may take together, bytes, besides what their size allows. // chosen
const ALWAYS: u64 = 512 << 20;
/// Most that they may take, bytes. // chosen
const MOST: u64 = 32 << 30;

/// What reading several files has taken so far. Each is bounded by its own size; many small ones would be bounded
/// by nothing.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Bytes that rows take.
    used: u64,
    /// Bytes of the files.
    read: u64,
}

impl Memory {
    /// What the next file, of `bytes`, may take.
    fn left(&mut self, bytes: u64) -> u64 {
        self.read += bytes;
        let all = most_memory(self.read).saturating_add(ALWAYS).min(MOST);
        all.saturating_sub(self.used)
    }
}

/// Where the files are.
pub(super) enum Segments {
    /// In the recording.
    Here(Dir),
    /// Nowhere: name and file.
    Unnamed(Vec<(String, Mutex<File>)>),
}

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    /// The system refused, or it is not a regular file, or it is too large.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not the file that was written.
    #[error("its checksum is wrong: it was changed or damaged after it was written")]
    Changed,
    /// It is not what it should be.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl Segments {
    /// A new file.
    pub(super) fn create(&mut self, name: &str) -> io::Result<File> {
        match self {
            Segments::Here(dir) => dir.create(name, false),
            Segments::Unnamed(all) => {
                let file = unnamed()?;
                all.push((name.to_owned(), Mutex::new(file.try_clone()?)));
                Ok(file)
            }
        }
    }

    /// The names of all files.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        match self {
            Segments::Here(dir) => dir.names(),
            Segments::Unnamed(all) => Ok(all.iter().map(|(name, _)| name.clone()).collect()),
        }
    }

    /// The rows of a file, if it has the checksum that it had when it was written; `checksums` are those known.
    pub(super) fn read<T: Columns>(
        &self,
        name: &str,
        checksums: &BTreeMap<String, u32>,
        memory: &mut Memory,
    ) -> Result<T, SegmentError> {
        nearfar_host::caught::quietly();
        let bytes = match self {
            Segments::Here(dir) => dir.read(name, MOST_FILE)?,
            Segments::Unnamed(all) => {
                let (_, file) =
                    all.iter().find(|(n, _)| n == name).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
                let file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let mut file = file.try_clone()?;
                file.rewind()?;
                let length = file.metadata()?.len();
                read_at_most(file, length, MOST_FILE)?
            }
        };
        if checksums.get(name).is_some_and(|&sum| sum != crc32fast::hash(&bytes)) {
            return Err(SegmentError::Changed);
        }
        let most = memory.left(bytes.len() as u64);
        let (table, used) = read_within(Bytes::from(bytes), most)?;
        memory.used += used;
        Ok(table)
    }
}

/// Writes to a file and calculates the checksum of what it writes.
pub(super) struct Checked<'a> {
    file: &'a File,
    sum: crc32fast::Hasher,
}

impl Checked<'_> {
    /// Into an empty file.
    pub(super) fn new(file: &File) -> Checked<'_> {
        Checked { file, sum: crc32fast::Hasher::new() }
    }

    /// CRC-32 of all that was written.
    pub(super) fn checksum(self) -> u32 {
        self.sum.finalize()
    }
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file without a name: on the disk for temporary files if that can do it, else in memory.
fn unnamed() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let made = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
        .or_else(|_| rustix::fs::memfd_create("nearfar", MemfdFlags::CLOEXEC))?;
    Ok(File::from(made))
}
