//! Readings of this host. What costs much is asked in turns: files that the kernel makes slowly and looks at pages
//! take a limited part of the interval, so that looking changes little of what is looked at.

use super::reference_load;
use super::stat_files::StatFiles;
use crate::place::residency::{self, Site, Way, WhereError, quick};
use nearfar_host::counters::pmu::Pmu;
use nearfar_host::counters::{activity, resctrl};
use nearfar_host::proc;
use nearfar_machine::Machine;
use nearfar_observed::live::checks::Checked;
use nearfar_observed::live::events::meaning;
use nearfar_observed::live::host::{Host, objects};
use nearfar_observed::live::reading::Pages;
use nearfar_observed::live::reading::{Process, Reading, Thread, cpu_ticks, node_memory, vmstat};
use nearfar_observed::live::{Frame, Tab, Table};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes whose threads are read although they were not asked for: the busiest ones.
const BUSIEST: usize = 8;
/// Threads that are read at most at once; a stat costs about 10 µs.
const THREADS: usize = 2048;
/// Threads whose `sched` is read, the busiest ones: such a file costs about 50 µs.
const SCHED: usize = 64;
/// Part of the interval that looks at pages may take.
const LOOKING: f64 = 0.005;
/// The objects of a process are looked at again after this many times what it took, but not before this.
const OBJECTS_APART: (u32, Duration) = (200, Duration::from_secs(2));

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only these processes; all if there are none.
    pub processes: Vec<u32>,
    /// The machine with its figures, and their source: a machine file.
    pub figures: Option<(Machine, String)>,
    /// No process at all.
    pub no_processes: bool,
    /// No threads of processes.
    pub no_threads: bool,
}

/// Reads the host again and again.
pub struct Reader {
    site: Site,
    host: Host,
    wanted: Wanted,
    pmu: Pmu,
    begin_ns: u64,
    before: Reading,
    pages: HashMap<(u32, u64), Looked>,
    stats: StatFiles,
    /// Threads whose `sched` is read next, by their time in the last interval.
    busy_threads: HashSet<u32>,
    objects: Option<Objects>,
    /// What `doctor --counters` found of this machine's counters, if it was asked.
    checked: Option<Checked>,
}

/// Where a process's pages were, or why that is not known.
struct Looked {
    pages: Result<Pages, String>,
    at: Instant,
    took: Duration,
}

struct Objects {
    of: (u32, String),
    table: Table,
    at: Instant,
    took: Duration,
}

impl Reader {
    /// Begins to read: the first frame comes one interval later.
    ///
    /// # Errors
    /// If the host has no list of cpus.
    pub fn new(wanted: Wanted) -> anyhow::Result<Reader> {
        let site = Site::here()?;
        let pmu = Pmu::open(Path::new("/"), &site.machine);
        let mut machine = site.machine.clone();
        let mut figures = String::new();
        if let Some((described, name)) = &wanted.figures {
            machine.figures.bandwidth = described.figures.bandwidth.clone();
            figures = name.clone();
        }
        let host = Host { machine, page_bytes: proc::page_bytes(), figures, lines: meaning(pmu.processor()) };
        let begin_ns = proc::monotonic_ns();
        let mut reader = Reader {
            site,
            host,
            wanted,
            pmu,
            begin_ns,
            before: Reading::default(),
            pages: HashMap::new(),
            stats: StatFiles::new(),
            busy_threads: HashSet::new(),
            objects: None,
            checked: None,
        };
        reader.checked = reference_load::kept(&reader.site.machine, &reader.pmu.processor().words());
        reader.before = reader.read(None, Duration::from_secs(1));
        Ok(reader)
    }

    /// The machine that is read.
    pub fn machine(&self) -> &Machine {
        &self.host.machine
    }

    /// What does not change.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The latest reading.
    pub fn reading(&self) -> &Reading {
        &self.before
    }

    /// Reads now, without a frame.
    pub fn read_again(&mut self) {
        let now = self.read(None, Duration::from_secs(1));
        self.before = now;
    }

    /// A process that is watched although it was not asked for at the start, in `focus`; its objects are looked at if
    /// `with_objects`. `interval` is what the caller waits between frames.
    pub fn frame(&mut self, focus: Option<u32>, with_objects: bool, interval: Duration) -> Frame {
        let now = self.read(focus, interval);
        let mut frame = self.host.frame(&self.before, &now, self.begin_ns);
        self.busy_threads = busiest_threads(&self.before, &now);
        let of = focus.or_else(|| self.wanted.processes.first().copied()).or_else(|| {
            let table = frame.table(Tab::Processes)?;
            nearfar_report::live::sorted(table, table.main, false)
                .first()
                .map(|&row| table.rows[row].id as u32)
        });
        if let Some(pid) = of.filter(|_| with_objects) {
            self.add_objects(&mut frame, pid);
        }
        if let Some(checked) = &self.checked {
            frame.flag(&checked.flags());
        }
        self.before = now;
        frame
    }

    /// What was found of this machine's counters, if it was asked.
    pub fn checked(&self) -> Option<&Checked> {
        self.checked.as_ref()
    }

    fn add_objects(&mut self, frame: &mut Frame, pid: u32) {
        let fresh =
            |o: &Objects| o.of.0 == pid && o.at.elapsed() < (o.took * OBJECTS_APART.0).max(OBJECTS_APART.1);
        if !self.objects.as_ref().is_some_and(fresh) {
            let begin = Instant::now();
            let (name, table) = match residency::look(pid, &self.site, Way::Auto, 0.0) {
                Ok(seen) => (seen.name.clone(), objects(&seen, &self.host.machine)),
                Err(why) => {
                    let mut table = Table::default();
                    table.explain("objects", why.to_string());
                    (proc::name(pid, pid), table)
                }
            };
            self.objects =
                Some(Objects { of: (pid, name), table, at: Instant::now(), took: begin.elapsed() });
        }
        if let Some(objects) = &self.objects {
            frame.objects_of = Some(objects.of.clone());
            frame.insert(Tab::Objects, objects.table.clone());
        }
    }

    fn read(&mut self, focus: Option<u32>, interval: Duration) -> Reading {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = text("/proc/stat");
        // SAFETY: a plain call; Linux always knows the number.
        let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        let at_ns = proc::monotonic_ns();
        let memory = |id: u32| node_memory(&text(&format!("/sys/devices/system/node/node{id}/meminfo")));
        let machine = &self.host.machine;
        let mut now = Reading {
            at_ns,
            cpus: cpu_ticks(&stat),
            nodes: machine.nodes.iter().map(|n| (n.id, memory(n.id))).collect(),
            activity: activity::read(machine),
            faults: vmstat(&text("/proc/vmstat"), "pgfault"),
            events: self.pmu.events(),
            missing_events: self.pmu.missing().clone(),
            controllers: self.pmu.controllers(),
            monitored: resctrl::read(Path::new("/"), machine),
            ticks_per_second,
            ..Reading::default()
        };
        self.processes(&mut now);
        self.threads(&mut now, focus);
        self.stats.close_unread();
        self.look_at_pages(&mut now, focus, interval);
        now
    }

    fn processes(&mut self, now: &mut Reading) {
        if self.wanted.no_processes {
            return;
        }
        let stats = &mut self.stats;
        let mut add = |pid: u32| {
            // Kernel threads have no memory.
            if let Some(stat) = stats.of_process(pid).filter(|s| s.resident_pages > 0) {
                now.processes.insert(pid, Process { stat, ..Process::default() });
            }
        };
        if !self.wanted.processes.is_empty() {
            return self.wanted.processes.iter().for_each(|&pid| add(pid));
        }
        proc::processes().into_iter().for_each(add);
    }

    /// The processes in the order of what is wanted: the chosen one, and then by their time since the last reading.
    fn order(&self, now: &Reading, focus: Option<u32>) -> Vec<u32> {
        let time = |pid: &u32| {
            let stat = &now.processes[pid].stat;
            let then = self.before.processes.get(pid).filter(|p| p.stat.started == stat.started);
            stat.ticks.saturating_sub(then.map_or(0, |p| p.stat.ticks))
        };
        let mut order: Vec<u32> = now.processes.keys().copied().collect();
        order.sort_by_cached_key(|pid| {
            let resident = now.processes[pid].stat.resident_pages;
            (Some(*pid) != focus, std::cmp::Reverse((time(pid), resident)), *pid)
        });
        order
    }

    fn threads(&mut self, now: &mut Reading, focus: Option<u32>) {
        let number = match (self.wanted.no_threads, self.wanted.processes.is_empty()) {
            (true, _) => 0,
            (_, true) => BUSIEST,
            _ => usize::MAX,
        };
        for pid in self.order(now, focus).into_iter().take(number) {
            let tids = match now.processes[&pid].stat.threads {
                1 => vec![pid],
                _ => proc::threads(pid),
            };
            for tid in tids {
                if now.threads.len() == THREADS {
                    now.threads_left_out += 1;
                    continue;
                }
                // The process's own stat has the sums of its threads.
                let Some(stat) = self.stats.of_thread(pid, tid) else { continue };
                let mut thread = Thread { pid, stat, ..Thread::default() };
                if self.busy_threads.contains(&tid) {
                    (thread.migrations, thread.pages_migrated) = proc::migrations(pid, tid);
                }
                now.threads.insert(tid, thread);
            }
        }
    }

    fn look_at_pages(&mut self, now: &mut Reading, focus: Option<u32>, interval: Duration) {
        let mut left = interval.mul_f64(LOOKING);
        let key = |pid: u32| (pid, now.processes[&pid].stat.started);
        self.pages
            .retain(|(pid, started), _| now.processes.get(pid).is_some_and(|p| p.stat.started == *started));
        for pid in self.order(now, focus) {
            let stat = &now.processes[&pid].stat;
            let due = match self.pages.get(&key(pid)) {
                None => true,
                // A look takes its part of the time since the one before, and refusals seldom change.
                Some(looked) if looked.pages.is_err() => looked.at.elapsed() > Duration::from_secs(10),
                Some(looked) => looked.at.elapsed().mul_f64(LOOKING) >= looked.took,
            };
            if !due || left.is_zero() {
                continue;
            }
            let resident = stat.resident_pages * self.host.page_bytes;
            let begin = Instant::now();
            let found = quick::look(pid, &stat.name, resident, &self.site);
            let took = begin.elapsed();
            left = left.saturating_sub(took);
            let pages = match found {
                Ok((nodes, sampled)) => Ok(Pages { at_ns: proc::monotonic_ns(), nodes, sampled }),
                Err(WhereError::Ended { .. } | WhereError::NoProcess { .. }) => continue,
                Err(why) => Err(why.to_string()),
            };
            self.pages.insert(key(pid), Looked { pages, at: Instant::now(), took });
        }
        for (pid, process) in &mut now.processes {
            match self.pages.get(&(*pid, process.stat.started)).map(|l| &l.pages) {
                Some(Ok(pages)) => process.pages = Some(pages.clone()),
                Some(Err(why)) => process.pages_why = Some(why.clone()),
                None => {}
            }
        }
    }
}

/// The threads whose `sched` is worth its cost.
fn busiest_threads(then: &Reading, now: &Reading) -> HashSet<u32> {
    let mut time: Vec<(u64, u32)> = now
        .threads
        .iter()
        .map(|(tid, t)| {
            let before = then.threads.get(tid).filter(|b| b.stat.started == t.stat.started);
            (t.stat.ticks.saturating_sub(before.map_or(0, |b| b.stat.ticks)), *tid)
        })
        .collect();
    time.sort_unstable_by(|a, b| b.cmp(a));
    time.into_iter().take(SCHED).map(|(_, tid)| tid).collect()
}
