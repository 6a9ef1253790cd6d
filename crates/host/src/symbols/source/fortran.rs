//! Fortran: `allocate(a(n), b(n))`, and assignments that (re)allocate their left side.

use super::text::{Candidate, Window, closing, is_word, skip_spaces, split_commas, squeeze, word_end};

/// Keywords of ALLOCATE that are not objects.
const OPTIONS: [&str; 4] = ["stat", "source", "mold", "errmsg"];

pub(super) fn candidates(window: &Window<'_>, fixed: bool) -> Vec<Candidate> {
    let Some(code) = statement(window, fixed) else {
        return Vec::new();
    };
    let lower = code.to_ascii_lowercase();
    let mut at = 0;
    let mut found = Vec::new();
    while at < lower.len() {
        if !is_word(lower[at]) {
            at += 1;
            continue;
        }
        let end = word_end(&lower, at);
        let open = skip_spaces(&lower, end);
        if &lower[at..end] == b"allocate" && lower.get(open) == Some(&b'(') {
            let close = closing(&lower, open).map_or(lower.len(), |c| c - 1);
            found.extend(objects(&code, &lower, open + 1, close));
        }
        at = end;
    }
    if found.is_empty() {
        found.extend(assigned(&code));
    }
    found
}

fn objects(code: &[u8], lower: &[u8], from: usize, to: usize) -> Vec<Candidate> {
    let mut from = from;
    // `allocate(real(8) :: a(n))`
    if let Some(at) = lower[from..to].windows(2).position(|w| w == b"::") {
        from += at + 2;
    }
    split_commas(code, from..to)
        .into_iter()
        .filter_map(|part| {
            let start = skip_spaces(code, part.start).min(part.end);
            let word = word_end(code, start).min(part.end);
            let after = skip_spaces(code, word);
            let is_option =
                code.get(after) == Some(&b'=') && OPTIONS.iter().any(|o| o.as_bytes() == &lower[start..word]);
            if is_option {
                return None;
            }
            // The shape is the last bracket: `grid(i)%u(n,m)` is `grid(i)%u`.
            let text = &code[start..part.end];
            let text = text.trim_ascii_end();
            let end = if text.ends_with(b")") { super::text::opening(text, text.len())? } else { text.len() };
            let name = squeeze(&text[..end]);
            // Positions of joined continuation lines mean nothing in the file.
            (!name.is_empty()).then_some(Candidate { name, span: 0..0 })
        })
        .collect()
}

/// The left side of `a = …`, `a(:) = …`, `p => …`, also after a one-line `if (…)`.
fn assigned(code: &[u8]) -> Option<Candidate> {
    let mut start = skip_spaces(code, 0);
    let word = word_end(code, start);
    if code[start..word].eq_ignore_ascii_case(b"if") {
        let open = skip_spaces(code, word);
        start = skip_spaces(code, closing(code, open)?);
    }
    let mut at = start;
    while at < code.len() {
        match code[at] {
            b'(' => at = closing(code, at)?,
            b'=' => break,
            b if is_word(b) || b == b'%' || b.is_ascii_whitespace() => at += 1,
            _ => return None,
        }
    }
    if code.get(at) != Some(&b'=') || code.get(at + 1) == Some(&b'=') {
        return None;
    }
    let left = code[start..at].trim_ascii();
    let end = if left.ends_with(b")") { super::text::opening(left, left.len())? } else { left.len() };
    let name = squeeze(&left[..end]);
    // Two words are a declaration or a keyword, not an assignment.
    (!name.is_empty() && !name.contains(' ')).then_some(Candidate { name, span: 0..0 })
}

/// The statement around the line, continuation lines joined, comments and the text of
/// strings removed.
fn statement(window: &Window<'_>, fixed: bool) -> Option<Vec<u8>> {
    let mut lines: Vec<(bool, Vec<u8>)> = Vec::new();
    let mut asked = None;
    let mut at = 0;
    for line in window.text.split_inclusive('\n') {
        if (at..at + line.len()).contains(&window.line.start) {
            asked = Some(lines.len());
        }
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']).as_bytes();
        lines.push(if fixed { fixed_line(line) } else { free_line(line) });
    }
    let asked = asked?;
    // `continues[i]`: line i goes on in the next line that is not a comment.
    let continued = |i: usize| {
        if fixed { lines.get(i + 1).is_some_and(|l| l.0) } else { lines[i].0 }
    };
    let blank = |i: usize| lines[i].1.trim_ascii().is_empty() && !lines[i].0;
    let mut first = asked;
    while let Some(before) = (0..first).rev().find(|&i| !blank(i)) {
        let joins = if fixed { lines[first].0 } else { continued(before) };
        if !joins {
            break;
        }
        first = before;
    }
    let mut code = Vec::new();
    for (i, line) in lines.iter().enumerate().skip(first) {
        code.extend_from_slice(&line.1);
        code.push(b' ');
        if i >= asked && !blank(i) && !continued(i) {
            break;
        }
    }
    Some(code)
}

/// Free form: whether it ends in `&`, and its code.
fn free_line(line: &[u8]) -> (bool, Vec<u8>) {
    let mut code = without_text(line);
    let kept = code.trim_ascii_end().len();
    code.truncate(kept);
    let continues = code.last() == Some(&b'&');
    if continues {
        code.pop();
    }
    let lead = skip_spaces(&code, 0);
    if code.get(lead) == Some(&b'&') {
        code[lead] = b' ';
    }
    (continues, code)
}

/// Fixed form: whether it continues the line before, and its code.
fn fixed_line(line: &[u8]) -> (bool, Vec<u8>) {
    if matches!(line.first(), Some(b'c' | b'C' | b'*' | b'!' | b'd' | b'D')) {
        return (false, Vec::new());
    }
    let continues = line.len() > 5
        && line[..5].iter().all(u8::is_ascii_whitespace)
        && !matches!(line[5], b' ' | b'0' | b'\t');
    let mut code = without_text(line);
    if continues && code.len() > 5 {
        code[5] = b' ';
    }
    (continues, code)
}

fn without_text(line: &[u8]) -> Vec<u8> {
    let mut code = Vec::with_capacity(line.len());
    let mut quote = None;
    for &b in line {
        match quote {
            Some(q) => {
                if b == q {
                    quote = None;
                }
                code.push(b' ');
            }
            None if b == b'\'' || b == b'"' => {
                quote = Some(b);
                code.push(b' ');
            }
            None if b == b'!' => break,
            None => code.push(b),
        }
    }
    code
}
