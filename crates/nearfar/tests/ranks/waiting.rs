//! Of the time in MPI's library, what a rank waits for others is told from what it works there.

use super::{NEARFAR, json, launchers, mpirun, succeeded};
use std::path::Path;
use std::process::Command;

/// How far the share of samples may be from that of CPU time: the kernel divides that by its ticks, and the recording has the beginning and
/// the end of the program, and the launcher, which the program does not count.
const SLACK: f64 = 0.15;

#[test]
fn a_rank_that_waits_in_mpi_is_told_from_one_that_reduces_there() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/waiting.c");
    for launcher in launchers() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("waiting");
        let compiler = launcher.mpirun.replace("mpirun", "mpicc");
        let compiled = Command::new(compiler).arg(&source).arg("-g").arg("-o").arg(&program).output();
        succeeded(&compiled.unwrap());
        let mut whole = Command::new(NEARFAR);
        whole.args(["record", "-o", "whole", "--"]).current_dir(place.path());
        let inner = mpirun(launcher, 2, place.path());
        whole.arg(inner.get_program()).args(inner.get_args()).arg(&program);
        whole.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let said = succeeded(&whole.output().unwrap());
        let [mut used, mut waited] = [0.0, 0.0];
        for line in said.lines().filter(|line| line.starts_with("rank ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            used += words[3].parse::<f64>().unwrap();
            waited += words[5].parse::<f64>().unwrap();
        }
        let truth = waited / used;
        let report = json(place.path(), &["whole"]);
        let told = report["spinning_share"].as_f64().unwrap();
        println!("{}: {told:.3} told, {truth:.3} by its own clock", launcher.mpirun);
        // The second rank has a quarter of the first one's work: without waiting there is nothing to tell.
        assert!(truth > 0.2 && (told - truth).abs() < SLACK, "{told} is not {truth}: {said}");
        // The reductions are in MPI's library, too, and work on the program's arrays.
        let objects = report["objects"].as_array().unwrap();
        let arrays = objects.iter().filter(|o| ["from", "to"].contains(&o["name"].as_str().unwrap()));
        let worked: f64 = arrays.map(|o| o["stall_share"].as_f64().unwrap()).sum();
        assert!(worked > 1.0 - truth - SLACK, "{worked} of the time is on its arrays: {said}");
    }
}
