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

/// GitHub refuses a log with one result that has no file.
#[test]
fn a_finding_without_a_line_is_at_a_line_of_its_objects_or_else_a_notification() {
    let mut report = samples::affected();
    report.objects[0].allocated_at = Some("/w/triad.c:13".into());
    for at in [None, Some("libsolver.so+0x1f20"), Some("triad.c:0")] {
        report.findings[0].cause.at = at.map(str::to_owned);
        let found = log(&report, "/w")["runs"][0]["results"][0].clone();
        assert_eq!(found["ruleId"], "serial_first_touch");
        let place = &found["locations"][0]["physicalLocation"];
        assert_eq!(
            (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
            (&"triad.c".into(), &13.into())
        );
    }
    for o in &mut report.objects {
        o.allocated_at = Some("libsolver.so+0x1f20".into());
        o.accessed_at.iter_mut().for_each(|u| u.at = None);
    }
    let run = log(&report, "/w")["runs"][0].clone();
    assert_eq!(run["results"], json!([]));
    let told = &run["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(told["associatedRule"], json!({ "id": "serial_first_touch", "index": 0 }));
    assert!(told["message"]["text"].as_str().unwrap().contains(&report.findings[0].advice), "{told}");
}

/// What SARIF 2.1.0 and GitHub require of each part, and no other names: their schema allows none.
#[test]
fn a_log_has_what_the_standard_requires_and_nothing_that_it_does_not_know() {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    for report in
        [samples::affected(), samples::simulated(), samples::clean(), samples::unknown(), samples::one_node()]
    {
        let log = log(&report, "/home/user");
        assert_eq!((keys(&log), &log["version"]), ("$schema runs version".into(), &"2.1.0".into()));
        let run = &log["runs"][0];
        assert_eq!(keys(run), "invocations properties results tool");
        assert_eq!(keys(&run["tool"]["driver"]), "name rules version");
        assert_eq!(run["invocations"][0]["executionSuccessful"], true);
        for found in run["results"].as_array().unwrap() {
            assert_eq!(
                keys(found),
                "level locations message partialFingerprints properties rank ruleId ruleIndex"
            );
            assert!((0.0..=100.0).contains(&found["rank"].as_f64().unwrap()), "{found}");
            assert!(["warning", "note"].contains(&found["level"].as_str().unwrap()), "{found}");
            let place = &found["locations"][0]["physicalLocation"];
            assert!(place["region"]["startLine"].as_u64().unwrap() > 0, "{found}");
            assert!(!place["artifactLocation"]["uri"].as_str().unwrap().is_empty(), "{found}");
        }
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
    // Jenkins' schema has no other attributes of the outermost element.
    let outer = suite.lines().nth(1).unwrap();
    let names: Vec<&str> = outer.split(' ').skip(1).filter_map(|part| part.split('=').next()).collect();
    assert_eq!(names, ["name", "tests", "failures", "errors", "time"]);
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
