//! plugin.log: what went wrong, one line each, and the totals at the end.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// More lines than anybody reads; what repeats for each access must not fill the disk.
const MOST_LINES: u32 = 1000;

struct Log {
    file: File,
    lines: u32,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// Opens DIR/plugin.log anew.
///
/// # Errors
/// Those of creating the file.
pub fn open(directory: &Path) -> std::io::Result<()> {
    let file = File::create(directory.join("plugin.log"))?;
    *LOG.lock().unwrap_or_else(|e| e.into_inner()) = Some(Log { file, lines: 0 });
    Ok(())
}

/// Writes one line; to stderr, which is QEMU's, while there is no log.
pub fn line(text: fmt::Arguments) {
    let mut log = LOG.lock().unwrap_or_else(|e| e.into_inner());
    match log.as_mut() {
        Some(log) if log.lines < MOST_LINES => {
            log.lines += 1;
            // A full disk cannot be told to the log that it cut off.
            let _ = writeln!(log.file, "{text}");
        }
        Some(_) => {}
        None => eprintln!("nearfar plugin: {text}"),
    }
}
