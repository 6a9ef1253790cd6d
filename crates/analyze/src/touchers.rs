//! Touches by who made them, where and how: what findings reason about.

use super::hash::FastMap;
use super::input::Input;
use super::nodes::NodeIndex;
use super::page_nodes::Finder;
use super::placement::How;
use super::sites::{SiteId, Sites};
use nearfar_recording::NONE;

/// A thread that placed pages which samples are on.
#[derive(Clone, Debug, Default)]
pub struct Toucher {
    /// Thread (position in the threads table).
    pub thread: u32,
    /// Address space of its process.
    pub space: u32,
    /// Its place in the order of creation, as the report's threads have it.
    pub index: u32,
    /// Node it touched from.
    pub node: NodeIndex,
    /// Weight on its pages.
    pub weight: u64,
    /// Remote weight on its pages.
    pub remote: u64,
    /// Of it, on pages placed inside the allocator.
    pub remote_by_allocator: u64,
    /// Of its weight, on pages that are elsewhere than where it touched them.
    pub away: u64,
    /// Of its remote weight, on such pages.
    pub away_remote: u64,
    /// Pages that it placed at that line; 0 where pages were not counted.
    pub pages_at: u64,
    /// The line with most of what is remote.
    pub at: Option<String>,
    /// The function.
    pub function: Option<String>,
    /// The real function, where `function` was inlined.
    pub outer: Option<String>,
    /// The line that called the allocator, if it placed pages.
    pub allocator_at: Option<String>,
    /// The function.
    pub allocator_function: Option<String>,
    /// The real function.
    pub allocator_outer: Option<String>,
}

/// Touches of one thread, on one node, at one place, in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Thread (position in the threads table).
    pub thread: u32,
    /// Node of the thread then.
    pub node: NodeIndex,
    /// The line that touched.
    pub site: SiteId,
    /// How.
    pub how: How,
    /// Whether the touching instruction is an allocator's.
    pub allocator: bool,
}

/// All groups and which group each touch belongs to.
#[derive(Debug, Default)]
pub struct Groups {
    /// The groups.
    pub groups: Vec<Group>,
    /// Group of each touch; [`NONE`] where the page was given back.
    pub of_touch: Vec<u32>,
}

impl Groups {
    /// Groups all touches.
    pub fn new(input: &Input, finder: &Finder, sites: &mut Sites) -> Groups {
        let chains = NearChains::new(input, sites);
        let mut groups = Groups::default();
        let mut ids: FastMap<Group, u32> = FastMap::default();
        let mut last: Option<(Group, u32)> = None;
        let mut named: FastMap<(u32, u32), SiteId> = FastMap::default();
        let f = &input.faults;
        for (t, touch) in finder.placements.touches.iter().enumerate() {
            if touch.how == How::Gone {
                groups.of_touch.push(NONE);
                continue;
            }
            let i = touch.fault as usize;
            let (site, allocator) = match touch.fault {
                // A call that populated the range: whose line, is not recorded.
                NONE => (sites.unknown, false),
                _ => {
                    let chain = match f.chain[i] {
                        NONE if sites.of_code(f.ip[i], NONE).is_none() => {
                            chains.nearest(f.thread[i], f.ip[i], f.time_ns[i])
                        }
                        chain => chain,
                    };
                    let named = named.entry((f.ip[i], chain)).or_insert_with(|| {
                        sites.of_code(f.ip[i], chain).unwrap_or_else(|| sites.raw(f.ip[i]))
                    });
                    (*named, sites.is_allocator(f.ip[i]))
                }
            };
            let group = Group {
                thread: touch.thread,
                node: finder.toucher_node(t as u32),
                site,
                how: touch.how,
                allocator,
            };
            let id = match last {
                Some((g, id)) if g == group => id,
                _ => *ids.entry(group).or_insert_with(|| {
                    groups.groups.push(group);
                    groups.groups.len() as u32 - 1
                }),
            };
            last = Some((group, id));
            groups.of_touch.push(id);
        }
        groups
    }

    /// The group of a touch.
    pub fn get(&self, touch: u32) -> Option<&Group> {
        let id = *self.of_touch.get(touch as usize)?;
        self.groups.get(id as usize)
    }
}

/// Chains are taken with few faults. A fault inside a runtime function without one
/// borrows that of the nearest fault of the same thread at the same instruction:
/// a memset that touches a million pages was called once.
struct NearChains {
    by_code: FastMap<(u32, u32), Vec<(u64, u32)>>,
}

impl NearChains {
    fn new(input: &Input, sites: &Sites) -> NearChains {
        let f = &input.faults;
        let mut by_code: FastMap<(u32, u32), Vec<(u64, u32)>> = FastMap::default();
        for i in 0..f.time_ns.len() {
            if f.chain[i] != NONE && sites.of_chain(f.chain[i]).is_some() {
                by_code.entry((f.thread[i], f.ip[i])).or_default().push((f.time_ns[i], f.chain[i]));
            }
        }
        for list in by_code.values_mut() {
            list.sort_unstable();
        }
        NearChains { by_code }
    }

    fn nearest(&self, thread: u32, ip: u32, time: u64) -> u32 {
        let Some(list) = self.by_code.get(&(thread, ip)) else {
            return NONE;
        };
        let k = list.partition_point(|x| x.0 < time);
        let around = [k.checked_sub(1).and_then(|k| list.get(k)), list.get(k)];
        around.into_iter().flatten().min_by_key(|x| x.0.abs_diff(time)).map_or(NONE, |x| x.1)
    }
}
