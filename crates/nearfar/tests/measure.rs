//! `nearfar measure` as a user runs it. No test asserts a speed; `benches/measure.rs` compares those.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn measure(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("measure").args(arguments);
    command
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A figure, or the panic that says why there is none.
#[track_caller]
fn figure(found: &Value) -> f64 {
    found["value"]["median"].as_f64().unwrap_or_else(|| panic!("{found}"))
}

#[test]
fn everything_is_measured_and_the_file_that_it_leaves_is_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let mut command = measure(&["all", "--quick", "--json", "--array", "8M", "-o"]);
    let measured = json(&command.arg(&file).output().unwrap());
    let list = |key: &str| measured[key].as_array().unwrap_or_else(|| panic!("no {key}")).clone();
    for latency in list("latency") {
        for pair in latency["pairs"].as_array().unwrap() {
            // Without 2 MiB pages there is a reason instead.
            assert!(pair["value"]["median"].as_f64().is_some_and(|ns| ns > 1.0) || pair["why"].is_string());
        }
    }
    let core = &measured["core"];
    let ghz = figure(&core["clock_ghz"]);
    assert!((0.3..8.0).contains(&ghz), "{ghz} GHz");
    assert!(figure(&core["read_gbs"]) > 0.0 && figure(&core["update_gbs"]) > 0.0);
    assert!(figure(&core["lines_in_flight"]) >= 1.0);
    // A first-level cache answers in a few cycles wherever this runs.
    let cycles = figure(&core["caches"][0]["ns"]) * ghz;
    assert!((1.0..30.0).contains(&cycles), "{cycles} cycles");
    for node in list("flops") {
        let (double, single) = (figure(&node["f64_gflops"]), figure(&node["f32_gflops"]));
        assert!(double > 0.0 && single > 0.5 * double, "{node}");
    }
    let stream = &measured["stream"];
    assert_eq!(stream["functions"].as_array().unwrap().len(), 4, "{stream}");
    assert!(stream["largest_error"].as_f64().unwrap() <= 1e-13, "{stream}");
    for row in list("scaling") {
        figure(&row["gb_per_s"]);
        let of = |key: &str| row["predicted"][key].as_f64().unwrap_or_else(|| panic!("{row}"));
        assert!(of("low") <= of("gb_per_s") && of("gb_per_s") <= of("high"), "{row}");
    }
    for copy in list("copies") {
        figure(&copy["seconds"]);
    }
    // A file that was measured can be taken where a machine is asked for.
    let topo = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    let mut topo = topo;
    let read = topo.args(["topo", "--json", "--as"]).arg(&file).output().unwrap();
    assert_eq!(json(&read)["nodes"].as_array().unwrap().len(), list("nodes").len());
    let text = std::fs::read_to_string(&file).unwrap();
    for key in ["all_core_ghz", "outstanding_lines", "read_gbs", "f64_gflops", "latency_cycles"] {
        assert!(text.contains(key), "no {key} in\n{text}");
    }
    // And is never overwritten.
    let again = measure(&["latency", "--quick", "-o"]).arg(&file).output().unwrap();
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("is not overwritten"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn streams_lines_are_those_that_scripts_read() {
    let output = measure(&["stream", "--quick", "--array", "4M"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Function    Best Rate MB/s  Avg time     Min time     Max time\n"), "{text}");
    for name in ["Copy:", "Scale:", "Add:", "Triad:"] {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name}\n{text}"));
        let numbers: Vec<f64> = line.split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
        let [rate, average, least, most] = numbers[..] else { panic!("{line}") };
        assert!(rate > 0.0 && least <= average && average <= most, "{line}");
    }
    assert!(text.contains("validated"), "{text}");
}

#[test]
fn alone_scaling_says_that_predictions_need_the_rest() {
    let output = measure(&["scaling", "--quick", "--array", "4M"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("predictions unknown") && text.contains("nearfar measure all"), "{text}");
}

#[test]
fn an_unknown_measurement_is_refused_with_those_that_there_are() {
    let output = measure(&["everything"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("scaling") && text.contains("memcpy"), "{text}");
}

/// Two devices of host memory behind the driver's names. SPOIL=1: what comes back is wrong.
const STAND_IN: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return getenv("NO_DEVICE") ? 100 : (int)flags; }
int cuGetErrorString(int error, const char **text) { *text = error == 100 ? "no device at all" : "?"; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *device, int i) { *device = 10 + i; return 0; }
int cuDeviceGetName(char *name, int n, int device) { snprintf(name, n, "Stand-in %d", device); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)device; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuMemAlloc_v2(uint64_t *at, size_t n) { *at = (uint64_t)(uintptr_t)malloc(n); return *at ? 0 : 2; }
int cuMemFree_v2(uint64_t at) { free((void *)(uintptr_t)at); return 0; }
int cuMemHostRegister_v2(void *at, size_t n, unsigned flags) { (void)at; (void)n; return (int)flags; }
int cuMemHostUnregister(void *at) { (void)at; return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { memcpy((void *)(uintptr_t)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
    memcpy(to, (void *)(uintptr_t)from, n);
    if (getenv("SPOIL")) ((char *)to)[4096]++;
    return 0;
}
"#;

#[test]
fn gpu_copies_are_measured_and_checked_with_a_stand_in_for_the_driver() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("cuda.c");
    std::fs::write(&source, STAND_IN).unwrap();
    let library: &Path = &dir.path().join("libcuda.so.1");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(library).arg(&source);
    assert!(gcc.status().unwrap().success());
    let run = |variable: &str| {
        let mut command = measure(&["gpu", "--quick", "--json"]);
        command.env("LD_LIBRARY_PATH", dir.path()).env(variable, "1");
        json(&command.output().unwrap())
    };
    let measured = run("NOTHING");
    let copies = measured["gpu"].as_array().unwrap();
    assert_eq!(copies.len(), 2 * measured["nodes"].as_array().unwrap().len());
    assert_eq!((&copies[0]["gpu"], &copies[0]["name"]), (&0.into(), &"Stand-in 10".into()));
    for copy in copies {
        assert!(figure(&copy["to_gbs"]) > 0.0 && figure(&copy["from_gbs"]) > 0.0);
    }
    let spoilt = run("SPOIL");
    let why = spoilt["gpu"][0]["from_gbs"]["why"].as_str().unwrap_or_else(|| panic!("{spoilt}"));
    assert!(why.contains("wrong at byte 4096"), "{why}");
    let none = run("NO_DEVICE");
    assert!(none["gpu"].as_array().unwrap().is_empty());
    assert!(none["caveats"].to_string().contains("cuInit: no device at all"), "{none}");
}
