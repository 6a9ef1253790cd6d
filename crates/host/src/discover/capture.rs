//! Writing a machine down: the files that its topology is read from, and no others.

use super::archive::{Entry, words};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder in the archive.
const FOLDER: &str = "nearfar-topology";

/// What was looked at below a root, as it is there.
pub(super) struct Capture {
    root: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Capture {
    pub(super) fn of(root: &Path) -> Self {
        Capture { root: root.to_owned(), entries: BTreeMap::new() }
    }

    /// Remembers that a path is there, and the links on the way to it.
    pub(super) fn look(&mut self, relative: &str) {
        self.find(relative);
    }

    /// Remembers what a file says.
    pub(super) fn read(&mut self, relative: &str, content: &[u8]) {
        let Some(real) = self.find(relative) else { return };
        let content = match relative {
            // Only the policy is looked at; the names of mapped files are private.
            "proc/self/numa_maps" => without_files(content),
            _ => content.to_vec(),
        };
        self.entries.insert(real, Entry::File(content));
    }

    /// Where a path leads, below the root; every step of it is remembered.
    fn find(&mut self, relative: &str) -> Option<String> {
        let mut at: Vec<String> = Vec::new();
        let mut left = words(relative);
        // More links than the kernel follows: nothing was read that way.
        for _ in 0..1000 {
            let Some(word) = left.pop_front() else { return Some(at.join("/")) };
            if word == ".." {
                at.pop()?;
                continue;
            }
            at.push(word);
            let path = at.join("/");
            if let Some(Entry::Folder) = self.entries.get(&path) {
                continue;
            }
            let real = self.root.join(&path);
            let is = std::fs::symlink_metadata(&real).ok()?;
            // What reads it later is another process.
            if path == "proc/self" {
                self.entries.insert(path, Entry::Folder);
            } else if is.is_symlink() {
                let target = std::fs::read_link(&real).ok()?.to_str()?.to_owned();
                at.pop();
                if target.starts_with('/') {
                    at.clear();
                }
                for word in words(&target).into_iter().rev() {
                    left.push_front(word);
                }
                self.entries.insert(path, Entry::Link(target));
            } else if is.is_dir() {
                self.entries.insert(path, Entry::Folder);
            } else {
                // Its name may be all that counts, as an interrupt's.
                self.entries.entry(path).or_insert(Entry::File(Vec::new()));
            }
        }
        None
    }

    /// A tar archive, compressed by gzip. The same files give the same bytes.
    ///
    /// # Errors
    /// If a name does not fit into an archive.
    pub(super) fn to_archive(&self) -> Result<Vec<u8>> {
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()));
        for (path, entry) in &self.entries {
            let name = format!("{FOLDER}/{path}");
            let mut header = tar::Header::new_gnu();
            let added = match entry {
                Entry::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(0o755);
                    header.set_size(0);
                    archive.append_data(&mut header, format!("{name}/"), std::io::empty())
                }
                Entry::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    archive.append_link(&mut header, &name, target)
                }
                Entry::File(content) => {
                    header.set_mode(0o644);
                    header.set_size(content.len() as u64);
                    archive.append_data(&mut header, &name, content.as_slice())
                }
            };
            added.with_context(|| format!("{path} does not fit into an archive"))?;
        }
        Ok(archive.into_inner()?.finish()?)
    }
}

/// The lines of a numa_maps without ` file=…`.
fn without_files(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().map(|line| {
        let kept: Vec<&str> = line.split(' ').filter(|word| !word.starts_with("file=")).collect();
        format!("{}\n", kept.join(" "))
    });
    lines.collect::<String>().into_bytes()
}
