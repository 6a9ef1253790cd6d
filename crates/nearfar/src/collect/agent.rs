//! The recorder's side of the preload agent: creates the shared file, installs the
//! agent's shared object, reads the records.
//!
//! The protocol is described in `agent/protocol.h`; the structures here mirror it.

mod install;
mod records;

pub use records::{AgentBody, AgentRecord, Allocation, AllocationKind, LostWhy};

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = 0x3154_4e47_4152_464e;
const VERSION: u32 = 1;
const SEGMENTS: usize = 256;
const RING_BYTES: usize = 1 << 20;
const TABLE_OFFSET: usize = 4096;
const RESERVED_OFFSET: usize = 40960;
const RINGS_OFFSET: usize = 131_072;
const FILE_BYTES: usize = RINGS_OFFSET + SEGMENTS * RING_BYTES;
const SET_MAPS: u32 = 1;
const SET_DOORBELL: u32 = 2;
const CLAIMED: u32 = 1;

/// What the agent is to record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Allocations and mappings of at least this size are recorded one by one.
    pub min_object_bytes: u64,
    /// Of smaller allocations one per so many bytes and thread; 0 = none.
    pub small_sample_bytes: u64,
    /// Most pages of an object whose home is looked up at its end; 0 = none.
    pub home_pages: u32,
    /// Samples per second of CPU time and thread on the signal rung; 0 = off.
    pub signal_hz: u32,
    /// Send /proc/PID/maps at the begin and end of each image (where perf does not tell mappings).
    pub maps: bool,
    /// Ring the doorbell of the virtual machine's plugin (agent/doorbell.c).
    pub doorbell: bool,
    /// Where the shared file goes; `None`: /dev/shm.
    pub directory: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            min_object_bytes: 64 << 10,
            small_sample_bytes: 64 << 10,
            home_pages: 1024,
            signal_hz: 0,
            maps: false,
            doorbell: false,
            directory: None,
        }
    }
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: u32,
    recorder_pid: u32,
    stop: AtomicU32,
    signal_hz: u32,
    min_object: u64,
    small_sample: u64,
    home_pages: u32,
    flags: u32,
    generation: AtomicU64,
    unclaimed: AtomicU64,
    refused: AtomicU64,
    reserved_offset: u64,
    reserved_bytes: u64,
}

#[repr(C)]
struct Segment {
    pid: AtomicU32,
    state: AtomicU32,
    generation: AtomicU64,
    claimed_boot_ns: AtomicU64,
    lost_full: AtomicU64,
    lost_busy: AtomicU64,
    unused: [u64; 3],
    head: AtomicU64,
    unused2: [u64; 3],
    tail: AtomicU64,
    unused3: [u64; 3],
}

const _: () = assert!(size_of::<Header>() == 88 && size_of::<Segment>() == 128);

/// What was not recorded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentLoss {
    /// Records dropped because a ring was full: the recorder was too slow.
    pub ring_full: u64,
    /// Records dropped because a signal handler met the writer's lock.
    pub busy: u64,
    /// Processes that found all segments taken.
    pub unclaimed: u64,
    /// Processes that did not attach, as their address space is limited.
    pub refused: u64,
    /// Rings whose contents were not records (the program wrote over them).
    pub damaged: u64,
}

/// The agent as a file, for programs of which nothing is recorded.
///
/// # Errors
/// If there is no place for it.
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

/// The shared file. Removed when dropped; processes that still run keep their mapping.
pub struct AgentFile {
    path: PathBuf,
    library: PathBuf,
    base: *mut u8,
    seen: Vec<(u64, u64)>,
    loss: AgentLoss,
    buffer: Vec<u8>,
}

// SAFETY: `base` is a mapping that this value owns; nothing in it is tied to a thread.
unsafe impl Send for AgentFile {}

impl AgentFile {
    /// Installs the agent and creates the file through which it reports.
    pub fn create(settings: &Settings) -> io::Result<AgentFile> {
        let library = install::install()?;
        let directory = settings.directory.as_deref().unwrap_or(Path::new("/dev/shm"));
        let (path, file) = create_file(directory)?;
        let map = || {
            file.set_len(FILE_BYTES as u64)?;
            // SAFETY: a new shared mapping of a file that we own and that is FILE_BYTES long.
            let base = unsafe {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(ptr::null_mut(), FILE_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast::<u8>()) }
        };
        let base = map().map_err(|error| {
            let _ = fs::remove_file(&path);
            naming(&path, error)
        })?;
        let header = Header {
            magic: AtomicU64::new(0),
            version: VERSION,
            recorder_pid: std::process::id(),
            stop: AtomicU32::new(0),
            signal_hz: settings.signal_hz,
            min_object: settings.min_object_bytes.max(1),
            small_sample: settings.small_sample_bytes.min(i64::MAX as u64),
            home_pages: settings.home_pages,
            flags: if settings.maps { SET_MAPS } else { 0 }
                | if settings.doorbell { SET_DOORBELL } else { 0 },
            generation: AtomicU64::new(0),
            unclaimed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            reserved_offset: RESERVED_OFFSET as u64,
            reserved_bytes: (RINGS_OFFSET - RESERVED_OFFSET) as u64,
        };
        // SAFETY: the mapping is page-aligned and larger than a header, and nobody else knows it yet.
        unsafe { ptr::write(base.cast::<Header>(), header) };
        let seen = vec![(0, 0); SEGMENTS];
        let file = AgentFile { path, library, base, seen, loss: AgentLoss::default(), buffer: Vec::new() };
        file.header().magic.store(MAGIC, Ordering::Release);
        Ok(file)
    }

    /// The variables to set for the program.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut variables = preloading(&self.library);
        variables.push(("NEARFAR_AGENT".into(), self.path.clone().into()));
        variables
    }

    /// The shared file, as it shows up among the program's mappings.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the agents to record no more.
    pub fn stop(&self) {
        self.header().stop.store(1, Ordering::Release);
    }

    /// What was lost so far.
    pub fn lost(&self) -> AgentLoss {
        AgentLoss {
            unclaimed: self.header().unclaimed.load(Ordering::Relaxed),
            refused: self.header().refused.load(Ordering::Relaxed),
            ..self.loss
        }
    }

    /// How many segments are held by processes (also ended ones that were not drained yet).
    pub fn processes(&self) -> usize {
        (0..SEGMENTS).filter(|&i| self.segment(i).pid.load(Ordering::Relaxed) != 0).count()
    }

    /// Reads what the processes have written so far: records of one process in their
    /// order, older processes first. Frees the segments of processes that are gone.
    pub fn drain(&mut self, mut each: impl FnMut(AgentRecord)) {
        let mut claimed: Vec<(u64, usize, u32)> = (0..SEGMENTS)
            .filter_map(|index| {
                let segment = self.segment(index);
                let pid = segment.pid.load(Ordering::Acquire);
                let claimed = segment.state.load(Ordering::Acquire) >= CLAIMED;
                let generation = if claimed { segment.generation.load(Ordering::Relaxed) } else { u64::MAX };
                (pid != 0).then_some((generation, index, pid))
            })
            .collect();
        claimed.sort_unstable();
        for &(generation, index, pid) in &claimed {
            let segment = self.segment(index);
            let replaced = claimed.iter().any(|c| c.2 == pid && c.0 > generation && c.0 != u64::MAX);
            // First "is it gone", then the reading: what it wrote in between is not missed.
            let gone = replaced || !runs(pid, segment.claimed_boot_ns.load(Ordering::Relaxed));
            if generation != u64::MAX {
                self.drain_segment(index, pid, generation, &mut each);
            }
            if gone {
                self.free_segment(index);
            }
        }
    }

    fn drain_segment(&mut self, index: usize, pid: u32, generation: u64, each: &mut impl FnMut(AgentRecord)) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let head = self.segment(index).head.load(Ordering::Acquire);
        let mut tail = self.segment(index).tail.load(Ordering::Relaxed);
        let mut time_ns = 0;
        if head.wrapping_sub(tail) > RING_BYTES as u64 {
            self.loss.damaged += 1;
            self.segment(index).tail.store(head, Ordering::Release);
            tail = head;
        }
        while tail < head {
            // Records never cross the ring's end; a piece ends with it or with the head.
            let place = tail as usize % RING_BYTES;
            let bytes = (head - tail).min((RING_BYTES - place) as u64) as usize;
            buffer.resize(bytes, 0);
            // SAFETY: place + bytes stays within this segment's ring, which is mapped. The program
            // could write there against the protocol: the copy may then hold anything, and is
            // checked as untrusted bytes.
            unsafe {
                let ring = self.base.add(RINGS_OFFSET + index * RING_BYTES + place);
                ptr::copy_nonoverlapping(ring, buffer.as_mut_ptr(), bytes);
            }
            self.segment(index).tail.store(tail + bytes as u64, Ordering::Release);
            tail += bytes as u64;
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                let Some((record, after)) = records::split(rest) else {
                    self.loss.damaged += 1;
                    break;
                };
                rest = after;
                if let Some((head, body)) = record.and_then(records::parse) {
                    time_ns = head.time;
                    each(AgentRecord { pid, generation, tid: head.tid, time_ns, body });
                }
            }
        }
        self.buffer = buffer;
        let segment = self.segment(index);
        let now = (segment.lost_full.load(Ordering::Relaxed), segment.lost_busy.load(Ordering::Relaxed));
        let before = std::mem::replace(&mut self.seen[index], now);
        let (full, busy) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
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
        let segment = self.segment(index);
        if segment.head.load(Ordering::Relaxed) > 1 << 18 {
            // SAFETY: the ring's own pages, which no living process uses: they are read as zeros later.
            // Where the file system cannot do it the memory stays until the file is removed.
            unsafe {
                let ring = self.base.add(RINGS_OFFSET + index * RING_BYTES);
                libc::madvise(ring.cast(), RING_BYTES, libc::MADV_REMOVE);
            }
        }
        for counter in [&segment.head, &segment.tail, &segment.lost_full, &segment.lost_busy] {
            counter.store(0, Ordering::Relaxed);
        }
        segment.state.store(0, Ordering::Relaxed);
        segment.claimed_boot_ns.store(0, Ordering::Relaxed);
        segment.pid.store(0, Ordering::Release);
        self.seen[index] = (0, 0);
    }

    fn header(&self) -> &Header {
        // SAFETY: written in `create`, never unmapped before drop; what changes in it is atomic.
        unsafe { &*self.base.cast::<Header>() }
    }

    fn segment(&self, index: usize) -> &'static Segment {
        assert!(index < SEGMENTS);
        // SAFETY: within the mapping, aligned, all atomics. The mapping lives as long as `self`;
        // the longer lifetime stays inside this type's methods.
        unsafe { &*self.base.add(TABLE_OFFSET).cast::<Segment>().add(index) }
    }
}

impl Drop for AgentFile {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_file(&self.path);
        // SAFETY: mapped in `create` with this length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), FILE_BYTES) };
    }
}

/// Whether the process that claimed a segment still runs. A number that was given to
/// another process since began later than the claim; a zombie leader with other
/// threads still runs.
fn runs(pid: u32, claimed_boot_ns: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let Some((_, fields)) = stat.rsplit_once(')') else {
        return false;
    };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    let (state, threads, start_ticks) = (fields.first().copied().unwrap_or("X"), number(17), number(19));
    // SAFETY: sysconf only reads.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let reused = claimed_boot_ns != 0 && start_ticks * (1_000_000_000 / hz) > claimed_boot_ns + 50_000_000;
    !(reused || (matches!(state, "Z" | "X") && threads <= 1))
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn create_file(directory: &Path) -> io::Result<(PathBuf, File)> {
    let directory = fs::canonicalize(directory).map_err(|error| naming(directory, error))?;
    for attempt in 0..100u32 {
        let path = directory.join(format!("nearfar-{}-{attempt}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(naming(&path, error)),
        }
    }
    Err(io::Error::other(format!("{}: 100 old nearfar files are in the way", directory.display())))
}
