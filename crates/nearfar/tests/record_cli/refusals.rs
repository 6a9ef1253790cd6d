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
    assert!(open("absent").contains("there is no recording"));
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
        let output = nearfar().arg("report").arg(scratch.path(&name)).output().unwrap();
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
