//! The rooms of the crates that touch the host use each other in one direction only: a room imports what is listed
//! before it. The crates themselves do so by their manifests.

use nearfar_structure::sources;
use std::collections::BTreeSet;

/// The rooms of each crate, lowest first. `main` and `bin` are the binaries.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "host",
        &[
            "caught",
            "out",
            "live",
            "input",
            "output",
            "hypercall",
            "holder",
            "proc",
            "page_nodes",
            "policy",
            "target",
            "discover",
            "counters",
            "symbols",
            "confined",
            "lib",
        ],
    ),
    ("record", &["store", "ranks", "collect", "import", "lib"]),
    ("nearfar", &["bin", "place", "layout", "live", "cli", "lib", "main"]),
];

/// Every Rust file of a crate, by the room that it is in, without its tests: those may look at all rooms.
fn code(name: &str) -> Vec<(String, String, String)> {
    let files = sources(name).into_iter().filter(|(file, _)| !file.ends_with("tests.rs"));
    files
        .map(|(file, text)| {
            let room = file.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
            let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
            let code = lines.join("\n").split("#[cfg(test)]").next().unwrap().to_owned();
            (room, file, code)
        })
        .collect()
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
    let mut wrong = Vec::new();
    for (name, rooms) in ROOMS {
        let rank = |room: &str| rooms.iter().position(|r| *r == room);
        let all = code(name);
        assert!(all.len() > 20, "{name}: {} files", all.len());
        for (room, file, code) in all {
            let Some(own) = rank(&room) else {
                wrong.push(format!("{name}/{file}: the room {room} is not listed"));
                continue;
            };
            // Macros of the crate (`crate::say`) are not rooms.
            for other in named(&code) {
                if rank(&other).is_some_and(|other| other > own) {
                    wrong.push(format!("{name}/{file} uses {other}, which is above {room}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
