//! `nearfar record` of processes that run already: by number, by name, all of them.

mod common;

use common::{Scratch, disposed, ignores, perf_works, skip, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads memory all the time, under the name that it is given.
const PROGRAM: &str = r#"
#include <sys/mman.h>
#include <sys/prctl.h>
int main(int argc, char **argv) {
    if (argc > 1) prctl(PR_SET_NAME, argv[1]);
    long n = 4 << 20;
    volatile long *p = mmap(NULL, n * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < n; i++) p[i] = i;
    puts("ready");
    fflush(stdout);
    long sum = 0;
    for (;;) for (long i = 0; i < n; i += 8) sum += p[i];
}
"#;

fn start(program: &Path, name: &str) -> Running {
    let mut child = Command::new(program).arg(name).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Running(child)
}

fn record(flags: &[&str], recording: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["record", "-o"])
        .arg(recording)
        .args(flags)
        .output()
        .unwrap()
}

fn report(recording: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["report", "--json"])
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Process ids of a report that have samples.
fn pids(report: &Value) -> Vec<u32> {
    let processes = report["pictures"]["processes"].as_array().unwrap();
    processes
        .iter()
        .filter(|p| p["share"].as_f64() > Some(0.0))
        .map(|p| p["pid"].as_u64().unwrap() as u32)
        .collect()
}

/// Clock samples of a report.
fn samples(report: &Value) -> u64 {
    let sources = report["sources"].as_array().unwrap();
    sources.iter().find(|s| s["source"] == "clock").unwrap()["samples"].as_u64().unwrap()
}

/// The report of a recording that runs, as soon as it has samples of these processes.
fn wait_for_samples(recording: &Path, wanted: &[u32]) -> Value {
    let begin = std::time::Instant::now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
            .args(["report", "--json"])
            .arg(recording)
            .output()
            .unwrap();
        let seen: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        match seen {
            Some(seen) if wanted.iter().all(|pid| pids(&seen).contains(pid)) => return seen,
            _ => assert!(begin.elapsed().as_secs() < 60, "{}", text(&output.stderr)),
        }
    }
}

#[test]
fn processes_are_recorded_by_number_and_by_name_and_keep_their_command_line() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let (one, two) = (start(&program, "nf-one"), start(&program, "nf-two"));
    let (first, second) = (one.0.id(), two.0.id());

    let single = scratch.path("single.nearfar");
    let output = record(&["-p", &first.to_string(), "--duration", "2s"], &single);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen = report(&single);
    assert_eq!(seen["command"], serde_json::json!([program.to_str().unwrap(), "nf-one"]));
    assert_eq!(pids(&seen), [first]);
    let notes = seen["notes"].to_string();
    assert!(
        notes.contains(&format!("{first} (nf-one)")) && notes.contains("allocated them, is unknown"),
        "{notes}"
    );

    let both = scratch.path("both.nearfar");
    let output = record(&["--name", "nf-two", "-p", &first.to_string(), "--duration", "3s"], &both);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen = report(&both);
    let mut found = pids(&seen);
    found.sort_unstable();
    let mut expected = [first, second];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(seen["command"], serde_json::json!([]), "of several there is no single command");
}

#[test]
fn everything_is_recorded_but_the_recorder() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let one = start(&program, "nf-all");
    let all = scratch.path("all.nearfar");
    let recorder = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["record", "-a", "--duration", "3s", "-o"])
        .arg(&all)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let own = recorder.id();
    let output = recorder.wait_with_output().unwrap();
    if !output.status.success() {
        assert!(text(&output.stderr).contains("perf_event_paranoid"), "{}", text(&output.stderr));
        return skip("perf_event_open of whole cpus is refused here");
    }
    let seen = report(&all);
    assert!(pids(&seen).contains(&one.0.id()), "{:?}", pids(&seen));
    assert!(seen["pictures"]["processes"].as_array().unwrap().iter().all(|p| p["pid"] != own), "{own}");
    // Its memory is known by its mappings, which were there before.
    let objects = seen["objects"].as_array().unwrap();
    assert!(objects.iter().any(|o| o["kind"] == "anonymous mapping"), "{objects:?}");
}

#[test]
fn a_recording_that_goes_on_can_be_reported() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let one = start(&program, "nf-on");
    let path = scratch.path("on.nearfar");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    recorder.args(["record", "-q", "-o"]).arg(&path).args(["-p", &one.0.id().to_string()]);
    disposed(&mut recorder, &[libc::SIGINT], libc::SIG_DFL);
    let mut recorder = recorder.spawn().unwrap();
    let seen = wait_for_samples(&path, &[one.0.id()]);
    assert!(seen["notes"].to_string().contains("still running"), "{}", seen["notes"]);
    assert_ne!(seen["verdict"], "clean", "a run without its end is never clean");
    // SAFETY: our own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) }, 0);
    assert!(recorder.wait().unwrap().success());
    assert_eq!(pids(&report(&path)), [one.0.id()]);
}

/// `nohup nearfar record -p PID &` in a script outlives the terminal.
#[test]
fn a_signal_that_the_recorder_was_started_to_ignore_stays_ignored() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let one = start(&program, "nf-nohup");
    let path = scratch.path("nohup.nearfar");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    recorder.args(["record", "-q", "-o"]).arg(&path).args(["-p", &one.0.id().to_string()]);
    disposed(&mut recorder, &[libc::SIGHUP, libc::SIGINT], libc::SIG_IGN);
    disposed(&mut recorder, &[libc::SIGTERM], libc::SIG_DFL);
    let mut recorder = recorder.spawn().unwrap();
    let before = samples(&wait_for_samples(&path, &[one.0.id()]));
    let pid = recorder.id();
    // SAFETY: our own child, which has not been waited for.
    let send = |signal| assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
    for signal in [libc::SIGHUP, libc::SIGINT] {
        assert!(ignores(pid, signal), "{signal} is caught");
        send(signal);
    }
    while samples(&wait_for_samples(&path, &[one.0.id()])) < before + 100 {
        assert!(recorder.try_wait().unwrap().is_none(), "the recording has ended");
    }
    send(libc::SIGTERM);
    assert!(recorder.wait().unwrap().success());
}

#[test]
fn wrong_choices_say_what_to_type() {
    let scratch = Scratch::new();
    for (flags, says) in [
        (&["-p", "4194303"][..], "process 4194303 does not exist"),
        (&["--name", "no-such-name"], "no process is named `no-such-name`"),
        (&["-a", "-p", "1"], "cannot be used with"),
        (&["--duration", "2s", "true"], "cannot be used with"),
    ] {
        let output = record(flags, &scratch.path("none.nearfar"));
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(text(&output.stderr).contains(says), "{flags:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_process_of_another_user_is_refused_with_what_to_do() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skip("becoming another user needs root");
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let one = start(&program, "nf-root");
    let recording = scratch.path("other.nearfar");
    // The binary and the directory are root's, and need not be reachable for others: it is started as root and drops its rights.
    let output = {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(["record", "-p", &one.0.id().to_string(), "--duration", "1s", "-o"]).arg(&recording);
        // SAFETY: only system calls between fork and exec. The saved user stays root's, so that the binary can be found.
        unsafe {
            command.pre_exec(|| {
                if libc::setresuid(65534, 65534, 0) == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            })
        };
        command.output()
    };
    let Ok(output) = output else {
        return skip("another user may not execute the built binary here");
    };
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.contains(&format!("process {} belongs to user 0", one.0.id())), "{message}");
    assert!(!recording.exists());
}

#[test]
fn the_recording_goes_on_until_the_last_process_ends() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("reader", PROGRAM);
    let (one, two) = (start(&program, "nf-first"), start(&program, "nf-last"));
    let (first, second) = (one.0.id(), two.0.id());
    let path = scratch.path("ends.nearfar");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["record", "-o"])
        .arg(&path)
        .args(["-p", &format!("{first},{second},{first}")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_samples(&path, &[first, second]);
    drop(one);
    // It still grows, by more than what was on its way.
    let before = samples(&report(&path));
    let begin = std::time::Instant::now();
    while samples(&report(&path)) < before + 1500 {
        assert!(
            begin.elapsed().as_secs() < 60 && recorder.try_wait().unwrap().is_none(),
            "one process still runs"
        );
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    drop(two);
    assert!(recorder.wait().unwrap().success());
    let seen = report(&path);
    let mut found = pids(&seen);
    found.sort_unstable();
    let mut expected = [first, second];
    expected.sort_unstable();
    assert_eq!(found, expected);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut recorder.stderr.take().unwrap(), &mut said).unwrap();
    // Progress is for terminals only.
    assert!(said.contains("clock samples in") && !said.contains("Ctrl-C ends it"), "{said}");
}
