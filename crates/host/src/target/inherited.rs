//! What this process was started with, read before Rust's runtime and we ourselves change it, and
//! given to the program that is run: it should find what it would find without us.

use crate::proc;
use nearfar_figures::sizes::capacity;
use std::cell::UnsafeCell;
use std::process::ExitCode;

/// A kind of resource limit, as the C library has it.
#[cfg(target_env = "musl")]
pub type Resource = libc::c_int;
/// A kind of resource limit, as the C library has it.
#[cfg(not(target_env = "musl"))]
pub type Resource = libc::__rlimit_resource_t;

/// One past the highest signal.
const SIGNALS: usize = 65;
/// Kinds of resource limits, RLIMIT_CPU (0) to RLIMIT_RTTIME (15).
const LIMITS: usize = 16;
/// Limits of which we take all that we may have: they are the program's, and seldom meant for us.
/// Others change what a process is (stack, core files, priorities) and stay.
const RAISED: [Resource; 8] = [
    libc::RLIMIT_CPU,
    libc::RLIMIT_FSIZE,
    libc::RLIMIT_DATA,
    libc::RLIMIT_AS,
    libc::RLIMIT_NOFILE,
    libc::RLIMIT_NPROC,
    libc::RLIMIT_MEMLOCK,
    libc::RLIMIT_SIGPENDING,
];
/// Stack of the thread that does all the work, bytes, and smaller ones where that much cannot be had.
/// `ulimit -s` is the program's: 64 KiB are little for a symboliser.
const STACKS: [usize; 4] = [8 << 20, 2 << 20, 1 << 20, 512 << 10];
/// Of what `ulimit -d` leaves, that stack takes so much at most: the rest is for what is allocated. Reading the command line, built without optimisation,
/// takes more than 512 KiB of stack, and fails with 300 KiB of data beside it. // measured
const MOST_OF_DATA: f64 = 0.6;

/// What a process gets from the one that started it and keeps over an exec.
struct Inherited {
    ignored: [bool; SIGNALS],
    mask: libc::sigset_t,
    limits: [Option<libc::rlimit>; LIMITS],
    /// Of the descriptors 0, 1 and 2. Rust's runtime opens /dev/null in place of closed ones.
    closed: [bool; 3],
}

struct Place(UnsafeCell<Option<Inherited>>);

// SAFETY: written once by `look`, before `main` and so before there is a second thread; read later only.
unsafe impl Sync for Place {}

static AT_START: Place = Place(UnsafeCell::new(None));

/// The loader calls these before `main`; Rust's runtime sets SIGPIPE to ignored in its beginning.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: plain system calls into values of our own; all zeros are valid in each of them.
    unsafe {
        let mut seen = Inherited {
            ignored: [false; SIGNALS],
            mask: std::mem::zeroed(),
            limits: [None; LIMITS],
            closed: [false; 3],
        };
        for (signal, ignored) in seen.ignored.iter_mut().enumerate().skip(1) {
            let mut action: libc::sigaction = std::mem::zeroed();
            // Refused for those that the C library keeps for itself (32, 33).
            let got = libc::sigaction(signal as i32, std::ptr::null(), &mut action) == 0;
            *ignored = got && action.sa_sigaction == libc::SIG_IGN;
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut seen.mask);
        for (kind, limit) in seen.limits.iter_mut().enumerate() {
            let mut value = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(kind as Resource, &mut value) == 0 {
                *limit = Some(value);
            }
        }
        for (fd, closed) in seen.closed.iter_mut().enumerate() {
            *closed = libc::fcntl(fd as i32, libc::F_GETFD) < 0;
        }
        *AT_START.0.get() = Some(seen);
    }
}

fn at_start() -> &'static Inherited {
    // SAFETY: see `Place`.
    unsafe { (*AT_START.0.get()).as_ref().expect("it is looked at before main") }
}

/// Whether this signal was ignored when we were started (`nohup`, `&` in a script).
pub(super) fn ignored(signal: i32) -> bool {
    at_start().ignored.get(signal as usize).copied().unwrap_or(false)
}

/// A resource limit as it was when we were started; `None` if the kernel does not know it.
pub fn limit(kind: Resource) -> Option<libc::rlimit> {
    at_start().limits.get(kind as usize).copied().flatten()
}

/// Gives this process, the child of a fork, the signals that we were started with: first what happens
/// at each, then the mask, so that what came meanwhile is delivered now. Async-signal-safe.
pub(super) fn restore_signals() {
    let start = at_start();
    // SAFETY: plain system calls on values that live across them.
    unsafe {
        for signal in 1..SIGNALS as i32 {
            let to = if start.ignored[signal as usize] { libc::SIG_IGN } else { libc::SIG_DFL };
            // Refused for SIGKILL, SIGSTOP and the C library's own.
            libc::signal(signal, to);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &start.mask, std::ptr::null_mut());
    }
}

/// Gives this process the limits that we were started with. Async-signal-safe.
pub(super) fn restore_limits() {
    for (kind, limit) in at_start().limits.iter().enumerate() {
        let Some(limit) = limit else { continue };
        let kind = kind as Resource;
        let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: plain system calls on values that live across them.
        unsafe {
            libc::getrlimit(kind, &mut now);
            if (now.rlim_cur, now.rlim_max) != (limit.rlim_cur, limit.rlim_max) {
                libc::setrlimit(kind, limit);
            }
        }
    }
}

/// Closes those of the descriptors 0, 1 and 2 that were closed. Async-signal-safe.
pub(super) fn restore_streams() {
    for (fd, closed) in at_start().closed.iter().enumerate() {
        if *closed {
            // SAFETY: /dev/null, which Rust's runtime opened there.
            unsafe { libc::close(fd as i32) };
        }
    }
}

/// Runs `main` as a tool that outlives the limits of the program that it runs: on a stack of its own
/// size, with the limits that it may have, without death by a file that grew too long, and with
/// children that can be waited for. Where a thread cannot be had, it runs in place.
pub fn run_main(main: fn() -> ExitCode) -> ExitCode {
    // SAFETY: dispositions, set before any other thread runs; what was there is kept for the program.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        // Ignored, the kernel would wait for our children in our place.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    die_when_told();
    for kind in RAISED {
        if let Some(limit) = limit(kind) {
            let all = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            // SAFETY: reads one rlimit. What is refused stays as it is.
            unsafe { libc::setrlimit(kind as Resource, &all) };
        }
    }
    let data = limit(libc::RLIMIT_DATA).map_or(f64::INFINITY, |limit| limit.rlim_max as f64);
    for stack in STACKS.into_iter().filter(|&stack| stack as f64 <= MOST_OF_DATA * data) {
        let thread = std::thread::Builder::new().name("nearfar".into()).stack_size(stack);
        let Ok(thread) = thread.spawn(main) else { continue };
        // Signals are the other thread's: they wake it from its waits.
        block_all();
        return thread.join().unwrap_or(ExitCode::from(101));
    }
    main()
}

/// Address space and data that a recorder needs while a small program runs, bytes; measured: 60 MB of
/// address space were too little and 200 MB enough, for data 20 MB and 64 MB. Every thread's heap
/// reserves 64 MB of address space.
const LEAST: [(Resource, u64, &str); 2] =
    [(libc::RLIMIT_AS, 192 << 20, "ulimit -v"), (libc::RLIMIT_DATA, 64 << 20, "ulimit -d")];

/// Why this process cannot record: it may not have the memory that recording takes and would end in the middle, or what
/// /proc says of the program's number is of another process.
pub fn too_little_to_record() -> Option<String> {
    if let Some(why) = proc::foreign() {
        return Some(why);
    }
    LEAST.into_iter().find_map(|(kind, least, command)| {
        let most = limit(kind)?.rlim_max;
        (most < least).then(|| {
            format!(
                "memory is limited to {} ({command}), and the recorder needs {}",
                capacity(most),
                capacity(least)
            )
        })
    })
}

/// Why it is left to `nearfar report` to finish a recording: that takes memory and CPU time by the size of
/// what was recorded, and to run out of them would cost the program's exit status.
pub fn too_little_to_finish() -> Option<&'static str> {
    let limits = [
        (libc::RLIMIT_CPU, "CPU time is limited (ulimit -t)"),
        (libc::RLIMIT_AS, "memory is limited (ulimit -v)"),
        (libc::RLIMIT_DATA, "memory is limited (ulimit -d)"),
    ];
    let limited = |kind| limit(kind).is_some_and(|limit| limit.rlim_max != libc::RLIM_INFINITY);
    limits.into_iter().find_map(|(kind, why)| limited(kind).then_some(why))
}

/// Blocks all signals in this thread and gives the mask that was there.
pub(super) fn block_all() -> libc::sigset_t {
    // SAFETY: sets of our own, valid as zeros.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// What Rust's runtime does at SIGSEGV and SIGBUS: it looks for an overflown stack.
static OF_RUST: [OfRust; 2] = [const { OfRust(UnsafeCell::new(None)) }; 2];

struct OfRust(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: written by `die_when_told`, before there is a second thread and before its handler is there.
unsafe impl Sync for OfRust {}

/// Rust's handler takes every SIGSEGV and SIGBUS for a fault of ours, which it expects to happen again when
/// it returns. One that another process sent would be lost: it should end us as it does others.
fn die_when_told() {
    for (place, signal) in OF_RUST.iter().zip([libc::SIGSEGV, libc::SIGBUS]) {
        // SAFETY: values of our own, valid as zeros; a handler of async-signal-safe calls, on the stack
        // that Rust made for its own.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            *place.0.get() = Some(before);
            let mut action = before;
            action.sa_sigaction = fault as extern "C" fn(_, _, _) as usize;
            action.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; what Rust had is put back as it was.
    unsafe {
        if (*info).si_code <= 0 {
            libc::signal(signal, libc::SIG_DFL);
            // Delivered when this handler returns.
            libc::raise(signal);
        } else if let Some(before) = &*OF_RUST[usize::from(signal == libc::SIGBUS)].0.get() {
            libc::sigaction(signal, before, std::ptr::null_mut());
        }
    }
}
