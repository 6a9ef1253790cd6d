//! Nothing reaches a terminal but through `out` and the pages of `report`.

use nearfar_structure::sources;

/// Lines of a source before its tests that print by themselves.
fn printing(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let printers = ["eprintln!", "eprint!", " println!", " print!", "(println!", "dbg!"];
    code.lines().filter(|line| printers.iter().any(|p| line.contains(p))).map(str::to_owned).collect()
}

#[test]
fn messages_go_through_the_place_that_makes_names_harmless() {
    let mut found = Vec::new();
    for name in ["host", "guest", "record", "nearfar"] {
        let all = sources(name);
        assert!(all.len() > 20, "{name}: {} files", all.len());
        for (file, text) in all.iter().filter(|(file, _)| !file.ends_with("tests.rs") && file != "out.rs") {
            found.extend(printing(text).iter().map(|line| format!("{name}/{file}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "use `say!` or `out`:\n{}", found.join("\n"));
}

#[test]
fn the_scan_finds_what_it_is_for() {
    assert_eq!(printing("fn f() {\n    println!(\"{name}\");\n    eprintln!(\"x\");\n}\n").len(), 2);
    assert!(printing("say!(\"x\"); // writeln!(out)\n#[cfg(test)]\nprintln!(\"y\")").is_empty());
}
