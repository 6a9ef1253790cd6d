//! C and C++: finds the statements of a line and what each of them assigns.

use std::ops::Range;

use super::elements;
use super::expressions::{
    NOT_TYPES, assigned, declarators, declared, initialiser_list, lvalue, template_end, template_start,
};
use super::text::{
    Candidate, Window, closing, is_word, opening, skip_spaces, split_commas, squeeze, trim_end, word_end,
    word_start,
};

/// Functions that return memory through a pointer argument, with its position.
const OUT_PARAMETER: [(&str, usize); 11] = [
    ("posix_memalign", 0),
    ("cudaMalloc", 0),
    ("cudaMallocHost", 0),
    ("cudaMallocManaged", 0),
    ("hipMalloc", 0),
    ("hipHostMalloc", 0),
    ("asprintf", 0),
    ("getline", 0),
    ("MPI_Alloc_mem", 2),
    ("MPI_Win_allocate", 4),
    ("MPI_Win_allocate_shared", 4),
];

/// Functions that return memory and do not have "alloc" in their names.
const ALLOCATORS: [&str; 14] = [
    "new",
    "mmap",
    "mmap64",
    "mremap",
    "memalign",
    "aligned_alloc",
    "strdup",
    "strndup",
    "shmat",
    "realpath",
    "fopen",
    "make_unique",
    "make_unique_for_overwrite",
    "make_shared",
];

/// Methods that make their object take memory.
const GROWING: [&str; 17] = [
    "resize",
    "reserve",
    "assign",
    "push_back",
    "emplace_back",
    "push_front",
    "emplace_front",
    "push",
    "insert",
    "emplace",
    "try_emplace",
    "insert_or_assign",
    "append",
    "reset",
    "rehash",
    "setZero",
    "shrink_to_fit",
];

pub(super) fn candidates(window: &Window<'_>, column: u32, cpp: bool) -> Vec<Candidate> {
    let code = clean(window.text.as_bytes());
    let statements = statements(&code, &window.line);
    let position = window.position(column);
    let holding = statements.iter().find(|s| position.is_some_and(|at| s.contains(&at)));
    // Without a column, or where it points at a blank, every statement of the line.
    let mut found: Vec<Candidate> = match holding {
        Some(statement) => read(&code, statement.clone(), cpp),
        None => statements.into_iter().flat_map(|s| read(&code, s, cpp)).collect(),
    };
    if cpp {
        for candidate in &mut found {
            candidate.name = elements::of(&code, candidate.span.start, std::mem::take(&mut candidate.name));
        }
    }
    found
}

/// Blanks comments, strings, character constants and preprocessor lines. A
/// preprocessor line leaves a `;`, because no statement reaches across it.
pub(super) fn clean(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut i = 0;
    let mut line_begins = true;
    while i < code.len() {
        let rest = &text[i..];
        let to = if rest.starts_with(b"//") {
            i + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            i + rest[2..].windows(2).position(|w| w == b"*/").map_or(rest.len(), |p| p + 4)
        } else if line_begins && rest[0] == b'#' {
            let mut end = i;
            while end < text.len() && !(text[end] == b'\n' && text[end - 1] != b'\\') {
                end += 1;
            }
            end
        } else if rest[0] == b'"' || rest[0] == b'\'' && (i == 0 || !is_word(text[i - 1])) {
            let mut end = i + 1;
            while end < text.len() && text[end] != rest[0] && text[end] != b'\n' {
                end += if text[end] == b'\\' { 2 } else { 1 };
            }
            (end + 1).min(text.len())
        } else {
            line_begins = rest[0] == b'\n' || line_begins && rest[0].is_ascii_whitespace();
            i += 1;
            continue;
        };
        let directive = rest[0] == b'#';
        for b in &mut code[i..to] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        if directive {
            code[i] = b';';
        }
        i = to.max(i + 1);
    }
    code
}

/// The statements that have a part on the line.
pub(super) fn statements(code: &[u8], line: &Range<usize>) -> Vec<Range<usize>> {
    let start = statement_start(code, skip_spaces(code, line.start).min(line.end));
    let mut found = Vec::new();
    let (mut from, mut parens, mut braces) = (start, 0i32, 0i32);
    for i in start..code.len() {
        let boundary = match code[i] {
            b'(' | b'[' => {
                parens += 1;
                false
            }
            b')' | b']' => {
                parens -= 1;
                false
            }
            b';' => parens <= 0,
            b'{' => {
                let before = trim_end(code, i);
                let word = &code[word_start(code, before).max(from)..before];
                // A block follows `)` or one of these words; else it is an initialiser.
                let block = before <= from
                    || code[before - 1] == b')'
                    || matches!(word, b"else" | b"do" | b"try" | b"const" | b"noexcept");
                if block {
                    parens = 0;
                } else {
                    braces += 1;
                }
                block
            }
            b'}' if braces > 0 => {
                braces -= 1;
                false
            }
            b'}' => true,
            _ => false,
        };
        if boundary {
            if i > line.start {
                found.push(from..i);
            }
            (from, parens, braces) = (i + 1, 0, 0);
            if i >= trim_end(&code[..line.end], line.end).saturating_sub(1) {
                return found;
            }
        }
    }
    found.push(from..code.len());
    found
}

/// Where the statement that holds `at` begins. Brackets of initialisers are parts of one.
fn statement_start(code: &[u8], mut at: usize) -> usize {
    while at > 0 {
        at -= 1;
        match code[at] {
            b';' => return at + 1,
            b'{' if !initialises(code, at) => return at + 1,
            b'}' => match opening(code, at + 1).filter(|&open| initialises(code, open)) {
                Some(open) => at = open,
                None => return at + 1,
            },
            _ => {}
        }
    }
    0
}

/// Whether the brace at `open` begins an initialiser (`= {`) or one within another (`= {1, {`).
fn initialises(code: &[u8], mut open: usize) -> bool {
    loop {
        let before = trim_end(code, open);
        match before.checked_sub(1).map(|b| code[b]) {
            Some(b'=' | b',') => return true,
            Some(b'{') => open = before - 1,
            _ => return false,
        }
    }
}

fn read(code: &[u8], statement: Range<usize>, cpp: bool) -> Vec<Candidate> {
    let text = &code[..statement.end];
    let mut saw_allocator = false;
    let mut found = Vec::new();
    let mut at = statement.start;
    while at < text.len() {
        if !is_word(text[at]) {
            at += 1;
            continue;
        }
        let end = word_end(text, at);
        if let Some(span) = allocation(text, at..end) {
            saw_allocator = true;
            if let Some(name) = receiver_of(text, statement.start, span.clone()) {
                found.push(Candidate { name, span });
            }
        }
        at = end;
    }
    let members = if cpp { initialiser_list(text, statement.start) } else { Vec::new() };
    if saw_allocator && !members.is_empty() {
        // Members that are set by no allocator may be vectors; those that are, are known by more of the text.
        found.retain(|f| !members.iter().any(|m| m.span.start <= f.span.start && f.span.end <= m.span.end));
        found.extend(members);
        return found;
    }
    if saw_allocator {
        return found;
    }
    let grown = grown_objects(text, statement.start);
    if !grown.is_empty() {
        return grown;
    }
    if let Some(declared) = declarators(text, statement.start, cpp) {
        return declared;
    }
    if !cpp {
        return Vec::new();
    }
    if !members.is_empty() {
        return members;
    }
    assigned(text, statement.start).into_iter().collect()
}

/// If the word is a call that allocates: from the word to the end of the call.
fn allocation(code: &[u8], word: Range<usize>) -> Option<Range<usize>> {
    let name = std::str::from_utf8(&code[word.clone()]).ok()?;
    let lower = name.to_ascii_lowercase();
    let known = ALLOCATORS.contains(&name)
        || OUT_PARAMETER.iter().any(|(n, _)| *n == name)
        || lower.contains("alloc") && !lower.contains("dealloc");
    if !known {
        return None;
    }
    let mut at = skip_spaces(code, word.end);
    if name == "new" {
        let before = trim_end(code, word.start);
        if code[..before].ends_with(b"operator") {
            return None;
        }
        // `new (nothrow) std::complex<double>[n]{}`: up to the last bracket.
        while let Some(&b) = code.get(at) {
            match b {
                b'(' | b'[' | b'{' => at = closing(code, at)?,
                b if is_word(b) || b.is_ascii_whitespace() || b":<>*&".contains(&b) => at += 1,
                _ => break,
            }
        }
        return Some(word.start..at);
    }
    if code.get(at) == Some(&b'<') {
        at = skip_spaces(code, template_end(code, at)?);
    }
    (code.get(at) == Some(&b'(')).then(|| word.start..closing(code, at).unwrap_or(code.len()))
}

/// The variable that the allocating call at `call` ends up in.
fn receiver_of(code: &[u8], start: usize, call: Range<usize>) -> Option<String> {
    let name = &code[call.start..word_end(code, call.start)];
    if let Some((_, index)) = OUT_PARAMETER.iter().find(|(n, _)| n.as_bytes() == name) {
        return out_argument(code, &call, *index);
    }
    let mut at = call.start;
    while at > start {
        at -= 1;
        match code[at] {
            b')' | b']' | b'}' => at = opening(code, at + 1)?,
            b'(' | b'{' => match enclosing(code, start, at) {
                Enclosing::Variable(name) => return Some(name),
                Enclosing::Through(to) => at = to,
                Enclosing::Nothing => return None,
            },
            b'=' => {
                let before = at.checked_sub(1).map_or(b' ', |b| code[b]);
                if b"=!<>+-*/%&|^".contains(&before) {
                    at = at.saturating_sub(1);
                } else if code.get(at + 1) != Some(&b'=') {
                    return declared(code, start, at).or_else(|| Some(lvalue(code, start, at)?.0));
                }
            }
            _ => {}
        }
    }
    None
}

enum Enclosing {
    Variable(String),
    /// Go on leftwards from here.
    Through(usize),
    Nothing,
}

/// What the bracket at `open`, inside which something is allocated, belongs to.
fn enclosing(code: &[u8], start: usize, open: usize) -> Enclosing {
    let end = template_start(code, trim_end(code, open));
    let end = trim_end(code, end);
    let first = word_start(code, end).max(start);
    if first >= end {
        return Enclosing::Through(open);
    }
    let word = &code[first..end];
    if matches!(word, b"if" | b"while" | b"for" | b"switch" | b"sizeof" | b"decltype") {
        return Enclosing::Nothing;
    }
    let before = trim_end(code, first).max(start);
    let prefix = &code[start..before];
    let is_method = prefix.ends_with(b".") || prefix.ends_with(b"->");
    if is_method {
        let name = std::str::from_utf8(word).unwrap_or_default();
        let dot = before - if prefix.ends_with(b".") { 1 } else { 2 };
        return match lvalue(code, start, dot) {
            Some((object, _)) if GROWING.contains(&name) => Enclosing::Variable(object),
            _ => Enclosing::Through(first),
        };
    }
    let inside_another = unclosed(prefix);
    let declares = match prefix.last() {
        Some(b'>') => !prefix.ends_with(b"->"),
        Some(b'*' | b'&') => prefix.len() > 1,
        Some(&b) if is_word(b) => {
            let type_start = word_start(code, before).max(start);
            let type_word = std::str::from_utf8(&code[type_start..before]).unwrap_or_default();
            !NOT_TYPES.contains(&type_word)
        }
        // A constructor's list of members, or a further declarator.
        Some(b',') => !inside_another,
        Some(b':') => {
            let case = prefix.trim_ascii_start().starts_with(b"case");
            !prefix.ends_with(b"::") && !prefix.contains(&b'?') && !case && !inside_another
        }
        _ => false,
    };
    if declares && !inside_another {
        return Enclosing::Variable(squeeze(word));
    }
    Enclosing::Through(first)
}

fn unclosed(code: &[u8]) -> bool {
    let mut depth = 0i32;
    for b in code {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    depth > 0
}

/// The pointer that argument `index` of the call passes by address, casts removed.
fn out_argument(code: &[u8], call: &Range<usize>, index: usize) -> Option<String> {
    let open = call.start + code[call.clone()].iter().position(|&b| b == b'(')?;
    let parts = split_commas(code, open + 1..call.end.saturating_sub(1).max(open + 1));
    let mut part = parts.get(index)?.clone();
    let by_address = code[part.clone()].iter().rposition(|&b| b == b'&');
    if let Some(at) = by_address {
        part.start += at + 1;
    } else {
        // `(void **) out`, `reinterpret_cast<void **>(out)`
        loop {
            part.start = skip_spaces(code, part.start);
            let word = &code[part.start..word_end(code, part.start)];
            if word.ends_with(b"_cast") {
                part.start = template_end(code, skip_spaces(code, part.start + word.len()))?;
            } else if code.get(part.start) == Some(&b'(')
                && let Some(end) = closing(code, part.start)
                && end < part.end
            {
                part.start = end;
            } else {
                break;
            }
        }
    }
    let mut text = code[part].trim_ascii();
    while let Some(inner) = text.strip_suffix(b")")
        && opening(text, text.len()).is_none()
    {
        text = inner.trim_ascii_end();
    }
    while let Some(inner) = text.strip_prefix(b"(").and_then(|t| t.strip_suffix(b")")) {
        text = inner.trim_ascii();
    }
    let name = squeeze(text);
    (!name.is_empty()).then_some(name)
}

/// Objects of calls such as `v.resize(n)`.
fn grown_objects(code: &[u8], start: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut at = start;
    while at < code.len() {
        if !is_word(code[at]) {
            at += 1;
            continue;
        }
        let end = word_end(code, at);
        let open = skip_spaces(code, end);
        let before = trim_end(code, at).max(start);
        let prefix = &code[start..before];
        let dot = if prefix.ends_with(b".") {
            Some(before - 1)
        } else if prefix.ends_with(b"->") {
            Some(before - 2)
        } else {
            None
        };
        if let Some(dot) = dot
            && code.get(open) == Some(&b'(')
            && GROWING.iter().any(|g| g.as_bytes() == &code[at..end])
            && let Some((name, from)) = lvalue(code, start, dot)
        {
            let close = closing(code, open).unwrap_or(code.len());
            found.push(Candidate { name, span: from..close });
        }
        at = end;
    }
    found
}
