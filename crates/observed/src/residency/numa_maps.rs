//! Lines of /proc/PID/numa_maps: the policy that a mapping has, and on which nodes its pages are.
//!
//! The words are those of `show_numa_map` and `mpol_to_str` in the kernel (fs/proc/task_mmu.c,
//! mm/mempolicy.c); proc_pid_numa_maps(5) has most of them.

use nearfar_machine::NodeId;
use nearfar_machine::cpulist::NodeList;
use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// How a policy chooses nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None was set: the node of the thread that touches first.
    Default,
    /// The same, asked for.
    Local,
    /// These nodes while they have free memory.
    Prefer,
    /// These nodes only.
    Bind,
    /// These nodes in turns.
    Interleave,
    /// In turns by the kernel's weights.
    WeightedInterleave,
    /// A word of a kernel later than this program.
    Other,
}

/// A memory policy as the kernel words it, e.g. `bind=static:0-1`. In JSON it is that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// How it chooses.
    pub mode: Mode,
    /// The nodes it names; none for `default` and `local`, and where they cannot be read.
    pub nodes: NodeList,
    text: String,
}

impl Requested {
    /// Reads the kernel's words.
    pub fn new(text: &str) -> Requested {
        let (mode, nodes) = text.split_once(':').unwrap_or((text, ""));
        // Behind `=` are flags: how the nodes follow a change of the cpuset.
        let mode = match mode.split('=').next().unwrap_or(mode) {
            "default" => Mode::Default,
            "local" => Mode::Local,
            "prefer" | "prefer (many)" => Mode::Prefer,
            "bind" => Mode::Bind,
            "interleave" => Mode::Interleave,
            "weighted interleave" => Mode::WeightedInterleave,
            _ => Mode::Other,
        };
        Requested { mode, nodes: nodes.parse().unwrap_or_default(), text: text.to_owned() }
    }

    /// Nodes outside of which new pages may not be; `None` if any will do.
    pub fn only(&self) -> Option<&NodeList> {
        matches!(self.mode, Mode::Bind | Mode::Interleave | Mode::WeightedInterleave)
            .then_some(&self.nodes)
            .filter(|nodes| !nodes.is_empty())
    }

    /// Whether pages go to the node of the thread that touches them first.
    pub fn first_touch(&self) -> bool {
        matches!(self.mode, Mode::Default | Mode::Local)
    }
}

impl Ord for Requested {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for Requested {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Requested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// One mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// First byte.
    pub start: u64,
    /// Policy of the mapping; where it has none of its own, that of the thread whose file was read.
    pub requested: Requested,
    /// Path of its file.
    pub file: Option<String>,
    /// The program's heap (brk).
    pub heap: bool,
    /// The first thread's stack.
    pub stack: bool,
    /// Of reserved huge pages (hugetlb).
    pub huge: bool,
    /// Bytes of a page that the counts are in; `None` where the kernel does not say (no page is present).
    pub page_bytes: Option<u64>,
    /// Pages that are present, by node.
    pub pages: BTreeMap<NodeId, u64>,
}

impl Line {
    /// Reads a line; `None` if it is none, e.g. cut in the middle of its policy.
    pub fn parse(line: &str) -> Option<Line> {
        let mut words = line.split_whitespace();
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut policy = words.next()?.to_owned();
        // The two policies of two words.
        if policy == "prefer" || policy == "weighted" {
            policy = format!("{policy} {}", words.next()?);
        }
        let mut found = Line {
            start,
            requested: Requested::new(&policy),
            file: None,
            heap: false,
            stack: false,
            huge: false,
            page_bytes: None,
            pages: BTreeMap::new(),
        };
        for word in words {
            match word {
                "heap" => found.heap = true,
                "stack" => found.stack = true,
                "huge" => found.huge = true,
                _ => match word.split_once('=') {
                    Some(("file", path)) => found.file = Some(unescape(path)),
                    Some(("kernelpagesize_kB", kb)) => {
                        found.page_bytes = kb.parse::<u64>().ok().map(|kb| kb * 1024);
                    }
                    Some((key, count)) => {
                        let node = key.strip_prefix('N').and_then(|node| node.parse().ok());
                        if let (Some(node), Ok(count)) = (node, count.parse()) {
                            found.pages.insert(node, count);
                        }
                    }
                    None => {}
                },
            }
        }
        Some(found)
    }

    /// Bytes by node; `base` is the size of a page where the line does not say (before Linux 3.14).
    pub fn bytes(&self, base: u64) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        let page = self.page_bytes.unwrap_or(base);
        self.pages.iter().map(move |(&node, &count)| (node, count * page))
    }
}

/// All lines of a file.
pub fn parse(text: &str) -> Vec<Line> {
    text.lines().filter_map(Line::parse).collect()
}

/// Bytes by node of all mappings that are not of files.
pub fn own_bytes(text: &str, base: u64) -> BTreeMap<NodeId, u64> {
    let mut all = BTreeMap::new();
    for line in parse(text).iter().filter(|l| l.file.is_none()) {
        for (node, bytes) in line.bytes(base) {
            *all.entry(node).or_insert(0) += bytes;
        }
    }
    all
}

/// Blanks, tabs, newlines and equal signs stand in a path as `\040` and so on (`seq_file_path`).
fn unescape(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('\\') {
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push_str(&rest[..at]);
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000 default file=/usr/bin/a\\040b mapped=7 active=1 N0=7 kernelpagesize_kB=4
01000000 prefer:1 heap anon=40 dirty=40 N0=8 N1=32 kernelpagesize_kB=4
7f0000000000 bind:1 anon=512 dirty=512 N0=2 N1=510 kernelpagesize_kB=4
7f1000000000 interleave=static:0-1 file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N0=1 N1=1 kernelpagesize_kB=2048
7f2000000000 prefer (many):0,2 anon=3 dirty=3 N2=3 kernelpagesize_kB=4
7f3000000000 weighted interleave:0-3
7ffc00000000 local stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
";

    fn list(text: &str) -> NodeList {
        text.parse().unwrap()
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let lines = parse(MAPS);
        assert_eq!(lines.len(), 7);
        let file = &lines[0];
        assert_eq!((file.start, file.file.as_deref()), (0x40_0000, Some("/usr/bin/a b")));
        assert_eq!(file.pages, BTreeMap::from([(0, 7)]));
        assert!(file.requested.first_touch() && file.requested.only().is_none());
        let heap = &lines[1];
        assert!(heap.heap && heap.requested.mode == Mode::Prefer && heap.requested.nodes == list("1"));
        assert_eq!(lines[2].requested.only(), Some(&list("1")));
        assert_eq!(lines[2].pages, BTreeMap::from([(0, 2), (1, 510)]));
        let huge = &lines[3];
        assert!(huge.huge && huge.requested.to_string() == "interleave=static:0-1");
        assert_eq!(huge.requested.only(), Some(&list("0-1")));
        assert_eq!(huge.bytes(4096).collect::<Vec<_>>(), [(0, 2 << 20), (1, 2 << 20)]);
        assert_eq!((&lines[4].requested.mode, &lines[4].requested.nodes), (&Mode::Prefer, &list("0,2")));
        let empty = &lines[5];
        assert_eq!(empty.requested.mode, Mode::WeightedInterleave);
        assert!(empty.pages.is_empty() && empty.page_bytes.is_none());
        assert!(lines[6].stack && lines[6].requested.mode == Mode::Local);
    }

    #[test]
    fn pages_of_files_are_not_the_programs_own() {
        let maps = "00400000 default file=/usr/bin/cat mapped=7 N0=7 kernelpagesize_kB=4\n\
                    7f00 bind:1 anon=512 dirty=512 N0=2 N1=510 kernelpagesize_kB=4\n\
                    7f80 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n\
                    7fff default stack anon=3 N0=3 kernelpagesize_kB=4\n";
        assert_eq!(own_bytes(maps, 4096), BTreeMap::from([(0, 5 * 4096), (1, 510 * 4096 + 2 * (2 << 20))]));
    }

    #[test]
    fn what_is_no_line_and_what_is_unknown_do_no_harm() {
        assert!(
            Line::parse("").is_none()
                && Line::parse("7f00").is_none()
                && Line::parse("xyz default").is_none()
        );
        // A policy that is cut is not a policy; one that is new is shown as it is.
        assert!(Line::parse("7f00 prefer").is_none());
        let new = Line::parse("7f00 hashed:0-1 N0=1 kernelpagesize_kB=4").unwrap();
        assert_eq!((new.requested.mode, new.requested.to_string()), (Mode::Other, "hashed:0-1".to_owned()));
        assert_eq!(unescape("a\\b\\999\\"), "a\\b\\999\\");
    }
}
