//! The rooms of this crate use each other in one direction only: a room imports what is listed before it.

use std::collections::BTreeSet;
use std::path::Path;

/// The rooms, lowest first. `main` is the binary.
const ROOMS: [&str; 20] = [
    "caught", "out", "input", "output", "host", "discover", "counters", "symbols", "store", "ranks", "guest",
    "collect", "import", "place", "layout", "measure", "live", "cli", "lib", "main",
];

/// Every Rust file below `folder`, by the room that it is in, without its tests: those may look at all rooms.
fn sources(folder: &Path) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                let room = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                let code: Vec<&str> =
                    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
                let code = code.join("\n");
                found.push((room, name, code.split("#[cfg(test)]").next().unwrap().to_owned()));
            }
        }
    }
    found
}

/// The rooms that a text names: `crate::room::…`, and each of `crate::{room::…, …}`.
fn named(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        let word = |text: &str| -> String {
            text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        // The words at the first level of the braces.
        let (mut depth, mut begins) = (0, true);
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.insert(word(&list[i..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn names_are_found_however_they_are_written() {
    let found =
        named("use crate::cli::run;\nuse crate::{store::{open, write}, place};\nlet x = crate::out::page();");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["cli", "out", "place", "store"]);
}

#[test]
fn no_room_uses_one_above_it() {
    let rank = |room: &str| ROOMS.iter().position(|r| *r == room);
    let mut wrong = Vec::new();
    let all = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.len() > 100, "{} files", all.len());
    for (room, file, code) in all {
        let Some(own) = rank(&room) else {
            wrong.push(format!("{file}: the room {room} is not listed"));
            continue;
        };
        // Macros of the crate (`crate::say`) are not rooms.
        for other in named(&code) {
            if rank(&other).is_some_and(|other| other > own) {
                wrong.push(format!("{file} uses {other}, which is above {room}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
