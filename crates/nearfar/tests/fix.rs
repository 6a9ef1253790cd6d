//! `nearfar fix` and `cure` where nothing was counted, and what they say to bad input.

mod common;

use common::{Scratch, alone, beyond_caches, nearfar, perf_works, text};

/// An array larger than caches that one thread initialises and two use, each its half.
const SERIAL: &str = r#"
#include <omp.h>
#include <stdlib.h>
enum { N = @N@ };
int main(void) {
    double *grid = malloc(N * sizeof *grid);
    for (long i = 0; i < N; i++) grid[i] = i % 7;
    double sum = 0;
    for (int k = 0; k < 20; k++)
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (long i = 0; i < N; i++) sum += grid[i];
    return sum < 0;
}"#;

#[test]
fn without_counts_the_gain_is_unknown_and_the_file_says_so() {
    let _alone = alone();
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let bytes = beyond_caches(128 << 20);
    let source = SERIAL.replace("@N@", &(bytes / 8).to_string());
    let program = scratch.compile("gcc", "serial.c", &source, &["-fopenmp"]);
    scratch.record("r", &["--as", "2x1"], &[program.to_str().unwrap()]);
    let fix = |flags: &[&str]| nearfar().arg("fix").arg(scratch.path("r")).args(flags).output().unwrap();
    let file = scratch.path("a.placement");
    let output = fix(&["-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("gain unknown: at most "), "{}", text(&output.stderr));
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
    // What should be typed next can run here: on one node only on an emulated machine.
    let here = nearfar_host::discover::discover(std::path::Path::new("/")).unwrap().machine.nodes.len();
    let said = text(&output.stderr);
    assert_eq!(said.contains("one node") && said.contains("nearfar record --on "), here == 1, "{said}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("serial.c:6") && written.contains("policy = \"blocks\""), "{written}");
    assert!(written.contains("# Gain: unknown"), "{written}");
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
