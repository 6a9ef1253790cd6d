//! C and C++: whether a function hands on to its caller what a statement of it allocated.
//!
//! `void *p = malloc(n); if (!p) die(); return p;` is an allocation helper: `p` says nothing of what the
//! memory is for, and the caller's line does.

use std::ops::Range;

use super::c::{clean, statements};
use super::text::{Window, closing, is_word, opening, skip_spaces, squeeze, trim_end, word_start};

/// How far a function is followed before and after the statement, lines. // chosen: helpers are short
const LINES: usize = 100;

/// Whether the function around line `line` returns what the statement there allocates into `name`, or, without a
/// name, whether the statement returns it itself.
pub(super) fn hands_on(text: &str, line: u32, name: Option<&str>) -> bool {
    let Some(window) = Window::around(text, line, LINES, LINES) else { return false };
    let code = clean(window.text.as_bytes());
    let Some(name) = name else {
        return statements(&code, &window.line).into_iter().any(|s| returns_a_call(&code[s]));
    };
    // `*out = malloc(n)`: whose variable it is, the caller knows.
    if let Some(pointed) = name.strip_prefix('*') {
        return !pointed.is_empty() && pointed.bytes().all(is_word);
    }
    // The first statement of the line that is in a function: a whole function may be on one line.
    let within = |s: &Range<usize>| Some((s.start, function_end(&code, s.start)?));
    let Some((begin, end)) = statements(&code, &window.line).iter().find_map(within) else { return false };
    let body = &code[begin..end];
    let words = body.windows(b"return".len()).enumerate().filter(|w| w.1 == b"return").map(|w| w.0);
    let mut returned = words.filter(|&at| {
        let before = at.checked_sub(1).is_some_and(|b| is_word(body[b]));
        let after = at + b"return".len();
        !before && body.get(after).is_some_and(|&b| !is_word(b))
    });
    returned.any(|at| {
        let rest = &body[at + b"return".len()..];
        let end = rest.iter().position(|&b| b == b';').unwrap_or(rest.len());
        bare(&squeeze(&rest[..end])) == name
    })
}

/// `return malloc(n)`, with a cast or without.
fn returns_a_call(statement: &[u8]) -> bool {
    let text = squeeze(statement);
    let Some(value) = text
        .strip_prefix("return")
        .filter(|v| !v.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    else {
        return false;
    };
    let value = bare(value);
    let name = value.bytes().take_while(|&b| is_word(b) || b == b':').count();
    let call = value.as_bytes();
    if value.starts_with("new ") {
        return true;
    }
    // Template arguments are of no interest: `std::make_unique<double[]>(n)`.
    name > 0
        && call.last() == Some(&b')')
        && opening(call, call.len()).is_some_and(|o| o >= name && !value[..o].contains(['=', '?', '+', '-']))
}

/// An expression without the brackets and casts around it.
fn bare(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let code = text.as_bytes();
        let whole = closing(code, 0).filter(|_| code.first() == Some(&b'('));
        text = match whole {
            Some(end) if end == code.len() => text[1..end - 1].trim(),
            // A cast, unless what follows goes on with the value: `(a)+b`, `(f)(x)` is rare enough.
            Some(end) if code[end..].first().is_some_and(|&b| is_word(b) || b == b'(') => text[end..].trim(),
            _ => match text.strip_suffix(')').and_then(|t| opening(code, code.len()).map(|o| (o, t))) {
                Some((o, inner)) if text[..o].contains("_cast<") || &text[..o] == "std::move" => {
                    inner[o + 1..].trim()
                }
                _ => return text,
            },
        };
    }
}

/// The end of the function that holds `at`: one past its closing brace.
fn function_end(code: &[u8], at: usize) -> Option<usize> {
    let mut inner = at;
    loop {
        let open = enclosing(code, inner)?;
        if !is_control(code, open) {
            return closing(code, open);
        }
        inner = open;
    }
}

/// The brace that is open at `at`.
fn enclosing(code: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in (0..at).rev() {
        match code[i] {
            b'}' => depth += 1,
            b'{' if depth == 0 => return Some(i),
            b'{' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the block that begins at `open` is a part of a function: a loop's, a branch's, or a bare one.
fn is_control(code: &[u8], open: usize) -> bool {
    let before = trim_end(code, open);
    let word = &code[word_start(code, before)..before];
    if matches!(word, b"else" | b"do" | b"try") {
        return true;
    }
    if before == 0 || matches!(code[before - 1], b';' | b'{' | b'}') {
        return true;
    }
    if code[before - 1] != b')' {
        return false;
    }
    let Some(bracket) = opening(code, before) else { return false };
    let end = trim_end(code, bracket);
    matches!(
        &code[word_start(code, end)..end],
        b"if" | b"for" | b"while" | b"switch" | b"catch" | b"constexpr"
    ) && skip_spaces(code, bracket) == bracket
}

#[cfg(test)]
mod tests {
    use super::hands_on;

    /// The line of the call is marked with `@`.
    fn at_mark(text: &str, name: Option<&str>) -> bool {
        let line = text.lines().position(|l| l.contains('@')).expect("a mark") + 1;
        hands_on(&text.replace('@', ""), line as u32, name)
    }

    #[test]
    fn helpers_return_what_they_allocate() {
        for (text, name) in [
            (
                "void *memory(size_t n) {\n  void *p = malloc(n);@\n  if (!p) { exit(2); }\n  return p;\n}\n",
                Some("p"),
            ),
            (
                "T *f(size_t n) {\n  T *p;\n  if (n) {\n    p = malloc(n);@\n  }\n  return (T *)p;\n}\n",
                Some("p"),
            ),
            ("T *f(size_t n) {\n  void *p = malloc(n);@\n  return static_cast<T *>(p);\n}\n", Some("p")),
            (
                "auto f(int n) {\n  auto p = std::make_unique<T[]>(n);@\n  return std::move(p);\n}\n",
                Some("p"),
            ),
            ("void *f(size_t n) {\n  return malloc(n);@\n}\n", None),
            ("double *f(size_t n)\n{\n  return (double *) xmalloc(n * sizeof(double));@\n}\n", None),
            ("double *f(size_t n) { return new double[n]; }@\n", None),
            ("void *f(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }@\n", Some("p")),
            ("void f(double **out, size_t n) {\n  *out = malloc(n);@\n}\n", Some("*out")),
        ] {
            assert!(at_mark(text, name), "{text}");
        }
    }

    #[test]
    fn who_keeps_its_memory_is_no_helper() {
        for (text, name) in [
            (
                "double solve(int n) {\n  double *x = malloc(n);@\n  double r = use(x);\n  free(x);\n  return r;\n}\n",
                Some("x"),
            ),
            ("double f(int n) { double *x = malloc(n); return x[0]; }@\nT *g(T *x) { return x; }", Some("x")),
            // Another function's variable of the same name.
            (
                "void f(int n) {\n  p = malloc(n);@\n  use(p);\n}\nvoid *g(void *p) {\n  return p;\n}\n",
                Some("p"),
            ),
            ("int f(G *g) {\n  g->x = malloc(8);@\n  return g->x != 0;\n}\n", Some("g->x")),
            ("double f(int n) {\n  double *x = malloc(n);@\n  return x[0];\n}\n", Some("x")),
            ("int f(void) {\n  use(malloc(8));@\n  return 0;\n}\n", None),
            ("int f(void) {\n  return malloc(8) != NULL;@\n}\n", None),
            ("int f(void) {\n  returned = malloc(8);@\n}\n", None),
            ("void f(S *s) {\n  *s->p = malloc(8);@\n}\n", Some("*s->p")),
        ] {
            assert!(!at_mark(text, name), "{text}");
        }
    }
}
