//! Where kernels and snapshots are kept, and how runs at the same time keep out of each
//! other's way: files appear whole or not at all, and whoever makes one holds a lock.

use super::error::GuestError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

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
