//! Values as JSON that a person may see in a terminal.

use crate::escape;
use serde::Serialize;

/// As JSON, indented, with a final line feed, and with nothing in it that a terminal obeys.
///
/// A number that is not finite becomes null, which means unknown. Only a map whose keys are not strings cannot be
/// written; none of nearfar's values has one, and the text of such a value is empty.
pub fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    escape::json(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_unknown_numbers_are_harmless() {
        let text = pretty(&("a\u{1b}[2J\u{202e}b", f64::NAN, 0.5));
        assert_eq!(text, "[\n  \"a\\u001b[2J\\u202eb\",\n  null,\n  0.5\n]\n");
    }
}
