//! Foreign programs with known answers, recorded on this host and judged on the machine on which `foreign` counts them.

#[macro_use]
#[path = "../foreign/cases.rs"]
mod cases;
#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

use cases::{CASES, Case, machine, must_be_right, python_path, row};
use common::{Report, Scratch, skip, text};
use std::process::Command;

/// Times that an addition takes where both threads run at once, over those of one cpu, from which on the threads waited for
/// each other: the hypervisor may run both cpus on one core, whose threads take nothing from each other. Samples tell that a loop
/// waits from 1.5 times its cost on, at 0.8 of the fastest clock (docs/native.md): 1.9.
const WAITED: f64 = 2.0;

/// What such an addition takes at most without waiting, by the published latencies that nearfar goes by (docs/native.md), ns at 4 GHz. A processor that keeps
/// in a register what it has just stored is faster on one cpu (0.23 ns on a Zen 5), but nearfar cannot tell this from waiting below that.
const AT_MOST_NS: f64 = 1.0;

/// CPU time of an addition of oneline.c, by what it printed: two threads use a second each. ns.
fn addition_ns(output: &[u8]) -> f64 {
    2e9 / text(output).trim().parse::<f64>().unwrap()
}

fn recorded(source: &str) {
    let _one = common::alone();
    if !common::perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let case: &Case = CASES.iter().find(|c| c.source == source).expect("a case");
    let Some(program) = case.command(&scratch, case.here) else { return };
    let machine = machine(&scratch);
    let in_place_ns = case.told_here.then(|| {
        let output = Command::new("taskset").args(["-c", "0"]).args(&program).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        addition_ns(&output.stdout)
    });
    let (mut reports, mut wrong, mut said) = (Vec::<Report>::new(), Vec::new(), Vec::new());
    for i in 0..if case.told_here { 3 * case.times() } else { case.times() } {
        if reports.len() == case.times() {
            break;
        }
        let name = format!("r{i}");
        let mut command = scratch.recorder(&name, &["-q"]);
        let output = command.args(&program).env("PYTHONPATH", python_path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report = scratch.report(&name, &["--as", machine.to_str().unwrap()]);
        println!("{}", row(case, &report));
        wrong.append(&mut case.wrong(&report, Some(&scratch)));
        said.extend(output.stderr);
        if let Some(in_place_ns) = in_place_ns {
            let ns = addition_ns(&output.stdout);
            println!("an addition took {ns:.2} ns, {in_place_ns:.2} on one cpu");
            if ns < WAITED * in_place_ns.max(AT_MOST_NS) {
                continue;
            }
        }
        reports.push(report);
    }
    if reports.len() < case.times() {
        skip("the hypervisor ran both threads on one core, where neither waits for the other's line");
    }
    if !case.told(&reports) {
        wrong.push(format!("{source}: unknown in all of {} recordings", reports.len()));
    }
    must_be_right(&said, &wrong);
}

a_test_of_each!(recorded);
