//! The four OpenMP examples, wrong and right, and the building blocks of nearfar.hpp: the remote share is the one
//! that arithmetic says.

use crate::common::{text, workload};
use crate::lab::{Counted, Lab, guest_works, one_machine};

/// Nodes, and cpus of each: eight threads.
const MACHINES: [(usize, usize); 2] = [(2, 4), (8, 1)];

fn count(lab: &Lab, name: &str, program: &str, words: &str) -> Option<Counted> {
    let program = workload(program)?;
    let mut command = lab.command(name, &[]);
    command
        .env("OMP_PROC_BIND", "close")
        .env("OMP_PLACES", "cores")
        .arg(program)
        .args(words.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Some(Counted { report: lab.scratch.report(name, &[]), output })
}

/// Used from a quarter on, in `nodes` equal parts, and placed in `nodes` parts of all of it: how much is elsewhere.
fn shifted_by_a_quarter(nodes: usize) -> f64 {
    let n = nodes as f64;
    let near = |j: f64| {
        let (from, to) = (0.25 + j * 0.75 / n, 0.25 + (j + 1.0) * 0.75 / n);
        (to.min((j + 1.0) / n) - from.max(j / n)).max(0.0)
    };
    1.0 - (0..nodes).map(|j| near(j as f64)).sum::<f64>() / 0.75
}

/// On eight nodes; on two, virtual_findings compares the same. Bad ones may be off by what caches keep, dynamic schedules by chance,
/// too; good ones have a hundredth and no more.
#[test]
fn examples_of_openmp_are_as_far_as_arithmetic_says_and_near_when_repaired() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let mut wrong = Vec::new();
    let nodes = 8;
    let lab = Lab::new(nodes, 1, 128);
    let n = nodes as f64;
    let all_but_one = (n - 1.0) / n;
    // Lines that are dirty in the caches when the region begins are written in it, on the page's own node: up to 0.015 of all.
    // Chunks go to the thread that comes first, which by chance is who placed them: 256 of them, four times.
    let examples = [
        (1, all_but_one, 0.02),
        (2, 2.0 / 3.0 * all_but_one, 0.02),
        (3, all_but_one, 0.10),
        (4, shifted_by_a_quarter(nodes), 0.02),
    ];
    for (example, expected, tolerance) in examples {
        let words = format!("--example {example} --elements 1048576 --iterations 4");
        let Some(bad) = count(&lab, &format!("bad{example}"), "openmp", &words) else { return };
        let bad = bad.remote();
        let (b, e) = (100.0 * bad, 100.0 * expected);
        println!("example {example}: {b:.2} % remote, by arithmetic {e:.2} %");
        if (bad - expected).abs() > tolerance {
            wrong.push(format!("example {example}: {b:.2} % instead of {e:.2} %"));
        }
        // Repaired, the first three are one program.
        if example == 1 || example == 4 {
            let words = words + " --repaired";
            let good = count(&lab, &format!("good{example}"), "openmp", &words).unwrap().remote();
            let g = 100.0 * good;
            println!("example {example}, repaired: {g:.2} % remote");
            if good > 0.01 {
                wrong.push(format!("example {example}, repaired: {g:.2} %"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a building block leaves remote is its halo, or what interleaving means, within a hundredth.
#[test]
fn building_blocks_are_as_near_as_arithmetic_says() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let mut wrong = Vec::new();
    for (nodes, cpus) in MACHINES {
        // Caches that hold the planes of the grid which are read again.
        let lab = Lab::new(nodes, cpus, if nodes == 2 { 512 } else { 256 });
        let n = nodes as f64;
        // Three lines for eight elements. The grid of 128 x 64 x 64 is cut once in y and three times in z, and
        // each cut has two sides; between two nodes there is one cut in z.
        let face = 128.0 * 64.0;
        let faces = if nodes == 2 { 2.0 * face } else { 8.0 * face };
        let cases = [
            ("halo", "--elements 524288", 2.0 * (n - 1.0) * 1000.0 / (3.0 * 524_288.0)),
            ("grid", "", faces / (3.0 * face * 64.0)),
            ("replicated", "", 0.0),
            ("interleaved", "", (n - 1.0) / n),
            ("arenas", "", 0.0),
        ];
        for (case, words, expected) in cases {
            let run = count(&lab, case, "building-blocks", &format!("--case {case} {words}"));
            let Some(run) = run else { return };
            let remote = run.remote();
            let (r, e) = (100.0 * remote, 100.0 * expected);
            println!("{nodes} nodes, {case}: {r:.2} % remote, by arithmetic {e:.2} %");
            if (remote - expected).abs() > 0.01 {
                wrong.push(format!("{nodes} nodes, {case}: {r:.2} % instead of {e:.2} %"));
            }
            let findings = &run.report.0["findings"];
            if case != "interleaved" && findings.as_array().is_none_or(|f| !f.is_empty()) {
                wrong.push(format!("{nodes} nodes, {case}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
