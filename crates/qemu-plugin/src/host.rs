//! The host's threads that run vCPUs: what the host says of them.

use std::thread::{self, Thread};
use std::time::Duration;

/// A thread of this process, as others look at it.
#[derive(Debug)]
pub struct HostThread {
    tid: libc::pid_t,
    /// Its clock of used processor time (pthread_getcpuclockid(3)).
    clock: libc::clockid_t,
    /// To end its sleep.
    parked: Thread,
}

impl HostThread {
    /// The thread that calls.
    pub fn current() -> HostThread {
        let mut clock = -1;
        // SAFETY: `clock` is ours to write to; the calling thread exists. A refusal leaves the invalid clock.
        let tid = unsafe {
            libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock);
            libc::gettid()
        };
        HostThread { tid, clock, parked: thread::current() }
    }

    /// Ends its sleep, if it sleeps until this (`thread::park_timeout`).
    pub fn wake(&self) {
        self.parked.unpark();
    }

    /// Processor time that it has used; `None` if it has ended.
    pub fn used(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours to write to; a clock that is no longer there is refused.
        let refused = unsafe { libc::clock_gettime(self.clock, &mut time) } != 0;
        (!refused).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Whether it waits for something other than a processor, or has ended.
    pub fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid));
        !stat.is_ok_and(|stat| is_runnable(&stat))
    }
}

/// Whether a line of `/proc/…/stat` is of a thread that runs or would if it had a processor. The state
/// follows the name, which is in parentheses and may contain any (proc(5)).
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_state_is_read_whatever_the_name() {
        assert!(is_runnable("12 (a) S (b) R 1 12"));
        assert!(!is_runnable("12 (CPU 0/TCG) S 1 12"));
        assert!(!is_runnable(""));
    }

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_works() {
        let (asks, asked) = mpsc::channel();
        let (tells, told) = mpsc::channel();
        let worker = std::thread::spawn(move || {
            tells.send(HostThread::current()).unwrap();
            asked.recv().unwrap();
            let until = std::time::Instant::now() + Duration::from_secs(60);
            while asked.try_recv().is_err() && std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        let thread = told.recv().unwrap();
        while !thread.sleeps() {
            std::thread::yield_now();
        }
        let before = thread.used().unwrap();
        asks.send(()).unwrap();
        while thread.sleeps() || thread.used().unwrap() < before + Duration::from_millis(1) {
            std::thread::yield_now();
        }
        asks.send(()).unwrap();
        worker.join().unwrap();
        assert!(thread.sleeps());
    }
}
