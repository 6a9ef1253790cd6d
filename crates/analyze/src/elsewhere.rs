//! Objects whose pages are not where they were first touched: a policy, a full node or a migration placed them.
//!
//! The kernel places a page where it is first touched, unless something else says where. Looks at an object's pages
//! tell which of the two holds. Where they disagree with the first touches, a page that was not looked at is not
//! taken to be on its toucher's node.

use super::hash::{FastMap, FastSet};
use super::input::Input;
use super::nodes::UNKNOWN;
use super::page_nodes::Finder;
use super::rows::Rows;
use nearfar_recording::{NONE, ObjectKind};

/// Pages of one run of a look that are compared with their touches, evenly spread. // chosen
const COMPARED: u64 = 64;
/// Largest share of the pages seen away from their touchers with which first touches still say where the others are:
/// the kernel takes a page from another node where the toucher's is full. // chosen
const AWAY: f64 = 0.1;

/// Rows whose first touches do not say where their pages are.
pub fn rows(input: &Input, finder: &Finder, rows: &Rows) -> FastSet<u32> {
    let (h, page) = (&input.page_nodes, finder.placements.page_bytes);
    // Pages seen whose toucher's node is known, and those of them that are elsewhere.
    let mut seen: FastMap<u32, (f64, f64)> = FastMap::default();
    for i in 0..h.time_ns.len() {
        let node = finder.nodes.position(h.node[i]);
        if node == UNKNOWN || h.pages[i] == 0 || finder.nodes.assumed {
            continue;
        }
        let (pages, stride, time) = (u64::from(h.pages[i]), h.stride[i].max(page), h.time_ns[i]);
        let compared = pages.min(COMPARED);
        for k in 0..compared {
            let address = h.address[i].saturating_add((k * pages / compared).saturating_mul(stride));
            let space = finder.spaces.position(h.process[i]);
            let Some(thing) = finder.spaces.at(space, address, time).0 else { continue };
            let row = rows.of_thing[thing as usize];
            let about = finder.spaces.things.get(thing);
            // Shared memory is kept with the space that made it.
            let space = if about.kind == ObjectKind::Shared { about.space } else { space };
            let Some(touch) = finder.placements.at(space, address / page, time) else { continue };
            let toucher = finder.toucher_node(touch);
            if row == NONE || toucher == UNKNOWN || finder.placements.touches[touch as usize].zero {
                continue;
            }
            let weight = pages as f64 / compared as f64;
            let (all, away) = seen.entry(row).or_default();
            *all += weight;
            *away += if toucher == node { 0.0 } else { weight };
        }
    }
    seen.into_iter().filter(|(_, (all, away))| *away > AWAY * all).map(|(row, _)| row).collect()
}
