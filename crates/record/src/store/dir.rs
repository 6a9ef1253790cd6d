//! A recording's directory, opened once: everything in it is reached relative to that descriptor,
//! without following links, and only regular files are read.
//!
//! A recording may have been made by an attacker, and be changed while we read it.

use nearfar_host::input::{Links, odd, open_at};
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What only the owner may read and write, whatever the umask says.
const DIRECTORY_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Directories in directories that are removed; ours have three levels.
const DEPTH: u32 = 8;
/// Most files of a directory that are looked at. // chosen: ten billion samples
const MOST_FILES: usize = 20_000;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// Why nothing may be written here, if so.
    foreign: Option<String>,
}

impl Dir {
    /// Opens a recording's directory. It may be named through a link, or belong to another user: then nothing
    /// is ever written there ([`Dir::foreign`]).
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Dir> {
        // Without its last slash, which would follow a link.
        let name = path.components().as_path();
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let (fd, linked) = match fs::open(name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => (fd, false),
            // Linux says ENOTDIR of a link that may not be followed to a directory.
            Err(Errno::LOOP | Errno::NOTDIR) => (fs::open(name, flags, Mode::empty())?, true),
            Err(error) => return Err(error.into()),
        };
        let owner = fs::fstat(&fd)?.st_uid;
        let foreign = if owner != rustix::process::geteuid().as_raw() {
            Some(format!("it belongs to user {owner}"))
        } else if linked {
            Some("it is named by a symbolic link".to_owned())
        } else {
            None
        };
        Ok(Dir { fd, path: path.to_owned(), foreign })
    }

    /// Makes a directory that only we may enter.
    ///
    /// # Errors
    /// Those of the system; also if there is something of that name.
    pub fn make(path: &Path) -> io::Result<()> {
        fs::mkdir(path, DIRECTORY_MODE)?;
        // A umask may take the owner's rights, too; where modes cannot be set (vfat), they mean nothing.
        let made = Dir::open(path)?;
        let _ = fs::fchmod(&made.fd, DIRECTORY_MODE);
        Ok(())
    }

    /// Why nothing may be written here.
    pub fn foreign(&self) -> Option<&str> {
        self.foreign.as_deref()
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory in this one, which may be several names deep; none of them may be a link.
    ///
    /// # Errors
    /// If it is not there, or is not a directory.
    pub fn below(&self, names: &str) -> io::Result<Dir> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::RDONLY;
        let mut fd: Option<OwnedFd> = None;
        for name in names.split('/') {
            let at = fd.as_ref().unwrap_or(&self.fd);
            fd = Some(fs::openat(at, name, flags, Mode::empty()).map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => {
                    odd(format!("`{name}` is not a directory, or a symbolic link"))
                }
                error => error.into(),
            })?);
        }
        let fd = fd.ok_or(Errno::NOENT)?;
        Ok(Dir { fd, path: self.path.join(names), foreign: self.foreign.clone() })
    }

    /// The same, made where it is missing.
    ///
    /// # Errors
    /// As of [`Dir::below`], and those of the system.
    pub fn below_or_make(&self, names: &str) -> io::Result<Dir> {
        let (first, rest) = names.split_once('/').map_or((names, None), |(first, rest)| (first, Some(rest)));
        match fs::mkdirat(&self.fd, first, DIRECTORY_MODE) {
            Ok(()) => drop(fs::chmodat(&self.fd, first, DIRECTORY_MODE, AtFlags::empty())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = self.below(first)?;
        match rest {
            Some(rest) => dir.below_or_make(rest),
            None => Ok(dir),
        }
    }

    /// Whether there is anything of that name.
    pub fn has(&self, name: &str) -> bool {
        fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// A regular file, opened for reading, and its size.
    ///
    /// # Errors
    /// If it is not there, or is anything else than a regular file.
    pub fn file(&self, name: &str) -> io::Result<(File, u64)> {
        open_at(&self.fd, Path::new(name), Links::Refuse)
    }

    /// All of a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// As of [`Dir::file`], and if it is larger.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let (file, length) = self.file(name)?;
        read_at_most(file, length, most)
    }

    /// A new file that only we may read and write.
    ///
    /// # Errors
    /// Those of the system; also if there is something of that name.
    pub fn create(&self, name: &str, append: bool) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::APPEND, append);
        let fd = fs::openat(&self.fd, name, flags, FILE_MODE)?;
        let _ = fs::fchmod(&fd, FILE_MODE);
        Ok(File::from(fd))
    }

    /// Puts a file in the place of another as a whole: a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (mut file, fresh) = self.fresh(name)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(fs::renameat(&self.fd, &fresh, &self.fd, name)?));
        if written.is_err() {
            let _ = fs::unlinkat(&self.fd, &fresh, AtFlags::empty());
        }
        written
    }

    /// Puts a whole file where there is none; `false` if there was one, which stays. Of several that do this at once,
    /// one succeeds, also on a shared file system, and none ever reads a part of a file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn publish(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let (mut file, fresh) = self.fresh(name)?;
        let put = file.write_all(bytes).and_then(|()| file.sync_data()).and_then(|()| {
            // Some file systems have no hard links (vfat, some FUSE): there, a rename that refuses to replace.
            match fs::linkat(&self.fd, &fresh, &self.fd, name, AtFlags::empty()) {
                Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS) => {
                    Ok(fs::renameat_with(&self.fd, &fresh, &self.fd, name, fs::RenameFlags::NOREPLACE)?)
                }
                linked => Ok(linked?),
            }
        });
        let _ = fs::unlinkat(&self.fd, &fresh, AtFlags::empty());
        match put {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|()| true),
        }
    }

    /// A new file beside `name`, under a name that is free: files that a crash left stay where they are.
    fn fresh(&self, name: &str) -> io::Result<(File, String)> {
        (0..)
            .find_map(|n| {
                let fresh = format!("{name}.{}-{n}", std::process::id());
                match self.create(&fresh, false) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < 1000 => None,
                    other => Some(other.map(|file| (file, fresh))),
                }
            })
            .expect("the thousandth failure is given back")
    }

    /// Removes a file, or the link itself.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes a directory with what is in it. Links are removed, not followed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove_tree(&self, name: &str) -> io::Result<()> {
        self.remove_below(OsStr::new(name), DEPTH)
    }

    fn remove_below(&self, name: &OsStr, depth: u32) -> io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::RDONLY;
        let fd = match fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP | Errno::NOTDIR) => return Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?),
            Err(error) => return Err(error.into()),
        };
        if depth == 0 {
            return Err(odd("there are more directories in it than any recording has"));
        }
        let dir = Dir { fd, path: self.path.join(name), foreign: None };
        for entry in dir.entries()? {
            dir.remove_below(&entry, depth - 1)?;
        }
        Ok(fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    fn entries(&self) -> io::Result<Vec<OsString>> {
        let mut all = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                all.push(name.to_owned());
            }
            if all.len() > MOST_FILES {
                return Err(odd(format!("it has more than {MOST_FILES} files")));
            }
        }
        Ok(all)
    }

    /// The names in it that are text, in order.
    ///
    /// # Errors
    /// Those of the system, and if there are more than any recording has.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> =
            self.entries()?.into_iter().filter_map(|n| n.into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Waits until nothing else has this directory and keeps it until the value is dropped.
    ///
    /// # Errors
    /// Where the file system has no locks.
    pub fn lock(&self) -> io::Result<()> {
        loop {
            match fs::flock(&self.fd, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sees to it that names are on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }
}

/// All of a file of `length` bytes, as long as these are at most `most`. What is appended meanwhile is not read.
pub(super) fn read_at_most(file: File, length: u64, most: u64) -> io::Result<Vec<u8>> {
    if length > most {
        return Err(odd(format!("it has {length} bytes, more than the {most} that it may have")));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
