//! Signals to nearfar while a machine runs: they are for the program in the guest.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

/// Handed on to the program; SIGWINCH as the size of its terminal.
const CAUGHT: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];
/// Those that ask us to end.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Machines that may run at the same time in one process.
const SLOTS: usize = 64;

/// Where the handler writes to; 0 where free (a descriptor of ours is never 0: see [`Relay::install`]).
static PIPES: [AtomicI32; SLOTS] = [const { AtomicI32::new(0) }; SLOTS];
/// What was there before the first relay, to be put back after the last.
static BEFORE: Mutex<(usize, Vec<(i32, libc::sigaction)>)> = Mutex::new((0, Vec::new()));

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: i32,
    /// Sent by the terminal to the whole process group, not by a process to us.
    pub by_terminal: bool,
}

/// While it lives, signals are collected instead of ending this process. Every relay gets all.
pub struct Relay {
    read: OwnedFd,
    write: OwnedFd,
    slot: usize,
}

impl Relay {
    /// From now on signals are collected.
    ///
    /// # Errors
    /// Those of the system.
    pub fn install() -> io::Result<Relay> {
        let mut fds = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh descriptors that nothing else has.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        let number = write.as_raw_fd();
        let free =
            |slot: &AtomicI32| slot.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let slot = PIPES
            .iter()
            .position(free)
            .ok_or_else(|| io::Error::other(format!("more than {SLOTS} virtual machines at a time")))?;
        let mut before = BEFORE.lock().unwrap_or_else(|e| e.into_inner());
        before.0 += 1;
        if before.0 == 1 {
            before.1 = CAUGHT.iter().filter_map(|&signal| catch(signal)).collect();
        }
        Ok(Relay { read, write, slot })
    }

    /// Readable when a signal has arrived.
    pub fn fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// The next signal that has arrived.
    pub fn next(&self) -> Option<Caught> {
        let mut bytes = [0_u8; 2];
        // SAFETY: reads at most two bytes into a buffer of two. Writes of two bytes to a pipe are whole.
        let got = unsafe { libc::read(self.fd(), bytes.as_mut_ptr().cast(), 2) };
        (got == 2).then(|| Caught { signal: i32::from(bytes[0]), by_terminal: bytes[1] != 0 })
    }

    /// Waits until `child` has ended. It gets the signals that were sent to us alone; the terminal has sent its own to
    /// both. Also gives the first signal that asked us to end.
    ///
    /// # Errors
    /// If the child cannot be waited for.
    pub fn wait_for(&self, child: &mut Child) -> io::Result<(ExitStatus, Option<i32>)> {
        let mut asked = None;
        loop {
            while let Some(caught) = self.next() {
                if !caught.by_terminal {
                    // SAFETY: a child that was not waited for yet keeps its number.
                    unsafe { libc::kill(child.id() as i32, caught.signal) };
                }
                asked = asked.or(ENDING.contains(&caught.signal).then_some(caught.signal));
            }
            if let Some(status) = child.try_wait()? {
                return Ok((status, asked));
            }
            let mut wait = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor of ours. The end of a child does not show there: look from time to time.
            unsafe { libc::poll(&mut wait, 1, 50) };
        }
    }

    /// The next signal that asks us to end, if one has arrived.
    pub fn ending(&self) -> Option<i32> {
        std::iter::from_fn(|| self.next()).map(|caught| caught.signal).find(|signal| ENDING.contains(signal))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut before = BEFORE.lock().unwrap_or_else(|e| e.into_inner());
        PIPES[self.slot].store(0, Ordering::SeqCst);
        before.0 -= 1;
        if before.0 == 0 {
            for (signal, action) in before.1.drain(..) {
                // SAFETY: the disposition that the kernel gave us for this signal.
                unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
            }
        }
        // The pipe closes after its slot is free. A handler that read the slot just before writes
        // to a closed descriptor or, at worst, two bytes into one opened within that instant.
        let _ = &self.write;
    }
}

/// Installs the handler; what was there before. `None` if the signal is ignored (nohup) and
/// stays so.
fn catch(signal: i32) -> Option<(i32, libc::sigaction)> {
    // SAFETY: all zero is a valid sigaction; the handler only calls async-signal-safe functions.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 || before.sa_sigaction == libc::SIG_IGN
        {
            return None;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &action, std::ptr::null_mut()) == 0).then_some((signal, before))
    }
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; write is async-signal-safe; errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let bytes = [signal as u8, u8::from((*info).si_code > 0)];
        for pipe in &PIPES {
            let fd = pipe.load(Ordering::SeqCst);
            if fd != 0 {
                libc::write(fd, bytes.as_ptr().cast(), 2);
            }
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    const WAITS: &str = "NEARFAR_TEST_WAITS";

    /// Run by the test below, as a process of its own: signals to it must not reach other tests.
    #[test]
    fn waiter() {
        if std::env::var_os(WAITS).is_none() {
            return;
        }
        let relay = Relay::install().unwrap();
        let script = "trap 'sleep 0.3; echo written; exit 7' TERM; echo waits; while :; do sleep 0.01; done";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (status, asked) = relay.wait_for(&mut child).unwrap();
        println!("child {:?}, asked {asked:?}", status.code());
    }

    #[test]
    fn who_waits_for_a_child_passes_a_signal_on_and_stays_until_it_has_written() {
        let mut waiter = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::tests::waiter", "--nocapture"])
            .env(WAITS, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = waiter.stdout.take().unwrap();
        let mut text = String::new();
        let mut byte = [0];
        while !text.contains("waits\n") {
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{text}");
            text.push(char::from(byte[0]));
        }
        // SAFETY: no memory is involved.
        unsafe { libc::kill(waiter.id() as i32, libc::SIGTERM) };
        output.read_to_string(&mut text).unwrap();
        assert!(waiter.wait().unwrap().success(), "{text}");
        assert!(text.contains("written\nchild Some(7), asked Some(15)"), "{text}");
    }
}
