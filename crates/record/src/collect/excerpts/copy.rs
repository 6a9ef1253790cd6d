//! A copy of a process as it is now, while the process goes on.
//!
//! The thread is stopped, and made to start a process that shares its memory. That one makes the copy (a fork of the one thread) and ends;
//! the thread takes its exit status, so that the program has no child more than before, and goes on where it was. Neither process
//! has a signal at its end. The thread stands still for a fork and ten system calls.
//!
//! The copy keeps no file open: it would be one more writer of a pipe, whose reader waits for the last one, and it would hold the
//! locks of files. Regular files are opened for us instead, so that the copy can go on reading them.

use super::trace::{self, Registers, Stop};
use nearfar_host::proc;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// A process that stands still, for us alone.
pub(super) struct Copy {
    pub pid: u32,
    /// Where its thread was.
    pub registers: Registers,
    /// An instruction `syscall` in it.
    pub syscall: u64,
    pub memory: File,
    /// Threads of the process that it is a copy of.
    pub threads: usize,
    /// Regular files that it had open, by their descriptor, and how far each was read.
    pub files: HashMap<u64, (File, u64)>,
}

impl Drop for Copy {
    fn drop(&mut self) {
        kill(self.pid);
    }
}

/// Why a copy could not be made.
pub(super) enum Refused {
    /// Not at this moment.
    Now,
    /// Never of this process.
    Never(String),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ECHILD | libc::EIO) => Refused::Now,
            Some(libc::EPERM | libc::EACCES) => Refused::Never(format!(
                "the kernel refuses to stop the program (ptrace: {error}); a container needs --cap-add SYS_PTRACE"
            )),
            _ => Refused::Never(format!("ptrace: {error}")),
        }
    }
}

/// Copies the process of a thread. `known` gets the number of each process that is made, before it runs.
pub(super) fn of_thread(pid: u32, tid: u32, known: &mut dyn FnMut(u32)) -> Result<Copy, Refused> {
    let syscall = allowed(pid, tid)?;
    trace::seize(tid)?;
    let stopped = trace::interrupt(tid).and_then(|()| trace::wait(tid));
    let copied = match stopped {
        Ok(Stop::Event(libc::PTRACE_EVENT_STOP)) => within(pid, tid, syscall, known),
        // A signal was first: it gets it.
        Ok(Stop::Signal(signal)) => {
            let _ = trace::detach(tid, signal);
            return Err(Refused::Now);
        }
        Ok(Stop::Ended) => return ended(pid, tid),
        Ok(Stop::Event(_)) => Err(Refused::Now),
        Err(error) => Err(error.into()),
    };
    let _ = trace::detach(tid, 0);
    copied
}

/// A thread that ended while we looked at it.
fn ended(pid: u32, tid: u32) -> Result<Copy, Refused> {
    if pid != tid {
        trace::reap(tid);
    }
    Err(Refused::Now)
}

/// An instruction `syscall` of the process, if it may be copied.
fn allowed(pid: u32, tid: u32) -> Result<u64, Refused> {
    let status = proc::status(pid, tid).map_err(|_| Refused::Now)?;
    if proc::field(&status, "Seccomp").is_some_and(|mode| mode != "0") {
        return Err(Refused::Never("the program filters its own system calls (seccomp)".into()));
    }
    if proc::field(&status, "TracerPid").is_some_and(|pid| pid != "0") {
        return Err(Refused::Never("another debugger is attached to the program".into()));
    }
    let vdso = proc::maps(pid).into_iter().find(|map| map.name == "[vdso]");
    let vdso = vdso.ok_or_else(|| Refused::Never("the program has no vdso".into()))?;
    let mut code = vec![0; (vdso.end - vdso.start) as usize];
    let memory = File::open(format!("/proc/{pid}/mem"));
    memory.and_then(|memory| memory.read_exact_at(&mut code, vdso.start))?;
    let at = code.windows(2).position(|pair| pair == [0x0f, 0x05]);
    at.map(|at| vdso.start + at as u64).ok_or_else(|| Refused::Never("its vdso has no system call".into()))
}

/// With the thread stopped. It is as it was, at the end.
fn within(pid: u32, tid: u32, syscall: u64, known: &mut dyn FnMut(u32)) -> Result<Copy, Refused> {
    let before = trace::registers(tid)?;
    // Code segment of programs of 64 bits, arch/x86/include/asm/segment.h.
    if before.cs != 0x33 {
        return Err(Refused::Never("it runs code of 32 bits".into()));
    }
    // In a system call: that would end with EINTR, or as much as a fork took too late.
    if (before.orig_rax as i64) >= 0 || trace::in_restartable_sequence(tid) {
        return Err(Refused::Now);
    }
    let blocked = trace::blocked(tid)?;
    trace::block(tid, u64::MAX)?;
    let copied = copied(tid, syscall, &before, known);
    trace::set_registers(tid, &before)?;
    trace::block(tid, blocked)?;
    // The thread goes on, before anything else is done.
    trace::detach(tid, 0)?;
    let threads = proc::threads(pid).len();
    let pid = copied?;
    let files = regular(pid);
    let closed = call(pid, syscall, &before, libc::SYS_close_range, [0, u32::MAX.into(), 0, 0]);
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
    match (closed, memory) {
        (Ok(0), Ok(memory)) => Ok(Copy { pid, registers: before, syscall, memory, threads, files }),
        (Ok(0), Err(error)) => {
            kill(pid);
            Err(error.into())
        }
        _ => {
            kill(pid);
            Err(Refused::Never("the kernel cannot close all files of a copy (close_range, Linux 5.9)".into()))
        }
    }
}

fn copied(tid: u32, syscall: u64, before: &Registers, known: &mut dyn FnMut(u32)) -> Result<u32, Refused> {
    let helper = cloned(tid, syscall, before, libc::CLONE_VM as u64)?;
    known(helper);
    let copy = made_by(helper, syscall, before, known);
    let _ = kill(helper);
    // Of a child without a signal at its end.
    call(tid, syscall, before, libc::SYS_wait4, [helper.into(), 0, libc::__WALL as u64, 0])?;
    copy
}

fn made_by(
    helper: u32,
    syscall: u64,
    before: &Registers,
    known: &mut dyn FnMut(u32),
) -> Result<u32, Refused> {
    first_stop(helper)?;
    trace::ends_with_us_and_tells(helper)?;
    let copy = cloned(helper, syscall, before, 0)?;
    known(copy);
    first_stop(copy)?;
    trace::ends_with_us(copy)?;
    Ok(copy)
}

/// Lets a stopped thread start a process by clone(2), on the same stack; both have made the call then.
fn cloned(tid: u32, syscall: u64, before: &Registers, flags: u64) -> Result<u32, Refused> {
    trace::set_registers(tid, &calling(before, syscall, libc::SYS_clone, [flags, 0, 0, 0]))?;
    trace::step(tid)?;
    match trace::wait(tid)? {
        Stop::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK) => {}
        Stop::Signal(libc::SIGTRAP) => {
            let error = -(trace::registers(tid)?.rax as i64);
            return Err(Refused::Never(format!(
                "the program could not be copied: {}",
                io::Error::from_raw_os_error(error as i32)
            )));
        }
        _ => return Err(Refused::Now),
    }
    let made = trace::event_process(tid)?;
    trace::step(tid)?;
    match trace::wait(tid)? {
        Stop::Signal(libc::SIGTRAP) => Ok(made),
        _ => Err(Refused::Now),
    }
}

/// The regular files that a process has open.
fn regular(pid: u32) -> HashMap<u64, (File, u64)> {
    let mut files = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else {
            continue;
        };
        // Asked before it is opened: opening a pipe or a device may do something.
        if !fs::metadata(entry.path()).is_ok_and(|about| about.is_file()) {
            continue;
        }
        let about = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        let at = about.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok());
        if let (Ok(file), Some(at)) = (File::open(entry.path()), at) {
            files.insert(number, (file, at));
        }
    }
    files
}

/// The stop with which a process begins whose parent is traced.
fn first_stop(pid: u32) -> Result<(), Refused> {
    match trace::wait(pid)? {
        Stop::Event(libc::PTRACE_EVENT_STOP) | Stop::Signal(libc::SIGSTOP) => Ok(()),
        _ => Err(Refused::Now),
    }
}

fn calling(before: &Registers, syscall: u64, number: libc::c_long, arguments: [u64; 4]) -> Registers {
    let [rdi, rsi, rdx, r10] = arguments;
    Registers {
        rip: syscall,
        rax: number as u64,
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        r10,
        r8: 0,
        r9: 0,
        ..*before
    }
}

/// Lets a stopped thread make a system call; its result.
fn call(
    tid: u32,
    syscall: u64,
    before: &Registers,
    number: libc::c_long,
    arguments: [u64; 4],
) -> io::Result<i64> {
    trace::set_registers(tid, &calling(before, syscall, number, arguments))?;
    trace::step(tid)?;
    trace::wait(tid)?;
    Ok(trace::registers(tid)?.rax as i64)
}

/// Ends a process that we trace; its CPU time, seconds.
fn kill(pid: u32) -> f64 {
    // SAFETY: a plain call. The process is not reaped by anybody else while we trace it.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
    trace::reap(pid)
}
