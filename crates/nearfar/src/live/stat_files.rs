//! The stat files of processes and threads, which stay open between readings: one call for each instead of three and a walk
//! through /proc.

use nearfar_observed::live::reading::Stat;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Descriptors that are left to others.
const LEFT: u64 = 512;
/// Files that are kept open at most. // chosen: as many as threads and processes that are read
const MOST: u64 = 4096;

/// A process and a thread of it; 0 for the process itself.
type Of = (u32, u32);

/// Open stat files.
pub(super) struct StatFiles {
    files: HashMap<Of, (File, u64)>,
    most: usize,
    /// Number of the reading that is made.
    reading: u64,
}

impl StatFiles {
    /// None yet. The soft limit of descriptors is raised as far as that is allowed.
    pub fn new() -> StatFiles {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        StatFiles { files: HashMap::new(), most: allowed.saturating_sub(LEFT).min(MOST) as usize, reading: 0 }
    }

    /// Of a process now; `None` if there is none.
    pub fn of_process(&mut self, pid: u32) -> Option<Stat> {
        self.read((pid, 0), || format!("/proc/{pid}/stat"))
    }

    /// Of a thread now; `None` if there is none.
    pub fn of_thread(&mut self, pid: u32, tid: u32) -> Option<Stat> {
        self.read((pid, tid), || format!("/proc/{pid}/task/{tid}/stat"))
    }

    fn read(&mut self, of: Of, path: impl Fn() -> String) -> Option<Stat> {
        // It fits, and the kernel makes it anew for each read from the beginning.
        let mut buffer = [0u8; 1024];
        if let Some((file, read)) = self.files.get_mut(&of) {
            if let Ok(length) = file.read_at(&mut buffer, 0) {
                *read = self.reading;
                return parse(&buffer[..length]);
            }
            // That one has ended; its number may be another's by now.
            self.files.remove(&of);
        }
        let file = File::open(path()).ok()?;
        let length = file.read_at(&mut buffer, 0).ok()?;
        if self.files.len() < self.most {
            self.files.insert(of, (file, self.reading));
        }
        parse(&buffer[..length])
    }

    /// Ends a reading: files that it did not read are closed.
    pub fn close_unread(&mut self) {
        self.files.retain(|_, (_, read)| *read == self.reading);
        self.reading += 1;
    }
}

fn parse(bytes: &[u8]) -> Option<Stat> {
    Stat::parse(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_anew_and_closed_when_nobody_asks_for_them() {
        let mut stats = StatFiles::new();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (me, other) = (std::process::id(), child.id());
        let before = stats.of_process(me).unwrap();
        assert!(stats.of_process(other).is_some() && stats.of_thread(me, me).is_some());
        stats.close_unread();
        assert_eq!(stats.files.len(), 3);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stats.of_process(other), None, "it has ended");
        let spin = || (0..200_000_000u64).fold(0u64, |sum, i| std::hint::black_box(sum.wrapping_add(i)));
        std::hint::black_box(spin());
        assert!(stats.of_process(me).unwrap().ticks > before.ticks, "a kept file has the numbers of now");
        stats.close_unread();
        assert_eq!(stats.files.len(), 1);
    }
}
