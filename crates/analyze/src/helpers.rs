//! Which line an object comes from, where the program allocates through functions of its own.
//!
//! Programs have `xmalloc`, `memory(bytes)`, `Allocate<T>(n)`: everything comes from one line there, under one name
//! (`p`), and says nothing of what the memory is for. Such helpers are seen through: the object's line is the first
//! one of the call path that does not hand the memory on to its caller, and its name is the variable there.
//!
//! What a helper is, is read from its source when the recording is made (`site_names`, `handed_on`): it returns
//! what it allocates. Without a source it is a function of several callers with "alloc" in its name.

use super::hash::{FastMap, FastSet};
use super::input::Input;
use super::sites::{SiteId, Sites, UserFrame};
use super::space::Things;
use nearfar_recording::{NONE, ObjectKind};

/// The line that an allocation comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin<'a> {
    /// The line that distinguishes it from other objects; none if no frame of the program is known.
    pub site: Option<SiteId>,
    /// The line that calls the function of that line.
    pub caller: Option<SiteId>,
    /// The helpers between that line and the allocation, outermost first.
    pub through: Vec<SiteId>,
    /// What tells it from other origins: the frames as far as they are looked at.
    pub path: u32,
    /// The variable, and how it was found.
    pub name: Option<(&'a str, &'static str)>,
}

/// The origins of a recording's allocations.
#[derive(Debug)]
pub struct Origins<'a> {
    of_chain: FastMap<u32, u32>,
    origins: Vec<Origin<'a>>,
}

/// What the recording says of a frame of an allocation's chain.
#[derive(Clone, Copy, Debug)]
struct Received<'a> {
    name: Option<(&'a str, &'static str)>,
    /// None where the function's source was not read.
    handed_on: Option<bool>,
}

impl<'a> Origins<'a> {
    /// Origins of all heap objects.
    pub fn new(input: &'a Input, things: &Things, sites: &Sites) -> Origins<'a> {
        let heap = |&i: &usize| {
            matches!(things.get(i as u32).kind, ObjectKind::Heap | ObjectKind::SmallHeap)
                && input.objects.chain[i] != NONE
        };
        let mut chains: Vec<u32> =
            (0..things.objects()).filter(heap).map(|i| input.objects.chain[i]).collect();
        chains.sort_unstable();
        chains.dedup();
        let callers = Callers::new(sites, &chains);
        let (frames, innermost) = received(input);
        let mut paths: FastMap<Vec<SiteId>, u32> = FastMap::default();
        let mut origins = Origins { of_chain: FastMap::default(), origins: Vec::new() };
        for chain in chains {
            let path = sites.frames(chain);
            let at = |i: usize| path.get(i).and_then(|f| frames.get(&(f.location, f.depth)).copied());
            let mut shown = 0;
            while shown + 1 < path.len() && callers.is_helper(sites, path, shown, at(shown)) {
                shown += 1;
            }
            // Two callers of one line are two origins, whether it is a helper or not.
            let until = (shown + 1).max(2).min(path.len());
            let key = path[..until].iter().map(|f| f.site).collect();
            let count = paths.len() as u32;
            let name = (shown..path.len()).find_map(|i| at(i)?.name);
            origins.of_chain.insert(chain, origins.origins.len() as u32);
            origins.origins.push(Origin {
                site: path.get(shown).map(|f| f.site),
                caller: path.get(shown + 1).map(|f| f.site),
                through: path.iter().take(shown).rev().map(|f| f.site).collect(),
                path: *paths.entry(key).or_insert(count),
                name: name.or_else(|| innermost.get(&chain).copied()),
            });
        }
        origins
    }

    /// Where the objects of a call chain come from; `None` for what is not an allocation's.
    pub fn get(&self, chain: u32) -> Option<&Origin<'a>> {
        self.of_chain.get(&chain).map(|&i| &self.origins[i as usize])
    }
}

/// By location and inlined function; and by chain, from recordings that do not say which frame a name is of.
#[allow(clippy::type_complexity)] // two tables of one
fn received(input: &Input) -> (FastMap<(u32, u16), Received<'_>>, FastMap<u32, (&str, &'static str)>) {
    let t = &input.site_names;
    let (mut frames, mut innermost) = (FastMap::default(), FastMap::default());
    for i in 0..t.chain.len() {
        let how = if t.how[i] == "dwarf" { "dwarf" } else { "source" };
        let name = (!t.name[i].is_empty()).then_some((t.name[i].as_str(), how));
        match (t.location[i], name) {
            (NONE, Some(name)) => drop(innermost.insert(t.chain[i], name)),
            (NONE, None) => {}
            (location, name) => {
                let handed_on = [Some(false), Some(true)].get(usize::from(t.handed_on[i])).copied().flatten();
                frames.insert((location, t.depth[i]), Received { name, handed_on });
            }
        }
    }
    (frames, innermost)
}

/// Which function calls whom in the chains of allocations.
struct Callers {
    /// Lines with more than one caller.
    several: FastSet<SiteId>,
    /// Lines that reach the allocator by more than one line below them.
    dividing: FastSet<SiteId>,
}

impl Callers {
    fn new(sites: &Sites, chains: &[u32]) -> Callers {
        let (mut above, mut below) = (FastMap::default(), FastMap::default());
        let mut callers = Callers { several: FastSet::default(), dividing: FastSet::default() };
        for pair in chains.iter().flat_map(|&chain| sites.frames(chain).windows(2)) {
            let (callee, caller) = (pair[0].site, pair[1].site);
            if *above.entry(callee).or_insert(caller) != caller {
                callers.several.insert(callee);
            }
            if *below.entry(caller).or_insert(callee) != callee {
                callers.dividing.insert(caller);
            }
        }
        callers
    }

    /// Whether the function of frame `at` only hands memory on to the next frame.
    fn is_helper(&self, sites: &Sites, path: &[UserFrame], at: usize, received: Option<Received>) -> bool {
        // A field keeps what it gets, also if the function returns it: `return g->x = malloc(n)`.
        let kept = received.and_then(|r| r.name).is_some_and(|(name, _)| is_field(name));
        match received.and_then(|r| r.handed_on) {
            _ if kept => return false,
            Some(handed_on) => return handed_on,
            None => {}
        }
        let (site, caller) = (path[at].site, path[at + 1].site);
        let named_so = sites.get(site).function.as_deref().is_some_and(|f| {
            let name = f.split(['(', ' ']).next().unwrap_or(f);
            name.to_ascii_lowercase().contains("alloc")
        });
        named_so && self.several.contains(&site) && !self.dividing.contains(&caller)
    }
}

/// Whether a name is that of a part of something else: `s->data`, `rows[i]`, `Grid::cells`.
fn is_field(name: &str) -> bool {
    name.contains("->") || name.contains("::") || name.contains(['.', '['])
}
