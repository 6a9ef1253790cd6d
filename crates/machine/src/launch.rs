//! The launch line that gives each rank the cpus of a [`Layout`], in the words of each launcher.
//!
//! - Open MPI 4: orterun(1); a rankfile's slots are hardware threads by the kernel's numbers with
//!   `--use-hwthread-cpus` and `rmaps_rank_file_physical` (opal/mca/hwloc/base: `opal_hwloc_base_get_pu`).
//! - Open MPI 5: its documentation, "Rankfiles"; slots are always hwloc's logical numbers, of hardware
//!   threads with `:hwtcpus`.
//! - Slurm: srun(1), `--cpu-bind=mask_cpu`.
//! - Hydra (MPICH): `mpiexec -bind-to -help`; `user:` takes the kernel's numbers.
//!
//! "So many per NUMA node" says the same on every host and needs no file, but is right only where
//! [`Layout::per_node`] reports it.

use super::layout::{Layout, Rank};
use std::fmt::Write;

/// What starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// mpirun of Open MPI 2 to 4.
    OpenMpi4,
    /// mpirun of Open MPI 5 (PRRTE).
    OpenMpi5,
    /// srun.
    Slurm,
    /// mpiexec of MPICH and its relatives.
    Hydra,
}

/// A line to start ranks with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its words, up to the program.
    pub words: Vec<String>,
    /// Lines of the rankfile that it names.
    pub rankfile: Option<String>,
    /// What it relies on.
    pub notes: Vec<String>,
}

impl Launcher {
    /// The launcher of which `--version` says this; `None` if it is none of those known here.
    pub fn from_version(text: &str) -> Option<Launcher> {
        let lower = text.to_lowercase();
        let after = |words: &str| lower.split_once(words).map(|(_, rest)| rest.trim_start());
        if let Some(version) = after("(open mpi)") {
            let major: u32 = version.split('.').next()?.parse().ok()?;
            return Some(if major < 5 { Launcher::OpenMpi4 } else { Launcher::OpenMpi5 });
        }
        if lower.contains("prrte") || lower.contains("prterun") {
            return Some(Launcher::OpenMpi5);
        }
        // Intel's is a Hydra whose binding is another.
        if lower.contains("intel") {
            return None;
        }
        match () {
            () if lower.contains("hydra") => Some(Launcher::Hydra),
            () if lower.trim_start().starts_with("slurm") => Some(Launcher::Slurm),
            () => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Launcher::OpenMpi4 => "Open MPI 4",
            Launcher::OpenMpi5 => "Open MPI 5",
            Launcher::Slurm => "Slurm",
            Launcher::Hydra => "Hydra (MPICH)",
        }
    }

    /// What to do if ranks are not where this launcher should have put them.
    pub fn repair(self) -> &'static str {
        match self {
            Launcher::OpenMpi4 | Launcher::OpenMpi5 => {
                "other settings have overruled the line: `env | grep -E 'OMPI_MCA|PRTE_MCA'` and \
                 ~/.openmpi/mca-params.conf show them; unset those of binding and mapping"
            }
            Launcher::Slurm => {
                "Slurm ignores masks unless the whole host is the job's and its task/affinity plugin is on: \
                 allocate with `--exclusive`, and see `scontrol show config | grep TaskPlugin`"
            }
            Launcher::Hydra => {
                "other settings have overruled the line: `env | grep -E 'HYDRA|MPIR_CVAR|I_MPI'` shows them; \
                 unset those of binding"
            }
        }
    }
}

/// What OpenMP runtimes are to be told: threads, and where they go within their rank's cpus.
pub fn environment(layout: &Layout) -> Vec<(&'static str, String)> {
    // Threads of one core would otherwise not be told apart, or one would get two places.
    let places = if layout.whole_cores && layout.ranks.iter().all(|r| layout.threads <= r.cores) {
        "cores"
    } else {
        "threads"
    };
    vec![
        ("OMP_NUM_THREADS", layout.threads.to_string()),
        ("OMP_PLACES", places.to_owned()),
        ("OMP_PROC_BIND", "close".to_owned()),
    ]
}

/// The line. `program`: what the launcher is called here; `rankfile`: where its file will be, if it needs one.
pub fn launch(layout: &Layout, launcher: Launcher, program: &str, rankfile: &str) -> Launch {
    let ranks = layout.ranks.len().to_string();
    let mut line = Line { words: vec![program.to_owned()], notes: Vec::new() };
    let environment = environment(layout);
    let of_host = &layout.ranks[..layout.per_host];
    let mut file = None;
    match launcher {
        Launcher::OpenMpi4 | Launcher::OpenMpi5 => {
            line.add(&["-np", &ranks]);
            match layout.per_node {
                Some(each) => {
                    // Hosts of one node may have none in hwloc's eyes.
                    let (each, what) = match of_host.iter().all(|r| r.nodes == of_host[0].nodes) {
                        true => (layout.per_host, "node"),
                        false => (each, "numa"),
                    };
                    let map = format!("ppr:{each}:{what}:PE={}", of_host[0].cores);
                    line.add(&["--map-by", &map, "--bind-to", "core"]);
                }
                None => {
                    by_rankfile(&mut line, layout, launcher, rankfile);
                    file = Some(rankfile_text(layout, launcher));
                }
            }
            for (name, value) in &environment {
                line.add(&["-x", &format!("{name}={value}")]);
            }
        }
        Launcher::Slurm => {
            let (hosts, each) = (layout.hosts.to_string(), layout.per_host.to_string());
            line.add(&["-N", &hosts, "-n", &ranks]);
            // Slurm refuses a number of tasks per host that is above its cpus, even then.
            match layout.shared {
                true => line.add(&["--overcommit"]),
                false => line.add(&[&format!("--ntasks-per-node={each}")]),
            }
            let masks: Vec<String> = of_host.iter().map(mask).collect();
            line.add(&["--distribution=block", &format!("--cpu-bind=mask_cpu:{}", masks.join(","))]);
            let pairs: Vec<String> = environment.iter().map(|(n, v)| format!("{n}={v}")).collect();
            line.add(&[&format!("--export=ALL,{}", pairs.join(","))]);
            line.notes.push(
                "Slurm obeys masks only where whole hosts are the job's: allocate with --exclusive".into(),
            );
        }
        Launcher::Hydra => {
            line.add(&["-n", &ranks]);
            if layout.hosts > 1 {
                line.add(&["-ppn", &layout.per_host.to_string()]);
                line.notes.push("without a batch system, name the hosts: -hosts a,b or -f FILE".into());
            }
            let sets: Vec<String> = of_host
                .iter()
                .map(|r| r.cpus.iter().map(|c| c.to_string()).collect::<Vec<_>>().join("+"))
                .collect();
            line.add(&["-bind-to", &format!("user:{}", sets.join(","))]);
            for (name, value) in &environment {
                line.add(&["-genv", name, value]);
            }
        }
    }
    Launch { words: line.words, rankfile: file, notes: line.notes }
}

struct Line {
    words: Vec<String>,
    notes: Vec<String>,
}

impl Line {
    fn add(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(|w| (*w).to_owned()));
    }
}

fn by_rankfile(line: &mut Line, layout: &Layout, launcher: Launcher, file: &str) {
    if launcher == Launcher::OpenMpi4 {
        line.add(&["--use-hwthread-cpus", "--mca", "rmaps_rank_file_physical", "1"]);
        if layout.shared {
            line.add(&["--oversubscribe"]);
        }
        line.add(&["--rankfile", file]);
    } else {
        let more = if layout.shared { ":oversubscribe" } else { "" };
        line.add(&["--map-by", &format!("rankfile:file={file}:hwtcpus{more}")]);
        if layout.shared {
            line.add(&["--bind-to", "hwthread:overload-allowed"]);
        }
    }
    if layout.hosts > 1 {
        line.notes.push(
            "+n0, +n1 in the rankfile are the hosts of the batch system's allocation; without one, write \
             their names there and add --host"
                .into(),
        );
    }
}

fn rankfile_text(layout: &Layout, launcher: Launcher) -> String {
    let mut text = String::new();
    for rank in &layout.ranks {
        // Relative hosts need an allocation, which one host does not.
        let host = if layout.hosts > 1 { format!("+n{}", rank.host) } else { "localhost".to_owned() };
        let slots = match launcher {
            Launcher::OpenMpi5 => {
                let at = |cpu: u32| layout.logical.iter().position(|&c| c == cpu);
                rank.cpus.iter().filter_map(at).map(|at| at as u32).collect()
            }
            _ => rank.cpus.clone(),
        };
        // Writing to a String does not fail.
        let _ = writeln!(text, "rank {}={host} slot={slots}", rank.number);
    }
    text
}

/// Hexadecimal, as wide as it must be.
fn mask(rank: &Rank) -> String {
    let digits = rank.cpus.last().map_or(1, |last| last as usize / 4 + 1);
    let mut values = vec![0u32; digits];
    for cpu in rank.cpus.iter() {
        values[digits - 1 - cpu as usize / 4] |= 1 << (cpu % 4);
    }
    let hex: String = values.iter().filter_map(|&v| char::from_digit(v, 16)).collect();
    format!("0x{hex}")
}
