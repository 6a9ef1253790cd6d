//! Running a program where it belongs: cpus, memory policy and threads are set before its first
//! instruction, and looked at while it runs.

mod placement;
pub mod residency;
pub(crate) mod seen;
pub mod trials;

pub use placement::Placement;
pub use seen::Seen;

use nearfar_host::policy::Policy;
use nearfar_host::target::{Before, Ending, Held, Running, StartError, User};
use nearfar_machine::Machine;
use nearfar_record::collect::objects;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Seconds after the start at which the program is looked at; later ones follow at the last distance.
const LOOKS: [f64; 5] = [0.0, 0.1, 1.0, 5.0, 30.0];
/// How a program ended, and what was seen of it.
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// What to say about it.
    pub lines: Vec<String>,
    /// The look that saw most threads; `None` if it ended before one.
    pub seen: Option<Seen>,
}

/// Runs `command` as `placement` says, as `user` if there is one, and looks whether it is so.
///
/// # Errors
/// If the kernel refuses the policy or the cpus, or the program cannot be started.
pub fn run(
    command: &[OsString],
    placement: &Placement,
    machine: &Machine,
    user: Option<&User>,
) -> Result<Ran, RunError> {
    if let Some(policy) = &placement.policy {
        policy.try_here().map_err(RunError::Refused)?;
    }
    if let Some(objects) = &placement.objects {
        objects.try_here().map_err(RunError::Refused)?;
    }
    let table = placement.objects.as_ref().map(objects::ObjectPolicies::table).transpose();
    let table = table.map_err(|error| RunError::Refused(format!("no table for the agent: {error:#}")))?;
    let (mut variables, unpinned) = placement.environment(command, table.as_ref());
    variables.extend(user.iter().flat_map(|user| user.environment()));
    let cpus = placement.confined();
    let policy = placement.policy.as_ref().map(Policy::prepare);
    let before = Before { cpus: cpus.as_ref(), policy: policy.as_ref(), user, ..Before::default() };
    let mut held = Held::start(command, &variables, &before)?;
    held.pass_signals();
    let running = held.release()?;
    let mut lines: Vec<String> = unpinned.into_iter().collect();
    let (ending, seen) = watch(&running, machine);
    match &seen {
        Some(seen) => lines.extend(seen.lines(placement, cpus.as_ref(), machine)),
        None => lines.push("the program ended before it could be looked at".to_owned()),
    }
    if let (Some(objects), Some(table)) = (&placement.objects, &table) {
        lines.extend(objects.outcome(table));
    }
    Ok(Ran { ending, lines, seen })
}

/// Waits for the end and looks now and then; the look that saw most threads is kept.
fn watch(running: &Running, machine: &Machine) -> (Ending, Option<Seen>) {
    let begin = Instant::now();
    let mut best: Option<Seen> = None;
    let mut looks = 0;
    loop {
        let due = match LOOKS.get(looks) {
            Some(&seconds) => seconds,
            None => LOOKS[LOOKS.len() - 1] * (looks - LOOKS.len() + 2) as f64,
        };
        let left = due - begin.elapsed().as_secs_f64();
        if left > 0.0 {
            running.wait(Duration::from_secs_f64(left.min(1.0)));
        }
        if let Some((ending, _)) = running.try_wait() {
            return (ending, best);
        }
        if begin.elapsed().as_secs_f64() < due {
            continue;
        }
        looks += 1;
        let now = Seen::look(running.pid as u32, machine, begin.elapsed().as_secs_f64());
        if let Some(now) = now
            && best.as_ref().is_none_or(|b| now.threads.len() >= b.threads.len())
        {
            best = Some(now);
        }
    }
}

/// Why nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel does not do what was asked for.
    #[error("{0}")]
    Refused(String),
    /// The program cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
}
