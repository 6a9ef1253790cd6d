//! Ranks of real launchers, recorded as one run: Open MPI's mpirun and MPICH's.

#[path = "ranks/environment.rs"]
mod environment;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");

/// A launcher that is here, with the program compiled for it.
struct Launcher {
    mpirun: &'static str,
    more: &'static [&'static str],
    program: PathBuf,
}

/// Both, where they are installed; those that are not are named once.
fn launchers() -> &'static [Launcher] {
    static HERE: OnceLock<(tempfile::TempDir, Vec<Launcher>)> = OnceLock::new();
    let (_, here) = HERE.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/hybrid.c");
        let known: [(_, _, &[_], _); 2] = [
            (
                "mpirun.openmpi",
                "mpicc.openmpi",
                &["--oversubscribe"],
                "no Open MPI to compile and run with (Debian: openmpi-bin, libopenmpi-dev)",
            ),
            (
                "mpirun.mpich",
                "mpicc.mpich",
                &[],
                "no MPICH to compile and run with (Debian: mpich, libmpich-dev)",
            ),
        ];
        let mut here = Vec::new();
        for (mpirun, compiler, more, reason) in known {
            let program = place.path().join(format!("hybrid-{mpirun}"));
            let mut compile = Command::new(compiler);
            let compiled =
                compile.args(["-g", "-O1", "-fopenmp"]).arg(&source).arg("-o").arg(&program).output();
            let runs = Command::new(mpirun).arg("--version").output().is_ok();
            match compiled {
                Ok(output) if runs => {
                    assert!(output.status.success(), "{}", text(&output.stderr));
                    here.push(Launcher { mpirun, more, program });
                }
                _ => println!("skipped: {reason}"),
            }
        }
        (place, here)
    });
    here
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Open MPI refuses root, which containers are, without these.
fn mpirun(launcher: &Launcher, ranks: u32, directory: &Path) -> Command {
    let mut command = Command::new(launcher.mpirun);
    command.args(launcher.more).args(["-n", &ranks.to_string()]).current_dir(directory).stdin(Stdio::null());
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.env("OMP_NUM_THREADS", "2");
    command
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn report(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(NEARFAR);
    succeeded(&command.arg("report").args(arguments).current_dir(directory).output().unwrap())
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&report(directory, &[arguments, &["--json"]].concat())).unwrap()
}

/// The directories of ranks in a run.
fn ranks_in(run: &Path) -> Vec<PathBuf> {
    let list = |path: &Path| std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let hosts = list(run).into_iter().filter(|p| p.is_dir());
    hosts.flat_map(|host| list(&host)).filter(|p| p.is_dir()).collect()
}

#[test]
fn the_ranks_of_a_launch_are_one_run_and_each_opens_alone() {
    for launcher in launchers() {
        for ranks in [2, 4] {
            let place = tempfile::tempdir().unwrap();
            let mut command = mpirun(launcher, ranks, place.path());
            command.args([NEARFAR, "record", "-o", "run/", "--"]).arg(&launcher.program).args(["1", "3"]);
            let said = succeeded(&command.output().unwrap());
            assert!(said.contains(&format!("{ranks} ranks: ")), "{said}");
            let run = json(place.path(), &["run"]);
            assert_eq!((run["size"].as_u64(), run["missing_count"].as_u64()), (Some(ranks.into()), Some(0)));
            let rows = run["ranks"].as_array().unwrap();
            assert_eq!(rows.len(), ranks as usize);
            assert!(rows.iter().all(|row| row["state"] == "complete" && row["samples"].is_u64()), "{run}");
            let page = report(place.path(), &["run/"]);
            assert!(page.contains(&format!("{ranks} of {ranks} recorded, on 1 host")), "{page}");
            for path in ranks_in(&place.path().join("run")) {
                let one = json(place.path(), &[path.to_str().unwrap()]);
                assert_eq!(one["exit"], "exit 0");
                assert!(std::fs::metadata(path.join("summary.json")).unwrap().len() <= 64 << 10);
            }
            let last = (ranks - 1).to_string();
            assert_eq!(json(place.path(), &["run", "--rank", &last])["exit"], "exit 0");

            // A second launch does not get in, and its program does not run.
            let again = command.output().unwrap();
            assert!(!again.status.success());
            assert!(text(&again.stderr).contains("another launch"), "{}", text(&again.stderr));
            assert_eq!(json(place.path(), &["run"])["ranks"].as_array().unwrap().len(), ranks as usize);
        }
    }
}

#[test]
fn without_a_name_all_ranks_find_one_run_and_the_next_launch_makes_another() {
    for launcher in launchers() {
        let place = tempfile::tempdir().unwrap();
        let mut command = mpirun(launcher, 3, place.path());
        command.args([NEARFAR, "record", "--"]).arg(&launcher.program).args(["1", "1"]);
        for launches in 1..=2 {
            succeeded(&command.output().unwrap());
            let runs: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().path()).collect();
            assert_eq!(runs.len(), launches, "{runs:?}");
            assert!(runs.iter().all(|run| ranks_in(run).len() == 3), "{runs:?}");
        }
        // The newest is found without a name.
        assert_eq!(json(place.path(), &[])["ranks"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn killed_and_missing_ranks_of_a_launch_are_named_in_the_report_of_the_rest() {
    let Some(launcher) = launchers().first() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut command = mpirun(launcher, 4, place.path());
    command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["1", "3"]);
    succeeded(&command.output().unwrap());
    let ranks = ranks_in(&place.path().join("run"));
    let of = |n: u32| ranks.iter().find(|p| p.ends_with(format!("rank={n}"))).unwrap();
    std::fs::remove_dir_all(of(2)).unwrap();
    std::fs::write(of(1).join("summary.json"), r#"{"schema": 99, "nearfar": "9.9.9"}"#).unwrap();
    // As of a recorder that was killed after it had closed its recording: it is made again.
    std::fs::remove_file(of(3).join("summary.json")).unwrap();
    let run = json(place.path(), &["run"]);
    assert_eq!(run["missing"], serde_json::json!([2]));
    let states: Vec<&str> =
        run["ranks"].as_array().unwrap().iter().map(|r| r["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "other_version", "complete"]);
    assert!(
        run["ranks"][1]["end"].as_str().unwrap().contains("9.9.9") && run["ranks"][1]["seconds"].is_null()
    );
    assert!(of(3).join("summary.json").is_file());
    let page = report(place.path(), &["run"]);
    assert!(page.contains("missing: rank 2") && page.contains("nearfar 9.9.9"), "{page}");
    let mut gate = Command::new(NEARFAR);
    gate.args(["report", "run", "--fail-on", "unknown"]).current_dir(place.path());
    assert_eq!(gate.output().unwrap().status.code(), Some(1), "an incomplete run passes no gate");
}
