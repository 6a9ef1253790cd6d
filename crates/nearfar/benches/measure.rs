//! `nearfar measure` beside two independent programs in C: STREAM's copy and triad after the
//! published rules (McCalpin: double arrays of at least four times the caches, each timed ten
//! times, the first not counted, values checked at the end), and a pointer chase. In
//! interleaved rounds (ours, theirs, theirs, ours); `cargo bench -p nearfar --bench measure`, NEARFAR_BENCH_PAIRS sets their
//! number (5). On a machine with several nodes both are bound to node 0. Asserts nothing.

use nearfar_analyze::stats::{median, median_interval};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Prints copy and triad in GB/s: the median of the nine repetitions that count. In 2 MiB pages like
/// ours: with 4 KiB pages it is a tenth to a fifth slower.
const STREAM: &str = r#"
#define _GNU_SOURCE
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
enum { TIMES = 10 };
static int order(const void *x, const void *y) { double a = *(double *)x, b = *(double *)y; return (a > b) - (a < b); }
int main(int count, char **words) {
    (void)count;
    long n = atol(words[1]) / 8;
    double *a, *b, *c, s = 3.0, times[2][TIMES];
    if (posix_memalign((void **)&a, 2 << 20, 8 * n) || posix_memalign((void **)&b, 2 << 20, 8 * n) || posix_memalign((void **)&c, 2 << 20, 8 * n)) return 2;
    madvise(a, 8 * n, MADV_HUGEPAGE), madvise(b, 8 * n, MADV_HUGEPAGE), madvise(c, 8 * n, MADV_HUGEPAGE);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) a[i] = 1.0, b[i] = 2.0, c[i] = 0.0;
    for (int k = 0; k < TIMES; k++) {
        double t = omp_get_wtime();
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) c[i] = a[i];
        times[0][k] = omp_get_wtime() - t;
        t = omp_get_wtime();
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) a[i] = b[i] + s * c[i];
        times[1][k] = omp_get_wtime() - t;
    }
    double ea = 1.0;
    for (int k = 0; k < TIMES; k++) ea = 2.0 + s * ea;
    for (long i = 0; i < n; i++) if (fabs(a[i] / ea - 1) > 1e-12) return 3;
    for (int j = 0; j < 2; j++) qsort(times[j] + 1, TIMES - 1, sizeof(double), order);
    printf("%f %f\n", 16e-9 * n / times[0][5], 24e-9 * n / times[1][5]);
}"#;

/// Prints ns per step through a random cycle of the lines of so many bytes, in 2 MiB pages.
const CHASE: &str = r#"
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
struct line { struct line *next; long pad[7]; };
int main(int count, char **words) {
    (void)count;
    long n = atol(words[1]) / 64, *order = malloc(n * sizeof *order);
    struct line *lines;
    if (!order || posix_memalign((void **)&lines, 2 << 20, n * 64)) return 2;
    madvise(lines, n * 64, MADV_HUGEPAGE);
    uint64_t x = 88172645463325252ull;
    for (long i = 0; i < n; i++) order[i] = i;
    for (long i = n - 1; i > 0; i--) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        long j = x % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (long i = 0; i < n; i++) lines[order[i]].next = &lines[order[(i + 1) % n]];
    struct line *p = lines;
    struct timespec a, b;
    for (long i = 0; i < 1000000; i++) p = p->next;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < 4000000; i++) p = p->next;
    clock_gettime(CLOCK_MONOTONIC, &b);
    fprintf(stderr, "%p\n", (void *)p);
    printf("%f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 4e6);
}"#;

/// The numbers that a program prints.
fn numbers(mut command: Command) -> Option<Vec<f64>> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(|n| n.parse().ok()).collect()
}

/// Bound to node 0 where there are more and numactl is there.
fn bound(program: &Path, nodes: usize) -> Command {
    if nodes < 2 {
        return Command::new(program);
    }
    let mut command = Command::new("numactl");
    command.args(["--cpunodebind=0", "--membind=0"]).arg(program);
    command
}

fn ours(what: &str) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    let output = command.args(["measure", what, "--quick", "--json"]).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// The median of the pair (first node, first node) of a table, and the bytes of all its arrays.
fn first(tables: &Value, key: &str, name: &str) -> Option<(f64, u64)> {
    let table = tables.as_array()?.iter().find(|t| t[key] == name)?;
    Some((table["pairs"][0]["value"]["median"].as_f64()?, table["bytes"].as_u64()?))
}

fn main() {
    let pairs: usize =
        std::env::var("NEARFAR_BENCH_PAIRS").ok().and_then(|p| p.parse().ok()).unwrap_or(5).max(1);
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let build = |name: &str, source: &str| {
        let program = scratch.path().join(name);
        let file = program.with_extension("c");
        std::fs::write(&file, source).expect("the source is written");
        // Without the last flag the copy would be a call of memcpy, which stores past the caches.
        let mut gcc = Command::new("gcc");
        gcc.args(["-O3", "-march=native", "-fopenmp", "-fno-tree-loop-distribute-patterns"]).arg(&file);
        let built = gcc.arg("-o").arg(&program).arg("-lm").status();
        built.is_ok_and(|s| s.success()).then_some(program)
    };
    let (Some(stream), Some(chase)) = (build("stream", STREAM), build("chase", CHASE)) else {
        return println!("skipped: gcc with OpenMP is not here");
    };
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for _ in 0..pairs {
        let Some((bandwidth, latency)) = ours("bandwidth").zip(ours("latency")) else {
            return println!("skipped: nearfar measure does not run here");
        };
        let nodes = bandwidth["nodes"].as_array().map_or(1, Vec::len);
        let triad = first(&bandwidth["bandwidth"], "kernel", "triad");
        let copy = first(&bandwidth["bandwidth"], "kernel", "copy");
        let idle = first(&latency["latency"], "pages", "huge");
        let mut their = bound(&stream, nodes);
        their.arg(triad.map_or(64 << 20, |t| t.1 / 3).to_string());
        their.env("OMP_PROC_BIND", "close").env("OMP_PLACES", "threads");
        let theirs = numbers(their);
        let mut chase = bound(&chase, nodes);
        chase.arg(idle.map_or(256 << 20, |l| l.1).to_string());
        let chased = numbers(chase);
        let theirs = [theirs.as_ref().map(|t| t[0]), theirs.as_ref().map(|t| t[1]), chased.map(|c| c[0])];
        for (i, (ours, theirs)) in [copy, triad, idle].into_iter().zip(theirs).enumerate() {
            if let Some(((ours, _), theirs)) = ours.zip(theirs) {
                println!(
                    "  {} {ours:.2} beside {theirs:.2}",
                    ["copy, GB/s", "triad, GB/s", "latency, ns"][i]
                );
                ratios[i].push(ours / theirs);
            }
        }
    }
    println!(
        "nearfar measure / independent program, {pairs} rounds of two each: median [95 % interval]; goal 0.90 to 1.10"
    );
    for (name, ratios) in ["copy", "triad", "latency"].into_iter().zip(&ratios) {
        match median(ratios).zip(median_interval(ratios)) {
            Some((middle, (low, high))) => println!("{name:8} {middle:.3} [{low:.3}, {high:.3}]"),
            None => println!("{name:8} unknown: it was not measured here (nearfar measure says why)"),
        }
    }
}
