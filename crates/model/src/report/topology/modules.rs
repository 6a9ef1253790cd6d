//! Memory modules: what is plugged in, and where, by the names of the slots.

use super::super::layout::{Page, plural, size};
use crate::topology::{Module, Reading, Slot, Topology, channels};
use std::collections::BTreeMap;

/// A line for all modules, then one for each socket that the locators name.
pub(super) fn list(page: &mut Page, t: &Topology) {
    page.heading("Memory modules");
    let modules = match &t.memory_modules {
        Reading::Known(modules) => modules,
        Reading::Unknown { why } => return page.paragraph(&format!("unknown: {why}")),
    };
    let all: Vec<&Slot> = modules.slots.iter().collect();
    if t.modules_are_invented() {
        return page.paragraph(&format!(
            "{}; the hypervisor made this table up, so it says nothing of the hardware",
            words(&all)
        ));
    }
    page.paragraph(&words(&all));
    for (socket, slots) in modules.by_socket() {
        let Some(socket) = socket else {
            if let Some(channels) = populated(&slots) {
                page.paragraph(&format!("by locator: {channels}"));
            }
            continue;
        };
        let channels = populated(&slots).map_or(String::new(), |c| format!("; {c}"));
        page.item(2, socket, &format!("{}{channels}", words(&slots)));
    }
    if modules.by_socket().keys().any(Option::is_some) {
        page.paragraph("Sockets and channels go by the names of the slots, which the board's maker chose.");
    }
}

/// `8 of 16 slots: 8 × 32.0 GiB DDR5 at 4800 MT/s`.
fn words(slots: &[&Slot]) -> String {
    let mut kinds: BTreeMap<&Module, usize> = BTreeMap::new();
    for module in slots.iter().filter_map(|s| s.module.as_ref()) {
        *kinds.entry(module).or_default() += 1;
    }
    let filled: usize = kinds.values().sum();
    let kinds: Vec<String> = kinds.iter().map(|(module, n)| format!("{n} × {}", one(module))).collect();
    let list = if kinds.is_empty() { "all empty".to_owned() } else { kinds.join(" and ") };
    format!("{filled} of {}: {list}", plural(slots.len(), "slot"))
}

fn one(module: &Module) -> String {
    let size = module.size_kb.map_or("unknown size".to_owned(), |kb| size(kb * 1024));
    let kind = module.kind.as_deref().unwrap_or("of unknown kind");
    let speed = match (module.configured_mts, module.rated_mts) {
        (Some(now), Some(rated)) if now != rated => format!("at {now} MT/s (made for {rated})"),
        (Some(now), _) => format!("at {now} MT/s"),
        (None, Some(rated)) => format!("made for {rated} MT/s, run at an unknown speed"),
        (None, None) => "at an unknown speed".to_owned(),
    };
    format!("{size} {kind} {speed}")
}

/// `6 of 8 channels have modules`.
fn populated(slots: &[&Slot]) -> Option<String> {
    let channels = channels(slots)?;
    let filled = channels.values().filter(|n| **n > 0).count();
    Some(format!("{filled} of {} have DRAM", plural(channels.len(), "channel")))
}
