//! What caches must have answered, from how much memory the program had.
//!
//! A sample on a page of another node is time on far memory only if the line came from there. A
//! program whose whole memory fits the last-level cache fetches each line from memory a few times
//! at most, whatever its pages' nodes: the kernel knows its largest resident size, and from it
//! follows a bound on far memory's time that no sample can contradict. What is left are lines that
//! the caches of several nodes take from each other: a clock cannot tell those from hits, so samples
//! on data that several nodes use, and somebody writes, stay open.

use super::attribute::Context;
use super::facts::{RowFacts, by_row, mib};
use super::hash::FastSet;
use super::input::{Input, Judge};
use super::nodes::{NodeIndex, UNKNOWN};
use super::tally::{BINS, Tally, Use};
use super::value::{Basis, CacheBound};
use crate::machine::CacheLevel;
use crate::recording::{Columns, ObjectKind};

/// Part of a cache that is sure to hold what fits it. Physical pages fall on its sets at random: at half the
/// capacity, a set of 16 ways is asked for 8 lines on average and for more than 16 in 0.4 of 100 cases (Poisson).
pub(super) const SURELY_HELD: f64 = 0.5;
/// Largest part of the CPU time that may be the kernel's: its copies go through the caches, too. // chosen
const MOST_KERNEL: f64 = 0.1;
/// Latency of far memory where the machine's is not known, ns: above that of the other socket's memory on every
/// machine of `machines/`, 210 at most; a CXL module may be slower. // assumed
const FAR_NS: f64 = 250.0;
/// Bytes of a cache line, of every machine that is described.
const LINE: f64 = 64.0;
/// What the kernel maps at once of a file that is in memory (fault_around_bytes, its default).
const FILE_FAULT: u64 = 64 << 10;
/// Samples that a piece of an object needs, on average, to tell who uses it. // chosen
pub(super) const PER_PIECE: u64 = 20;

/// The bound, or why there is none.
pub fn bound(
    input: &Input,
    judge: &Judge,
    context: &Context,
    tally: &Tally,
    facts: &[RowFacts],
) -> Result<CacheBound, String> {
    let meta = &input.meta;
    if context.measure.basis != Basis::StallTime {
        return Err("lines were counted".into());
    }
    if context.finder.nodes.count < 2 {
        return Err("the machine has one node".into());
    }
    if meta.largest_process_bytes == 0 {
        return Err("the recording does not say how much memory the program had: it was attached to, killed, or made \
                    by an older nearfar"
            .into());
    }
    let losses = &input.losses;
    if (0..losses.len()).any(|i| losses.what[i] == "processes" || losses.what[i] == "end") {
        return Err("processes went on after the recording, and how much memory they had is not known".into());
    }
    let Some(last) = last_level(input, judge) else {
        return Err("the machine's caches are not known".into());
    };
    let footprint = meta.largest_process_bytes.saturating_mul(most_at_once(input));
    if footprint as f64 > SURELY_HELD * last.size_bytes as f64 {
        return Err(format!(
            "the program had up to {:.1} MiB of memory at a time, more than half of the level {} cache of {:.1} MiB",
            mib(footprint),
            last.level,
            mib(last.size_bytes)
        ));
    }
    if meta.target_system_s < 0.0 || meta.target_cpu_s <= 0.0 {
        return Err("the CPU time of the kernel is not known".into());
    }
    if meta.target_system_s > MOST_KERNEL * meta.target_cpu_s {
        return Err(format!(
            "{:.0} % of the CPU time was the kernel's, whose copies take room in the caches",
            100.0 * meta.target_system_s / meta.target_cpu_s
        ));
    }
    // Each page is fetched line by line, once by each cache. What comes beyond the capacity pushes out as much.
    let brought = brought(input, context).max(footprint) as f64;
    let again = if brought > SURELY_HELD * last.size_bytes as f64 { brought } else { 0.0 };
    let fetched = (brought + again) / LINE;
    let cores = judge.machine.cpu_count() / judge.machine.threads_per_core.max(1) as usize;
    let instances = (cores / last.cores_per_instance.max(1) as usize).max(context.finder.nodes.count);
    let active = tally.threads.iter().filter(|t| t.sum.samples > 0).count().max(1);
    let far_ns = fetched * instances.min(active) as f64 * far_latency(judge);
    let total = tally.working.weight.max(1) as f64;
    let open = open(context, tally, facts) as f64 / total;
    // From samples, so with what 95 of 100 recordings stay below.
    let n = tally.working.samples.max(1) as f64;
    let margin = 1.96 * (open * (1.0 - open).max(0.0) / n).sqrt();
    Ok(CacheBound {
        memory_bytes: footprint,
        cache_level: last.level,
        cache_bytes: last.size_bytes,
        far_share_at_most: (far_ns / total).min(1.0),
        between_nodes_at_most: if open > 0.0 { (open + margin).min(1.0) } else { 0.0 },
    })
}

/// Latency of the farthest memory of the judged machine, idle, ns.
pub(super) fn far_latency(judge: &Judge) -> f64 {
    let ns = judge.machine.figures.latency_ns.as_ref().and_then(|m| {
        let n = judge.machine.nodes.len();
        let cells = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        cells.filter_map(|(from, to)| m.get(from, to)).max_by(f64::total_cmp)
    });
    ns.unwrap_or(FAR_NS)
}

/// The last-level cache of the judged machine; of the recorded one where a shape names no caches.
pub(super) fn last_level<'a>(input: &'a Input, judge: &'a Judge) -> Option<&'a CacheLevel> {
    let machine = if judge.machine.caches.is_empty() { &input.meta.machine } else { &judge.machine };
    machine.caches.iter().max_by_key(|c| c.level)
}

/// Most processes that were alive at a time.
fn most_at_once(input: &Input) -> u64 {
    let starts = input.processes.start_ns.iter().map(|&t| (t, 1i64));
    // Ends first where both have one time: exec ends one address space and begins another.
    let ends = input.process_ends.time_ns.iter().map(|&t| (t, -1i64));
    let mut all: Vec<(u64, i64)> = starts.chain(ends).collect();
    all.sort_unstable();
    let (mut now, mut most) = (0i64, 1i64);
    for (_, change) in all {
        now += change;
        most = most.max(now);
    }
    most as u64
}

/// Bytes of all pages that were mapped, in the course of the run, at most.
fn brought(input: &Input, context: &Context) -> u64 {
    let f = &input.faults;
    let base = input.meta.page_bytes.max(1);
    // A fault may bring a whole folio, which is then mapped page by page.
    let folio =
        input.meta.folio_bytes.iter().copied().filter(|&b| b < 2 << 20).max().unwrap_or(base).max(base);
    let spaces = context.finder.spaces;
    let mut sum = 0u64;
    // What is around a file's page comes with it, once.
    let mut around: FastSet<(u32, u64)> = FastSet::default();
    for i in 0..f.len() {
        let own = match f.page_shift[i] {
            0 => base,
            shift => 1u64 << shift.min(40),
        };
        let space = context.threads.get(f.thread[i]).and_then(|t| context.spaces_of_threads.get(t).copied());
        let mapping = space.and_then(|s| spaces.mapping_at(s, f.address[i], f.time_ns[i]).0);
        let file = mapping
            .is_none_or(|m| matches!(spaces.things.get(m).kind, ObjectKind::File | ObjectKind::Static));
        let whole = match file {
            true if around.insert((space.unwrap_or(u32::MAX), f.address[i] / FILE_FAULT)) => FILE_FAULT,
            true => base,
            false => folio,
        };
        sum = sum.saturating_add(own.max(whole));
    }
    // The kernel's own faults on the program's memory, as it copies there, are no events.
    let unseen = input.meta.target_faults.saturating_sub(f.len() as u64);
    sum.saturating_add(unseen.saturating_mul(folio))
}

/// Weight of remote samples that another node's cache may have answered: on parts of objects that several nodes
/// use, unless everybody only reads; and where no object is known.
fn open(context: &Context, tally: &Tally, facts: &[RowFacts]) -> u64 {
    let uses = by_row(tally.uses.iter());
    let mut with_rows = 0u64;
    let mut open = 0u64;
    for f in facts {
        with_rows = with_rows.saturating_add(f.remote);
        if f.remote == 0 || f.read_only {
            continue;
        }
        let used: Vec<(NodeIndex, &Use)> = uses.get(&(f.row as u32)).map_or(Vec::new(), |list| {
            list.iter().map(|u| (context.node_of_user(tally, u.0), u.1)).collect()
        });
        open = open.saturating_add(of_several_nodes(&used).min(f.remote));
    }
    open.saturating_add(tally.remote.saturating_sub(with_rows))
}

/// Weight that threads of one node have on pieces which threads of another use, too.
fn of_several_nodes(used: &[(NodeIndex, &Use)]) -> u64 {
    let first = used.first().map(|u| u.0);
    if used.iter().all(|u| u.0 != UNKNOWN && Some(u.0) == first) {
        return 0;
    }
    let addressed: u64 = used.iter().map(|u| u.1.addressed).sum();
    let pieces = ((addressed / PER_PIECE) as usize).clamp(1, BINS);
    let piece = |bin: usize| bin * pieces / BINS;
    let mut user: Vec<Option<NodeIndex>> = vec![None; pieces];
    let mut shared = vec![false; pieces];
    for (node, u) in used {
        for (bin, _) in u.bins.iter().enumerate().filter(|b| *b.1 > 0) {
            let at = piece(bin);
            shared[at] |= *node == UNKNOWN || user[at].is_some_and(|other| other != *node);
            user[at] = Some(*node);
        }
    }
    let mut weight = 0.0;
    for (_, u) in used {
        // Samples of the initialisation, and those without an address, lie anywhere in it.
        let on_shared: u32 = u.bins.iter().enumerate().filter(|b| shared[piece(b.0)]).map(|b| b.1).sum();
        let part = if u.addressed == 0 { 1.0 } else { f64::from(on_shared) / u.addressed as f64 };
        weight += part * u.sum.weight as f64;
    }
    weight as u64
}

#[cfg(test)]
mod tests {
    use super::super::stats::Sum;
    use super::*;

    /// A thread with `each` samples on every bin of a range.
    fn on(bins: std::ops::Range<usize>, each: u32) -> Use {
        let mut u = Use { bins: vec![0; BINS], ..Use::default() };
        for b in bins {
            u.bins[b] = each;
        }
        u.addressed = u.bins.iter().map(|&b| u64::from(b)).sum();
        u.sum = Sum { samples: u.addressed, weight: u.addressed * 10, squares: 0 };
        u
    }

    #[test]
    fn parts_of_their_own_are_not_open() {
        let (low, high) = (on(0..256, 10), on(256..512, 10));
        assert_eq!(of_several_nodes(&[(0, &low), (1, &high)]), 0);
        // Two of one node meet; nobody takes a line from another node.
        assert_eq!(of_several_nodes(&[(1, &low), (1, &low)]), 0);
    }

    #[test]
    fn common_parts_are_open() {
        let (low, all) = (on(0..256, 2), on(0..512, 2));
        // All of the first, and the half of the second that is the first's, too.
        assert_eq!(of_several_nodes(&[(0, &low), (1, &all)]), low.sum.weight + all.sum.weight / 2);
        // Few samples tell nothing of their parts: one piece.
        let (a, b) = (on(0..3, 1), on(300..303, 1));
        assert_eq!(of_several_nodes(&[(0, &a), (1, &b)]), a.sum.weight + b.sum.weight);
        // Nobody knows where it ran.
        assert_eq!(of_several_nodes(&[(UNKNOWN, &low)]), low.sum.weight);
    }
}
