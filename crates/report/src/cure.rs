//! The page at the end of `nearfar cure`: what was wrong, what was applied, what it gained, and the edit that
//! makes it last.

use super::layout::{Page, Style, percent, plural};
use super::placement::Placement;
use super::sections::kind;
use super::whatif::{gain, words};
use nearfar_analyze::{Predicted, Report, Verdict};
use nearfar_compare::trials::Judged;
use nearfar_compare::{Change, Comparison};
use serde_json::json;

/// What was done, and what came of it.
#[derive(Clone, Debug)]
pub struct Cure<'a> {
    /// The report of the program as it is.
    pub before: &'a Report,
    /// What a placement file can do.
    pub placement: Option<&'a Placement>,
    /// What it cannot, a line each.
    pub left: &'a [String],
    /// The file's name.
    pub file: &'a str,
    /// The report of the program with it.
    pub after: Option<&'a Report>,
    /// What differs between the two.
    pub comparison: Option<&'a Comparison>,
    /// Runs with and without it.
    pub judged: Option<&'a Judged>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was wrong.
    Healthy,
    /// Runs prove that the placement makes the program faster.
    Cured,
    /// It does not, or that is not proved.
    NotCured,
    /// Only the source can be changed.
    SourceOnly,
    /// Whether anything is wrong is unknown.
    Unknown,
}

impl Cure<'_> {
    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        match (self.before.findings.first(), self.placement, self.before.verdict) {
            (None, _, Verdict::Clean) => Outcome::Healthy,
            (None, _, _) => Outcome::Unknown,
            (Some(_), None, _) => Outcome::SourceOnly,
            (Some(_), Some(_), _) => match self.proof().is_some_and(|p| p.words == "faster") {
                true => Outcome::Cured,
                false => Outcome::NotCured,
            },
        }
    }

    /// What runs with and without the file gave, for a page.
    pub fn proven(&self) -> Option<super::html::Proof> {
        let proof = self.proof()?;
        let gain =
            proof.gain.map(|g| nearfar_compare::Difference { value: g.estimate, low: g.low, high: g.high });
        let how = if self.before.time.is_some() { "modelled" } else { "measured" };
        Some(super::html::Proof { how, runs: proof.runs, gain, words: proof.words.clone() })
    }

    /// The runs with the file.
    fn proof(&self) -> Option<&nearfar_compare::trials::Placed> {
        self.judged?.placements.iter().find(|p| p.kind == nearfar_compare::trials::Kind::Objects)
    }
}

/// The page, in `width` columns.
pub fn to_text(cure: &Cure, width: usize, color: bool) -> String {
    let brief = super::paths::brief(cure.before);
    let mut page = Page::new(width, color);
    let (style, headline) = match cure.outcome() {
        Outcome::Healthy => (Style::Good, format!("Nothing to cure. {}", brief.verdict_why)),
        Outcome::Unknown => {
            (Style::Unsure, format!("Unknown whether there is anything to cure. {}", brief.verdict_why))
        }
        Outcome::SourceOnly => {
            (Style::Bad, "Something is wrong that only a change of the source repairs.".to_owned())
        }
        Outcome::Cured => (Style::Good, "Cured, without a recompile.".to_owned()),
        Outcome::NotCured => {
            (Style::Unsure, "Something is wrong, and what was applied is not proved to help.".to_owned())
        }
    };
    page.headline(style, &headline);
    if brief.findings.is_empty() {
        return page.finish();
    }
    page.heading("What is wrong");
    for finding in &brief.findings {
        page.bullet(&format!("{}: {}", kind(&finding.kind), finding.objects.join(", ")));
        let at = match (&finding.cause.function, &finding.cause.at) {
            (Some(function), Some(at)) => format!("{function} at {at}: "),
            (None, Some(one)) | (Some(one), None) => format!("{one}: "),
            (None, None) => String::new(),
        };
        page.item(2, "cause", &format!("{at}{}", finding.cause.text));
    }
    page.heading("What was applied");
    match cure.placement {
        Some(placement) => {
            page.line(&format!("  {}", cure.file));
            for object in &placement.file.objects {
                let what = object.comment.clone().unwrap_or_else(|| object.label().to_owned());
                page.bullet(&what);
            }
        }
        None => page.paragraph("Nothing: no placement file can say what would help."),
    }
    cure.left.iter().for_each(|line| page.bullet(&format!("not applied: {line}")));
    result(&mut page, cure);
    page.heading("What makes it last");
    for finding in &brief.findings {
        page.bullet(&finding.advice);
    }
    page.finish()
}

fn result(page: &mut Page, cure: &Cure) {
    page.heading("What it gained");
    let best = cure.before.what_if.as_ref().and_then(|w| w.placeable.as_ref());
    match (best, &cure.before.what_if_why) {
        (Some(best), _) => page.item(2, "predicted", &gain(&best.predicted)),
        (None, why) => {
            page.item(2, "predicted", &format!("unknown: {}", why.as_deref().unwrap_or("nothing to place")));
        }
    }
    let how = if cure.before.time.is_some() { "modelled" } else { "measured" };
    match (cure.proof(), cure.proof().and_then(|p| p.gain)) {
        (Some(proof), Some(gain)) if gain.low > -1.0 => {
            // As the prediction and the comparison say it: time, not speed.
            let ratio = |speed: f64| 1.0 / (1.0 + speed);
            let less =
                Predicted { ratio: ratio(gain.estimate), low: ratio(gain.high), high: ratio(gain.low) };
            let runs = plural(proof.runs, "run");
            page.item(2, how, &format!("{}, {runs} with and without: {}", self::gain(&less), proof.words));
        }
        (Some(proof), _) => {
            page.item(2, how, &format!("unknown: {}", proof.failed.as_deref().unwrap_or(&proof.words)));
        }
        (None, _) => page.item(2, how, "not run"),
    }
    let Some(after) = cure.after else { return };
    let of = |r: &Report| percent(r.remote_share);
    page.item(2, "remote", &format!("{} before, {} after", of(cure.before), of(after)));
    let Some(comparison) = cure.comparison else { return };
    // The time is said above, in the same unit.
    page.item(2, "in all", comparison.verdict.words());
    let changed = comparison
        .objects
        .iter()
        .filter(|o| matches!(o.change, Change::Repaired | Change::Better | Change::Worse));
    let changed: Vec<String> = changed.map(|o| format!("{} {}", o.name, o.change.words())).collect();
    if !changed.is_empty() {
        page.item(2, "objects", &changed.join(", "));
    }
    for finding in &after.findings {
        page.bullet(&format!("left: {}: {}", kind(&finding.kind), finding.objects.join(", ")));
    }
    for part in after.what_if.iter().flat_map(|w| &w.best).flat_map(|b| &b.parts) {
        page.bullet(&format!("more would gain: {} {}", part.object, words(part.repair)));
    }
}

/// As JSON, indented, with a final line feed. `apply`: the command that runs the program with the repair.
pub fn to_json(cure: &Cure, apply: Option<&str>) -> String {
    let outcome = match cure.outcome() {
        Outcome::Healthy => "healthy",
        Outcome::Cured => "cured",
        Outcome::NotCured => "not_cured",
        Outcome::SourceOnly => "source_only",
        Outcome::Unknown => "unknown",
    };
    let proof = cure.proven().map(|proof| {
        json!({
            "how": proof.how,
            "runs": proof.runs,
            // More speed, with its 95 % interval: 0.1 is ten percent.
            "gain": proof.gain,
            "words": proof.words,
        })
    });
    nearfar_figures::json::pretty(&json!({
        "schema": 1,
        "outcome": outcome,
        "verdict_why": cure.before.verdict_why,
        "findings": cure.before.findings,
        "placement_file": cure.placement.map(|_| cure.file),
        "predicted": cure.placement.map(|p| &p.predicted),
        "not_applied": cure.left,
        "proof": proof,
        "remote_share_before": cure.before.remote_share,
        "remote_share_after": cure.after.map(|r| r.remote_share),
        "comparison": cure.comparison,
        "runs": cure.judged,
        "apply": apply,
    }))
}
