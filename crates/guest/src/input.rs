//! Standard input on its way to the program.

use super::channel::{Channel, to};
use super::job::Stream;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Reads as far as the guest has given credit, so that not more is taken from a stream that
/// is shared with others than the program's pipe holds.
pub(super) struct Input {
    /// -1 once it has ended.
    fd: RawFd,
    /// Bytes that the guest takes.
    pub credit: usize,
    /// Something can be read, or `waiting_for` gave nothing to wait for.
    pub ready: bool,
    end_told: bool,
}

impl Input {
    /// The stream stays open as long as the job has it.
    pub fn new(stream: &Stream) -> Input {
        let fd = match stream {
            Stream::Inherit => 0,
            Stream::Null => -1,
            Stream::File(fd) => fd.as_raw_fd(),
        };
        Input { fd, credit: 0, ready: false, end_told: false }
    }

    /// The descriptor to wait for; -1 if there is nothing to wait for now.
    pub fn waiting_for(&self) -> RawFd {
        if self.credit == 0 || in_background(self.fd) { -1 } else { self.fd }
    }

    /// Reads what is there and sends it.
    pub fn forward(&mut self, channel: &mut Channel) {
        if self.credit == 0 {
            return;
        }
        if self.fd >= 0 && self.ready {
            self.ready = false;
            let mut bytes = [0_u8; 65536];
            let room = bytes.len().min(self.credit);
            // SAFETY: reads at most `room` bytes into a buffer that has them.
            let got = unsafe { libc::read(self.fd, bytes.as_mut_ptr().cast(), room) };
            match usize::try_from(got) {
                Ok(0) => self.fd = -1,
                Ok(got) => {
                    self.credit -= got;
                    channel.send(to::STDIN, &bytes[..got]);
                }
                Err(_) => {
                    let kind = io::Error::last_os_error().kind();
                    if kind != io::ErrorKind::Interrupted && kind != io::ErrorKind::WouldBlock {
                        self.fd = -1;
                    }
                }
            }
        }
        if self.fd < 0 && !self.end_told {
            self.end_told = true;
            channel.send(to::STDIN, &[]);
        }
    }
}

/// Whether reading would stop us (SIGTTIN), though the program may never read.
fn in_background(fd: RawFd) -> bool {
    // SAFETY: both only ask.
    unsafe {
        let foreground = libc::tcgetpgrp(fd);
        foreground >= 0 && foreground != libc::getpgrp()
    }
}
