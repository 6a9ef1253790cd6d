//! Findings as SARIF 2.1.0 (OASIS), which code hosts show beside the line: what placed the pages, and what to change.

use crate::finding_title;
use nearfar_analyze::{Finding, Report, Verdict};
use serde_json::{Value, json};

/// The log. Paths below `root` become relative to it, as code hosts want them; others stay as they are.
///
/// A finding is a `warning` where the verdict is affected and a `note` where it is not. A report without a verdict says so
/// as a notification of level `warning`: its empty list of results means nothing. So is a finding of which no line is known:
/// GitHub refuses the whole log for one result without a file.
pub fn log(report: &Report, root: &str) -> String {
    let mut rules: Vec<&str> = report.findings.iter().map(|f| f.kind.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let rule = |kind: &&str| json!({ "id": kind, "shortDescription": { "text": finding_title(kind) } });
    let level = if report.verdict == Verdict::Affected { "warning" } else { "note" };
    let (mut results, mut told) = (Vec::new(), Vec::new());
    for f in &report.findings {
        match place(report, f) {
            Some(place) => results.push(result(report, f, &rules, level, location(&place, root))),
            None => told.push(json!({
                "level": level,
                "message": { "text": message(report, f) },
                "associatedRule": { "id": f.kind, "index": index(&rules, f) },
            })),
        }
    }
    let mut invocation = json!({
        "executionSuccessful": true,
        "commandLine": report.command.join(" "),
    });
    if report.verdict == Verdict::Unknown {
        let text = format!("No verdict on {}: {}", report.machine.name, report.verdict_why);
        told.insert(0, json!({ "level": "warning", "message": { "text": text } }));
    }
    if !told.is_empty() {
        invocation["toolExecutionNotifications"] = json!(told);
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "nearfar",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            }},
            "invocations": [invocation],
            "results": results,
            "properties": {
                "verdict": report.verdict,
                "verdictWhy": report.verdict_why,
                "machine": report.machine.name,
                "machineAssumed": report.machine.assumed,
                "basis": report.basis.words(),
                "remoteTimeShare": report.remote_time_share,
                "remoteTimeShareInterval": report.remote_time_share_ci,
            },
        }],
    });
    nearfar_figures::json::pretty(&log)
}

fn message(report: &Report, f: &Finding) -> String {
    let title = finding_title(&f.kind);
    // The title's second half says in general what the cause says of these objects.
    let title = title.split(':').next().unwrap_or_default();
    let objects = if f.objects.is_empty() { String::new() } else { format!(" ({})", f.objects.join(", ")) };
    format!("{title}{objects}: {}. {}. {}", f.cause.text, super::gain(report, f), f.advice)
}

fn index(rules: &[&str], f: &Finding) -> Option<usize> {
    rules.iter().position(|rule| *rule == f.kind)
}

fn result(report: &Report, f: &Finding, rules: &[&str], level: &str, location: Value) -> Value {
    json!({
        "ruleId": f.kind,
        "ruleIndex": index(rules, f),
        "level": level,
        "rank": 100.0 * f.at_risk.clamp(0.0, 1.0),
        "message": { "text": message(report, f) },
        "locations": [location],
        // Stable as long as the same line places the same objects for the same reason.
        "partialFingerprints": {
            "finding/v1": format!("{} {} {}", f.kind, f.objects.join(","), f.cause.function.as_deref().unwrap_or("")),
        },
        "properties": { "evidence": f.evidence, "atRisk": f.at_risk, "predicted": f.predicted },
    })
}

/// A line of the source.
struct Place<'a> {
    file: &'a str,
    line: u32,
    function: Option<&'a str>,
}

/// The line that placed the pages, or else one that allocates or uses them.
fn place<'a>(report: &'a Report, f: &'a Finding) -> Option<Place<'a>> {
    let of = |at: &'a Option<String>, function: &'a Option<String>| {
        let (file, line) = file_and_line(at.as_deref()?)?;
        Some(Place { file, line, function: function.as_deref() })
    };
    let rows = || report.objects.iter().filter(|o| f.objects.contains(&o.name));
    let used = || rows().flat_map(|o| &o.accessed_at).find_map(|u| of(&u.at, &u.function));
    of(&f.cause.at, &f.cause.function)
        .or_else(|| rows().find_map(|o| of(&o.allocated_at, &o.allocated_in)))
        .or_else(used)
}

fn location(place: &Place, root: &str) -> Value {
    let artifact = match below(place.file, root) {
        Some(relative) => json!({ "uri": uri(relative), "uriBaseId": "%SRCROOT%" }),
        None => json!({ "uri": uri(place.file) }),
    };
    let mut location = json!({
        "physicalLocation": { "artifactLocation": artifact, "region": { "startLine": place.line } },
    });
    if let Some(function) = place.function {
        location["logicalLocations"] = json!([{ "name": function, "kind": "function" }]);
    }
    location
}

/// `file` and `line` of `file:line`; none of `module+0xoffset`.
fn file_and_line(at: &str) -> Option<(&str, u32)> {
    let (file, line) = at.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|&line| line > 0)?))
}

/// The rest of a path below a directory.
fn below<'a>(file: &'a str, root: &str) -> Option<&'a str> {
    if !file.starts_with('/') {
        return Some(file);
    }
    file.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')
}

/// A path as a URI reference: RFC 3986's unreserved characters and `/` stay, all other bytes are escaped.
fn uri(path: &str) -> String {
    let mut out = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
