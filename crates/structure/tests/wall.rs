//! The wall: nothing in the pure crates looks at the host, and the crates use each other in one direction only.
//! See ARCHITECTURE.md.

use nearfar_structure::{crates, folder, paths, sources, tokens};
use std::fs;

/// The crates on this side of the wall, in the order of the data's path: each may use those before it.
/// A new crate takes its place here, or in [`HOST`].
const PURE: &[&str] = &[
    "figures",
    "machine",
    "simulate",
    "recording",
    "parquet",
    "perf",
    "decode",
    "timing",
    "analyze",
    "compare",
    "observed",
    "report",
];

/// The crates on the other side, which may use all of them; and this one.
const HOST: &[&str] = &["host", "guest", "record", "measure", "nearfar", "qemu-plugin", "structure"];

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
const EXCEPTIONS: &[&str] = &["analyze/lib.rs: available_parallelism"];

/// Dependencies that were looked at: they work on bytes and values. Another one
/// belongs here if that is true of it, and into a crate that touches the host if it is not.
const DEPENDENCIES: &[&str] = &[
    "bytes",
    "crc32fast",
    "foldhash",
    "fxprof-processed-profile",
    "iced-x86",
    "parquet",
    "schemars",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
    "toml",
    "unicode-width",
    "zstd",
];

#[test]
fn nothing_in_the_pure_crates_looks_at_the_host() {
    for name in PURE {
        let found: Vec<String> =
            sources(name).iter().flat_map(|(file, text)| host(&format!("{name}/{file}"), text)).collect();
        assert!(
            found.is_empty(),
            "{name}: this belongs into a crate that touches the host:\n{}",
            found.join("\n")
        );
        let text = fs::read_to_string(folder(name).join("src/lib.rs")).expect("lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name}");
    }
}

#[test]
fn each_crate_has_its_place_and_uses_only_those_before_it() {
    let mut known: Vec<&str> = PURE.iter().chain(HOST).copied().collect();
    known.sort_unstable();
    assert_eq!(crates(), known, "the folders of crates/ and the places here");
    for (place, name) in PURE.iter().enumerate() {
        let text = fs::read_to_string(folder(name).join("Cargo.toml")).expect("Cargo.toml");
        assert_eq!(backward(place, &text), [""; 0], "{name}: the arrows run {}", PURE.join(" → "));
    }
}

/// What runs inside the emulator has neither the Parquet format nor the analysis, let alone the report.
#[test]
fn the_plugin_links_no_parquet_and_no_report() {
    fn reached(name: &str, found: &mut Vec<String>) {
        let text = fs::read_to_string(folder(name).join("Cargo.toml")).expect("Cargo.toml");
        for (key, _) in dependencies(&text) {
            let own = key.strip_prefix("nearfar-").filter(|own| folder(own).is_dir()).map(str::to_owned);
            if !found.contains(&key) {
                found.push(key);
                if let Some(own) = own {
                    reached(&own, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    reached("qemu-plugin", &mut found);
    assert!(found.iter().any(|name| name == "nearfar-simulate"), "{found:?}");
    for name in ["parquet", "nearfar-parquet", "nearfar-analyze", "nearfar-report", "zstd"] {
        assert!(!found.iter().any(|f| f == name), "the plugin depends on {name}");
    }
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
    let at = |name: &str| PURE.iter().position(|known| *known == name).unwrap();
    let manifest = "[dependencies]\nnearfar-report = { path = \"../report\" }";
    assert_eq!(backward(at("decode"), manifest), ["report"]);
    assert_eq!(
        backward(at("report"), "[dependencies]\nnearfar-analyze = { path = \"../analyze\" }"),
        [""; 0]
    );
    assert_eq!(backward(at("analyze"), "[dependencies]\nnearfar = { path = \"../nearfar\" }"), ["nearfar"]);
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

/// Crates of ours that a manifest asks for and that are not before a place. Tests may ask for any.
fn backward(place: usize, manifest: &str) -> Vec<String> {
    let before = |name: &str| PURE[..place].contains(&name);
    dependencies(manifest)
        .into_iter()
        .filter_map(|(key, value)| value.get("path").is_some().then_some(key))
        .map(|key| key.strip_prefix("nearfar-").unwrap_or(&key).to_owned())
        .filter(|name| !before(name))
        .collect()
}

/// What a crate is built of: its dependencies, those of some targets and those of its build, without its tests'.
fn dependencies(manifest: &str) -> Vec<(String, toml::Value)> {
    fn walk(table: &toml::Table, found: &mut Vec<(String, toml::Value)>) {
        for (key, value) in table {
            let Some(inner) = value.as_table() else { continue };
            if key == "dependencies" || key == "build-dependencies" {
                found.extend(inner.iter().map(|(name, value)| (name.clone(), value.clone())));
            } else if key != "dev-dependencies" {
                walk(inner, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(&manifest.parse().expect("TOML"), &mut found);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn foreign_dependencies(manifest: &str) -> Vec<String> {
    let known = |name: &str| {
        DEPENDENCIES.contains(&name) || name.strip_prefix("nearfar-").is_some_and(|name| PURE.contains(&name))
    };
    dependencies(manifest).into_iter().map(|(name, _)| name).filter(|name| !known(name)).collect()
}
