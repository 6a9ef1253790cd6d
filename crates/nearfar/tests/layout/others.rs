//! A real mpirun on other machines than the one at hand: one from a file, one that is emulated.

use super::{NEARFAR, line, machine, open_mpi, rows, run, text};
use nearfar_host::target::Ending;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two packages of four cores of two hardware threads, even numbers on the first, as firmwares like it.
const IN_TURNS: &str = r#"
format = 1
name = "numbered in turns"
[topology]
source = "chosen for the test"
confidence = "assumed"
threads_per_core = 2
cores = ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]
[[node]]
id = 0
cpus = "0,2,4,6,8,10,12,14"
package = 0
[[node]]
id = 1
cpus = "1,3,5,7,9,11,13,15"
package = 1
"#;
/// hwloc's words for it: the kernel's numbers of its hardware threads, one after the other.
const IN_HWLOCS_ORDER: [u32; 16] = [0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15];

/// Open MPI 4 told that it is on that machine: what it says that it would bind is what was listed.
#[test]
fn a_real_mpirun_would_bind_the_same_on_a_machine_that_is_numbered_in_turns() {
    let version = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output();
    if !version.is_ok_and(|o| text(&o.stdout).contains("(Open MPI) 4."))
        || Command::new("lstopo-no-graphics").arg("--version").output().is_err()
    {
        return println!("skipped: needs mpirun of Open MPI 4 and lstopo-no-graphics");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let machine = path("machine.toml");
    std::fs::write(&machine, IN_TURNS).unwrap();
    let order: Vec<String> = IN_HWLOCS_ORDER.iter().map(u32::to_string).collect();
    let shape = format!("pack:2 numa:1 core:4 pu:2(indexes={})", order.join(","));
    let lstopo = Command::new("lstopo-no-graphics")
        .args(["-i", &shape, "--of", "xml", "-f", &path("topology.xml")])
        .output();
    assert!(lstopo.unwrap().status.success());
    for ask in [&["-n", "4", "-t", "2"][..], &["-n", "2", "-t", "4"], &["-n", "3", "-t", "3", "--hwthreads"]]
    {
        let given = [&["--dry-run", "--launcher", "mpirun", "--as", &machine], ask].concat();
        let said = text(&run(&[&given[..], &["--", "true"]].concat()).stdout);
        // Cpus of a rankfile are only worked out at the start, and then those are missing here.
        let more = match line(&said).contains("rankfile") {
            true => "--display-map",
            false => "--do-not-launch --display-map --host localhost:64",
        };
        let line = line(&said).replace("mpirun -np", &format!("mpirun {more} -np"));
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(folder.path()).stdin(Stdio::null());
        shell.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let output = shell.env("HWLOC_XMLFILE", path("topology.xml")).env("HWLOC_THISSYSTEM", "1").output();
        let output = text(&output.unwrap().stdout);
        let bound: Vec<String> = output
            .lines()
            .filter(|l| l.contains("Bound:"))
            .map(|l| l.rsplit_once("]:[").unwrap().1.trim_end_matches(']').to_owned())
            .collect();
        let wanted: Vec<String> = rows(&said, "cpus").iter().map(|(_, cpus)| map_of(cpus)).collect();
        assert_eq!(bound, wanted, "{said}{output}");
    }
}

/// `BB/B./../..][../../../..`: packages, cores, hardware threads; B is bound.
fn map_of(cpus: &str) -> String {
    let cpus: nearfar_machine::cpulist::CpuList = cpus.parse().unwrap();
    let letters: Vec<char> =
        IN_HWLOCS_ORDER.iter().map(|&cpu| if cpus.contains(cpu) { 'B' } else { '.' }).collect();
    let package =
        |cores: &[char]| cores.chunks(2).map(|c| c.iter().collect()).collect::<Vec<String>>().join("/");
    letters.chunks(8).map(package).collect::<Vec<String>>().join("][")
}

/// Touches 32 MiB of its own and stays a while: what it has must be seen.
const TOUCH: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { char *p = malloc(32 << 20); memset(p, 1, 32 << 20); sleep(6); return p[5] - 1; }\n";

/// A machine of two nodes with two cpus each, another kernel's, on which a rank can be on a wrong node.
#[test]
fn on_a_virtual_machine_ranks_and_their_memory_are_on_their_nodes() {
    if !open_mpi() {
        return;
    }
    let Some(snapshot) = machine::snapshot() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("touch");
    let source = folder.path().join("touch.c");
    std::fs::write(&source, TOUCH).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    let program = program.display().to_string();
    let cpus = snapshot.shape().machine_cpus();
    let inside = |arguments: &[&str]| inside(snapshot, folder.path(), &cpus, arguments);
    let (ending, said) = inside(&["-n", "2", "-t", "2", "--", &program]);
    assert_eq!(ending, Ending::Exit(0), "{said}");
    assert_eq!(rows(&said, "may run on"), [(0, "0-1".to_owned()), (1, "2-3".to_owned())], "{said}");
    let near = |said: &str| said.lines().filter(|l| l.contains("% near")).count();
    assert_eq!(near(&said), 2, "{said}");
    let (ending, said) = inside(&["-n", "4", "-t", "1", "--", &program]);
    assert_eq!((ending, near(&said)), (Ending::Exit(0), 4), "{said}");
    // All memory on the first node: the second rank is an error.
    let (ending, said) =
        inside(&["-n", "2", "-t", "2", "--", NEARFAR, "run", "-q", "-m", "0", "--", &program]);
    assert_eq!(ending, Ending::Exit(1), "{said}");
    assert!(said.contains("of its memory on NUMA node 0") && said.contains("nearfar: rank 1 has"), "{said}");
    assert!(!said.contains("nearfar: rank 0 has"), "{said}");
}

/// How it ended there, and what it said.
fn inside(
    snapshot: &nearfar_guest::Snapshot,
    folder: &Path,
    cpus: &str,
    arguments: &[&str],
) -> (Ending, String) {
    // Programs begin on the recorder's cpu there, which is not the machine's.
    let head = ["taskset", "-c", cpus, NEARFAR, "layout", "--launcher", "mpirun"];
    let mut job = machine::job(&[&head[..], arguments].concat());
    let own = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    job.environment.extend(own.map(|name| (OsString::from(name), OsString::from("1"))));
    job.environment.push(("TMPDIR".into(), folder.into()));
    let said = machine::run(snapshot, job).unwrap_or_else(|error| panic!("{error}"));
    (said.outcome.ending, said.stderr)
}
