//! What should run in the guest, and how it ended.

use super::channel::{field, to};
use super::host;
use nearfar_host::target::Ending;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel's choice of 2 MiB pages (/sys/kernel/mm/transparent_hugepage/enabled).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Wherever they fit: Debian's default.
    Always,
    /// Where the program asks for them.
    #[default]
    Madvise,
    /// Nowhere.
    Never,
}

impl HugePages {
    /// As the kernel writes it.
    pub fn text(self) -> &'static str {
        match self {
            HugePages::Always => "always",
            HugePages::Madvise => "madvise",
            HugePages::Never => "never",
        }
    }
}

/// One of the program's standard streams.
#[derive(Debug, Default)]
pub enum Stream {
    /// This process's own.
    #[default]
    Inherit,
    /// Empty, or thrown away.
    Null,
    /// A file, pipe or socket; closed at the end.
    File(OwnedFd),
}

/// A QEMU plugin for the run.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The shared object.
    pub path: PathBuf,
    /// Its arguments, names and values.
    pub arguments: Vec<(String, String)>,
    /// Libraries to be preloaded into QEMU (`LD_PRELOAD`).
    pub preload: Vec<PathBuf>,
}

/// Whether a run should end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not yet.
    GoOn,
    /// Enough: SIGTERM for the program, SIGKILL after [`Job::grace`].
    Stop,
}

/// A program to run in the guest.
pub struct Job {
    /// Program and arguments; the program is looked for in the `PATH` of `environment`.
    pub arguments: Vec<OsString>,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory on the host.
    pub directory: PathBuf,
    /// 2 MiB pages.
    pub huge_pages: HugePages,
    /// AutoNUMA (kernel.numa_balancing).
    pub numa_balancing: bool,
    /// Counts what the program does.
    pub plugin: Option<Plugin>,
    /// Its input.
    pub stdin: Stream,
    /// Its output.
    pub stdout: Stream,
    /// Its messages.
    pub stderr: Stream,
    /// Signals of the terminal (Ctrl-C) go to all processes of the program, as a shell's would;
    /// `false`: to the first only, which hands them on.
    pub signals_to_group: bool,
    /// Asked about ten times a second whether to stop.
    pub stop: Box<dyn FnMut() -> Verdict + Send>,
    /// The one directory of the host that can be written to; what is written elsewhere stays in the guest's memory
    /// and is gone with it. `None`: everything can be, with the rights of the user.
    pub writable: Option<PathBuf>,
    /// Between SIGTERM and SIGKILL after a [`Verdict::Stop`]. The guest is slow.
    pub grace: Duration,
}

impl Job {
    /// A program as this process would start it: same environment, directory and streams.
    pub fn new(arguments: Vec<OsString>) -> Job {
        Job {
            arguments,
            environment: std::env::vars_os().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            huge_pages: HugePages::default(),
            numa_balancing: false,
            plugin: None,
            stdin: Stream::Inherit,
            stdout: Stream::Inherit,
            stderr: Stream::Inherit,
            signals_to_group: true,
            stop: Box::new(|| Verdict::GoOn),
            writable: None,
            grace: Duration::from_secs(30),
        }
    }

    /// The message to init; see init/protocol.h for the fields. `terminals` are the standard
    /// streams that are one, with its size.
    pub(super) fn message(&self, terminals: (u64, (u16, u16))) -> (u32, Vec<u8>) {
        let mut out = Vec::new();
        let mut bytes = |kind: u32, bytes: &[u8]| {
            out.extend(kind.to_le_bytes());
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        };
        for argument in &self.arguments {
            bytes(field::ARGUMENT, argument.as_bytes());
        }
        for (name, value) in &self.environment {
            bytes(field::VARIABLE, &[name.as_bytes(), b"=", value.as_bytes()].concat());
        }
        bytes(field::DIRECTORY, self.directory.as_os_str().as_bytes());
        if let Some(directory) = &self.writable {
            bytes(field::WRITABLE, directory.as_os_str().as_bytes());
        }
        bytes(field::THP, self.huge_pages.text().as_bytes());
        bytes(field::SEED, &host::random::<64>());
        if let Some(name) = nearfar_host::proc::host_name() {
            bytes(field::HOSTNAME, name.as_bytes());
        }
        let mut numbers = |kind: u32, numbers: &[u64]| {
            let all: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            bytes(kind, &all);
        };
        numbers(field::BALANCING, &[u64::from(self.numa_balancing)]);
        numbers(field::USER, &host::user());
        if let Some(mask) = host::umask() {
            numbers(field::UMASK, &[u64::from(mask)]);
        }
        for limit in host::limits() {
            numbers(field::LIMIT, &limit);
        }
        let (mask, (rows, columns)) = terminals;
        numbers(field::TERMINAL, &[mask, u64::from(rows), u64::from(columns)]);
        numbers(field::ONE_OUTPUT, &[u64::from(same_file(&self.stdout, &self.stderr))]);
        // Anywhere in the lower half of the 22 bits that process ids have.
        numbers(field::FIRST_PID, &[1000 + u64::from(u32::from_le_bytes(host::random())) % (1 << 21)]);
        (to::JOB, out)
    }
}

/// Whether both streams end in the same file, pipe or terminal.
fn same_file(stdout: &Stream, stderr: &Stream) -> bool {
    let identity = |stream: &Stream, number: i32| {
        let fd = match stream {
            Stream::Null => return None,
            Stream::Inherit => number,
            Stream::File(fd) => fd.as_raw_fd(),
        };
        host::file_identity(fd)
    };
    identity(stdout, 1).is_some_and(|one| Some(one) == identity(stderr, 2))
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// Whether it was stopped by [`Job::stop`].
    pub stopped: bool,
    /// From the start of QEMU to the program's, on the host's clock.
    pub startup: Duration,
    /// The end of the guest's console: what its kernel complained about.
    pub console: String,
    /// Why QEMU did not end in order after the program did; the plugin may then be incomplete.
    pub trouble: Option<String>,
}
