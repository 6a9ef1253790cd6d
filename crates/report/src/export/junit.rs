//! A verdict as a JUnit test suite, which CI servers show as tests: of a report one case for the verdict and one for each
//! finding, of runs under several placements one for the verdict and one for each placement.

use crate::finding_title;
use nearfar_analyze::{Report, Verdict};
use nearfar_compare::trials::{Hurts, Judged, Trials};
use nearfar_figures::escape;
use std::fmt::Write;

/// The suite. An affected program fails its cases; one without a verdict has a skipped case with the reason, since
/// nothing was tested; findings of a clean program pass, with their text as output.
pub fn suite(report: &Report) -> String {
    let affected = report.verdict == Verdict::Affected;
    let (failures, skipped) = match report.verdict {
        Verdict::Affected => (1 + report.findings.len(), 0),
        Verdict::Unknown => (0, 1),
        Verdict::Clean => (0, 0),
    };
    let mut out = begin([1 + report.findings.len(), failures, skipped], report.seconds);
    let why = attribute(&report.verdict_why);
    let command = text(&report.command.join(" "));
    let name = attribute(&format!("memory placement on {}", report.machine.name));
    let time = report.seconds;
    let _ = writeln!(out, "  <testcase classname=\"nearfar\" name=\"{name}\" time=\"{time:.3}\">");
    let _ = match report.verdict {
        Verdict::Affected => {
            writeln!(out, "    <failure type=\"affected\" message=\"{why}\">{command}</failure>")
        }
        Verdict::Unknown => writeln!(out, "    <skipped message=\"no verdict: {why}\"/>"),
        Verdict::Clean => writeln!(out, "    <system-out>{why}\n{command}</system-out>"),
    };
    out.push_str("  </testcase>\n");
    for f in &report.findings {
        let place = f.cause.at.as_deref().unwrap_or("place unknown");
        let name = attribute(&format!("{}. {} ({place})", f.rank, finding_title(&f.kind)));
        let mut body = vec![f.cause.text.clone()];
        if !f.objects.is_empty() {
            body.push(format!("Objects: {}", f.objects.join(", ")));
        }
        body.extend(f.evidence.iter().cloned());
        body.push(format!("{}. {}", super::gain(report, f), f.advice));
        let body = text(&body.join("\n"));
        let kind = attribute(&f.kind);
        let _ = writeln!(out, "  <testcase classname=\"nearfar.{kind}\" name=\"{name}\" time=\"0\">");
        let _ = if affected {
            writeln!(
                out,
                "    <failure type=\"{kind}\" message=\"{}\">{body}</failure>",
                attribute(&f.cause.text)
            )
        } else {
            writeln!(out, "    <system-out>{body}</system-out>")
        };
        out.push_str("  </testcase>\n");
    }
    out.push_str(END);
    out
}

/// The suite of runs under several placements. A program that NUMA hurts fails the case of the verdict; without a verdict
/// that case is skipped with the reason. The placements are cases that pass, with what came of them as output, and are
/// skipped if they were not tried or gave no value.
pub fn trials(trials: &Trials, judged: &Judged) -> String {
    let failures = usize::from(judged.verdict == Hurts::Harmful);
    let without = judged.placements.iter().filter(|p| p.median.is_none()).count() + trials.not_tried.len();
    let skipped = usize::from(judged.verdict == Hurts::Unknown) + without;
    let all = 1 + judged.placements.len() + trials.not_tried.len();
    // What was compared may be modelled seconds, or no seconds at all.
    let mut out = begin([all, failures, skipped], 0.0);
    let why = attribute(&judged.why);
    let command = text(&trials.command.join(" "));
    let name = attribute(&format!("does NUMA hurt on {}", trials.machine));
    let body = match judged.verdict {
        Hurts::Harmful => format!("<failure type=\"harmful\" message=\"{why}\">{command}</failure>"),
        Hurts::Unknown => format!("<skipped message=\"no verdict: {why}\"/>"),
        Hurts::Harmless => format!("<system-out>{}\n{command}</system-out>", text(&judged.why)),
    };
    let mut case = |name: &str, body: &str| {
        let _ = writeln!(
            out,
            "  <testcase classname=\"nearfar.check\" name=\"{name}\" time=\"0\">\n    {body}\n  </testcase>"
        );
    };
    case(&name, &body);
    for placed in &judged.placements {
        let body = match (&placed.median, &placed.failed) {
            (Some(_), _) => {
                format!("<system-out>{}: {}</system-out>", text(&placed.what), text(&placed.words))
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("no run gave a value");
                format!("<skipped message=\"{}\"/>", attribute(why))
            }
        };
        case(&attribute(&placed.name), &body);
    }
    for left_out in &trials.not_tried {
        case(&attribute(&left_out.name), &format!("<skipped message=\"{}\"/>", attribute(&left_out.why)));
    }
    out.push_str(END);
    out
}

/// The head of a document of one suite: tests, failures, skipped.
fn begin([tests, failures, skipped]: [usize; 3], seconds: f64) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Jenkins' schema has `skipped` of a suite only.
    for (element, skipped) in
        [("testsuites", String::new()), ("testsuite", format!(" skipped=\"{skipped}\""))]
    {
        let _ = writeln!(
            out,
            "<{element} name=\"nearfar\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\"{skipped} \
             time=\"{seconds:.3}\">"
        );
    }
    out
}

const END: &str = "</testsuite>\n</testsuites>\n";

/// Text of an element.
fn text(raw: &str) -> String {
    escape::xml(&escape::page(raw))
}

/// Text of an attribute between double quotes: line ends would be read as spaces.
fn attribute(raw: &str) -> String {
    text(raw).replace('\n', "&#10;")
}
