//! Why a process cannot be looked at.

use nearfar_host::proc;
use std::io;

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
    pub(super) fn of(pid: u32, name: &str, what: &str, why: io::Error) -> WhereError {
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
