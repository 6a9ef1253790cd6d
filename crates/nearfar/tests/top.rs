//! `nearfar top` on the machine at hand: its batch mode, and its screen on a terminal of the test's own.

mod common;

use common::{Scratch, disposed, has, text};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for what must come.
const SOON: Duration = Duration::from_secs(60);

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).arg("top").args(arguments).output().unwrap()
}

/// Fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all
}

/// The lines of the last interval, by table, row and column: value, unit, source.
fn last_interval(csv: &str) -> BTreeMap<(String, String, String), [String; 3]> {
    let lines: Vec<Vec<String>> = csv.lines().skip(1).map(fields).collect();
    let last = lines.last().expect("at least one number")[0].clone();
    let of_last = lines.into_iter().filter(|l| l[0] == last);
    of_last
        .map(|l| {
            assert_eq!(l.len(), 9, "{l:?}");
            ((l[2].clone(), l[3].clone(), l[5].clone()), [l[6].clone(), l[7].clone(), l[8].clone()])
        })
        .collect()
}

/// A program that keeps one thread busy, another one asleep, and has 96 MiB.
const PROGRAM: &str = r#"
#include <sys/mman.h>
static void *sleeper(void *x) { (void)x; pause(); return NULL; }
int main(void) {
    size_t bytes = 96 << 20;
    volatile char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)p, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096) p[i] = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    puts("ready");
    fflush(stdout);
    for (;;) p[0]++;
}
"#;

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Option<(Scratch, Running)> {
    if !has("cc") {
        return None;
    }
    let scratch = Scratch::new();
    let program = scratch.c("busy", PROGRAM);
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Some((scratch, Running(child)))
}

#[test]
fn numbers_are_those_of_the_kernel_and_what_has_no_source_has_a_reason() {
    let Some((_scratch, busy)) = program() else { return };
    let pid = busy.0.id().to_string();
    let output = top(&["0.5", "-n", "3", "--csv", "-", "-p", &pid]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let numbers = last_interval(&text(&output.stdout));
    let cell =
        |table: &str, row: &str, column: &str| numbers[&(table.into(), row.into(), column.into())].clone();
    let number = |table: &str, row: &str, column: &str| cell(table, row, column)[0].parse::<f64>().unwrap();
    // The busy thread uses cpu time, the sleeper none; how much depends on what else runs.
    assert!(number("processes", &pid, "cpu") > 0.0);
    assert!(number("threads", &pid, "cpu") > 0.0);
    let sleepers =
        numbers.iter().filter(|((t, _, c), v)| t == "threads" && c == "cpu" && v[0] == "0").count();
    assert_eq!(sleepers, 1);
    assert_eq!(number("processes", &pid, "threads"), 2.0);
    // Its pages, however they were looked at: 96 MiB and little more.
    let pages: f64 = numbers
        .iter()
        .filter(|((t, r, c), _)| t == "processes" && *r == pid && c.starts_with("node"))
        .map(|(_, v)| v[0].parse::<f64>().unwrap_or_else(|_| panic!("{v:?}")))
        .sum();
    assert!((90e6..130e6).contains(&pages), "{pages}");
    let largest = numbers
        .iter()
        .filter(|((t, _, c), _)| t == "objects" && c == "bytes")
        .map(|(_, v)| v[0].parse::<f64>().unwrap())
        .fold(0.0, f64::max);
    assert!((96 << 20) as f64 <= largest && largest < 110e6, "{largest}");
    let online = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = numbers.keys().filter(|(t, _, c)| t == "cores" && c == "busy").count();
    assert!(cores >= online, "{cores} of {online}");
    for ((table, row, column), [value, _, source]) in &numbers {
        assert!(!source.is_empty(), "{table} {row} {column}");
        assert!(
            !value.is_empty() || source.len() > 10,
            "{table} {row} {column} is unknown for no reason: {source}"
        );
    }
    // Without a PMU nothing of it is a number.
    if !std::path::Path::new("/sys/bus/event_source/devices/cpu").exists() {
        for column in ["ipc", "instructions", "local", "remote", "l2_hit"] {
            assert_eq!(cell("cores", "0", column)[0], "", "{column}");
        }
    }
}

#[test]
fn pcms_columns_have_a_line_for_each_cpu_and_nothing_where_nothing_is_counted() {
    let output = top(&["0.2", "-n", "1", "--csv", "-", "--columns", "pcm-numa"]);
    let lines = text(&output.stdout);
    let mut lines = lines.lines();
    assert!(lines.next().unwrap().starts_with("Time elapsed: "));
    assert_eq!(lines.next(), Some("Core,IPC,Instructions,Cycles,Local DRAM accesses,Remote DRAM accesses"));
    let rest: Vec<&str> = lines.filter(|l| !l.is_empty()).collect();
    assert!(rest.last().unwrap().starts_with("*,"), "{rest:?}");
    assert!(rest.iter().all(|l| l.split(',').count() == 6), "{rest:?}");
    let output = top(&["0.2", "-n", "2", "--csv", "-", "--columns", "pcm-memory"]);
    let lines = text(&output.stdout);
    let widths: Vec<usize> = lines.lines().map(|l| l.split(',').count()).collect();
    assert_eq!(widths.len(), 4, "two lines of headings and two intervals");
    assert!(widths.iter().all(|w| *w == widths[0]), "{lines}");
}

#[test]
fn it_ends_with_the_process_that_it_watches() {
    let mut sleeper = Command::new("sleep").arg("1").spawn().unwrap();
    let output = {
        let watching = Command::new(env!("CARGO_BIN_EXE_nearfar"))
            .args(["top", "0.2", "-p", &sleeper.id().to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        sleeper.wait().unwrap();
        watching.wait_with_output().unwrap()
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("has ended"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("unknown: "), "pages say what is missing");
}

#[test]
fn wrong_arguments_say_what_to_type() {
    for (arguments, says) in [
        (&["-p", "4194303"][..], "process 4194303 does not exist"),
        (&["0.01"], "0.1 or more"),
        (&["--on", "nowhere"], "-- COMMAND"),
        (&["--csv", "/nonexistent/file", "-n", "1"], "/nonexistent/file"),
        (&["--as", "nowhere", "-n", "1"], "nowhere"),
    ] {
        let output = top(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// What a terminal shows: enough of one for what the screen sends, which is places, text and clearing.
#[derive(Default)]
struct Shown {
    lines: BTreeMap<usize, BTreeMap<usize, char>>,
    at: (usize, usize),
    /// An escape sequence that has not ended.
    escape: Option<String>,
}

impl Shown {
    fn take(&mut self, text: &str) {
        for c in text.chars() {
            match (self.escape.take(), c) {
                (None, '\x1b') => self.escape = Some(String::new()),
                (None, '\r') => self.at.1 = 0,
                (None, '\n') => self.at.0 += 1,
                (None, c) => {
                    self.lines.entry(self.at.0).or_default().insert(self.at.1, c);
                    self.at.1 += 1;
                }
                (Some(escape), '[') if escape.is_empty() => self.escape = Some("[".into()),
                // A sequence `[…X` ends with a letter; those without a bracket are one character long.
                (Some(escape), c) if escape.is_empty() => drop((escape, c)),
                (Some(escape), 'H') => {
                    let number = |n: Option<&str>| n.and_then(|n| n.parse::<usize>().ok()).unwrap_or(1) - 1;
                    let mut places = escape[1..].split(';');
                    self.at = (number(places.next()), number(places.next()));
                }
                (Some(_), 'J') => self.lines.clear(),
                (Some(_), c) if c.is_ascii_alphabetic() => {}
                (Some(mut escape), c) => {
                    escape.push(c);
                    self.escape = Some(escape);
                }
            }
        }
    }

    fn text(&self) -> String {
        let line = |line: &BTreeMap<usize, char>| -> String {
            let end = line.keys().next_back().map_or(0, |last| last + 1);
            (0..end).map(|at| line.get(&at).copied().unwrap_or(' ')).collect()
        };
        self.lines.values().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    master: File,
    /// The terminal's settings before the child had it.
    before: (u32, u32, u32),
    /// All that was sent, and what it shows.
    seen: String,
    shown: Shown,
    bytes: Receiver<Vec<u8>>,
}

fn settings(terminal: &File) -> (u32, u32, u32) {
    // SAFETY: zero is a valid termios, and the kernel fills it.
    let found = unsafe {
        let mut found: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut found), 0);
        found
    };
    (found.c_iflag, found.c_oflag, found.c_lflag)
}

impl OnTerminal {
    fn start(mut command: Command, columns: u16, rows: u16) -> OnTerminal {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: two numbers to fill, no name, no settings, a size.
        let opened =
            unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(opened, 0);
        // SAFETY: openpty just gave us both, and nothing else has them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let before = settings(&master);
        let child = command.spawn().unwrap();
        drop(slave);
        let (sender, bytes) = channel();
        let mut reader = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length) = reader.read(&mut part) {
                if length == 0 || sender.send(part[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        OnTerminal { child, master, before, seen: String::new(), shown: Shown::default(), bytes }
    }

    fn receive(&mut self, bytes: &[u8]) {
        // Characters may be cut in two; those of this test's texts are not.
        self.seen.push_str(&text(bytes));
        self.shown.take(&text(bytes));
    }

    /// Waits until the terminal shows what is asked for.
    fn wait_until(&mut self, what: &str, is: impl Fn(&OnTerminal) -> bool) {
        let begin = Instant::now();
        while !is(self) {
            let left = SOON.saturating_sub(begin.elapsed());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.receive(&bytes),
                Err(why) => panic!("`{what}` never came ({why}):\n{}", self.shown.text()),
            }
        }
    }

    /// Waits until the terminal shows a text.
    fn wait_for(&mut self, what: &str) {
        self.wait_until(what, |on| on.shown.text().contains(what));
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads the struct.
        assert_eq!(unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
    }

    fn end(&mut self) -> std::process::ExitStatus {
        let begin = Instant::now();
        loop {
            while let Ok(bytes) = self.bytes.try_recv() {
                self.receive(&bytes);
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < SOON, "it does not end: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LEAVES: &str = "\x1b[?1049l";

fn screen() -> (OnTerminal, (u32, u32, u32)) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["top", "0.2"]);
    disposed(&mut command, &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], libc::SIG_DFL);
    let mut on = OnTerminal::start(command, 80, 24);
    on.wait_for("machine");
    let before = on.before;
    assert_ne!(settings(&on.master), before, "the terminal is raw while the screen is shown");
    (on, before)
}

#[test]
fn keys_turn_the_pages_and_q_leaves_the_terminal_as_it_was() {
    let (mut on, before) = screen();
    on.press("3");
    on.wait_for("stolen");
    on.press("w");
    on.wait_for("/proc/stat");
    on.press("x");
    on.wait_until("the table again", |on| !on.shown.text().contains("/proc/stat"));
    on.press("4");
    on.wait_for("resident");
    assert!(!on.shown.text().contains("looked"), "80 columns have no room for all:\n{}", on.shown.text());
    on.resize(200, 60);
    on.wait_for("looked");
    on.press("/no-such-name\r");
    on.wait_until("an empty table", |on| {
        on.shown.text().contains("(Esc: all)") && !on.shown.text().contains("nearfar  ")
    });
    on.press("q");
    let status = on.end();
    assert!(status.success(), "{status}: {:?}", on.seen);
    assert_eq!(settings(&on.master), before);
    on.wait_until("the end of the screen", |on| on.seen.contains(LEAVES));
}

#[test]
fn signals_and_ctrl_c_leave_the_terminal_as_it_was() {
    for signal in [Some(libc::SIGTERM), Some(libc::SIGHUP), Some(libc::SIGINT), None] {
        let (mut on, before) = screen();
        match signal {
            // SAFETY: our own child, which has not been waited for.
            Some(signal) => assert_eq!(unsafe { libc::kill(on.child.id() as i32, signal) }, 0),
            None => on.press("\x03"),
        }
        on.end();
        assert_eq!(settings(&on.master), before, "{signal:?}");
        on.wait_until("the end of the screen", |on| on.seen.contains(LEAVES));
    }
}

#[test]
fn a_kill_leaves_the_terminal_as_it_was_and_nobody_behind() {
    let (mut on, before) = screen();
    let waiting = || -> Vec<u32> {
        let of = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/fd/1")).ok();
        let terminal = of(&on.child.id());
        let own = on.child.id();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
        let nearfar = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nearfar")
        };
        pids.filter(|pid| *pid != own && nearfar(pid) && terminal.is_some() && of(pid) == terminal).collect()
    };
    let left = waiting();
    assert_eq!(left.len(), 1, "one process waits: {left:?}");
    on.child.kill().unwrap();
    on.child.wait().unwrap();
    on.wait_until("the end of the screen", |on| on.seen.contains(LEAVES));
    assert_eq!(settings(&on.master), before);
    let begin = Instant::now();
    while std::path::Path::new(&format!("/proc/{}", left[0])).exists() {
        assert!(begin.elapsed() < SOON, "it has nothing more to wait for");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the test below runs on a terminal.
#[test]
#[ignore = "run by a_panic_leaves_the_terminal_as_it_was"]
fn panics_on_the_screen() {
    let _terminal = nearfar::live::Terminal::take().unwrap();
    panic!("as asked");
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["panics_on_the_screen", "--exact", "--ignored", "--nocapture"]);
    let mut on = OnTerminal::start(command, 80, 24);
    on.wait_for("as asked");
    let (left, said) =
        (on.seen.find(LEAVES).expect("the screen was left"), on.seen.find("as asked").unwrap());
    assert!(left < said, "the message is printed on the restored terminal: {:?}", on.seen);
    on.end();
    assert_eq!(settings(&on.master), on.before);
}
