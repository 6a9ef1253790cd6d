//! A running QEMU: its channels are inherited sockets, so nothing of it has a name in the
//! file system; it dies with the thread that started it, whatever becomes of that.

use super::channel::Channel;
use super::error::GuestError;
use super::qmp::Qmp;
use super::tail::Tail;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The emulator and the ways to talk to it.
pub(super) struct Vm {
    child: Child,
    pub qmp: Qmp,
    pub channel: Channel,
    console: Tail,
    errors: Tail,
}

impl Vm {
    /// Starts QEMU with `arguments`, to which the channels are added. `inherited` stay open in
    /// it under the same numbers; `variables` are added to its environment.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
        inherited: &[&OwnedFd],
        variables: &[(OsString, OsString)],
    ) -> Result<Vm, GuestError> {
        let failed = || GuestError::host(format!("cannot start {}", program.display()));
        let (qmp, qemu_qmp) = UnixStream::pair().map_err(failed())?;
        let (channel, qemu_channel) = UnixStream::pair().map_err(failed())?;
        let (console, qemu_console) = UnixStream::pair().map_err(failed())?;
        let mut command = Command::new(program);
        for (id, socket) in [("channel", &qemu_channel), ("console", &qemu_console), ("qmp", &qemu_qmp)] {
            command.arg("-chardev").arg(format!("socket,id={id},fd={}", socket.as_raw_fd()));
        }
        command.args(["-serial", "chardev:console", "-mon", "chardev=qmp,mode=control"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut kept: Vec<RawFd> = inherited.iter().map(|fd| fd.as_raw_fd()).collect();
        kept.extend([&qemu_qmp, &qemu_channel, &qemu_console].map(|s| s.as_raw_fd()));
        dies_with_us(&mut command, kept);
        let mut child = command.spawn().map_err(failed())?;
        let errors = child.stderr.take().expect("it was piped");
        Ok(Vm {
            child,
            qmp: Qmp::new(qmp).map_err(failed())?,
            channel: Channel::new(channel).map_err(failed())?,
            console: Tail::of(console),
            errors: Tail::of(errors),
        })
    }

    /// Memory is in files, and neither written to the stream of a machine nor read from it.
    pub fn without_memory(&mut self) -> Result<(), GuestError> {
        let capabilities = json!([{ "capability": "x-ignore-shared", "state": true }]);
        let set = json!({ "capabilities": capabilities });
        self.qmp.command("migrate-set-capabilities", set).map(drop)
    }

    /// Makes it the machine of the stream that this descriptor of its own has.
    pub fn resume(&mut self, machine: RawFd) -> Result<(), GuestError> {
        self.qmp.greet()?;
        self.without_memory()?;
        self.qmp.command("migrate-incoming", json!({ "uri": format!("fd:{machine}") })).map(drop)
    }

    /// The last lines of the guest's console.
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// What QEMU itself complained about, then the console.
    pub fn last_words(&self) -> String {
        let (errors, console) = (self.errors.text(), self.console.text());
        if console.trim().is_empty() { errors } else { format!("{errors}{console}") }
    }

    /// How QEMU ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends QEMU in order, so that its plugin can finish, and waits; after `patience` without.
    /// `hurry` is asked meanwhile.
    pub fn quit(&mut self, patience: Duration, hurry: &mut dyn FnMut() -> bool) -> Result<(), GuestError> {
        self.qmp.tell("quit");
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                self.settle();
                return if status.success() { Ok(()) } else { Err(self.died(status)) };
            }
            // Answers and events that is never read must not block it.
            while self.qmp.event().is_some() {}
            self.channel.fill(1 << 16);
            while let Ok(Some(_)) = self.channel.next() {}
            if Instant::now() > deadline || hurry() {
                self.kill();
                let how = format!("killed: it did not end by itself within {} s", patience.as_secs());
                return Err(GuestError::Died { how, said: self.last_words() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The error that QEMU's end is, with what it said.
    pub fn died(&mut self, status: ExitStatus) -> GuestError {
        self.settle();
        let console = self.console();
        if is_panic(&console) {
            return GuestError::Panic { console };
        }
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => {
                format!("signal {signal} ({})", nearfar_host::target::signal_name(signal))
            }
            _ => status.to_string(),
        };
        GuestError::Died { how, said: self.last_words() }
    }

    /// Waits until everything that QEMU wrote before its end has been read.
    fn settle(&mut self) {
        self.console.finish();
        self.errors.finish();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.settle();
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        }
    }
}

/// Whether a console shows the kernel's last message.
pub(super) fn is_panic(console: &str) -> bool {
    console.contains("Kernel panic - not syncing")
}

/// Makes the child end with this thread, keeps it out of our terminal's signals (Ctrl-C is
/// for the program in the guest), and passes it `descriptors`.
pub(super) fn dies_with_us(command: &mut Command, descriptors: Vec<RawFd>) {
    // SAFETY: no preconditions.
    let parent = unsafe { libc::getpid() };
    let prepare = move || {
        // SAFETY: between fork and exec, only async-signal-safe calls on values that were made before.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::setpgid(0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // It may have ended before the prctl.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            for &fd in &descriptors {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    // SAFETY: `prepare` allocates nothing and takes no locks.
    unsafe { command.pre_exec(prepare) };
}
