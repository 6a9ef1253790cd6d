//! Files that use each other in a circle can only be read together. There are none.
//!
//! An import counts, and a path in the code; a `pub use` does not, for a `mod.rs` that hands names on is no
//! part of what it hands on. Modules inside a file (its tests) belong to the file and are left out.

use nearfar_structure::{crates, folder, paths, sources, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A module as the names on the way to it; none for the crate itself.
type Module = Vec<String>;

fn module(file: &str) -> Module {
    let mut parts: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") || ["lib", "main"].contains(&parts.join("/").as_str()) {
        parts.pop();
    }
    parts
}

/// The tokens without modules that are inside the file.
fn outermost(tokens: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    for token in tokens {
        let inside = |kept: &[String]| kept.len() > 1 && kept[kept.len() - 2] == "mod";
        match token.as_str() {
            "{" if depth > 0 || inside(&kept) => depth += 1,
            "}" if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            _ => kept.push(token),
        }
    }
    kept
}

/// Splits off what a file only hands on: the paths of its `pub use` items.
fn handed_on(tokens: &[String]) -> (Vec<Vec<String>>, Vec<String>) {
    let (mut on, mut rest) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        let begin = if tokens[i] == "pub" && tokens.get(i + 1).is_some_and(|t| t == "(") {
            tokens[i..].iter().position(|t| t == ")").map(|n| i + n + 1)
        } else {
            (tokens[i] == "pub").then_some(i + 1)
        };
        if let Some(begin) = begin.filter(|&b| tokens.get(b).is_some_and(|t| t == "use")) {
            let end = tokens[begin..].iter().position(|t| t == ";").map_or(tokens.len(), |n| begin + n);
            on.extend(paths(&tokens[begin + 1..end]));
            i = end + 1;
        } else {
            rest.push(tokens[i].clone());
            i += 1;
        }
    }
    (on, rest)
}

/// The files of a crate by module, and for each those that it uses.
fn uses(files: &[(String, String)]) -> BTreeMap<Module, BTreeSet<Module>> {
    let parts: BTreeMap<Module, _> = files
        .iter()
        .filter(|(file, _)| !file.ends_with("tests.rs"))
        .map(|(file, text)| (module(file), handed_on(&outermost(tokens(text)))))
        .collect();
    // Where a name that a module hands on comes from.
    let mut names: BTreeMap<(Module, String), Module> = BTreeMap::new();
    let find = |from: &Module, path: &[String], names: &BTreeMap<(Module, String), Module>| {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let (mut at, mut path) = match path[0].as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len().saturating_sub(supers)].to_vec(), &path[supers..]),
            first => {
                let child = [from.as_slice(), &[first.to_owned()]].concat();
                if !parts.contains_key(&child) {
                    return None;
                }
                (from.clone(), path)
            }
        };
        while let Some(name) = path.first() {
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if parts.contains_key(&child) {
                (at, path) = (child, &path[1..]);
            } else if let Some(origin) = names.get(&(at.clone(), name.clone())).filter(|&o| *o != at) {
                at = origin.clone();
            } else {
                break;
            }
        }
        Some(at)
    };
    // Twice: a name may be handed on by several modules, one after the other.
    for _ in 0..2 {
        for (from, (on, _)) in &parts {
            for path in on {
                let Some(last) = path.last() else { continue };
                if let Some(origin) = find(from, path, &names).filter(|origin| origin != from) {
                    names.insert((from.clone(), last.clone()), origin);
                }
            }
        }
    }
    parts
        .iter()
        .map(|(from, (_, rest))| {
            let used = paths(rest).into_iter().filter_map(|path| find(from, &path, &names));
            (from.clone(), used.filter(|to| to != from && parts.contains_key(to)).collect())
        })
        .collect()
}

/// Everything that can be reached from a module.
fn reached<'a>(from: &'a Module, uses: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        open.extend(uses[next].iter().filter(|to| found.insert(*to)));
    }
    found
}

/// Sets of modules of which each reaches all others.
fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<String>> {
    let all: BTreeMap<_, _> = uses.keys().map(|m| (m, reached(m, uses))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (module, reach) in &all {
        if reach.contains(module) {
            let circle = reach.iter().filter(|other| all[*other].contains(module)).map(|m| m.join("/"));
            let circle: BTreeSet<String> = circle.collect();
            if !found.contains(&circle) {
                found.push(circle);
            }
        }
    }
    found
}

#[test]
fn files_use_each_other_in_one_direction() {
    let mut wrong = Vec::new();
    for name in crates() {
        for circle in circles(&uses(&sources(&name))) {
            wrong.push(format!("{name}: a circle of {}", Vec::from_iter(circle).join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a C text defines outside of functions, and which names of ours each definition uses. A name that stands behind
/// `struct` or the like is a type's.
fn definitions(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let tokens = tokens(text);
    let ours = |i: usize| {
        let tag = i > 0 && ["struct", "enum", "union"].contains(&tokens[i - 1].as_str());
        tokens[i].starts_with("nf_") && !tag
    };
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // What is static counts for the file, as what is behind the last definition does.
    let (mut depth, mut within) = (0_usize, String::new());
    for i in 0..tokens.len() {
        match tokens[i].as_str() {
            "{" | "(" => depth += 1,
            "}" | ")" => depth = depth.saturating_sub(1),
            _ if !ours(i) => {}
            name if depth == 0 => {
                let next = tokens.get(i + 1).map_or("", String::as_str);
                let mut open = 0_i32;
                let end = tokens[i + 1..].iter().position(|token| {
                    open += i32::from(token == "(") - i32::from(token == ")");
                    open == 0
                });
                let body = end.and_then(|end| tokens.get(i + 2 + end)).is_some_and(|token| token == "{");
                if (next == "(" && body) || ["=", ";", "[", "__attribute__"].contains(&next) {
                    within = name.to_owned();
                    found.entry(within.clone()).or_default();
                }
            }
            name => _ = found.entry(within.clone()).or_default().insert(name.to_owned()),
        }
    }
    found
}

/// Which C file uses which, by the functions and variables that it names; the headers' inline functions are looked into.
fn c_uses(files: &[(String, String)]) -> BTreeMap<Module, BTreeSet<Module>> {
    let of: Vec<(&str, BTreeMap<String, BTreeSet<String>>)> =
        files.iter().map(|(name, text)| (name.as_str(), definitions(text))).collect();
    let headers = || of.iter().filter(|(name, _)| name.ends_with(".h")).flat_map(|(_, names)| names);
    let inline: BTreeMap<&String, &BTreeSet<String>> =
        headers().filter(|(_, uses)| !uses.is_empty()).collect();
    let sources: Vec<_> = of.iter().filter(|(name, _)| name.ends_with(".c")).collect();
    let owners: BTreeMap<&String, &str> =
        sources.iter().flat_map(|(file, names)| names.keys().map(move |name| (name, *file))).collect();
    let module = |file: &str| vec![file.to_owned()];
    let used = |names: &BTreeMap<String, BTreeSet<String>>| {
        let mut open: Vec<&String> = names.values().flatten().collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                open.extend(inline.get(name).into_iter().flat_map(|uses| uses.iter()));
            }
        }
        seen.into_iter().filter_map(|name| owners.get(name).copied()).collect::<BTreeSet<&str>>()
    };
    let others = |file: &str, names| used(names).into_iter().filter(|to| *to != file).map(module).collect();
    sources.iter().map(|(file, names)| (module(file), others(file, names))).collect()
}

#[test]
fn the_agents_files_use_each_other_in_one_direction() {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder("../agent")).expect("the agent's files") {
        let path = entry.expect("the agent's files").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, fs::read_to_string(&path).expect("a source file")));
    }
    let uses = c_uses(&files);
    let of = |file: &str| uses[&vec![file.to_owned()]].clone();
    // It sees calls, variables, and what inline functions call.
    assert!(of("ring.c").contains(&vec!["hypercall.c".to_owned()]), "{:?}", of("ring.c"));
    assert!(of("heap.c").contains(&vec!["state.c".to_owned()]), "{:?}", of("heap.c"));
    assert_eq!(circles(&uses), Vec::<BTreeSet<String>>::new());
}

#[test]
fn a_circle_of_c_files_is_found_through_inline_functions() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut text = vec![
        file(
            "all.h",
            "void nf_f(void); extern struct nf_s nf_s; static inline bool nf_in(void) { return nf_f(); }",
        ),
        file("a.c", "struct nf_s nf_s = {0}; /* nf_g */ EXPORT int nf_a(struct nf_g *of) { return of->x; }"),
        file("b.c", "static void nf_own(void) {} void nf_f(void) { nf_own(); nf_s.x = 1; }"),
        file("c.c", "int nf_g(int (*f)(void)) { return nf_in() + nf_a(); }"),
    ];
    assert_eq!(circles(&c_uses(&text)), Vec::<BTreeSet<String>>::new());
    text[1].1 += "void nf_more(void) { if (nf_in()) return; }";
    assert_eq!(circles(&c_uses(&text)), [BTreeSet::from(["a.c", "b.c"].map(str::to_owned))]);
}

#[test]
fn a_circle_is_found_through_names_that_are_handed_on() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let text = [
        file("lib.rs", "mod a; mod b; pub use b::Thing;"),
        file("a.rs", "use crate::Thing; fn f() {}"),
        file("b/mod.rs", "mod c; pub struct Thing; #[cfg(test)] mod tests { use super::*; }"),
        file("b/c.rs", "fn g() { crate::a::f() }"),
    ];
    assert_eq!(circles(&uses(&text)), Vec::<BTreeSet<String>>::new());
    let mut closed = text.to_vec();
    closed[2].1 += "use c::g;";
    let circle: BTreeSet<String> = ["a", "b", "b/c"].map(str::to_owned).into();
    assert_eq!(circles(&uses(&closed)), [circle]);
}
