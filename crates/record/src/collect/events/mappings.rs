//! Mappings of a process: the files and regions of its address space, and which of them are objects.

use super::Interpreter;
use crate::collect::process_table::MapEntry;
use crate::store::Tables;
use nearfar_host::proc;
use nearfar_host::symbols::is_agent;
use nearfar_recording::*;
use std::sync::Arc;

impl Interpreter {
    /// A mapping that appeared, from perf or from /proc/PID/maps.
    pub fn mapping(&mut self, space: u32, map: &proc::Map, stack: bool, time_ns: u64, tables: &mut Tables) {
        let pid = self.processes.spaces[space as usize].pid;
        let file = map.name.starts_with('/') && map.name != "//anon";
        let ours = self.own_files.iter().any(|own| map.name.starts_with(own));
        let module = if file && !ours && !map.name.starts_with("/dev/") && !map.name.starts_with("/memfd:") {
            self.processes.module(pid, &map.name, map.file, tables)
        } else {
            NONE
        };
        tables.mappings.push(Mapping {
            time_ns,
            process: space,
            start: map.start,
            end: map.end,
            offset: map.offset,
            module,
            flags: map.flags,
            name: map.name.clone(),
        });
        self.cut(space, map.start, map.end, time_ns, tables);
        if let Some(Some(elf)) = self.processes.modules.get(module as usize).map(|m| m.file.clone())
            && map.flags & 4 != 0
        {
            self.processes.unwinder.add_mapping(space, map.start, map.end, map.offset, elf);
        }
        let unnamed = matches!(&*map.name, "" | "//anon") && !stack && map.flags & 8 == 0;
        let known = if unnamed { self.unnamed(space, pid, map) } else { None };
        let object = match object_kind(map, stack, ours) {
            Some((kind, name, low)) => {
                let name = known.unwrap_or(name);
                let id = self.processes.next_object();
                tables.objects.push(MemoryObject {
                    id,
                    process: space,
                    kind: kind as u8,
                    address: low,
                    bytes: map.end - low,
                    born_ns: time_ns,
                    thread: NONE,
                    chain: NONE,
                    name: name.into(),
                    previous: NONE,
                    represents: map.end - low,
                });
                id
            }
            None => NONE,
        };
        let entry = MapEntry { end: map.end, offset: map.offset, module, object, owner: space };
        Arc::make_mut(&mut self.processes.spaces[space as usize].maps).insert(map.start, entry);
    }

    /// What an anonymous mapping is for, by where it begins: zeroed variables behind the data of a file, or the heap of
    /// brk(2), which perf of newer kernels gives no name.
    fn unnamed(&mut self, space: u32, pid: u32, map: &proc::Map) -> Option<String> {
        let before = self.processes.spaces[space as usize].maps.range(..map.start).next_back();
        let loaded =
            |m: &MapEntry| self.processes.modules.get(m.module as usize).is_some_and(|m| m.file.is_some());
        if let Some((_, file)) = before.filter(|(_, m)| m.end == map.start && loaded(m)) {
            let path = self.processes.module_path(file.module);
            return Some(format!("{} (.bss)", path.rsplit('/').next().unwrap_or(path)));
        }
        let heap = self.processes.heap_begin(space, pid)?;
        (map.start <= heap && heap < map.end).then(|| "[heap]".to_owned())
    }

    /// Removes `start..end` from the known mappings; what sticks out stays.
    fn cut(&mut self, space: u32, start: u64, end: u64, time_ns: u64, tables: &mut Tables) {
        let maps = &mut self.processes.spaces[space as usize].maps;
        let overlapping: Vec<u64> =
            maps.range(..end).rev().take_while(|(_, m)| m.end > start).map(|(&s, _)| s).collect();
        if overlapping.is_empty() {
            return;
        }
        let maps = Arc::make_mut(maps);
        for old_start in overlapping {
            let old = maps.remove(&old_start).expect("listed above");
            if old.object != NONE && old.owner == space && old_start >= start && old.end <= end {
                tables.object_ends.push(ObjectEnd { object: old.object, time_ns });
            }
            // An object that sticks out lives on: a younger object hides the covered part.
            if old_start < start {
                maps.insert(old_start, MapEntry { end: start, ..old.clone() });
            }
            if old.end > end {
                maps.insert(end, MapEntry { offset: old.offset + (end - old_start), ..old });
            }
        }
    }

    /// Reads a process's mappings from /proc: for processes that ran before the
    /// recording, and where perf tells nothing.
    pub fn scan_maps(&mut self, pid: u32, time_ns: u64, tables: &mut Tables) {
        let space = self.processes.space_of(pid, time_ns, tables);
        for map in proc::maps(pid) {
            self.mapping_if_new(space, &map, time_ns, tables);
        }
    }

    /// A mapping that may be known already.
    pub fn mapping_if_new(&mut self, space: u32, map: &proc::Map, time_ns: u64, tables: &mut Tables) {
        let known = self.processes.spaces[space as usize]
            .maps
            .get(&map.start)
            .is_some_and(|m| m.end == map.end && m.offset == map.offset);
        if !known {
            self.mapping(space, map, false, time_ns, tables);
        }
    }
}

/// Largest stack that a main thread may grow to by default (RLIMIT_STACK), bytes;
/// the kernel maps it as it grows and reports it to nothing.
const MAIN_STACK: u64 = 8 << 20;

/// What kind of object a mapping is, its name and its first byte; `None` for what is not data.
fn object_kind(map: &proc::Map, stack: bool, ours: bool) -> Option<(ObjectKind, String, u64)> {
    let name = map.name.as_str();
    let (kind, text) = match name {
        _ if ours
            || is_agent(name)
            || name.starts_with("anon_inode:")
            || name == "[vvar]"
            || name == "[vsyscall]" =>
        {
            return None;
        }
        // An imported file may have one anywhere.
        "[stack]" => {
            let low = map.end.saturating_sub(MAIN_STACK);
            return Some((ObjectKind::Stack, "main thread's stack".into(), low));
        }
        "[heap]" => (ObjectKind::Anonymous, "[heap]".into()),
        "" | "//anon" if stack => (ObjectKind::Stack, "thread's stack".into()),
        "" | "//anon" if map.flags & 8 != 0 => (ObjectKind::Shared, "shared anonymous mapping".into()),
        "" | "//anon" => (ObjectKind::Anonymous, "anonymous mapping".into()),
        _ if name.starts_with("/dev/shm/") || name.starts_with("/memfd:") || name.starts_with("/SYSV") => {
            (ObjectKind::Shared, name.to_owned())
        }
        _ if name.starts_with('/') => (ObjectKind::File, name.to_owned()),
        _ => (ObjectKind::Anonymous, name.to_owned()),
    };
    Some((kind, text, map.start))
}
