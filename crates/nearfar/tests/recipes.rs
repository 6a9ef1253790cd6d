//! Recipes by which others install and run nearfar (workflows, a job for GitLab, an action, Spack, an image): parsed as
//! their systems parse them, and their shells run with the variables that these systems set.

mod common;

use common::{Scratch, has, skip, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file of the repository.
fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A file in YAML; `None`, with the reason printed, where Python has no reader for it.
fn yaml(path: &str) -> Option<Value> {
    let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    // Another python3 may be first in PATH than the one with the system's packages.
    for python in ["python3", "/usr/bin/python3"] {
        let works = Command::new(python).args(["-c", "import yaml"]).output();
        if works.is_ok_and(|output| output.status.success()) {
            let output = Command::new(python).args(["-c", read]).arg(of_repository(path)).output().unwrap();
            assert!(output.status.success(), "{path}: {}", text(&output.stderr));
            return Some(serde_json::from_slice(&output.stdout).unwrap());
        }
    }
    skip("no YAML for python3 here");
    None
}

/// Everything in it that a shell runs.
fn shells(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("run", Value::String(run)) => found.push(run.clone()),
                    ("script" | "before_script" | "after_script", Value::Array(lines)) => {
                        found.push(lines.iter().map(|l| l.as_str().unwrap()).collect::<Vec<_>>().join("\n"));
                    }
                    _ => found.extend(shells(value)),
                }
            }
        }
        Value::Array(all) => found.extend(all.iter().flat_map(shells)),
        _ => {}
    }
    found
}

/// What GitHub puts in place of `${{ … }}`, as one word.
fn with_expressions(shell: &str) -> String {
    let mut pieces = shell.split("${{");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| all + "x" + piece.split_once("}}").unwrap().1)
}

/// Asserts that a shell can parse it and that the files of ours that it names are there.
fn is_sound(file: &str, shell: &str) {
    let output = Command::new("bash").args(["-n", "-c", &with_expressions(shell)]).output().unwrap();
    assert!(output.status.success(), "{file}: {}\n{shell}", text(&output.stderr));
    let words = shell.split(|c: char| c.is_whitespace() || "\"'=;()".contains(c));
    let ours = ["share/", "tests/", "zoo/", "fuzz/", "benches/", "docs/", ".ci/", "crates/"];
    for word in words.filter(|word| ours.iter().any(|folder| word.starts_with(folder))) {
        assert!(word.contains(['*', '$']) || of_repository(word).exists(), "{file} names {word}");
    }
}

const WORKFLOWS: [&str; 6] = [
    ".github/workflows/check.yml",
    ".github/workflows/nightly.yml",
    ".github/workflows/release.yml",
    "share/ci/action/action.yml",
    "share/ci/github.yml",
    "share/ci/gitlab.yml",
];

#[test]
fn every_workflow_parses_and_names_what_is_there() {
    for file in WORKFLOWS {
        let Some(parsed) = yaml(file) else { return };
        let shells = shells(&parsed);
        assert!(!shells.is_empty(), "{file}");
        for shell in shells {
            is_sound(file, &shell);
        }
    }
    let containerfile = std::fs::read_to_string(of_repository("share/Containerfile")).unwrap();
    let joined = containerfile.replace("\\\n", " ");
    let runs: Vec<&str> = joined.lines().filter_map(|line| line.strip_prefix("RUN ")).collect();
    assert_eq!(runs.len(), 2);
    for run in runs {
        is_sound("share/Containerfile", run);
    }
    // Without it, an image is built from everything that was ever built here.
    let left_out = std::fs::read_to_string(of_repository(".dockerignore")).unwrap();
    assert!(left_out.lines().any(|line| line == "target"), "{left_out}");
}

/// Inputs and outputs by the names under which they are declared.
#[test]
fn the_workflow_for_github_gives_the_action_what_it_asks_for() {
    let Some(action) = yaml("share/ci/action/action.yml") else { return };
    let Some(workflow) = yaml("share/ci/github.yml") else { return };
    let steps = action["runs"]["steps"].as_array().unwrap();
    let action_text = action.to_string();
    let named = |before: &str| -> Vec<String> {
        let rest = action_text.split(before).skip(1);
        rest.map(|r| r.split(['}', ' ']).next().unwrap().to_owned()).collect()
    };
    assert!(named("inputs.").iter().all(|name| !action["inputs"][name].is_null()), "{:?}", named("inputs."));
    for output in named("steps.") {
        let (id, name) = output.split_once(".outputs.").unwrap();
        let step = steps.iter().find(|step| step["id"] == id).unwrap();
        assert!(step["run"].as_str().unwrap().contains(&format!("echo \"{name}=")), "{output}");
    }
    let jobs = &workflow["jobs"]["numa"]["steps"];
    let used = jobs.as_array().unwrap().iter().find(|step| step["id"] == "numa").unwrap();
    let with = used["with"].as_object().unwrap();
    assert!(with.keys().all(|name| !action["inputs"][name].is_null()), "{with:?}");
    let inputs = action["inputs"].as_object().unwrap();
    assert!(inputs.iter().all(|(name, input)| input["required"] != true || with.contains_key(name)));
    let workflow_text = workflow.to_string();
    for name in workflow_text.split("steps.numa.outputs.").skip(1).map(|r| r.split([' ', '}']).next()) {
        assert!(!action["outputs"][name.unwrap()].is_null(), "{name:?}");
    }
}

/// Stand-ins for programs that a recipe calls and that must not run here: each writes down its arguments.
fn noted(scratch: &Scratch, programs: &[(&str, &str)]) -> String {
    let bin = scratch.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, does) in programs {
        let script =
            format!("#!/bin/bash\necho \"{name} $*\" >>{}\n{does}\n", scratch.path("noted").display());
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

fn notes(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.path("noted")).unwrap_or_default()
}

/// As their shells run it: it ends at the first command that fails.
fn bash(scratch: &Scratch, path: &str, shell: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", shell]);
    command.env("PATH", path).env("CI", "true").current_dir(scratch.path(""));
    command
}

/// Emulated runs are other tests' affair: this recorder records `true` here, whatever it is asked to.
fn recorder() -> String {
    let nearfar = env!("CARGO_BIN_EXE_nearfar");
    format!(
        "if [ \"$1\" = record ]; then\n  while [ \"$1\" != -o ]; do shift; done\n  \
         exec {nearfar} record -q --no-perf -o \"$2\" true\nfi\nexec {nearfar} \"$@\""
    )
}

#[test]
fn the_job_for_gitlab_installs_records_reports_and_gates() {
    let Some(parsed) = yaml("share/ci/gitlab.yml") else { return };
    if !has("make") {
        return;
    }
    let job = &parsed["numa"];
    let scratch = Scratch::new();
    std::fs::write(scratch.path("Makefile"), "bench:\n\techo 'int main;' >bench && test \"$(CFLAGS)\"\n")
        .unwrap();
    let recorder = recorder();
    let fetch = "while [ $# -gt 1 ]; do case $1 in *o) echo package >\"$2\";; esac; shift; done";
    let path = noted(&scratch, &[("nearfar", &recorder), ("apt-get", ""), ("curl", fetch)]);
    let lines = |key: &str| {
        let lines = job[key].as_array().unwrap();
        lines.iter().map(|l| l.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let mut command = bash(&scratch, &path, &(lines("before_script") + "\n" + &lines("script")));
    command.env("CI_PROJECT_DIR", scratch.path("")).env("GITLAB_CI", "true");
    for (name, value) in job["variables"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let output = command.output().unwrap();
    // Nothing is known of `true`: the gate does not pass it.
    assert_eq!(output.status.code(), Some(3), "{}{}", text(&output.stdout), text(&output.stderr));
    let notes = notes(&scratch);
    assert!(
        notes.contains("apt-get install -y ./nearfar.deb") && notes.contains("./bench --small"),
        "{notes}"
    );
    assert!(scratch.path("nearfar.deb").exists() && text(&output.stdout).contains("UNKNOWN"), "{notes}");
    let kept = job["artifacts"]["paths"].as_array().unwrap().iter();
    for path in kept.chain([&job["artifacts"]["reports"]["junit"]]) {
        assert!(scratch.path(path.as_str().unwrap()).exists(), "{path}");
    }
}

#[test]
fn the_action_installs_where_nothing_is() {
    let Some(action) = yaml("share/ci/action/action.yml") else { return };
    let install = action["runs"]["steps"][0]["run"].as_str().unwrap().to_owned();
    for (version, asked) in
        [("v0.1.0", "gh release download v0.1.0 --repo"), ("", "gh release download --repo")]
    {
        let scratch = Scratch::new();
        // The package brings the command.
        let installs = format!(
            "[ \"$2\" != install ] || ln -s {} {}",
            env!("CARGO_BIN_EXE_nearfar"),
            scratch.path("bin/nearfar").display()
        );
        let download = "while [ \"$1\" != --dir ]; do shift; done; mkdir -p \"$2\"; touch \"$2\"/nearfar_0.1.0_amd64.deb";
        let path = noted(&scratch, &[("gh", download), ("sudo", &installs)]);
        let mut command = bash(&scratch, &path, &install);
        command.env("VERSION", version).env("RUNNER_TEMP", scratch.path("temporary"));
        let output = command.output().unwrap();
        let notes = notes(&scratch);
        assert!(output.status.success(), "{notes}{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with("nearfar "), "{}", text(&output.stdout));
        let package = scratch.path("temporary/nearfar/nearfar_0.1.0_amd64.deb");
        assert!(notes.contains(asked) && notes.contains(&*package.to_string_lossy()), "{notes}");
    }
}

/// Two builds whose bytes differ are not published; the sums are of the packages, not of their own list.
#[test]
fn a_release_is_of_the_same_bytes_twice() {
    let Some(release) = yaml(".github/workflows/release.yml") else { return };
    let steps = release["jobs"]["publish"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|s| s["name"] == "The same bytes").unwrap()["run"].as_str().unwrap();
    for (second, same) in [("bytes", true), ("others", false)] {
        let scratch = Scratch::new();
        for (folder, bytes) in [("packages-0", "bytes"), ("packages-1", second)] {
            std::fs::create_dir(scratch.path(folder)).unwrap();
            std::fs::write(scratch.path(folder).join("a.deb"), bytes).unwrap();
        }
        // The list is there before the names are asked for: a pipe starts both its ends at once.
        let step = step.replace("sha256sum -- *", "{ sleep 0.2; sha256sum -- *; }");
        let output = bash(&scratch, &std::env::var("PATH").unwrap(), &step).output().unwrap();
        assert_eq!(output.status.success(), same, "{}{}", text(&output.stdout), text(&output.stderr));
        let sums = std::fs::read_to_string(scratch.path("packages-0/SHA256SUMS")).unwrap_or_default();
        assert_eq!(
            sums.lines().map(|l| l.split("  ").nth(1)).collect::<Vec<_>>(),
            vec![Some("a.deb"); same.into()]
        );
    }
}

/// What a recipe of Spack calls, as far as ours does. The classes are only those of which the whole build is the recipe's:
/// `CargoPackage` calls `cargo install` in the folder of the workspace, which has no package.
const SPACK: &str = r#"
import os, shutil, subprocess
class Package: pass
asked = []
def depends_on(spec, **when): asked.append(spec)
def version(*a, **b): pass
license = variant = version
join_path = os.path.join
def mkdirp(*paths): [os.makedirs(path, exist_ok=True) for path in paths]
def install(file, folder): assert os.path.isdir(folder), folder; shutil.copy2(file, folder)
def install_tree(a, b): shutil.copytree(a, b, dirs_exist_ok=True)
class Executable:
    def __init__(self, path): self.path = path
    def __call__(self, *words): subprocess.check_call([self.path, *words])
class Prefix(str):
    def __getattr__(self, name): return Prefix(os.path.join(self, name))
"#;

#[test]
fn the_recipe_for_spack_installs_what_works() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("python/spack")).unwrap();
    std::fs::write(scratch.path("python/spack/__init__.py"), "").unwrap();
    std::fs::write(scratch.path("python/spack/package.py"), SPACK).unwrap();
    // The sources, of which the build hands out what this test was built with.
    let built = Path::new(env!("CARGO_BIN_EXE_nearfar")).parent().unwrap();
    std::fs::create_dir_all(scratch.path("source/share/package")).unwrap();
    for folder in ["include", "machines"] {
        std::os::unix::fs::symlink(of_repository(folder), scratch.path("source").join(folder)).unwrap();
    }
    let build = format!("#!/bin/sh\nmkdir target && ln -s {} target/release\n", built.display());
    std::fs::write(scratch.path("source/share/package/build"), build).unwrap();
    let script = of_repository("share/package/build");
    let mode = std::fs::metadata(script).unwrap().permissions();
    std::fs::set_permissions(scratch.path("source/share/package/build"), mode).unwrap();
    let prefix = scratch.path("prefix");
    let run = format!(
        "import sys; sys.path[:0] = [{:?}, {:?}]\nimport package, spack.package as s\n\
         package.Nearfar().install(None, s.Prefix({prefix:?})); print(s.asked)",
        scratch.path("python"),
        of_repository("share/spack/packages/nearfar")
    );
    let mut python = Command::new("python3");
    python.args(["-Bc", &run]).current_dir(scratch.path("source"));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Spack's QEMU has no variant of that name, and its releases before 9 are without plugins.
    assert!(text(&output.stdout).contains("'qemu@9.1:'"), "{}", text(&output.stdout));
    let installed =
        |words: &[&str]| -> Output { Command::new(prefix.join("bin/nearfar")).args(words).output().unwrap() };
    assert!(installed(&["--version"]).status.success());
    let doctor = text(&installed(&["doctor", "--json"]).stdout);
    assert!(!doctor.contains("libnearfar_qemu_plugin.so is missing"), "{doctor}");
    assert!(!doctor.contains("nearfar-inside, is missing"), "{doctor}");
    for file in [
        "share/man/man1/nearfar-record.1",
        "include/nearfar.h",
        "share/nearfar/machines/xeon-e5-2699v4-2s.toml",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
}
