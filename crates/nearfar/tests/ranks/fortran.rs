//! A program in Fortran with a halo exchange computes what it computes alone, and its calls of MPI are phases.

use super::{NEARFAR, json, launchers, mpirun, succeeded};
use std::path::Path;
use std::process::Command;

#[test]
fn a_halo_exchange_in_fortran_is_recorded_and_has_its_result() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/halo.f90");
    for launcher in launchers() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("halo");
        let compiler = launcher.mpirun.replace("mpirun", "mpifort");
        let compiled = Command::new(compiler).arg(&source).arg("-g").arg("-o").arg(&program).output();
        match compiled {
            Ok(output) => succeeded(&output),
            Err(_) => {
                println!("skipped: no gfortran for MPI");
                continue;
            }
        };
        let sum = |command: &mut Command| {
            let said = succeeded(&command.output().unwrap());
            said.lines().find(|line| line.starts_with("sum ")).unwrap().to_owned()
        };
        let alone = sum(mpirun(launcher, 3, place.path()).arg(&program));
        let mut recorded = mpirun(launcher, 3, place.path());
        recorded.args([NEARFAR, "record", "-o", "run/", "--"]).arg(&program);
        assert_eq!(sum(&mut recorded), alone);
        let of_one = json(place.path(), &["run", "--rank", "1"]);
        let phases = of_one["phases"]["nodes"].as_array().unwrap();
        let calls = |name: &str| phases.iter().find(|p| p["name"] == name).map(|p| p["all"]["calls"].clone());
        assert_eq!(calls("MPI_Sendrecv()"), Some(40.into()), "{phases:?}");
        // All ranks under one recording, as a user types it first.
        let mut whole = Command::new(NEARFAR);
        whole.args(["record", "-o", "whole", "--"]).current_dir(place.path());
        let inner = mpirun(launcher, 3, place.path());
        whole.arg(inner.get_program()).args(inner.get_args()).arg(&program);
        whole.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert_eq!(sum(&mut whole), alone);
    }
}
