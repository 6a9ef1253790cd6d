//! Policies of single objects: a placement file becomes the table that the agent reads (`struct nf_place` in
//! agent/protocol.h), and afterwards the agent's counts become words.

use crate::collect::agent::shared_memory;
use anyhow::{Context, Result, bail};
use nearfar_figures::sizes::size;
use nearfar_host::discover::huge_page_bytes;
use nearfar_host::policy::{Policy, try_populating};
use nearfar_host::symbols::Module;
use nearfar_host::target::find_program;
use nearfar_host::{input, proc};
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::placement_file::{ObjectPolicy, PlacedObject, PlacementFile};
use nearfar_machine::select::nodes;
use nearfar_machine::{Machine, NodeId, NumaNode};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable by which the agent finds the table.
pub const PLACES: &str = "NEARFAR_PLACES";
/// NF_PLACES_MAGIC and NF_PLACES_VERSION.
const MAGIC: u64 = 0x3153_4543_414c_504e;
const VERSION: u32 = 3;
/// Words of the header, and of a part.
const HEAD_WORDS: usize = 3;
/// Words of an entry: device, inode, low, high, least, kind and mode, how and huge pages, parts, object;
/// nodes; what the agent writes.
const FIXED_WORDS: usize = 9;
const NODE_WORDS: usize = 16;
const WRITTEN_WORDS: usize = 6;
const ENTRY_WORDS: usize = FIXED_WORDS + NODE_WORDS + WRITTEN_WORDS;
/// As many entries as the agent takes.
const MOST: usize = 1024;
/// NF_PLACE_CALL and NF_PLACE_STATIC.
const CALL: u32 = 0;
const STATIC: u32 = 1;

/// Objects with their policies, as code and data of modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectPolicies {
    objects: Vec<Resolved>,
    /// Of the file.
    text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Resolved {
    label: String,
    how: How,
    huge_pages: Option<bool>,
    module: PathBuf,
    kind: u32,
    ranges: Vec<Range<u64>>,
    least: u64,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum How {
    Whole(Policy),
    /// Ends and nodes.
    Blocks(Vec<(u64, NodeId)>),
    Turns(Vec<NodeId>),
    /// Pages in a row, and nodes.
    Weighted(Vec<(u64, NodeId)>),
}

impl How {
    /// In words, behind "memory".
    fn words(&self) -> String {
        let all: NodeList = self.nodes().collect();
        let on = format!("node{} {all}", if all.len() == 1 { "" } else { "s" });
        match self {
            How::Whole(policy) => policy.words(),
            How::Blocks(blocks) => {
                format!("in {} part{} on {on}", blocks.len(), if blocks.len() == 1 { "" } else { "s" })
            }
            How::Turns(_) => format!("as a whole, in turns, on {on}"),
            How::Weighted(parts) => {
                let weights: Vec<String> = parts.iter().map(|p| p.0.to_string()).collect();
                format!("interleaved over {on}, {} pages in turns", weights.join(" and "))
            }
        }
    }

    /// NF_PLACE_WHOLE, NF_PLACE_BLOCKS, NF_PLACE_TURNS, NF_PLACE_WEIGHTED.
    fn number(&self) -> u32 {
        match self {
            How::Whole(_) => 0,
            How::Blocks(_) => 1,
            How::Turns(_) => 2,
            How::Weighted(_) => 3,
        }
    }

    /// Nodes that are named one by one.
    fn nodes(&self) -> Box<dyn Iterator<Item = NodeId> + '_> {
        match self {
            How::Whole(_) => Box::new(std::iter::empty()),
            How::Blocks(parts) | How::Weighted(parts) => Box::new(parts.iter().map(|p| p.1)),
            How::Turns(turns) => Box::new(turns.iter().copied()),
        }
    }

    /// Ends or weights, and nodes, for the agent; turns have neither.
    fn parts(&self) -> Vec<(u64, NodeId)> {
        match self {
            How::Whole(_) => Vec::new(),
            How::Blocks(parts) | How::Weighted(parts) => parts.clone(),
            How::Turns(turns) => turns.iter().map(|&node| (1, node)).collect(),
        }
    }

    /// The kernel's policies that it is made of. A part on a node without free memory goes elsewhere: to bind
    /// it there would end the program.
    fn policies(&self) -> Vec<Policy> {
        match self {
            How::Whole(policy) => vec![policy.clone()],
            How::Weighted(_) => vec![Policy::Interleave(self.nodes().collect())],
            _ => self.nodes().collect::<NodeList>().iter().map(Policy::Preferred).collect(),
        }
    }
}

impl ObjectPolicies {
    /// Reads the file and looks the objects up in the program's debug information.
    ///
    /// # Errors
    /// If the file, a node, a module, a line or a variable is not there.
    pub fn read(
        file: &Path,
        command: &[OsString],
        machine: &Machine,
        may: Option<&NodeList>,
    ) -> Result<Self> {
        let text = input::read_text(file, input::MOST_WRITTEN)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let wanted = PlacementFile::from_toml(&text).with_context(|| file.display().to_string())?;
        let program = match (&wanted.program, command.first()) {
            (Some(program), _) => find_program(OsStr::new(program))?,
            (None, Some(program)) => find_program(program)?,
            (None, None) => {
                bail!("--placement needs the program: its debug information says where objects come from")
            }
        };
        let objects = wanted.objects.iter().map(|object| {
            resolve(object, &program, machine, may)
                .with_context(|| format!("{}: {}", file.display(), object.label()))
        });
        let objects: Vec<Resolved> = objects.collect::<Result<_>>()?;
        if objects.iter().map(|o| o.ranges.len()).sum::<usize>() > MOST {
            bail!("{}: its lines have more than {MOST} pieces of code", file.display());
        }
        Ok(ObjectPolicies { objects, text })
    }

    /// The file as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Refuses parts and turns where nothing keeps threads on their nodes. `hint` says what to type instead.
    ///
    /// # Errors
    /// If it does so.
    pub fn require_pinned(&self, pinned: bool, hint: &str) -> Result<()> {
        match self.objects.iter().find(|o| !pinned && matches!(o.how, How::Blocks(_) | How::Turns(_))) {
            Some(object) => bail!(
                "{}: blocks and turns put memory beside the thread that uses it, and here threads may run anywhere: \
                 pin them, {hint}",
                object.label
            ),
            None => Ok(()),
        }
    }

    /// What is set, a line each.
    pub fn lines(&self) -> Vec<String> {
        self.objects.iter().map(|o| format!("{}: {}", o.label, o.what())).collect()
    }

    /// Whether the kernel takes the policies.
    ///
    /// # Errors
    /// In words.
    pub fn try_here(&self) -> Result<(), String> {
        if self.objects.iter().any(|o| matches!(o.how, How::Weighted(_))) {
            try_populating()?;
        }
        self.objects.iter().flat_map(|o| o.how.policies()).try_for_each(|policy| policy.try_here())
    }

    /// The table as a file, which is gone when the value is dropped. The modules are looked up here: file
    /// numbers of the same file differ between a machine and a virtual one.
    ///
    /// # Errors
    /// If a module is gone, or no directory can hold it.
    pub fn table(&self) -> Result<Table> {
        let mut words: Vec<u64> = Vec::new();
        let mut parts: Vec<u64> = Vec::new();
        let mut entries = 0;
        for object in &self.objects {
            let data = fs::metadata(&object.module).with_context(|| object.module.display().to_string())?;
            let policies = object.how.policies();
            let prepared = policies.first().context("an object without nodes")?.prepare();
            let (mode, mask) = prepared.parts();
            let own = object.how.parts();
            let first_part = (parts.len() / 2) as u32;
            parts.extend(own.iter().flat_map(|&(end, node)| [end, pair(node, 0)]));
            let first = entries;
            let huge = match object.huge_pages {
                None => 0,
                Some(true) => 1,
                Some(false) => 2,
            };
            for range in &object.ranges {
                words.extend([data.dev(), data.ino(), range.start, range.end, object.least]);
                words.extend([pair(object.kind, mode as u32), pair(object.how.number(), huge)]);
                words.extend([pair(first_part, own.len() as u32), pair(first, object.unit())]);
                words.extend((0..NODE_WORDS).map(|i| mask.get(i).copied().unwrap_or(0)));
                words.extend([0; WRITTEN_WORDS]);
                entries += 1;
            }
        }
        let head = [MAGIC, pair(VERSION, entries), pair((parts.len() / 2) as u32, 0)];
        let bytes: Vec<u8> = head.iter().chain(&words).chain(&parts).flat_map(|w| w.to_ne_bytes()).collect();
        let file = shared_memory(MAPPED_AS).context("no memory to share with the program")?;
        (&file).write_all(&bytes).context("no memory to share with the program")?;
        Ok(Table {
            path: format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into(),
            _file: file,
        })
    }

    /// What the agent did by `table`.
    pub fn outcome(&self, table: &Table) -> Vec<String> {
        let bytes = fs::read(&table.path).unwrap_or_default();
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default())).collect();
        let entries = words.get(HEAD_WORDS..).unwrap_or_default().chunks_exact(ENTRY_WORDS);
        let mut entries = entries.map(|e| &e[FIXED_WORDS + NODE_WORDS..]);
        let mut all = Did::default();
        let mut lines = Vec::new();
        for object in &self.objects {
            let mut did = Did::default();
            entries.by_ref().take(object.ranges.len()).for_each(|entry| did.add(entry));
            lines.push(object.words(&did));
            all.objects += did.objects;
            all.bytes += did.bytes;
            all.took_ns += did.took_ns;
        }
        if all.objects > 0 {
            lines.push(format!(
                "placed in all: {} object{} of {}, in {} µs",
                all.objects,
                if all.objects == 1 { "" } else { "s" },
                size(all.bytes),
                all.took_ns.div_ceil(1000)
            ));
        }
        lines
    }
}

/// What the agent wrote of an object.
#[derive(Default)]
struct Did {
    loaded: bool,
    objects: u64,
    bytes: u64,
    failed: u64,
    error: u64,
    took_ns: u64,
}

impl Did {
    fn add(&mut self, entry: &[u64]) {
        self.loaded |= entry[0] > 0;
        self.objects += entry[1];
        self.bytes += entry[2];
        self.failed += entry[3];
        self.error = self.error.max(entry[4]);
        self.took_ns += entry[5];
    }
}

impl Resolved {
    fn what(&self) -> String {
        let huge = match self.huge_pages {
            None => "",
            Some(true) => ", in huge pages",
            Some(false) => ", without huge pages",
        };
        format!("memory {}{huge}", self.how.words())
    }

    /// Bytes of the object's pages: huge ones where it asks for them or the kernel gives them to all.
    fn unit(&self) -> u32 {
        let huge = match self.huge_pages {
            Some(false) => None,
            asked => huge_page_bytes(Path::new("/"), asked == Some(true)),
        };
        huge.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(proc::page_bytes() as u32)
    }

    fn words(&self, did: &Did) -> String {
        let what = if self.kind == STATIC { "variable" } else { "allocation" };
        let mut text = match (did.loaded, did.objects, did.failed) {
            (false, ..) => format!(
                "{}: nothing placed: the agent did not find {} in the program (statically linked, setuid, or loaded later)",
                self.label,
                self.module.display()
            ),
            (true, 0, 0) => format!(
                "{}: nothing placed: no {what} of {} bytes or more came from there",
                self.label, self.least
            ),
            (true, objects, _) => format!(
                "{}: {objects} {what}{} of {} in whole pages, {}",
                self.label,
                if objects == 1 { "" } else { "s" },
                size(did.bytes),
                self.what()
            ),
        };
        if did.failed > 0 {
            let why = std::io::Error::from_raw_os_error(did.error as i32);
            text += &format!("; the kernel refused {} ({why})", did.failed);
        }
        text
    }
}

/// Whether the cpus are those of one node, which no thread can leave.
pub fn on_one_node(machine: &Machine, cpus: Option<&CpuList>) -> bool {
    let on = |n: &&NumaNode| match cpus {
        Some(cpus) => n.cpus.first_common(cpus).is_some(),
        None => !n.cpus.is_empty(),
    };
    machine.nodes.iter().filter(on).count() < 2
}

/// What the agent maps: memory that ends with the last process that has it.
pub struct Table {
    /// How programs open it.
    pub path: PathBuf,
    _file: File,
}

/// What the name of the table begins with among a program's mappings.
pub const MAPPED_AS: &str = "/memfd:nearfar-places";

/// Two 32-bit fields in the order of this machine.
fn pair(first: u32, second: u32) -> u64 {
    let mut all = [0; 8];
    all[..4].copy_from_slice(&first.to_ne_bytes());
    all[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(all)
}

fn resolve(
    object: &PlacedObject,
    program: &Path,
    machine: &Machine,
    may: Option<&NodeList>,
) -> Result<Resolved> {
    let list = object.nodes.as_deref().map(|text| nodes(text, machine, may)).transpose()?.unwrap_or_default();
    let known = |named: &mut dyn Iterator<Item = NodeId>| {
        let list: NodeList = named.collect();
        nodes(&list.to_string(), machine, may).map(drop)
    };
    let how = match (object.policy, &object.blocks, &object.turns) {
        (ObjectPolicy::Blocks, Some(blocks), _) => {
            known(&mut blocks.iter().map(|b| b.1))?;
            How::Blocks(blocks.clone())
        }
        (ObjectPolicy::Turns, _, Some(turns)) => {
            known(&mut turns.iter().copied())?;
            How::Turns(turns.clone())
        }
        (ObjectPolicy::Blocks | ObjectPolicy::Turns, ..) => bail!("it names no nodes"),
        (ObjectPolicy::Bind, ..) => How::Whole(Policy::Bind(list)),
        (ObjectPolicy::Interleave, ..) => match &object.weights {
            Some(weights) if weights.len() != list.len() => {
                bail!("{} weights for {} nodes ({list})", weights.len(), list.len())
            }
            Some(weights) => How::Weighted(weights.iter().map(|&w| u64::from(w)).zip(list.iter()).collect()),
            None => How::Whole(Policy::Interleave(list)),
        },
        (ObjectPolicy::Local, ..) => How::Whole(Policy::Local),
        (ObjectPolicy::Preferred, ..) => match list.as_slice() {
            [node] => How::Whole(Policy::Preferred(*node)),
            _ => bail!("`preferred` takes one node, {list} are more"),
        },
    };
    let path = object.module.as_ref().map_or_else(|| program.to_owned(), PathBuf::from);
    let path = fs::canonicalize(&path).with_context(|| path.display().to_string())?;
    let module = Module::open(&path).with_context(|| path.display().to_string())?;
    let (kind, ranges) = match (object.line(), &object.variable) {
        (Some((file, line)), _) => {
            let ranges = module.code_of_line(file, line);
            if ranges.is_empty() {
                bail!(
                    "{} has no code for {file}:{line}: is it built with -g, and is that the line of the call?",
                    path.display()
                );
            }
            (CALL, ranges)
        }
        (None, Some(name)) => {
            let all: Vec<Range<u64>> = module
                .every_static()
                .iter()
                .filter(|v| v.name == *name)
                .map(|v| v.vaddr..v.vaddr + v.bytes)
                .collect();
            if all.is_empty() {
                bail!("{} has no static variable `{name}`", path.display());
            }
            (STATIC, all)
        }
        (None, None) => bail!("it names neither a line nor a variable"),
    };
    Ok(Resolved {
        label: object.label().to_owned(),
        how,
        huge_pages: object.huge_pages,
        module: path,
        kind,
        ranges,
        least: object.min_bytes.max(1),
    })
}
