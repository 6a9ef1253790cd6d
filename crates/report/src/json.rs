//! A report for programs. docs/report.schema.json describes it.

use nearfar_analyze::Report;
use serde::Serialize;

/// Version of the JSON, for [`Report::schema`]. It rises when a field is renamed,
/// removed or changes its meaning; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 2;

/// The report as JSON, indented, with a final line feed.
pub fn to_json(report: &Report) -> String {
    pretty(report)
}

/// Any of the pages' values as JSON, in the same way.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    // Only a map with keys that are not strings could fail, and none of them has one.
    // A number that is not finite becomes null, which means unknown there as well.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    nearfar_figures::escape::json(text)
}
