//! What the plugin of the virtual machine counted, as it wrote it.

use anyhow::{Context, Result};
use nearfar_recording::raw::{RawPages, RawPhaseMarks, RawSamples, RawUncounteds};
use nearfar_recording::{Columns, CpuEpochs, EpochTraffics, Loss, Losses, journal};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// What the plugin counted.
#[derive(Default)]
pub struct Counted {
    /// Sampled lines.
    pub samples: RawSamples,
    /// Lines of each page.
    pub pages: RawPages,
    /// What each cpu did.
    pub epochs: CpuEpochs,
    /// What each cpu did between windows.
    pub uncounted: RawUncounteds,
    /// What each cpu moved.
    pub traffic: EpochTraffics,
    /// Beginnings and ends of phases.
    pub phase_marks: RawPhaseMarks,
    /// What it could not count.
    pub losses: Losses,
}

impl Counted {
    /// Reads the plugin's journal. A cut-off end is a loss like any other.
    ///
    /// # Errors
    /// If the file cannot be read or is another version's.
    pub fn read(path: &Path) -> Result<Counted> {
        let (file, length) =
            nearfar_host::input::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Counted::from_file(file, length)
    }

    /// The same of the first `length` bytes of an open file.
    ///
    /// # Errors
    /// As of [`Counted::read`].
    pub fn from_file(file: File, length: u64) -> Result<Counted> {
        let mut counted = Counted::default();
        let file = BufReader::with_capacity(1 << 20, file);
        let tail = journal::read::<_, anyhow::Error>(file, length, |frame| {
            match frame.table.as_str() {
                RawSamples::TABLE => journal::append_to(&mut counted.samples, frame),
                RawPages::TABLE => journal::append_to(&mut counted.pages, frame),
                RawUncounteds::TABLE => journal::append_to(&mut counted.uncounted, frame),
                CpuEpochs::TABLE => journal::append_to(&mut counted.epochs, frame),
                EpochTraffics::TABLE => journal::append_to(&mut counted.traffic, frame),
                RawPhaseMarks::TABLE => journal::append_to(&mut counted.phase_marks, frame),
                Losses::TABLE => journal::append_to(&mut counted.losses, frame),
                _ => Ok(()),
            }?;
            Ok(())
        })?;
        if let Some(tail) = tail {
            counted.losses.push(Loss {
                time_ns: 0,
                what: "counts".into(),
                count: tail.bytes,
                why: format!("the virtual machine ended in the middle of a write ({})", tail.why),
            });
        }
        Ok(counted)
    }
}
