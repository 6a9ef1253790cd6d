//! Counting along: of each thread that the recorder knows, what the kernel and the processor counted of it; of the host, what
//! its memory controllers, links and nodes did. Read at the start, in a slow period, and at the end, into the table `counters`.

use super::events::Interpreter;
use super::options::{Options, Subject};
use super::perf::event::{Body, Event};
use crate::ranks::elect::Election;
use crate::store::Tables;
use nearfar_host::counters::host::{HostCounters, row};
use nearfar_host::counters::threads::{Plan, ThreadCounters};
use nearfar_host::proc;
use nearfar_machine::Machine;
use nearfar_observed::live::reading::Count;
use nearfar_recording::{Along, Columns, Counter, Counters, NONE};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Least time between two readings. // chosen
const EVERY: Duration = Duration::from_secs(1);
/// Readings take at most one part of the time in so many.
const PART: u32 = 200;
/// Rows that threads add each second at most, on average: with more threads the readings are rarer. // chosen: 0.2 MB/s
const ROWS_EACH_SECOND: f64 = 1000.0;
/// Threads that are counted at once at most: each takes up to nine descriptors. // chosen
const THREADS: usize = 1024;
/// Rows of threads in a recording at most; what comes then is not counted, and said. // chosen: some 50 MB
const ROWS: usize = 500_000;

/// A thread that is counted.
struct Thread {
    pid: u32,
    counters: ThreadCounters,
    /// Its counts when they last became rows, and when that was.
    before: Vec<Count>,
    since_ns: u64,
}

/// The counters of a recording.
pub(super) struct Counting {
    plan: Result<Plan, String>,
    /// The program with all that it starts: the kernel's own events, each once.
    whole: Option<(Plan, Thread)>,
    threads: HashMap<u32, Thread>,
    host: Option<HostCounters>,
    /// Of a rank that does not count its host.
    election: Option<Election>,
    machine: Machine,
    /// Threads that were not counted, because they ended before or were too many.
    ended: u64,
    too_many: u64,
    refused: Option<String>,
    rows: usize,
    every: Duration,
    last: Instant,
}

impl Counting {
    /// Tries what can be counted of a subject. Inside the virtual machine nothing is: the emulated machine has its own counts.
    pub fn begin(
        subject: &Subject,
        options: &Options,
        machine: &Machine,
        recording: &Path,
        perf_why: Option<&str>,
    ) -> Option<Counting> {
        if options.inside_guest.is_some() {
            return None;
        }
        let plan = match (perf_why, subject) {
            (Some(why), _) => Err(why.to_owned()),
            (None, Subject::Everything) => {
                Err("all processes of the machine are recorded, and counters are of chosen threads"
                    .to_owned())
            }
            (None, _) => Ok(Plan::new(&proc::processor())),
        };
        // One rank of each host counts it for all.
        let host = recording.parent().filter(|_| options.rank.is_some());
        let election = host.zip(options.rank.as_ref()).map(|(host, rank)| Election::of(host, rank.rank));
        let mut counting = Counting {
            plan,
            whole: None,
            threads: HashMap::new(),
            host: None,
            election,
            machine: machine.clone(),
            ended: 0,
            too_many: 0,
            refused: None,
            rows: 0,
            every: EVERY,
            last: Instant::now(),
        };
        counting.take_host();
        Some(counting)
    }

    /// Counts the host from now on, if no other rank does.
    fn take_host(&mut self) {
        if self.election.as_mut().is_none_or(Election::is_won) {
            self.host = Some(HostCounters::open(Path::new("/"), &self.machine, proc::monotonic_ns()));
        }
    }

    /// Counts a program from its exec, with all that it starts.
    pub fn program(&mut self, pid: u32) {
        let Ok(plan) = &self.plan else { return };
        let software = plan.software();
        if let Ok(counters) = software.open(pid, true, true) {
            let thread = Thread::new(pid, counters);
            self.whole = Some((software, thread));
        }
        self.thread(pid, pid, true);
    }

    /// Counts the threads of running processes from now on.
    pub fn running(&mut self, subject: &Subject) {
        if let Subject::Processes(pids) = subject {
            for (pid, tid) in pids.iter().flat_map(|&p| proc::threads(p).into_iter().map(move |t| (p, t))) {
                self.thread(pid, tid, false);
            }
        }
    }

    /// Counts a thread from now on, or from its exec.
    fn thread(&mut self, pid: u32, tid: u32, on_exec: bool) {
        let Ok(plan) = &self.plan else { return };
        if self.threads.contains_key(&tid) {
            return;
        }
        if self.threads.len() >= THREADS {
            self.too_many += 1;
            return;
        }
        match plan.open(tid, on_exec, false) {
            Ok(counters) => {
                self.threads.insert(tid, Thread::new(pid, counters));
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => self.ended += 1,
            Err(error) => self.refused = Some(error.to_string()),
        }
    }

    /// Begins to count the threads that began, of events just as they come: waiting for those of other cpus would miss more.
    pub fn meet(&mut self, events: &[Event]) {
        if self.plan.is_err() {
            return;
        }
        let gone: HashSet<u32> =
            events.iter().filter(|e| matches!(e.body, Body::Exit)).map(|e| e.tid).collect();
        for event in events.iter().filter(|e| matches!(e.body, Body::Fork { .. })) {
            match gone.contains(&event.tid) {
                true => self.ended += 1,
                false => self.thread(event.pid, event.tid, false),
            }
        }
    }

    /// A thread has ended: its last counts become rows.
    pub fn ended(&mut self, tid: u32, time_ns: u64, interpreter: &mut Interpreter, tables: &mut Tables) {
        if let (Some(mut thread), Ok(plan)) = (self.threads.remove(&tid), &self.plan) {
            let id = interpreter.processes.thread(thread.pid, tid, time_ns, tables);
            match thread.rows(plan, id, time_ns, true, &mut tables.counters) {
                Ok(rows) => self.rows += rows,
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
    }

    /// Reads all, if it is time.
    pub fn read_in_time(&mut self, interpreter: &mut Interpreter, tables: &mut Tables) {
        if self.last.elapsed() >= self.every {
            self.read(false, interpreter, tables);
        }
    }

    fn read(&mut self, last: bool, interpreter: &mut Interpreter, tables: &mut Tables) {
        let begin = Instant::now();
        let time_ns = proc::monotonic_ns();
        let before = self.rows;
        if let Ok(plan) = &self.plan {
            if self.rows < ROWS || last {
                for (&tid, thread) in &mut self.threads {
                    let id = interpreter.processes.thread(thread.pid, tid, time_ns, tables);
                    match thread.rows(plan, id, time_ns, last, &mut tables.counters) {
                        Ok(rows) => self.rows += rows,
                        Err(error) => self.refused = Some(error.to_string()),
                    }
                }
            }
            if let Some((software, whole)) = &mut self.whole
                && let Err(error) = whole.rows(software, NONE, time_ns, last, &mut tables.counters)
            {
                self.refused = Some(error.to_string());
            }
        }
        match &mut self.host {
            Some(host) => host.read(time_ns).into_iter().for_each(|row| tables.counters.push(row)),
            None if !last => self.take_host(),
            None => {}
        }
        let rows = Duration::from_secs_f64((self.rows - before) as f64 / ROWS_EACH_SECOND);
        self.every = EVERY.max(begin.elapsed() * PART).max(rows);
        self.last = Instant::now();
    }

    /// Takes the last readings, and writes a row with the reason for each counter that has none. Returns the losses to note.
    pub fn close(mut self, interpreter: &mut Interpreter, tables: &mut Tables) -> Vec<(u64, String)> {
        self.read(true, interpreter, tables);
        let time_ns = proc::monotonic_ns();
        let missing: Vec<(Along, String)> = match &self.plan {
            Ok(plan) => plan.missing.clone(),
            Err(why) => Along::ALL.into_iter().map(|along| (along, why.clone())).collect(),
        };
        for (along, why) in missing {
            tables.counters.push(Counter { why, unit: along.unit().into(), ..row(time_ns, 0, along.name()) });
        }
        match (&self.host, &self.election) {
            (Some(host), _) => host.missing(time_ns).into_iter().for_each(|row| tables.counters.push(row)),
            (None, election) => {
                let why = match election.as_ref().and_then(|e| e.elected.as_ref()) {
                    Some(elected) => format!("rank {} counts them for all ranks of this host", elected.rank),
                    None => "no rank of this host could say that it counts them".to_owned(),
                };
                tables.counters.push(Counter {
                    why,
                    place: "the host".into(),
                    ..row(time_ns, 0, "the host's counters")
                });
            }
        }
        let mut lost = Vec::new();
        if self.ended > 0 {
            lost.push((self.ended, "threads ended before their counters could be opened".to_owned()));
        }
        if self.too_many > 0 {
            lost.push((
                self.too_many,
                format!("more than {THREADS} threads at once: counters of the first were kept"),
            ));
        }
        if let Some(error) = self.refused {
            lost.push((0, format!("counters of some threads could not be opened or read: {error}")));
        }
        if self.rows >= ROWS {
            lost.push((0, format!("after {ROWS} rows counters of threads were read only at their end")));
        }
        lost
    }
}

impl Thread {
    fn new(pid: u32, counters: ThreadCounters) -> Thread {
        let before = counters.read().unwrap_or_default();
        Thread { pid, counters, before, since_ns: proc::monotonic_ns() }
    }

    /// What was counted since the last rows. A counter that did not run in that time waits for the next reading, unless this is
    /// the last one. Gives the number of rows.
    fn rows(
        &mut self,
        plan: &Plan,
        thread: u32,
        time_ns: u64,
        last: bool,
        out: &mut Counters,
    ) -> io::Result<usize> {
        let now = self.counters.read()?;
        if self.before.len() != now.len() {
            // The first reading failed: counts begin with this one.
            (self.before, self.since_ns) = (now, time_ns);
            return Ok(0);
        }
        let differences: Vec<(Option<f64>, f64)> = now
            .iter()
            .zip(&self.before)
            .map(|(now, then)| (now.since(then), running_share(now, then)))
            .collect();
        if !last && differences.iter().any(|(value, _)| value.is_none()) {
            return Ok(0);
        }
        let interval_ns = time_ns.saturating_sub(self.since_ns);
        for (member, (value, share)) in plan.members().zip(differences) {
            let why = match value {
                Some(_) => String::new(),
                None => "other events had the counters all the time".to_owned(),
            };
            out.push(Counter {
                value: value.unwrap_or(f64::NAN),
                unit: member.what.unit().to_owned(),
                running_share: share,
                source: member.source.clone(),
                why,
                thread,
                ..row(time_ns, interval_ns, member.what.name())
            });
        }
        (self.before, self.since_ns) = (now, time_ns);
        Ok(self.before.len())
    }
}

/// Part of the time in which a counter was to count that it did; −1 where it was not to count.
fn running_share(now: &Count, then: &Count) -> f64 {
    let enabled = now.enabled_ns.saturating_sub(then.enabled_ns);
    match enabled {
        0 => -1.0,
        _ => (now.running_ns.saturating_sub(then.running_ns) as f64 / enabled as f64).min(1.0),
    }
}
