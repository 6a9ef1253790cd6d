//! Programs without a defect of their memory's place have no finding, whatever their size and number of threads.

use crate::common::{text, workload};
use crate::lab::{Lab, guest_works, one_machine};

/// Threads, and the words that make the sizes. Twenty different ones in all.
const RUNS: [(&str, &[(&str, &str)]); 4] = [
    (
        "stream",
        &[
            ("8", "--elements 400000 --iterations 2"),
            ("7", "--elements 333333 --iterations 3"),
            ("4", "--elements 262144 --iterations 2"),
            ("3", "--elements 300001 --iterations 2"),
            ("2", "--elements 200000 --iterations 3"),
            ("1", "--elements 150000 --iterations 2"),
        ],
    ),
    (
        "saturated",
        &[
            ("8", "--kb 1024 --iterations 6"),
            ("6", "--kb 1100 --iterations 5"),
            ("5", "--kb 900 --iterations 5"),
            ("2", "--kb 3000 --iterations 5"),
            ("1", "--kb 4096 --iterations 4"),
        ],
    ),
    ("cached", &[("8", ""), ("6", "--kb 8"), ("4", "--kb 24"), ("3", "--kb 12")]),
    (
        "compute",
        &[
            ("8", "--lines 30000 --iterations 1"),
            ("6", "--lines 25000 --iterations 1"),
            ("5", "--lines 20001 --iterations 2"),
            ("4", "--lines 16384 --iterations 2"),
            ("2", "--lines 20000 --iterations 1"),
        ],
    ),
];

#[test]
fn programs_without_a_defect_are_never_accused() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let two = Lab::sure(2, 4, 512);
    let eight = Lab::sure(8, 1, 512);
    let mut wrong = Vec::new();
    for (name, runs) in RUNS {
        let Some(program) = workload(name) else { return };
        // All on two sockets, the first of each on eight nodes, too.
        let on_two = runs.iter().map(|run| (&two, run));
        for (i, (lab, (threads, words))) in on_two.chain([(&eight, &runs[0])]).enumerate() {
            let recording = format!("{name}.{i}");
            let mut command = lab.command(&recording, &[]);
            command.env("OMP_NUM_THREADS", threads).env("OMP_PROC_BIND", "spread").env("OMP_PLACES", "cores");
            let output = command.arg(&program).args(words.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let report = lab.scratch.report(&recording, &[]);
            let found = &report.0["findings"];
            println!(
                "{name} with {threads} threads, {words}: {}, {} findings",
                report.verdict(),
                found.as_array().unwrap().len()
            );
            if found.as_array().is_none_or(|f| !f.is_empty()) || report.verdict() == "affected" {
                wrong.push(format!("{name} with {threads} threads, {words}: {}", found));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
