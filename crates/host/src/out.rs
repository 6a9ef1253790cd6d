//! The one way to the terminal except for pages, which `report` makes harmless itself: names, paths and reasons
//! in messages come from files and programs, and a terminal obeys what is in them ([`nearfar_figures::escape`]).
//!
//! `structure/tests/output.rs` sees to it that nothing else prints.

use nearfar_figures::escape;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

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
    nearfar_figures::shell::quoted(&word.to_string_lossy())
}

/// A command to copy.
pub fn command(words: &[OsString]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A path in a command to copy.
pub fn quoted_path(path: &Path) -> String {
    quoted(path.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_the_words_of_a_command() {
        let words: Vec<OsString> = [
            "./a b",
            "it's",
            "",
            "plain",
            "$HOME",
            "*",
            "two\nlines",
            "tab\t\u{1b}[2J",
            "größe",
            "-n",
            "~",
            "a;b",
        ]
        .map(OsString::from)
        .into();
        let line = command(&words);
        assert!(!line.contains(nearfar_figures::escape::is_command), "{line:?}");
        let script = format!("printf '%s\\0' {line}");
        let said = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let read: Vec<_> = std::str::from_utf8(&said.stdout).unwrap().split_terminator('\0').collect();
        assert_eq!(read, words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>());
    }
}
