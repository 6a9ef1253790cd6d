//! Programs that cannot load the agent, and machines that hide what they are.

mod common;

use common::{Scratch, nearfar, skip, text};
use std::process::Command;

const FINE: &str = r#"int main(void) { void *p = malloc(300000); puts(p ? "fine" : "poor"); return 3; }"#;

#[test]
fn a_program_of_32_bits_runs_without_a_complaint_of_its_loader() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("narrow.c"), "#include <stdio.h>\n#include <stdlib.h>\n".to_owned() + FINE)
        .unwrap();
    let program = scratch.path("narrow");
    let built =
        Command::new("gcc").arg("-m32").arg("-o").arg(&program).arg(scratch.path("narrow.c")).output();
    if !built.is_ok_and(|b| b.status.success())
        || !Command::new(&program).output().is_ok_and(|o| !o.stdout.is_empty())
    {
        return skip("no C library of 32 bits (Debian: gcc-multilib, libc6-dev-i386)");
    }
    // By itself, and as the child of a program that has the agent.
    let whole = program.display().to_string();
    let script = format!("{whole}; exit $?");
    for (name, command) in [("r", vec![whole.as_str()]), ("child", vec!["bash", "-c", &script])] {
        let output = scratch.recorder(name, &[]).args(&command).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("fine\n", Some(3)), "{said}");
        assert!(!said.contains("ld.so") && !said.contains("ELFCLASS"), "{said}");
    }
    let notes = scratch.report("r", &[]).notes();
    assert!(notes.contains("built for another processor or word size"), "{notes}");
}

#[test]
fn a_static_program_is_recorded_and_the_report_says_what_is_left_out() {
    let scratch = Scratch::new();
    let program = scratch.compile("gcc", "still.c", &format!("{}{FINE}", common::PRELUDE), &["-static"]);
    let run = scratch.recorder("r", &["-q"]).arg(&program).output().unwrap();
    assert_eq!((text(&run.stdout).as_str(), text(&run.stderr).as_str()), ("fine\n", ""));
    let notes = scratch.report("r", &[]).notes();
    assert!(notes.contains("statically linked"), "{notes}");
}

/// `command` where an empty file system lies over `path`; `None`, with the reason said, without the rights.
fn hiding(path: &str, command: &Command) -> Option<std::process::Output> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        skip("only root can hide /sys");
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", "mount -t tmpfs none \"$0\" || exit 111; exec \"$@\"", path]);
    let output =
        unshare.arg(command.get_program()).args(command.get_args()).env_remove("LD_PRELOAD").output();
    match output {
        Ok(output) if output.status.code() == Some(111) => skip("no file system can be mounted here"),
        Err(error) => skip(&error.to_string()),
        Ok(output) => return Some(output),
    }
    None
}

#[test]
fn without_sys_a_program_is_recorded_and_the_machine_is_what_the_kernel_names() {
    let scratch = Scratch::new();
    let program = scratch.c("fine", FINE);
    for (name, path) in [("r", "/sys"), ("n", "/sys/devices/system/node")] {
        let mut recorder = scratch.recorder(name, &["-q"]);
        let Some(output) = hiding(path, recorder.arg(&program)) else { return };
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("fine\n", Some(3)), "{output:?}");
        let notes = scratch.report(name, &[]).notes();
        assert!(notes.contains("/sys is not mounted"), "{path}: {notes}");
        let there = nearfar().args(["topo", "--json"]).output().unwrap();
        let mut command = nearfar();
        let hidden = hiding(path, command.args(["topo", "--json"])).unwrap();
        let json = |output: &std::process::Output| -> serde_json::Value {
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
        };
        let (there, hidden) = (json(&there), json(&hidden));
        let nodes = |value: &serde_json::Value| -> Vec<(String, String)> {
            let nodes = value["nodes"].as_array().unwrap().iter();
            nodes.map(|n| (n["id"].to_string(), n["cpus"].to_string())).collect()
        };
        assert_eq!(nodes(&hidden), nodes(&there), "{path}");
        if path == "/sys" {
            assert!(hidden["caches"].is_null(), "{}", hidden["caches"]);
        }
    }
}
