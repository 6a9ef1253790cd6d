//! One rank of a host counts what is the host's; another goes on when its recorder is gone.

use super::{NEARFAR, environment, json, launchers, mpirun, ranks_in, report, succeeded};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn counted_by(run: &Value) -> Vec<u64> {
    let by = run["hosts"][0]["by"].as_array().unwrap_or_else(|| panic!("{run}"));
    by.iter().map(|by| by["rank"].as_u64().unwrap()).collect()
}

/// Pages placed on node 0, as the run's report has them.
fn placed(run: &Value) -> Option<f64> {
    let values = run["hosts"][0]["values"].as_array()?;
    values.iter().find(|v| v["name"] == "numa_hit" && v["of"] == "node 0")?["value"].as_f64()
}

#[test]
fn one_rank_of_open_mpi_counts_its_host_and_the_others_say_which() {
    let Some(launcher) = launchers().iter().find(|l| l.mpirun == "mpirun.openmpi") else { return };
    let place = tempfile::tempdir().unwrap();
    let mut command = mpirun(launcher, 3, place.path());
    command.args([NEARFAR, "record", "-o", "run", "--"]).arg(&launcher.program).args(["8", "3"]);
    succeeded(&command.output().unwrap());
    let run = json(place.path(), &["run"]);
    let by = counted_by(&run);
    // The first may end more than a second before another one, which then goes on.
    assert!((1..=3).contains(&by.len()), "{run}");
    let mut counting = 0;
    for path in ranks_in(&place.path().join("run")) {
        let one = json(place.path(), &[path.to_str().unwrap()]);
        let host = one["counted_along"]["host"].as_array().unwrap();
        let refused = host.iter().find(|v| v["name"] == "the host's counters");
        counting += usize::from(refused.is_none());
        if let Some(refused) = refused {
            assert!(refused["why"].as_str().unwrap().contains("counts them for all ranks"), "{refused}");
        }
    }
    assert_eq!(counting, by.len(), "{by:?}");
    if Path::new("/sys/devices/system/node/node0/numastat").exists() {
        // Each rank placed 8 MiB while the first counted.
        assert!(placed(&run).unwrap() > 0.0, "{run}");
        let page = report(place.path(), &["run"]);
        assert!(page.contains(&format!("counted by rank {}", by[0])) && page.contains("numastat"), "{page}");
    }
}

fn rank(place: &Path, number: &str, seconds: &str) -> Child {
    let mut command = Command::new(NEARFAR);
    environment::NAMES.iter().for_each(|name| _ = command.env_remove(name));
    command.args(["record", "-o", "run", "--", "sleep", seconds]).current_dir(place).stderr(Stdio::null());
    let (size, job) = (("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_NAMESPACE", "counted"));
    command.envs([("OMPI_COMM_WORLD_RANK", number), size, job]).spawn().unwrap()
}

#[test]
fn another_rank_goes_on_when_the_recorder_that_counted_was_killed() {
    let place = tempfile::tempdir().unwrap();
    let mut first = rank(place.path(), "0", "20");
    let elected = |number: u32| {
        let host = std::fs::read_dir(place.path().join("run")).into_iter().flatten().flatten();
        host.map(|e| e.path()).any(|host| host.join(format!("counting.{number}")).exists())
    };
    let wait_for = |number| {
        let begin = Instant::now();
        while !elected(number) {
            assert!(begin.elapsed() < Duration::from_secs(120), "nobody made counting.{number}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(1);
    let mut second = rank(place.path(), "1", "20");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for(2);
    // It has counted for a while when its program ends.
    std::thread::sleep(Duration::from_secs(3));
    // SAFETY: a plain system call on a child that is not reaped yet.
    unsafe { libc::kill(second.id() as i32, libc::SIGTERM) };
    second.wait().unwrap();
    let run = json(place.path(), &["run"]);
    assert!(counted_by(&run).contains(&1), "{run}");
}
