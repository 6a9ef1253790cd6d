//! The host's files below a root: the live machine, or a captured one in a folder or an archive.

use super::archive::Archive;
use super::capture::Capture;
use nearfar_machine::cpulist::{CpuList, IndexList};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Files below a root folder. What cannot be read is absent, not an error.
pub(super) struct Tree {
    files: Files,
    /// The only cpus that count; `None`: all.
    only: Option<CpuList>,
    /// What was looked at, where it is to be written down.
    seen: Option<RefCell<Capture>>,
}

enum Files {
    Folder(PathBuf),
    Archive(Archive),
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Tree { files: Files::Folder(root.to_owned()), only: None, seen: None }
    }

    /// The machine in an archive.
    pub(super) fn of_archive(archive: Archive) -> Self {
        Tree { files: Files::Archive(archive), only: None, seen: None }
    }

    /// As if the machine had these cpus only.
    pub(super) fn only(self, cpus: &CpuList) -> Self {
        Tree { only: Some(cpus.clone()), ..self }
    }

    /// Whether other cpus were left out.
    pub(super) fn is_part(&self) -> bool {
        self.only.is_some()
    }

    /// Remembers whatever is looked at from now on; nothing of an archive.
    pub(super) fn capturing(mut self) -> Self {
        if let Files::Folder(root) = &self.files {
            self.seen = Some(RefCell::new(Capture::of(root)));
        }
        self
    }

    /// What was looked at.
    pub(super) fn into_capture(self) -> Option<Capture> {
        self.seen.map(RefCell::into_inner)
    }

    /// Whether this is the machine that the program runs on, not a captured one.
    pub(super) fn is_live(&self) -> bool {
        matches!(&self.files, Files::Folder(root) if root == Path::new("/"))
    }

    /// Where the tree is, for messages.
    pub(super) fn root(&self) -> String {
        match &self.files {
            Files::Folder(root) => root.display().to_string(),
            Files::Archive(archive) => archive.file().display().to_string(),
        }
    }

    pub(super) fn counted(&self, cpus: CpuList) -> CpuList {
        match &self.only {
            Some(only) => cpus.iter().filter(|&c| only.contains(c)).collect(),
            None => cpus,
        }
    }

    /// A file's path as messages name it; in an archive after the archive's own and a colon.
    pub(super) fn shown(&self, relative: &str) -> String {
        match &self.files {
            Files::Folder(root) => root.join(relative).display().to_string(),
            Files::Archive(_) => format!("{}:{relative}", self.root()),
        }
    }

    /// The path of a file in a folder; an archive's files have none.
    pub(super) fn path(&self, relative: &str) -> Option<PathBuf> {
        match &self.files {
            Files::Folder(root) => Some(root.join(relative)),
            Files::Archive(_) => None,
        }
    }

    pub(super) fn is_dir(&self, relative: &str) -> bool {
        self.note(relative);
        match &self.files {
            Files::Folder(root) => root.join(relative).is_dir(),
            Files::Archive(archive) => archive.is_dir(relative),
        }
    }

    pub(super) fn exists(&self, relative: &str) -> bool {
        self.note(relative);
        match &self.files {
            Files::Folder(root) => root.join(relative).exists(),
            Files::Archive(archive) => archive.exists(relative),
        }
    }

    /// A file's bytes.
    pub(super) fn bytes(&self, relative: &str) -> io::Result<Vec<u8>> {
        match &self.files {
            Files::Folder(root) => crate::input::read(&root.join(relative), crate::input::MOST_MADE),
            Files::Archive(archive) => archive.read(relative),
        }
    }

    /// A file's text without the blanks around it. Some kernels (5.15-rc1 on a Kunpeng) also
    /// end their lists of siblings with a zero byte.
    pub(super) fn text(&self, relative: &str) -> Option<String> {
        self.try_text(relative).ok()
    }

    /// The same for what says why it is unknown.
    pub(super) fn try_text(&self, relative: &str) -> io::Result<String> {
        let bytes = self.bytes(relative)?;
        if let Some(seen) = &self.seen {
            seen.borrow_mut().read(relative, &bytes);
        }
        let blank = |c: char| c.is_whitespace() || c == '\0';
        Ok(String::from_utf8_lossy(&bytes).trim_matches(blank).to_owned())
    }

    pub(super) fn parsed<T: FromStr>(&self, relative: &str) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    /// A list of cpus or of nodes, whichever the file has.
    pub(super) fn list<T>(&self, relative: &str) -> Option<IndexList<T>> {
        self.parsed(relative)
    }

    /// A list where the file may be missing: the list form, or the older bit mask.
    pub(super) fn list_or_mask(&self, list: &str, mask: &str) -> Option<CpuList> {
        self.list(list).or_else(|| parse_mask(&self.text(mask)?))
    }

    /// Names in a folder; none if no such folder exists.
    pub(super) fn names(&self, relative: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.files {
            Files::Folder(root) => {
                let Ok(entries) = std::fs::read_dir(root.join(relative)) else { return Vec::new() };
                entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
            }
            Files::Archive(archive) => archive.names(relative),
        };
        if let Some(seen) = &self.seen {
            let mut seen = seen.borrow_mut();
            seen.look(relative);
            names.iter().for_each(|name| seen.look(&format!("{relative}/{name}")));
        }
        names.sort();
        names
    }

    /// Where an entry's links lead; `None` if that is outside the tree.
    pub(super) fn canonical(&self, relative: &str) -> Option<PathBuf> {
        self.note(relative);
        match &self.files {
            Files::Folder(root) => {
                let path = std::fs::canonicalize(root.join(relative)).ok()?;
                path.strip_prefix(std::fs::canonicalize(root).ok()?).ok().map(Path::to_owned)
            }
            Files::Archive(archive) => archive.canonical(relative).map(PathBuf::from),
        }
    }

    /// The numbers N of the entries `<prefix>N` in a folder: cpus, nodes, or others.
    pub(super) fn numbered<T>(&self, relative: &str, prefix: &str) -> IndexList<T> {
        self.names(relative).iter().filter_map(|n| n.strip_prefix(prefix)?.parse().ok()).collect()
    }

    fn note(&self, relative: &str) {
        if let Some(seen) = &self.seen {
            seen.borrow_mut().look(relative);
        }
    }
}

/// The kernel's bit masks: hexadecimal words of 32 bits, most significant first.
fn parse_mask(text: &str) -> Option<CpuList> {
    let mut cpus = Vec::new();
    for (i, word) in text.split(',').rev().enumerate() {
        let bits = u32::from_str_radix(word.trim(), 16).ok()?;
        let base = i as u32 * 32;
        cpus.extend((0..32).filter(|b| bits >> b & 1 == 1).map(|b| base + b));
    }
    Some(cpus.into_iter().collect())
}
