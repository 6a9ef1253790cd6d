//! What limits this process more than the machine does, by what, and what to type: seccomp filters, user namespaces, cpusets,
//! the control groups' limits. Each is asked of the kernel; no name of a container's tool decides.

use crate::discover::{discover, limits_of};
use crate::proc::{field, foreign, page_bytes};
use nearfar_figures::sizes::capacity;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::topology::Limit;
use serde::Serialize;
use std::path::Path;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confined {
    /// What cannot be had.
    pub what: String,
    /// What withholds it.
    pub by: String,
    /// What to type, or to ask for, where nearfar is started; null if it is not known.
    pub unlock: Option<String>,
}

/// How a system call ended that does nothing when it is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The kernel itself answered.
    Reached,
    /// Something before it refused.
    Refused,
    /// The caller was killed for it.
    Killed,
    /// It could not be tried.
    Untried,
}

/// The calls that nearfar and programs with a memory policy need, each with arguments for which the kernel does nothing, and
/// the answer that only the kernel's own code gives.
fn calls() -> [(&'static str, [libc::c_long; 7], libc::c_int); 5] {
    let page = page_bytes() as libc::c_long;
    [
        // It reads its description first, and there is none.
        ("perf_event_open", [libc::SYS_perf_event_open, 0, 0, -1, -1, 0, 0], libc::EFAULT),
        // No page is asked for, no byte is bound, no policy has this number.
        ("move_pages", [libc::SYS_move_pages, 0, 0, 0, 0, 0, 0], 0),
        ("get_mempolicy", [libc::SYS_get_mempolicy, 0, 0, 0, 0, 0, 0], 0),
        ("mbind", [libc::SYS_mbind, page, 0, 0, 0, 0, 0], 0),
        ("set_mempolicy", [libc::SYS_set_mempolicy, 0x7fff, 0, 0, 0, 0, 0], libc::EINVAL),
    ]
}

/// Makes the call in a process of its own: a filter may kill for it.
fn try_call(call: [libc::c_long; 7], reached: libc::c_int) -> Answer {
    let [number, a, b, c, d, e, f] = call;
    // SAFETY: between fork and _exit the child makes one system call, which dereferences nothing, and reads errno.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Answer::Untried,
        0 => {
            // SAFETY: as above.
            unsafe {
                let done = libc::syscall(number, a, b, c, d, e, f);
                let errno = if done < 0 { *libc::__errno_location() } else { 0 };
                let refused = [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&errno) && errno != reached;
                libc::_exit(i32::from(refused))
            }
        }
        _ => {}
    }
    let mut status = 0;
    loop {
        // SAFETY: writes the status of our own child.
        let ended = unsafe { libc::waitpid(child, &mut status, 0) };
        if ended == child {
            break;
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return Answer::Untried;
        }
    }
    match () {
        () if libc::WIFSIGNALED(status) => Answer::Killed,
        () if libc::WEXITSTATUS(status) == 1 => Answer::Refused,
        () => Answer::Reached,
    }
}

/// All limits of this process that can be seen from here; what lies outside of a container cannot.
pub fn confined() -> Vec<Confined> {
    let root = Path::new("/");
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = text("/proc/self/status");
    let mut found = Vec::new();
    let answers: Vec<(&str, Answer)> =
        calls().into_iter().map(|(name, call, reached)| (name, try_call(call, reached))).collect();
    found.extend(calls_refused(&status, &answers));
    found.extend(user_namespace(&text("/proc/self/uid_map")));
    found.extend(foreign().map(|by| Confined {
        what: "what /proc says of processes: recordings, `where`, `top`".into(),
        by,
        unlock: Some("unshare --mount-proc, or mount -t proc proc /proc in the namespace".into()),
    }));
    if let Ok(host) = discover(root) {
        let group = text("/proc/self/cpuset");
        let nodes: NodeList = host.machine.nodes.iter().map(|n| n.id).collect();
        let set = Allowed {
            cpus: host.kernel.allowed_cpus.as_ref(),
            nodes: host.kernel.allowed_mems.as_ref(),
            online: &host.kernel.online,
            all_nodes: &nodes,
            group: group.trim(),
        };
        found.extend(set.limits());
    }
    let limits = limits_of(root, std::process::id());
    if let Limit::Limited { limit, from } = &limits.memory_max_kb {
        found.push(Confined {
            what: format!("memory: {}", capacity(limit.saturating_mul(1024))),
            by: format!("the control group's {from}"),
            unlock: Some(
                "docker/podman --memory 64g; Kubernetes resources.limits.memory; Slurm --mem".to_owned(),
            ),
        });
    }
    if let Limit::Limited { limit, from } = &limits.cpu_quota {
        found.push(Confined {
            what: format!("time of {limit} cpus"),
            by: format!("the control group's {from}"),
            unlock: Some("docker/podman --cpus 8; Kubernetes resources.limits.cpu".to_owned()),
        });
    }
    found
}

fn calls_refused(status: &str, answers: &[(&str, Answer)]) -> Option<Confined> {
    let names = |wanted: Answer| -> Vec<&str> {
        answers.iter().filter(|(_, answer)| *answer == wanted).map(|&(name, _)| name).collect()
    };
    let (refused, killed) = (names(Answer::Refused), names(Answer::Killed));
    let mut what = Vec::new();
    if !refused.is_empty() {
        what.push(format!("{} refused", refused.join(", ")));
    }
    if !killed.is_empty() {
        what.push(format!("killed for {}", killed.join(", ")));
    }
    if what.is_empty() {
        return None;
    }
    // 2: filters. Linux says how many since 5.9.
    let filtered = field(status, "Seccomp") == Some("2");
    let by = match (filtered, field(status, "Seccomp_filters")) {
        (true, Some(number)) => format!("a seccomp filter (of {number})"),
        (true, None) => "a seccomp filter".to_owned(),
        (false, _) => "a kernel without these calls, or a sandbox that is none of Linux's own".to_owned(),
    };
    let capability = match refused.iter().chain(&killed).any(|name| *name == "perf_event_open") {
        true => {
            "docker/podman --security-opt seccomp=unconfined (--cap-add PERFMON --cap-add SYS_NICE keep Docker's other \
                 rules); Kubernetes securityContext.seccompProfile.type: Unconfined"
        }
        false => "docker/podman --cap-add SYS_NICE; Kubernetes securityContext.capabilities.add: [SYS_NICE]",
    };
    Some(Confined { what: what.join("; "), by, unlock: filtered.then(|| capability.to_owned()) })
}

/// The first namespace maps every number to itself.
fn user_namespace(map: &str) -> Option<Confined> {
    let words: Vec<&str> = map.split_whitespace().collect();
    if words.is_empty() || words == ["0", "0", "4294967295"] {
        return None;
    }
    let root = map.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.first() == Some(&"0")).then(|| words.get(1).map(|outside| (*outside).to_owned()))?
    });
    Some(Confined {
        what: "rights over the whole host: its counters, events of the kernel and of other users' processes".to_owned(),
        by: match root {
            Some(outside) => format!("a user namespace, in which root is the user {outside} of the namespace around it"),
            None => "a user namespace without root".to_owned(),
        },
        unlock: Some(
            "run outside of it: podman by root, docker --userns=host, Kubernetes hostUsers: true; or, on the host, \
             sysctl kernel.perf_event_paranoid=1"
                .to_owned(),
        ),
    })
}

struct Allowed<'a> {
    cpus: Option<&'a CpuList>,
    nodes: Option<&'a NodeList>,
    online: &'a CpuList,
    all_nodes: &'a NodeList,
    /// The cpuset's group, from /proc/self/cpuset; empty if it cannot be read.
    group: &'a str,
}

impl Allowed<'_> {
    fn limits(&self) -> Vec<Confined> {
        let mut found = Vec::new();
        let by = match self.group {
            "" | "/" => "taskset, a launcher's binding, or a cpuset around the container".to_owned(),
            group => format!("the cpuset {group}, or taskset or a launcher's binding within it"),
        };
        let cpus = self.cpus.map(|own| own.iter().filter(|&c| self.online.contains(c)).collect::<CpuList>());
        if let Some(own) = cpus.filter(|own| !own.is_empty() && own.len() < self.online.len()) {
            found.push(Confined {
                what: format!("cpus: {own} of {}", self.online),
                by: by.clone(),
                unlock: Some(format!(
                    "docker/podman --cpuset-cpus {}; Kubernetes: whole cpus as requests and limits, with the static CPU manager",
                    self.online
                )),
            });
        }
        let nodes =
            self.nodes.map(|own| own.iter().filter(|&n| self.all_nodes.contains(n)).collect::<NodeList>());
        if let Some(own) = nodes.filter(|own| !own.is_empty() && own.len() < self.all_nodes.len()) {
            found.push(Confined {
                what: format!("memory of nodes: {own} of {}", self.all_nodes),
                // Only a cpuset withholds nodes: a policy can be changed by the program.
                by: match self.group {
                    "" | "/" => "a cpuset around the container".to_owned(),
                    group => format!("the cpuset {group}"),
                },
                unlock: Some(format!(
                    "docker/podman --cpuset-mems {}; Kubernetes: the memory manager's policy None",
                    self.all_nodes
                )),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_with_what_withholds_it() {
        let status = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let answers = [("mbind", Answer::Refused), ("move_pages", Answer::Reached), ("x", Answer::Killed)];
        let found = calls_refused(status, &answers).unwrap();
        assert_eq!(found.what, "mbind refused; killed for x");
        assert!(found.by.contains("seccomp filter (of 3)") && found.unlock.unwrap().contains("SYS_NICE"));
        let found = calls_refused("Seccomp:\t0\n", &answers).unwrap();
        assert!(!found.by.contains("seccomp") && found.unlock.is_none());
        assert_eq!(calls_refused(status, &[("mbind", Answer::Reached), ("x", Answer::Untried)]), None);

        assert_eq!(user_namespace("         0          0 4294967295\n"), None);
        assert_eq!(user_namespace(""), None);
        let found = user_namespace("         0       1000          1\n").unwrap();
        assert!(found.by.contains("user 1000"), "{found:?}");
        assert!(user_namespace("1000 1000 1\n").unwrap().by.contains("without root"));
    }

    #[test]
    fn cpus_and_nodes_that_are_off_are_no_limit() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        let (online, nodes): (CpuList, NodeList) = (list("0-3"), "0-1".parse().unwrap());
        let limits = |cpus: &str, mems: &str, group: &str| {
            let (cpus, mems) = (list(cpus), mems.parse().unwrap());
            Allowed { cpus: Some(&cpus), nodes: Some(&mems), online: &online, all_nodes: &nodes, group }
                .limits()
        };
        assert_eq!(limits("0-127", "0-7", "/"), []);
        let found = limits("0-1", "1", "/job");
        assert_eq!(found[0].what, "cpus: 0-1 of 0-3");
        assert_eq!(found[1].what, "memory of nodes: 1 of 0-1");
        assert!(found.iter().all(|f| f.by.contains("/job")));
        assert!(found[1].unlock.as_ref().unwrap().contains("--cpuset-mems 0-1"));
        let unknown = Allowed { cpus: None, nodes: None, online: &online, all_nodes: &nodes, group: "" };
        assert_eq!(unknown.limits(), []);
    }

    #[test]
    fn the_kernel_itself_answers_here_or_the_call_is_told_to_be_refused() {
        for (name, call, reached) in calls() {
            // A call that no kernel has, with the same arguments, is refused.
            let none = [99_999, call[1], call[2], call[3], call[4], call[5], call[6]];
            assert_eq!(try_call(none, reached), Answer::Refused, "{name}");
        }
    }
}
