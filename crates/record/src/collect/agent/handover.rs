//! The shared memory for programs that may not open it by its path: those in a user namespace of their own, for which
//! /proc/PID/fd of a process outside is closed. They ask at a socket of an abstract name, which user, mount and PID
//! namespaces do not hide (a network namespace does), and get the descriptor, and their process id as we know it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

/// What the name begins with; the memory's path follows. agent/ring.c has it, too.
const PREFIX: &[u8] = b"nearfar";

/// Where the memory is handed out.
pub(super) struct Counter {
    listener: UnixListener,
    /// Whose programs may have it.
    user: u32,
}

impl Counter {
    /// Opens it for the memory that `user` (`None`: ourselves) reaches as `path`.
    ///
    /// # Errors
    /// If the system has no such sockets, or a descriptor too few.
    pub(super) fn open(path: &Path, user: Option<u32>) -> io::Result<Counter> {
        let name = [PREFIX, path.as_os_str().as_bytes()].concat();
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        // SAFETY: no preconditions.
        let user = user.unwrap_or_else(|| unsafe { libc::geteuid() });
        Ok(Counter { listener, user })
    }

    /// Answers all that have asked; does not wait.
    pub(super) fn answer(&self, file: &OwnedFd) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Some(pid) = peer(&stream).filter(|peer| peer.uid == self.user).map(|peer| peer.pid) {
                // One that has gone meanwhile needs no answer.
                let _ = send(&stream, file, pid as u32);
            }
        }
    }
}

/// The process that asks, with numbers of our own namespaces.
fn peer(stream: &UnixStream) -> Option<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as it is told.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut bytes,
        )
    };
    (result == 0 && peer.pid > 0).then_some(peer)
}

fn send(stream: &UnixStream, file: &OwnedFd, pid: u32) -> io::Result<()> {
    let mut number = pid.to_ne_bytes();
    let mut data = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    // Of u64, for the alignment of a header.
    let mut control = [0_u64; 8];
    // SAFETY: all zero is a valid msghdr; the control buffer is longer than a header with one descriptor, so its first
    // header is there, and all that is pointed to lives until after the call.
    let sent = unsafe {
        let descriptor = size_of::<libc::c_int>() as u32;
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(descriptor) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(descriptor) as _;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
