//! Exit statuses, inputs, outputs and signals are the program's own.

use crate::common::{Scratch, nearfar, text};
use crate::programs::{Busy, pause, run, send, shell};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn exit_status_and_signal_are_the_programs_own() {
    let scratch = Scratch::new();
    assert_eq!(shell(&scratch, "a", &[], "exit 7").status.code(), Some(7));
    assert_eq!(scratch.report("a", &[]).0["exit"], "exit 7");
    assert_eq!(shell(&scratch, "b", &[], "kill -SEGV $$").status.signal(), Some(libc::SIGSEGV));
    assert_eq!(scratch.report("b", &[]).0["exit"], "signal 11 (SIGSEGV)");
    assert_eq!(shell(&scratch, "c", &["--no-perf"], "kill -KILL $$").status.signal(), Some(libc::SIGKILL));
    assert_eq!(scratch.report("c", &[]).0["exit"], "signal 9 (SIGKILL)");
}

#[test]
fn inputs_and_outputs_pass_through_byte_for_byte() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for flags in [&["-q"][..], &["-q", "--no-perf"], &["-q", "--no-agent"]] {
        let mut command = scratch.recorder(&flags.join(""), flags);
        command.args(["bash", "-c", "cat; printf 'a\\0b' >&2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let copy = bytes.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&copy).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        assert!(output.stdout == bytes, "stdout differs with {flags:?}");
        assert_eq!(output.stderr, b"a\0b", "stderr differs with {flags:?}");
    }
}

#[test]
fn a_signal_to_the_recorder_reaches_the_program() {
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let child = busy.start(&scratch, &[], "30");
    busy.pid();
    send(child.id() as i32, libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "done 15\n");
    assert_eq!(output.status.code(), Some(55));
    assert_eq!(scratch.report("r", &[]).0["exit"], "exit 55");
}

#[test]
fn ctrl_c_reaches_the_program_and_the_recording_is_closed() {
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let child = busy.start(&scratch, &[], "30");
    busy.pid();
    pause(100);
    send(-(child.id() as i32), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "done 2\n");
    assert_eq!(output.status.code(), Some(42));
    assert!(scratch.report("r", &[]).0["exit"] == "exit 42");
}

#[test]
fn two_recordings_at_once_do_not_mix() {
    let scratch = Scratch::new();
    let start = |name: &str, word: &str| {
        let mut command = scratch.recorder(name, &[]);
        command.args(["bash", "-c", &format!("for i in {{1..20000}}; do :; done; echo {word}; exit 3")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for (name, child) in [("one", start("one", "first")), ("two", start("two", "second"))] {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let report = scratch.report(name, &[]);
        let command = report.0["command"].to_string();
        assert!(command.contains(if name == "one" { "first" } else { "second" }), "{command}");
        assert_eq!(report.0["threads"].as_array().unwrap().iter().filter(|t| t["index"] == 0).count(), 1);
    }
    // Without -o each gets a name of its own.
    let plain = || {
        let mut command = nearfar();
        command.args(["record", "-q", "--", "true"]).current_dir(scratch.directory());
        command.spawn().unwrap()
    };
    // Enough at once that two of them look for a free name at the same time.
    let children: Vec<_> = (0..6).map(|_| plain()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success(), "two recordings took the same name");
    }
    for number in 1..=6 {
        assert!(scratch.path(&format!("true-00{number}.nearfar")).exists());
    }
}

#[test]
fn awkward_programs_run_as_ever() {
    let scratch = Scratch::new();
    let closes = scratch.c(
        "closes",
        r#"int main(void) {
            char *p = malloc(1 << 20); memset(p, 1, 1 << 20);
            int out = dup(1);
            if (out != 3) dprintf(out, "an fd leaked: %d\n", out);
            for (int fd = 4; fd < 1024; fd++) close(fd);
            close(0); close(2);
            if (open("/dev/null", O_RDONLY) != 0) return 1;
            char *q = malloc(1 << 21); memset(q, 2, 1 << 21);
            free(p); free(q);
            dprintf(out, "closed\n"); return 6; }"#,
    );
    let deep = scratch.c(
        "deep",
        r#"FRESH int down(int n) { volatile char frame[64]; frame[0] = (char)n; return n ? down(n - 1) + frame[0] * 0 + 1 : 0; }
        int main(void) { int d = 0; for (int i = 0; i < 40; i++) d = down(50000); printf("%d\n", d); return 0; }"#,
    );
    for flags in [&[][..], &["--no-perf"], &["--call-graph", "dwarf"]] {
        let name = |program: &str| format!("{program}.r{}", flags.join(""));
        let output = run(scratch.recorder(&name("closes"), flags).arg(&closes));
        assert_eq!(
            (text(&output.stdout).as_str(), output.status.code()),
            ("closed\n", Some(6)),
            "{output:?}"
        );
        scratch.report(&name("closes"), &[]);
        let output = run(scratch.recorder(&name("deep"), flags).arg(&deep));
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("50000\n", Some(0)), "{output:?}");
        scratch.report(&name("deep"), &[]);
    }
    let loop_of = "for ((i = 0; i < 100; i++)); do /bin/true || exit 1; done; exit 9";
    assert_eq!(shell(&scratch, "children", &[], loop_of).status.code(), Some(9));
    let report = scratch.report("children", &[]);
    assert!(!report.notes().contains("still ran"), "{}", report.notes());
    let processes = nearfar_record::store::open(&scratch.path("children")).unwrap().input.processes;
    assert_eq!(processes.pid.len(), 1 + 2 * 100, "one process, and 100 forks that each exec");
}
