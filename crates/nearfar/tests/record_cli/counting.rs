//! What the kernel counts of each thread while it is recorded. Hardware counters are tested by hand-made values elsewhere:
//! no machine that this is built on has them.

use crate::common::{Scratch, nearfar, perf_works, text};
use crate::programs::run;
use serde_json::Value;

const PAGES: u64 = 3000;

/// One thread touches fresh pages; the other computes for about a second.
const PROGRAM: &str = r#"#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
static void *compute(void *unused) {
    prctl(PR_SET_NAME, "computes");
    struct timespec t;
    volatile double x = 1;
    do {
        for (int i = 0; i < 1000000; i++) x = x * 1.0000001;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec < 1);
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, compute, 0);
    char *p = mmap(0, 3000 * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 3000 * 4096L, MADV_NOHUGEPAGE);
    for (long i = 0; i < 3000; i++) p[i * 4096] = 1;
    pthread_join(thread, 0);
    return 0;
}"#;

fn counted<'a>(values: &'a Value, name: &str) -> &'a Value {
    values
        .as_array()
        .unwrap()
        .iter()
        .find(|v| v["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {values}"))
}

#[test]
fn the_kernels_counters_of_threads_are_in_the_report() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("counted", PROGRAM);
    let recorded = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let along = &recorded.report.0["counted_along"];
    let time = counted(&along["program"], "cpu time");
    let seconds = time["value"].as_f64().unwrap() * 1e-9;
    assert!(
        seconds >= 1.0 && time["of"] == "the program" && time["source"] == "kernel: task-clock",
        "{time}"
    );
    let faults = counted(&along["program"], "page faults")["value"].as_f64().unwrap();
    assert!(faults >= PAGES as f64, "{faults}");

    let threads = along["threads"].as_array().unwrap();
    let of = |name: &str| threads.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{along}"));
    let (computes, main) = (of("computes"), of("counted"));
    assert!(computes["cpu_seconds"].as_f64().unwrap() > 0.5, "{computes}");
    assert!(computes["page_faults"].as_f64().unwrap() < PAGES as f64 / 2.0, "{computes}");
    assert!(main["page_faults"].as_f64().unwrap() >= PAGES as f64, "{main}");
    let share = along["threads_share"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&share), "{share}");

    // What is not there is unknown, with a reason; nothing is 0 for lack of a counter.
    for value in along["program"].as_array().unwrap() {
        assert!(value["value"].is_null() == value["why"].is_string(), "{value}");
    }
    assert_eq!(along["remote_share"].is_null(), along["remote_share_why"].is_string(), "{along}");
    let node =
        along["host"].as_array().unwrap().iter().find(|v| v["name"] == "numa_hit" && v["of"] == "node 0");
    if std::path::Path::new("/sys/devices/system/node/node0/numastat").exists() {
        assert!(node.unwrap()["value"].as_f64().unwrap() >= PAGES as f64, "{node:?}");
    }

    let details = run(nearfar().args(["report", "--details"]).arg(scratch.path("r")));
    let details = text(&details.stdout);
    for words in ["Counted beside the samples", "kernel: task-clock", "computes"] {
        assert!(details.contains(words), "{words}\n{details}");
    }
}

#[test]
fn readings_come_in_intervals_that_add_up() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("counted", PROGRAM);
    scratch.record("r", &["--no-agent"], &[program.to_str().unwrap()]);
    let stored = nearfar_record::store::open(&scratch.path("r")).unwrap();
    let counters = &stored.input.counters;
    let rows: Vec<usize> = (0..counters.time_ns.len()).filter(|&i| counters.name[i] == "cpu time").collect();
    let of_program = |&&i: &&usize| counters.thread[i] == u32::MAX;
    assert!(rows.iter().filter(of_program).count() >= 2, "one in the middle and one at the end");
    for &i in &rows {
        assert!(counters.value[i] >= 0.0 && counters.interval_ns[i] > 0, "{i}");
        // No thread has more time than there was.
        if counters.thread[i] != u32::MAX {
            assert!(counters.value[i] <= counters.interval_ns[i] as f64 * 1.05, "{i}");
        }
    }
}

#[test]
fn without_perf_events_counters_are_unknown_with_the_reason() {
    let scratch = Scratch::new();
    let program = scratch.c("counted", PROGRAM);
    let recorded = scratch.record("r", &["--no-perf"], &[program.to_str().unwrap()]);
    let along = &recorded.report.0["counted_along"];
    let values = along["program"].as_array().unwrap();
    assert_eq!(values.len(), 9);
    for value in values {
        assert!(value["value"].is_null() && value["why"].as_str().unwrap().contains("--no-perf"), "{value}");
    }
    assert_eq!(along["threads"].as_array().unwrap().len(), 0);
}
