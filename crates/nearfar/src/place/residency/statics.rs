//! Static variables of a process: its files' symbols and debug information, at the addresses of its mappings.

use super::{Site, Way, pages};
use anyhow::{Context, Result, bail};
use nearfar_analyze::stats::Random;
use nearfar_figures::sizes::{capacity, size};
use nearfar_host::proc::Map;
use nearfar_host::symbols::{Module, StaticVariable};
use nearfar_observed::residency::numa_maps::Requested;
use nearfar_observed::residency::{How, Mapping, Memory, Object};
use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Smaller variables are left out, bytes; files with less data in memory are not even opened.
const LEAST: u64 = 64 << 10;
/// Variables that are asked for, the largest ones.
const VARIABLES: usize = 32;

/// Adds the large static variables that have pages to `memory`, whose mappings are known.
pub fn add(memory: &mut Memory, maps: &[Map], pid: u32, site: &Site, way: Way) {
    memory.without.push(
        "heap objects: the kernel knows mappings only. `nearfar record` names them by the line that allocates them"
            .to_owned(),
    );
    let mut found = Vec::new();
    for file in loaded(maps) {
        let present = present(memory, &file.data);
        if present < LEAST {
            continue;
        }
        match variables(&file, pid, site) {
            Ok(none) if none.is_empty() => memory.without.push(format!(
                "{}: {} of its data are in memory, but no variable of {} or more is in its symbols and \
                 debug information",
                file.path,
                size(present),
                capacity(LEAST)
            )),
            Ok(some) => found.extend(some),
            Err(why) => memory.without.push(format!("static variables of {}: {why}", file.path)),
        }
    }
    found.sort_by_key(|o| (Reverse(o.bytes), o.start));
    if found.len() > VARIABLES {
        let left_out = found.len() - VARIABLES;
        memory
            .without
            .push(format!("{left_out} more static variables, of at most {} bytes", found[VARIABLES].bytes));
        found.truncate(VARIABLES);
    }
    let all: u64 = found.iter().map(|o| o.bytes / site.page_bytes + 2).sum();
    let draws = if way == Way::Exact || all <= pages::DRAWS as u64 { u64::MAX } else { pages::MOST };
    let mut random = Random::new(UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64));
    for mut object in found {
        let range = object.start / site.page_bytes * site.page_bytes..object.start + object.bytes;
        match pages::ask(pid, range, draws, site.page_bytes, &mut random) {
            Ok((nodes, sample)) => (object.nodes, object.sample) = (nodes, sample),
            Err(why) => {
                memory.without.push(format!("pages of static variables: move_pages(2) is refused ({why})"));
                break;
            }
        }
        if object.sample.present > 0 {
            object.requested = policies(memory, &object);
            memory.objects.push(object);
        }
    }
    memory.objects.sort_by_key(|o| (Reverse(o.nodes.values().map(|a| a.bytes).sum::<u64>()), o.start));
}

/// A file that is mapped as a program or library is.
struct Loaded<'a> {
    path: &'a str,
    /// First byte and file offset of its first executable mapping.
    code: (u64, u64),
    /// Private memory that may be written to: data, and the bss behind it.
    data: Vec<Range<u64>>,
}

/// Those among the mappings, which are in the order of addresses.
fn loaded(maps: &[Map]) -> Vec<Loaded<'_>> {
    let mut all = Vec::new();
    let mut rest = maps;
    while let Some((first, others)) = rest.split_first() {
        if !first.name.starts_with('/') {
            rest = others;
            continue;
        }
        let (mut offset, mut end) = (first.offset, first.start);
        // Behind the file's own mappings lies its bss, which has no name or, where the heap follows it
        // without a gap, the heap's. A mapping from further in front in the file is another loading of it.
        let more = |map: &&Map| {
            let own = map.name == first.name && map.offset >= offset;
            let bss = map.start == end && (map.name.is_empty() || map.name == "[heap]");
            if own {
                offset = map.offset;
            }
            end = map.end;
            own || bss
        };
        let many = rest.iter().take_while(more).count();
        let (own, after) = rest.split_at(many);
        rest = after;
        let code = own.iter().find(|m| m.flags & 4 != 0 && m.name == first.name);
        if let Some(code) = code {
            let data = own.iter().filter(|m| m.flags & (2 | pages::SHARED) == 2).map(|m| m.start..m.end);
            all.push(Loaded { path: &first.name, code: (code.start, code.offset), data: data.collect() });
        }
    }
    all
}

/// Bytes in memory of mappings that begin in these ranges.
fn present(memory: &Memory, ranges: &[Range<u64>]) -> u64 {
    let inside = memory.mappings.iter().filter(|m| ranges.iter().any(|r| r.contains(&m.start)));
    inside.flat_map(|m| m.nodes.values()).map(|a| a.bytes).sum()
}

/// The large variables of a file that are in its data, without their pages.
fn variables(file: &Loaded, pid: u32, site: &Site) -> Result<Vec<Object>> {
    let known = read(file.path, pid, site)?;
    let (module, statics) = &*known;
    let bias = module.bias_of_mapping(file.code.0, file.code.1);
    let bias = bias.context("it is not the file that is mapped")?;
    let object = |variable: &StaticVariable| Object {
        name: variable.name.clone(),
        module: file.path.to_owned(),
        file: variable.file.clone(),
        line: variable.line,
        start: variable.vaddr.wrapping_add(bias),
        bytes: variable.bytes,
        requested: None,
        nodes: Default::default(),
        sample: Default::default(),
    };
    let in_data = |o: &Object| file.data.iter().any(|d| d.contains(&o.start));
    Ok(statics.iter().map(object).filter(in_data).collect())
}

/// A file and its large variables; they are read once, however often is looked.
fn read(path: &str, pid: u32, site: &Site) -> Result<Arc<(Module, Vec<StaticVariable>)>> {
    if path.ends_with(" (deleted)") {
        bail!("the file was removed or replaced since it was loaded");
    }
    let mut known = site.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(file) = known.get(path) {
        return Ok(file.clone());
    }
    // A process in a container has another root, where the same path may be another file.
    let module = Module::open(Path::new(&format!("/proc/{pid}/root{path}")))
        .or_else(|_| Module::open(Path::new(path)))?;
    let statics = module.statics(LEAST);
    Ok(known.entry(path.to_owned()).or_insert(Arc::new((module, statics))).clone())
}

/// Policies of the mappings that an object is in.
fn policies(memory: &Memory, object: &Object) -> Option<Vec<Requested>> {
    let end = object.start + object.bytes;
    let inside = |m: &&Mapping| m.start < end && m.end.is_some_and(|end| end > object.start);
    let mut list: Vec<Requested> =
        memory.mappings.iter().filter(inside).filter_map(|m| m.requested.clone()).collect();
    list.sort();
    list.dedup();
    (memory.how == How::Exact).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_bss_belong_to_the_file_in_front_of_them() {
        let maps = "\
1000-2000 r--p 00000000 08:01 1 /bin/a
2000-3000 r-xp 00001000 08:01 1 /bin/a
4000-5000 rw-p 00002000 08:01 1 /bin/a
5000-9000 rw-p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0 [heap]
b000-c000 rw-p 00000000 00:00 0
10000-11000 r-xp 00000000 08:01 2 /lib/b
11000-12000 rw-p 00001000 08:01 2 /lib/b
12000-13000 r-xp 00000000 08:01 2 /lib/b
13000-14000 rw-s 00001000 08:01 2 /lib/b
20000-21000 rw-p 00000000 08:01 3 /data
30000-31000 r-xp 00000000 08:01 4 /lib/c (deleted)
";
        let maps: Vec<Map> = maps.lines().filter_map(Map::parse).collect();
        let ends = |data: &[Range<u64>]| data.iter().map(|d| (d.start, d.end)).collect::<Vec<_>>();
        let found = loaded(&maps);
        let seen: Vec<_> = found.iter().map(|l| (l.path, l.code, ends(&l.data))).collect();
        assert_eq!(
            seen,
            [
                ("/bin/a", (0x2000, 0x1000), vec![(0x4000, 0x5000), (0x5000, 0x9000), (0x9000, 0xa000)]),
                ("/lib/b", (0x10000, 0), vec![(0x11000, 0x12000)]),
                ("/lib/b", (0x12000, 0), vec![]),
                ("/lib/c (deleted)", (0x30000, 0), vec![]),
            ]
        );
    }
}
