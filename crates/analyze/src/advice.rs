//! What to change, in words that fit the object and how it is used.

use super::nodes::{NodeIndex, Nodes};
use super::object_rows::RowUse;
use super::program::{Managed, Program};
use super::value::{Pattern, Repair, RepairPart};

/// Stands in a sentence for the names of all objects of a finding that it holds for.
pub const ALL: char = '\u{1}';

/// What stands for those objects in a sentence: by whether it holds for one or for several.
pub const IT: &str = "\u{2}it|them\u{2}";
/// As [`IT`].
pub const ITS: &str = "\u{2}its|their\u{2}";
/// As [`IT`]: what is said of them.
pub const IS: &str = "\u{2}is|are\u{2}";

/// A sentence with the names of the objects that it holds for, and with the words that fit their number.
pub fn told(sentence: &str, names: &[&str]) -> String {
    let several = usize::from(names.len() > 1);
    let mut text = String::new();
    for (i, part) in sentence.split('\u{2}').enumerate() {
        // Every second part is such a pair of words.
        let word = if i % 2 == 1 { part.split('|').nth(several) } else { None };
        text.push_str(word.unwrap_or(part));
    }
    text.replace(ALL, &listed(names))
}

/// Each different sentence once, with the names of the objects that it holds for; at most four are named.
pub fn merged(sentences: &[(&str, &str)]) -> Vec<String> {
    let mut different: Vec<(&str, Vec<&str>)> = Vec::new();
    for &(name, sentence) in sentences.iter().filter(|s| !s.1.is_empty()) {
        match different.iter_mut().find(|d| d.0 == sentence) {
            Some((_, names)) => names.push(name),
            None => different.push((sentence, vec![name])),
        }
    }
    different.iter().map(|(sentence, names)| told(sentence, names)).collect()
}

/// `a`, `a and b`, `a, b and c`, `a, b, c and 4 more`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] if names.len() <= 4 => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", names[..3].join(", "), names.len() - 3),
    }
}

/// Largest remote share that is left when every page is where it is used most, for pages to count
/// as parted between the nodes: what halos of a stencil leave. // chosen
pub(super) const APART: f64 = 0.1;

/// Which cause the advice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// One thread touches first.
    Serial,
    /// The allocator touches first.
    Allocator,
    /// Large folios at borders.
    Straddling,
    /// Touch and use are divided differently.
    Mismatch,
    /// A policy placed it.
    Policy,
    /// A part of it is elsewhere than where it was touched.
    Overflow,
    /// One thread allocates for others.
    Arenas,
    /// Too much on one node.
    Crowded,
    /// Unknown cause.
    Unexplained,
}

/// `in init at main.c:12`, as far as known.
pub fn place(at: &Option<String>, function: &Option<String>) -> String {
    match (at, function) {
        (Some(at), Some(f)) => format!("in {f} at {at}"),
        (Some(at), None) => format!("at {at}"),
        (None, Some(f)) => format!("in {f} (caller unknown)"),
        (None, None) => "at a place that is not known".to_string(),
    }
}

/// Where the threads that use an object run, as evidence: `the threads that use it run on nodes 0 and 1`, with [`IT`].
pub fn nodes_sentence(users: &[(NodeIndex, f64)], nodes: &Nodes) -> String {
    let name = |&(n, _): &(NodeIndex, f64)| nodes.ids.get(usize::from(n)).map_or("?".into(), u32::to_string);
    let names: Vec<String> = users.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let s = if names.len() == 1 { "" } else { "s" };
    format!("the threads that use {IT} run on node{s} {}", listed(&names))
}

/// How the threads share the object, as evidence.
pub fn pattern_sentence(r: &RowUse) -> String {
    let how = match r.pattern {
        Pattern::Blocked => "each thread uses its own contiguous part of",
        Pattern::Cyclic => "threads take turns in small chunks of",
        Pattern::AllOver => "every thread uses all of",
        Pattern::OneThread => "only one thread uses",
        Pattern::OwnThread => "each thread uses its own of",
        Pattern::Unknown if r.lacks_addresses() => {
            "most samples name the object only, not the address (a random access or a chain of pointers), so it is not \
             known how threads share"
        }
        Pattern::Unknown => "there are too few samples to tell how threads share",
    };
    format!("{how} {ALL}")
}

/// What can be done where a runtime decides where objects lie.
fn of_runtime(runtime: Managed) -> String {
    let spread = "spread its memory over the nodes (numactl --interleave=all)";
    let alone = "run one process for each node, each on its own (nearfar run -N NODE)";
    match runtime {
        Managed::Java => format!(
            "The Java virtual machine places {ALL}. Let it know the nodes (-XX:+UseNUMA: new objects are on their thread's \
             node), or {spread}, or {alone}."
        ),
        Managed::Go => format!(
            "Go's runtime places {ALL}, on the node of the thread that touches {ITS} pages first: {spread}, or {alone}."
        ),
        Managed::Python => format!(
            "Let the threads or processes that use a part of {ALL} write to it first (numpy.empty touches no page), or {spread}, \
             or {alone}."
        ),
        Managed::V8 => {
            format!(
                "V8 places {ALL}, on the node of the thread that touches {ITS} pages first: {spread}, or {alone}."
            )
        }
        Managed::Erlang => format!(
            "Erlang's virtual machine places {ALL}, on the node of the thread that touches {ITS} pages first. Let its \
             schedulers stay on their cpus (erl +sbt db), and {spread}, or {alone}."
        ),
    }
}

/// Stands for the line of a loop where objects of several lines are meant, or it is not known.
const ANY: &str = "that uses \u{2}it|them\u{2}";

/// The advice, and the same for objects of many lines: without the line of this one.
pub fn advise(r: &RowUse, program: Program, cause: Use) -> [String; 2] {
    let known = |at: &Option<String>, function: &Option<String>| at.is_some() || function.is_some();
    let toucher = r.touchers.first().filter(|t| known(&t.at, &t.function));
    let touched = toucher.map_or(String::new(), |t| format!(" {}", place(&t.at, &t.function)));
    let used = match known(&r.used_at, &r.used_in) {
        true => place(&r.used_at, &r.used_in),
        false => ANY.to_owned(),
    };
    [advice(r, program, cause, &used, &touched), advice(r, program, cause, ANY, "")]
}

/// How many pages nodes best get, where all objects of a finding gain most by the same weights.
pub fn weighted(parts: &[RepairPart]) -> Option<String> {
    let Repair::Weighted { with_cpus, without } = parts.first()?.repair else { return None };
    if parts.iter().any(|part| part.repair != parts[0].repair) {
        return None;
    }
    let written = match parts.iter().all(|part| part.not_placeable.is_none()) {
        true => " (nearfar fix writes it)",
        false => "",
    };
    Some(format!(
        "Best is a ratio of {with_cpus} to {without}: pages on each node with cpus to pages on each without{written}."
    ))
}

fn advice(r: &RowUse, program: Program, cause: Use, used: &str, touched: &str) -> String {
    // What a policy did is not the runtime's, and what was not seen may not be.
    if let Some(runtime) =
        program.managed.filter(|_| !matches!(cause, Use::Policy | Use::Overflow | Use::Unexplained))
    {
        return of_runtime(runtime);
    }
    let name = ALL;
    // Objects allocated at several lines have no one place of use to name.
    let (here, bracketed, in_loop) = match used {
        ANY => (String::new(), String::new(), format!("in the loop {ANY}")),
        place => (format!(" {place}"), format!(" ({place})"), place.to_owned()),
    };
    let interleave = format!(
        "Interleave {name} over the nodes (numactl --interleave=all, or numa_alloc_interleaved for {IT} alone)"
    );
    match (cause, r.pattern) {
        (Use::Allocator, Pattern::OneThread | Pattern::Blocked) => format!(
            "Allocate {name} in the threads that use {IT}{bracketed}: an allocation places its pages on the allocating thread's node."
        ),
        (Use::Allocator, _) => format!(
            "Allocate {name} in the threads that use {IT}, or in one large block that is initialised in parallel: \
             many small allocations made by one thread are on that thread's node."
        ),
        (Use::Straddling, _) => format!(
            "Align each thread's part of {name} to the large page size, or turn large pages off for {IT} \
             (madvise(MADV_NOHUGEPAGE)) and compare: one first touch places a whole large page."
        ),
        (Use::Mismatch, Pattern::AllOver) if !program.openmp => format!(
            "Let each thread work on what it touched first{touched}, also {in_loop}; if every thread really needs all of {name}, \
             interleave {IT}."
        ),
        (Use::Mismatch, _) if !program.openmp => format!(
            "Divide {name} among the threads{touched} as {in_loop}, so that each thread uses what it touched first."
        ),
        (Use::Mismatch, Pattern::AllOver) => format!(
            "If the loops use schedule(dynamic), give both the initialisation{touched} and the loop {used} schedule(static), \
             so that each thread uses what it touched; if every thread really needs all of {name}, interleave {IT}."
        ),
        (Use::Mismatch, _) => format!(
            "Give the initialisation{touched} and the loop {used} the same schedule(static) and the same bounds, \
             so that each thread uses what it touched first."
        ),
        (Use::Policy, Pattern::AllOver) => format!("{interleave}: every thread uses all of {IT}."),
        (Use::Policy, _) if r.is_spread() => format!(
            "Leave out the interleaving of {name} (numactl --interleave, mbind), and let each thread initialise the part \
             that it uses{here}: the policy spreads pages over all nodes, whoever touches them."
        ),
        (Use::Policy, _) => format!(
            "Leave out the binding of {name} (mbind, numactl --membind or --preferred) or bind {IT} to the nodes of the threads \
             that use {IT}{bracketed}."
        ),
        (Use::Overflow, _) => format!(
            "Look whether the nodes of the threads that use {name}{bracketed} were full (numastat: numa_miss; nearfar topo: free \
             memory). If so, let threads of all nodes work on a part of {IT}, or interleave {IT}. If not, leave out what bound or moved \
             that part (mbind, move_pages, automatic balancing)."
        ),
        (Use::Arenas, _) => format!(
            "Allocate and initialise {name} in the thread that uses {IT}{bracketed}, before its first loop."
        ),
        (Use::Crowded, _) => format!("{interleave}: all memory controllers then share the load."),
        (Use::Unexplained, _) => {
            format!(
                "{interleave}.{}",
                match r.pages.unseen {
                    0 => "",
                    _ =>
                        " \u{2}Its|Their\u{2} first touches were not recorded: they tell the line to change.",
                }
            )
        }
        (Use::Serial, Pattern::Blocked) if !program.openmp => format!(
            "Let each thread initialise the part of {name} that it uses{here}: what touches a page first places it."
        ),
        (Use::Serial, Pattern::Blocked) => format!(
            "Initialise {name} in parallel, schedule(static), as the loop {used}: each thread then first-touches what it uses."
        ),
        (Use::Serial, Pattern::Cyclic | Pattern::AllOver | Pattern::Unknown)
            if r.least_remote()
                .is_some_and(|l| l <= APART && r.remote_share.is_some_and(|s| s > 2.0 * l)) =>
        {
            format!(
                "Initialise {name} in parallel, divided as the loop {used} divides {IT}: threads take turns in {IT}, but nearly \
                 every page is used from one node."
            )
        }
        (Use::Serial, Pattern::Cyclic) if !program.openmp => format!(
            "Threads take turns in {name}: give each a part of at least a page{here}, and let it initialise that part. \
             Otherwise: {}{}.",
            interleave[..1].to_lowercase(),
            &interleave[1..]
        ),
        (Use::Serial, Pattern::Cyclic) => format!(
            "Threads take turns in {name}: make the chunks of the loop {used} at least a page and initialise with the same schedule. Otherwise: {}{}.",
            interleave[..1].to_lowercase(),
            &interleave[1..]
        ),
        (Use::Serial, Pattern::AllOver) if r.read_only => format!(
            "Every thread reads all of {name} and nothing writes {IT} after {ITS} initialisation: give each node a copy of {IT}, if there is room. \
             Otherwise: {}{}: the load is then shared by all memory controllers, though most accesses stay remote.",
            interleave[..1].to_lowercase(),
            &interleave[1..]
        ),
        (Use::Serial, Pattern::AllOver) => format!(
            "{interleave}: every thread uses all of {IT}, so no thread's node is right, but all memory controllers then share the load."
        ),
        (Use::Serial, Pattern::OneThread | Pattern::OwnThread) => {
            // Of several threads with parts of their own, the first is only one.
            let one = r.users.first().filter(|_| r.pattern == Pattern::OneThread);
            let who = one.map_or(String::new(), |t| format!(" (thread {t})"));
            let used = if here.is_empty() { here } else { format!(",{here}") };
            format!("Touch or allocate {name} first in the thread that uses {IT}{who}{used}.")
        }
        // What takes random places of it is not a loop that divides it.
        (Use::Serial, Pattern::Unknown) if r.lacks_addresses() => format!(
            "{interleave} if every thread uses all of {IT}{here}; if each thread uses a part of its own, let it \
             initialise that part."
        ),
        (Use::Serial, Pattern::Unknown) => {
            format!("Initialise {name} in parallel, divided as the loop {used} divides {IT}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::touchers::Toucher;

    #[test]
    fn words_fit_the_number_of_objects() {
        let sentence = format!("Interleave {ALL}: {ITS} pages, all of {IT}");
        let merged = merged(&[("a", &sentence), ("b", "Bind it"), ("c", &sentence)]);
        assert_eq!(merged, ["Interleave a and c: their pages, all of them", "Bind it"]);
        assert_eq!(told(&sentence, &["a"]), "Interleave a: its pages, all of it");
    }

    #[test]
    fn no_advice_says_twice_that_something_is_used_or_names_a_place_that_is_not_known() {
        let causes = [
            Use::Serial,
            Use::Allocator,
            Use::Straddling,
            Use::Mismatch,
            Use::Policy,
            Use::Overflow,
            Use::Arenas,
            Use::Crowded,
            Use::Unexplained,
        ];
        let patterns = [
            Pattern::Blocked,
            Pattern::Cyclic,
            Pattern::OwnThread,
            Pattern::AllOver,
            Pattern::OneThread,
            Pattern::Unknown,
        ];
        for (cause, pattern) in causes.into_iter().flat_map(|c| patterns.map(|p| (c, p))) {
            for (openmp, spread) in [(true, true), (true, false), (false, true), (false, false)] {
                let program = Program { openmp, ..Program::default() };
                let row = |used_at: Option<String>| {
                    let mut row =
                        RowUse { pattern, used_at, touchers: vec![Toucher::default()], ..RowUse::default() };
                    if spread {
                        (row.page_nodes, row.user_nodes) = (vec![0.5, 0.5], vec![(0, 0.5), (1, 0.5)]);
                    }
                    row
                };
                let rows = [row(Some("a.c:7".into())), row(None)];
                for text in rows.iter().flat_map(|row| advise(row, program, cause)) {
                    let text = told(&text, &["a"]);
                    assert!(!text.contains("not known"), "{cause:?}, {pattern:?}: {text}");
                    for twice in [
                        "uses it that uses",
                        "use it (that",
                        "uses it (that",
                        "as that uses",
                        "also that",
                        "  ",
                    ] {
                        assert!(!text.contains(twice), "{cause:?}, {pattern:?}: {text}");
                    }
                }
            }
        }
    }
}
