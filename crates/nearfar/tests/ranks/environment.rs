//! Ranks without a launcher: processes with the variables that one would set.

use super::*;

/// Variables that say which rank a process is.
pub const NAMES: [&str; 6] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_JOB_ID"];

fn record(place: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(NEARFAR);
    command.args(["record", "--no-perf"]).args(arguments).args(["--", "/bin/true"]);
    NAMES.iter().for_each(|name| _ = command.env_remove(name));
    command.envs(variables.iter().copied()).current_dir(place).output().unwrap()
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(place).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn with_slurms_variables_a_step_is_a_run_and_a_batch_script_is_not() {
    let place = tempfile::tempdir().unwrap();
    let batch = [("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "2")];
    succeeded(&record(place.path(), &batch, &[]));
    assert_eq!(names(place.path()), ["true-001.nearfar"]);
    for rank in ["0", "1"] {
        let step = [
            ("SLURM_PROCID", rank),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_LOCALID", rank),
        ];
        succeeded(&record(place.path(), &step, &[]));
    }
    assert_eq!(names(place.path()), ["ranks-slurm-7.0.nearfar", "true-001.nearfar"]);
    assert_eq!(ranks_in(&place.path().join("ranks-slurm-7.0.nearfar")).len(), 2);
}

#[test]
fn alone_a_rank_is_recorded_as_any_program() {
    let place = tempfile::tempdir().unwrap();
    let rank = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
    succeeded(&record(place.path(), &rank, &["--alone", "-o", "one"]));
    assert!(place.path().join("one/meta.json").is_file());
    let no_run =
        Command::new(NEARFAR).args(["report", "one", "--rank", "1"]).current_dir(place.path()).output();
    assert!(text(&no_run.unwrap().stderr).contains("not a run of several ranks"));
}

#[test]
fn what_wants_one_recording_says_which_to_name_when_it_gets_a_run() {
    let place = tempfile::tempdir().unwrap();
    succeeded(&record(
        place.path(),
        &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
        &["-o", "run"],
    ));
    let output = Command::new(NEARFAR)
        .args(["export", "--to", "csv", "run"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("run of several ranks"), "{}", text(&output.stderr));
}
