//! C++: `for (auto &row : rows) row.resize(n)` takes memory for elements of `rows`, and `row` is nowhere else.

use super::text::{closing, is_word, skip_spaces, squeeze, word_end, word_start};

/// More loops around a line than this are not followed.
const MOST_LOOPS: usize = 4;

/// The name, of something at `at`, by what it is an element of: `rows[].cells` for `row.cells` in a loop by reference over
/// `rows`. Names that no such loop around it declares stay as they are.
pub(super) fn of(code: &[u8], at: usize, mut name: String) -> String {
    let mut before = at;
    for _ in 0..MOST_LOOPS {
        let head = word_end(name.as_bytes(), 0);
        let Some((start, container)) = loop_over(code, before, at, &name.as_bytes()[..head]) else { break };
        name = format!("{container}[]{}", &name[head..]);
        before = start;
    }
    name
}

/// The innermost loop that begins before `before`, holds `at` and declares this name: where it begins, and what it goes over.
/// None where the name is a copy of an element, and where the container is what a call returns and has no name of its own.
fn loop_over(code: &[u8], before: usize, at: usize, name: &[u8]) -> Option<(usize, String)> {
    if name.is_empty() {
        return None;
    }
    let begins = |&i: &usize| {
        code[i..].starts_with(b"for") && word_end(code, i) == i + 3 && (i == 0 || !is_word(code[i - 1]))
    };
    let declaring = |start: usize| {
        let open = skip_spaces(code, start + 3);
        let close = (code.get(open) == Some(&b'(')).then(|| closing(code, open))??;
        let header = &code[open + 1..close - 1];
        let (declaration, container) = header.split_at(separator(header)?);
        let holds = close <= at && at < body_end(code, close);
        (holds && declares(declaration, name)).then(|| (start, declaration, squeeze(&container[1..])))
    };
    let (start, declaration, container) = (0..before).rev().filter(begins).find_map(declaring)?;
    let element = declaration.contains(&b'&') && !container.contains('(') && !container.is_empty();
    element.then_some((start, container))
}

/// The colon between what is declared and what is gone over; none in a loop that counts.
fn separator(header: &[u8]) -> Option<usize> {
    let alone =
        |i: usize| header[i] == b':' && header.get(i + 1) != Some(&b':') && (i == 0 || header[i - 1] != b':');
    (!header.contains(&b';')).then(|| (0..header.len()).find(|&i| alone(i)))?
}

/// Whether a declaration of one name, or of several in brackets, has the name.
fn declares(declaration: &[u8], name: &[u8]) -> bool {
    let declaration = declaration.trim_ascii_end();
    match declaration
        .strip_suffix(b"]")
        .and_then(|list| Some(&list[list.iter().rposition(|&b| b == b'[')?..]))
    {
        Some(several) => several.split(|&b| !is_word(b)).any(|word| word == name),
        None => &declaration[word_start(declaration, declaration.len())..] == name,
    }
}

/// Where the statement that begins at `at` ends: with its block, or at a semicolon. Loops and conditions may come first.
fn body_end(code: &[u8], mut at: usize) -> usize {
    loop {
        at = skip_spaces(code, at);
        let word = &code[at..word_end(code, at)];
        if !matches!(word, b"for" | b"if" | b"while") {
            break;
        }
        let open = skip_spaces(code, at + word.len());
        match (code.get(open) == Some(&b'(')).then(|| closing(code, open)).flatten() {
            Some(close) => at = close,
            None => return code.len(),
        }
    }
    if code.get(at) == Some(&b'{') {
        return closing(code, at).unwrap_or(code.len());
    }
    let mut depth = 0i32;
    for (i, b) in code.iter().enumerate().skip(at) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth <= 0 => return i,
            _ => {}
        }
    }
    code.len()
}
