//! The only way to a file that an argument or a recording names: a regular file of limited size. A FIFO would be
//! waited for, and a device such as /dev/zero has no end.

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// Largest file that a person writes (machine, placement), bytes. // chosen: ours have at most 20 thousand
pub const MOST_WRITTEN: u64 = 4 << 20;
/// Largest file that a program wrote for another one to read, bytes. // chosen
pub const MOST_MADE: u64 = 64 << 20;

/// An error of something that is not what it should be, with the reason.
pub fn odd(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn kind(mode: fs::RawMode) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something unknown",
    }
}

/// Whether links are followed to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// As for any path that a person types.
    Follow,
    /// Inside a recording, where they lead outside.
    Refuse,
}

/// A regular file, relative to an open directory, opened for reading; and its size in bytes.
///
/// # Errors
/// Those of the system, and if it is anything else than a regular file.
pub fn open_at(directory: impl AsFd, name: &Path, links: Links) -> io::Result<(File, u64)> {
    let (look, open) = match links {
        Links::Follow => (AtFlags::empty(), OFlags::empty()),
        Links::Refuse => (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW),
    };
    let regular = |mode: fs::RawMode| match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(odd(format!("it is {}, not a regular file", kind(mode)))),
    };
    // Looked at first, because opening a device can already do something.
    regular(fs::statat(&directory, name, look)?.st_mode)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | open;
    let fd = fs::openat(&directory, name, flags, Mode::empty())?;
    // And again, because it may have been exchanged in between.
    let is = fs::fstat(&fd)?;
    regular(is.st_mode)?;
    Ok((File::from(fd), u64::try_from(is.st_size).unwrap_or(0)))
}

/// A regular file at a path, opened for reading; and its size in bytes.
///
/// # Errors
/// Those of the system, and if it is anything else than a regular file.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    open_at(CWD, path, Links::Follow)
}

/// All bytes of a regular file that has at most `most`. Files of /proc and /sys say a wrong size, so what is read
/// is counted.
///
/// # Errors
/// Those of the system, and if it is not a regular file or larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open(path)?;
    let larger = || odd(format!("it is larger than the {most} bytes that such a file may have"));
    if length > most {
        return Err(larger());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(larger()) } else { Ok(bytes) }
}

/// The same as text.
///
/// # Errors
/// As of [`read`], and if it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| odd("it is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("small"), "12345").unwrap();
        assert_eq!(read(&at("small"), 5).unwrap(), b"12345");
        assert!(read(&at("small"), 4).unwrap_err().to_string().contains("larger than the 4 bytes"));
        std::os::unix::fs::symlink(at("small"), at("link")).unwrap();
        assert_eq!(read_text(&at("link"), 5).unwrap(), "12345");
        // Its size is 0 to stat.
        assert!(!read(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (path, word) in [(at("fifo"), "FIFO"), ("/dev/zero".into(), "device"), (at("."), "directory")] {
            let error = read(&path, 5).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("not a regular file"), "{error}");
        }
    }
}
