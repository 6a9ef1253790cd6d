//! Files without a name: for QEMU to read, for a program's output.

use super::error::GuestError;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// A file with these bytes, at its start.
pub fn in_memory(bytes: &[u8]) -> Result<OwnedFd, GuestError> {
    let failed = || GuestError::host("cannot make a file in memory");
    // SAFETY: a NUL-terminated name.
    let fd = unsafe { libc::memfd_create(c"nearfar".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed()(std::io::Error::last_os_error()));
    }
    // SAFETY: a fresh descriptor that nothing else has.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed())?;
    Ok(file.into())
}

/// Its path in a process that inherits it.
pub(super) fn path_of(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
