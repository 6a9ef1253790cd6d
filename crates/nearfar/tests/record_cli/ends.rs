//! Recordings that end early, are looked at early, or begin late.

use crate::common::{Scratch, disposed, nearfar, perf_works, skip, text};
use crate::programs::{Busy, pause, refused, run, send};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    // What there is can be reported (tests/attach.rs); a repair is derived from the whole run.
    let (status, message) = refused(nearfar().arg("fix").arg(scratch.path("r")));
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
    disposed(&mut command, &[libc::SIGINT], libc::SIG_DFL);
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

#[test]
fn a_recording_stops_growing_at_its_largest_size_and_says_so() {
    let scratch = Scratch::new();
    let program = scratch.c(
        "faults",
        "
int main(void) {
    for (int i = 0; i < 60; i++) {
        size_t bytes = 16 << 20;
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(p, bytes, MADV_NOHUGEPAGE);
        for (size_t k = 0; k < bytes; k += 4096) p[k] = 1;
        munmap(p, bytes);
    }
    puts(\"done\");
    return 4;
}",
    );
    if !perf_works() {
        return;
    }
    let output = scratch.recorder("r", &["--max-size", "3M"]).arg(&program).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(4), "done\n"));
    assert!(text(&output.stderr).contains("as large as --max-size allows"), "{}", text(&output.stderr));
    let size: u64 = std::fs::read_dir(scratch.path("r/run/rank=0"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 4 << 20, "{size}");
    let report = scratch.report("r", &[]);
    assert!(report.notes().contains("--max-size"), "{}", report.notes());
}
