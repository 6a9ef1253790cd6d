//! A report for programs. docs/report.schema.json describes it.

use nearfar_analyze::Report;
use nearfar_figures::json::pretty;

/// Version of the JSON, for [`Report::schema`]. It rises when a field is renamed,
/// removed or changes its meaning; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 2;

/// The report as JSON, indented, with a final line feed.
pub fn to_json(report: &Report) -> String {
    pretty(report)
}
