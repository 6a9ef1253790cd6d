//! A recording from start to end: which rungs work, the loop that drains them, the close.

use super::agent::AgentFile;
use super::agent_events::AgentEvents;
use super::events::Interpreter;
use super::homes;
use super::illegal;
use super::perf::event::Event;
use super::perf::open::{PerfSet, PerfSettings, Target, wait_for};
use super::policy::Policy;
use super::proc;
use super::selftest::{Skid, measure_skid};
use super::setup::{
    app_name, check_subject, explain_refusal, first_meta, make_agent, probe_perf, rungs, rungs_inside,
};
use super::target::{Before, Ending, Held, Running, StartError, pass_signals_to};
use crate::discover::{self, cpu_times};
use crate::place::objects::{ObjectPolicies, PLACES, Table};
use crate::store::{CreateError, Finished, Writer, finish, reserve};
use nearfar_model::machine::Machine;
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::recording::*;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How call chains are taken with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CallGraph {
    /// None.
    None,
    /// By frame pointers: cheap, wrong where code was compiled without them.
    Fp,
    /// By .eh_frame from a copy of the stack: right, 8 KiB a sample.
    Dwarf,
}

/// What to record and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording; `None`: a free name in the current directory.
    pub output: Option<PathBuf>,
    /// Samples per second of CPU time and thread.
    pub hz: f64,
    /// Allocations from this size on are recorded one by one, bytes.
    pub min_object: u64,
    /// Machine to judge by, kept as a wish.
    pub wish: Option<String>,
    /// Call chains of samples.
    pub call_graph: CallGraph,
    /// Use the preload agent.
    pub agent: bool,
    /// Do not use perf events even if they work (to test the signal rung).
    pub no_perf: bool,
    /// Seconds between looks at page homes.
    pub homes_interval: f64,
    /// Policies of single objects.
    pub objects: Option<ObjectPolicies>,
    /// Set where this recorder runs inside the virtual machine. Nothing is sampled then (the
    /// plugin does that) and the journal is left for the host to finish.
    pub inside_guest: Option<Inside>,
}

/// What the recorder inside the virtual machine was told by the one outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The recording's directory, which the host has made.
    pub recording: PathBuf,
    /// Cpus that the program may use.
    pub cpus: CpuList,
    /// Where its memory goes, if not to the node of the first touch.
    pub policy: Option<Policy>,
    /// Policies of single objects.
    pub objects: Option<ObjectPolicies>,
    /// The machine that is emulated.
    pub machine: Machine,
    /// How it is emulated: threads, pages, prefetcher; for the report.
    pub how: String,
    /// Process id of the recorder outside, and its start time: as in [`Meta`].
    pub recorder: (u32, u64),
}

/// What is recorded.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A command to start.
    Command(Vec<OsString>),
    /// A running process.
    Process(u32),
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The recording could not be begun.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is no such process.
    #[error("there is no process {0} (see `ps -e`)")]
    NoProcess(u32),
    /// The process is somebody else's.
    #[error("process {pid} belongs to user {owner}: attach as that user, or with sudo")]
    NotYours {
        /// The process.
        pid: u32,
        /// Its user id.
        owner: u32,
    },
    /// Attaching needs perf events.
    #[error(
        "attaching to a running process needs perf events, and these do not work here: {0}. \
         `nearfar doctor` says what unlocks them; or start the program under `nearfar record -- command`."
    )]
    AttachWithoutPerf(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// What came of it.
pub struct Outcome {
    /// The recording.
    pub directory: PathBuf,
    /// How the program ended; `None` after attaching.
    pub ending: Option<Ending>,
    /// Lines for the user.
    pub summary: Vec<String>,
}

/// How long events are held back so that those of other cpus can be put in order, ns.
const ORDER_WINDOW_NS: u64 = 5_000_000;
/// Longest sleep between two looks at the rings; the agent's rings do not wake us.
const TICK_MS: i32 = 20;
/// Rows reach the disk at least this often: what a killed recorder loses.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Pages looked at per object and look.
const PAGES_PER_LOOK: usize = 2048;

/// Records `subject`.
///
/// # Errors
/// See [`RecordError`]. Once the program runs, nothing stops it on our account:
/// what fails from then on is noted in the recording.
pub fn record(subject: &Subject, options: &Options) -> Result<Outcome, RecordError> {
    let host = discover::discover(Path::new("/"))?;
    check_subject(subject)?;
    if let Some(objects) = &options.objects {
        objects.try_here().map_err(anyhow::Error::msg)?;
    }
    let table = options.objects.as_ref().map(ObjectPolicies::table).transpose()?;
    let perf_refused =
        if options.no_perf { Some("switched off by --no-perf".to_owned()) } else { probe_perf().err() };
    if let (Subject::Process(_), Some(why)) = (subject, &perf_refused) {
        return Err(RecordError::AttachWithoutPerf(why.clone()));
    }
    let inside = options.inside_guest.is_some();
    let agent = make_agent(subject, options, perf_refused.is_some() && !inside);
    let skid = if inside {
        Skid::Untested
    } else if perf_refused.is_none() && nearfar_model::decode::supported(std::env::consts::ARCH) {
        measure_skid()
    } else if nearfar_model::decode::supported(std::env::consts::ARCH) {
        // The signal arrives like the perf event, but there is nothing to measure it with here.
        Skid::Untested
    } else {
        Skid::Unsupported
    };

    let meta = first_meta(subject, options, &host, agent.as_ref().map(|_| ()).map_err(Clone::clone));
    let output = match &options.inside_guest {
        Some(inside) => inside.recording.clone(),
        None => reserve(options.output.as_deref(), &app_name(subject))?,
    };
    let mut writer = Writer::create(&output, meta)?;
    let mut environment = agent.as_ref().map(AgentFile::environment).unwrap_or_default();
    environment.extend(table.as_ref().map(|table| (PLACES.into(), table.path.clone().into())));
    let held = match subject {
        Subject::Command(command) => {
            let inside = options.inside_guest.as_ref();
            let policy = inside.and_then(|i| i.policy.as_ref()).map(Policy::prepare);
            let before = Before {
                cpus: inside.map(|i| &i.cpus),
                policy: policy.as_ref(),
                guest: inside.is_some(),
                ..Before::default()
            };
            match Held::start(command, &environment, &before) {
                Ok(held) => Some(held),
                Err(error) => {
                    remove_empty(&output);
                    return Err(error.into());
                }
            }
        }
        Subject::Process(_) => None,
    };

    let cpus = proc::online_cpus();
    let settings = PerfSettings {
        hz: if inside { 0.0 } else { options.hz },
        faults: true,
        chains: options.call_graph == CallGraph::Fp,
        stack_bytes: if options.call_graph == CallGraph::Dwarf { 8192 } else { 0 },
    };
    let mut perf_why = perf_refused;
    let mut perf = None;
    if perf_why.is_none() {
        let target = match (&held, subject) {
            (Some(held), _) => Target::Exec(held.pid()),
            (None, Subject::Process(pid)) => {
                Target::Running(proc::threads(*pid).into_iter().map(|t| t as i32).collect())
            }
            (None, Subject::Command(_)) => unreachable!("a command is always held"),
        };
        match PerfSet::open(&target, &cpus, &settings) {
            Ok(set) => perf = Some(set),
            Err(error) if held.is_none() => {
                remove_empty(&output);
                return Err(RecordError::AttachWithoutPerf(explain_refusal(&error)));
            }
            Err(error) => perf_why = Some(explain_refusal(&error)),
        }
    }

    let weight = perf.as_ref().map_or(0, PerfSet::sample_weight_ns);
    let mut interpreter = Interpreter::new(weight, matches!(skid, Skid::Holds(_) | Skid::Untested));
    interpreter.unwind_samples = options.call_graph == CallGraph::Dwarf;
    if let Ok(agent) = &agent {
        interpreter.own_files.push(agent.path().to_string_lossy().into_owned());
    }
    interpreter.own_files.extend(table.as_ref().map(|table| table.path.to_string_lossy().into_owned()));
    let start_ns = writer.meta.start_ns;
    let running = match held {
        Some(held) => {
            pass_signals_to(held.pid());
            match held.release() {
                Ok(running) => Some(running),
                Err(error) => {
                    remove_empty(&output);
                    return Err(error.into());
                }
            }
        }
        None => {
            super::target::interrupt_ends_recording();
            if let Subject::Process(pid) = subject {
                begin_attached(&mut interpreter, *pid, start_ns, &mut writer);
            }
            if let Some(perf) = &perf {
                perf.enable();
            }
            None
        }
    };

    let session = Session {
        agent_events: AgentEvents::new(perf.is_none()),
        perf,
        agent,
        table,
        interpreter,
        writer,
        pending: Vec::new(),
        options,
        perf_why,
        skid,
        nodes: host.machine.nodes.len(),
        complained: false,
        cpu_before_s: 0.0,
    };
    session.run(subject, running)
}

/// Removes a recording in which nothing was recorded.
fn remove_empty(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
}

/// What is known of a process that ran before the recording.
fn begin_attached(interpreter: &mut Interpreter, pid: u32, time_ns: u64, writer: &mut Writer) {
    let tables = &mut writer.tables;
    let space = interpreter.world.add_space(pid, NONE, false, time_ns, tables);
    for tid in proc::threads(pid) {
        interpreter.world.add_thread(space, tid, time_ns, proc::name(pid, tid), tables);
    }
    interpreter.scan_maps(pid, time_ns, tables);
    writer.lose(
        time_ns,
        "faults",
        0,
        "attached to a running process: pages placed before are of unknown origin",
    );
}

struct Session<'a> {
    perf: Option<PerfSet>,
    agent: Result<AgentFile, String>,
    /// Of the objects that are placed.
    table: Option<Table>,
    agent_events: AgentEvents,
    interpreter: Interpreter,
    writer: Writer,
    /// Events that wait for those of other cpus with an earlier time.
    pending: Vec<Event>,
    options: &'a Options,
    perf_why: Option<String>,
    skid: Skid,
    nodes: usize,
    complained: bool,
    /// CPU time of this process before the program ran, seconds.
    cpu_before_s: f64,
}

impl Session<'_> {
    fn run(mut self, subject: &Subject, running: Option<Running>) -> Result<Outcome, RecordError> {
        let begin = Instant::now();
        self.cpu_before_s = proc::own_cpu_seconds();
        let ticks = cpu_times(Path::new("/"));
        let mut last_flush = begin;
        let mut look_every = Duration::from_secs_f64(self.options.homes_interval);
        let mut last_look = begin;
        let (ending, target_cpu) = loop {
            let wake = running.as_ref().map_or(-1, Running::poll_fd);
            match &self.perf {
                Some(perf) => perf.wait(wake, TICK_MS),
                None => wait_for(&[wake], TICK_MS),
            }
            let ended = match (&running, subject) {
                (Some(running), _) => running.try_wait().map(|(ending, cpu)| (Some(ending), cpu)),
                (None, Subject::Process(pid)) => {
                    let gone = proc::start_time(*pid).is_none();
                    (gone || interrupted()).then_some((None, 0.0))
                }
                (None, Subject::Command(_)) => unreachable!("a command is always started"),
            };
            self.drain(ended.is_some());
            if let Some(ended) = ended {
                break ended;
            }
            if last_look.elapsed() >= look_every {
                let cost = self.look_at_homes();
                // At most a hundredth of the time goes into looking.
                look_every = look_every.max(cost * 100);
                last_look = Instant::now();
            }
            if last_flush.elapsed() >= FLUSH_EVERY {
                self.flush();
                last_flush = Instant::now();
            }
        };
        self.writer.meta.target_cpu_s = target_cpu;
        if let (Some(before), Some(now)) = (ticks, cpu_times(Path::new("/"))) {
            self.writer.meta.steal_share = now.steal_share_since(&before).unwrap_or(-1.0);
        }
        self.close(ending)
    }

    /// Takes what the rings hold and interprets what is old enough to be complete.
    fn drain(&mut self, last: bool) {
        let now = proc::monotonic_ns();
        let upto = if last { u64::MAX } else { now.saturating_sub(ORDER_WINDOW_NS) };
        if let Some(perf) = &mut self.perf {
            let pending = &mut self.pending;
            perf.drain(|event| pending.push(event));
            if last {
                perf.disable();
            }
        }
        if let Ok(agent) = &mut self.agent {
            let events = &mut self.agent_events;
            agent.drain(|record| events.add(record));
        }
        self.pending.sort_by_key(|e| e.time_ns);
        self.agent_events.sort();
        let ready = self.pending.partition_point(|e| e.time_ns <= upto);
        let tables = &mut self.writer.tables;
        for event in self.pending.drain(..ready) {
            self.agent_events.interpret_before(event.time_ns, &mut self.interpreter, tables);
            self.interpreter.event(event, tables);
        }
        self.agent_events.interpret_before(upto, &mut self.interpreter, tables);
        // Sites in runtime libraries need their caller: take every chain while new ones show up.
        let fresh = std::mem::take(&mut self.interpreter.world.new_runtime_site);
        if let Some(perf) = &mut self.perf {
            perf.burst_chains(fresh && !last);
        }
    }

    fn flush(&mut self) {
        self.interpreter.flushed();
        if let Err(error) = self.writer.flush() {
            self.complain(&format!(
                "nearfar: cannot write the recording any more: {error}. The program goes on; what was written \
                 so far can be reported."
            ));
        }
    }

    fn complain(&mut self, message: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            eprintln!("{message}");
        }
    }

    /// Looks where pages are now: always on machines with several nodes, and
    /// where no agent does it at the end of an object's life. Gives the time it took.
    fn look_at_homes(&mut self) -> Duration {
        let begin = Instant::now();
        let time_ns = proc::monotonic_ns();
        let page = self.writer.meta.page_bytes;
        let living: Vec<(u32, u32)> = self.interpreter.world.living().collect();
        for (pid, space) in living {
            let with_agent = self.interpreter.world.spaces[space as usize].agent;
            if self.nodes < 2 && with_agent {
                continue;
            }
            for range in self.interpreter.world.ranges(space, self.options.min_object) {
                // A process that just ended is no reason to stop.
                let _ = homes::look(
                    pid as i32,
                    range,
                    page,
                    PAGES_PER_LOOK,
                    time_ns,
                    &mut self.writer.tables.homes,
                );
            }
        }
        begin.elapsed()
    }

    fn close(mut self, ending: Option<Ending>) -> Result<Outcome, RecordError> {
        let end_ns = proc::monotonic_ns();
        let left =
            self.interpreter.world.living().filter(|&(pid, _)| proc::start_time(pid).is_some()).count();
        if left > 0 && ending.is_some() {
            self.writer.lose(
                end_ns,
                "processes",
                left as u64,
                "processes that still ran when the command had ended were recorded up to then",
            );
        }
        self.note_losses(end_ns);
        if self.options.inside_guest.is_some()
            && ending == Some(Ending::Signal(libc::SIGILL))
            && let Some(line) = illegal::kernel_line()
        {
            self.writer.lose(end_ns, illegal::ILLEGAL, 1, line);
        }
        self.agent_events.close(&mut self.writer.tables);
        let placed = self.placed();
        let samples_name = if self.perf.is_some() { "clock" } else { "signal" };
        let meta = &mut self.writer.meta;
        meta.state = "stopped".into();
        meta.end_ns = end_ns;
        meta.exit = ending.map(Ending::text).unwrap_or_default();
        meta.agent = self.agent_events.seen;
        meta.placed = placed;
        if !meta.agent && meta.agent_why.is_empty() {
            meta.agent_why = "the program did not load it (another libc, or LD_PRELOAD was removed)".into();
        }
        meta.rungs = match &self.options.inside_guest {
            Some(inside) => rungs_inside(&inside.how, self.perf_why.as_deref()),
            None => rungs(self.perf.is_some(), self.perf_why.as_deref(), &self.skid, meta, self.options.hz),
        };
        meta.recorder_cpu_s = proc::own_cpu_seconds() - self.cpu_before_s;
        if self.options.inside_guest.is_some() {
            // Seconds of an emulated cpu are nobody's time.
            (meta.recorder_cpu_s, meta.target_cpu_s, meta.steal_share) = (0.0, 0.0, -1.0);
        }
        self.flush();
        let mut meta = self.writer.meta.clone();
        let failed = self.writer.failure().map(|e| e.to_string());
        let path = self.writer.directory().to_owned();
        let mut summary: Vec<String> = meta.placed.iter().map(|line| format!("nearfar: {line}")).collect();
        match self.writer.close() {
            Ok(_) if self.options.inside_guest.is_some() => {}
            Ok(directory) => {
                let Finished { .. } = finish(&directory, &mut meta)?;
            }
            Err(error) => summary.push(format!(
                "nearfar: the recording is incomplete: {}",
                failed.unwrap_or_else(|| error.to_string())
            )),
        }
        let survey = meta.survey.clone().unwrap_or_default();
        let share = if meta.target_cpu_s > 0.0 {
            format!(
                "; the recorder used {:.1} % of the program's CPU time",
                100.0 * meta.recorder_cpu_s / meta.target_cpu_s
            )
        } else {
            String::new()
        };
        summary.push(format!(
            "nearfar: {} {samples_name} samples in {:.1} s{share}",
            survey.samples,
            (meta.end_ns - meta.start_ns) as f64 * 1e-9
        ));
        if let Some(Ending::Signal(_)) = ending {
            summary.push(format!(
                "nearfar: the program was ended by {}; everything up to then is recorded",
                meta.exit
            ));
        }
        let shown = std::env::current_dir().ok().and_then(|d| path.strip_prefix(d).ok().map(Path::to_owned));
        let shown = shown.unwrap_or(path.clone());
        summary.push(format!("nearfar: recording {0}; next: nearfar report {0}", shown.display()));
        Ok(Outcome { directory: path, ending, summary })
    }

    /// What became of the objects that were to be placed.
    fn placed(&self) -> Vec<String> {
        match (&self.options.objects, &self.table, &self.agent) {
            (Some(objects), Some(table), Ok(_)) => objects.outcome(table),
            (Some(_), _, Err(why)) => vec![format!("objects cannot be placed: {why}")],
            _ => Vec::new(),
        }
    }

    fn note_losses(&mut self, end_ns: u64) {
        if self.interpreter.lost > 0 {
            let lost = self.interpreter.lost;
            self.writer.lose(
                end_ns,
                "perf_records",
                lost,
                "the perf ring was full: samples or faults are missing",
            );
        }
        if self.interpreter.throttled > 0 {
            let times = self.interpreter.throttled;
            self.writer.lose(end_ns, "throttled", times, "the kernel paused sampling to limit its cost");
        }
        if let Ok(agent) = &self.agent {
            let lost = agent.lost();
            for (count, why) in [
                (lost.ring_full, "the agent's ring was full: allocations are missing"),
                (lost.busy, "the agent was interrupted while it wrote"),
                (lost.unclaimed, "processes beyond 256 at a time have no agent"),
                (lost.refused, "processes with a limited address space have no agent"),
                (lost.damaged, "the program wrote over the agent's memory"),
            ] {
                if count > 0 {
                    self.writer.lose(end_ns, "agent_records", count, why);
                }
            }
        }
    }
}

/// Whether Ctrl-C was typed while attached.
fn interrupted() -> bool {
    super::target::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed)
}
