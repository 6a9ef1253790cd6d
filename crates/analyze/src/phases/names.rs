//! What code is called that calls begin phases from, and regions that the agent knows by an address only.

use crate::input::Input;
use nearfar_recording::{Columns, NONE, PhaseSource};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Files whose calls stand for their caller's.
const OURS: [&str; 4] = ["nearfar.h", "nearfar.hpp", "phase.hpp", "nearfar.f90"];

/// Function and `file:line` of calls, by location.
pub struct Places(HashMap<u32, (String, String)>);

impl Places {
    /// Of the locations that are `wanted`.
    pub fn new(input: &Input, wanted: &HashSet<u32>) -> Places {
        let s = &input.symbols;
        let mut frames: BTreeMap<(u32, u16), usize> = BTreeMap::new();
        for i in (0..s.len()).filter(|&i| wanted.contains(&s.location[i])) {
            frames.insert((s.location[i], s.depth[i]), i);
        }
        let mut places = HashMap::new();
        for ((location, _), i) in frames {
            let file = s.file[i].rsplit('/').next().unwrap_or_default();
            if OURS.contains(&file) {
                continue;
            }
            let at = if file.is_empty() || s.line[i] == 0 {
                String::new()
            } else {
                format!("{file}:{}", s.line[i])
            };
            places.entry(location).or_insert_with(|| (s.function[i].clone(), at));
        }
        Places(places)
    }

    /// Where a call is: what the program gave, or what its line tables say.
    pub fn at(&self, location: u32, given: &str) -> Option<String> {
        if given.is_empty() {
            return self.0.get(&location).map(|p| p.1.clone()).filter(|at| !at.is_empty());
        }
        Some(given.to_owned())
    }
}

/// Names of regions of OpenMP: the agent names them by the address of their construct.
pub struct Names(HashMap<String, String>);

impl Names {
    /// Of the recording's regions.
    pub fn new(input: &Input) -> Names {
        let p = &input.phases;
        let known = |&i: &usize| p.source[i] == PhaseSource::OpenMp as u8 && p.begin_at[i] != NONE;
        let rows: Vec<usize> = (0..p.len()).filter(known).collect();
        let places = Places::new(input, &rows.iter().map(|&i| p.begin_at[i]).collect());
        let name = |i: usize| {
            let (function, at) = places.0.get(&p.begin_at[i])?;
            let text = match (function.is_empty(), at.is_empty()) {
                (true, true) => return None,
                (true, false) => format!("parallel region at {at}"),
                (false, true) => format!("parallel region of {function}"),
                (false, false) => format!("parallel region of {function} ({at})"),
            };
            Some((p.name[i].clone(), text))
        };
        Names(rows.into_iter().filter_map(name).collect())
    }

    /// The name that a reader knows.
    pub fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

/// The function that GCC has put a parallel region of into one of its own: `solve._omp_fn.0` is one of `solve`.
pub fn outlined(function: &str) -> Option<&str> {
    let at = function.find("._omp_fn.")?;
    Some(function[..at].trim_end_matches("[clone ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::outlined;

    #[test]
    fn outlined_functions_are_their_functions_regions() {
        assert_eq!(outlined("solve._omp_fn.0"), Some("solve"));
        assert_eq!(outlined("solve(int) [clone ._omp_fn.12]"), Some("solve(int)"));
        assert_eq!(outlined("solve"), None);
    }
}
