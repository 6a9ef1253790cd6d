//! Cache lines that nodes take from each other.
//!
//! Threads that write to different bytes of one line share it without meaning to: the line goes from cache
//! to cache with every write. Threads that write to the same bytes share on purpose, a lock or a counter.

use super::advice::{self, place};
use super::cases::CACHED_PAGES;
use super::context::Context;
use super::counters::{Counters, LineUsers};
use super::hash::{FastMap, FastSet};
use super::nodes::UNKNOWN;
use super::object_rows::RowUse;
use super::sites::SiteId;
use super::thresholds::WORTH;
use super::value::{Cause, Finding, Predicted};
use nearfar_figures::percent::percent;
use nearfar_machine::LINE_BYTES;
use nearfar_recording::{LEAD_NS, NONE, ObjectKind};
use nearfar_timing::Timeline;

/// Samples of a line from which on it is known who shares it. // chosen
const SAMPLES: u64 = 8;
/// Part of a row's transfers that must be of such lines. // chosen
const HOT: f64 = 0.5;

/// Largest part of what is written (or read) at other threads' bytes where each thread has bytes of its own: a thread
/// has to set them to zero, and a sum at the end reads all of them. // chosen
const FOREIGN: f64 = 0.1;

/// How long a turn of two emulated cpus is, simulated ns: one is behind by the lead that the emulator allows, then as much
/// ahead. Within it, a cpu keeps a line that a real one would have to give away.
const TURN_NS: f64 = 2.0 * LEAD_NS;
/// Part of these turns in which a line is taken, from which on how often it would be taken is not known. // chosen
const EVERY_TURN: f64 = 0.5;
/// Times that a line must be taken for that: fewer are how threads start and end. // chosen
const MANY: u64 = 64;

/// Locked accesses that a core makes at most before another core has taken the line. Two threads that add to one line (`lock xadd`)
/// need 33 ns for each addition on a Xeon 6 (Granite Rapids, two cores of a die), and 4.4 ns where each has a line of its own: with
/// 60 ns from core to core that is 3.7. // chosen
const HELD: f64 = 5.0;
/// A locked addition to a line that no other core wants, ns: measured on that processor.
const LOCKED_NS: f64 = 4.4;

/// The lines that are taken back and forth, by row.
#[derive(Default)]
struct Row {
    all: u64,
    hot: u64,
    lines: usize,
    /// Of `hot`, on lines that are taken as often as emulated cpus let each other.
    at_limit: u64,
    /// Of `hot`, on lines of which each thread uses bytes of its own.
    apart: u64,
    /// Of `hot`, on lines with one thread that writes, and only readers else.
    one_writer: u64,
    /// Accesses to `hot` lines that write them, and those that lock them, while cores took them from each other all the time.
    written: u64,
    locked: u64,
    /// What cores would wait for these lines, ns.
    waits: Waits,
    threads: FastSet<u32>,
}

impl Row {
    /// Whether each access to its lines was seen, and so how often real cores take them.
    fn is_counted(&self) -> bool {
        self.written + self.locked > 0
    }
}

/// A finding of an object whose lines nodes take from each other.
pub struct Shared {
    /// The finding.
    pub finding: Finding,
    /// The object's row.
    pub row: usize,
    /// Whether it has so few pages that nothing else moves its lines: what is written back from one cache and read by
    /// another goes through memory, and where that is does not matter.
    pub explains_all: bool,
}

/// A finding for each object whose lines nodes take from each other for a part of the time that matters.
pub fn findings(context: &Context, counters: &Counters, rows: &[RowUse], timeline: &Timeline) -> Vec<Shared> {
    let busy: f64 = timeline.pieces().iter().flat_map(|p| &p.cores).map(|c| c.busy_ns).sum();
    let longest = timeline.pieces().iter().map(|p| p.cores.iter().map(|c| c.busy_ns).fold(0.0, f64::max));
    let elapsed: f64 = longest.sum();
    let mut by_row: FastMap<u32, Row> = FastMap::default();
    let mut taken = 0u64;
    for (&(row, ..), users) in &counters.transfers {
        let lines: u64 = users.values().map(|n| n.lines).sum();
        // A barrier or queue of the runtime: its threads wait for each other, and nothing of the program's is there. A
        // lock that is a variable of the program is its own.
        let by_runtime: u64 = users.values().map(|n| n.by_runtime).sum();
        if 2 * by_runtime > lines && !context.is_variable(row) {
            continue;
        }
        taken += lines;
        if row == NONE {
            continue;
        }
        let sum = by_row.entry(row).or_default();
        sum.all += lines;
        let nodes: FastSet<u8> = users.keys().map(|u| u.2).collect();
        let written = users.values().any(|n| n.stored + n.writes() > 0);
        if users.values().map(|n| n.samples).sum::<u64>() >= SAMPLES
            && nodes.iter().filter(|&&n| n != UNKNOWN).count() > 1
            && written
        {
            sum.hot += lines;
            sum.lines += 1;
            let at_limit = lines >= MANY && lines as f64 * TURN_NS >= EVERY_TURN * elapsed;
            sum.at_limit += if at_limit { lines } else { 0 };
            sum.apart += if apart(users) { lines } else { 0 };
            let writers: FastSet<u32> = users.iter().filter(|u| u.1.stored > 0).map(|u| u.0.0).collect();
            sum.one_writer += if writers.len() == 1 { lines } else { 0 };
            sum.written += users.values().map(|n| n.written).sum::<u64>();
            sum.locked += users.values().map(|n| n.locked).sum::<u64>();
            sum.waits.add(users, timeline.transfer_ns());
            sum.threads.extend(users.keys().map(|u| u.0));
        }
    }
    // Cores may wait for several lines at a time: all of them cannot take more than the cores' time.
    let each = timeline.transfer_ns().min(busy / taken.max(1) as f64);
    let mut found: Vec<Shared> = by_row
        .into_iter()
        .filter(|(_, r)| r.hot as f64 >= HOT * r.all as f64 && r.lines > 0)
        .filter_map(|(id, row)| {
            let share = row.hot as f64 * each / busy.max(1.0);
            let shares = match row.is_counted() {
                true => {
                    // Transfers that were counted are in `busy`, overlapped: little beside these waits.
                    let alone = busy + row.locked as f64 * LOCKED_NS;
                    let [least, most] = row.waits.shares(alone.max(1.0));
                    // What is read must have come; what each thread writes for itself may wait in its store buffer.
                    let read = if 2 * row.apart > row.hot { 0.0 } else { share };
                    [least.max(read), most.max(read)]
                }
                false => [share; 2],
            };
            let row_use = rows.iter().find(|f| f.row == id as usize);
            // A line that is taken in every turn may cost anything, unless the accesses to it were counted.
            let seen = row.at_limit > 0 || share >= WORTH;
            let may_cost = seen && (!row.is_counted() || shares[1] >= WORTH);
            (shares[0] >= WORTH || may_cost).then(|| Shared {
                finding: finding(context, counters, row_use, id, row, shares),
                row: id as usize,
                explains_all: row_use
                    .is_some_and(|f| f.pages.total.saturating_sub(f.pages.absent_or_unknown) <= CACHED_PAGES),
            })
        })
        .collect();
    found.sort_by(|a, b| {
        let (a, b) = (&a.finding, &b.finding);
        b.at_risk.total_cmp(&a.at_risk).then_with(|| a.objects.cmp(&b.objects))
    });
    found
}

/// Whether each thread uses bytes of its own in a line. What counts is who writes a byte: a thread that reads all of
/// them now and then shares nothing on purpose. Of a single writer's line, whether the readers want other bytes.
fn apart(users: &LineUsers) -> bool {
    let mut writers: FastMap<u8, FastMap<u32, u64>> = FastMap::default();
    for (&(thread, byte, _), n) in users.iter().filter(|u| u.1.stored > 0) {
        *writers.entry(byte).or_default().entry(thread).or_default() += n.stored;
    }
    let all: u64 = writers.values().flat_map(|w| w.values()).sum();
    let own: u64 = writers.values().filter_map(|w| w.values().max()).sum();
    let threads: FastSet<u32> = writers.values().flat_map(|w| w.keys().copied()).collect();
    if threads.len() > 1 {
        return (all - own) as f64 <= FOREIGN * all as f64;
    }
    let reads = |at: &dyn Fn(u8) -> bool| -> u64 {
        let others = users.iter().filter(|u| !threads.contains(&u.0.0) && at(u.0.1));
        others.map(|u| u.1.lines).sum()
    };
    reads(&|byte| writers.contains_key(&byte)) as f64 <= FOREIGN * reads(&|_| true) as f64
}

/// What cores would wait for lines for which they compete, ns.
///
/// Emulated cpus keep a line for their turns, so what counts is how often it is accessed.
/// - At most, an access waits for `n` transfers: `n` cores get the line one after the other.
/// - At least, a locked one waits for `n` / [`HELD`] of them, or for one if that is less: a core makes so many accesses before it
///   has to give the line away, and the others may do something else meanwhile.
/// - At least, a plain store waits for nothing: it may stay in the store buffer, and a core that has the line writes all that is there.
#[derive(Default)]
struct Waits {
    least: f64,
    most: f64,
}

impl Waits {
    fn add(&mut self, users: &LineUsers, far_ns: f64) {
        // By thread: its accesses, and the node from which most of them were made.
        let mut by_thread: FastMap<u32, (u64, u64, u8)> = FastMap::default();
        let (mut written, mut locked) = (0.0, 0.0);
        for (&(thread, _, node), n) in users.iter().filter(|u| u.1.writes() > 0) {
            let of = by_thread.entry(thread).or_default();
            of.0 += n.writes();
            (of.1, of.2) = (of.1, of.2).max((n.writes(), node));
            (written, locked) = (written + n.written as f64, locked + n.locked as f64);
        }
        if by_thread.len() < 2 {
            return;
        }
        let threads = by_thread.len() as f64;
        // How often the next thread that gets the line is on another node.
        let mut by_node: FastMap<u8, f64> = FastMap::default();
        by_thread.values().for_each(|of| *by_node.entry(of.2).or_default() += 1.0);
        let near: f64 = by_node.values().map(|t| t * (t - 1.0)).sum();
        let each = (1.0 - near / (threads * (threads - 1.0))) * far_ns;
        // The line comes back to a thread at most as often as it has gone to the others.
        let all = written + locked;
        let most = by_thread.values().map(|of| of.0).max().unwrap_or_default() as f64;
        let moved = (2.0 * (all - most) / all).min(1.0);
        self.least += moved * locked * each * (threads / HELD).min(1.0);
        self.most += moved * all * threads * far_ns;
    }

    /// At least and at most, of the time that the cores would need then. `alone_ns`: what they need without rivals.
    fn shares(&self, alone_ns: f64) -> [f64; 2] {
        [self.least, self.most].map(|ns| ns / (ns + alone_ns))
    }
}

/// The line of code that writes a row's lines most, where one was seen to write.
fn written_at(counters: &Counters, row_use: Option<&RowUse>, id: u32) -> Option<SiteId> {
    let taken = counters.taken_at.iter().filter(|t| t.0.0 == id).map(|(&(_, site), n)| (n[1], site));
    let stored = row_use.map_or(&[][..], |f| &f.lines).iter().map(|l| (l.1.stores, l.0));
    let most = |of: &mut dyn Iterator<Item = (u64, SiteId)>| {
        of.filter(|s| s.0 > 0).max_by_key(|s| (s.0, std::cmp::Reverse(s.1))).map(|s| s.1)
    };
    most(&mut taken.into_iter()).or_else(|| most(&mut stored.into_iter()))
}

/// What threads write to, by the object that it is in: a stack is shared for a variable that is on it.
fn written_thing(kind: ObjectKind, name: &str) -> &str {
    match kind {
        ObjectKind::Stack => "a variable on a thread's stack",
        _ => name,
    }
}

/// What is wrong where threads use different bytes of a line, and what to change. `s`: the plural's, of several lines.
pub fn of_different_bytes(name: &str, one_writer: bool, s: &str) -> [String; 2] {
    [
        match one_writer {
            true => format!(
                "a thread writes to {name}, and threads of other nodes read different bytes of the same cache line{s}"
            ),
            false => {
                format!(
                    "threads of several nodes write to different bytes of the same cache line{s} of {name}"
                )
            }
        },
        format!(
            "Pad {name}: give each thread's part cache lines of its own (alignas({LINE_BYTES}), or {} bytes apart because of the \
             prefetcher), or sum in a local variable and write once.",
            2 * LINE_BYTES
        ),
    ]
}

fn finding(
    context: &Context,
    counters: &Counters,
    row_use: Option<&RowUse>,
    id: u32,
    row: Row,
    [share, most]: [f64; 2],
) -> Finding {
    let about = &context.rows.rows[id as usize];
    let name = written_thing(about.kind, &about.name);
    let written = written_at(counters, row_use, id).map(|s| context.sites.get(s));
    let allocated = about.site.map(|s| context.sites.get(s));
    let site = written.or(allocated);
    let one_writer = 2 * row.one_writer > row.hot;
    let count = row.lines;
    let s = if count == 1 { "" } else { "s" };
    let order = &context.finder.nodes.order;
    let mut threads: Vec<u32> = row.threads.iter().filter_map(|&t| order.get(t as usize).copied()).collect();
    threads.sort_unstable();
    let names: Vec<String> = threads.iter().map(u32::to_string).collect();
    let (kind, text, advice) = match 2 * row.apart > row.hot {
        true => {
            let [text, advice] = of_different_bytes(name, one_writer, s);
            ("false_sharing", text, advice)
        }
        false if one_writer => (
            "contended_line",
            format!("a thread writes to bytes of {name} that threads of other nodes read"),
            format!(
                "Write to {name} less often, or let the others look at it less often: each look after a write fetches the \
                 line from the writer's node."
            ),
        ),
        false => (
            "contended_line",
            format!("threads of several nodes write to the same bytes of {name}"),
            format!(
                "Let threads write to {name} less often: a counter per thread or node that is summed at the end, or a lock \
                 per node."
            ),
        ),
    };
    let used = written.map_or(String::new(), |s| format!("; it is written {}", place(&s.at, &s.function)));
    Finding {
        kind: kind.to_string(),
        objects: vec![about.name.clone()],
        cause: Cause {
            at: site.and_then(|s| s.at.clone()),
            function: site.and_then(|s| s.function.clone()),
            text,
            processes: 0,
        },
        evidence: vec![format!(
            "{}: about {} times a cache of another node supplied one of {count} line{s}{used}; used by {} threads: {}",
            about.name,
            row.hot,
            threads.len(),
            advice::listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        )],
        advice,
        repairs: Vec::new(),
        predicted: row.is_counted().then(|| Predicted {
            ratio: ((1.0 - share) * (1.0 - most)).sqrt(),
            low: 1.0 - most,
            high: 1.0 - share,
        }),
        predicted_from: row.is_counted().then(|| {
            format!(
                "{} accesses to these lines that write, {} of them locked: real cores give a line away after 1 to {HELD} locked \
                 accesses (on the one processor that was measured 3.7), and store buffers may hide all of the others",
                row.written + row.locked,
                row.locked
            )
        }),
        predicted_after_better: None,
        predicted_why: (!row.is_counted()).then(|| format!(
            "waiting for these lines is {}{} of the cores' time, but emulated cpus run in turns of some 10 µs and take \
             lines from each other less often than real ones",
            if row.at_limit > 0 && share < 1.0 { "at least " } else { "" },
            percent(share)
        )),
        at_risk: most,
        phases: None,
        rank: 0,
    }
}
