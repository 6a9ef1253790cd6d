//! A signal that are sent to the recorder does to the program what it would do alone.

#[path = "../common/mod.rs"]
mod common;

use common::{Scratch, disposed, nearfar, text};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SOURCE: &str = include_str!("target.c");

/// All standard signals that can be caught and are not a processor's complaint, and two others.
fn signals() -> Vec<i32> {
    let own = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGSTOP,
    ];
    (1..32).filter(|s| !own.contains(s)).chain([libc::SIGRTMIN(), libc::SIGRTMAX() - 1]).collect()
}

/// What a shell may have the tests ignore.
const STARTED: &[i32] = &[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// By default these do nothing.
const HARMLESS: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

/// The ways to run a program that are to make no difference.
fn ways(scratch: &Scratch, name: &str, command: &[String]) -> Vec<(&'static str, Command)> {
    let mut all = Vec::new();
    let mut alone = Command::new(&command[0]);
    alone.args(&command[1..]);
    all.push(("alone", alone));
    for (way, flags) in [("--no-perf", ["-q", "--no-perf"]), ("--no-agent", ["-q", "--no-agent"])] {
        let mut recorder = scratch.recorder(&format!("{name}{way}"), &flags);
        recorder.args(command);
        all.push((way, recorder));
    }
    let mut run = nearfar();
    run.args(["run", "-q", "-N", "0", "--"]).args(command);
    all.push(("run", run));
    for (_, command) in &mut all {
        // With a limit of CPU time the recorder leaves the symbols for later, which take it ten times as long
        // as the program.
        // SAFETY: an async-signal-safe call.
        unsafe {
            command.pre_exec(|| {
                let hour = libc::rlimit { rlim_cur: 3600, rlim_max: 3600 };
                libc::setrlimit(libc::RLIMIT_CPU, &hour);
                Ok(())
            });
        }
    }
    all
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn started(mut command: Command, ready: &Path) -> Child {
    let _ = std::fs::remove_file(ready);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process group of its own, as a shell gives it.
    let child = command.process_group(0).spawn().unwrap();
    wait_for("the program", || std::fs::metadata(ready).is_ok_and(|m| m.len() > 0));
    child
}

/// Sends to this process only; with a value if there is one.
fn send(child: &Child, signal: i32, value: Option<i32>) {
    let pid = child.id() as i32;
    // SAFETY: a child of the test that was not waited for.
    let sent = unsafe {
        match value {
            None => libc::kill(pid, signal),
            Some(value) => libc::sigqueue(pid, signal, libc::sigval { sival_ptr: value as usize as *mut _ }),
        }
    };
    assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
}

/// Waits until it stands still (or runs again); gives the signal by which it does.
fn standstill(child: &Child, flag: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of the test; the kernel writes one status.
    let got = unsafe { libc::waitpid(child.id() as i32, &mut status, flag) };
    assert_eq!(got, child.id() as i32);
    if libc::WIFSTOPPED(status) { libc::WSTOPSIG(status) } else { i32::from(libc::WIFCONTINUED(status)) }
}

fn end(child: Child) -> (String, ExitStatus, String) {
    let output = child.wait_with_output().unwrap();
    (text(&output.stdout), output.status, text(&output.stderr))
}

fn target(scratch: &Scratch) -> String {
    scratch.compile("gcc", "target.c", SOURCE, &[]).display().to_string()
}

/// What each way gives of a signal in this mode; all the same as alone.
fn check(mode: &str, value: Option<i32>) {
    let scratch = Scratch::new();
    let program = target(&scratch);
    let ready = scratch.path("ready");
    let mut different = Vec::new();
    for signal in signals() {
        let command = [program.clone(), mode.into(), signal.to_string(), ready.display().to_string()];
        let mut alone = None;
        for (way, command) in ways(&scratch, &format!("{mode}{signal}"), &command) {
            let child = started(command, &ready);
            send(&child, signal, value);
            if mode == "default" && STOPS.contains(&signal) {
                assert_eq!(standstill(&child, libc::WUNTRACED), signal, "{way}");
                send(&child, libc::SIGCONT, None);
                assert_eq!(standstill(&child, libc::WCONTINUED), 1, "{way}");
            }
            // What has ended cannot be ended again.
            if mode != "default" || STOPS.contains(&signal) || HARMLESS.contains(&signal) {
                send(&child, libc::SIGRTMAX(), None);
            }
            let (output, status, errors) = end(child);
            let got = (output, status.code(), status.signal());
            let alone = alone.get_or_insert_with(|| got.clone());
            if got != *alone {
                different.push(format!("{mode} {signal} {way}: {got:?}, alone {alone:?} {errors}"));
            }
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn the_default_action_is_the_programs() {
    check("default", None);
}

#[test]
fn an_ignored_signal_is_ignored() {
    check("ignored", None);
}

#[test]
fn a_handler_runs_once() {
    check("handler", None);
}

#[test]
fn a_blocked_signal_is_waited_for() {
    check("wait", None);
}

#[test]
fn a_value_arrives_with_its_sender() {
    check("handler", Some(4711));
}

#[test]
fn a_shell_traps_it() {
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let mut different = Vec::new();
    // A shell runs its trap of SIGCHLD for children of its own only.
    for signal in signals().into_iter().filter(|&signal| signal != libc::SIGCHLD) {
        let script = format!(
            "trap 'kill $!; echo caught; exit 7' {signal}; sleep 60 & echo 1 > {}; wait; echo woken",
            ready.display()
        );
        let mut alone = None;
        for (way, mut command) in
            ways(&scratch, &format!("shell{signal}"), &["bash".into(), "-c".into(), script.clone()])
        {
            // A shell cannot trap what it was started to ignore.
            disposed(&mut command, STARTED, libc::SIG_DFL);
            let child = started(command, &ready);
            send(&child, signal, None);
            let (output, status, errors) = end(child);
            let got = (output, status.code(), status.signal());
            let alone = alone.get_or_insert_with(|| got.clone());
            if got != *alone {
                different.push(format!("shell {signal} {way}: {got:?}, alone {alone:?} {errors}"));
            }
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// Ignored signals and the mask that the recorder was started with.
#[test]
fn what_the_recorder_was_started_with_is_the_programs() {
    let scratch = Scratch::new();
    let show = [
        "bash".to_owned(),
        "-c".into(),
        "grep -E '^(Sig(Blk|Ign)|Shd)' /proc/self/status; ulimit -a; ls -l /proc/self/fd | wc -l".into(),
    ];
    let ignore: &[i32] = &[libc::SIGPIPE, libc::SIGHUP, libc::SIGXFSZ, libc::SIGCHLD, libc::SIGTSTP];
    for (ignored, blocked) in
        [(&[][..], &[][..]), (ignore, &[]), (&[], ignore), (&[libc::SIGINT], &[libc::SIGTERM])]
    {
        let mut alone = None;
        for (at, (way, mut command)) in ways(&scratch, "shown", &show).into_iter().enumerate() {
            let (ignored, blocked) = (ignored.to_vec(), blocked.to_vec());
            // SAFETY: async-signal-safe calls on values that were made before.
            unsafe {
                command.pre_exec(move || {
                    for signal in 1..32 {
                        libc::signal(signal, libc::SIG_DFL);
                    }
                    for &signal in &ignored {
                        libc::signal(signal, libc::SIG_IGN);
                    }
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut set);
                    for &signal in &blocked {
                        libc::sigaddset(&mut set, signal);
                    }
                    libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
                    let few = libc::rlimit { rlim_cur: 100, rlim_max: 3000 };
                    libc::setrlimit(libc::RLIMIT_NOFILE, &few);
                    Ok(())
                });
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{way}: {output:?}");
            let got = text(&output.stdout);
            let alone = alone.get_or_insert_with(|| got.clone());
            assert_eq!(got, *alone, "{way}, {at}");
            let _ = std::fs::remove_dir_all(scratch.path(&format!("shown{way}")));
        }
    }
}

/// A timer that the recorder's starter set is the program's.
#[test]
fn an_alarm_set_before_ends_the_program() {
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let command =
        [target(&scratch), "inherited".into(), libc::SIGALRM.to_string(), ready.display().to_string()];
    for (way, mut command) in ways(&scratch, "alarm", &command) {
        // SAFETY: an async-signal-safe call.
        unsafe {
            command.pre_exec(|| {
                let soon = libc::itimerval {
                    it_interval: std::mem::zeroed(),
                    it_value: libc::timeval { tv_sec: 5, tv_usec: 0 },
                };
                libc::setitimer(libc::ITIMER_REAL, &soon, std::ptr::null_mut());
                Ok(())
            });
        }
        let (_, status, errors) = end(started(command, &ready));
        assert_eq!(status.signal(), Some(libc::SIGALRM), "{way} {errors}");
    }
}

/// The recorder that waits for a reader of its messages ends at a signal, as the program has ended.
#[test]
fn signals_after_the_end_are_the_recorders() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let scratch = Scratch::new();
        let (reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        let mut command = scratch.recorder("r", &["--no-perf"]);
        disposed(&mut command, STARTED, libc::SIG_DFL);
        let mut child = command.arg("true").stderr(writer).stdout(Stdio::null()).spawn().unwrap();
        // Finished: nothing is left but to report it.
        wait_for("the end of the recording", || {
            let meta = std::fs::read_to_string(scratch.path("r/meta.json")).unwrap_or_default();
            meta.contains("\"closed\"") && !scratch.path("r/journal.nfj").exists()
        });
        send(&child, signal, None);
        let mut status = None;
        wait_for("the recorder's end", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().signal(), Some(signal));
        assert_eq!(scratch.report("r", &[]).0["exit"], "exit 0");
        drop(reader);
    }
}

fn fill(pipe: &std::io::PipeWriter) {
    use std::os::fd::AsRawFd;
    let fd = pipe.as_raw_fd();
    let some = [b'x'; 4096];
    // SAFETY: writes from a buffer of that length into a pipe that is the test's.
    unsafe {
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
        for size in [some.len(), 1] {
            while libc::write(fd, some.as_ptr().cast(), size) > 0 {}
        }
        libc::fcntl(fd, libc::F_SETFL, 0);
    }
}

/// A complaint about the processor, sent by another process, ends the recorder; the program goes on.
#[test]
fn the_recorders_own_death_leaves_the_program_running() {
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let pid_file = scratch.path("pid");
    let script = format!(
        "echo $$ > {}; echo 1 > {}; while [ ! -e {} ]; do sleep 0.02; done; echo whole; exit 3",
        pid_file.display(),
        ready.display(),
        scratch.path("go").display()
    );
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGKILL] {
        let mut command = scratch.recorder(&format!("r{signal}"), &["-q"]);
        command.args(["bash", "-c", &script]);
        let mut child = started(command, &ready);
        send(&child, signal, None);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal));
        std::fs::write(scratch.path("go"), "").unwrap();
        let mut output = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut output).unwrap();
        assert_eq!(output, "whole\n");
        std::fs::remove_file(scratch.path("go")).unwrap();
    }
}
