//! One perf event: what all have in common, and the system call.

use perf_event_open_sys::bindings::*;
use perf_event_open_sys::{ioctls, perf_event_open};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A sample carries a frame-pointer chain of at most this many frames.
pub(super) const MAX_CHAIN: u16 = 32;

/// An event of software that samples every `period`, off until it is enabled; its threads inherit it.
pub(super) fn base(config: u64, period: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: std::mem::size_of::<perf_event_attr>() as u32,
        config,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.sample_period = period;
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    attr
}

/// Opens it on a thread (−1: all) and a cpu.
pub(super) fn open_event(attr: &mut perf_event_attr, pid: libc::pid_t, cpu: u32) -> io::Result<OwnedFd> {
    open_in_group(attr, pid, cpu, -1)
}

/// The same as a member of the group of `leader`; −1 for none.
pub(super) fn open_in_group(
    attr: &mut perf_event_attr,
    pid: libc::pid_t,
    cpu: u32,
    leader: RawFd,
) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is initialised with its own size; the flag is valid, and the leader is an open descriptor or -1.
    let fd = unsafe { perf_event_open(attr, pid, cpu as i32, leader, PERF_FLAG_FD_CLOEXEC as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number by which its samples name it.
pub(super) fn event_id(fd: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes one u64 to the address given.
    if unsafe { ioctls::ID(fd.as_raw_fd(), &mut id) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(id)
}
