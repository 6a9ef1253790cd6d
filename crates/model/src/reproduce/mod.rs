//! Published results, computed anew: which runs a case rests on, what was published, and how far from it what
//! was counted and timed here is.
//!
//! The cases are rows of five public documents ([`Document`]). Each has a [`Kind`]: numbers are to agree within
//! [`TOLERANCE`], relations are to hold, arithmetic is printed beside the model. Nothing in the machines' files is
//! chosen to meet them; a figure that were would be named in [`Case::fitted`].
//!
//! For each case there is a [`Mutation`] that makes it wrong. A case that held all the same would prove nothing.

mod copies;
mod counters;
mod loops;
mod mutation;
mod runs;
mod seen;
mod stencil;
mod triads;

pub use loops::CALCULATED;
pub use mutation::Mutation;
pub use runs::{Run, runs};
pub use seen::{Lines, Seen, Sights};

use crate::time::Binding;
use serde::Serialize;

/// A number agrees with a published one if it is off by at most this part of it. // the goal that was set
pub const TOLERANCE: f64 = 0.10;

/// What a published result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A measurement to be met.
    Number,
    /// Something is more, or less, than something else.
    Relation,
    /// A calculation, not a measurement: shown beside the model.
    Arithmetic,
}

/// Where results were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// "Understanding NUMA for 3D isotropic Finite Difference (3DFD) wave equation code", S. Gogar, Intel.
    Stencil,
    /// "Real-Time NUMA Node Performance Analysis Using Intel Performance Counter Monitor".
    Counters,
    /// "Best practices for programming with openMP on NUMA systems", J. Mora, AMD.
    OpenMp,
    /// "Intel Xeon 5500 Platforms, Integrated Memory Controllers and NUMA", D. Levinthal et al., Intel.
    Xeon5500,
    /// "Guide:Opteron NUMA Analysis", TAU wiki.
    Opteron,
}

impl Document {
    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Document::Stencil => "ISO3DFD (Intel, 2016)",
            Document::Counters => "PCM (2016)",
            Document::OpenMp => "OpenMP on NUMA (AMD, 2012)",
            Document::Xeon5500 => "Xeon 5500 (Intel, 2010)",
            Document::Opteron => "Opteron NUMA Analysis (TAU)",
        }
    }
}

/// Either a number or words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number, in the row's unit.
    Number(f64),
    /// What cannot be one number.
    Words(String),
}

/// One figure or claim of a case, published and obtained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// As published.
    pub published: Value,
    /// As obtained here.
    pub obtained: Value,
    /// The lowest and highest that the confidence of the machine's figures allows; absent for counts.
    pub range: Option<[f64; 2]>,
    /// Unit of both.
    pub unit: String,
    /// Obtained over published, less 1; absent where either is not a number to be met.
    pub error: Option<f64>,
    /// Whether it agrees; absent for what is only shown.
    pub holds: Option<bool>,
}

/// A case with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// 1 to 17.
    pub id: u8,
    /// What it is.
    pub title: String,
    /// Where it was published.
    pub document: Document,
    /// What it is.
    pub kind: Kind,
    /// The row that is furthest off, as published; of a relation, the claim.
    pub published: Value,
    /// The same as obtained.
    pub obtained: Value,
    /// Its unit.
    pub unit: String,
    /// Its error.
    pub error: Option<f64>,
    /// Whether every row that can agree does.
    pub holds: bool,
    /// Figures of the machine that were chosen to meet this very result.
    pub fitted: Vec<String>,
    /// What binds, in the run that the case is about; absent where no time is asked for.
    pub binds: Option<Binding>,
    /// The machine.
    pub machine: String,
    /// How it was made smaller.
    pub scale: String,
    /// All rows.
    pub rows: Vec<Row>,
    /// What to know of it: traps of the document; why a number is off, and what was tried.
    pub notes: Vec<String>,
    /// Why it does not hold, where that is known.
    pub explained: Option<String>,
    /// What makes it fail.
    pub mutation: String,
    /// Whether that was done.
    pub mutated: bool,
}

/// All that was reproduced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// Version of this JSON.
    pub schema: u32,
    /// In order.
    pub cases: Vec<Case>,
}

/// A row of which both are numbers.
fn number(what: &str, published: f64, obtained: f64, unit: &str) -> Row {
    let error = obtained / published - 1.0;
    Row {
        what: what.into(),
        published: Value::Number(published),
        obtained: Value::Number(obtained),
        range: None,
        unit: unit.into(),
        error: Some(error),
        holds: Some(error.abs() <= TOLERANCE),
    }
}

/// A row that claims something of a number.
fn relation(what: &str, claim: &str, obtained: f64, unit: &str, holds: bool) -> Row {
    Row {
        what: what.into(),
        published: Value::Words(claim.into()),
        obtained: Value::Number(obtained),
        range: None,
        unit: unit.into(),
        error: None,
        holds: Some(holds && obtained.is_finite()),
    }
}

/// A row that is only shown.
fn shown(what: &str, published: &str, obtained: f64, unit: &str) -> Row {
    Row { holds: None, ..relation(what, published, obtained, unit, true) }
}

impl Row {
    /// With its range.
    fn within(self, low: f64, high: f64) -> Row {
        Row { range: Some([low.min(high), low.max(high)]), ..self }
    }
}

/// What its own file knows of a case; `judge` fills in the rest.
#[derive(Default)]
struct Draft {
    /// The run that the case is about: whose machine, scale and binding resource are named.
    about: Option<&'static str>,
    rows: Vec<Row>,
    notes: Vec<&'static str>,
    explained: Option<&'static str>,
}

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
        12 => &loops::EXAMPLES,
        13 => &["triad-one-node", "triad-interleaved", "triad-first-touch"],
        14 => &["triad-one-node", "triad-first-touch"],
        15 => &["chase-serial", "chase-parallel"],
        16 => &triads::TEAMS,
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
        let weak = crate::analyze::weak_figures(&about.machine);
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

impl Case {
    /// Rows that hold here and no longer in `other`.
    pub fn lost_in<'a>(&'a self, other: &'a Case) -> impl Iterator<Item = (&'a Row, &'a Row)> {
        let pairs = self.rows.iter().zip(&other.rows);
        pairs.filter(|(mine, theirs)| mine.holds == Some(true) && theirs.holds == Some(false))
    }
}
