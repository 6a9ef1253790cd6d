//! What was read of a host at one moment, and the texts of /proc and sysfs that it is read from.
//! Counters only grow; what happened in an interval is the difference of two readings ([`super::host`]).

use super::events::{Event, Missing};
use crate::residency::activity::Activity;
use nearfar_machine::NodeId;
use std::collections::BTreeMap;

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Time of each cpu.
    pub cpus: BTreeMap<u32, CpuTicks>,
    /// Memory of each node.
    pub nodes: BTreeMap<NodeId, NodeMemory>,
    /// Pages placed and migrated.
    pub activity: Activity,
    /// Page faults of all processes since boot (`pgfault` of /proc/vmstat).
    pub faults: Option<u64>,
    /// Processes by id.
    pub processes: BTreeMap<u32, Process>,
    /// Threads of the watched processes, by id.
    pub threads: BTreeMap<u32, Thread>,
    /// Threads that were left out of `threads`.
    pub threads_left_out: usize,
    /// Hardware events of each cpu.
    pub events: BTreeMap<u32, BTreeMap<Event, Count>>,
    /// Why events are not counted.
    pub missing_events: BTreeMap<Event, Missing>,
    /// Bytes that memory controllers moved.
    pub controllers: Source<BTreeMap<NodeId, Moved>>,
    /// Bytes that the cpus of each node moved, by resctrl.
    pub monitored: Source<BTreeMap<NodeId, Monitored>>,
    /// Ticks per second of `cpus` and of processes' times.
    pub ticks_per_second: f64,
}

/// A source of numbers, or why it gives none.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<T> {
    /// Numbers, and where they are from.
    Is(T, String),
    /// Why there are none.
    Not(String),
}

impl<T> Default for Source<T> {
    fn default() -> Self {
        Source::Not("it was not asked for".to_owned())
    }
}

impl<K, V> Source<BTreeMap<K, V>> {
    /// A source that has numbers only if there is at least one.
    pub fn of(sums: BTreeMap<K, V>, name: &str, why: &str) -> Self {
        if sums.is_empty() { Source::Not(why.to_owned()) } else { Source::Is(sums, name.to_owned()) }
    }
}

impl<T> Source<T> {
    /// The numbers.
    pub fn get(&self) -> Option<&T> {
        match self {
            Source::Is(is, _) => Some(is),
            Source::Not(_) => None,
        }
    }

    /// Why there are none; empty if there are.
    pub fn why(&self) -> &str {
        match self {
            Source::Is(..) => "",
            Source::Not(why) => why,
        }
    }

    /// Where they are from, or what was looked for.
    pub fn name<'a>(&'a self, otherwise: &'a str) -> &'a str {
        match self {
            Source::Is(_, name) => name,
            Source::Not(_) => otherwise,
        }
    }
}

/// A counter that the kernel may have let others use in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// What was counted.
    pub value: u64,
    /// ns in which it was to count.
    pub enabled_ns: u64,
    /// ns in which it did.
    pub running_ns: u64,
}

impl Count {
    /// What it would have counted since `then` if it had run all the time; `None` if it did not run.
    pub fn since(&self, then: &Count) -> Option<f64> {
        let value = self.value.checked_sub(then.value)? as f64;
        let enabled = self.enabled_ns.checked_sub(then.enabled_ns)?;
        let running = self.running_ns.checked_sub(then.running_ns)?;
        if running == 0 {
            // A cpu that was offline or idle counts nothing while it was not to count.
            return (enabled == 0 && value == 0.0).then_some(0.0);
        }
        Some(value * enabled as f64 / running as f64)
    }
}

/// Bytes from and to a node's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// Bytes that a node's cpus moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Monitored {
    /// From and to all memory (`mbm_total_bytes`).
    pub total: u64,
    /// From and to the node's own (`mbm_local_bytes`).
    pub local: u64,
}

/// Time of a cpu in ticks (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Working.
    pub busy: u64,
    /// Idle, waiting for a disk included.
    pub idle: u64,
    /// Taken by the hypervisor.
    pub stolen: u64,
}

/// Lines `cpuN user nice system idle iowait irq softirq steal …` of /proc/stat.
pub fn cpu_ticks(stat: &str) -> BTreeMap<u32, CpuTicks> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        // guest time, which may follow, is contained in user and nice.
        let ticks: Vec<u64> = words.take(8).map(|w| w.parse().ok()).collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks.try_into().ok()?;
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, p| sum.saturating_add(*p));
        Some((
            cpu,
            CpuTicks { busy: sum(&[user, nice, system, irq, softirq]), idle: sum(&[idle, iowait]), stolen },
        ))
    };
    stat.lines().filter_map(line).collect()
}

/// Memory of a node, bytes; what the kernel does not list is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// All of it.
    pub total: Option<u64>,
    /// Free.
    pub free: Option<u64>,
    /// Pages of programs without a file.
    pub anonymous: Option<u64>,
    /// The page cache.
    pub files: Option<u64>,
}

/// Lines `Node 0 MemTotal: 1234 kB` of a node's meminfo.
pub fn node_memory(meminfo: &str) -> NodeMemory {
    let bytes = |name: &str| {
        meminfo.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(2);
            words.next().filter(|w| w.strip_suffix(':') == Some(name))?;
            words.next()?.parse::<u64>().ok()?.checked_mul(1024)
        })
    };
    NodeMemory {
        total: bytes("MemTotal"),
        free: bytes("MemFree"),
        anonymous: bytes("AnonPages"),
        files: bytes("FilePages"),
    }
}

/// A line `name number` of /proc/vmstat.
pub fn vmstat(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// What its stat says.
    pub stat: Stat,
    /// Where its pages were when they were last looked at.
    pub pages: Option<Pages>,
    /// Why they were not looked at.
    pub pages_why: Option<String>,
}

/// A thread of a watched process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// What its stat says.
    pub stat: Stat,
    /// How often it changed its cpu since it began (`se.nr_migrations`).
    pub migrations: Option<u64>,
    /// Pages that AutoNUMA moved for it since it began.
    pub pages_migrated: Option<u64>,
}

/// Where a process's pages were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pages {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Bytes by node.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Whether they are estimated from random pages.
    pub sampled: bool,
}

/// The fields of /proc/PID/stat or /proc/PID/task/TID/stat that are shown (proc_pid_stat(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its name.
    pub name: String,
    /// `R`, `S`, `D`, …
    pub state: char,
    /// Page faults without a disk, since it began.
    pub minor_faults: u64,
    /// With one.
    pub major_faults: u64,
    /// Time in user and kernel mode, ticks.
    pub ticks: u64,
    /// Threads of the process.
    pub threads: u32,
    /// When it started, ticks after boot: a number that is used again has another one.
    pub started: u64,
    /// Resident pages of the process.
    pub resident_pages: u64,
    /// The cpu that it ran on last.
    pub cpu: Option<u32>,
    /// Where its heap begins (start_brk); 0 where the kernel hides it.
    pub heap_begin: u64,
}

impl Stat {
    /// Reads a line of stat; `None` if it is none.
    pub fn parse(line: &str) -> Option<Stat> {
        // The name may hold blanks and parentheses; the others are counted behind its last one.
        let (head, rest) = line.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let mut stat = Stat { name, ..Stat::default() };
        let mut ticks = 0u64;
        let mut seen = 0;
        for (number, word) in (3..).zip(rest.split_ascii_whitespace().take(45)) {
            seen = number;
            let n = || word.parse::<u64>().ok();
            match number {
                3 => stat.state = word.chars().next()?,
                10 => stat.minor_faults = n()?,
                12 => stat.major_faults = n()?,
                14 | 15 => ticks = ticks.saturating_add(n()?),
                20 => stat.threads = word.parse().ok()?,
                22 => stat.started = n()?,
                24 => stat.resident_pages = n()?,
                39 => stat.cpu = word.parse().ok(),
                47 => stat.heap_begin = n()?,
                _ => {}
            }
        }
        stat.ticks = ticks;
        (seen >= 24).then_some(stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 5 6 7 8 0 0\ncpu12 1 0 0 1 0 0 0 0\nintr 5\ncpu3 1 2\n";
        let ticks = cpu_ticks(stat);
        assert_eq!(ticks[&0], CpuTicks { busy: 19, idle: 105, stolen: 8 });
        assert_eq!(ticks.keys().copied().collect::<Vec<_>>(), [0, 12]);
        let memory = node_memory("Node 0 MemTotal:  100 kB\nNode 0 MemFree: 40 kB\nNode 0 AnonPages: 9 kB\n");
        assert_eq!((memory.total, memory.free, memory.files), (Some(102_400), Some(40_960), None));
        assert_eq!(vmstat("pgfault 12\npgfault_x 3\n", "pgfault"), Some(12));
        assert_eq!(vmstat("pgfault_x 3\n", "pgfault"), None);
    }

    #[test]
    fn a_process_may_call_itself_what_it_likes() {
        let line = "7 (a) R (b) S 1 7 7 0 -1 4194560 101 0 3 0 11 22 0 0 20 0 4 0 555 9999 77 18446744073709551615 1 1 \
                    0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0 1 2 4096";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.ticks), ("a) R (b", 'S', 33));
        assert_eq!((stat.minor_faults, stat.major_faults, stat.threads), (101, 3, 4));
        assert_eq!((stat.started, stat.resident_pages, stat.cpu), (555, 77, Some(5)));
        assert_eq!(stat.heap_begin, 4096);
        for cut in ["", "7 (a", "7 (a) S", "7 (a) S 1 2 3", ") ("] {
            assert_eq!(Stat::parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn a_counter_that_took_turns_is_scaled_and_one_that_never_ran_is_unknown() {
        let count = |value, enabled_ns, running_ns| Count { value, enabled_ns, running_ns };
        assert_eq!(count(300, 200, 150).since(&count(100, 100, 100)), Some(400.0));
        assert_eq!(count(300, 200, 100).since(&count(300, 100, 100)), None);
        assert_eq!(count(3, 100, 100).since(&count(3, 100, 100)), Some(0.0));
        assert_eq!(count(1, 100, 100).since(&count(3, 90, 90)), None);
    }
}
