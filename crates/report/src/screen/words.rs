//! Words that several parts of the screen use.

use super::super::layout::percent;
use nearfar_analyze::{Basis, Pattern, Report};

pub(super) fn part(share: f64) -> String {
    percent(Some(share))
}

/// What shares are shares of, as a column.
pub(super) fn of_what(r: &Report) -> &'static str {
    match r.basis {
        Basis::StallTime => "time",
        Basis::DramLines => "lines",
        Basis::MemoryLoads => "loads",
    }
}

/// How threads share an object, in a word.
pub(super) fn pattern(p: Pattern) -> &'static str {
    match p {
        Pattern::Blocked => "blocks",
        Pattern::Cyclic => "turns",
        Pattern::AllOver => "all over",
        Pattern::OneThread => "one thread",
        Pattern::OwnThread => "own parts",
        Pattern::Unknown => "unknown",
    }
}

/// What has no other name than its line or function: `at line.c:12`, `in make`, as the words before it would cut it.
pub(super) fn short(name: &str) -> String {
    match name.strip_prefix("allocation ") {
        Some(place) if place.starts_with("at ") || place.starts_with("in ") => place.to_owned(),
        _ => name.to_owned(),
    }
}
