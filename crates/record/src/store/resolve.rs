//! After the run: functions and lines for every location, names for every
//! allocation site, and the static variables of every module.

use super::Tables;
use nearfar_host::symbols::generated::PerfMap;
use nearfar_host::symbols::{Frame, Module, is_agent};
use nearfar_recording::*;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Static variables below this size are objects of their own only where samples are near, bytes: programs have very many.
const SMALLEST_STATIC: u64 = 4096;
/// How near, log2 of bytes: addresses of samples are kept as numbers of such areas.
const NEAR: u32 = 21;
/// How many of the program's own frames are asked for the variable that takes an
/// allocation: `float *a = make_grid(n)` is two frames away from malloc.
const NAMING_FRAMES: usize = 4;

/// Objects that are on disk already, of so many that memory should not hold them all.
#[derive(Debug, Default)]
pub struct WrittenObjects {
    chains: HashSet<u32>,
    next: u32,
    /// Areas of 2^[`NEAR`] bytes in which samples lie, of whatever process.
    sampled: HashSet<u64>,
}

impl WrittenObjects {
    /// Notes where samples lie that are about to be written.
    pub fn add_samples(&mut self, samples: &AccessSamples) {
        self.sampled.extend(samples.address.iter().map(|address| address >> NEAR));
    }

    /// Whether samples lie near a static variable.
    fn are_near(&self, address: u64, bytes: u64) -> bool {
        let last = address.saturating_add(bytes.saturating_sub(1));
        (address >> NEAR..=last >> NEAR).any(|area| self.sampled.contains(&area))
    }

    /// Notes what is needed of objects that are about to be written.
    pub fn add(&mut self, objects: &MemoryObjects) {
        self.chains.extend(&objects.chain);
        self.next = self.next.max(objects.id.iter().max().map_or(0, |&id| id.saturating_add(1)));
    }
}

/// Names of generated code, by the runtimes that wrote them. Inside a virtual machine processes have numbers of their
/// own, which mean others here.
fn add_generated(tables: &mut Tables, meta: &Meta) {
    let inside = meta.sources.iter().any(|r| r.source == Source::Simulated && r.active);
    let Some(since) = meta.started.parse::<jiff::Timestamp>().ok().filter(|_| !inside) else {
        return;
    };
    let since = SystemTime::from(since);
    let pids: HashMap<u32, u32> = tables.processes.rows().map(|p| (p.id, p.pid)).collect();
    let mut maps: HashMap<u32, Option<PerfMap>> = HashMap::new();
    for i in 0..tables.locations.len() {
        let location = tables.locations.row(i);
        let Some(&pid) = pids.get(&location.process).filter(|_| location.module == NONE) else {
            continue;
        };
        let map = maps.entry(pid).or_insert_with(|| PerfMap::of(pid, since));
        if let Some(name) = map.as_ref().and_then(|map| map.name(location.address)) {
            tables.symbols.push(Symbol {
                location: location.id,
                depth: 0,
                function: name.to_owned(),
                file: String::new(),
                line: 0,
            });
        }
    }
}

/// ELF files by path that several recordings have in common, such as those of the ranks of a launch: each is opened, and
/// its debug information read, once.
#[derive(Default)]
pub struct SharedFiles(Mutex<HashMap<String, Option<Arc<Module>>>>);

impl SharedFiles {
    fn open(&self, path: &str) -> Option<Arc<Module>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || Module::open(Path::new(path)).ok().map(Arc::new);
        files.entry(path.to_owned()).or_insert_with(open).clone()
    }
}

/// Looks up what addresses mean, module by module.
#[derive(Default)]
pub struct Resolver<'a> {
    /// Files of other recordings, too.
    shared: Option<&'a SharedFiles>,
    files: HashMap<u32, Option<Arc<Module>>>,
    /// Files that the recorder has open, by module: a container's are nowhere else once it has ended.
    opened: HashMap<u32, Arc<Module>>,
}

impl<'a> Resolver<'a> {
    /// A resolver that opens files by `shared`.
    pub fn sharing(shared: &'a SharedFiles) -> Resolver<'a> {
        Resolver { shared: Some(shared), ..Resolver::default() }
    }

    /// A resolver for a recording of which these files are open, by module number.
    pub fn new(opened: HashMap<u32, Arc<Module>>) -> Resolver<'a> {
        Resolver { opened, ..Resolver::default() }
    }

    /// Fills `symbols` and `site_names` and adds static variables to `objects`, of which some may be `written`.
    /// Modules that changed since the recording are noted as a loss and stay unresolved.
    pub fn resolve(&mut self, tables: &mut Tables, meta: &Meta, written: &WrittenObjects) {
        self.open_modules(tables);
        self.add_symbols(tables);
        add_generated(tables, meta);
        self.add_site_names(tables, written);
        self.add_statics(tables, meta, written);
    }

    fn open_modules(&mut self, tables: &mut Tables) {
        let mut changed = Vec::new();
        for module in tables.modules.rows() {
            let opened = self.opened.remove(&module.id);
            let here = match self.shared {
                Some(shared) => shared.open(&module.path),
                None => Module::open(Path::new(&module.path)).ok().map(Arc::new),
            };
            // Without a build id only what was open then is certain; where nothing was, this is the best there is.
            let same = |file: &Arc<Module>| match module.build_id.as_str() {
                "" => opened.is_none(),
                id => file.build_id().is_some_and(|found| found == id),
            };
            let unlike = here.as_ref().is_some_and(|file| !same(file));
            if unlike && opened.is_none() {
                changed.push(module.path.clone());
            }
            self.files.insert(module.id, here.filter(|_| !unlike).or(opened));
        }
        if !changed.is_empty() {
            tables.losses.push(Loss {
                time_ns: last_mapping(tables),
                what: "symbols".into(),
                count: changed.len() as u64,
                why: format!(
                    "files that changed since they were recorded, or were others in the program's root directory: {}",
                    changed.join(", ")
                ),
            });
        }
    }

    fn add_symbols(&self, tables: &mut Tables) {
        // Forked processes and repeated images share their answers.
        let mut known: HashMap<(u32, u64), Vec<Frame>> = HashMap::new();
        for i in 0..tables.locations.len() {
            let location = tables.locations.row(i);
            let Some(Some(file)) = self.files.get(&location.module) else {
                continue;
            };
            let frames = known.entry((location.module, location.file_offset)).or_insert_with(|| {
                file.vaddr_of_file_offset(location.file_offset)
                    .map(|v| named_frames(file, v))
                    .unwrap_or_default()
            });
            for (depth, frame) in frames.iter().enumerate() {
                tables.symbols.push(Symbol {
                    location: location.id,
                    depth: depth as u16,
                    function: frame.function.clone(),
                    file: frame.file.clone(),
                    line: frame.line,
                });
            }
        }
    }

    fn add_site_names(&self, tables: &mut Tables, written: &WrittenObjects) {
        let runtime: HashSet<u32> = tables.modules.rows().filter(|m| m.runtime == 1).map(|m| m.id).collect();
        let locations: HashMap<u32, (u32, u64)> =
            tables.locations.rows().map(|l| (l.id, (l.module, l.file_offset))).collect();
        let mut chains: HashMap<u32, Vec<u32>> = HashMap::new();
        for frame in tables.chains.rows() {
            chains.entry(frame.chain).or_default().push(frame.location);
        }
        let sites: HashSet<u32> = tables.objects.chain.iter().chain(&written.chains).copied().collect();
        let mut sites: Vec<u32> = sites.into_iter().filter(|&chain| chain != NONE).collect();
        sites.sort_unstable();
        let mut known = HashMap::new();
        for chain in sites {
            let own_frames =
                chains.get(&chain).into_iter().flatten().filter_map(|l| Some((*l, locations.get(l)?)));
            let own_frames =
                own_frames.filter(|(_, (module, _))| !runtime.contains(module)).take(NAMING_FRAMES);
            for (location, &(module, offset)) in own_frames {
                let found = known.entry((module, offset)).or_insert_with(|| {
                    let file = self.files.get(&module)?.as_ref()?;
                    Some(file.received_at_call(file.vaddr_of_file_offset(offset)?))
                });
                for received in found.iter().flatten() {
                    tables.site_names.push(SiteName {
                        chain,
                        name: received.name.clone().unwrap_or_default(),
                        how: received.how.as_str().to_owned(),
                        location,
                        depth: received.depth,
                        handed_on: received.handed_on.map_or(2, u8::from),
                    });
                }
            }
        }
    }

    /// Static variables become objects, and their declaration an allocation site.
    fn add_statics(&self, tables: &mut Tables, meta: &Meta, written: &WrittenObjects) {
        let smallest = SMALLEST_STATIC.min(meta.min_object_bytes.max(1));
        let last = tables.objects.id.iter().max().map_or(0, |&id| id + 1);
        let mut next_object = last.max(written.next);
        let mut next_location = tables.locations.id.iter().max().map_or(0, |&id| id + 1);
        let mut next_chain = tables.chains.chain.iter().max().map_or(0, |&id| id + 1);
        let mut done = HashSet::new();
        for i in 0..tables.mappings.len() {
            let map = tables.mappings.row(i);
            if map.flags & 4 == 0 || is_agent(&map.name) || !done.insert((map.process, map.module)) {
                continue;
            }
            let Some(Some(file)) = self.files.get(&map.module) else {
                continue;
            };
            let Some(bias) = file.bias_of_mapping(map.start, map.offset) else {
                continue;
            };
            for variable in file.every_static() {
                let address = variable.vaddr.wrapping_add(bias);
                if variable.bytes < smallest && !written.are_near(address, variable.bytes) {
                    continue;
                }
                let mut chain = NONE;
                if !variable.file.is_empty() {
                    tables.locations.push(Location {
                        id: next_location,
                        process: map.process,
                        address,
                        module: map.module,
                        file_offset: 0,
                    });
                    tables.symbols.push(Symbol {
                        location: next_location,
                        depth: 0,
                        function: String::new(),
                        file: variable.file.clone(),
                        line: variable.line,
                    });
                    tables.chains.push(ChainFrame { chain: next_chain, depth: 0, location: next_location });
                    chain = next_chain;
                    next_location += 1;
                    next_chain += 1;
                }
                tables.objects.push(MemoryObject {
                    id: next_object,
                    process: map.process,
                    kind: ObjectKind::Static as u8,
                    address,
                    bytes: variable.bytes,
                    born_ns: map.time_ns,
                    thread: NONE,
                    chain,
                    name: variable.name.clone().into(),
                    previous: NONE,
                    represents: variable.bytes,
                });
                next_object += 1;
            }
        }
    }
}

/// Frames of an address; where no symbol names its function, the function's start
/// does (`libfoo.so+0x1f00`), so that its samples stay together.
fn named_frames(file: &Module, vaddr: u64) -> Vec<Frame> {
    let mut frames = file.frames(vaddr);
    if frames.is_empty()
        && let Some(range) = file.function_range(vaddr)
    {
        let module = file.path().file_name().unwrap_or_default().to_string_lossy();
        let function = format!("{module}+{:#x}", range.start);
        frames.push(Frame { function, file: String::new(), line: 0, column: 0 });
    }
    frames
}

/// Time of the last mapping seen, ns: good enough to order a note about files.
fn last_mapping(tables: &Tables) -> u64 {
    tables.mappings.time_ns.last().copied().unwrap_or(0)
}
