//! Reports: the JSON against its published schema, the text against goldens.
//! `NEARFAR_UPDATE_GOLDEN=1` writes the goldens anew; a missing one is a failure.

#[path = "report_samples/mod.rs"]
mod samples;

use nearfar_model::analyze::Report;
use nearfar_model::report::{json::SCHEMA_VERSION, to_json, to_text};
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
    ]
}

#[test]
fn the_text_is_what_was_read_and_approved() {
    for (name, report) in cases() {
        golden(name, &to_text(&report, 100, false));
    }
    golden("affected-narrow", &to_text(&samples::affected(), 80, false));
}

#[test]
fn a_typical_report_fits_a_page() {
    for (name, report) in cases() {
        let text = to_text(&report, 100, false);
        // Two findings take the room of two.
        let most = if report.findings.len() > 1 { 56 } else { 45 };
        assert!(text.lines().count() <= most, "{name}:\n{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    for (name, report) in cases() {
        let plain = to_text(&report, 100, false);
        assert!(!plain.contains('\x1b'), "{name}");
        let mut colored = to_text(&report, 100, true);
        for code in ["0", "1", "1;31", "1;32", "1;33"] {
            colored = colored.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, colored, "{name}");
    }
}

#[test]
fn what_is_unknown_is_never_printed_as_nothing() {
    for report in [samples::unknown(), samples::no_samples()] {
        let text = to_text(&report, 100, false);
        assert!(text.contains("unknown"), "{text}");
        assert!(!text.contains(" 0.0 %"), "{text}");
        assert!(text.starts_with("No verdict"), "{text}");
    }
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
    // No list of the sample is empty, so that every type was validated.
    let value: Value = serde_json::from_str(&to_json(&samples::affected())).unwrap();
    no_empty_list("report", &value);
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
fn no_width_is_too_small_and_no_list_too_empty() {
    for width in [0, 1, 40, 60, 61, 79, 120, 300] {
        for (_, mut report) in cases() {
            assert!(!to_text(&report, width, true).is_empty());
            report.rungs.clear();
            report.objects.clear();
            report.findings[..].iter_mut().for_each(|f| {
                f.objects.clear();
                f.cause.at = None;
                f.cause.function = None;
            });
            report.verdict_why.clear();
            report.remote_share = Some(f64::NAN);
            assert!(!to_text(&report, width, false).contains("NaN"));
        }
    }
}
