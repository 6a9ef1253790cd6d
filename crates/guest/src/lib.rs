//! A virtual NUMA machine: a real Linux kernel under QEMU's emulation, with the nodes, cpus and
//! distances of a [`Machine`](nearfar_machine::Machine), that runs one program of this
//! host with this host's files.
//!
//! 1. [`Shape`] says what QEMU should emulate. It is a value.
//! 2. [`Setup`] has QEMU and a kernel. [`Setup::ensure_snapshot`] boots the shape once, with
//!    init/*.c as the only program, and keeps it as a file.
//! 3. [`Snapshot::run`] resumes it in less than a second, with a plugin if there is one. Init
//!    gets the [`Job`] through a virtio-serial port, mounts the host's root directory by 9p and
//!    runs the program in it, as the same user, in the same directory. Streams, signals and exit
//!    status go through the same port.
//!
//! The snapshot is taken before anything of the host is mounted: QEMU cannot save a mounted
//! 9p device, and the files would be stale. Nothing is left behind on any way out: QEMU's
//! sockets are inherited and nameless, it dies with its starter, and a snapshot gets its name
//! once it is whole.
//!
//! The guest's clock is the emulator's; no time that it shows is the program's.

mod boot;
mod bzimage;
mod cache;
mod channel;
mod error;
mod fetch;
mod host;
mod initramfs;
mod input;
mod job;
mod kernel;
pub mod memory_file;
mod modules;
mod output;
mod process;
mod qemu;
mod qmp;
mod run;
pub mod shape;
mod signals;
mod snapshot;
mod tail;
mod vmlinux;

pub use boot::{Setup, Snapshot};
pub use cache::{Kept, clear, kept};
pub use error::GuestError;
pub use job::{HugePages, Job, Outcome, Plugin, Stream, Verdict};
pub use kernel::Kernel;
pub use qemu::Qemu;
pub use shape::{GuestOptions, Memory, Shape, ShapeError};
pub use signals::Relay;
pub use snapshot::About;

use std::path::PathBuf;

/// What is being done, for the user who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A kernel comes from Debian's archive.
    Downloading {
        /// The package.
        package: String,
    },
    /// Its files are taken out.
    Unpacking {
        /// The package.
        package: String,
    },
    /// Another run boots.
    Waiting,
    /// The machine boots, for the first time in this shape.
    Booting {
        /// Its nodes.
        nodes: usize,
        /// Its cpus.
        cpus: usize,
    },
    /// The booted machine is written to the cache.
    Saving {
        /// Where to.
        directory: PathBuf,
    },
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Progress::Downloading { package } => write!(f, "downloading {package} (once; about 70 MB)"),
            Progress::Unpacking { package } => write!(f, "unpacking {package}"),
            Progress::Waiting => f.write_str("waiting for another nearfar that boots a virtual machine"),
            Progress::Booting { nodes, cpus } => {
                write!(
                    f,
                    "booting the virtual machine of {nodes} nodes and {cpus} cpus (once for this machine)"
                )
            }
            Progress::Saving { directory } => write!(
                f,
                "keeping it for the next time in {} (all such machines together take at most {}; `nearfar cache` \
                 shows and removes them)",
                directory.display(),
                nearfar_figures::sizes::capacity(snapshot::KEPT_BYTES)
            ),
        }
    }
}
