//! A limit that a program lives with alone does not keep it from running under the recorder.

mod common;

use common::{Scratch, text};
use std::process::{Command, Output, Stdio};

/// It uses some memory and says which limits it finds, so that it differs where they do.
const SOURCE: &str = r#"
#include <sys/resource.h>
int main(void) {
    char *p = malloc(300000);
    if (!p) return 8;
    memset(p, 1, 300000);
    for (int kind = 0; kind < 16; kind++) {
        struct rlimit l;
        getrlimit(kind, &l);
        printf("%d: %lx %lx\n", kind, (long)l.rlim_cur, (long)l.rlim_max);
    }
    return 3;
}"#;

/// `command` with its arguments under bash's `ulimit`, as this user.
fn limited(limit: &str, user: Option<&str>, command: &Command) -> Output {
    let mut bash = Command::new(if user.is_some() { "setpriv" } else { "bash" });
    if let Some(user) = user {
        bash.args(["--reuid", user, "--clear-groups", "bash"]);
    }
    bash.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "bash"]);
    bash.arg(command.get_program()).args(command.get_args());
    bash.stdin(Stdio::null()).env_remove("LD_PRELOAD").output().unwrap()
}

/// The same as alone, and a recording that opens or a message.
fn the_same(limit: &str, user: Option<&str>) {
    let scratch = Scratch::new();
    let program = scratch.c("limits", SOURCE);
    if user.is_some() {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(scratch.directory(), PermissionsExt::from_mode(0o777)).unwrap();
    }
    let alone = limited(limit, user, &Command::new(&program));
    assert_eq!(alone.status.code(), Some(3), "{limit}: {alone:?}");
    let mut recorder = scratch.recorder("r", &[]);
    recorder.arg(&program);
    let recorded = limited(limit, user, &recorder);
    let said = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(3), "{limit}: {recorded:?}");
    assert_eq!(text(&recorded.stdout), text(&alone.stdout), "{limit}: {said}");
    assert!(said.contains("nearfar: ") && !said.contains("panicked"), "{limit}: {said}");
    if said.contains("nothing is recorded") {
        assert!(!scratch.path("r").exists(), "{limit}: {said}");
    } else {
        // What did not fit is not in it, how it ended for one.
        let exit = &scratch.report("r", &[]).0["exit"];
        assert!(exit == "exit 3" || said.contains("the recording is incomplete"), "{limit}: {exit} {said}");
    }
}

#[test]
fn file_sizes() {
    the_same("-f 8", None);
}

#[test]
fn no_file_sizes() {
    the_same("-f 0", None);
}

#[test]
fn stack() {
    the_same("-s 64", None);
}

#[test]
fn open_files() {
    the_same("-n 16", None);
}

#[test]
fn address_space() {
    the_same("-v 250000", None);
    the_same("-v 60000", None);
}

#[test]
fn data() {
    the_same("-d 100000", None);
    the_same("-d 2000", None);
}

#[test]
fn processes() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return common::skip("only root can become a user without other processes");
    }
    // A number that nothing else has: its processes are counted.
    the_same("-u 1", Some("54321"));
    the_same("-u 2", Some("54322"));
}

#[test]
fn core_files() {
    the_same("-c 0", None);
}

#[test]
fn cpu_time() {
    the_same("-t 1", None);
}

#[test]
fn locked_memory() {
    the_same("-l 0", None);
}

#[test]
fn resident_memory() {
    the_same("-m 1000", None);
}

#[test]
fn pending_signals() {
    the_same("-i 0", None);
}
