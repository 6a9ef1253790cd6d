//! Each program with a defect gets its finding first, its repaired twin none; and what the time model predicts
//! from the run with the defect alone is what the twin then takes.

use crate::common::{nearfar, text, workload};
use crate::lab::{Counted, Lab, guest_works, machine, one_machine};
use serde_json::Value;
use std::path::Path;

/// A program, the words that give it its defect, those that repair it, and what should be found.
struct Case {
    program: &'static str,
    words: &'static str,
    defect: &'static str,
    repaired: &'static str,
    kind: &'static str,
    /// What is found to be the best repair; empty if no placement helps.
    repair: &'static str,
    /// How far the predicted range may reach each way, as a part of the time.
    widest: f64,
    /// The remote share on two nodes by arithmetic, and how far off it may be: what caches keep, and chance where a schedule is
    /// dynamic. Repaired, it is at most a hundredth.
    remote: Option<(f64, f64)>,
    /// Which machines it is tried on, by number of nodes. One case of each repair is tried on eight: what more nodes do to
    /// counts is arithmetic, and checked as such (virtual_truth: nodes of pages, blocks).
    nodes: &'static [usize],
}

const fn case(program: &'static str, words: &'static str, kind: &'static str) -> Case {
    let (defect, repaired, repair) = ("", "--repaired", "where_used");
    Case { program, words, defect, repaired, kind, repair, widest: 0.10, remote: None, nodes: &[2] }
}

const CASES: [Case; 12] = [
    Case {
        defect: "--init serial",
        repaired: "--init parallel",
        nodes: &[2, 8],
        ..case("triad", "--elements 600000 --iterations 10", "serial_first_touch")
    },
    Case {
        remote: Some((0.5, 0.02)),
        ..case("openmp", "--example 1 --elements 500000 --iterations 12", "serial_first_touch")
    },
    Case {
        remote: Some((1.0 / 3.0, 0.02)),
        ..case("openmp", "--example 2 --elements 500000 --iterations 12", "serial_first_touch")
    },
    // All threads are at one node's half of the arrays at a time. If such a turn is shorter than an epoch (1 ms), both
    // nodes are counted as busy, and the range is wider than it should be: 0.102 each way on two nodes.
    Case {
        repair: "same_schedule",
        widest: 0.11,
        remote: Some((0.5, 0.10)),
        ..case("openmp", "--example 3 --elements 1000000 --iterations 12", "schedule_mismatch")
    },
    Case {
        repair: "same_schedule",
        nodes: &[8],
        ..case("openmp", "--example 3 --elements 6000000 --iterations 3", "schedule_mismatch")
    },
    // Used from a quarter on: node 0 uses up to five eighths, and half of all is on it.
    Case {
        remote: Some((1.0 / 6.0, 0.02)),
        ..case("openmp", "--example 4 --elements 1000000 --iterations 12", "offset_mismatch")
    },
    case("rows", "--rows 4000 --iterations 12", "allocator_placed_pages"),
    case("straddle", "--pairs 8 --iterations 10", "huge_page_straddling"),
    // As its caches are filled twice only, what they wrote back of the initialisation is 2 % of its lines.
    Case {
        repair: "replicate",
        nodes: &[2, 8],
        ..case("table", "--kind read-only --entries 1048576 --lookups 100000", "shared_read_mostly")
    },
    // Interleaving is right for the table and wrong for arrays whose parts have one user each, as all above.
    Case {
        repair: "interleave",
        nodes: &[2, 8],
        ..case("table", "--kind read-write --entries 1048576 --lookups 100000", "shared_read_write")
    },
    case("arenas", "--kb 2048 --iterations 8", "allocated_by_another_thread"),
    Case {
        repair: "",
        nodes: &[2, 8],
        ..case("false-sharing", "--additions 100000 --burst 25", "false_sharing")
    },
];

fn words<'a>(program: &'a str, parts: [&'a str; 2]) -> Vec<&'a str> {
    std::iter::once(program).chain(parts.iter().flat_map(|p| p.split_whitespace())).collect()
}

fn count(lab: &Lab, name: &str, program: &Path, parts: [&str; 2]) -> Counted {
    let program = program.to_str().unwrap();
    // The environment of the recorder is the program's.
    let output = lab
        .command(name, &[])
        .env("OMP_PROC_BIND", "close")
        .env("OMP_PLACES", "cores")
        .args(words(program, parts))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Counted { report: lab.scratch.report(name, &[]), output }
}

fn seconds(report: &Value) -> f64 {
    report["time"]["seconds"].as_f64().unwrap_or_else(|| panic!("no time: {}", report["time_why"]))
}

fn kinds(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|f| f["kind"].as_str().unwrap()).collect()
}

/// How far the times of two counted runs of one program are apart at most, as a part, while the host is busy with
/// something else (docs/virtual-machine-checked.md). A ratio of two such times is off by √2 times that.
const RUN_TO_RUN: f64 = 0.03;

/// How many of so many cases may miss their predicted range. A range holds 95 % of the runs: the least number that
/// chance exceeds in less than one of a thousand checks.
pub(crate) fn misses(cases: usize) -> usize {
    let p: f64 = 0.05;
    let mut chance = (1.0 - p).powi(cases as i32);
    let mut below = chance;
    let mut most = 0;
    while 1.0 - below > 0.001 {
        chance *= (cases - most) as f64 / (most + 1) as f64 * p / (1.0 - p);
        below += chance;
        most += 1;
    }
    most
}

#[test]
fn chance_lets_four_of_eleven_ranges_be_missed() {
    assert_eq!([misses(12), misses(11), misses(5), misses(1)], [4, 4, 3, 1]);
}

fn on(lab: &Lab, nodes: usize) {
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.nodes.contains(&nodes)).collect();
    let what = format!("{nodes} nodes, {} cpus", lab.threads);
    println!("{what:<44} {:<28} remote, predicted (range), twin", "finding");
    let (mut wrong, mut missed) = (Vec::new(), Vec::new());
    for (i, case) in cases.iter().enumerate() {
        let Some(program) = workload(case.program) else { return };
        let run =
            |what: &str, words| count(lab, &format!("{i}.{what}"), &program, [case.words, words]).report.0;
        let (b, a) = (&run("before", case.defect), &run("after", case.repaired));
        let name = format!("{} {}", case.program, case.words);
        let first = &b["findings"][0];
        let predicted = &first["predicted"];
        let of = |key: &str| predicted[key].as_f64();
        let twin = seconds(a) / seconds(b);
        let remote = |report: &Value| report["remote_share"].as_f64().unwrap_or(f64::NAN);
        println!(
            "{name:<44} {:<28} {:.1} % {:?} ({:?} to {:?}) {twin:.3} of {:.3} ms",
            first["kind"].as_str().unwrap_or("none"),
            100.0 * remote(b),
            of("ratio"),
            of("low"),
            of("high"),
            1e3 * seconds(b)
        );
        if let Some((expected, tolerance)) = case.remote.filter(|_| nodes == 2) {
            // Unknown is not near either.
            if !((remote(b) - expected).abs() <= tolerance && remote(a) <= 0.01) {
                let found = [remote(b), remote(a)];
                wrong.push(format!(
                    "{name}: {found:.4?} remote, and repaired, instead of {expected:.4} and 0"
                ));
            }
        }
        if first["kind"] != case.kind {
            wrong.push(format!("{name}: {:?} instead of {}", kinds(b), case.kind));
        }
        let repair = first["repairs"][0]["repair"]["kind"].as_str().unwrap_or("");
        if repair != case.repair {
            wrong.push(format!("{name}: {repair} instead of {}", case.repair));
        }
        if !kinds(a).is_empty() {
            wrong.push(format!("{name}, repaired: {:?}", kinds(a)));
        }
        match (!case.repair.is_empty(), of("ratio"), of("low"), of("high")) {
            (true, Some(ratio), Some(low), Some(high)) => {
                if (ratio - twin).abs() > 0.10 {
                    wrong.push(format!("{name}: predicted {ratio:.3}, and the twin takes {twin:.3}"));
                }
                let outside = format!("{name}: the twin's {twin:.3} is outside {low:.3} to {high:.3}");
                let noise = std::f64::consts::SQRT_2 * RUN_TO_RUN * twin;
                if twin < low - noise || twin > high + noise {
                    wrong.push(format!("{outside}, by more than two runs differ"));
                }
                if twin < low || twin > high {
                    missed.push(outside);
                }
                if (high - low) / 2.0 > case.widest {
                    wrong.push(format!("{name}: a range of {low:.3} to {high:.3} says too little"));
                }
            }
            (true, ..) => wrong.push(format!("{name}: nothing predicted: {}", first["predicted_why"])),
            // The emulator's own time knows nothing of waits for a line, so no twin can be held against them: its threads lock
            // the line with each addition, and no machine does that for less than half of the time.
            (false, Some(_), Some(low), Some(high)) => {
                if !(low < high && high < 0.5) {
                    wrong.push(format!("{name}: without rivals it takes {low:.3} to {high:.3}"));
                }
                if first["objects"] != serde_json::json!(["counters"]) {
                    wrong.push(format!("{name}: the line is of {}", first["objects"]));
                }
            }
            (false, ..) => wrong.push(format!("{name}: nothing predicted: {}", first["predicted_why"])),
        }
    }
    println!("{} of the predicted ranges are missed:\n{}", missed.len(), missed.join("\n"));
    if missed.len() > misses(cases.len()) {
        wrong.append(&mut missed);
    }
    // Few runs of many were off, on a host with much else to do, and only their recordings say why.
    assert!(wrong.is_empty(), "{}\nrecordings: {}", wrong.join("\n"), lab.keep("table"));
}

#[test]
fn each_program_gets_its_finding_and_its_gain_on_two_sockets() {
    let _one = one_machine();
    if guest_works() {
        on(&Lab::sure(2, 4, 1024), 2);
    }
}

#[test]
fn each_program_gets_its_finding_and_its_gain_on_eight_nodes() {
    let _one = one_machine();
    if guest_works() {
        on(&Lab::sure(8, 1, 512), 8);
    }
}

/// Two nodes of two cpus, and a third one that has memory only.
fn with_far_node() -> String {
    let text = machine(3, 2, 512).replace("\"assumed\"", "\"H\"");
    let third = "id = 2\ncpus = \"4-5\"\nkind = \"dram\"\npackage = 2";
    assert!(text.contains(third));
    text.replace(third, "id = 2\ncpus = \"\"\nkind = \"cxl\"\npackage = 0")
}

/// Memory that a binding put onto a node without cpus is one thing; elsewhere a binding is another.
#[test]
fn bound_memory_is_called_bound_and_far_memory_far() {
    let _one = one_machine();
    let (true, Some(program)) = (guest_works(), workload("far-node")) else { return };
    let lab = Lab::sure(2, 2, 512);
    let on = |name: &str, machine: &str, flags: &[&str]| {
        let mut command = nearfar();
        command.args(["record", "-o"]).arg(lab.scratch.path(name)).args(["--on", machine]).args(flags);
        command.args(["--", program.to_str().unwrap(), "--elements", "500000", "--iterations", "8"]);
        command.env("OMP_NUM_THREADS", "4").env("OMP_PROC_BIND", "close").env("OMP_PLACES", "cores");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        lab.scratch.report(name, &[])
    };
    let ours = lab.scratch.path("machine.toml");
    let report = on("policy", ours.to_str().unwrap(), &[]);
    assert_eq!(report.0["findings"][0]["kind"], "placed_by_policy", "{:?}", kinds(&report.0));
    let cxl = lab.scratch.path("cxl.toml");
    std::fs::write(&cxl, with_far_node()).unwrap();
    let report = on("cxl", cxl.to_str().unwrap(), &[]);
    assert_eq!(report.0["findings"][0]["kind"], "memory_on_cpuless_node", "{:?}", kinds(&report.0));
}
