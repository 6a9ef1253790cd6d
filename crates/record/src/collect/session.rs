//! A recording from start to end: which sources work, the loop that drains them, the close.

mod close;
mod excerpts;
mod progress;

use super::agent::AgentFile;
use super::agent_events::AgentEvents;
use super::attach::{self, Lives};
use super::core_clock::{Beats, core_ghz, in_place_ns};
use super::counting::Counting;
use super::events::Interpreter;
use super::excerpts::{Copies, possible};
pub use super::options::{CallGraph, Inside, Options, Outcome, RecordError, Subject};
use super::perf::event::{Body, Event};
use super::perf::open::{PerfSet, PerfSettings, Rings, Target, wait_for};
use super::selftest::{Skid, measure_skid};
use super::setup::{
    app_name, check_subject, explain_refusal, first_meta, hardware_source, make_agent, probe_perf, sources,
};
use crate::collect::objects::{MAPPED_AS, ObjectPolicies, PLACES, Table};
use crate::ranks::join::join;
use crate::store::{CreateError, Writer, reserve};
use nearfar_decode::loops::core;
use nearfar_host::discover::pmu::MemoryEvents;
use nearfar_host::discover::{self, cpu_times, hugetlb_bytes};
use nearfar_host::live::{EVERY, Line};
use nearfar_host::page_nodes;
use nearfar_host::policy::Policy;
use nearfar_host::proc;
use nearfar_host::target::{Before, Held, Running, User};
use nearfar_machine::Machine;
use nearfar_observed::live::events::Processor;
use nearfar_recording::*;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long events are held back so that those of other cpus can be put in order, ns.
const ORDER_WINDOW_NS: u64 = 5_000_000;
/// Longest sleep between two looks at the rings; the agent's rings do not wake us.
const TICK_MS: i32 = 20;
/// The same while one of them fills up.
const BUSY_TICK_MS: i32 = 1;
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
    let inside = options.inside_guest.as_ref();
    let (kernel, machine, warnings) = match inside {
        // The machine that counts is the emulated one, and known outside.
        Some(_) => (discover::page_settings(Path::new("/")), Machine::unknown(), Vec::new()),
        None => {
            let host = discover::discover(Path::new("/"))?;
            (host.kernel, host.machine, host.warnings)
        }
    };
    check_subject(subject)?;
    if options.excerpts.is_some() {
        possible(&machine).map_err(anyhow::Error::msg)?;
    }
    if let Some(objects) = &options.objects {
        objects.try_here().map_err(anyhow::Error::msg)?;
    }
    let table = options.objects.as_ref().map(ObjectPolicies::table).transpose()?;
    let perf_refused = match options.no_perf {
        true => Some("switched off by --no-perf".to_owned()),
        // They are opened once, for the program.
        false if inside.is_some() => None,
        false => probe_perf().err(),
    };
    let lives = Lives::of(subject);
    if let (Subject::Processes(_) | Subject::Everything, Some(why)) = (subject, &perf_refused) {
        return Err(RecordError::AttachWithoutPerf(why.clone()));
    }
    let nodes = inside.map_or(machine.nodes.len(), |inside| inside.nodes);
    let inside = inside.is_some();
    if !options.agent && options.no_perf {
        return Err(anyhow::anyhow!(
            "--no-agent and --no-perf together leave nothing that records: samples come from perf events or from the \
             agent's timers. Leave one of them out"
        )
        .into());
    }
    let agent = make_agent(subject, options, perf_refused.is_some() && !inside);
    let skid = if inside {
        Skid::Untested
    } else if perf_refused.is_none() && nearfar_decode::supported(std::env::consts::ARCH) {
        measure_skid()
    } else if nearfar_decode::supported(std::env::consts::ARCH) {
        // The signal arrives like the perf event, but there is nothing to measure it with here.
        Skid::Untested
    } else {
        Skid::Unsupported
    };

    let meta = first_meta(
        subject,
        options,
        &kernel,
        machine.clone(),
        agent.as_ref().map(|_| ()).map_err(Clone::clone),
    );
    let output = match &options.inside_guest {
        Some(inside) => inside.recording.clone(),
        None => match &options.rank {
            Some(rank) => join(options.output.as_deref(), rank)?,
            None => reserve(options.output.as_deref(), &app_name(subject))?,
        },
    };
    let mut writer = Writer::create(&output, meta, options.max_size).inspect_err(|error| {
        // What was there before stays, and so does what the host made.
        if !inside && matches!(error, CreateError::Io { .. }) {
            remove_empty(&output);
        }
    })?;
    for warning in warnings.iter().filter(|w| w.contains("/sys is not mounted")) {
        let time_ns = writer.meta.start_ns;
        writer.lose(time_ns, "parts of the machine's description", 0, warning.clone());
    }
    let mut environment = agent.as_ref().map(AgentFile::environment).unwrap_or_default();
    environment.extend(table.as_ref().map(|table| (PLACES.into(), table.path.clone().into())));
    environment.extend(options.user.iter().flat_map(User::environment));
    let held = match subject {
        Subject::Command(command) => {
            let inside = options.inside_guest.as_ref();
            let policy = inside.and_then(|i| i.policy.as_ref()).map(Policy::prepare);
            let before = Before {
                cpus: inside.map(|i| &i.cpus),
                policy: policy.as_ref(),
                guest: inside.is_some(),
                user: options.user.as_ref(),
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
        Subject::Processes(_) | Subject::Everything => None,
    };

    let cpus = proc::online_cpus();
    let memory = match options.memory.filter(|_| !inside) {
        None => Err("switched off by --no-hardware".to_owned()),
        Some(wish) => MemoryEvents::find(Path::new("/"), wish).map_err(|none| match none.unlock {
            Some(unlock) => format!("{}. {unlock}", none.why),
            None => none.why,
        }),
    };
    let settings = PerfSettings {
        memory: memory.as_ref().ok().map(|events| (events.clone(), options.hz)),
        hz: if inside { 0.0 } else { options.hz },
        faults: true,
        chains: options.call_graph == CallGraph::Fp,
        stack_bytes: if options.call_graph == CallGraph::Dwarf { 8192 } else { 0 },
        rings: match &options.rank {
            _ if inside => Rings::Emulated,
            rank => Rings::Ranks(rank.as_ref().and_then(|rank| rank.local_size).unwrap_or(1)),
        },
    };
    let mut perf_why = perf_refused;
    let mut perf = None;
    if perf_why.is_none() {
        match &held {
            Some(held) => match PerfSet::open(&Target::Exec(held.pid()), &cpus, &settings) {
                Ok(set) => perf = Some(set),
                Err(error) => perf_why = Some(explain_refusal(&error)),
            },
            None => {
                let opened = attach::open(subject, &lives, &cpus, &settings);
                perf = Some(opened.inspect_err(|_| remove_empty(&output))?);
            }
        }
    }

    let weight = perf.as_ref().map_or(0, PerfSet::sample_weight_ns);
    let mut interpreter = Interpreter::new(weight, matches!(skid, Skid::Holds(_) | Skid::Untested));
    if !inside {
        let Processor { vendor, family, model, flags } = proc::processor();
        interpreter.processes.decoder.core = core(&vendor, family, model, &flags);
        writer.meta.core_ghz = core_ghz();
        writer.meta.in_place_ns = in_place_ns();
    }
    interpreter.unwind_samples = options.call_graph == CallGraph::Dwarf;
    if let Ok(agent) = &agent {
        interpreter.own_files.push(agent.mapped_as().to_owned());
    }
    interpreter.own_files.extend(table.as_ref().map(|_| MAPPED_AS.to_owned()));
    if !inside {
        // A killed recorder cannot write it any more. What is not written now is written at the end.
        let expected = Meta { agent: agent.is_ok(), ..writer.meta.clone() };
        let hardware = hardware_source(&memory, perf.as_ref(), options.hz);
        writer.meta.sources = sources(perf.is_some(), perf_why.as_deref(), &skid, &expected, options.hz);
        writer.meta.sources.insert(0, hardware);
        let _ = writer.note_meta();
    }
    let start_ns = writer.meta.start_ns;
    let mut counting = Counting::begin(subject, options, &machine, &output, perf_why.as_deref());
    // Before the program writes anything.
    let live = options.progress.then(Line::on_terminal).flatten();
    let running = match held {
        Some(mut held) => {
            if let Some(counting) = &mut counting {
                counting.program(held.pid() as u32);
            }
            held.pass_signals();
            match held.release() {
                Ok(running) => Some(running),
                Err(error) => {
                    remove_empty(&output);
                    return Err(error.into());
                }
            }
        }
        None => {
            nearfar_host::target::interrupt_ends_recording();
            attach::begin(&mut interpreter, subject, start_ns, &mut writer);
            if let Some(perf) = &perf {
                perf.enable();
            }
            if let Some(counting) = &mut counting {
                counting.running(subject);
            }
            None
        }
    };

    let session = Session {
        agent_events: AgentEvents::new(perf.is_none()),
        perf,
        agent,
        table,
        counting,
        interpreter,
        writer,
        pending: Vec::new(),
        options,
        perf_why,
        memory,
        skid,
        nodes,
        complained: false,
        cpu_before_s: 0.0,
        copies: Copies::begin(options.excerpts, running.as_ref().map_or(0, Running::pid)),
    };
    session.run(&lives, running, live)
}

/// Makes a recording the user's, once nothing more is written: before, it would be theirs to put links
/// where root writes. Links are not followed.
fn give_to(path: &Path, user: &User) -> std::io::Result<()> {
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give_to(&entry?.path(), user)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))
}

/// Removes a recording in which nothing was recorded.
fn remove_empty(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
}

struct Session<'a> {
    perf: Option<PerfSet>,
    agent: Result<AgentFile, String>,
    /// Of the objects that are placed.
    table: Option<Table>,
    agent_events: AgentEvents,
    /// What is counted beside the samples; nothing inside the virtual machine.
    counting: Option<Counting>,
    interpreter: Interpreter,
    writer: Writer,
    /// Events that wait for those of other cpus with an earlier time.
    pending: Vec<Event>,
    options: &'a Options,
    perf_why: Option<String>,
    /// Events that sample memory, or why there are none.
    memory: Result<MemoryEvents, String>,
    skid: Skid,
    nodes: usize,
    complained: bool,
    /// CPU time of this process before the program ran, and of what it did once the program had ended, seconds.
    cpu_before_s: f64,
    copies: Copies,
}

impl Session<'_> {
    fn run(
        mut self,
        lives: &Lives,
        running: Option<Running>,
        mut live: Option<Line>,
    ) -> Result<Outcome, RecordError> {
        let begin = Instant::now();
        self.cpu_before_s = proc::own_cpu_seconds();
        let ticks = cpu_times(Path::new("/"));
        let mut last_flush = begin;
        let mut last_progress = begin;
        let mut look_every = Duration::from_secs_f64(self.options.look_interval);
        let mut last_look = begin;
        let mut beats = Beats::default();
        let (ending, taken) = loop {
            let wake = running.as_ref().map_or(-1, Running::poll_fd);
            let filling = self.agent.as_ref().is_ok_and(|agent| agent.filling);
            let tick_ms = if filling { BUSY_TICK_MS } else { TICK_MS };
            match &self.perf {
                Some(perf) => perf.wait(wake, tick_ms),
                None => wait_for(&[wake], tick_ms),
            }
            let ended = match &running {
                Some(running) => running.try_wait().map(|(ending, taken)| (Some(ending), Some(taken))),
                None => {
                    let over = self.options.duration.is_some_and(|most| begin.elapsed() >= most);
                    (over || interrupted() || lives.ended()).then_some((None, None))
                }
            };
            self.drain(ended.is_some());
            if let Some(ended) = ended {
                break ended;
            }
            if self.writer.meta.core_ghz.is_some() {
                beats.beat();
            }
            if last_look.elapsed() >= look_every {
                let cost = self.look_at_page_nodes();
                // At most a hundredth of the time goes into looking.
                look_every = look_every.max(cost * 100);
                last_look = Instant::now();
            }
            if last_flush.elapsed() >= FLUSH_EVERY {
                self.flush();
                last_flush = Instant::now();
            }
            if let Some(line) = &mut live {
                line.give_way();
                if last_progress.elapsed() >= EVERY {
                    line.show(&self.progress(begin.elapsed(), running.is_none()));
                    last_progress = Instant::now();
                }
            }
        };
        // The summary takes its place. Where the program wrote, it may have left half a line.
        let untouched = live.as_mut().is_some_and(|line| {
            line.give_way();
            !line.is_over()
        });
        drop(live);
        // While attached, Ctrl-C ended the recording; now it ends us.
        nearfar_host::target::signals_are_ours();
        if let Some(taken) = taken {
            let meta = &mut self.writer.meta;
            (meta.target_cpu_s, meta.target_system_s) = (taken.cpu_s, taken.system_s);
            (meta.largest_process_bytes, meta.target_faults) = (taken.largest_bytes, taken.faults);
            let now = hugetlb_bytes(Path::new("/"));
            meta.hugetlb_bytes = meta.hugetlb_bytes.zip(now).map(|(before, now)| before.max(now));
        }
        if let (Some(before), Some(now)) = (ticks, cpu_times(Path::new("/"))) {
            self.writer.meta.steal_share = now.steal_share_since(&before).unwrap_or(-1.0);
        }
        // Once more: cores run faster or slower as others work or rest.
        let before = self.writer.meta.core_ghz;
        self.writer.meta.core_ghz = before.and_then(|ghz| Some(core_ghz()?.max(ghz)));
        self.writer.meta.core_slowdown = self.writer.meta.core_ghz.and_then(|ghz| beats.slowdown(ghz));
        let before = self.writer.meta.in_place_ns;
        self.writer.meta.in_place_ns = before.and_then(|ns| Some(in_place_ns()?.min(ns)));
        let end_ns = proc::monotonic_ns();
        self.count_excerpts(untouched);
        self.close(ending, end_ns, untouched)
    }

    /// Takes what the rings hold and interprets what is old enough to be complete.
    fn drain(&mut self, last: bool) {
        let now = proc::monotonic_ns();
        let upto = if last { u64::MAX } else { now.saturating_sub(ORDER_WINDOW_NS) };
        let fresh = self.pending.len();
        self.take_events();
        if let (Some(counting), Some(_)) = (&mut self.counting, &self.perf) {
            counting.meet(&self.pending[fresh..]);
        }
        if let (Some(perf), true) = (&self.perf, last) {
            perf.disable();
        }
        if let Ok(agent) = &mut self.agent {
            let events = &mut self.agent_events;
            agent.drain(now, |record| events.add(record));
        }
        self.pending.sort_by_key(|e| e.time_ns);
        self.agent_events.sort();
        let ready = self.pending.partition_point(|e| e.time_ns <= upto);
        let tables = &mut self.writer.tables;
        for event in self.pending.drain(..ready) {
            self.agent_events.interpret_before(event.time_ns, &mut self.interpreter, tables);
            if let (Some(counting), Body::Exit) = (&mut self.counting, &event.body) {
                counting.ended(event.tid, event.time_ns, &mut self.interpreter, tables);
            }
            self.interpreter.event(event, tables);
        }
        if let Some(counting) = &mut self.counting {
            counting.read_in_time(&mut self.interpreter, tables);
        }
        self.agent_events.interpret_before(upto, &mut self.interpreter, tables);
        // Sites in runtime libraries need their caller: take every chain while new ones show up.
        let fresh = std::mem::take(&mut self.interpreter.processes.new_runtime_site);
        if let Some(perf) = &mut self.perf {
            perf.burst_chains(fresh && !last);
        }
        self.note_copies();
    }

    fn flush(&mut self) {
        self.interpreter.flushed();
        let was_full = self.writer.is_full();
        if let Err(error) = self.writer.flush() {
            self.complain(&format!(
                "nearfar: cannot write the recording any more: {error}. The program goes on; what was written \
                 so far can be reported."
            ));
        }
        if self.writer.is_full() && !was_full {
            self.stop_at_the_limit();
        }
    }

    /// The recording is as large as it may be: the program goes on, unrecorded.
    fn stop_at_the_limit(&mut self) {
        if let Some(perf) = &self.perf {
            perf.disable();
        }
        if let Ok(agent) = &self.agent {
            agent.stop();
        }
        let now = proc::monotonic_ns();
        let seconds = now.saturating_sub(self.writer.meta.start_ns) as f64 * 1e-9;
        self.writer.lose(
            now,
            "end",
            0,
            format!(
                "after {seconds:.1} s the recording had reached its largest size (--max-size): what came then is not in it"
            ),
        );
        self.complain(&format!(
            "nearfar: after {seconds:.1} s the recording is as large as --max-size allows. The program goes on unrecorded."
        ));
    }

    fn complain(&mut self, message: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            nearfar_host::say!("{message}");
        }
    }

    /// Looks where pages are now: always on machines with several nodes, and
    /// where no agent does it at the end of an object's life. Gives the time it took.
    fn look_at_page_nodes(&mut self) -> Duration {
        let begin = Instant::now();
        let time_ns = proc::monotonic_ns();
        let page = self.writer.meta.page_bytes;
        let living: Vec<(u32, u32)> = self.interpreter.processes.living().collect();
        for (pid, space) in living {
            let with_agent = self.interpreter.processes.spaces[space as usize].agent;
            if self.nodes < 2 && with_agent {
                continue;
            }
            for range in self.interpreter.processes.ranges(space, self.options.min_object) {
                // A process that just ended is not a reason to stop.
                let _ = page_nodes::look(
                    pid as i32,
                    range,
                    page,
                    PAGES_PER_LOOK,
                    time_ns,
                    &mut self.writer.tables.page_nodes,
                );
            }
        }
        begin.elapsed()
    }
}

/// Whether Ctrl-C was typed while attached.
fn interrupted() -> bool {
    nearfar_host::target::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed)
}
