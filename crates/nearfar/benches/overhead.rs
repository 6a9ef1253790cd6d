//! What recording costs the recorded program: CPU time (user and system, from wait4) with
//! recorder over CPU time without, in interleaved pairs. `cargo bench -p nearfar --bench overhead`;
//! NEARFAR_BENCH_PAIRS sets the pairs (7), NEARFAR_BENCH_ONLY=TEXT chooses rows. Asserts nothing.

use nearfar_analyze::stats::{median, median_interval};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Touches 1 GiB, page by page.
const PAGES: &str = r"
#include <sys/mman.h>
int main(void) {
    long bytes = 1L << 30;
    char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    for (long i = 0; i < bytes; i += 4096) ((volatile char *)p)[i] = 1;
    return 0;
}";

/// Runs a program with one perf event on it and a ring that is never read, and prints its CPU
/// time: what the kernel's own part of a record costs here, which no recorder can be below.
const FLOOR: &str = r#"
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int faults = strcmp(words[1], "faults") == 0, go[2];
    if (count < 3 || pipe(go)) return 2;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) == 1) execv(words[2], words + 2);
        _exit(2);
    }
    struct perf_event_attr attr = {.size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .disabled = 1,
        .enable_on_exec = 1, .exclude_kernel = 1, .exclude_hv = 1, .watermark = 1, .wakeup_watermark = 1 << 22};
    attr.config = faults ? PERF_COUNT_SW_PAGE_FAULTS : PERF_COUNT_SW_TASK_CLOCK;
    attr.sample_period = faults ? 1 : 100000;
    attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | (faults ? PERF_SAMPLE_ADDR : 0);
    int event = syscall(SYS_perf_event_open, &attr, child, -1, -1, 0);
    if (event < 0) return perror("perf_event_open"), 2;
    // Large enough that no record is thrown away for want of room: 2^18 faults of 40 bytes.
    if (mmap(0, 4096 + (16 << 20), PROT_READ | PROT_WRITE, MAP_SHARED, event, 0) == MAP_FAILED) return perror("mmap"), 2;
    int status;
    struct rusage usage;
    if (write(go[1], "x", 1) != 1 || wait4(child, &status, 0, &usage) != child || status != 0) return 2;
    struct timeval u = usage.ru_utime, s = usage.ru_stime;
    fprintf(stderr, "%.6f\n", u.tv_sec + s.tv_sec + 1e-6 * (u.tv_usec + s.tv_usec));
    return 0;
}"#;

/// CPU seconds of a command and all its children.
fn cpu_seconds(command: &mut Command) -> f64 {
    command.env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    #[allow(clippy::zombie_processes)] // reaped by wait4 below
    let child = command.spawn().expect("the program starts");
    let mut status = 0;
    // SAFETY: both out-pointers are valid; zero is a valid rusage; the child is ours and waited for once.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        usage
    };
    assert_eq!(status, 0, "{command:?} failed");
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// CPU seconds of the recorded program and of the recorder, as the recording has them from wait4.
fn recorded(scratch: &Path, flags: &[&str], program: &[&str]) -> (f64, f64) {
    let output = scratch.join("r");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["record", "-q", "-o"]).arg(&output).args(flags).arg("--").args(program);
    cpu_seconds(&mut command);
    let meta = std::fs::read_to_string(output.join("meta.json")).expect("meta.json");
    let meta: serde_json::Value = serde_json::from_str(&meta).expect("meta.json is JSON");
    std::fs::remove_dir_all(&output).expect("the recording can be removed");
    let number = |field: &str| meta[field].as_f64().expect("a number");
    (number("target_cpu_s"), number("recorder_cpu_s"))
}

/// CPU seconds of a program under `perf record`, as its shell measured them: what one event of
/// the same kind costs on this machine with the kernel's own tool.
fn under_perf(scratch: &Path, flags: &[&str], program: &[&str]) -> Option<f64> {
    let times = scratch.join("times");
    let script =
        format!("TIMEFORMAT='%U %S'; {{ time {} >/dev/null; }} 2>{}", program.join(" "), times.display());
    let mut command = Command::new("perf");
    command.args(["record", "-q"]).args(flags).arg("-o").arg(scratch.join("perf.data"));
    command.args(["--", "bash", "-c", &script]).env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive");
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.ok().filter(|s| s.success())?;
    let text = std::fs::read_to_string(&times).ok()?;
    let last = text.lines().last()?;
    Some(last.split_whitespace().filter_map(|n| n.parse::<f64>().ok()).sum())
}

/// CPU seconds of a program with one event that is never read.
fn with_event(floor: &Path, event: &str, program: &[&str]) -> Option<f64> {
    let mut command = Command::new(floor);
    command.arg(event).args(program).env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive");
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stderr).lines().last()?.parse().ok()
}

/// How a program is run beside its bare run.
enum Way {
    Nearfar(&'static [&'static str]),
    Perf(&'static [&'static str]),
    Floor(&'static str),
}

/// Sampling at ten times the rate stands out of a noisy machine's spread; a tenth of it is the cost of 1000 Hz.
const TENFOLD: &[&str] = &["-F", "10000"];
const TENFOLD_NO_CHAINS: &[&str] = &["-F", "10000", "--call-graph", "none"];
const PERF_CLOCK: &[&str] = &["-e", "task-clock:u", "-c", "100000"];
const PERF_FAULTS: &[&str] = &["-e", "page-faults:u", "-c", "1", "-d", "-m", "2048"];

fn main() {
    if let Err(why) = nearfar_record::collect::setup::probe_perf() {
        return eprintln!("skipped: {why}");
    }
    let pairs: usize =
        std::env::var("NEARFAR_BENCH_PAIRS").ok().and_then(|p| p.parse().ok()).unwrap_or(7).max(1);
    let only = std::env::var("NEARFAR_BENCH_ONLY").unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workloads =
        std::env::var_os("NEARFAR_WORKLOADS").map_or(root.join("target/workloads"), PathBuf::from);
    let scratch = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(scratch.path().join("pages.c"), PAGES).expect("the source is written");
    let pages = scratch.path().join("pages");
    let floor = scratch.path().join("floor");
    std::fs::write(floor.with_extension("c"), FLOOR).expect("the source is written");
    for program in [&pages, &floor] {
        let built =
            Command::new("gcc").arg("-O2").arg(program.with_extension("c")).arg("-o").arg(program).status();
        if !built.is_ok_and(|s| s.success()) {
            eprintln!("skipped: {}, which needs gcc", program.display());
        }
    }
    let (triad, chase, iso3dfd) =
        (workloads.join("triad"), workloads.join("chase"), workloads.join("iso3dfd"));
    let triad_args = "--elements 2097152 --iterations 500 --threads 1";
    let chase_args = "--bytes 33554432 --steps 12000000 --threads 1";
    // Program, arguments, how, what the ratio's excess is divided by, goal.
    let rows: [(&str, &Path, &str, &str, Way, f64, f64); 12] = [
        ("chase", &chase, chase_args, "nearfar", Way::Nearfar(TENFOLD), 10.0, 1.01),
        ("chase", &chase, chase_args, "no chains", Way::Nearfar(TENFOLD_NO_CHAINS), 10.0, 1.01),
        ("chase", &chase, chase_args, "perf record", Way::Perf(PERF_CLOCK), 10.0, 1.01),
        ("chase", &chase, chase_args, "kernel alone", Way::Floor("clock"), 10.0, 1.01),
        ("triad", &triad, triad_args, "nearfar", Way::Nearfar(TENFOLD), 10.0, 1.01),
        ("triad", &triad, triad_args, "no chains", Way::Nearfar(TENFOLD_NO_CHAINS), 10.0, 1.01),
        ("triad", &triad, triad_args, "perf record", Way::Perf(PERF_CLOCK), 10.0, 1.01),
        ("triad", &triad, triad_args, "kernel alone", Way::Floor("clock"), 10.0, 1.01),
        ("iso3dfd", &iso3dfd, "256 256 136 60 256 16 24", "as recorded", Way::Nearfar(&[]), 1.0, 1.01),
        ("pages", &pages, "", "nearfar", Way::Nearfar(&[]), 1.0, 1.10),
        ("pages", &pages, "", "perf record", Way::Perf(PERF_FAULTS), 1.0, 1.10),
        ("pages", &pages, "", "kernel alone", Way::Floor("faults"), 1.0, 1.10),
    ];
    println!("{pairs} pairs each; CPU time recorded / bare: median of the pairs' ratios [95 % interval]");
    println!("chase, triad: sampled at 10,000 Hz, a tenth of the excess shown (1000 Hz);");
    println!(
        "perf record: one event of the kind at the same rate, without registers or chains, for comparison"
    );
    println!("kernel alone: one event with instruction, thread and time, into a ring that is never read");
    for (name, program, arguments, label, way, divisor, goal) in &rows {
        if !format!("{name} {label}").contains(&only) {
            continue;
        }
        if !program.exists() {
            println!("{name}: skipped, {} is not there (see workloads/README.md)", program.display());
            continue;
        }
        let mut command = vec![program.to_str().expect("a plain path")];
        command.extend(arguments.split_whitespace());
        let (mut ratios, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let bare = cpu_seconds(Command::new(command[0]).args(&command[1..]));
            let target = match way {
                Way::Nearfar(flags) => {
                    let (target, recorder) = recorded(scratch.path(), flags, &command);
                    shares.push(recorder / target);
                    Some(target)
                }
                Way::Perf(flags) => under_perf(scratch.path(), flags, &command),
                Way::Floor(event) => with_event(&floor, event, &command),
            };
            ratios.extend(target.map(|t| 1.0 + (t / bare - 1.0) / divisor));
        }
        let Some((middle, (low, high))) = median(&ratios).zip(median_interval(&ratios)) else {
            println!("{name:8} {label:12} skipped: perf does not run here");
            continue;
        };
        let own = median(&shares).map_or(String::new(), |share| {
            format!("; the recorder's own CPU time is {:.1} % of the program's", 100.0 * share)
        });
        println!("{name:8} {label:12} {middle:.3} [{low:.3}, {high:.3}]  goal {goal:.2}{own}");
    }
}
