//! Snapshots of booted machines: a directory each. `machine` is what should be known of the machine, and then QEMU's
//! stream, which has no memory in it. `node0`, `node1` and so on are the nodes' memory as it was. Those are mapped, not read:
//! of some 100 MB a short run needs a part.

use super::memory_file::zeros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes before the stream: magic, length of the JSON (u64), JSON, zeros.
pub(super) const HEADER: u64 = 64 << 10;
const MAGIC: &[u8; 16] = b"nearfar guest 2\n";
const MACHINE: &str = "machine";
const PAGE: usize = 4096;
/// Bytes of memory that are looked at at once.
const CHUNK: usize = 1 << 20;
/// Bytes of all snapshots that are kept; the ones unused for longest go first. // chosen: twenty small machines
pub(super) const KEPT_BYTES: u64 = 2 << 30;

fn memory_file(node: usize) -> String {
    format!("node{node}")
}

/// What is known of a booted machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Length of the file `machine` in bytes.
    pub(super) file_bytes: u64,
    /// Memory of each node in bytes.
    pub(super) memory_bytes: Vec<u64>,
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
    /// Address of `clear_huge_page`; none if the kernel has none of that name.
    pub huge: Option<u64>,
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

/// Writes the header, and gives the directory its name, in which the rest is already.
pub(super) fn publish(made: &Path, path: &Path, mut about: About) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(made.join(MACHINE))?;
    about.file_bytes = file.seek(SeekFrom::End(0))?;
    let json = serde_json::to_vec(&about).map_err(io::Error::other)?;
    let mut header = MAGIC.to_vec();
    header.extend((json.len() as u64).to_le_bytes());
    header.extend(json);
    if header.len() as u64 > HEADER {
        return Err(io::Error::other("the guest said more of itself than fits"));
    }
    file.write_all_at(&header, 0)?;
    // Left by a version that wrote it otherwise, or damaged: the caller found it unfit.
    remove(path)?;
    fs::rename(made, path)
}

/// Removes a snapshot, if there is one. A machine that runs has its files open.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        // Versions before this one kept single files.
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// A snapshot's files, open.
pub(super) struct Opened {
    /// Stands at the beginning of QEMU's stream.
    pub machine: OwnedFd,
    pub memory: Vec<OwnedFd>,
    pub about: About,
}

/// What is known of a snapshot's machine. `None` if there is none that is whole.
pub(super) fn about(path: &Path) -> Option<About> {
    read(path).map(|(_, about)| about)
}

/// Opens a snapshot. `None` if there is none that is whole.
pub(super) fn open(path: &Path) -> Option<Opened> {
    let (machine, about) = read(path)?;
    let files = (0..about.memory_bytes.len()).map(|node| memory_of(&path.join(memory_file(node))));
    let memory = files.collect::<io::Result<_>>().ok()?;
    Some(Opened { machine: machine.into(), memory, about })
}

/// The file of a whole snapshot's machine, at the beginning of QEMU's stream, and what is known of it. Marks it as used now.
fn read(path: &Path) -> Option<(File, About)> {
    let mut file = File::open(path.join(MACHINE)).ok()?;
    let mut head = [0; 24];
    file.read_exact(&mut head).ok()?;
    let size = u64::from_le_bytes(head[16..].try_into().ok()?);
    if &head[..16] != MAGIC || size > HEADER {
        return None;
    }
    let mut json = vec![0; size as usize];
    file.read_exact(&mut json).ok()?;
    let about: About = serde_json::from_slice(&json).ok()?;
    let has = |node: usize, bytes: u64| {
        fs::metadata(path.join(memory_file(node))).is_ok_and(|file| file.len() == bytes)
    };
    let whole = about.memory_bytes.iter().enumerate().all(|(node, &bytes)| has(node, bytes));
    if !whole || file.metadata().ok()?.len() != about.file_bytes {
        return None;
    }
    file.seek(SeekFrom::Start(HEADER)).ok()?;
    // Only for the order in which they are given up.
    let _ = file.set_modified(SystemTime::now());
    Some((file, about))
}

/// A node's memory.
fn memory_of(path: &Path) -> io::Result<OwnedFd> {
    // QEMU before 8.2 wants to write to what it then maps as its own: what the guest writes goes nowhere.
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok(file.into()),
        // In an image that cannot be written to: a copy can.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
            ) =>
        {
            let kept = File::open(path)?;
            let copy = File::from(zeros(kept.metadata()?.len())?);
            copy_data(&kept, &copy)?;
            Ok(copy.into())
        }
        Err(error) => Err(error),
    }
}

/// Keeps a node's memory; pages of zeros take no room.
pub(super) fn keep_memory(made: &Path, node: usize, memory: &OwnedFd) -> io::Result<()> {
    let memory = File::from(memory.try_clone()?);
    let mut options = OpenOptions::new();
    let kept = options.write(true).create_new(true).mode(0o600).open(made.join(memory_file(node)))?;
    kept.set_len(memory.metadata()?.len())?;
    copy_data(&memory, &kept)
}

/// Copies all pages that are not zero.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let bytes = from.metadata()?.len();
    let mut chunk = vec![0; CHUNK];
    let mut next = 0;
    while let Some(at) = next_data(from, next)? {
        let length = CHUNK.min((bytes - at) as usize);
        from.read_exact_at(&mut chunk[..length], at)?;
        let mut written = at;
        for page in chunk[..length].chunks(PAGE) {
            if page.iter().any(|&byte| byte != 0) {
                to.write_all_at(page, written)?;
            }
            written += page.len() as u64;
        }
        next = at + length as u64;
    }
    Ok(())
}

/// Where the next byte is that the file holds; `None` behind the last.
fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    // SAFETY: a descriptor that is open.
    match unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, libc::SEEK_DATA) } {
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
        at => Ok(Some(at as u64)),
    }
}

/// The snapshots of a directory, unused for longest first, with the bytes that each takes on the disk.
pub(super) fn all(directory: &Path) -> Vec<(SystemTime, PathBuf, u64)> {
    let mut all: Vec<(SystemTime, PathBuf, u64)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "snapshot"))
        .filter_map(|path| {
            let used = fs::metadata(path.join(MACHINE)).or_else(|_| fs::metadata(&path)).ok()?;
            let bytes = bytes_below(&path);
            Some((used.modified().ok()?, path, bytes))
        })
        .collect();
    all.sort();
    all
}

/// Bytes on the disk of a file, or of all files below a directory.
pub(super) fn bytes_below(path: &Path) -> u64 {
    let Ok(about) = fs::symlink_metadata(path) else { return 0 };
    let below = if about.is_dir() { fs::read_dir(path).ok() } else { None };
    about.blocks() * 512 + below.into_iter().flatten().flatten().map(|e| bytes_below(&e.path())).sum::<u64>()
}

/// Removes the snapshots unused for longest, beyond `most` bytes; the latest stays.
pub(super) fn prune(directory: &Path, most: u64) {
    let all = all(directory);
    let mut kept: u64 = all.iter().map(|x| x.2).sum();
    for (_, path, bytes) in all.iter().take(all.len().saturating_sub(1)) {
        if kept <= most {
            break;
        }
        if remove(path).is_ok() {
            kept -= bytes;
        }
    }
}

/// Where QEMU writes its stream, behind room for the header.
pub(super) fn new_machine(made: &Path) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(made.join(MACHINE))?;
    file.seek(SeekFrom::Start(HEADER))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::super::memory_file::in_memory;
    use super::*;

    #[test]
    fn the_snapshots_unused_for_longest_go_first_and_the_latest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (age, name) in ["c", "a", "b", "latest"].into_iter().enumerate() {
            let path = directory.path().join(format!("{name}.snapshot"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join(MACHINE), vec![1; 4_096]).unwrap();
            fs::write(path.join(memory_file(0)), vec![1; 40_960]).unwrap();
            let machine = OpenOptions::new().write(true).open(path.join(MACHINE)).unwrap();
            machine.set_modified(begin + Duration::from_secs(age as u64)).unwrap();
        }
        fs::write(directory.path().join("kernel"), "not a snapshot").unwrap();
        let names = || -> Vec<String> {
            let stem = |p: &PathBuf| p.file_stem().unwrap().to_string_lossy().into_owned();
            all(directory.path()).iter().map(|(_, path, _)| stem(path)).collect()
        };
        let each = all(directory.path())[0].2;
        assert!(each >= 45_056, "{each}");
        assert_eq!(names(), ["c", "a", "b", "latest"]);
        prune(directory.path(), 2 * each);
        assert_eq!(names(), ["b", "latest"]);
        prune(directory.path(), 0);
        assert_eq!(names(), ["latest"]);
        assert!(directory.path().join("kernel").exists());
    }

    #[test]
    fn memory_is_kept_as_it_is_and_its_zeros_take_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = 5 * CHUNK + 3 * PAGE;
        let memory = zeros(bytes as u64).unwrap();
        let file = File::from(memory.try_clone().unwrap());
        let mut expected = vec![0; bytes];
        // One byte at an end of a page, whole pages, zeros that were written, the last byte.
        for (at, what) in
            [(PAGE - 1, vec![7]), (2 * CHUNK - PAGE, vec![8; 2 * PAGE]), (3 * CHUNK, vec![0; CHUNK])]
        {
            file.write_all_at(&what, at as u64).unwrap();
            expected[at..at + what.len()].copy_from_slice(&what);
        }
        file.write_all_at(&[9], bytes as u64 - 1).unwrap();
        expected[bytes - 1] = 9;
        keep_memory(directory.path(), 3, &memory).unwrap();
        let kept = directory.path().join("node3");
        assert!(fs::read(&kept).unwrap() == expected);
        let room = fs::metadata(&kept).unwrap().blocks() * 512;
        assert!(room <= 1 << 16, "{room} bytes for four pages");
        let full = in_memory(&vec![1; 2 * PAGE]).unwrap();
        keep_memory(directory.path(), 4, &full).unwrap();
        assert_eq!(fs::read(directory.path().join("node4")).unwrap(), vec![1; 2 * PAGE]);
    }

    #[test]
    fn what_is_not_whole_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.snapshot");
        let make = || {
            let made = directory.path().join("made");
            fs::create_dir(&made).unwrap();
            let mut machine = File::from(new_machine(&made).unwrap());
            io::Write::write_all(&mut machine, b"stream").unwrap();
            keep_memory(&made, 0, &in_memory(&vec![1; PAGE]).unwrap()).unwrap();
            let about = About { memory_bytes: vec![PAGE as u64], ..About::default() };
            publish(&made, &path, about).unwrap();
        };
        // A file of this name is of a version before this one, and is replaced like a damaged directory.
        fs::write(&path, "old").unwrap();
        assert!(open(&path).is_none());
        for damage in [(MACHINE, 3), ("node0", 0)] {
            make();
            let opened = open(&path).expect("a whole one");
            assert_eq!((opened.memory.len(), opened.about.file_bytes), (1, HEADER + 6));
            let mut stream = String::new();
            File::from(opened.machine).read_to_string(&mut stream).unwrap();
            assert_eq!(stream, "stream");
            let file = OpenOptions::new().write(true).open(path.join(damage.0)).unwrap();
            file.set_len(damage.1).unwrap();
            assert!(open(&path).is_none(), "{damage:?}");
        }
        make();
        fs::remove_file(path.join("node0")).unwrap();
        assert!(open(&path).is_none(), "a part is missing");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
