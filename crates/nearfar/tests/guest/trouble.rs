//! Interrupted, killed, crashed, missing: a clear message, and nothing left behind.

use super::machine::{job, run, shape, snapshot};
use nearfar_guest::{GuestError, GuestOptions, Job, Progress, Setup, Shape};
use nearfar_machine::Machine;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Run by the other tests in a process of its own: the script in `NEARFAR_TEST_SCRIPT`, in the
/// guest, with this process's streams.
#[test]
#[ignore = "started by other tests"]
fn as_a_program() {
    let script = std::env::var_os("NEARFAR_TEST_SCRIPT").expect("another test sets it");
    let end = |error: GuestError| -> ! {
        eprintln!("error: {error}");
        std::process::exit(i32::from(error.exit_status()))
    };
    let setup = Setup::find(&mut |_| {}).unwrap_or_else(|error| end(error));
    let snapshot = setup.ensure_snapshot(&shape("2x2"), &mut |_| {}).unwrap_or_else(|error| end(error));
    let job = Job::new(["sh".into(), "-c".into(), script].map(OsString::from).into());
    snapshot.run(job).unwrap_or_else(|error| end(error)).ending.pass_on()
}

fn program(script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["trouble::as_a_program", "--exact", "--ignored", "--nocapture"]);
    command.env("NEARFAR_TEST_SCRIPT", script).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A shell starts its background jobs with Ctrl-C ignored, and the tests may run in one.
    // SAFETY: signal is async-signal-safe and touches nothing of the parent's.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// A running program that has said `ready`, and its QEMU's process id.
fn ready(script: &str) -> (Child, BufReader<std::process::ChildStdout>, u32) {
    let mut child = program(&format!("echo ready; {script}")).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "{:?}", child.wait_with_output());
    }
    let qemu = children(child.id());
    assert_eq!(qemu.len(), 1, "one QEMU");
    (child, out, qemu[0])
}

fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name in parentheses: state, parent.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        if fields.is_some_and(|f| f[1] == parent.to_string() && f[0] != "Z") {
            found.push(pid);
        }
    }
    found
}

/// The process has ended; a zombie that nothing waits for counts as ended.
fn gone(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Err(_) => return true,
            Ok(stat) if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')) => return true,
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    false
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: a process that this test started.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

fn wait(mut child: Child) -> (ExitStatus, String) {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap(), text)
}

#[test]
fn signals_reach_the_program_and_nothing_is_left() {
    let Some(_) = snapshot() else { return };
    let (child, mut out, qemu) =
        ready("trap 'echo caught; exit 5' INT; echo armed; while :; do sleep 0.1; done");
    let mut line = String::new();
    while !line.contains("armed") {
        out.read_line(&mut line).unwrap();
    }
    kill(child.id(), libc::SIGINT);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let (status, stderr) = wait(child);
    assert!(rest.contains("caught"), "{rest} {stderr}");
    assert_eq!(status.code(), Some(5), "{stderr}");
    assert!(gone(qemu));
}

#[test]
fn an_interrupted_program_ends_us_by_the_same_signal() {
    let Some(_) = snapshot() else { return };
    let (child, _out, qemu) = ready("exec sleep 1000");
    // `ready` is said before the shell has become sleep; either dies of it.
    kill(child.id(), libc::SIGTERM);
    let (status, stderr) = wait(child);
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{stderr}");
    assert!(gone(qemu));
}

/// Booting is where an impatient user types Ctrl-C.
#[test]
fn an_interrupted_boot_leaves_nothing() {
    let Some(snapshot) = snapshot() else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut command = program("true");
    // Another cache, so that it must boot, with the kernel that is there already.
    command.env("XDG_CACHE_HOME", cache.path());
    command.env("NEARFAR_GUEST_KERNEL", &snapshot.setup().kernel().image);
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let qemu = loop {
        // QEMU asked for its version is a child, too, but has no machine.
        let booting = children(child.id()).into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(7).any(|word| word == b"-initrd")
        });
        if let Some(pid) = booting {
            break pid;
        }
        assert!(Instant::now() < deadline, "it does not boot");
        std::thread::sleep(Duration::from_millis(20));
    };
    kill(child.id(), libc::SIGINT);
    let (status, stderr) = wait(child);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: interrupted while the virtual machine was being prepared"), "{stderr}");
    assert!(gone(qemu));
    let mut left: Vec<_> = fs::read_dir(cache.path().join("nearfar/guest"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert!(left.iter().all(|name| name == "boot.lock" || name == "lock"), "{left:?}");
}

#[test]
fn qemu_does_not_outlive_us() {
    let Some(_) = snapshot() else { return };
    let (mut child, _out, qemu) = ready("sleep 1000");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(gone(qemu), "QEMU {qemu} still runs");
}

#[test]
fn the_end_of_qemu_is_an_error_that_says_how() {
    let Some(_) = snapshot() else { return };
    let (child, _out, qemu) = ready("sleep 1000");
    kill(qemu, libc::SIGSEGV);
    let (status, stderr) = wait(child);
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains("error: QEMU ended before the program did (signal 11 (SIGSEGV))"), "{stderr}");
}

#[test]
fn a_panic_of_the_guest_shows_its_console() {
    let Some(snapshot) = snapshot() else { return };
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can make the guest's kernel panic");
    }
    let error = run(snapshot, job(&["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 1000"])).err().unwrap();
    assert!(matches!(&error, GuestError::Panic { console } if console.contains("sysrq")), "{error}");
}

#[test]
fn what_cannot_be_started_is_named() {
    let Some(snapshot) = snapshot() else { return };
    let refused = |job: Job| run(snapshot, job).err().unwrap();
    let error = refused(job(&["no-such-program-anywhere"]));
    assert_eq!(error.exit_status(), 127);
    assert!(error.to_string().starts_with("no-such-program-anywhere: No such file"), "{error}");
    let error = refused(job(&["/etc/passwd"]));
    assert_eq!(error.exit_status(), 126);
    let mut lost = job(&["true"]);
    lost.directory = "/no/such/place".into();
    assert!(refused(lost).to_string().starts_with("/no/such/place: No such file"));
}

#[test]
fn without_qemu_the_message_says_what_to_type() {
    for (name, value, expected) in [
        ("PATH", "/nowhere", "qemu-system-x86_64 is not in PATH"),
        (
            "NEARFAR_QEMU",
            "/bin/false",
            "/bin/false: not a QEMU that can be used: -help ended with exit status: 1",
        ),
        ("NEARFAR_QEMU", "/bin/echo", "it calls itself `-help`"),
        ("NEARFAR_GUEST_KERNEL", "/etc/passwd", "NEARFAR_GUEST_KERNEL is /etc/passwd"),
    ] {
        if name == "NEARFAR_GUEST_KERNEL" && snapshot().is_none() {
            continue;
        }
        let output = program("true").env_remove("NEARFAR_QEMU").env(name, value).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn more_memory_than_the_host_has_is_refused_before_anything_starts() {
    let Some(snapshot) = snapshot() else { return };
    let machine = Machine::from_shape("4x1").unwrap();
    let shape = Shape::from_machine(&machine, &GuestOptions { memory_per_node: Some(1 << 44) }).unwrap();
    let mut steps = Vec::new();
    let result = snapshot.setup().ensure_snapshot(&shape, &mut |step: Progress| steps.push(step));
    let error = result.err().unwrap();
    assert!(matches!(error, GuestError::Memory { nodes: 4, .. }), "{error}");
    assert!(error.to_string().contains("4 nodes of 16 TiB"), "{error}");
    assert_eq!(steps, []);
}

/// A terminal of ours is one for the program: it colours, flushes lines and knows the width.
#[test]
fn a_terminal_is_a_terminal() {
    let Some(_) = snapshot() else { return };
    let (master, slave) = terminal();
    let script =
        "test -t 0 && test -t 1 && test -t 2 && echo a terminal; stty size; read line; echo got $line; cat";
    let mut command = program(script);
    let stream = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(stream()).stdout(stream()).stderr(stream());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let mut master = fs::File::from(master);
    // The line, and an end of file at the start of the next one.
    master.write_all(b"hello\n\x04").unwrap();
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    // EIO once the other end is closed.
    while let Ok(got @ 1..) = master.read(&mut bytes) {
        seen.extend(&bytes[..got]);
    }
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{seen}");
    for line in ["a terminal\r\n", "33 99\r\n", "got hello\r\n"] {
        assert!(seen.contains(line), "{seen:?}");
    }
}

fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize { ws_row: 33, ws_col: 99, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes two descriptors; the size is only read; no name or settings.
    unsafe {
        assert_eq!(libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size), 0);
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}
