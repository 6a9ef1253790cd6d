//! Reports: the JSON against its published schema, the text against goldens.
//! `NEARFAR_UPDATE_GOLDEN=1` writes the goldens anew; a missing one is a failure.

#[path = "report/policy.rs"]
mod policy;
#[path = "report_samples/mod.rs"]
mod samples;
#[path = "report/subject.rs"]
mod subject;
#[path = "report/tables.rs"]
mod tables;

use nearfar_analyze::Report;
use nearfar_report::cure::Cure;
use nearfar_report::phases::{Quantity, Wanted};
use nearfar_report::subject::{Subject, to_text as to_subject};
use nearfar_report::{callers, json::SCHEMA_VERSION, to_json};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn folder(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn golden(name: &str, text: &str) {
    let path = folder("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("NEARFAR_UPDATE_GOLDEN").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!("{}: {e}; run with NEARFAR_UPDATE_GOLDEN=1 and read what it writes", path.display())
    });
    assert_eq!(text, expected, "{} differs", path.display());
}

fn cases() -> Vec<(&'static str, Report)> {
    vec![
        ("affected", samples::affected()),
        ("clean", samples::clean()),
        ("unknown", samples::unknown()),
        ("no-samples", samples::no_samples()),
        ("one-node", samples::one_node()),
        ("many-threads", samples::many_threads()),
        ("simulated", samples::simulated()),
        ("untimed", samples::untimed()),
    ]
}

#[test]
fn the_text_is_what_was_read_and_approved() {
    for (name, report) in cases() {
        golden(name, &to_text(&report, 100, false));
        golden(&format!("{name}-details"), &to_details(&report, 100, false));
    }
    golden("affected-narrow", &to_text(&samples::affected(), 80, false));
    golden("simulated-narrow", &to_details(&samples::simulated(), 80, false));
    golden("callers", &callers(&samples::affected(), 100, false));
}

/// The screen, as the command prints it.
fn to_text(report: &Report, width: usize, color: bool) -> String {
    nearfar_report::to_text(report, "app.nearfar", "app.nearfar", width, color)
}

fn to_details(report: &Report, width: usize, color: bool) -> String {
    nearfar_report::to_details(report, "app.nearfar", width, color)
}

#[test]
fn every_report_fits_a_screen_of_forty_lines() {
    for (name, mut report) in cases() {
        // As many findings as a program with thirty fields has, of many objects each, with advice for each.
        for _ in 0..2 {
            let text = to_text(&report, 100, false);
            assert!(text.lines().count() <= 40, "{name}:\n{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            let Some(mut finding) = report.findings.first().cloned() else { break };
            finding.objects = (0..30).map(|i| format!("field{i}")).collect();
            finding.advice = "Initialise it in parallel as the loop that uses it does. ".repeat(30);
            finding.evidence = vec!["Each page was first touched by thread 0.".to_owned(); 30];
            report.findings.extend(vec![finding; 12]);
        }
    }
}

#[test]
fn a_finding_has_six_lines_at_most() {
    let mut report = samples::affected();
    report.findings[0].advice = "Initialise it in parallel as the loop that uses it does. ".repeat(30);
    let text = to_text(&report, 100, false);
    let lines = text.lines().skip_while(|l| !l.starts_with("1. ")).take_while(|l| !l.is_empty()).count();
    assert!(lines <= 6, "{text}");
    for said in [
        "objects  a, b and c (3 × 256 MiB)",
        "placed   triad.c:21  init, all by thread 0 on node 0",
        "used     triad.c:30",
        "change   Initialise",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
}

#[test]
fn the_details_fit_two_screens() {
    for (name, report) in cases() {
        let text = to_details(&report, 100, false);
        // Two findings take the room of two; counts come with three small tables, predictions with one.
        let most = match (report.findings.len() > 1, report.counters.is_some()) {
            (false, false) => 45,
            (true, false) => 56,
            (_, true) => 68,
        };
        // Counters beside the samples come with a table of threads and the host's.
        let most = most + if report.counted_along.is_some() { 18 } else { 0 };
        // The figures that are assumed, in a line or two.
        let most = most + if report.machine.assumed_figures.is_empty() { 0 } else { 2 };
        assert!(text.lines().count() <= most, "{name}:\n{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    for (name, report) in cases() {
        for print in [to_text, to_details] {
            let plain = print(&report, 100, false);
            assert!(!plain.contains('\x1b'), "{name}");
            let mut colored = print(&report, 100, true);
            for code in ["0", "1", "1;31", "1;32", "1;33"] {
                colored = colored.replace(&format!("\x1b[{code}m"), "");
            }
            assert_eq!(plain, colored, "{name}");
        }
    }
}

#[test]
fn what_is_unknown_is_never_printed_as_nothing() {
    for report in [samples::unknown(), samples::no_samples()] {
        let text = to_text(&report, 100, false);
        assert!(text.contains("unknown"), "{text}");
        assert!(!text.contains(" 0.0 %"), "{text}");
        assert!(text.starts_with("UNKNOWN  "), "{text}");
        assert!(to_details(&report, 100, false).starts_with("No verdict"));
    }
}

#[test]
fn counts_are_named_and_what_they_do_not_know_is_unknown() {
    let text = to_details(&samples::simulated(), 100, false);
    for said in [
        "50 % of DRAM traffic is remote",
        "share of DRAM traffic, counted in the region of interest",
        "scaled to 4 of 22 cores per node",
        "139 ms (128–155)",
        "81 % of it waiting for memory",
        "bound by memory of node 0",
        "512 + 171",
        "links 0→1 4.41 of 6.98 GB/s, 1→0 1.97 of 6.98 GB/s",
        "43–57 %",
    ] {
        assert!(text.replace("\n          ", " ").contains(said), "{said}\n{text}");
    }
    // Neither the clock of the emulated machine nor what lines cannot tell.
    for wrong in ["9.3 s", "computing", "spinning", "stall", " time is remote"] {
        assert!(!text.contains(wrong), "{wrong}\n{text}");
    }
    let text = to_details(&samples::untimed(), 100, false);
    assert!(text.contains("time      unknown: the machine has no latencies"), "{text}");
    let cpus = text.lines().find(|l| l.starts_with("node 0 (4)")).unwrap();
    assert_eq!(cpus.matches("unknown").count(), 2, "IPC and L3: {cpus}");
    assert!(!text.contains("Memory of"), "{text}");
    // Counts say enough for a page of their own where no line was sampled.
    let mut unsampled = samples::simulated();
    unsampled.sources[0].samples = 0;
    let text = to_details(&unsampled, 100, false);
    assert!(text.contains("512 + 171") && !text.contains("every share is unknown"), "{text}");
}

fn schema() -> Value {
    let text = std::fs::read_to_string(folder("../../docs/report.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The published schema lets readers meet newer fields; the tests do not.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                map.insert("additionalProperties".into(), json!(false));
            }
            map.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

#[test]
fn every_report_satisfies_the_published_schema() {
    let mut schema = schema();
    strict(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for (name, report) in cases() {
        let value: Value = serde_json::from_str(&to_json(&report)).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
    let mut wrong: Value = serde_json::from_str(&to_json(&samples::affected())).unwrap();
    wrong["objects"][0]["remote_share"] = json!(1.5);
    assert!(!validator.is_valid(&wrong));
    wrong["objects"][0]["remote_share"] = json!(0.5);
    assert!(validator.is_valid(&wrong));
    wrong["objects"][0]["surprise"] = json!(1);
    assert!(!validator.is_valid(&wrong));
}

/// With the check above, which refuses fields that the schema lacks, this makes
/// schema and types the same: the sample uses every type, and every property is
/// required and described.
#[test]
fn the_schema_requires_and_describes_exactly_the_fields_of_a_report() {
    let schema = schema();
    assert_eq!(schema["properties"]["schema"]["const"], SCHEMA_VERSION);
    let mut objects = vec![("Report".to_owned(), &schema)];
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        objects.push((name.clone(), definition));
    }
    for (name, definition) in objects {
        let Some(properties) = definition["properties"].as_object() else {
            assert!(definition["oneOf"].is_array(), "{name}");
            continue;
        };
        let required = definition["required"].as_array().unwrap();
        for (field, property) in properties {
            assert!(required.contains(&json!(field)), "{name}.{field}");
            let description = property["description"].as_str().unwrap_or("");
            assert!(!description.is_empty(), "{name}.{field} has no description");
        }
        assert_eq!(required.len(), properties.len(), "{name}");
    }
    // No list of these is empty, and what may be null is there, so that every type was validated.
    for report in [samples::affected(), samples::simulated()] {
        let value: Value = serde_json::from_str(&to_json(&report)).unwrap();
        no_empty_list("report", &value);
    }
    let simulated: Value = serde_json::from_str(&to_json(&samples::simulated())).unwrap();
    assert!(simulated["counters"].is_object() && simulated["time"].is_object());
    assert_eq!(simulated["time"]["binds"], json!({"kind": "dram", "node": 0}));
    assert_eq!(
        simulated["functions"][0]["dram"]["bound"][1]["binds"],
        json!({"kind": "link", "from": 0, "to": 1})
    );
}

fn no_empty_list(path: &str, value: &Value) {
    match value {
        Value::Array(items) => {
            assert!(!items.is_empty(), "{path} is empty");
            no_empty_list(&format!("{path}[0]"), &items[0]);
        }
        Value::Object(map) => {
            for (key, value) in map {
                no_empty_list(&format!("{path}.{key}"), value);
            }
        }
        _ => {}
    }
}

#[test]
fn lines_keep_to_a_narrow_terminal_and_commands_are_not_broken() {
    let cases = cases();
    for (width, (name, report)) in
        [60, 70, 80, 100].into_iter().flat_map(|w| cases.iter().map(move |c| (w, c)))
    {
        let again = "--as 2x22 a-recording-with-quite-a-long-name.nearfar";
        let text = nearfar_report::to_text(report, "app.nearfar", again, width, false);
        for line in text.lines().filter(|line| !line.contains("nearfar ")) {
            assert!(line.chars().count() <= width, "{name} at {width}: {line}");
        }
        // The other pages of a recording; that of phases has the columns of TAU's pprof, which others read.
        let mut pages = vec![to_details(report, width, false), callers(report, width, false)];
        let of = |subject| to_subject(report, subject, "app.nearfar", "app.nearfar", width, false);
        pages.extend((0..report.objects.len().min(3)).map(|i| of(Subject::Object(i))));
        for line in pages.iter().flat_map(|page| page.lines()) {
            assert!(line.chars().count() <= width, "{name} at {width}: {line}");
            // A size is shown as a whole, or not at all.
            assert!(!line.contains("Mi…") && !line.contains("Ki…"), "{name} at {width}: {line}");
        }
        let diff = format!("nearfar diff {again} after.nearfar");
        assert_eq!(text.contains(&diff), text.contains("verify "), "{name} at {width}: {text}");
    }
}

#[test]
fn commands_to_copy_are_quoted_for_a_shell() {
    let mut report = samples::affected();
    report.command = vec!["./my app".into(), "it's".into(), "a;b".into(), "x".into()];
    let text = to_text(&report, 200, false);
    let copied = r"nearfar record -o after.nearfar -- './my app' 'it'\''s' 'a;b' x";
    assert!(text.contains(copied), "{text}");
}

#[test]
fn no_width_is_too_small_and_no_list_too_empty() {
    for width in [0, 1, 40, 60, 61, 79, 120, 300] {
        for (_, mut report) in cases() {
            assert!(
                !to_text(&report, width, true).is_empty() && !to_details(&report, width, true).is_empty()
            );
            report.sources.clear();
            report.objects.clear();
            report.findings[..].iter_mut().for_each(|f| {
                f.objects.clear();
                f.cause.at = None;
                f.cause.function = None;
            });
            report.verdict_why.clear();
            report.remote_share = Some(f64::NAN);
            assert!(!to_text(&report, width, false).contains("NaN"));
            assert!(!to_details(&report, width, false).contains("NaN"));
        }
    }
}

#[test]
fn no_page_has_one_number_with_two_precisions() {
    // From 10 % on a share is whole (`percent`): one with decimals beside it is the same number written twice.
    let coarse = |text: &str| -> Vec<String> {
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || "(–".contains(c)).collect();
        let share = |pair: &&[&str]| pair[1].starts_with('%');
        let wrong = |word: &str| {
            let number = word.trim_start_matches(['+', '-']);
            number.contains('.') && number.parse::<f64>().is_ok_and(|n| n >= 10.0)
        };
        words.windows(2).filter(share).filter(|p| wrong(p[0])).map(|p| p.join(" ")).collect()
    };
    assert_eq!(coarse("46.0 % (44.5–47.6) and 9.5 %, 46 %"), ["46.0 %"]);
    for (name, report) in cases() {
        for text in
            [to_text(&report, 100, false), to_details(&report, 100, false), callers(&report, 100, false)]
        {
            assert_eq!(coarse(&text), [""; 0], "{name}:\n{text}");
        }
        let again = nearfar_compare::compare(&report, &samples::affected());
        let text = nearfar_report::compare::to_text(&again, 100, false);
        assert_eq!(coarse(&text), [""; 0], "{name}:\n{text}");
        let cure = Cure {
            before: &report,
            placement: None,
            left: &[],
            file: "placement.toml",
            after: Some(&samples::clean()),
            comparison: Some(&again),
            judged: None,
        };
        let text = nearfar_report::cure::to_text(&cure, 100, false);
        assert_eq!(coarse(&text), [""; 0], "{name}:\n{text}");
        // The HTML page shows these sentences beside numbers that web/test compares with the same rule.
        let mut sentences = Vec::new();
        texts(&serde_json::to_value(&report).unwrap(), &mut sentences);
        assert!(sentences.contains(&report.verdict_why));
        sentences.iter().for_each(|text| assert_eq!(coarse(text), [""; 0], "{name}: {text}"));
    }
}

/// Every text of a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|v| texts(v, found)),
        Value::Object(fields) => fields.values().for_each(|v| texts(v, found)),
        _ => {}
    }
}

#[test]
fn pictures_show_names_and_obey_none() {
    let mut r = samples::simulated();
    let hostile = "</svg><script>alert(1)</script>&\u{202e}";
    r.machine.name = hostile.into();
    r.objects.iter_mut().for_each(|o| o.name = hostile.into());
    r.threads.iter_mut().for_each(|t| t.name = hostile.into());
    r.pictures.phases.iter_mut().for_each(|p| p.name = hostile.into());
    let pictures = nearfar_report::svg::pictures(&r);
    let names: Vec<&str> = pictures.iter().map(|p| p.name.as_str()).collect();
    for name in ["machine", "nodes-now", "nodes-repaired", "time", "threads", "bandwidth", "bandwidth-use"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(names.iter().any(|n| n.ends_with("-time")), "{names:?}");
    for p in &pictures {
        assert!(!p.name.contains(['/', '.', '<']), "{}", p.name);
        assert!(!p.svg.contains("<script") && !p.svg.contains('\u{202e}'), "{}", p.name);
        assert_eq!(p.svg.matches("</svg>").count(), 1, "{}", p.name);
        assert!(!p.svg.contains("NaN") && !p.svg.contains("inf"), "{}", p.name);
    }
}

#[test]
fn no_line_is_wider_than_the_page() {
    for (name, mut report) in cases() {
        for object in &mut report.objects {
            object.pattern = nearfar_analyze::Pattern::OwnThread;
        }
        for width in [70, 80, 90, 100, 120] {
            // Tables of counted details have more columns than fit 70.
            let details = to_details(&report, width.max(80), false);
            for (text, width) in [(to_text(&report, width, false), width), (details, width.max(80))] {
                // What should be pasted, and names without a space, are not cut.
                let wide =
                    text.lines().find(|line| line.chars().count() > width && line.trim().contains(' '));
                assert_eq!(wide, None, "{name}, {width} columns");
            }
        }
    }
}

#[test]
fn phases_whose_pages_are_on_unknown_nodes_have_unknown_far_memory() {
    let page = |r: &Report, quantity| {
        let text = nearfar_report::to_phases(r, Wanted { quantity, threads: true }, 100, false);
        // What is predicted of phases is another matter.
        match text.split_once("\nEach phase's time by the time model") {
            Some((before, rest)) => before.to_owned() + &rest[rest.find("\n\n").unwrap_or(rest.len())..],
            None => text,
        }
    };
    let mut r = samples::affected();
    r.phases = Some(samples::phases());
    let known = page(&r, Quantity::Far);
    assert!(!known.contains("unknown"), "{known}");
    let p = r.phases.as_mut().unwrap();
    let test = p.nodes.iter().position(|n| n.name == "Test on CPU 2").unwrap();
    let hide = |figures: &mut nearfar_analyze::PhaseFigures| {
        for amounts in [&mut figures.inclusive, &mut figures.exclusive] {
            amounts.page_node_unknown = amounts.near + amounts.far;
            (amounts.near, amounts.far) = (0, 0);
        }
    };
    hide(&mut p.nodes[test].all);
    p.rows.iter_mut().filter(|row| row.node == test).for_each(|row| hide(&mut row.figures));
    let whole = &mut p.nodes[0].all.inclusive;
    whole.page_node_unknown = whole.near + whole.far;
    for quantity in [Quantity::Far, Quantity::Near] {
        let text = page(&r, quantity);
        let line = text.lines().find(|l| l.ends_with(" Test on CPU 2")).unwrap_or_else(|| panic!("{text}"));
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[..3], ["?", "unknown", "unknown"], "{text}");
        assert!(
            text.contains("For 50 % of what was sampled on memory the node of the page is unknown"),
            "{text}"
        );
    }
    assert!(!page(&r, Quantity::Time).contains("unknown"));
    let change = nearfar_compare::compare(&r, &r);
    let side = |path: &str| change.phases.iter().find(|c| c.path == path).unwrap().before.as_ref().unwrap();
    assert_eq!(side("main() => Test on CPU 2").far_share, None);
    assert_eq!(side("main()").far_share, Some(0.0));
}

#[test]
fn phases_of_two_reports_stand_side_by_side_by_path() {
    let with = |change: &dyn Fn(&mut nearfar_analyze::PhaseReport)| {
        let mut phases = samples::phases();
        change(&mut phases);
        Report { phases: Some(phases), ..samples::affected() }
    };
    let of =
        |p: &nearfar_analyze::PhaseReport, name: &str| p.nodes.iter().position(|n| n.name == name).unwrap();
    let before = with(&|_| {});
    let after = with(&|p| {
        let test = of(p, "Test on CPU 2");
        p.nodes[test].all.inclusive.time_ns /= 2;
        p.nodes[test].name = "Test on CPU 3".into();
        let main = of(p, "main()");
        p.nodes[main].all.inclusive.time_ns /= 2;
    });
    let change = nearfar_compare::compare(&before, &after).phases;
    let find = |path: &str| change.iter().find(|c| c.path == path).unwrap_or_else(|| panic!("{path}"));
    let main = find("main()");
    let seconds = |side: &Option<nearfar_compare::PhaseSide>| side.as_ref().map(|s| s.inclusive_s);
    assert_eq!(seconds(&main.after), seconds(&main.before).map(|s| s / 2.0));
    // One that the other does not have is not one that took no time.
    assert!(
        find("main() => Test on CPU 2").after.is_none() && find("main() => Test on CPU 3").before.is_none()
    );
}
