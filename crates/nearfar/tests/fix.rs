//! `nearfar fix` and `cure` where nothing was counted, and what they say to bad input.

mod common;

use common::{Scratch, alone, beyond_caches, has, nearfar, perf_works, text};
use nearfar_report::policy::{Choice, Form, Known, Policy};
use std::path::PathBuf;
use std::process::{Command, Output};

/// Links larger than caches that one thread initialises; two follow them, each those of its half.
/// Every iteration needs what the one before it loaded, so no host's memory is fast enough to hide that it
/// waits. A half's links are one cycle: a linear congruential generator of full period modulo a power of two
/// (Hull and Dobell 1962).
const SERIAL: &str = r#"
#include <omp.h>
#include <stdlib.h>
enum { N = @N@, HALF = N / 2, STEPS = 10000000 };
int main(void) {
    void **grid = malloc(N * sizeof *grid);
    for (long i = 0; i < N; i++) grid[i] = grid + (i & HALF) + (i % HALF * 1664525 + 1013904223) % HALF;
    int ends = 0;
#pragma omp parallel for schedule(static) reduction(+ : ends)
    for (int half = 0; half < 2; half++) {
        void **at = grid + half * HALF;
        for (long k = 0; k < STEPS; k++) at = *at;
        ends += at == grid;
    }
    return ends > 2;
}"#;

#[test]
fn without_counts_the_gain_has_a_range_and_the_file_says_so() {
    let _alone = alone();
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let bytes = beyond_caches(128 << 20).next_power_of_two();
    let source = SERIAL.replace("@N@", &(bytes / 8).to_string());
    let program = scratch.compile("gcc", "serial.c", &source, &["-fopenmp"]);
    scratch.record("r", &["--as", "2x1"], &[program.to_str().unwrap()]);
    let fix = |flags: &[&str]| nearfar().arg("fix").arg(scratch.path("r")).args(flags).output().unwrap();
    let file = scratch.path("a.placement");
    let output = fix(&["-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // One line after the other, of which half are far: by samples something between nothing and that.
    let predicted = text(&output.stderr);
    assert!(predicted.contains(" % less time (") && predicted.contains("samples of a clock"), "{predicted}");
    // What is typed next judges by the same machine.
    let report = nearfar().args(["report", "--as", "2x3"]).arg(scratch.path("r")).output().unwrap();
    let page = text(&report.stdout);
    assert!(page.contains("nearfar fix --as 2x3 ") && page.contains("nearfar diff --as 2x3 "), "{page}");
    let json = scratch.path("json.placement");
    let told: serde_json::Value =
        serde_json::from_slice(&fix(&["--json", "-o", json.to_str().unwrap()]).stdout).unwrap();
    assert_eq!(told["files"][0]["file"], json.to_str().unwrap(), "{told}");
    assert!(told["files"][0]["places"][0].is_string() && told["next"][0]["command"].is_string(), "{told}");
    assert_eq!(fix(&["--json", "-o", "-"]).status.code(), Some(2));
    // No policy's gain is known either, and an unknown gain is none.
    let to = fix(&["--to", "numactl"]);
    assert_eq!((to.status.code(), text(&to.stdout).as_str()), (Some(3), ""), "{}", text(&to.stderr));
    assert!(text(&to.stderr).contains("nearfar check"), "{}", text(&to.stderr));
    // What should be typed next can run here: on one node only on an emulated machine.
    let here = nearfar_host::discover::discover(std::path::Path::new("/")).unwrap().machine.nodes.len();
    let said = text(&output.stderr);
    assert_eq!(said.contains("one node") && said.contains("nearfar record --on "), here == 1, "{said}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("serial.c:6") && written.contains("policy = \"blocks\""), "{written}");
    assert!(written.contains(" % less time (") && !written.contains("# Gain: unknown"), "{written}");
    // The halves of the two threads, within a bin of the samples.
    let ends: Vec<f64> = written
        .split_once("blocks = [")
        .map(|(_, rest)| rest.split(['[', ',', ']', '\n']).filter_map(|w| w.trim().parse().ok()).collect())
        .unwrap();
    assert!((ends[0] / bytes as f64 - 0.5).abs() < 0.02, "{written}");
    assert_eq!(fix(&["-o", file.to_str().unwrap()]).status.code(), Some(2));
    assert_eq!(text(&fix(&["-o", "-"]).stdout), written);
    // On one node there is nothing to place.
    let one = fix(&["-o", "-", "--as", "here"]);
    let nodes = std::fs::read_dir("/sys/devices/system/node").unwrap();
    if nodes.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("node")).count() == 1 {
        assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
        assert!(text(&one.stderr).contains("one node"), "{}", text(&one.stderr));
    }
}

#[test]
fn bad_input_is_told() {
    let scratch = Scratch::new();
    let missing = nearfar().arg("fix").arg(scratch.path("none")).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("none"), "{}", text(&missing.stderr));
    let nodes = std::fs::read_dir("/sys/devices/system/node").unwrap();
    if nodes.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("node")).count() == 1 {
        let cure = nearfar().args(["cure", "--", "true"]).current_dir(scratch.directory()).output().unwrap();
        assert_eq!(cure.status.code(), Some(0));
        assert!(
            text(&cure.stderr).contains("cure --on xeon-e5-2699v4-2s --cpus-per-node 4 -- true"),
            "{}",
            text(&cure.stderr)
        );
        assert_eq!(std::fs::read_dir(scratch.directory()).unwrap().count(), 0);
    }
}

/// A form's text for the host's first node, in a file.
fn written(scratch: &Scratch, form: Form, policy: Policy, name: &str) -> PathBuf {
    let predicted = nearfar_analyze::Predicted { ratio: 0.66, low: 0.6, high: 0.7 };
    let choice = Choice { policy, predicted, better: None, single: None };
    let cpus =
        nearfar_host::discover::discover(std::path::Path::new("/")).unwrap().machine.nodes[0].cpus.clone();
    let known = Known {
        command: ["sh", "-c", "echo \"ran: $1\"; numactl --show", "it's", "#1: {a}"]
            .map(String::from)
            .to_vec(),
        machine: "2x2".into(),
        threads: 4,
        process_bytes: Some(123 << 20),
        cpus: Some(cpus),
        single_threaded_cores: true,
    };
    let file = scratch.path(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, nearfar_report::policy::text(form, &choice, &known)).unwrap();
    file
}

fn first_node() -> [Policy; 2] {
    let node = nearfar_host::discover::discover(std::path::Path::new("/")).unwrap().machine.nodes[0].id;
    [Policy::Interleave([node].into_iter().collect()), Policy::OneNode(node)]
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn numactl_takes_its_line() {
    if !has("numactl") {
        return;
    }
    let scratch = Scratch::new();
    for (policy, shown) in first_node().into_iter().zip(["policy: interleave", "policy: bind"]) {
        let file = written(&scratch, Form::Numactl, policy, "line");
        let output = Command::new("sh").arg(&file).output().unwrap();
        let all = said(&output);
        assert!(output.status.success() && all.contains("ran: #1: {a}") && all.contains(shown), "{all}");
    }
}

#[test]
fn systemd_takes_its_drop_in() {
    if !has("systemd-analyze") {
        return;
    }
    let scratch = Scratch::new();
    let service = scratch.path("app.service");
    std::fs::write(&service, "[Service]\nExecStart=/bin/true\n").unwrap();
    let verify = || Command::new("systemd-analyze").arg("verify").arg(&service).output().unwrap();
    for policy in first_node() {
        let file = written(&scratch, Form::Systemd, policy, "app.service.d/numa.conf");
        let output = verify();
        assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
        // Were it not read, nothing would be complained of either.
        let wrong = std::fs::read_to_string(&file).unwrap().replace("NUMAMask=", "NUMAMask=x");
        std::fs::write(&file, wrong).unwrap();
        assert!(said(&verify()).contains("NUMA"), "{}", said(&verify()));
    }
}

/// Documents of YAML as JSON, by Python's reader; `None` without one.
fn yaml(file: &std::path::Path) -> Option<serde_json::Value> {
    let program = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    // Another one on the path does not see the packages of the system's.
    let read = |python| Command::new(python).args(["-c", program]).arg(file).output().ok();
    let has_it = |output: &Output| !text(&output.stderr).contains("No module named");
    let Some(output) = ["python3", "/usr/bin/python3"].into_iter().filter_map(read).find(has_it) else {
        common::skip("no YAML for python3");
        return None;
    };
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output))))
}

#[test]
fn kubernetes_and_oci_files_have_the_fields_of_their_specifications() {
    let scratch = Scratch::new();
    let [interleave, one_node] = first_node();
    let node = match &one_node {
        Policy::OneNode(node) => node.to_string(),
        _ => unreachable!(),
    };
    let oci = |policy: Policy| -> serde_json::Value {
        let file = written(&scratch, Form::Oci, policy, "config.json");
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    };
    let policy =
        |mode: &str| serde_json::json!({"mode": mode, "nodes": node, "flags": ["MPOL_F_STATIC_NODES"]});
    assert_eq!(
        oci(interleave.clone())["linux"],
        serde_json::json!({"memoryPolicy": policy("MPOL_INTERLEAVE")})
    );
    let bound = oci(one_node.clone());
    assert_eq!(bound["linux"]["memoryPolicy"], policy("MPOL_BIND"));
    let cpu = &bound["linux"]["resources"]["cpu"];
    assert!(cpu["mems"] == node.as_str() && cpu["cpus"].is_string(), "{bound}");
    assert!(bound["annotations"]["nearfar.fix"].as_str().unwrap().contains("34 % less time"), "{bound}");

    let Some(spread) = yaml(&written(&scratch, Form::Kubernetes, interleave, "a.yaml")) else { return };
    let [kubelet, pod] = [0, 1].map(|i| &spread[i]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(kubelet["topologyManagerPolicy"], "none", "{spread}");
    assert_eq!(container["securityContext"]["capabilities"]["add"][0], "SYS_NICE", "{spread}");
    assert_eq!((&container["command"][0], &container["command"][7]), (&"numactl".into(), &"#1: {a}".into()));
    let single = yaml(&written(&scratch, Form::Kubernetes, one_node, "b.yaml")).unwrap();
    let resources = &single[1]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], serde_json::json!({"cpu": "4", "memory": "123Mi"}), "{single}");
    assert_eq!(resources["limits"], resources["requests"]);
    let names = ["cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy"].map(|n| &single[0][n]);
    assert_eq!(names, ["static", "Static", "single-numa-node"], "{single}");
}
