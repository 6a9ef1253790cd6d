//! Nothing reaches a terminal but through `out` and the pages of `model::report`.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources of the binary, tests apart.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "out.rs" {
            found.push(path);
        }
    }
}

/// Lines of a source before its tests that print by themselves.
fn printing(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let printers = ["eprintln!", "eprint!", " println!", " print!", "(println!", "dbg!"];
    code.lines().filter(|line| printers.iter().any(|p| line.contains(p))).map(str::to_owned).collect()
}

#[test]
fn messages_go_through_the_place_that_makes_names_harmless() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    assert!(all.len() > 50, "{}", all.len());
    let found: Vec<String> = all
        .iter()
        .flat_map(|path| {
            let lines = printing(&fs::read_to_string(path).unwrap());
            lines.into_iter().map(move |line| format!("{}: {}", path.display(), line.trim()))
        })
        .collect();
    assert!(found.is_empty(), "use `say!` or `out`:\n{}", found.join("\n"));
}

#[test]
fn the_scan_finds_what_it_is_for() {
    assert_eq!(printing("fn f() {\n    println!(\"{name}\");\n    eprintln!(\"x\");\n}\n").len(), 2);
    assert!(printing("say!(\"x\"); // writeln!(out)\n#[cfg(test)]\nprintln!(\"y\")").is_empty());
}
