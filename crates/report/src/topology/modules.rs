//! Memory modules: what is plugged in, and where, by the names of the slots.

use super::super::layout::{Page, plural, size};
use nearfar_machine::topology::{Module, Reading, Slot, Topology, channels};
use std::cmp::Reverse;
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
            words(&all, true)
        ));
    }
    let sockets = modules.by_socket();
    page.paragraph(&words(&all, true));
    for (socket, slots) in &sockets {
        let channels = populated(slots).map(|c| format!("; {c}")).unwrap_or_default();
        match socket {
            // What all have in common is said above.
            Some(socket) => {
                page.item(2, socket, &format!("{}{channels}", words(slots, kinds(&all).len() > 1)))
            }
            None if channels.is_empty() => {}
            None => page.paragraph(&format!("by the names of the slots{}", channels.replacen(';', ",", 1))),
        }
    }
    if sockets.keys().any(Option::is_some) {
        page.paragraph("(sockets and channels by the names of the slots)");
    }
}

/// Kinds and speeds, each with how many modules there are of which size, the largest first.
fn kinds(slots: &[&Slot]) -> BTreeMap<String, BTreeMap<Reverse<Option<u64>>, usize>> {
    let mut kinds: BTreeMap<String, BTreeMap<_, usize>> = BTreeMap::new();
    for module in slots.iter().filter_map(|s| s.module.as_ref()) {
        *kinds.entry(kind(module)).or_default().entry(Reverse(module.size_kb)).or_default() += 1;
    }
    kinds
}

/// `8 of 16 slots: 8 × 32.0 GiB DDR5 at 4800 MT/s`, the end of it only where it is asked for.
fn words(slots: &[&Slot], with_kind: bool) -> String {
    let kinds = kinds(slots);
    let filled: usize = kinds.values().flat_map(BTreeMap::values).sum();
    let list = kinds.iter().map(|(kind, sizes)| {
        let sizes = sizes.iter().map(|(Reverse(kb), n)| {
            let size = kb.map_or("unknown size".to_owned(), |kb| size(kb * 1024));
            // Unbroken.
            format!("{n} × {size}").replace(' ', "\u{a0}")
        });
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        if with_kind { format!("{sizes} {kind}") } else { sizes }
    });
    let list = list.collect::<Vec<_>>().join("; ");
    let list = if list.is_empty() { "all empty".to_owned() } else { list };
    format!("{filled} of {}: {list}", plural(slots.len(), "slot"))
}

/// `DDR5 at 4800 MT/s (made for 5600)`.
fn kind(module: &Module) -> String {
    let kind = module.kind.as_deref().unwrap_or("of unknown kind");
    let speed = match (module.configured_mts, module.rated_mts) {
        (Some(now), Some(rated)) if now != rated => format!("at {now} MT/s (made for {rated})"),
        (Some(now), _) => format!("at {now} MT/s"),
        (None, Some(rated)) => format!("made for {rated} MT/s, run at an unknown speed"),
        (None, None) => "at an unknown speed".to_owned(),
    };
    format!("{kind} {speed}")
}

/// `6 of 8 channels have modules`.
fn populated(slots: &[&Slot]) -> Option<String> {
    let channels = channels(slots)?;
    let filled = channels.values().filter(|n| **n > 0).count();
    Some(format!("{filled} of {} have DRAM", plural(channels.len(), "channel")))
}
