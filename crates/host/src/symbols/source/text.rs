//! Source text around a line: its words, its brackets, and names that may be the wanted one.

use std::ops::Range;

/// How far before and after its line a statement is followed.
const LINES_BEFORE: usize = 16;

const LINES_AFTER: usize = 12;

/// More names than this on one line say nothing.
const MOST_NAMES: usize = 4;

/// A name with the part of the text that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) span: Range<usize>,
}

/// The lines around the one asked for.
pub(super) struct Window<'a> {
    pub(super) text: &'a str,
    /// Where the line is in `text`.
    pub(super) line: Range<usize>,
}

impl<'a> Window<'a> {
    pub(super) fn new(text: &'a str, line: u32) -> Option<Window<'a>> {
        Window::around(text, line, LINES_BEFORE, LINES_AFTER)
    }

    pub(super) fn around(text: &'a str, line: u32, before: usize, after: usize) -> Option<Window<'a>> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let first = index.saturating_sub(before);
        let (mut start, mut end, mut asked) = (None, 0, None);
        let mut at = 0;
        for (i, l) in text.split_inclusive('\n').enumerate() {
            if i == first {
                start = Some(at);
            }
            if i == index {
                asked = Some(at..at + l.trim_end_matches(['\n', '\r']).len());
            }
            at += l.len();
            end = at;
            if i >= index + after {
                break;
            }
        }
        let (start, asked) = (start?, asked?);
        Some(Window { text: text.get(start..end)?, line: asked.start - start..asked.end - start })
    }

    /// The place of a column of the line, None for an unknown one.
    pub(super) fn position(&self, column: u32) -> Option<usize> {
        let at = self.line.start + usize::try_from(column).ok()?.checked_sub(1)?;
        (at < self.line.end).then_some(at)
    }
}

pub(super) fn decide(mut candidates: Vec<Candidate>, position: Option<usize>) -> Option<String> {
    if let Some(at) = position {
        let holding: Vec<&Candidate> = candidates.iter().filter(|c| c.span.contains(&at)).collect();
        if let [only] = holding[..] {
            return Some(only.name.clone());
        }
    }
    let mut names: Vec<String> = Vec::new();
    for candidate in candidates.drain(..) {
        if !names.contains(&candidate.name) {
            names.push(candidate.name);
        }
    }
    (1..=MOST_NAMES).contains(&names.len()).then(|| names.join("|"))
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the word that begins at `at`.
pub(super) fn word_end(code: &[u8], at: usize) -> usize {
    at + code[at..].iter().take_while(|&&b| is_word(b)).count()
}

/// The start of the word that ends before `end`.
pub(super) fn word_start(code: &[u8], end: usize) -> usize {
    end - code[..end].iter().rev().take_while(|&&b| is_word(b)).count()
}

pub(super) fn skip_spaces(code: &[u8], at: usize) -> usize {
    at + code[at..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

pub(super) fn trim_end(code: &[u8], end: usize) -> usize {
    end - code[..end].iter().rev().take_while(|b| b.is_ascii_whitespace()).count()
}

/// One past the bracket that closes the one at `open`.
pub(super) fn closing(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, &b) in code.iter().enumerate().skip(open) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The bracket that opens the one that ends at `end` (exclusive).
pub(super) fn opening(code: &[u8], end: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in (0..end).rev() {
        match code[i] {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Text without white space, except where it separates two words.
pub(super) fn squeeze(code: &[u8]) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(code.len());
    let mut gap = false;
    for &b in code {
        if b.is_ascii_whitespace() {
            gap = true;
            continue;
        }
        if gap && is_word(b) && out.last().is_some_and(|&l| is_word(l)) {
            out.push(b' ');
        }
        gap = false;
        out.push(b);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Ranges between the commas of `range` that no bracket encloses.
pub(super) fn split_commas(code: &[u8], range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0i32, range.start);
    for i in range.clone() {
        match code[i] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(start..i);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(start..range.end);
    parts
}
