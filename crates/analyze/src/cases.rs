//! What may be wrong with one object, by its evidence. The first that fits is its case.

use super::advice::{self, ALL, IS, IT, ITS, Use};
use super::hash::FastSet;
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::object_rows::RowUse;
use super::program::Program;
use super::touchers::Toucher;
use super::value::{Basis, Pattern};
use nearfar_figures::count::count;
use nearfar_figures::percent::percent;
use nearfar_figures::sizes::capacity;

/// Share of the remote samples that are on one thread's pages for the placement to be called serial.
const SERIAL: f64 = 0.9;

/// Least share of an object's use on pages away from their touchers' nodes for something else than first touches to
/// have placed it: interleaving over n nodes leaves one page of n where it was touched, so at least half is away, and
/// samples scatter. // chosen
const AWAY: f64 = 0.4;

/// Least remote share of the samples on the blamed pages, where others placed pages, too. A thread whose own part has a halo that
/// neighbours read is not a culprit: stencils have a few percent, serial initialisation at least half, unless the run is short. // assumed
pub(super) const MOSTLY_HALO: f64 = 0.2;

/// The same where parts are in order and only their borders are elsewhere. // assumed
const LEAST_SHIFTED: f64 = 0.04;

/// Pages of an object that stays in the caches once it was used: 256 KiB of base pages, the
/// second-level cache of one core of a Xeon E5 v4, the smallest among the described machines.
/// Its placement is not worth changing, however much of it is remote.
pub(super) const CACHED_PAGES: u64 = 64;

/// A finding about one row, before those of the same cause are merged. In the sentences
/// [`advice::ALL`] stands for the names of all objects that they hold for.
pub(super) struct Case<'a> {
    pub(super) kind: &'static str,
    pub(super) row: &'a RowUse,
    pub(super) at: Option<String>,
    pub(super) function: Option<String>,
    /// The real function: cases with the same one have the same cause.
    pub(super) outer: Option<String>,
    pub(super) text: String,
    /// Processes in each of which one thread placed its pages; 0 if that is not the case.
    pub(super) processes: u32,
    /// What should be said of this object alone.
    pub(super) own: String,
    /// What may hold for other objects, too.
    pub(super) common: Vec<String>,
    /// With the lines of this object, and without.
    pub(super) advice: [String; 2],
}

impl<'a> Case<'a> {
    /// Whether the schedule of the loop that uses it is what repairs it.
    pub(super) fn of_a_loop(&self) -> bool {
        matches!(self.kind, "schedule_mismatch" | "offset_mismatch")
    }

    /// At the line of the first touch by `top`; what should be said is still empty, except for the pattern.
    fn new(kind: &'static str, row: &'a RowUse, top: Option<&Toucher>) -> Case<'a> {
        Case {
            kind,
            row,
            at: top.and_then(|t| t.at.clone()),
            function: top.and_then(|t| t.function.clone()),
            outer: top.and_then(|t| t.outer.clone()),
            text: String::new(),
            processes: 0,
            own: String::new(),
            common: vec![advice::pattern_sentence(row)],
            advice: Default::default(),
        }
    }
}

/// What its samples count.
fn units(r: &RowUse) -> &'static str {
    match r.basis {
        Basis::StallTime => "samples",
        Basis::DramLines => "lines",
        Basis::MemoryLoads => "loads from memory",
    }
}

/// What its use is counted in.
fn what(r: &RowUse) -> &'static str {
    match r.basis {
        Basis::StallTime => "time is",
        Basis::DramLines => "lines are",
        Basis::MemoryLoads => "loads are",
    }
}

/// What is remote of it.
fn remote_what(r: &RowUse) -> &'static str {
    match r.basis {
        Basis::StallTime => "remote time is",
        Basis::DramLines => "remote lines are",
        Basis::MemoryLoads => "remote loads are",
    }
}

/// `63 % of its samples are remote (56 to 69 %)`.
fn remote_sentence(r: &RowUse) -> String {
    let interval =
        r.remote_ci.map_or(String::new(), |i| format!(" ({:.0} to {})", i.low * 100.0, percent(i.high)));
    // Counts of whole pages have no interval worth a reader's time.
    match r.exact {
        Some(_) => format!("{} of its lines are remote", percent(r.remote_share.unwrap_or(0.0))),
        None => {
            format!("{} of its {} are remote{interval}", percent(r.remote_share.unwrap_or(0.0)), units(r))
        }
    }
}

/// The case of a row, if its remote lines or time are explained by something.
pub(super) fn case<'a>(r: &'a RowUse, nodes: &Nodes, program: Program) -> Option<Case<'a>> {
    if r.remote == 0 || r.own_stacks || r.loaded {
        return None;
    }
    // Before all causes that are about who touched first: where the pages are, no touch decided.
    let policy = by_policy(r, nodes, program).or_else(|| overflowed(r, nodes, program));
    if policy.is_some() && r.pattern == Pattern::AllOver && r.is_spread() {
        // Every thread uses all of it, and all nodes have a part of it: nothing that a placement could mend.
        return None;
    }
    // Small allocations are seen as samples of them: their pages are more than those counted here.
    let found = if policy.is_none() { allocator(r, program) } else { None };
    // What came from DRAM was not cached, however small.
    let cached = r.basis == Basis::StallTime && (1..=CACHED_PAGES).contains(&r.pages.total);
    if found.is_some() || cached {
        return found;
    }
    // Straddling before serial: initialising in parallel would not help a folio that two nodes share.
    cpuless(r)
        .or(policy)
        .or_else(|| straddling(r, program))
        .or_else(|| shifted(r).then(|| mismatch(r, program)).flatten())
        .or_else(|| serial(r, nodes, program))
        .or_else(|| mismatch(r, program))
        .or_else(|| unexplained(r, program))
}

/// Most of what is remote is on a node without cpus: slower for all threads.
fn cpuless<'a>(r: &'a RowUse) -> Option<Case<'a>> {
    if (r.by_class[3] as f64) < SERIAL * r.remote as f64 {
        return None;
    }
    Some(Case {
        text: format!("{ALL} {IS} on a node without cpus, which is far from every thread"),
        own: format!("{}: {}", r.name, remote_sentence(r)),
        advice: [0, 1].map(|_| {
            format!(
                "Keep {ALL} on the nodes with cpus: leave out the binding that put {IT} there, or bind {IT} to such nodes \
                 (numactl --membind, nearfar run --placement), and leave the far node to what is seldom used."
            )
        }),
        ..Case::new("memory_on_cpuless_node", r, r.touchers.first())
    })
}

/// A policy (mbind, numactl, an automatic migration) put the pages elsewhere than where they were touched.
fn by_policy<'a>(r: &'a RowUse, nodes: &Nodes, program: Program) -> Option<Case<'a>> {
    let away: u64 = r.touchers.iter().map(|t| t.away).sum();
    let seen: u64 = r.touchers.iter().filter(|t| t.node != UNKNOWN).map(|t| t.weight).sum();
    if (away as f64) < AWAY * seen.max(1) as f64 || r.remote_share.is_none_or(|s| s < MOSTLY_HALO) {
        return None;
    }
    let top = r.touchers.iter().max_by_key(|t| t.away)?;
    Some(Case {
        text: format!("the pages of {ALL} are on other nodes than those that touched them first"),
        own: format!(
            "{}: {} of its {} on pages that a policy, a full node or a migration placed; {}",
            r.name,
            percent(away as f64 / seen.max(1) as f64),
            what(r),
            remote_sentence(r)
        ),
        common: vec![advice::pattern_sentence(r), advice::nodes_sentence(&r.user_nodes, nodes)],
        advice: advice::advise(r, program, Use::Policy),
        ..Case::new("placed_by_policy", r, Some(top))
    })
}

/// The threads that use the far pages touched them first on their own node, and still they are on another one: that node
/// was full, or this part was bound or moved. Less than [`AWAY`] is, so no policy placed all of it.
fn overflowed<'a>(r: &'a RowUse, nodes: &Nodes, program: Program) -> Option<Case<'a>> {
    let away: u64 = r.touchers.iter().map(|t| t.away_remote).sum();
    if (away as f64) < SERIAL * r.remote as f64 {
        return None;
    }
    let top = r.touchers.iter().max_by_key(|t| t.away_remote)?;
    Some(Case {
        text: format!(
            "part of {ALL} is on another node than the one that touched it first, which may have been full"
        ),
        own: format!("{}: {}", r.name, remote_sentence(r)),
        common: vec![advice::pattern_sentence(r), advice::nodes_sentence(&r.user_nodes, nodes)],
        advice: advice::advise(r, program, Use::Overflow),
        ..Case::new("capacity_overflow", r, Some(top))
    })
}

/// No remote lines to blame, yet the time model finds that they would be served faster from elsewhere: one
/// node's memory has too much to do while another's has little.
pub(super) fn crowded<'a>(r: &'a RowUse, nodes: &Nodes, program: Program) -> Case<'a> {
    Case {
        text: format!("the memory controller that holds {ALL} is busier than the others"),
        own: format!("{}: {}", r.name, remote_sentence(r)),
        common: vec![advice::pattern_sentence(r), advice::nodes_sentence(&r.user_nodes, nodes)],
        advice: advice::advise(r, program, Use::Crowded),
        ..Case::new("crowded_memory", r, r.touchers.first())
    }
}

/// Of each process that has the object for itself, the thread on whose pages most of what is remote is, that with most of it first: what it
/// placed is one thread's work there, whatever other processes do to theirs. The numbers are what is remote on its pages, and all.
fn placers(r: &RowUse) -> Vec<(&Toucher, u64, u64)> {
    // One that migrated meanwhile is one thread all the same.
    let of_thread = |thread: u32| r.touchers.iter().filter(move |t| t.thread == thread);
    let sums = |thread: u32| of_thread(thread).fold((0, 0), |sum, t| (sum.0 + t.remote, sum.1 + t.weight));
    let space = |t: &Toucher| if r.shared { None } else { Some(t.space) };
    let mut found: Vec<(&Toucher, u64, u64)> = r
        .touchers
        .iter()
        .filter(|t| t.remote > 0)
        .map(|t| {
            let (remote, weight) = sums(t.thread);
            (t, remote, weight)
        })
        .collect();
    found.sort_by_key(|(t, remote, _)| (std::cmp::Reverse((*remote, t.remote)), t.index));
    let mut seen: FastSet<Option<u32>> = FastSet::default();
    found.retain(|(t, ..)| seen.insert(space(t)));
    found
}

/// One thread placed the pages that the remote samples are on, or one in each process.
fn serial<'a>(r: &'a RowUse, nodes: &Nodes, program: Program) -> Option<Case<'a>> {
    let mut placers = placers(r);
    let (_, most, _) = *placers.first()?;
    // One process in which nearly all of it is, beside others.
    if most as f64 >= SERIAL * r.remote as f64 {
        placers.truncate(1);
    }
    let (top, ..) = placers[0];
    let sum = |of: fn(&(&Toucher, u64, u64)) -> u64| placers.iter().map(of).sum::<u64>();
    let (remote, weight) = (sum(|p| p.1), sum(|p| p.2));
    if (remote as f64) < SERIAL * r.remote as f64 || r.user_nodes.is_empty() {
        return None;
    }
    let pages: u64 = placers.iter().map(|p| r.pages_of(p.0.thread)).sum();
    // A thread that placed all of it also placed the parts of others. In a short run, most of the use is its own initialisation.
    let whole = pages > 0 && pages as f64 >= SERIAL * r.pages.total as f64;
    if !whole && (remote as f64) < MOSTLY_HALO * weight as f64 {
        return None;
    }
    let several = placers.len() > 1;
    let mut on: Vec<NodeIndex> =
        r.touchers.iter().filter(|t| t.thread == top.thread).map(|t| t.node).collect();
    on.sort_unstable();
    let elsewhere = several || on.len() > 1 || r.user_nodes.iter().any(|&(n, _)| n != top.node);
    if !elsewhere {
        return None;
    }
    let share = pages as f64 / r.placed_pages().max(1) as f64;
    // One line of several: what is remote is on what it placed, the other pages are others' work.
    let at_line = (0 < top.pages_at && (top.pages_at as f64) < SERIAL * pages as f64 && !several)
        .then_some(top.pages_at);
    let number = |n: &NodeIndex| nodes.ids.get(usize::from(*n)).map_or("?".to_string(), u32::to_string);
    let numbers: Vec<String> = on.iter().map(number).collect();
    let by = match placers.len() {
        1 => {
            format!(
                "thread {} (node{} {})",
                top.index,
                if on.len() > 1 { "s" } else { "" },
                numbers.join(", ")
            )
        }
        n => format!("one thread in each of {n} processes"),
    };
    let placed = count(r.placed_pages());
    let whole =
        if share > 0.99 { format!("all {placed}") } else { format!("{} of {placed}", percent(share)) };
    let (kind, cause, text) = serial_kind(r);
    // Half of the pages are not the object.
    let first = if share < SERIAL {
        format!("{} of the pages of {ALL}", percent(share))
    } else {
        format!("the pages of {ALL}")
    };
    let text = text.replace("#", &first).replace('@', &ALL.to_string()).replace('~', IS).replace('$', IT);
    Some(Case {
        text: if several { format!("in each process, {text}") } else { text },
        processes: if several { placers.len() as u32 } else { 0 },
        own: format!(
            "{}: {whole} pages placed by {by}{} {}; {} remote{}",
            r.name,
            at_line.map_or(String::new(), |n| format!(
                ", {} of them (with most of the remote accesses)",
                count(n)
            )),
            top.at.as_ref().map_or_else(|| advice::place(&top.at, &top.function), |at| format!("at {at}")),
            percent(r.remote_share.unwrap_or(0.0)),
            // Counted per page, so more than a guess.
            r.least_remote().map_or(String::new(), |l| format!(
                ", {} if each page were on the node that uses it most",
                percent(l)
            )),
        ),
        common: vec![advice::pattern_sentence(r), advice::nodes_sentence(&r.user_nodes, nodes)],
        advice: advice::advise(r, program, cause),
        ..Case::new(kind, r, Some(top))
    })
}

/// What one thread's first touch is, by how the object is used.
fn serial_kind(r: &RowUse) -> (&'static str, Use, &'static str) {
    let parted = r.least_remote().is_some_and(|l| l <= advice::APART);
    if r.pattern == Pattern::AllOver && !parted {
        return match r.read_only {
            true => (
                "shared_read_mostly",
                Use::Serial,
                "every thread reads all of @, which ~ on the node of the one thread that touched $ first",
            ),
            false => (
                "shared_read_write",
                Use::Serial,
                "every thread reads and writes all of @, which ~ on the node of the one thread that touched $ first",
            ),
        };
    }
    // Where each allocation has a thread of its own, what the first thread wrote into it before does not matter: of a short run it
    // is a tenth of all lines, and a border there would give the program one name or the other by chance.
    let apart = parted || r.pattern == Pattern::OwnThread;
    if r.allocations > 1 && apart && r.pattern != Pattern::Blocked {
        return (
            "allocated_by_another_thread",
            Use::Arenas,
            "one thread allocates and first-touches @; each part is then used by one other thread",
        );
    }
    ("serial_first_touch", Use::Serial, "one thread touches # first, and threads on other nodes use them")
}

/// The allocator's own writes (chunk headers) placed the pages, before the program wrote to them.
fn allocator<'a>(r: &'a RowUse, program: Program) -> Option<Case<'a>> {
    let by_allocator: u64 = r.touchers.iter().map(|t| t.remote_by_allocator).sum();
    let top = r.touchers.iter().max_by_key(|t| t.remote_by_allocator)?;
    if (by_allocator as f64) < SERIAL * r.remote as f64 || !r.heap {
        return None;
    }
    // A large allocation's one header page says nothing about its other pages: those were placed elsewhere.
    Some(Case {
        at: top.allocator_at.clone(),
        function: top.allocator_function.clone(),
        outer: top.allocator_outer.clone(),
        text: format!(
            "the allocator writes its own headers into the pages of {ALL} when the memory is allocated; \
             these writes are the first touch"
        ),
        own: format!(
            "{}: {} of its {} on pages first touched inside the allocator by thread {}, called {}",
            r.name,
            percent(by_allocator as f64 / r.remote.max(1) as f64),
            remote_what(r),
            top.index,
            advice::place(&top.allocator_at, &top.allocator_function),
        ),
        advice: advice::advise(r, program, Use::Allocator),
        ..Case::new("allocator_placed_pages", r, None)
    })
}

/// Remote samples are in large folios at the borders between the parts of two nodes.
fn straddling<'a>(r: &'a RowUse, program: Program) -> Option<Case<'a>> {
    let folio = *r.folio_bytes.last()?;
    // Where every thread goes everywhere, the size of the pages changes nothing.
    let few = matches!(r.pattern, Pattern::Blocked | Pattern::Cyclic | Pattern::OneThread);
    if !few
        || (r.remote_by_folio as f64) < 0.6 * r.remote as f64
        || (r.shared_folio_remote as f64) < 0.6 * r.remote as f64
    {
        return None;
    }
    let top = r.touchers.first()?;
    Some(Case {
        text: format!(
            "pages of {} of {ALL} reach across the border between two nodes' parts",
            capacity(folio)
        ),
        own: format!(
            "{}: {} of its {} on pages that came with another page's first touch (folios of {}); \
             such folios that more than one node uses, or that another object's touch placed: {}",
            r.name,
            percent(r.remote_by_folio as f64 / r.remote.max(1) as f64),
            remote_what(r),
            capacity(folio),
            r.shared_folios,
        ),
        advice: advice::advise(r, program, Use::Straddling),
        ..Case::new("huge_page_straddling", r, Some(top))
    })
}

/// Whether parts are in the order of their use except for their borders, and no thread placed nearly all of it.
fn shifted(r: &RowUse) -> bool {
    let of_one = r.touchers.iter().map(|t| r.pages_of(t.thread)).max().unwrap_or(0);
    let of_each_process: u64 = placers(r).iter().map(|p| r.pages_of(p.0.thread)).sum();
    let most = of_one.max(of_each_process) as f64;
    let ordered = 2..=2 * r.user_nodes.len().max(1);
    most < SERIAL * r.placed_pages() as f64
        && r.runs.is_some_and(|(page_nodes, users)| ordered.contains(&page_nodes) && ordered.contains(&users))
}

/// Several threads placed the pages, and others use them.
fn mismatch<'a>(r: &'a RowUse, program: Program) -> Option<Case<'a>> {
    let known: u64 = r.touchers.iter().map(|t| t.remote).sum();
    let toucher_threads = r.touchers.iter().map(|t| t.thread).collect::<FastSet<u32>>().len();
    let shifted = shifted(r);
    let least = if shifted { LEAST_SHIFTED } else { MOSTLY_HALO };
    if r.remote_share.is_none_or(|s| s < least)
        || toucher_threads <= placers(r).len().max(1) && !shifted
        || (known as f64) < 0.5 * r.remote as f64
    {
        return None;
    }
    let top = r.touchers.first()?;
    let (kind, text) = match shifted {
        true => (
            "offset_mismatch",
            format!(
                "threads first-touch {ALL} in the order in which they use {IT}, but with other bounds: the borders differ"
            ),
        ),
        false => (
            "schedule_mismatch",
            format!("several threads touch the pages of {ALL} first, but not the parts that they use later"),
        ),
    };
    Some(Case {
        text,
        own: format!(
            "{}: {} threads placed its pages, most of them {}; {}",
            r.name,
            toucher_threads,
            advice::place(&top.at, &top.function),
            remote_sentence(r),
        ),
        advice: advice::advise(r, program, Use::Mismatch),
        ..Case::new(kind, r, Some(top))
    })
}

/// None of the above. A few remote lines need no explanation; if moving the object gains all the same, its
/// memory is [`crowded`].
fn unexplained<'a>(r: &'a RowUse, program: Program) -> Option<Case<'a>> {
    if r.basis == Basis::DramLines && r.remote_share.is_some_and(|s| s < LEAST_SHIFTED) {
        return None;
    }
    let most = if r.remote_share.is_some_and(|s| s > 0.5) { "most" } else { "part" };
    let (text, unseen) = match r.pages.unseen {
        0 => (
            format!(
                "{most} of {ALL} is on other nodes than the threads that use {IT}; no single cause explains it"
            ),
            String::new(),
        ),
        n => (
            format!(
                "{most} of {ALL} is on other nodes than the threads that use {IT}; {ITS} first touches were not recorded"
            ),
            format!(
                "; {} of its pages were placed by the kernel{}",
                count(n),
                if program.before { " or before the recording" } else { "" }
            ),
        ),
    };
    Some(Case {
        text,
        own: format!("{}: {}{unseen}", r.name, remote_sentence(r)),
        advice: advice::advise(r, program, Use::Unexplained),
        ..Case::new("remote_unexplained", r, None)
    })
}
