//! The cpus that a process may use, and the first of them, on which a program begins.
//!
//! At an exec the kernel looks for a cpu with less to do, and takes any of those that idle. Where the program's first pages are follows from
//! it: in the virtual machine about one run in ten had them on another node. So a process has one cpu only while it executes its program, and all
//! of them before the program's first instruction: it is stopped there (ptrace(2), `PTRACE_EVENT_EXEC`), and sees nothing of it. While it is loaded it may be moved: agent/hypercall.c
//! puts it back.

use nearfar_machine::cpulist::CpuList;
use std::io;

/// A process that has yet to execute its program.
pub(super) struct FirstCpu {
    pid: libc::pid_t,
    all: libc::cpu_set_t,
    traced: bool,
}

impl FirstCpu {
    /// Keeps a child of this thread, which waits, on the first of these cpus; or on all of them, where tracing is not allowed.
    ///
    /// # Errors
    /// If the kernel has none of the cpus for it.
    pub(super) fn new(pid: libc::pid_t, cpus: &CpuList) -> io::Result<FirstCpu> {
        let first = CpuList::from_iter(cpus.first());
        // SAFETY: no memory is passed but options.
        let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_TRACEEXEC) } == 0;
        let kept = FirstCpu { pid, all: cpu_set(cpus), traced };
        kept.run_on(if traced { cpu_set(&first) } else { kept.all })?;
        Ok(kept)
    }

    /// Waits until it executes the program, or ends before that, and gives it all of its cpus. It is not reaped.
    ///
    /// # Errors
    /// If the kernel takes the cpus back.
    pub(super) fn let_go(self) -> io::Result<()> {
        if !self.traced {
            return Ok(());
        }
        while let Some(signal) = self.stops()? {
            if signal >> 8 == libc::PTRACE_EVENT_EXEC {
                let given = self.run_on(self.all);
                // SAFETY: no memory is passed.
                unsafe { libc::ptrace(libc::PTRACE_DETACH, self.pid, 0, 0) };
                return given;
            }
            // A stop of the whole process is an event, too, and no signal is given for it.
            let signal = if signal >> 8 == 0 { signal } else { 0 };
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid, 0, signal) };
        }
        Ok(())
    }

    /// Why it stops next: a signal, with an event above its lowest byte; `None` if it has ended.
    fn stops(&self) -> io::Result<Option<i32>> {
        loop {
            // SAFETY: the kernel fills a siginfo of ours.
            let (failed, info) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
                (libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags), info)
            };
            if failed == 0 {
                let stopped = [libc::CLD_TRAPPED, libc::CLD_STOPPED].contains(&info.si_code);
                // SAFETY: of a child's change of state, the kernel fills this.
                return Ok(stopped.then(|| unsafe { info.si_status() }));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn run_on(&self, cpus: libc::cpu_set_t) -> io::Result<()> {
        // SAFETY: reads the set, which lives across the call and whose size is passed.
        match unsafe { libc::sched_setaffinity(self.pid, size_of::<libc::cpu_set_t>(), &cpus) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Keeps this thread, and those that it starts, on these cpus.
///
/// # Errors
/// If the kernel has none of them for us.
pub fn stay_on(cpus: &CpuList) -> io::Result<()> {
    let set = cpu_set(cpus);
    // SAFETY: reads the set, which lives across the call and whose size is passed.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The same for the whole of this process, which is its first thread and this one: what /proc/self
/// tells is the first one's.
///
/// # Errors
/// As [`stay_on`].
pub fn all_stay_on(cpus: &CpuList) -> io::Result<()> {
    let set = cpu_set(cpus);
    // SAFETY: reads the set, which lives across the call and whose size is passed.
    unsafe { libc::sched_setaffinity(libc::getpid(), size_of::<libc::cpu_set_t>(), &set) };
    stay_on(cpus)
}

pub(super) fn cpu_set(cpus: &CpuList) -> libc::cpu_set_t {
    // SAFETY: an empty set is all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter() {
        // SAFETY: CPU_SET checks the bound of the set itself.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    /// A shell that executes a program after a line of input.
    fn shell(script: &str) -> Child {
        let piped = Stdio::piped;
        Command::new("sh").args(["-c", script]).stdin(piped()).stdout(piped()).spawn().unwrap()
    }

    fn allowed(pid: u32) -> CpuList {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        list.trim().parse().unwrap()
    }

    #[test]
    fn it_executes_on_the_first_cpu_and_sees_all() {
        let mut child = shell("read go; exec grep Cpus_allowed_list /proc/self/status");
        let all = allowed(child.id());
        let kept = FirstCpu::new(child.id() as libc::pid_t, &all).unwrap();
        assert!(kept.traced, "a parent may trace its child");
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert_eq!(kept.stops().unwrap().map(|stop| stop >> 8), Some(libc::PTRACE_EVENT_EXEC));
        assert_eq!(allowed(child.id()), CpuList::from_iter(all.first()));
        kept.let_go().unwrap();
        let mut told = String::new();
        child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(told.rsplit(':').next().unwrap().trim().parse::<CpuList>().unwrap(), all);
    }

    #[test]
    fn signals_before_the_program_are_its_own() {
        let mut child = shell("trap 'exec true' USR1; kill -USR1 $$; read never");
        let pid = child.id() as libc::pid_t;
        FirstCpu::new(pid, &allowed(child.id())).unwrap().let_go().unwrap();
        assert!(child.wait().unwrap().success(), "the trap has executed it");
        let mut child = shell("read never");
        let pid = child.id() as libc::pid_t;
        let kept = FirstCpu::new(pid, &allowed(child.id())).unwrap();
        // SAFETY: our own child, which is not reaped yet.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        kept.let_go().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
