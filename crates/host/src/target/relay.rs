//! Signals that are sent to the recorder are for the program: the user who started
//! `nearfar record -- app` knows no other process.
//!
//! - What a process sent (`si_code` ≤ 0) is passed on, with its value. What the terminal or the kernel
//!   sent went to the whole process group, so the program has it already.
//! - When the program stops (Ctrl-Z, SIGTTIN, SIGTTOU), so does the recorder, by the same signal: its
//!   starter sees what it would have seen. SIGCONT continues both.
//! - SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGKILL and SIGSTOP are the recorder's own. If it
//!   dies of one, the program goes on, unrecorded from there.
//! - Once the program has ended, signals mean the recorder.
//!
//! A process that signals the whole group (`kill -INT -GROUP`) cannot be told from one that signals the
//! recorder: the program then gets the signal twice.

use super::inherited;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// All that can be caught and do not mean that the recorder itself is broken.
const PASSED: [i32; 23] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGURG,
    libc::SIGCHLD,
    libc::SIGWINCH,
    libc::SIGPIPE,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGSYS,
];

/// The program; 0 before there is one and after it ended.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Refers to it; −1 on kernels before 5.3.
static PIDFD: AtomicI32 = AtomicI32::new(-1);
/// Handlers at work. The program is reaped, and its number free for others, once there are none.
static BUSY: AtomicI32 = AtomicI32::new(0);
/// We stopped because the program had.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Set by Ctrl-C (or SIGTERM, SIGHUP) while no program of ours runs.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The first of these signals; 0 before.
static INTERRUPTED_BY: AtomicI32 = AtomicI32::new(0);

/// The signal that set [`INTERRUPTED`].
pub fn interrupted_by() -> Option<i32> {
    Some(INTERRUPTED_BY.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
}

/// While attached, Ctrl-C ends the recording, not the program. A signal that we were started to ignore (`nohup`, `&` in a
/// script) stays ignored.
pub fn interrupt_ends_recording() {
    extern "C" fn handler(signal: i32) {
        let _ = INTERRUPTED_BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().filter(|&s| !inherited::ignored(s))
    {
        // SAFETY: a handler that only stores atomics.
        unsafe { libc::signal(signal, handler as extern "C" fn(i32) as libc::sighandler_t) };
    }
}

/// Signals do to us what they did when we were started, except for three: a recording that reaches a limit
/// of file sizes should end in order, a reader that is gone ends us silently, and children are waited for.
pub fn signals_are_ours() {
    for signal in passed() {
        let to = match signal {
            libc::SIGXFSZ => libc::SIG_IGN,
            libc::SIGPIPE | libc::SIGCHLD => libc::SIG_DFL,
            _ if inherited::ignored(signal) => libc::SIG_IGN,
            _ => libc::SIG_DFL,
        };
        // SAFETY: sets a disposition.
        unsafe { libc::signal(signal, to) };
    }
}

fn passed() -> impl Iterator<Item = i32> {
    PASSED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// From now on signals sent to us go to the child `pid`.
pub(super) fn begin(pid: libc::pid_t, pidfd: Option<&OwnedFd>) {
    // A descriptor of our own: the program's handle may be dropped while a handler uses it.
    let own = pidfd.and_then(|fd| fd.try_clone().ok());
    PIDFD.store(own.map_or(-1, IntoRawFd::into_raw_fd), Ordering::SeqCst);
    CHILD.store(pid, Ordering::SeqCst);
    // SAFETY: a handler that makes async-signal-safe calls only; sets of our own. Blocked by our
    // starter, signals would never come to be passed on; the program has the mask that we had.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in passed() {
            libc::sigaction(signal, &action, std::ptr::null_mut());
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

/// The child `pid` has ended and is about to be reaped: its number is signalled no more, and signals
/// are ours again.
pub(super) fn end(pid: libc::pid_t) {
    if CHILD.compare_exchange(pid, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return;
    }
    while BUSY.load(Ordering::SeqCst) > 0 {
        std::hint::spin_loop();
    }
    let fd = PIDFD.swap(-1, Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: the descriptor that `begin` made, used by no handler any more.
        unsafe { libc::close(fd) };
    }
    signals_are_ours();
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo. All calls are async-signal-safe; errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        BUSY.fetch_add(1, Ordering::SeqCst);
        let child = CHILD.load(Ordering::SeqCst);
        let sent = (*info).si_code <= 0;
        // A write to a closed pipe, or beyond a limit of file sizes, looks as if we had sent the signal.
        let own = (*info).si_code == libc::SI_USER && (*info).si_pid() == libc::getpid();
        // A shell's `fg` continues the group: the program has it if it does not stand still.
        let has_it =
            signal == libc::SIGCONT && STOPPED.swap(false, Ordering::SeqCst) && stopped_by(child).is_none();
        if child != 0 && sent && !own && !has_it {
            send(child, signal, info);
        }
        let stopped = if child != 0 && signal == libc::SIGCHLD { stopped_by(child) } else { None };
        BUSY.fetch_sub(1, Ordering::SeqCst);
        if let Some(by @ (libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)) = stopped {
            stop(by);
        }
        // The program has just ended, and this was sent to us.
        let late = child == 0 && sent && !own && !inherited::ignored(signal);
        // A system call of ours was forbidden in a way that should end us.
        if late || (signal == libc::SIGSYS && !sent) {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// Passes a signal on as it came.
///
/// # Safety
/// `child` is a child that was not reaped; `info` is valid.
unsafe fn send(child: libc::pid_t, signal: i32, info: *const libc::siginfo_t) {
    let plain: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: as promised by the caller.
    unsafe {
        // The kernel lets no process hand on what kill and tgkill sent: these look as if we had sent them.
        let queued = (*info).si_code < 0 && (*info).si_code != libc::SI_TKILL;
        let fd = PIDFD.load(Ordering::SeqCst);
        if fd >= 0 {
            let with = |info: *const libc::siginfo_t| {
                libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) == 0
            };
            // Without room for its value (ulimit -i) the signal still counts.
            if with(if queued { info } else { plain }) || (queued && with(plain)) {
                return;
            }
        }
        // Before Linux 5.1, or where a filter does not know the call.
        if queued && libc::syscall(libc::SYS_rt_sigqueueinfo, child, signal, info) == 0 {
            return;
        }
        libc::kill(child, signal);
    }
}

/// The signal by which a child stands still now.
fn stopped_by(child: libc::pid_t) -> Option<i32> {
    if child == 0 {
        return None;
    }
    // SAFETY: the kernel fills a siginfo of ours; the child stays as it is (WNOWAIT).
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
        let got = libc::waitid(libc::P_PID, child as libc::id_t, &mut info, flags);
        (got == 0 && info.si_pid() == child && info.si_code == libc::CLD_STOPPED).then(|| info.si_status())
    }
}

/// Stops this process as the signal does by default, until SIGCONT.
///
/// # Safety
/// Within the handler: async-signal-safe calls only.
unsafe fn stop(signal: i32) {
    STOPPED.store(true, Ordering::SeqCst);
    // SAFETY: values of our own, valid as zeros.
    unsafe {
        let (mut default, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &default, &mut before);
        let (mut set, mut mask): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::raise(signal);
        // Here we stand still. In a process group without a shell the kernel does not stop anybody.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, &mut mask);
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        libc::sigaction(signal, &before, std::ptr::null_mut());
    }
}
