//! Events of the processor that sample memory accesses, into the rings of the other events.

use super::call::{MAX_CHAIN, base, event_id, open_event, open_in_group};
use nearfar_host::discover::pmu::MemoryEvent;
use perf_event_open_sys::bindings::*;
use perf_event_open_sys::ioctls;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Where an event is opened.
pub(super) struct Place {
    /// Its thread; −1 for all.
    pub pid: libc::pid_t,
    /// Its cpu.
    pub cpu: u32,
    /// Whether it begins at the thread's next exec.
    pub on_exec: bool,
    /// The descriptor whose ring takes its samples.
    pub owner: RawFd,
    /// That ring's size.
    pub ring_bytes: usize,
}

/// An event that is open.
pub(super) struct Opened {
    /// The number by which its samples name it.
    pub id: u64,
    /// What they carry.
    pub sample_type: u64,
    /// Its descriptors: its group's leader first, if it needs one.
    pub events: Vec<OwnedFd>,
}

/// Opens one; with the physical address, and with three numbers of latency instead of one.
pub(super) fn open_access(
    event: &MemoryEvent,
    place: &Place,
    hz: f64,
    (physical, three_weights): (bool, bool),
) -> io::Result<Opened> {
    let &Place { pid, cpu, on_exec, owner, ring_bytes } = place;
    let mut attr = base(0, 0);
    (attr.type_, attr.config) = (event.unit, event.config.words[0]);
    attr.__bindgen_anon_3.config1 = event.config.words[1];
    attr.__bindgen_anon_4.config2 = event.config.words[2];
    attr.config3 = event.config.words[3];
    attr.set_freq(1);
    attr.sample_freq = (hz as u64).max(1);
    attr.set_precise_ip(u64::from(event.precise));
    attr.set_exclude_kernel(u64::from(event.excludes_kernel));
    attr.set_exclude_hv(u64::from(event.excludes_kernel));
    attr.set_enable_on_exec(u64::from(on_exec));
    attr.set_inherit(u64::from(pid >= 0));
    attr.sample_type = memory_sample_type(physical, three_weights);
    attr.set_exclude_callchain_kernel(1);
    attr.sample_max_stack = MAX_CHAIN;
    attr.wakeup_watermark = ring_bytes as u32 / 4;
    let leader = match event.leader {
        None => None,
        Some(config) => {
            let mut first = base(0, 0);
            (first.type_, first.config) = (event.unit, config.words[0]);
            first.set_enable_on_exec(u64::from(on_exec));
            first.set_inherit(u64::from(pid >= 0));
            Some(open_event(&mut first, pid, cpu)?)
        }
    };
    if leader.is_some() {
        // A member follows its leader.
        attr.set_disabled(0);
        attr.set_enable_on_exec(0);
    }
    let fd = open_in_group(&mut attr, pid, cpu, leader.as_ref().map_or(-1, AsRawFd::as_raw_fd))?;
    // SAFETY: both descriptors are perf events that this process opened.
    if unsafe { ioctls::SET_OUTPUT(fd.as_raw_fd(), owner) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let id = event_id(&fd)?;
    Ok(Opened { id, sample_type: attr.sample_type, events: leader.into_iter().chain([fd]).collect() })
}

/// What a sampled access carries; with the physical address, and with three numbers of latency instead of one.
pub(super) fn memory_sample_type(physical: bool, three_weights: bool) -> u64 {
    let weight = if three_weights { PERF_SAMPLE_WEIGHT_STRUCT } else { PERF_SAMPLE_WEIGHT };
    let physical = if physical { PERF_SAMPLE_PHYS_ADDR } else { 0 };
    (PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_ADDR
        | PERF_SAMPLE_PERIOD
        | PERF_SAMPLE_CALLCHAIN
        | PERF_SAMPLE_DATA_SRC
        | weight
        | physical) as u64
}

/// Why an event is refused, and what helps.
pub(super) fn refusal(event: &MemoryEvent, error: &io::Error) -> String {
    let name = &event.name;
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if !event.excludes_kernel => format!(
            "{name} was refused: this kernel cannot leave its own accesses out (no swfilt), so it is for administrators: \
             `sudo sysctl kernel.perf_event_paranoid=1` allows it"
        ),
        Some(libc::EACCES | libc::EPERM) => {
            format!("{name} was refused: {error}; `sudo sysctl kernel.perf_event_paranoid=2` allows it")
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP) => {
            format!("{name} is not there ({error}): hidden from this virtual machine")
        }
        Some(libc::EBUSY) => format!(
            "{name} is in use ({error}): another profiler, or the kernel's watchdog, has the counters"
        ),
        _ => format!("{name} was refused: {error}"),
    }
}
