//! `nearfar check` on the machine at hand: what it refuses, and what it says where placements cannot differ.
//! What it finds is tested on virtual machines.

mod common;

use common::{Scratch, nearfar, text};
use serde_json::Value;
use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    nearfar().arg("check").args(arguments).output().unwrap()
}

/// Memory nodes of this machine that have cpus.
fn nodes() -> usize {
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar")).args(["topo", "--json"]).output().unwrap();
    let topology: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = topology["nodes"].as_array().unwrap();
    nodes.iter().filter(|n| n["cpus"].as_str().is_some_and(|c| !c.is_empty())).count()
}

#[test]
fn one_node_is_unknown_with_the_reason_and_nothing_is_run() {
    if nodes() != 1 {
        println!("skipped: this machine has several nodes");
        return;
    }
    let scratch = Scratch::new();
    let witness = scratch.path("ran");
    let output = check(&["--json", "--", "touch", witness.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "unknown");
    assert_eq!(json["placements"], Value::Array(Vec::new()));
    assert!(json["why"].as_str().unwrap().contains("has one memory node"), "{json}");
    assert!(!witness.exists());
    let junit = scratch.path("junit.xml");
    let output = check(&["--fail-on", "affected", "--junit", junit.to_str().unwrap(), "--", "true"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let read = "import sys, xml.dom.minidom as x; s = x.parse(sys.argv[1]).getElementsByTagName('testsuite')[0]; \
                print(s.getAttribute('tests'), s.getAttribute('failures'), s.getAttribute('skipped'))";
    let read = Command::new("python3").args(["-c", read]).arg(&junit).output().unwrap();
    assert_eq!(text(&read.stdout).trim(), "1 0 1", "{}", text(&read.stderr));
    let output = check(&["--junit", junit.to_str().unwrap(), "--", "true"]);
    assert!(text(&output.stderr).contains("is not overwritten"), "{}", text(&output.stderr));
    assert_eq!(check(&["--fail-on", "harmful", "--", "true"]).status.code(), Some(3));
    let output = check(&["--fail-on", "unknown", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(
        said.starts_with("Unknown whether NUMA hurts this program: this machine has one memory node"),
        "{said}"
    );
    assert!(said.contains("nearfar check --on"), "{said}");
}

#[test]
fn bad_input_ends_before_anything_runs() {
    let scratch = Scratch::new();
    let file = scratch.path("taken.json");
    std::fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    let case = |arguments: &[&str], status: i32, words: &str| {
        let output = check(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    };
    case(&["--metric", "rate: (", "--", "true"], 2, "is not a regular expression");
    case(&["--", "no-such-program"], 127, "no-such-program");
    case(&["--", "/etc/passwd"], 126, "/etc/passwd");
    case(&["-o", file, "--", "true"], 2, "is not overwritten");
    case(&["--against", file, "--", "true"], 2, "was not written by nearfar check");
    case(&["--against", "/no/such", "--", "true"], 2, "cannot read /no/such");
    case(&["--runs", "0", "--", "true"], 2, "0 is not in 1..=1000");
    case(&["--time", "--metric", "x", "--", "true"], 2, "cannot be used with");
    case(&["--"], 2, "COMMAND");
    case(&["--on", "no-such-machine", "--", "true"], 2, "no-such-machine");
    case(
        &["--on", "xeon-e5-2699v4-2s", "--only", "node 7", "--", "true"],
        2,
        "the placements are as is, node 0, node 1",
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{}");
}
