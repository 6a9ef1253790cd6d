//! What becomes of a copy's system calls. The copy must not be seen: no output, no file position moved (a fork shares it), no message
//! to anybody. What only the copy itself notices is let through, and what would wait for others ends the excerpt.

use super::trace::Registers;
use std::collections::HashMap;
use std::fs::File;

/// Most bytes that are read at once.
const MOST: u64 = 1 << 20;

/// What to do with a system call.
pub(super) enum Fate {
    /// Let the copy make it.
    Made,
    /// The copy goes on with this result.
    Result(i64),
    /// The same, with this in its memory.
    Put { bytes: Vec<u8>, to: u64, result: i64 },
    /// It ends here.
    End,
}

/// What to do with the call that `registers` make, in a copy that had these files open.
pub(super) fn fate(registers: &Registers, files: &mut HashMap<u64, (File, u64)>) -> Fate {
    let &Registers { rax, rdi, rsi, rdx, r10, .. } = registers;
    match rax as libc::c_long {
        libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_gettimeofday
        | libc::SYS_time
        | libc::SYS_times
        | libc::SYS_getpid
        | libc::SYS_getppid
        | libc::SYS_gettid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getcpu
        | libc::SYS_getrusage
        | libc::SYS_getrlimit
        | libc::SYS_sched_getaffinity
        | libc::SYS_get_mempolicy
        | libc::SYS_sysinfo
        | libc::SYS_uname
        | libc::SYS_getrandom
        | libc::SYS_brk
        | libc::SYS_mremap
        | libc::SYS_munmap
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_rt_sigaction
        | libc::SYS_rt_sigprocmask
        | libc::SYS_sigaltstack => Fate::Made,
        // Memory that may be executed from now on may have other code than was translated.
        libc::SYS_mprotect if rdx as i32 & libc::PROT_EXEC == 0 => Fate::Made,
        libc::SYS_mmap if rdx as i32 & libc::PROT_EXEC == 0 && r10 as i32 & libc::MAP_ANONYMOUS != 0 => {
            Fate::Made
        }
        // Other kinds change what is shared, or are hints.
        libc::SYS_madvise if matches!(rdx as i32, libc::MADV_DONTNEED | libc::MADV_FREE) => Fate::Made,
        libc::SYS_madvise => Fate::Result(0),
        libc::SYS_sched_yield | libc::SYS_set_mempolicy | libc::SYS_mbind => Fate::Result(0),
        // No other thread is in the copy.
        libc::SYS_futex if matches!(rsi as i32 & 0x7f, libc::FUTEX_WAKE | libc::FUTEX_WAKE_OP) => {
            Fate::Result(0)
        }
        // A lock that others wait for (the C library writes 2 then): the thread that has it is not in the copy, and will not release it.
        libc::SYS_futex if matches!(rsi as i32 & 0x7f, libc::FUTEX_WAIT) && rdx == 2 => {
            Fate::Put { bytes: vec![0; 4], to: rdi, result: 0 }
        }
        libc::SYS_write => Fate::Result(rdx as i64),
        libc::SYS_close if files.remove(&rdi).is_some() => Fate::Result(0),
        libc::SYS_read => read(files.get_mut(&rdi), rsi, rdx, None),
        libc::SYS_pread64 => read(files.get_mut(&rdi), rsi, rdx, Some(r10)),
        libc::SYS_lseek => match (files.get_mut(&rdi), rdx as i32) {
            (Some((_, at)), libc::SEEK_SET) => moved(at, rsi),
            (Some((_, at)), libc::SEEK_CUR) => {
                let to = at.wrapping_add(rsi);
                moved(at, to)
            }
            _ => Fate::End,
        },
        _ => Fate::End,
    }
}

fn moved(at: &mut u64, to: u64) -> Fate {
    *at = to;
    Fate::Result(to as i64)
}

/// Reads on, or elsewhere.
fn read(file: Option<&mut (File, u64)>, to: u64, bytes: u64, elsewhere: Option<u64>) -> Fate {
    use std::os::unix::fs::FileExt;
    let Some((file, at)) = file else {
        return Fate::End;
    };
    let mut content = vec![0; bytes.min(MOST) as usize];
    let Ok(got) = file.read_at(&mut content, elsewhere.unwrap_or(*at)) else {
        return Fate::End;
    };
    content.truncate(got);
    if elsewhere.is_none() {
        *at += got as u64;
    }
    Fate::Put { bytes: content, to, result: got as i64 }
}
