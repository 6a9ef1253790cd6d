//! Where samples say that time went, against programs that know it.

mod common;

use common::{Scratch, alone, number, perf_works, workload};
use std::collections::BTreeMap;

/// Half a 95 % interval of a share among `n` samples. 1.96 standard deviations.
fn half_interval(share: f64, n: f64) -> f64 {
    1.96 * (share * (1.0 - share) / n).sqrt()
}

/// What a share may be off besides chance: the sampled instruction is sometimes guessed wrong.
const SLACK: f64 = 0.02;

/// Whether a measured share agrees with the truth.
fn agrees(measured: f64, truth: f64, samples: f64) -> Result<(), String> {
    let allowed = half_interval(truth, samples) + SLACK;
    if samples >= 300.0 && (measured - truth).abs() <= allowed {
        return Ok(());
    }
    Err(format!("{measured:.4} is not {truth:.4} ± {allowed:.4} ({samples} samples)"))
}

/// Whether a share is at least `least`, chance allowed for.
fn reaches(measured: f64, least: f64, samples: f64) -> Result<(), String> {
    let bound = least - half_interval(least, samples);
    if samples >= 300.0 && measured >= bound {
        return Ok(());
    }
    Err(format!("{measured:.4} is below {bound:.4} ({samples} samples)"))
}

#[test]
fn wrong_shares_and_too_few_samples_do_not_agree() {
    assert!(agrees(0.200, 0.2, 1000.0).is_ok());
    assert!(agrees(0.240, 0.2, 1000.0).is_ok());
    assert!(agrees(0.250, 0.2, 1000.0).is_err());
    assert!(agrees(0.150, 0.2, 1000.0).is_err());
    assert!(agrees(0.222, 0.2, 100_000.0).is_ok() && agrees(0.223, 0.2, 100_000.0).is_err());
    assert!(agrees(0.2, 0.2, 100.0).is_err() && agrees(f64::NAN, 0.2, 1000.0).is_err());
    assert!(reaches(0.96, 0.97, 1000.0).is_ok() && reaches(0.95, 0.97, 1000.0).is_err());
    assert!(reaches(1.0, 0.97, 10.0).is_err() && reaches(f64::NAN, 0.97, 1000.0).is_err());
}

/// The functions that do the phases' work, each on one array.
const PHASES: [(&str, &str); 5] = [
    ("alpha", "read_alpha"),
    ("beta", "write_beta"),
    ("gamma", "chase_gamma"),
    ("delta", "walk_delta"),
    ("epsilon", "update_epsilon"),
];

#[test]
fn each_of_five_arrays_gets_the_time_that_was_spent_on_it() {
    let (true, Some(program)) = (perf_works(), workload("five-phases")) else { return };
    let _alone = alone();
    let scratch = Scratch::new();
    let run = scratch.record("r", &[], &[program.to_str().unwrap(), "--seconds", "4"]);
    let spent: BTreeMap<String, f64> = run
        .stdout()
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (line["phase"].as_str().unwrap().to_owned(), number(&line["cpu_ns"]))
        })
        .collect();
    let whole: f64 = PHASES.iter().map(|(name, _)| spent[*name]).sum();
    // The report is of the whole run. The phases' own functions are the same basis as the times printed;
    // samples in them that hit no array, or the wrong one, count against the array.
    let functions: Vec<&str> = PHASES.iter().map(|p| p.1).collect();
    let all = run.report.function_share(&functions);
    let samples = all * run.report.samples("clock") as f64;
    for (name, _) in PHASES {
        let measured = run.report.object(name).used_in(&functions) / all;
        let truth = spent[name] / whole;
        println!("{name}: measured {:.2} %, spent {:.2} %", 100.0 * measured, 100.0 * truth);
        agrees(measured, truth, samples).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert_eq!(run.report.verdict(), "clean", "{}", run.report.0["verdict_why"]);
}

/// Share of the samples in `functions` that hit `objects`, and the number of these samples.
fn hits(report: &common::Report, functions: &[&str], objects: &[&str]) -> (f64, f64) {
    let all = report.function_share(functions);
    let hit: f64 = objects.iter().map(|o| report.object(o).used_in(functions)).sum();
    (hit / all, all * report.samples("clock") as f64)
}

#[test]
fn the_triad_hits_its_three_arrays_and_little_else() {
    let (true, Some(program)) = (perf_works(), workload("triad")) else { return };
    let _alone = alone();
    for threads in ["1", "2"] {
        let scratch = Scratch::new();
        let command = [program.to_str().unwrap(), "--elements", "2000000", "--iterations", "400"];
        let command = [&command[..], &["--threads", threads]].concat();
        let run = scratch.record("r", &[], &command);
        // Spinning is in libgomp, so the kernel's function is the timed region without it.
        let (share, samples) = hits(&run.report, &["triad"], &["a", "b", "c"]);
        println!("{threads} threads: {:.2} % of {samples} samples", 100.0 * share);
        reaches(share, 0.97, samples).unwrap_or_else(|e| panic!("{threads} threads: {e}"));
    }
}

#[test]
fn a_pointer_chase_hits_its_chain() {
    let (true, Some(program)) = (perf_works(), workload("chase")) else { return };
    let _alone = alone();
    let scratch = Scratch::new();
    let command = [program.to_str().unwrap(), "--bytes", "67108864", "--steps", "4000000", "--threads", "1"];
    let run = scratch.record("r", &[], &command);
    let (share, samples) = hits(&run.report, &["walk"], &["chain"]);
    reaches(share, 0.95, samples).unwrap();
}

#[test]
fn a_walk_down_columns_hits_the_matrix() {
    let (true, Some(program)) = (perf_works(), workload("matrix")) else { return };
    let _alone = alone();
    let scratch = Scratch::new();
    let command = [program.to_str().unwrap(), "--order", "columns", "--rows", "4096", "--cols", "2048"];
    let run = scratch.record("r", &[], &[&command[..], &["--passes", "10", "--threads", "1"]].concat());
    let (share, samples) = hits(&run.report, &["column_squares"], &["matrix"]);
    reaches(share, 0.95, samples).unwrap();
}

/// Machine code that is made while the program runs, as a compiler in a runtime does: `xorps xmm0,xmm0; addsd xmm0,[rdi]; add rdi,8;
/// cmp rdi,rsi; jne; ret`. Each addition waits for the one before. Its arguments: elements of the array, and how often it is summed.
const GENERATED: &str = "
int main(int count, char **words) {
    static const unsigned char code[] = {0x0f, 0x57, 0xc0, 0xf2, 0x0f, 0x58, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf3, 0xc3};
    unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return 3;
    memcpy(made + 64, code, sizeof code);
    double (*sum)(double *, double *) = (void *)(made + 64), all = 0;
    size_t n = strtoul(words[1], NULL, 10);
    double *array = mmap(NULL, 8 * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(array, 0, 8 * n);
    for (int turn = atoi(words[2]); turn > 0; turn--) all += sum(array, array + n);
    return count < 3 || all != 0;
}";

#[test]
fn loops_of_generated_code_have_a_speed_and_lines() {
    if !perf_works() || std::env::consts::ARCH != "x86_64" {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let program = scratch.c("generated", GENERATED);
    let (elements, turns) = (16 << 20, 60);
    let words = [program.to_str().unwrap(), &elements.to_string(), &turns.to_string()];
    scratch.record("r", &[], &words);
    // Its caches are a quarter of the array.
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../zoo/two-nodes.toml");
    let report = scratch.report("r", &["--as", machine]);
    let said = report.notes();
    let known = said.split("For ").nth(1).and_then(|s| s.split(" %").next()?.parse::<f64>().ok());
    assert!(known.is_some_and(|share| share >= 80.0), "{said}");
    let lines = &report.object("array").0["estimated_lines"];
    let passed = f64::from(elements / 8 * turns);
    assert!((number(&lines["low"])..=number(&lines["high"])).contains(&passed), "{lines} for {passed}");
}

/// One thread works, the other waits for it in a loop of the program's own; both say how long.
const WAITING: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static int done;
static double waited;
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void *waiter(void *x) {
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
    waited = cpu();
    return x;
}
int main(void) {
    size_t n = 4 << 20;
    double *field = malloc(n * sizeof *field), sum = 0;
    pthread_t other;
    pthread_create(&other, 0, waiter, 0);
    for (size_t i = 0; i < n; i++) field[i] = i;
    while (cpu() < 2) for (size_t i = 0; i < n; i++) sum += field[i] *= 0.5;
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    pthread_join(other, 0);
    printf("%.3f %.3f %d\n", cpu(), waited, sum > 0);
}
"#;

#[test]
fn a_thread_that_waits_in_a_loop_with_a_pause_does_not_work() {
    if !perf_works() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let program = scratch.c("waiting", WAITING);
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let said: Vec<f64> = run.stdout().split_whitespace().map(|word| word.parse().unwrap()).collect();
    let truth = said[1] / (said[0] + said[1]);
    let measured = number(&run.report.0["spinning_share"]);
    println!("measured {measured:.3}, waited {truth:.3}");
    agrees(measured, truth, run.report.samples("clock") as f64).unwrap_or_else(|e| panic!("{e}"));
}
