//! Address spaces: which object was at an address at a time.
//!
//! Precedence where several cover an address: heap, static, stack, mapping;
//! the finer knowledge wins. A forked space sees its parent as it was at the fork.

mod rows_over;
mod shared;
mod things;

pub use things::{Thing, Things};

use super::hash::IdIndex;
use super::input::Input;
use super::layer::{Layer, Overlap, Validity};
use nearfar_recording::{NONE, ObjectKind, RangeKind};

/// How far apart two sampled small allocations of one site may be for what is between them to be believed of that site,
/// too: the agent samples one in so many bytes, and allocators fill an area in order. Behind a single one nothing is
/// known: an address belongs to an object inside its bytes only. // assumed
const SMALL_REACH: u64 = 128 << 10;

/// Things that are asked whether they could be written to, together: a file has a few mappings. // chosen
pub const MOST_CONSTANT: usize = 64;
/// Bit of a mapping's flags: its pages may be written to.
const WRITABLE: u8 = 2;

/// Longest line of forked processes that is followed for what a child shares with its parents. Shells and
/// build tools fork a few generations deep; a hundred thousand would make every look-up as long. // chosen
const MOST_GENERATIONS: u32 = 256;

/// First and one past the last page number of a thing.
pub fn page_range(thing: &Thing, page: u64) -> (u64, u64) {
    (thing.address / page, thing.address.saturating_add(thing.bytes).div_ceil(page))
}

/// The first of some objects, nearest first, that lived at a time, or else that had lived by then.
#[derive(Default)]
struct Within {
    alive: Option<(u32, u32)>,
    dead: Option<(u32, u32)>,
}

impl Within {
    fn see(&mut self, thing: &Thing, time: u64, id: u32, row: u32) {
        if thing.born <= time {
            let place = if time < thing.died { &mut self.alive } else { &mut self.dead };
            place.get_or_insert((id, row));
        }
    }
    fn best(&self) -> Option<(u32, u32)> {
        self.alive.or(self.dead)
    }
}

/// Position of a `process` id; unknown ids count as the first space.
fn position(ids: &IdIndex, process: u32) -> u32 {
    ids.get(process).unwrap_or(0) as u32
}

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    /// Position of the space it was forked from, and when.
    pub parent: Option<(u32, u64)>,
    /// Forks of this space, in the order of time: (when, child, when the child dropped its copy).
    pub forks: Vec<(u64, u32, u64)>,
    fine: [Layer; 3],
    small: Vec<(u64, u32, u32)>,
    coarse: [Layer; 2],
}

/// Address spaces with what is in them.
#[derive(Debug, Default)]
pub struct Spaces {
    /// Position by `process` id.
    pub ids: IdIndex,
    /// The spaces, in the order of the processes table.
    pub spaces: Vec<Space>,
    /// Objects, then mappings.
    pub things: Things,
    /// Whether any small allocation was sampled.
    any_small: bool,
}

impl Spaces {
    /// Builds the lookup.
    /// `rows`: which row of the report each thing is in.
    pub fn new(input: &Input, things: Things, rows: &[u32]) -> Spaces {
        let p = &input.processes;
        let mut s = Spaces { ids: IdIndex::new(&p.id), things, ..Spaces::default() };
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
        s.break_circles();
        for (i, &gone) in gone.iter().enumerate() {
            if let Some((parent, at)) = s.spaces[i].parent {
                s.spaces[parent as usize].forks.push((at, i as u32, gone));
            }
        }
        s.spaces.iter_mut().for_each(|s| s.forks.sort_unstable());
        s.build(rows);
        s
    }

    /// No process descends from itself, whatever a damaged recording says, nor from more than so many others:
    /// a search for an address goes from parent to parent.
    fn break_circles(&mut self) {
        const ASKED: u32 = NONE - 1;
        // Generations above each space; NONE: not counted yet, ASKED: on the way up from `i`.
        let mut above = vec![NONE; self.spaces.len()];
        let mut line = Vec::new();
        for i in 0..self.spaces.len() {
            let mut next = Some(i);
            while let Some(at) = next.filter(|&at| above[at] == NONE) {
                above[at] = ASKED;
                line.push(at);
                next = self.spaces[at].parent.map(|p| p.0 as usize);
            }
            while let Some(space) = line.pop() {
                let older = self.spaces[space].parent.map(|p| above[p.0 as usize]);
                above[space] = match older {
                    Some(n) if n < MOST_GENERATIONS => n + 1,
                    _ => 0,
                };
                if above[space] == 0 {
                    self.spaces[space].parent = None;
                }
            }
        }
    }

    /// Position of a `process` id; unknown ids count as the first space.
    pub fn position(&self, process: u32) -> u32 {
        position(&self.ids, process)
    }

    fn build(&mut self, rows: &[u32]) {
        let n = self.spaces.len();
        let things = &self.things;
        let mut layers: Vec<[Vec<u32>; 5]> = (0..n).map(|_| Default::default()).collect();
        for id in 0..things.len() as u32 {
            let t = things.get(id);
            let space = t.space as usize;
            let layer = match (t.mapping, t.kind) {
                (NONE, ObjectKind::Heap) => 0,
                (NONE, ObjectKind::Static) => 1,
                (NONE, ObjectKind::Stack) => 2,
                (NONE, ObjectKind::SmallHeap) => {
                    self.spaces[space].small.push((t.address, id, rows[id as usize]));
                    continue;
                }
                (NONE, _) => 3,
                _ => 4,
            };
            layers[space][layer].push(id);
        }
        for (s, ids) in self.spaces.iter_mut().zip(layers) {
            let [heap, statics, stacks, areas, mappings] = ids;
            s.fine = [
                Layer::new(heap, things, Overlap::Replaces),
                Layer::new(statics, things, Overlap::Nests),
                Layer::new(stacks, things, Overlap::Nests),
            ];
            s.coarse = [areas, mappings].map(|ids| Layer::new(ids, things, Overlap::Nests));
            s.small.sort_by_key(|&(address, id, _)| (address, things.born[id as usize]));
            self.any_small |= !s.small.is_empty();
        }
    }

    /// The thing at `address` of `space` at `time`, and where else that is the answer.
    pub fn at(&self, space: u32, address: u64, time: u64) -> (Option<u32>, Validity) {
        let (found, mut valid) = self.first_of(space, address, time, |s| &s.fine);
        if found.is_some() {
            return (found, valid);
        }
        let (mapping, v) = self.mapping_at(space, address, time);
        valid.clip(&v);
        if mapping.is_none_or(|m| self.is_heap_area(m)) {
            if let Some(small) = self.small_at(space, address, time) {
                let point = Validity { from: address, to: address + 1, since: time, until: time + 1 };
                return (Some(small), point);
            }
            if self.any_small {
                // A small allocation may be born here any time: do not remember the answer.
                valid = Validity { from: address, to: address + 1, since: time, until: time + 1 };
            }
        }
        (mapping, valid)
    }

    /// The mapping (or mapping-like object) at an address.
    pub fn mapping_at(&self, space: u32, address: u64, time: u64) -> (Option<u32>, Validity) {
        self.first_of(space, address, time, |s| &s.coarse)
    }

    /// What the first of some layers has at an address: of the space, else of those that it was forked from.
    fn first_of(
        &self,
        space: u32,
        address: u64,
        time: u64,
        layers: impl Fn(&Space) -> &[Layer],
    ) -> (Option<u32>, Validity) {
        let mut valid = Validity::ALL;
        for (generation, (s, t)) in self.lineage(space, time).enumerate() {
            for layer in layers(s).iter().filter(|layer| !layer.is_empty()) {
                let (found, v) = layer.at(&self.things, address, t);
                // The parent is frozen at the fork: its answer does not change with time.
                if generation == 0 {
                    valid.clip(&v)
                } else {
                    valid.clip_addresses(&v)
                }
                if found.is_some() {
                    return (found, valid);
                }
            }
        }
        (None, valid)
    }

    /// The space, the one that it was forked from, and so on, each with the last time at which its memory was also that of the first.
    fn ancestry(&self, space: u32, time: u64) -> impl Iterator<Item = (u32, u64)> {
        std::iter::successors(Some((space, time)), |&(s, t)| {
            let (parent, fork) = self.spaces[s as usize].parent?;
            Some((parent, t.min(fork)))
        })
    }

    /// The same as [`Self::ancestry`], with what is known of each space.
    fn lineage(&self, space: u32, time: u64) -> impl Iterator<Item = (&Space, u64)> {
        self.ancestry(space, time).map(|(s, t)| (&self.spaces[s as usize], t))
    }

    /// The mapping at an address: its position in the mappings table; `None` if none was seen there.
    fn mapping_row(&self, space: u32, address: u64, time: u64) -> Option<usize> {
        let id = self.lineage(space, time).find_map(|(s, t)| s.coarse[1].at(&self.things, address, t).0)?;
        Some(self.things.get(id).mapping as usize)
    }

    /// Flags of the mapping at an address, as /proc/PID/maps had them; `None` if none was seen there.
    pub fn flags_at(&self, input: &Input, space: u32, address: u64, time: u64) -> Option<u8> {
        input.mappings.flags.get(self.mapping_row(space, address, time)?).copied()
    }

    /// Whether no page of some things could be written to, as far as their mappings and the calls that change protections
    /// say. Of more than [`MOST_CONSTANT`] that is not looked at: all calls are asked for each.
    pub fn are_constant(&self, input: &Input, things: &[u32]) -> bool {
        things.len() <= MOST_CONSTANT && things.iter().all(|&thing| self.is_constant(input, thing))
    }

    fn is_constant(&self, input: &Input, thing: u32) -> bool {
        let t = self.things.get(thing);
        let r = &input.range_events;
        let end = t.address.saturating_add(t.bytes);
        let changed = |i: usize| {
            r.kind[i] == RangeKind::Protect as u8
                && r.address[i] < end
                && r.address[i].saturating_add(r.bytes[i]) > t.address
        };
        // Just before its end: at the end of time itself nothing is mapped.
        let flags = self.flags_at(input, t.space, t.address, t.died.saturating_sub(1));
        flags.is_some_and(|flags| flags & WRITABLE == 0) && !(0..r.kind.len()).any(changed)
    }

    fn is_heap_area(&self, thing: u32) -> bool {
        self.things.get(thing).kind == ObjectKind::Anonymous
    }

    /// The sampled small allocation that the address is in, a living one if there is one; or one of the same site
    /// below it, if the next one above is of that site, too.
    fn small_at(&self, space: u32, address: u64, time: u64) -> Option<u32> {
        self.lineage(space, time).find_map(|(space, t)| {
            let end = space.small.partition_point(|x| x.0 <= address);
            let near = |&&(from, ..): &&(u64, u32, u32)| from.abs_diff(address) <= SMALL_REACH;
            let below = space.small[..end].iter().rev().take_while(near).take(64);
            let above = space.small[end..].iter().take_while(near).take(64);
            let (mut within, mut before, mut after) =
                (Within::default(), Within::default(), Within::default());
            for &(from, id, row) in below {
                let thing = self.things.get(id);
                before.see(&thing, t, id, row);
                if address - from < thing.bytes {
                    within.see(&thing, t, id, row);
                }
            }
            if let Some((id, _)) = within.best() {
                return Some(id);
            }
            above.for_each(|&(_, id, row)| after.see(&self.things.get(id), t, id, row));
            if let (Some((id, row)), Some((_, other))) = (before.best(), after.best())
                && row == other
            {
                return Some(id);
            }
            None
        })
    }

    /// Whether a heap object that covered the page died, or a new mapping appeared there, after
    /// `after` and at or before `until`: the memory may have gone back to the kernel in between.
    pub fn renewed(&self, space: u32, address: u64, after: u64, until: u64) -> bool {
        let s = &self.spaces[space as usize];
        let things = &self.things;
        // Lives at one address follow each other: the last few tell.
        let mut lives = s.fine[0].youngest::<4, _>(things, address, until);
        let freed = lives.any(|id| after < things.died[id as usize] && things.died[id as usize] <= until);
        let mut maps = s.coarse[1].youngest::<1, _>(things, address, until);
        freed || maps.next().is_some_and(|id| after < things.born[id as usize])
    }

    /// The end of the last heap object at `address` that ended at or before `time`; 0 if none.
    pub fn last_end(&self, space: u32, address: u64, time: u64) -> u64 {
        let Some(before) = time.checked_sub(1) else { return 0 };
        let lives = self.spaces[space as usize].fine[0].youngest::<4, _>(&self.things, address, before);
        let ends = lives.map(|id| self.things.died[id as usize]);
        ends.filter(|&died| died <= time).max().unwrap_or(0)
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
