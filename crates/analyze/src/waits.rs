//! Threads that wait for one cache line, from clock samples: different bytes of it that they write at the same time.
//!
//! What is needed: samples with exact addresses in loops that access fixed places only ([`super::spans`]); threads that the
//! judged machine has on different nodes; bytes that only one of them writes; and pairs of samples in which an
//! iteration took longer than without waiting, while such a thread ran on another cpu. docs/native.md has the derivation.

use super::advice::{self, place};
use super::cases::CACHED_PAGES;
use super::context::Context;
use super::counters::{Counters, OnLine};
use super::hash::{FastMap, FastSet};
use super::input::Input;
use super::nodes::{NodeIndex, UNKNOWN};
use super::object_rows::RowUse;
use super::sharing::{Shared, of_different_bytes};
use super::spans::{Fixed, Span};
use super::stats::{LEAST_SAMPLES, draws_interval};
use super::thresholds::THRESHOLD;
use super::value::{Basis, Cause, Finding};
use nearfar_figures::percent::ends;
use nearfar_machine::LINE_BYTES;
use nearfar_recording::{Access, Columns, NONE};

/// Samples of a thread on a line from which on it is one of those that use it. // chosen
const SAMPLES: u64 = 20;
/// Pairs of samples of a thread with a writer beside it below which its waiting is unknown. // chosen
const PAIRS: usize = 20;
/// Part of a pair's time in which a thread of another node ran on another cpu, from which on they ran at the same time. // chosen
const BESIDE: f64 = 0.5;
/// Part of the pairs that is left out, those that waited most: passes that ended unseen, or another reason. // chosen
const LEFT_OUT: f64 = 0.1;

/// A thread on a line, in a loop.
struct User<'a> {
    thread: u32,
    node: NodeIndex,
    fixed: &'a Fixed,
    samples: u64,
    weight: u64,
    /// Bytes in the line that it uses, and whether it writes them: first, behind the last.
    bytes: Vec<(u64, u64, bool)>,
    /// Whether each place that the loop accesses was seen: otherwise, which bytes it writes is not known.
    all_seen: bool,
}

impl User<'_> {
    fn writes(&self) -> bool {
        self.bytes.iter().any(|b| b.2)
    }
}

/// What the users of a line wait.
#[derive(Clone, Copy, Default)]
struct Waited {
    /// Samples, and weights of what they wait at least and at most.
    samples: f64,
    low: f64,
    high: f64,
    /// All of their weight.
    weight: f64,
    /// Time of an iteration of the user that is slowest beside another, and what it takes at most without waiting, ns.
    took_ns: [f64; 2],
}

/// A line, its users, and what they wait for it.
type OfLine<'a> = (&'a OnLine, Vec<User<'a>>, Waited);

/// A finding for each object of which threads of several nodes write different bytes of one line, and wait for it for more of
/// the time than what separates clean from affected.
pub fn findings(context: &Context, counters: &Counters, rows: &[RowUse]) -> Vec<Shared> {
    if context.measure.basis != Basis::StallTime || counters.working.samples < LEAST_SAMPLES {
        return Vec::new();
    }
    let mut by_row: FastMap<u32, Vec<OfLine>> = FastMap::default();
    let places = places(counters);
    for (&(row, _, _), on_line) in &counters.on_lines {
        let users = users(context, counters, on_line, &places);
        if let Some(waited) = waited(context.input, &users) {
            by_row.entry(row).or_default().push((on_line, users, waited));
        }
    }
    let all = counters.working;
    let mut found: Vec<Shared> = by_row
        .into_iter()
        .filter_map(|(row, lines)| {
            let sum = |of: fn(&Waited) -> f64| lines.iter().map(|l| of(&l.2)).sum::<f64>();
            // Samples draw how much of the time is on the line.
            let (hits, weight) = (sum(|w| w.samples) as u64, sum(|w| w.weight).max(1.0));
            let drawn = draws_interval(hits.min(all.samples), all.samples)?;
            let (low, high) = (sum(|w| w.low) / weight * drawn.low, sum(|w| w.high) / weight * drawn.high);
            (low >= THRESHOLD).then(|| Shared {
                finding: finding(context, row, &lines, [low, high.max(low)]),
                row: row as usize,
                explains_all: rows
                    .iter()
                    .find(|f| f.row == row as usize)
                    .is_some_and(|f| f.pages.total <= CACHED_PAGES),
            })
        })
        .collect();
    found.sort_by(|a, b| {
        let (a, b) = (&a.finding, &b.finding);
        b.at_risk.total_cmp(&a.at_risk).then_with(|| a.objects.cmp(&b.objects))
    });
    found
}

/// Address space, line and byte in it.
type Places = FastSet<(u32, u64, u8)>;

/// Byte in the line, location of the operand, and sums of [`OnLine`].
type Seen = (u64, u32, [u64; 3]);

/// How many places each thread was seen to access in each loop.
fn places(counters: &Counters) -> FastMap<(u32, u32), usize> {
    let mut all: FastMap<(u32, u32), Places> = FastMap::default();
    for (&(_, space, line), on_line) in &counters.on_lines {
        for &(thread, byte, loop_id, _) in on_line.keys() {
            all.entry((thread, loop_id)).or_default().insert((space, line, byte));
        }
    }
    all.into_iter().map(|(by, places)| (by, places.len())).collect()
}

/// The threads that use a line in loops of known speed.
fn users<'a>(
    context: &Context<'a>,
    counters: &Counters,
    on_line: &OnLine,
    places: &FastMap<(u32, u32), usize>,
) -> Vec<User<'a>> {
    let streams = &context.input.loop_streams;
    let mut by_loop: FastMap<(u32, u32), Vec<Seen>> = FastMap::default();
    for (&(thread, byte, loop_id, operand), n) in on_line {
        by_loop.entry((thread, loop_id)).or_default().push((u64::from(byte), operand, *n));
    }
    let mut users = Vec::new();
    for ((thread, loop_id), seen) in by_loop {
        let id = context.input.threads.id[thread as usize];
        let Some(fixed) = context.native.fixed(id, loop_id) else { continue };
        let own: Vec<usize> = (0..streams.len()).filter(|&i| streams.loop_id[i] == loop_id).collect();
        let stores = |i: usize| [Access::Store as u8, Access::LoadStore as u8].contains(&streams.access[i]);
        let widest = own.iter().map(|&i| u64::from(streams.bytes[i])).max().unwrap_or(1);
        let mut bytes: Vec<(u64, u64, bool)> = Vec::new();
        for &(byte, operand, n) in &seen {
            let stream = own.iter().copied().find(|&i| streams.ip[i] == operand);
            let writes = n[1] > 0 || stream.is_some_and(stores);
            let end = byte + stream.map_or(widest, |i| u64::from(streams.bytes[i]));
            match bytes.iter_mut().find(|b| b.0 == byte) {
                Some(known) => *known = (byte, known.1.max(end), known.2 | writes),
                None => bytes.push((byte, end, writes)),
            }
        }
        let sum = |k: usize| seen.iter().map(|s| s.2[k]).sum::<u64>();
        users.push(User {
            thread,
            node: context.node_of_user(counters, thread),
            fixed,
            samples: sum(0),
            weight: sum(2),
            bytes,
            all_seen: places.get(&(thread, loop_id)).is_some_and(|&n| n >= own.len()),
        });
    }
    users.sort_by_key(|u| (u.thread, u.bytes.first().map(|b| b.0)));
    users
}

/// What the users of a line wait for each other; `None` where they do not write different bytes of it, or nothing shows it.
fn waited(input: &Input, users: &[User]) -> Option<Waited> {
    let users: Vec<&User> = users.iter().filter(|u| u.samples >= SAMPLES).collect();
    let meet = |a: &User, b: &User| {
        let both = |x: &(u64, u64, bool), y: &(u64, u64, bool)| (x.2 || y.2) && x.0 < y.1 && y.0 < x.1;
        a.bytes.iter().any(|x| b.bytes.iter().any(|y| both(x, y)))
    };
    let others = |a: &User, b: &User| a.thread != b.thread;
    // What is written at the same bytes is shared on purpose; what reaches into the next line is slow for that.
    let shared = users.iter().any(|a| users.iter().any(|b| others(a, b) && meet(a, b)));
    let beyond = users.iter().any(|u| u.bytes.iter().any(|b| b.1 > LINE_BYTES));
    if shared || beyond || users.iter().any(|u| u.node == UNKNOWN || !u.all_seen) {
        return None;
    }
    let stolen = input.meta.steal_share.clamp(0.0, 1.0);
    let mut sum = Waited::default();
    for user in &users {
        let writers: Vec<&Fixed> = users
            .iter()
            .filter(|o| others(user, o) && o.node != user.node && o.writes())
            .map(|o| o.fixed)
            .collect();
        if writers.is_empty() {
            continue;
        }
        let weight = user.weight as f64;
        sum.samples += user.samples as f64;
        sum.weight += weight;
        let Some([low, high, took, most]) = of_user(user.fixed, &writers) else {
            sum.high += weight;
            continue;
        };
        sum.low += weight * (low - stolen).max(0.0);
        sum.high += weight * high;
        if low > 0.0 && took > sum.took_ns[0] {
            sum.took_ns = [took, most];
        }
    }
    (sum.low > 0.0).then_some(sum)
}

/// Parts of a thread's time that it waits at least and at most where each thread has a cpu, and what an iteration takes while one of
/// the writers runs beside it, and at most without waiting, ns. `None` of too few pairs.
fn of_user(fixed: &Fixed, writers: &[&Fixed]) -> Option<[f64; 4]> {
    let most = |span: &Span, of: fn(&Fixed, &Span) -> f64| {
        writers.iter().map(|w| of(w, span)).fold(0.0, f64::max).min(1.0)
    };
    // Of each pair with a writer beside it: what it took, and what of that is waiting.
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let (mut all_ns, mut present_ns, mut iterations, mut iterations_beside) = (0.0, 0.0, 0.0, 0.0);
    for span in &fixed.spans {
        all_ns += span.took_ns;
        iterations += span.iterations;
        present_ns += span.took_ns * most(span, Fixed::present);
        if most(span, Fixed::beside) >= BESIDE {
            let waits = (span.took_ns - fixed.most_ns * span.iterations).max(0.0);
            pairs.push((span.took_ns, waits));
            iterations_beside += span.iterations;
        }
    }
    if pairs.len() < PAIRS {
        return None;
    }
    let took: f64 = pairs.iter().map(|p| p.0).sum();
    let beside_ns = took / iterations_beside;
    pairs.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
    let left_out = (pairs.len() as f64 * LEFT_OUT).ceil() as usize;
    pairs.iter_mut().take(left_out).for_each(|p| p.1 = 0.0);
    let part = pairs.iter().map(|p| p.1).sum::<f64>() / took;
    // A ratio of sums: the spread of what each pair has beyond its part.
    let squares: f64 = pairs.iter().map(|p| (p.1 - part * p.0).powi(2)).sum();
    let error = 2.0 * squares.sqrt() / took;
    let low = (part - error).max(0.0) * present_ns / all_ns;
    let high = 1.0 - fixed.least_ns * iterations.min(iterations_beside * all_ns / took) / all_ns;
    Some([low, (high + error).clamp(low, 1.0), beside_ns, fixed.most_ns])
}

fn finding(context: &Context, row: u32, lines: &[OfLine], share: [f64; 2]) -> Finding {
    let about = &context.rows.rows[row as usize];
    let count = lines.len();
    let s = if count == 1 { "" } else { "s" };
    let users = || lines.iter().flat_map(|l| &l.1).filter(|u| u.samples >= SAMPLES);
    let writers: FastSet<u32> = users().filter(|u| u.writes()).map(|u| u.thread).collect();
    let mut threads: Vec<u32> = users().map(|u| context.finder.nodes.order[u.thread as usize]).collect();
    threads.sort_unstable();
    threads.dedup();
    let names: Vec<String> = threads.iter().map(u32::to_string).collect();
    // Where it is written: the code with most samples on it, of a thread that writes.
    let mut code: FastMap<u32, u64> = FastMap::default();
    for (&(thread, _, _, operand), n) in lines.iter().flat_map(|l| l.0) {
        if writers.contains(&thread) {
            *code.entry(operand).or_default() += n[2];
        }
    }
    let most = code.into_iter().max_by_key(|&(operand, weight)| (weight, std::cmp::Reverse(operand)));
    let written = most.and_then(|m| context.sites.of_code(m.0, NONE)).map(|site| context.sites.get(site));
    let site = written.or(about.site.map(|s| context.sites.get(s)));
    let [text, advice] = of_different_bytes(&about.name, writers.len() == 1, s);
    let slowest = lines.iter().map(|l| l.2.took_ns).max_by(|a, b| a[0].total_cmp(&b[0])).unwrap_or_default();
    let used = written.map_or(String::new(), |s| format!("; it is written {}", place(&s.at, &s.function)));
    let [low, high] = ends(share[0], share[1]);
    Finding {
        kind: "false_sharing".to_string(),
        objects: vec![about.name.clone()],
        cause: Cause {
            at: site.and_then(|s| s.at.clone()),
            function: site.and_then(|s| s.function.clone()),
            text,
            processes: 0,
        },
        evidence: vec![format!(
            "{}: an iteration of the loop took {:.1} ns while another thread wrote to {} line{s}, and takes {:.1} at most \
             where it waits for nothing{used}; used by {} threads: {}",
            about.name,
            slowest[0],
            if count == 1 { "the same".to_owned() } else { format!("one of {count}") },
            slowest[1],
            names.len(),
            advice::listed(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        )],
        advice,
        repairs: Vec::new(),
        predicted: None,
        predicted_from: None,
        predicted_after_better: None,
        predicted_why: Some(format!(
            "waiting for {} takes {low} to {high} of the time with the recorded machine's caches and a cpu for each thread; caches of \
             another node are farther",
            if count == 1 { "this line" } else { "these lines" }
        )),
        at_risk: share[0],
        phases: None,
        rank: 0,
    }
}
