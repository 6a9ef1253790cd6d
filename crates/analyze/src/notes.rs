//! What was lost or is missing, in words.

use super::blame::Stalls;
use super::context::Context;
use super::counters::Counters;
use super::input::{Input, Judge};
use super::object_rows::{RowUse, read_only_files};
use super::program::{Managed, Program};
use super::sites::NAMELESS;
use super::thresholds::MOST_ROWS;
use super::timing::Timing;
use super::value::{Basis, FunctionRow, WeakFigure};
use super::verdict::unresolved_share;
use nearfar_figures::count::count;
use nearfar_figures::percent::percent;
use nearfar_figures::sizes::size;
use nearfar_recording::{Columns, Losses, NONE, RangeKind, Resolution};
use std::collections::BTreeMap;

/// So many faults that place nothing for each that does are not worth a line: a program's start has some twenty. // chosen
const FEW_FAULTS: f64 = 0.01;

/// Share of the samples in generated code without names from which on it is said. // chosen
const MUCH_NAMELESS: f64 = 0.05;

/// How the functions of generated code get names, where much of the time is in code of no file.
pub fn generated(program: Program, functions: &[FunctionRow]) -> Option<String> {
    let share: f64 = functions.iter().filter(|f| f.function == NAMELESS).map(|f| f.stall_share).sum();
    let how = match program.managed {
        Some(Managed::Java) => {
            "`java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` (from Java 17 on) writes them"
        }
        Some(Managed::V8) => "`node --perf-basic-prof` writes them",
        Some(Managed::Erlang) => "`erl +JPperf true` (from OTP 24 on) writes them",
        _ => {
            "runtimes that generate code can write them (Java: -XX:+DumpPerfMapAtExit, Node: --perf-basic-prof, \
             Erlang: +JPperf true)"
        }
    };
    (share >= MUCH_NAMELESS).then(|| {
        format!(
            "{} of the samples are in generated code whose functions have no names: {how} to /tmp/perf-PID.map, where they are \
             found.",
            percent(share)
        )
    })
}

/// All other notes.
pub fn notes(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    row_uses: &[RowUse],
    stalls: &Stalls,
) -> Vec<String> {
    let mut n = Vec::new();
    if context.region.is_marked() {
        n.push(format!(
            "Shares are of the region of interest that the program marks: {} of {} samples (`--whole` reports all).",
            count(counters.total.samples),
            count(context.survey.samples)
        ));
    } else if judge.whole && input.phases.name.iter().any(String::is_empty) {
        n.push("The program marks a region of interest; as asked, shares are of the whole run.".to_string());
    }
    let meta = &input.meta;
    if meta.state == "open" {
        n.push("The recording was not closed: its end may be missing.".to_string());
    }
    losses(&mut n, &input.losses);
    if !input.agent_reported() {
        let why = if meta.agent_why.is_empty() { String::new() } else { format!(": {}", meta.agent_why) };
        n.push(format!("The agent did not report{why}. Heap memory cannot be told apart into objects."));
    }
    storms(&mut n, input, context);
    if meta.steal_share > 0.05 {
        n.push(format!(
            "The hypervisor took {} of the time: shares may lean towards what ran then.",
            percent(meta.steal_share)
        ));
    }
    if let Some(times) = meta.core_slowdown.filter(|&times| times >= SLOWER) {
        n.push(format!(
            "While the program ran, the same instructions took {times:.1} times as long as at the fastest, in the mean of short tests on the recorder's \
             cpu: the clock was lower, or something else used the same core. Loops may compute for that much longer."
        ));
    }
    if let Some([cycles, hit]) = stalls.most {
        n.push(format!(
            "{} of the time is on instructions that have nearly all samples of their loop. The one with most of it took {cycles:.0} cycles at least, \
             however fast the rest of the loop is, and takes {hit:.0} at most if a first-level cache answers: it waits (docs/native.md).",
            percent(stalls.weight as f64 / counters.working.weight.max(1) as f64)
        ));
    }
    if counters.paced > 0 {
        let part = |weight: u64| percent(weight as f64 / counters.working.weight.max(1) as f64);
        n.push(format!(
            "For {} of the time, samples show how long an iteration of the loop took: {} is in loops that compute, whose samples \
             count as no access of memory; {} is in loops that wait for a cache, for memory or for another thread's line \
             (docs/native.md); of what is left, the time does not say which.{}",
            part(counters.paced),
            part(counters.computing),
            part(counters.paced_waits),
            match counters.ahead {
                0 => String::new(),
                weight => format!(
                    " {} is on accesses in order that take at most half of what far memory of the judged machine gives ahead of time: \
                     they count as no access of it either.",
                    part(weight)
                ),
            }
        ));
    }
    let waiting = counters.resolved(Resolution::Spinning) as f64 / counters.total.weight.max(1) as f64;
    if waiting >= MUCH_WAITING {
        n.push(format!(
            "{} of the CPU time is spent in loops that wait for other threads or processes (of OpenMP, MPI or OpenBLAS, or with an \
             instruction that pauses the cpu): the others have more to do, or are late. Placement cannot win that time, so shares \
             of time leave it out.",
            percent(waiting)
        ));
    }
    let sampled = context.measure.basis != Basis::DramLines;
    if let Some(share) = meta.kernel_share().filter(|share| sampled && *share >= MUCH_KERNEL) {
        n.push(format!(
            "{} of the CPU time is in the kernel, where no samples are taken: what it copies for the program, as messages between \
             processes, may be far. Verdict and shares are of the rest.",
            percent(share)
        ));
    }
    lines(&mut n, input, context, counters);
    if unresolved_share(counters) > 0.1 {
        n.push(format!(
            "{} of the samples touch memory at an address that could not be found; they count as unattributed.",
            percent(unresolved_share(counters))
        ));
    }
    let files = read_only_files(context, counters, row_uses) as f64 / counters.memory.weight.max(1) as f64;
    if files >= 0.05 {
        n.push(format!(
            "{} of the samples that touch memory read constants in mapped files. The page cache placed them, on a node \
             that is not known; they do not count against the verdict.",
            percent(files)
        ));
    }
    let placements = context.finder.placements;
    if placements.not_placements as f64 > FEW_FAULTS * placements.touches.len() as f64 {
        let why = if meta.numa_balancing > 0 { " AutoNUMA is on: most are its hints." } else { "" };
        n.push(format!(
            "Page faults on pages that were already placed (protection changes, hint faults) place nothing: {}.{why}",
            count(placements.not_placements)
        ));
    }
    if let Some(left) = row_uses.get(MOST_ROWS..).filter(|left| !left.is_empty()) {
        let weight = |f: &RowUse| counters.rows[f.row].as_deref().map_or(0, |t| t.sum.weight);
        let part = left.iter().map(weight).sum::<u64>() as f64 / counters.total.weight.max(1) as f64;
        n.push(format!(
            "{} more objects have samples, {} of all; the {MOST_ROWS} with most are listed.",
            left.len(),
            percent(part)
        ));
    }
    let crowd = row_uses.iter().take(MOST_ROWS).map(|f| f.ranges.len()).max().unwrap_or(0);
    if crowd > MOST_ROWS {
        n.push(format!(
            "Up to {crowd} threads use one object; the ranges of the {MOST_ROWS} with most samples are listed."
        ));
    }
    threads(&mut n, judge, context, counters);
    pages(&mut n, input, judge, context);
    if row_uses.iter().any(|f| f.origins.cut) {
        n.push(
            "For allocation sites with very many objects, pages were counted for the first of them only."
                .to_string(),
        );
    }
    let time = context.measure.basis == Basis::StallTime;
    // A line that came from DRAM was no hit.
    if time
        && let Some(cache) = judge.machine.caches.iter().filter(|c| c.level == 2).map(|c| c.size_bytes).max()
    {
        for f in row_uses.iter().take(20).filter(|f| f.remote > 0) {
            let bytes = context.rows.rows[f.row].bytes;
            if bytes > 0 && bytes < cache && f.remote as f64 > 0.01 * counters.total.weight as f64 {
                let note = format!(
                    "{} fits a level 2 cache: its samples may be cache hits, whatever its pages' node.",
                    f.name
                );
                // Two libraries may have a variable of one name.
                if !n.contains(&note) {
                    n.push(note);
                }
            }
        }
    }
    n
}

/// The report says by how much cores were slower than at their fastest if it is this much or more: a slow clock explains less
/// ([`super::velocity::SLOWEST`]).
const SLOWER: f64 = 1.25;
/// Part of the time from which on waiting is worth a line. // chosen
const MUCH_WAITING: f64 = 0.05;
/// Share of the CPU time in the kernel from which on it is said what that means: below, page faults are most of it. // chosen
const MUCH_KERNEL: f64 = 0.2;

/// Reasons that are named for one kind of loss.
const REASONS: usize = 3;

/// Once for each kind, however many processes and tables lost some of it.
fn losses(n: &mut Vec<String>, losses: &Losses) {
    let mut kinds: Vec<(&str, u64, bool, Vec<&str>)> = Vec::new();
    for i in 0..losses.len() {
        let (what, count, why) = (losses.what[i].as_str(), losses.count[i], losses.why[i].as_str());
        let at = kinds.iter().position(|k| k.0 == what).unwrap_or_else(|| {
            kinds.push((what, 0, true, Vec::new()));
            kinds.len() - 1
        });
        let kind = &mut kinds[at];
        kind.1 = kind.1.saturating_add(count);
        kind.2 &= count > 0;
        if !kind.3.contains(&why) && kind.3.len() <= REASONS {
            kind.3.push(why);
        }
    }
    for (what, lost, counted, reasons) in kinds {
        let more = if reasons.len() > REASONS { "; and for other reasons" } else { "" };
        let why = format!("{}{more}", reasons[..reasons.len().min(REASONS)].join("; "));
        let what = match what {
            "end" => {
                n.push(format!("The end of the run is missing: {why}."));
                continue;
            }
            "journal_bytes" => "bytes of the journal",
            "perf_records" => "perf records",
            "agent_records" => "records of the agent",
            other => other,
        };
        n.push(match (lost, counted) {
            (0, _) => format!("Lost: {what}, how many is unknown ({why})."),
            (lost, true) => format!("Lost: {} {} ({why}).", count(lost), of_number(what, lost)),
            (lost, false) => format!("Lost: at least {} {} ({why}).", count(lost), of_number(what, lost)),
        });
    }
}

/// What was lost, as it is called for so many: `counter of threads` for one of them.
fn of_number(what: &str, number: u64) -> String {
    let (first, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    // The noun is the first word, or the second of `perf records`.
    match (number, first, what) {
        (1, _, "perf records") => "perf record".to_owned(),
        (1, "processes" | "addresses", _) => format!("{}{rest}", first.trim_end_matches("es")),
        (1, ..) => format!("{}{rest}", first.strip_suffix('s').unwrap_or(first)),
        _ => what.to_owned(),
    }
}

/// Allocations that were counted and not recorded one by one, by the line that made them.
fn storms(n: &mut Vec<String>, input: &Input, context: &Context) {
    const MOST_LINES: usize = 3;
    let g = &input.allocation_groups;
    let (mut allocations, mut bytes) = (0u64, 0u64);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for i in 0..g.count.len() {
        allocations = allocations.saturating_add(g.count[i]);
        bytes = bytes.saturating_add(g.bytes[i]);
        let site = context.sites.of_chain(g.chain[i]);
        let line = site.and_then(|site| context.sites.get(site).at.clone());
        let sum = lines.entry(line.unwrap_or_else(|| "unknown lines".into())).or_default();
        *sum = sum.saturating_add(g.count[i]);
    }
    if allocations == 0 {
        return;
    }
    let mut lines: Vec<(String, u64)> = lines.into_iter().collect();
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let more = match lines.len().saturating_sub(MOST_LINES) {
        0 => String::new(),
        more => format!(", {more} lines more"),
    };
    let shown: Vec<String> =
        lines.iter().take(MOST_LINES).map(|(line, times)| format!("{line} ({})", count(*times))).collect();
    n.push(format!(
        "{} allocations ({} in all) came and went too fast to be recorded one by one and are counted only: {}{more}. \
         Samples in them have no object.",
        count(allocations),
        size(bytes),
        shown.join(", ")
    ));
}

/// What exact counts are of.
fn lines(n: &mut Vec<String>, input: &Input, context: &Context, counters: &Counters) {
    if context.measure.basis != Basis::DramLines {
        return;
    }
    n.push(
        "Lines are those of the program's own accesses: the kernel's (page faults, copies of read and write) are \
         left out, and its instructions too."
            .to_string(),
    );
    if !context.region.is_marked() && !input.cpu_epochs.is_empty() {
        n.push(
            "The program marks no region of interest: counts include its set-up and initialisation."
                .to_string(),
        );
    }
    if let Some(timing) = context.timing {
        figures(n, timing);
    }
    if counters.other_basis > 0 {
        n.push(format!(
            "{} timer samples are left out: emulated time has no memory stalls.",
            counters.other_basis
        ));
    }
}

/// So many figures of a machine are named in a note; more are said to be so many. // chosen
const MOST_FIGURES: usize = 5;

/// Figures that were fitted or assumed: named, to a thousandth, or how many there are.
fn chosen(figures: &[&WeakFigure]) -> String {
    if figures.len() > MOST_FIGURES {
        return format!(
            "{} figures that were fitted or assumed (named in the JSON, time.weak_figures)",
            figures.len()
        );
    }
    let named: Vec<String> = figures
        .iter()
        .map(|f| match f.value {
            Some(value) => format!("{} {} ({})", f.name, (value * 1000.0).round() / 1000.0, f.confidence),
            None => format!("{} ({})", f.name, f.confidence),
        })
        .collect();
    format!("figures that were fitted or assumed: {}", named.join(", "))
}

/// What the time rests on.
fn figures(n: &mut Vec<String>, timing: &Timing) {
    let (remembered, weak): (Vec<&WeakFigure>, Vec<&WeakFigure>) =
        timing.weak_figures.iter().partition(|f| f.confidence == "M");
    let mut rests = Vec::new();
    if !weak.is_empty() {
        rests.push(chosen(&weak));
    }
    if !remembered.is_empty() {
        let remembered = remembered.len();
        rests.push(format!(
            "{remembered} figures of the machine that were not checked against a source (confidence M; named in the JSON, time.weak_figures)"
        ));
    }
    if !rests.is_empty() {
        n.push(format!("The time rests on {}.", rests.join("; and on ")));
    }
    if timing.time.lines_without_node > 0 {
        n.push(format!(
            "{} lines whose node of the page is unknown were timed as if they were of the cpu's own node.",
            count(timing.time.lines_without_node)
        ));
    }
}

fn threads(n: &mut Vec<String>, judge: &Judge, context: &Context, counters: &Counters) {
    let unsampled = counters.threads.iter().filter(|t| t.sum.samples == 0).count();
    let total = counters.threads.len();
    if unsampled > 0 && unsampled < total {
        let (has, it) = if unsampled == 1 { ("has", "it") } else { ("have", "they") };
        // A sample is a line that came from memory.
        let cached = context.measure.basis == Basis::DramLines;
        let why = if cached { ", only waited, or used what caches held" } else { " or only waited" };
        n.push(format!("{unsampled} of {total} threads {has} no samples: {it} ran too briefly{why}."));
    }
    let touchers: Vec<u32> = context.groups.groups.iter().map(|g| g.thread).collect();
    let followed = context.finder.nodes.followed.iter().filter(|t| touchers.contains(t)).count();
    if followed > 0 {
        let (s, they) = if followed == 1 { ("", "it is") } else { ("s", "they are") };
        n.push(format!(
            "{followed} thread{s} that hardly ran placed pages: {they} taken to run on the node of the first of the process that did."
        ));
    }
    let migrations: u64 = counters.threads.iter().map(|t| t.migrations).sum();
    // More than one move per 100 samples of a thread: not the odd move at the start. // chosen
    if migrations > 20 && migrations * 100 > counters.total.samples {
        let advice = if judge.assume.is_some() || context.finder.nodes.count < 2 {
            "on a NUMA machine pin them"
        } else {
            "pin them (OMP_PROC_BIND=close, taskset)"
        };
        n.push(format!("Threads moved between cpus at least {migrations} times: {advice}."));
    }
}

fn pages(n: &mut Vec<String>, input: &Input, judge: &Judge, context: &Context) {
    let has = |kind: RangeKind| input.range_events.kind.contains(&(kind as u8));
    let moved = context.finder.looks.moved_pages;
    if judge.assume.is_none() && moved > 0 {
        n.push(format!("At least {moved} pages changed their node during the recording."));
    }
    match (&input.meta.placement, &judge.assume) {
        (Some(_), None) => n.push(
            "Recorded under a placement file: its objects are where it says, no matter which thread touched them first."
                .to_string(),
        ),
        (Some(_), Some(_)) => n.push(
            "Recorded under a placement file. It is not applied on an assumed machine: pages are on their first \
             toucher's node."
                .to_string(),
        ),
        (None, _) => {}
    }
    if judge.assume.is_some() {
        if has(RangeKind::Policy) {
            n.push("The program sets memory policies (mbind, set_mempolicy). They are not applied on an assumed machine: pages are on their first toucher's node.".to_string());
        }
        if has(RangeKind::Migrate) {
            n.push(
                "The program migrates pages; on an assumed machine they stay where they were touched first."
                    .to_string(),
            );
        }
        if input.meta.machine.nodes.len() == 1 && context.measure.basis == Basis::StallTime {
            n.push("Recorded on one node: shares of time are of that machine; far memory is slower, so its share would be larger.".to_string());
        }
    }
    // Recordings before the calls' threads were kept, or more than is followed.
    let r = &input.range_events;
    let unknown = |i: usize| r.kind[i] == RangeKind::Populate as u8 && r.thread[i] == NONE;
    if (0..r.kind.len()).any(unknown) {
        n.push(
            "The kernel populated some ranges (MAP_POPULATE, mlock), and this recording does not say for which threads: these \
             pages have no first touch."
                .to_string(),
        );
    }
    if input.faults.time_ns.is_empty() {
        n.push("No page faults were recorded: first touches are unknown.".to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_what_was_lost_is_singular() {
        let one = |what| of_number(what, 1);
        assert_eq!(
            ["counters of threads", "processes", "perf records", "samples", "illegal instruction"].map(one),
            ["counter of threads", "process", "perf record", "sample", "illegal instruction"]
        );
        assert_eq!(of_number("records of the agent", 2), "records of the agent");
    }

    #[test]
    fn few_figures_are_named_and_many_are_counted() {
        let figure = |value| WeakFigure { name: "core.ipc".into(), value, confidence: "assumed".into() };
        let (third, none) = (figure(Some(47.0 / 3.0)), figure(None));
        assert_eq!(
            chosen(&[&third, &none]),
            "figures that were fitted or assumed: core.ipc 15.667 (assumed), core.ipc (assumed)"
        );
        assert_eq!(
            chosen(&[&none; 6]),
            "6 figures that were fitted or assumed (named in the JSON, time.weak_figures)"
        );
    }
}
