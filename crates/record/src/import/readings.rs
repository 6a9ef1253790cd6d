//! Counters that other tools printed, as a recording of them alone.

use super::feed::Feed;
use anyhow::{Context, Result};
use nearfar_host::input;
use nearfar_observed::measured::readings::{self, Readings};
use nearfar_recording::{Source, SourceReport};
use std::path::Path;

/// Largest such text that is read, bytes. // chosen: a day of 100 counters a second
const MOST_BYTES: u64 = 512 << 20;

/// Reads a file; `None` if it is of none of these tools.
///
/// # Errors
/// If it cannot be read.
pub(super) fn read(file: &Path) -> Result<Option<Readings>> {
    let bytes = input::read(file, MOST_BYTES).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(readings::read(&String::from_utf8_lossy(&bytes)))
}

/// Feeds them; gives what the file had.
pub(super) fn feed(found: &Readings, feed: &mut Feed) -> Vec<SourceReport> {
    for (line, why) in &found.damage {
        feed.damaged(format!("line {line}: {why}"));
    }
    for reading in &found.rows {
        feed.counter(reading.row(found.tool));
    }
    if found.left_out > 0 {
        feed.lose(0, "counters", found.left_out, "the file has more values than are kept");
    }
    let why = format!(
        "the imported file has counters ({}) and no samples of memory: which data was far, and what that costs, is not in \
         them. `perf mem record` takes memory samples",
        found.tool
    );
    vec![SourceReport { source: Source::Hardware, active: false, why, hz: 0.0 }]
}
