//! Published results, computed anew: which runs a case rests on, what was published, and how far from it what
//! was counted and timed here is.
//!
//! The cases are rows of five public documents ([`Document`]). Each has a [`Kind`]: numbers are to agree within
//! [`TOLERANCE`], relations are to hold, arithmetic is printed beside the model. Nothing in the machines' files is
//! chosen to meet them; a figure that were would be named in [`Case::fitted`].
//!
//! For each case there is a [`Mutation`] that makes it wrong. A case that held all the same would prove nothing.

mod case;
mod copies;
mod counters;
mod loops;
mod mutation;
mod runs;
mod seen;
mod stencil;
mod triads;

use case::Draft;
pub use case::{Case, Document, Kind, Reproduction, Row, TOLERANCE, Value};
pub use loops::CALCULATED;
pub use mutation::Mutation;
pub use runs::{Run, runs};
pub use seen::{Lines, Seen, Sights};

/// The cases, from 1 on.
const TITLES: [(&str, Document, Kind); 17] = [
    ("Stencil, both sockets, pages on one node", Document::Stencil, Kind::Number),
    ("Stencil, one socket", Document::Stencil, Kind::Number),
    ("Stencil, a process on each socket", Document::Stencil, Kind::Number),
    ("Stencil, both sockets, first touch", Document::Stencil, Kind::Number),
    ("QPI and memory before and after first touch", Document::Stencil, Kind::Relation),
    ("Static and dynamic schedule with first touch", Document::Stencil, Kind::Relation),
    ("Phase 1: node 0 writes node 1's memory", Document::Counters, Kind::Relation),
    ("Phase 2: node 0 reads node 1 and writes node 0", Document::Counters, Kind::Relation),
    ("A matrix by rows and by columns", Document::Counters, Kind::Relation),
    ("Pages interleaved over 8 nodes, and local", Document::OpenMp, Kind::Arithmetic),
    ("STREAM, 8 threads on cpus 0, 2, … 14", Document::OpenMp, Kind::Number),
    ("OpenMP examples 1 to 4 and their repairs", Document::OpenMp, Kind::Relation),
    ("Streamed triad, 8 threads", Document::Xeon5500, Kind::Number),
    ("Events of the triad, one node and first touch", Document::Xeon5500, Kind::Number),
    ("Initialised by one thread, and in the order of the work", Document::Xeon5500, Kind::Relation),
    ("4 threads on a socket, 2 + 2, and 8", Document::Xeon5500, Kind::Relation),
    ("Copies of 256 MB from each cpu", Document::Opteron, Kind::Number),
];

/// Number of cases.
pub const CASES: u8 = TITLES.len() as u8;

/// What the case needs: names of [`runs`].
pub fn needs(id: u8) -> &'static [&'static str] {
    match id {
        1 => &["iso3dfd-serial"],
        2 => &["iso3dfd-one-socket"],
        3 => &["iso3dfd-two-processes"],
        4 => &["iso3dfd-first-touch"],
        5 => &["iso3dfd-serial", "iso3dfd-first-touch"],
        6 => &["iso3dfd-serial", "iso3dfd-first-touch", "iso3dfd-dynamic"],
        7 => &["phase1-remote", "phase1-local"],
        8 => &["phase2-remote"],
        9 => &["rows", "rows-without-prefetcher", "columns", "first-column"],
        11 => &["stream-copy", "stream-scale", "stream-add", "stream-triad"],
        12 => &runs::EXAMPLES,
        13 => &["triad-one-node", "triad-interleaved", "triad-first-touch"],
        14 => &["triad-one-node", "triad-first-touch"],
        15 => &["chase-serial", "chase-parallel"],
        16 => &runs::TEAMS,
        17 => &["copy-0", "copy-1", "copy-2", "copy-3"],
        _ => &[],
    }
}

/// Judges a case by what its runs counted; `mutated`: after its mutation. One whose runs are missing, or whose
/// machine does not say enough, does not hold, and says why.
///
/// # Panics
/// If `id` is not one of 1 to [`CASES`].
pub fn judge(id: u8, seen: &Sights, mutated: bool) -> Case {
    let mutation = Mutation::of(id);
    let changed;
    let sights = if mutated {
        changed = mutation.applied(seen);
        &changed
    } else {
        seen
    };
    let draft = match id {
        1..=6 => stencil::draft(id, sights),
        7..=9 => counters::draft(id, sights),
        10..=12 => loops::draft(id, sights),
        13..=16 => triads::draft(id, sights),
        _ => copies::draft(sights),
    };
    let (title, document, kind) = TITLES[usize::from(id) - 1];
    let mut case = Case {
        id,
        title: title.into(),
        document,
        kind,
        published: Value::Words("unknown".into()),
        obtained: Value::Words("unknown".into()),
        unit: String::new(),
        error: None,
        holds: false,
        fitted: Vec::new(),
        binds: None,
        machine: String::new(),
        scale: "none: a calculation".into(),
        rows: Vec::new(),
        notes: Vec::new(),
        explained: None,
        mutation: mutation.words().into(),
        mutated,
    };
    if let Err(why) = draft.and_then(|draft| fill(&mut case, draft, sights)) {
        case.obtained = Value::Words(format!("unknown: {why}"));
    }
    case
}

fn fill(case: &mut Case, draft: Draft, sights: &Sights) -> Result<(), String> {
    if let Some(name) = draft.about {
        let about = sights.get(name)?;
        case.machine.clone_from(&about.machine.name);
        case.scale.clone_from(&about.scale);
        case.binds = Some(about.time()?.binds);
        let weak = nearfar_analyze::weak_figures(&about.machine);
        case.fitted = weak.into_iter().filter(|f| f.confidence == "fitted").map(|f| f.name).collect();
    }
    // Of numbers, the row that is furthest off; else the first that should hold.
    let off = |r: &Row| r.error.map_or(0.0, f64::abs);
    let numbers = draft.rows.iter().filter(|r| r.error.is_some());
    let head = numbers.max_by(|a, b| off(a).total_cmp(&off(b)));
    let head = head.or_else(|| draft.rows.iter().find(|r| r.holds.is_some())).ok_or("a case without rows")?;
    (case.published, case.obtained) = (head.published.clone(), head.obtained.clone());
    (case.unit, case.error) = (head.unit.clone(), head.error);
    case.holds = draft.rows.iter().all(|r| r.holds != Some(false));
    case.explained = draft.explained.filter(|_| !case.holds && !case.mutated).map(str::to_owned);
    case.notes = draft.notes.into_iter().map(str::to_owned).collect();
    case.rows = draft.rows;
    Ok(())
}
