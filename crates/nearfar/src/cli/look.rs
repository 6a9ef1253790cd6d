//! How text is shown: width and colour, of the terminal unless told.

use clap::Args;
use nearfar_figures::columns;
use std::io::{IsTerminal, Write};

/// The flags that every command with a page of text has.
#[derive(Args)]
pub(super) struct Look {
    /// Width of the text in columns [default: $COLUMNS, or the terminal's]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    width: Option<u16>,
    /// Colour: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    color: String,
}

impl Look {
    /// Width in columns, and whether to use colour.
    pub(super) fn resolve(&self) -> (usize, bool) {
        let color = match self.color.as_str() {
            "always" => true,
            "never" => false,
            _ => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        (self.width.map_or_else(terminal_width, usize::from), color)
    }

    /// Columns of a message on standard error, if they are limited (a width that is asked for, or a terminal), and
    /// whether to use colour there.
    fn resolve_messages(&self) -> (Option<usize>, bool) {
        let color = match self.color.as_str() {
            "always" => true,
            "never" => false,
            _ => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        let asked = self.width.map(usize::from).or_else(columns);
        (asked.or_else(|| size_of(libc::STDERR_FILENO).map(|(columns, _)| columns)), color)
    }

    /// A message of a result on standard error, wrapped where its width is limited.
    pub(super) fn say(&self, text: &str) {
        let (width, color) = self.resolve_messages();
        let lines = match width {
            Some(width) => {
                let text = wrapped(9, text, width);
                let rest = text.trim_start().lines().enumerate();
                rest.map(|(at, line)| if at == 0 { format!("nearfar: {line}") } else { line.to_owned() })
                    .collect()
            }
            None => vec![format!("nearfar: {text}")],
        };
        nearfar_host::out::message_in_colour(&lines, color);
    }

    /// The same for a command line that the user copies: it is not wrapped.
    pub(super) fn say_line(&self, text: &str) {
        nearfar_host::out::message_in_colour(&[format!("nearfar: {text}")], self.resolve_messages().1);
    }

    /// A page that was put together from names and numbers here: made harmless, its remarks (`mind: …`) wrapped and marked.
    pub(super) fn dressed(&self, page: &str, (width, color): (usize, bool)) -> String {
        let mut text = String::new();
        for line in nearfar_figures::escape::page(page).lines() {
            match line.strip_prefix("mind: ") {
                Some(remark) => {
                    let mark = if color { "\x1b[33mmind:\x1b[0m " } else { "mind: " };
                    text += mark;
                    text += wrapped(6, remark, width).trim_start();
                }
                None => {
                    text += line;
                    text.push('\n');
                }
            }
        }
        text
    }

    /// The same on standard error.
    pub(super) fn page_to_stderr(&self, page: &str) {
        let (width, color) = self.resolve_messages();
        let text = self.dressed(page, (width.unwrap_or(usize::MAX), color));
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// The same as flags, for this program's other self that has no terminal of its own.
    pub(super) fn flags(&self) -> [String; 2] {
        let (width, color) = self.resolve();
        [format!("--width={width}"), format!("--color={}", if color { "always" } else { "never" })]
    }
}

/// Columns: as COLUMNS says, in pipes too; else those of the terminal, or 100 where there is none.
fn terminal_width() -> usize {
    let wide = columns().or_else(|| terminal().map(|(columns, _)| columns));
    // Tables need some room, and lines of 300 letters cannot be read.
    wide.map_or(100, |columns| columns.clamp(60, 160))
}

/// COLUMNS, if it is a number.
fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok());
    asked.filter(|&columns| columns > 0)
}

/// Columns and lines of the terminal that standard output is; `None` if it is none, or does not say.
pub(super) fn terminal() -> Option<(usize, usize)> {
    size_of(libc::STDOUT_FILENO)
}

fn size_of(descriptor: i32) -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills the struct.
    let known = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) } == 0;
    (known && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Words in lines so wide, each behind so many spaces. A path that is longer goes on after one of its `/`.
pub(super) fn wrapped(indent: usize, text: &str, width: usize) -> String {
    let room = width.saturating_sub(indent).max(20);
    let mut lines: Vec<String> = Vec::new();
    let mut put = |word: &str, gap: &str| match lines.last_mut() {
        Some(line) if columns::columns(line) + gap.len() + columns::columns(word) <= room => {
            line.push_str(gap);
            line.push_str(word);
        }
        _ => lines.push(word.to_owned()),
    };
    for word in text.split_whitespace() {
        if columns::columns(word) <= room {
            put(word, " ");
            continue;
        }
        let mut gap = " ";
        for part in word.split_inclusive('/') {
            put(part, gap);
            gap = "";
        }
    }
    lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}
