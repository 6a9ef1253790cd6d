//! `nearfar reproduce`: what it refuses, what it lists, and cases on the virtual machine, right and made wrong. All
//! 17 with the counts of arithmetic are in the model's tests.

mod common;

use common::{Scratch, nearfar, skip, text};
use serde_json::Value;

#[test]
fn what_cannot_be_reproduced_is_said_with_what_to_type() {
    let scratch = Scratch::new();
    let run = |words: &[&str]| {
        let output = nearfar().arg("reproduce").args(words).current_dir(scratch.path(".")).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, error) = run(&["18"]);
    assert!(code == Some(2) && error.contains("1..=17"), "{error}");
    let (code, error) = run(&["17", "--workloads", "/nowhere"]);
    assert!(code == Some(2) && error.contains("/nowhere/copy") && error.contains("cmake --build"), "{error}");
    let (code, error) = run(&["17", "--from", "/nowhere"]);
    assert!(code == Some(2) && error.contains("nearfar reproduce -o /nowhere"), "{error}");
    let (code, error) = run(&["17", "--mutate", "--json"]);
    assert!(code == Some(2) && error.contains("--mutate"), "{error}");
    // A directory that is there is never written into.
    std::fs::create_dir(scratch.path("kept")).unwrap();
    std::fs::write(scratch.path("copy"), "").unwrap();
    let (code, error) = run(&["17", "-o", "kept", "--workloads", "."]);
    assert!(code == Some(2) && error.contains("cannot make kept"), "{error}");
}

#[test]
fn the_list_has_every_case_and_its_runs() {
    let output = nearfar().args(["reproduce", "--list", "--full"]).output().unwrap();
    let out = text(&output.stdout);
    assert!(output.status.success());
    for id in 1..=17 {
        assert!(out.lines().any(|l| l.starts_with(&format!("{id:>2}  "))), "{out}");
    }
    assert!(out.contains("@iso3dfd 448 2016 1056 10 448 24 96 --init serial"), "{out}");
}

#[test]
fn a_calculation_needs_no_virtual_machine_and_recordings_that_are_missing_are_named() {
    let output = nearfar().args(["reproduce", "10"]).output().unwrap();
    let out = text(&output.stdout);
    assert!(output.status.success() && out.contains("leaves out its first"), "{out}");
    let scratch = Scratch::new();
    let from = scratch.path("empty");
    std::fs::create_dir(&from).unwrap();
    let output = nearfar().args(["reproduce", "17", "--json", "--from"]).arg(&from).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("copy-0"), "{}", text(&output.stderr));
    let case = serde_json::from_slice::<Value>(&output.stdout).unwrap()["cases"][0].clone();
    assert_eq!((case["id"].as_u64(), case["holds"].as_bool()), (Some(17), Some(false)));
    assert!(case["obtained"].as_str().unwrap().starts_with("unknown: "), "{case}");
}

#[test]
fn counted_cases_hold_and_fail_when_they_are_made_wrong() {
    if let Err(why) = nearfar_guest::Setup::find(&mut |_| {}) {
        assert!(std::env::var_os("NEARFAR_NEEDS_GUEST").is_none(), "{why}");
        return skip(&why.to_string());
    }
    if common::workload("copy").is_none() {
        return;
    }
    let scratch = Scratch::new();
    let kept = scratch.path("kept");
    let cases = ["9", "15", "17"];
    let output = nearfar().arg("reproduce").args(cases).args(["--json", "-o"]).arg(&kept).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for case in json["cases"].as_array().unwrap() {
        println!(
            "case {}: {} {}, published {}",
            case["id"], case["obtained"], case["unit"], case["published"]
        );
        assert_eq!(case["holds"], true, "{case:#}");
        assert_eq!(case["fitted"], Value::Array(Vec::new()));
    }
    let output =
        nearfar().arg("reproduce").args(cases).args(["--mutate", "--from"]).arg(&kept).output().unwrap();
    let out = text(&output.stdout);
    assert!(output.status.success() && out.contains("3 of 3 cases fail"), "{out}");
}
