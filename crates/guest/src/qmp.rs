//! QEMU's control channel: commands, answers, events. One JSON value per line.

use super::error::GuestError;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long QEMU may take to answer; its main loop stands still while a big snapshot loads.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Qmp {
    stream: UnixStream,
    input: Vec<u8>,
    events: VecDeque<Value>,
    pub closed: bool,
}

impl Qmp {
    pub fn new(stream: UnixStream) -> io::Result<Qmp> {
        stream.set_nonblocking(true)?;
        Ok(Qmp { stream, input: Vec::new(), events: VecDeque::new(), closed: false })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Leaves the state in which QEMU only takes `qmp_capabilities`. The greeting needs no look.
    pub fn greet(&mut self) -> Result<(), GuestError> {
        self.command("qmp_capabilities", json!({})).map(drop)
    }

    /// The answer of a command.
    pub fn command(&mut self, name: &str, arguments: Value) -> Result<Value, GuestError> {
        self.command_with(name, arguments, None)
    }

    /// As [`Qmp::command`], with a descriptor beside it (for `getfd`).
    pub fn command_with(
        &mut self,
        name: &str,
        arguments: Value,
        descriptor: Option<BorrowedFd>,
    ) -> Result<Value, GuestError> {
        let refused = |why: String| GuestError::Qmp { command: name.to_owned(), why };
        let mut text = json!({ "execute": name, "arguments": arguments }).to_string();
        text.push('\n');
        match descriptor {
            Some(fd) => send_with(&self.stream, text.as_bytes(), fd),
            None => (&self.stream).write_all(text.as_bytes()),
        }
        .map_err(|error| refused(error.to_string()))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(value) = self.parse() {
                if let Some(error) = value.get("error") {
                    let why = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                    return Err(refused(why.to_owned()));
                }
                match value.get("return") {
                    Some(result) => return Ok(result.clone()),
                    None if value.get("event").is_some() => self.events.push_back(value),
                    None => {}
                }
            }
            if self.closed {
                return Err(refused("QEMU has gone".into()));
            }
            if Instant::now() > deadline {
                return Err(refused(format!("no answer within {} s", PATIENCE.as_secs())));
            }
            wait_readable(&self.stream, Duration::from_millis(100));
            self.fill();
        }
    }

    /// Sends without waiting for the answer, for a machine that should end anyway.
    pub fn tell(&mut self, name: &str) {
        let text = format!("{}\n", json!({ "execute": name }));
        if (&self.stream).write_all(text.as_bytes()).is_err() {
            self.closed = true;
        }
    }

    /// The next event that has arrived, by name and whole.
    pub fn event(&mut self) -> Option<(String, Value)> {
        self.fill();
        while let Some(value) = self.parse() {
            if value.get("event").is_some() {
                self.events.push_back(value);
            }
        }
        let event = self.events.pop_front()?;
        Some((event["event"].as_str().unwrap_or_default().to_owned(), event))
    }

    fn parse(&mut self) -> Option<Value> {
        loop {
            let end = self.input.iter().position(|&b| b == b'\n')?;
            let line: Vec<u8> = self.input.drain(..=end).collect();
            if let Ok(value) = serde_json::from_slice(&line) {
                return Some(value);
            }
        }
    }

    fn fill(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match (&self.stream).read(&mut bytes) {
                Ok(0) => break self.closed = true,
                Ok(got) => self.input.extend(&bytes[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => break self.closed = true,
            }
        }
    }
}

fn wait_readable(stream: &UnixStream, patience: Duration) {
    let mut wait = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd of a descriptor that lives as long as the call.
    unsafe { libc::poll(&mut wait, 1, patience.as_millis() as i32) };
}

/// Sends bytes with a descriptor attached (SCM_RIGHTS).
fn send_with(stream: &UnixStream, bytes: &[u8], descriptor: BorrowedFd) -> io::Result<()> {
    let number = descriptor.as_raw_fd();
    let size = size_of_val(&number) as u32;
    // SAFETY: pure arithmetic.
    let room = unsafe { libc::CMSG_SPACE(size) } as usize;
    // u64: a control message is aligned to the size of a pointer.
    let mut control = vec![0_u64; room.div_ceil(8)];
    let mut data = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: all zero is a valid msghdr; its pointers are to buffers that outlive the call;
    // CMSG_FIRSTHDR points into `control`, which has room for one descriptor.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = room as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(header).cast(), number);
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::other("only a part could be sent")),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
