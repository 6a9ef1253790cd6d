//! Names of functions as a reader says them: no return type, no parameters, short template arguments; and of files.

use nearfar_recording::Source;

/// What the body of a parallel region carries behind its function's name.
pub const OUTLINED: &str = "[omp parallel]";
/// Longest template arguments that are kept, characters. // chosen
const ARGUMENTS: usize = 16;
/// Stands for a space that belongs to a name, while those around a return type are looked for.
const KEPT: char = '\u{1}';

/// `void f<int>(Grid const&) [omp parallel]` → `f<int> [omp parallel]`. What is no C++ name stays as it is.
pub fn short(name: &str) -> String {
    let (base, outlined) = split(name);
    tagged(&base, outlined)
}

/// The source's name.
pub fn source_text(source: Source) -> &'static str {
    match source {
        Source::Simulated => "simulated",
        Source::Hardware => "hardware",
        Source::Clock => "clock",
        Source::Signal => "signal",
        Source::Pages => "pages",
    }
}

/// A file without its folders.
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name of a frame that was inlined into the function `outer`: `inner (inlined in outer)`.
pub fn inlined(inner: &str, outer: &str) -> String {
    let ((inner, a), (outer, b)) = (split(inner), split(outer));
    let outlined = a || b;
    if inner == outer || outer.is_empty() {
        return tagged(&inner, outlined);
    }
    if inner == "operator()" {
        // A call operator without its class's name: a lambda's, which has none.
        return match outer.strip_prefix("lambda in ") {
            Some(_) => tagged(&outer, outlined),
            None => tagged(&format!("lambda in {outer}"), outlined),
        };
    }
    if inner.starts_with("lambda in ") {
        return tagged(&inner, outlined);
    }
    format!("{inner} (inlined in {})", tagged(&outer, outlined))
}

fn tagged(base: &str, outlined: bool) -> String {
    match (base, outlined) {
        ("", true) => OUTLINED.to_string(),
        (base, true) => format!("{base} {OUTLINED}"),
        (base, false) => base.to_string(),
    }
}

/// The short name without the marks of outlined bodies, and whether there were any.
fn split(name: &str) -> (String, bool) {
    let mut base = name.trim();
    let mut outlined = false;
    while let Some(rest) = base.strip_suffix(OUTLINED) {
        (base, outlined) = (rest.trim_end(), true);
    }
    let base = base.split(" [clone").next().unwrap_or(base);
    let bare = bare(base).unwrap_or_else(|| base.to_string());
    // A lambda is known by where it is written.
    let name = match bare.split_once("::{lambda") {
        Some((outer, _)) if !outer.is_empty() => format!("lambda in {outer}"),
        _ => bare,
    };
    (name, outlined)
}

/// `None` if the brackets do not match or the name is of a kind that this does not read.
fn bare(name: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = name;
    let mut parameters = false;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("operator") && !out.ends_with(is_word) && !rest[8..].starts_with(is_word) {
            let end = operator_end(rest);
            out.extend(rest[..end].chars().map(|c| if c == ' ' { KEPT } else { c }));
            rest = &rest[end..];
            continue;
        }
        if !matches!(c, '<' | '(' | '{') {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = closing(rest)?;
        let inside = &rest[1..end];
        rest = &rest[end + 1..];
        match c {
            // Rust: `<Grid as Solve>::step`.
            '<' if out.is_empty() || out.ends_with([' ', ':']) => push_kept(&mut out, &format!("<{inside}>")),
            '<' if inside.chars().count() <= ARGUMENTS => {
                push_kept(&mut out, &format!("<{}>", inside.trim_end()))
            }
            '<' => out.push_str("<…>"),
            '{' if inside.starts_with("lambda") => out.push_str("{lambda}"),
            '{' => push_kept(&mut out, &format!("{{{inside}}}")),
            _ if inside == "anonymous namespace" => push_kept(&mut out, "(anonymous namespace)"),
            _ if inside.starts_with(['*', '&']) || out.is_empty() => return None,
            _ => {
                parameters = true;
                rest = qualified(rest);
                if !rest.starts_with("::") {
                    break;
                }
            }
        }
    }
    let name = match parameters {
        true => out.rsplit(' ').next().unwrap_or(&out),
        false => &out,
    };
    (!name.is_empty()).then(|| name.replace(KEPT, " "))
}

fn push_kept(out: &mut String, text: &str) {
    out.extend(text.chars().map(|c| if c == ' ' { KEPT } else { c }));
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// End of `operator()`, `operator<<`, `operator new[]`, `operator unsigned long` in a text that begins with it.
fn operator_end(text: &str) -> usize {
    let after = &text[8..];
    if after.starts_with("()") {
        return 10;
    }
    let symbols = after.find(|c: char| !"<>=!+-*/%&|^~,[]".contains(c)).unwrap_or(after.len());
    if symbols > 0 {
        return 8 + symbols;
    }
    match after.strip_prefix(' ') {
        Some(_) => text.find('(').unwrap_or(text.len()),
        None => 8,
    }
}

/// Position of the bracket that closes the one that `text` begins with.
fn closing(text: &str) -> Option<usize> {
    let mut open: Vec<char> = Vec::new();
    let mut before = ' ';
    for (i, c) in text.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => open.push(c),
            // An arrow closes nothing.
            '>' if before == '-' => {}
            '>' | ')' | '}' | ']' => {
                let opened = open.pop()?;
                if !matches!((opened, c), ('<', '>') | ('(', ')') | ('{', '}') | ('[', ']')) {
                    return None;
                }
                if open.is_empty() {
                    return Some(i);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Without the qualifiers that may follow a parameter list.
fn qualified(mut rest: &str) -> &str {
    loop {
        let text = rest.trim_start();
        let words = ["const", "volatile", "noexcept", "&&", "&"];
        match words.iter().find_map(|w| text.strip_prefix(w)) {
            Some(more) => rest = more,
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_nobody_says() {
        for (full, expected) in [
            ("main", "main"),
            ("looks_sane(float*, Grid const&) [omp parallel]", "looks_sane [omp parallel]"),
            ("f() [omp parallel] [omp parallel]", "f [omp parallel]"),
            ("[omp parallel]", "[omp parallel]"),
            ("void fill<double>(double*, unsigned long)", "fill<double>"),
            ("std::vector<int, std::allocator<int> > make<Grid>(int (*)(int))", "make<Grid>"),
            ("Grid<std::pair<double, float>, 3>::at(int) const", "Grid<…>::at"),
            ("Solver::operator()(int) const", "Solver::operator()"),
            ("Grid::operator[](unsigned long)", "Grid::operator[]"),
            ("std::ostream& operator<<(std::ostream&, Grid const&)", "operator<<"),
            ("Grid::operator unsigned long() const", "Grid::operator unsigned long"),
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::init(double*)", "(anonymous namespace)::init"),
            ("update(Grid&)::{lambda(int)#1}::operator()(int) const", "lambda in update"),
            ("A::step(int) const::{lambda(auto:1)#2}::operator()<int>(int) const", "lambda in A::step"),
            ("f(int) [clone .cold]", "f"),
            ("<Grid as Solve>::step", "<Grid as Solve>::step"),
            ("core::iter::Map<I, F>::fold", "core::iter::Map<I, F>::fold"),
            ("app::main::{{closure}}", "app::main::{{closure}}"),
            ("grid::init", "grid::init"),
            ("libgomp.so.1.0.0+0x1f7da", "libgomp.so.1.0.0+0x1f7da"),
            ("void (*pick(int))(double)", "void (*pick(int))(double)"),
            ("operators(int)", "operators"),
            ("broken(", "broken("),
            ("bröken<(>", "bröken<(>"),
            ("", ""),
        ] {
            assert_eq!(short(full), expected, "{full}");
        }
    }

    #[test]
    fn an_inlined_function_is_named_with_the_one_around_it() {
        for (inner, outer, expected) in [
            ("initialize_rows", "initialize_serial(Grid&)", "initialize_rows (inlined in initialize_serial)"),
            ("operator()", "update(Grid&)", "lambda in update"),
            ("operator()", "update(Grid&) [omp parallel]", "lambda in update [omp parallel]"),
            ("main::{lambda(int)#1}::operator()(int) const", "apply<int>(int)", "lambda in main"),
            ("operator()", "main::{lambda()#1}::operator()() const", "lambda in main"),
            ("row [omp parallel]", "step(int) [omp parallel]", "row (inlined in step [omp parallel])"),
            ("step [omp parallel]", "step(int) [omp parallel]", "step [omp parallel]"),
            ("f", "", "f"),
            ("f(int)", "f(int)", "f"),
        ] {
            assert_eq!(inlined(inner, outer), expected, "{inner} in {outer}");
        }
    }
}
