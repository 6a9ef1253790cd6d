//! Where a program should run, what that says in words, and the environment that asks for it.

use nearfar_host::policy::Policy;
use nearfar_host::symbols::Module;
use nearfar_host::target::find_program;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_record::collect::agent::{library, preloading};
use nearfar_record::collect::{objects, openmp};
use std::ffi::OsString;

/// Where a program should run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Cpus of the process; `None`: as they are.
    pub cpus: Option<CpuList>,
    /// Policy of its memory; `None`: as it is.
    pub policy: Option<Policy>,
    /// Number of threads; `None`: the program's own matter.
    pub count: Option<usize>,
    /// The cpu of each thread in the order of their creation; empty: not pinned.
    pub threads: Vec<u32>,
    /// Threads that are not pinned: by the order of their creation, ascending; the main thread is 0.
    pub skip: Vec<u32>,
    /// Policies of single objects; `None`: all as the process.
    pub objects: Option<objects::ObjectPolicies>,
}

/// The environment variable by which the agent gets the cpus of threads.
const PINS: &str = "NEARFAR_PINS";

/// And of those that get none.
const SKIP: &str = "NEARFAR_PINS_SKIP";

impl Placement {
    /// What it sets, in a line.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(cpus) = &self.cpus {
            parts.push(format!("cpus {cpus}"));
        }
        if let Some(policy) = &self.policy {
            parts.push(format!("memory {}", policy.words()));
        }
        if let Some(count) = self.count {
            parts.push(format!("{count} threads"));
        }
        if !self.threads.is_empty() {
            let cpus: Vec<String> = self.threads.iter().map(u32::to_string).collect();
            parts.push(format!("threads on cpus {}", cpus.join(",")));
        }
        if let Some(objects) = &self.objects {
            parts.extend(objects.lines());
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }

    /// Cpus that the process is confined to before it begins.
    pub(super) fn confined(&self) -> Option<CpuList> {
        let pinned: CpuList = self.threads.iter().copied().collect();
        self.cpus.clone().or_else(|| (!pinned.is_empty()).then_some(pinned))
    }

    /// What is probably not meant.
    pub fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut list = Vec::new();
        let cpus: CpuList = match (&self.cpus, self.threads.is_empty()) {
            (Some(cpus), _) => cpus.clone(),
            (None, false) => self.threads.iter().copied().collect(),
            (None, true) => CpuList::default(),
        };
        let count = self.count.unwrap_or(self.threads.len());
        let pinned: CpuList = self.threads.iter().copied().collect();
        let there = if self.threads.is_empty() { cpus.len() } else { pinned.len() };
        if count > there && there > 0 {
            list.push(format!("{count} threads share {there} cpus: some will wait for others"));
        }
        let cores: Vec<CpuList> = machine.nodes.iter().flat_map(|n| machine.cores_of(n.id)).collect();
        let twice =
            cores.iter().filter(|core| core.iter().filter(|&c| pinned.contains(c)).count() > 1).count();
        let idle = cores.iter().filter(|core| !core.iter().any(|c| pinned.contains(c))).count();
        if twice > 0 && idle > 0 {
            list.push(format!(
                "{twice} cores have two threads while {idle} have none: hardware threads of a core share its units"
            ));
        }
        let near: Vec<NodeId> =
            machine.nodes.iter().filter(|n| n.cpus.first_common(&cpus).is_some()).map(|n| n.id).collect();
        if let Some(nodes) = self.policy.as_ref().and_then(Policy::only)
            && !near.is_empty()
            && !near.iter().any(|&n| nodes.contains(n))
        {
            list.push(format!("all memory is on node {nodes} and no cpu is: every access is remote"));
        }
        list.extend(openmp::contradictions(self.count, &self.threads, &cpus, |name| {
            std::env::var(name).ok()
        }));
        list
    }

    /// Variables for the program: what OpenMP runtimes listen to, and the agent for other threads.
    /// And what could not be done.
    pub(super) fn environment(
        &self,
        command: &[OsString],
        table: Option<&objects::Table>,
    ) -> (Vec<(OsString, OsString)>, Option<String>) {
        let mut variables = openmp::variables(self.count, &self.threads);
        if self.threads.is_empty() && table.is_none() {
            return (variables, None);
        }
        let file = find_program(&command[0]).ok().and_then(|path| Module::open(&path).ok());
        let why = match &file {
            Some(file) if file.is_static_executable() => Some("the program is statically linked"),
            Some(file) if file.is_setuid() => Some("the program runs with other rights (setuid)"),
            _ => None,
        };
        let library = match why {
            Some(why) => Err(why.to_owned()),
            None => library().map_err(|error| error.to_string()),
        };
        match library {
            Ok(library) => {
                if !self.threads.is_empty() {
                    let cpus: Vec<String> = self.threads.iter().map(u32::to_string).collect();
                    variables.push((PINS.into(), cpus.join(",").into()));
                    let skip: Vec<String> = self.skip.iter().map(u32::to_string).collect();
                    variables.push((SKIP.into(), skip.join(",").into()));
                }
                variables.extend(table.map(|t| (objects::PLACES.into(), t.path.clone().into())));
                variables.extend(preloading(&library));
                (variables, None)
            }
            Err(why) => {
                let mut lost = Vec::new();
                if !self.threads.is_empty() {
                    lost.push("threads cannot be pinned one by one, only OpenMP runtimes pin theirs");
                }
                if table.is_some() {
                    lost.push("objects cannot be placed");
                }
                (variables, Some(format!("{}: {why}", lost.join("; "))))
            }
        }
    }
}
