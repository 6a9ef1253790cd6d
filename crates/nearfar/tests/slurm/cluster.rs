//! A Slurm cluster of two hosts on this machine: the daemon of each has a name of its own (a UTS namespace). No munge:
//! the plugins `auth/none` and `cred/none` trust whoever connects, so it listens only while a test runs.

use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Cluster {
    place: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts one; `None` if that is not possible here, which it says.
    pub fn start() -> Option<Cluster> {
        let here = |name: &str, flag: &str| Command::new(name).arg(flag).output().is_ok();
        if !here("slurmctld", "-V") || !here("slurmd", "-V") || !here("srun", "-V") {
            println!("skipped: no Slurm to start (Debian: slurmctld, slurmd, slurm-client)");
            return None;
        }
        if !Command::new("unshare").args(["-u", "true"]).output().is_ok_and(|o| o.status.success()) {
            println!("skipped: no unshare of the host's name (root only)");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
        // All at once, so that none is given twice.
        let free: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|f| f.local_addr().unwrap().port()).collect();
        drop(free);
        let cpus = std::thread::available_parallelism().unwrap();
        let mut configuration = format!(
            "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/none\n\
             CredType=cred/none\nSlurmUser=root\nSlurmdUser=root\nStateSaveLocation={}\nSlurmdSpoolDir={}\n\
             SlurmctldPidFile={}\nSlurmdPidFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nMpiDefault=none\nSwitchType=switch/none\n",
            ports[0],
            at("state"),
            at("spool-%n"),
            at("ctld.pid"),
            at("slurmd-%n.pid"),
        );
        for (name, port) in ["one", "two"].iter().zip(&ports[1..]) {
            let _ = writeln!(
                configuration,
                "NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs={cpus}"
            );
        }
        configuration.push_str("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
        std::fs::write(place.path().join("slurm.conf"), configuration).unwrap();
        std::fs::create_dir(place.path().join("state")).unwrap();
        let mut cluster = Cluster { place, daemons: Vec::new() };
        cluster.daemon(&["slurmctld", "-D", "-i"], "ctld.log");
        for name in ["one", "two"] {
            std::fs::create_dir(cluster.place().join(format!("spool-{name}"))).unwrap();
            let line = format!("hostname {name} && exec slurmd -D -N {name}");
            cluster.daemon(&["unshare", "-u", "sh", "-c", &line], &format!("{name}.log"));
        }
        cluster.wait();
        Some(cluster)
    }

    fn daemon(&mut self, words: &[&str], log: &str) {
        let log = std::fs::File::create(self.place().join(log)).unwrap();
        let mut command = self.command(words[0]);
        command.args(&words[1..]).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    /// Until both hosts take jobs.
    fn wait(&self) {
        let begun = Instant::now();
        loop {
            let output = self.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"]).output().unwrap();
            if String::from_utf8_lossy(&output.stdout).trim() == "2" {
                return;
            }
            let logs = ["ctld.log", "one.log", "two.log"]
                .map(|name| std::fs::read_to_string(self.place().join(name)).unwrap_or_default());
            assert!(begun.elapsed() < Duration::from_secs(60), "Slurm does not start: {}", logs.join("\n"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A folder that all hosts share.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// A command that knows the cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // What a job around this test has set is not this cluster's.
        std::env::vars().filter(|(name, _)| name.starts_with("SLURM")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.env("SLURM_CONF", self.place().join("slurm.conf")).env("OMP_NUM_THREADS", "1");
        command.current_dir(self.place()).stdin(Stdio::null());
        command
    }

    /// Runs `srun` with these words to its end.
    pub fn srun(&self, words: &[&str]) -> Output {
        self.command("srun").args(words).output().unwrap()
    }

    /// Whether `srun` has a plugin: `--mpi=pmix`.
    pub fn has(&self, mpi: &str) -> bool {
        let output = self.command("srun").arg("--mpi=list").output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        let name = mpi.trim_start_matches("--mpi=");
        String::from_utf8_lossy(&all).lines().any(|line| line.trim() == name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Daemons of hosts first: they end the steps that still run.
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: a plain system call; the process is a child that is not yet waited for.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
    }
}
