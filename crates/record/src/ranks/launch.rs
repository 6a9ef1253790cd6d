//! Which rank of which launch this process is, by the environment that its launcher gave it.

use nearfar_host::proc;
use nearfar_machine::cpulist::CpuList;
use nearfar_recording::Rank;

/// By which launchers number the processes that they start, in the order of trust: a batch system's
/// number is also that of a launcher inside it, and then the same for all ranks.
pub const NUMBERS: [&str; 5] =
    ["OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Slurm numbers the steps of a job from 0. From here on numbers mean the batch script, an interactive shell and
/// the like (`SLURM_MAX_NORMAL_STEP_ID`), which are not ranks.
const SPECIAL_STEPS: u32 = 0xffff_fff0;

/// The rank that this process is; `None` if no launcher started it.
pub fn this_process() -> Option<Rank> {
    let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = proc::host_name().unwrap_or_else(|| "unknown".into());
    rank_of(&get, &host, own_cpus(), &hydra_port)
}

/// Its number alone, by any launcher.
pub fn number() -> Option<usize> {
    NUMBERS.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// Where this process may run.
pub fn own_cpus() -> CpuList {
    let me = std::process::id();
    proc::status(me, me).ok().and_then(|status| proc::allowed_cpus(&status)).unwrap_or_default()
}

/// The rank that the variables of `get` describe. `hydra_port` finds the port of Hydra's control connection, which
/// all of its ranks share and no variable names.
pub fn rank_of(
    get: &dyn Fn(&str) -> Option<String>,
    host: &str,
    cpus: CpuList,
    hydra_port: &dyn Fn() -> Option<String>,
) -> Option<Rank> {
    let number = |name: &str| get(name)?.trim().parse::<u32>().ok();
    // Slurm's variables are inherited by whatever a batch script starts: only a step's processes are ranks.
    let step = number("SLURM_STEP_ID").or_else(|| number("SLURM_STEPID")).filter(|&s| s < SPECIAL_STEPS);
    let slurm_size = step.and_then(|_| number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS")));
    let slurm_job = || Some(format!("slurm-{}.{}", get("SLURM_JOB_ID")?, step?));
    let slurm_local = step.and_then(|_| number("SLURM_LOCALID"));
    let slurm_local_size = || tasks_of(&get("SLURM_STEP_TASKS_PER_NODE")?, number("SLURM_NODEID")?);

    let (launcher, rank, size, local_rank, local_size, key);
    if let Some(n) = number("OMPI_COMM_WORLD_RANK") {
        (launcher, rank, size) = ("Open MPI", n, number("OMPI_COMM_WORLD_SIZE"));
        (local_rank, local_size) =
            (number("OMPI_COMM_WORLD_LOCAL_RANK"), number("OMPI_COMM_WORLD_LOCAL_SIZE"));
        // The job's number may come again; the key for its network, where there is one, does not.
        key = get("PMIX_NAMESPACE").or_else(|| get("OMPI_MCA_ess_base_jobid")).map(|job| {
            let more = get("OMPI_MCA_orte_precondition_transports").unwrap_or_default();
            format!("openmpi-{:08x}", short_hash(&format!("{job} {more}")))
        });
    } else if let Some(n) = number("MV2_COMM_WORLD_RANK") {
        (launcher, rank, size) = ("MVAPICH2", n, number("MV2_COMM_WORLD_SIZE"));
        (local_rank, local_size) = (number("MV2_COMM_WORLD_LOCAL_RANK"), number("MV2_COMM_WORLD_LOCAL_SIZE"));
        key = get("MPIRUN_ID").map(|id| format!("mvapich2-{:08x}", short_hash(&id))).or_else(slurm_job);
    } else if let Some(n) = number("PMIX_RANK") {
        (launcher, rank, size) = ("PMIx", n, slurm_size);
        (local_rank, local_size) = (slurm_local, slurm_local_size());
        let space = || Some(format!("pmix-{:08x}", short_hash(&get("PMIX_NAMESPACE")?)));
        key = slurm_job().or_else(space);
    } else if let Some(n) = number("PMI_RANK") {
        let hydra = number("MPI_LOCALRANKID").is_some() || get("HYDI_CONTROL_FD").is_some();
        (launcher, rank, size) = (if hydra { "Hydra" } else { "PMI" }, n, number("PMI_SIZE"));
        local_rank = number("MPI_LOCALRANKID").or(slurm_local);
        local_size = number("MPI_LOCALNRANKS").or_else(slurm_local_size);
        let port = || Some(format!("hydra-{:08x}", short_hash(&hydra_port()?)));
        key = if hydra { port() } else { slurm_job() };
    } else {
        let n = number("SLURM_PROCID").filter(|_| step.is_some())?;
        // `srun --pty bash` makes one task, and what is typed in it is not a rank.
        size = Some(slurm_size.filter(|&n| n > 1)?);
        (launcher, rank) = ("Slurm", n);
        (local_rank, local_size) = (slurm_local, slurm_local_size());
        key = slurm_job();
    }
    let launch = key.or_else(slurm_job).unwrap_or_else(|| UNNAMED.to_owned());
    let rank = Rank {
        launch,
        launcher: launcher.to_owned(),
        rank,
        size,
        local_rank,
        local_size,
        host: host.to_owned(),
        cpus,
    };
    rank.check().is_ok().then_some(rank)
}

/// Of a launch whose launcher gives it no name that all ranks could know.
pub const UNNAMED: &str = "unnamed";

/// Tasks of node number `node` in Slurm's notation: `2(x3),1` are 2, 2, 2 and 1.
fn tasks_of(text: &str, node: u32) -> Option<u32> {
    let mut passed = 0u32;
    for part in text.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1u32),
        };
        passed = passed.checked_add(nodes)?;
        if node < passed {
            return tasks.trim().parse().ok();
        }
    }
    None
}

/// What `--control-port` of Hydra's proxy, one of the processes above us, says: `host:port` of its mpiexec.
fn hydra_port() -> Option<String> {
    let mut pid = std::process::id();
    // A rank may be started by scripts in scripts, but not by many.
    for _ in 0..16 {
        let status = proc::status(pid, pid).ok()?;
        pid = proc::field(&status, "PPid")?.parse().ok().filter(|&pid| pid > 1)?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split(|&b| b == 0);
        if words.any(|word| word == b"--control-port") {
            return words.next().map(|port| String::from_utf8_lossy(port).into_owned());
        }
    }
    None
}

/// 32 bits of FNV-1a: enough to tell the launches in one directory apart.
fn short_hash(text: &str) -> u32 {
    let hash = text.bytes().fold(0x811c_9dc5u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    fn of(variables: Variables) -> Option<Rank> {
        let get = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
        rank_of(&get, "h", CpuList::default(), &|| Some("login:35155".into()))
    }

    #[test]
    fn each_launcher_says_rank_size_and_place_on_the_host() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_NAMESPACE", "241434625"),
            ("PMIX_RANK", "5"),
            // Inherited from the batch script that called mpirun.
            ("SLURM_PROCID", "0"),
            ("SLURM_JOB_ID", "77"),
        ];
        let hydra =
            [("PMI_RANK", "5"), ("PMI_SIZE", "8"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "4")];
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_ID", "3"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_NODEID", "1"),
            ("SLURM_STEP_TASKS_PER_NODE", "4(x2)"),
        ];
        let pmi2 = [&slurm[1..], &[("PMI_RANK", "5"), ("PMI_SIZE", "8")]].concat();
        let pmix = [&slurm[1..], &[("PMIX_RANK", "5"), ("PMIX_NAMESPACE", "slurm.pmix.77.3")]].concat();
        let mvapich = [
            ("MV2_COMM_WORLD_RANK", "5"),
            ("MV2_COMM_WORLD_SIZE", "8"),
            ("MV2_COMM_WORLD_LOCAL_RANK", "1"),
            ("MV2_COMM_WORLD_LOCAL_SIZE", "4"),
            ("MPIRUN_ID", "9"),
        ];
        let all: [(Variables, &str, &str); 6] = [
            (&open_mpi, "Open MPI", "openmpi-"),
            (&hydra, "Hydra", "hydra-"),
            (&slurm, "Slurm", "slurm-77.3"),
            (&pmi2, "PMI", "slurm-77.3"),
            (&pmix, "PMIx", "slurm-77.3"),
            (&mvapich, "MVAPICH2", "mvapich2-"),
        ];
        for (variables, launcher, launch) in all {
            let rank = of(variables).unwrap_or_else(|| panic!("{launcher}"));
            assert_eq!((rank.launcher.as_str(), rank.rank, rank.size), (launcher, 5, Some(8)));
            assert_eq!((rank.local_rank, rank.local_size), (Some(1), Some(4)), "{launcher}");
            assert!(rank.launch.starts_with(launch), "{launcher}: {}", rank.launch);
        }
    }

    #[test]
    fn a_batch_script_and_a_shell_of_one_task_are_no_ranks() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "77"), ("SLURM_NTASKS", "8")];
        assert_eq!(of(&batch), None, "sbatch");
        let interactive = [&batch[..], &[("SLURM_STEP_ID", "4294967290")]].concat();
        assert_eq!(of(&interactive), None, "salloc");
        let pty = [&batch[..2], &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]].concat();
        assert_eq!(of(&pty), None, "srun --pty bash");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_a_launcher_does_not_say_is_unknown_and_what_cannot_be_is_no_rank() {
        let rank = of(&[("PMI_RANK", "3")]).unwrap();
        assert_eq!((rank.size, rank.local_rank, rank.local_size), (None, None, None));
        assert_eq!(rank.launch, UNNAMED);
        assert_eq!(of(&[("OMPI_COMM_WORLD_RANK", "8"), ("OMPI_COMM_WORLD_SIZE", "8")]), None);
    }

    #[test]
    fn slurms_tasks_of_a_node_are_read() {
        let tasks = |node| tasks_of("2(x3),1", node);
        assert_eq!([tasks(0), tasks(2), tasks(3), tasks(4)], [Some(2), Some(2), Some(1), None]);
    }
}
