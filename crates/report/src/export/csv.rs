//! A line for each sample, with commas: for spreadsheets and scripts.

use super::rows::{COLUMNS, Value, row};
use super::samples::Samples;

/// The text. What is unknown is empty, never 0.
pub fn text(samples: &Samples) -> String {
    let mut out = COLUMNS.map(|(name, _)| name).join(",");
    out.push('\n');
    for s in &samples.samples {
        let fields = row(samples, s).map(|value| match value {
            Value::Number(n) => n.to_string(),
            Value::Address(at) => format!("0x{at:x}"),
            Value::Truth(yes) => u8::from(yes).to_string(),
            Value::Text(text) => quoted(&text),
            Value::Unknown(_) => String::new(),
        });
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

/// A text as RFC 4180 has it. A spreadsheet takes what begins with one of `=+-@` for a formula: it gets a quote before it.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = if clean.starts_with(['=', '+', '-', '@']) { format!("'{clean}") } else { clean };
    match clean.contains([',', '"', '\'']) {
        true => format!("\"{}\"", clean.replace('"', "\"\"")),
        false => clean,
    }
}
