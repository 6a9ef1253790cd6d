//! Words and command lines as a shell reads them back.

use crate::escape::is_command;

/// As a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.contains(is_command) {
        // As bash, zsh and ksh read it back; what is printed must not be obeyed by the terminal before.
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                c if is_command(c) && c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
                c if is_command(c) => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command to copy: its words, each quoted where it must be.
pub fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
