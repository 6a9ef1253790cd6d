//! Where a running process is: asked of the kernel, laid out as `model::residency` has it.

pub mod everyone;
mod pages;
pub mod quick;
mod statics;
mod threads;
pub mod watch;

use crate::discover;
use crate::host::proc;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_observed::residency::{Residency, SCHEMA_VERSION, judge};
use std::io;
use std::path::Path;
use std::time::Instant;

/// What is asked once and not at each look.
pub struct Site {
    /// The machine.
    pub machine: Machine,
    /// The cpus of each last-level cache, by the first one.
    l3: Vec<CpuList>,
    /// Cpus that run.
    online: CpuList,
    /// Size of a page, bytes.
    page_bytes: u64,
    /// Files that were read for their static variables, by path.
    files: statics::Files,
}

impl Site {
    /// This machine.
    ///
    /// # Errors
    /// If it has no list of cpus.
    pub fn here() -> anyhow::Result<Site> {
        let root = Path::new("/");
        let found = discover::discover(root)?;
        Ok(Site {
            l3: discover::last_level_caches(root, &found.kernel.online),
            online: found.kernel.online,
            machine: found.machine,
            page_bytes: proc::page_bytes(),
            files: Default::default(),
        })
    }
}

/// How to look at pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Small processes page by page, others by random pages.
    Auto,
    /// Page by page, however long that takes.
    Exact,
    /// Random pages.
    Sample,
}

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

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum WhereError {
    /// None of that number.
    #[error(
        "process {pid} does not exist: /proc/{pid}/status does not exist, or is hidden from you (mount option hidepid). \
         `pgrep -a NAME` or `nearfar where --all` lists those that there are"
    )]
    NoProcess {
        /// Process id.
        pid: u32,
    },
    /// A thread's number.
    #[error("{pid} is a thread of process {of}: nearfar where {of}")]
    Thread {
        /// The number.
        pid: u32,
        /// Its process.
        of: u32,
    },
    /// It is another user's, or protected.
    #[error("process {pid} ({name}) may not be looked at: {what} is refused ({why}). It {whose}. {advice}")]
    NotPermitted {
        /// Process id.
        pid: u32,
        /// Its name.
        name: String,
        /// What was tried.
        what: String,
        /// What the kernel said.
        why: io::Error,
        /// Whose it is.
        whose: String,
        /// What to type.
        advice: String,
    },
    /// It has ended since.
    #[error(
        "process {pid} has ended before it could be looked at: it left no pages to find. Start it again with \
             `nearfar where -- COMMAND`, which looks while it runs"
    )]
    Ended {
        /// Process id.
        pid: u32,
    },
    /// A part of the kernel.
    #[error("process {pid} ({name}) is a thread of the kernel: it has no memory of its own to look for")]
    NoMemory {
        /// Process id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// Neither way is there.
    #[error(
        "{what} cannot be read: {why}. The kernel needs CONFIG_NUMA (and CONFIG_MIGRATION for --sample); a \
         container's seccomp profile may forbid move_pages (docker run --cap-add SYS_NICE)"
    )]
    NotThere {
        /// What was tried.
        what: String,
        /// What the kernel said.
        why: io::Error,
    },
}

/// What lets a user look at a process that is not his to look at.
fn advice(user: u32, pid: u32) -> String {
    match user {
        // Root of a container, or without its capabilities.
        0 => "Root may look at it only with the capability CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE), and not \
              where a security module or another user namespace forbids it"
            .to_owned(),
        _ => format!("As root: sudo nearfar where {pid}"),
    }
}

impl WhereError {
    /// In words of what an attempt at `what` met.
    fn of(pid: u32, name: &str, what: &str, why: io::Error) -> WhereError {
        let what = what.to_owned();
        // Not `exists`: what is hidden or a zombie is there.
        if why.raw_os_error() == Some(libc::ESRCH) || proc::start_time(pid).is_none() {
            return WhereError::Ended { pid };
        }
        match why.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                // SAFETY: has no arguments and cannot fail.
                let me = unsafe { libc::geteuid() };
                let whose = match proc::owner(pid) {
                    Some(owner) if owner == me => {
                        "is your own, but runs with other rights (setuid, capabilities) or forbids it \
                         (prctl PR_SET_DUMPABLE, Yama)"
                            .to_owned()
                    }
                    Some(owner) => format!("belongs to the user with number {owner}, you are {me}"),
                    None => "belongs to another user".to_owned(),
                };
                let advice = advice(me, pid);
                WhereError::NotPermitted { pid, name: name.to_owned(), what, why, whose, advice }
            }
            _ => WhereError::NotThere { what, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn root_is_not_told_to_become_root() {
        assert!(advice(1000, 7).contains("sudo nearfar where 7"));
        assert!(!advice(0, 7).contains("sudo") && advice(0, 7).contains("CAP_SYS_PTRACE"));
    }
}
