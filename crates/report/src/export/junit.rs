//! The verdict as a JUnit test suite, which CI servers show as tests: one case for the verdict, one for each finding.

use crate::finding_title;
use nearfar_analyze::{Report, Verdict};
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
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = |out: &mut String, element: &str| {
        let _ = writeln!(
            out,
            "<{element} name=\"nearfar\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
             time=\"{:.3}\">",
            1 + report.findings.len(),
            report.seconds
        );
    };
    suite(&mut out, "testsuites");
    suite(&mut out, "testsuite");
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
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

/// Text of an element.
fn text(raw: &str) -> String {
    escape::xml(&escape::page(raw))
}

/// Text of an attribute between double quotes: line ends would be read as spaces.
fn attribute(raw: &str) -> String {
    text(raw).replace('\n', "&#10;")
}
