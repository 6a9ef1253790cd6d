//! A captured machine in a tar archive, kept in memory: nothing of it is ever written to this host's disk.
//!
//! Archives are those of `nearfar topo --capture` (gzip) and of hwloc-gather-topology (bzip2, formerly gzip).

use anyhow::{Context, Result, bail};
use nearfar_figures::sizes::capacity;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Most bytes that an archive may hold unpacked. // chosen: a captured machine of 1,024 cpus has 20 MB
const MOST: u64 = 256 << 20;
/// Most entries of an archive. // chosen: hwloc's of 256 cpus has 60,000
const MOST_ENTRIES: usize = 1 << 20;
/// Links that one path may lead over, as the kernel's own limit (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// An entry of a tree of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A folder.
    Folder,
    /// A file's content.
    File(Vec<u8>),
    /// Where a symbolic link points.
    Link(String),
}

/// The files of a captured machine, by their paths below its root.
#[derive(Debug)]
pub(super) struct Archive {
    file: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Reads an archive.
    ///
    /// # Errors
    /// If the file cannot be read, is not a tar archive, is larger than a captured machine may be, or has no `sys` or `proc`.
    pub(super) fn open(file: &Path) -> Result<Self> {
        Archive::of_at_most(file, MOST)
    }

    /// The same with another limit of what it may hold unpacked, bytes.
    fn of_at_most(file: &Path, most: u64) -> Result<Self> {
        let bytes = crate::input::read(file, crate::input::MOST_MADE)?;
        let unpacked: Box<dyn Read> = match bytes.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(bytes.as_slice())),
            [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(bytes.as_slice())),
            _ => Box::new(bytes.as_slice()),
        };
        let mut archive = tar::Archive::new(unpacked.take(most));
        let all = entries(&mut archive);
        // Cut off there, an archive looks damaged.
        if archive.into_inner().limit() == 0 {
            bail!("unpacked it is larger than the {} that a captured machine may have", capacity(most));
        }
        let all = all?;
        let base = base(&all).context("nothing in it is called sys or proc")?;
        let below = |(path, entry): (String, Entry)| Some((path.strip_prefix(&base)?.to_owned(), entry));
        Ok(Archive::of(file, all.into_iter().filter_map(below).collect()))
    }

    /// The tree of these entries; folders that only their files tell of are added.
    pub(super) fn of(file: &Path, mut entries: BTreeMap<String, Entry>) -> Self {
        let paths: Vec<String> = entries.keys().cloned().collect();
        for path in &paths {
            let mut inner = path.as_str();
            while let Some((outer, _)) = inner.rsplit_once('/') {
                if entries.contains_key(outer) {
                    break;
                }
                entries.insert(outer.to_owned(), Entry::Folder);
                inner = outer;
            }
        }
        Archive { file: file.to_owned(), entries }
    }

    /// The archive's own path.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// If it is not there, or no file.
    pub(super) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let real = self.canonical(path).ok_or(io::ErrorKind::NotFound)?;
        match self.entries.get(&real) {
            Some(Entry::File(content)) => Ok(content.clone()),
            _ => Err(crate::input::odd("it is a directory, not a regular file")),
        }
    }

    /// Whether a path leads to a folder.
    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.canonical(path).is_some_and(|real| self.entries.get(&real) == Some(&Entry::Folder))
    }

    /// Whether a path leads anywhere.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.canonical(path).is_some()
    }

    /// Names in a folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Some(real) = self.canonical(path) else { return Vec::new() };
        let prefix = format!("{real}/");
        let inside = self.entries.range(prefix.clone()..).map_while(|(path, _)| path.strip_prefix(&prefix));
        inside.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// Where a path's links lead; `None` if that is nothing, or outside.
    pub(super) fn canonical(&self, path: &str) -> Option<String> {
        let mut at: Vec<String> = Vec::new();
        let mut left: VecDeque<String> = words(path);
        let mut links = 0;
        while let Some(word) = left.pop_front() {
            if word == ".." {
                at.pop()?;
                continue;
            }
            at.push(word);
            match self.entries.get(&at.join("/"))? {
                Entry::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    at.pop();
                    if target.starts_with('/') {
                        at.clear();
                    }
                    for word in words(target).into_iter().rev() {
                        left.push_front(word);
                    }
                }
                Entry::File(_) if !left.is_empty() => return None,
                _ => {}
            }
        }
        Some(at.join("/"))
    }
}

/// What is in an archive, by path.
fn entries(archive: &mut tar::Archive<impl Read>) -> Result<BTreeMap<String, Entry>> {
    let mut all = BTreeMap::new();
    for entry in archive.entries().context("it is not a tar archive")? {
        let mut entry = entry.context("it is not a tar archive, or damaged")?;
        let Some(path) = clean(&entry.path().context("an entry has no path")?) else { continue };
        let kind = entry.header().entry_type();
        let found = if kind.is_dir() {
            Entry::Folder
        } else if kind.is_symlink() {
            let target = entry.link_name().ok().flatten();
            let Some(target) = target.and_then(|t| Some(t.to_str()?.to_owned())) else { continue };
            Entry::Link(target)
        } else if kind.is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).with_context(|| format!("{path} is cut short"))?;
            Entry::File(content)
        } else {
            continue;
        };
        all.insert(path, found);
        if all.len() > MOST_ENTRIES {
            bail!("it has more than {MOST_ENTRIES} entries");
        }
    }
    Ok(all)
}

/// The parts of a path that say where it leads.
pub(super) fn words(path: &str) -> VecDeque<String> {
    path.split('/').filter(|w| !w.is_empty() && *w != ".").map(str::to_owned).collect()
}

/// An entry's path without `.`; `None` for the outermost folder, for what leads outside, and for names that are no text.
fn clean(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// What stands before `sys` or `proc`, with its last slash: the fewest folders.
fn base(entries: &BTreeMap<String, Entry>) -> Option<String> {
    let before = |path: &String| {
        let parts: Vec<&str> = path.split('/').collect();
        let at = parts.iter().position(|p| matches!(*p, "sys" | "proc"))?;
        Some(parts[..at].iter().map(|p| format!("{p}/")).collect::<String>())
    };
    entries.keys().filter_map(before).min_by_key(|base| base.matches('/').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, Entry)]) -> Archive {
        let all = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect();
        Archive::of(Path::new("m.tar"), all)
    }

    fn link(to: &str) -> Entry {
        Entry::Link(to.to_owned())
    }

    #[test]
    fn links_lead_where_the_kernel_would_go_and_never_outside() {
        let a = archive(&[
            ("sys/bus/d/eth", link("../../devices/pci/eth")),
            ("sys/devices/pci/eth/node", Entry::File(b"1\n".to_vec())),
            ("sys/devices/pci/eth/up", link("/sys/devices")),
            ("sys/out", link("../../../etc")),
            ("sys/a", link("b")),
            ("sys/b", link("a")),
            ("sys/gone", link("nothing")),
        ]);
        assert_eq!(a.canonical("sys/bus/d/eth").as_deref(), Some("sys/devices/pci/eth"));
        assert_eq!(a.read("sys/bus/d/eth/node").unwrap(), b"1\n");
        assert_eq!(a.names("sys/bus/d/eth/up"), ["pci"]);
        assert!(a.is_dir("sys/bus") && a.is_dir("sys/bus/d/eth/") && !a.is_dir("sys/bus/d/eth/node"));
        for nowhere in ["sys/out", "sys/a", "sys/gone", "sys/devices/pci/eth/node/x", "../x", "no"] {
            assert!(!a.exists(nowhere), "{nowhere}");
            assert!(a.read(nowhere).is_err() && a.names(nowhere).is_empty(), "{nowhere}");
        }
        assert!(a.read("sys/bus").is_err());
    }

    #[test]
    fn the_machine_is_found_below_whatever_folder_it_was_packed_in() {
        let of = |paths: &[&str]| base(&paths.iter().map(|p| ((*p).to_owned(), Entry::Folder)).collect());
        assert_eq!(of(&["m/sys/devices", "m/proc", "m/x/sys/y"]).as_deref(), Some("m/"));
        assert_eq!(of(&["sys/devices/system/cpu"]).as_deref(), Some(""));
        assert_eq!(of(&["m/other"]), None);
        assert_eq!(clean(Path::new("./m/./sys")).as_deref(), Some("m/sys"));
        assert_eq!(clean(Path::new("m/../../etc")), None);
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &[u8]| {
            let file = dir.path().join(name);
            std::fs::write(&file, content).unwrap();
            format!("{:#}", Archive::open(&file).unwrap_err())
        };
        assert!(at("text", b"hello").contains("tar"), "{}", at("text", b"hello"));
        assert!(at("gz", &[0x1f, 0x8b, 8, 0]).contains("tar"));
        assert!(at("empty", b"").contains("sys or proc"));
        assert!(Archive::open(dir.path()).is_err());
    }

    #[test]
    fn what_is_too_large_is_said_to_be_that_and_not_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(100_000);
        builder.append_data(&mut header, "m/sys/large", &[0u8; 100_000][..]).unwrap();
        let file = dir.path().join("m.tar");
        std::fs::write(&file, builder.into_inner().unwrap()).unwrap();
        assert_eq!(Archive::open(&file).unwrap().read("sys/large").unwrap().len(), 100_000);
        let why = format!("{:#}", Archive::of_at_most(&file, 50_000).unwrap_err());
        assert!(why.contains("larger than"), "{why}");
    }
}
