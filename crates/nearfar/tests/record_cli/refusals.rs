//! What is refused, and what is said of it.

use crate::common::{Scratch, beyond_caches, nearfar, perf_works, skip, text, workload};
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
    // Each array is more than caches hold; as many elements in all on any host.
    let elements = beyond_caches(192 << 20) / 8;
    let iterations = ((1280 << 20) / elements).max(8);
    let (elements, iterations) = (elements.to_string(), iterations.to_string());
    let command = [program.to_str().unwrap(), "--elements", &elements, "--iterations", &iterations];
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

/// The machine that is advised can be emulated, and so can a shape.
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
    let shape = nearfar_host::discover::machine_with_figures("2x2").unwrap();
    assert!(shape.missing_to_simulate().is_empty());
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
    std::fs::create_dir(guest.join("0123.snapshot")).unwrap();
    std::fs::write(guest.join("0123.snapshot/machine"), vec![1; 1 << 20]).unwrap();
    std::fs::write(guest.join("0123.snapshot/node0"), vec![1; 2 << 20]).unwrap();
    // As versions before this one kept them.
    std::fs::write(guest.join("4567.snapshot"), vec![1; 1 << 20]).unwrap();
    std::fs::write(guest.join("kernels/vmlinuz"), vec![1; 2 << 20]).unwrap();
    let shown = cache(&[]);
    for words in [
        "3.0 MiB  booted machine 0123.snapshot, used today",
        "1.0 MiB  booted machine 4567.snapshot",
        "2.0 MiB  kernel vmlinuz",
        "--clear",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(cache(&["--clear"]).contains("removed"));
    for name in ["0123.snapshot", "4567.snapshot", "kernels"] {
        assert!(!guest.join(name).exists(), "{name}");
    }
    assert!(cache(&[]).contains(": 0 B"));
}

/// A QEMU, a plugin and a kernel that are nothing but their names.
struct MadeMachine {
    scratch: Scratch,
    qemu: std::path::PathBuf,
    kernel: std::path::PathBuf,
}

impl MadeMachine {
    fn new(help: &str) -> MadeMachine {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        let (qemu, kernel) = (scratch.path("qemu"), scratch.path("vmlinuz"));
        let says = format!("#!/bin/sh\necho 'QEMU emulator version 9.9.9 (made)'\necho '{help}'\n");
        std::fs::write(&qemu, says).unwrap();
        std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(scratch.path("plugin.so"), "").unwrap();
        // As a kernel's header has it: its release stands where 0x20e says, less 0x200.
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&[0x00, 0x01]);
        image[0x300..0x310].copy_from_slice(b"6.66.0-1-amd64 x");
        std::fs::write(&kernel, image).unwrap();
        std::fs::create_dir(scratch.path("modules")).unwrap();
        std::fs::write(scratch.path("modules/some.ko"), "").unwrap();
        let built_in = "kernel/virtio_pci.ko\nkernel/virtio_console.ko\nkernel/9pnet_virtio.ko\nkernel/9p.ko\nkernel/overlay.ko\n";
        std::fs::write(scratch.path("modules/modules.builtin"), built_in).unwrap();
        MadeMachine { scratch, qemu, kernel }
    }

    /// What doctor says, as JSON of the source `simulated` and as its lines of the page.
    fn doctor(&self, with: &[(&str, &str)]) -> (serde_json::Value, String) {
        let run = |flags: &[&str]| {
            let mut command = nearfar();
            command.args(["doctor", "--width", "1000"]).args(flags);
            command.env("NEARFAR_QEMU", &self.qemu).env("NEARFAR_PLUGIN", self.scratch.path("plugin.so"));
            command.env("NEARFAR_GUEST_KERNEL", &self.kernel).env_remove("NEARFAR_GUEST_MODULES");
            command.env("XDG_CACHE_HOME", self.scratch.directory()).envs(with.iter().copied());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        // Each waits for what it tries out.
        let (all, page) = std::thread::scope(|both| {
            let page = both.spawn(|| run(&[]));
            (run(&["--json"]), page.join().unwrap())
        });
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let source = all["sources"].as_array().unwrap().iter().find(|r| r["source"] == "simulated").unwrap();
        let at = page.find("  simulated").unwrap();
        let begin = page[..at].rfind('\n').unwrap() + 1;
        let end =
            page[at..].find("\nworks").or(page[at..].find("\nno   ")).map_or(page.len(), |end| at + end);
        (source.clone(), page[begin..end].to_owned())
    }
}

/// Doctor says of the virtual machine what `record --on` needs: QEMU, its plugin, a kernel.
#[test]
fn doctor_says_of_the_virtual_machine_that_it_is_there_and_what_is_missing() {
    let here = MadeMachine::new("-plugin FILE");
    let (source, page) = here.doctor(&[]);
    let why = format!("QEMU 9.9.9 (made) with kernel 6.66.0-1-amd64 ({})", here.kernel.display());
    assert_eq!(
        (&source["works"], &source["why"], &source["unlock"]),
        (&true.into(), &why.clone().into(), &serde_json::Value::Null)
    );
    assert!(
        page.starts_with("works  simulated") && page.contains(&why) && !page.contains("unlock"),
        "{page}"
    );
    // Without one of what it needs it is not there, and that is named.
    let without = MadeMachine::new("-no-such-option");
    let install = "sudo apt install qemu-system-x86";
    let cases = [
        (&here, vec![("NEARFAR_QEMU", "/no/such/qemu")], "NEARFAR_QEMU is /no/such/qemu", Some(install)),
        (
            &here,
            vec![("NEARFAR_QEMU", ""), ("PATH", "/nowhere")],
            "qemu-system-x86_64 is not in PATH",
            Some(install),
        ),
        (&here, vec![("NEARFAR_PLUGIN", "/no/such/plugin")], "looked for it at /no/such/plugin", None),
        (&here, vec![("NEARFAR_GUEST_KERNEL", "/etc/passwd")], "NEARFAR_GUEST_KERNEL is /etc/passwd", None),
        (&without, vec![], "(9.9.9 (made)) was built without TCG plugins", None),
    ];
    std::thread::scope(|all| {
        for (machine, with, said, unlock) in &cases {
            all.spawn(move || {
                let (source, page) = machine.doctor(with);
                assert_eq!(source["works"], false, "{with:?}: {source}");
                assert!(source["why"].as_str().unwrap().contains(said), "{with:?}: {source}");
                assert_eq!(source["unlock"].as_str(), *unlock, "{with:?}");
                assert!(page.starts_with("no     simulated") && page.contains(said), "{page}");
            });
        }
    });
    // Without a kernel in the cache, apt-get fetches one where it is installed. A kernel in /boot would be used, too.
    if std::fs::read_dir("/boot").is_ok_and(|mut all| {
        all.any(|f| f.is_ok_and(|f| f.file_name().to_string_lossy().starts_with("vmlinuz")))
    }) {
        return skip("that a kernel is missing: there is one in /boot");
    }
    let tools = Scratch::new();
    let path = tools.directory().display().to_string();
    let (source, _) = here.doctor(&[("NEARFAR_GUEST_KERNEL", ""), ("PATH", &path)]);
    assert_eq!(source["works"], false, "{source}");
    assert!(source["why"].as_str().unwrap().starts_with("the guest has no kernel yet"), "{source}");
    std::os::unix::fs::symlink("/bin/true", tools.path("apt-get")).unwrap();
    let (source, _) = here.doctor(&[("NEARFAR_GUEST_KERNEL", ""), ("PATH", &path)]);
    assert_eq!(source["works"], true, "{source}");
    assert!(source["why"].as_str().unwrap().contains("is downloaded from Debian's archive"), "{source}");
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
