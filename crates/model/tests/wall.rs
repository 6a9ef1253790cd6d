//! The wall: nothing in the pure crates looks at the host, and the modules of this crate use
//! each other in one direction only; between crates, cargo sees to that. See ARCHITECTURE.md.

#[path = "source/mod.rs"]
mod source;

use source::{folder, paths, sources, tokens};
use std::fs;

/// The modules in the order of the data's path: each may use those before it.
/// A new module takes its place here.
const ORDER: &[&str] = &[
    "placement_file",
    "topology",
    "recording",
    "perf",
    "decode",
    "time",
    "analyze",
    "ranks",
    "compare",
    "measured",
    "trials",
    "residency",
    "reproduce",
    "live",
    "report",
    "export",
];

/// The crates on this side of the wall, as folders of crates/.
const PURE: &[&str] = &["figures", "machine", "simulate", "model"];

/// What looks at the host: files, processes, the network, the environment.
const MODULES_OF_STD: &[&str] = &["env", "fs", "net", "os", "path", "process"];
/// The same by name, wherever it may have been imported from.
const NAMES: &[&str] = &[
    "Instant",
    "available_parallelism",
    "OsStr",
    "OsString",
    "Path",
    "PathBuf",
    "SystemTime",
    "libc",
    "unsafe",
];

/// How many threads to use may be asked, once: no report depends on it.
const EXCEPTIONS: &[&str] = &["analyze/mod.rs: available_parallelism"];

/// Names of lower crates that lib.rs hands on, so that they are reached as modules are.
const HANDED_ON: &[&str] =
    &["pub use nearfar_figures::{escape, percent};", "pub use nearfar_machine as machine;"];

/// Dependencies that were looked at: they work on bytes and values. Another one
/// belongs here if that is true of it, and into crates/nearfar if it is not.
const DEPENDENCIES: &[&str] = &[
    "bytes",
    "crc32fast",
    "fxprof-processed-profile",
    "iced-x86",
    "parquet",
    "serde",
    "serde_json",
    "thiserror",
    "toml",
    "zstd",
];

#[test]
fn nothing_in_the_pure_crates_looks_at_the_host() {
    for name in PURE {
        let found: Vec<String> = sources(name).iter().flat_map(|(file, text)| host(file, text)).collect();
        assert!(found.is_empty(), "{name}: this belongs into crates/nearfar:\n{}", found.join("\n"));
        let text = fs::read_to_string(folder(name).join("src/lib.rs")).expect("lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name}");
    }
}

#[test]
fn modules_use_only_those_before_them() {
    let found: Vec<String> = sources("model").iter().flat_map(|(file, text)| backward(file, text)).collect();
    assert!(found.is_empty(), "the arrows run {}:\n{}", ORDER.join(" → "), found.join("\n"));
}

#[test]
fn every_module_has_its_place_and_no_name_is_taken_past_the_order() {
    let mut text = fs::read_to_string(folder("model").join("src/lib.rs")).expect("lib.rs");
    for line in HANDED_ON {
        text = text.replace(line, "");
    }
    let tokens = tokens(&text);
    for pair in tokens.windows(2).filter(|pair| pair[0] == "mod") {
        assert!(ORDER.contains(&pair[1].as_str()), "module `{}` has no place in ORDER", pair[1]);
    }
    assert!(!tokens.iter().any(|t| t == "use"), "a re-export in lib.rs would hide an arrow");
}

#[test]
fn dependencies_of_the_pure_crates_work_on_values() {
    for name in PURE {
        let text = fs::read_to_string(folder(name).join("Cargo.toml")).expect("Cargo.toml");
        assert_eq!(foreign_dependencies(&text), [""; 0], "{name}");
    }
}

#[test]
fn the_scan_finds_what_it_is_for() {
    for text in [
        "use std::fs;",
        "use std::{io, fs::{self, File}};",
        "fn f() { let x = std::env::var(\"HOME\"); }",
        "use std::time::{Duration, Instant};",
        "use core::time; fn f(t: std::time::SystemTime) {}",
        "fn f(p: &std::path::Path) {}",
        "fn f() { ::std::process::exit(1) }",
        "use std as s; use libc::open;",
        "use std::thread::available_parallelism as cpus;",
        "pub unsafe fn f() {}",
        "fn f<'a>(c: char) -> bool { c == '\"' || std::net::lookup() }",
    ] {
        assert!(!host("analyze/x.rs", text).is_empty(), "passed: {text}");
    }
    for text in [
        "const V: &str = env!(\"CARGO_PKG_VERSION\"); // std::fs",
        "/* unsafe /* std::env */ libc */ #![forbid(unsafe_code)] use std::io::Read;",
        "const S: &str = r#\"std::fs \" Path\"#; const C: char = '\"'; const D: &str = \"unsafe\";",
        "fn f<'a>(x: &'a str) -> ColumnPath { std::fmt::Display::fmt }",
        "use std::time::Duration;",
    ] {
        assert_eq!(host("analyze/x.rs", text), [""; 0], "refused: {text}");
    }
    for (file, text) in [
        ("placement_file.rs", "use crate::recording::Meta;"),
        ("recording/meta.rs", "fn f() { crate::analyze::analyze() }"),
        ("decode/plan.rs", "use crate::{recording::Access, report};"),
        ("analyze/stats.rs", "use super::super::report::to_text;"),
        ("topology/mod.rs", "use super::recording;"),
    ] {
        assert!(!backward(file, text).is_empty(), "passed: {file}: {text}");
    }
    for (file, text) in [
        ("report/text.rs", "use crate::{analyze::Report, machine};"),
        ("analyze/stats.rs", "use super::value::Interval; use crate::analyze::report_words;"),
        ("analyze/x.rs", "use super::page_nodes; // crate::report"),
    ] {
        assert_eq!(backward(file, text), [""; 0], "refused: {file}: {text}");
    }
    let toml = "[dependencies]\nserde = \"1\"\nlibc = \"0.2\"\n[target.'cfg(unix)'.dependencies]\nrustix = \"1\"\n\
                [dev-dependencies]\ntempfile = \"3\"";
    assert_eq!(foreign_dependencies(toml), ["libc", "rustix"]);
}

fn host(file: &str, text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let by_name = tokens.iter().filter(|t| NAMES.contains(&t.as_str())).cloned();
    let by_path = paths(&tokens).into_iter().filter(|path| {
        path[0] == "std" && path.get(1).is_none_or(|m| MODULES_OF_STD.contains(&m.as_str()) || m == "*")
    });
    by_name
        .chain(by_path.map(|path| path.join("::")))
        .map(|what| format!("{file}: {what}"))
        .filter(|found| !EXCEPTIONS.contains(&found.as_str()))
        .collect()
}

fn backward(file: &str, text: &str) -> Vec<String> {
    let place = |module: &str| ORDER.iter().position(|known| *known == module);
    let mut own: Vec<&str> = file.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    if own == ["lib"] {
        own.clear();
    }
    let Some(here) = own.first().and_then(|module| place(module)) else {
        return Vec::new();
    };
    paths(&tokens(text))
        .into_iter()
        .filter(|path| {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let target = match path[0].as_str() {
                "crate" => path.get(1),
                // As many steps up as the module is deep end at the crate.
                "super" if supers == own.len() => path.get(supers),
                _ => None,
            };
            target.and_then(|module| place(module)).is_some_and(|there| there > here)
        })
        .map(|path| format!("{file}: {}", path.join("::")))
        .collect()
}

fn foreign_dependencies(manifest: &str) -> Vec<String> {
    fn walk(table: &toml::Table, found: &mut Vec<String>) {
        for (key, value) in table {
            let Some(inner) = value.as_table() else { continue };
            if key == "dependencies" || key == "build-dependencies" {
                let known = |name: &str| {
                    DEPENDENCIES.contains(&name)
                        || name.strip_prefix("nearfar-").is_some_and(|name| PURE.contains(&name))
                };
                found.extend(inner.keys().filter(|name| !known(name)).cloned());
            } else if key != "dev-dependencies" {
                walk(inner, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(&manifest.parse().expect("TOML"), &mut found);
    found.sort();
    found
}
