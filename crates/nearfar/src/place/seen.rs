//! What the kernel says of a running program: where each thread may run and did last, and on which
//! nodes its pages are.

use super::placement::Placement;
use nearfar_figures::sizes::size;
use nearfar_host::policy::Policy;
use nearfar_host::proc;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::residency::numa_maps::own_bytes;
use serde::Serialize;
use std::collections::BTreeMap;

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// Kernel number.
    pub tid: u32,
    /// Where it may run.
    pub allowed: CpuList,
}

/// A look at a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Seconds after the start.
    #[serde(rename = "at_seconds")]
    pub at: f64,
    /// Threads in the order of their numbers.
    pub threads: Vec<Thread>,
    /// Bytes of its own memory (not of files) by node; `None` if the kernel does not tell.
    #[serde(rename = "own_bytes_by_node")]
    pub own: Option<BTreeMap<NodeId, u64>>,
}

impl Seen {
    /// `None` if the process has ended.
    pub fn look(pid: u32, machine: &Machine, at: f64) -> Option<Seen> {
        let threads: Vec<Thread> = proc::threads(pid)
            .into_iter()
            .filter_map(|tid| {
                let status = proc::status(pid, tid).ok()?;
                if proc::has_ended(&status) {
                    return None;
                }
                Some(Thread { tid, allowed: proc::allowed_cpus(&status)? })
            })
            .collect();
        if threads.is_empty() {
            return None;
        }
        // A walk over all pages, during which the program may wait: not where there is one node anyway.
        let text = (machine.nodes.len() > 1).then(|| proc::numa_maps(pid).ok()).flatten();
        // Without any mapping it is about to end: the kernel takes memory first, threads last.
        if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        let own = text.map(|text| own_bytes(&text, proc::page_bytes()));
        Some(Seen { at, threads, own })
    }

    /// What was seen beside what was asked for.
    pub fn lines(&self, placement: &Placement, cpus: Option<&CpuList>, machine: &Machine) -> Vec<String> {
        let mut lines = Vec::new();
        let when = format!("after {:.1} s", self.at);
        let count = self.threads.len();
        let threads = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
        if !placement.threads.is_empty() {
            let mut wanted = placement.threads.clone();
            let mut pinned = 0;
            for thread in &self.threads {
                let [cpu] = thread.allowed.as_slice() else { continue };
                if let Some(at) = wanted.iter().position(|w| w == cpu) {
                    wanted.swap_remove(at);
                    pinned += 1;
                }
            }
            lines.push(format!("{when}: {pinned} of {threads} pinned as asked"));
        }
        if let Some(cpus) = cpus {
            let out: Vec<&Thread> =
                self.threads.iter().filter(|t| t.allowed.iter().any(|c| !cpus.contains(c))).collect();
            match out.first() {
                None if placement.threads.is_empty() => lines.push(format!("{when}: {threads}, all on cpus {cpus}")),
                None => {}
                Some(first) => lines.push(format!(
                    "{when}: {} of {threads} may run outside of cpus {cpus}: thread {} on {}. The program, its runtime \
                     or its control group has overruled it",
                    out.len(),
                    first.tid,
                    first.allowed
                )),
            }
        }
        let Some(own) = &self.own else { return lines };
        let all: u64 = own.values().sum();
        let list: Vec<String> = own.iter().map(|(node, b)| format!("{} on node {node}", size(*b))).collect();
        if placement.policy.is_some() && all > 0 {
            lines.push(format!("{when}: its own memory, without files: {}", list.join(", ")));
        }
        if let Some(nodes) = placement.policy.as_ref().and_then(Policy::only) {
            let outside: u64 = own.iter().filter(|(node, _)| !nodes.contains(**node)).map(|(_, b)| b).sum();
            if outside > 0 {
                let share = 100.0 * outside as f64 / all as f64;
                lines.push(format!(
                    "{} of it ({share:.1} %) are elsewhere than asked: the program has policies of its own, or the pages \
                     were there before",
                    size(outside)
                ));
            }
        }
        let without: Vec<u32> = own.keys().copied().filter(|&n| machine.node(n).is_none()).collect();
        if !without.is_empty() {
            lines.push(format!("the machine's description has no node {without:?}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::cpulist::IndexList;

    /// Else the look at what remains of a program replaces the one that saw its memory.
    #[test]
    fn a_process_that_has_ended_and_was_not_waited_for_is_not_looked_at() {
        let machine = Machine::from_shape("2x2").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the kernel writes to `info`; the child stays to be waited for.
        let waited = unsafe {
            libc::waitid(libc::P_PID, child.id(), info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT)
        };
        assert_eq!(waited, 0);
        assert!(!proc::threads(child.id()).is_empty(), "the kernel still lists it");
        assert_eq!(Seen::look(child.id(), &machine, 1.0), None);
        child.wait().unwrap();
    }

    #[test]
    fn what_overrules_a_placement_is_said() {
        let machine = Machine::from_shape("2x2").unwrap();
        fn list<T>(text: &str) -> IndexList<T> {
            text.parse().unwrap()
        }
        let thread = |tid, allowed: &str| Thread { tid, allowed: list(allowed) };
        let seen = Seen {
            at: 1.0,
            threads: vec![thread(10, "0"), thread(11, "1"), thread(12, "0-3")],
            own: Some(BTreeMap::from([(0, 1 << 20), (1, 3 << 20)])),
        };
        let placement = Placement {
            policy: Some(Policy::Bind(list("1"))),
            threads: vec![0, 1, 2],
            count: Some(3),
            ..Placement::default()
        };
        let lines = seen.lines(&placement, Some(&list("0-2")), &machine);
        assert_eq!(lines[0], "after 1.0 s: 2 of 3 threads pinned as asked");
        assert!(
            lines[1].contains("1 of 3 threads may run outside of cpus 0-2: thread 12 on 0-3"),
            "{lines:?}"
        );
        assert!(lines[3].starts_with("1.0 MiB of it (25.0 %) are elsewhere than asked"), "{lines:?}");
    }
}
