//! Policies of single objects: a placement file becomes the table that the agent reads (`struct nf_place` in
//! agent/protocol.h), and afterwards the agent's counts become words.

use crate::collect::policy::Policy;
use crate::collect::target::find_program;
use crate::symbols::Module;
use anyhow::{Context, Result, bail};
use nearfar_model::fix::{Fix, FixObject, FixPolicy};
use nearfar_model::machine::Machine;
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::select::nodes;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The environment variable by which the agent is told of the table.
pub const PLACES: &str = "NEARFAR_PLACES";
/// Words of an entry: device, inode, low, high, least, kind and mode, nodes, loaded, applied, bytes, failed,
/// error.
const NODE_WORDS: usize = 16;
const ENTRY_WORDS: usize = 6 + NODE_WORDS + 5;
/// As many entries as the agent takes.
const MOST: usize = 256;
/// NF_PLACE_CALL and NF_PLACE_STATIC.
const CALL: u64 = 0;
const STATIC: u64 = 1;

/// Objects with their policies, as code and data of modules.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectPolicies {
    objects: Vec<Resolved>,
}

#[derive(Clone, Debug, PartialEq)]
struct Resolved {
    label: String,
    policy: Policy,
    module: PathBuf,
    /// Device and inode of the module.
    file: (u64, u64),
    kind: u64,
    ranges: Vec<Range<u64>>,
    least: u64,
}

impl ObjectPolicies {
    /// Reads the file and looks the objects up in the program's debug information.
    ///
    /// # Errors
    /// If the file, a node, a module, a line or a variable is not there.
    pub fn read(file: &Path, command: &[OsString], machine: &Machine, may: Option<&CpuList>) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let fix = Fix::from_toml(&text).with_context(|| file.display().to_string())?;
        let program = match (&fix.program, command.first()) {
            (Some(program), _) => find_program(OsStr::new(program))?,
            (None, Some(program)) => find_program(program)?,
            (None, None) => {
                bail!("--placement needs the program: its debug information says where objects come from")
            }
        };
        let objects = fix.objects.iter().map(|object| {
            resolve(object, &program, machine, may)
                .with_context(|| format!("{}: {}", file.display(), object.label()))
        });
        let objects: Vec<Resolved> = objects.collect::<Result<_>>()?;
        if objects.iter().map(|o| o.ranges.len()).sum::<usize>() > MOST {
            bail!("{}: its lines have more than {MOST} pieces of code", file.display());
        }
        Ok(ObjectPolicies { objects })
    }

    /// What is set, a line each.
    pub fn lines(&self) -> Vec<String> {
        self.objects.iter().map(|o| format!("{}: memory {}", o.label, o.policy.words())).collect()
    }

    /// Whether the kernel takes the policies.
    ///
    /// # Errors
    /// In words.
    pub fn try_here(&self) -> Result<(), String> {
        self.objects.iter().try_for_each(|o| o.policy.try_here())
    }

    /// The table as a file, which is gone when the value is dropped.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn table(&self) -> Result<Table> {
        let mut words: Vec<u64> = Vec::new();
        for object in &self.objects {
            let prepared = object.policy.prepare();
            let (mode, mask) = prepared.parts();
            for range in &object.ranges {
                words.extend([object.file.0, object.file.1, range.start, range.end, object.least]);
                // Two 32-bit fields in the order of this machine.
                words.push(u64::from_ne_bytes(halves(object.kind as u32, mode as u32)));
                words.extend((0..NODE_WORDS).map(|i| mask.get(i).copied().unwrap_or(0)));
                words.extend([0; 5]);
            }
        }
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let directory = Path::new(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
        for attempt in 0..100 {
            let path = directory.join(format!("nearfar-places-{}-{attempt}", std::process::id()));
            let made: std::io::Result<File> =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            match made {
                Ok(mut file) => {
                    let table = Table { path };
                    file.write_all(&bytes).with_context(|| table.path.display().to_string())?;
                    return Ok(table);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        bail!("remove the files nearfar-places-* in {}", directory.display())
    }

    /// What the agent did by `table`.
    pub fn outcome(&self, table: &Table) -> Vec<String> {
        let bytes = fs::read(&table.path).unwrap_or_default();
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default())).collect();
        let mut entries = words.chunks_exact(ENTRY_WORDS).map(|e| &e[6 + NODE_WORDS..]);
        self.objects
            .iter()
            .map(|object| {
                let mut sum = [0u64; 4];
                let mut last = 0;
                for entry in entries.by_ref().take(object.ranges.len()) {
                    (0..4).for_each(|i| sum[i] += entry[i]);
                    last = last.max(entry[4]);
                }
                let [loaded, applied, bytes, failed] = sum;
                object.words(loaded > 0, applied, bytes, failed, last)
            })
            .collect()
    }
}

impl Resolved {
    fn words(&self, loaded: bool, applied: u64, bytes: u64, failed: u64, error: u64) -> String {
        let what = if self.kind == STATIC { "variable" } else { "allocation" };
        let mut text = match (loaded, applied, failed) {
            (false, ..) => format!(
                "{}: nothing placed: the agent did not find {} in the program (statically linked, setuid, or loaded later)",
                self.label,
                self.module.display()
            ),
            (true, 0, 0) => format!(
                "{}: nothing placed: no {what} of {} bytes or more came from there",
                self.label, self.least
            ),
            (true, ..) => format!(
                "{}: {applied} {what}{} of {} in whole pages, memory {}",
                self.label,
                if applied == 1 { "" } else { "s" },
                super::seen::mib(bytes),
                self.policy.words()
            ),
        };
        if failed > 0 {
            let why = std::io::Error::from_raw_os_error(error as i32);
            text += &format!("; the kernel refused {failed} ({why})");
        }
        text
    }
}

/// The file that the agent maps.
pub struct Table {
    /// Where it is.
    pub path: PathBuf,
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn halves(low: u32, high: u32) -> [u8; 8] {
    let mut all = [0; 8];
    all[..4].copy_from_slice(&low.to_ne_bytes());
    all[4..].copy_from_slice(&high.to_ne_bytes());
    all
}

fn resolve(object: &FixObject, program: &Path, machine: &Machine, may: Option<&CpuList>) -> Result<Resolved> {
    let list = object.nodes.as_deref().map(|text| nodes(text, machine, may)).transpose()?.unwrap_or_default();
    let policy = match object.policy {
        FixPolicy::Bind => Policy::Bind(list),
        FixPolicy::Interleave => Policy::Interleave(list),
        FixPolicy::Local => Policy::Local,
        FixPolicy::Preferred => match list.as_slice() {
            [node] => Policy::Preferred(*node),
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
                .statics(1)
                .into_iter()
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
    let data = fs::metadata(&path)?;
    Ok(Resolved {
        label: object.label().to_owned(),
        policy,
        module: path,
        file: (data.dev(), data.ino()),
        kind,
        ranges,
        least: object.min_bytes.max(1),
    })
}
