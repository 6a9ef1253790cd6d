//! Whether a program waits for memory on this host, measured by its own time: what a verdict by a clock can be held to.

use super::{Report, skip};
use std::process::{Command, Stdio};

/// Times that a program takes over what it takes with all of its memory in a cache, from which on samples of a clock tell that it
/// waits. They do from 1.5 times an iteration's greatest cost on, which is up to 1.3 / 0.8 of what it takes in a cache
/// (docs/native.md): 2.4, and a quarter for what the two runs differ in.
const TOLD: f64 = 3.0;

/// Whether the verdict is open because the time may be computing, as the report says, and that is so here: this host answers the
/// program's accesses nearly as fast as its caches do. Prints it. `runs`: the program, the same with its initialisation
/// only, and the same amount of work within a cache. `work`: that of the first over that of the last.
pub fn hardly_waits(report: &Report, runs: [&dyn Fn() -> Command; 3], work: f64) -> bool {
    let why = report.0["verdict_why"].as_str().unwrap_or("");
    let may_compute = why.contains("take no longer than their instructions may take")
        || why.contains("do not show whether it computes or waits");
    if report.verdict() != "unknown" || !may_compute {
        return false;
    }
    // The least of three: what else runs here makes the program slow and looks like waiting. The first that is little enough will do.
    let mut times = f64::INFINITY;
    for _ in 0..3 {
        let [all, begun, cached] = runs.map(|run| user_seconds(run()));
        times = times.min((all - begun) / (work * cached));
        if times < TOLD {
            break;
        }
    }
    println!("{times:.1} times as long as in a cache: {why}");
    if times < TOLD {
        skip("the verdict: this host answers the program's accesses nearly as fast as a cache");
    }
    times < TOLD
}

/// Processor time of a program's own code, s. Threads sleep at barriers, so that waiting for each other is none.
#[expect(clippy::zombie_processes)] // wait4, which tells its time
fn user_seconds(mut command: Command) -> f64 {
    let child = command.env("OMP_WAIT_POLICY", "passive").stdout(Stdio::null()).spawn().unwrap();
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid one.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both live until it returns, and nothing else waits for the child.
    let pid = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut used) };
    assert!(pid == child.id() as i32 && status == 0, "{command:?}: {pid}, {status}");
    used.ru_utime.tv_sec as f64 + 1e-6 * used.ru_utime.tv_usec as f64
}
