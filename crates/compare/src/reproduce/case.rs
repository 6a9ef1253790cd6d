//! A published result as a case: what was published, what was obtained, and whether they agree.

use nearfar_timing::Binding;
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

/// A row of which both are numbers.
pub(super) fn number(what: &str, published: f64, obtained: f64, unit: &str) -> Row {
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
pub(super) fn relation(what: &str, claim: &str, obtained: f64, unit: &str, holds: bool) -> Row {
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
pub(super) fn shown(what: &str, published: &str, obtained: f64, unit: &str) -> Row {
    Row { holds: None, ..relation(what, published, obtained, unit, true) }
}

impl Row {
    /// With its range.
    pub(super) fn within(self, low: f64, high: f64) -> Row {
        Row { range: Some([low.min(high), low.max(high)]), ..self }
    }
}

/// What its own file knows of a case; `judge` fills in the rest.
#[derive(Default)]
pub(super) struct Draft {
    /// The run that the case is about: whose machine, scale and binding resource are named.
    pub(super) about: Option<&'static str>,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<&'static str>,
    pub(super) explained: Option<&'static str>,
}

impl Case {
    /// Rows that hold here and no longer in `other`.
    pub fn lost_in<'a>(&'a self, other: &'a Case) -> impl Iterator<Item = (&'a Row, &'a Row)> {
        let pairs = self.rows.iter().zip(&other.rows);
        pairs.filter(|(mine, theirs)| mine.holds == Some(true) && theirs.holds == Some(false))
    }
}

/// All that was reproduced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// Version of this JSON.
    pub schema: u32,
    /// In order.
    pub cases: Vec<Case>,
}
