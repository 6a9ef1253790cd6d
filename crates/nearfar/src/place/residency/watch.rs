//! Looks that are repeated: at a process that runs already, or at a program from its start to its end.

use super::{Site, Way, WhereError, look};
use nearfar_host::counters::activity;
use nearfar_host::proc;
use nearfar_host::target::{Before, Ending, Held, INTERRUPTED, StartError};
use nearfar_observed::residency::Residency;
use nearfar_observed::residency::activity::Activity;
use std::ffi::OsString;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Seconds after the start of a program's first look unless told; each next one is after twice the time.
const FIRST: f64 = 0.1;
/// From then on looks are this far apart, in seconds: each walks the pages of the program.
const APART: f64 = 30.0;
/// Sleep is cut into pieces of this, so that Ctrl-C ends it.
const PIECE: Duration = Duration::from_millis(50);

/// Looks every so many seconds until `count` looks are done, Ctrl-C comes or `each` reports it.
///
/// # Errors
/// What the look met, which ends the watch.
pub fn repeat(
    pid: u32,
    site: &Site,
    way: Way,
    every: Duration,
    count: Option<u64>,
    mut each: impl FnMut(Residency, Option<Activity>) -> std::io::Result<()>,
) -> Result<(), Stopped> {
    let begin = Instant::now();
    let mut before: Option<Activity> = None;
    // Another process may get the number of one that has ended.
    let started = proc::start_time(pid);
    let mut done = 0u64;
    loop {
        if started.is_some() && proc::start_time(pid) != started {
            return Err(Stopped::Look(WhereError::Ended { pid }, done));
        }
        let seen = look(pid, site, way, begin.elapsed().as_secs_f64());
        let seen = seen.map_err(|why| match (why, done) {
            (WhereError::NoProcess { pid }, 1..) => Stopped::Look(WhereError::Ended { pid }, done),
            (why, _) => Stopped::Look(why, done),
        })?;
        let now = activity::read(&site.machine);
        let since = before.as_ref().map(|before| now.since(before));
        before = Some(now);
        each(seen, since).map_err(Stopped::Output)?;
        done += 1;
        if count.is_some_and(|count| done >= count) {
            return Ok(());
        }
        let due = every.mul_f64(done as f64);
        loop {
            let left = due.saturating_sub(begin.elapsed());
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Ok(());
            }
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(PIECE));
        }
    }
}

/// Why looks ended before they should.
#[derive(Debug)]
pub enum Stopped {
    /// A look failed, after so many that did not.
    Look(WhereError, u64),
    /// What was seen could not be written.
    Output(std::io::Error),
}

/// A program that was run.
pub struct Watched {
    /// How it ended.
    pub ending: Ending,
    /// The look that saw most memory, or why there is none.
    pub best: Result<Residency, Option<WhereError>>,
    /// What the whole system counted from its start to its end.
    pub activity: Activity,
}

/// Runs `command` and looks at it now and then, each time at that process, of it and its children, which
/// has most memory: a script's work is done by its children. `each` gets every look if `every` is set.
///
/// # Errors
/// If the program cannot be started.
pub fn run(
    command: &[OsString],
    site: &Site,
    way: Way,
    every: Option<Duration>,
    mut each: impl FnMut(&Residency),
) -> Result<Watched, StartError> {
    let mut held = Held::start(command, &[], &Before::default())?;
    held.pass_signals();
    let before = activity::read(&site.machine);
    let begin = Instant::now();
    let running = held.release()?;
    let mut best: Result<Residency, Option<WhereError>> = Err(None);
    let mut due = every.map_or(FIRST, |e| e.as_secs_f64());
    let ending = loop {
        let left = due - begin.elapsed().as_secs_f64();
        if left > 0.0 {
            running.wait(Duration::from_secs_f64(left.min(1.0)));
        }
        if let Some((ending, _)) = running.try_wait() {
            break ending;
        }
        let now = begin.elapsed().as_secs_f64();
        if now < due {
            continue;
        }
        due = match every {
            Some(every) => due.max(now - every.as_secs_f64()) + every.as_secs_f64(),
            None => (now * 2.0).min(now + APART),
        };
        match look(largest(running.pid as u32), site, way, now) {
            Ok(seen) => {
                if every.is_some() {
                    each(&seen);
                }
                if best.as_ref().map_or(true, |best| bytes(&seen) >= bytes(best)) {
                    best = Ok(seen);
                }
            }
            Err(why) if best.is_err() => best = Err(Some(why)),
            Err(_) => {}
        }
    };
    let activity = activity::read(&site.machine).since(&before);
    Ok(Watched { ending, best, activity })
}

fn bytes(seen: &Residency) -> u64 {
    seen.memory.nodes.values().map(|a| a.bytes).sum()
}

fn largest(pid: u32) -> u32 {
    let resident = |pid: &u32| {
        let status = proc::status(*pid, *pid).ok()?;
        proc::field(&status, "VmRSS").and_then(proc::kib)
    };
    proc::family(pid).into_iter().max_by_key(resident).unwrap_or(pid)
}
