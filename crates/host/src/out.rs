//! The one way to the terminal except for pages, which `report` makes harmless itself: names, paths and reasons
//! in messages come from files and programs, and a terminal obeys what is in them ([`nearfar_figures::escape`]).
//!
//! `structure/tests/output.rs` sees to it that nothing else prints.

use nearfar_figures::escape;
use std::io::Write;

/// Writes a message to standard error, with its line feed. If it is not read, that is not a reason to end.
pub fn message(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", escape::lines(text));
}

/// Writes lines that were put together here to standard error.
pub fn page_to_stderr(text: &str) {
    let _ = write!(std::io::stderr().lock(), "{}", escape::page(text));
}

/// Writes lines that were put together here to standard output.
///
/// # Errors
/// Those of the system.
pub fn page(text: &str) -> std::io::Result<()> {
    write!(std::io::stdout().lock(), "{}", escape::page(text))
}

/// Writes what is being done over the last line of a terminal.
pub fn progress(text: &str) {
    let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}", escape::line(text));
}

/// A message of the form of [`format!`] to standard error.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::out::message(&format!($($words)*))
    };
}

/// Bytes in a readable unit.
pub fn mib(bytes: u64) -> String {
    match bytes {
        b if b < 100 << 20 => format!("{:.1} MiB", b as f64 / f64::from(1 << 20)),
        b if b < 10 << 30 => format!("{} MiB", b >> 20),
        b => format!("{:.1} GiB", b as f64 / f64::from(1 << 30)),
    }
}
