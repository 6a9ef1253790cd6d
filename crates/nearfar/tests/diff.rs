//! `nearfar diff` on recordings made here: what it refuses, what it decides, its exit statuses.
//! The rules are tested on constructed reports (report/tests/compare.rs).

mod common;

use common::{Scratch, alone, beyond_caches, nearfar, number, perf_works, text};
use serde_json::Value;
use std::process::Output;

/// Two threads, each its half of an array that one of them, or each its half, has initialised.
const HALVES: &str = r#"
#define BYTES @BYTES@L
static char *array;
static double seconds(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
FRESH static void sweep(long half, double until) {
    while (seconds() < until)
        for (long i = half * BYTES / 2; i < (half + 1) * BYTES / 2; i += 64) (*(volatile char *)(array + i))++;
}
static pthread_barrier_t ready;
static int serial;
static double end;
static void *second(void *x) {
    if (!serial) write_pages(array + BYTES / 2, BYTES / 2 / PAGE);
    pthread_barrier_wait(&ready);
    sweep(1, end);
    return x;
}
int main(int argc, char **argv) {
    serial = argc > 1 && !strcmp(argv[1], "serial");
    array = map_pages(BYTES / PAGE);
    pthread_barrier_init(&ready, 0, 2);
    write_pages(array, (serial ? BYTES : BYTES / 2) / PAGE);
    end = seconds() + 1.5;
    pthread_t t; pthread_create(&t, 0, second, 0);
    pthread_barrier_wait(&ready);
    sweep(0, end);
    pthread_join(t, 0);
    return 0;
}"#;

fn halves() -> String {
    HALVES.replace("@BYTES@", &beyond_caches(48 << 20).to_string())
}

fn diff(arguments: &[&str]) -> Output {
    nearfar().arg("diff").args(arguments).output().unwrap()
}

#[test]
fn bad_input_ends_with_what_is_wrong() {
    let scratch = Scratch::new();
    let folder = scratch.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let file = scratch.path("file");
    std::fs::write(&file, "no recording").unwrap();
    let (folder, file) = (folder.to_str().unwrap(), file.to_str().unwrap());
    let case = |arguments: &[&str], words: &str| {
        let output = diff(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    };
    case(&["/no/such", "/no/such"], "/no/such");
    case(&[folder, folder], folder);
    case(&[file, file], file);
    case(&[folder], "AFTER");
    case(&["--fail-if-worse", "abc", folder, folder], "`abc` is not a percentage");
    case(&["--fail-if-worse=-5", folder, folder], "`-5` is not a percentage");
    case(&["--fail-if-worse", "5%%", folder, folder], "`5%%` is not a percentage");
}

#[test]
fn recordings_are_compared() {
    if !perf_works() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let program = scratch.c("halves", &halves());
    for how in ["serial", "parallel"] {
        scratch.record(how, &["-q"], &[program.to_str().unwrap(), how]);
    }
    let (serial, parallel) = (scratch.path("serial"), scratch.path("parallel"));
    let (serial, parallel) = (serial.to_str().unwrap(), parallel.to_str().unwrap());

    // `serial` and `parallel` could be anything.
    let output = diff(&["--as", "2x1", serial, parallel]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("Unknown") && said.contains("--same-work"), "{said}");
    let output = diff(&["--as", "2x1", "--fail-if-worse", "5", serial, parallel]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));

    let same = |arguments: &[&str]| diff(&[&["--same-work"], arguments].concat());
    let output = same(&["--as", "2x1", "--json", serial, parallel]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 2);
    assert_eq!(json["verdict"], "repaired", "{}", json["why"]);
    assert_eq!(json["decided_by"], "remote_share");
    assert_eq!(json["before"]["recording"], serial);
    assert_eq!(json["time"], Value::Null);
    assert!(json["time_why"].as_str().unwrap().contains("clock"));
    assert!(number(&json["remote"]["value"]) < -0.2, "{}", json["remote"]);
    assert!(number(&json["before"]["cpu_seconds"]) > 0.5 && number(&json["after"]["wall_seconds"]) > 1.0);
    assert_eq!(json["nodes"].as_array().unwrap().len(), 2);
    let sweep = json["functions"].as_array().unwrap().iter().find(|f| f["name"] == "sweep").unwrap();
    assert_eq!(sweep["change"], "repaired", "{sweep}");
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("`serial` is now `parallel`"), "{warnings}");

    let output = same(&["--as", "2x1", "--fail-if-worse", "5%", "--width", "100", serial, parallel]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("Repaired: the remote share of working time went from"), "{said}");
    assert!(said.lines().all(|l| l.chars().count() <= 100), "{said}");

    // Twice the same.
    for recording in [serial, parallel] {
        let output = diff(&["--as", "2x1", "--fail-if-worse", "5", recording, recording]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with("No effect: "), "{}", text(&output.stdout));
    }

    // The loss of the repair.
    let output = same(&["--as", "2x1", "--fail-if-worse", "5", parallel, serial]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains("percentage points more; 5 are allowed"), "{said}");
    let output = same(&["--as", "2x1", parallel, serial]);
    assert_eq!(output.status.code(), Some(0));

    // What cannot be told does not pass.
    let output = diff(&["--as", "1x2", "--fail-if-worse", "5", serial, parallel]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("cannot be told"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("Unknown"), "{}", text(&output.stdout));
}
