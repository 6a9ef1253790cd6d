//! Changes of protection, which fault again on pages that were placed.

use crate::input::Input;
use crate::layer::{Layer, Overlap, Span};
use crate::space::Spaces;
use nearfar_recording::RangeKind;
/// Where and when protections changed.
#[derive(Debug, Default)]
pub(super) struct Protects {
    layers: Vec<Layer>,
    changes: Vec<Span>,
}

impl Protects {
    pub(super) fn new(input: &Input, spaces: &Spaces) -> Protects {
        let r = &input.range_events;
        let mut ids: Vec<Vec<u32>> = vec![Vec::new(); spaces.spaces.len()];
        let mut changes = Vec::new();
        for i in 0..r.kind.len() {
            if RangeKind::from_code(r.kind[i]) == Some(RangeKind::Protect) {
                let to = r.address[i].saturating_add(r.bytes[i]);
                ids[spaces.position(r.process[i]) as usize].push(changes.len() as u32);
                changes.push(Span { from: r.address[i], to, born: r.time_ns[i], died: u64::MAX });
            }
        }
        let layers = ids.into_iter().map(|ids| Layer::new(ids, &changes[..], Overlap::Replaces)).collect();
        Protects { layers, changes }
    }

    /// Whether the protection of an address changed after `after` and at or before `until`.
    pub(super) fn changed(&self, space: u32, address: u64, after: u64, until: u64) -> bool {
        let mut last = self.layers[space as usize].youngest::<1, _>(&self.changes[..], address, until);
        last.next().is_some_and(|id| after < self.changes[id as usize].born)
    }
}
