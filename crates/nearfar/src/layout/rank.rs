//! One rank, as its launcher starts it: the program is run, looked at, and what was seen is left in a file.

use crate::place::seen::Seen;
use nearfar_host::proc;
use nearfar_host::target::{Before, Ending, Held, StartError};
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_record::ranks::launch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Seconds after the start of the first look; each next one is after twice the time. Not at once: the
/// program has hardly begun, and a look that early would call it well placed.
const FIRST: f64 = 0.1;
/// From then on looks are this far apart, in seconds: each walks all pages of the program.
const APART: f64 = 30.0;
/// Other cpus than it was given count if that many looks, so far apart, saw the rank there. hwloc, which MPI
/// libraries ask in their start, binds itself to one cpu after the other for a moment (its x86 backend).
const AGAIN: Duration = Duration::from_millis(50);
const TIMES: usize = 5;

/// What was seen of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// Its number.
    pub rank: usize,
    /// Its host's name.
    pub host: String,
    /// The program's process id there.
    pub pid: u32,
    /// Cpus that the launcher gave it, before the program could change them.
    pub given: CpuList,
    /// NUMA nodes of its host.
    pub host_nodes: usize,
    /// The look at the program that counts: the last that saw most threads. `None` if it ended before one.
    pub look: Option<Look>,
}

/// A look at the program and its children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Seconds after its start.
    pub at: f64,
    /// Threads.
    pub threads: usize,
    /// Where any of them may run.
    pub allowed: CpuList,
    /// Bytes of its own memory (not of files) by NUMA node; `None` if the kernel does not tell, or has
    /// one node only.
    pub own: Option<BTreeMap<NodeId, u64>>,
}

/// Runs `command` as the rank that the environment says, and leaves what was seen below `meeting`.
///
/// # Errors
/// If the program cannot be started.
pub fn run(command: &[OsString], meeting: &Path) -> Result<Ending, StartError> {
    let machine = nearfar_host::discover::discover(Path::new("/")).ok().map(|d| d.machine);
    let mut held = Held::start(command, &[], &Before::default())?;
    let pid = held.pid() as u32;
    held.pass_signals();
    let running = held.release()?;
    let number = launch::number();
    let mut seen = RankSeen {
        rank: number.unwrap_or(usize::MAX),
        host: proc::host_name().unwrap_or_else(|| "unknown".into()),
        pid,
        given: launch::own_cpus(),
        host_nodes: machine.as_ref().map_or(0, |m| m.nodes.len()),
        look: None,
    };
    let leave = |seen: &RankSeen| {
        if number.is_none() {
            return;
        }
        if let Err(error) = write(seen, meeting) {
            nearfar_host::say!(
                "nearfar: rank {} on {} cannot write to {}: {error}",
                seen.rank,
                seen.host,
                meeting.display()
            );
        }
    };
    if number.is_none() {
        nearfar_host::say!("nearfar: a process has no rank: none of {} is set", launch::NUMBERS.join(", "));
    }
    leave(&seen);
    let begin = Instant::now();
    let mut due = FIRST;
    let mut doubted = 0;
    loop {
        let left = due - begin.elapsed().as_secs_f64();
        if left > 0.0 {
            running.wait(Duration::from_secs_f64(left.min(1.0)));
        }
        if let Some((ending, _)) = running.try_wait() {
            return Ok(ending);
        }
        let now = begin.elapsed().as_secs_f64();
        if now < due {
            continue;
        }
        due = (now * 2.0).min(now + APART);
        let Some(look) = machine.as_ref().and_then(|m| look(pid, m, now)) else { continue };
        match weigh(&look, &seen, doubted) {
            Weight::Doubted => {
                doubted += 1;
                due = now + AGAIN.as_secs_f64();
                continue;
            }
            Weight::Counts => {
                seen.look = Some(look);
                // A launcher may end all of us without a word: what is known is left at once.
                leave(&seen);
            }
            Weight::None => {}
        }
        doubted = 0;
    }
}

/// What a look is worth.
#[derive(Debug, PartialEq)]
enum Weight {
    /// It is kept.
    Counts,
    /// It may be of a passing moment.
    Doubted,
    /// A better one is kept.
    None,
}

/// `doubted`: how many looks in a row were, just before.
fn weigh(look: &Look, seen: &RankSeen, doubted: usize) -> Weight {
    let strays = look.allowed.iter().any(|c| !seen.given.contains(c));
    match &seen.look {
        _ if strays && doubted < TIMES => Weight::Doubted,
        Some(best) if !strays && look.threads < best.threads => Weight::None,
        Some(best) if !strays && best.own.is_some() && look.own.is_none() => Weight::None,
        _ => Weight::Counts,
    }
}

/// The program with all that it started: a script's or a wrapper's work is done by its children.
fn look(pid: u32, machine: &Machine, at: f64) -> Option<Look> {
    let family = proc::family(pid);
    let seen: Vec<Seen> = family.iter().filter_map(|&pid| Seen::look(pid, machine, at)).collect();
    // Whose first process has just ended has ended.
    if seen.is_empty() {
        return None;
    }
    let threads = || seen.iter().flat_map(|s| &s.threads);
    let mut own = BTreeMap::new();
    for (node, bytes) in seen.iter().flat_map(|s| s.own.iter().flatten()) {
        *own.entry(*node).or_insert(0) += bytes;
    }
    Some(Look {
        at,
        threads: threads().count(),
        allowed: threads().flat_map(|t| t.allowed.iter()).collect(),
        own: seen.iter().any(|s| s.own.is_some()).then_some(own),
    })
}

/// Under another name first: a reader finds all of it.
fn write(seen: &RankSeen, meeting: &Path) -> std::io::Result<()> {
    let path = meeting.join(format!("rank-{}.json", seen.rank));
    let unfinished = meeting.join(format!("rank-{}.part", seen.rank));
    std::fs::write(&unfinished, serde_json::to_vec(seen)?)?;
    std::fs::rename(unfinished, path)
}

/// What all ranks left there, by number.
pub fn read_all(meeting: &Path) -> BTreeMap<usize, RankSeen> {
    let entries = std::fs::read_dir(meeting).into_iter().flatten().flatten();
    let files = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
    let ranks = files.filter_map(|p| serde_json::from_slice::<RankSeen>(&std::fs::read(p).ok()?).ok());
    ranks.map(|seen| (seen.rank, seen)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_cpus_for_a_moment_are_no_placement() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        let look = |allowed: &str, threads| Look { at: 0.1, threads, allowed: list(allowed), own: None };
        let mut seen =
            RankSeen { rank: 0, host: "a".into(), pid: 1, given: list("2-3"), host_nodes: 1, look: None };
        assert_eq!(weigh(&look("0-3", 2), &seen, 0), Weight::Doubted);
        assert_eq!(weigh(&look("0", 2), &seen, TIMES - 1), Weight::Doubted);
        assert_eq!(weigh(&look("0", 2), &seen, TIMES), Weight::Counts);
        assert_eq!(weigh(&look("3", 2), &seen, 2), Weight::Counts);
        seen.look = Some(look("3", 2));
        assert_eq!(weigh(&look("2", 1), &seen, 0), Weight::None);
        assert_eq!(weigh(&look("2-3", 2), &seen, 0), Weight::Counts);
        assert_eq!(weigh(&look("1", 1), &seen, TIMES), Weight::Counts, "an error is not dropped");
        seen.look = Some(Look { own: Some(BTreeMap::from([(1, 4096)])), ..look("2-3", 2) });
        assert_eq!(weigh(&look("2-3", 2), &seen, 0), Weight::None, "known memory is not forgotten");
    }

    #[test]
    fn children_belong_to_a_rank() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 5 & wait"]).spawn().unwrap();
        let enough = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            proc::family(shell.id()).len() == 2
        });
        for pid in proc::family(shell.id()).into_iter().rev() {
            // SAFETY: a plain system call; the processes are the test's own.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        let listed = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
        assert!(enough || listed.is_err(), "the kernel lists children and they were not found");
    }
}
