//! The words below a picture: where its numbers come from.

use nearfar_analyze::Report;

/// Where the figures come from, in a line.
pub(super) fn source(r: &Report) -> String {
    let of = |source: &nearfar_analyze::SourceUse| {
        format!("{} {} samples", super::super::layout::count(source.samples), source.source)
    };
    let all: Vec<String> = r.sources.iter().filter(|source| source.source != "pages").map(of).collect();
    if all.is_empty() { "source: none".to_owned() } else { format!("source: {}", all.join(", ")) }
}
