//! Names that a terminal would obey, in every place that has names.

use crate::common::{Scratch, nearfar, text};
use crate::made::Made;
use nearfar_figures::escape::is_command;
use std::path::Path;
use std::process::Output;

/// One of each kind that does something to a terminal or to a reader.
pub fn evil(what: &str) -> String {
    format!(
        "{what}\x1b[2J\x1b]0;owned\x07\n\rnearfar: all is fine\t\u{202e}\u{2066}\u{200f}\x7f\u{9b}31m\0<&\"'\\"
    )
}

/// What of an output is not text, its line feeds apart.
pub fn commands(output: &str) -> Vec<String> {
    let bad = |line: &&str| line.contains(is_command);
    output.split('\n').filter(bad).map(|line| line.escape_debug().to_string()).collect()
}

fn check(output: &Output, what: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let found = commands(&text(stream));
        assert!(found.is_empty(), "{what}: {found:#?}");
        // A line of ours in a name does not begin a line.
        assert!(!text(stream).lines().any(|l| l.starts_with("nearfar: all is fine")), "{what}");
    }
}

fn run(arguments: &[&str], paths: &[&Path]) -> Output {
    nearfar().args(arguments).args(paths).output().unwrap()
}

#[test]
fn nothing_of_a_name_is_obeyed_by_a_terminal() {
    let scratch = Scratch::new();
    for counted in [false, true] {
        let evil_made = Made { name: &evil, counted };
        let recording = evil_made.finished(&scratch.path(&format!("evil{counted}.nearfar")));
        let other =
            Made { counted, ..Made::default() }.finished(&scratch.path(&format!("plain{counted}.nearfar")));
        for width in ["60", "200"] {
            let output = run(&["report", "--width", width], &[&recording]);
            check(&output, "report");
            assert!(output.status.success());
            // The names are there all the same.
            assert!(text(&output.stdout).contains(r"\u{1b}[2J"), "{}", text(&output.stdout));
        }
        let output = run(&["report", "--json"], &[&recording]);
        check(&output, "json");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["command"][1], evil("argument"));
        check(&run(&["report", "--as", "here"], &[&recording]), "here");
        check(&run(&["diff"], &[&recording, &other]), "diff");
        check(&run(&["diff"], &[&other, &recording]), "diff");
        check(&run(&["diff", "--json"], &[&other, &recording]), "diff --json");
        check(&run(&["fix", "-o", "-"], &[&recording]), "fix");
        let file = scratch.path(&format!("{counted}.placement"));
        let output = run(&["fix", "-o", file.to_str().unwrap()], &[&recording]);
        check(&output, "fix -o");
        if let Ok(written) = std::fs::read_to_string(&file) {
            assert_eq!(commands(&written), [""; 0]);
            let read = nearfar_machine::placement_file::PlacementFile::from_toml(&written)
                .expect("what is written is read back");
            assert!(read.objects.iter().any(|o| o.label().contains('\x1b')), "names are exact: {written}");
        }
    }
}

#[test]
fn nothing_of_a_machines_name_or_of_a_path_is_obeyed_by_a_terminal() {
    let scratch = Scratch::new();
    let mut machine = nearfar_machine::Machine::from_shape("2x2").unwrap();
    machine.name = evil("machine");
    let file = scratch.path("machine.toml");
    std::fs::write(&file, machine.to_toml()).unwrap();
    assert_eq!(commands(&machine.to_toml()), [""; 0]);
    let picture = scratch.path("machine.svg");
    let output = run(&["topo", "--svg", picture.to_str().unwrap(), "--as"], &[&file]);
    check(&output, "topo --svg");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(commands(&std::fs::read_to_string(&picture).unwrap()), [""; 0]);
    for arguments in [&["topo", "--as"][..], &["topo", "--json", "--as"], &["layout", "--dry-run", "--as"]] {
        check(&run(arguments, &[&file]), arguments[0]);
    }
    let recording = Made::default().finished(&scratch.path("r"));
    check(&run(&["report", "--as", file.to_str().unwrap()], &[&recording]), "report --as");
    let missing = scratch.path("x\x1b[2J\u{202e}\nnearfar: all is fine");
    for arguments in
        [&["report"][..], &["fix"], &["topo", "--as"], &["run", "-N", "0", "--"], &["where"], &["list"]]
    {
        let output = run(arguments, &[&missing]);
        assert!(!output.status.success());
        check(&output, arguments[0]);
    }
}

#[test]
fn what_fix_writes_is_read_back_whatever_objects_are_called() {
    let scratch = Scratch::new();
    for (i, file) in ["", "/", ":", "a:0", "dir/", "x\n:1", "'\"\\"].into_iter().enumerate() {
        for part in ["/home/u/file.c", "function", "site", "/home/u/module.so", "heap"] {
            let name = |what: &str| if what == part { file.to_owned() } else { what.to_owned() };
            let path = scratch.path(&format!("r{i}{}", part.replace('/', "_")));
            let recording = Made { name: &name, counted: true }.finished(&path);
            let output = run(&["fix", "-o", "-"], &[&recording]);
            check(&output, part);
            let written = text(&output.stdout);
            let read = nearfar_machine::placement_file::PlacementFile::from_toml(&written);
            assert!(written.is_empty() || read.is_ok(), "{part} {file:?}: {read:?}\n{written}");
        }
    }
}
