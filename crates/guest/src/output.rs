//! The program's output on its way to ours. A slow reader must hold up the program, not the
//! signals for it, so writing is done by a thread.

use super::job::Stream;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Bytes that may wait to be written before no more are taken from the guest.
const ROOM: usize = 1 << 20;

/// Standard output and error of this process or what takes their places.
pub(super) struct Output {
    queue: Option<Sender<(usize, Vec<u8>)>>,
    waiting: Arc<AtomicUsize>,
    /// This one is not read any more.
    broken: Arc<[AtomicBool; 2]>,
    told: [bool; 2],
    writer: Option<JoinHandle<()>>,
}

impl Output {
    pub fn new(stdout: &Stream, stderr: &Stream) -> std::io::Result<Output> {
        let targets = [target(stdout, 1)?, target(stderr, 2)?];
        let waiting = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new([const { AtomicBool::new(false) }; 2]);
        let (queue, chunks) = channel();
        let (counter, flags) = (Arc::clone(&waiting), Arc::clone(&broken));
        let writer = std::thread::spawn(move || write_all(targets, &chunks, &counter, &flags));
        Ok(Output { queue: Some(queue), waiting, broken, told: [false; 2], writer: Some(writer) })
    }

    /// Takes what the program wrote to `stream` (1 or 2).
    pub fn put(&self, stream: usize, bytes: Vec<u8>) {
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Some(queue) = &self.queue {
            let _ = queue.send((stream - 1, bytes));
        }
    }

    /// Whether more should be taken from the guest now.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < ROOM
    }

    /// A stream (1 or 2) that is never read any more; each is named once.
    pub fn closed(&mut self) -> Option<usize> {
        let at = (0..2).find(|&at| !self.told[at] && self.broken[at].load(Ordering::Relaxed))?;
        self.told[at] = true;
        Some(at + 1)
    }

    /// Waits until everything is written.
    pub fn finish(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A descriptor of our own for the stream; `None` throws it away.
fn target(stream: &Stream, number: i32) -> std::io::Result<Option<File>> {
    let fd = match stream {
        Stream::Null => return Ok(None),
        Stream::Inherit => number,
        Stream::File(fd) => fd.as_raw_fd(),
    };
    // SAFETY: duplicates a descriptor; the result is ours alone.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if own < 0 {
        // Ours is closed (`>&-`): so is the program's, as far as it can tell.
        return if number == fd { Ok(None) } else { Err(std::io::Error::last_os_error()) };
    }
    // SAFETY: as above.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(own) }.into()))
}

fn write_all(
    mut targets: [Option<File>; 2],
    chunks: &Receiver<(usize, Vec<u8>)>,
    waiting: &AtomicUsize,
    broken: &[AtomicBool; 2],
) {
    for (at, bytes) in chunks {
        if let Some(file) = &mut targets[at]
            && write_whole(file, &bytes).is_err()
        {
            broken[at].store(true, Ordering::Relaxed);
            targets[at] = None;
        }
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
}

/// As `write_all`, but patient with a descriptor that another process made non-blocking.
fn write_whole(file: &mut File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let mut wait = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one pollfd of a descriptor that lives as long as the call.
                unsafe { libc::poll(&mut wait, 1, 1000) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
