//! ARCHITECTURE.md and the README are short, name what is there, and their links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Directories, and modules that are one file, directly below.
fn parts(directory: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .flatten()
        .map(|entry| (entry.path().is_dir(), entry.file_name().into_string().unwrap()))
        .filter(|(is_directory, name)| *is_directory || name.ends_with(".rs"))
        .map(|(_, name)| name.trim_end_matches(".rs").to_owned())
        .filter(|name| !["lib", "main", "mod"].contains(&name.as_str()))
        .collect();
    all.sort();
    all
}

/// Words of the tree's first column.
fn named(tree: &str) -> Vec<String> {
    let first =
        |line: &str| line.split("  ").find(|part| !part.trim().is_empty()).unwrap_or_default().to_owned();
    let words = |line: &str| first(line).split([',', ' ', '/']).map(str::to_owned).collect::<Vec<_>>();
    tree.lines().flat_map(words).filter(|word| !word.is_empty()).collect()
}

#[test]
fn the_architecture_fits_two_pages_and_its_tree_is_the_tree() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 120, "{} lines", text.lines().count());
    let tree = text.split("```").nth(3).expect("the tree is the second block");
    let named = named(tree);
    let crates = root().join("crates");
    for one in parts(&crates) {
        assert!(named.contains(&one), "crates/{one} is not in the tree");
        // Of small crates the files are their own affair.
        if !["host", "record", "nearfar"].contains(&one.as_str()) {
            continue;
        }
        for part in parts(&crates.join(&one).join("src")) {
            assert!(named.contains(&part), "crates/{one}/src/{part} is not in the tree");
        }
    }
    // And nothing else is.
    let mut there: Vec<String> = parts(&root()).into_iter().collect();
    there.extend(["crates".to_owned(), "src".to_owned()]);
    for one in parts(&crates) {
        there.extend(parts(&crates.join(&one).join("src")));
        there.push(one);
    }
    for name in named {
        assert!(there.contains(&name), "the tree names {name}, which is not there");
    }
}

#[test]
fn links_of_documents_lead_to_files() {
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|p| root().join(p)).into();
    let docs = fs::read_dir(root().join("docs")).unwrap().flatten().map(|e| e.path());
    pages.extend(docs.filter(|p| p.extension().is_some_and(|e| e == "md")));
    let mut tried = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if link.is_empty() || link.contains("://") || link.contains(' ') {
                continue;
            }
            assert!(page.with_file_name(link).exists(), "{}: {link}", page.display());
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}
