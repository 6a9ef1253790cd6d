//! The host's files below a root: the live machine, or a captured one.

use nearfar_model::machine::cpulist::CpuList;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Files below a root folder. What cannot be read is absent, not an error.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    /// The only cpus that count; `None`: all.
    pub(super) only: Option<CpuList>,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Tree { root: root.to_owned(), only: None }
    }

    /// Whether this is the machine that the program runs on, not a captured one.
    pub(super) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(super) fn counted(&self, cpus: CpuList) -> CpuList {
        match &self.only {
            Some(only) => cpus.iter().filter(|&c| only.contains(c)).collect(),
            None => cpus,
        }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A file's text without the blanks around it. Some kernels (5.15-rc1 on a Kunpeng) also
    /// end their lists of siblings with a zero byte.
    pub(super) fn text(&self, relative: &str) -> Option<String> {
        self.try_text(relative).ok()
    }

    /// The same for what says why it is unknown.
    pub(super) fn try_text(&self, relative: &str) -> std::io::Result<String> {
        let bytes = crate::input::read(&self.path(relative), crate::input::MOST_MADE)?;
        let blank = |c: char| c.is_whitespace() || c == '\0';
        Ok(String::from_utf8_lossy(&bytes).trim_matches(blank).to_owned())
    }

    pub(super) fn parsed<T: FromStr>(&self, relative: &str) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    pub(super) fn list(&self, relative: &str) -> Option<CpuList> {
        self.parsed(relative)
    }

    /// A list where the file may be missing: the list form, or the older bit mask.
    pub(super) fn list_or_mask(&self, list: &str, mask: &str) -> Option<CpuList> {
        self.list(list).or_else(|| parse_mask(&self.text(mask)?))
    }

    /// Names in a folder; none if no such folder exists.
    pub(super) fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Where an entry's links lead; `None` if that is outside the tree.
    pub(super) fn canonical(&self, relative: &str) -> Option<PathBuf> {
        let path = std::fs::canonicalize(self.path(relative)).ok()?;
        path.strip_prefix(std::fs::canonicalize(&self.root).ok()?).ok().map(Path::to_owned)
    }

    /// The numbers N of the entries `<prefix>N` in a folder.
    pub(super) fn numbered(&self, relative: &str, prefix: &str) -> CpuList {
        self.names(relative).iter().filter_map(|n| n.strip_prefix(prefix)?.parse().ok()).collect()
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
