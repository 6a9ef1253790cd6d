//! Where kernels and snapshots are kept, and how runs at the same time keep out of each
//! other's way: files appear whole or not at all, and the process that makes one holds a lock.

use super::error::GuestError;
use super::snapshot;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory `guest` below nearfar's cache; made if it is missing. Only its owner may write
/// to it: what lies there is loaded into QEMU and run.
pub(super) fn directory() -> Result<PathBuf, GuestError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let candidates = [
        absolute("XDG_CACHE_HOME").map(|path| path.join("nearfar/guest")),
        absolute("HOME").map(|path| path.join(".cache/nearfar/guest")),
        Some(std::env::temp_dir().join(format!("nearfar-{user}/guest"))),
    ];
    let mut tried = Vec::new();
    for directory in candidates.into_iter().flatten() {
        match usable(&directory, user) {
            Ok(()) => return Ok(directory),
            Err(error) => tried.push(format!("{}: {error}", directory.display())),
        }
    }
    let what = "no place for the virtual machine's kernel and snapshots (set XDG_CACHE_HOME to a directory of yours)";
    Err(GuestError::Host { what: what.into(), error: io::Error::other(tried.join("; ")) })
}

fn usable(directory: &Path, user: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    for path in [directory, directory.parent().unwrap_or(directory)] {
        let about = fs::symlink_metadata(path)?;
        if !about.is_dir() || about.uid() != user || about.mode() & 0o022 != 0 {
            return Err(io::Error::other("is not a directory of yours that only you can write to"));
        }
    }
    Ok(())
}

/// A lock by name, held until dropped. It ends with the process, however that ends.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock; `waiting` is called now and then, and may give up.
    pub fn take(
        directory: &Path,
        name: &str,
        waiting: &mut dyn FnMut() -> Result<(), GuestError>,
    ) -> Result<Lock, GuestError> {
        let path = directory.join(name);
        let failed = || GuestError::host(format!("cannot lock {}", path.display()));
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(failed())?;
        while !try_lock(&file).map_err(failed())? {
            waiting()?;
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(Lock { _file: file })
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a descriptor that is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        error => Err(error),
    }
}

/// What is kept for virtual machines.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The directory.
    pub directory: PathBuf,
    /// Booted machines, the latest used first: name, bytes on the disk, when it was used last.
    pub snapshots: Vec<(String, u64, SystemTime)>,
    /// Kernels: name and bytes on the disk.
    pub kernels: Vec<(String, u64)>,
}

/// What is kept now.
///
/// # Errors
/// If no cache directory can be used.
pub fn kept() -> Result<Kept, GuestError> {
    let directory = directory()?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let snapshots = snapshot::all(&directory).into_iter().rev();
    let snapshots = snapshots.map(|(used, path, bytes)| (name(&path), bytes, used)).collect();
    let kernels = fs::read_dir(directory.join("kernels")).into_iter().flatten().flatten();
    let mut kernels: Vec<(String, u64)> =
        kernels.map(|e| (name(&e.path()), snapshot::bytes_below(&e.path()))).collect();
    kernels.sort();
    Ok(Kept { directory, snapshots, kernels })
}

/// Removes all of it. A machine that runs has its files open and is not disturbed; one that boots is waited for.
///
/// # Errors
/// Those of the system.
pub fn clear() -> Result<(), GuestError> {
    let directory = directory()?;
    let _alone = Lock::take(&directory, "boot.lock", &mut || Ok(()))?;
    let failed = |path: &Path| GuestError::host(format!("cannot remove {}", path.display()));
    for (_, path, _) in snapshot::all(&directory) {
        snapshot::remove(&path).map_err(failed(&path))?;
    }
    let kernels = directory.join("kernels");
    match fs::remove_dir_all(&kernels) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&kernels)(error)),
        _ => Ok(()),
    }
}

const SCRATCH: &str = ".scratch-";

/// A directory for what is being made, gone at the end. What a killed run left is removed by
/// the next one.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    pub fn new(cache: &Path, what: &str) -> Result<Scratch, GuestError> {
        let _alone = Lock::take(cache, "lock", &mut || Ok(()))?;
        for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH)
                && let Ok(directory) = File::open(entry.path())
                && try_lock(&directory).unwrap_or(false)
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let thread = std::thread::current().id();
        let name = format!("{SCRATCH}{what}-{}-{thread:?}", std::process::id()).replace(['(', ')'], "");
        let path = cache.join(name);
        let make = || -> io::Result<File> {
            // A process of this number in another container may have left one.
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path)?;
            let directory = File::open(&path)?;
            try_lock(&directory)?;
            Ok(directory)
        };
        let lock = make().map_err(GuestError::host(format!("cannot make {}", path.display())))?;
        Ok(Scratch { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
