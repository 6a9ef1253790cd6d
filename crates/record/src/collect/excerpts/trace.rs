//! ptrace(2) of one thread, as far as excerpts need it. All of it has to come from one thread of ours.

use std::io;
use std::os::unix::fs::FileExt;

/// A thread that stands still for us.
pub(super) type Registers = libc::user_regs_struct;

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A signal was about to reach it.
    Signal(i32),
    /// An event of ptrace, `PTRACE_EVENT_…`.
    Event(i32),
    /// It ended.
    Ended,
}

/// `PTRACE_GET_RSEQ_CONFIGURATION`, linux/ptrace.h.
const GET_RSEQ: libc::c_uint = 0x420f;

fn request(what: libc::c_uint, tid: u32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: callers pass addresses of memory that lives across the call and has the size that the request writes.
    match unsafe { libc::ptrace(what, tid as libc::pid_t, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes us the tracer of a running thread, which goes on running. Its new threads and processes are traced, too.
pub(super) fn seize(tid: u32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Stops a thread.
pub(super) fn interrupt(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets it run as if nothing had been, with a signal that it was to get.
pub(super) fn detach(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// From now on it ends with us.
pub(super) fn ends_with_us(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, libc::PTRACE_O_EXITKILL as usize)
}

/// The same of one whose processes are traced, too.
pub(super) fn ends_with_us_and_tells(tid: u32) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK;
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize)
}

pub(super) fn go_on(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, 0)
}

/// One instruction.
pub(super) fn step(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

pub(super) fn registers(tid: u32) -> io::Result<Registers> {
    // SAFETY: zeros are valid registers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

pub(super) fn set_registers(tid: u32, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, registers as *const Registers as usize)
}

/// Signals that the thread holds back, a bit each.
pub(super) fn blocked(tid: u32) -> io::Result<u64> {
    let mut set = 0u64;
    request(libc::PTRACE_GETSIGMASK, tid, size_of::<u64>(), &raw mut set as usize)?;
    Ok(set)
}

pub(super) fn block(tid: u32, set: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, size_of::<u64>(), &raw const set as usize)
}

/// The process that an event is about.
pub(super) fn event_process(tid: u32) -> io::Result<u32> {
    let mut pid: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut pid as usize)?;
    Ok(pid as u32)
}

/// The address whose access failed.
pub(super) fn fault_address(tid: u32) -> io::Result<u64> {
    // SAFETY: zeros are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info as usize)?;
    // SAFETY: of a SIGSEGV, which callers ask for, the kernel fills the address.
    Ok(unsafe { info.si_addr() } as u64)
}

/// Whether the thread is within a sequence that the kernel starts anew when it is interrupted (rseq(2)). Registers that are
/// changed and set back would hide the interrupt from the kernel.
pub(super) fn in_restartable_sequence(tid: u32) -> bool {
    let mut about = [0u64; 3];
    if request(GET_RSEQ, tid, size_of_val(&about), &raw mut about as usize).is_err() || about[0] == 0 {
        return false;
    }
    let mut sequence = [0; 8];
    // `rseq_cs` is the third field, eight bytes from the begin.
    let read = std::fs::File::open(format!("/proc/{tid}/mem"))
        .and_then(|m| m.read_exact_at(&mut sequence, about[0] + 8));
    read.is_err() || sequence != [0; 8]
}

/// Waits until a thread that we trace stops.
///
/// The end of the recorded program's own first thread is seen and its exit status is left: the recorder's main thread takes it.
pub(super) fn wait(tid: u32) -> io::Result<Stop> {
    loop {
        // SAFETY: the kernel fills a siginfo of ours.
        let info = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
            if libc::waitid(libc::P_PID, tid as libc::id_t, &mut info, flags) != 0 {
                match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => continue,
                    error => return Err(error),
                }
            }
            info
        };
        if matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
            return Ok(Stop::Ended);
        }
        let mut status = 0;
        // SAFETY: the kernel fills an integer of ours.
        let got = unsafe { libc::waitpid(tid as libc::pid_t, &mut status, libc::__WALL | libc::WNOHANG) };
        if got != tid as libc::pid_t {
            continue;
        }
        if !libc::WIFSTOPPED(status) {
            return Ok(Stop::Ended);
        }
        return Ok(match status >> 16 {
            0 => Stop::Signal(libc::WSTOPSIG(status)),
            event => Stop::Event(event),
        });
    }
}

/// Takes the exit status of a process of ours that ended, and its CPU time in seconds.
pub(super) fn reap(pid: u32) -> f64 {
    // SAFETY: both out-pointers are valid; zero is a valid rusage.
    let usage = unsafe {
        let (mut status, mut usage): (i32, libc::rusage) = std::mem::zeroed();
        libc::wait4(pid as libc::pid_t, &mut status, libc::__WALL, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
