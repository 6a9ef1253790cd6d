//! A process that puts the terminal in order when this one is killed: SIGKILL, as the kernel sends it when memory is short, lets
//! nothing be done afterwards by the one that gets it.
//!
//! It waits at a pipe whose other end this process has. A byte means that the terminal is in order; the end of the pipe without
//! one, that this process is gone.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Our end of the pipe; −1 without such a process.
static END: AtomicI32 = AtomicI32::new(-1);
/// What leaves the screen and shows the cursor.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";

/// Starts that process. Call it before the settings of the terminal are changed. If it cannot be started, only a SIGKILL leaves the
/// terminal as it is.
pub(super) fn watch() {
    let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the kernel fills the struct, or says that it did not.
    if unsafe { libc::tcgetattr(libc::STDOUT_FILENO, settings.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled, as the call said.
    let settings = unsafe { settings.assume_init() };
    let Ok((theirs, ours)) = io::pipe() else { return };
    let (theirs, ours) = (OwnedFd::from(theirs), OwnedFd::from(ours));
    let (read, write) = (theirs.as_raw_fd(), ours.as_raw_fd());
    // SAFETY: the child makes async-signal-safe calls only, on values made above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The grandchild waits at the pipe; init reaps it, so this process need not.
        // SAFETY: as above.
        unsafe {
            if libc::fork() == 0 {
                wait_and_restore(read, write, &settings);
            }
            libc::_exit(0)
        }
    }
    if child > 0 {
        // SAFETY: our own child; it ends at once.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        END.store(ours.into_raw_fd(), Ordering::SeqCst);
    }
}

/// The terminal is in order.
pub(super) fn dismiss() {
    let end = END.swap(-1, Ordering::SeqCst);
    if end >= 0 {
        // SAFETY: a descriptor that nothing else has since the swap.
        unsafe {
            libc::write(end, [1u8].as_ptr().cast(), 1);
            libc::close(end);
        }
    }
}

/// What the waiting process does, between fork and exit: async-signal-safe calls only.
///
/// # Safety
/// `read` and `write` are the ends of a pipe, and nothing of this process is used afterwards.
unsafe fn wait_and_restore(read: RawFd, write: RawFd, settings: &libc::termios) -> ! {
    // SAFETY: plain calls on descriptors and values that live as long as this process.
    unsafe {
        // From the background a terminal may be set by who ignores SIGTTOU; what is meant for the screen's process is not for us.
        for signal in [libc::SIGTTOU, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP]
        {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::close(write);
        libc::close(libc::STDIN_FILENO);
        libc::close(libc::STDERR_FILENO);
        // Kernels before 5.9 keep them open: that holds counters and files for as long as the screen is shown.
        libc::syscall(libc::SYS_close_range, 3u32, read as u32 - 1, 0u32);
        libc::syscall(libc::SYS_close_range, read as u32 + 1, u32::MAX, 0u32);
        let mut byte = 0u8;
        loop {
            match libc::read(read, (&raw mut byte).cast(), 1) {
                0 => break,
                n if n < 0 && *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(0),
            }
        }
        libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, settings);
        libc::write(libc::STDOUT_FILENO, LEAVE.as_ptr().cast(), LEAVE.len());
        libc::_exit(0)
    }
}
