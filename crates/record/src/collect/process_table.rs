//! The recorded processes as they change: address spaces, threads, modules, and
//! the numbers that tables use for them. Everything that happens to the target
//! passes through here in the order of time.

mod code;
mod locations;
mod python;

use super::agent::PythonFrame;
use crate::store::Tables;
use nearfar_decode::Decoder;
use nearfar_host::proc;
use nearfar_host::symbols::{Module, Unwinder, is_runtime};
use nearfar_recording::*;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// In place of a build id: the file was gone with its process, and what the path leads to here is another file.
const ANOTHER_FILE: &str = "another file";

/// A file or region mapped into an address space.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// One past the last byte.
    pub end: u64,
    /// File offset of the first byte.
    pub offset: u64,
    /// Module number; [`NONE`] if no file.
    pub module: u32,
    /// Object that stands for it; [`NONE`] if none.
    pub object: u32,
    /// The address space whose object that is: a fork's child has its parent's mappings, not its objects.
    pub owner: u32,
}

/// Mappings by their first byte.
pub type Maps = BTreeMap<u64, MapEntry>;

/// A live object of the agent.
#[derive(Clone, Copy, Debug)]
pub struct LiveObject {
    /// Its number.
    pub id: u32,
    /// Its size.
    pub bytes: u64,
    /// Its call chain.
    pub chain: u32,
}

/// Keys are addresses and numbers that the kernel gave, one look-up for each event and more: the standard hash
/// was a tenth of the recorder's time where ten thousand processes start and end.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A code address, and what was found out about it.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number.
    id: u32,
    /// What its instruction does to memory.
    access: Option<Access>,
    /// Whether it belongs to a runtime's wait loop.
    spins: Option<bool>,
}

/// An address space.
#[derive(Debug, Default)]
pub struct Space {
    /// Kernel process id.
    pub pid: u32,
    /// Mappings by first byte; they do not overlap. Shared with the parent until one of them changes its own: most
    /// children exec soon, and a program may have 100,000.
    pub maps: Arc<Maps>,
    locations: Map<u64, Place>,
    chains: Map<Box<[u32]>, u32>,
    /// Live objects of the agent by address.
    pub objects: Map<u64, LiveObject>,
    /// Call chains by the agent's site key.
    pub sites: Map<u64, u32>,
    /// Lines of Python by the same key, of sites whose stack is still to come.
    pub python: Map<u64, Vec<PythonFrame>>,
    /// Path of the program; empty if it could not be read.
    executable: Arc<str>,
    /// The address space it was forked from.
    pub parent: Option<u32>,
    /// Whether the agent reported in from it.
    pub agent: bool,
    /// Ended.
    pub dead: bool,
    /// Where its heap begins, once it was asked; `None` inside if the kernel did not say.
    heap_begin: Option<Option<u64>>,
}

/// A file that was seen mapped.
pub struct Loaded {
    /// `None` if it is no ELF file or cannot be read.
    pub file: Option<Arc<Module>>,
    /// Runs on behalf of its caller.
    pub runtime: bool,
}

/// All of it.
#[derive(Default)]
pub struct ProcessTable {
    /// By address-space number.
    pub spaces: Vec<Space>,
    live: Map<u32, u32>,
    /// Live threads by kernel thread id: number and address space.
    threads: Map<u32, (u32, u32)>,
    thread_count: u32,
    /// By module number.
    pub modules: Vec<Loaded>,
    /// By path and file: in another root directory, or under another mount, a path is another file.
    module_numbers: HashMap<(String, proc::FileId), u32>,
    /// By path and build id: of a file that was replaced by an equal one, or is in each of many containers.
    equal_modules: HashMap<(String, String), u32>,
    chain_count: u32,
    location_count: u32,
    /// The kernel's location, once it is needed.
    kernel: Option<u32>,
    /// Locations of lines of Python.
    python: HashMap<PythonFrame, u32>,
    object_count: u32,
    /// Rule P.
    pub decoder: Decoder,
    /// Call chains by .eh_frame.
    pub unwinder: Unwinder,
    /// Instructions that have faulted, by module and file offset, and what they do to memory.
    faulted: Map<(u32, u64), Access>,
    /// Set when an instruction of a runtime library faulted that had not faulted before.
    pub new_runtime_site: bool,
    /// What happens here happened elsewhere or earlier: no process of this host is asked, because its numbers are
    /// others' now.
    pub imported: bool,
}

impl ProcessTable {
    /// An empty processes.
    pub fn new() -> ProcessTable {
        ProcessTable::default()
    }

    /// The address space that process `pid` has now, made up if it was never announced.
    pub fn space_of(&mut self, pid: u32, time_ns: u64, tables: &mut Tables) -> u32 {
        match self.live.get(&pid) {
            Some(&space) => space,
            None => self.add_space(pid, NONE, false, time_ns, tables),
        }
    }

    /// Whether `pid` is known.
    pub fn knows(&self, pid: u32) -> bool {
        self.live.contains_key(&pid)
    }

    /// Begins an address space: of a new process, or after exec.
    pub fn add_space(
        &mut self,
        pid: u32,
        parent: u32,
        forked: bool,
        time_ns: u64,
        tables: &mut Tables,
    ) -> u32 {
        let id = self.spaces.len() as u32;
        let mut space =
            Space { pid, parent: (parent != NONE && forked).then_some(parent), ..Space::default() };
        if let Some(from) = space.parent {
            // The objects of the parent stay the parent's: lookups fall back to it.
            space.maps = Arc::clone(&self.spaces[from as usize].maps);
            self.unwinder.fork(from, id);
            space.executable = Arc::clone(&self.spaces[from as usize].executable);
        }
        // A child that exec'd meanwhile is another program by now: what it was is its parent's.
        if space.executable.is_empty() && !self.imported {
            space.executable = proc::executable(pid).into();
        }
        let executable = space.executable.to_string();
        self.spaces.push(space);
        self.live.insert(pid, id);
        tables.processes.push(Process {
            id,
            pid,
            parent,
            forked: forked as u8,
            start_ns: time_ns,
            executable,
        });
        id
    }

    /// Ends the address space of `pid` (exit, or just before an exec begins a new one).
    pub fn end_space(&mut self, pid: u32, time_ns: u64, tables: &mut Tables) -> Option<u32> {
        let space = self.live.remove(&pid)?;
        let old = &mut self.spaces[space as usize];
        // All but the call chains by key, which its forks may still refer to: what is kept of the dead would grow
        // with the length of the run.
        let sites = std::mem::take(&mut old.sites);
        *old = Space { pid, parent: old.parent, agent: old.agent, sites, dead: true, ..Space::default() };
        self.decoder.forget(space);
        self.unwinder.forget(space);
        tables.process_ends.push(ProcessEnd { process: space, time_ns });
        Some(space)
    }

    /// A thread's number, made up if it was never announced.
    pub fn thread(&mut self, pid: u32, tid: u32, time_ns: u64, tables: &mut Tables) -> u32 {
        match self.threads.get(&tid) {
            Some(&(thread, _)) => thread,
            None => {
                let space = self.space_of(pid, time_ns, tables);
                let name = self.name_of(pid, tid);
                self.add_thread(space, tid, time_ns, name, tables)
            }
        }
    }

    /// Name of a thread as the kernel has it now; empty if it is none of this host's.
    pub fn name_of(&self, pid: u32, tid: u32) -> String {
        if self.imported { String::new() } else { proc::name(pid, tid) }
    }

    /// Begins a thread.
    pub fn add_thread(
        &mut self,
        process: u32,
        tid: u32,
        start_ns: u64,
        name: String,
        tables: &mut Tables,
    ) -> u32 {
        let id = self.thread_count;
        self.thread_count += 1;
        self.threads.insert(tid, (id, process));
        tables.threads.push(Thread { id, process, tid, start_ns, name });
        id
    }

    /// Whether a thread of that number is alive in the address space of `pid`.
    pub fn knows_thread(&self, pid: u32, tid: u32) -> bool {
        match (self.threads.get(&tid), self.live.get(&pid)) {
            (Some((_, space)), Some(live)) => space == live,
            _ => false,
        }
    }

    /// Ends a thread.
    pub fn end_thread(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Processes that are alive: (pid, address space).
    pub fn living(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.live.iter().map(|(&pid, &space)| (pid, space))
    }

    /// What is worth looking up nodes of pages for: recorded objects, and private
    /// mappings of at least `min_bytes`.
    pub fn ranges(&self, space: u32, min_bytes: u64) -> Vec<nearfar_host::page_nodes::Range> {
        let s = &self.spaces[space as usize];
        let objects = s.objects.iter().map(|(&address, object)| (address, object.bytes));
        let maps = s
            .maps
            .iter()
            .filter(|(_, m)| m.module == NONE && m.object != NONE && m.owner == space)
            .map(|(&start, m)| (start, m.end - start));
        objects
            .chain(maps)
            .filter(|&(_, bytes)| bytes >= min_bytes)
            .map(|(address, bytes)| nearfar_host::page_nodes::Range { process: space, address, bytes })
            .collect()
    }

    /// Where the heap of brk(2) begins in a space that lives; asked once.
    pub fn heap_begin(&mut self, space: u32, pid: u32) -> Option<u64> {
        if self.imported {
            return None;
        }
        let known = &mut self.spaces[space as usize].heap_begin;
        *known.get_or_insert_with(|| nearfar_host::proc::heap_begin(pid))
    }

    /// Path of a module.
    pub fn module_path(&self, number: u32) -> &str {
        self.module_numbers.iter().find(|m| *m.1 == number).map_or("", |m| m.0.0.as_str())
    }

    /// A new object number.
    pub fn next_object(&mut self) -> u32 {
        self.object_count += 1;
        self.object_count - 1
    }

    /// The number of a mapped file; opens it the first time.
    pub fn module(&mut self, pid: u32, path: &str, id: proc::FileId, tables: &mut Tables) -> u32 {
        let key = (path.to_owned(), id);
        if let Some(&number) = self.module_numbers.get(&key) {
            return number;
        }
        // As the process sees the path while it lives. Afterwards as we do, if it is the same file.
        let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
        let own = usize::from(self.imported);
        let mut candidates =
            [inside, PathBuf::from(path)].into_iter().skip(own).filter(|candidate| id.may_be(candidate));
        let file = candidates.find_map(|candidate| Module::open(&candidate).ok()).map(Arc::new);
        let build_id = match &file {
            Some(file) => file.build_id().unwrap_or_default(),
            None if Path::new(path).exists() && !id.may_be(Path::new(path)) => ANOTHER_FILE.into(),
            None => String::new(),
        };
        let equal = self.equal_modules.get(&(key.0.clone(), build_id.clone())).copied();
        if let Some(number) = equal.filter(|_| !build_id.is_empty()) {
            self.module_numbers.insert(key, number);
            return number;
        }
        let number = self.modules.len() as u32;
        let runtime = is_runtime(path);
        self.equal_modules.insert((key.0.clone(), build_id.clone()), number);
        tables.modules.push(nearfar_recording::Module {
            id: number,
            path: path.to_owned(),
            build_id,
            runtime: runtime as u8,
        });
        self.modules.push(Loaded { file, runtime });
        self.module_numbers.insert(key, number);
        number
    }

    /// The files that were opened, by module number.
    pub fn opened(&self) -> HashMap<u32, Arc<Module>> {
        let files = self.modules.iter().enumerate();
        files.filter_map(|(number, loaded)| Some((number as u32, loaded.file.clone()?))).collect()
    }

    /// The module that an address is in.
    pub fn module_at(&self, space: u32, address: u64) -> Option<&Loaded> {
        let (_, map) = self.spaces[space as usize].map_at(address)?;
        self.modules.get(map.module as usize)
    }
}

impl Space {
    /// Whether both have the same bytes of the same file mapped at `address`.
    fn same_code(&self, other: &Space, address: u64) -> bool {
        let of = |s: &Space| s.map_at(address).map(|(start, m)| (start, m.module, m.offset));
        // Generated code may change in one of them.
        of(self).is_some_and(|mine| {
            mine.1 != NONE && (Arc::ptr_eq(&self.maps, &other.maps) || of(other) == Some(mine))
        })
    }

    /// The mapping that holds `address`, with its first byte.
    pub fn map_at(&self, address: u64) -> Option<(u64, &MapEntry)> {
        let (&start, map) = self.maps.range(..=address).next_back()?;
        (address < map.end).then_some((start, map))
    }
}
