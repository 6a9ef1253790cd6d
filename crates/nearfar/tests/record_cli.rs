//! `nearfar record` and `report` as commands: programs do not notice that they are
//! recorded, and whatever goes wrong ends in a sentence and a recording that opens.

mod common;

use common::{Scratch, has, nearfar, perf_works, skip, text, workload};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Status and message of a command that must fail without a word on stdout.
fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = run(command);
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    (output.status.code(), message)
}

fn shell(scratch: &Scratch, name: &str, flags: &[&str], script: &str) -> Output {
    run(scratch.recorder(name, flags).args(["bash", "-c", script]))
}

/// Writes a line to `ready`, then works and sleeps alternately until `seconds` have passed; says `done`.
const BUSY: &str = r#"
static volatile sig_atomic_t got;
static void note(int s) { got = s; }
int main(int argc, char **argv) {
    (void)argc;
    signal(SIGTERM, note); signal(SIGINT, note);
    long n = 2048;
    char *p = map_pages(n);
    write_pages(p, n);
    int ready = open(argv[1], O_CREAT | O_WRONLY, 0600);
    if (dprintf(ready, "%d\n", getpid()) < 0) return 9;
    close(ready);
    struct timespec t0, t; clock_gettime(CLOCK_MONOTONIC, &t0);
    do {
        for (long i = 0; i < n * PAGE; i += 64) p[i]++;
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while (!got && t.tv_sec - t0.tv_sec + 1e-9 * (t.tv_nsec - t0.tv_nsec) < atof(argv[2]));
    printf("done %d\n", got);
    return got ? 40 + got : 0;
}"#;

/// A program that is busy, and the file that says that it is.
struct Busy {
    program: std::path::PathBuf,
    ready: std::path::PathBuf,
}

impl Busy {
    fn new(scratch: &Scratch) -> Busy {
        Busy { program: scratch.c("busy", BUSY), ready: scratch.path("ready") }
    }

    /// Starts it under the recorder.
    fn start(&self, scratch: &Scratch, flags: &[&str], seconds: &str) -> Child {
        let mut command = scratch.recorder("r", flags);
        command.arg(&self.program).arg(&self.ready).arg(seconds);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A process group of its own, as a shell gives it.
        command.process_group(0).spawn().unwrap()
    }

    /// Its process id, once it works.
    fn pid(&self) -> i32 {
        let start = Instant::now();
        loop {
            if let Ok(pid) = std::fs::read_to_string(&self.ready).unwrap_or_default().trim().parse() {
                return pid;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "the program does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: sends a signal to a process (or, if negative, a group) that the test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

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
        let message = open(&name);
        assert!(message.contains(table.as_str()), "{message}");
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
    let command = [program.to_str().unwrap(), "--elements", "2000000", "--iterations", "300"];
    let run = scratch.record("r", &[], &command);
    assert_eq!(run.report.verdict(), "affected", "{}", run.report.0["verdict_why"]);
    let report = |flags: &[&str]| {
        let output = nearfar().arg("report").arg(scratch.path("r")).args(flags).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(report(&[]).0, Some(0));
    assert_eq!(report(&["--fail-on", "affected"]).0, Some(1));
    assert_eq!(report(&["--fail-on", "unknown"]).0, Some(1));
    assert_eq!(report(&["--fail-on", "affected", "--as", "1x4"]).0, Some(0));
    for garbage in ["garbage", "0x4", "2x", "-1x1", "99999999x99999999"] {
        let (status, message) = report(&[&format!("--as={garbage}")]);
        assert_eq!(status, Some(2), "{garbage}: {message}");
        assert!(message.contains(garbage) && !message.contains("panicked"), "{message}");
    }
}

#[test]
fn a_killed_recorder_leaves_the_program_alone_and_a_recording_that_opens() {
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let mut child = busy.start(&scratch, &[], "60");
    let pid = busy.pid();
    // Until it has written three times.
    let size = || std::fs::metadata(scratch.path("r/journal.nfj")).map_or(0, |m| m.len());
    let (start, mut last) = (Instant::now(), 0);
    for _ in 0..3 {
        while size() == last {
            assert!(start.elapsed() < Duration::from_secs(40), "nothing is written");
            pause(10);
        }
        last = size();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists(), "the program died with the recorder");
    let report = scratch.report("r", &[]);
    assert!(report.notes().contains("killed"), "{}", report.notes());
    assert!(!perf_works() || report.samples("clock") > 30, "{}", report.samples("clock"));
    // Finished by the first look; the second finds the same.
    assert_eq!(scratch.report("r", &[]).samples("clock"), report.samples("clock"));
    send(pid, libc::SIGTERM);
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut output).unwrap();
    assert_eq!(output, "done 15\n");
}

#[test]
fn a_killed_program_ends_its_recording_in_order() {
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let child = busy.start(&scratch, &[], "30");
    let pid = busy.pid();
    pause(700);
    send(pid, libc::SIGKILL);
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(libc::SIGKILL));
    let report = scratch.report("r", &[]);
    assert_eq!(report.0["exit"], "signal 9 (SIGKILL)");
    assert!(!perf_works() || report.samples("clock") > 50);
    assert!(!report.notes().contains("recorder was killed"), "{}", report.notes());
}

#[test]
fn a_recording_in_progress_is_left_alone() {
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let child = busy.start(&scratch, &[], "30");
    busy.pid();
    let (status, message) = refused(nearfar().arg("report").arg(scratch.path("r")));
    assert_eq!(status, Some(2));
    assert!(message.contains("still being recorded"), "{message}");
    send(child.id() as i32, libc::SIGTERM);
    child.wait_with_output().unwrap();
    assert_eq!(scratch.report("r", &[]).0["exit"], "exit 55");
}

#[test]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skip("a small file system needs root");
    }
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&disk).status();
    if !mounted.is_ok_and(|s| s.success()) {
        return skip("no tmpfs can be mounted here");
    }
    struct Unmount(std::path::PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
    let _unmount = Unmount(disk);
    // Touches 32,768 pages over a second: a megabyte of recording.
    let program = scratch.c(
        "fill",
        r#"int main(void) {
            for (int i = 0; i < 16; i++) { write_pages(map_pages(2048), 2048); usleep(60000); }
            puts("whole"); return 5; }"#,
    );
    let output = run(scratch.recorder("disk/r", &[]).arg(&program));
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("whole\n", Some(5)));
    let message = text(&output.stderr);
    assert!(message.contains("cannot write the recording any more"), "{message}");
    // The disk is still full, so the report is made elsewhere.
    let copied = Command::new("cp").arg("-r").arg(scratch.path("disk/r")).arg(scratch.path("r")).status();
    assert!(copied.unwrap().success());
    let report = scratch.report("r", &[]);
    assert!(report.notes().contains("disk was full"), "{}", report.notes());
    // On the full disk the report fails with a sentence, or works.
    let output = run(nearfar().arg("report").arg(scratch.path("disk/r")));
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
}

#[test]
fn a_file_size_limit_stops_the_recording_and_not_the_program() {
    let scratch = Scratch::new();
    let program = scratch.c(
        "fill",
        r#"int main(void) {
            for (int i = 0; i < 16; i++) { write_pages(map_pages(2048), 2048); usleep(60000); }
            puts("whole"); return 5; }"#,
    );
    let mut inner = scratch.recorder("r", &["--no-agent"]);
    inner.arg(&program);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 64; exec \"$@\"", "bash"]).arg(inner.get_program()).args(inner.get_args());
    let output = run(&mut command);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("whole\n", Some(5)), "{output:?}");
    let report = scratch.report("r", &[]);
    assert!(!perf_works() || report.notes().contains("disk was full"), "{}", report.notes());
}

#[test]
fn a_running_process_is_recorded_until_ctrl_c_and_goes_on() {
    if !perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let busy = Busy::new(&scratch);
    let mut target = Command::new(&busy.program);
    let target = target.arg(&busy.ready).arg("30").stdout(Stdio::piped()).spawn().unwrap();
    let pid = busy.pid();
    let mut command = nearfar();
    command.arg("record").arg("-o").arg(scratch.path("r")).args(["-p", &pid.to_string()]);
    let recorder = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while !scratch.path("r/meta.json").exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "the recorder does not start");
        pause(10);
    }
    pause(1500);
    send(recorder.id() as i32, libc::SIGINT);
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    let report = scratch.report("r", &[]);
    assert!(report.samples("clock") > 50, "{}", report.samples("clock"));
    assert!(report.notes().contains("attached"), "{}", report.notes());
    send(pid, libc::SIGTERM);
    assert_eq!(text(&target.wait_with_output().unwrap().stdout), "done 15\n");
}

/// Of the chase: half a second and more, for a timer that may fire at the kernel's ticks only (100 to
/// 1000 in a second), however fast the host.
const STEPS: &str = "10000000";

/// The signal rung: which must be named, and know no homes on a machine that is only assumed.
fn assert_signal_rung(report: &common::Report) {
    assert!(report.samples("signal") > 50, "{}", report.0["rungs"]);
    assert_eq!(report.samples("clock"), 0);
    assert_eq!(report.verdict(), "unknown");
    assert!(report.0["verdict_why"].as_str().unwrap().contains("perf"), "{}", report.0["verdict_why"]);
    assert!(report.0["remote_share"].is_null());
}

#[test]
fn without_perf_events_the_agents_timer_samples() {
    let Some(program) = workload("chase") else { return };
    let scratch = Scratch::new();
    let command = [program.to_str().unwrap(), "--bytes", "33554432", "--steps", STEPS, "--threads", "1"];
    let run = scratch.record("r", &["--no-perf"], &command);
    assert_signal_rung(&run.report);
    let chain = run.report.object("chain");
    assert!(chain.used_in(&["walk"]) > 0.5, "{chain:?}");
    // Neither rung: no samples, no verdict, and the reason.
    let run = scratch.record("s", &["--no-perf", "--no-agent"], &command);
    assert_eq!((run.report.verdict(), run.report.samples("signal")), ("unknown", 0));
}

#[test]
fn without_the_agent_objects_come_from_mappings() {
    let (true, Some(program)) = (perf_works(), workload("chase")) else { return };
    let scratch = Scratch::new();
    let command = [program.to_str().unwrap(), "--bytes", "33554432", "--steps", STEPS, "--threads", "1"];
    let run = scratch.record("r", &["--no-agent"], &command);
    assert!(run.report.samples("clock") > 100);
    assert!(run.report.notes().contains("agent"), "{}", run.report.notes());
    assert!(run.report.objects().iter().all(|o| o["kind"] != "heap"), "{:?}", run.report.objects());
    let largest = common::Object(&run.report.objects()[0]);
    assert!(largest.used_in(&["walk"]) > 0.5, "{largest:?}");
}

#[test]
fn a_refusal_by_seccomp_is_named_and_the_signal_rung_takes_over() {
    let Some(program) = workload("chase") else { return };
    let scratch = Scratch::new();
    let launcher = scratch.c(
        "launcher",
        r#"#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(int argc, char **argv) {
    (void)argc;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog all = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) return 77;
    execv(argv[1], argv + 1);
    return 78;
}"#,
    );
    let mut inner = scratch.recorder("r", &[]);
    inner.arg(program).args(["--bytes", "33554432", "--steps", STEPS, "--threads", "1"]);
    let output = run(Command::new(launcher).arg(inner.get_program()).args(inner.get_args()));
    if output.status.code() == Some(77) {
        return skip("no seccomp filter can be installed here");
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = scratch.report("r", &[]);
    assert_signal_rung(&report);
    let why = report.0["verdict_why"].as_str().unwrap();
    assert!(why.contains("seccomp") || why.contains("paranoid"), "{why}");
}

#[test]
fn an_ordinary_user_can_record_own_programs() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 || !has("setpriv") {
        return skip("becoming an ordinary user needs root and setpriv");
    }
    let Some(program) = workload("triad") else { return };
    let scratch = Scratch::new();
    // Build trees may lie where other users cannot look.
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_nearfar")), "nearfar"), (&program, "triad")] {
        std::fs::copy(from, scratch.path(to)).unwrap();
    }
    let opened = Command::new("chmod").arg("0777").arg(scratch.directory()).status().unwrap();
    assert!(opened.success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(scratch.path("nearfar"));
    command.args(["record", "-o"]).arg(scratch.path("r")).arg("--").arg(scratch.path("triad"));
    command.args(["--elements", "1000000", "--iterations", "200"]).current_dir(scratch.directory());
    let output = run(command.env("OMP_WAIT_POLICY", "passive").env("HOME", scratch.directory()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = scratch.report("r", &[]);
    let samples = report.samples("clock") + report.samples("signal");
    assert!(samples > 50, "{}", report.0["rungs"]);
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level <= 2) && perf_works() {
        assert!(report.samples("clock") > 50);
        assert_eq!(
            report.object("a").pages("touched"),
            report.object("a").pages("total"),
            "{}",
            report.notes()
        );
    }
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
    let processes = nearfar::store::open(&scratch.path("children")).unwrap().input.processes;
    assert_eq!(processes.pid.len(), 1 + 2 * 100, "one process, and 100 forks that each exec");
}
