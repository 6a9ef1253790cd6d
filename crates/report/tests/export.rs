//! Findings as other tools read them: SARIF and JUnit.

#[allow(dead_code, unused_imports)] // Not all samples are asked for here.
#[path = "report_samples/mod.rs"]
mod samples;

use nearfar_analyze::Report;
use nearfar_report::export::{junit, sarif};
use serde_json::{Value, json};

fn log(report: &Report, root: &str) -> Value {
    serde_json::from_str(&sarif::log(report, root)).unwrap()
}

#[test]
fn a_finding_is_shown_at_the_line_that_placed_its_pages() {
    let mut report = samples::affected();
    report.findings[0].cause.at = Some("/home/me/my app/src/triad.c:21".into());
    let run = |root| log(&report, root)["runs"][0].clone();
    let found = run("/home/me/my app/")["results"][0].clone();
    assert_eq!(found["ruleId"], "serial_first_touch");
    assert_eq!(found["level"], "warning");
    let message = found["message"]["text"].as_str().unwrap();
    assert!(message.contains("(a, b, c)") && message.contains(&report.findings[0].advice), "{message}");
    let place = &found["locations"][0]["physicalLocation"];
    assert_eq!(place["region"], json!({ "startLine": 21 }));
    assert_eq!(place["artifactLocation"], json!({ "uri": "src/triad.c", "uriBaseId": "%SRCROOT%" }));
    assert_eq!(found["locations"][0]["logicalLocations"][0]["name"], "init");
    // A directory whose name only begins alike is another one.
    let elsewhere = run("/home/me/my")["results"][0]["locations"][0]["physicalLocation"].clone();
    assert_eq!(elsewhere["artifactLocation"], json!({ "uri": "file:///home/me/my%20app/src/triad.c" }));
    let rules = run("/")["tool"]["driver"]["rules"].clone();
    for found in run("/")["results"].as_array().unwrap() {
        assert_eq!(rules[found["ruleIndex"].as_u64().unwrap() as usize]["id"], found["ruleId"]);
    }
}

#[test]
fn code_without_lines_has_no_place() {
    let mut report = samples::affected();
    for at in [None, Some("libsolver.so+0x1f20"), Some("triad.c:0")] {
        report.findings[0].cause.at = at.map(str::to_owned);
        let found = log(&report, "/")["runs"][0]["results"][0].clone();
        assert_eq!(found["ruleId"], "serial_first_touch");
        assert_eq!(found.get("locations"), None, "{at:?}");
    }
}

#[test]
fn no_verdict_is_no_pass() {
    let report = samples::unknown();
    let run = log(&report, "/")["runs"][0].clone();
    let said = &run["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(said["level"], "warning");
    assert!(said["message"]["text"].as_str().unwrap().contains(&report.verdict_why), "{said}");
    let suite = junit::suite(&report);
    assert!(suite.contains("failures=\"0\" errors=\"0\" skipped=\"1\""), "{suite}");
    assert!(suite.contains("<skipped message=\"no verdict: "), "{suite}");
    let clean = log(&samples::clean(), "/")["runs"][0].clone();
    assert_eq!(clean["properties"]["verdict"], "clean");
    assert_eq!(clean["invocations"][0].get("toolExecutionNotifications"), None);
}

#[test]
fn an_affected_program_fails_its_cases_and_a_clean_one_passes() {
    let report = samples::affected();
    let cases = 1 + report.findings.len();
    let suite = junit::suite(&report);
    assert_eq!(suite.matches("<testcase ").count(), cases);
    assert_eq!(suite.matches("<failure ").count(), cases);
    assert!(suite.contains(&format!("tests=\"{cases}\" failures=\"{cases}\"")), "{suite}");
    assert!(suite.contains("triad.c:21"), "{suite}");
    let mut clean = samples::clean();
    clean.findings = report.findings.clone();
    let suite = junit::suite(&clean);
    assert_eq!((suite.matches("<failure").count(), suite.matches("<system-out>").count()), (0, cases));
}

#[test]
fn names_cannot_leave_their_element() {
    let mut report = samples::affected();
    report.command = vec!["./app</failure>".into(), "\u{1b}[31m\u{0}".into(), "a&b".into()];
    report.verdict_why = "\"quoted\"\nand 'said'".into();
    let suite = junit::suite(&report);
    assert!(suite.contains(r"./app&lt;/failure&gt; \u{1b}[31m\u{0} a&amp;b"), "{suite}");
    assert!(suite.contains("message=\"&quot;quoted&quot;&#10;and &#39;said&#39;\""), "{suite}");
}
