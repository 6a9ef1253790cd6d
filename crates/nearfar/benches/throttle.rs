//! Simulated time of one program on a quiet host and beside two busy loops, in turns. Eight emulated cpus on a host
//! with other work advance unevenly; none of that may be the program's time. Prints each time, the medians and how far
//! the runs are apart. `cargo bench -p nearfar --bench throttle`; NEARFAR_BENCH_ROUNDS sets the rounds (5). Asserts nothing.

use nearfar_analyze::stats::median;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");

/// Milliseconds of simulated time, or what nearfar says instead.
fn simulated(scratch: &Path, number: usize, program: &Path) -> Result<f64, String> {
    let recording = scratch.join(format!("run{number}"));
    let mut command = Command::new(NEARFAR);
    command
        .args(["record", "-q", "--on", "8x1", "--memory-per-node", "512M", "-o"])
        .arg(&recording)
        .arg("--");
    command.arg(program).args(["--elements", "500000", "--iterations", "12", "--init", "parallel"]);
    command.env("OMP_NUM_THREADS", "8").stdout(Stdio::null());
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let report = Command::new(NEARFAR).arg("report").arg(&recording).arg("--json").output();
    let report = report.map_err(|e| e.to_string())?.stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).map_err(|e| e.to_string())?;
    report["time"]["seconds"].as_f64().map(|s| 1e3 * s).ok_or_else(|| report["time_why"].to_string())
}

fn main() {
    let rounds: usize =
        std::env::var("NEARFAR_BENCH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(5).max(1);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/workloads/triad");
    if !program.exists() {
        return println!("skipped, {} is not there (see workloads/README.md)", program.display());
    }
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for round in 0..2 * rounds {
        let stop = AtomicBool::new(round % 2 == 0);
        let time = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let time = simulated(scratch.path(), round, &program);
            stop.store(true, Ordering::Relaxed);
            time
        });
        match time {
            Ok(ms) if round % 2 == 0 => quiet.push(ms),
            Ok(ms) => busy.push(ms),
            Err(why) => return println!("skipped: {why}"),
        }
    }
    let all: Vec<f64> = quiet.iter().chain(&busy).copied().collect();
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
    let Some((quiet_ms, busy_ms)) = median(&quiet).zip(median(&busy)) else {
        return println!("skipped: no rounds");
    };
    println!("quiet host, ms: {quiet:.3?}, median {quiet_ms:.3}");
    println!("busy host, ms: {busy:.3?}, median {busy_ms:.3}");
    println!(
        "busy to quiet {:.4}; all runs within {:.2} %",
        busy_ms / quiet_ms,
        100.0 * (most / least - 1.0)
    );
}
