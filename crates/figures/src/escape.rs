//! Text that is not ours, made harmless: names of files, functions, threads and machines, arguments, reasons.
//! They come from programs and from recordings that anybody may have made. A terminal obeys what is in
//! them: ESC writes over the verdict, U+202E turns a line round.
//!
//! Whatever puts output together ends here: every line of a page (`report`), SVG, JSON, the files that
//! are written, and the messages of the command. It is done where output leaves and not where text comes in, because
//! a new table or field then cannot be forgotten, and names stay what they are for comparing and matching.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal or a reader of text does something with a character instead of showing it: control
/// characters of both ranges, marks of direction, separators of lines.
pub fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn replaced<'a>(
    text: &'a str,
    is_bad: impl Fn(char) -> bool,
    put: impl Fn(&mut String, char),
) -> Cow<'a, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) { put(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// For one line of text: each such character as `\u{1b}`, line feeds too.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, is_command, |out, c| out.extend(c.escape_unicode()))
}

/// For text of several lines. What follows a line feed is indented: it cannot pose as a line of its own.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, is_command, |out, c| match c {
        '\n' => out.push_str("\n  "),
        c => out.extend(c.escape_unicode()),
    })
}

/// For text that was put together of lines which are harmless, up to their ends.
pub fn page(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c != '\n' && is_command(c), |out, c| out.extend(c.escape_unicode()))
}

/// Text as XML 1.0 or HTML that shows it, in an element or between double quotes.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not even escaped may these be in XML 1.0.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON with the same meaning: such characters stand in it only within strings, where they may be written as `\u202e`.
pub fn json(text: String) -> String {
    // Line feeds are between the values; within strings the writer has escaped them.
    match replaced(
        &text,
        |c| c != '\n' && is_command(c),
        |out, c| {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    ) {
        Cow::Owned(json) => json,
        Cow::Borrowed(_) => text,
    }
}

/// A string as TOML, which reads it back the same.
pub fn toml(text: &str) -> String {
    if !text.contains(is_command) {
        return ::toml::Value::String(text.to_owned()).to_string();
    }
    let quoted = replaced(
        text,
        |c| is_command(c) || matches!(c, '"' | '\\'),
        |out, c| match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        },
    );
    format!("\"{quoted}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind.
    const BAD: &str = "a\x1b[2Jb\x07c\nd\te\u{202e}f\u{2066}g\u{200f}h\x7fi\u{9b}31mj\"k\\l";

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(line("iso3dfd.cpp:12 ×3 äß 数"), "iso3dfd.cpp:12 ×3 äß 数");
        let shown = line(BAD);
        assert!(!shown.contains(is_command), "{shown}");
        assert!(shown.starts_with(r"a\u{1b}[2Jb\u{7}c\u{a}d\u{9}e\u{202e}f"), "{shown}");
        assert_eq!(lines("a\nnearfar: b\x1b"), "a\n  nearfar: b\\u{1b}");
        assert_eq!(page("a\nb\r\n"), "a\nb\\u{d}\n");
    }

    #[test]
    fn json_and_toml_say_the_same_without_them() {
        let safe = json(serde_json::to_string(BAD).unwrap());
        assert!(!safe.contains(is_command), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), BAD);
        let safe = format!("x = {}", toml(BAD));
        assert!(!safe.contains(is_command), "{safe}");
        assert_eq!(safe.parse::<::toml::Table>().unwrap()["x"].as_str(), Some(BAD));
        assert_eq!(toml("plain"), "\"plain\"");
    }
}
