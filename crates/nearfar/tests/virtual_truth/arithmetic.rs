//! Programs whose traffic is known by arithmetic, within half a percent.

use crate::common::{number, workload};
use crate::lab::{Counted, Lab, c, guest_works, one_machine, within};

const HALF_A_PERCENT: f64 = 0.005;

/// What was dirty in the caches when the region began is written in it, and what is at its end
/// is not: lines written are known up to the lines that the caches of two cores and nodes hold.
#[track_caller]
fn check(run: &Counted, read: f64, written: f64, what: &str) {
    const CACHES: f64 = 2.0 * (128.0 + 64.0 + 32.0) * 1024.0 / 64.0;
    let found = run.all();
    within(found.0, read, HALF_A_PERCENT, &format!("{what}, lines read"));
    within(found.0 + found.1, read + written, HALF_A_PERCENT, &format!("{what}, lines in all"));
    assert!((found.1 - written).abs() <= CACHES, "{what}: {} lines written instead of {written}", found.1);
}

fn program(name: &str) -> Option<String> {
    Some(workload(name)?.to_str().unwrap().to_owned())
}

/// Arrays of 16 MiB against 128 KiB of L3: what stays in caches is below the tolerance.
const ELEMENTS: f64 = 2_097_152.0;
const ARRAY_LINES: f64 = ELEMENTS * 8.0 / 64.0;

#[test]
fn a_triad_reads_three_arrays_and_writes_one() {
    let Some(triad) = program("triad").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    // Arithmetic holds in any order of page frames.
    for (name, flags) in [("prefetched", &[][..]), ("plain", &["--no-prefetch", "--frames", "3"])] {
        let run = lab.count(
            name,
            flags,
            &[&triad, "--elements", "2097152", "--iterations", "2", "--init", "parallel"],
        );
        assert!(run.stdout().contains("verify: 0 of"), "{}", run.stdout());
        // Regular stores fetch the line that they write to.
        check(&run, 2.0 * 3.0 * ARRAY_LINES, 2.0 * ARRAY_LINES, "triad");
        // A multiplication and an addition each time, fused or not.
        let roofline = &run.report.0["counters"]["roofline"];
        within(roofline["f64_ops"].as_f64().unwrap(), 2.0 * 2.0 * ELEMENTS, 1e-4, "triad, operations");
        assert_eq!(roofline["f32_ops"].as_f64(), Some(0.0), "{roofline}");
        assert!(run.remote() <= 0.005, "each thread's part is its own: {:.4} remote", run.remote());
    }
}

#[test]
fn windows_stand_for_what_was_not_counted_between_them() {
    let Some(triad) = program("triad").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let iterations = 20.0;
    let run = lab.count(
        "windows",
        &["--sample-windows=4"],
        &[&triad, "--elements", "2097152", "--iterations", "20", "--init", "serial"],
    );
    assert!(run.stdout().contains("verify: 0 of"), "{}", run.stdout());
    let counters = &run.report.0["counters"];
    let windows = |name: &str| counters["windows"][name].as_f64().unwrap_or(f64::NAN);
    // A window of 1 ms in 4, a little more for what a core runs until it looks at its clock.
    let counted = windows("counted_instructions") / windows("instructions");
    assert!((0.2..=0.35).contains(&counted) && windows("windows") >= 8.0, "{}", counters["windows"]);
    let (read, written) = run.all();
    for (lines, expected) in [(read, 3.0), (written, 1.0)] {
        within(lines, iterations * expected * ARRAY_LINES, 0.02, "triad in windows");
    }
    let all = 4.0 * iterations * ARRAY_LINES;
    assert!((read + written - all).abs() <= windows("lines_error") * all, "{}", counters["windows"]);
    let operations = counters["roofline"]["f64_ops"].as_f64().unwrap();
    within(operations, 2.0 * iterations * ELEMENTS, 0.005, "triad in windows, operations");
    // The thread on the second node has all of its part on the first one.
    assert!((run.remote() - 0.5).abs() <= windows("remote_share_error"), "{:.4} remote", run.remote());
    let interval = &run.report.0["remote_share_ci"];
    assert!(interval["low"].as_f64() < Some(0.5) && interval["high"].as_f64() > Some(0.5), "{interval}");
    assert_eq!(run.report.0["verdict"], "affected", "{}", run.report.0["verdict_why"]);
    // `a` is read to be written, and written back.
    for (name, per_iteration) in [("a", 2.0), ("b", 1.0), ("c", 1.0)] {
        let object = run.report.object(name).0;
        let dram = &object["dram"];
        let (near, far) = (dram["local"].as_f64().unwrap(), dram["remote"].as_f64().unwrap());
        let (lines, error) =
            (iterations * per_iteration * ARRAY_LINES, dram["windows_error"].as_f64().unwrap());
        assert!((near + far - lines).abs() <= error * lines, "{name}: {dram}");
        assert!(error < 0.05, "{name}: {dram}");
        let interval = &object["remote_share_ci"];
        assert!(
            interval["low"].as_f64() < Some(0.5) && interval["high"].as_f64() > Some(0.5),
            "{name}: {interval}"
        );
    }
}

#[test]
fn a_triad_with_streaming_stores_reads_two_arrays() {
    let Some(triad) = program("triad").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let run = lab.count(
        "nt",
        &[],
        &[&triad, "--elements", "2097152", "--iterations", "2", "--init", "serial", "--nt"],
    );
    check(&run, 2.0 * 2.0 * ARRAY_LINES, 2.0 * ARRAY_LINES, "triad --nt");
    assert!((run.remote() - 0.5).abs() <= 0.005, "one node has all pages: {:.4} remote", run.remote());
}

const COPY: &str = r#"
#include <nearfar.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    const size_t n = 1 << 21;
    double *from = aligned_alloc(4096, n * 8), *to = aligned_alloc(4096, n * 8);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) from[i] = i, to[i] = 0;
    nearfar_begin();
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) *(volatile double *)(to + i) = from[i];
    nearfar_end();
    printf("%g\n", to[n - 1]);
    return to[n - 1] != n - 1;
}"#;

#[test]
fn a_copy_reads_both_arrays_and_writes_one() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let copy = c(&lab.scratch, "copy", COPY);
    let run = lab.count("r", &[], &[&copy]);
    check(&run, 2.0 * ARRAY_LINES, ARRAY_LINES, "copy");
}

#[test]
fn rows_read_each_line_once_and_columns_once_per_element() {
    let Some(matrix) = program("matrix").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let shape = ["--rows", "4096", "--cols", "1024", "--passes", "1", "--init", "parallel"];
    let elements = 4096.0 * 1024.0;
    let by = |order: &'static str| {
        let mut command = vec![matrix.as_str(), "--order", order];
        command.extend(shape);
        lab.count(order, &["--no-prefetch"], &command)
    };
    within(by("rows").all().0, elements * 4.0 / 64.0, HALF_A_PERCENT, "rows, lines read");
    // 4096 lines of a column are 256 KiB: more than all caches that a thread has, and they are
    // 4 KiB apart, so that they share few sets of the L1.
    within(by("columns").all().0, elements, HALF_A_PERCENT, "columns, lines read");
}

#[test]
fn a_chase_reads_a_line_per_step() {
    let Some(chase) = program("chase").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let steps = 16_777_216.0 / 64.0;
    let run = lab.count(
        "chase",
        &["--no-prefetch"],
        &[&chase, "--bytes", "16777216", "--steps", "262144", "--threads", "1", "--init", "serial"],
    );
    within(run.all().0, steps, HALF_A_PERCENT, "chase, lines read");
    let largest = run.report.objects().iter().map(|o| number(&o["stall_share"])).fold(0.0, f64::max);
    assert!(largest > 0.95, "{}", run.report.0["objects"]);
}
