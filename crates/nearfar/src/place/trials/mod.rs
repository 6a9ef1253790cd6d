//! `check`: one command under several placements, again and again, to see whether NUMA hurts it.

pub mod emulated;
pub mod metric;
pub mod native;

use super::Placement;
use nearfar_compare::trials::{Kind, NotTried, Trial};
use nearfar_host::policy::Policy;
use nearfar_machine::Machine;
use nearfar_machine::NodeId;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::select::thread_cpus;
use nearfar_record::collect::objects::ObjectPolicies;
use std::path::PathBuf;

/// A way to run the command.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Short name.
    pub name: String,
    /// What it sets, in words.
    pub what: String,
    /// The flags of `nearfar run` for the same; empty if there are none.
    pub run: String,
    /// What it changes.
    pub kind: Kind,
    /// One for each copy that runs at the same time.
    pub placements: Vec<Placement>,
    /// Variables beside those of the placement.
    pub variables: Vec<(&'static str, String)>,
    /// Without huge pages.
    pub no_huge_pages: bool,
}

/// What should be tried, the command as it is first, and what is not.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In the order of the report.
    pub candidates: Vec<Candidate>,
    /// With the reason.
    pub not_tried: Vec<NotTried>,
    /// Cpus that the command may use as it is.
    pub cpus: usize,
}

/// What the plan depends on beside the machine.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Cpus that the command may use.
    pub cpus: CpuList,
    /// Nodes whose memory it may use.
    pub nodes: NodeList,
    /// Cpus by package.
    pub packages: Vec<(u32, CpuList)>,
    /// OMP_NUM_THREADS.
    pub threads: Option<usize>,
    /// A variable that binds OpenMP threads already.
    pub bound: Option<&'static str>,
    /// /proc/sys/kernel/numa_balancing; `None`: the kernel has none.
    pub balancing: Option<bool>,
    /// Transparent huge pages: the word in brackets.
    pub huge_pages: Option<String>,
    /// Also a copy on each node at the same time.
    pub copies: bool,
    /// A placement file and what it says.
    pub objects: Option<(PathBuf, ObjectPolicies)>,
}

impl Candidate {
    fn new(name: &str, what: &str, kind: Kind, placement: Placement) -> Candidate {
        Candidate {
            name: name.to_owned(),
            what: what.to_owned(),
            run: String::new(),
            kind,
            placements: vec![placement],
            variables: Vec::new(),
            no_huge_pages: false,
        }
    }

    /// Without values yet; `all` are the cpus of a placement that does not choose.
    pub fn trial(&self, all: usize) -> Trial {
        let of = |p: &Placement| p.cpus.as_ref().map_or(all, CpuList::len);
        Trial {
            name: self.name.clone(),
            what: self.what.clone(),
            run: self.run.clone(),
            kind: self.kind,
            values: Vec::new(),
            ranges: Vec::new(),
            cpus: self.placements.iter().map(of).sum(),
            busy: Vec::new(),
            failed: None,
            placed: Vec::new(),
        }
    }
}

/// Nodes with cpus and memory that may be used: the others are not a place for a whole program.
pub fn whole_nodes(machine: &Machine, setting: &Setting) -> Vec<(NodeId, CpuList)> {
    let nodes = machine.nodes.iter().filter(|n| n.memory_bytes != Some(0) && setting.nodes.contains(n.id));
    let with =
        nodes.map(|n| (n.id, n.cpus.iter().filter(|&c| setting.cpus.contains(c)).collect::<CpuList>()));
    with.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

/// All placements that can be told apart on this machine.
pub fn plan(machine: &Machine, setting: &Setting) -> Plan {
    let nodes = whole_nodes(machine, setting);
    let cpus = nodes.iter().map(|(_, cpus)| cpus.len()).sum();
    let mut plan = Plan { cpus, ..Plan::default() };
    plan.candidates.push(Candidate::new("as is", "nothing", Kind::AsIs, Placement::default()));
    let on_node = |node: NodeId, cpus: &CpuList| Placement {
        cpus: Some(cpus.clone()),
        policy: Some(Policy::Bind((node..=node).into())),
        // A number of threads for the whole machine is too large for a part of it.
        count: setting.threads.filter(|&n| n > cpus.len()).map(|_| cpus.len()),
        ..Placement::default()
    };
    for (node, cpus) in &nodes {
        let mut one = Candidate::new(
            &format!("node {node}"),
            &format!("cpus and memory of node {node}"),
            Kind::OneNode,
            on_node(*node, cpus),
        );
        let threads = one.placements[0].count.map(|n| format!(" --threads {n}")).unwrap_or_default();
        one.run = format!("-N {node} -m {node}{threads}");
        plan.candidates.push(one);
    }
    let all: NodeList = nodes.iter().map(|(node, _)| *node).collect();
    let mut interleave = Candidate::new(
        "interleave",
        &format!("pages in turns on nodes {all}"),
        Kind::Interleave,
        Placement { policy: Some(Policy::Interleave(all.clone())), ..Placement::default() },
    );
    interleave.run = format!("-i {all}");
    plan.candidates.push(interleave);
    if let Some((file, objects)) = &setting.objects {
        let mut placed = Candidate::new(
            &format!("placement {}", file.file_name().unwrap_or_default().to_string_lossy()),
            &objects.lines().join(", "),
            Kind::Objects,
            Placement { objects: Some(objects.clone()), ..Placement::default() },
        );
        placed.run = format!("--placement {}", file.display());
        plan.candidates.push(placed);
    }
    plan.pinned(machine, setting);
    plan.balancing(setting);
    plan.huge_pages(setting);
    if setting.copies {
        let mut copies = Candidate::new(
            "copies",
            &format!("{} copies at the same time, each on a node", nodes.len()),
            Kind::Copies,
            Placement::default(),
        );
        copies.placements = nodes.iter().map(|(node, cpus)| on_node(*node, cpus)).collect();
        plan.candidates.push(copies);
    } else {
        plan.leave("copies", "--copies runs one process on each node at the same time, if these do not disturb each other's files");
    }
    plan
}

impl Plan {
    fn leave(&mut self, name: &str, why: &str) {
        self.not_tried.push(NotTried { name: name.to_owned(), why: why.to_owned() });
    }

    fn pinned(&mut self, machine: &Machine, setting: &Setting) {
        if let Some(variable) = setting.bound {
            return self.leave("pinned", &format!("{variable} is set: OpenMP threads are bound as it is"));
        }
        let count = setting.threads.unwrap_or(setting.cpus.len()).min(setting.cpus.len());
        let threads = match thread_cpus("close", Some(count), machine, &setting.packages, Some(&setting.cpus))
        {
            Ok(threads) => threads,
            Err(error) => return self.leave("pinned", &error.to_string()),
        };
        let placement = Placement { threads, count: setting.threads, ..Placement::default() };
        let mut pinned = Candidate::new(
            "pinned",
            "each thread on a cpu, neighbours close, loops in static shares where the program lets it be chosen",
            Kind::Pinned,
            placement,
        );
        pinned.run = format!("--threads {count} --bind close");
        if std::env::var_os("OMP_SCHEDULE").is_none() {
            pinned.variables.push(("OMP_SCHEDULE", "static".to_owned()));
        }
        self.candidates.push(pinned);
    }

    fn balancing(&mut self, setting: &Setting) {
        match setting.balancing {
            Some(true) => {
                // The scanner of AutoNUMA passes over memory with a policy of its own that does not ask for it
                // (vma_policy_mof in Linux's mm/mempolicy.c); MPOL_LOCAL is what is done without a policy.
                let mut off = Candidate::new(
                    "no AutoNUMA",
                    "memory where it is touched first, and no page migration by the kernel",
                    Kind::Balancing,
                    Placement { policy: Some(Policy::Local), ..Placement::default() },
                );
                off.run = "-l".to_owned();
                self.candidates.push(off);
            }
            Some(false) => self.leave(
                "AutoNUMA",
                "it is off for the whole machine; sudo sysctl kernel.numa_balancing=1, and run this again",
            ),
            None => self.leave("AutoNUMA", "this kernel has none"),
        }
    }

    fn huge_pages(&mut self, setting: &Setting) {
        let mut other = Candidate::new("", "", Kind::HugePages, Placement::default());
        match setting.huge_pages.as_deref() {
            Some("always") => {
                other.name = "no huge pages".to_owned();
                other.what = "no transparent huge pages, by prctl".to_owned();
                other.no_huge_pages = true;
            }
            Some("madvise") if std::env::var_os("GLIBC_TUNABLES").is_some() => {
                return self.leave("huge pages", "GLIBC_TUNABLES is set and would have to be changed");
            }
            Some("madvise") => {
                other.name = "huge pages".to_owned();
                other.what = "malloc asks for huge pages (glibc 2.35 and later)".to_owned();
                other.variables.push(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned()));
            }
            _ => return self.leave("huge pages", "transparent huge pages are off for the whole machine"),
        }
        self.candidates.push(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(machine: &Machine) -> Setting {
        Setting {
            cpus: machine.nodes.iter().flat_map(|n| n.cpus.iter().collect::<Vec<_>>()).collect(),
            nodes: machine.nodes.iter().map(|n| n.id).collect(),
            balancing: Some(true),
            huge_pages: Some("always".to_owned()),
            ..Setting::default()
        }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.candidates.iter().map(|c| c.name.as_str()).collect()
    }

    #[test]
    fn each_node_and_all_of_them_are_tried() {
        let machine = Machine::from_shape("2x4").unwrap();
        let plan = plan(&machine, &setting(&machine));
        assert_eq!(
            names(&plan),
            ["as is", "node 0", "node 1", "interleave", "pinned", "no AutoNUMA", "no huge pages"]
        );
        assert_eq!(plan.candidates[2].placements[0].cpus, Some("4-7".parse().unwrap()));
        assert_eq!(plan.candidates[2].run, "-N 1 -m 1");
        assert_eq!(plan.candidates[4].placements[0].threads, (0..8).collect::<Vec<u32>>());
        assert_eq!(plan.not_tried.len(), 1, "{:?}", plan.not_tried);
    }

    #[test]
    fn fewer_cpus_get_fewer_threads_and_forbidden_nodes_are_left_out() {
        let machine = Machine::from_shape("4x4").unwrap();
        let mut setting = setting(&machine);
        setting.threads = Some(6);
        setting.nodes = "0-2".parse().unwrap();
        setting.cpus = "0-5,12-15".parse().unwrap();
        setting.copies = true;
        let plan = plan(&machine, &setting);
        assert_eq!(names(&plan)[1..4], ["node 0", "node 1", "interleave"]);
        let counts: Vec<Option<usize>> = plan.candidates.iter().map(|c| c.placements[0].count).collect();
        assert_eq!(counts[1..3], [Some(4), Some(2)]);
        assert_eq!(plan.candidates[3].run, "-i 0-1");
        assert_eq!(plan.candidates.last().unwrap().placements.len(), 2);
    }

    #[test]
    fn what_is_bound_already_is_not_pinned_again() {
        let machine = Machine::from_shape("2x2").unwrap();
        let setting = Setting { bound: Some("OMP_PLACES"), balancing: None, ..setting(&machine) };
        let plan = plan(&machine, &setting);
        assert_eq!(names(&plan), ["as is", "node 0", "node 1", "interleave", "no huge pages"]);
        let left: Vec<&str> = plan.not_tried.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(left, ["pinned", "AutoNUMA", "copies"]);
    }
}
