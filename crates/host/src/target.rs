//! The program that is recorded: started stopped, released, waited for.
//!
//! [`inherited`] is what it gets from the process that started us; `relay` passes signals to it.

mod cpus;
mod image;
pub mod inherited;
mod program;
mod relay;
mod user;

pub use cpus::{all_stay_on, stay_on};
pub use program::{StartError, find_program};
pub use relay::{INTERRUPTED, interrupt_ends_recording, interrupted_by, signals_are_ours};
pub use user::User;

use super::hypercall;
use super::policy::Prepared;
use cpus::{FirstCpu, cpu_set};
use image::{Image, Timers};
use nearfar_machine::cpulist::CpuList;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its exit status.
    Exit(i32),
    /// The signal that killed it.
    Signal(i32),
}

impl Ending {
    /// `exit 0`, `signal 11 (SIGSEGV)`.
    pub fn text(self) -> String {
        match self {
            Ending::Exit(status) => format!("exit {status}"),
            Ending::Signal(signal) => format!("signal {signal} ({})", signal_name(signal)),
        }
    }

    /// Ends this process as the program ended: same status, or same signal.
    pub fn pass_on(self) -> ! {
        match self {
            Ending::Exit(status) => std::process::exit(status),
            Ending::Signal(signal) => {
                // SAFETY: plain calls on this process. No core file: the program left its own.
                unsafe {
                    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                    libc::setrlimit(libc::RLIMIT_CORE, &none);
                    libc::signal(signal, libc::SIG_DFL);
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut set);
                    libc::sigaddset(&mut set, signal);
                    libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
                    libc::raise(signal);
                }
                std::process::exit(128 + signal)
            }
        }
    }
}

/// `SIGSEGV` for 11.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => "a signal",
    }
}

/// What a child does to itself before its exec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'a> {
    /// Where it may run; `None`: as its parent.
    pub cpus: Option<&'a CpuList>,
    /// Where its memory goes; `None`: as its parent's.
    pub policy: Option<&'a Prepared>,
    /// Its standard input, output and error; `None`: its parent's.
    pub streams: Option<[RawFd; 3]>,
    /// Without transparent huge pages, its children too.
    pub no_huge_pages: bool,
    /// Inside nearfar's virtual machine it makes a hypercall that says whose it is.
    pub guest: bool,
    /// Whom it runs as; `None`: as we do.
    pub user: Option<&'a User>,
}

/// What a child failed at, as it tells its parent behind the error.
const AT_EXEC: i32 = 0;
const AT_CPUS: i32 = 1;
const AT_POLICY: i32 = 2;
const AT_USER: i32 = 3;

/// A child process that waits before its exec, so that events can be attached first.
pub struct Held {
    pid: libc::pid_t,
    /// Refers to it; `None` on kernels before 5.3.
    pidfd: Option<OwnedFd>,
    passing: bool,
    release: std::fs::File,
    failure: std::fs::File,
    program: String,
    /// Its cpus, where it should begin on the first of them.
    cpus: Option<CpuList>,
}

/// Becomes `command`, as if it had been started without us; returns only if that fails.
///
/// # Errors
/// As [`Held::start`].
pub fn run_instead(command: &[OsString]) -> StartError {
    let image = match Image::new(command, &[]) {
        Ok(image) => image,
        Err(error) => return error,
    };
    inherited::restore_streams();
    inherited::restore_limits();
    inherited::restore_signals();
    let why = io::Error::from_raw_os_error(image.exec());
    StartError::NotExecutable { program: command[0].to_string_lossy().into_owned(), why: why.to_string() }
}

/// A running child.
pub struct Running {
    /// Its process id.
    pub pid: libc::pid_t,
    /// Readable once it has ended; `None` on kernels before 5.3.
    pidfd: Option<OwnedFd>,
}

impl Held {
    /// Forks a child that will run `command` in `environment` additions once released, after it has
    /// done what `before` says.
    ///
    /// # Errors
    /// If the program does not exist, cannot be executed, or no process can be made.
    pub fn start(
        command: &[OsString],
        environment: &[(OsString, OsString)],
        before: &Before,
    ) -> Result<Held, StartError> {
        let image = Image::new(command, environment)?;
        // Inside the virtual machine it is we who keep it on them.
        let ours = before.cpus.filter(|_| before.guest);
        let cpus = before.cpus.filter(|_| !before.guest).map(cpu_set);
        let (wait_read, wait_write) = pipe()?;
        let (fail_read, fail_write) = pipe()?;

        // Blocked until the child does what the program would: no handler of ours takes its signals.
        let mask = inherited::block_all();
        // SAFETY: the child only makes async-signal-safe calls (read, execve,
        // write, _exit) on memory prepared above, so it is safe from any thread.
        let pid = unsafe { libc::fork() };
        if pid != 0 {
            let refused = io::Error::last_os_error();
            // SAFETY: a mask that lives across the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) };
            if pid < 0 {
                return Err(refused.into());
            }
        } else {
            // SAFETY: as above; all pointers outlive the call.
            unsafe {
                inherited::restore_signals();
                let mut timers = Timers::default();
                libc::close(wait_write.as_raw_fd());
                let go = libc::read(wait_read.as_raw_fd(), (&raw mut timers).cast(), size_of::<Timers>());
                if go == size_of::<Timers>() as isize {
                    let fail = |error: i32, at: i32| -> ! {
                        let words = [error, at];
                        libc::write(fail_write.as_raw_fd(), (&raw const words).cast(), 8);
                        libc::_exit(127)
                    };
                    if let Some(cpus) = &cpus
                        && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) != 0
                    {
                        fail(*libc::__errno_location(), AT_CPUS);
                    }
                    if let Some(policy) = before.policy
                        && let Err(error) = policy.set()
                    {
                        fail(error.raw_os_error().unwrap_or(libc::EINVAL), AT_POLICY);
                    }
                    for (at, stream) in before.streams.iter().flatten().enumerate() {
                        libc::dup2(*stream, at as RawFd);
                    }
                    if before.no_huge_pages {
                        // Kept by fork and exec (prctl(2)); a kernel without it has no huge pages either.
                        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
                    }
                    if before.streams.is_none() {
                        inherited::restore_streams();
                    }
                    inherited::restore_limits();
                    if let Some(user) = before.user
                        && let Err(error) = user.become_it()
                    {
                        fail(error, AT_USER);
                    }
                    if before.guest {
                        let me = libc::getpid() as u64;
                        hypercall::send(hypercall::THREAD, me << 32 | me);
                    }
                    timers.set();
                    let error = image.exec();
                    fail(error, AT_EXEC);
                }
                libc::_exit(127)
            }
        }
        drop((wait_read, fail_write));
        // SAFETY: plain system call on our own child, which is not reaped before `Running` reports it.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: a fresh descriptor that nothing else has.
        let pidfd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
        Ok(Held {
            pid,
            pidfd,
            passing: false,
            release: wait_write.into(),
            failure: fail_read.into(),
            program: command[0].to_string_lossy().into_owned(),
            cpus: ours.cloned(),
        })
    }

    /// The child's process id.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// From now on signals sent to us go to the child instead, until it has ended.
    pub fn pass_signals(&mut self) {
        relay::begin(self.pid, self.pidfd.as_ref());
        self.passing = true;
    }

    /// Lets the child call exec.
    ///
    /// # Errors
    /// If the kernel refuses the program.
    pub fn release(mut self) -> Result<Running, StartError> {
        let first = self.cpus.take().map(|cpus| FirstCpu::new(self.pid, &cpus)).transpose();
        let first = first.map_err(|why| self.has_no_cpus(&why))?;
        // Timers outlive an exec and not a fork: one that our starter set is meant for the program.
        let timers = if self.passing { Timers::take() } else { Timers::default() };
        // SAFETY: plain numbers without padding, as bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const timers).cast::<u8>(), size_of::<Timers>()) };
        match self.release.write_all(bytes) {
            // A signal has ended it already: that is how the program ends.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        if let Some(first) = first {
            first.let_go().map_err(|why| self.has_no_cpus(&why))?;
        }
        let mut error = [0u8; 8];
        // The writing end closes at a successful exec: end of file.
        let got = self.failure.read(&mut error)?;
        if got == error.len() {
            let word =
                |at: usize| i32::from_ne_bytes([error[at], error[at + 1], error[at + 2], error[at + 3]]);
            let (why, at) = (io::Error::from_raw_os_error(word(0)), word(4));
            self.reap();
            if at != AT_EXEC {
                return Err(refused(at, &why));
            }
            let why = match why.raw_os_error() {
                Some(libc::ENOEXEC) => "it is not a program for this machine".to_owned(),
                _ => why.to_string(),
            };
            return Err(StartError::NotExecutable { program: self.program, why });
        }
        Ok(Running { pid: self.pid, pidfd: self.pidfd })
    }

    /// It cannot go on without its cpus.
    fn has_no_cpus(&self, why: &io::Error) -> StartError {
        // SAFETY: plain system call on our own child, which is not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap();
        refused(AT_CPUS, why)
    }

    /// It has ended, or will in a moment.
    fn reap(&self) {
        relay::end(self.pid);
        // SAFETY: reaps our own child.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn refused(at: i32, why: &io::Error) -> StartError {
    let what = match at {
        AT_CPUS => "cpus",
        AT_USER => "user",
        _ => "memory policy",
    };
    StartError::System(io::Error::new(why.kind(), format!("the kernel refuses the {what}: {why}")))
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// A descriptor that becomes readable when the child ends, for poll; −1 if there is none.
    pub fn poll_fd(&self) -> RawFd {
        self.pidfd.as_ref().map_or(-1, |fd| fd.as_raw_fd())
    }

    /// Until the program ends or the time is over.
    pub fn wait(&self, time: Duration) {
        let mut descriptor = libc::pollfd { fd: self.poll_fd(), events: libc::POLLIN, revents: 0 };
        // Without a descriptor (before Linux 5.3) the end is noticed a little later.
        let time = if descriptor.fd < 0 { time.min(Duration::from_millis(20)) } else { time };
        // SAFETY: one descriptor, which lives across the call; poll ignores negative ones.
        unsafe { libc::poll(&mut descriptor, 1, time.as_millis().max(1) as i32) };
    }

    /// How it ended and what it took, children included; `None` while it runs.
    pub fn try_wait(&self) -> Option<(Ending, Taken)> {
        // SAFETY: the kernel fills a siginfo of ours, zeros if the child runs. It is not reaped by this.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let got = libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags);
            // A stop by a thread of ours that traces it is seen, too, whatever the flags are.
            let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
            got == 0 && info.si_pid() != 0 && ends.contains(&info.si_code)
        };
        if !ended {
            return None;
        }
        relay::end(self.pid);
        let mut status = 0;
        // SAFETY: both out-pointers are valid; zero is a valid rusage.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(self.pid, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if pid != self.pid {
            return None;
        }
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        let taken = Taken {
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            system_s: seconds(usage.ru_stime),
            // In KiB on Linux, getrusage(2).
            largest_bytes: count(usage.ru_maxrss) << 10,
            faults: count(usage.ru_minflt) + count(usage.ru_majflt),
        };
        let ending = if libc::WIFSIGNALED(status) {
            Ending::Signal(libc::WTERMSIG(status))
        } else {
            Ending::Exit(libc::WEXITSTATUS(status))
        };
        Some((ending, taken))
    }
}

/// What a program took, all of its processes that were waited for together.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// CPU time, seconds.
    pub cpu_s: f64,
    /// Of it, in the kernel.
    pub system_s: f64,
    /// Largest resident size of one process, bytes.
    pub largest_bytes: u64,
    /// Page faults.
    pub faults: u64,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh descriptors that nothing else has.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str]) -> Ending {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let running = Held::start(&command, &[], &Before::default()).unwrap().release().unwrap();
        loop {
            if let Some((ending, _)) = running.try_wait() {
                return ending;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn exit_status_and_signal_come_through() {
        assert_eq!(run(&["sh", "-c", "exit 7"]), Ending::Exit(7));
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]), Ending::Signal(9));
        assert_eq!(Ending::Signal(9).text(), "signal 9 (SIGKILL)");
    }

    #[test]
    fn a_missing_program_and_a_file_that_is_none_are_told_apart() {
        let start = |p: &str| Held::start(&[OsString::from(p)], &[], &Before::default()).map(drop);
        assert_eq!(start("no-such-program-anywhere").unwrap_err().exit_status(), 127);
        assert_eq!(start("/etc/passwd").unwrap_err().exit_status(), 126);
        assert_eq!(start("/etc").unwrap_err().exit_status(), 126);
    }
}
