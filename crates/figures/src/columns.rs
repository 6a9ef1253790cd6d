//! How many columns of a terminal a text takes: names of threads, files and programs may be in any script.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a text: two for each wide character of East Asian scripts, none for marks that stand above a letter.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// How many of these characters, from the first on, take at most so many columns.
pub fn fitting(text: impl Iterator<Item = char>, most: usize) -> usize {
    let mut used = 0;
    text.take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= most
    })
    .count()
}

/// The text, or as much of it as takes at most so many columns, ended by `…`.
pub fn cut(text: &str, most: usize) -> String {
    match columns(text) > most {
        true => text.chars().take(fitting(text.chars(), most.saturating_sub(1))).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// The text and the spaces that fill so many columns.
pub fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The same with the spaces in front.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns_and_marks_none() {
        assert_eq!(columns("grün"), 4);
        assert_eq!(columns("gru\u{308}n"), 4);
        assert_eq!(columns("計算"), 4);
        assert_eq!(fitting("計算".chars(), 3), 1);
        assert_eq!((cut("計算機", 5), cut("計算機", 6)), ("計算…".into(), "計算機".into()));
        assert_eq!((left("計", 4), right("計", 4)), ("計  ".into(), "  計".into()));
    }
}
