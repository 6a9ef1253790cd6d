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
    let machine = machine(&scratch);
    let (mut reports, mut wrong, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..case.times() {
        let name = format!("r{i}");
        let mut command = scratch.recorder(&name, &["-q"]);
        let output = command.args(&program).env("PYTHONPATH", python_path()).output().unwrap();
        assert!(output.status.success(), "{}", common::text(&output.stderr));
        let report = scratch.report(&name, &["--as", machine.to_str().unwrap()]);
        println!("{}", row(case, &report));
        wrong.append(&mut case.wrong(&report, true));
        said.extend(output.stderr);
        reports.push(report);
    }
    if !case.told(&reports) {
        wrong.push(format!("{source}: unknown in all of {} recordings", reports.len()));
    }
    must_be_right(&said, &wrong);
}

a_test_of_each!(recorded);
