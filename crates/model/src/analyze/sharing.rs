//! Cache lines that nodes take from each other.
//!
//! Threads that write to different bytes of one line share it without meaning to: the line goes from cache
//! to cache with every write. Threads that write to the same bytes share on purpose, a lock or a counter.

use super::advice::{self, place};
use super::attribute::Context;
use super::exact::LINE;
use super::facts::{RowFacts, percent};
use super::hash::{FastMap, FastSet};
use super::input::Input;
use super::nodes::UNKNOWN;
use super::tally::{LineUsers, Tally};
use super::value::{Cause, Finding};
use super::whatif::WORTH;
use crate::recording::NONE;
use crate::time::Course;

/// Samples of a line from which on it is known who shares it. // chosen
const SAMPLES: u64 = 8;
/// Part of a row's transfers that must be of such lines. // chosen
const HOT: f64 = 0.5;

/// The lines that are taken back and forth, by row.
#[derive(Default)]
struct Row {
    all: u64,
    hot: u64,
    lines: usize,
    apart: bool,
    /// Whether each of them has one thread that writes, and only readers else.
    one_writer: bool,
    threads: FastSet<u32>,
}

/// A finding for each object whose lines nodes take from each other for a part of the time that matters.
pub fn findings(
    input: &Input,
    context: &Context,
    tally: &Tally,
    rows: &[RowFacts],
    course: &Course,
) -> Vec<Finding> {
    let mut by_row: FastMap<u32, Row> = FastMap::default();
    for (&(row, ..), users) in tally.transfers.iter().filter(|t| t.0.0 != NONE) {
        let sum =
            by_row.entry(row).or_insert_with(|| Row { apart: true, one_writer: true, ..Row::default() });
        let lines: u64 = users.values().map(|n| n[0]).sum();
        // A barrier or lock of the runtime: its threads wait for each other, and nothing of the program's lies there.
        let by_runtime: u64 = users.values().map(|n| n[3]).sum();
        if 2 * by_runtime > lines {
            continue;
        }
        sum.all += lines;
        let nodes: FastSet<u8> = users.keys().map(|u| u.2).collect();
        let written = users.values().any(|n| n[1] > 0);
        if users.values().map(|n| n[2]).sum::<u64>() >= SAMPLES
            && nodes.iter().filter(|&&n| n != UNKNOWN).count() > 1
            && written
        {
            sum.hot += lines;
            sum.lines += 1;
            sum.apart &= apart(users);
            let writers: FastSet<u32> = users.iter().filter(|u| u.1[1] > 0).map(|u| u.0.0).collect();
            sum.one_writer &= writers.len() == 1;
            sum.threads.extend(users.keys().map(|u| u.0));
        }
    }
    let busy: f64 = course.pieces().iter().flat_map(|p| &p.cores).map(|c| c.busy_ns).sum();
    let mut found: Vec<Finding> = by_row
        .into_iter()
        .filter(|(_, r)| r.hot as f64 >= HOT * r.all as f64 && r.lines > 0)
        .filter_map(|(id, row)| {
            let share = row.hot as f64 * course.transfer_ns() / busy.max(1.0);
            (share >= WORTH).then(|| finding(input, context, rows, id, row, share.min(1.0)))
        })
        .collect();
    found.sort_by(|a, b| b.stake.total_cmp(&a.stake).then_with(|| a.objects.cmp(&b.objects)));
    found
}

/// Whether threads touch different bytes of a line.
fn apart(users: &LineUsers) -> bool {
    let mut owner: FastMap<u8, (u32, u64)> = FastMap::default();
    let mut others = 0;
    let mut ordered: Vec<_> = users.iter().collect();
    ordered.sort_unstable();
    for (&(thread, byte, _), n) in ordered {
        let first = owner.entry(byte).or_insert((thread, 0));
        if first.0 == thread {
            first.1 += n[0];
        } else {
            others += n[0];
        }
    }
    // A sum at the end may be read by anybody.
    others * 10 <= owner.values().map(|o| o.1).sum::<u64>()
}

fn finding(input: &Input, context: &Context, rows: &[RowFacts], id: u32, row: Row, share: f64) -> Finding {
    let about = &context.rows.rows[id as usize];
    let facts = rows.iter().find(|f| f.row == id as usize);
    let site = about.site.map(|s| context.sites.get(s));
    let count = row.lines;
    let s = if count == 1 { "" } else { "s" };
    let mut tids: Vec<u32> =
        row.threads.iter().filter_map(|&t| input.threads.tid.get(t as usize).copied()).collect();
    tids.sort_unstable();
    let names: Vec<String> = tids.iter().map(u32::to_string).collect();
    let (kind, text, advice) = match row.apart {
        true => (
            "false_sharing",
            match row.one_writer {
                true => format!(
                    "a thread writes to {}, and threads of other nodes read different bytes of the same cache line{s}",
                    about.name
                ),
                false => format!(
                    "threads of several nodes write to different bytes of the same cache line{s} of {}",
                    about.name
                ),
            },
            format!(
                "Give each thread's part of {} cache lines of its own (alignas({LINE}), or {} bytes apart because of \
                 the prefetcher), or sum in a local variable and write once.",
                about.name,
                2 * LINE
            ),
        ),
        false if row.one_writer => (
            "contended_line",
            format!("a thread writes to bytes of {} that threads of other nodes read", about.name),
            format!(
                "Write to {} less often, or let the others look at it less often: each look after a write fetches the \
                 line from the writer's node.",
                about.name
            ),
        ),
        false => (
            "contended_line",
            format!("threads of several nodes write to the same bytes of {}", about.name),
            format!(
                "Let threads write to {} less often: a counter per thread or node that is summed at the end, or a lock \
                 per node.",
                about.name
            ),
        ),
    };
    let used = facts.map_or(String::new(), |f| format!(" {}", place(&f.used_at, &f.used_in)));
    Finding {
        kind: kind.to_string(),
        objects: vec![about.name.clone()],
        cause: Cause {
            at: facts.and_then(|f| f.used_at.clone()).or_else(|| site.and_then(|s| s.at.clone())),
            function: facts.and_then(|f| f.used_in.clone()).or_else(|| site.and_then(|s| s.function.clone())),
            text,
        },
        evidence: vec![format!(
            "{}: about {} times a cache of another node supplied one of {count} line{s}{used}; by {} threads: {}",
            about.name,
            row.hot,
            tids.len(),
            advice::listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        )],
        advice,
        repairs: Vec::new(),
        predicted: None,
        predicted_why: Some(format!(
            "waiting for these lines is {} of the cores' time, but emulated cpus run in turns and take lines from each \
             other less often than real ones",
            percent(share)
        )),
        stake: share,
        rank: 0,
    }
}
