//! `nearfar topo` inside virtual machines, beside numactl in the same ones.

use crate::common::{Scratch, nearfar, skip, text};
use crate::lab::{Lab, c, guest_works, memory, one_machine};
use serde_json::Value;
use std::process::Command;

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", text(&output.stderr));
    text(&output.stdout)
}

/// What is free changes from one look to the next.
fn lasting(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|l| !l.contains(" free: ")).collect()
}

#[test]
fn topo_reads_each_machine_as_numactl_does_there() {
    if Command::new("numactl").arg("-H").output().is_err() {
        return skip("numactl is not installed");
    }
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let labs = [2, 4, 8].map(|nodes| (Lab::new(nodes, 1, 128), nodes));
    let files = labs.iter().map(|(lab, nodes)| {
        let file = lab.scratch.path("machine.toml").display().to_string();
        std::iter::once(file).chain(memory(*nodes).iter().map(|flag| flag.to_string())).collect()
    });
    // Four nodes with cpus and one of CXL memory without.
    let flags = ["--cpus-per-node", "1", "--memory-per-node", "512M"].map(str::to_owned);
    let cxl: Vec<String> = std::iter::once("epyc-9224-2s-nps2-cxl".into()).chain(flags.clone()).collect();
    // The same with two numbers left out before it.
    let gap = Scratch::new();
    let described = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/epyc-9224-2s-nps2-cxl.toml");
    let mut described = std::fs::read_to_string(described).unwrap();
    for key in ["id = ", "nodes = \"", "to = "] {
        described = described.replace(&format!("\n{key}4"), &format!("\n{key}6"));
    }
    std::fs::write(gap.path("gap.toml"), described).unwrap();
    let file = gap.path("gap.toml").display().to_string();
    let without: Vec<String> = std::iter::once(file).chain(flags).collect();
    for machine in files.chain([cxl, without.clone()]) {
        let on = |command: &mut Command| {
            command.arg("--on").args(&machine);
        };
        let scratch = Scratch::new();
        let mut record = nearfar();
        record.args(["record", "-q", "-o"]).arg(scratch.path("r"));
        on(&mut record);
        let numactl = output(record.args(["--", "numactl", "-H"]));
        let topo = |form: &str| {
            let mut topo = nearfar();
            topo.args(["topo", form]);
            on(&mut topo);
            output(&mut topo)
        };
        let ours = topo("--numactl");
        assert_eq!(lasting(&ours), lasting(&numactl), "{machine:?}");
        let ours: Value = serde_json::from_str(&topo("--json")).unwrap();
        let nodes = ours["nodes"].as_array().unwrap();
        println!("{machine:?}: {} nodes as numactl has them", nodes.len());
        assert!(numactl.starts_with(&format!("available: {} nodes", nodes.len())), "{numactl}");
        // The caller runs where programs run, not on the recorder's cpu.
        if machine == without {
            let ids: Vec<_> = nodes.iter().filter_map(|n| n["id"].as_u64()).collect();
            assert_eq!(ids, [0, 1, 2, 3, 6], "the guest's kernel has no gap");
        }
        let cpus = nodes.iter().filter(|n| n["cpus"] != "").count();
        assert_eq!(ours["allowed"]["cpus"], format!("0-{}", cpus - 1));
        // And that one is not shown.
        assert_eq!(ours["cpus"]["online"], format!("0-{}", cpus - 1));
        assert_eq!(ours["source"], "sysfs of the virtual machine");
        let packages = ours["packages"].as_array().unwrap();
        assert!(packages.iter().all(|p| p["nodes"] != serde_json::json!([])), "{packages:?}");
    }
}

/// Goes to the last cpu before anything else of it runs, and may use all again. Then where it is.
const WANDERS: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
static void wander(void) {
    cpu_set_t all, last;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&last);
    CPU_SET(CPU_COUNT(&all) - 1, &last);
    sched_setaffinity(0, sizeof last, &last);
    sched_setaffinity(0, sizeof all, &all);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = wander;
int main(void) {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    printf("%d of %d\n", sched_getcpu(), CPU_COUNT(&all));
}"#;

/// While a program is loaded the kernel may move it. The pages that it uses first would be elsewhere in some runs.
#[test]
fn a_program_begins_on_the_first_cpu_wherever_it_was_while_it_was_loaded() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::new(2, 2, 512);
    let program = c(&lab.scratch, "wanders", WANDERS);
    let run = lab.count("run", &[], &[&program]);
    assert_eq!(run.stdout(), "0 of 4\n");
}
