//! Source files as tests read them: their words and the paths in them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a crate, by its name below crates/.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The folders of crates/, in order of their names.
///
/// # Panics
/// If crates/ cannot be read.
pub fn crates() -> Vec<String> {
    let entries = fs::read_dir(folder(".")).expect("crates/ can be read");
    let mut found: Vec<String> = entries
        .map(|entry| entry.expect("crates/ can be read").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    found.sort_unstable();
    found
}

/// All source files of a crate with their path below src/.
///
/// # Panics
/// If they cannot be read, or are too few: then the search is wrong.
pub fn sources(name: &str) -> Vec<(String, String)> {
    fn walk(src: &Path, directory: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(directory).expect("src/ can be read") {
            let path = entry.expect("src/ can be read").path();
            if path.is_dir() {
                walk(src, &path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(src).expect("below src/").to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).expect("a source file")));
            }
        }
    }
    let mut found = Vec::new();
    let src = folder(name).join("src");
    walk(&src, &src, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{name}/src was not found");
    found
}

/// Words, `::` and single characters of Rust code, without comments and literals.
pub fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let begin = i;
        if at(i) == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if at(i) == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= chars.len() {
                    break;
                }
            }
        } else if at(i) == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            // A character, not a lifetime.
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
        } else if word(at(i)) {
            while word(at(i)) {
                i += 1;
            }
            let text: String = chars[begin..i].iter().collect();
            let hashes = (i..).take_while(|&k| at(k) == '#').count();
            if (text == "r" || text == "br") && at(i + hashes) == '"' {
                let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                i += hashes + 1;
                while i < chars.len() && !chars[i..].starts_with(&end) {
                    i += 1;
                }
                i += end.len();
            } else {
                tokens.push(text);
            }
        } else if at(i) == ':' && at(i + 1) == ':' {
            tokens.push("::".to_owned());
            i += 2;
        } else {
            if !at(i).is_whitespace() {
                tokens.push(at(i).to_string());
            }
            i += 1;
        }
    }
    tokens
}

/// All paths of the code; `a::{b, c::d}` gives `a::b` and `a::c::d`.
pub fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    fn is_word(token: &str) -> bool {
        token == "*" || token.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
    /// Reads the path at `i`, adds it behind `prefix`, and returns where it ends.
    fn path(tokens: &[String], mut i: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let mut whole = prefix.to_vec();
        while i < tokens.len() && is_word(&tokens[i]) {
            whole.push(tokens[i].clone());
            i += 1;
            if tokens.get(i).is_none_or(|t| t != "::") {
                break;
            }
            i += 1;
            if tokens.get(i).is_some_and(|t| t == "{") {
                i += 1;
                while i < tokens.len() && tokens[i] != "}" {
                    let next = path(tokens, i, &whole, found);
                    i = next.max(i + 1);
                }
                return i + 1;
            }
        }
        // A lone word is a path only inside a group: `{self, File}`, or `use std`.
        if !whole.is_empty() && (whole.len() > 1 || whole[0] == "std") {
            found.push(whole);
        }
        i
    }
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        i = path(tokens, i, &[], &mut found).max(i + 1);
    }
    found
}
