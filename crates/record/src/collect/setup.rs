//! Before and after the run: what works here, what the recording says about itself.

use super::agent::{AgentFile, Settings as AgentSettings};
use super::options::{Options, RecordError, Subject};
use super::perf::open::{OpenError, PerfSet, PerfSettings, Rings, Target};
use super::selftest::Skid;
use nearfar_host::discover::pmu::{MemoryEvents, MemoryWish};
use nearfar_host::discover::{self, KernelState};
use nearfar_host::proc;
use nearfar_host::symbols::Module;
use nearfar_host::target::find_program;
use nearfar_machine::Machine;
use nearfar_recording::*;
use std::ffi::{OsStr, OsString};
use std::path::Path;

pub(super) fn check_subject(subject: &Subject) -> Result<(), RecordError> {
    match subject {
        Subject::Command(command) => {
            find_program(&command[0])?;
        }
        Subject::Processes(pids) => {
            // SAFETY: no preconditions.
            let me = unsafe { libc::geteuid() };
            for &pid in pids {
                let owner = proc::owner(pid).ok_or(RecordError::NoProcess(pid))?;
                if me != 0 && owner != me {
                    return Err(RecordError::NotYours { pid, owner });
                }
            }
        }
        Subject::Everything => {}
    }
    Ok(())
}

/// Why our library cannot be loaded into the program at `path`, if that is of another word size or for
/// another processor: byte 4 of an ELF file is the class, 2 for 64 bits, and bytes 18 and 19 the machine.
fn foreign(path: &Path) -> Option<String> {
    let head = |path: &Path| -> std::io::Result<[u8; 20]> {
        let mut head = [0; 20];
        std::io::Read::read_exact(&mut nearfar_host::input::open(path)?.0, &mut head)?;
        Ok(head)
    };
    let (head, own) = (head(path).ok()?, head(Path::new("/proc/self/exe")).ok()?);
    let same = head[4] == own[4] && head[18..] == own[18..];
    (head.starts_with(b"\x7fELF") && !same).then(|| {
        format!(
            "{} is built for another processor or word size than nearfar: its library cannot be loaded there",
            path.display()
        )
    })
}

/// Why our library cannot be loaded into `program`, if so.
pub(super) fn no_agent(program: &OsStr) -> Option<String> {
    let path = find_program(program).ok()?;
    if let Some(why) = foreign(&path) {
        return Some(why);
    }
    let file = Module::open(&path).ok()?;
    if file.is_static_executable() {
        return Some(format!("{} is statically linked: no library can be preloaded", path.display()));
    }
    file.is_setuid()
        .then(|| format!("{} runs with other rights (setuid): the loader ignores LD_PRELOAD", path.display()))
}

/// The agent's shared file, or why there is none.
pub(super) fn make_agent(
    subject: &Subject,
    options: &Options,
    signal_source: bool,
) -> Result<AgentFile, String> {
    let Subject::Command(command) = subject else {
        return Err(
            "attached to running processes: allocations before and after are seen as mappings only".into()
        );
    };
    if !options.agent {
        return Err("switched off by --no-agent".into());
    }
    let library = match &options.inside_guest {
        Some(inside) => inside.agent.clone()?,
        None => no_agent(&command[0]).map_or(Ok(None), Err)?,
    };
    let settings = AgentSettings {
        min_object_bytes: options.min_object,
        signal_hz: if signal_source { options.hz.round() as u32 } else { 0 },
        maps: signal_source,
        hypercall: options.inside_guest.is_some(),
        user: options.user.clone(),
        ..AgentSettings::default()
    };
    let made = match library {
        Some(library) => AgentFile::of_installed(library, &settings),
        None => AgentFile::create(&settings),
    };
    made.map_err(|error| format!("the agent could not be set up: {error}"))
}

/// Whether perf events work for our own process; if not, why.
pub fn probe_perf() -> Result<(), String> {
    // SAFETY: no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let settings = PerfSettings {
        hz: 1000.0,
        faults: true,
        chains: false,
        stack_bytes: 0,
        rings: Rings::Probe,
        memory: None,
    };
    let cpus = proc::online_cpus();
    PerfSet::open(&Target::Running(vec![me]), &cpus[..1], &settings)
        .map(drop)
        .map_err(|e| explain_refusal(&e))
}

/// Whether memory accesses can be sampled here: the events, or why not.
///
/// # Errors
/// Why not, and what to type if anything helps.
pub fn probe_memory() -> Result<String, (String, Option<String>)> {
    let events =
        MemoryEvents::find(Path::new("/"), MemoryWish::default()).map_err(|none| (none.why, none.unlock))?;
    let source = |perf: Option<&PerfSet>| hardware_source(&Ok(events.clone()), perf, 0.0);
    // SAFETY: no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let memory = Some((events.clone(), 1000.0));
    let settings = PerfSettings {
        hz: 1000.0,
        faults: false,
        chains: false,
        stack_bytes: 0,
        rings: Rings::Probe,
        memory,
    };
    let cpus = proc::online_cpus();
    let opened = PerfSet::open(&Target::Running(vec![me]), &cpus[..1], &settings);
    let found = source(opened.as_ref().ok());
    if found.active { Ok(found.why) } else { Err((found.why, None)) }
}

/// What a refusal means and what unlocks it.
pub(super) fn explain_refusal(error: &OpenError) -> String {
    match (error.errno(), proc::kernel_setting::<i32>("perf_event_paranoid")) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 2 => format!(
            "{error}; kernel.perf_event_paranoid is {level}. `sudo sysctl kernel.perf_event_paranoid=2` allows it"
        ),
        (Some(libc::EACCES | libc::EPERM), level) => format!(
            "{error}; kernel.perf_event_paranoid is {}, so probably a container's seccomp profile forbids the call \
             (docker run --security-opt seccomp=unconfined, or --cap-add PERFMON)",
            level.map_or("unknown".into(), |l| l.to_string())
        ),
        (Some(libc::ENOSYS), _) => format!("{error}; the kernel or the container has no perf_event_open"),
        (Some(libc::EMFILE), _) => format!("{error}; too many open files: raise `ulimit -n`"),
        _ => error.to_string(),
    }
}

/// `app` for `./app`, `attached-123` for a process.
pub(super) fn app_name(subject: &Subject) -> String {
    match subject {
        Subject::Command(command) => command_name(command),
        Subject::Processes(pids) => match pids[..] {
            [pid] => {
                let name = proc::name(pid, pid);
                format!("{}-{pid}", if name.is_empty() { "process" } else { &name }).replace('/', "_")
            }
            _ => format!("{}-processes", pids.len()),
        },
        Subject::Everything => "all-processes".to_owned(),
    }
}

/// `app` for `./app --flags`.
pub(super) fn command_name(command: &[OsString]) -> String {
    let name = Path::new(&command[0]).file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.chars().map(|c| if c.is_alphanumeric() || "-_.+".contains(c) { c } else { '_' }).collect()
}

pub(super) fn first_meta(
    subject: &Subject,
    options: &Options,
    kernel: &KernelState,
    machine: Machine,
    agent: Result<(), String>,
) -> Meta {
    let command = match subject {
        Subject::Command(command) => command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        Subject::Processes(pids) => match pids[..] {
            [pid] => proc::command_line(pid),
            // Of several there is no single one.
            _ => Vec::new(),
        },
        Subject::Everything => Vec::new(),
    };
    let cwd = match subject {
        Subject::Command(_) => std::env::current_dir().ok(),
        Subject::Processes(pids) => match pids[..] {
            [pid] => std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
            _ => None,
        },
        Subject::Everything => None,
    };
    let inside = options.inside_guest.as_ref();
    let (recorder_pid, recorder_start) = inside.map_or_else(
        || (std::process::id(), proc::start_time(std::process::id()).unwrap_or(0)),
        |inside| inside.recorder,
    );
    Meta {
        format: FORMAT_VERSION,
        nearfar: env!("CARGO_PKG_VERSION").into(),
        state: "open".into(),
        recorder_pid,
        recorder_start,
        command,
        cwd: cwd.map(|p| p.display().to_string()).unwrap_or_default(),
        rank: options.rank.clone(),
        started: inside.map_or_else(|| jiff::Timestamp::now().to_string(), |inside| inside.started.clone()),
        // A virtual machine has its host's.
        host: proc::host_name(),
        start_ns: proc::monotonic_ns(),
        end_ns: 0,
        exit: String::new(),
        machine,
        wish: options.wish.as_ref().map(|(name, _)| name.clone()),
        wished_machine: options.wish.as_ref().map(|(_, machine)| machine.clone()),
        min_object_bytes: options.min_object,
        page_bytes: proc::page_bytes(),
        folio_bytes: kernel.folio_bytes.clone(),
        numa_balancing: kernel.numa_balancing.unwrap_or(-1),
        hardware_filtered: options.memory.is_some_and(|wish| wish.misses_only || wish.least_cycles > 0),
        agent: false,
        agent_why: agent.err().unwrap_or_default(),
        placement: options.objects.as_ref().map(|o| o.text().to_owned()),
        placed: Vec::new(),
        sources: Vec::new(),
        survey: None,
        recorder_cpu_s: 0.0,
        target_cpu_s: 0.0,
        target_system_s: -1.0,
        largest_process_bytes: 0,
        core_ghz: None,
        core_slowdown: None,
        in_place_ns: None,
        hugetlb_bytes: discover::hugetlb_bytes(Path::new("/")),
        target_faults: 0,
        steal_share: -1.0,
        imported: None,
        checksums: Default::default(),
    }
}

/// The sources inside the virtual machine.
pub(super) fn sources_inside(how: &str, perf_why: Option<&str>) -> Vec<SourceReport> {
    let pages = match perf_why {
        None => "every user page fault of the guest's kernel".into(),
        Some(why) => format!("first touches need perf events: {why}; nodes of pages are looked up"),
    };
    vec![
        SourceReport { source: Source::Simulated, active: true, why: how.into(), hz: 0.0 },
        SourceReport { source: Source::Pages, active: perf_why.is_none(), why: pages, hz: 0.0 },
    ]
}

/// The processor's own samples as they worked.
pub(super) fn hardware_source(
    events: &Result<MemoryEvents, String>,
    perf: Option<&PerfSet>,
    hz: f64,
) -> SourceReport {
    let refused = perf.and_then(|perf| perf.memory_refused.clone());
    let (active, why) = match (events, perf, refused) {
        (Err(why), _, _) => (false, why.clone()),
        (Ok(_), None, _) => (false, "perf events do not work here".into()),
        (Ok(_), Some(_), Some(why)) => (false, why),
        (Ok(events), Some(_), None) => {
            let names: Vec<&str> = events.events.iter().map(|event| event.name.as_str()).collect();
            (true, format!("{}: {}", events.what, names.join(", ")))
        }
    };
    SourceReport { source: Source::Hardware, active, why, hz: if active { hz } else { 0.0 } }
}

/// The sources as they worked.
pub(super) fn sources(
    perf: bool,
    perf_why: Option<&str>,
    skid: &Skid,
    meta: &Meta,
    hz: f64,
) -> Vec<SourceReport> {
    let refused = perf_why.unwrap_or_default();
    let signal = !perf && meta.agent;
    vec![
        SourceReport {
            source: Source::Clock,
            active: perf,
            why: if perf { skid.text() } else { refused.into() },
            hz,
        },
        SourceReport {
            source: Source::Signal,
            active: signal,
            why: match (perf, meta.agent) {
                (true, _) => "not needed: perf events work".into(),
                (false, true) => format!("used because {refused}"),
                (false, false) => format!("needs the agent: {}", meta.agent_why),
            },
            hz,
        },
        SourceReport {
            source: Source::Pages,
            active: perf,
            why: if perf {
                "every user page fault".into()
            } else {
                format!("first touches need perf events: {refused}; nodes of pages are looked up")
            },
            hz: 0.0,
        },
    ]
}
