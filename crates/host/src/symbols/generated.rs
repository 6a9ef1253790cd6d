//! Names of code that a runtime generates while it runs.
//!
//! Java (`-XX:+DumpPerfMapAtExit`), Node (`--perf-basic-prof`), Python (`-X perf`) and others write lines of
//! `start size name`, both numbers hexadecimal, to `/tmp/perf-PID.map` (Linux, tools/perf/Documentation/jit-interface.txt).
//! Anybody can put a file there: one that is not ours, no plain file or older than the recording is not read.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

/// Longest file that is read, bytes: so many functions of a hundred letters. // chosen
const LONGEST_FILE: u64 = 128 << 20;
/// Most functions that are kept. // chosen
const MOST_FUNCTIONS: usize = 1 << 20;
/// Longest name that is kept, bytes. // chosen
const LONGEST_NAME: usize = 512;

/// The functions of one process's generated code.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// First address: end and name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// Those of a process that was recorded from `since` on; `None` if it wrote none.
    pub fn of(pid: u32, since: SystemTime) -> Option<PerfMap> {
        PerfMap::open(&Path::new("/tmp").join(format!("perf-{pid}.map")), since)
    }

    fn open(path: &Path, since: SystemTime) -> Option<PerfMap> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok()?;
        // SAFETY: no preconditions.
        let me = unsafe { libc::geteuid() };
        if !meta.is_file() || meta.uid() != me || meta.modified().ok()? < since {
            return None;
        }
        Some(PerfMap::parse(BufReader::new(file.take(LONGEST_FILE))))
    }

    /// What is not a such line is left out; of two functions at one address the later counts, as memory is used again.
    fn parse(mut lines: impl BufRead) -> PerfMap {
        let mut map = PerfMap::default();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line);
            let mut words = text.trim_end().splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            if let (Some(start), Some(size)) = (number(), number())
                && let Some(name) = words.next().filter(|name| !name.is_empty())
                && let Some(end) = start.checked_add(size)
            {
                let name: String = name.chars().take(LONGEST_NAME).collect();
                map.functions.insert(start, (end, name));
            }
            line.clear();
            if map.functions.len() == MOST_FUNCTIONS {
                break;
            }
        }
        map
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn functions_are_found_by_their_addresses() {
        let text = "7f0000001000 40 LS;::main\n7f0000001040 0x10 Interpreter\nnonsense\n7f01 zz x\n\n\
                    7f0000001000 20 again with blanks\nffffffffffffffff 10 beyond\n7f02 10\n";
        let map = PerfMap::parse(text.as_bytes());
        assert_eq!(map.name(0x7f00_0000_1000), Some("again with blanks"));
        assert_eq!(map.name(0x7f00_0000_101f), Some("again with blanks"));
        assert_eq!(map.name(0x7f00_0000_1020), None);
        assert_eq!(map.name(0x7f00_0000_104f), Some("Interpreter"));
        assert_eq!((map.name(0x7f00_0000_1050), map.name(0), map.name(u64::MAX)), (None, None, None));
        let long = format!("10 10 {}\n", "x".repeat(5000));
        assert_eq!(PerfMap::parse(long.as_bytes()).name(0x10).unwrap().len(), LONGEST_NAME);
    }

    #[test]
    fn old_files_links_and_what_is_no_file_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "10 10 f\n").unwrap();
        let now = SystemTime::now();
        let (before, after) = (now - Duration::from_secs(60), now + Duration::from_secs(60));
        assert_eq!(PerfMap::open(&path, before).unwrap().name(0x18), Some("f"));
        assert!(PerfMap::open(&path, after).is_none());
        let link = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(PerfMap::open(&link, before).is_none());
        assert!(PerfMap::open(folder.path(), before).is_none());
        assert!(PerfMap::open(&folder.path().join("perf-3.map"), before).is_none());
    }
}
