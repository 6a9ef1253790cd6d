//! Counting events of the kernel: opening them, reading a group of them, and what a refusal means.

use crate::proc::kernel_setting;
use nearfar_observed::live::reading::Count;
use perf_event_open_sys::bindings::*;
use perf_event_open_sys::perf_event_open;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a refusal means for counters of whole cpus.
pub(super) fn explain(error: &io::Error) -> String {
    match (error.raw_os_error(), kernel_setting::<i32>("perf_event_paranoid")) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 0 => format!(
            "kernel.perf_event_paranoid is {level}, and counting whole cpus needs 0 or less, or CAP_PERFMON: \
             `sudo sysctl kernel.perf_event_paranoid=0`"
        ),
        (Some(libc::EACCES | libc::EPERM), _) => format!(
            "perf_event_open is refused ({error}): probably a container's seccomp profile forbids it \
             (docker run --cap-add PERFMON --security-opt seccomp=unconfined)"
        ),
        (Some(libc::ENOENT | libc::EOPNOTSUPP), _) => {
            "this machine shows no hardware counters for it (usual in virtual machines)".to_owned()
        }
        (Some(libc::EMFILE), _) => "too many open files: raise `ulimit -n`".to_owned(),
        _ => format!("perf_event_open is refused: {error}"),
    }
}

/// What a refusal means for counters of single threads.
pub(super) fn explain_threads(error: &io::Error) -> String {
    match (error.raw_os_error(), kernel_setting::<i32>("perf_event_paranoid")) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 1 => format!(
            "kernel.perf_event_paranoid is {level}, and this takes 1 or less, or CAP_PERFMON: \
             `sudo sysctl kernel.perf_event_paranoid=1`"
        ),
        _ => explain(error),
    }
}

/// What counts, and on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    pub type_: u32,
    pub config: u64,
    /// A thread; -1 for whatever runs on the cpu.
    pub thread: libc::pid_t,
    /// A cpu; -1 for all that the thread runs on.
    pub cpu: i32,
    /// Leave out what the kernel does for the thread.
    pub user_only: bool,
    /// Begin when the thread calls exec.
    pub on_exec: bool,
    /// Count what the thread starts, too.
    pub inherit: bool,
}

impl Counting {
    /// Everything on a cpu, from now on.
    pub fn of_cpu(type_: u32, config: u64, cpu: u32) -> Counting {
        let cpu = cpu as i32;
        Counting { type_, config, thread: -1, cpu, user_only: false, on_exec: false, inherit: false }
    }
}

/// Opens a counter, as a member of the group of `leader` if there is one.
pub(super) fn open(what: &Counting, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: what.type_,
        size: std::mem::size_of::<perf_event_attr>() as u32,
        config: what.config,
        read_format: u64::from(
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    attr.set_exclude_kernel(what.user_only.into());
    attr.set_exclude_hv(what.user_only.into());
    attr.set_inherit(what.inherit.into());
    // The members of a group count while their leader does.
    let waits = what.on_exec && leader.is_none();
    attr.set_disabled(waits.into());
    attr.set_enable_on_exec(waits.into());
    let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is initialised with its own size; the flag is valid, and the leader is an open descriptor or -1.
    let fd = unsafe { perf_event_open(&mut attr, what.thread, what.cpu, leader, PERF_FLAG_FD_CLOEXEC as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens counters as one group, so that they count at the same time.
pub(super) fn open_group(whats: &[Counting]) -> io::Result<Vec<OwnedFd>> {
    let mut fds: Vec<OwnedFd> = Vec::new();
    for what in whats {
        fds.push(open(what, fds.first())?);
    }
    Ok(fds)
}

/// The counts of a group of `number` events.
pub(super) fn read_group(leader: &OwnedFd, number: usize) -> io::Result<Vec<Count>> {
    // nr, time_enabled, time_running, values (perf_event_open(2), PERF_FORMAT_GROUP).
    let mut words = vec![0u64; 3 + number];
    let bytes = words.len() * 8;
    // SAFETY: the buffer has that many bytes.
    let length = unsafe { libc::read(leader.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != bytes || words[0] != number as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(words[3..].iter().map(|&value| Count { value, enabled_ns: words[1], running_ns: words[2] }).collect())
}

/// What a counter of a whole cpu has counted. Sums of such counters are compared from reading to reading, so they are not
/// scaled: a counter that did not run all the time, or cannot be read, is none.
///
/// # Errors
/// Why the count is unknown, in words.
pub(super) fn whole(counter: &OwnedFd) -> Result<u64, String> {
    match read_group(counter, 1) {
        Ok(counts) if counts[0].running_ns < counts[0].enabled_ns => {
            Err("other events had these counters for a part of the time".to_owned())
        }
        Ok(counts) => Ok(counts[0].value),
        Err(error) => Err(format!("the counters cannot be read any more: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_software_events_is_read_as_one() {
        // This process's own events need no permission: the same reading as of hardware.
        let mut what = Counting::of_cpu(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK.into(), 0);
        (what.thread, what.cpu, what.user_only) = (0, -1, true);
        let fd = match open(&what, None) {
            Ok(fd) => fd,
            Err(error) => return eprintln!("skipped: perf events: {error}"),
        };
        let before = read_group(&fd, 1).unwrap()[0];
        let mut sum = 0u64;
        for i in 0..2_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i * i));
        }
        let after = read_group(&fd, 1).unwrap()[0];
        assert!(after.since(&before).unwrap() > 0.0, "{before:?} {after:?} {sum}");
        assert!(read_group(&fd, 2).is_err());
        assert!(whole(&fd).unwrap() >= after.value, "an event of the kernel runs all the time");
        let closed = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(whole(&closed).is_err(), "only a counter can be read");
    }
}
