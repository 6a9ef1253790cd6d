//! The words below a picture: what its shares are of, and where its numbers come from.

use nearfar_analyze::{Basis, Report};

/// What shares are shares of.
pub(super) fn basis(r: &Report) -> &'static str {
    match r.basis {
        Basis::StallTime => "stall time",
        Basis::DramLines => "DRAM traffic",
        Basis::MemoryLoads => "loads that memory answered",
    }
}

/// Where the figures come from, in a line.
pub(super) fn source(r: &Report) -> String {
    let of = |source: &nearfar_analyze::SourceUse| {
        format!("{} {} samples", super::super::layout::count(source.samples), source.source)
    };
    let all: Vec<String> = r.sources.iter().filter(|source| source.source != "pages").map(of).collect();
    if all.is_empty() { "source: none".to_owned() } else { format!("source: {}", all.join(", ")) }
}
