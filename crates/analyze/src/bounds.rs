//! What excerpts say of code whose speed does not show: how much of its time waits for memory at most.
//!
//! An excerpt counts which lines a part of the program took from beyond caches of some sizes ([`nearfar_recording::ExcerptBlocks`]). By
//! pages of code, of all excerpts:
//!
//! ```text
//! lines an instruction · near latency / (lines an instruction · near latency + time of an instruction)
//! ```
//!
//! is the part of the time that waits at most if no two lines are on their way at a time, on the machine that is judged, with its time of an
//! instruction. Lines in order are asked for ahead, so they count only if they are more than that machine's far memory gives. A line
//! that an excerpt had not used before counts as one from memory, whatever a cache had. Lines of other threads are counted as often as
//! they may have come: each time that a thread used a line which an excerpt of another one writes, as often as that writes it.

use super::cached::last_level;
use super::context::Context;
use super::core_figures::{figures, own_cache};
use super::counters::Counters;
use super::excerpted::Page;
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::native::Gives;
use super::nodes::UNKNOWN;
use super::spent::Spot;
use super::value::ExcerptCounts;
use nearfar_machine::LINE_BYTES;
use nearfar_recording::EXCERPT_CACHES;
use std::collections::BTreeMap;

/// Excerpts that have to have been in a page of code. // chosen
const TWICE: usize = 2;
/// Instructions that have to be counted in a page of code. // chosen: of fewer, the error of the number of lines decides
const LEAST_OF_PAGE: u64 = 100_000;
/// Part of an excerpt's own number of lines that another page of code's excerpts may have. // chosen: see `rate`
const WEIGHTY: f64 = 0.1;
/// Part of the time of all threads from which on a thread needs an excerpt, as it may write to what others use. // chosen
const THREAD: f64 = 0.02;

/// How much may wait at most, by page of code and whether the memory is far.
#[derive(Debug, Default)]
pub struct Bounds {
    at_most: FastMap<(u32, bool), f64>,
    /// Far samples of each row that cannot be waiting, as a weight.
    pub settled: FastMap<u32, f64>,
    /// Weight of all samples at work.
    time: f64,
    /// For the report; `None` without excerpts.
    pub report: Option<ExcerptCounts>,
}

impl Bounds {
    /// From the excerpts, and from the samples beside loops of known speed.
    pub fn new(input: &Input, judge: &Judge, context: &Context, counters: &Counters) -> Bounds {
        let excerpted = context.excerpted;
        if excerpted.count[1] == 0 {
            return Bounds::default();
        }
        let found = of_code(input, judge, context, counters);
        let mut bounds = Bounds { time: counters.working.weight as f64, ..Bounds::default() };
        let all = counters.working.weight.max(1) as f64;
        let (mut covered, mut waits) = (0.0, 0.0);
        if let Ok(parts) = &found {
            // Sums of floating-point numbers depend on the order.
            let spent = &counters.spent;
            let mut beside: Vec<_> = spent.beside.iter().map(|(&key, &weight)| (key, weight)).collect();
            beside.sort_unstable();
            let mut pages: Vec<_> = spent.pages.iter().map(|(&page, &weight)| (page, weight)).collect();
            pages.sort_unstable();
            let mut of_kind: FastMap<(u32, bool), f64> = FastMap::default();
            for &((thread, spot, page), weight) in &beside {
                *of_kind.entry((page, is_far(context, counters, thread, spot))).or_default() += weight as f64;
            }
            for (page, weight) in pages {
                let Some(&part) = parts.get(&page) else { continue };
                covered += weight as f64;
                waits += part * weight as f64;
                // All that waits may be on the far part of the memory, or on the near one.
                for far in [false, true] {
                    let of_kind = of_kind.get(&(page, far)).copied().unwrap_or(0.0);
                    let at_most = (part * weight as f64 / of_kind.max(1.0)).min(1.0);
                    bounds.at_most.insert((page, far), at_most);
                }
            }
            for &((thread, spot, page), weight) in &beside {
                if spot.page_node != UNKNOWN && is_far(context, counters, thread, spot) {
                    let cannot = weight as f64 * (1.0 - bounds.of(page, true));
                    *bounds.settled.entry(spot.row).or_default() += cannot;
                }
            }
        }
        bounds.report = Some(ExcerptCounts {
            count: excerpted.count[0] as u64,
            too_short: (excerpted.count[1] - excerpted.count[0]) as u64,
            instructions: excerpted.instructions,
            covered_share: (covered / all).min(1.0),
            waits_at_most_share: found.is_ok().then(|| ((all - covered).max(0.0) + waits) / all),
            why: found.err(),
            source: SOURCE.to_owned(),
        });
        bounds
    }

    /// Far samples that cannot be waiting, as a share of the time.
    pub fn settled_share(&self) -> f64 {
        // In an order that is the same in every run.
        let mut settled: Vec<f64> = self.settled.values().copied().collect();
        settled.sort_by(f64::total_cmp);
        settled.iter().sum::<f64>() / self.time.max(1.0)
    }

    /// Part of the time on memory, in a page of code, that waits at most.
    pub fn of(&self, page: u32, far: bool) -> f64 {
        self.at_most.get(&(page, far)).copied().unwrap_or(1.0)
    }

    /// The same of a thread's time on a spot.
    pub fn of_spot(&self, context: &Context, counters: &Counters, thread: u32, spot: Spot, page: u32) -> f64 {
        if self.at_most.is_empty() {
            return 1.0;
        }
        self.of(page, is_far(context, counters, thread, spot))
    }
}

/// Where it comes from, in words.
const SOURCE: &str = "copies of the running program, whose accesses were counted with modelled caches";

fn is_far(context: &Context, counters: &Counters, thread: u32, spot: Spot) -> bool {
    let own = context.threads.get(thread).map_or(UNKNOWN, |t| context.node_of_user(counters, t as u32));
    spot.page_node == UNKNOWN || spot.page_node != own
}

/// Part of the time that waits at most, by page of code.
fn of_code(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
) -> Result<FastMap<u32, f64>, String> {
    let excerpted = context.excerpted;
    if excerpted.count[0] < TWICE {
        return Err(format!(
            "{} of {} are long enough, and {TWICE} are needed",
            excerpted.count[0], excerpted.count[1]
        ));
    }
    let figures = figures(&judge.machine)?;
    let mut of_threads: BTreeMap<u32, u64> = BTreeMap::new();
    for (&(thread, _), &[_, weight]) in counters.spent.blocks.iter() {
        *of_threads.entry(thread).or_default() += weight;
    }
    let all: u64 = of_threads.values().sum();
    let busy: Vec<u32> = of_threads
        .iter()
        .filter(|&(_, &weight)| weight as f64 >= THREAD * all as f64)
        .map(|(&thread, _)| thread)
        .collect();
    let without = busy.iter().filter(|thread| !excerpted.threads.contains(thread)).count();
    if busy.len() > 1 && without > 0 {
        return Err(format!(
            "{without} of {} threads have none: they may write to what the others use",
            busy.len()
        ));
    }
    let last = last_level(input, judge).ok_or("the machine's caches are not known")?;
    // All threads may be on one node.
    let cache = own_cache(&judge.machine, 0, last, busy.len()).unwrap_or(0.0);
    let size = EXCERPT_CACHES.iter().rposition(|&bytes| bytes as f64 <= cache);
    let size = size.ok_or("a thread has less cache than excerpts tell apart")?;
    let gives = Gives::new(judge);
    let mut parts = FastMap::default();
    for (number, page) in excerpted.pages.iter().enumerate() {
        let instructions: u64 = page.values().map(|p| p.instructions).sum();
        if page.len() < TWICE || instructions < LEAST_OF_PAGE {
            continue;
        }
        let in_order = rate(page, |p| p.in_order[size]);
        let bytes_per_ns = in_order * LINE_BYTES as f64 / figures.instruction_ns;
        if !gives.enough(bytes_per_ns, bytes_per_ns * busy.len() as f64) {
            continue;
        }
        let ns = (rate(page, |p| p.at_random[size]) + excerpted.exchanged) * figures.near_ns;
        parts.insert(number as u32, ns / (ns + figures.instruction_ns));
    }
    Ok(parts)
}

/// Lines by instruction at most: of all excerpts together, or of the one with the most among those that have a tenth of the instructions or
/// more; with the error of their number.
fn rate(page: &BTreeMap<u32, Page>, lines: impl Fn(&Page) -> u64) -> f64 {
    let all: u64 = page.values().map(|p| p.instructions).sum();
    // The upper end of a 95 % interval of a Poisson number, closely.
    let most = |n: u64| n as f64 + 2.0 * (n as f64).sqrt() + 3.0;
    let together = most(page.values().map(&lines).sum()) / all.max(1) as f64;
    let weighty = page.values().filter(|p| p.instructions as f64 >= WEIGHTY * all as f64);
    weighty.map(|p| most(lines(p)) / p.instructions as f64).fold(together, f64::max)
}
