//! C and C++: the pieces of a statement that can hold memory. Declared variables, members
//! in a constructor's list, and expressions that can be assigned to.

use super::text::{
    Candidate, closing, is_word, opening, skip_spaces, split_commas, squeeze, trim_end, word_end, word_start,
};

/// Types whose values hold no memory.
const NUMBERS: [&str; 24] = [
    "int",
    "long",
    "short",
    "char",
    "unsigned",
    "signed",
    "float",
    "double",
    "bool",
    "void",
    "size_t",
    "ssize_t",
    "ptrdiff_t",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "std::size_t",
    "wchar_t",
    "time_t",
];

const QUALIFIERS: [&str; 12] = [
    "static",
    "const",
    "constexpr",
    "volatile",
    "thread_local",
    "inline",
    "struct",
    "class",
    "typename",
    "extern",
    "register",
    "mutable",
];

/// Words that can precede an expression and are not a type.
pub(super) const NOT_TYPES: [&str; 12] = [
    "return",
    "else",
    "do",
    "new",
    "delete",
    "throw",
    "case",
    "goto",
    "co_return",
    "co_yield",
    "co_await",
    "not",
];

/// The variables that a declaration declares and initialises in a way that allocates:
/// any of class type, and pointers set by a call.
///
/// None when the statement is not a declaration.
pub(super) fn declarators(code: &[u8], start: usize, cpp: bool) -> Option<Vec<Candidate>> {
    let mut at = skip_spaces(code, start);
    let mut number = false;
    let mut types = 0;
    // The type: qualifiers, then one qualified name (or several words of numbers).
    loop {
        let end = word_end(code, at);
        if end == at {
            break;
        }
        let word = std::str::from_utf8(&code[at..end]).ok()?;
        if QUALIFIERS.contains(&word) {
            at = skip_spaces(code, end);
            continue;
        }
        if types > 0 && !(number && NUMBERS.contains(&word)) {
            break;
        }
        if NOT_TYPES.contains(&word) {
            return None;
        }
        types += 1;
        number |= NUMBERS.contains(&word);
        let mut after = end;
        loop {
            let next = skip_spaces(code, after);
            if code[next..].starts_with(b"<") {
                after = template_end(code, next)?;
            } else if code[next..].starts_with(b"::") {
                let name = skip_spaces(code, next + 2);
                let name_end = word_end(code, name);
                number |= &code[name..name_end] == b"size_t";
                after = name_end;
            } else {
                break;
            }
        }
        at = skip_spaces(code, after);
    }
    if types == 0 {
        return None;
    }
    let mut found = Vec::new();
    for part in split_commas(code, at..code.len()) {
        let mut name = part.start;
        let mut pointer = false;
        while let Some(&b) = code.get(name) {
            match b {
                b'*' => pointer = true,
                b'&' => {}
                b if b.is_ascii_whitespace() => {}
                _ => break,
            }
            name += 1;
        }
        let end = word_end(code, name);
        // `a = f(x)` has no second word; `a.b()` and `f(x)` are not declarations.
        if end == name || name >= part.end {
            return None;
        }
        let word = &code[name..end];
        if QUALIFIERS.iter().any(|q| q.as_bytes() == word) {
            return None;
        }
        let after = skip_spaces(code, end).min(part.end);
        let initialiser = &code[after..part.end];
        let holds = match initialiser.first() {
            None => cpp && !number && !pointer,
            Some(b'=') if pointer || !cpp => pointer && initialiser.contains(&b'('),
            Some(b'=' | b'(' | b'{') => cpp && !number,
            Some(b'[') => initialiser.contains(&b'=') || cpp && !number,
            Some(_) => return None,
        };
        if holds {
            found.push(Candidate { name: squeeze(word), span: name..part.end });
        }
    }
    Some(found)
}

/// The variable of an array, or of a pointer to one, that what ends before `end` declares: `rows` of
/// `double *rows[2] =`, `rows` of `double (*rows)[9] =`. None for other declarations, and for assignments.
pub(super) fn declared(code: &[u8], start: usize, end: usize) -> Option<String> {
    let dimensions = |mut at: usize| {
        while at > start && code[at - 1] == b']' {
            at = trim_end(code, opening(code, at)?);
        }
        Some(at.max(start))
    };
    let whole = trim_end(code, end).max(start);
    let last = dimensions(whole)?;
    let (name, before) = if last > start && code[last - 1] == b')' {
        let open = opening(code, last).filter(|&open| open > start)?;
        let inner = dimensions(trim_end(code, last - 1))?;
        let name = word_start(code, inner).max(open + 1);
        let stars = &code[open + 1..name];
        if !stars.contains(&b'*') || !stars.iter().all(|&b| b == b'*' || b.is_ascii_whitespace()) {
            return None;
        }
        (name..inner, open)
    } else {
        let name = word_start(code, last).max(start);
        (name..last, name)
    };
    if name.is_empty() || last == whole {
        return None;
    }
    let mut at = trim_end(code, before).max(start);
    let mut star = false;
    while at > start && matches!(code[at - 1], b'*' | b'&') {
        star |= code[at - 1] == b'*';
        at = trim_end(code, at - 1).max(start);
    }
    let is_declared = match code[start..at].last()? {
        b'>' => !code[start..at].ends_with(b"->"),
        b',' => star && begins_with_a_type(&code[start..at]),
        &b if is_word(b) => {
            let word = word_start(code, at).max(start);
            let joined = trim_end(code, word).max(start);
            let part = code[start..joined].ends_with(b".") || code[start..joined].ends_with(b"->");
            !part && !NOT_TYPES.iter().any(|w| w.as_bytes() == &code[word..at])
        }
        _ => false,
    };
    is_declared.then(|| squeeze(&code[name]))
}

/// `double *a`, `const Node b`: a word, and then another or a star.
fn begins_with_a_type(code: &[u8]) -> bool {
    let first = skip_spaces(code, 0);
    let end = word_end(code, first);
    let next = code.get(skip_spaces(code, end));
    end > first
        && !NOT_TYPES.iter().any(|w| w.as_bytes() == &code[first..end])
        && next.is_some_and(|&b| is_word(b) || b == b'*')
}

/// Members that a constructor's list initialises: `: data(n), other(m)`.
pub(super) fn initialiser_list(code: &[u8], start: usize) -> Vec<Candidate> {
    let text = &code[start..];
    let colon = text
        .iter()
        .enumerate()
        .position(|(i, &b)| b == b':' && text.get(i + 1) != Some(&b':') && (i == 0 || text[i - 1] != b':'));
    let before = colon.map(|c| text[..c].trim_ascii_end());
    let from = match (colon, before) {
        (Some(colon), Some(before))
            if before.is_empty()
                || before.ends_with(b")")
                    && !before.contains(&b'?')
                    && !before.trim_ascii_start().starts_with(b"case") =>
        {
            colon + 1
        }
        // A list that goes on from the line before.
        (None, _) if text.trim_ascii_start().starts_with(b",") => skip_spaces(code, start) - start + 1,
        _ => return Vec::new(),
    };
    split_commas(code, start + from..code.len())
        .into_iter()
        .filter_map(|part| {
            let name = skip_spaces(code, part.start);
            let end = word_end(code, name);
            let open = skip_spaces(code, end);
            let is_member = end > name && matches!(code.get(open), Some(b'(' | b'{'));
            is_member.then(|| Candidate { name: squeeze(&code[name..end]), span: name..part.end })
        })
        .collect()
}

/// The left side of a statement that is one plain assignment.
pub(super) fn assigned(code: &[u8], start: usize) -> Option<Candidate> {
    let mut at = start;
    while at < code.len() {
        match code[at] {
            b'(' | b'[' | b'{' => {
                at = closing(code, at)?;
                continue;
            }
            b'=' => {
                let before = if at > start { code[at - 1] } else { b' ' };
                // `+=` on strings and sets allocates too; comparisons do not.
                if code.get(at + 1) == Some(&b'=') || b"!<>".contains(&before) {
                    return None;
                }
                let end = if b"+-*/%&|^".contains(&before) { at - 1 } else { at };
                let (name, from) = lvalue(code, start, end)?;
                return Some(Candidate { name, span: from..code.len() });
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// One past the `>` that closes the `<` at `open`.
pub(super) fn template_end(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = open;
    while at < code.len() {
        match code[at] {
            b'<' => depth += 1,
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'(' | b'[' | b'{' => {
                at = closing(code, at)?;
                continue;
            }
            b';' | b'=' | b')' => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The `<` of the template arguments that end at `end`, or `end` when there are none.
pub(super) fn template_start(code: &[u8], end: usize) -> usize {
    let mut depth = 0usize;
    for i in (0..end).rev() {
        match code[i] {
            b'>' => depth += 1,
            b'<' => {
                depth -= 1;
                if depth == 0 {
                    return i;
                }
            }
            b';' | b'=' => break,
            _ if depth == 0 => break,
            _ => {}
        }
    }
    end
}

/// The expression that ends before `end` and can be assigned to, with its start:
/// `p`, `s->field`, `this->data[i]`, `*out`.
pub(super) fn lvalue(code: &[u8], start: usize, end: usize) -> Option<(String, usize)> {
    let end = trim_end(code, end).max(start);
    let mut at = end;
    loop {
        // Brackets after a name belong to it: `a[i]`, `f(x)`.
        while at > start && matches!(code[at - 1], b']' | b')') {
            let open = opening(code, at)?;
            if open < start {
                return None;
            }
            at = trim_end(code, open).max(start);
            if at == start || !(is_word(code[at - 1]) || matches!(code[at - 1], b']' | b')')) {
                at = open;
                break;
            }
        }
        let word = word_start(code, at).max(start);
        let bracketed = code.get(at) == Some(&b'(');
        if word == at && !bracketed {
            return None;
        }
        at = word;
        let before = trim_end(code, at).max(start);
        let joint =
            [&b"->"[..], b"::", b"."].iter().find(|j| code[start..before].ends_with(j)).map(|j| j.len());
        match joint {
            Some(length) => at = trim_end(code, before - length).max(start),
            None => break,
        }
    }
    let mut name = squeeze(&code[at..end]);
    // A star makes a pointer's target, unless a type before it makes a declaration.
    let stars = code[start..at]
        .iter()
        .rev()
        .take_while(|b| **b == b'*' || b.is_ascii_whitespace())
        .filter(|b| **b == b'*')
        .count();
    let before_stars = code[start..at].iter().rposition(|b| *b != b'*' && !b.is_ascii_whitespace());
    let dereferenced = match before_stars {
        None => true,
        Some(i) => code[start + i] == b'(' || code[start + i] == b')',
    };
    if stars > 0 && dereferenced {
        name.insert_str(0, &"*".repeat(stars));
    }
    name.starts_with(|c: char| c.is_alphabetic() || "_(*".contains(c)).then_some((name, at))
}
