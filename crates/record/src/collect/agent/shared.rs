//! The memory that agents and recorder share: made, mapped, its parts found.
//!
//! A memfd, named to the programs as /proc/PID/fd/N: nothing of it is in a file system, which could be full (64 MiB of
//! /dev/shm are a container's default) or where it could be left behind when the recorder is killed.

use super::handover::Counter;
use super::settings::Settings;
use nearfar_host::holder::Holder;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = 0x3154_4e47_4152_464e;
const VERSION: u32 = 4;
const MOST_SEGMENTS: usize = 4096;
const RING_BYTES: usize = 1 << 20;
const RING_STEP: usize = 65536;
const TABLE_OFFSET: usize = 4096;
const SET_MAPS: u32 = 1;
const SET_HYPERCALL: u32 = 2;
const SET_VDSO_CLOCK: u32 = 4;

/// What the names of its mappings begin with in /proc/PID/maps.
pub(super) const MAPPED_AS: &str = nearfar_host::symbols::AGENT_MEMORY;

#[repr(C)]
pub(super) struct Header {
    magic: AtomicU64,
    version: u32,
    recorder_pid: u32,
    pub(super) stop: AtomicU32,
    signal_hz: u32,
    min_object: u64,
    small_sample: u64,
    looked_up_pages: u32,
    flags: u32,
    segments: u32,
    ring_bytes: u32,
    rings_offset: u64,
    alloc_rate: u32,
    alloc_burst: u32,
    seccomp_mode: u32,
    seccomp_filters: u32,
    generation: AtomicU64,
    pub(super) unclaimed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) unopened: AtomicU64,
    pub(super) sandboxed: AtomicU64,
    pub(super) no_memory: AtomicU64,
    filtering: AtomicU32,
    unused: u32,
    taken: [AtomicU64; MOST_SEGMENTS / 64],
}

#[repr(C)]
pub(super) struct Segment {
    pub(super) pid: AtomicU32,
    pub(super) state: AtomicU32,
    pub(super) generation: AtomicU64,
    pub(super) claimed_boot_ns: AtomicU64,
    pub(super) lost_full: AtomicU64,
    pub(super) lost_busy: AtomicU64,
    pub(super) lost_quiet: AtomicU64,
    pub(super) ring_bytes: AtomicU32,
    unused0: u32,
    unused: u64,
    pub(super) head: AtomicU64,
    pub(super) short_count: AtomicU64,
    pub(super) short_bytes: AtomicU64,
    pub(super) untold: AtomicU64,
    unused2: [u64; 4],
    pub(super) tail: AtomicU64,
    unused3: [u64; 7],
}

const _: () = assert!(size_of::<Header>() == 648 && size_of::<Segment>() == 192);

/// How large the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    segments: usize,
    ring_bytes: usize,
}

impl Layout {
    fn rings_offset(self) -> usize {
        (TABLE_OFFSET + self.segments * size_of::<Segment>()).next_multiple_of(RING_STEP)
    }

    fn bytes(self) -> usize {
        self.rings_offset() + self.segments * self.ring_bytes
    }

    /// From the largest down; the smallest is for 64 processes with short rings.
    fn all() -> impl Iterator<Item = Layout> {
        [
            (MOST_SEGMENTS, RING_BYTES),
            (1024, RING_BYTES),
            (256, RING_BYTES),
            (64, RING_BYTES),
            (64, RING_BYTES / 4),
            (64, RING_STEP),
        ]
        .into_iter()
        .map(|(segments, ring_bytes)| Layout { segments, ring_bytes })
    }
}

/// The memory.
pub(super) struct Shared {
    /// Held open: programs open it by its number.
    file: OwnedFd,
    /// Holds it open for programs of another user, who may not look into ours.
    holder: Option<Holder>,
    /// For programs that may not open it by its path.
    counter: Option<Counter>,
    base: *mut u8,
    layout: Layout,
}

// SAFETY: `base` is a mapping that this value owns; nothing in it is tied to a thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Makes the memory as large as the limits allow.
    ///
    /// # Errors
    /// If not even the smallest can be had, or the kernel has no memfd_create (before 3.17).
    pub(super) fn create(settings: &Settings) -> io::Result<Shared> {
        let (mode, filters) = own_filters();
        if mode == 2 && !calls_are_survived() {
            return Err(io::Error::other(
                "a seccomp filter around nearfar ends processes that ask for the nodes of pages or for timers",
            ));
        }
        let file = shared_memory(MAPPED_AS)?;
        if let Some(user) = &settings.user {
            std::os::unix::fs::fchown(&file, Some(user.uid), Some(user.gid))?;
        }
        let mut refused = io::Error::from_raw_os_error(libc::EFBIG);
        for layout in Layout::all().filter(|layout| layout.bytes() as u64 <= settings.most_bytes) {
            match Shared::map(&file, layout) {
                Ok(base) => {
                    let file = OwnedFd::from(file);
                    let holder = settings.user.as_ref().map(|user| Holder::new(&file, user)).transpose()?;
                    let mut shared = Shared { file, holder, counter: None, base, layout };
                    let user = settings.user.as_ref().map(|user| user.uid);
                    shared.counter = Counter::open(&shared.path(), user).ok();
                    shared.write_header(settings, mode, filters);
                    return Ok(shared);
                }
                Err(error) => refused = error,
            }
        }
        let why = match refused.raw_os_error() {
            Some(libc::EFBIG) => "; the limit on the size of files (ulimit -f) is too low",
            Some(libc::ENOMEM) => "; the limit on the address space (ulimit -v) or the memory is too low",
            _ => "",
        };
        Err(io::Error::new(refused.kind(), format!("no memory to share with the program: {refused}{why}")))
    }

    fn map(file: &File, layout: Layout) -> io::Result<*mut u8> {
        let limit = file_size_limit();
        if layout.bytes() as u64 > limit {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.set_len(layout.bytes() as u64)?;
        // Header and table are had at once: where memory is full a later touch would end us, or the program.
        // SAFETY: plain system call on our own descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, layout.rings_offset() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new shared mapping of a file that we own and that is so long.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                layout.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
    }

    fn write_header(&self, settings: &Settings, seccomp_mode: u32, seccomp_filters: u32) {
        let mut flags = 0;
        for (on, flag) in [
            (settings.maps, SET_MAPS),
            (settings.hypercall, SET_HYPERCALL),
            (clock_without_a_call(), SET_VDSO_CLOCK),
        ] {
            flags |= if on { flag } else { 0 };
        }
        let header = Header {
            magic: AtomicU64::new(0),
            version: VERSION,
            recorder_pid: std::process::id(),
            stop: AtomicU32::new(0),
            signal_hz: settings.signal_hz,
            min_object: settings.min_object_bytes.max(1),
            small_sample: settings.small_sample_bytes.min(i64::MAX as u64),
            looked_up_pages: settings.looked_up_pages,
            flags,
            segments: self.layout.segments as u32,
            ring_bytes: self.layout.ring_bytes as u32,
            rings_offset: self.layout.rings_offset() as u64,
            alloc_rate: settings.alloc_rate,
            alloc_burst: settings.alloc_burst,
            seccomp_mode,
            seccomp_filters,
            generation: AtomicU64::new(0),
            unclaimed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unopened: AtomicU64::new(0),
            sandboxed: AtomicU64::new(0),
            no_memory: AtomicU64::new(0),
            filtering: AtomicU32::new(0),
            unused: 0,
            taken: [const { AtomicU64::new(0) }; MOST_SEGMENTS / 64],
        };
        // SAFETY: the mapping is page-aligned and larger than a header, and nothing else knows it yet.
        unsafe { ptr::write(self.base.cast::<Header>(), header) };
        self.header().magic.store(MAGIC, Ordering::Release);
    }

    /// How programs open it.
    pub(super) fn path(&self) -> PathBuf {
        match &self.holder {
            Some(holder) => holder.path(),
            None => PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())),
        }
    }

    /// Answers the programs that ask for it.
    pub(super) fn hand_over(&self) {
        if let Some(counter) = &self.counter {
            counter.answer(&self.file);
        }
    }

    pub(super) fn segments(&self) -> usize {
        self.layout.segments
    }

    /// Longest ring.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.layout.ring_bytes as u64
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: written in `create`, never unmapped before drop; what changes in it is atomic.
        unsafe { &*self.base.cast::<Header>() }
    }

    pub(super) fn segment(&self, index: usize) -> &'static Segment {
        assert!(index < self.layout.segments);
        // SAFETY: within the mapping, aligned, all atomics. The mapping lives as long as `self`;
        // the longer lifetime stays inside the methods of who owns `self`.
        unsafe { &*self.base.add(TABLE_OFFSET).cast::<Segment>().add(index) }
    }

    /// Segments that processes have claimed.
    pub(super) fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.layout.segments / 64).flat_map(|word| {
            let mut bits = self.header().taken[word].load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                (bits != 0).then(|| {
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        })
    }

    /// Copies a part of a ring, which must not go beyond the ring's end.
    pub(super) fn copy_ring(&self, index: usize, place: u64, bytes: usize, to: &mut Vec<u8>) {
        let place = place as usize;
        assert!(index < self.layout.segments && place + bytes <= self.layout.ring_bytes);
        to.resize(bytes, 0);
        // SAFETY: within this segment's ring, which is mapped. The program could write there against the protocol:
        // the copy may then hold anything, and is checked as untrusted bytes.
        unsafe { ptr::copy_nonoverlapping(self.ring(index).add(place), to.as_mut_ptr(), bytes) };
    }

    fn ring(&self, index: usize) -> *mut u8 {
        // SAFETY: the index is within the table, so this is within the mapping.
        unsafe { self.base.add(self.layout.rings_offset() + index * self.layout.ring_bytes) }
    }

    /// Gives a segment back whose process is gone and whose ring is read.
    pub(super) fn free(&self, index: usize) {
        let segment = self.segment(index);
        if segment.head.load(Ordering::Relaxed) > 4 * RING_STEP as u64 {
            // SAFETY: the ring's own pages, which no living process uses: they are read as zeros later.
            unsafe { libc::madvise(self.ring(index).cast(), self.layout.ring_bytes, libc::MADV_REMOVE) };
        }
        for counter in [
            &segment.head,
            &segment.tail,
            &segment.lost_full,
            &segment.lost_busy,
            &segment.lost_quiet,
            &segment.short_count,
            &segment.short_bytes,
            &segment.untold,
            &segment.claimed_boot_ns,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        segment.pid.store(0, Ordering::Relaxed);
        segment.state.store(0, Ordering::Release);
        self.header().taken[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `create` with this length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.layout.bytes()) };
    }
}

/// Memory that programs open by our number and a descriptor, and only those of this user. `mapped_as`: what its
/// name is among their mappings, "/memfd:" first.
///
/// # Errors
/// If the kernel has no memfd_create (before 3.17), or no descriptor is left.
pub fn shared_memory(mapped_as: &str) -> io::Result<File> {
    let name = CString::new(mapped_as.trim_start_matches("/memfd:"))?;
    // SAFETY: a NUL-terminated name; the result is checked.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else has.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// RLIMIT_FSIZE, bytes: beyond it a file may not grow, not even one in memory.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Mode and number of the seccomp filters that we run under, as /proc/self/status has them; `u32::MAX` where the
/// kernel does not say.
fn own_filters() -> (u32, u32) {
    let me = std::process::id();
    let status = nearfar_host::proc::status(me, me).unwrap_or_default();
    let number =
        |name| nearfar_host::proc::field(&status, name).and_then(|v| v.parse().ok()).unwrap_or(u32::MAX);
    (number("Seccomp"), number("Seccomp_filters"))
}

/// Whether a process under our own filters survives the calls that the agent makes.
fn calls_are_survived() -> bool {
    // SAFETY: the child makes plain system calls whose arguments cannot do anything, and ends.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let none = ptr::null_mut::<libc::c_void>();
            libc::syscall(libc::SYS_move_pages, 0, 0usize, none, none, none, 0);
            libc::syscall(libc::SYS_timer_create, -1, none, none);
            libc::syscall(libc::SYS_timer_settime, -1, 0, none, none);
            libc::syscall(libc::SYS_timer_delete, -1);
            libc::syscall(libc::SYS_process_vm_readv, libc::getpid(), none, 0usize, none, 0usize, 0usize);
            libc::syscall(libc::SYS_fallocate, -1, 0, 0u64, 0u64);
            libc::syscall(libc::SYS_madvise, none, 0usize, libc::MADV_WIPEONFORK);
            libc::syscall(libc::SYS_prctl, libc::PR_GET_TSC, none);
            libc::syscall(libc::SYS_gettid);
            libc::syscall(libc::SYS_getppid);
            libc::syscall(libc::SYS_getcpu, none, none, none);
            libc::_exit(0);
        }
        let mut status = 0;
        pid > 0 && libc::waitpid(pid, &mut status, 0) == pid && libc::WIFEXITED(status)
    }
}

/// Whether the kernel's clock is read without a system call here: by the clock source that it uses.
fn clock_without_a_call() -> bool {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    // Those for which Linux sets a vDSO mode (arch/x86, drivers/clocksource).
    let known = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    source.is_ok_and(|source| known.contains(&source.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_is_what_the_agent_takes_and_smaller_than_the_one_before() {
        let all: Vec<Layout> = Layout::all().collect();
        for layout in &all {
            assert!(layout.segments.is_multiple_of(64) && layout.segments <= MOST_SEGMENTS);
            assert!(layout.ring_bytes.is_multiple_of(RING_STEP) && layout.ring_bytes <= RING_BYTES);
        }
        assert!(all.windows(2).all(|pair| pair[0].bytes() > pair[1].bytes()));
    }

    #[test]
    fn less_memory_gives_fewer_segments_and_none_an_error() {
        let make = |most_bytes| Shared::create(&Settings { most_bytes, ..Settings::default() });
        assert_eq!(make(u64::MAX).unwrap().segments(), 4096);
        assert_eq!(make(300 << 20).unwrap().segments(), 256);
        assert_eq!(make(8 << 20).unwrap().ring_bytes(), 64 << 10);
        assert!(make(1 << 20).is_err());
    }
}
