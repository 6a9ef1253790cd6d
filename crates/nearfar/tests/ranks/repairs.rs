//! `fix` and `layout` of a run: what is written for which ranks, and what is said of their binding.

use super::*;

fn said(place: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(NEARFAR).args(arguments).current_dir(place).output().unwrap();
    (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

/// What the script of `fix` starts for a rank: the words of a stand-in for nearfar, or of the program.
fn started(place: &Path, script: &str, variable: &str, rank: &str, words: &[&str]) -> String {
    let mut command = Command::new("sh");
    command.arg(script).args(words).env("NEARFAR", "echo").current_dir(place);
    crate::environment::NAMES.iter().for_each(|name| _ = command.env_remove(name));
    succeeded(&command.env(variable, rank).output().unwrap()).trim().to_owned()
}

/// Each rank has its host for itself, and rank 1 has one thread. Both nodes are the rank's.
#[test]
fn each_kind_of_rank_gets_its_placement_file_and_the_script_picks_it() {
    let unshare = Command::new("unshare").args(["-u", "true"]).output();
    if two_halves().is_none_or(|halves| halves != (0, 1)) || !unshare.is_ok_and(|o| o.status.success()) {
        println!("skipped: no unshare of the host's name (root only), or not exactly two cpus");
        return;
    }
    // The recorders tell the ranks apart, whatever launched them: one launcher for each run is enough.
    let all = launchers();
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return };
    let place = tempfile::tempdir().unwrap();
    let host = "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n[ $rank = $ONE ] && export OMP_NUM_THREADS=1\n\
                exec unshare -u sh -c \"hostname node$rank; exec \\\"\\$@\\\"\" sh \"$@\"\n";
    std::fs::write(place.path().join("host"), host).unwrap();
    for (launcher, one, run) in [(first, "1", "three"), (last, "none", "same")] {
        let mut command = mpirun(launcher, 3, place.path());
        if launcher.mpirun == "mpirun.openmpi" {
            command.args(["--bind-to", "none"]);
        }
        command.args(["sh", "./host", NEARFAR, "record", "--as", "2x1", "-o", run, "--"]);
        command.arg(&launcher.program).args(field()).env("ONE", one);
        succeeded(&command.output().unwrap());
    }
    let (code, three) = said(place.path(), &["fix", "three"]);
    assert_eq!(code, Some(0), "{three}");
    assert!(three.contains("rank 1: nothing to place: "), "{three}");
    assert!(three.contains(": rank 0,2: places field; gain ") && three.contains("% less time"), "{three}");
    let file = ["0", "2"].map(|n| format!("three.placements/ranks-of-{n}.placement"));
    let file = file.iter().find(|file| place.path().join(file).exists()).expect(&three);
    let written = std::fs::read_to_string(place.path().join(file)).unwrap();
    assert!(written.contains("policy = \"blocks\"") && written.contains("# Ranks 0,2: "), "{written}");
    let script = "three.placements/place";
    let ask = |variable, rank, words: &[&str]| started(place.path(), script, variable, rank, words);
    let placed = format!("run --placement {file} -- ./app");
    assert_eq!(ask("OMPI_COMM_WORLD_RANK", "2", &["run", "--", "./app"]), placed);
    assert_eq!(ask("SLURM_PROCID", "0", &["run", "--", "./app"]), placed);
    let again = format!("record --placement {file} -o after -- ./app");
    assert_eq!(ask("PMI_RANK", "0", &["record", "-o", "after", "--", "./app"]), again);
    assert_eq!(ask("PMIX_RANK", "1", &["run", "--", "echo", "as it is"]), "as it is");
    assert_eq!(ask("PMI_RANK", "1", &["record", "--", "./app"]), "record -- ./app");
    let pinned = ["run", "--", "sh", "-c", "echo $OMP_PROC_BIND"];
    assert_eq!(ask("PMI_RANK", "1", &pinned), "", "a rank without a file runs as it is");

    // Where all ranks need the same there is one file, and the line is the launcher's and `run`.
    let (code, same) = said(place.path(), &["fix", "same"]);
    assert_eq!(code, Some(0), "{same}");
    assert!(
        place.path().join("same.placement").is_file() && same.contains("rank 0-2: places field"),
        "{same}"
    );
    assert!(same.contains("-n 3 nearfar run --bind compact --placement same.placement -- "), "{same}");
    assert_eq!(said(place.path(), &["fix", "same"]).0, Some(2), "it is not overwritten");
}

/// Called where a rank of four was bound to both nodes: the others have these cpus, too.
pub fn are_named(place: &Path, launcher: &Launcher) {
    let (code, layout) = said(place, &["layout", "run"]);
    assert_eq!(code, Some(1), "{layout}");
    assert!(
        layout.contains("    rank 2 is bound to cpus ") && layout.contains("most ranks are on 1 node"),
        "{layout}"
    );
    assert_eq!(layout.matches(" is bound to cpus ").count(), 1, "{layout}");
    let line = if launcher.mpirun == "mpirun.openmpi" { "mpirun -np 4 " } else { " -n 4 -bind-to user:" };
    assert!(layout.contains(line), "{layout}");
    let (code, fix) = said(place, &["fix", "run"]);
    assert!(code == Some(0) && fix.contains("Bind the ranks first: nearfar layout run"), "{fix}");
    assert!(!place.join("run.placement").exists() && !place.join("run.placements").exists());
}
