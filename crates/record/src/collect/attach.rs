//! Processes that ran before they were recorded: which are meant, their events, and what is known of them at the start.

use super::events::Interpreter;
use super::options::{RecordError, Subject};
use super::perf::open::{OpenError, PerfSet, PerfSettings, Target};
use super::setup::explain_refusal;
use crate::store::Writer;
use nearfar_host::proc;
use std::collections::HashSet;

/// The processes of these numbers and of these names, each once and without this one.
///
/// # Errors
/// A name that no process has; no process is left.
pub fn chosen(pids: &[u32], names: &[String]) -> anyhow::Result<Vec<u32>> {
    let own = std::process::id();
    let mut all = pids.to_vec();
    for name in names {
        // The kernel keeps 15 bytes of a name.
        let kept = &name.as_bytes()[..name.len().min(15)];
        let has_it = |pid: &u32| *pid != own && proc::name(*pid, *pid).as_bytes() == kept;
        let of_name: Vec<u32> = proc::processes().into_iter().filter(has_it).collect();
        if of_name.is_empty() {
            anyhow::bail!("no process is named `{name}`: `ps -e -o pid,comm` lists the names");
        }
        all.extend(of_name);
    }
    let mut seen = HashSet::from([own]);
    all.retain(|pid| seen.insert(*pid));
    if all.is_empty() {
        anyhow::bail!("process {own} is this recorder, which does not record itself");
    }
    Ok(all)
}

/// Processes with their start times, since a later process may get the number of one that has ended.
pub(super) struct Lives(Vec<(u32, Option<u64>)>);

impl Lives {
    /// Of what is recorded, as it is now. Of a command and of all processes there are none to watch.
    pub fn of(subject: &Subject) -> Lives {
        Lives(match subject {
            Subject::Processes(pids) => pids.iter().map(|&pid| (pid, proc::start_time(pid))).collect(),
            Subject::Everything | Subject::Command(_) => Vec::new(),
        })
    }

    /// Whether there were processes to watch, and all have ended.
    pub fn ended(&self) -> bool {
        let gone = |(pid, start): &(u32, Option<u64>)| start.is_none() || proc::start_time(*pid) != *start;
        !self.0.is_empty() && self.0.iter().all(gone)
    }
}

/// Opens the events of running processes.
pub(super) fn open(
    subject: &Subject,
    lives: &Lives,
    cpus: &[u32],
    settings: &PerfSettings,
) -> Result<PerfSet, RecordError> {
    let opened = match subject {
        Subject::Processes(pids) => open_running(pids, cpus, settings),
        _ => PerfSet::open(&Target::Everything, cpus, settings),
    };
    opened.map_err(|error| match subject {
        Subject::Processes(_) if lives.ended() => {
            anyhow::anyhow!("the processes ended before their recording began").into()
        }
        Subject::Everything => RecordError::AttachWithoutPerf(explain_everything(&error)),
        _ => RecordError::AttachWithoutPerf(explain_refusal(&error)),
    })
}

/// Opens the events of all threads of running processes. A thread that begins between the listing and the opening of its
/// creator's events has none: then all events are opened again.
fn open_running(pids: &[u32], cpus: &[u32], settings: &PerfSettings) -> Result<PerfSet, OpenError> {
    const TRIES: usize = 4; // chosen
    let threads =
        || -> Vec<i32> { pids.iter().flat_map(|&pid| proc::threads(pid)).map(|t| t as i32).collect() };
    let mut listed = threads();
    for _ in 1..TRIES {
        let set = PerfSet::open(&Target::Running(listed.clone()), cpus, settings)?;
        let now = threads();
        if now.iter().all(|tid| listed.contains(tid)) {
            return Ok(set);
        }
        listed = now;
    }
    // A program that starts threads all the time: most of them inherit the events of those that are listed.
    PerfSet::open(&Target::Running(listed), cpus, settings)
}

/// What unlocks events of whole cpus.
fn explain_everything(error: &OpenError) -> String {
    match error.errno() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "{error}; recording all processes needs kernel.perf_event_paranoid of 0 or less, or CAP_PERFMON: \
             `sudo sysctl kernel.perf_event_paranoid=0`, or sudo"
        ),
        _ => explain_refusal(error),
    }
}

/// Notes what is known of processes that ran before the recording.
pub(super) fn begin(interpreter: &mut Interpreter, subject: &Subject, time_ns: u64, writer: &mut Writer) {
    let whom = match subject {
        Subject::Processes(pids) => {
            pids.iter().for_each(|&pid| interpreter.meet(pid, time_ns, &mut writer.tables));
            let named: Vec<String> =
                pids.iter().map(|&pid| format!("{pid} ({})", proc::name(pid, pid))).collect();
            format!("running process{} {}", if pids.len() == 1 { "" } else { "es" }, named.join(", "))
        }
        _ => {
            // Most processes of a machine sleep. One is looked at when it first runs.
            interpreter.all_but = Some(std::process::id());
            "all processes of the machine except this recorder".to_owned()
        }
    };
    writer.lose(
        time_ns,
        "faults",
        0,
        format!(
            "attached to {whom}: which thread placed the pages that were there before, and which line allocated them, is \
             unknown"
        ),
    );
}
