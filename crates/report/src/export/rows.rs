//! Samples as rows of a table, for formats that are tables.

use super::samples::{Sample, Samples};

/// A value; what is unknown is never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    /// A number that is written in hexadecimal where there is a choice.
    Address(u64),
    Truth(bool),
    Text(String),
    Unknown(Kind),
}

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Truth,
    Text,
}

/// The columns, in their order.
pub(super) const COLUMNS: [(&str, Kind); 19] = [
    ("time_ns", Kind::Number),
    ("pid", Kind::Number),
    ("tid", Kind::Number),
    ("thread", Kind::Text),
    ("cpu", Kind::Number),
    ("node", Kind::Number),
    ("page_node", Kind::Number),
    ("remote", Kind::Truth),
    ("source", Kind::Text),
    ("access", Kind::Text),
    ("served", Kind::Text),
    ("latency_cycles", Kind::Number),
    ("weight", Kind::Number),
    ("unit", Kind::Text),
    ("object", Kind::Text),
    ("address", Kind::Number),
    ("function", Kind::Text),
    ("at", Kind::Text),
    ("module", Kind::Text),
];

/// A sample's values, a column each.
pub(super) fn row(samples: &Samples, s: &Sample) -> [Value; COLUMNS.len()] {
    let thread = samples.threads.get(s.thread as usize).cloned().unwrap_or_default();
    let frame = s.stack.first().and_then(|&f| samples.frames.get(f as usize)).cloned().unwrap_or_default();
    let number = |n: Option<u32>| n.map_or(Value::Unknown(Kind::Number), |n| Value::Number(n.into()));
    let text = |text: &str| match text {
        "" => Value::Unknown(Kind::Text),
        text => Value::Text(text.to_owned()),
    };
    let at = if frame.line > 0 { format!("{}:{}", frame.file, frame.line) } else { frame.file.clone() };
    [
        Value::Number(s.time_ns),
        Value::Number(thread.pid.into()),
        Value::Number(thread.tid.into()),
        text(&thread.name),
        number(Some(u32::from(s.cpu)).filter(|_| s.cpu != u16::MAX)),
        number(s.node),
        number(s.page_node),
        s.remote.map_or(Value::Unknown(Kind::Truth), Value::Truth),
        text(s.from),
        text(s.access.map_or("", |a| a.text())),
        text(s.served.map_or("", |v| v.text())),
        number(Some(s.latency_cycles).filter(|&c| c > 0)),
        Value::Number(s.weight),
        text(samples.unit),
        text(s.object.and_then(|o| samples.objects.get(o as usize)).map_or("", String::as_str)),
        if s.address == 0 { Value::Unknown(Kind::Number) } else { Value::Address(s.address) },
        text(&frame.function),
        text(&at),
        text(&frame.module),
    ]
}
