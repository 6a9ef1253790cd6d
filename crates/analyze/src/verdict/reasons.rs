//! What is missing for a verdict, in sentences.

use crate::input::{Input, Judge};
use crate::names::source_text;
use nearfar_figures::percent::percent;
use nearfar_recording::{BETWEEN_WINDOWS, KERNEL_MODULE, Source};
pub(super) fn source_reason(input: &Input) -> String {
    let samples = |r: &&nearfar_recording::SourceReport| r.source != Source::Pages;
    let why = |r: &&nearfar_recording::SourceReport| !r.active && !r.why.is_empty();
    // What one source lacks is not the reason where another one sampled.
    let active = input.meta.sources.iter().filter(samples).any(|r| r.active);
    match input.meta.sources.iter().find(why).filter(|_| !active) {
        Some(r) => format!("{}: {}", source_text(r.source), r.why),
        None if input.losses.what.iter().any(|what| what == BETWEEN_WINDOWS) => {
            "It ended before accesses were counted for the first time: leave out --sample-windows."
                .to_string()
        }
        None => "The program may have been too short: record longer or with a higher rate (-F).".to_string(),
    }
}

/// A reason as a sentence.
fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// What would make nodes of pages known.
pub(super) fn page_node_reason(input: &Input, judge: &Judge) -> String {
    if let Some(from) = &input.meta.imported {
        let source = input.meta.sources.iter().find(|s| s.source == Source::Hardware && !s.active);
        return source.map_or(format!("It was imported from {from}."), |s| sentence(&s.why));
    }
    if input.faults.time_ns.is_empty() && (judge.assume.is_some() || input.page_nodes.time_ns.is_empty()) {
        let pages = input.meta.sources.iter().find(|r| r.source == Source::Pages);
        if pages.is_some_and(|r| r.active) {
            // They were recorded, and none is there: what ended the recording early is the reason, if anything did.
            let end = input.losses.what.iter().position(|what| what == "end");
            let why = end.map_or(String::new(), |at| format!(": {}", input.losses.why[at]));
            let start = if input.meta.command.is_empty() { ", from the program's start" } else { "" };
            return format!("First touches were not recorded{why}. Record again{start}.");
        }
        let why = pages
            .filter(|r| !r.active && !r.why.is_empty())
            .map_or(String::new(), |r| format!(" ({})", r.why));
        return format!("First touches were not recorded{why}; they need perf_event_open.");
    }
    if !input.agent_reported() {
        let why = &input.meta.agent_why;
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        return format!("The agent did not report{why}, so allocations are unknown.");
    }
    let (all, seen) = (input.meta.target_faults, input.faults.time_ns.len() as u64);
    let unseen = all.saturating_sub(seen);
    // Known of a command only; a recorder that lost faults reports it elsewhere.
    if unseen as f64 > KERNEL_FILLED * all as f64 {
        let unseen = format!("{} of the page faults", percent(unseen as f64 / all as f64));
        return match input.modules.path.iter().any(|path| path == KERNEL_MODULE) {
            true => format!(
                "{unseen} were not the program's own, but of ranges that the kernel populated at once (mlockall, or calls that the agent does not see)."
            ),
            false => format!(
                "{unseen} were the kernel's while it filled the program's memory (read, recv), which an ordinary user does not see: \
                 `sudo sysctl kernel.perf_event_paranoid=1`, then record again."
            ),
        };
    }
    match input.meta.command.is_empty() {
        true => {
            "Pages may have been placed before the recording: record from the program's start.".to_string()
        }
        false => {
            "Pages may have been placed by the kernel, or by calls that the agent does not see.".to_string()
        }
    }
}

/// Part of a program's page faults that were not seen, from which on they are why nodes of pages are unknown. // chosen
const KERNEL_FILLED: f64 = 0.5;
