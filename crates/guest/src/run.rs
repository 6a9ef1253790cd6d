//! Resumes a snapshot, hands over a program and stays between it and this process until the end.

use super::boot::Snapshot;
use super::channel::{Frame, Whom, from, to};
use super::error::GuestError;
use super::host;
use super::input::Input;
use super::job::{Job, Outcome, Stream, Verdict};
use super::memory_file::path_of;
use super::output::Output;
use super::process::{Vm, is_panic};
use super::qemu::{self, Exports, Threads};
use super::shape::Memory;
use super::signals::Relay;
use super::snapshot;
use super::vmlinux;
use nearfar_host::target::Ending;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From the start of QEMU to that of the program, at most; 0.5 s is usual.
const STARTUP_PATIENCE: Duration = Duration::from_secs(180);
/// For the plugin to write what it has.
const QUIT_PATIENCE: Duration = Duration::from_secs(300);
/// So many requests to end, and the machine is ended, not only the program.
const INSISTENCE: u32 = 3;
/// Bytes taken from the guest before the rest is looked at.
const AT_ONCE: usize = 1 << 18;

impl Snapshot {
    /// Runs a program in a machine resumed from this snapshot; returns when it has ended and
    /// QEMU with it. QEMU does not outlive the calling thread.
    ///
    /// # Errors
    /// If the program could not be run to its end.
    pub fn run(&self, job: Job) -> Result<Outcome, GuestError> {
        let relay = Relay::install().map_err(GuestError::host("cannot catch signals"))?;
        self.run_with(job, &relay)
    }

    /// The same where signals are collected already: those that came before are for this run.
    ///
    /// # Errors
    /// If the program could not be run to its end.
    pub fn run_with(&self, mut job: Job, relay: &Relay) -> Result<Outcome, GuestError> {
        match self.attempt(&mut job, relay) {
            // A damaged snapshot, or a QEMU that was replaced meanwhile: once more, from the start.
            Err(GuestError::Resume { .. }) => {
                let _ = snapshot::remove(&self.path);
                let again = self.setup.ensure_snapshot(&self.shape, &mut |_| {})?;
                again.attempt(&mut job, relay)
            }
            other => other,
        }
    }

    fn attempt(&self, job: &mut Job, relay: &Relay) -> Result<Outcome, GuestError> {
        let begun = Instant::now();
        let (vm, machine) = self.resume(job)?;
        let input = Input::new(&job.stdin);
        let mut output =
            Output::new(&job.stdout, &job.stderr).map_err(GuestError::host("cannot pass output on"))?;
        let mut run = Run {
            vm,
            relay,
            input,
            output: &mut output,
            begun,
            started: None,
            stop_asked: None,
            killed: false,
            interruptions: 0,
            window: terminals(job).1,
        };
        run.vm.resume(machine).map_err(|error| run.resume_error(error))?;
        let (kind, message) = job.message(terminals(job));
        run.vm.channel.send(kind, &message);
        let ending = run.until_the_end(job);
        run.finish(ending)
    }

    /// QEMU, and the number that the machine's file has in it.
    fn resume(&self, job: &Job) -> Result<(Vm, RawFd), GuestError> {
        let damaged = || GuestError::Resume { said: format!("{} is damaged", self.path.display()) };
        let snapshot::Opened { machine, memory, about } = snapshot::open(&self.path).ok_or_else(damaged)?;
        let parts = &*self.setup.parts;
        let mut inherited: Vec<&OwnedFd> = [&machine].into_iter().chain(&memory).collect();
        let files: Vec<PathBuf> = memory.iter().map(path_of).collect();
        let memory = Memory { files: &files, shared: false };
        let stand_in = vmlinux::stand_in()?;
        let kernel = if about.pvh {
            inherited.push(&stand_in);
            path_of(&stand_in)
        } else {
            parts.kernel.image.clone()
        };
        let exports = Exports { writable: job.writable.as_deref() };
        let mut arguments = qemu::arguments(Threads::PerCpu, &self.shape, &memory, &kernel, &exports);
        arguments.extend(["-incoming", "defer"].map(OsString::from));
        let mut variables = Vec::new();
        if let Some(plugin) = &job.plugin {
            parts.qemu.require_plugins()?;
            // A comma ends a value; twice, it is one.
            let mut text = OsString::from(plugin.path.to_string_lossy().replace(',', ",,"));
            for (name, value) in &plugin.arguments {
                text.push(format!(",{name}={}", value.replace(',', ",,")));
            }
            arguments.extend(["-plugin".into(), text]);
            if !plugin.preload.is_empty() {
                let all: Vec<_> = plugin.preload.iter().map(|p| p.as_os_str()).collect();
                variables.push(("LD_PRELOAD".into(), all.join(" ".as_ref())));
            }
        }
        let vm = Vm::start(&parts.qemu.program, &arguments, &inherited, &variables)?;
        Ok((vm, machine.as_raw_fd()))
    }
}

/// What the guest said last, or what came instead.
enum End {
    Program { ending: Ending, stopped: bool },
    Refused(GuestError),
}

struct Run<'a> {
    vm: Vm,
    relay: &'a Relay,
    input: Input,
    output: &'a mut Output,
    begun: Instant,
    started: Option<Duration>,
    stop_asked: Option<Instant>,
    killed: bool,
    interruptions: u32,
    window: (u16, u16),
}

impl Run<'_> {
    fn until_the_end(&mut self, job: &mut Job) -> Result<End, GuestError> {
        let mut asked = Instant::now();
        loop {
            self.wait();
            if let Some(end) = self.take_frames()? {
                return Ok(end);
            }
            if let Some(status) = self.vm.ended() {
                // What it sent before its end.
                if let Some(end) = self.take_frames()? {
                    return Ok(end);
                }
                let error = self.vm.died(status);
                return Err(self.resume_error(error));
            }
            while let Some((name, event)) = self.vm.qmp.event() {
                if name == "SHUTDOWN" && event["data"]["guest"] == true {
                    return self.guest_ended();
                }
            }
            if let Some(stream) = self.output.closed() {
                self.vm.channel.send(to::CLOSE, &(stream as u32).to_le_bytes());
            }
            self.input.forward(&mut self.vm.channel);
            self.forward_signals(job)?;
            if self.started.is_none() && self.begun.elapsed() > STARTUP_PATIENCE {
                let why =
                    format!("resumed, it did not start the program within {} s", STARTUP_PATIENCE.as_secs());
                return Err(GuestError::Boot { why, console: self.vm.last_words() });
            }
            if asked.elapsed() > Duration::from_millis(100) {
                asked = Instant::now();
                if is_panic(&self.vm.console()) {
                    return Err(GuestError::Panic { console: self.vm.console() });
                }
                self.ask_to_stop(job);
            }
        }
    }

    /// Until something can be done, at most a tenth of a second.
    fn wait(&mut self) {
        let channel = self.vm.channel.stream().as_raw_fd();
        let mut events = 0;
        if self.output.has_room() {
            events |= libc::POLLIN;
        }
        if self.vm.channel.pending() {
            events |= libc::POLLOUT;
        }
        let wait = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut all = [
            wait(channel, events),
            wait(self.vm.qmp.stream().as_raw_fd(), libc::POLLIN),
            wait(self.relay.fd(), libc::POLLIN),
            wait(self.input.waiting_for(), libc::POLLIN),
        ];
        if self.vm.channel.closed {
            all[0].fd = -1;
        }
        if self.vm.qmp.closed {
            all[1].fd = -1;
        }
        // While output waits for a slow reader, its progress is only seen by looking.
        let patience = if self.output.has_room() { 100 } else { 5 };
        // SAFETY: descriptors that live as long as the call.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, patience) };
        self.vm.channel.flush();
        self.input.ready = all[3].revents != 0;
    }

    fn take_frames(&mut self) -> Result<Option<End>, GuestError> {
        if !self.output.has_room() {
            return Ok(None);
        }
        self.vm.channel.fill(AT_ONCE);
        let broken =
            |error: io::Error| GuestError::Host { what: "the virtual machine's messages".into(), error };
        while let Some(frame) = self.vm.channel.next().map_err(broken)? {
            if let Some(end) = self.take(frame) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn take(&mut self, frame: Frame) -> Option<End> {
        match frame.kind {
            from::CLOCK => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let numbers = [now.as_secs(), u64::from(now.subsec_nanos())];
                self.vm.channel.send(to::TIME, &numbers.map(u64::to_le_bytes).concat());
            }
            from::STARTED => self.started = Some(self.begun.elapsed()),
            from::STDOUT => self.output.put(1, frame.bytes),
            from::STDERR => self.output.put(2, frame.bytes),
            from::CREDIT => self.input.credit += frame.number() as usize,
            from::EXIT => {
                let status = ExitStatus::from_raw(frame.number() as i32);
                let ending = match status.signal() {
                    Some(signal) => Ending::Signal(signal),
                    None => Ending::Exit(status.code().unwrap_or(-1)),
                };
                return Some(End::Program { ending, stopped: self.stop_asked.is_some() });
            }
            from::REFUSED => {
                let error = io::Error::from_raw_os_error(frame.number() as i32);
                let what = String::from_utf8_lossy(frame.bytes.get(4..).unwrap_or_default()).into_owned();
                return Some(End::Refused(GuestError::Refused { what, error }));
            }
            _ => {}
        }
        None
    }

    fn forward_signals(&mut self, job: &Job) -> Result<(), GuestError> {
        while let Some(caught) = self.relay.next() {
            if caught.signal == libc::SIGWINCH {
                let now = terminals(job).1;
                if now != self.window {
                    self.window = now;
                    let bytes = [now.0.to_le_bytes(), now.1.to_le_bytes()].concat();
                    self.vm.channel.send(to::WINDOW, &bytes);
                }
                continue;
            }
            if self.started.is_none() && !matches!(caught.signal, libc::SIGUSR1 | libc::SIGUSR2) {
                return Err(GuestError::Interrupted { signal: caught.signal });
            }
            if matches!(caught.signal, libc::SIGINT | libc::SIGTERM) {
                self.interruptions += 1;
                if self.interruptions > INSISTENCE {
                    self.vm.channel.signal(libc::SIGKILL, Whom::All);
                }
            }
            let group = caught.by_terminal && job.signals_to_group;
            self.vm.channel.signal(caught.signal, if group { Whom::Group } else { Whom::Process });
        }
        Ok(())
    }

    fn ask_to_stop(&mut self, job: &mut Job) {
        if self.started.is_none() {
            return;
        }
        match self.stop_asked {
            None => {
                if (job.stop)() == Verdict::Stop {
                    self.stop_asked = Some(Instant::now());
                    self.vm.channel.signal(libc::SIGTERM, Whom::Process);
                }
            }
            Some(since) if since.elapsed() > job.grace && !self.killed => {
                self.killed = true;
                self.vm.channel.signal(libc::SIGKILL, Whom::All);
            }
            Some(_) => {}
        }
    }

    /// The guest switched itself off: its init failed, or its kernel panicked.
    fn guest_ended(&mut self) -> Result<End, GuestError> {
        let quit = self.vm.quit(Duration::from_secs(30), &mut || false);
        let console = self.vm.console();
        if is_panic(&console) {
            return Err(GuestError::Panic { console });
        }
        quit?;
        Err(GuestError::Boot { why: "resumed, it switched itself off".into(), console })
    }

    /// Before the program runs, QEMU's end means that it did not take the snapshot.
    fn resume_error(&self, error: GuestError) -> GuestError {
        match error {
            GuestError::Died { said, .. } if self.started.is_none() && said.contains("migration") => {
                GuestError::Resume { said }
            }
            GuestError::Qmp { .. } if self.started.is_none() => {
                GuestError::Resume { said: self.vm.last_words() }
            }
            other => other,
        }
    }

    fn finish(mut self, end: Result<End, GuestError>) -> Result<Outcome, GuestError> {
        // Also after an error: what the program wrote is the user's.
        let relay = self.relay;
        let mut insisted = 0;
        let mut hurry = || {
            insisted += std::iter::from_fn(|| relay.next()).filter(|c| c.signal == libc::SIGINT).count();
            insisted >= 2
        };
        let quit = self.vm.quit(QUIT_PATIENCE, &mut hurry);
        self.output.finish();
        match end? {
            End::Refused(error) => Err(error),
            End::Program { ending, stopped } => Ok(Outcome {
                ending,
                stopped,
                startup: self.started.unwrap_or_default(),
                console: self.vm.console(),
                trouble: quit.err().map(|error| error.to_string()),
            }),
        }
    }
}

/// Which of the standard streams are our terminal (bit by number), and its size.
fn terminals(job: &Job) -> (u64, (u16, u16)) {
    let mut mask = 0;
    let mut size = (0, 0);
    for (number, stream) in [&job.stdin, &job.stdout, &job.stderr].into_iter().enumerate() {
        if matches!(stream, Stream::Inherit)
            && let Some(window) = host::window(number as i32)
        {
            mask |= 1 << number;
            size = window;
        }
    }
    (mask, size)
}
