//! What can go wrong with the virtual machine, worded for the user.

use super::shape::ShapeError;
use nearfar_figures::sizes::capacity;
use std::io;
use std::path::PathBuf;

/// Why the virtual is missing machine, or not until the program's end.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// No emulator.
    #[error(
        "no QEMU: {tried}. The virtual machine needs qemu-system-x86_64. Type: sudo apt install \
         qemu-system-x86 (or name the program in NEARFAR_QEMU)"
    )]
    NoQemu {
        /// Where it was looked for.
        tried: String,
    },
    /// A file that is no QEMU, or one that does not start.
    #[error("{}: not a QEMU that can be used: {why}. Type: {} -help", program.display(), program.display())]
    BadQemu {
        /// The program.
        program: PathBuf,
        /// What it said instead.
        why: String,
    },
    /// Built with `--disable-plugins`.
    #[error(
        "{} ({version}) was built without TCG plugins, by which accesses are counted. Debian's and Ubuntu's \
         qemu-system-x86 have them; one built by hand needs ./configure --enable-plugins. Name another one \
         in NEARFAR_QEMU",
        program.display()
    )]
    NoPlugins {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// No kernel for the guest.
    #[error(
        "no kernel for the virtual machine: {tried}. Needed is Debian's generic kernel with its modules (not the \
         cloud kernel, which has no 9p). Type: apt-get download linux-image-amd64 (its dependency \
         linux-image-VERSION-amd64 is the one) and NEARFAR_GUEST_KERNEL=./linux-image-VERSION-amd64.deb, or name \
         a vmlinuz in NEARFAR_GUEST_KERNEL and its modules' directory in NEARFAR_GUEST_MODULES"
    )]
    NoKernel {
        /// Where it was looked for and what was wrong there.
        tried: String,
    },
    /// The machine cannot be emulated.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The guest's memory is more than the host's.
    #[error(
        "the virtual machine would have {} of memory ({nodes} nodes of {}), but {limit}: take less per node",
        capacity(*wanted), capacity(*per_node)
    )]
    Memory {
        /// Bytes of all nodes.
        wanted: u64,
        /// Bytes of the largest node.
        per_node: u64,
        /// How many nodes.
        nodes: usize,
        /// What the host has, in words.
        limit: String,
    },
    /// The guest's kernel or init did not get as far as to say hello.
    #[error("the virtual machine did not boot: {why}{}", tail(console))]
    Boot {
        /// What happened.
        why: String,
        /// The last lines of its console.
        console: String,
    },
    /// It booted, but not as the machine that was asked for.
    #[error("the virtual machine is not the one asked for: {0}")]
    Unlike(String),
    /// The guest's kernel gave up.
    #[error("the kernel of the virtual machine panicked{}", tail(console))]
    Panic {
        /// The last lines of its console.
        console: String,
    },
    /// The emulator ended by itself.
    #[error("QEMU ended before the program did ({how}){}", tail(said))]
    Died {
        /// Its exit status or signal.
        how: String,
        /// What it wrote, and the last lines of the console.
        said: String,
    },
    /// The guest could not start the program.
    #[error("{what}: {error} (in the virtual machine, which sees this host's files)")]
    Refused {
        /// What could not be done; for a program its name.
        what: String,
        /// The guest's error.
        error: io::Error,
    },
    /// Ctrl-C, SIGTERM or SIGHUP before the program ran.
    #[error("interrupted while the virtual machine was being prepared")]
    Interrupted {
        /// The signal, to be passed on.
        signal: i32,
    },
    /// A snapshot that QEMU does not take back.
    #[error("the snapshot does not resume{}", tail(said))]
    Resume {
        /// What QEMU wrote.
        said: String,
    },
    /// QEMU's control channel said no.
    #[error("QEMU refused `{command}`: {why}")]
    Qmp {
        /// The command.
        command: String,
        /// Its answer.
        why: String,
    },
    /// A host tool failed.
    #[error("{command}: {why}")]
    Tool {
        /// The command line.
        command: String,
        /// What it said.
        why: String,
    },
    /// A file or system call of the host.
    #[error("{what}: {error}")]
    Host {
        /// What was being done.
        what: String,
        /// The host's error.
        error: io::Error,
    },
}

impl GuestError {
    /// For `map_err`: an error of the host while doing `what`.
    pub(super) fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> GuestError {
        let what = what.into();
        move |error| GuestError::Host { what, error }
    }

    /// The exit status that a shell would give: 127 and 126 for programs that cannot run.
    pub fn exit_status(&self) -> u8 {
        match self {
            GuestError::Refused { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            GuestError::Refused { .. } => 126,
            _ => 1,
        }
    }
}

fn tail(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!(". Its last words:\n{}", text.trim_end()) }
}
