//! Calls that do not pair, with the places of both.

use super::names::{Names, Places};
use crate::input::Input;
use crate::value::Unbalanced;
use nearfar_recording::{Columns, NONE, PhaseEnd};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most rows. // chosen
const MOST: usize = 200;
/// Name, how, and where it began and ended.
type Pair = (String, &'static str, Option<String>, Option<String>);

/// Phases that did not end by an end of their own, and ends without a beginning.
pub fn unbalanced(input: &Input) -> Vec<Unbalanced> {
    let p = &input.phases;
    let odd = |how: u8| {
        !matches!(
            PhaseEnd::from_code(how),
            None | Some(PhaseEnd::Untold | PhaseEnd::Ended | PhaseEnd::Inherited)
        )
    };
    let rows: Vec<usize> = (0..p.len()).filter(|&i| odd(p.how[i])).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let wanted: HashSet<u32> =
        rows.iter().flat_map(|&i| [p.begin_at[i], p.end_at[i]]).filter(|&l| l != NONE).collect();
    let places = Places::new(input, &wanted);
    let names = Names::new(input);
    // Where phases of a name were left without an end, for ends without a beginning.
    let mut left: HashMap<(u32, &str), Vec<usize>> = HashMap::new();
    for &i in &rows {
        if p.how[i] != PhaseEnd::NotBegun as u8 {
            left.entry((p.thread[i], &p.name[i])).or_default().push(i);
        }
    }
    for list in left.values_mut() {
        list.sort_by_key(|&i| p.end_ns[i]);
    }
    let mut counts: BTreeMap<Pair, u64> = BTreeMap::new();
    for &i in &rows {
        let how = PhaseEnd::from_code(p.how[i]).map_or("", PhaseEnd::text);
        let mut begun = places.at(p.begin_at[i], &p.begin_place[i]);
        if p.how[i] == PhaseEnd::NotBegun as u8 {
            let before = left.get(&(p.thread[i], &p.name[i])).map_or(&[][..], Vec::as_slice);
            let k = before.partition_point(|&j| p.end_ns[j] <= p.end_ns[i]);
            begun = before[..k].last().and_then(|&j| places.at(p.begin_at[j], &p.begin_place[j]));
        }
        let key = (names.of(&p.name[i]).to_owned(), how, begun, places.at(p.end_at[i], &p.end_place[i]));
        *counts.entry(key).or_default() += 1;
    }
    let mut all: Vec<Unbalanced> = counts
        .into_iter()
        .map(|((name, how, begun_at, ended_at), count)| {
            let how = how.to_owned();
            Unbalanced { name, how, count, begun_at, ended_at }
        })
        .collect();
    all.sort_by_key(|u| std::cmp::Reverse(u.count));
    all.truncate(MOST);
    all
}
