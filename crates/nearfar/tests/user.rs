//! `--user`: the recorder is root's, the program and the recording are not. Needs root.

mod common;

use common::{Scratch, nearfar, skip, text};
use nearfar_host::holder::Holder;
use nearfar_host::target::User;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

fn nobody() -> Option<User> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        skip("only root can run a program as another user");
        return None;
    }
    User::find("nobody").map_err(|why| skip(&why)).ok()
}

/// A directory that others can enter.
fn open_scratch() -> Scratch {
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.directory(), PermissionsExt::from_mode(0o755)).unwrap();
    scratch
}

const SHOW: &str = "id -u; id -g; grep '^Groups:' /proc/self/status; echo $USER $LOGNAME $HOME";

#[test]
fn the_program_is_that_users_and_so_is_the_recording() {
    let Some(user) = nobody() else { return };
    let mut sudo = Command::new("setpriv");
    sudo.args(["--reuid", "nobody", "--regid", &user.gid.to_string(), "--init-groups", "sh", "-c", SHOW]);
    let sudo = sudo.env("USER", "nobody").env("LOGNAME", "nobody").env("HOME", home(&user)).output().unwrap();
    let scratch = open_scratch();
    for flags in [&["--user", "nobody"][..], &["--user", "nobody", "--no-perf"]] {
        let name = format!("r{}", flags.len());
        let output = scratch.recorder(&name, flags).args(["sh", "-c", SHOW]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout), text(&sudo.stdout));
        let mut all = vec![scratch.path(&name)];
        while let Some(path) = all.pop() {
            let about = std::fs::symlink_metadata(&path).unwrap();
            assert_eq!((about.uid(), about.gid()), (user.uid, user.gid), "{}", path.display());
            if about.is_dir() {
                all.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            }
        }
        // The agent reports all the same.
        assert!(!scratch.report(&name, &[]).notes().contains("agent did not report"));
    }
    let output = nearfar()
        .args(["run", "-q", "-N", "0", "--user", "nobody", "--", "sh", "-c", SHOW])
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), text(&sudo.stdout), "{output:?}");
}

fn home(user: &User) -> std::ffi::OsString {
    user.environment().into_iter().find(|(name, _)| name == "HOME").unwrap().1
}

#[test]
fn who_is_root_by_sudo_is_told_that_the_program_is_so_too() {
    if nobody().is_none() {
        return;
    }
    let scratch = open_scratch();
    let said = |sudo: &str, flags: &[&str]| {
        let mut recorder = scratch.recorder(&format!("r{sudo}{}", flags.len()), flags);
        text(&recorder.arg("true").env("SUDO_UID", sudo).output().unwrap().stderr)
    };
    assert!(said("65534", &[]).contains("the program runs as root"), "{}", said("65534", &["-F", "99"]));
    assert!(!said("0", &[]).contains("as root"));
    assert!(!said("65534", &["--user", "nobody"]).contains("as root"));
}

#[test]
fn an_unknown_user_is_refused() {
    if nobody().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch.recorder("r", &["--user", "no-such-user"]).arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("user `no-such-user` does not exist"), "{output:?}");
}

/// The way by which a memfd of root's reaches a program of another user.
#[test]
fn a_held_descriptor_opens_for_its_user_and_nothing_else_does() {
    let Some(user) = nobody() else { return };
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, b"shared").unwrap();
    std::os::unix::fs::fchown(&file, Some(user.uid), Some(user.gid)).unwrap();
    let holder = Holder::of(Path::new(env!("CARGO_BIN_EXE_nearfar")), &file.into(), &user).unwrap();
    let path = holder.path();
    let cat = Command::new("setpriv")
        .args(["--reuid", "nobody", "--regid", &user.gid.to_string(), "--clear-groups", "cat"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(text(&cat.stdout), "shared", "{cat:?}");
    let directory = path.parent().unwrap().to_owned();
    let others = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path());
    let others: Vec<_> = others
        .filter(|p| *p != path && std::fs::read_link(p).is_ok_and(|to| to != Path::new("/dev/null")))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    drop(holder);
    assert!(!directory.exists());
}

/// Recordings are private: another user sees that there is one, and not what is in it.
#[test]
fn recordings_of_another_user_are_listed_as_such() {
    if nobody().is_none() {
        return;
    }
    let scratch = open_scratch();
    let path = scratch.path("theirs.nearfar");
    assert!(nearfar().args(["record", "-q", "-o"]).arg(&path).arg("true").status().unwrap().success());
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_nearfar")).args(words).current_dir(scratch.directory());
        command.output().unwrap()
    };
    let json = as_nobody(&["list", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(rows[0]["name"], "theirs.nearfar", "{rows}");
    assert!(rows[0]["state"].as_str().unwrap().contains("Permission denied"), "{rows}");
    assert!(rows[0]["bytes"].is_null(), "{rows}");
    let page = text(&as_nobody(&["list"]).stdout);
    assert!(page.contains("theirs.nearfar") && page.contains("unknown"), "{page}");
    // Without a name, `report` takes the newest: what it may not read is no reason to say that there is none.
    let report = as_nobody(&["report"]);
    assert_eq!(report.status.code(), Some(2));
    assert!(text(&report.stderr).contains("Permission denied"), "{}", text(&report.stderr));
}
