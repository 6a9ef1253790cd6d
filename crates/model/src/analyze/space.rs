//! Address spaces: which object was at an address at a time.
//!
//! Precedence where several cover an address: heap, static, stack, mapping;
//! the finer knowledge wins. A forked space sees its parent as it was at the fork.

use super::hash::IdIndex;
use super::input::Input;
use super::layer::{Layer, Overlap, Span, Validity};
use crate::recording::{NONE, ObjectKind};

/// How far behind a sampled small allocation its unsampled neighbours are believed
/// to be of the same kind: the agent samples one in so many bytes, and allocators
/// fill an area in order. // assumed
const SMALL_REACH: u64 = 128 << 10;

/// Something at an address: an object, or a mapping that no object explains.
/// The first `objects.len()` things are the rows of the objects table.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Its address space (position).
    pub space: u32,
    /// Kind.
    pub kind: ObjectKind,
    /// First byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Begin of life, ns.
    pub born: u64,
    /// End of life, ns.
    pub died: u64,
    /// Position in the mappings table; [`NONE`] for an object.
    pub mapping: u32,
}

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    /// Position of the space it was forked from, and when.
    pub parent: Option<(u32, u64)>,
    /// Forks of this space: (when, child, when the child dropped its copy).
    pub forks: Vec<(u64, u32, u64)>,
    fine: [Layer; 3],
    small: Vec<(u64, u32)>,
    coarse: [Layer; 2],
}

/// Address spaces with what lies in them.
#[derive(Debug, Default)]
pub struct Spaces {
    /// Position by `process` id.
    pub ids: IdIndex,
    /// The spaces, in the order of the processes table.
    pub spaces: Vec<Space>,
    /// Objects, then mappings.
    pub things: Vec<Thing>,
}

impl Spaces {
    /// Builds the lookup.
    pub fn new(input: &Input) -> Spaces {
        let p = &input.processes;
        let mut s = Spaces { ids: IdIndex::new(&p.id), ..Spaces::default() };
        s.spaces.resize_with(p.id.len().max(1), Space::default);
        let mut gone = vec![u64::MAX; s.spaces.len()];
        for (i, &process) in input.process_ends.process.iter().enumerate() {
            if let Some(x) = s.ids.get(process) {
                gone[x] = gone[x].min(input.process_ends.time_ns[i]);
            }
        }
        for i in 0..p.id.len() {
            if let Some(parent) = s.ids.get(p.parent[i]).filter(|&x| x != i) {
                if p.forked[i] == 1 {
                    s.spaces[i].parent = Some((parent as u32, p.start_ns[i]));
                } else if p.pid[parent] == p.pid[i] {
                    // exec in place: the old image is dropped.
                    gone[parent] = gone[parent].min(p.start_ns[i]);
                }
            }
        }
        for (i, &gone) in gone.iter().enumerate() {
            if let Some((parent, at)) = s.spaces[i].parent {
                s.spaces[parent as usize].forks.push((at, i as u32, gone));
            }
        }
        s.add_objects(input);
        s.add_mappings(input);
        s.build();
        s
    }

    /// Position of a `process` id; unknown ids count as the first space.
    pub fn position(&self, process: u32) -> u32 {
        self.ids.get(process).unwrap_or(0) as u32
    }

    fn add_objects(&mut self, input: &Input) {
        let o = &input.objects;
        let rows = IdIndex::new(&o.id);
        for i in 0..o.id.len() {
            self.things.push(Thing {
                space: self.position(o.process[i]),
                kind: ObjectKind::from_code(o.kind[i]).unwrap_or(ObjectKind::Anonymous),
                address: o.address[i],
                bytes: o.bytes[i],
                born: o.born_ns[i],
                died: u64::MAX,
                mapping: NONE,
            });
        }
        for (i, &object) in input.object_ends.object.iter().enumerate() {
            if let Some(row) = rows.get(object) {
                let thing = &mut self.things[row];
                thing.died = thing.died.min(input.object_ends.time_ns[i].max(thing.born + 1));
            }
        }
    }

    /// Maps are read again and again: only what differs from the last look is a new thing.
    fn add_mappings(&mut self, input: &Input) {
        let m = &input.mappings;
        let mut order: Vec<usize> = (0..m.start.len()).collect();
        order.sort_by_key(|&i| (m.process[i], m.start[i], m.time_ns[i]));
        let mut last: Option<usize> = None;
        for i in order {
            if m.end[i] <= m.start[i] {
                continue;
            }
            let same = last.is_some_and(|l| {
                m.process[l] == m.process[i]
                    && m.start[l] == m.start[i]
                    && m.end[l] == m.end[i]
                    && m.name[l] == m.name[i]
            });
            last = Some(i);
            if same {
                continue;
            }
            self.things.push(Thing {
                space: self.position(m.process[i]),
                kind: mapping_kind(&m.name[i], m.flags[i]),
                address: m.start[i],
                bytes: m.end[i] - m.start[i],
                born: m.time_ns[i],
                died: u64::MAX,
                mapping: i as u32,
            });
        }
    }

    fn build(&mut self) {
        let n = self.spaces.len();
        let mut fine: Vec<[Vec<Span>; 3]> = (0..n).map(|_| Default::default()).collect();
        let mut coarse: Vec<[Vec<Span>; 2]> = (0..n).map(|_| Default::default()).collect();
        for (id, t) in self.things.iter().enumerate() {
            let span = Span {
                from: t.address,
                to: t.address.saturating_add(t.bytes),
                born: t.born,
                died: t.died,
                id: id as u32,
            };
            let space = t.space as usize;
            match (t.mapping, t.kind) {
                (NONE, ObjectKind::Heap) => fine[space][0].push(span),
                (NONE, ObjectKind::Static) => fine[space][1].push(span),
                (NONE, ObjectKind::Stack) => fine[space][2].push(span),
                (NONE, ObjectKind::SmallHeap) => self.spaces[space].small.push((t.address, id as u32)),
                (NONE, _) => coarse[space][0].push(span),
                _ => coarse[space][1].push(span),
            }
        }
        for (space, (fine, coarse)) in fine.into_iter().zip(coarse).enumerate() {
            let s = &mut self.spaces[space];
            let [heap, statics, stacks] = fine;
            s.fine = [
                Layer::new(heap, Overlap::Replaces),
                Layer::new(statics, Overlap::Nests),
                Layer::new(stacks, Overlap::Nests),
            ];
            s.coarse = coarse.map(|spans| Layer::new(spans, Overlap::Nests));
            let things = &self.things;
            s.small.sort_by_key(|&(address, id)| (address, things[id as usize].born));
        }
    }

    /// The thing at `address` of `space` at `time`, and where else that is the answer.
    pub fn at(&self, space: u32, address: u64, time: u64) -> (Option<u32>, Validity) {
        let mut valid = Validity::ALL;
        let (mut s, mut t, mut own) = (space, time, true);
        loop {
            for layer in &self.spaces[s as usize].fine {
                if layer.is_empty() {
                    continue;
                }
                let (found, v) = layer.at(address, t);
                // The parent is frozen at the fork: its answer does not change with time.
                if own {
                    valid.clip(&v)
                } else {
                    valid.clip_addresses(&v)
                }
                if found.is_some() {
                    return (found, valid);
                }
            }
            let Some((parent, fork)) = self.spaces[s as usize].parent else {
                break;
            };
            (s, t, own) = (parent, t.min(fork), false);
        }
        let (mapping, v) = self.mapping_at(space, address, time);
        valid.clip(&v);
        if mapping.is_none_or(|m| self.is_heap_area(m)) {
            if let Some(small) = self.small_at(space, address, time) {
                let point = Validity { from: address, to: address + 1, since: time, until: time + 1 };
                return (Some(small), point);
            }
            if self.spaces.iter().any(|s| !s.small.is_empty()) {
                // A small allocation may be born here any time: do not remember the answer.
                valid = Validity { from: address, to: address + 1, since: time, until: time + 1 };
            }
        }
        (mapping, valid)
    }

    /// The mapping (or mapping-like object) at an address.
    pub fn mapping_at(&self, space: u32, address: u64, time: u64) -> (Option<u32>, Validity) {
        let mut valid = Validity::ALL;
        let (mut s, mut t, mut own) = (space, time, true);
        loop {
            for layer in &self.spaces[s as usize].coarse {
                let (found, v) = layer.at(address, t);
                if own {
                    valid.clip(&v)
                } else {
                    valid.clip_addresses(&v)
                }
                if found.is_some() {
                    return (found, valid);
                }
            }
            let Some((parent, fork)) = self.spaces[s as usize].parent else {
                return (None, valid);
            };
            (s, t, own) = (parent, t.min(fork), false);
        }
    }

    /// What covered any byte of `from..to` at some time of `since..=until`; mappings only where no
    /// object did. A sampled small allocation counts if it begins there, or where there is nothing else.
    pub fn over(&self, space: u32, from: u64, to: u64, since: u64, until: u64) -> Vec<u32> {
        let mut found = Vec::new();
        let (mut s, mut last) = (space, until);
        loop {
            let here = &self.spaces[s as usize];
            for layer in &here.fine {
                found.extend(layer.over(from, to, since.min(last), last));
            }
            let small = here.small.partition_point(|x| x.0 < from);
            let begins = here.small[small..].iter().take_while(|x| x.0 < to);
            let things = &self.things;
            found.extend(begins.map(|x| x.1).filter(|&id| things[id as usize].born <= last));
            match here.parent {
                Some((parent, fork)) => (s, last) = (parent, last.min(fork)),
                None => break,
            }
        }
        if found.is_empty() {
            let mapping = self.mapping_at(space, from, until).0;
            // As `at` answers: of the kind of the sampled allocations around it.
            let near = mapping.is_none_or(|m| self.is_heap_area(m));
            found.extend(near.then(|| self.small_at(space, from, until)).flatten().or(mapping));
        }
        found
    }

    fn is_heap_area(&self, thing: u32) -> bool {
        self.things[thing as usize].kind == ObjectKind::Anonymous
    }

    /// The nearest sampled small allocation at or before the address, a living one if there is one.
    fn small_at(&self, space: u32, address: u64, time: u64) -> Option<u32> {
        let (mut s, mut t) = (space, time);
        loop {
            let space = &self.spaces[s as usize];
            let end = space.small.partition_point(|x| x.0 <= address);
            let mut dead = None;
            for &(from, id) in space.small[..end].iter().rev().take(64) {
                if address - from > SMALL_REACH {
                    break;
                }
                let thing = &self.things[id as usize];
                if thing.born <= t {
                    if t < thing.died {
                        return Some(id);
                    }
                    dead = dead.or(Some(id));
                }
            }
            if dead.is_some() {
                return dead;
            }
            let (parent, fork) = space.parent?;
            (s, t) = (parent, t.min(fork));
        }
    }

    /// Whether a heap object that covered the page died, or a new mapping appeared there, after
    /// `after` and at or before `until`: the memory may have gone back to the kernel in between.
    pub fn renewed(&self, space: u32, address: u64, after: u64, until: u64) -> bool {
        let s = &self.spaces[space as usize];
        let heap = s.fine[0].ever(address);
        let k = heap.partition_point(|i| i.0 <= until);
        // Lives at one address follow each other: the last few tell.
        let freed = heap[..k].iter().rev().take(4).any(|&(_, died, _)| after < died && died <= until);
        let maps = s.coarse[1].ever(address);
        let k = maps.partition_point(|i| i.0 <= until);
        freed || maps[..k].last().is_some_and(|&(born, _, _)| after < born)
    }

    /// The end of the last heap object at `address` that ended at or before `time`; 0 if none.
    pub fn last_end(&self, space: u32, address: u64, time: u64) -> u64 {
        let ever = self.spaces[space as usize].fine[0].ever(address);
        let k = ever.partition_point(|i| i.0 < time);
        ever[..k].iter().rev().take(4).map(|i| i.1).filter(|&died| died <= time).max().unwrap_or(0)
    }
}

/// What a line of /proc/PID/maps says about its memory.
fn mapping_kind(name: &str, flags: u8) -> ObjectKind {
    let memory = ["//anon", "/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"];
    if name.starts_with("[stack") {
        ObjectKind::Stack
    } else if name.starts_with('/') && !memory.iter().any(|p| name.starts_with(p)) {
        ObjectKind::File
    } else if flags & 8 != 0 {
        ObjectKind::Shared
    } else {
        ObjectKind::Anonymous
    }
}
