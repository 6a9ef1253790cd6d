//! Wrong uses of every command, as lines of a shell: which status they end with, and what is said.
//!
//! Each line runs in a directory of its own kind of files (`fixture`). None may wait for ever, panic, send a terminal
//! command, or leave a file behind that it could not finish.

#[path = "../common/mod.rs"]
mod common;
mod files;
#[allow(dead_code)] // the hostile recordings use all of it
#[path = "../hostile/made.rs"]
mod made;
mod outputs;
mod words;

use common::{Scratch, disposed, nearfar, text};
use made::Made;
use nearfar_figures::escape::is_command;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A line, the status that it ends with, and what standard error has in it; nothing at all if that is empty.
type Use = (&'static str, i32, &'static [&'static str]);

/// No wrong use takes so long, s. // chosen
const HANGS_S: u32 = 60;

/// The directory in which lines are run.
struct Fixture {
    scratch: Scratch,
    /// A full file system is mounted on `full`.
    full: bool,
}

impl Fixture {
    fn new() -> Fixture {
        let scratch = Scratch::new();
        let at = |name: &str| scratch.path(name);
        fs::set_permissions(scratch.directory(), PermissionsExt::from_mode(0o777)).unwrap();
        Made::default().finished(&at("r.nearfar"));
        Made::default().unfinished(&at("cut.nearfar"));
        fs::create_dir(at("a b")).unwrap();
        Made::default().finished(&at("a b/it's.nearfar"));
        fs::write(at("plain"), "text\n").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("bad.toml"), "[x\n").unwrap();
        fs::write(at("other.toml"), "format = 1\n[[object]]\nstatic = \"a\"\npolicy = \"sideways\"\n")
            .unwrap();
        fs::write(at("secret"), "text\n").unwrap();
        fs::set_permissions(at("secret"), PermissionsExt::from_mode(0o000)).unwrap();
        fs::create_dir(at("nothing")).unwrap();
        fs::create_dir(at("closed")).unwrap();
        fs::set_permissions(at("closed"), PermissionsExt::from_mode(0o500)).unwrap();
        fs::create_dir(at("full")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let mut fixture = Fixture { scratch, full: false };
        fixture.full = root() && fixture.mount();
        fixture
    }

    fn mount(&self) -> bool {
        let disk = self.path("full");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&disk).status();
        if !mounted.is_ok_and(|s| s.success()) {
            common::skip("no tmpfs can be mounted here");
            return false;
        }
        // All of it: the write of the last bytes fails.
        let _ = fs::write(disk.join("filler"), vec![1; 128 << 10]);
        true
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    /// What is in the directory, and below what is written to.
    fn names(&self) -> Vec<PathBuf> {
        let of = |directory: &Path| -> Vec<PathBuf> {
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let mut all: Vec<PathBuf> =
            ["", "full", "nothing", "closed"].iter().flat_map(|name| of(&self.path(name))).collect();
        all.sort();
        all
    }

    /// Runs a line; what is wrong with it.
    fn tried(&self, (line, status, says): &Use) -> Option<String> {
        let binary = Path::new(env!("CARGO_BIN_EXE_nearfar"));
        let mut path = binary.parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        // Another user, where this one may everything.
        let user = "other() { if [ \"$(id -u)\" = 0 ]; then setpriv --reuid 54321 --clear-groups \"$@\"; else \"$@\"; fi; }";
        let mut command = Command::new("timeout");
        command.args(["-k", "1", &HANGS_S.to_string(), "bash", "-o", "pipefail", "-c"]);
        command.arg(format!("{user}; {line}")).current_dir(self.scratch.directory()).env("PATH", path);
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("LD_PRELOAD").env_remove("COLUMNS");
        disposed(&mut command, &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE], libc::SIG_DFL);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stderr);
        let code = output.status.code();
        let wrong = |what: &str| Some(format!("{line}\n  {what}; status {code:?}, said:\n{said}"));
        if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
            return wrong("it panicked");
        }
        if code != Some(*status) {
            return wrong(&format!("expected status {status}"));
        }
        if let Some(missing) = says.iter().find(|word| !said.contains(**word)) {
            return wrong(&format!("`{missing}` is not said"));
        }
        if says.is_empty() && !said.is_empty() {
            return wrong("expected to say nothing");
        }
        let all = text(&output.stdout) + &said;
        if let Some(bad) = all.lines().find(|line| line.contains(is_command)) {
            return wrong(&format!("a terminal obeys {bad:?}"));
        }
        None
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if self.full {
            let _ = Command::new("umount").arg(self.path("full")).status();
        }
    }
}

fn root() -> bool {
    // SAFETY: asks the kernel for a number.
    unsafe { libc::geteuid() == 0 }
}

/// Runs all of them, two at a time; none leaves a file behind.
fn all(uses: &[Use]) {
    let fixture = Fixture::new();
    assert!(
        nearfar()
            .arg("cache")
            .env("XDG_CACHE_HOME", fixture.path("cache"))
            .output()
            .unwrap()
            .status
            .success()
    );
    let before = fixture.names();
    let next = Mutex::new(uses.iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(one) = next.lock().unwrap().next() else { return };
                    if one.0.contains("full/") && !fixture.full {
                        continue;
                    }
                    let found = fixture.tried(one);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), uses.len(), wrong.join("\n"));
    assert_eq!(fixture.names(), before, "files were left behind");
}

#[test]
fn there_are_more_than_a_hundred() {
    let uses = [words::USES, files::USES, outputs::USES].concat();
    assert!(uses.len() >= 130, "{}", uses.len());
    let mut lines: Vec<&str> = uses.iter().map(|u| u.0).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), uses.len(), "a line is there twice");
    // Of every command that a person types.
    for sub in nearfar::cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("nearfar {}", sub.get_name());
        assert!(lines.iter().any(|line| line.contains(&name)), "no wrong use of {name}");
    }
}
