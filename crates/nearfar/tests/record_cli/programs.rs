//! Commands, and a program that is busy for as long as a test wants.

use crate::common::{Scratch, text};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Status and message of a command that must fail without a word on stdout.
pub fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = run(command);
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    (output.status.code(), message)
}

pub fn shell(scratch: &Scratch, name: &str, flags: &[&str], script: &str) -> Output {
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
pub struct Busy {
    pub program: std::path::PathBuf,
    pub ready: std::path::PathBuf,
}

impl Busy {
    pub fn new(scratch: &Scratch) -> Busy {
        Busy { program: scratch.c("busy", BUSY), ready: scratch.path("ready") }
    }

    /// Starts it under the recorder.
    pub fn start(&self, scratch: &Scratch, flags: &[&str], seconds: &str) -> Child {
        let mut command = scratch.recorder("r", flags);
        command.arg(&self.program).arg(&self.ready).arg(seconds);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A process group of its own, as a shell gives it.
        command.process_group(0).spawn().unwrap()
    }

    /// Its process id, once it works.
    pub fn pid(&self) -> i32 {
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

pub fn send(pid: i32, signal: i32) {
    // SAFETY: sends a signal to a process (or, if negative, a group) that the test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
