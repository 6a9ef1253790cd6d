//! One rank, as its launcher starts it: the program is run, looked at, and what was seen is left in a file.

use crate::collect::proc;
use crate::collect::target::{Before, Ending, Held, StartError, pass_signals_to};
use crate::place::seen::Seen;
use crate::place::{look_time, wait};
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// By which launchers number the processes that they start, in the order of trust: a batch system's
/// number is also that of a launcher inside it, and then the same for all ranks.
const NUMBERS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

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
    /// The last look at the program that saw most threads; `None` if it ended before one.
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
    let machine = crate::discover::discover(Path::new("/")).ok().map(|d| d.machine);
    let held = Held::start(command, &[], &Before::default())?;
    let pid = held.pid() as u32;
    pass_signals_to(held.pid());
    let running = held.release()?;
    let number = NUMBERS.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok());
    let mut seen = RankSeen {
        rank: number.unwrap_or(usize::MAX),
        host: std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "unknown".into(), |name| name.trim().to_owned()),
        pid,
        given: own_cpus(),
        host_nodes: machine.as_ref().map_or(0, |m| m.nodes.len()),
        look: None,
    };
    let leave = |seen: &RankSeen| {
        if number.is_none() {
            return;
        }
        if let Err(error) = write(seen, meeting) {
            eprintln!(
                "nearfar: rank {} on {} cannot write to {}: {error}",
                seen.rank,
                seen.host,
                meeting.display()
            );
        }
    };
    if number.is_none() {
        eprintln!("nearfar: a process has no rank: none of {} is set", NUMBERS.join(", "));
    }
    leave(&seen);
    let begin = Instant::now();
    // Not at once: the program has hardly begun, and a look that early would call it well placed.
    let mut looks = 1;
    loop {
        let left = look_time(looks) - begin.elapsed().as_secs_f64();
        if left > 0.0 {
            wait(&running, Duration::from_secs_f64(left.min(1.0)));
        }
        if let Some((ending, _)) = running.try_wait() {
            return Ok(ending);
        }
        if begin.elapsed().as_secs_f64() < look_time(looks) {
            continue;
        }
        looks += 1;
        let Some(look) = machine.as_ref().and_then(|m| look(pid, m, begin.elapsed().as_secs_f64())) else {
            continue;
        };
        if seen.look.as_ref().is_none_or(|best| look.threads >= best.threads) {
            seen.look = Some(look);
            // A launcher may end all of us without a word: what is known is left at once.
            leave(&seen);
        }
    }
}

/// The program with all that it started: a script's or a wrapper's work is done by its children.
fn look(pid: u32, machine: &Machine, at: f64) -> Option<Look> {
    let family = family(pid);
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

/// A process and its descendants; without them where the kernel does not list them (CONFIG_PROC_CHILDREN).
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        for tid in proc::threads(pid) {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            all.extend(children.unwrap_or_default().split_whitespace().filter_map(|c| c.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// Where this process may run.
pub fn own_cpus() -> CpuList {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or_default()
}

/// Under another name first: whoever reads finds all of it.
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
