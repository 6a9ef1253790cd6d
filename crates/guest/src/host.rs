//! What the host is asked about itself: its memory, and what a process inherits.

use super::error::GuestError;
use super::shape::Shape;
use nearfar_figures::sizes::capacity;
use nearfar_host::{discover, proc};
use nearfar_machine::topology::Limit;
use std::path::Path;

/// Memory that the host must keep for itself and QEMU's own needs (translated code up to
/// 1 GiB, though mostly far less), bytes.
const RESERVE: u64 = 512 << 20;

/// The host's memory in bytes, and what sets the limit in words.
fn memory() -> Option<(u64, String)> {
    let total = proc::memory_bytes()?;
    match discover::limits_of(Path::new("/"), std::process::id()).memory_max_kb {
        Limit::Limited { limit, .. } if limit * 1024 < total => {
            let limit = limit * 1024;
            Some((limit, format!("this process's cgroup may use {}", capacity(limit))))
        }
        _ => Some((total, format!("this host has {}", capacity(total)))),
    }
}

/// Refuses a guest that the host could not hold if the program used all of its memory.
pub(super) fn check_memory(shape: &Shape) -> Result<(), GuestError> {
    let Some((has, words)) = memory() else { return Ok(()) };
    let wanted = shape.memory_bytes();
    if wanted <= has.saturating_sub(RESERVE) {
        return Ok(());
    }
    let per_node = shape.nodes.iter().map(|n| n.memory_bytes).max().unwrap_or(0);
    let limit = format!("{words}, of which {} are needed beside it", capacity(RESERVE));
    Err(GuestError::Memory { wanted, per_node, nodes: shape.nodes.len(), limit })
}

/// The file mode mask, without changing it.
pub(super) fn umask() -> Option<u32> {
    let me = std::process::id();
    u32::from_str_radix(proc::field(&proc::status(me, me).ok()?, "Umask")?, 8).ok()
}

/// User, group, supplementary groups: whom the program in the guest should be.
pub(super) fn user() -> Vec<u64> {
    // SAFETY: no preconditions; getgroups writes at most as many as it is told there is room for.
    unsafe {
        let mut out = vec![u64::from(libc::geteuid()), u64::from(libc::getegid())];
        let count = libc::getgroups(0, std::ptr::null_mut());
        if count > 0 {
            let mut groups = vec![0; count as usize];
            let got = libc::getgroups(count, groups.as_mut_ptr()).max(0) as usize;
            out.extend(groups[..got].iter().map(|&g| u64::from(g)));
        }
        out
    }
}

/// Resource limits: number, soft, hard. Those of memory and processes are the guest's own.
pub(super) fn limits() -> Vec<[u64; 3]> {
    let kinds = [
        libc::RLIMIT_STACK,
        libc::RLIMIT_NOFILE,
        libc::RLIMIT_CORE,
        libc::RLIMIT_FSIZE,
        libc::RLIMIT_MEMLOCK,
    ];
    kinds
        .into_iter()
        // Ours may be higher: they are not for the program.
        .filter_map(|kind| Some((kind, nearfar_host::target::inherited::limit(kind)?)))
        .map(|(kind, limit)| [kind as u64, limit.rlim_cur, limit.rlim_max])
        .collect()
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: writes at most as many bytes as there are.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    bytes
}

/// Device and inode of what a descriptor refers to; `None` if it is closed.
pub(super) fn file_identity(fd: i32) -> Option<(u64, u64)> {
    // SAFETY: all zero is a valid stat, which the kernel fills.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut about) == 0).then_some((about.st_dev, about.st_ino))
    }
}

/// Rows and columns of a terminal; `None` if it is none.
pub(super) fn window(fd: i32) -> Option<(u16, u16)> {
    // SAFETY: isatty only asks; TIOCGWINSZ writes one winsize.
    unsafe {
        if libc::isatty(fd) != 1 {
            return None;
        }
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(fd, libc::TIOCGWINSZ, &mut size);
        Some((size.ws_row, size.ws_col))
    }
}
