//! Foreign programs with known answers, recorded on this host and judged on the machine on which `foreign` counts them.

#[macro_use]
#[path = "../foreign/cases.rs"]
mod cases;
#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

use cases::{CASES, Case, machine, must_be_right, python_path, row};
use common::Scratch;

fn recorded(source: &str) {
    let _one = common::alone();
    if !common::perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let case: &Case = CASES.iter().find(|c| c.source == source).expect("a case");
    let Some(program) = case.command(&scratch, case.here) else { return };
    let mut command = scratch.recorder("r", &["-q"]);
    let output = command.args(program).env("PYTHONPATH", python_path()).output().unwrap();
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    let report = scratch.report("r", &["--as", machine(&scratch).to_str().unwrap()]);
    println!("{}", row(case, &report));
    must_be_right(&output.stderr, &case.wrong(&report, true));
}

a_test_of_each!(recorded);
