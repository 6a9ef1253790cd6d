//! What a person or a recording names as an input file, and is none.

use crate::common::{Scratch, nearfar, text};
use crate::made::Made;
use clap::{Arg, Command as Definition};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Value names of what is opened for reading.
const INPUTS: [&str; 7] = ["FILE", "MACHINE", "DIR", "REC", "BEFORE", "AFTER", "PATH"];
/// Flags of these value names that name what is made.
const MADE: [&str; 8] = ["output", "keep", "svg", "capture", "html", "directory", "csv", "junit"];
/// No command takes so long to refuse a file. // chosen
const HANGS: Duration = Duration::from_secs(60);

/// Runs a command that must end by itself.
fn ended(mut command: Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > HANGS {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it waits for ever: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Commands and their flags that name input files, from the definition of the command line.
fn inputs() -> Vec<(String, Arg)> {
    let named = |arg: &Arg| {
        let names: Vec<String> =
            arg.get_value_names().unwrap_or_default().iter().map(|n| n.to_string()).collect();
        names.iter().any(|n| INPUTS.contains(&n.as_str())) && !MADE.contains(&arg.get_id().as_str())
    };
    let of = |sub: &Definition| {
        let name = sub.get_name().to_owned();
        sub.get_arguments()
            .filter(|a| named(a) && !a.is_hide_set())
            .map(move |a| (name.clone(), a.clone()))
            .collect::<Vec<_>>()
    };
    nearfar::cli::command().get_subcommands().flat_map(of).collect()
}

/// The command line with `file` for this flag, and with what the command needs besides.
fn line(sub: &str, arg: &Arg, file: &Path, scratch: &Scratch) -> Command {
    let mut command = nearfar();
    // `record` would name its recording after the program, in this directory.
    command.current_dir(scratch.directory()).arg(sub);
    match (arg.get_long(), sub) {
        (Some(long), _) => command.arg(format!("--{long}")).arg(file),
        (None, "diff") => command.args([file, file]),
        (None, "show") => command.arg("field").arg(file),
        (None, _) => command.arg(file),
    };
    let definition = nearfar::cli::command();
    let definition = definition.find_subcommand(sub).unwrap();
    // `top` takes a command only for an emulated machine.
    let takes = sub != "top" || arg.get_id() == "on";
    if takes && definition.get_arguments().any(|a| a.get_id() == "command") {
        command.args(["--", "true"]);
    }
    if sub == "diff" && arg.get_long().is_some() {
        let recording = Made::default().finished(&scratch.path(&format!("for-{}", arg.get_id())));
        command.args([&recording, &recording]);
    }
    if sub == "show" && arg.get_long().is_some() {
        command.arg("field");
    }
    if ["report", "fix", "export", "show"].contains(&sub) && arg.get_long().is_some() {
        command.arg(Made::default().finished(&scratch.path(&format!("for-{sub}-{}", arg.get_id()))));
    }
    if sub == "import" && arg.get_long().is_some() {
        command.arg(file);
    }
    if sub == "export" && arg.get_id() != "to" {
        command.args(["--to", "perfetto"]);
    }
    command
}

#[test]
fn no_flag_waits_for_a_file_that_is_none() {
    let all = inputs();
    assert!(all.len() >= 20, "{}", all.len());
    for (sub, arg) in all {
        for (kind, word) in [("fifo", "FIFO"), ("zero", "device")] {
            let scratch = Scratch::new();
            let file = match kind {
                "zero" => Path::new("/dev/zero").to_owned(),
                _ => {
                    let fifo = scratch.path("fifo");
                    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
                    fifo
                }
            };
            let output = ended(line(&sub, &arg, &file, &scratch));
            let said = text(&output.stderr);
            let name = format!("{sub} {}: {said}", arg.get_id());
            // 1: what `reproduce --from` finds nothing in.
            assert!(matches!(output.status.code(), Some(1 | 2)), "{name}");
            let directory =
                ["DIR", "REC", "BEFORE", "AFTER"].contains(&arg.get_value_names().unwrap()[0].as_str());
            assert!(directory || said.contains(word), "{name}");
            assert!(said.contains(file.to_str().unwrap()) && !said.contains("panicked"), "{name}");
        }
    }
}

/// The kernel refuses to run it, and so it is nothing to read either.
#[test]
fn a_program_that_is_a_fifo_is_not_waited_for() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o755)).unwrap();
    for words in [&["record", "-o", "r"][..], &["run", "-N", "0"], &["where"]] {
        let mut command = nearfar();
        command.current_dir(scratch.directory()).args(words).arg(&fifo);
        let output = ended(command);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(126) && said.contains("fifo"), "{words:?}: {said}");
    }
}

#[test]
fn a_captured_machine_with_a_fifo_in_it_is_not_waited_for() {
    let scratch = Scratch::new();
    let node = scratch.path("tree/sys/devices/system/node/node0");
    fs::create_dir_all(&node).unwrap();
    fs::create_dir_all(scratch.path("tree/sys/devices/system/cpu")).unwrap();
    fs::write(scratch.path("tree/sys/devices/system/cpu/online"), "0\n").unwrap();
    fs::write(node.join("cpulist"), "0\n").unwrap();
    for file in ["meminfo", "distance"] {
        assert!(Command::new("mkfifo").arg(node.join(file)).status().unwrap().success());
    }
    let mut command = nearfar();
    command.args(["topo", "--from"]).arg(scratch.path("tree"));
    let output = ended(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_recording_names_no_file_of_this_host_to_be_opened() {
    let scratch = Scratch::new();
    let recording = Made::default().finished(&scratch.path("r"));
    let file = recording.join("meta.json");
    let good: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let secret = scratch.path("secret");
    fs::write(&secret, "root:x:0:0:root\n").unwrap();
    // One that could be used would be opened without a word.
    let machine = scratch.path("machine.toml");
    fs::write(&machine, nearfar_machine::Machine::from_shape("4x2").unwrap().to_toml()).unwrap();
    let paths = [&fifo, &secret, &machine].map(|p| p.to_str().unwrap());
    for name in paths.into_iter().chain(["/dev/zero", "../../../../../etc/passwd"]) {
        let mut meta = good.clone();
        meta["wish"] = name.into();
        fs::write(&file, meta.to_string()).unwrap();
        let report = |flags: &[&str]| {
            let mut command = nearfar();
            command.arg("report").arg(&recording).args(flags);
            ended(command)
        };
        let output = report(&[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(
            said.contains(name) && said.contains("--as here") && !said.contains("root:x"),
            "{name}: {said}"
        );
        assert!(report(&["--as", "here"]).status.success(), "{name}");
    }
    // Names that need no file are taken.
    let mut meta = good.clone();
    meta["wish"] = "4x4".into();
    fs::write(&file, meta.to_string()).unwrap();
    assert!(nearfar().arg("report").arg(&recording).output().unwrap().status.success());
}

#[test]
fn a_recording_holds_the_machine_that_it_is_to_be_judged_by() {
    let scratch = Scratch::new();
    let machine = nearfar_machine::Machine::from_shape("4x2").unwrap();
    let file = scratch.path("mine.toml");
    fs::write(&file, machine.to_toml()).unwrap();
    let output = scratch.recorder("r", &["--as", file.to_str().unwrap()]).arg("true").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::remove_file(&file).unwrap();
    let report = scratch.report("r", &[]);
    assert_eq!(report.0["machine"]["nodes"], 4, "{}", report.0["machine"]);
}

#[test]
fn absurd_numbers_in_shapes_and_lists_are_refused() {
    let absurd = |value_name: &str| -> &[&str] {
        match value_name {
            "MACHINE" => &["99999x99999", "4294967296x1", "0x0", "18446744073709551616x2", "2x1e308"],
            "CPUS" | "NODES" | "NODE" | "LAYOUT" | "THREADS" => {
                &["0-4294967295", "4294967295", "18446744073709551616", "0-1e308", "S0:0-4294967295"]
            }
            _ => &[],
        }
    };
    let mut tried = 0;
    for sub in nearfar::cli::command().get_subcommands() {
        for arg in sub.get_arguments().filter(|a| !a.is_hide_set()) {
            let name =
                arg.get_value_names().unwrap_or_default().first().map(|n| n.to_string()).unwrap_or_default();
            for value in absurd(&name) {
                let scratch = Scratch::new();
                let output = ended(line(sub.get_name(), arg, Path::new(value), &scratch));
                let said = text(&output.stderr);
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{} {} {value}: {said}",
                    sub.get_name(),
                    arg.get_id()
                );
                assert!(!said.contains("panicked"), "{said}");
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
}
