//! Memory limit and cpu quota of a process's control group and of all groups around it.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and
//! scheduler/sched-bwc.rst of Linux; proc_pid_mountinfo(5) for the mounts.

use super::tree::Tree;
use nearfar_machine::cpulist::{CpuList, IndexList, NodeList};
use nearfar_machine::topology::{Limit, Limits};
use std::io::ErrorKind;

/// `who`: a process id, or `self`.
pub(super) fn limits(tree: &Tree, who: &str) -> Limits {
    let memory = hierarchy(tree, who, "memory");
    let cpu = hierarchy(tree, who, "cpu");
    let hidden = |h: &Result<Hierarchy, String>| h.as_ref().ok().and_then(|h| h.hidden(tree));
    Limits {
        memory_max_kb: smallest(&memory, |h| match h.version {
            1 => h.limits(tree, "memory.limit_in_bytes", kb),
            _ => h.limits(tree, "memory.max", kb),
        }),
        memory_high_kb: smallest(&memory, |h| match h.version {
            1 => Ok(Vec::new()),
            _ => h.limits(tree, "memory.high", kb),
        }),
        cpu_quota: smallest(&cpu, |h| match h.version {
            1 => h.quotas(tree),
            _ => h.limits(tree, "cpu.max", share),
        }),
        hidden_groups: hidden(&memory).into_iter().chain(hidden(&cpu)).reduce(|a, b| a || b),
    }
}

/// Cpus and nodes that the cpuset of a captured process allows: on the live machine /proc/self/status says the same. Version
/// 1 has them in files of the group, version 2 as effective ones of the nearest group that has any, and where only
/// /dev/cpuset was captured (batch systems mount it there), the files have short names (cpuset(7)).
pub(super) fn allowed(tree: &Tree) -> (Option<CpuList>, Option<NodeList>) {
    let (folders, prefix, suffix) = match hierarchy(tree, "self", "cpuset") {
        Ok(h) if h.version == 1 => (vec![h.groups().swap_remove(0).0], "cpuset.", ""),
        Ok(h) => (h.groups().into_iter().map(|(folder, _)| folder).collect(), "cpuset.", ".effective"),
        Err(_) => by_cpuset(tree).unwrap_or_default(),
    };
    let files = |what: &str| -> Vec<String> {
        folders.iter().map(|folder| format!("{folder}/{prefix}{what}{suffix}")).collect()
    };
    (limit(tree, &files("cpus")), limit(tree, &files("mems")))
}

/// Folders, prefix and suffix of the files where the tree has no /proc/self/cgroup, but /proc/self/cpuset, and the mounts or /dev/cpuset.
fn by_cpuset(tree: &Tree) -> Option<(Vec<String>, &'static str, &'static str)> {
    let group = tree.text("proc/self/cpuset").filter(|g| !g.split('/').any(|part| part == ".."))?;
    let group = group.trim_matches('/');
    let mounts = tree.text("proc/mounts").unwrap_or_default();
    // `device /mount type options 0 0`
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.trim_matches('/'), words.next()?, words.next()?))
    });
    let option = |options: &str, wanted: &str| options.split(',').any(|o| o == wanted);
    // Version 2 is mounted beside version 1 where only the latter has cpusets.
    let one = mounted
        .clone()
        .find(|(_, kind, options)| *kind == "cpuset" || *kind == "cgroup" && option(options, "cpuset"));
    if let Some((at, kind, options)) = one {
        let short = kind == "cpuset" || option(options, "noprefix");
        return Some((vec![format!("{at}/{group}")], if short { "" } else { "cpuset." }, ""));
    }
    if let Some((at, _, _)) = mounted.clone().find(|(_, kind, _)| *kind == "cgroup2") {
        // The group itself, then those around it.
        let ends = [group.len()].into_iter().chain(group.rmatch_indices('/').map(|(end, _)| end));
        return Some((ends.map(|end| format!("{at}/{}", &group[..end])).collect(), "cpuset.", ".effective"));
    }
    Some((vec![format!("dev/cpuset/{group}")], "", ""))
}

/// The list of the first file that is there. An empty one is not a limit: the group has not been set up.
fn limit<T>(tree: &Tree, files: &[String]) -> Option<IndexList<T>> {
    files.iter().find_map(|file| tree.list(file)).filter(|list| !list.is_empty())
}

/// Where one controller has its groups, and which of them is the process's.
struct Hierarchy {
    /// Of the interface: 1 or 2.
    version: u32,
    /// Below the root of the tree, without slashes at the ends.
    mount: String,
    /// The process's group below the mount, as `a/b`; empty for the outermost.
    group: String,
    /// What the kernel calls the outermost group that can be seen: `/`, or `/docker/1f2…`.
    outermost: String,
}

/// A controller is either in a hierarchy of version 1 or in the common one of version 2;
/// `/proc/PID/cgroup` lists it by name in the first case.
fn hierarchy(tree: &Tree, who: &str, controller: &str) -> Result<Hierarchy, String> {
    let file = format!("proc/{who}/cgroup");
    let groups = tree.text(&file).ok_or_else(|| format!("{} cannot be read", tree.shown(&file)))?;
    let (version, group) =
        group(&groups, controller).ok_or(format!("the kernel has no control groups for {controller}"))?;
    let (outermost, mount) = mount(tree, version, controller).ok_or_else(|| {
        format!("the control groups for {controller} are not mounted where nearfar can see")
    })?;
    // A container without a namespace of groups sees its group's full name, but mounted is only that part.
    let inside = group.strip_prefix(outermost.trim_end_matches('/')).unwrap_or(group);
    let group = inside.trim_matches('/').to_owned();
    if group.split('/').any(|part| part == "..") {
        return Err(format!(
            "the caller's control group {inside} lies outside of what is mounted at /{mount}"
        ));
    }
    let folder = format!("{mount}/{group}");
    if !tree.is_dir(&folder) {
        return Err(format!(
            "no folder {} for the caller's control group",
            tree.shown(folder.trim_end_matches('/'))
        ));
    }
    Ok(Hierarchy { version, mount, group, outermost })
}

/// The version of the interface, and the group, in text such as `5:cpuset:/a`: of the controller's own hierarchy, else of the common
/// one, `0::/b`.
pub(super) fn group<'a>(groups: &'a str, controller: &str) -> Option<(u32, &'a str)> {
    let of = |found: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (names, group) = line.split_once(':')?.1.split_once(':')?;
            found(names).then_some(group)
        })
    };
    let one = of(&|names| names.split(',').any(|name| name == controller));
    one.map(|group| (1, group)).or_else(|| Some((2, of(&str::is_empty)?)))
}

/// Root within the hierarchy, and folder, of its mount. A captured tree may lack mountinfo; there the
/// usual folders are tried.
fn mount(tree: &Tree, version: u32, controller: &str) -> Option<(String, String)> {
    let Some(mounts) = tree.text("proc/self/mountinfo") else {
        let folders = match version {
            1 => vec![format!("sys/fs/cgroup/{controller}"), "sys/fs/cgroup/cpu,cpuacct".to_owned()],
            _ => vec!["sys/fs/cgroup".to_owned(), "sys/fs/cgroup/unified".to_owned()],
        };
        let usable = |f: &String| (controller == "cpu" || !f.ends_with("cpuacct")) && tree.is_dir(f);
        return folders.into_iter().find(usable).map(|f| ("/".to_owned(), f));
    };
    mounts.lines().find_map(|line| {
        // `36 35 98:0 /root /mount opts optional-fields… - type source superoptions`
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let fits = match version {
            1 => after.first() == Some(&"cgroup") && after.get(2)?.split(',').any(|o| o == controller),
            _ => after.first() == Some(&"cgroup2"),
        };
        fits.then(|| Some(((*before.get(3)?).to_owned(), before.get(4)?.trim_matches('/').to_owned())))?
    })
}

impl Hierarchy {
    /// Folders from the caller's group outward, each with the name of its group.
    fn groups(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut group = Some(self.group.as_str());
        while let Some(inner) = group {
            let name = format!("{}/{inner}", self.outermost.trim_end_matches('/'));
            let name = if inner.is_empty() { self.outermost.clone() } else { name };
            all.push((format!("{}/{inner}", self.mount).trim_end_matches('/').to_owned(), name));
            group = (!inner.is_empty()).then(|| inner.rsplit_once('/').map_or("", |(outer, _)| outer));
        }
        all
    }

    /// The limits in one file of each group. A group without the file has none of its own: the
    /// root, and groups for which the controller is not switched on.
    fn limits<T>(
        &self,
        tree: &Tree,
        file: &str,
        parse: impl Fn(&str) -> Option<Option<T>>,
    ) -> Result<Vec<(T, String)>, String> {
        let mut found = Vec::new();
        for (folder, group) in self.groups() {
            let path = format!("{folder}/{file}");
            let text = match tree.try_text(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(format!("{}: {e}", tree.shown(&path))),
            };
            match parse(&text) {
                Some(Some(limit)) => found.push((limit, format!("{file} of {group}"))),
                Some(None) => {}
                None => {
                    return Err(format!("{} says {text:?}, which is not a limit", tree.shown(&path)));
                }
            }
        }
        Ok(found)
    }

    /// Version 1 has quota and period in two files; −1 is not a quota.
    fn quotas(&self, tree: &Tree) -> Result<Vec<(f64, String)>, String> {
        let mut found = Vec::new();
        for (folder, group) in self.groups() {
            let period = tree.parsed::<f64>(&format!("{folder}/cpu.cfs_period_us")).filter(|&us| us > 0.0);
            let Some(quota) = tree.parsed::<f64>(&format!("{folder}/cpu.cfs_quota_us")) else { continue };
            if quota > 0.0 {
                let period = period.ok_or(format!("{folder}/cpu.cfs_period_us is missing beside a quota"))?;
                found.push((quota / period, format!("cpu.cfs_quota_us of {group}")));
            }
        }
        Ok(found)
    }

    /// Whether the outermost group has others around it. The true root differs by files: version 1
    /// has `release_agent` only there, version 2 has `cgroup.type` everywhere else.
    fn hidden(&self, tree: &Tree) -> Option<bool> {
        let there = |file: &str| tree.exists(&format!("{}/{file}", self.mount));
        there("cgroup.procs").then(|| match self.version {
            1 => !there("release_agent"),
            _ => there("cgroup.type"),
        })
    }
}

fn smallest<T: PartialOrd>(
    hierarchy: &Result<Hierarchy, String>,
    read: impl Fn(&Hierarchy) -> Result<Vec<(T, String)>, String>,
) -> Limit<T> {
    let limits = match hierarchy.as_ref().map_err(Clone::clone).and_then(read) {
        Ok(limits) => limits,
        Err(why) => return Limit::Unknown { why },
    };
    let least = limits.into_iter().reduce(|a, b| if b.0 < a.0 { b } else { a });
    least.map_or(Limit::Unlimited, |(limit, from)| Limit::Limited { limit, from })
}

/// Bytes, or `max`; in version 1 the largest number that is a multiple of the page size, of at most 64 KiB.
/// The outer `None`: not understood.
fn kb(text: &str) -> Option<Option<u64>> {
    if text == "max" {
        return Some(None);
    }
    let bytes: u64 = text.parse().ok()?;
    Some((bytes < (1 << 63) - (64 << 10)).then_some(bytes / 1024))
}

/// `200000 100000`: quota and period, µs; or `max 100000`.
fn share(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.split_once(' ')?;
    let period: f64 = period.trim().parse().ok().filter(|&p| p > 0.0)?;
    if quota == "max" {
        return Some(None);
    }
    Some(Some(quota.parse::<f64>().ok()? / period))
}
