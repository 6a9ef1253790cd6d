//! Ranks of real launchers, recorded as one run: Open MPI's mpirun and MPICH's.

mod common;
#[path = "ranks/ended.rs"]
mod ended;
#[path = "ranks/environment.rs"]
mod environment;
#[path = "ranks/fortran.rs"]
mod fortran;
#[path = "ranks/host_counters.rs"]
mod host_counters;
#[path = "ranks/repairs.rs"]
mod repairs;
#[path = "ranks/waiting.rs"]
mod waiting;

use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
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

/// MiB of a field that no cache holds, and rounds: those read as much on any host.
fn field() -> [String; 2] {
    let mib = common::beyond_caches(64 << 20) >> 20;
    [mib.to_string(), (60 * 64 / mib).max(8).to_string()]
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
        // Open MPI's mpirun has a test of its own with 64 ranks, because it sometimes does not end after them.
        let most = if launcher.mpirun == "mpirun.mpich" { 64 } else { 4 };
        for ranks in if most > 4 { vec![2, 4, most] } else { vec![2, 4] } {
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
            for path in ranks_in(&place.path().join("run")).into_iter().take(4) {
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

/// Open MPI's mpirun was seen not to notice that its children had ended (docs/ranks.md). The run has to be whole all the same.
#[test]
fn sixty_four_whole_ranks_of_open_mpi_are_one_run_whether_mpirun_ends_or_not() {
    let Some(launcher) = launchers().iter().find(|l| l.mpirun == "mpirun.openmpi") else { return };
    let place = tempfile::tempdir().unwrap();
    let mut command = mpirun(launcher, 64, place.path());
    command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["1", "3"]);
    let status = ended::run(&mut command, place.path());
    // Whatever becomes of mpirun, all is recorded.
    assert!(
        status.success() || status.signal() == Some(libc::SIGKILL),
        "{}",
        std::fs::read_to_string(place.path().join("stderr")).unwrap()
    );
    let said = std::fs::read_to_string(place.path().join("stdout")).unwrap();
    assert!(said.contains("64 ranks: "), "{said}");
    let run = once_all_recorders_ended(place.path());
    assert_eq!((run["size"].as_u64(), run["missing_count"].as_u64()), (Some(64), Some(0)));
    let rows = run["ranks"].as_array().unwrap();
    assert!(rows.len() == 64 && rows.iter().all(|row| row["state"] == "complete"), "{run}");
}

/// A recorder has the three streams of its launcher and hands them on. Nothing else of either is the other's, so a recorder
/// keeps no connection of the program's open and the program none of the recorder's.
#[test]
fn a_rank_and_its_recorder_share_the_launchers_streams_and_nothing_else() {
    // A file that the recorder has closed in between is none.
    let own = "for f in /proc/$$/fd/*; do readlink $f; done; echo; \
               for f in /proc/$PPID/fd/*; do readlink $f; done; true";
    for launcher in launchers() {
        let place = tempfile::tempdir().unwrap();
        let mut command = mpirun(launcher, 1, place.path());
        command.args([NEARFAR, "record", "-q", "-o", "run", "--", "sh", "-c", own]);
        let said = succeeded(&command.output().unwrap());
        let (program, recorder) = said.split_once("\n\n").unwrap();
        let ends = |list: &str| -> Vec<String> {
            let shared = |f: &&str| f.starts_with("pipe:") || f.starts_with("socket:");
            list.lines().map(str::trim).filter(shared).map(str::to_owned).collect()
        };
        let (program, recorder) = (ends(program), ends(recorder));
        assert!(!program.is_empty() && program.iter().all(|f| recorder.contains(f)), "{said}");
        // Beyond its streams the recorder has one socket, its agent's, that the program has no end of.
        assert!(recorder.iter().filter(|f| !program.contains(f)).count() <= 1, "{said}");
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

/// The run's report. A launcher ends the other ranks, too, and does not wait for their recorders: they are waited for here.
fn once_all_recorders_ended(place: &Path) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let run = json(place, &["run"]);
        let running = run["ranks"].as_array().unwrap().iter().any(|row| row["state"] == "running");
        if !running {
            return run;
        }
        assert!(begun.elapsed().as_secs() < 300, "recorders do not end: {run}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn ranks_that_are_killed_are_named_and_the_others_are_reported() {
    // What 64 do to a launcher is seen once; the others differ in which signals they send.
    for (launcher, ranks) in launchers().iter().rev().zip([64].into_iter().chain(std::iter::repeat(16))) {
        let place = tempfile::tempdir().unwrap();
        let mut command = mpirun(launcher, ranks, place.path());
        command.env("OMP_NUM_THREADS", "1");
        command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["1", "20", "1"]);
        assert!(!ended::run(&mut command, place.path()).success());
        let run = once_all_recorders_ended(place.path());
        let rows = run["ranks"].as_array().unwrap();
        assert_eq!((rows.len(), run["missing_count"].as_u64()), (ranks as usize, Some(0)), "{run}");
        let killed = |row: &Value| row["end"].as_str().unwrap().contains("SIGKILL");
        let by_themselves: Vec<u64> =
            rows.iter().filter(|r| killed(r)).map(|r| r["rank"].as_u64().unwrap()).collect();
        // A launcher that has seen the first die may be faster than the others.
        assert!(!by_themselves.is_empty() && by_themselves.iter().all(|n| n % 8 == 1), "{run}");
        for row in rows {
            assert!(row["state"] != "damaged" && row["seconds"].is_f64(), "{row}");
        }
        let page = report(place.path(), &["run"]);
        let recorded = format!("{ranks} of {ranks} recorded");
        assert!(page.contains("killed: rank") && page.contains(&recorded), "{page}");
    }
}

/// The cpus of this host, if a machine of two nodes with half of them each has the same: the first cpu of either.
fn two_halves() -> Option<(u32, u32)> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let last: u32 = online.trim().strip_prefix("0-")?.parse().ok()?;
    (last % 2 == 1).then_some((0, last.div_ceil(2)))
}

#[test]
fn a_rank_that_is_bound_to_both_nodes_is_found_and_named() {
    let Some((first, second)) = two_halves() else {
        println!("skipped: fewer than two cpus, or an odd number");
        return;
    };
    for launcher in launchers() {
        let place = tempfile::tempdir().unwrap();
        // Two ranks are on each node; the third of four has a cpu of either.
        let script = format!(
            "#!/bin/sh\nrank=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\ncase $rank in\n2) cpus={first},{second} ;;\n\
             *[02468]) cpus={first} ;;\n*) cpus={second} ;;\nesac\nexec taskset -c $cpus \"$@\"\n"
        );
        let bind = place.path().join("bind");
        std::fs::write(&bind, script).unwrap();
        let mut command = mpirun(launcher, 4, place.path());
        if launcher.mpirun == "mpirun.openmpi" {
            command.args(["--bind-to", "none"]);
        }
        let machine = format!("2x{second}");
        command.args(["sh", "./bind", NEARFAR, "record", "--as", &machine, "-o", "run", "--"]);
        command.arg(&launcher.program).args(field());
        succeeded(&command.output().unwrap());
        let run = json(place.path(), &["run"]);
        let differs: Vec<String> =
            run["ranks"].as_array().unwrap().iter().map(|r| r["differs"].to_string()).collect();
        let page = report(place.path(), &["run"]);
        assert!(
            differs[2].contains("bound differently: 2 cpus") && differs[2].contains("on 2 nodes"),
            "{page}"
        );
        assert!(
            differs[2].contains("field (")
                && differs[2].contains("hybrid.c:")
                && differs[2].contains("is on far pages"),
            "{page}"
        );
        for other in [0, 1, 3] {
            assert!(!differs[other].contains("bound") && !differs[other].contains("far"), "{page}");
        }
        assert_eq!(run["classes"][0]["ranks"], serde_json::json!([0, 1, 3]), "{page}");
        repairs::are_named(place.path(), launcher);
    }
}

#[test]
fn ranks_of_two_hosts_are_one_run_with_a_directory_for_each_host() {
    let Some(launcher) = launchers().iter().find(|l| l.mpirun == "mpirun.mpich") else { return };
    let unshare = Command::new("unshare").args(["-u", "true"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        println!("skipped: no unshare of the host's name (root only)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // In ssh's place: the other host is this one under another name.
    let ssh = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\n\
               exec unshare -u sh -c \"hostname $host; exec $*\"\n";
    let path = place.path().join("ssh");
    std::fs::write(&path, ssh).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = mpirun(launcher, 4, place.path());
    command.args([
        "-launcher",
        "ssh",
        "-launcher-exec",
        path.to_str().unwrap(),
        "-hosts",
        "nodea,nodeb",
        "-ppn",
        "2",
    ]);
    command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["1", "2"]);
    succeeded(&command.output().unwrap());
    let run = json(place.path(), &["run"]);
    let hosts: Vec<&str> =
        run["ranks"].as_array().unwrap().iter().map(|r| r["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["nodea", "nodea", "nodeb", "nodeb"]);
    for host in ["nodea", "nodeb"] {
        assert!(place.path().join(format!("run/host={host}/host.json")).is_file());
    }
    assert!(report(place.path(), &["run"]).contains("on 2 hosts"));
}

#[test]
fn the_query_of_the_document_reads_all_ranks_of_a_run() {
    let Some(launcher) = launchers().first() else { return };
    if !Command::new("python3").args(["-c", "import duckdb"]).output().is_ok_and(|o| o.status.success()) {
        println!("skipped: no DuckDB (pip install duckdb)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut command = mpirun(launcher, 3, place.path());
    command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["4", "20"]);
    succeeded(&command.output().unwrap());
    let document = include_str!("../../../docs/ranks.md");
    let (_, rest) = document.split_once("```sql\n").unwrap();
    let (query, _) = rest.split_once("```").unwrap();
    let script =
        format!("import duckdb\nfor row in duckdb.sql(\'\'\'{query}\'\'\').fetchall(): print(*row)\n");
    let rows =
        succeeded(&Command::new("python3").args(["-c", &script]).current_dir(place.path()).output().unwrap());
    let run = json(place.path(), &["run"]);
    for (line, rank) in rows.lines().zip(run["ranks"].as_array().unwrap()) {
        let expected = format!("{} {} {} ", rank["host"].as_str().unwrap(), rank["rank"], rank["samples"]);
        assert!(line.starts_with(&expected), "{line}: {expected}");
    }
    assert_eq!(rows.lines().count(), 3, "{rows}");
}
