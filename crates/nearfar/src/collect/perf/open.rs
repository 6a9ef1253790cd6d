//! Opening perf events for a command or a running process.

use super::call::{MAX_CHAIN, base, event_id, open_event};
use super::event::{Event, Layout, Layouts, parse};
use super::memory::{Place, open_access, refusal};
use super::ring::Ring;
use crate::discover::pmu::{MemoryEvents, memory_blocks};
use crate::host::proc::{self, page_bytes};
use perf_event_open_sys::bindings::*;
use perf_event_open_sys::ioctls;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// What to sample.
#[derive(Clone, Debug)]
pub struct PerfSettings {
    /// Clock samples per second of CPU time and thread; 0 for none.
    pub hz: f64,
    /// Record page faults.
    pub faults: bool,
    /// Take frame-pointer call chains with clock samples.
    pub chains: bool,
    /// Bytes of stack to copy with clock samples, for unwinding by .eh_frame; 0 for none.
    pub stack_bytes: u32,
    /// How large the rings must be.
    pub rings: Rings,
    /// Events that sample memory accesses, and their rate per second and thread.
    pub memory: Option<(MemoryEvents, f64)>,
}

/// How large rings are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// As large as they may be, of one of so many recorders of the same launch on this host, which share what one
    /// user may lock.
    Ranks(u32),
    /// Of an emulated program: a hundred times fewer events a second, and the kernel clears each page of a ring.
    Emulated,
    /// The smallest: what is asked is whether events work.
    Probe,
}

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

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A clock sample.
    Clock,
    /// A fault, without registers.
    Fault,
    /// A fault with registers and stack, to find its call chain.
    FaultChain,
    /// A sampled access of memory.
    Memory,
}

/// Ratio of the two clock periods: the number that fractions approach worst.
const GOLDEN: f64 = 1.618_033_988_749_895;
/// Every how many faults a call chain is taken: prime, so that it does not fall in step with loops over pages.
const CHAIN_PERIOD: u64 = 61;
/// Stack bytes with every 61st fault: enough for a dozen ordinary frames.
const CHAIN_STACK: u32 = 8192;
/// Stack bytes while new instructions show up; these come in bursts and only the nearest callers matter.
const BURST_STACK: u32 = 1024;
/// Registers wanted: rip, rsp, rbp and the other general ones. Bits are the kernel's enum perf_event_x86_regs.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Registers wanted: x0–x30, sp, pc.
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = (1 << 33) - 1;

/// Sizes of a cpu's two rings, bytes: what is needed complete, and the call
/// chains, which may be lost without harm and so must not crowd out the rest.
/// An ordinary user may lock perf_event_mlock_kb (516 KiB by default) per cpu,
/// plus RLIMIT_MEMLOCK in all: the last row of one recorder always fits that.
const RING_SIZES: [[usize; 2]; 7] = [
    [8 << 20, 1 << 20],
    [2 << 20, 512 << 10],
    [1 << 20, 256 << 10],
    [256 << 10, 128 << 10],
    // Where ranks share. No chains' ring may be smaller: a record has CHAIN_STACK bytes and more.
    [128 << 10, 64 << 10],
    [64 << 10, 32 << 10],
    [32 << 10, 16 << 10],
];
/// Of these, how many are for a recorder that shares with none.
const ALONE: usize = 4;
/// Where those of an emulated program begin.
const EMULATED: usize = 2;

/// Which of a cpu's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingClass {
    /// Samples, faults, mappings, threads: what is lost here is missing.
    Complete = 0,
    /// Call chains of some faults.
    Chains = 1,
}

/// Memory for all rings together, where the kernel allows more than the minimum for each.
const RING_BUDGET: usize = 64 << 20;

/// The sizes to try, largest first. Each of several recorders takes its part of what their user may lock, besides its
/// own RLIMIT_MEMLOCK: else the first ones take it all, and the last have no samples.
fn ring_sizes(cpus: usize, rings: Rings, allowed: Option<Allowed>) -> Vec<[usize; 2]> {
    let ranks = match rings {
        Rings::Ranks(ranks) => ranks.max(1) as usize,
        Rings::Emulated => return RING_SIZES[EMULATED..].to_vec(),
        Rings::Probe => return RING_SIZES[RING_SIZES.len() - 1..].to_vec(),
    };
    let rows = if ranks > 1 { &RING_SIZES[..] } else { &RING_SIZES[..ALONE] };
    let (last, others) = rows.split_last().expect("there are sizes");
    let locked = allowed
        .filter(|_| ranks > 1)
        .map(|a| (a.user_bytes_per_cpu.saturating_mul(cpus) / ranks).saturating_add(a.process_bytes));
    let fits = |sizes: &&[usize; 2]| {
        let bytes: usize = sizes.iter().sum();
        // Each ring has a page for its head.
        bytes * cpus <= RING_BUDGET / ranks
            && locked.is_none_or(|locked| (bytes + 2 * page_bytes() as usize) * cpus <= locked)
    };
    others.iter().filter(fits).chain([last]).copied().collect()
}

/// What the kernel lets an ordinary user lock for rings (kernel/events/core.c, perf_mmap).
#[derive(Clone, Copy, Debug)]
struct Allowed {
    /// perf_event_mlock_kb, of all processes of a user together.
    user_bytes_per_cpu: usize,
    /// RLIMIT_MEMLOCK, of each process.
    process_bytes: usize,
}

/// `None` where nothing is limited: perf_event_paranoid is −1, or we have CAP_IPC_LOCK.
fn allowed() -> Option<Allowed> {
    const CAP_IPC_LOCK: u32 = 14;
    let number = |name: &str| -> Option<i64> {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
    };
    let me = std::process::id();
    let status = proc::status(me, me).unwrap_or_default();
    let capable = proc::field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
    if number("perf_event_paranoid") == Some(-1) || capable.is_some_and(|c| c >> CAP_IPC_LOCK & 1 == 1) {
        return None;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let kb = number("perf_event_mlock_kb").and_then(|kb| usize::try_from(kb).ok())?;
    Some(Allowed {
        user_bytes_per_cpu: kb.saturating_mul(1024),
        process_bytes: usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
    })
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

/// The events of one target on one cpu: name for errors, attributes, kind, whether it is a burst event.
fn attributes(
    settings: &PerfSettings,
    kernel_faults: bool,
) -> Vec<(&'static str, perf_event_attr, Kind, bool)> {
    let mut list = Vec::new();
    let plain = (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IP) as u64;
    if settings.hz > 0.0 {
        // Rates r and r/φ that add up to `hz`.
        let first = settings.hz / (1.0 + 1.0 / GOLDEN);
        for rate in [first, settings.hz - first] {
            let mut attr = base(PERF_COUNT_SW_TASK_CLOCK as u64, (1e9 / rate) as u64);
            attr.sample_type = plain | (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_READ) as u64;
            attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED as u64;
            attr.sample_regs_user = REGISTERS;
            if settings.chains {
                attr.sample_type |= PERF_SAMPLE_CALLCHAIN as u64;
                attr.set_exclude_callchain_kernel(1);
                attr.sample_max_stack = MAX_CHAIN;
            }
            if settings.stack_bytes > 0 {
                attr.sample_type |= PERF_SAMPLE_STACK_USER as u64;
                attr.sample_stack_user = settings.stack_bytes;
            }
            list.push(("task clock", attr, Kind::Clock, false));
        }
    }
    if settings.faults {
        for (what, config) in
            [("minor faults", PERF_COUNT_SW_PAGE_FAULTS_MIN), ("major faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ)]
        {
            let mut attr = base(config as u64, 1);
            attr.sample_type = plain | (PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE) as u64;
            attr.set_exclude_kernel(u64::from(!kernel_faults));
            list.push((what, attr, Kind::Fault, false));
        }
        // Chains count all faults, not the minor ones: events of the same kind share one set of sample
        // data, and the plain record of a fault would take up the stack copy's bytes too (seen with 6.18).
        for (period, stack, burst) in [(CHAIN_PERIOD, CHAIN_STACK, false), (1, BURST_STACK, true)] {
            let mut attr = base(PERF_COUNT_SW_PAGE_FAULTS as u64, period);
            attr.sample_type =
                plain | (PERF_SAMPLE_ADDR | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER) as u64;
            attr.sample_regs_user = REGISTERS;
            attr.sample_stack_user = stack;
            attr.set_exclude_kernel(u64::from(!kernel_faults));
            list.push(("faults with stack", attr, Kind::FaultChain, burst));
        }
    }
    // The first event of a ring also tells of mappings, threads, forks and execs.
    if let Some((_, attr, _, _)) = list.first_mut() {
        attr.set_mmap(1);
        attr.set_mmap_data(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
    }
    list
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
    use crate::discover::pmu::{Config, MemoryEvent};
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

    #[test]
    fn ranks_of_a_host_lock_no_more_together_than_their_user_may() {
        const DEFAULT: usize = 516 << 10;
        let allowed = |process_bytes| Some(Allowed { user_bytes_per_cpu: DEFAULT, process_bytes });
        assert_eq!(
            ring_sizes(2, Rings::Ranks(1), allowed(0)),
            RING_SIZES[..ALONE],
            "one recorder tries all it did"
        );
        assert_eq!(ring_sizes(64, Rings::Ranks(1), allowed(0)), RING_SIZES[3..ALONE]);
        assert_eq!(
            ring_sizes(2, Rings::Ranks(4), None)[0],
            RING_SIZES[1],
            "root has no limit but the budget"
        );
        assert!(
            ring_sizes(2, Rings::Ranks(4), allowed(8 << 20))[0]
                > ring_sizes(2, Rings::Ranks(4), allowed(0))[0]
        );
        for (cpus, ranks) in [(2, 2), (8, 4), (64, 8), (64, 64), (256, 2)] {
            let sizes = ring_sizes(cpus, Rings::Ranks(ranks), allowed(0));
            let (last, shared) = sizes.split_last().unwrap();
            assert_eq!(*last, RING_SIZES[RING_SIZES.len() - 1], "the smallest is always tried");
            for sizes in shared {
                let bytes = sizes[0] + sizes[1] + 2 * page_bytes() as usize;
                assert!(bytes * ranks as usize <= DEFAULT, "{cpus} cpus, {ranks} ranks");
            }
        }
        for rings in [Rings::Emulated, Rings::Probe] {
            let sizes = ring_sizes(64, rings, None);
            assert!(sizes.is_sorted_by(|a, b| a > b) && sizes.ends_with(&RING_SIZES[RING_SIZES.len() - 1..]));
        }
        assert!(RING_SIZES.iter().all(|s| s[RingClass::Chains as usize] > CHAIN_STACK as usize));
    }
}
