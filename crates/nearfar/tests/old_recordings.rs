//! Recordings of former versions open, with the figures that the version gave that made them: tables and columns that
//! have another name since are found by the one that they had. Two of each format, of the program `recordings/field.c`:
//! one sampled on a machine of one node, one counted on a virtual machine of two.

mod common;

use common::{Report, nearfar, number, text};
use nearfar_recording::Columns;
use std::path::{Path, PathBuf};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

/// The report of such a recording, on the machine that was named when it was made.
fn report(name: &str, flags: &[&str]) -> Report {
    let output = nearfar().arg("report").arg(recording(name)).arg("--json").args(flags).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Report(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_sampled_recording_of_format_1_has_its_figures() {
    // Two threads on 8 MiB that one of them initialised, recorded on a machine of one node.
    let r = report("format1-sampled", &["--as", "2x1"]);
    assert_eq!((r.samples("clock"), r.samples("pages")), (30, 2142), "{}", r.0["sources"]);
    let field = r.object("field").0;
    // The JSON reader may miss a number by its last bit.
    let is = |value: &serde_json::Value, is: f64| {
        assert!((number(value) - is).abs() < 1e-12, "{value} is not {is}")
    };
    is(&field["stall_share"], 29.0 / 30.0);
    is(&field["remote_share"], 14.0 / 29.0);
    is(&r.0["page_node_unknown_share"], 1.0 / 30.0);
    assert!(!r.notes().contains("is missing"), "{}", r.notes());
    // The table `homes` of that format is `page_nodes` now, and its rows are there.
    let stored = nearfar_record::store::open(&recording("format1-sampled")).unwrap();
    assert!(!stored.input.page_nodes.is_empty() && stored.remarks.is_empty(), "{:?}", stored.remarks);
}

#[test]
fn a_counted_recording_of_format_1_has_its_figures() {
    let r = report("format1-counted", &[]);
    assert_eq!(r.samples("simulated"), 216, "{}", r.0["sources"]);
    let flows = r.0["counters"]["dram"].as_array().unwrap();
    let bytes = |from: u64, node: u64| {
        let flow = flows.iter().find(|f| f["from"] == from && f["page_node"] == node);
        let flow = flow.unwrap_or_else(|| panic!("{flows:?}"));
        ["read_bytes", "write_bytes", "cache_bytes"].map(|kind| flow[kind].as_u64().unwrap())
    };
    assert_eq!(bytes(0, 0), [676_224, 512, 0]);
    assert_eq!(bytes(1, 0), [2_240, 267_520, 21_248]);
    assert_eq!(bytes(1, 1), [6_784, 0, 0]);
    assert_eq!(number(&r.object("field").0["remote_share"]), 0.331_465_237_166_991_56);
    // Its samples were recorded at few moments, of which most are all near or all far: too few to name a cause.
    let interval = &r.object("field").0["remote_share_ci"];
    assert!(number(&interval["low"]) < 0.05 && number(&interval["high"]) > 0.85, "{interval}");
    assert_eq!(r.0["verdict"], "unknown", "{}", r.0["verdict_why"]);
    assert_eq!(r.0["findings"].as_array().map(Vec::len), Some(0), "{}", r.0["findings"]);
    // One object has all of it, so that they are too many is not the reason.
    let why = r.0["verdict_why"].as_str().unwrap();
    assert!(!why.contains("too many objects"), "{why}");
    assert!(why.contains("far pages of field") && why.contains("95 % interval"), "{why}");
}

#[test]
fn a_sampled_recording_of_format_2_has_its_figures() {
    let r = report("format2-sampled", &["--as", "2x1"]);
    assert_eq!((r.samples("clock"), r.samples("pages")), (330, 355), "{}", r.0["sources"]);
    let field = r.object("field").0;
    let is = |value: &serde_json::Value, is: f64| {
        assert!((number(value) - is).abs() < 1e-12, "{value} is not {is}")
    };
    is(&field["stall_share"], 1.0);
    is(&field["remote_share"], 163.0 / 328.0);
    is(&r.0["page_node_unknown_share"], 2.0 / 330.0);
    // Its tables of loops and counters, which format 1 does not have.
    let stored = nearfar_record::store::open(&recording("format2-sampled")).unwrap();
    let input = &stored.input;
    assert!(!input.loops.is_empty() && !input.progress.is_empty() && !input.counters.is_empty());
    assert!(stored.remarks.is_empty(), "{:?}", stored.remarks);
}

#[test]
fn a_counted_recording_of_format_2_has_its_figures() {
    let r = report("format2-counted", &[]);
    assert_eq!((r.samples("simulated"), r.samples("pages")), (412, 357), "{}", r.0["sources"]);
    let flows = r.0["counters"]["dram"].as_array().unwrap();
    let bytes = |from: u64, node: u64| {
        let flow = flows.iter().find(|f| f["from"] == from && f["page_node"] == node);
        let flow = flow.unwrap_or_else(|| panic!("{flows:?}"));
        ["read_bytes", "write_bytes", "cache_bytes"].map(|kind| flow[kind].as_u64().unwrap())
    };
    assert_eq!(bytes(0, 0), [1_219_392, 512, 0]);
    assert_eq!(bytes(1, 0), [1_728, 528_960, 29_376]);
    assert_eq!(bytes(1, 1), [6_848, 0, 0]);
    assert_eq!(number(&r.object("field").0["remote_share"]), 0.332_303_062_344_951);
}
