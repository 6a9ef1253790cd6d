//! Values of counters, as the readers give them.

use nearfar_machine::NodeId;
use nearfar_recording::Counter;

/// Rows that are kept of one text. // chosen: 100 counters of 256 cpus over 40 intervals
pub const MOST_ROWS: usize = 1 << 20;
/// Longest name of an event or place that is kept, characters. // chosen
const LONGEST: usize = 120;

/// What a text of one tool says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// The tool, as in `perf stat -j`.
    pub tool: &'static str,
    /// The values, in the order of the text.
    pub rows: Vec<Reading>,
    /// Lines that could not be read: number, from 1, and why.
    pub damage: Vec<(usize, String)>,
    /// Values that were left out because there are more than [`MOST_ROWS`].
    pub left_out: u64,
}

/// What a value is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Everything that was counted.
    #[default]
    Whole,
    /// A NUMA node.
    Node(NodeId),
    /// A cpu.
    Cpu(u32),
    /// Something else, in words: `socket 0`, `core S0-D0-C1`, `thread app-123`.
    Other(String),
}

/// One value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// End of its interval, ns after the first; 0 for one value of the whole run.
    pub time_ns: u64,
    /// What it is of.
    pub place: Place,
    /// What is counted.
    pub name: String,
    /// The value; `None` where the tool has none.
    pub value: Option<f64>,
    /// Its unit; empty for events.
    pub unit: String,
    /// Part of the time that the counter ran, where events shared counters; the tool has scaled the value by it.
    pub running_share: Option<f64>,
    /// Why there is no value.
    pub why: String,
}

impl Readings {
    pub(super) fn new(tool: &'static str) -> Readings {
        Readings { tool, ..Readings::default() }
    }

    pub(super) fn push(&mut self, reading: Reading) {
        match self.rows.len() < MOST_ROWS {
            true => self.rows.push(reading),
            false => self.left_out += 1,
        }
    }

    pub(super) fn damaged(&mut self, line: usize, why: &str) {
        self.damage.push((line, why.to_owned()));
    }
}

impl Reading {
    /// As a row of the table, of a text in this file.
    pub fn row(&self, tool: &str) -> Counter {
        let shorten = |text: &str| text.chars().take(LONGEST).collect::<String>();
        Counter {
            time_ns: self.time_ns,
            cpu: match self.place {
                Place::Cpu(cpu) => u16::try_from(cpu).unwrap_or(u16::MAX),
                _ => u16::MAX,
            },
            node: match self.place {
                Place::Node(node) => i16::try_from(node).unwrap_or(-1),
                _ => -1,
            },
            name: shorten(&self.name),
            value: self.value.unwrap_or(f64::NAN),
            unit: shorten(&self.unit),
            place: match &self.place {
                Place::Other(words) => shorten(words),
                Place::Node(node) => format!("node {node}"),
                Place::Cpu(cpu) => format!("cpu {cpu}"),
                Place::Whole => String::new(),
            },
            running_share: self.running_share.unwrap_or(-1.0),
            source: tool.to_owned(),
            why: shorten(&self.why),
            thread: nearfar_recording::NONE,
            interval_ns: 0,
        }
    }
}

/// A number that is one: neither `nan` nor `inf`.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Seconds as ns; `None` if that is not a time.
pub(super) fn time_ns(seconds: f64) -> Option<u64> {
    (0.0..1e9).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_what_has_no_value_apart_from_zero() {
        let reading = Reading { name: "cycles".into(), why: "not counted".into(), ..Reading::default() };
        let row = reading.row("perf stat");
        assert!(row.value.is_nan() && row.running_share < 0.0);
        assert_eq!(
            (row.cpu, row.node, row.why.as_str(), row.place.as_str()),
            (u16::MAX, -1, "not counted", "")
        );
        let node = Reading { place: Place::Node(1), value: Some(0.0), ..Reading::default() }.row("x");
        assert_eq!((node.node, node.value, node.place.as_str()), (1, 0.0, "node 1"));
    }
}
