//! The placement file: where single objects of a program belong. `--placement` of `run`, `record` and `check`
//! applies it.

use crate::NodeId;
use crate::raw::MachineFileError;
use nearfar_figures::escape;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Version of the file.
pub const FORMAT: u32 = 1;
/// Parts of an object, and entries of `turns`, at most.
pub const MOST_PARTS: usize = 4096;
/// The largest weight, as the kernel has it (Linux, /sys/kernel/mm/mempolicy/weighted_interleave).
const MOST_WEIGHT: u32 = 255;
/// Width to which lists are wrapped.
const WIDTH: usize = 100;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementFile {
    /// [`FORMAT`].
    pub format: u32,
    /// Path of the program, where it is not the command itself (a script's or a launcher's).
    pub program: Option<String>,
    /// Objects; an allocation is placed by the first whose call fits.
    #[serde(rename = "object", default)]
    pub objects: Vec<PlacedObject>,
    /// Lines above all others, for people; written, not read.
    #[serde(skip)]
    pub comment: Option<String>,
}

/// An object: what a line of the source allocates, or a static variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedObject {
    /// Its name, for people.
    pub name: Option<String>,
    /// `file.c:123`: the line that calls the allocating function, itself or through others; as many parts of
    /// the path as tell it apart.
    pub allocated_at: Option<String>,
    /// The static variable's name.
    #[serde(rename = "static")]
    pub variable: Option<String>,
    /// Path of the shared library whose code or variable it is; `None`: the program's.
    pub module: Option<String>,
    /// Where its pages go.
    pub policy: ObjectPolicy,
    /// Nodes in numactl's words; not with `local`, `blocks`, `turns`.
    pub nodes: Option<String>,
    /// With `blocks`: where each part ends, bytes from the object's first, and its node. The ends rise, and the
    /// last one is the object's size when this was found out.
    pub blocks: Option<Vec<(u64, NodeId)>>,
    /// With `turns`: the node of the first allocation, of the second and so on, and from the start again.
    pub turns: Option<Vec<NodeId>>,
    /// With `interleave`: pages in a row on each of `nodes`, in the order of their numbers; `None`: one each.
    pub weights: Option<Vec<u32>>,
    /// Ask the kernel for huge pages, or for none; `None`: as the program has it.
    pub huge_pages: Option<bool>,
    /// Smaller allocations stay as they are, bytes.
    #[serde(default = "least")]
    pub min_bytes: u64,
    /// Lines above it, for people; written, not read.
    #[serde(skip)]
    pub comment: Option<String>,
}

/// The kernel's policies (set_mempolicy(2)), and what is made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectPolicy {
    /// On these nodes only.
    Bind,
    /// In turns on these nodes.
    Interleave,
    /// On this node while it has memory.
    Preferred,
    /// On the node of the first touch, whatever the process's policy is.
    Local,
    /// Each part on a node of its own, while that has memory.
    Blocks,
    /// Each allocation as a whole on one node while that has memory, the next one on the next of the list.
    Turns,
}

impl ObjectPolicy {
    /// As the file has it.
    fn word(self) -> &'static str {
        match self {
            ObjectPolicy::Bind => "bind",
            ObjectPolicy::Interleave => "interleave",
            ObjectPolicy::Preferred => "preferred",
            ObjectPolicy::Local => "local",
            ObjectPolicy::Blocks => "blocks",
            ObjectPolicy::Turns => "turns",
        }
    }

    /// Whether it only helps where each thread stays on the node of its part.
    pub fn follows_threads(self) -> bool {
        matches!(self, ObjectPolicy::Blocks | ObjectPolicy::Turns)
    }
}

/// Below this an object has hardly a page of its own.
fn least() -> u64 {
    65536
}

/// What is wrong with a placement file.
#[derive(Debug, thiserror::Error)]
pub enum PlacementFileError {
    /// Not TOML, or not of this form.
    #[error(transparent)]
    Form(MachineFileError),
    /// Another version.
    #[error("it has format {0}; this nearfar reads format {FORMAT}")]
    Format(u32),
    /// An object that cannot be meant so.
    #[error("object {0} (counted from 1): {1}")]
    Object(usize, &'static str),
    /// Nothing in it.
    #[error("it names no [[object]]")]
    Empty,
}

impl PlacementFile {
    /// Reads the file's text.
    ///
    /// # Errors
    /// See [`PlacementFileError`].
    pub fn from_toml(text: &str) -> Result<PlacementFile, PlacementFileError> {
        let file: PlacementFile = toml::from_str(text)
            .map_err(|error| PlacementFileError::Form(MachineFileError::from_toml(text, &error)))?;
        if file.format != FORMAT {
            return Err(PlacementFileError::Format(file.format));
        }
        if file.objects.is_empty() {
            return Err(PlacementFileError::Empty);
        }
        for (at, object) in file.objects.iter().enumerate() {
            if let Some(why) = object.wrong() {
                return Err(PlacementFileError::Object(at + 1, why));
            }
        }
        Ok(file)
    }

    /// The file's text, with the comments.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        write_comment(&mut out, self.comment.as_deref());
        let _ = writeln!(out, "format = {}", self.format);
        if let Some(program) = &self.program {
            let _ = writeln!(out, "program = {}", quoted(program));
        }
        for object in &self.objects {
            out.push('\n');
            object.write(&mut out);
        }
        out
    }
}

impl PlacedObject {
    /// Of this policy, all else still to be said.
    pub fn new(policy: ObjectPolicy) -> PlacedObject {
        PlacedObject {
            name: None,
            allocated_at: None,
            variable: None,
            module: None,
            policy,
            nodes: None,
            blocks: None,
            turns: None,
            weights: None,
            huge_pages: None,
            min_bytes: least(),
            comment: None,
        }
    }

    fn write(&self, out: &mut String) {
        write_comment(out, self.comment.as_deref());
        out.push_str("[[object]]\n");
        let mut text = |key: &str, value: &Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(out, "{key} = {}", quoted(value));
            }
        };
        text("name", &self.name);
        text("allocated_at", &self.allocated_at);
        text("static", &self.variable);
        text("module", &self.module);
        text("policy", &Some(self.policy.word().to_owned()));
        text("nodes", &self.nodes);
        if let Some(blocks) = &self.blocks {
            write_list(out, "blocks", blocks.iter().map(|(end, node)| format!("[{end}, {node}]")));
        }
        if let Some(turns) = &self.turns {
            write_list(out, "turns", turns.iter().map(NodeId::to_string));
        }
        if let Some(weights) = &self.weights {
            write_list(out, "weights", weights.iter().map(u32::to_string));
        }
        if let Some(huge) = self.huge_pages {
            let _ = writeln!(out, "huge_pages = {huge}");
        }
        if self.min_bytes != least() {
            let _ = writeln!(out, "min_bytes = {}", self.min_bytes);
        }
    }

    /// Why it cannot be meant so.
    pub fn wrong(&self) -> Option<&'static str> {
        use ObjectPolicy::{Blocks, Local, Turns};
        match (&self.allocated_at, &self.variable) {
            (Some(_), Some(_)) => return Some("`allocated_at` and `static` are of different objects"),
            (None, None) => return Some("it needs `allocated_at = \"file.c:123\"` or `static = \"name\"`"),
            (Some(line), None) if split(line).is_none() => {
                return Some("`allocated_at` is a file and a line: \"file.c:123\"");
            }
            _ => {}
        }
        match (self.policy, &self.nodes) {
            (Local, Some(_)) => return Some("`local` takes no `nodes`"),
            (Blocks, Some(_)) => return Some("`blocks` names the node of each part: no `nodes` beside it"),
            (Turns, Some(_)) => return Some("`turns` names the nodes itself: no `nodes` beside it"),
            (Local | Blocks | Turns, None) | (_, Some(_)) => {}
            (_, None) => return Some("its policy needs `nodes`"),
        }
        match (self.policy, &self.blocks) {
            (Blocks, None) => return Some("its policy needs `blocks = [[END_BYTES, NODE], …]`"),
            (Blocks, Some(blocks)) => {
                if blocks.is_empty() {
                    return Some("`blocks` has no part");
                }
                if blocks.len() > MOST_PARTS {
                    return Some("`blocks` has more than 4096 parts");
                }
                if blocks[0].0 == 0 || blocks.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
                    return Some("the ends in `blocks` must rise from part to part, the first from 0");
                }
            }
            (_, Some(_)) => return Some("`blocks` goes with `policy = \"blocks\"` only"),
            (_, None) => {}
        }
        match (self.policy, &self.turns) {
            (Turns, None) => return Some("its policy needs `turns = [NODE, …]`"),
            (Turns, Some(_)) if self.variable.is_some() => {
                return Some("a static variable has no turns: there is one of it");
            }
            (Turns, Some(turns)) if turns.is_empty() => return Some("`turns` names no node"),
            (Turns, Some(turns)) if turns.len() > MOST_PARTS => {
                return Some("`turns` has more than 4096 entries");
            }
            (Turns, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Some("`turns` goes with `policy = \"turns\"` only"),
        }
        match (self.policy, &self.weights) {
            (ObjectPolicy::Interleave, Some(weights)) => {
                if weights.is_empty() || weights.iter().any(|w| !(1..=MOST_WEIGHT).contains(w)) {
                    return Some("`weights` has a number from 1 to 255 for each of `nodes`");
                }
            }
            (_, Some(_)) => return Some("`weights` goes with `policy = \"interleave\"` only"),
            (_, None) => {}
        }
        None
    }

    /// File and line of `allocated_at`.
    pub fn line(&self) -> Option<(&str, u32)> {
        split(self.allocated_at.as_deref()?)
    }

    /// What to call it.
    pub fn label(&self) -> &str {
        let place = self.variable.as_deref().or(self.allocated_at.as_deref());
        self.name.as_deref().or(place).unwrap_or("object")
    }
}

fn quoted(text: &str) -> String {
    escape::toml(text)
}

fn write_comment(out: &mut String, comment: Option<&str>) {
    for line in comment.into_iter().flat_map(str::lines) {
        // TOML allows no control characters in comments.
        let line: String = line.chars().map(|c| if escape::is_command(c) { ' ' } else { c }).collect();
        let _ = writeln!(out, "{}", format!("# {line}").trim_end());
    }
}

/// On one line if it fits, else on several.
fn write_list(out: &mut String, key: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    let line = format!("{key} = [{}]\n", items.join(", "));
    if line.len() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let _ = write!(out, "{key} = [");
    let mut column = WIDTH;
    for item in items {
        if column + item.len() + 2 > WIDTH {
            out.push_str("\n   ");
            column = 3;
        }
        let _ = write!(out, " {item},");
        column += item.len() + 2;
    }
    out.push_str("\n]\n");
}

fn split(text: &str) -> Option<(&str, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|&n| n > 0 && !file.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_objects_belong() {
        let file = PlacementFile::from_toml(
            "format = 1\n[[object]]\nname = \"prev\"\nallocated_at = \"src/a.cpp:28\"\npolicy = \"interleave\"\n\
             nodes = \"0-1\"\n[[object]]\nstatic = \"grid\"\npolicy = \"local\"\n",
        )
        .unwrap();
        assert_eq!(file.objects[0].line(), Some(("src/a.cpp", 28)));
        assert_eq!((file.objects[0].label(), file.objects[1].label()), ("prev", "grid"));
        assert_eq!((file.objects[0].policy, file.objects[0].min_bytes), (ObjectPolicy::Interleave, 65536));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let said = |text: &str| PlacementFile::from_toml(text).unwrap_err().to_string();
        assert!(said("format = 2").contains("format 2"));
        assert!(said("format = 1").contains("no [[object]]"));
        let of = |rest: &str| said(&format!("format = 1\n[[object]]\n{rest}"));
        assert!(of("policy = \"bind\"\nnodes = \"0\"").contains("allocated_at"));
        assert!(of("static = \"a\"\npolicy = \"bind\"").contains("needs `nodes`"));
        assert!(
            of("static = \"a\"\nallocated_at = \"b:1\"\npolicy = \"local\"").contains("different objects")
        );
        assert!(of("allocated_at = \"b\"\npolicy = \"local\"").contains("a file and a line"));
        assert!(of("static = \"a\"\npolicy = \"spread\"\nnodes = \"0\"").contains("spread"));
        assert!(of("static = \"a\"\npolicy = \"local\"\nnode = \"0\"").contains("node"));
    }
    #[test]
    fn parts_and_turns_are_checked() {
        let of = |rest: &str| {
            PlacementFile::from_toml(&format!("format = 1\n[[object]]\n{rest}")).map_err(|e| e.to_string())
        };
        let line = |rest: &str| of(&format!("allocated_at = \"a.c:7\"\n{rest}"));
        let file = line("policy = \"blocks\"\nblocks = [[4096, 0], [10000, 1]]\nhuge_pages = false").unwrap();
        assert_eq!(file.objects[0].blocks, Some(vec![(4096, 0), (10000, 1)]));
        assert_eq!(file.objects[0].huge_pages, Some(false));
        assert_eq!(
            line("policy = \"turns\"\nturns = [0, 0, 1]").unwrap().objects[0].turns,
            Some(vec![0, 0, 1])
        );
        let blocks = |list: &str| line(&format!("policy = \"blocks\"\nblocks = {list}")).unwrap_err();
        assert!(blocks("[]").contains("no part"));
        for list in ["[[0, 0], [5, 1]]", "[[5, 0], [5, 1]]", "[[5, 0], [4, 1]]"] {
            assert!(blocks(list).contains("must rise"), "{list}");
        }
        assert!(blocks("[[-5, 0]]").contains("-5"));
        let many: Vec<String> = (1..=4097).map(|i| format!("[{i}, 0]")).collect();
        assert!(blocks(&format!("[{}]", many.join(", "))).contains("more than 4096 parts"));
        let wrong = |rest: &str| line(rest).unwrap_err();
        assert!(wrong("policy = \"blocks\"").contains("needs `blocks"));
        assert!(wrong("policy = \"blocks\"\nblocks = [[5, 0]]\nnodes = \"0\"").contains("no `nodes`"));
        assert!(wrong("policy = \"local\"\nblocks = [[5, 0]]").contains("goes with"));
        assert!(wrong("policy = \"turns\"").contains("needs `turns"));
        assert!(wrong("policy = \"turns\"\nturns = []").contains("no node"));
        assert!(wrong("policy = \"turns\"\nturns = [0]\nnodes = \"0\"").contains("no `nodes`"));
        assert!(wrong("policy = \"bind\"\nnodes = \"0\"\nturns = [0]").contains("goes with"));
        let weighted = "policy = \"interleave\"\nnodes = \"0-1\"\nweights = ";
        assert_eq!(line(&format!("{weighted}[3, 1]")).unwrap().objects[0].weights, Some(vec![3, 1]));
        for list in ["[]", "[0, 1]", "[256, 1]"] {
            assert!(wrong(&format!("{weighted}{list}")).contains("1 to 255"), "{list}");
        }
        assert!(wrong("policy = \"bind\"\nnodes = \"0\"\nweights = [1]").contains("goes with"));
        let fixed = of("static = \"a\"\npolicy = \"turns\"\nturns = [0]").unwrap_err();
        assert!(fixed.contains("object 1 (counted from 1): a static variable has no turns"), "{fixed}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let objects = vec![
            PlacedObject {
                name: Some("a \"b\" \\ c".to_owned()),
                allocated_at: Some("src/a.c:12".to_owned()),
                blocks: Some((1..=40).map(|i| (i << 20, (i % 2) as NodeId)).collect()),
                huge_pages: Some(true),
                comment: Some("96 % of its lines come from\nits own node then\u{7}".to_owned()),
                ..PlacedObject::new(ObjectPolicy::Blocks)
            },
            PlacedObject {
                allocated_at: Some("a.c:13".to_owned()),
                module: Some("/lib/libfoo.so".to_owned()),
                turns: Some(vec![0, 0, 1, 1]),
                min_bytes: 4096,
                ..PlacedObject::new(ObjectPolicy::Turns)
            },
            PlacedObject { variable: Some("grid".to_owned()), ..PlacedObject::new(ObjectPolicy::Local) },
            PlacedObject {
                variable: Some("mesh".to_owned()),
                nodes: Some("0,2".to_owned()),
                weights: Some(vec![3, 1]),
                ..PlacedObject::new(ObjectPolicy::Interleave)
            },
        ];
        let comment = Some("Of app-001.nearfar".to_owned());
        let mut file = PlacementFile { format: FORMAT, program: Some("./app".to_owned()), objects, comment };
        let text = file.to_toml();
        assert!(
            text.starts_with("# Of app-001.nearfar\nformat = 1\nprogram = \"./app\"\n\n# 96 %"),
            "{text}"
        );
        assert!(text.contains("\n# its own node then\n[[object]]\n"), "{text}");
        assert!(text.contains("\nturns = [0, 0, 1, 1]\nmin_bytes = 4096\n\n[[object]]\n"), "{text}");
        assert!(text.lines().all(|l| l.len() <= WIDTH), "{text}");
        file.comment = None;
        file.objects[0].comment = None;
        assert_eq!(PlacementFile::from_toml(&text).unwrap(), file);
    }
}
