//! Known loads: what the counters of `top` must count, beside what they do (`nearfar doctor --counters`).
//!
//! From a cpu of each node: fresh pages of each node's memory are touched (page faults, placements, the nodes of pages), a
//! chain of pointers through 64 MiB of it is followed (lines from memory, bytes of the controllers, resctrl), and a loop of a
//! known number of instructions runs (instructions, cpu time). Every counter that is there is read before and after.

use anyhow::Result;
use nearfar_host::counters::pmu::Pmu;
use nearfar_host::counters::{activity, resctrl};
use nearfar_host::page_nodes::{Range, look};
use nearfar_host::proc::page_bytes;
use nearfar_machine::{Machine, NodeId};
use nearfar_measure::bench::{PageNode, aside, pin};
use nearfar_measure::kernels::{LINE, follow};
use nearfar_measure::latency::Chain;
use nearfar_measure::memory::Memory;
use nearfar_observed::live::checks::{Check, Checked, Others, Outcome};
use nearfar_observed::live::events::Event;
use nearfar_observed::live::reading::{Count, Stat, cpu_ticks, vmstat};
use nearfar_observed::measured::Pages;
use nearfar_recording::PageNodes;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are touched.
const TOUCHED: u64 = 64 << 20;
/// Bytes of the chain: more than most caches hold. // chosen
const CHAIN: usize = 256 << 20;
/// Iterations of the loop, and instructions of each.
const TURNS: u64 = 1_000_000_000;
const INSTRUCTIONS: u64 = 2;

/// Checks every counter from every node's cpus against every node's memory.
///
/// # Errors
/// If the machine has no cpus that may be used.
pub fn check(machine: &Machine, say: &mut dyn FnMut(&str)) -> Result<Checked> {
    let pmu = Pmu::open(Path::new("/"), machine);
    let mut checks = Vec::new();
    for from in machine.cpu_nodes() {
        let Some(cpu) = from.cpus.iter().find(|&cpu| aside(|| pin(cpu)).is_ok()) else { continue };
        let lab = Lab { machine, pmu: &pmu, cpu, cpu_node: from.id };
        say(&format!("cpu {cpu} of node {}: a loop of {} instructions", from.id, TURNS * INSTRUCTIONS));
        checks.extend(aside(|| lab.computing()));
        for to in &machine.nodes {
            say(&format!("cpu {cpu} of node {}, memory of node {}", from.id, to.id));
            checks.extend(aside(|| lab.touching(to.id)));
            checks.extend(aside(|| lab.following(to.id)));
        }
    }
    anyhow::ensure!(
        !checks.is_empty(),
        "no cpu of this machine may be used by this process (taskset, cpuset)"
    );
    let machine = format!("{}; {}", machine.name, pmu.processor().words());
    Ok(Checked { machine, at: jiff::Timestamp::now().to_string(), checks })
}

/// Pages that the kernel gives one by one for [`TOUCHED`]: each is a fault and a placement.
fn pages_touched(page_bytes: u64) -> f64 {
    (TOUCHED / page_bytes) as f64
}

struct Lab<'a> {
    machine: &'a Machine,
    pmu: &'a Pmu,
    cpu: u32,
    cpu_node: NodeId,
}

/// All counters at one moment.
struct Seen {
    at: Instant,
    thread_ns: f64,
    stat: Option<Stat>,
    faults: f64,
    system_faults: Option<u64>,
    busy_ticks: Option<u64>,
    placed: nearfar_observed::residency::activity::Activity,
    events: std::collections::BTreeMap<Event, Count>,
    read_bytes: Option<std::collections::BTreeMap<NodeId, u64>>,
    monitored: Option<(u64, u64)>,
}

/// CPU time of this thread, ns.
fn thread_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Minor page faults of this thread, as getrusage has them.
fn thread_faults() -> f64 {
    // SAFETY: zero is a valid rusage and the kernel fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_minflt as f64
    }
}

fn ticks_per_second() -> f64 {
    // SAFETY: a plain call; Linux always knows the number.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

impl Lab<'_> {
    fn see(&self) -> Seen {
        // SAFETY: a plain call.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let monitored = resctrl::read(Path::new("/"), self.machine);
        let controllers = self.pmu.controllers();
        Seen {
            at: Instant::now(),
            stat: Stat::parse(&text(&format!("/proc/self/task/{tid}/stat"))),
            system_faults: vmstat(&text("/proc/vmstat"), "pgfault"),
            busy_ticks: cpu_ticks(&text("/proc/stat")).get(&self.cpu).map(|t| t.busy),
            placed: activity::read(self.machine),
            events: self.pmu.events().remove(&self.cpu).unwrap_or_default(),
            read_bytes: controllers.get().map(|c| c.iter().map(|(n, m)| (*n, m.read)).collect()),
            monitored: monitored.get().and_then(|m| m.get(&self.cpu_node)).map(|m| (m.total, m.local)),
            faults: thread_faults(),
            thread_ns: thread_ns(),
        }
    }

    #[allow(clippy::too_many_arguments)] // the columns of one row
    fn check(
        &self,
        counter: &str,
        source: &str,
        memory: Option<NodeId>,
        load: &str,
        expected: f64,
        unit: &str,
        columns: &[&str],
    ) -> Check {
        Check {
            counter: counter.to_owned(),
            source: source.to_owned(),
            cpu_node: self.cpu_node,
            memory_node: memory,
            load: load.to_owned(),
            expected,
            seen: None,
            unit: unit.to_owned(),
            outcome: Outcome::Unknown,
            factor: None,
            why: String::new(),
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        }
    }

    fn event(&self, event: Event, then: &Seen, now: &Seen) -> Result<f64, String> {
        let counts = now.events.get(&event).zip(then.events.get(&event)).and_then(|(n, t)| n.since(t));
        counts.ok_or_else(|| {
            let missing = self.pmu.missing().get(&event);
            missing.map_or_else(|| "it did not run".to_owned(), |m| m.why.clone())
        })
    }

    /// What counters do in a while without a load, for the time of `then` to `now`.
    fn others(&self, then: &Seen, now: &Seen, of: impl Fn(&Seen, &Seen) -> Option<f64>) -> Others {
        let load = (now.at - then.at).as_secs_f64();
        let begin = self.see();
        std::thread::sleep(Duration::from_secs_f64(load.clamp(0.05, 0.5)));
        let end = self.see();
        let rate = of(&begin, &end).unwrap_or(0.0) / (end.at - begin.at).as_secs_f64();
        Others::About(rate * load)
    }

    /// A loop of a known number of instructions.
    fn computing(&self) -> Vec<Check> {
        if let Err(why) = pin(self.cpu) {
            let check =
                self.check("cpu time", "/proc/PID/task/TID/stat", None, "a loop", TURNS as f64, "s", &[]);
            return vec![check.judged(Err(why), Others::None)];
        }
        let load = format!("a loop of {TURNS} turns");
        let then = self.see();
        turn(TURNS);
        let now = self.see();
        // Reading the counters is part of neither.
        let seconds = (now.thread_ns - then.thread_ns) * 1e-9;
        let tick = 1.0 / ticks_per_second();
        let mut checks = Vec::new();
        let check = self.check(
            "cpu time of a thread",
            "/proc/PID/task/TID/stat",
            None,
            &load,
            seconds,
            "s",
            &["threads.cpu", "processes.cpu"],
        );
        let ticks = now
            .stat
            .as_ref()
            .zip(then.stat.as_ref())
            .map(|(n, t)| n.ticks.saturating_sub(t.ticks) as f64 * tick);
        checks.push(
            check.judged(ticks.ok_or_else(|| "the thread's stat cannot be read".to_owned()), Others::None),
        );
        let busy =
            |then: &Seen, now: &Seen| Some(now.busy_ticks?.saturating_sub(then.busy_ticks?) as f64 * tick);
        let check = self.check(
            "time of a cpu",
            "/proc/stat",
            None,
            &load,
            seconds,
            "s",
            &["cores.busy", "nodes.busy", "machine.busy"],
        );
        let seen = busy(&then, &now).ok_or_else(|| "/proc/stat has no line for this cpu".to_owned());
        checks.push(check.judged(seen, self.others(&then, &now, busy)));
        let known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let expected = (TURNS * INSTRUCTIONS) as f64;
        let check = self.check(
            "instructions",
            "perf_event_open per cpu",
            None,
            &load,
            expected,
            "instructions",
            &["cores.instructions", "cores.ipc"],
        );
        let seen = match known {
            true => self.event(Event::Instructions, &then, &now),
            false => Err("what a compiler makes of the loop on this architecture is not known".to_owned()),
        };
        let instructions = |then: &Seen, now: &Seen| self.event(Event::Instructions, then, now).ok();
        let others = if seen.is_ok() { self.others(&then, &now, instructions) } else { Others::None };
        checks.push(check.judged(seen, others));
        checks
    }

    /// Fresh pages of a node's memory.
    fn touching(&self, memory_node: NodeId) -> Vec<Check> {
        let page_bytes = page_bytes();
        let pages = pages_touched(page_bytes);
        let load = format!("first touches of {pages} pages");
        let check = |counter: &str, source: &str, unit: &str, columns: &[&str]| {
            self.check(counter, source, Some(memory_node), &load, pages, unit, columns)
        };
        let home = if self.machine.nodes.len() > 1 { PageNode::Node(memory_node) } else { PageNode::Only };
        let begun = pin(self.cpu).map(|()| self.see());
        let made = begun
            .and_then(|then| Memory::new(TOUCHED as usize, &home, Pages::Base).map(|memory| (then, memory)));
        let (then, memory) = match made {
            Ok(made) => made,
            Err(why) => {
                return vec![
                    check("page faults of a thread", "/proc/PID/task/TID/stat", "faults", &[])
                        .judged(Err(why), Others::None),
                ];
            }
        };
        let now = self.see();
        let mut checks = Vec::new();
        let stat = now
            .stat
            .as_ref()
            .zip(then.stat.as_ref())
            .map(|(n, t)| n.minor_faults.saturating_sub(t.minor_faults) as f64);
        let unread = || "the thread's stat cannot be read".to_owned();
        checks.push(
            check(
                "page faults of a thread",
                "/proc/PID/task/TID/stat",
                "faults",
                &["threads.faults", "processes.faults"],
            )
            .judged(stat.ok_or_else(unread), Others::None),
        );
        checks.push(
            check("page faults of a thread", "getrusage", "faults", &[])
                .judged(Ok(now.faults - then.faults), Others::None),
        );
        let system =
            |then: &Seen, now: &Seen| Some(now.system_faults?.saturating_sub(then.system_faults?) as f64);
        let seen = system(&then, &now).ok_or_else(|| "/proc/vmstat has no pgfault".to_owned());
        checks.push(
            check("page faults of the system", "/proc/vmstat", "faults", &["machine.faults"])
                .judged(seen, self.others(&then, &now, system)),
        );
        let near = self.cpu_node == memory_node;
        let counters: [(&str, &[&str]); 2] = [
            ("numa_hit", &["nodes.hit", "machine.hit"]),
            if near {
                ("local_node", &[])
            } else {
                ("other_node", &["nodes.other_node", "machine.other_node"])
            },
        ];
        for (name, columns) in counters {
            let count = |seen: &Seen| seen.placed.placement.get(&memory_node)?.get(name).copied();
            let placed = |then: &Seen, now: &Seen| Some(count(now)?.saturating_sub(count(then)?) as f64);
            let seen = placed(&then, &now).ok_or_else(|| format!("the kernel has no {name} for this node"));
            let others = if seen.is_ok() { self.others(&then, &now, placed) } else { Others::None };
            checks.push(
                check(&format!("pages placed: {name}"), "numastat", "pages", columns).judged(seen, others),
            );
        }
        let mut nodes = PageNodes::default();
        let range = Range { process: 0, address: memory.at(0) as u64, bytes: TOUCHED };
        let asked =
            look(0, range, page_bytes, usize::MAX, 0, &mut nodes).map_err(|e| format!("move_pages: {e}"));
        let there = asked.map(|()| {
            let on = nodes
                .node
                .iter()
                .zip(&nodes.pages)
                .filter(|(node, _)| i64::from(**node) == i64::from(memory_node));
            on.map(|(_, pages)| f64::from(*pages)).sum()
        });
        let columns = format!("processes.node{memory_node}");
        checks.push(
            check("nodes of pages", "move_pages", "pages", &[&columns, "processes.far_pages"])
                .judged(there, Others::None),
        );
        checks
    }

    /// A chain of pointers through a node's memory, one line each.
    fn following(&self, memory_node: NodeId) -> Vec<Check> {
        let lines = (CHAIN / LINE) as f64;
        let load = format!("{lines} loads, each of another line");
        let near = self.cpu_node == memory_node;
        let (event, name, column) = match near {
            true => (Event::LocalLines, "lines from the own node's memory", "cores.local"),
            false => (Event::RemoteLines, "lines from other nodes' memory", "cores.remote"),
        };
        let lines_check = self.check(
            name,
            "perf_event_open per cpu",
            Some(memory_node),
            &load,
            lines,
            "lines",
            &[column, "cores.remote_share"],
        );
        let bytes = lines * LINE as f64;
        let read_check = self.check(
            "bytes read from memory",
            "memory controllers",
            Some(memory_node),
            &load,
            bytes,
            "bytes",
            &["nodes.read", "nodes.bandwidth_share"],
        );
        let columns: &[&str] = if near { &["nodes.own"] } else { &["nodes.others"] };
        let monitored_check = self.check(
            "bytes of a node's cpus",
            "resctrl",
            Some(memory_node),
            &load,
            bytes,
            "bytes",
            columns,
        );
        let first = self.see();
        let why_not = |seen: &Seen| -> Option<[String; 3]> {
            let missing = self.pmu.missing().get(&event).map(|m| m.why.clone());
            let (none, controllers) = (
                seen.read_bytes.is_none() && seen.monitored.is_none(),
                self.pmu.controllers().why().to_owned(),
            );
            let monitored = resctrl::read(Path::new("/"), self.machine).why().to_owned();
            missing.filter(|_| none).map(|why| [why, controllers, monitored])
        };
        // Where nothing would be read, nothing need be loaded.
        if let Some([a, b, c]) = why_not(&first) {
            return vec![
                lines_check.judged(Err(a), Others::None),
                read_check.judged(Err(b), Others::None),
                monitored_check.judged(Err(c), Others::None),
            ];
        }
        let home = if self.machine.nodes.len() > 1 { PageNode::Node(memory_node) } else { PageNode::Only };
        let made = pin(self.cpu).and_then(|()| Memory::new(CHAIN, &home, Pages::Huge)).and_then(Chain::new);
        let chain = match made {
            Ok(chain) => chain,
            Err(why) => return vec![lines_check.judged(Err(why), Others::None)],
        };
        let then = self.see();
        // SAFETY: the chain has no end, and its memory lives on.
        std::hint::black_box(unsafe { follow(chain.start(0, 1).cast(), CHAIN / LINE) });
        let now = self.see();
        let lines = |then: &Seen, now: &Seen| self.event(event, then, now).ok();
        let read = |then: &Seen, now: &Seen| {
            let of = |s: &Seen| s.read_bytes.as_ref()?.get(&memory_node).copied();
            Some(of(now)?.saturating_sub(of(then)?) as f64)
        };
        let monitored = |then: &Seen, now: &Seen| {
            let of = |s: &Seen| {
                s.monitored.map(|(total, local)| if near { local } else { total.saturating_sub(local) })
            };
            Some(of(now)?.saturating_sub(of(then)?) as f64)
        };
        vec![
            lines_check.judged(self.event(event, &then, &now), self.others(&then, &now, lines)),
            read_check.judged(
                read(&then, &now).ok_or_else(|| self.pmu.controllers().why().to_owned()),
                self.others(&then, &now, read),
            ),
            monitored_check.judged(
                monitored(&then, &now)
                    .ok_or_else(|| resctrl::read(Path::new("/"), self.machine).why().to_owned()),
                self.others(&then, &now, monitored),
            ),
        ]
    }
}

/// So many turns of a loop of two instructions, and a handful more.
fn turn(turns: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: counts a register down; no memory is touched.
    unsafe {
        std::arch::asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) turns => _, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) turns => _, options(nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    for n in 0..turns {
        std::hint::black_box(n);
    }
}

/// Where the checks of this user's machine are kept.
pub fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("nearfar/counters.json"))
}

/// The checks that were kept of this machine; `None` if there are none, or they are of another.
pub fn kept(machine: &Machine, processor: &str) -> Option<Checked> {
    let bytes = nearfar_host::input::read(&file()?, nearfar_host::input::MOST_WRITTEN).ok()?;
    let checked: Checked = serde_json::from_slice(&bytes).ok()?;
    (checked.machine == format!("{}; {processor}", machine.name)).then_some(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pages_are_expected_as_the_system_has_for_what_is_touched() {
        assert_eq!(pages_touched(4096), 16384.0);
        assert_eq!(pages_touched(65536), 1024.0);
        // The faults are those that the kernel counts here, whatever its pages are; a few are its own or the allocator's.
        let home = PageNode::Only;
        let then = thread_faults();
        let Ok(memory) = Memory::new(TOUCHED as usize, &home, Pages::Base) else { return };
        let seen = thread_faults() - then;
        let expected = pages_touched(page_bytes());
        assert!(seen >= expected && seen < 1.5 * expected, "{seen} faults, {expected} expected");
        drop(memory);
    }

    #[test]
    fn the_loop_takes_time_by_its_turns() {
        let time = |turns| {
            let begin = thread_ns();
            turn(turns);
            thread_ns() - begin
        };
        time(1000);
        let (short, long) = (time(1_000_000), time(50_000_000));
        assert!(long > short && short > 0.0, "{short} {long}");
    }
}
