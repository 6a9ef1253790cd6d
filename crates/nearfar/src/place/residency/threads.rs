//! Threads of a process: where each runs, may run, and puts its pages.

use super::Site;
use nearfar_host::proc;
use nearfar_observed::residency::Thread;
use nearfar_observed::residency::numa_maps::{Line, Requested};
use std::fs;
use std::io::Read;

/// All threads; none if the process has ended.
pub fn look(pid: u32, site: &Site) -> Vec<Thread> {
    proc::threads(pid).into_iter().filter_map(|tid| thread(pid, tid, site)).collect()
}

fn thread(pid: u32, tid: u32, site: &Site) -> Option<Thread> {
    let status = proc::status(pid, tid).ok()?;
    let allowed = proc::allowed_cpus(&status)?;
    let cpu = proc::last_cpu(pid, tid);
    let (migrations, pages_migrated) = proc::migrations(pid, tid);
    Some(Thread {
        tid,
        name: proc::field(&status, "Name").unwrap_or_default().to_owned(),
        cpu,
        l3: cpu.and_then(|cpu| site.l3.iter().position(|cpus| cpus.contains(cpu))),
        node: cpu.and_then(|cpu| site.machine.node_of_cpu(cpu)),
        bound: site.online.iter().any(|cpu| !allowed.contains(cpu)),
        allowed,
        policy: policy(pid, tid),
        migrations,
        pages_migrated,
    })
}

/// The thread's own policy. Its numa_maps shows it for mappings without one of their own, and the first
/// mapping, code of the program, hardly ever has one. A read this short walks that mapping and little more:
/// the kernel makes lines until the buffer is full (`seq_read_iter`).
fn policy(pid: u32, tid: u32) -> Option<Requested> {
    let mut buffer = [0; 64];
    let mut file = fs::File::open(format!("/proc/{pid}/task/{tid}/numa_maps")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    let first = text.lines().next()?;
    // A line that was cut is still whole up to its last blank.
    let whole = if length == buffer.len() { first.rsplit_once(' ')?.0 } else { first };
    Line::parse(whole).map(|line| line.requested)
}
