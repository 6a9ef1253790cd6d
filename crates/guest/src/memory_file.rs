//! Files without a name: for QEMU to read, for a program's output.

use super::error::GuestError;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// A file with these bytes, at its start.
pub fn in_memory(bytes: &[u8]) -> Result<OwnedFd, GuestError> {
    let mut file = new().map_err(failed())?;
    file.write_all(bytes).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed())?;
    Ok(file.into())
}

/// A file of so many zeros, which take no memory.
pub(super) fn zeros(bytes: u64) -> io::Result<OwnedFd> {
    let file = new()?;
    file.set_len(bytes)?;
    Ok(file.into())
}

fn new() -> io::Result<File> {
    // SAFETY: a NUL-terminated name.
    let fd = unsafe { libc::memfd_create(c"nearfar".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else has.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn failed() -> impl FnOnce(io::Error) -> GuestError {
    GuestError::host("cannot make a file in memory")
}

/// Its path in a process that inherits it.
pub(super) fn path_of(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
