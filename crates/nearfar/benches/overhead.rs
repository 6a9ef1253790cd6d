//! What recording costs the recorded program: CPU time (user and system, from wait4) with
//! recorder over CPU time without, in interleaved pairs. `cargo bench -p nearfar --bench overhead`;
//! NEARFAR_BENCH_PAIRS sets the pairs (7), NEARFAR_BENCH_ONLY=TEXT chooses rows. Asserts nothing.

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

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// 95 % interval of the median: 2000 resamples with a fixed generator (splitmix64).
fn interval(values: &[f64]) -> (f64, f64) {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize
    };
    let mut medians: Vec<f64> = (0..2000)
        .map(|_| median(&(0..values.len()).map(|_| values[next() % values.len()]).collect::<Vec<_>>()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[50], medians[1949])
}

fn main() {
    if let Err(why) = nearfar::collect::session::probe_perf() {
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
    let built = Command::new("gcc").arg("-O2").arg(pages.with_extension("c")).arg("-o").arg(&pages).status();
    if !built.is_ok_and(|s| s.success()) {
        eprintln!("skipped: pages, which needs gcc");
    }
    let programs = [
        ("triad", workloads.join("triad"), "--elements 4000000 --iterations 150", 1.01),
        ("chase", workloads.join("chase"), "--bytes 33554432 --steps 5000000 --threads 1", 1.01),
        ("iso3dfd", workloads.join("iso3dfd"), "256 256 136 20 256 16 32", 1.01),
        ("pages", pages, "", 1.10),
    ];
    let ways: [(&str, &[&str]); 4] = [
        ("default", &["-F", "1000"]),
        ("no chains", &["-F", "1000", "--call-graph", "none"]),
        ("no agent", &["-F", "1000", "--no-agent"]),
        ("1 Hz", &["-F", "1"]),
    ];
    println!("{pairs} pairs each; CPU time recorded / bare: median of the pairs' ratios [95 % interval]");
    for (name, program, arguments, goal) in &programs {
        if !program.exists() {
            println!("{name}: skipped, {} is not there (see workloads/README.md)", program.display());
            continue;
        }
        let mut command = vec![program.to_str().expect("a plain path")];
        command.extend(arguments.split_whitespace());
        for (way, flags) in ways {
            if !format!("{name} {way}").contains(&only) {
                continue;
            }
            let (mut ratios, mut shares) = (Vec::new(), Vec::new());
            for _ in 0..pairs {
                let bare = cpu_seconds(Command::new(command[0]).args(&command[1..]));
                let (target, recorder) = recorded(scratch.path(), flags, &command);
                ratios.push(target / bare);
                shares.push(recorder / target);
            }
            let (low, high) = interval(&ratios);
            println!(
                "{name:8} {way:10} {:.3} [{low:.3}, {high:.3}]  goal {goal:.2}  recorder's own CPU time {:.1} % of the program's",
                median(&ratios),
                100.0 * median(&shares)
            );
        }
    }
}
