//! Snapshots of booted machines: one file each, with what should be known of the machine
//! before QEMU's migration stream.

use super::error::GuestError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes before the stream: magic, length of the JSON (u64), JSON, zeros.
pub(super) const HEADER: u64 = 64 << 10;
const MAGIC: &[u8; 16] = b"nearfar guest 1\n";
/// Bytes of all snapshots that are kept; the ones unused for longest go first. // chosen: ten small machines
pub(super) const KEPT_BYTES: u64 = 1 << 30;

/// What is known of a booted machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Length of the whole file in bytes.
    pub(super) file_bytes: u64,
    /// Booted from the unpacked kernel.
    pub(super) pvh: bool,
    /// Address of `__switch_to_asm` in the guest's kernel.
    pub switch: u64,
    /// Where `try_to_wake_up` is: its beginning and its end.
    pub wake: (u64, u64),
    /// As above, of `wake_up_new_task`.
    pub start: (u64, u64),
    /// As above, of `smp_call_function_many_cond`; none if the kernel has none of that name.
    pub call: Option<(u64, u64)>,
    /// Ends of the nodes' memory as a plugin's `qemu_plugin_hwaddr_phys_addr` sees them: node i
    /// has the addresses from the end before up to its own.
    pub ram_ends: Vec<u64>,
    /// All that the guest said of itself.
    pub hello: BTreeMap<String, String>,
    /// What booting and writing the snapshot took.
    pub boot: Duration,
    /// As above, of the second half.
    pub saving: Duration,
}

/// A file that has no name until it is whole.
pub(super) struct Nameless {
    pub file: File,
}

impl Nameless {
    /// In `directory`, where it will get its name.
    pub fn new(directory: &Path) -> io::Result<Nameless> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600);
        match options.open(directory) {
            Ok(file) => Ok(Nameless { file }),
            // A file system without such files (NFS, old overlayfs): a name for a moment, linked
            // to the descriptor only.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) =>
            {
                let path = directory.join(format!(".new-{}", std::process::id()));
                let _ = fs::remove_file(&path);
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
                fs::remove_file(&path)?;
                Ok(Nameless { file })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the header and gives the file its name.
    pub fn publish(mut self, path: &Path, mut about: About) -> io::Result<()> {
        about.file_bytes = self.file.seek(SeekFrom::End(0))?;
        let json = serde_json::to_vec(&about).map_err(io::Error::other)?;
        let mut header = MAGIC.to_vec();
        header.extend((json.len() as u64).to_le_bytes());
        header.extend(json);
        if header.len() as u64 > HEADER {
            return Err(io::Error::other("the guest said more of itself than fits"));
        }
        self.file.write_all_at(&header, 0)?;
        let source = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let target = CString::new(path.as_os_str().as_bytes())?;
        let link = || {
            // SAFETY: two NUL-terminated paths.
            let result = unsafe {
                libc::linkat(
                    libc::AT_FDCWD,
                    source.as_ptr(),
                    libc::AT_FDCWD,
                    target.as_ptr(),
                    libc::AT_SYMLINK_FOLLOW,
                )
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        match link() {
            // Left by a version that wrote it otherwise, or damaged: the caller found it unfit.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(path)?;
                link()
            }
            // A deleted file cannot be linked again: copied, then, under a name that is cleaned up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.copy_to(path),
            other => other,
        }
    }

    fn copy_to(&mut self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension(format!("part-{}", std::process::id()));
        self.file.seek(SeekFrom::Start(0))?;
        let copied = File::create(&beside)
            .and_then(|mut copy| io::copy(&mut self.file, &mut copy))
            .and_then(|_| fs::rename(&beside, path));
        if copied.is_err() {
            let _ = fs::remove_file(&beside);
        }
        copied
    }
}

/// Opens a snapshot and marks it as used now; the file stands at the start of the stream.
/// `None` if there is none that is whole.
pub(super) fn open(path: &Path) -> Option<(File, About)> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 24];
    file.read_exact(&mut head).ok()?;
    let size = u64::from_le_bytes(head[16..].try_into().ok()?);
    if &head[..16] != MAGIC || size > HEADER {
        return None;
    }
    let mut json = vec![0; size as usize];
    file.read_exact(&mut json).ok()?;
    let about: About = serde_json::from_slice(&json).ok()?;
    if file.metadata().ok()?.len() != about.file_bytes {
        return None;
    }
    file.seek(SeekFrom::Start(HEADER)).ok()?;
    // Only for the order in which they are given up.
    let _ = file.set_modified(SystemTime::now());
    Some((file, about))
}

/// The snapshots of a directory, unused for longest first, with the bytes that each takes on the disk.
pub(super) fn all(directory: &Path) -> Vec<(SystemTime, PathBuf, u64)> {
    let mut all: Vec<(SystemTime, PathBuf, u64)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "snapshot"))
        .filter_map(|entry| {
            let about = entry.metadata().ok()?;
            Some((about.modified().ok()?, entry.path(), about.blocks() * 512))
        })
        .collect();
    all.sort();
    all
}

/// Removes the snapshots unused for longest, beyond `most` bytes; the latest stays.
pub(super) fn prune(directory: &Path, most: u64) {
    let all = all(directory);
    let mut kept: u64 = all.iter().map(|x| x.2).sum();
    for (_, path, bytes) in all.iter().take(all.len().saturating_sub(1)) {
        if kept <= most {
            break;
        }
        if fs::remove_file(path).is_ok() {
            kept -= bytes;
        }
    }
}

/// Room for the header, so that QEMU writes behind it.
pub(super) fn reserve_header(file: &mut File) -> Result<(), GuestError> {
    file.write_all(&vec![0; HEADER as usize]).map_err(GuestError::host("cannot write the snapshot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshots_unused_for_longest_go_first_and_the_latest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (age, name) in ["c", "a", "b", "latest"].into_iter().enumerate() {
            let path = directory.path().join(format!("{name}.snapshot"));
            fs::write(&path, vec![1; 40_960]).unwrap();
            File::open(&path).unwrap().set_modified(begin + Duration::from_secs(age as u64)).unwrap();
        }
        fs::write(directory.path().join("kernel"), "not a snapshot").unwrap();
        let names = || -> Vec<String> {
            let stem = |p: &PathBuf| p.file_stem().unwrap().to_string_lossy().into_owned();
            all(directory.path()).iter().map(|(_, path, _)| stem(path)).collect()
        };
        let each = all(directory.path())[0].2;
        assert_eq!(names(), ["c", "a", "b", "latest"]);
        prune(directory.path(), 2 * each);
        assert_eq!(names(), ["b", "latest"]);
        prune(directory.path(), 0);
        assert_eq!(names(), ["latest"]);
        assert!(directory.path().join("kernel").exists());
    }
}
