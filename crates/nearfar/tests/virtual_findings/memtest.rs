//! Document 004 (TAU's "Opteron NUMA Analysis"): its memory test with its phases on a virtual machine like its own, two
//! Opterons 285 of two cores each. The profile has the document's shape; docs/phases.md has both tables.

use crate::common::{Scratch, nearfar, text, workload};
use crate::lab::{guest_works, one_machine};
use serde_json::Value;

/// Lines that one test copies: 4 MiB, twice.
const COPIED: f64 = 2.0 * (4 << 20) as f64 / 64.0;

struct Tested {
    memory: usize,
    cpu: usize,
    ns: f64,
    far: f64,
    near: f64,
}

#[test]
fn the_profile_of_document_004s_memory_test_has_the_documents_shape() {
    let _one = one_machine();
    let (true, Some(program)) = (guest_works(), workload("memtest")) else { return };
    let scratch = Scratch::new();
    let mut record = nearfar();
    record.args(["record", "--on", "opteron-285-2s", "-o"]).arg(scratch.path("r")).arg("--").arg(program);
    let output = record.args(["--mb", "4", "--iterations", "2", "--cpus", "4"]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let report = scratch.report("r", &[]).0;
    let nodes = report["phases"]["nodes"].as_array().unwrap();
    let amount = |node: &Value, of: &str| node["all"]["inclusive"][of].as_f64().unwrap();
    let number = |node: &Value, start: &str| -> Option<usize> {
        node["name"].as_str()?.strip_prefix(start)?.parse().ok()
    };
    let whole = amount(nodes.iter().find(|n| n["name"] == "main()").unwrap(), "time_ns");
    let memories: Vec<&Value> =
        nodes.iter().filter(|n| number(n, "Memory allocated on CPU ").is_some()).collect();
    assert_eq!(memories.len(), 4);
    let tests: Vec<Tested> = nodes
        .iter()
        .filter_map(|n| {
            Some(Tested {
                memory: number(&nodes[n["parent"].as_u64()? as usize], "Memory allocated on CPU ")?,
                cpu: number(n, "Test on CPU ")?,
                ns: amount(n, "time_ns"),
                far: amount(n, "far"),
                near: amount(n, "near"),
            })
        })
        .collect();
    assert_eq!(tests.len(), 16);
    // Each memory has a quarter of main(), each cpu's tests the same part of it (24.1 to 24.3 % there, of 40 copies).
    for memory in &memories {
        let share = amount(memory, "time_ns") / whole;
        assert!((0.24..0.26).contains(&share), "{share}: {memory}");
    }
    let of_cpu = |cpu: usize| tests.iter().filter(|t| t.cpu == cpu).map(|t| t.ns).sum::<f64>() / whole;
    let shares: Vec<f64> = (0..4).map(of_cpu).collect();
    let (least, most) = shares.iter().fold((1.0, 0.0), |(a, b), &x| (f64::min(a, x), f64::max(b, x)));
    assert!(most - least < 0.01, "{shares:?}");
    // Cpus 0 and 1 share a node, and 2 and 3: three lines move for each line copied, between the nodes only where the
    // memory is the other one's (HT_LR_MEM_XFR: 3.00 to 3.01 there, and 0.00 to 0.04).
    let machine = nearfar_host::discover::machine_from_argument("opteron-285-2s").unwrap();
    let node_of = |cpu: usize| machine.node_of_cpu(cpu as u32).unwrap();
    let mut time = [0.0; 2];
    for t in &tests {
        let far = node_of(t.memory) != node_of(t.cpu);
        let (moved, none) = if far { (t.far, t.near) } else { (t.near, t.far) };
        let case = format!("memory of cpu {}, cpu {}: {} lines, {}", t.memory, t.cpu, t.far, t.near);
        assert!((2.7..3.3).contains(&(moved / COPIED)), "{case}");
        assert!(none / COPIED < 0.15, "{case}");
        time[usize::from(far)] += t.ns;
    }
    assert!(time[1] > 1.1 * time[0], "far tests take longer (1.30 there): {time:?}");
    println!("far over near: {}", time[1] / time[0]);
}
