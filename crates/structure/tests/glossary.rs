//! Words that docs/glossary.md has replaced come back in no text that a user reads, no name in the JSON and no public
//! name.

use std::fs;
use std::path::{Path, PathBuf};

/// Retired words as they appear within names and texts, and what to write instead.
const RETIRED: &[(&str, &str)] = &[
    ("rung", "source"),
    ("rungs", "sources"),
    ("stake", "at risk"),
    ("home", "node of the page"),
    ("homes", "nodes of pages"),
    ("homeless", "without a node"),
    ("whereabouts", "residency"),
    ("doorbell", "hypercall"),
    ("tally", "counters"),
    ("world", "what it is: process table, plugin state"),
    ("course", "timeline"),
    ("stretch", "phase"),
    ("stretches", "phases"),
];

/// Lines that may have one of these words: a part of the line, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("/home/", "a path"),
    ("HOME", "an environment variable"),
    ("not used: see *node of the page*", "the glossary itself"),
    ("of course", "English"),
    ("course of", "English"),
    ("[home]", "the name of a column in recordings of format 1"),
    ("[rung]", "the name of a column in recordings of format 1"),
    ("[\"homes\"]", "the name of a table in recordings of format 1"),
    ("alias = \"rung", "the name of a field in recordings of format 1"),
    ("alias = \"homes-interval\"", "the flag's former name, which still works"),
    ("_WORLD_", "Open MPI's environment"),
    ("COMM_WORLD", "MPI's name of all ranks"),
    ("KeyCode::Home", "a key"),
    ("let home = scratch", "a person's directory"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, ending: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| ending.iter().any(|x| e == *x)) {
            found.push(path);
        }
    }
}

/// The words of a text: `look_atHomes` has look, at, homes.
fn words(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut before = ' ';
    for c in text.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && before.is_lowercase()) {
            found.push(String::new());
        }
        if c.is_alphabetic() {
            found.last_mut().unwrap().extend(c.to_lowercase());
        }
        before = c;
    }
    found
}

/// What of a line of code is public: texts in quotes, and names behind `pub`.
fn public(line: &str) -> String {
    let code = line.trim_start();
    if code.starts_with("//") {
        // The comments of the command's options are its help.
        return String::new();
    }
    let quoted: Vec<&str> = code.split('"').skip(1).step_by(2).collect();
    let named = code.strip_prefix("pub ").map_or("", |rest| rest.split(" //").next().unwrap_or(rest));
    format!("{} {named}", quoted.join(" "))
}

fn retired(text: &str) -> Option<&'static (&'static str, &'static str)> {
    let found = words(text);
    RETIRED.iter().find(|(word, _)| found.iter().any(|w| w == word))
}

#[test]
fn retired_words_are_in_no_text_name_or_schema() {
    let root = root();
    let (mut documents, mut code) = (vec![root.join("README.md")], Vec::new());
    files(&root.join("docs"), &["md", "json"], &mut documents);
    files(&root.join("web/src"), &["ts", "html"], &mut documents);
    files(&root.join("crates/report/tests/golden"), &["txt"], &mut documents);
    files(&root.join("crates/nearfar/src/cli"), &["rs"], &mut documents);
    documents.push(root.join("include/nearfar.h"));
    for part in nearfar_structure::crates() {
        files(&root.join("crates").join(&part).join("src"), &["rs"], &mut code);
    }
    let mut wrong = Vec::new();
    for (all, whole) in [(documents, true), (code, false)] {
        assert!(all.len() > 20, "the search finds nothing");
        for path in all.iter().filter(|p| !p.ends_with("src/report.ts")) {
            for (at, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
                let text = if whole { line.to_owned() } else { public(line) };
                if EXCEPTIONS.iter().any(|(part, _)| line.contains(part)) {
                    continue;
                }
                if let Some((word, instead)) = retired(&text) {
                    let path = path.strip_prefix(&root).unwrap().display();
                    wrong.push(format!("{path}:{}: `{word}`; write {instead}: {}", at + 1, line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} retired words:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_word_of_the_glossary_is_there_once_and_in_order() {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    let terms: Vec<&str> = rows.map(|row| row.split(" | ").next().unwrap()).collect();
    assert!(terms.len() > 20 && terms.is_sorted(), "{terms:?}");
}

#[test]
fn the_search_finds_words_within_names() {
    assert!(retired("pub fn look_at_homes()").is_some() && retired("HomeMap").is_some());
    assert!(retired("by_rung").is_some() && retired("wrung out").is_none() && retired("genome").is_none());
    assert_eq!(public("    page.line(\"of the homes\"); // homes"), "of the homes ");
    assert_eq!(public("/// homes"), "");
}
