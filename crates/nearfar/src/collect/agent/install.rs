//! Puts the embedded agent where the loader can load it: a file named by its content,
//! so that runs at the same time and versions side by side do not disturb each other.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::naming;

/// The agent, as build.rs compiled it.
static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nearfar-agent.so"));

/// Finds or writes the agent's file; the first directory that works.
pub(super) fn install() -> io::Result<PathBuf> {
    let mut tried = Vec::new();
    for directory in candidates() {
        match install_in(&directory) {
            Ok(path) => return Ok(path),
            Err(error) => tried.push(naming(&directory, error).to_string()),
        }
    }
    Err(io::Error::other(format!(
        "no place for the preload agent (set XDG_CACHE_HOME or TMPDIR to a directory that is yours, writable and not mounted noexec): {}",
        tried.join("; ")
    )))
}

fn user() -> u32 {
    // SAFETY: geteuid always succeeds and touches nothing.
    unsafe { libc::geteuid() }
}

fn candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let private = format!("nearfar-{}", user());
    [
        absolute("XDG_CACHE_HOME").map(|path| path.join("nearfar")),
        absolute("HOME").map(|path| path.join(".cache/nearfar")),
        absolute("TMPDIR").map(|path| path.join(&private)),
        Some(Path::new("/tmp").join(&private)),
        Some(Path::new("/dev/shm").join(&private)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn install_in(directory: &Path) -> io::Result<PathBuf> {
    // LD_PRELOAD is split at both, and knows no escape.
    if directory.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n')) {
        return Err(io::Error::other("LD_PRELOAD cannot name a path with a space or a colon"));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // In /tmp anybody may have made it first, also as a link to elsewhere.
    let about = fs::symlink_metadata(directory)?;
    if !about.is_dir() || about.uid() != user() || about.mode() & 0o022 != 0 {
        return Err(io::Error::other("is not a directory of yours that only you can write to"));
    }
    let mut hasher = DefaultHasher::new();
    AGENT.hash(&mut hasher);
    let path = directory.join(format!("nearfar-agent-{:016x}.so", hasher.finish()));
    if holds_agent(&path) {
        return executable(&path).map(|()| path);
    }
    let temporary =
        directory.join(format!(".agent-{}-{:?}", std::process::id(), std::thread::current().id()));
    let write = || -> io::Result<()> {
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o755).open(&temporary)?;
        file.write_all(AGENT)?;
        drop(file);
        executable(&temporary)?;
        // Whoever renames last wins; the contents are the same.
        fs::rename(&temporary, &path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })?;
    Ok(path)
}

/// Whether the file is ours with exactly these bytes: a hash in a name proves nothing.
fn holds_agent(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let Ok(mut file) = options.read(true).custom_flags(libc::O_NOFOLLOW).open(path) else {
        return false;
    };
    let ours = file
        .metadata()
        .is_ok_and(|about| about.is_file() && about.uid() == user() && about.len() == AGENT.len() as u64);
    let mut bytes = Vec::new();
    ours && file.read_to_end(&mut bytes).is_ok() && bytes == AGENT
}

/// On a file system mounted noexec the loader would fail in every program; so would this.
fn executable(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: a new private mapping of one page of a file of our own, unmapped at once.
    let page = unsafe {
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if page != libc::MAP_FAILED {
            libc::munmap(page, 4096);
        }
        page
    };
    if page == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        let name = path.file_name().unwrap_or(OsStr::new("")).display().to_string();
        return Err(io::Error::new(
            error.kind(),
            format!("cannot map {name} as code (mounted noexec?): {error}"),
        ));
    }
    Ok(())
}
