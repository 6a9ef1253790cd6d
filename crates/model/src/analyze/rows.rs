//! Objects as a reader thinks of them: everything allocated at one place under one name is one row.

use super::hash::{FastMap, IdIndex};
use super::input::Input;
use super::sites::{SiteId, Sites};
use super::space::Spaces;
use crate::recording::{NONE, ObjectKind};

/// A row of the report's object table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kind of all its objects.
    pub kind: ObjectKind,
    /// Name for the reader.
    pub name: String,
    /// How the name was found.
    pub name_from: &'static str,
    /// The allocation's line in the program's own code.
    pub site: Option<SiteId>,
    /// Its things (positions in [`Spaces::things`]).
    pub things: Vec<u32>,
    /// Size in bytes; for sampled small allocations, what they stand for.
    pub bytes: u64,
    /// Extent over which offsets are counted: the largest object, or the area of small ones.
    pub extent: u64,
    /// Begin of that area for small allocations; 0 where offsets count from each object's begin.
    pub base: u64,
}

/// All rows, and which row a thing belongs to.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// Row of each thing.
    pub of_thing: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Heap: kind, name, and the two innermost user frames (the second tells apart what an
    /// allocation helper of the program hands out); without frames, the size.
    Site(ObjectKind, String, [Option<SiteId>; 2], u64),
    /// Anything with an address of its own.
    Place(ObjectKind, String, u64, u64),
}

impl Rows {
    /// Groups things into rows.
    pub fn new(input: &Input, spaces: &Spaces, sites: &Sites) -> Rows {
        let mut rows = Rows { of_thing: vec![NONE; spaces.things.len()], ..Rows::default() };
        let mut keys: FastMap<Key, u32> = FastMap::default();
        let objects = IdIndex::new(&input.objects.id);
        let names = site_names(input);
        for id in 0..spaces.things.len() {
            let thing = &spaces.things[id];
            let (name, from) = name_of(input, spaces, &objects, &names, id);
            let frames = match thing.mapping {
                NONE => sites.of_chain(input.objects.chain[id]),
                _ => [None, None],
            };
            let key = match thing.kind {
                ObjectKind::Heap | ObjectKind::SmallHeap => {
                    let size = if frames[0].is_none() && name.is_none() { thing.bytes } else { 0 };
                    Key::Site(thing.kind, name.clone().unwrap_or_default(), frames, size)
                }
                kind @ (ObjectKind::Stack | ObjectKind::File) => {
                    Key::Place(kind, name.clone().unwrap_or_default(), 0, 0)
                }
                // [heap] grows: its mappings differ in size and are one area.
                kind if thing.mapping != NONE && name.as_deref() == Some("[heap]") => {
                    Key::Place(kind, name.clone().unwrap_or_default(), 0, 0)
                }
                kind => Key::Place(kind, name.clone().unwrap_or_default(), thing.address, thing.bytes),
            };
            let row = *keys.entry(key).or_insert_with(|| {
                let (name, name_from) = match (name, frames[0].map(|f| sites.get(f))) {
                    (Some(name), _) => (name, from),
                    (None, Some(site)) => match (&site.at, &site.function) {
                        (Some(at), _) => (format!("allocation at {at}"), "site"),
                        (None, Some(f)) => (format!("allocation in {f}"), "site"),
                        (None, None) => (sized(thing.bytes, thing.kind), "site"),
                    },
                    (None, None) => (sized(thing.bytes, thing.kind), "site"),
                };
                rows.rows.push(Row {
                    kind: thing.kind,
                    name,
                    name_from,
                    site: frames[0],
                    things: Vec::new(),
                    bytes: 0,
                    extent: 0,
                    base: 0,
                });
                rows.rows.len() as u32 - 1
            });
            rows.of_thing[id] = row;
            rows.rows[row as usize].things.push(id as u32);
        }
        rows.measure(input, spaces, &objects);
        rows
    }

    fn measure(&mut self, input: &Input, spaces: &Spaces, objects: &IdIndex) {
        // A realloc replaces its predecessor: of a chain within a row only the last counts.
        let mut replaced = vec![false; spaces.things.len()];
        for (id, &previous) in input.objects.previous.iter().enumerate() {
            if let Some(old) = objects.get(previous).filter(|&old| previous != NONE && old != id) {
                replaced[old] = self.of_thing[old] == self.of_thing[id];
            }
        }
        for row in &mut self.rows {
            row.things.retain(|&t| !replaced[t as usize]);
            let things = row.things.iter().map(|&t| &spaces.things[t as usize]);
            if row.kind == ObjectKind::SmallHeap {
                row.bytes = row.things.iter().map(|&t| input.objects.represents[t as usize]).sum();
                row.base = things.clone().map(|t| t.address).min().unwrap_or(0);
                row.extent = things.map(|t| t.address + t.bytes).max().unwrap_or(0) - row.base;
            } else {
                row.bytes = things.clone().map(|t| t.bytes).fold(0, u64::saturating_add);
                row.extent = things.map(|t| t.bytes).max().unwrap_or(0);
            }
        }
    }
}

type Names<'a> = FastMap<u32, (&'a str, &'static str)>;

fn site_names(input: &Input) -> Names<'_> {
    let s = &input.site_names;
    let from = |how: &str| if how == "dwarf" { "dwarf" } else { "source" };
    (0..s.chain.len()).map(|i| (s.chain[i], (s.name[i].as_str(), from(&s.how[i])))).collect()
}

/// The name the system, the program or the debug information gives a thing.
fn name_of(
    input: &Input,
    spaces: &Spaces,
    objects: &IdIndex,
    names: &Names,
    id: usize,
) -> (Option<String>, &'static str) {
    let thing = &spaces.things[id];
    if thing.mapping != NONE {
        let name = &input.mappings.name[thing.mapping as usize];
        return ((!name.is_empty()).then(|| name.clone()), "mapping");
    }
    let from = match thing.kind {
        ObjectKind::Heap | ObjectKind::SmallHeap => "program",
        ObjectKind::Static => "symbol",
        _ => "mapping",
    };
    let o = &input.objects;
    let mut at = id;
    // A reallocated object keeps the name of what it grew from.
    for _ in 0..1000 {
        if !o.name[at].is_empty() {
            return (Some(o.name[at].clone()), from);
        }
        if let Some(&(name, how)) = names.get(&o.chain[at]).filter(|_| o.chain[at] != NONE) {
            return (Some(name.to_string()), how);
        }
        match objects.get(o.previous[at]).filter(|_| o.previous[at] != NONE) {
            Some(previous) if previous != at => at = previous,
            _ => break,
        }
    }
    (None, from)
}

fn sized(bytes: u64, kind: ObjectKind) -> String {
    match kind {
        ObjectKind::Heap | ObjectKind::SmallHeap => format!("{bytes} bytes allocated at ?"),
        kind => format!("{} of {bytes} bytes", kind.text()),
    }
}
