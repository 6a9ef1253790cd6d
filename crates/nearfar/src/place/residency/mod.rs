//! Where a running process is: asked of the kernel, laid out as `observed::residency` has it.

pub mod everyone;
mod pages;
pub mod quick;
mod refused;
mod site;
mod statics;
mod threads;
pub mod watch;

pub use refused::WhereError;
pub use site::{Site, Way};

use nearfar_host::discover;
use nearfar_host::proc;
use nearfar_observed::residency::{Residency, SCHEMA_VERSION, judge};
use std::path::Path;
use std::time::Instant;

/// Looks at a process; `at` is the time of the look in seconds, as the caller counts.
///
/// # Errors
/// If no such process exists, it may not be looked at, it has no memory, or it ends meanwhile.
pub fn look(pid: u32, site: &Site, way: Way, at: f64) -> Result<Residency, WhereError> {
    look_at(pid, site, way, at, true)
}

/// The same, with or without the objects in the mappings.
fn look_at(pid: u32, site: &Site, way: Way, at: f64, objects: bool) -> Result<Residency, WhereError> {
    let begin = Instant::now();
    let status = proc::status(pid, pid).map_err(|_| WhereError::NoProcess { pid })?;
    // The kernel also has a hidden folder for each thread.
    match proc::field(&status, "Tgid").and_then(|of| of.parse().ok()) {
        Some(of) if of != pid => return Err(WhereError::Thread { pid, of }),
        _ => {}
    }
    let name = proc::field(&status, "Name").unwrap_or_default().to_owned();
    let resident = proc::field(&status, "VmRSS").and_then(proc::kib);
    if resident.is_none() {
        // Zombies and kernel threads have a status without any line of memory (proc_pid_status(5)).
        let zombie = proc::field(&status, "State").is_some_and(|s| s.starts_with(['Z', 'X']));
        return Err(if zombie { WhereError::Ended { pid } } else { WhereError::NoMemory { pid, name } });
    }
    let beside = || (threads::look(pid, site), discover::limits_of(Path::new("/"), pid));
    let (mut memory, maps, (threads, limits)) = pages::look(pid, &name, resident, site, way, beside)?;
    if threads.is_empty() {
        return Err(WhereError::Ended { pid });
    }
    if objects {
        statics::add(&mut memory, &maps, pid, site, way);
    }
    let seen = Residency {
        schema: SCHEMA_VERSION,
        pid,
        name,
        at_seconds: at,
        // What follows is arithmetic.
        took_ms: begin.elapsed().as_secs_f64() * 1e3,
        threads,
        nodes_allowed: proc::field(&status, "Mems_allowed_list").and_then(|l| l.parse().ok()),
        limits,
        memory,
        near: Vec::new(),
        findings: Vec::new(),
    };
    Ok(judge(seen, &site.machine))
}
