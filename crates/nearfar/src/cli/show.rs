//! Pages of results on standard output; long ones through a pager where there is a person, as git does it.

use nearfar_figures::escape;
use nearfar_host::target::find_program;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

/// What less does where the user has not said otherwise: leave what fits, keep colours, keep the page on the screen.
const LESS: &str = "FRX";

/// Shows a page that `report` made.
///
/// # Errors
/// Those of standard output.
pub(super) fn page(text: &str) -> io::Result<()> {
    if let Some(pager) = pager(text)
        && through(&pager, text)
    {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        // With its kind, by which callers tell a closed pipe from a full disk.
        io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
    })
}

/// Shows a page that was put together from names and numbers here, and is made harmless first.
///
/// # Errors
/// Those of standard output.
pub(super) fn lines(text: &str) -> io::Result<()> {
    page(&escape::page(text))
}

/// The command that a page goes through: NEARFAR_PAGER, PAGER or less, if the terminal has not enough lines for it.
fn pager(text: &str) -> Option<OsString> {
    let (columns, rows) = super::look::terminal()?;
    let able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    if !able || !io::stdin().is_terminal() || lines_on(text, columns) < rows {
        return None;
    }
    let asked = std::env::var_os("NEARFAR_PAGER").or_else(|| std::env::var_os("PAGER"));
    match asked {
        Some(asked) => (!asked.is_empty() && asked != "cat").then_some(asked),
        None => find_program("less".as_ref()).is_ok().then(|| "less".into()),
    }
}

/// Lines that a text takes on a terminal so wide. Colours take no room.
fn lines_on(text: &str, columns: usize) -> usize {
    let width = |line: &str| {
        let mut width = 0usize;
        let mut style = false;
        for c in line.chars() {
            match (style, c) {
                (false, '\x1b') => style = true,
                (true, 'm') => style = false,
                (true, _) => {}
                (false, _) => width += 1,
            }
        }
        width
    };
    text.lines().map(|line| width(line).div_ceil(columns.max(1)).max(1)).sum()
}

/// Whether the pager showed it. One that ended before it read everything has shown what was wanted.
fn through(pager: &OsString, text: &str) -> bool {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    for (name, value) in [("LESS", LESS), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let Ok(mut child) = command.spawn() else { return false };
    // The pager's user may leave it early, or type Ctrl-C in it: neither ends us, who have a status to end with.
    let signals = [libc::SIGPIPE, libc::SIGINT, libc::SIGQUIT];
    // SAFETY: sets dispositions that have no handler.
    let before = signals.map(|signal| unsafe { libc::signal(signal, libc::SIG_IGN) });
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(text.as_bytes());
    }
    let status = child.wait();
    for (signal, disposition) in signals.into_iter().zip(before) {
        // SAFETY: what was there before.
        unsafe { libc::signal(signal, disposition) };
    }
    // The shell's statuses for a command that it could not run.
    !matches!(status.map(|s| s.code()), Ok(Some(126 | 127)) | Err(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_a_terminal_wraps_them() {
        assert_eq!(lines_on("a\n\nb\n", 80), 3);
        assert_eq!(lines_on(&"x".repeat(81), 80), 2);
        assert_eq!(lines_on("\x1b[1;31mAFFECTED\x1b[0m", 8), 1);
    }

    #[test]
    fn a_pager_that_cannot_be_run_has_shown_nothing() {
        assert!(!through(&"no-such-pager-anywhere".into(), "x"));
        assert!(through(&"cat >/dev/null".into(), "x"));
        // It leaves early.
        assert!(through(&"true".into(), &"x\n".repeat(100_000)));
    }
}
