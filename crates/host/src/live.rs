//! A line on the terminal that says how far a long work is. It is below everything else that is there, and the cursor
//! stays above it: what the recorded program writes begins where it would begin without nearfar.
//!
//! Nobody can take back what a program wrote over a line, so the line is shown only as long as nothing but this process
//! has written to the terminal since the work began; the kernel tells (inotify). With the first foreign write the line
//! goes for good. A full-screen program, which has switched the terminal's lines off, is left alone altogether.

use nearfar_figures::escape;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a line is written anew. // chosen
pub const EVERY: Duration = Duration::from_secs(1);

/// The line.
pub struct Line {
    /// Writes to the terminal, by whoever.
    watch: OwnedFd,
    shown: bool,
    over: bool,
}

impl Line {
    /// A line on the terminal that standard error is; `None` if it is none, or one that knows no lines.
    pub fn on_terminal() -> Option<Line> {
        let knows = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        if !knows || !std::io::stderr().is_terminal() {
            return None;
        }
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let terminal = std::fs::read_link("/proc/self/fd/2").ok()?;
        inotify::add_watch(&watch, terminal, WatchFlags::MODIFY).ok()?;
        // The same terminal by its other name. It is everybody's: others' writes end the line, too.
        let _ = inotify::add_watch(&watch, "/dev/tty", WatchFlags::MODIFY);
        Some(Line { watch, shown: false, over: false })
    }

    /// Whether nothing is shown any more, since something else writes to the terminal.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Shows a text in place of the one before.
    pub fn show(&mut self, text: &str) {
        self.give_way();
        // In the background, the terminal is another's.
        if self.over || !in_foreground() {
            return;
        }
        // One that wrapped would be two lines, of which only one is taken away.
        let text: String = escape::line(text).chars().take(columns().saturating_sub(1)).collect();
        write(&format!("\r\n\x1b[K{text}\x1b[A\r"));
        self.shown = true;
        self.others_wrote();
    }

    /// Takes the line away if something else has written. To be called often: what comes next is written over it.
    pub fn give_way(&mut self) {
        if !self.over && self.others_wrote() {
            self.over = true;
            self.take_away();
        }
    }

    /// Whether anything was written since this was asked last.
    fn others_wrote(&mut self) -> bool {
        let mut events = [0; 4096];
        let mut any = false;
        while rustix::io::read(&self.watch, &mut events).is_ok_and(|bytes| bytes > 0) {
            any = true;
        }
        any
    }

    fn take_away(&mut self) {
        // From the cursor on: the program's own lines are before it.
        if std::mem::take(&mut self.shown) && !is_full_screen() {
            write("\x1b[J");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.give_way();
        self.take_away();
    }
}

/// A line of a work that does not say how far it is: what it is, and since when. It is there from the second second on.
pub struct Busy {
    over: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Busy {
    /// Begins.
    pub fn with(what: String) -> Busy {
        let Some(mut line) = Line::on_terminal() else { return Busy { over: None } };
        let (over, told) = mpsc::channel();
        let begin = Instant::now();
        let work = move || {
            while told.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                line.show(&format!("nearfar: {what}: {} s", begin.elapsed().as_secs()));
            }
        };
        let worker = std::thread::Builder::new().name("nearfar-busy".to_owned()).spawn(work);
        Busy { over: worker.ok().map(|worker| (over, worker)) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((over, worker)) = self.over.take() {
            drop(over);
            let _ = worker.join();
        }
    }
}

fn write(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes());
}

/// Columns of the terminal; where it does not say, those of most.
fn columns() -> usize {
    // SAFETY: plain data, for which zeroes are a value; the kernel fills it.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the struct.
    let known = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    if known && size.ws_col > 0 { size.ws_col.into() } else { 80 }
}

/// Whether this process may write to its terminal without being stopped; true where it is not its own terminal.
fn in_foreground() -> bool {
    // SAFETY: no preconditions.
    let (front, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    front < 0 || front == own
}

/// Whether a program reads the terminal letter by letter, as one that draws on the whole screen does.
fn is_full_screen() -> bool {
    // SAFETY: plain data, for which zeroes are a value; the kernel fills it.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the struct.
    let known = unsafe { libc::tcgetattr(libc::STDERR_FILENO, &mut settings) } == 0;
    known && settings.c_lflag & libc::ICANON == 0
}
