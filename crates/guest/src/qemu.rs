//! The emulator: where it is, what it can do, with which devices it is started.

use super::error::GuestError;
use super::shape::{Memory, Shape};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "qemu-system-x86_64";

/// A QEMU that was found.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// As it says: `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
    /// Built with TCG plugins.
    pub plugins: bool,
}

impl Qemu {
    /// The one in `NEARFAR_QEMU`, else the first in `PATH`.
    ///
    /// # Errors
    /// If there is none, or what is there does not start.
    pub fn find() -> Result<Qemu, GuestError> {
        if let Some(named) = std::env::var_os("NEARFAR_QEMU").filter(|n| !n.is_empty()) {
            let named = PathBuf::from(named);
            if !is_program(&named) {
                let tried = format!("NEARFAR_QEMU is {}, which is not an executable file", named.display());
                return Err(GuestError::NoQemu { tried });
            }
            return Qemu::at(named);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|directory| directory.join(NAME))
            .find(|file| is_program(file))
            .map_or_else(|| Err(GuestError::NoQemu { tried: format!("{NAME} is not in PATH") }), Qemu::at)
    }

    fn at(program: PathBuf) -> Result<Qemu, GuestError> {
        // Its first line is that of --version: one start, which loads a hundred libraries, in place of two.
        let said = ask(&program, "-help")?;
        let Some(version) = said.lines().next().and_then(|line| line.split_once(" version ")) else {
            let why = format!("it calls itself `{}`", said.lines().next().unwrap_or_default());
            return Err(GuestError::BadQemu { program, why });
        };
        let version = version.1.trim().to_owned();
        let plugins = said.lines().any(|line| line.starts_with("-plugin"));
        Ok(Qemu { program, version, plugins })
    }

    /// The plugin's view of memory: until 8.1 an address in QEMU's own numbering of RAM,
    /// afterwards the guest's physical one ("plugin: Simplify struct qemu_plugin_hwaddr").
    pub(super) fn plugin_sees_guest_physical(&self) -> bool {
        let mut numbers =
            self.version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0_u32));
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        (major, minor) >= (8, 2)
    }

    /// # Errors
    /// If this QEMU has no plugins.
    pub fn require_plugins(&self) -> Result<(), GuestError> {
        if self.plugins {
            return Ok(());
        }
        Err(GuestError::NoPlugins { program: self.program.clone(), version: self.version.clone() })
    }
}

/// What the guest gets of the host's files. The devices are the same always, or no snapshot would fit.
pub(super) struct Exports<'a> {
    /// The one directory that can be written to; `None`: all can, and this one is not asked for.
    pub writable: Option<&'a Path>,
}

impl Exports<'_> {
    /// For a machine that only boots.
    pub fn none() -> Exports<'static> {
        Exports { writable: Some(Path::new("/")) }
    }

    /// The values of two `-fsdev`. QEMU itself refuses writes to what is read-only: nothing in the guest can
    /// change that.
    fn arguments(&self) -> [OsString; 2] {
        // none: what cannot be set for want of rights (the owner, mostly) is not an error. New
        // files belong to the user of QEMU, who is the user of nearfar.
        let device = |id: &str, path: &Path, writable: bool| {
            let mut text = OsString::from(format!("local,id={id},security_model=none,multidevs=remap"));
            text.push(if writable { ",path=" } else { ",readonly=on,path=" });
            // A comma ends a value; twice, it is one.
            for (i, part) in path.as_os_str().as_bytes().split(|&b| b == b',').enumerate() {
                text.push(if i > 0 { ",," } else { "" });
                text.push(OsStr::from_bytes(part));
            }
            text
        };
        let root = Path::new("/");
        [
            device("host", root, self.writable.is_none()),
            device("out", self.writable.unwrap_or(root), self.writable.is_some_and(|path| path != root)),
        ]
    }
}

/// Threads of the emulator that execute the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// One, for all cpus in turn: to boot. Kernels put breakpoints into their own code while they change it, above all when they
    /// boot. With a thread for each cpu, four boots never ended. In the one that was looked at, QEMU (7.2) executed such a breakpoint
    /// again and again after it was taken away. Besides, cpus that spin until another one starts give way: a first run on 44 cpus
    /// takes less than a third of the processor time.
    One,
    /// One for each cpu: to run programs.
    PerCpu,
}

/// Arguments that booting and resuming have in common: the same machine, device by device.
pub(super) fn arguments(
    threads: Threads,
    shape: &Shape,
    memory: &Memory,
    kernel: &Path,
    exports: &Exports,
) -> Vec<OsString> {
    let threads = match threads {
        Threads::One => "tcg,thread=single",
        Threads::PerCpu => "tcg,thread=multi",
    };
    let mut out: Vec<OsString> = [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-machine",
        "pc",
        "-accel",
        threads,
        // Five-level page tables make kernel addresses and page walks longer.
        "-cpu",
        "max,la57=off",
    ]
    .map(OsString::from)
    .into();
    out.extend(shape.arguments(memory).into_iter().map(OsString::from));
    out.push("-kernel".into());
    out.push(kernel.into());
    out.push("-append".into());
    out.push(shape.kernel_arguments().into());
    out.extend(
        ["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=channel,name=nearfar,nr=1"]
            .map(OsString::from),
    );
    for (id, fsdev) in ["host", "out"].iter().zip(exports.arguments()) {
        out.extend(["-fsdev".into(), fsdev, "-device".into()]);
        out.push(format!("virtio-9p-pci,fsdev={id},mount_tag={id}").into());
    }
    out
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn ask(program: &Path, option: &str) -> Result<String, GuestError> {
    let bad = |why: String| GuestError::BadQemu { program: program.to_owned(), why };
    let output = Command::new(program)
        .arg(OsStr::new(option))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| bad(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(bad(format!("{option} ended with {}: {}", output.status, said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
