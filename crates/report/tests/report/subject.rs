//! The page of one object or function: which one a name means, and that its rows are the report's own.

use crate::{golden, samples};
use nearfar_analyze::{CountedInWindows, Report};
use nearfar_report::subject::{NotFound, Only, Subject, find, names, to_json, to_text};
use serde_json::Value;

#[test]
fn the_page_is_what_was_read_and_approved() {
    let page = |report, subject, width| to_text(report, subject, "app.nearfar", "app.nearfar", width, false);
    let (counted, sampled) = (samples::simulated(), samples::affected());
    golden("object", &page(&sampled, Subject::Object(0), 100));
    golden("object-counted", &page(&counted, Subject::Object(0), 80));
    golden("function", &page(&counted, Subject::Function(0), 100));
    golden("function-narrow", &page(&sampled, Subject::Function(1), 60));
    let (rowless, subject) = without_a_row(sampled.clone());
    golden("object-mentioned", &page(&rowless, subject, 100));
}

#[test]
fn a_name_a_line_or_a_part_of_a_name_leads_to_one_subject() {
    let mut report = samples::affected();
    report.objects[1].allocated_at = Some("/home/user/bench/triad.c:13".into());
    let all = names(&report, Only::Any);
    assert_eq!(find(&all, "b"), Ok(Subject::Object(1)));
    for line in ["/home/user/bench/triad.c:13", "triad.c:13", "b@triad.c:13", "b@/home/user/bench/triad.c:13"]
    {
        assert_eq!(find(&all, line), Ok(Subject::Object(1)), "{line}");
    }
    // Exactly `a`, although other names have that letter; a part of only one; and of several.
    assert_eq!(find(&all, "a"), Ok(Subject::Object(0)));
    assert_eq!(find(&all, "OMP_FN"), Ok(Subject::Function(0)));
    assert_eq!(find(&all, "grid"), Err(NotFound::Unknown));
    assert_eq!(find(&all, ""), Err(NotFound::Unknown));
    // A mapped file is printed by its base name; the object that is called so is meant.
    report.objects[2].name = "/tmp/a".into();
    let all = names(&report, Only::Any);
    assert_eq!((find(&all, "a"), find(&all, "/tmp/a")), (Ok(Subject::Object(0)), Ok(Subject::Object(2))));
    // Two of one name, and then a function of that name, too.
    report.objects[2].name = "b".into();
    report.functions[0].function = "b".into();
    let all = names(&report, Only::Any);
    let several =
        ["b@triad.c:13 (object)", "b@triad.c:14 (object)", "b (function)"].map(String::from).to_vec();
    assert_eq!(find(&all, "b"), Err(NotFound::Several(several)));
    assert_eq!(find(&all, "b@triad.c:14"), Ok(Subject::Object(2)));
    assert_eq!(find(&names(&report, Only::Functions), "b"), Ok(Subject::Function(0)));
}

/// The report without the row of its first object, as of a program with more objects than are listed, and what leads to it.
fn without_a_row(mut report: Report) -> (Report, Subject) {
    let name = report.objects.remove(0).name;
    let subject = find(&names(&report, Only::Objects), &name);
    (report, subject.unwrap_or_else(|e| panic!("{name}: {e:?}")))
}

#[test]
fn an_object_that_only_a_finding_names_is_shown_with_what_is_known_of_it() {
    let whole = samples::affected();
    let name = whole.objects[0].name.clone();
    let (report, subject) = without_a_row(whole);
    let about: Value = serde_json::from_str(&to_json(&report, subject, "app.nearfar")).unwrap();
    assert_eq!(about["mentioned"], name.as_str());
    assert!(about["object"].is_null() && about["function"].is_null(), "{about}");
    assert_eq!(about["findings"].as_array().unwrap().len(), 1, "{about}");
    let text = to_text(&report, subject, "app.nearfar", "app.nearfar", 100, false);
    assert!(text.contains(&report.findings[0].advice[..40]), "{text}");
    assert!(names(&report, Only::Functions).iter().all(|n| n.subject != subject));
    // By the line that allocates it, where a repair tells; and of what is tried, not found.
    let mut counted = samples::simulated();
    let part = &mut counted.what_if.as_mut().unwrap().placeable.as_mut().unwrap().parts[0];
    (part.object, part.allocated_at) = (counted.objects[0].name.clone(), Some("/w/src/grid.c:7".into()));
    counted.findings.clear();
    let (report, subject) = without_a_row(counted);
    assert!(matches!(subject, Subject::Mentioned(_)), "{subject:?}");
    assert_eq!(find(&names(&report, Only::Any), "grid.c:7"), Ok(subject));
    let text = to_text(&report, subject, "app.nearfar", "app.nearfar", 100, false);
    assert!(text.contains("fix       nearfar fix app.nearfar") && text.contains("grid.c:7, "), "{text}");
}

#[test]
fn the_page_and_the_json_have_the_same_repair_whatever_the_folder_of_the_source() {
    let mut report = samples::simulated();
    let at = Some("/w/src/grid.c:7".to_owned());
    report.objects[0].allocated_at.clone_from(&at);
    let w = report.what_if.as_mut().unwrap();
    w.placeable.as_mut().unwrap().parts[0].allocated_at = at;
    let text = to_text(&report, Subject::Object(0), "app.nearfar", "app.nearfar", 100, false);
    assert!(text.contains("fix       nearfar fix app.nearfar"), "{text}");
}

#[test]
fn lines_that_were_counted_in_windows_say_how_far_off_they_are() {
    let mut report = samples::simulated();
    let page = |report: &Report, subject| to_text(report, subject, "app.nearfar", "app.nearfar", 120, false);
    assert!(page(&report, Subject::Object(0)).contains("of others, counted; bound"));
    report.counters.as_mut().unwrap().windows = Some(CountedInWindows {
        windows: 37,
        counted_instructions: 10,
        instructions: 100,
        lines_error: Some(0.01),
        remote_share_error: Some(0.01),
        seconds_error: Some(0.01),
        cut_error: None,
    });
    let unknown = page(&report, Subject::Object(0));
    assert!(unknown.contains("50 %, counted in windows (95 % interval);"), "{unknown}");
    assert!(unknown.contains("of others, counted in windows, how far off is unknown; bound"), "{unknown}");
    report.objects[0].dram.as_mut().unwrap().windows_error = Some(0.032);
    let known = page(&report, Subject::Object(0));
    assert!(known.contains("of others, counted in windows ±3.2 %; bound"), "{known}");
    let function = page(&report, Subject::Function(0));
    assert!(function.contains("estimated from samples; bound"), "{function}");
}

#[test]
fn its_rows_are_the_reports_own() {
    let report = samples::simulated();
    let whole: Value = serde_json::from_str(&nearfar_report::to_json(&report)).unwrap();
    let about = |subject| -> Value {
        serde_json::from_str(&to_json(&report, subject, "--as 2x22 'my app.nearfar'")).unwrap()
    };
    let a = about(Subject::Object(0));
    assert_eq!(a["object"], whole["objects"][0]);
    assert_eq!(a["findings"], whole["findings"]);
    assert_eq!(a["repairs"][0], whole["what_if"]["repairs"][0]);
    assert_eq!(a["repairs"].as_array().unwrap().len(), 1, "what is of all objects is not of this one: {a}");
    assert_eq!(a["placement"], whole["what_if"]["placeable"]["parts"][0]);
    assert_eq!(a["fix"], "nearfar fix --as 2x22 'my app.nearfar'");
    let f = about(Subject::Function(0));
    assert_eq!(f["function"], whole["functions"][0]);
    assert_eq!(f["call_paths"], whole["call_paths"]);
    assert!(f["object"].is_null() && f["fix"].is_null() && !f["uses"].as_array().unwrap().is_empty(), "{f}");
}

#[test]
fn what_is_unknown_is_said_and_no_width_breaks_the_page() {
    let mut report = samples::affected();
    let o = &mut report.objects[0];
    (o.remote_share, o.remote_share_ci, o.allocated_at, o.allocated_in) = (None, None, None, None);
    (o.first_touch, o.accessed_at, o.thread_ranges) = (vec![], vec![], vec![]);
    for width in [60, 72, 100, 200] {
        let text = to_text(&report, Subject::Object(0), "app.nearfar", "app.nearfar", width, false);
        for said in ["allocated unknown", "placed    unknown", "far       unknown"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        for subject in [Subject::Object(1), Subject::Function(0), Subject::Function(1)] {
            // A name stays whole, to be copied.
            if width < 80 && subject == Subject::Function(1) {
                continue;
            }
            let text = to_text(&report, subject, "app.nearfar", "app.nearfar", width, false);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
    }
}
