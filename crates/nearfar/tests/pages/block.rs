//! Blocks of a page of Markdown: their lines of shell, and what comments in front of them say about running those here.
//! Comments are not shown by mdBook or GitHub.
//!
//! ```text
//! <!-- not run: REASON -->          no line of the block is run
//! <!-- needs: TOOL -->              nor where this is not installed; `guest` is the virtual machine
//! <!-- first: COMMAND -->           run before the block: what the text takes for granted
//! <!-- here: OLD = NEW -->          a word of its lines is replaced: a smaller size, the number of a process
//! <!-- exit 1: PREFIX -->           lines that begin so end with this status, and not with 0
//! <!-- interrupted: PREFIX -->      lines that begin so (`WORDS$`: are so) run until Ctrl-C
//! <!-- skipped: PREFIX: REASON -->  lines that begin so are not run
//! <!-- shown -->                    before a block of text: what the last command of the block before prints
//! ```

/// A block between two fences.
pub struct Block {
    /// Line of its first fence, from 1.
    pub line: usize,
    /// What is behind the fence: `sh`, `text`, …
    pub language: String,
    /// What is in it.
    pub body: String,
    /// The comments in front: their key, and what follows.
    pub marks: Vec<(String, String)>,
}

impl Block {
    /// What follows the comments of this key.
    pub fn marks<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.marks.iter().filter(move |(k, _)| k == key).map(|(_, text)| text.as_str())
    }

    /// Its commands, each with its line. Those of several lines go on indented or after a backslash.
    pub fn commands(&self) -> Vec<(usize, String)> {
        let mut all: Vec<(usize, String)> = Vec::new();
        for (at, line) in self.body.lines().enumerate() {
            let goes_on = line.starts_with(' ') || line.starts_with("done") || line.starts_with("fi");
            match all.last_mut() {
                Some((_, last)) if goes_on => *last += &format!("\n{line}"),
                _ if line.trim().is_empty() || line.starts_with('#') => {}
                _ => all.push((self.line + 1 + at, line.to_owned())),
            }
        }
        all
    }
}

/// The key of a comment, and what follows its colon.
fn mark(line: &str) -> Option<(String, String)> {
    let inside = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let (key, text) = inside.split_once(": ").unwrap_or((inside, ""));
    Some((key.to_owned(), text.trim().to_owned()))
}

/// All blocks of a page.
pub fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    let mut marks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim();
        if let Some(language) = line.strip_prefix("```") {
            let begin = at + 1;
            at = begin;
            while at < lines.len() && !lines[at].trim().starts_with("```") {
                at += 1;
            }
            let body: String = lines[begin..at].iter().map(|l| format!("{l}\n")).collect();
            let marks = std::mem::take(&mut marks);
            all.push(Block { line: begin, language: language.to_owned(), body, marks });
        } else if let Some(found) = mark(line) {
            marks.push(found);
        } else if !line.is_empty() {
            marks.clear();
        }
        at += 1;
    }
    all
}

/// What of shown output has to be in the real one, in this order: the first line's first word, words before a column
/// of text, and heads of tables. No figures.
pub fn shape(shown: &str) -> Vec<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all = Vec::new();
    for (at, line) in shown.lines().enumerate() {
        let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let first = columns.first().copied().unwrap_or("");
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == ' ');
        if at == 0 && !first.is_empty() {
            all.push(squeezed(first.split(' ').next().unwrap_or("")));
        } else if columns.len() > 2
            && first.starts_with(char::is_uppercase)
            && !line.contains(|c: char| c.is_ascii_digit())
        {
            all.push(squeezed(line));
        } else if columns.len() > 1 && plain(first) && line.len() - line.trim_start().len() < 4 {
            all.push(first.to_owned());
        }
    }
    all
}

/// The first of the shape that is not in the output, each searched behind the last.
pub fn lacks(output: &str, shape: &[String]) -> Option<String> {
    let lines: Vec<String> =
        output.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mut at = 0;
    for word in shape {
        let begins = |line: &String| line == word || line.starts_with(&format!("{word} "));
        match lines[at..].iter().position(begins) {
            Some(found) => at += found + 1,
            None => return Some(word.clone()),
        }
    }
    None
}
