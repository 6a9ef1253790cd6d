//! `doctor --install-plugin` puts what cargo builds where the command looks for it. The cargo is made: building takes minutes.

use crate::common::{Scratch, text};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const FILE: &str = "libnearfar_qemu_plugin.so";

struct Installed {
    scratch: Scratch,
}

impl Installed {
    /// The command in `bin`, sources in `src`, and a cargo that has built a plugin of a version.
    fn new(version: &str) -> Installed {
        let scratch = Scratch::new();
        let write = |path: &str, content: &str| {
            let path = scratch.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            path
        };
        let binary = scratch.path("bin/nearfar");
        std::fs::create_dir(scratch.path("bin")).unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_nearfar"));
        if std::fs::hard_link(built, &binary).is_err() {
            std::fs::copy(built, &binary).unwrap();
        }
        write("src/Cargo.toml", "");
        write("src/crates/qemu-plugin/Cargo.toml", "");
        let plugin = write("target/release/libnearfar_qemu_plugin.so", "the plugin");
        let message = format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///src/crates/qemu-plugin#nearfar-qemu-plugin@{version}","filenames":["{}"]}}"#,
            plugin.display()
        );
        let asked = scratch.path("asked");
        let script = format!("#!/bin/sh\necho \"$@\" >{}\ncat <<'END'\n{message}\nEND\n", asked.display());
        let cargo = write("tools/cargo", &script);
        std::fs::set_permissions(cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        Installed { scratch }
    }

    fn install(&self, checkout: &str) -> Output {
        Command::new(self.scratch.path("bin/nearfar"))
            .args(["doctor", "--install-plugin"])
            .arg(self.scratch.path(checkout))
            .env("PATH", format!("{}:/usr/bin:/bin", self.scratch.path("tools").display()))
            .output()
            .unwrap()
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.scratch.path(file)).ok()
    }
}

#[test]
fn the_plugin_is_put_where_the_command_looks_for_it() {
    let installed = Installed::new(env!("CARGO_PKG_VERSION"));
    let run = installed.install("src");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(installed.read(&format!("bin/{FILE}")).as_deref(), Some("the plugin"));
    let asked = installed.read("asked").unwrap();
    assert!(asked.contains("build --release --locked --package nearfar-qemu-plugin"), "{asked}");
    assert!(asked.contains("src/Cargo.toml"), "{asked}");

    // As a package lays it out.
    std::fs::create_dir_all(installed.scratch.path("lib/nearfar")).unwrap();
    assert!(installed.install("src").status.success());
    assert_eq!(installed.read(&format!("lib/nearfar/{FILE}")).as_deref(), Some("the plugin"));
}

#[test]
fn sources_of_another_version_and_other_folders_are_refused() {
    let installed = Installed::new("99.0.0");
    let run = installed.install("src");
    assert!(!run.status.success());
    let message = text(&run.stderr);
    assert!(message.contains("version 99.0.0") && message.contains("cargo install --path"), "{message}");
    assert_eq!(installed.read(&format!("bin/{FILE}")), None);
    let run = installed.install("tools");
    assert!(!run.status.success());
    assert!(text(&run.stderr).contains("has no sources of nearfar"), "{}", text(&run.stderr));
}

/// What runs in the virtual machine has to be there, and of the command's version.
#[test]
fn the_recorder_of_the_virtual_machine_is_missed_and_its_version_compared() {
    let scratch = Scratch::new();
    let run = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["record", "--on", "2x4", "-o"])
        .arg(scratch.path("r.nearfar"))
        .args(["--", "true"])
        .env("NEARFAR_INSIDE", scratch.path("nearfar-inside"))
        .output()
        .unwrap();
    let message = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{message}");
    assert!(message.contains("nearfar-inside, is missing; looked for it at"), "{message}");
    assert!(!scratch.path("r.nearfar").exists());
    let inside = |words: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_nearfar-inside")).args(words).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{}", text(&run.stderr));
        text(&run.stderr)
    };
    assert!(inside(&[]).contains("`nearfar record --on`"));
    assert!(inside(&["99.0.0", "/nosuch", "true"]).contains("nearfar of 99.0.0"));
    let version = env!("CARGO_PKG_VERSION");
    assert!(inside(&[version, "/nosuch", "true"]).contains("cannot read /nosuch"));
    assert!(inside(&[version, "/nosuch"]).contains("no program"));
}
