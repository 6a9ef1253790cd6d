//! What caches must have answered, from how much memory the program had.
//!
//! A sample on a page of another node is time on far memory only if the line came from there. A
//! program whose whole memory fits the last-level cache fetches each line from memory a few times
//! at most, whatever its pages' nodes: the kernel knows its largest resident size, and from it
//! follows a bound on far memory's time that no sample can contradict. What is left are lines that
//! the caches of several nodes take from each other: a clock cannot tell those from hits, and a store
//! that no sample hit is a store all the same. So samples on data that several nodes use stay open,
//! unless the pages cannot be written to.

use super::by_row::by_row;
use super::context::Context;
use super::counters::{BINS, Counters, ThreadCounters, Use};
use super::hash::{FastMap, FastSet};
use super::input::{Input, Judge};
use super::instances;
use super::nodes::{NodeIndex, UNKNOWN};
use super::object_rows::RowUse;
use super::stats::draws_interval;
use super::value::{Basis, CacheBound};
use nearfar_figures::sizes::{capacity, size};
use nearfar_machine::figures::{CacheFigures, Inclusion, Matrix};
use nearfar_machine::{CacheLevel, LINE_BYTES, Machine};
use nearfar_recording::{Columns, LOST_EITHER, LOST_PERF, NONE, ObjectKind};

/// Part of a cache that is sure to hold what fits it. Physical pages fall on its sets at random: at half the
/// capacity, a set of 16 ways is asked for 8 lines on average and for more than 16 in 0.4 of 100 cases (Poisson).
pub(super) const SURELY_HELD: f64 = 0.5;
/// Largest part of the CPU time that may be the kernel's: its copies go through the caches, too. // chosen
const MOST_KERNEL: f64 = 0.1;
/// Latency of far memory where the machine's is not known, ns: above that of the other socket's memory on every
/// machine of `machines/`, 210 at most; a CXL module may be slower. // assumed
const FAR_NS: f64 = 250.0;
/// What the kernel maps at once of a file that is in memory (fault_around_bytes, its default).
const FILE_FAULT: u64 = 64 << 10;
/// Sampled CPU time above that of the processes that were waited for, from which on another process took the
/// difference: the clock's samples stand for whole periods. // chosen
const MORE_CPU: f64 = 1.1;
/// Samples that a piece of an object needs, on average, to tell who uses it. // chosen
pub(super) const PER_PIECE: u64 = 20;

/// The bound, or why there is none.
pub fn bound(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    row_uses: &[RowUse],
) -> Result<CacheBound, String> {
    let meta = &input.meta;
    if context.measure.basis != Basis::StallTime {
        return Err(match context.measure.basis {
            Basis::MemoryLoads => "the processor said what caches answered".into(),
            _ => "lines were counted".into(),
        });
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
    let Some(pool) = meta.hugetlb_bytes else {
        return Err("whether the program had hugetlb pages is not known, and its largest resident size leaves them out"
            .into());
    };
    let mapped = mapped(input, context);
    let largest = meta.largest_process_bytes.max(of_descendants(input, counters, &mapped)?);
    let footprint = largest.saturating_mul(most_at_once(input)).saturating_add(pool);
    if pool > 0 && footprint as f64 > SURELY_HELD * last.size_bytes as f64 {
        return Err(format!(
            "the machine has hugetlb pages of {}, which the largest resident size of a program leaves out",
            size(pool)
        ));
    }
    if footprint as f64 > SURELY_HELD * last.size_bytes as f64 {
        return Err(format!(
            "the program had up to {} of memory at a time, more than half of the level {} cache of {}",
            size(footprint),
            last.level,
            capacity(last.size_bytes)
        ));
    }
    if meta.target_system_s < 0.0 || meta.target_cpu_s <= 0.0 {
        return Err("the CPU time of the kernel is not known".into());
    }
    if meta.target_system_s > MOST_KERNEL * meta.target_cpu_s {
        return Err(format!(
            "{} of the CPU time was the kernel's, whose copies take room in the caches",
            nearfar_figures::percent::percent(meta.target_system_s / meta.target_cpu_s)
        ));
    }
    // Each page is fetched line by line, once by each cache. What comes beyond the capacity pushes out as much.
    // The kernel's own faults on the program's memory, as it copies there, are not events.
    let unseen = meta.target_faults.saturating_sub(input.faults.len() as u64);
    let brought = mapped.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let brought = brought.saturating_add(unseen.saturating_mul(folio(input))).max(footprint) as f64;
    let again = if brought > SURELY_HELD * last.size_bytes as f64 { brought } else { 0.0 };
    let fetched = (brought + again) / LINE_BYTES as f64;
    let cores = judge.machine.cpu_count() / judge.machine.threads_per_core.max(1) as usize;
    let instances = (cores / last.cores_per_instance.max(1) as usize).max(context.finder.nodes.count);
    let active = counters.threads.iter().filter(|t| t.sum.samples > 0).count().max(1);
    let far_ns = fetched * instances.min(active) as f64 * far_latency(judge);
    let total = counters.working.weight.max(1) as f64;
    // From samples, so with what 95 of 100 recordings stay below: none among few is not proof of none.
    let n = counters.working.samples.max(1);
    let at_most = |weight: u64| {
        let hits = (weight as f64 / total * n as f64).ceil() as u64;
        draws_interval(hits.min(n), n).map_or(1.0, |i| i.high)
    };
    Ok(CacheBound {
        memory_bytes: footprint,
        cache_level: last.level,
        cache_bytes: last.size_bytes,
        far_share_at_most: (far_ns / total).min(1.0),
        moving_threads_at_most: match moved(judge, context, counters, instances) {
            None => 0.0,
            // A thread that comes to another cache fetches its data there, and when it comes back, what it wrote in
            // the meantime: no more than it can have fetched while it was away.
            Some(away) => (2.0 * at_most(away)).min(1.0),
        },
        between_nodes_at_most: at_most(open(context, counters, row_uses)),
    })
}

/// Weight of samples of threads away from the cache that they were at most; `None` on an assumed machine, whose threads
/// stay where they are put.
fn moved(judge: &Judge, context: &Context, counters: &Counters, instances: usize) -> Option<u64> {
    if judge.assume.is_some() {
        return None;
    }
    let several = instances > context.finder.nodes.count;
    let away = |t: &ThreadCounters| {
        // Which cpus share one of several caches of a node is not recorded.
        if several && t.cpus.iter().map(|w| w.count_ones()).sum::<u32>() > 1 {
            return t.sum.weight;
        }
        t.by_node.iter().sum::<u64>() - t.by_node.iter().copied().max().unwrap_or(0)
    };
    Some(counters.threads.iter().map(away).sum())
}

/// Most memory of a process that the command started: the kernel's largest resident size leaves out those that were not
/// waited for, so what they faulted in stands for it. An error says why that is not known.
fn of_descendants(input: &Input, counters: &Counters, mapped: &FastMap<u32, u64>) -> Result<u64, String> {
    let p = &input.processes;
    let first = p.pid.first();
    let started = |space: u32| p.pid.get(space as usize).is_some_and(|pid| Some(pid) != first);
    if !(0..p.len() as u32).any(started) {
        return Ok(0);
    }
    let unknown = |why: &str| {
        Err(format!(
            "how much memory the processes had that the program started is not known ({why}): those that were not waited \
             for are not in its largest resident size"
        ))
    };
    let lost = (0..input.losses.len()).any(|i| {
        let what = &*input.losses.what[i];
        what == "faults" || what == LOST_EITHER || what == LOST_PERF
    });
    if input.faults.is_empty() || lost {
        return unknown("their page faults were not recorded");
    }
    if input.faults.len() as u64 > input.meta.target_faults {
        return unknown("there were more page faults than those of the processes that were waited for");
    }
    let waited_ns = input.meta.target_cpu_s * 1e9;
    if counters.total.weight as f64 > MORE_CPU * waited_ns {
        return unknown("they took more CPU time than the processes that were waited for");
    }
    Ok(mapped.iter().filter(|m| started(*m.0)).map(|m| *m.1).max().unwrap_or(0))
}

/// Latency of the farthest memory of the judged machine, idle, ns.
pub(super) fn far_latency(judge: &Judge) -> f64 {
    let ns = judge.machine.figures.latency_ns.as_ref().and_then(Matrix::unless_assumed).and_then(|m| {
        let n = judge.machine.nodes.len();
        let cells = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        cells.filter_map(|(from, to)| m.get(from, to)).max_by(f64::total_cmp)
    });
    ns.unwrap_or(FAR_NS)
}

/// The last-level cache of the judged machine; of the recorded one where a shape has assumed ones or none.
pub(super) fn last_level<'a>(input: &'a Input, judge: &'a Judge) -> Option<&'a CacheLevel> {
    of_machine(input, judge).caches.iter().max_by_key(|c| c.level)
}

/// The level inside the last one, if the last one is not known to repeat what it holds.
pub(super) fn level_beside<'a>(
    input: &'a Input,
    judge: &'a Judge,
    last: &CacheLevel,
) -> Option<&'a CacheLevel> {
    let machine = of_machine(input, judge);
    let repeated = |c: &CacheFigures| c.level == last.level && c.inclusion == Some(Inclusion::Inclusive);
    if machine.figures.caches.iter().any(repeated) {
        return None;
    }
    machine.caches.iter().filter(|c| c.level < last.level).max_by_key(|c| c.level)
}

fn of_machine<'a>(input: &'a Input, judge: &'a Judge) -> &'a Machine {
    if of_recorded(input, judge) { &input.meta.machine } else { &judge.machine }
}

/// Whether caches are taken from the recorded machine, because nothing says what those of the judged one are.
pub(super) fn of_recorded(input: &Input, judge: &Judge) -> bool {
    let guessed = judge.machine.caches.is_empty() || judge.machine.caches_are_assumed();
    guessed && !input.meta.machine.caches.is_empty()
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

/// Bytes that a fault maps at most, where it does not say.
fn folio(input: &Input) -> u64 {
    let base = input.meta.page_bytes.max(1);
    // A fault may bring a whole folio, which is then mapped page by page.
    input.meta.folio_bytes.iter().copied().filter(|&b| b < 2 << 20).max().unwrap_or(base).max(base)
}

/// Bytes of all pages that faults mapped, over the run, at most; by address space.
fn mapped(input: &Input, context: &Context) -> FastMap<u32, u64> {
    let f = &input.faults;
    let base = input.meta.page_bytes.max(1);
    let folio = folio(input);
    let spaces = context.finder.spaces;
    let mut sums: FastMap<u32, u64> = FastMap::default();
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
        let space = space.unwrap_or(NONE);
        let whole = match file {
            true if around.insert((space, f.address[i] / FILE_FAULT)) => FILE_FAULT,
            true => base,
            false => folio,
        };
        let sum = sums.entry(space).or_default();
        *sum = sum.saturating_add(own.max(whole));
    }
    sums
}

/// Weight of samples that another node's cache may have answered: on parts of objects that several nodes use, unless
/// their pages cannot be written to; and where no object is known. Where the page is does not matter: a line that
/// another node's cache has changed comes from there, from a near page, too.
fn open(context: &Context, counters: &Counters, row_uses: &[RowUse]) -> u64 {
    let mut nodes = (0..counters.threads.len())
        .filter(|&t| counters.threads[t].sum.samples > 0)
        .map(|t| context.node_of_user(counters, t as u32));
    let first = nodes.next().unwrap_or(UNKNOWN);
    if first != UNKNOWN && nodes.all(|n| n == first) {
        return 0;
    }
    let uses = by_row(counters.uses.iter());
    let instances = instances::by_row(context.rows, counters);
    let mut open = counters.unattributed;
    let spaces = context.finder.spaces;
    for f in row_uses {
        let node = |thread: u32| match thread {
            NONE => UNKNOWN,
            thread => context.node_of_user(counters, thread),
        };
        let row = &context.rows.rows[f.row];
        let things = &row.things;
        if spaces.are_constant(context.input, things) {
            continue;
        }
        // Several objects of one line: each for itself, since each may be one node's. Small ones are sampled, and what
        // is between two of them is of no thread in particular.
        let weight = match row.has_several() {
            false => {
                let list = uses.get(&(f.row as u32)).map_or(&[][..], Vec::as_slice);
                let (from, bytes) = match things.first().filter(|_| !row.is_area()) {
                    Some(&thing) => (spaces.things.get(thing).address, spaces.things.get(thing).bytes),
                    None => (row.base, row.extent),
                };
                of_several_nodes(&list.iter().map(|u| (node(u.0), u.1)).collect::<Vec<_>>(), from, bytes)
            }
            _ => instances
                .get(&(f.row as u32))
                .into_iter()
                .flatten()
                .map(|users| {
                    let mut nodes = users.iter().map(|u| node(u.0));
                    let first = nodes.next().unwrap_or(UNKNOWN);
                    let one = first != UNKNOWN && nodes.all(|n| n == first);
                    if one { 0 } else { users.iter().map(|u| u.1.used.sum.weight).sum() }
                })
                .sum(),
        };
        open = open.saturating_add(weight);
    }
    open
}

/// Weight that threads of one node have on pieces which threads of another use, too. Pieces are of whole cache lines:
/// `from` is where the object begins, `bytes` its size.
fn of_several_nodes(used: &[(NodeIndex, &Use)], from: u64, bytes: u64) -> u64 {
    let first = used.first().map(|u| u.0);
    if used.iter().all(|u| u.0 != UNKNOWN && Some(u.0) == first) {
        return 0;
    }
    let begin = from % LINE_BYTES;
    let lines = (begin + bytes.max(1)).div_ceil(LINE_BYTES);
    let addressed: u64 = used.iter().map(|u| u.1.addressed).sum();
    let pieces = (addressed / PER_PIECE).min(lines).clamp(1, BINS as u64);
    // The pieces that a bin may reach into: a line that it has a part of belongs to it.
    let pieces_of = |bin: usize| {
        let at = |bin: usize| begin + (u128::from(bytes) * bin as u128 / BINS as u128) as u64;
        let (low, high) = (at(bin), at(bin + 1).max(at(bin) + 1) - 1);
        let piece =
            |byte: u64| (u128::from(byte / LINE_BYTES) * u128::from(pieces) / u128::from(lines)) as usize;
        piece(low)..=piece(high).min(pieces as usize - 1)
    };
    let bins = |u: &Use| u.bins.iter().copied().enumerate().filter(|b| b.1 > 0).collect::<Vec<_>>();
    let mut user: Vec<Option<NodeIndex>> = vec![None; pieces as usize];
    let mut shared = vec![false; pieces as usize];
    for (node, u) in used {
        for (bin, _) in bins(u) {
            for at in pieces_of(bin) {
                shared[at] |= *node == UNKNOWN || user[at].is_some_and(|other| other != *node);
                user[at] = Some(*node);
            }
        }
    }
    let mut weight = 0.0;
    for (_, u) in used {
        // Samples of the initialisation, and those without an address, lie anywhere in it.
        let on_shared: u32 =
            bins(u).iter().filter(|b| pieces_of(b.0).any(|at| shared[at])).map(|b| b.1).sum();
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

    fn several(used: &[(NodeIndex, &Use)]) -> u64 {
        of_several_nodes(used, 0x1000, 1 << 20)
    }

    #[test]
    fn parts_of_their_own_are_not_open() {
        let (low, high) = (on(0..256, 10), on(256..512, 10));
        assert_eq!(several(&[(0, &low), (1, &high)]), 0);
        // Two of one node meet; no node takes a line from another node.
        assert_eq!(several(&[(1, &low), (1, &low)]), 0);
    }

    #[test]
    fn common_parts_are_open() {
        let (low, all) = (on(0..256, 2), on(0..512, 2));
        // All of the first, and the half of the second that is the first's, too.
        assert_eq!(several(&[(0, &low), (1, &all)]), low.sum.weight + all.sum.weight / 2);
        // Few samples tell nothing of their parts: one piece.
        let (a, b) = (on(0..3, 1), on(300..303, 1));
        assert_eq!(several(&[(0, &a), (1, &b)]), a.sum.weight + b.sum.weight);
        // It is unknown where it ran.
        assert_eq!(several(&[(UNKNOWN, &low)]), low.sum.weight);
    }

    #[test]
    fn a_part_is_no_less_than_a_cache_line() {
        // 512 bytes, so a bin each.
        let (a, b) = (on(0..8, 100), on(8..16, 100));
        let both = a.sum.weight + b.sum.weight;
        assert_eq!(of_several_nodes(&[(0, &a), (1, &b)], 0x1000, 512), both);
        // Where the object begins decides which bytes share a line.
        let (a, b) = (on(56..64, 100), on(64..72, 100));
        assert_eq!(of_several_nodes(&[(0, &a), (1, &b)], 0x1000, 512), 0);
        assert_eq!(of_several_nodes(&[(0, &a), (1, &b)], 0x1020, 512), both);
    }
}
