//! What memory is called that no allocation explains, and what is said of lines that threads share.

use crate::common::{Scratch, has, perf_works, skip};
use std::process::Command;

/// Two threads count in neighbouring elements of 512 bytes, in one cache line, for about a second of CPU time each.
const COUNTERS: &str = r#"
static volatile long counters[64];
static void *work(void *which) {
    struct timespec now;
    do {
        for (int i = 0; i < 1000000; i++) counters[(long)which]++;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec < 1);
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long t = 0; t < 2; t++) pthread_create(&threads[t], 0, work, (void *)t);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], 0);
    return 0;
}
"#;

#[test]
fn two_threads_that_count_in_one_line_have_no_verdict_and_the_line_a_name() {
    if !perf_works() {
        return skip("no perf events");
    }
    let scratch = Scratch::new();
    let program = scratch.c("counters", COUNTERS);
    scratch.record("r", &["-q"], &[program.to_str().unwrap()]);
    let report = scratch.report("r", &["--as", "2x1"]);
    assert_eq!(report.verdict(), "unknown", "{}", report.0["verdict_why"]);
    let object = report.object("counters").0;
    assert_eq!((&object["kind"], &object["bytes"]), (&"static".into(), &512.into()), "{object}");
    assert!(object["stall_share"].as_f64().unwrap() > 0.9, "{object}");
}

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

/// A vector of 48 MiB for each of two threads, resized by the main thread at one line.
const VECTORS: &str = r#"
#include <thread>
#include <vector>
int main() {
    std::vector<std::vector<double>> parts(2);
    for (auto &part : parts)
        part.resize(6 << 20);
    std::vector<std::thread> threads;
    for (auto &part : parts)
        threads.emplace_back([&part] {
            for (int turn = 0; turn < 40; turn++)
                for (auto &x : part)
                    x = x * 0.5 + turn;
        });
    for (auto &thread : threads)
        thread.join();
    return parts[0][7] < 0;
}
"#;

#[test]
fn a_vector_for_each_thread_is_no_shared_one() {
    if !perf_works() || !has("g++") {
        return skip("no perf events or no g++");
    }
    let scratch = Scratch::new();
    let program = scratch.compile("g++", "vectors.cpp", VECTORS, &["-pthread"]);
    scratch.record("r", &["-q"], &[program.to_str().unwrap()]);
    let report = scratch.report("r", &["--as", "2x1"]);
    let largest = report.objects().iter().max_by_key(|o| o["samples"].as_u64()).expect("an object");
    assert_eq!(largest["pattern"], "own_thread", "{largest}");
    assert_eq!(largest["count"], 2, "{largest}");
    let repairs = report.0["findings"].to_string();
    assert!(!repairs.contains("interleave"), "{repairs}");
}

/// Two arrays that one line allocates: `a` is initialised in parallel, `b` by one thread.
const ARRAYS: &str = r#"
program arrays
  implicit none
  real(8), allocatable :: a(:), b(:)
  integer :: i, turn
  integer, parameter :: n = 8000000
  allocate(a(n), b(n))
  !$omp parallel do schedule(static)
  do i = 1, n
    a(i) = i
  end do
  do i = 1, n
    b(i) = i
  end do
  do turn = 1, 30
    !$omp parallel do schedule(static)
    do i = 1, n
      b(i) = b(i) * 0.5d0 + a(i)
    end do
  end do
  if (b(7) < 0) stop 1
end program
"#;

#[test]
fn of_two_fortran_arrays_of_one_line_one_is_the_finding() {
    if !perf_works() || !has("gfortran") {
        return skip("no perf events or no gfortran");
    }
    let scratch = Scratch::new();
    let program = scratch.compile("gfortran", "arrays.f90", ARRAYS, &["-fopenmp"]);
    let command = ["env", "OMP_NUM_THREADS=2", program.to_str().unwrap()];
    scratch.record("r", &["-q"], &command);
    let report = scratch.report("r", &["--as", "2x1"]);
    let objects: Vec<&str> = report.objects().iter().filter_map(|o| o["name"].as_str()).collect();
    assert!(objects.contains(&"b") && objects.contains(&"a"), "{objects:?}");
    let found = &report.0["findings"];
    assert!(found[0]["objects"] == serde_json::json!(["b"]), "{found}");
    assert_eq!(found[0]["kind"], "serial_first_touch", "{found}");
}
