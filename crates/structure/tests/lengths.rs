//! A file that can be read in one go has one subject. None is longer than this.

use nearfar_structure::folder;
use std::fs;
use std::path::Path;

/// Most lines of a file, its comments and tests included. // chosen
const MOST: usize = 500;

/// Files of Rust and C below a folder, with their lines.
fn lengths(root: &Path, below: &str, found: &mut Vec<(String, usize)>) {
    for entry in fs::read_dir(root.join(below)).expect("a folder of sources") {
        let name = entry.expect("a folder of sources").file_name().to_string_lossy().into_owned();
        let path = format!("{below}/{name}");
        let whole = root.join(&path);
        if whole.is_dir() {
            lengths(root, &path, found);
        } else if [".rs", ".c", ".h"].iter().any(|end| name.ends_with(end)) {
            found.push((path, fs::read_to_string(whole).expect("a source file").lines().count()));
        }
    }
}

#[test]
fn files_are_short() {
    let root = folder("..");
    let mut found = Vec::new();
    for below in ["crates", "agent", "workloads", "include"] {
        lengths(&root, below, &mut found);
    }
    assert!(found.len() > 500, "{} files: the search is wrong", found.len());
    let longer = |(_, lines): &&(String, usize)| *lines > MOST;
    let wrong: Vec<String> = found
        .iter()
        .filter(longer)
        .map(|(path, lines)| format!("{path} has {lines} lines: cut it by its subjects"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
