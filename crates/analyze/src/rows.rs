//! Objects as a reader thinks of them: everything allocated at one place under one name is one row.

mod split;

use super::hash::{FastMap, FastSet};
use super::helpers::{Origin, Origins};
use super::input::Input;
use super::names::base;
use super::program::{Managed, Program};
use super::sites::{SiteId, Sites};
use super::space::{Thing, Things};
use nearfar_recording::{NONE, ObjectKind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Between the name of an object and the line that calls its allocation, where several do.
pub const CALLED_FROM: &str = " called from ";

/// Before the function of an allocation whose line is not known.
const IN: &str = "allocation in ";
/// How the name of memory was found that an allocator mapped in advance: no line of a program decides what is in it.
const ALLOCATOR: &str = "allocator";

/// A row of the report's object table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kind of all its objects.
    pub kind: ObjectKind,
    /// Name for the reader.
    pub name: String,
    /// How the name was found.
    pub name_from: &'static str,
    /// The allocation's line in the program's own code: that of the caller where allocation helpers hand it on.
    pub site: Option<SiteId>,
    /// The line that calls that line's function, of an allocation.
    pub caller: Option<SiteId>,
    /// Those helpers' lines, outermost first.
    pub through: Vec<SiteId>,
    /// Its things (positions in [`super::space::Spaces::things`]).
    pub things: Vec<u32>,
    /// Call chain of the first of them, if it is an object.
    pub chain: Option<u32>,
    /// Most bytes that its things had at a time; for sampled small allocations, what they stand for.
    pub bytes: u64,
    /// Most things at a time; for sampled small allocations, how many they stand for.
    pub count: u64,
    /// Extent over which offsets are counted: the largest object, or the area of several ([`Row::is_area`]).
    pub extent: u64,
    /// Start of that area; 0 where offsets count from each object's begin.
    pub base: u64,
    /// Whether its line allocates objects of another row, too, that were placed otherwise ([`Rows::split`]).
    pub split: bool,
}

/// All rows, and which row a thing belongs to.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// Row of each thing.
    pub of_thing: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key<'a> {
    /// Heap: kind, name, and the path that the allocation came ([`Origin::path`]); without frames, the size.
    Site(ObjectKind, &'a str, Option<u32>, u64),
    /// Anything with an address of its own.
    Place(ObjectKind, &'a str, u64, u64),
}

impl Rows {
    /// Groups things into rows.
    pub fn new(input: &Input, things: &Things, sites: &Sites) -> Rows {
        let mut rows = Rows { of_thing: vec![NONE; things.len()], ..Rows::default() };
        let mut keys: FastMap<Key, u32> = FastMap::default();
        let origins = Origins::new(input, things, sites);
        let mut names = Names {
            input,
            things,
            sites,
            origins: &origins,
            of_go: of_go(input),
            grown_from: FastMap::default(),
        };
        let mut last: Option<(Key, u32)> = None;
        for id in 0..things.len() {
            let thing = things.get(id as u32);
            let (name, from) = names.of(id, &thing);
            let of_line = from != ALLOCATOR;
            let origin = match thing.mapping {
                NONE if of_line => names.origin(id),
                _ => None,
            };
            // Of a static variable the line that declares it.
            let site = match (origin, thing.mapping) {
                (Some(origin), _) => origin.site,
                (None, NONE) if of_line => sites.of_chain(input.objects.chain[id]),
                _ => None,
            };
            let key = match thing.kind {
                ObjectKind::Heap | ObjectKind::SmallHeap => {
                    let size = if site.is_none() && name.is_none() { thing.bytes } else { 0 };
                    let path = origin.filter(|o| o.site.is_some()).map(|o| o.path);
                    Key::Site(thing.kind, name.unwrap_or_default(), path, size)
                }
                // Mapped by a line of the program, again and again perhaps, and of another size each time.
                kind @ (ObjectKind::Anonymous | ObjectKind::Shared) if site.is_some() => {
                    Key::Site(kind, name.unwrap_or_default(), site, 0)
                }
                kind @ (ObjectKind::Stack | ObjectKind::File) => {
                    Key::Place(kind, name.unwrap_or_default(), 0, 0)
                }
                kind if from == ALLOCATOR => Key::Place(kind, name.unwrap_or_default(), 0, 0),
                // [heap] grows: its mappings differ in size and are one area.
                kind if name == Some("[heap]") => Key::Place(kind, name.unwrap_or_default(), 0, 0),
                kind => Key::Place(kind, name.unwrap_or_default(), thing.address, thing.bytes),
            };
            // A loop allocates the same again and again.
            let row = match last.filter(|l| l.0 == key) {
                Some((_, row)) => row,
                None => *keys.entry(key).or_insert_with(|| {
                    let shown = origin.map_or(0, |o| o.through.len());
                    let named = site.filter(|&s| name.is_none() && !sites.has_line(s)).and_then(|_| {
                        let chain = *input.objects.chain.get(id)?;
                        let frames = sites.frames(chain).get(shown..)?;
                        let frame = frames.iter().find(|f| sites.has_name(f.site))?;
                        sites.get(frame.site).function.as_deref()
                    });
                    let (name, name_from) = match (name, site.map(|f| sites.get(f))) {
                        (Some(name), _) => (name.to_string(), from),
                        (None, Some(site)) => match (&site.at, &site.function) {
                            _ if named.is_some() => (format!("{IN}{}", named.unwrap_or_default()), "site"),
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
                        site,
                        caller: origin.and_then(|o| o.caller),
                        through: origin.map_or_else(Vec::new, |o| o.through.clone()),
                        things: Vec::new(),
                        chain: None,
                        bytes: 0,
                        count: 0,
                        extent: 0,
                        base: 0,
                        split: false,
                    });
                    rows.rows.len() as u32 - 1
                }),
            };
            last = Some((key, row));
            rows.of_thing[id] = row;
            rows.rows[row as usize].things.push(id as u32);
        }
        rows.tell_apart(sites);
        rows.measure(input, things);
        rows
    }

    /// Allocations of one line that several lines lead to: what calls it is in the name, as findings and repairs refer to rows by name. So is
    /// where they are in a function whose lines are not known.
    fn tell_apart(&mut self, sites: &Sites) {
        let mut of_line: FastMap<(&str, SiteId), Vec<usize>> = FastMap::default();
        for (i, row) in self.rows.iter().enumerate() {
            if let (ObjectKind::Heap | ObjectKind::SmallHeap, Some(site)) = (row.kind, row.site) {
                of_line.entry((&row.name, site)).or_default().push(i);
            }
        }
        let from = |&i: &usize| {
            let id = self.rows[i].caller?;
            let caller = sites.get(id);
            let function = caller.function.as_deref();
            let named = function.filter(|_| sites.has_name(id) && !sites.has_line(id));
            named.or(caller.at.as_deref().map(base)).or(function)
        };
        let mut called: Vec<(usize, String)> = Vec::new();
        for rows in of_line.into_values().filter(|rows| rows.len() > 1) {
            called.extend(rows.iter().filter_map(|i| Some((*i, format!("{CALLED_FROM}{}", from(i)?)))));
        }
        called.iter().for_each(|(i, from)| self.rows[*i].name.push_str(from));
        let mut of_name: FastMap<&str, Vec<usize>> = FastMap::default();
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| row.name.starts_with(IN)) {
            of_name.entry(&row.name).or_default().push(i);
        }
        let at = |&i: &usize| Some((i, format!(" at {}", sites.get(self.rows[i].site?).at.as_deref()?)));
        let same = of_name.into_values().filter(|rows| rows.len() > 1);
        let apart: Vec<(usize, String)> =
            same.flat_map(|rows| rows.iter().filter_map(at).collect::<Vec<_>>()).collect();
        apart.iter().for_each(|(i, at)| self.rows[*i].name.push_str(at));
    }

    fn measure(&mut self, input: &Input, all: &Things) {
        // A realloc replaces its predecessor: of a chain within a row only the last counts.
        let mut replaced: Vec<bool> = Vec::new();
        for (id, &previous) in input.objects.previous.iter().enumerate() {
            if previous != NONE
                && let Some(old) = all.rows.get(previous).filter(|&old| old != id)
            {
                replaced.resize(all.len(), false);
                replaced[old] = self.of_thing[old] == self.of_thing[id];
            }
        }
        for row in &mut self.rows {
            if !replaced.is_empty() {
                row.things.retain(|&t| !replaced[t as usize]);
            }
            row.things.shrink_to_fit();
            row.chain = row.things.first().and_then(|&t| input.objects.chain.get(t as usize)).copied();
            let things = || row.things.iter().map(|&t| all.get(t));
            if row.kind == ObjectKind::SmallHeap {
                let stands_for = || row.things.iter().map(|&t| input.objects.represents[t as usize] as f64);
                let each = stands_for().zip(things()).map(|(b, t)| b / t.bytes.max(1) as f64);
                let (bytes, count) = at_a_time(replaced_by_the_next(things().zip(stands_for().zip(each))));
                row.base = things().map(|t| t.address).min().unwrap_or(0);
                let end = things().map(|t| t.address.saturating_add(t.bytes)).max().unwrap_or(0);
                row.extent = end - row.base;
                // No more than has room between the first and the last of them, and around one of the samples.
                let room = row.extent as f64 + stands_for().fold(0.0, f64::max);
                let fits = (room / bytes.max(1.0)).min(1.0);
                (row.bytes, row.count) = ((bytes * fits) as u64, ((count * fits).round() as u64).max(1));
            } else {
                row.measure(all);
            }
        }
    }
}

impl Row {
    /// Whether offsets are counted over all its things together: small allocations, of which a few are known, and what an allocator
    /// maps piece by piece, side by side, as objects of the program reach from one piece into the next.
    pub fn is_area(&self) -> bool {
        self.base != 0
    }

    /// Whether it has several things, each with offsets of its own.
    pub fn has_several(&self) -> bool {
        self.things.len() > 1 && !self.is_area()
    }

    /// Sizes of what is not a small allocation.
    fn measure(&mut self, all: &Things) {
        let things = || self.things.iter().map(|&t| all.get(t));
        let extent = things().map(|t| t.bytes).max().unwrap_or(0);
        let each = things().map(|t| (t, (t.bytes as f64, 1.0)));
        let (bytes, count) = match self.kind {
            ObjectKind::Heap => at_a_time(each),
            _ => at_a_time(replaced_by_the_next(each)),
        };
        (self.bytes, self.count, self.extent) = (bytes as u64, count as u64, extent);
        let space = things().next().map(|t| t.space);
        if self.name_from == ALLOCATOR
            && self.things.len() > 1
            && things().all(|t| Some(t.space) == space)
            && let Some((begin, end)) = side_by_side(things().map(|t| (t.address, t.bytes)).collect())
        {
            (self.base, self.extent) = (begin, end - begin);
        }
    }
}

/// Where most of the pieces of an allocator's memory lie side by side, of addresses and bytes: begin and end. `None` if they are all over
/// the address space.
fn side_by_side(mut pieces: Vec<(u64, u64)>) -> Option<(u64, u64)> {
    pieces.sort_unstable();
    // Areas without large gaps: begin, end, and bytes of the pieces.
    let mut areas: Vec<(u64, u64, u64)> = Vec::new();
    for (begin, bytes) in pieces {
        let end = begin.saturating_add(bytes);
        match areas.last_mut().filter(|area| begin.saturating_sub(area.1) <= area.2.max(bytes)) {
            Some(area) => {
                area.2 += end.saturating_sub(begin.max(area.1));
                area.1 = area.1.max(end);
            }
            None => areas.push((begin, end, bytes)),
        }
    }
    let all: u64 = areas.iter().map(|area| area.2).sum();
    let &(begin, end, most) = areas.iter().max_by_key(|area| area.2)?;
    (most as f64 >= MOST * all as f64 && most as f64 >= DENSE * (end - begin) as f64).then_some((begin, end))
}

/// Part of an allocator's memory that must be in one area for offsets to be counted there, and part of that area that the pieces
/// must fill. // chosen
const MOST: f64 = 0.9;
const DENSE: f64 = 0.5;

/// Something, and the bytes and things that it stands for.
type Weighed = (Thing, (f64, f64));

/// Nothing says when a mapping, a stack or a sampled small allocation ended; it had when the next begins at its address: the heap has
/// grown, another thread has the stack, or the memory was freed.
fn replaced_by_the_next(things: impl Iterator<Item = Weighed>) -> impl Iterator<Item = Weighed> {
    let mut things: Vec<Weighed> = things.collect();
    things.sort_by_key(|(t, _)| (t.space, t.address, t.born));
    for i in 1..things.len() {
        let (next, before) = (things[i].0, &mut things[i - 1].0);
        if (before.space, before.address) == (next.space, next.address) {
            before.died = before.died.min(next.born);
        }
    }
    things.into_iter()
}

/// The most bytes, and the most things, that lived at a time, each with what it stands for. Of a loop that frees what it
/// allocated that is one, however often it goes round.
fn at_a_time(things: impl Iterator<Item = Weighed>) -> (f64, f64) {
    let mut lives: Vec<(u64, u64, f64, f64)> =
        things.map(|(t, (bytes, count))| (t.born, t.died, bytes, count)).collect();
    lives.sort_by_key(|life| life.0);
    // The lives that have not ended, the next to end first.
    let mut living: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut bytes, mut count, mut most) = (0.0f64, 0.0f64, (0.0f64, 0.0f64));
    for (i, &(born, died, b, n)) in lives.iter().enumerate() {
        while let Some(&Reverse((end, ended))) = living.peek()
            && end <= born
        {
            living.pop();
            bytes -= lives[ended].2;
            count -= lives[ended].3;
        }
        living.push(Reverse((died, i)));
        bytes += b;
        count += n;
        most = (most.0.max(bytes), most.1.max(count));
    }
    most
}

/// What Go's runtime maps, by system calls of its own, which name nothing.
fn of_go(input: &Input) -> FastSet<(u64, u64)> {
    const ACCESSED: u8 = 3;
    let m = &input.mappings;
    let go = Program::of(&input.modules, &input.symbols).managed == Some(Managed::Go);
    let its = |&i: &usize| {
        m.flags[i] & ACCESSED != 0 && m.module[i] == NONE && (m.name[i].is_empty() || m.name[i] == "//anon")
    };
    let rows = (0..if go { m.start.len() } else { 0 }).filter(its);
    rows.map(|i| (m.start[i], m.time_ns[i])).collect()
}

/// The names that the system, the program or the debug information give things.
struct Names<'a> {
    input: &'a Input,
    things: &'a Things,
    sites: &'a Sites,
    origins: &'a Origins<'a>,
    /// Of a program in Go: address and time of each anonymous mapping that can be accessed. (What is only reserved is mapped
    /// once more to be used.)
    of_go: FastSet<(u64, u64)>,
    /// By reallocated object without a name: the one with a name that it grew from; [`NONE`] if there is none.
    grown_from: FastMap<u32, u32>,
}

impl<'a> Names<'a> {
    fn origin(&self, id: usize) -> Option<&'a Origin<'a>> {
        self.origins.get(self.input.objects.chain[id])
    }

    /// Name of a thing, and how it was found.
    fn of(&mut self, id: usize, thing: &Thing) -> (Option<&'a str>, &'static str) {
        if thing.mapping != NONE {
            let name = &self.input.mappings.name[thing.mapping as usize];
            return ((!name.is_empty()).then_some(name.as_str()), "mapping");
        }
        if self.of_go.contains(&(thing.address, thing.born)) {
            return (Some("Go's memory"), ALLOCATOR);
        }
        let from = match thing.kind {
            ObjectKind::Heap | ObjectKind::SmallHeap => "program",
            ObjectKind::Static => "symbol",
            _ => "mapping",
        };
        let named = match self.own(id) {
            None if self.input.objects.previous[id] != NONE => self.inherited(id),
            own => own,
        };
        match named {
            Some((name, how)) => (Some(name), how.unwrap_or(from)),
            None => (None, from),
        }
    }

    /// The name of the object itself or of its site; how it was found if that is the site's.
    fn own(&self, id: usize) -> Option<(&'a str, Option<&'static str>)> {
        let o = &self.input.objects;
        if !o.name[id].is_empty() {
            return Some((&o.name[id], None));
        }
        if let Some(whose) = self.sites.pool(o.chain[id]) {
            return Some((whose, Some(ALLOCATOR)));
        }
        self.origin(id)?.name.map(|(name, how)| (name, Some(how)))
    }

    /// A reallocated object keeps the name of what it grew from.
    fn inherited(&mut self, id: usize) -> Option<(&'a str, Option<&'static str>)> {
        let mut line = Vec::new();
        let mut at = id;
        let from = loop {
            if self.own(at).is_some() {
                break at as u32;
            }
            if let Some(&known) = self.grown_from.get(&(at as u32)) {
                break known;
            }
            // Until it is known, and for good if the line comes back here.
            self.grown_from.insert(at as u32, NONE);
            line.push(at as u32);
            match self.things.rows.get(self.input.objects.previous[at]) {
                Some(previous) if self.input.objects.previous[at] != NONE => at = previous,
                _ => break NONE,
            }
        };
        line.into_iter().for_each(|at| {
            self.grown_from.insert(at, from);
        });
        if from == NONE { None } else { self.own(from as usize) }
    }
}

fn sized(bytes: u64, kind: ObjectKind) -> String {
    match kind {
        ObjectKind::Heap | ObjectKind::SmallHeap => format!("blocks of {bytes} bytes"),
        kind => format!("{} of {bytes} bytes", kind.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_side_by_side_are_an_area() {
        const MIB: u64 = 1 << 20;
        let of =
            |pieces: &[(u64, u64)]| side_by_side(pieces.iter().map(|p| (p.0 * MIB, p.1 * MIB)).collect());
        // One after the other, with a hole, and a little far away, as of HotSpot's heap and its tables.
        let heap = [(1000, 4), (1004, 4), (1012, 8), (1008, 2)];
        assert_eq!(of(&heap), Some((1000 * MIB, 1020 * MIB)));
        assert_eq!(of(&[&heap[..], &[(100_000, 1)]].concat()), Some((1000 * MIB, 1020 * MIB)));
        assert_eq!(of(&[&heap[..], &[(100_000, 8)]].concat()), None);
        // The same piece mapped twice counts once.
        assert_eq!(of(&[&heap[..], &[(1012, 8), (100_000, 1)]].concat()), Some((1000 * MIB, 1020 * MIB)));
        assert_eq!(of(&[(10, 1), (500, 1), (900, 1)]), None);
    }

    #[test]
    fn an_area_that_grows_counts_once() {
        let mapping = |address, bytes, born| Thing {
            space: 0,
            kind: ObjectKind::Anonymous,
            address,
            bytes,
            born,
            died: u64::MAX,
            mapping: 0,
        };
        let most = |things: Vec<Thing>| {
            at_a_time(replaced_by_the_next(things.into_iter().map(|t| (t, (t.bytes as f64, 1.0)))))
        };
        // Seen in another order than it grew in.
        assert_eq!(most(vec![mapping(64, 30, 3), mapping(64, 10, 1), mapping(64, 20, 2)]), (30.0, 1.0));
        // Two areas, of which one has given back a part when the other begins.
        assert_eq!(most(vec![mapping(64, 30, 1), mapping(64, 10, 2), mapping(128, 5, 3)]), (30.0, 2.0));
    }
}
