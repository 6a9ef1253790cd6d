//! Ranks that a real Slurm starts, on two hosts. The cluster is the test's own: a controller and two daemons that need
//! no configuration of the system and end with the test.

#[path = "slurm/cluster.rs"]
mod cluster;

use cluster::Cluster;
use nearfar_report::policy::{Choice, Form, Known, Policy, text as form};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    let output =
        Command::new(NEARFAR).arg("report").args(arguments).arg("--json").current_dir(place).output();
    serde_json::from_str(&succeeded(&output.unwrap())).unwrap()
}

/// The hybrid program of the ranks' tests; `None` without that MPI.
fn hybrid(compiler: &str, place: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/hybrid.c");
    let program = place.join(format!("hybrid-{compiler}"));
    let compiled = Command::new(compiler)
        .args(["-g", "-O1", "-fopenmp"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .ok();
    let Some(output) = compiled else {
        println!(
            "skipped: no MPICH to compile and run with, or no Open MPI to compile and run with ({compiler})"
        );
        return None;
    };
    succeeded(&output);
    Some(program)
}

#[test]
fn ranks_of_two_hosts_under_srun_are_one_run() {
    let Some(cluster) = Cluster::start() else { return };
    let place = cluster.place();
    // Without MPI, by Slurm's own numbers: 8 tasks on the 4 cpus of the two hosts.
    let plain = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let words = ["-N2", "-n8", "--overcommit", NEARFAR, "record", "-o", "run/", "--", "sh", "-c", plain];
    succeeded(&cluster.srun(&words));
    let run = json(place, &["run"]);
    assert_eq!((run["launcher"].as_str(), run["size"].as_u64()), (Some("Slurm"), Some(8)));
    assert_eq!(run["missing_count"], 0);
    let rows = run["ranks"].as_array().unwrap();
    let hosts: Vec<&str> = rows.iter().map(|row| row["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, [["one"; 4], ["two"; 4]].concat());
    assert!(rows.iter().all(|row| row["state"] == "complete"), "{run}");
    // A step has a name that all of its ranks know, and the next step is another run.
    assert!(run["launch"].as_str().unwrap().starts_with("slurm-"), "{run}");
    let again = cluster.srun(&words);
    assert!(
        !again.status.success() && text(&again.stderr).contains("another launch"),
        "{}",
        text(&again.stderr)
    );
}

/// Each host writes to a folder of its own, as without a shared file system; the lines of the document bring them together.
#[test]
fn the_lines_of_the_document_gather_the_hosts_ranks() {
    let Some(cluster) = Cluster::start() else { return };
    let place = cluster.place();
    let own = format!("{}/$(cat /proc/sys/kernel/hostname)", place.display());
    let record = format!("mkdir -p {own}; exec {NEARFAR} record -o {own}/run -- sh -c 'sleep 0.2'");
    succeeded(&cluster.srun(&["-N2", "-n4", "sh", "-c", &record]));
    let document = include_str!("../../../docs/ranks.md");
    let block = document.split("```sh\n").find(|block| block.starts_with("for host")).unwrap();
    let (lines, _) = block.split_once("```").unwrap();
    assert!(lines.contains("/scratch"), "{lines}");
    let lines = lines.replace("/scratch", &format!("\"{own}\""));
    let mut salloc = cluster.command("salloc");
    succeeded(&salloc.args(["-N2", "--quiet", "sh", "-c", &lines]).output().unwrap());
    let run = json(place, &["run"]);
    let hosts: Vec<&str> =
        run["ranks"].as_array().unwrap().iter().map(|r| r["host"].as_str().unwrap()).collect();
    assert_eq!((&hosts[..], run["missing_count"].as_u64()), (&["one", "one", "two", "two"][..], Some(0)));
}

#[test]
fn mpi_ranks_under_srun_are_one_run() {
    let Some(cluster) = Cluster::start() else { return };
    let place = cluster.place();
    // PMIx makes directories in /tmp that two daemons of one machine would share.
    for (compiler, mpi, hosts, launcher) in
        [("mpicc.mpich", "--mpi=pmi2", "-N2", "PMI"), ("mpicc.openmpi", "--mpi=pmix", "-N1", "PMIx")]
    {
        let Some(program) = hybrid(compiler, place) else { continue };
        if !cluster.has(mpi) {
            println!("skipped: this Slurm has no {mpi}");
            continue;
        }
        let words =
            [mpi, hosts, "-n2", NEARFAR, "record", "-o", compiler, "--", program.to_str().unwrap(), "1", "3"];
        let said = succeeded(&cluster.srun(&words));
        assert!(said.contains("2 ranks: "), "{said}");
        let run = json(place, &[compiler]);
        let rows = run["ranks"].as_array().unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|row| row["state"] == "complete"), "{run}");
        assert_eq!((run["launcher"].as_str(), run["missing_count"].as_u64()), (Some(launcher), Some(0)));
    }
}

#[test]
fn layout_binds_ranks_by_srun_as_it_says() {
    let Some(cluster) = Cluster::start() else { return };
    let mut command = cluster.command(NEARFAR);
    command.args(["layout", "-n", "2", "-t", "1", "--launcher", "srun", "--", "sh", "-c"]);
    command.arg("echo $SLURM_PROCID $(sed -n 's/^Cpus_allowed_list:\\s*//p' /proc/self/status); sleep 0.5");
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    if output.status.code() == Some(2) {
        println!("skipped: fewer than two cpus");
        return;
    }
    let mut lines: Vec<String> = succeeded(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 0", "1 1"], "{said}");
    assert!(said.contains("every rank is where it was asked to be"), "{said}");
}

#[test]
fn a_batch_script_of_fix_runs_with_its_policy_and_all_cpus() {
    let Some(cluster) = Cluster::start() else { return };
    if Command::new("numactl").arg("--show").output().is_err() {
        println!("skipped: no numactl");
        return;
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    let policies = [Policy::Interleave([0].into_iter().collect()), Policy::OneNode(0)];
    for (policy, shown) in policies.into_iter().zip(["policy: interleave", "policy: bind"]) {
        let predicted = nearfar_analyze::Predicted { ratio: 0.66, low: 0.6, high: 0.7 };
        let choice = Choice { policy, predicted, better: None, single: None };
        let command = ["sh", "-c", "numactl --show; env -u OMP_NUM_THREADS nproc"].map(String::from).to_vec();
        let known = Known { command, single_threaded_cores: true, ..Known::default() };
        std::fs::write(cluster.place().join("job"), form(Form::Slurm, &choice, &known)).unwrap();
        let mut batch = cluster.command("sbatch");
        let sent = batch.args(["--wait", "-o", "job.out", "job"]).output().unwrap();
        let out = std::fs::read_to_string(cluster.place().join("job.out")).unwrap_or_default();
        let said = format!("{out}{}", text(&sent.stderr));
        assert!(sent.status.success() && out.contains(shown), "{said}");
        assert_eq!(out.lines().last(), Some(cpus.to_string().as_str()), "{said}");
    }
}
