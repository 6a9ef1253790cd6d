//! What /proc tells about processes.

use nearfar_machine::NodeId;
use nearfar_machine::cpulist::CpuList;
use nearfar_observed::live::events::Processor;
use nearfar_observed::live::reading::{Stat, cpu_ticks};
use std::ffi::CString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

/// One line of /proc/PID/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Bits: 1 read, 2 write, 4 execute, 8 shared; as in the recording's mappings.
    pub flags: u8,
    /// File offset.
    pub offset: u64,
    /// Which file; zeros if none.
    pub file: FileId,
    /// Path or `[heap]`-like name; empty if anonymous.
    pub name: String,
}

/// A file, by what the kernel says of mappings of it. Zeros: not known, or no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId {
    /// As stat gives it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// File systems that say the same numbers of a mapping as of the file: overlays and snapshots do not.
const SAME_NUMBERS: [libc::c_long; 3] = [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::TMPFS_MAGIC];

impl FileId {
    /// Whether the file at `path` may be this one: where the numbers tell it, whether they agree.
    pub fn may_be(self, path: &Path) -> bool {
        let Ok(found) = fs::metadata(path) else { return false };
        let same = (found.dev(), found.ino()) == (self.device, self.inode);
        self == FileId::default()
            || same
            || !file_system(path).is_some_and(|kind| SAME_NUMBERS.contains(&kind))
    }
}

fn file_system(path: &Path) -> Option<libc::c_long> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zero is a valid statfs, and the kernel fills it in.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &mut found) == 0).then_some(found.f_type as libc::c_long)
    }
}

/// The mappings of a process; empty if it cannot be read.
pub fn maps(pid: u32) -> Vec<Map> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(Map::parse).collect()
}

impl Map {
    /// Reads a line of /proc/PID/maps.
    pub fn parse(line: &str) -> Option<Map> {
        // address perms offset dev inode pathname; the name may hold blanks
        let mut rest = line;
        let mut field = || {
            let trimmed = rest.trim_start();
            let end = trimmed.find(' ').unwrap_or(trimmed.len());
            let (head, tail) = trimmed.split_at(end);
            rest = tail;
            head
        };
        let (range, permissions, offset) = (field(), field(), field());
        let (device, inode) = (field(), field());
        let (major, minor) = device.split_once(':')?;
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let device = libc::makedev(hex(major)?, hex(minor)?);
        let (start, end) = range.split_once('-')?;
        let flags = permissions.bytes().fold(0, |bits, letter| {
            bits | match letter {
                b'r' => 1,
                b'w' => 2,
                b'x' => 4,
                b's' => 8,
                _ => 0,
            }
        });
        Some(Map {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            flags,
            offset: u64::from_str_radix(offset, 16).ok()?,
            file: FileId { device, inode: inode.parse().ok()? },
            name: rest.trim_start().to_owned(),
        })
    }
}

/// Why the process numbers of the /proc that is mounted here are not this process's: it may be of the PID namespace
/// around ours. Its process 2 is another one than the kernel's process 2 for our system calls.
pub fn foreign() -> Option<String> {
    let own = std::process::id();
    match std::fs::read_link("/proc/self") {
        Ok(link) if link.to_str() == Some(own.to_string().as_str()) => None,
        Ok(link) => Some(format!(
            "the /proc that is mounted here is of another PID namespace: this process is {own}, and {} there. Mount its \
             own (unshare --mount-proc; docker and podman do so), or start nearfar outside",
            link.display()
        )),
        Err(why) => Some(format!("/proc is not mounted here: {why}")),
    }
}

/// /proc/PID/task/TID/status: lines of a name, a colon and a value; see [`field`].
///
/// # Errors
/// What the kernel says; most often that the thread is gone.
pub fn status(pid: u32, tid: u32) -> io::Result<String> {
    // Not every byte of a name is UTF-8.
    let text = fs::read(format!("/proc/{pid}/task/{tid}/status"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The value of a line such as `VmRSS:      1234 kB`, without the blanks around it.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// A number or word of /proc/sys/kernel, such as `perf_event_paranoid`.
pub fn kernel_setting<T: FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

/// The name of this host; `None` if it has none.
pub fn host_name() -> Option<String> {
    kernel_setting::<String>("hostname").filter(|name| !name.is_empty())
}

/// The processor that the kernel names first.
pub fn processor() -> Processor {
    Processor::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Memory of this host, bytes.
pub fn memory_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal").and_then(kib)
}

/// Memory of a node that is free or holds only files, which the kernel drops when asked for memory; bytes.
pub fn available_memory(node: NodeId) -> Option<u64> {
    // Without nodes the kernel has made the sum itself.
    let Ok(text) = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")) else {
        return field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable").and_then(kib);
    };
    let bytes = |key: &str| field(&text, &format!("Node {node} {key}")).and_then(kib);
    let files = ["Active(file)", "Inactive(file)"].into_iter().filter_map(bytes).sum::<u64>();
    // Half of the files may be in use again at once.
    Some(bytes("MemFree")? + files / 2)
}

/// Whether a thread whose status this is has ended and is only still listed (`Z`, `X`; proc_pid_status(5)).
pub fn has_ended(status: &str) -> bool {
    field(status, "State").is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// `1234 kB` in bytes.
pub fn kib(value: &str) -> Option<u64> {
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Where a thread may run, from its status.
pub fn allowed_cpus(status: &str) -> Option<CpuList> {
    field(status, "Cpus_allowed_list")?.parse().ok()
}

/// /proc/PID/stat; `None` if no such process exists.
pub fn stat(pid: u32) -> Option<Stat> {
    Stat::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The cpu that a thread runs on or ran on last.
pub fn last_cpu(pid: u32, tid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&stat))?.cpu
}

/// How often a thread changed its cpu, and how many pages AutoNUMA moved for it, since it began: the scheduler's
/// figures of CONFIG_SCHED_DEBUG, `se.nr_migrations : 3` (kernel/sched/debug.c).
pub fn migrations(pid: u32, tid: u32) -> (Option<u64>, Option<u64>) {
    let sched = fs::read_to_string(format!("/proc/{pid}/task/{tid}/sched")).unwrap_or_default();
    let figure = |key: &str| {
        let line = sched.lines().find(|l| l.split(':').next().is_some_and(|name| name.trim() == key))?;
        line.rsplit_once(':')?.1.trim().parse().ok()
    };
    (figure("se.nr_migrations"), figure("numa_pages_migrated"))
}

/// A process and its descendants; without them where the kernel does not list them (CONFIG_PROC_CHILDREN).
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        for tid in threads(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            all.extend(children.unwrap_or_default().split_whitespace().filter_map(|c| c.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// Size of a page, bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: a plain call; Linux always knows the size.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// /proc/PID/numa_maps.
///
/// # Errors
/// What the kernel says: no such process, or none of ours.
pub fn numa_maps(pid: u32) -> io::Result<String> {
    let mut text = Vec::new();
    numa_maps_in_parts(pid, |part| text.extend_from_slice(part))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The same in parts as the kernel gets them: a line or a few, of which the last one may go on in the next part.
///
/// # Errors
/// As of [`numa_maps`].
pub fn numa_maps_in_parts(pid: u32, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    // The kernel makes lines until its own page is full, drops the last one and walks that mapping again at
    // the next read (`seq_read_iter`). Asked for less than a page it stops in time, and nothing is walked twice.
    let mut file = fs::File::open(format!("/proc/{pid}/numa_maps"))?;
    let mut part = [0; 256];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(length) => each(&part[..length]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// Threads of a process, in the order of their numbers.
pub fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut tids: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// Name of a thread as the kernel knows it.
pub fn name(pid: u32, tid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The command line that a process was started with, or has written in its place; empty if it cannot be read.
pub fn command_line(pid: u32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text);
    match words.is_empty() {
        true => Vec::new(),
        false => words.split(|&b| b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect(),
    }
}

/// Processes, kernel threads included, in the order of their numbers.
pub fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Path of a process's executable; empty if it cannot be read.
pub fn executable(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/exe")).map(|p| p.display().to_string()).unwrap_or_default()
}

/// Start time of a process in clock ticks after boot; `None` if no such process exists.
pub fn start_time(pid: u32) -> Option<u64> {
    Some(stat(pid)?.started)
}

/// Where the heap of a process begins; `None` where the kernel hides it.
pub fn heap_begin(pid: u32) -> Option<u64> {
    Some(stat(pid)?.heap_begin).filter(|&begin| begin > 0)
}

/// User id that a process runs as; `None` if no such process exists.
pub fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Kernel indexes of the cpus that are online.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match text.trim().parse::<CpuList>() {
        Ok(cpus) if !cpus.is_empty() => cpus.iter().collect(),
        // Without /sys: each has a line of its time.
        _ => {
            let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
            let cpus: Vec<u32> = cpu_ticks(&stat).into_keys().collect();
            if cpus.is_empty() { vec![0] } else { cpus }
        }
    }
}

/// CLOCK_MONOTONIC, ns: the clock of every time in a recording.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of this process so far, seconds.
pub fn own_cpu_seconds() -> f64 {
    // SAFETY: zero is a valid rusage and the kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maps_line_with_blanks_in_its_name_is_read() {
        let map = Map::parse("7f00-8000 rw-s 00001000 00:01 42    /tmp/a b (deleted)").unwrap();
        let file = FileId { device: libc::makedev(0, 1), inode: 42 };
        let name = "/tmp/a b (deleted)".to_owned();
        assert_eq!(map, Map { start: 0x7f00, end: 0x8000, flags: 11, offset: 0x1000, file, name });
        assert_eq!(Map::parse("1000-2000 ---p 0 00:00 0").unwrap().name, "");
    }

    #[test]
    fn fields_are_read_by_their_whole_name() {
        let status = "Name:\ta b\nVmRSS:\t    1234 kB\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n";
        assert_eq!(field(status, "Name"), Some("a b"));
        assert_eq!(field(status, "VmRSS").and_then(kib), Some(1234 * 1024));
        assert_eq!(allowed_cpus(status).unwrap().to_string(), "0-3,8");
        assert_eq!((field(status, "Vm"), kib("12"), kib("x kB")), (None, None, None));
        let meminfo = "Node 0 MemTotal: 9 kB\nNode 0 Active(file):  123 kB\n";
        assert_eq!(field(meminfo, "Node 0 Active(file)").and_then(kib), Some(123 * 1024));
    }

    #[test]
    fn a_file_is_told_from_another_where_its_system_says_the_same_numbers_twice() {
        let (mine, other) =
            (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let about = fs::metadata(mine.path()).unwrap();
        let id = FileId { device: about.dev(), inode: about.ino() };
        assert!(id.may_be(mine.path()) && FileId::default().may_be(mine.path()));
        assert!(!id.may_be(Path::new("/nonexistent")));
        let told = SAME_NUMBERS.contains(&file_system(other.path()).unwrap());
        assert_eq!(id.may_be(other.path()), !told);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id();
        assert!(start_time(me).is_some());
        assert!(threads(me).contains(&me));
        let maps = maps(me);
        assert!(maps.iter().any(|m| m.name == "[stack]"));
        let heap = heap_begin(me).expect("a process may know its own");
        let named = maps.iter().find(|m| m.name == "[heap]").expect("the test's allocator uses brk");
        assert!((named.start..named.end).contains(&heap));
        assert_eq!(start_time(u32::MAX - 1), None);
    }
}
