//! Frames between host and guest; the other side is init/protocol.h.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Must agree with `NF_GUEST_VERSION`.
pub(super) const VERSION: u32 = 1;

/// Frames to the guest.
pub(super) mod to {
    pub const JOB: u32 = 1;
    pub const STDIN: u32 = 2;
    pub const SIGNAL: u32 = 3;
    pub const CLOSE: u32 = 4;
    pub const WINDOW: u32 = 5;
    pub const TIME: u32 = 6;
}

/// Frames from the guest.
pub(super) mod from {
    pub const HELLO: u32 = 16;
    pub const CLOCK: u32 = 17;
    pub const STARTED: u32 = 18;
    pub const STDOUT: u32 = 19;
    pub const STDERR: u32 = 20;
    pub const CREDIT: u32 = 21;
    pub const EXIT: u32 = 22;
    pub const REFUSED: u32 = 23;
}

/// Fields of a job.
pub(super) mod field {
    pub const ARGUMENT: u32 = 1;
    pub const VARIABLE: u32 = 2;
    pub const DIRECTORY: u32 = 3;
    pub const THP: u32 = 4;
    pub const BALANCING: u32 = 5;
    pub const USER: u32 = 6;
    pub const UMASK: u32 = 7;
    pub const LIMIT: u32 = 8;
    pub const SEED: u32 = 9;
    pub const HOSTNAME: u32 = 10;
    pub const TERMINAL: u32 = 11;
    pub const FIRST_PID: u32 = 12;
    pub const ONE_OUTPUT: u32 = 13;
    pub const WRITABLE: u32 = 14;
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Process = 0,
    Group = 1,
    All = 2,
}

/// Longest frame from the guest: init reads 64 KiB at once.
const LIMIT: usize = 1 << 20;

/// A frame from the guest.
#[derive(Debug)]
pub(super) struct Frame {
    pub kind: u32,
    pub bytes: Vec<u8>,
}

impl Frame {
    /// The leading number; 0 if there is none.
    pub fn number(&self) -> u32 {
        self.bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
    }
}

/// The host's end of the port, non-blocking.
pub(super) struct Channel {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// QEMU has closed its end.
    pub closed: bool,
}

impl Channel {
    pub fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel { stream, input: Vec::new(), output: Vec::new(), closed: false })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether something waits for the guest to take it.
    pub fn pending(&self) -> bool {
        !self.output.is_empty() && !self.closed
    }

    pub fn send(&mut self, kind: u32, bytes: &[u8]) {
        self.output.extend(kind.to_le_bytes());
        self.output.extend((bytes.len() as u32).to_le_bytes());
        self.output.extend(bytes);
        self.flush();
    }

    pub fn signal(&mut self, signal: i32, whom: Whom) {
        let mut bytes = signal.to_le_bytes().to_vec();
        bytes.extend((whom as u32).to_le_bytes());
        self.send(to::SIGNAL, &bytes);
    }

    /// Writes what the socket takes now.
    pub fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    /// Reads what is there now, at most `limit` bytes or so.
    pub fn fill(&mut self, limit: usize) {
        let mut bytes = [0; 65536];
        while self.input.len() < limit.max(8) {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    self.closed = true;
                    return;
                }
                Ok(got) => self.input.extend(&bytes[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    /// The next whole frame. What is not a frame is an error: the guest's init is ours.
    pub fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some(head) = self.input.first_chunk::<8>() else { return Ok(None) };
        let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if !(from::HELLO..=from::REFUSED).contains(&kind) || size > LIMIT {
            return Err(io::Error::other(format!("the guest sent a frame of kind {kind} and {size} bytes")));
        }
        if self.input.len() < 8 + size {
            return Ok(None);
        }
        let bytes = self.input[8..8 + size].to_vec();
        self.input.drain(..8 + size);
        Ok(Some(Frame { kind, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours).unwrap();
        let mut bytes = Vec::new();
        for (kind, text) in [(from::STDOUT, "one"), (from::STDERR, ""), (from::STDOUT, "three")] {
            bytes.extend(kind.to_le_bytes());
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        let mut seen = Vec::new();
        for byte in bytes {
            theirs.write_all(&[byte]).unwrap();
            channel.fill(1 << 20);
            while let Some(frame) = channel.next().unwrap() {
                seen.push((frame.kind, String::from_utf8(frame.bytes).unwrap()));
            }
        }
        let expected = [(from::STDOUT, "one"), (from::STDERR, ""), (from::STDOUT, "three")];
        assert_eq!(seen, expected.map(|(k, t)| (k, t.to_owned())));
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours).unwrap();
        theirs.write_all(b"Kernel panic - not syncing").unwrap();
        channel.fill(1 << 20);
        assert!(channel.next().is_err());
    }

    /// Each constant of the C header beside ours; fields too, which only one side writes.
    #[test]
    fn both_sides_number_alike() {
        let header = include_str!("init/protocol.h");
        let mut theirs: Vec<(&str, u32)> = header
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("NF_")?.split_once(" = "))
            .map(|(name, rest)| (name, rest.split(',').next().unwrap().trim().parse().unwrap()))
            .collect();
        theirs.sort();
        let mut ours = [
            ("JOB", to::JOB),
            ("STDIN", to::STDIN),
            ("SIGNAL", to::SIGNAL),
            ("CLOSE", to::CLOSE),
            ("WINDOW", to::WINDOW),
            ("TIME", to::TIME),
            ("HELLO", from::HELLO),
            ("CLOCK", from::CLOCK),
            ("STARTED", from::STARTED),
            ("STDOUT", from::STDOUT),
            ("STDERR", from::STDERR),
            ("CREDIT", from::CREDIT),
            ("EXIT", from::EXIT),
            ("REFUSED", from::REFUSED),
            ("PROCESS", Whom::Process as u32),
            ("GROUP", Whom::Group as u32),
            ("ALL", Whom::All as u32),
            ("ARGUMENT", field::ARGUMENT),
            ("VARIABLE", field::VARIABLE),
            ("DIRECTORY", field::DIRECTORY),
            ("THP", field::THP),
            ("BALANCING", field::BALANCING),
            ("USER", field::USER),
            ("UMASK", field::UMASK),
            ("LIMIT", field::LIMIT),
            ("SEED", field::SEED),
            ("HOSTNAME", field::HOSTNAME),
            ("TERMINAL", field::TERMINAL),
            ("FIRST_PID", field::FIRST_PID),
            ("ONE_OUTPUT", field::ONE_OUTPUT),
            ("WRITABLE", field::WRITABLE),
        ];
        ours.sort();
        assert_eq!(theirs, ours);
        assert!(header.contains(&format!("#define NF_GUEST_VERSION {VERSION}\n")));
    }
}
