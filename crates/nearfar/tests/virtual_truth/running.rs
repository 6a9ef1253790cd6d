//! Programs that make it hard: without an agent, of several processes, stopped early, or not of
//! this processor. What is counted must still be all of them.

use crate::common::text;
use crate::lab::{Lab, c, guest_works, one_machine, within};
use nearfar_record::store::open;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Two threads, or two processes with the word `fork`, each read their own 16 MiB four times; with the
/// word `serial` the first placed all of it.
const HALVES: &str = r#"
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { HALF = 16 << 20, ROUNDS = 4 };
static char *base;
static void place(int half) {
    for (long i = 0; i < HALF; i += 4096) *(volatile char *)(base + (long)half * HALF + i) = 1;
}
static long use(int half) {
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (long i = 0; i < HALF; i += 8) sum += *(volatile long *)(base + (long)half * HALF + i);
    return sum;
}
static void bind_to(int cpu) {
    cpu_set_t set; CPU_ZERO(&set); CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
int main(int count, char **words) {
    int serial = count > 1 && !strcmp(words[1], "serial"), forks = count > 1 && !strcmp(words[1], "fork");
    base = mmap(0, 2L * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (forks) {
        for (int half = 0; half < 2; half++)
            if (!fork()) { bind_to(half); place(half); use(half); _exit(3); }
        int status, ended = 0;
        while (wait(&status) > 0) ended += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        return ended == 2 ? 0 : 1;
    }
    if (serial) { bind_to(0); place(0); place(1); }
#pragma omp parallel num_threads(2)
    {
        int half = omp_get_thread_num();
        bind_to(half);
        if (!serial) place(half);
#pragma omp barrier
        use(half);
    }
    return 0;
}"#;
/// Lines that its reads fetch.
const LINES: f64 = (2 * (16 << 20) / 64 * 4) as f64;

/// No agent says which thread runs; the counts have them all, and the report says what is missing.
#[test]
fn a_static_programs_threads_are_counted() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let source = c(&lab.scratch, "halves", HALVES);
    let fixed = format!("{source}-static");
    let gcc = std::process::Command::new("gcc")
        .args(["-O1", "-g", "-static", "-fopenmp", "-o", &fixed])
        .arg(format!("{source}.c"))
        .status();
    assert!(gcc.unwrap().success());
    for (word, remote) in [("serial", 0.5), ("parallel", 0.0)] {
        let run = lab.count(word, &[], &[&fixed, word]);
        within(run.all().0, LINES, 0.01, &format!("{word}: lines read by a static program"));
        assert!((run.remote() - remote).abs() <= 0.01, "{word}: {:.4} remote", run.remote());
    }
    let notes = lab.scratch.report("serial", &[]).notes();
    assert!(notes.contains("statically linked"), "{notes}");
}

#[test]
fn processes_that_a_program_forks_are_counted() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "halves", HALVES);
    let run = lab.count("fork", &[], &[&program, "fork"]);
    within(run.all().0, LINES, 0.01, "lines read by two forked processes");
    assert!(run.remote() <= 0.01, "{:.4} remote", run.remote());
}

/// Reads 16 MiB from node 0 again and again.
const ENDLESS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
enum { BYTES = 16 << 20 };
int main(void) {
    volatile char *p = malloc(BYTES);
    puts("going"); fflush(stdout);
    for (long round = 0;; round++) for (long i = 0; i < BYTES; i += 64) p[i] = round;
}"#;

/// Writes to 4 MiB from one cpu, then from the other.
const MOVES: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
enum { BYTES = 4 << 20 };
int main(void) {
    volatile char *p = malloc(BYTES);
    for (int round = 0; round < 4; round++) {
        cpu_set_t set; CPU_ZERO(&set); CPU_SET(round % 2, &set);
        sched_setaffinity(0, sizeof set, &set);
        for (long i = 0; i < BYTES; i += 64) p[i] = round;
    }
}"#;

/// What the recorder says that it has.
fn dram_samples(messages: &str) -> u64 {
    let counted =
        messages.split(" samples of DRAM lines").next().and_then(|before| before.rsplit(' ').next());
    counted.and_then(|number| number.parse().ok()).expect("a number of samples")
}

/// The last lines that it wrote on a cpu come from that one's caches.
#[test]
fn lines_of_another_core_are_no_samples_of_dram_lines() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "moves", MOVES);
    let output = lab.run("moved", &[], &[&program]);
    let counted = dram_samples(&text(&output.stderr));
    assert_eq!(lab.scratch.report("moved", &[]).samples("simulated"), counted);
    let all = open(&lab.scratch.path("moved")).unwrap().input.meta.survey.unwrap().samples;
    assert!(all > counted, "of {all} samples, none is of a line that another core had");
}

#[test]
fn a_budget_ends_a_run_with_what_is_known() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "endless", ENDLESS);
    let output = lab.run("budget", &["--budget", "2s"], &[&program]);
    let messages = text(&output.stderr);
    // The program did not end by itself, and the exit status does not hide that.
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{messages}");
    assert!(messages.contains("the budget is used up"), "{messages}");
    // A slow host may have come to the program's first lines only, with which the budget begins. All that was counted is reported.
    assert!("going\n".starts_with(&text(&output.stdout)), "{}", text(&output.stdout));
    let report = lab.scratch.report("budget", &[]);
    let counted = dram_samples(&messages);
    assert!(counted > 0, "{messages}");
    assert_eq!(report.samples("simulated"), counted);
    assert!(report.notes().contains("--budget"), "{}", report.notes());
}

/// Bytes of the counts by which more than a thousand samples are written: a row of one takes less than 50.
const MANY_SAMPLES_BYTES: u64 = 1 << 17;

/// Starts a command that runs [`ENDLESS`] and waits until that goes.
fn going(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    // A test started in the background would hand its ignored SIGINT down.
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "going\n");
    (child, stdout)
}

#[test]
fn control_c_keeps_what_is_known_and_leaves_no_process() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "endless", ENDLESS);
    let mut command = lab.command("interrupted", &[]);
    let (child, _stdout) = going(command.arg(&program));
    let counted = lab.scratch.path("interrupted").join("guest/simulated.journal");
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(&counted).map_or(0, |about| about.len()) < MANY_SAMPLES_BYTES {
        assert!(Instant::now() < deadline, "{} is not written", counted.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    let emulators = children(child.id());
    assert!(!emulators.is_empty());
    // SAFETY: no memory is involved.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{}", text(&output.stderr));
    let deadline = Instant::now() + Duration::from_secs(10);
    while emulators.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "left behind: {emulators:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = lab.scratch.report("interrupted", &[]);
    assert!(report.samples("simulated") > 1000, "{}", report.samples("simulated"));
}

#[test]
fn control_c_before_the_recorder_has_begun_leaves_nothing_behind() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "endless", ENDLESS);
    // As soon as the directory is there; and when the plugin in the emulator has begun.
    for (name, sign) in [("reserved", ""), ("begun", "guest/plugin.log")] {
        let mut command = lab.command(name, &[]);
        command.arg(&program).stdout(Stdio::null()).stderr(Stdio::piped());
        // SAFETY: signal is async-signal-safe.
        unsafe {
            use std::os::unix::process::CommandExt;
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let directory = lab.scratch.path(name);
        let deadline = Instant::now() + Duration::from_secs(120);
        while !directory.join(sign).exists() {
            assert!(Instant::now() < deadline, "{name}: it does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: no memory is involved.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        let messages = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGINT), "{messages}");
        assert!(!messages.contains("no nearfar recording"), "{messages}");
        assert!(!directory.exists() || directory.join("meta.json").exists(), "{messages}");
    }
}

/// As a terminal does it: to all of them at once. `cure` is the last to end, or the shell's next command would find files
/// that are still written to.
#[test]
fn an_interrupted_cure_ends_after_the_recorder_that_it_started() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "endless", ENDLESS);
    let mut command = crate::common::nearfar();
    command
        .arg("cure")
        .arg("-o")
        .arg(lab.scratch.path("cure"))
        .arg("--on")
        .arg(lab.scratch.path("machine.toml"));
    command.arg("--").arg(&program);
    let (mut child, _stdout) = going(command.stdin(Stdio::null()).process_group(0));
    let recorders = children(child.id());
    assert_eq!(recorders.len(), 1);
    // SAFETY: no memory is involved; the group is the child's own.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) };
    let status = child.wait().unwrap();
    // Looked at once, without waiting: a recorder that still runs has outlived its `cure`.
    let late = std::path::Path::new(&format!("/proc/{}", recorders[0])).exists();
    assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
    assert!(!late, "the recorder still writes");
    assert!(lab.scratch.path("cure/before.nearfar/meta.json").exists());
    assert!(!lab.scratch.path("cure/fix.placement").exists());
}

/// Of all threads of `parent`: which of them starts the emulator is its own affair.
fn children(parent: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let lists = threads.flat_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")));
    let lists: Vec<String> = lists.collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

const WIDE: &str = r#"
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
static volatile float out[16];
static void says_so(int number) { signal(number, SIG_DFL); raise(number); }
__attribute__((target("avx512f"), noinline)) static void wide(float x) {
    __m512 a = _mm512_set1_ps(x);
    _mm512_storeu_ps((float *)out, a);
}
int main(int count, char **words) {
    puts(__builtin_cpu_supports("avx512f") ? "has it" : "has it not"); fflush(stdout);
    if (count > 2) signal(SIGILL, says_so);
    if (count > 1) wide(2);
    return 0;
}"#;

/// Code that asks takes another way; code that does not dies, and the user reads why and what to type.
#[test]
fn avx_512_is_not_there_and_its_use_is_explained() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 1, 128);
    let program = c(&lab.scratch, "wide", WIDE);
    let output = lab.run("asks", &[], &[&program]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "has it not\n"));
    // A program that handles the signal, as gfortran's do, leaves no trace in the kernel of where it was.
    for (name, words, known) in [
        ("dies", &["x"][..], "died of SIGILL: `"),
        ("handles", &["x", "y"], "does not say at which instruction"),
    ] {
        let output = lab.run(name, &[], &[&[&*program], words].concat());
        let messages = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGILL), "{messages}");
        for part in [known, "SIGILL", "zmm", "wide", "-march=x86-64-v3"] {
            assert!(messages.contains(part), "{part}: {messages}");
        }
        let why = lab.scratch.report(name, &[]).0["verdict_why"].to_string();
        assert!(why.contains("no AVX-512"), "{why}");
    }
}

/// Two threads of this process that do nothing but take the host's cpus from the emulator.
struct Busy(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Busy {
    fn new() -> Busy {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..2 {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Busy(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Eight threads take 64 KiB each, one after the other, the thread that comes first.
const BLOCKS: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <string.h>
enum { BLOCKS = 512, LONGS = 8192, THREADS = 8 };
static long data[BLOCKS][LONGS];
static int taken[THREADS];
int main(void) {
    long sum = 0;
    memset(data, 1, sizeof data);
#pragma omp parallel for schedule(dynamic, 1) num_threads(THREADS) reduction(+ : sum)
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < LONGS; i++) sum += *(volatile long *)&data[b][i];
        taken[omp_get_thread_num()]++;
    }
    for (int t = 0; t < THREADS; t++) printf("%d ", taken[t]);
    return sum == 0;
}"#;

/// Equal cpus take equally many equal blocks, whatever the host does in the meantime.
#[test]
fn a_dynamic_schedule_deals_as_the_machine_would() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::new(1, 8, 512);
    let program = c(&lab.scratch, "blocks", BLOCKS);
    // Boots the machine while the host's cpus are free.
    lab.count("boot", &[], &["true"]);
    let _busy = Busy::new();
    let taken: Vec<f64> = lab
        .count("run", &[], &[&program])
        .stdout()
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    println!("blocks taken by each of eight threads: {taken:?}");
    assert_eq!((taken.len(), taken.iter().sum::<f64>()), (8, 512.0));
    let (least, most) = taken.iter().fold((f64::MAX, 0.0), |(a, b): (f64, f64), &x| (a.min(x), b.max(x)));
    assert!(least >= 48.0 && most <= 80.0, "{taken:?}");
}

/// Threads write their number into one variable, and count how often another one's was there.
const SWAPS: &str = r#"
#include <stdio.h>
#include <omp.h>
static int last;
int main(void) {
    long changes = 0;
#pragma omp parallel num_threads(4) reduction(+ : changes)
    {
        int me = omp_get_thread_num();
        for (int i = 0; i < 1000000; i++) changes += __atomic_exchange_n(&last, me, __ATOMIC_RELAXED) != me;
    }
    printf("%ld\n", changes);
}"#;

/// While one of them runs the program no other does. Without turns there were up to 100,000 changes in half a millisecond, and the host decides how many.
#[test]
fn cpus_in_turns_run_one_at_a_time() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::sure(2, 2, 512);
    let program = c(&lab.scratch, "swaps", SWAPS);
    let run = lab.count("run", &["--in-turns"], &[&program]);
    let changes: f64 = run.stdout().trim().parse().unwrap();
    let seconds = run.report.0["time"]["seconds"].as_f64().unwrap();
    println!("{changes} changes in {seconds} s of simulated time");
    // A turn ends when its cpu is 10 µs ahead, and clocks are looked at after each 16,384 instructions: 6 µs here.
    let turns = 4.0 * seconds / 16e-6;
    assert!((0.7 * turns..1.3 * turns).contains(&changes), "{changes} changes in {turns} turns");
}
