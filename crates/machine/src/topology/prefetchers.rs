//! Which hardware prefetchers are switched on.

use super::Topology;
use crate::cpulist::CpuList;
use serde::{Deserialize, Serialize};

/// The prefetchers that the processor lets be switched off one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prefetchers {
    /// The register that this was read from: `MSR 0x1A4`.
    pub register: String,
    /// Cpus in the same state, by their first one; one entry where all are alike.
    pub states: Vec<PrefetcherState>,
    /// Online cpus whose register could not be read.
    pub unread: CpuList,
}

/// The prefetchers of some cpus, by the names in the processor's documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrefetcherState {
    /// The cpus.
    pub cpus: CpuList,
    /// Those that are on.
    pub on: Vec<String>,
    /// Those that are switched off.
    pub off: Vec<String>,
}

/// What a reader of predictions must know.
pub(super) fn judge(t: &Topology) -> Vec<String> {
    let Some(states) = t.prefetchers.known().map(|p| p.states.as_slice()) else { return Vec::new() };
    let mut found = Vec::new();
    if states.len() > 1 {
        let each = states.iter().map(|s| match s.off.as_slice() {
            [] => format!("cpus {}: all on", s.cpus),
            off => format!("cpus {}: {} off", s.cpus, off.join(", ")),
        });
        found.push(format!(
            "hardware prefetchers differ between cpus ({}): the same code runs at different speeds on them",
            each.collect::<Vec<_>>().join("; ")
        ));
    } else if let [state] = states
        && !state.off.is_empty()
    {
        found.push(format!("hardware prefetchers are switched off: {}", state.off.join(", ")));
    }
    if let Some(last) = found.last_mut() {
        last.push_str("; predictions assume all of them on, and streams through memory are slower without");
    }
    found
}
