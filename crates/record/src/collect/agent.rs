//! The recorder's side of the preload agent: makes the shared memory, installs the
//! agent's shared object, reads the records.
//!
//! The protocol is described in `agent/protocol.h`; the structures here mirror it.

mod handover;
mod install;
mod parse;
mod records;
mod settings;
mod shared;
mod stub;

pub use records::{
    AgentBody, AgentRecord, Allocation, AllocationKind, LostWhy, PhaseCall, PhaseCount, PythonFrame,
};
pub use settings::Settings;
pub use shared::shared_memory;

use shared::Shared;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const CLAIMED: u32 = 1;
/// How often a process that writes nothing is asked for: ns of CLOCK_MONOTONIC.
const LOOK_FOR_ENDS_NS: u64 = 200_000_000;

/// What was not recorded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentLoss {
    /// Records dropped because a ring was full: the recorder was too slow.
    pub ring_full: u64,
    /// Records dropped because a signal handler met the writer's lock.
    pub busy: u64,
    /// Records of threads that began under a seccomp filter of the program's own, or that may neither read the time
    /// stamp counter nor make a system call.
    pub quiet: u64,
    /// Processes that found all segments taken.
    pub unclaimed: u64,
    /// Forked processes that could not open the shared memory.
    pub unopened: u64,
    /// Processes that began under a seccomp filter that the recorder does not have.
    pub sandboxed: u64,
    /// Processes for whose ring there was no memory.
    pub no_memory: u64,
    /// Processes that did not attach, as their address space is limited.
    pub refused: u64,
    /// Rings whose contents were not records (the program wrote over them).
    pub damaged: u64,
    /// Objects that lived when their process was killed, and had not been told.
    pub untold: u64,
}

/// Allocations that were not told one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortLived {
    /// How many: they had ended before they were recorded.
    pub count: u64,
    /// Their bytes in all.
    pub bytes: u64,
}

/// Installs the agent and says where: for programs of which nothing is recorded, or that are recorded elsewhere.
///
/// # Errors
/// If no directory can hold it.
pub fn library() -> io::Result<PathBuf> {
    install::install()
}

/// The variables that make the loader load `library`. An LD_PRELOAD of the user's own stays, after
/// ours; where ours is in it already, it stays as it is.
pub fn preloading(library: &Path) -> Vec<(OsString, OsString)> {
    let mut preload = library.to_owned().into_os_string();
    if let Some(old) = std::env::var_os("LD_PRELOAD").filter(|old| !old.is_empty()) {
        if old.to_string_lossy().split([':', ' ']).any(|one| Path::new(one) == library) {
            preload = old;
        } else {
            preload.push(":");
            preload.push(old);
        }
    }
    // A program built with GCC's -fsanitize=address refuses to start behind any preload.
    let mut sanitizer = std::env::var_os("ASAN_OPTIONS").unwrap_or_default();
    if !sanitizer.is_empty() {
        sanitizer.push(":");
    }
    sanitizer.push("verify_asan_link_order=0");
    vec![("LD_PRELOAD".into(), preload), ("ASAN_OPTIONS".into(), sanitizer)]
}

/// Where a program with ITT notify finds its collector.
const ITT_COLLECTOR: &str = "INTEL_LIBITTNOTIFY64";

/// The shared memory. It ends with the last process that has it mapped.
pub struct AgentFile {
    shared: Shared,
    library: PathBuf,
    seen: HashMap<usize, Seen>,
    loss: AgentLoss,
    short: ShortLived,
    looked_ns: u64,
    /// Whether a ring was found more than a quarter full: then the next look should come soon.
    pub filling: bool,
    buffer: Vec<u8>,
}

/// What was read of a segment's counters.
#[derive(Clone, Copy, Default)]
struct Seen {
    full: u64,
    busy: u64,
}

impl AgentFile {
    /// Installs the agent and makes the memory through which it reports.
    ///
    /// # Errors
    /// If no directory can hold the agent, or no memory that can be shared.
    pub fn create(settings: &Settings) -> io::Result<AgentFile> {
        AgentFile::of_installed(library()?, settings)
    }

    /// Makes the memory through which the agent reports. The agent is installed at `library`.
    ///
    /// # Errors
    /// If no shared memory can be made.
    pub fn of_installed(library: PathBuf, settings: &Settings) -> io::Result<AgentFile> {
        let shared = Shared::create(settings)?;
        Ok(AgentFile {
            shared,
            library,
            seen: HashMap::new(),
            loss: AgentLoss::default(),
            short: ShortLived::default(),
            looked_ns: 0,
            filling: false,
            buffer: Vec::new(),
        })
    }

    /// The variables to set for the program.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut variables = preloading(&self.library);
        // Programs with ITT notify load their collector by this name. One of the user's own stays.
        if std::env::var_os(ITT_COLLECTOR).is_none_or(|own| own.is_empty()) {
            variables.push((ITT_COLLECTOR.into(), self.library.clone().into_os_string()));
        }
        variables.push(("NEARFAR_AGENT".into(), self.shared.path().into()));
        variables
    }

    /// The shared memory as it shows up among the program's mappings: what their names begin with.
    pub fn mapped_as(&self) -> &'static str {
        shared::MAPPED_AS
    }

    /// Tells the agents to record no more.
    pub fn stop(&self) {
        self.shared.header().stop.store(1, Ordering::Release);
    }

    /// What was lost so far.
    pub fn lost(&self) -> AgentLoss {
        let header = self.shared.header();
        AgentLoss {
            unclaimed: header.unclaimed.load(Ordering::Relaxed),
            refused: header.refused.load(Ordering::Relaxed),
            unopened: header.unopened.load(Ordering::Relaxed),
            sandboxed: header.sandboxed.load(Ordering::Relaxed),
            no_memory: header.no_memory.load(Ordering::Relaxed),
            ..self.loss
        }
    }

    /// Allocations of processes that are gone or were read to their end, which were not told one by one.
    pub fn short_lived(&self) -> ShortLived {
        self.shared.taken().fold(self.short, |sum, index| {
            let segment = self.shared.segment(index);
            ShortLived {
                count: sum.count + segment.short_count.load(Ordering::Relaxed),
                bytes: sum.bytes + segment.short_bytes.load(Ordering::Relaxed),
            }
        })
    }

    /// How many segments are held by processes (also ended ones that were not drained yet).
    pub fn processes(&self) -> usize {
        self.shared.taken().count()
    }

    /// Reads what the processes have written so far: records of one process in their
    /// order, older processes first. Frees the segments of processes that are gone, which are asked for from
    /// time to time: `now_ns` is CLOCK_MONOTONIC.
    pub fn drain(&mut self, now_ns: u64, mut each: impl FnMut(AgentRecord)) {
        self.filling = false;
        self.shared.hand_over();
        let mut claimed: Vec<(u64, usize, u32)> = self
            .shared
            .taken()
            .filter_map(|index| {
                let segment = self.shared.segment(index);
                // Between the bit and this it is still being filled.
                if segment.state.load(Ordering::Acquire) < CLAIMED {
                    return None;
                }
                Some((segment.generation.load(Ordering::Relaxed), index, segment.pid.load(Ordering::Relaxed)))
            })
            .collect();
        claimed.sort_unstable();
        // A later image of the same process has taken its place.
        let newest: HashMap<u32, u64> =
            claimed.iter().map(|&(generation, _, pid)| (pid, generation)).collect();
        // When many come and go, those that are gone must make room.
        let look = now_ns.saturating_sub(self.looked_ns) > LOOK_FOR_ENDS_NS
            || claimed.len() * 2 > self.shared.segments();
        if look {
            self.looked_ns = now_ns;
        }
        for &(generation, index, pid) in &claimed {
            let segment = self.shared.segment(index);
            // First "is it gone", then the reading: what it wrote in between is not missed.
            let closed = segment.state.load(Ordering::Acquire) > CLAIMED;
            let gone = newest[&pid] > generation
                || (look || closed) && !runs(pid, segment.claimed_boot_ns.load(Ordering::Relaxed));
            self.drain_segment(index, pid, generation, &mut each);
            if gone {
                self.free_segment(index);
            }
        }
    }

    fn drain_segment(&mut self, index: usize, pid: u32, generation: u64, each: &mut impl FnMut(AgentRecord)) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let segment = self.shared.segment(index);
        let head = segment.head.load(Ordering::Acquire);
        // Behind the head: a writer that could not grow its ring lowers this before it goes around.
        let ring = u64::from(segment.ring_bytes.load(Ordering::Acquire)).min(self.shared.ring_bytes());
        let mut tail = segment.tail.load(Ordering::Relaxed);
        let mut time_ns = 0;
        let waiting = head.wrapping_sub(tail);
        if waiting > ring || ring == 0 {
            self.loss.damaged += 1;
            segment.tail.store(head, Ordering::Release);
            tail = head;
        }
        self.filling |= waiting > ring / 4;
        while tail < head {
            // Records never cross the ring's end; a piece ends with it or with the head.
            let place = tail % ring;
            let bytes = (head - tail).min(ring - place) as usize;
            self.shared.copy_ring(index, place, bytes, &mut buffer);
            segment.tail.store(tail + bytes as u64, Ordering::Release);
            tail += bytes as u64;
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                let Some((record, after)) = parse::split(rest) else {
                    self.loss.damaged += 1;
                    break;
                };
                rest = after;
                if let Some((head, body)) = record.and_then(parse::parse) {
                    time_ns = head.time;
                    each(AgentRecord { pid, generation, tid: head.tid, time_ns, body });
                }
            }
        }
        self.buffer = buffer;
        let now = Seen {
            full: segment.lost_full.load(Ordering::Relaxed),
            busy: segment.lost_busy.load(Ordering::Relaxed),
        };
        let before = self.seen.insert(index, now).unwrap_or_default();
        let (full, busy) = (now.full.saturating_sub(before.full), now.busy.saturating_sub(before.busy));
        self.loss.ring_full += full;
        self.loss.busy += busy;
        for (count, why) in [(full, LostWhy::RingFull), (busy, LostWhy::Busy)] {
            if count > 0 {
                let body = AgentBody::Lost { count, why };
                each(AgentRecord { pid, generation, tid: pid, time_ns, body });
            }
        }
    }

    fn free_segment(&mut self, index: usize) {
        let segment = self.shared.segment(index);
        self.short.count += segment.short_count.load(Ordering::Relaxed);
        self.short.bytes += segment.short_bytes.load(Ordering::Relaxed);
        self.loss.untold += segment.untold.load(Ordering::Relaxed);
        self.loss.quiet += segment.lost_quiet.load(Ordering::Relaxed);
        self.seen.remove(&index);
        self.shared.free(index);
    }
}

impl Drop for AgentFile {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the process that claimed a segment still runs. A number that was given to
/// another process since began later than the claim; a zombie leader with other
/// threads still runs.
fn runs(pid: u32, claimed_boot_ns: u64) -> bool {
    let Some(stat) = nearfar_host::proc::stat(pid) else {
        return false;
    };
    // SAFETY: sysconf only reads.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let reused = claimed_boot_ns != 0 && stat.started * (1_000_000_000 / hz) > claimed_boot_ns + 50_000_000;
    !(reused || (matches!(stat.state, 'Z' | 'X') && stat.threads <= 1))
}
