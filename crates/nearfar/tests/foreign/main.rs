//! Foreign programs with known answers, counted on the virtual machine: verdict, object, line and gain of each.

#[macro_use]
mod cases;
#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

use cases::{CASES, Case, machine, must_be_right, python_path, row};
use common::{Scratch, nearfar};

fn counted(source: &str) {
    let _one = lab::one_machine();
    if !lab::guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let case: &Case = CASES.iter().find(|c| c.source == source).expect("a case");
    let Some(program) = case.command(&scratch, case.counted) else { return };
    let mut command = nearfar();
    command.args(["record", "-q", "-o"]).arg(scratch.path("r")).arg("--on").arg(machine(&scratch));
    command.arg("--").args(program);
    command.env("OMP_PROC_BIND", "close").env("OMP_PLACES", "cores").env("PYTHONPATH", python_path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    let report = scratch.report("r", &[]);
    println!("{}", row(case, &report));
    must_be_right(&output.stderr, &case.wrong(&report, None));
}

a_test_of_each!(counted);
