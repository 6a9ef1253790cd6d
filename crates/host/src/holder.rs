//! A process that keeps a descriptor open for a program of another user (`record --user`).
//!
//! What has no name (a memfd) is reached as /proc/PID/fd/N, and the kernel opens that only for the user
//! of PID. The recorder is root's then. So a child becomes the program's user and holds the descriptor;
//! it is our own binary anew, so that nothing of the recorder's memory is in it for that user to read, and
//! all other descriptors are closed. It ends with the thread that made it.

use super::target::User;
use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The hidden command as which it waits.
pub const COMMAND: &str = "hold";

/// The process; it ends when this is dropped.
pub struct Holder {
    pid: libc::pid_t,
    number: RawFd,
}

impl Holder {
    /// Holds the file behind `fd` for `user`, until dropped.
    ///
    /// # Errors
    /// If no process can be made, or it cannot become that user.
    pub fn new(fd: &OwnedFd, user: &User) -> io::Result<Holder> {
        Holder::of(Path::new("/proc/self/exe"), fd, user)
    }

    /// The same with `nearfar` for the program's file.
    ///
    /// # Errors
    /// As [`Holder::new`].
    pub fn of(nearfar: &Path, fd: &OwnedFd, user: &User) -> io::Result<Holder> {
        let (file, word) = (CString::new(nearfar.as_os_str().as_bytes())?, CString::new(COMMAND)?);
        let arguments = [c"nearfar".as_ptr(), word.as_ptr(), std::ptr::null()];
        let nothing: [*const libc::c_char; 1] = [std::ptr::null()];
        // Above the standard streams, which Rust's runtime opens where they are closed.
        // SAFETY: a fresh descriptor that nothing else has, if there is one.
        let kept = unsafe {
            let number = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3);
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(number)
        };
        let number = kept.as_raw_fd();
        let (mut answer, failed) = io::pipe()?;
        // SAFETY: no preconditions.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child makes async-signal-safe calls only, on values made above.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            // SAFETY: as above.
            unsafe {
                let fail = |error: i32| -> ! {
                    libc::write(failed.as_raw_fd(), (&raw const error).cast(), 4);
                    libc::_exit(1)
                };
                if let Err(error) = user.become_it() {
                    fail(error);
                }
                // After the change of user, which takes it back. The parent may have ended before.
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::getppid() != parent {
                    fail(libc::ESRCH);
                }
                for stream in 0..3 {
                    libc::close(stream);
                }
                close_at_exec();
                libc::fcntl(number, libc::F_SETFD, 0);
                libc::execve(file.as_ptr(), arguments.as_ptr(), nothing.as_ptr());
                fail(*libc::__errno_location())
            }
        }
        drop(failed);
        let holder = Holder { pid, number };
        let mut error = [0; 4];
        // The end of the pipe comes with the exec.
        match answer.read(&mut error)? {
            0 => Ok(holder),
            _ => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error))),
        }
    }

    /// Where the user's processes open the file.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", self.pid, self.number).into()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: our own child, which is reaped here only.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Every descriptor but the standard streams closes at the exec. Async-signal-safe.
fn close_at_exec() {
    // SAFETY: numbers only; of descriptors that are not there nothing comes.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) != 0 {
            // Before Linux 5.11.
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            for fd in 3..limit.rlim_cur.min(1 << 20) as RawFd {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
}

/// What the process does: nothing, until it is ended.
pub fn wait() -> ! {
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}
