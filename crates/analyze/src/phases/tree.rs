//! Paths of phases, and how much time each thread spent on each.

use crate::hash::FastMap;
use std::collections::HashMap;

/// Most paths of a recording; further ones are their parent's [`OTHER`]. // chosen
const MOST_PATHS: usize = 2000;
/// Name of phases for which no room is left.
pub const OTHER: &str = "(other phases)";
/// The path of a thread as a whole.
pub const ROOT: u32 = 0;

/// A path: its last name, and the path before.
#[derive(Clone, Debug, PartialEq)]
pub struct PhasePath {
    pub name: String,
    /// Itself for [`ROOT`].
    pub parent: u32,
    pub source: u8,
}

/// All paths; a path is behind its parent.
#[derive(Clone, Debug)]
pub struct Tree {
    pub paths: Vec<PhasePath>,
    index: HashMap<(u32, String), u32>,
}

impl Default for Tree {
    fn default() -> Self {
        let root = PhasePath { name: String::new(), parent: ROOT, source: 0 };
        Tree { paths: vec![root], index: HashMap::new() }
    }
}

impl Tree {
    /// The path of a name in a path.
    pub fn child(&mut self, parent: u32, name: &str, source: u8) -> u32 {
        let mut key = (parent, name.to_owned());
        if let Some(&path) = self.index.get(&key) {
            return path;
        }
        if self.paths.len() >= MOST_PATHS {
            // One more for each path at most, and none below those.
            if self.paths[parent as usize].name == OTHER {
                return parent;
            }
            key.1 = OTHER.to_owned();
            if let Some(&path) = self.index.get(&key) {
                return path;
            }
        }
        let path = self.paths.len() as u32;
        self.paths.push(PhasePath { name: key.1.clone(), parent, source });
        self.index.insert(key, path);
        path
    }

    /// Adds to each path what is in the paths below it. `values` has a value for each path.
    pub fn inclusive<T: Copy>(&self, values: &[T], add: impl Fn(&mut T, &T)) -> Vec<T> {
        let mut all = values.to_vec();
        for path in (1..self.paths.len()).rev() {
            let below = all[path];
            add(&mut all[self.paths[path].parent as usize], &below);
        }
        all
    }
}

/// A thread's calls of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    pub calls: u64,
    /// Of these, not recorded one by one.
    pub counted: u64,
    /// With what is inside, ns. At least as much as the paths below.
    pub inclusive_ns: u64,
}

/// Calls by thread and path.
pub type CallsOf = FastMap<(u32, u32), Calls>;

/// Inclusive and exclusive time of each path of one thread, of which `calls` has the inclusive times as recorded. What is
/// inside of a phase took no longer than the phase: where clocks or losses say otherwise the phase took as long.
pub fn times(tree: &Tree, calls: &[Calls]) -> Vec<(u64, u64)> {
    let mut inside = vec![0u64; tree.paths.len()];
    let mut all = vec![(0u64, 0u64); tree.paths.len()];
    for path in (0..tree.paths.len()).rev() {
        let inclusive = calls[path].inclusive_ns.max(inside[path]);
        all[path] = (inclusive, inclusive - inside[path]);
        if path != ROOT as usize {
            let parent = &mut inside[tree.paths[path].parent as usize];
            *parent = parent.saturating_add(inclusive);
        }
    }
    all
}
