//! The recorded processes as they change: address spaces, threads, modules, and
//! the numbers that tables use for them. Everything that happens to the target
//! passes through here in the order of time.

mod python;

use super::agent::PythonFrame;
use crate::store::Tables;
use nearfar_decode::{Decoder, FunctionCode};
use nearfar_host::proc;
use nearfar_host::symbols::{Module, Unwinder, is_runtime, spins};
use nearfar_recording::*;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
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
    pub maps: Arc<BTreeMap<u64, MapEntry>>,
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

    /// The number of a code address.
    pub fn location(&mut self, space: u32, address: u64, tables: &mut Tables) -> u32 {
        if let Some((_, place)) = self.place(space, address) {
            return place.id;
        }
        let s = &mut self.spaces[space as usize];
        let id = self.location_count;
        self.location_count += 1;
        s.locations.insert(address, Place { id, access: None, spins: None });
        let (module, file_offset) = match s.map_at(address) {
            Some((start, map)) => (map.module, map.offset + (address - start)),
            None => (NONE, 0),
        };
        tables.locations.push(Location { id, process: space, address, module, file_offset });
        id
    }

    /// The one location that stands for all instructions of the kernel.
    pub fn kernel_location(&mut self, space: u32, tables: &mut Tables) -> u32 {
        if let Some(id) = self.kernel {
            return id;
        }
        let module = self.module(0, KERNEL_MODULE, proc::FileId::default(), tables);
        let id = self.location_count;
        self.location_count += 1;
        tables.locations.push(Location { id, process: space, address: 0, module, file_offset: 0 });
        self.kernel = Some(id);
        id
    }

    /// What is known of a code address, and the address space that has it: a fork's child runs its parent's code until
    /// one of the two maps something else there.
    fn place(&self, space: u32, address: u64) -> Option<(u32, Place)> {
        let own = &self.spaces[space as usize];
        let mut at = space;
        loop {
            let s = &self.spaces[at as usize];
            if let Some(&place) = s.locations.get(&address) {
                let same = at == space || own.same_code(s, address);
                return same.then_some((at, place));
            }
            at = s.parent?;
        }
    }

    /// The number of a faulting instruction, and what it does to memory; tells the collector of new ones in
    /// runtime libraries.
    pub fn fault_location(&mut self, space: u32, ip: u64, tables: &mut Tables) -> (u32, Access) {
        if let Some((_, Place { id, access: Some(access), .. })) = self.place(space, ip) {
            return (id, access);
        }
        let before = self.location_count;
        let id = self.location(space, ip, tables);
        // The same library instruction in another process is not new: a shell
        // script's hundred children all start in the same loader.
        let s = &self.spaces[space as usize];
        let (module, offset) =
            s.map_at(ip).map_or((NONE, ip), |(start, m)| (m.module, m.offset + (ip - start)));
        let known = self.faulted.get(&(module, offset)).copied();
        let access = match known {
            Some(access) if module != NONE => access,
            _ => self.with_instruction(space, ip, |decoder, code| decoder.access_at(ip, code)),
        };
        self.faulted.insert((module, offset), access);
        if id >= before && known.is_none() {
            self.new_runtime_site |= self.modules.get(module as usize).is_none_or(|m| m.runtime);
        }
        self.note(space, ip, |place| place.access = Some(access));
        (id, access)
    }

    /// The number of a call chain: `frames[0]` is where it happened, the others are return addresses.
    pub fn chain(&mut self, space: u32, frames: &[u64], tables: &mut Tables) -> u32 {
        let locations = self.locations_of(space, frames, tables);
        self.chain_of(space, locations, tables)
    }

    fn locations_of(&mut self, space: u32, frames: &[u64], tables: &mut Tables) -> Vec<u32> {
        let mut locations = Vec::with_capacity(frames.len());
        for (depth, &frame) in frames.iter().enumerate() {
            if depth > 0 && self.spaces[space as usize].map_at(frame).is_none_or(|(_, m)| m.module == NONE) {
                break; // no code there: the frame-pointer chain ran into data
            }
            let address = if depth == 0 { frame } else { frame - 1 };
            locations.push(self.location(space, address, tables));
        }
        locations
    }

    fn chain_of(&mut self, space: u32, locations: Vec<u32>, tables: &mut Tables) -> u32 {
        if locations.is_empty() {
            return NONE;
        }
        let key = locations.into_boxed_slice();
        let chains = &mut self.spaces[space as usize].chains;
        if let Some(&id) = chains.get(&key) {
            return id;
        }
        let next = self.chain_count;
        self.chain_count += 1;
        for (depth, &location) in key.iter().enumerate() {
            tables.chains.push(ChainFrame { chain: next, depth: depth as u16, location });
        }
        chains.insert(key, next);
        next
    }

    /// The call chain of a site key in `space` or one that it was forked from.
    pub fn site(&self, space: u32, key: u64) -> Option<u32> {
        let mut at = Some(space);
        while let Some(space) = at {
            let space = &self.spaces[space as usize];
            if let Some(&chain) = space.sites.get(&key) {
                return Some(chain);
            }
            at = space.parent;
        }
        None
    }

    /// The module that an address is in.
    pub fn module_at(&self, space: u32, address: u64) -> Option<&Loaded> {
        let (_, map) = self.spaces[space as usize].map_at(address)?;
        self.modules.get(map.module as usize)
    }

    /// Whether an instruction belongs to a runtime's wait loop.
    pub fn spins(&mut self, space: u32, address: u64) -> bool {
        let known = self.place(space, address).and_then(|(_, place)| place.spins);
        known.unwrap_or_else(|| {
            let answer = self.spins_uncached(space, address);
            self.note(space, address, |place| place.spins = Some(answer));
            answer
        })
    }

    /// Keeps what was found out about a code address.
    fn note(&mut self, space: u32, address: u64, change: impl FnOnce(&mut Place)) {
        let owner = self.place(space, address).map(|(owner, _)| owner);
        let places = owner.map(|owner| &mut self.spaces[owner as usize].locations);
        if let Some(place) = places.and_then(|places| places.get_mut(&address)) {
            change(place);
        }
    }

    fn spins_uncached(&self, space: u32, address: u64) -> bool {
        let Some((start, map)) = self.spaces[space as usize].map_at(address) else {
            return false;
        };
        let Some(Loaded { file: Some(file), runtime }) = self.modules.get(map.module as usize) else {
            return false;
        };
        if !runtime && !file.is_static_executable() {
            return false;
        }
        let function =
            file.vaddr_of_file_offset(map.offset + (address - start)).and_then(|v| file.function(v));
        spins(&file.path().to_string_lossy(), function.as_deref())
    }

    /// Runs `use_code` with the code around `ip`, if there is any.
    pub fn with_code<T>(
        &mut self,
        space: u32,
        ip: u64,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        self.with_code_of(space, ip, JIT_WINDOW..=JIT_WINDOW, file_code, use_code)
    }

    /// Runs `use_code` with the code that begins at `ip`, as long as one instruction can be: a page fault's address is
    /// exact, so the function around it is not needed.
    fn with_instruction<T>(
        &mut self,
        space: u32,
        ip: u64,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        let use_code = |decoder: &mut Decoder, code: Option<FunctionCode<'_>>| {
            use_code(decoder, code.map(|code| FunctionCode { synced: true, ..code }))
        };
        self.with_code_of(space, ip, 0..=LONGEST_INSTRUCTION, file_instruction, use_code)
    }

    /// Runs `use_code` with code at `ip`: of a file what `in_file` finds, of generated code as many bytes before and
    /// behind `ip` as `window` says, read from the process while it lives.
    fn with_code_of<T>(
        &mut self,
        space: u32,
        ip: u64,
        window: RangeInclusive<u64>,
        in_file: for<'a> fn(&'a Module, u64, u64) -> Option<FunctionCode<'a>>,
        use_code: impl FnOnce(&mut Decoder, Option<FunctionCode<'_>>) -> T,
    ) -> T {
        let ProcessTable { spaces, modules, decoder, imported, .. } = self;
        let s = &spaces[space as usize];
        let mut buffer = Vec::new();
        let code = s.map_at(ip).and_then(|(start, map)| match modules.get(map.module as usize) {
            Some(loaded) => {
                let file = loaded.file.as_ref()?;
                in_file(file, file.vaddr_of_file_offset(map.offset + (ip - start))?, ip)
            }
            None if *imported => None,
            None => {
                let from = ip.saturating_sub(*window.start()).max(start);
                let to = ip.saturating_add(*window.end()).min(map.end);
                read_memory(s.pid, from, to - from, &mut buffer)?;
                Some(FunctionCode { start: from, bytes: &buffer, synced: false })
            }
        });
        use_code(decoder, code)
    }
}

/// Bytes of an x86 instruction at most (Intel SDM, volume 2, section 2.3.11).
const LONGEST_INSTRUCTION: u64 = 15;

/// Bytes before and behind an instruction that are looked at where no symbol bounds its function.
const JIT_WINDOW: u64 = 96;

/// The instruction at an address of a file that is mapped so that it is at `ip`.
fn file_instruction(file: &Module, vaddr: u64, ip: u64) -> Option<FunctionCode<'_>> {
    // A segment may end with it.
    let bytes = (1..=LONGEST_INSTRUCTION).rev().find_map(|n| file.code(vaddr..vaddr.checked_add(n)?))?;
    Some(FunctionCode { start: ip, bytes, synced: true })
}

/// The function around an address of a file that is mapped so that it is at `ip`, or else the bytes around it.
fn file_code(file: &Module, vaddr: u64, ip: u64) -> Option<FunctionCode<'_>> {
    let bias = ip.wrapping_sub(vaddr);
    if let Some(range) = file.code_range(vaddr) {
        let start = range.start;
        return Some(FunctionCode {
            start: start.wrapping_add(bias),
            bytes: file.code(range)?,
            synced: true,
        });
    }
    let from = vaddr.saturating_sub(JIT_WINDOW);
    let bytes = file.code(from..vaddr + JIT_WINDOW).or_else(|| file.code(vaddr..vaddr + 16));
    let bytes = bytes?;
    let from = if bytes.len() > 16 { from } else { vaddr };
    Some(FunctionCode { start: from.wrapping_add(bias), bytes, synced: false })
}

/// Reads memory of a process of ours into `buffer`.
fn read_memory(pid: u32, address: u64, bytes: u64, buffer: &mut Vec<u8>) -> Option<()> {
    let mut file = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    file.seek(SeekFrom::Start(address)).ok()?;
    buffer.resize(bytes as usize, 0);
    file.read_exact(buffer).ok()
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
