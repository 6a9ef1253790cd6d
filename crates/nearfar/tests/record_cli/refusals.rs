//! What is refused, and what is said of it.

use crate::common::{Scratch, nearfar, perf_works, text, workload};
use crate::programs::refused;
use std::process::Command;

#[test]
fn what_cannot_be_run_is_refused_as_by_a_shell_and_leaves_nothing() {
    let scratch = Scratch::new();
    let start = |program: &str| refused(scratch.recorder("r", &[]).arg(program));
    let (status, message) = start("no-such-program-anywhere");
    assert_eq!(status, Some(127));
    assert!(message.contains("no-such-program-anywhere: not found"), "{message}");
    std::fs::write(scratch.path("plain"), "no program").unwrap();
    let (status, message) = start(scratch.path("plain").to_str().unwrap());
    assert_eq!(status, Some(126));
    assert!(message.contains("chmod +x"), "{message}");
    let (status, message) = start(scratch.directory().to_str().unwrap());
    assert_eq!(status, Some(126));
    assert!(message.contains("directory"), "{message}");
    assert!(!scratch.path("r").exists());
    let (status, message) = refused(nearfar().args(["record", "--no-such-flag", "--", "true"]));
    assert_eq!(status, Some(2));
    assert!(message.contains("--no-such-flag"), "{message}");
    let (status, message) = refused(nearfar().args(["record", "-p", "999999999"]));
    assert_eq!(status, Some(2));
    assert!(message.contains("999999999"), "{message}");
}

#[test]
fn an_existing_output_is_refused_and_untouched() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("r")).unwrap();
    std::fs::write(scratch.path("r/mine"), "keep").unwrap();
    let mark = scratch.path("ran");
    let (status, message) = refused(scratch.recorder("r", &[]).arg("touch").arg(&mark));
    assert_eq!(status, Some(2));
    assert!(message.contains("exists already"), "{message}");
    assert!(!mark.exists(), "the program ran all the same");
    assert_eq!(std::fs::read_to_string(scratch.path("r/mine")).unwrap(), "keep");
    assert_eq!(std::fs::read_dir(scratch.path("r")).unwrap().count(), 1);
}

#[test]
fn what_is_no_recording_is_named_with_the_reason() {
    let scratch = Scratch::new();
    let open = |name: &str| {
        let (status, message) = refused(nearfar().arg("report").arg(scratch.path(name)));
        assert_eq!(status, Some(2), "{message}");
        assert!(message.contains(name), "{message}");
        message
    };
    assert!(open("absent").contains("does not exist"));
    std::fs::create_dir(scratch.path("foreign")).unwrap();
    assert!(open("foreign").contains("no meta.json"));
    std::fs::write(scratch.path("file"), "").unwrap();
    assert!(open("file").contains("is a directory"));
    let (status, message) = refused(nearfar().arg("report").current_dir(scratch.directory()));
    assert_eq!(status, Some(2));
    assert!(message.contains("*.nearfar"), "{message}");

    scratch.record("whole", &[], &["bash", "-c", "true"]);
    let meta = std::fs::read_to_string(scratch.path("whole/meta.json")).unwrap();
    let copy = |name: &str| {
        let status =
            Command::new("cp").arg("-r").arg(scratch.path("whole")).arg(scratch.path(name)).status().unwrap();
        assert!(status.success());
    };
    copy("newer");
    let mut value: serde_json::Value = serde_json::from_str(&meta).unwrap();
    value["format"] = 4_000_000_000u32.into();
    value["nearfar"] = "77.0.0".into();
    std::fs::write(scratch.path("newer/meta.json"), value.to_string()).unwrap();
    let message = open("newer");
    assert!(message.contains("4000000000") && message.contains("77.0.0"), "{message}");
    copy("garbled");
    std::fs::write(scratch.path("garbled/meta.json"), &meta[..meta.len() / 2]).unwrap();
    open("garbled");

    let tables: Vec<_> = std::fs::read_dir(scratch.path("whole/run/rank=0"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(tables.len() >= 18, "{tables:?}");
    for (i, table) in tables.iter().enumerate() {
        let name = format!("cut{i}");
        copy(&name);
        let path = scratch.path(&name).join("run/rank=0").join(table);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() * (i % 4) / 4]).unwrap();
        // What there is without it is reported, with what is missing; without threads or samples there is nothing.
        let output = nearfar().args(["report", "--details"]).arg(scratch.path(&name)).output().unwrap();
        let essential = ["threads-", "processes-", "samples-"].iter().any(|t| table.starts_with(t));
        assert_eq!(output.status.code(), Some(if essential { 2 } else { 0 }), "{}", text(&output.stderr));
        let message = text(&output.stdout) + &text(&output.stderr);
        assert!(message.contains(table.as_str()), "{table}: {message}");
    }
}

#[test]
fn a_program_too_short_for_samples_gets_no_verdict() {
    let scratch = Scratch::new();
    let run = scratch.record("r", &[], &["true"]);
    assert_eq!(run.report.verdict(), "unknown");
    assert!(run.report.0["remote_share"].is_null(), "{}", run.report.0["remote_share"]);
}

#[test]
fn a_report_can_fail_a_build_and_refuses_machines_it_does_not_know() {
    let (true, Some(program)) = (perf_works(), workload("triad")) else { return };
    let scratch = Scratch::new();
    // 128 MiB an array: more than caches hold.
    let command = [program.to_str().unwrap(), "--elements", "16000000", "--iterations", "40"];
    let run = scratch.record("r", &[], &command);
    assert_eq!(run.report.verdict(), "affected", "{}", run.report.0["verdict_why"]);
    let report = |flags: &[&str]| {
        let output = nearfar().arg("report").arg(scratch.path("r")).args(flags).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(report(&[]).0, Some(0));
    assert_eq!(report(&["--fail-on", "affected"]).0, Some(1));
    assert_eq!(report(&["--fail-on", "unknown"]).0, Some(1));
    // A machine of one node gets no verdict, and what has none passes no gate.
    assert_eq!(report(&["--fail-on", "affected", "--as", "1x4"]).0, Some(3));
    for garbage in ["garbage", "0x4", "2x", "-1x1", "99999999x99999999"] {
        let (status, message) = report(&[&format!("--as={garbage}")]);
        assert_eq!(status, Some(2), "{garbage}: {message}");
        assert!(message.contains(garbage) && !message.contains("panicked"), "{message}");
    }
}

#[test]
fn an_unknown_option_before_the_program_is_refused_with_the_nearest_name() {
    for (sub, wrong, right) in
        [("run", "--menbind", "--membind"), ("layout", "--rank", "--ranks"), ("cure", "--ruins", "--runs")]
    {
        let (status, message) = refused(nearfar().args([sub, wrong, "0", "--", "true"]));
        assert_eq!(status, Some(2), "{message}");
        assert!(message.contains(wrong) && message.contains(right), "{message}");
    }
    // Behind `--` it is the program's name.
    let (status, message) = refused(nearfar().args(["run", "-N", "0", "--", "--menbind"]));
    assert_eq!(status, Some(127), "{message}");
}

#[test]
fn check_refuses_what_it_cannot_look_for() {
    let (status, message) = refused(nearfar().args(["check", "--metric", "seconds: [0-9.]+", "--", "true"]));
    assert_eq!(status, Some(2), "{message}");
    assert!(message.contains("no group"), "{message}");
    let (status, message) = refused(nearfar().args(["check", "--only", "nosuch", "--", "true"]));
    assert_eq!(status, Some(2), "{message}");
    assert!(message.contains("`nosuch`"), "{message}");
}

/// A machine that comes with nearfar and is advised can be emulated; a shape cannot.
#[test]
fn what_is_advised_for_one_node_works() {
    let output = nearfar().args(["where", &std::process::id().to_string()]).output().unwrap();
    let said = text(&output.stderr);
    let words: Vec<&str> = said.split_whitespace().collect();
    let Some(at) = words.iter().position(|word| *word == "--on") else {
        // Several nodes: nothing is advised.
        return assert!(!said.contains("one memory node"), "{said}");
    };
    let machine = nearfar_host::discover::machine_from_argument(words[at + 1]).unwrap();
    assert!(machine.missing_to_simulate().is_empty(), "{said}");
    let shape = nearfar_host::discover::machine_from_argument("2x2").unwrap();
    assert!(!shape.missing_to_simulate().is_empty());
}

#[test]
fn what_is_kept_for_emulated_machines_is_shown_and_removed() {
    let scratch = Scratch::new();
    let cache = |flags: &[&str]| {
        let output =
            nearfar().arg("cache").args(flags).env("XDG_CACHE_HOME", scratch.directory()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let guest = scratch.path("nearfar/guest");
    assert!(cache(&[]).contains(": 0 B"));
    std::fs::create_dir(guest.join("kernels")).unwrap();
    std::fs::write(guest.join("0123.snapshot"), vec![1; 3 << 20]).unwrap();
    std::fs::write(guest.join("kernels/vmlinuz"), vec![1; 2 << 20]).unwrap();
    let shown = cache(&[]);
    for words in ["3.0 MiB  booted machine 0123.snapshot, used today", "2.0 MiB  kernel vmlinuz", "--clear"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(cache(&["--clear"]).contains("removed"));
    assert!(!guest.join("0123.snapshot").exists() && !guest.join("kernels").exists());
    assert!(cache(&[]).contains(": 0 B"));
}

/// Doctor says of the virtual machine what `record --on` needs: QEMU, its plugin, a kernel.
#[test]
fn doctor_knows_the_virtual_machine() {
    let simulated = |path: Option<&str>| {
        let mut command = nearfar();
        command.args(["doctor", "--json"]);
        if let Some(path) = path {
            command.env("NEARFAR_QEMU", path);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        all["sources"].as_array().unwrap().iter().find(|r| r["source"] == "simulated").unwrap().clone()
    };
    let here = simulated(None);
    let qemu = nearfar_guest::Qemu::find();
    let plugin = nearfar_record::collect::on::plugin_files();
    match (&qemu, &plugin) {
        (Ok(qemu), Ok(_)) if qemu.plugins => {
            assert!(here["why"].as_str().unwrap().contains("QEMU") || here["works"] == false, "{here}")
        }
        _ => assert_eq!(here["works"], false, "{here}"),
    }
    let none = simulated(Some("/no/such/qemu"));
    assert_eq!(none["works"], false);
    assert!(none["why"].as_str().unwrap().contains("/no/such/qemu"), "{none}");
    assert_eq!(none["unlock"], "sudo apt install qemu-system-x86");
}

/// On a full disk: the picture is there as a whole or not at all.
#[test]
fn a_picture_that_cannot_be_written_leaves_nothing() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return crate::common::skip("a small file system needs root");
    }
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8k", "none"]).arg(&disk).status();
    if !mounted.is_ok_and(|s| s.success()) {
        return crate::common::skip("no tmpfs can be mounted here");
    }
    let picture = disk.join("machine.svg");
    let draw = |flags: &[&str]| {
        refused(nearfar().args(["topo", "--as", "xeon-8480p-2s", "--svg"]).arg(&picture).args(flags))
    };
    std::fs::write(disk.join("filler"), vec![1; 4096]).unwrap();
    let (status, message) = draw(&[]);
    let there = picture.exists();
    // One that was there before stays as it was.
    let _ = std::fs::write(&picture, "old");
    let again = draw(&["--force"]);
    let old = std::fs::read_to_string(&picture);
    let left = std::fs::read_dir(&disk).unwrap().count();
    Command::new("umount").arg(&disk).status().unwrap();
    assert_eq!((status, again.0), (Some(2), Some(2)), "{message}");
    assert!(message.contains("machine.svg") && !there, "{message}");
    assert!(old.is_ok_and(|text| text == "old") && left == 2);
}
