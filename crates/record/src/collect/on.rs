//! `record --on`: the program runs in the virtual machine of the guest room, our own recorder
//! beside it on a cpu of its own, and the plugin counts every access from outside.

mod budget;
pub mod parts;
mod windows;

use super::agent;
use super::illegal;
use super::inside;
use super::session::{Inside, Options, Outcome, RecordError};
use super::setup::{command_name, no_agent};
use crate::collect::objects::{ObjectPolicies, on_one_node};
use crate::collect::openmp;
use crate::store::{COUNTED, EMULATED, GUEST, META, finish, open, reserve};
use anyhow::{Context, anyhow};
use budget::stop_after;
use nearfar_guest::{self as guest, GuestError, GuestOptions, HugePages, Job, Plugin, Setup, Shape, Stream};
use nearfar_host::policy::Policy;
use nearfar_host::proc;
use nearfar_host::target::{Ending, find_program};
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_recording::{Columns, Loss, Losses, Source, SourceReport, journal};
use parts::{Parts, parts};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub use windows::Windows;

/// How the virtual machine should be.
#[derive(Clone, Debug)]
pub struct OnOptions {
    /// The machine, scaled as it should be emulated.
    pub machine: Machine,
    /// The firmware spreads memory over all nodes.
    pub interleaved: bool,
    /// Leave OpenMP threads unbound.
    pub unbound: bool,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// AutoNUMA.
    pub numa_balancing: bool,
    /// Simulate a prefetcher.
    pub prefetch: bool,
    /// The order of page frames in the simulated caches; 0: as they are first used.
    pub frames: u32,
    /// Cpus run one at a time, in the order of their simulated clocks.
    pub turns: bool,
    /// Windows in which accesses are counted; `None`: all are.
    pub windows: Option<Windows>,
    /// Memory of each node, bytes.
    pub memory_per_node: u64,
    /// DRAM lines per sample.
    pub lines_per_sample: u32,
    /// Accesses per sample, with which the run is sampled as a processor and a clock would; `None`: it is not.
    pub accesses_per_sample: Option<u32>,
    /// What the program writes stays in the virtual machine; only the recording is written.
    pub read_only: bool,
    /// Stop the program after this time.
    pub budget: Option<Duration>,
    /// No progress on stderr.
    pub quiet: bool,
    /// Cpus of the emulated machine that the program may use; `None`: all.
    pub cpus: Option<CpuList>,
    /// Where its memory goes, if not to the node of the first touch.
    pub policy: Option<Policy>,
    /// The program's outputs go to this new file, and its input is empty.
    pub aside: Option<PathBuf>,
}

/// Variables that tell OpenMP runtimes where threads run; one set by the user is left alone,
/// and so are then the others.
pub const BINDING: [&str; 4] = ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"];
/// Length of an epoch on a core's simulated clock, µs.
const EPOCH_US: u32 = 1000;
/// Native CPU time to emulated time, as measured on a two-core host (docs/virtual-machine.md).
const SLOWDOWN: (u32, u32) = (100, 300);

/// Records `command` on the machine of `on`.
///
/// # Errors
/// See [`RecordError`]; also whatever keeps the virtual machine from running. What was
/// counted up to then stays in the recording.
pub fn record_on(command: &[OsString], options: &Options, on: &OnOptions) -> Result<Outcome, RecordError> {
    find_program(&command[0])?;
    if let Some(objects) = &options.objects {
        require_pinned(objects, on)?;
    }
    can_be_simulated(&on.machine)?;
    let Parts { plugin, preload, recorder } = parts()?;
    let shape = Shape::from_machine(&on.machine, &GuestOptions { memory_per_node: Some(on.memory_per_node) })
        .map_err(anyhow::Error::from)?;
    let say = |text: &str| {
        if !on.quiet {
            nearfar_host::say!("nearfar: {text}");
        }
    };
    let mut progress = |progress: guest::Progress| say(&progress.to_string());
    let setup = Setup::find(&mut progress).map_err(anyhow::Error::from)?;
    setup.qemu().require_plugins().map_err(anyhow::Error::from)?;
    let snapshot = setup.ensure_snapshot(&shape, &mut progress).map_err(anyhow::Error::from)?;

    // From here on a signal is for the run: it must not leave the directory behind.
    let relay = guest::Relay::install().context("cannot catch signals")?;
    let recording = reserve(options.output.as_deref(), &command_name(command))?;
    let directory = recording.join(GUEST);
    let inside_file =
        prepare(command, &recording, &shape, options, on).inspect_err(|_| remove(&recording))?;
    let bound = bound(on);
    say(&estimate(on, &shape, bound));
    say(whose_files(on.read_only));
    let begin = Instant::now();
    let mut job = Job {
        environment: environment(bound),
        huge_pages: on.huge_pages,
        numa_balancing: on.numa_balancing,
        plugin: Some(Plugin {
            path: plugin,
            arguments: plugin_arguments(&directory, &shape, snapshot.about(), on),
            preload,
        }),
        writable: on.read_only.then(|| recording.clone()),
        // The recorder inside hands signals on.
        signals_to_group: false,
        stop: stop_after(on.budget, &recording, on.quiet),
        ..Job::new(recorder_inside(&recorder, command, &inside_file))
    };
    if let Some(path) = &on.aside {
        let file = std::fs::File::create_new(path);
        let file = file.with_context(|| format!("cannot make {} for its output", path.display()))?;
        job.stdin = Stream::Null;
        job.stderr = Stream::File(file.try_clone().map_err(anyhow::Error::from)?.into());
        job.stdout = Stream::File(file.into());
    }
    let run = recorded(&recording, snapshot.run_with(job, &relay))?;
    drop(relay);
    close(recording, &run, begin.elapsed())
}

fn remove(recording: &Path) {
    let _ = std::fs::remove_dir_all(recording);
}

/// The run, if the recorder in the virtual machine began a recording; otherwise its directory is removed.
fn recorded(recording: &Path, run: Result<guest::Outcome, GuestError>) -> anyhow::Result<guest::Outcome> {
    let begun = recording.join(META).exists();
    if !begun {
        remove(recording);
    }
    match run {
        Ok(run) if begun => Ok(run),
        Ok(run) => Err(match run.ending {
            Ending::Signal(signal) => GuestError::Interrupted { signal }.into(),
            Ending::Exit(status) => {
                anyhow!(
                    "the recorder in the virtual machine ended with status {status} before it recorded anything"
                )
            }
        }),
        Err(error) if begun => {
            let shown = recording.display();
            let typed = nearfar_host::out::quoted_path(recording);
            Err(anyhow!("{error}\nWhat was known by then is in {shown}: nearfar report {typed}"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses parts and turns where threads may run anywhere on the machine of `on`.
///
/// # Errors
/// If it does so.
pub fn require_pinned(objects: &ObjectPolicies, on: &OnOptions) -> anyhow::Result<()> {
    let pinned = bound(on)
        || openmp::pins(|name| std::env::var(name).ok())
        || on_one_node(&on.machine, on.cpus.as_ref());
    objects.require_pinned(pinned, "without --unbound, or with OMP_PROC_BIND=close OMP_PLACES=cores")
}

fn can_be_simulated(machine: &Machine) -> anyhow::Result<()> {
    let missing = machine.missing_to_simulate();
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|m| format!("  {m}")).collect();
    Err(anyhow!(
        "{} cannot be emulated, its description lacks\n{}\n(docs/machine-file.md says how to write it). A machine that \
         comes with nearfar has all of it: --on xeon-e5-2699v4-2s --cpus-per-node 4",
        machine.name,
        list.join("\n")
    ))
}

/// What the recorder inside and the plugin read.
fn prepare(
    command: &[OsString],
    recording: &Path,
    shape: &Shape,
    options: &Options,
    on: &OnOptions,
) -> anyhow::Result<PathBuf> {
    #[derive(serde::Serialize)]
    struct File<'a> {
        #[serde(flatten)]
        inside: Inside,
        // Last: it is skipped inside.
        machine: &'a Machine,
    }
    let directory = recording.join(GUEST);
    let make = || -> anyhow::Result<PathBuf> {
        std::fs::create_dir(&directory)?;
        std::fs::write(directory.join("machine.toml"), on.machine.to_toml())?;
        let me = std::process::id();
        let inside = Inside {
            recording: recording.to_owned(),
            cpus: match &on.cpus {
                Some(cpus) => cpus.clone(),
                None => shape.machine_cpus().parse().map_err(|e| anyhow!("{e}"))?,
            },
            policy: on.policy.clone(),
            objects: options.objects.clone(),
            nodes: on.machine.nodes.len(),
            agent: no_agent(&command[0]).map_or_else(|| Ok(agent_for_guest()), Err),
            min_object: options.min_object,
            look_interval: options.look_interval,
            max_size: options.max_size,
            started: jiff::Timestamp::now().to_string(),
            how: how(on),
            recorder: (me, proc::start_time(me).unwrap_or(0)),
        };
        let file = directory.join(EMULATED);
        std::fs::write(&file, serde_json::to_vec(&File { inside, machine: &on.machine })?)?;
        Ok(file)
    };
    make().with_context(|| format!("cannot write {}", directory.display()))
}

/// Our library, which the host installs where the guest sees it: the guest would read it several times through its file
/// system to see that it is whole.
fn agent_for_guest() -> Option<PathBuf> {
    // The guest sees all directories of the host except these three, of which it has its own.
    agent::library()
        .ok()
        .filter(|library| ["/dev", "/proc", "/sys"].iter().all(|own| !library.starts_with(own)))
}

fn how(on: &OnOptions) -> String {
    format!(
        "{}; {}, huge pages {}, AutoNUMA {}, prefetcher {}{}{}{}{}{}; accesses of the kernel \
         are not in it",
        on.windows.map_or_else(|| "every user access, counted".to_owned(), |windows| windows.words()),
        if bound(on) { "OpenMP threads bound (close, cores)" } else { "threads as the program binds them" },
        on.huge_pages.text(),
        if on.numa_balancing { "on" } else { "off" },
        if on.prefetch { "on" } else { "off" },
        if on.interleaved { ", memory spread over the nodes by the firmware" } else { "" },
        if on.frames > 0 { format!(", page frames in order {}", on.frames) } else { String::new() },
        if on.turns { ", cpus in turns" } else { "" },
        on.cpus.as_ref().map(|cpus| format!(", on cpus {cpus}")).unwrap_or_default(),
        on.policy.as_ref().map(|policy| format!(", memory {}", policy.words())).unwrap_or_default(),
    )
}

fn bound(on: &OnOptions) -> bool {
    !on.unbound && BINDING.iter().all(|name| std::env::var_os(name).is_none())
}

fn environment(bound: bool) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let mut add = |name: &str, value: &str| all.push((name.into(), value.into()));
    if bound {
        add("OMP_PROC_BIND", "close");
        add("OMP_PLACES", "cores");
    }
    // A thread that spins would be counted as one that works: a third more accesses.
    if std::env::var_os("OMP_WAIT_POLICY").is_none() {
        add("OMP_WAIT_POLICY", "passive");
    }
    all
}

/// The virtual machine is not a sandbox: its root directory is the host's.
fn whose_files(read_only: bool) -> &'static str {
    // SAFETY: no preconditions.
    match unsafe { libc::geteuid() } {
        _ if read_only => {
            "the program in the virtual machine reads this host's files; what it writes stays in the virtual machine's \
             memory and is gone with it, except the recording (--read-only)"
        }
        0 => {
            "mind: the program in the virtual machine writes to this host's files, and as root to all of them; \
             --read-only keeps them as they are"
        }
        _ => {
            "the program in the virtual machine reads and writes this host's files with your rights \
             (--read-only keeps them as they are)"
        }
    }
}

fn estimate(on: &OnOptions, shape: &Shape, bound: bool) -> String {
    let host = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{} of {} cpus on {host} here, threads {}: expect {} to {} times the program's own CPU time, divided by \
         {}{}",
        on.machine.name,
        shape.cpus.len(),
        if bound { "bound" } else { "as they are" },
        SLOWDOWN.0,
        SLOWDOWN.1,
        host.min(shape.cpus.len()),
        match on.budget {
            Some(budget) => format!("; it is stopped after {} s", budget.as_secs()),
            None => "; --budget 5m stops it with what is known by then".into(),
        }
    )
}

/// The plugin's arguments for a run whose files are in `directory`.
pub fn plugin_arguments(
    directory: &Path,
    shape: &Shape,
    about: &guest::About,
    on: &OnOptions,
) -> Vec<(String, String)> {
    let switch = |on: bool| if on { "on" } else { "off" };
    let ends: Vec<String> = about.ram_ends.iter().map(u64::to_string).collect();
    let range = |(from, to): (u64, u64)| format!("{from:#x}:{to:#x}");
    let call = about.call.map(|call| ("call", range(call)));
    let huge = about.huge.map(|huge| ("huge", format!("{huge:#x}")));
    [
        ("out", directory.display().to_string()),
        ("machine", directory.join("machine.toml").display().to_string()),
        ("cpus", shape.cpus.len().to_string()),
        ("switch", format!("{:#x}", about.switch)),
        ("wake", range(about.wake)),
        ("start", range(about.start)),
        ("ram", ends.join(":")),
        ("sample", on.lines_per_sample.to_string()),
        ("epoch_us", EPOCH_US.to_string()),
        ("prefetch", switch(on.prefetch).into()),
        ("interleave", switch(on.interleaved).into()),
    ]
    .into_iter()
    .chain(call)
    .chain(huge)
    .chain(on.windows.map(|windows| ("windows", windows.argument())))
    .chain((on.frames > 0).then(|| ("frames", on.frames.to_string())))
    .chain(on.turns.then(|| ("turns", "on".to_owned())))
    .chain(on.accesses_per_sample.map(|mean| ("accesses", mean.to_string())))
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn recorder_inside(program: &Path, command: &[OsString], file: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec![program.into(), inside::VERSION.into(), file.into()];
    all.extend(command.iter().cloned());
    all
}

fn close(recording: PathBuf, run: &guest::Outcome, wall: Duration) -> Result<Outcome, RecordError> {
    let mut summary = Vec::new();
    note(&recording, run)?;
    let mut meta = crate::store::read_meta(&recording).map_err(anyhow::Error::from)?;
    if meta.state == "open" && meta.sources.is_empty() {
        let why = "the virtual machine ended before the recorder in it did".to_owned();
        meta.sources.push(SourceReport { source: Source::Simulated, active: true, why, hz: 0.0 });
    }
    let finished = finish(&recording, &mut meta)?;
    if run.stopped {
        summary.push(
            "nearfar: the budget is used up; the program was stopped, and what is known is recorded".into(),
        );
    }
    if let Some(trouble) = &run.trouble {
        summary.push(format!(
            "nearfar: the virtual machine did not end in order ({trouble}); counts may be missing"
        ));
    }
    if run.ending == Ending::Signal(libc::SIGILL)
        && let Ok(stored) = open(&recording)
        && let Some(why) = illegal::explain(&stored.input)
    {
        summary.push(format!("nearfar: {why}"));
    }
    summary.extend(meta.placed.iter().map(|line| format!("nearfar: {line}")));
    let samples = finished.dram_samples.map_or("an unknown number of".into(), |samples| samples.to_string());
    summary.push(format!(
        "nearfar: {samples} samples of DRAM lines in {:.1} s ({:.1} s to start the machine)",
        wall.as_secs_f64(),
        run.startup.as_secs_f64()
    ));
    let here = std::env::current_dir().ok();
    let shown = here.and_then(|d| recording.strip_prefix(d).ok().map(Path::to_owned));
    let shown = shown.unwrap_or_else(|| recording.clone());
    summary.push(format!(
        "nearfar: recording {}; next: nearfar report {}",
        shown.display(),
        nearfar_host::out::quoted(shown.as_os_str())
    ));
    Ok(Outcome { directory: recording, rank: None, ending: Some(run.ending), summary })
}

/// What the recorder inside cannot know, as rows of the plugin's journal.
fn note(recording: &Path, run: &guest::Outcome) -> anyhow::Result<()> {
    let mut losses = Losses::default();
    let mut lose =
        |what: &str, why: String| losses.push(Loss { time_ns: 0, what: what.into(), count: 0, why });
    if run.stopped {
        lose("end", "the program was stopped when its --budget was used up".into());
    }
    if let Some(trouble) = &run.trouble {
        lose("counts", format!("the virtual machine did not end in order: {trouble}"));
    }
    let log = recording.join(GUEST).join("plugin.log");
    for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
        if let Some(error) = line.strip_prefix("error: ") {
            lose("counts", error.to_owned());
        }
    }
    let mut frame = Vec::new();
    journal::encode(&mut losses, &mut frame);
    let path = recording.join(GUEST).join(COUNTED);
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
    file.write_all(&frame).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: Ending) -> guest::Outcome {
        let (console, trouble) = (String::new(), None);
        guest::Outcome { ending, stopped: false, startup: Duration::ZERO, console, trouble }
    }

    /// A directory as it is before the recorder in the virtual machine has begun.
    fn reserved(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nearfar-on-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join(GUEST)).unwrap();
        path
    }

    #[test]
    fn a_run_that_ends_before_its_recorder_begins_leaves_no_directory() {
        let path = reserved("interrupted");
        let error = recorded(&path, Ok(outcome(Ending::Signal(libc::SIGINT)))).unwrap_err();
        assert!(
            matches!(
                error.downcast_ref::<GuestError>(),
                Some(GuestError::Interrupted { signal: libc::SIGINT })
            ),
            "{error:#}"
        );
        assert!(!path.exists());
        let path = reserved("ended");
        let error = recorded(&path, Ok(outcome(Ending::Exit(3)))).unwrap_err();
        assert!(error.to_string().contains("status 3"), "{error:#}");
        assert!(!path.exists());
        let path = reserved("failed");
        recorded(&path, Err(GuestError::Interrupted { signal: libc::SIGTERM })).unwrap_err();
        assert!(!path.exists());
    }

    #[test]
    fn a_run_whose_recorder_has_begun_keeps_its_directory() {
        let path = reserved("kept");
        std::fs::write(path.join(META), "{}").unwrap();
        assert!(recorded(&path, Ok(outcome(Ending::Signal(libc::SIGINT)))).is_ok());
        let error = recorded(&path, Err(GuestError::Interrupted { signal: libc::SIGTERM })).unwrap_err();
        assert!(error.to_string().contains("nearfar report"), "{error:#}");
        assert!(path.join(META).exists());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
