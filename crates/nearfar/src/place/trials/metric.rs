//! A number from a program's output.

use nearfar_compare::trials::Metric;
use regex::bytes::Regex;

/// What is taken of each run.
#[derive(Clone, Debug)]
pub enum Measure {
    /// Wall time from the program's exec to its end, seconds.
    Time,
    /// The number that the last match of this expression caught.
    Output {
        /// Its first group, or all of it.
        expression: Regex,
        /// Whether less is better; `None`: by the unit.
        less_is_better: Option<bool>,
    },
}

/// A value, and the word behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Caught {
    /// The number.
    pub value: f64,
    /// The word that follows it on its line; empty if there is none.
    pub unit: String,
}

/// Units of time, of which less is better.
const TIMES: [&str; 16] = [
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "ms",
    "msec",
    "milliseconds",
    "us",
    "µs",
    "usec",
    "ns",
    "nsec",
    "min",
    "minutes",
    "h",
];

/// The number in a program's outputs.
///
/// # Errors
/// If nothing matches, or what does is not a number; in words.
pub fn catch(expression: &Regex, outputs: [&[u8]; 2]) -> Result<Caught, String> {
    let found = outputs.iter().find_map(|output| Some((*output, expression.captures_iter(output).last()?)));
    let Some((output, captures)) = found else {
        return Err(format!("`{expression}` matches nothing in its output"));
    };
    let Some(part) = captures.get(1).or_else(|| captures.get(0)) else {
        return Err(format!("`{expression}` has a group that takes no part in the match"));
    };
    let text = String::from_utf8_lossy(part.as_bytes());
    let value: f64 = text
        .trim()
        .parse()
        .ok()
        .filter(|v: &f64| v.is_finite() && *v > 0.0)
        .ok_or_else(|| format!("`{expression}` caught `{text}`, which is not a number above 0"))?;
    let rest = output[part.end()..].split(|b| *b == b'\n').next().unwrap_or_default();
    let rest = String::from_utf8_lossy(rest);
    let word = rest.split_whitespace().next().unwrap_or_default().trim_end_matches([',', ';', '.', ')']);
    let unit =
        if word.chars().any(|c| c.is_alphabetic() || c == '%') { word.to_owned() } else { String::new() };
    Ok(Caught { value, unit })
}

impl Measure {
    /// As the report names it; `unit` is that of the first run.
    pub fn metric(&self, unit: &str) -> Metric {
        match self {
            Measure::Time => {
                Metric { source: "wall time".to_owned(), unit: "s".to_owned(), less_is_better: true }
            }
            Measure::Output { expression, less_is_better } => Metric {
                source: format!("`{expression}`"),
                unit: unit.to_owned(),
                less_is_better: less_is_better.unwrap_or_else(|| TIMES.contains(&unit)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts_with_the_word_behind_it() {
        let expression = Regex::new(r"throughput: ([0-9.]+)").unwrap();
        let out = b"throughput: 1.5 GB/s\nthroughput: 2766.12 MPoints/s, all\n";
        let caught = catch(&expression, [out, b""]).unwrap();
        assert_eq!(caught, Caught { value: 2766.12, unit: "MPoints/s".to_owned() });
        let measure = Measure::Output { expression, less_is_better: None };
        assert!(!measure.metric("MPoints/s").less_is_better && measure.metric("ms").less_is_better);
    }

    #[test]
    fn the_other_output_is_looked_at_too_and_a_whole_match_will_do() {
        let caught = catch(&Regex::new("[0-9]+").unwrap(), [b"none", b"took 12\n"]).unwrap();
        assert_eq!(caught, Caught { value: 12.0, unit: String::new() });
    }

    #[test]
    fn what_is_no_number_is_said() {
        let expression = Regex::new("v=([0-9.]+)").unwrap();
        assert!(catch(&expression, [b"v=1.2.3", b""]).unwrap_err().contains("`1.2.3`"));
        assert!(catch(&expression, [b"v=0", b""]).unwrap_err().contains("above 0"));
        assert!(catch(&expression, [b"w=1", b""]).unwrap_err().contains("matches nothing"));
    }
}
