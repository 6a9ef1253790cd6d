//! The one way to the terminal except for pages, which `report` makes harmless itself: names, paths and reasons
//! in messages come from files and programs, and a terminal obeys what is in them ([`nearfar_figures::escape`]).
//!
//! `structure/tests/output.rs` sees to it that nothing else prints.

use nearfar_figures::escape::{self, is_command};
use std::ffi::OsStr;
use std::io::Write;

/// Writes a message to standard error, with its line feed. If it is not read, that is not a reason to end.
pub fn message(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", escape::lines(text));
}

/// Writes the lines of a message to standard error; with colours their first word, and `mind:`, are marked.
pub fn message_in_colour(lines: &[String], color: bool) {
    let marked = |line: &String| {
        let line = escape::lines(line);
        match color {
            true => line.replacen("nearfar:", "\x1b[1mnearfar:\x1b[0m", 1).replacen(
                "mind:",
                "\x1b[33mmind:\x1b[0m",
                1,
            ),
            false => line.into_owned(),
        }
    };
    let text: String = lines.iter().map(|line| marked(line) + "\n").collect();
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
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

/// As a shell reads it back.
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    if word.contains(is_command) {
        // As bash, zsh and ksh read it back; what is printed must not be obeyed by the terminal before.
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                c if is_command(c) && c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
                c if is_command(c) => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
