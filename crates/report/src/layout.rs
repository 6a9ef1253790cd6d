//! Words, numbers and columns on a terminal. Own code rather than a table
//! library: two kinds of table with fixed columns need no more than padding.

use nearfar_analyze::{Basis, FunctionRow, Interval, Report};
use nearfar_figures::escape;
use std::fmt::Write as _;

pub(super) use nearfar_figures::columns::{columns, cut, fitting, left, right};
pub(super) use nearfar_figures::count::count;
/// `50 %`; `unknown` where no number exists.
pub(super) use nearfar_figures::percent::percent_if_known as percent;
pub(super) use nearfar_figures::sizes::size;

/// `50 % (47–53)`.
pub(super) fn percent_ci(share: Option<f64>, ci: Option<Interval>) -> String {
    match (share, ci) {
        (Some(share), Some(ci)) => nearfar_figures::percent::with_interval(share, ci.low, ci.high),
        _ => percent(share),
    }
}

/// `1 thread`, `3 threads`.
pub(super) fn plural(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Shortened in the middle: the start of a path says where, its end says what.
pub(super) fn shorten(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    if max < 3 {
        return text.chars().take(fitting(text.chars(), max)).collect();
    }
    // The end gets more: file and line matter more than the folder.
    let head = (max - 1) / 3;
    let tail = max - 1 - head;
    let start: String = text.chars().take(fitting(text.chars(), head)).collect();
    let end = text.chars().count() - fitting(text.chars().rev(), tail);
    format!("{start}…{}", text.chars().skip(end).collect::<String>())
}

/// The page being written.
pub(super) struct Page {
    text: String,
    pub(super) width: usize,
    color: bool,
}

/// How a line is set off where there is colour. It repeats what the words say.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Good,
    Bad,
    Unsure,
    Heading,
}

impl Page {
    pub(super) fn new(width: usize, color: bool) -> Self {
        Page {
            text: String::new(),
            // Below this the tables cannot be kept apart; let the terminal wrap.
            width: width.max(60),
            color,
        }
    }

    /// Lines so far.
    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// The one way to the page: whatever names are in it, nothing of it reaches a terminal as a command.
    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(&escape::line(text.trim_end()));
        self.text.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    fn styled(&mut self, style: Style, text: &str) {
        let code = match style {
            Style::Good => "1;32",
            Style::Bad => "1;31",
            Style::Unsure => "1;33",
            Style::Heading => "1",
        };
        if self.color {
            let text = escape::line(text.trim_end());
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "\x1b[{code}m{text}\x1b[0m");
        } else {
            self.line(text);
        }
    }

    /// A paragraph in a style, wrapped.
    pub(super) fn headline(&mut self, style: Style, text: &str) {
        for line in wrap(text, self.width) {
            self.styled(style, &line);
        }
    }

    /// A blank line and a heading. A sentence is wrapped; the names of columns stand where the columns are.
    pub(super) fn heading(&mut self, text: &str) {
        self.blank();
        match text.contains("  ") {
            true => self.styled(Style::Heading, text),
            false => self.headline(Style::Heading, text),
        }
    }

    /// Wrapped text without a style.
    pub(super) fn paragraph(&mut self, text: &str) {
        for line in wrap(text, self.width) {
            self.line(&line);
        }
    }

    /// A wrapped remark below a table.
    pub(super) fn indented(&mut self, text: &str) {
        self.hanging(" ".repeat(3), 3, text);
    }

    /// A wrapped point of a list.
    pub(super) fn bullet(&mut self, text: &str) {
        self.hanging("- ".to_owned(), 2, text);
    }

    /// A label and a wrapped text beside it.
    pub(super) fn item(&mut self, indent: usize, label: &str, text: &str) {
        let hang = indent + 10;
        let start = left(&format!("{}{label} ", " ".repeat(indent)), hang);
        self.hanging(start, hang, text);
    }

    /// A wrapped text behind `start`, its further lines behind `hang` spaces.
    pub(super) fn hanging(&mut self, mut start: String, hang: usize, text: &str) {
        for line in wrap(text, self.width.saturating_sub(hang)) {
            self.line(&format!("{start}{line}"));
            start = " ".repeat(hang);
        }
    }
}

/// Lines of at most `width` columns. A word that is longer stays whole: it is a
/// path or a command that a reader may want to copy.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // Number and unit stay together.
    let glued = text.replace(" %", "\u{a0}%");
    for word in glued.split(' ').filter(|w| !w.is_empty()) {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    for line in &mut lines {
        *line = line.replace('\u{a0}', " ");
    }
    lines
}

/// What samples stand for.
pub(super) fn units(r: &Report) -> &'static str {
    match r.basis {
        Basis::StallTime => "samples",
        Basis::DramLines => "sampled lines",
        Basis::MemoryLoads => "sampled loads",
    }
}

/// What of a function is far, or that it waits for other threads.
pub(super) fn far(f: &FunctionRow, write: impl Fn(f64) -> String) -> String {
    f.remote_share.map_or_else(|| if f.waits() { "waits" } else { "unknown" }.to_owned(), write)
}
