//! `nearfar layout`: its lines for each launcher, what it refuses, and ranks under real launchers.

#[allow(dead_code)]
#[path = "guest/machine.rs"]
mod machine;
#[path = "layout/others.rs"]
mod others;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");

/// Open MPI refuses root, which containers are, without these. The others would overrule its lines.
fn layout(arguments: &[&str]) -> Command {
    let mut command = Command::new(NEARFAR);
    command.arg("layout").args(arguments).stdin(Stdio::null());
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    for name in ["OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_rmaps_base_mapping_policy"] {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    layout(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with scripts of these names.
fn scripts(list: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, body) in list {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// A launcher that says `version`.
fn says(version: &str) -> String {
    format!("[ \"$1\" = --version ] && {{ echo '{version}'; exit; }}")
}

/// What is printed where only `launcher` is installed and says `version`; nothing if that is empty.
fn dry(launcher: &str, version: &str, arguments: &[&str]) -> String {
    let body = says(version);
    let list = [(launcher, body.as_str())];
    let folder = scripts(if version.is_empty() { &[] } else { &list });
    let mut command = layout(&["--dry-run", "--launcher", launcher]);
    let output = command.args(arguments).env("PATH", folder.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The command to paste: what follows the heading.
fn line(said: &str) -> &str {
    said.split_once("launch line (").and_then(|(_, rest)| rest.split_once("):\n")).unwrap().1.trim_end()
}

/// Rank and cpus of each row below the heading that begins with `rank` and has a column of that name.
fn rows(said: &str, column: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = said.lines().collect();
    let heading = lines.iter().position(|l| l.starts_with("rank") && l.contains(column));
    let heading = heading.unwrap_or_else(|| panic!("no column {column}:\n{said}"));
    let at = lines[heading].find(column).unwrap();
    lines[heading + 1..]
        .iter()
        .map_while(|l| {
            let rank = l.split_whitespace().next()?.parse().ok()?;
            Some((rank, l.get(at..)?.split_whitespace().next()?.to_owned()))
        })
        .collect()
}

#[test]
fn each_launcher_is_told_in_its_own_words() {
    let ask = ["-n", "4", "-t", "22", "--as", "xeon-e5-2699v4-2s", "--", "./app", "a b"];
    let ask = [&["-n", "4", "-t", "11"], &ask[4..]].concat();
    let four = dry("mpirun", "mpirun (Open MPI) 4.1.4", &ask);
    assert_eq!(
        line(&four),
        "mpirun -np 4 --map-by ppr:2:numa:PE=11 --bind-to core -x OMP_NUM_THREADS=11 -x OMP_PLACES=cores \
         -x OMP_PROC_BIND=close ./app 'a b'"
    );
    assert_eq!(
        rows(&four, "cpus"),
        [(0, "0-10,44-54"), (1, "11-21,55-65"), (2, "22-32,66-76"), (3, "33-43,77-87")]
            .map(|(rank, cpus)| (rank, cpus.to_owned()))
    );
    assert!(
        four.contains("environment: OMP_NUM_THREADS=11 OMP_PLACES=cores OMP_PROC_BIND=close\n"),
        "{four}"
    );
    assert_eq!(line(&dry("mpirun", "mpirun (Open MPI) 5.0.11", &ask)), line(&four));
    let slurm = dry("srun", "slurm 23.11.4", &ask);
    assert!(
        line(&slurm).starts_with(
            "srun -N 1 -n 4 --ntasks-per-node=4 --distribution=block \
             --cpu-bind=mask_cpu:0x7ff000000007ff,0x3ff800000003ff800,0x1ffc00000001ffc00000,0xffe00000000ffe00000000 "
        ),
        "{slurm}"
    );
    assert!(slurm.contains("allocate with --exclusive"), "{slurm}");
    let hydra = dry("mpiexec", "HYDRA build details:", &["-n", "2", "-t", "2", "--as", "2x2"]);
    assert_eq!(
        line(&hydra),
        "mpiexec -n 2 -bind-to user:0+1,2+3 -genv OMP_NUM_THREADS 2 -genv OMP_PLACES cores -genv OMP_PROC_BIND close ./app"
    );
}

#[test]
fn irregular_layouts_come_with_a_rankfile_to_paste() {
    let ask = ["-n", "3", "-t", "4", "--as", "2x8"];
    let four = dry("mpirun", "mpirun (Open MPI) 4.1.4", &ask);
    assert_eq!(
        line(&four),
        "cat >nearfar.rankfile <<'END'\nrank 0=localhost slot=0-3\nrank 1=localhost slot=4-7\nrank 2=localhost slot=8-11\n\
         END\nmpirun -np 3 --use-hwthread-cpus --mca rmaps_rank_file_physical 1 --rankfile nearfar.rankfile \
         -x OMP_NUM_THREADS=4 -x OMP_PLACES=cores -x OMP_PROC_BIND=close ./app"
    );
    let five = dry("mpirun", "mpirun (Open MPI) 5.0.11", &[&ask[..], &["--nodes", "3"]].concat());
    assert!(line(&five).contains("rank 2=+n2 slot=0-3\n"), "{five}");
    assert!(line(&five).contains("--map-by rankfile:file=nearfar.rankfile:hwtcpus -x"), "{five}");
}

#[test]
fn a_launcher_that_is_not_here_is_assumed_and_that_is_said() {
    let said = dry("mpirun", "", &["--as", "2x4"]);
    assert!(
        said.contains("mind: mpirun is not here: the line is Open MPI 4's; Open MPI 5 takes it too"),
        "{said}"
    );
    assert!(line(&said).starts_with("mpirun -np 2 --map-by ppr:1:numa:PE=4 "), "{said}");
    let empty = tempfile::tempdir().unwrap();
    let output = layout(&["--", "./app"]).env("PATH", empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("Install it (Debian: openmpi-bin)") && said.contains("--dry-run"), "{said}");
    let intel = says("Intel(R) MPI Library for Linux* OS, Version 2021.9");
    let folder = scripts(&[("mpirun", &intel)]);
    let output = layout(&["--", "./app"]).env("PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not Intel's"), "{}", text(&output.stderr));
}

#[test]
fn bad_input_ends_before_anything_begins() {
    let case = |arguments: &[&str], words: &[&str]| {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?}: no {word}: {said}"));
    };
    let on = |more: &[&'static str]| [&["--dry-run", "--as", "2x4"], more].concat();
    case(
        &on(&["-n", "9", "-t", "1"]),
        &["need 9 cores", "it has 8 cores (cpus 0-7)", "--ranks 8", "--oversubscribe"],
    );
    case(&on(&["-n", "3", "-t", "3"]), &["Type --threads 2, or --ranks 2"]);
    case(
        &on(&["-n", "3", "--nodes", "2"]),
        &["do not divide evenly over 2 hosts", "--ranks 2, or --ranks 4"],
    );
    case(&on(&["-C", "6-9"]), &["--cpus: cpu 8-9 does not exist; the machine's cpus: 0-7"]);
    case(&on(&["-C", "!all"]), &["selects no cpu"]);
    case(&on(&["-C", "x"]), &["neither a number nor a range"]);
    case(&on(&["-n", "0"]), &["0 is not in 1.."]);
    case(&on(&["-t", "many"]), &["invalid value 'many'"]);
    case(&on(&["--nodes", "0"]), &["0 is not in 1.."]);
    case(&on(&["--launcher", "lamboot"]), &["mpirun, srun, mpiexec"]);
    case(&["--dry-run", "--as", "nosuch"], &["no machine `nosuch`"]);
    case(&["-n", "1"], &["required"]);
    let folder = scripts(&[("mpirun", &says("mpirun (Open MPI) 4.1.4"))]);
    let here = |arguments: &[&str]| layout(arguments).env("PATH", folder.path()).output().unwrap();
    let output = here(&["--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    let output = here(&["--as", "2x4096", "--", "/bin/sh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("may not be used here"), "{}", text(&output.stderr));
}

/// A launcher that binds nothing and leaves out as many ranks as `$LEFT_OUT` says.
fn careless() -> tempfile::TempDir {
    let body = format!(
        "{}\nn=$2; while [ \"$1\" != '{NEARFAR}' ]; do shift; done\ni=0\n\
         while [ $i -lt $((n - LEFT_OUT)) ]; do OMPI_COMM_WORLD_RANK=$i \"$@\" & i=$((i + 1)); done\n\
         wait; exit ${{ENDS:-0}}",
        says("mpirun (Open MPI) 4.1.4")
    );
    scripts(&[("mpirun", &body)])
}

/// Hosts of one cpu leave a launcher nothing to do wrong.
fn one_cpu() -> bool {
    let few = std::thread::available_parallelism().map_or(1, usize::from) < 2;
    if few {
        println!("skipped: fewer than two cpus");
    }
    few
}

#[test]
fn ranks_that_are_elsewhere_or_missing_are_errors() {
    if one_cpu() {
        return;
    }
    let folder = careless();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let case = |left_out: &str, ends: &str, script: &str| {
        let mut command = layout(&["-n", "2", "-t", "1", "--launcher", "mpirun", "--", "sh", "-c", script]);
        command.env("PATH", &path).env("LEFT_OUT", left_out).env("ENDS", ends).output().unwrap()
    };
    let output = case("0", "0", "echo out; sleep 0.4");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "out\nout\n".into()), "{said}");
    for words in
        ["rank 0 was given cpus", "rank 1 was given cpus", "ranks 0-1 share the cores of cpus", "OMPI_MCA"]
    {
        assert!(said.contains(words), "no {words}: {said}");
    }
    let output = case("1", "0", "sleep 0.4");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rank 1 told nothing, so where they ran is unknown"), "{said}");
    assert_eq!(rows(&said, "may run on")[1].1, "unknown");
    // Nothing is known of what ended at once, and the launcher's own status comes first.
    let output = case("0", "0", "exit 0");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("ended before they could be looked at"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(case("0", "9", "sleep 0.3").status.code(), Some(9));
    let output = case("2", "5", "sleep 0.3");
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("mpirun started no rank (exit 5)"), "{}", text(&output.stderr));
}

/// Whether Open MPI's mpirun is installed; if not, reports it.
fn open_mpi() -> bool {
    let output = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output();
    let there = output.is_ok_and(|o| text(&o.stdout).contains("Open MPI"));
    if !there {
        println!("skipped: no mpirun of Open MPI (Debian: openmpi-bin)");
    }
    there
}

/// What each rank says itself, in the form of [`rows`].
fn own_words(stdout: &[u8]) -> Vec<(usize, String)> {
    let text = text(stdout);
    let mut list: Vec<(usize, String)> = text
        .lines()
        .map(|l| {
            let (rank, cpus) = l.split_once(' ').unwrap();
            (rank.parse().unwrap(), cpus.to_owned())
        })
        .collect();
    list.sort();
    list
}

/// By whichever launcher's word.
const SAY_AND_STAY: &str = "echo ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}} \
    $(sed -n 's/^Cpus_allowed_list:\\s*//p' /proc/self/status); sleep 0.5";

/// One, two and four ranks under a real launcher, by its table and by their own words.
fn are_where_they_were_asked(launcher: &str) {
    for ranks in ["1", "2", "4"] {
        let ask = ["-n", ranks, "-t", "1", "--launcher", launcher];
        let program = ["--", "sh", "-c", SAY_AND_STAY];
        let mut output = run(&[&ask[..], &program].concat());
        let mut said = text(&output.stderr);
        if output.status.code() == Some(2) {
            // Too few cores here: refused, with the word that allows it.
            assert!(said.contains("--oversubscribe") && output.stdout.is_empty(), "{said}");
            output = run(&[&ask[..], &["--oversubscribe"], &program].concat());
            said = text(&output.stderr);
            assert!(said.contains("share cores, as --oversubscribe allows"), "{said}");
        }
        assert_eq!(output.status.code(), Some(0), "{said}");
        let asked = rows(&said, "cpus");
        assert_eq!(asked.len().to_string(), ranks, "{said}");
        assert_eq!(rows(&said, "may run on"), asked, "{said}");
        assert_eq!(own_words(&output.stdout), asked, "{said}");
        assert!(said.contains("every rank is where it was asked to be"), "{said}");
    }
}

#[test]
fn a_real_mpirun_puts_one_two_and_four_ranks_where_they_were_asked() {
    if open_mpi() {
        are_where_they_were_asked("mpirun");
    }
}

#[test]
fn a_real_hydra_does_too() {
    let hydra = |name: &str| {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|o| text(&o.stdout).contains("HYDRA"))
    };
    match hydra("mpiexec") || hydra("mpiexec.hydra") {
        true => are_where_they_were_asked("mpiexec"),
        false => println!("skipped: no mpiexec of MPICH (Debian: mpich)"),
    }
}

#[test]
fn a_real_slurm_does_too() {
    // Without its controller srun would wait long.
    let ping = Command::new("scontrol").arg("ping").stdin(Stdio::null()).output();
    match ping.is_ok_and(|o| o.status.success() && text(&o.stdout).contains("UP")) {
        true => are_where_they_were_asked("srun"),
        false => println!("skipped: no Slurm that answers"),
    }
}

#[test]
fn under_a_real_mpirun_streams_and_status_are_the_programs() {
    if !open_mpi() {
        return;
    }
    let mut command =
        layout(&["-n", "1", "--launcher", "mpirun", "--", "sh", "-c", "cat; sleep 0.3; exit 7"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"to the first rank\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "to the first rank\n".into()));
}

#[test]
fn under_a_real_mpirun_a_program_that_leaves_its_cpus_is_noticed() {
    if !open_mpi() || one_cpu() || Command::new("taskset").arg("--version").output().is_err() {
        println!("skipped: needs Open MPI, taskset and two cpus");
        return;
    }
    let mut all = std::process::Command::new("sh");
    let all = all.args(["-c", "sed -n 's/^Cpus_allowed_list:\\s*//p' /proc/self/status"]).output().unwrap();
    let all = text(&all.stdout).trim().to_owned();
    let program = ["--launcher", "mpirun", "--", "taskset", "-c", &all, "sleep", "0.5"];
    let output = run(&[&["-n", "2", "-t", "1"], &program[..]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("rank 1 may run on cpus {all} after")), "{said}");
    assert!(
        said.contains("ranks 0-1 share the cores") && said.contains("the launcher had kept them apart"),
        "{said}"
    );
}
