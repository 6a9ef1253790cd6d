//! Opening perf events for a command or a running process.

pub use super::attributes::PerfSettings;
pub use super::sizes::Rings;

use super::attributes::{REGISTERS, attributes};
use super::call::{event_id, open_event};
use super::event::{Event, Kind, Layout, Layouts, RingClass, parse};
use super::memory::{Place, open_access, refusal};
use super::ring::Ring;
use super::sizes::{allowed, ring_sizes};
use nearfar_host::discover::pmu::memory_blocks;
use perf_event_open_sys::bindings::*;
use perf_event_open_sys::ioctls;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Whose events.
#[derive(Clone, Debug)]
pub enum Target {
    /// A child that has not called exec yet: events begin at its exec.
    Exec(libc::pid_t),
    /// Threads of running processes: events begin at [`PerfSet::enable`].
    Running(Vec<libc::pid_t>),
    /// Whatever runs on the cpus: events begin at [`PerfSet::enable`].
    Everything,
}

/// Why perf events could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel refused the call.
    #[error("perf_event_open ({what}) was refused: {error}")]
    Refused {
        /// Which event.
        what: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// The ring could not be mapped.
    #[error("the perf ring of cpu {cpu} could not be mapped: {error}")]
    Ring {
        /// Which cpu.
        cpu: u32,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl OpenError {
    /// The kernel's error number, if any.
    pub fn errno(&self) -> Option<i32> {
        match self {
            OpenError::Refused { error, .. } | OpenError::Ring { error, .. } => error.raw_os_error(),
        }
    }
}

/// The events of one target, on all cpus.
pub struct PerfSet {
    /// Cpu, class and ring.
    rings: Vec<(u32, RingClass, Ring)>,
    /// Descriptors, with whether the event is one of the burst ones.
    events: Vec<(OwnedFd, bool)>,
    kinds: Layouts,
    bursting: bool,
    settings: PerfSettings,
    /// Whether faults that the kernel takes for the program are among them.
    kernel_faults: bool,
    /// Why memory accesses are not sampled; `None` if they are, or were not asked for.
    pub memory_refused: Option<String>,
}

impl PerfSet {
    /// Opens the events on `cpus` (kernel indexes). Where the kernel allows it (perf_event_paranoid of 1 or less, or
    /// CAP_PERFMON), with the faults that it takes itself while it fills the program's memory: read and recv place
    /// pages as stores do.
    ///
    /// # Errors
    /// If the kernel refuses any of them; nothing stays open then.
    pub fn open(target: &Target, cpus: &[u32], settings: &PerfSettings) -> Result<PerfSet, OpenError> {
        raise_descriptor_limit();
        let mut refused = None;
        for sizes in ring_sizes(cpus.len(), settings.rings, allowed()) {
            let opened = match PerfSet::open_with(target, cpus, settings, sizes, settings.faults) {
                Err(OpenError::Refused { error, .. })
                    if settings.faults
                        && matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) =>
                {
                    PerfSet::open_with(target, cpus, settings, sizes, false)
                }
                other => other,
            };
            match opened {
                Err(OpenError::Ring { cpu, error }) => refused = Some(OpenError::Ring { cpu, error }),
                other => return other,
            }
        }
        Err(refused.expect("the smallest size is always tried"))
    }

    fn open_with(
        target: &Target,
        cpus: &[u32],
        settings: &PerfSettings,
        sizes: [usize; 2],
        kernel_faults: bool,
    ) -> Result<PerfSet, OpenError> {
        let mut set = PerfSet {
            rings: Vec::new(),
            events: Vec::new(),
            kinds: Layouts::default(),
            bursting: true,
            settings: settings.clone(),
            kernel_faults,
            memory_refused: None,
        };
        if let Some((events, _)) = &settings.memory {
            set.kinds.memory = Some((events.vendor, memory_blocks(Path::new("/"))));
        }
        for &cpu in cpus {
            match set.open_cpu(target, cpu, sizes) {
                // A cpu may go offline between listing and opening.
                Err(OpenError::Refused { error, .. }) if error.raw_os_error() == Some(libc::ENODEV) => {}
                other => other?,
            }
        }
        if set.rings.is_empty() {
            let error = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(OpenError::Refused { what: "on every cpu", error });
        }
        Ok(set)
    }

    fn open_cpu(&mut self, target: &Target, cpu: u32, sizes: [usize; 2]) -> Result<(), OpenError> {
        let (pids, on_exec): (&[libc::pid_t], bool) = match target {
            Target::Exec(pid) => (std::slice::from_ref(pid), true),
            Target::Running(tids) => (tids, false),
            Target::Everything => (&[-1], false),
        };
        // The descriptor whose ring the others of its class write to.
        let mut owners: [Option<RawFd>; 2] = [None; 2];
        for &pid in pids {
            for (what, mut attr, kind, burst) in attributes(&self.settings, self.kernel_faults) {
                attr.set_enable_on_exec(on_exec as u64);
                if matches!(target, Target::Everything) {
                    // The events of a cpu are of whatever runs there: there is nothing to inherit.
                    attr.set_inherit(0);
                    if kind == Kind::Clock {
                        attr.config = PERF_COUNT_SW_CPU_CLOCK as u64;
                    }
                }
                let class = if kind == Kind::FaultChain { RingClass::Chains } else { RingClass::Complete };
                attr.wakeup_watermark = sizes[class as usize] as u32 / 4;
                let mut opened = open_event(&mut attr, pid, cpu);
                // Before Linux 6.12, inherited events carry no times.
                let read = PERF_SAMPLE_READ as u64;
                if matches!(&opened, Err(error) if error.raw_os_error() == Some(libc::EINVAL))
                    && attr.sample_type & read != 0
                {
                    attr.sample_type &= !read;
                    attr.read_format = 0;
                    opened = open_event(&mut attr, pid, cpu);
                }
                let fd = match opened {
                    Ok(fd) => fd,
                    // A thread may end between listing and opening.
                    Err(error) if !on_exec && error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) => return Err(OpenError::Refused { what, error }),
                };
                match owners[class as usize] {
                    None => {
                        owners[class as usize] = Some(fd.as_raw_fd());
                        let ring = Ring::map(&fd, sizes[class as usize])
                            .map_err(|error| OpenError::Ring { cpu, error })?;
                        self.rings.push((cpu, class, ring));
                    }
                    Some(owner) => {
                        // SAFETY: both descriptors are perf events that this process opened.
                        if unsafe { ioctls::SET_OUTPUT(fd.as_raw_fd(), owner) } < 0 {
                            return Err(OpenError::Ring { cpu, error: io::Error::last_os_error() });
                        }
                    }
                }
                let id = event_id(&fd).map_err(|error| OpenError::Refused { what, error })?;
                let registers = REGISTERS.count_ones() as usize;
                let of_thread = !matches!(target, Target::Everything);
                self.kinds.insert(id, Layout { kind, sample_type: attr.sample_type, registers, of_thread });
                self.events.push((fd, burst));
            }
            if let Some(owner) = owners[RingClass::Complete as usize] {
                self.open_memory(pid, cpu, on_exec, owner, sizes[RingClass::Complete as usize]);
            }
        }
        Ok(())
    }

    /// Opens the events that sample memory accesses. If one is refused, nothing else is lost: it is said, and none is
    /// tried again.
    fn open_memory(&mut self, pid: libc::pid_t, cpu: u32, on_exec: bool, owner: RawFd, ring_bytes: usize) {
        let Some((events, hz)) = self.settings.memory.clone().filter(|_| self.memory_refused.is_none())
        else {
            return;
        };
        for event in &events.events {
            let mut refused = None;
            // A node of the physical address is an administrator's to see, and older kernels have one number of latency.
            for (physical, three) in [(true, true), (false, true), (false, false)] {
                let place = Place { pid, cpu, on_exec, owner, ring_bytes };
                match open_access(event, &place, hz, (physical, three)) {
                    Ok(opened) => {
                        let layout = Layout {
                            kind: Kind::Memory,
                            sample_type: opened.sample_type,
                            registers: 0,
                            of_thread: false,
                        };
                        self.kinds.insert(opened.id, layout);
                        self.events.extend(opened.events.into_iter().map(|event| (event, false)));
                        refused = None;
                        break;
                    }
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                // The thread has ended, or the cpu went offline.
                Some(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {}
                Some(error) => {
                    self.memory_refused = Some(refusal(event, &error));
                    return;
                }
                None => {}
            }
        }
    }

    /// Starts the events of a running target; those of a command start at its exec.
    pub fn enable(&self) {
        for (fd, _) in &self.events {
            // SAFETY: a perf event of this process; the call has no other effect.
            unsafe { ioctls::ENABLE(fd.as_raw_fd(), 0) };
        }
    }

    /// Stops all events.
    pub fn disable(&self) {
        for (fd, _) in &self.events {
            // SAFETY: as in `enable`.
            unsafe { ioctls::DISABLE(fd.as_raw_fd(), 0) };
        }
    }

    /// Switches the call chain of every single fault on or off; every 61st keeps its.
    pub fn burst_chains(&mut self, on: bool) {
        if self.bursting == on {
            return;
        }
        self.bursting = on;
        for (fd, _) in self.events.iter().filter(|(_, burst)| *burst) {
            // SAFETY: as in `enable`. Both calls reach the events that threads inherited.
            unsafe {
                if on {
                    ioctls::ENABLE(fd.as_raw_fd(), 0)
                } else {
                    ioctls::DISABLE(fd.as_raw_fd(), 0)
                };
            }
        }
    }

    /// CPU time that a clock sample stands for, ns.
    pub fn sample_weight_ns(&self) -> u32 {
        if self.settings.hz > 0.0 { (1e9 / self.settings.hz) as u32 } else { 0 }
    }

    /// Sleeps until a ring is a quarter full, `also` is readable (−1: nothing) or
    /// `timeout_ms` have passed.
    pub fn wait(&self, also: RawFd, timeout_ms: i32) {
        let mut fds: Vec<RawFd> = self.rings.iter().map(|(_, _, ring)| ring.fd()).collect();
        fds.push(also);
        wait_for(&fds, timeout_ms);
    }

    /// Takes all records out of all rings.
    pub fn drain(&mut self, mut each: impl FnMut(Event)) {
        let kinds = &self.kinds;
        for (cpu, class, ring) in &mut self.rings {
            ring.drain(|record| {
                if let Some(event) = parse(record, *cpu, *class, kinds) {
                    each(event);
                }
            });
        }
    }
}

/// Sleeps until one of `fds` is readable or `timeout_ms` have passed.
pub fn wait_for(fds: &[RawFd], timeout_ms: i32) {
    let mut polls: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the array lives across the call and its length is passed.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
    // Events whose threads are all gone hang up, and poll would return at once from now on.
    let readable = polls.iter().any(|p| p.revents & libc::POLLIN != 0);
    if !readable && polls.iter().any(|p| p.revents & libc::POLLHUP != 0) {
        std::thread::sleep(std::time::Duration::from_millis(timeout_ms.clamp(0, 10) as u64));
    }
}

/// Six descriptors per cpu soon pass the usual soft limit of 1024.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain getrlimit/setrlimit with a struct of ours. The child was
    // forked before, so the target keeps the limit it came with.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_host::discover::pmu::{Config, MemoryEvent, MemoryEvents};
    use nearfar_host::proc;
    use nearfar_perf::Vendor;

    /// No machine that this was built on has a unit that samples memory: its way into the rings is tried with an event that
    /// every kernel has, whose samples say nothing of memory.
    #[test]
    fn events_of_memory_share_the_rings_and_a_refused_one_takes_nothing_else_away() {
        let event = |unit, number| MemoryEvent {
            name: "tried".into(),
            unit,
            config: Config { words: [number, 0, 0, 0] },
            precise: 0,
            leader: None,
            excludes_kernel: true,
        };
        let open = |event| {
            let events = MemoryEvents { vendor: Vendor::Intel, what: "PEBS", events: vec![event] };
            // SAFETY: no preconditions.
            let me = unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
            let memory = Some((events, 1000.0));
            let settings = PerfSettings {
                hz: 1000.0,
                faults: false,
                chains: false,
                stack_bytes: 0,
                rings: Rings::Ranks(1),
                memory,
            };
            PerfSet::open(&Target::Running(vec![me]), &proc::online_cpus(), &settings)
        };
        let Ok(set) = open(event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK as u64)) else {
            println!("skipped: perf events do not work here");
            return;
        };
        assert_eq!(set.memory_refused, None);
        let clocks = set.events.len();
        let set = open(event(0xffff, 0)).expect("the clock's events open all the same");
        let why = set.memory_refused.as_ref().expect("no unit has that number");
        assert!(why.contains("tried"), "{why}");
        assert!(set.events.len() < clocks);
    }
}
