//! What is known, on its way into DIR/simulated.journal.

use crate::log;
use nearfar_recording::column::Columns;
use nearfar_recording::journal;
use nearfar_recording::raw::{RawMarks, RawPages, RawPhaseMarks, RawSamples, RawUncounteds};
use nearfar_recording::tables::{CpuEpochs, EpochTraffics, Loss, Losses};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// Rows of all tables that are not yet in the file.
#[derive(Default)]
pub struct Rows {
    /// Counts by cpu.
    pub epochs: CpuEpochs,
    /// What each cpu did while accesses were not counted.
    pub uncounted: RawUncounteds,
    /// Lines by cpu and node of the page.
    pub traffic: EpochTraffics,
    /// Sampled lines.
    pub samples: RawSamples,
    /// Lines by page.
    pub pages: RawPages,
    /// Beginnings and ends.
    pub marks: RawMarks,
    /// Beginnings and ends of phases.
    pub phase_marks: RawPhaseMarks,
    /// What is missing.
    pub losses: Losses,
}

/// The journal and what waits for it.
pub struct Output {
    rows: Mutex<Rows>,
    file: Mutex<Journal>,
}

struct Journal {
    file: File,
    buffer: Vec<u8>,
    failed: bool,
}

impl Output {
    /// Creates the journal in `directory`.
    ///
    /// # Errors
    /// Those of creating the file.
    pub fn create(directory: &Path) -> std::io::Result<Output> {
        let file = File::create(directory.join("simulated.journal"))?;
        let journal = Journal { file, buffer: Vec::new(), failed: false };
        Ok(Output { rows: Mutex::default(), file: Mutex::new(journal) })
    }

    /// The rows, to add to. Hold it briefly.
    pub fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says that something is missing.
    pub fn lost(&self, time_ns: u64, what: &str, count: u64, why: &str) {
        self.rows().losses.push(Loss { time_ns, what: what.to_owned(), count, why: why.to_owned() });
    }

    /// Writes all rows to the file, with one append for all tables.
    pub fn flush(&self) {
        let mut journal = self.file.lock().unwrap_or_else(|e| e.into_inner());
        // Taken while the file is held: frames are in the order in which rows were taken.
        let mut rows = std::mem::take(&mut *self.rows());
        let Journal { file, buffer, failed } = &mut *journal;
        buffer.clear();
        journal::encode(&mut rows.epochs, buffer);
        journal::encode(&mut rows.uncounted, buffer);
        journal::encode(&mut rows.traffic, buffer);
        journal::encode(&mut rows.samples, buffer);
        journal::encode(&mut rows.pages, buffer);
        journal::encode(&mut rows.marks, buffer);
        journal::encode(&mut rows.phase_marks, buffer);
        journal::encode(&mut rows.losses, buffer);
        // What follows a frame that is cut off could not be read anyway.
        if !*failed && let Err(error) = file.write_all(buffer) {
            *failed = true;
            log::line(format_args!("the journal cannot be written: {error}; what follows is lost"));
        }
    }
}
