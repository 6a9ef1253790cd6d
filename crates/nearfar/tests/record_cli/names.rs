//! What memory is called that no allocation explains.

use crate::common::{Scratch, perf_works, skip};
use std::process::Command;

/// 24 MiB of zeroed data, and 8 KiB of the heap, all of it used by one thread for as long.
const PARTS: &str = r#"
static volatile double zeroed[3 << 20];
int main(void) {
    volatile double *part = sbrk(8192);
    for (int turn = 0; turn < 60; turn++) {
        for (int i = 0; i < 3 << 20; i++) zeroed[i] += turn;
        for (int i = 0; i < 3 << 20; i++) part[i % 1024] += turn;
    }
    return part[0] + zeroed[5] < 0;
}
"#;

#[test]
fn zeroed_data_of_a_stripped_program_and_the_heap_have_names() {
    if !perf_works() {
        return skip("no perf events");
    }
    let scratch = Scratch::new();
    let program = scratch.c("parts", PARTS);
    assert!(Command::new("strip").arg(&program).status().expect("binutils").success());
    scratch.record("r", &["-q"], &[program.to_str().unwrap()]);
    let report = scratch.report("r", &["--as", "2x1"]);
    let names: Vec<&str> = report.objects().iter().filter_map(|o| o["name"].as_str()).collect();
    assert!(!names.contains(&"anonymous mapping"), "{names:?}");
    let zeroed = report.object("parts (.bss)").0;
    assert!(zeroed["bytes"].as_u64().unwrap() >= 24 << 20, "{zeroed}");
    // Not from malloc, so no allocation explains it.
    assert!(names.contains(&"[heap]"), "{names:?}");
}
