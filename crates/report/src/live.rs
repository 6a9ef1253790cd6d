//! Writes frames of `nearfar top`: cells as text, a page for a terminal that is none, CSV.

use super::layout::{Page, columns, left, percent, right, shorten, size};
use super::table::{Form, table};
use nearfar_figures::escape;
use nearfar_observed::live::checks::{Check, Checked, Outcome};
use nearfar_observed::live::{Cell, Column, Frame, Tab, Table, Unit};
use std::cmp::Ordering;
use std::fmt::Write as _;

/// What stands where a number is not known.
pub const UNKNOWN: &str = "?";
/// Blocks of a sparkline, the lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Rows of a table in a page.
const ROWS: usize = 20;
/// Widest column of a page, characters.
const WIDEST: usize = 28;

/// A cell as a person reads it; names are made harmless.
pub fn cell(cell: &Cell, unit: Unit) -> String {
    match cell {
        Cell::Unknown => UNKNOWN.to_owned(),
        Cell::Text(text) => escape::line(text).into_owned(),
        Cell::Number(n) => number(*n, unit),
    }
}

fn number(n: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => percent(Some(n)),
        Unit::Bytes => size(n.max(0.0) as u64),
        Unit::BytesPerSecond => format!("{} GB/s", few(n * 1e-9)),
        Unit::PerSecond | Unit::Count | Unit::Text => scaled(n),
        Unit::Ratio | Unit::Cpus => few(n),
        Unit::Seconds => format!("{} s", few(n)),
    }
}

/// Three digits that matter.
fn few(n: f64) -> String {
    match n.abs() {
        a if a > 0.0 && a < 0.005 => "< 0.01".to_owned(),
        a if a < 9.995 => format!("{n:.2}"),
        a if a < 99.95 => format!("{n:.1}"),
        _ => format!("{n:.0}"),
    }
}

/// `12`, `3.4 k`, `5.6 M`: a number that is small is shown with what is behind the point.
fn scaled(n: f64) -> String {
    let units = ["", " k", " M", " G", " T"];
    let (mut value, mut unit) = (n, 0);
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match (unit, value) {
        (0, v) if v == v.trunc() => format!("{v:.0}"),
        (_, v) => format!("{}{}", few(v), units[unit]),
    }
}

/// The timeline of a number, the latest at the right, between 0 and its largest value or 1 if that is more. What is
/// not known is a gap.
pub fn sparkline<'a>(
    timeline: impl DoubleEndedIterator<Item = &'a Option<f64>> + Clone,
    width: usize,
    share: bool,
) -> String {
    let most = timeline.clone().flatten().fold(0.0f64, |most, v| most.max(*v));
    let most = if share { most.max(1.0) } else { most };
    let block = |value: &Option<f64>| match value {
        None => ' ',
        Some(v) if most > 0.0 => BLOCKS[((v / most * 7.0).round().max(0.0) as usize).min(7)],
        Some(_) => BLOCKS[0],
    };
    let mut line: Vec<char> = timeline.rev().take(width).map(block).collect();
    line.reverse();
    let line: String = line.into_iter().collect();
    right(&line, width)
}

/// Rows in order: by the column at `by`, the largest first, or backwards. Unknown comes last both ways.
pub fn sorted(table: &Table, by: usize, backwards: bool) -> Vec<usize> {
    let text = |row: usize| match table.rows[row].cells.get(by) {
        Some(Cell::Text(text)) => text.as_str(),
        _ => "",
    };
    let number = |row: usize| match table.rows[row].cells.get(by) {
        Some(Cell::Number(n)) => Some(*n),
        Some(Cell::Text(text)) => text.parse().ok(),
        _ => None,
    };
    let mut order: Vec<usize> = (0..table.rows.len()).collect();
    // Names go up, numbers down; numbers that name something (cpus, nodes, ids) go up, too.
    let names = table.columns.get(by).is_some_and(|c| c.unit == Unit::Text);
    order.sort_by(|&a, &b| {
        let (x, y) = (number(a), number(b));
        let ordering = match (x, y) {
            (Some(x), Some(y)) => x.total_cmp(&y),
            (None, None) => text(a).cmp(text(b)),
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
        };
        let ordering = if names != backwards { ordering } else { ordering.reverse() };
        ordering.then(table.rows[a].id.cmp(&table.rows[b].id))
    });
    order
}

/// Whether a row has a text in one of its cells.
pub fn matches(table: &Table, row: usize, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let cells = table.rows[row].cells.iter().zip(&table.columns);
    filter.is_empty()
        || cells.into_iter().any(|(c, column)| cell(c, column.unit).to_lowercase().contains(&filter))
}

/// Whether a column's texts begin at the left.
pub fn is_left(column: &Column) -> bool {
    column.unit == Unit::Text
}

/// Why columns are unknown, a sentence each, those with the same reason together.
pub fn reasons(table: &Table) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (column, why) in table.missing() {
        match all.iter_mut().find(|(_, known)| known == why) {
            Some((heads, _)) => {
                let _ = write!(heads, ", {}", column.head);
            }
            None => all.push((column.head.to_string(), why.to_owned())),
        }
    }
    all
}

/// A frame as a page of text.
pub fn to_text(frame: &Frame, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.heading(&format!("{:.1} s, interval {:.2} s", frame.at_s, frame.interval_s));
    for (tab, table) in frame.tables() {
        if tab == Tab::Machine {
            for (column, value) in table.columns.iter().zip(table.rows.first().map_or(&[][..], |r| &r.cells))
            {
                if *value != Cell::Unknown {
                    page.line(&format!(
                        "  {}{}",
                        left(&column.head, 22),
                        right(&cell(value, column.unit), 12)
                    ));
                }
            }
        } else if !table.rows.is_empty() {
            let of = match (&frame.objects_of, tab) {
                (Some((pid, name)), Tab::Objects) => format!(" of process {pid} ({name})"),
                _ => String::new(),
            };
            page.heading(&format!("{}{of}", tab.name()));
            rows(&mut page, table);
        }
        for (heads, why) in reasons(table) {
            page.bullet(&format!("unknown: {heads}. {why}"));
        }
        for (key, off) in &table.flags {
            let head = table.position(key).map_or(key.as_str(), |at| table.columns[at].head.as_ref());
            page.bullet(&format!("{head}: {off}"));
        }
    }
    page.finish()
}

fn rows(page: &mut Page, table: &Table) {
    // What is not known of any row is said below, once.
    let missing: Vec<&str> = table.missing().iter().map(|(c, _)| c.key.as_ref()).collect();
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&c| !missing.contains(&table.columns[c].key.as_ref())).collect();
    let order = sorted(table, if table.rows.len() > ROWS { table.main } else { 0 }, false);
    let mut lines = vec![shown.iter().map(|&c| table.columns[c].head.to_string()).collect::<Vec<_>>()];
    for &row in order.iter().take(ROWS) {
        let text = |&c: &usize| shorten(&cell(&table.rows[row].cells[c], table.columns[c].unit), WIDEST);
        lines.push(shown.iter().map(text).collect());
    }
    let widths: Vec<usize> =
        (0..shown.len()).map(|c| lines.iter().map(|l| columns(&l[c])).max().unwrap_or(0)).collect();
    for line in &lines {
        let mut text = String::new();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padded =
                if is_left(&table.columns[shown[at]]) { left(cell, *width) } else { right(cell, *width) };
            let _ = write!(text, "  {padded}");
        }
        page.line(&text);
    }
    if order.len() > ROWS {
        page.line(&format!("  … and {} more rows; --csv has them all", order.len() - ROWS));
    }
}

/// A frame as a line of JSON: rows by table, null where a number is not known, and why.
pub fn to_json(frame: &Frame) -> String {
    use serde_json::{Map, Value, json};
    let mut tables = Map::new();
    let mut why = Map::new();
    for (tab, table) in frame.tables() {
        let value = |c: &Cell| match c {
            Cell::Text(text) => json!(text),
            Cell::Number(n) => json!(n),
            Cell::Unknown => Value::Null,
        };
        let row = |r: &nearfar_observed::live::Row| -> Value {
            let cells = table.columns.iter().zip(&r.cells).map(|(c, cell)| (c.key.to_string(), value(cell)));
            Value::Object(cells.collect())
        };
        tables.insert(tab.name().to_owned(), table.rows.iter().map(row).collect());
        let missing = table.missing().into_iter().map(|(c, why)| (c.key.to_string(), json!(why)));
        why.insert(tab.name().to_owned(), Value::Object(missing.collect()));
    }
    let all = json!({"time_s": frame.at_s, "interval_s": frame.interval_s, "tables": tables, "unknown": why});
    escape::json(format!("{all}\n"))
}

/// Counters beside known loads.
pub fn checks_to_text(checked: &Checked, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.heading(&format!("Counters beside known loads: {}", checked.machine));
    let node = |c: &Check| match c.memory_node {
        Some(memory) => format!("{}→{memory}", c.cpu_node),
        None => c.cpu_node.to_string(),
    };
    let word = |c: &Check| match c.outcome {
        Outcome::Right => "right",
        Outcome::Off => "OFF",
        Outcome::Unknown => "unknown",
    };
    let mut lines =
        vec![["", "nodes", "counter", "source", "expected", "seen", "factor"].map(str::to_owned).to_vec()];
    for c in &checked.checks {
        lines.push(vec![
            word(c).to_owned(),
            node(c),
            c.counter.clone(),
            c.source.clone(),
            format!("{} {}", scaled(c.expected), c.unit),
            c.seen.map_or_else(|| UNKNOWN.to_owned(), |s| format!("{} {}", scaled(s), c.unit)),
            c.factor.map_or_else(|| UNKNOWN.to_owned(), |f| format!("{f:.3}")),
        ]);
    }
    table(&mut page, &lines, Form { to_left: &[0, 1, 2, 3], spare: &[3], names: 3 });
    page.blank();
    let mut whys: Vec<(String, String)> = Vec::new();
    for c in checked.checks.iter().filter(|c| !c.why.is_empty()) {
        match whys.iter_mut().find(|(_, why)| *why == c.why) {
            Some((counters, _)) if counters.split(", ").any(|known| known == c.counter) => {}
            Some((counters, _)) => {
                let _ = write!(counters, ", {}", c.counter);
            }
            None => whys.push((c.counter.clone(), c.why.clone())),
        }
    }
    whys.iter().for_each(|(counters, why)| page.bullet(&format!("unknown: {counters}. {why}")));
    page.bullet("nodes: of the cpu that made the load → of the memory. A counter is OFF if it is wrong by more than 10 %; what other programs count in the same time is subtracted, and where they count too much it is unknown.");
    page.finish()
}

/// How frames are written as CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Csv {
    /// A line per number, with its unit and source: everything.
    Long,
    /// The columns of `pcm-numa -csv`.
    PcmNuma,
    /// The columns of `pcm-memory -csv -nc`, a node where PCM has a socket.
    PcmMemory,
}

impl Csv {
    /// What comes before the first frame.
    pub fn begin(self, frame: &Frame) -> String {
        match self {
            Csv::Long => "time_s,interval_s,table,row,name,column,value,unit,source\n".to_owned(),
            Csv::PcmNuma => String::new(),
            Csv::PcmMemory => {
                let nodes = frame.table(Tab::Nodes).map_or(0, |t| t.rows.len());
                let sockets: String = (0..nodes).map(|n| format!("SKT{n},SKT{n},SKT{n},SKT{n},")).collect();
                let columns = "Mem Read (MB/s),Mem Write (MB/s),P. Write (T/s),Memory (MB/s),".repeat(nodes);
                format!(",,{sockets}System,System,System\nDate,Time,{columns}Read,Write,Memory\n")
            }
        }
    }

    /// A frame. `date` is `2026-11-25` and `clock` `12:34:56.789`, the moment of its end.
    pub fn frame(self, frame: &Frame, date: &str, clock: &str) -> String {
        match self {
            Csv::Long => long(frame),
            Csv::PcmNuma => pcm_numa(frame),
            Csv::PcmMemory => pcm_memory(frame, date, clock),
        }
    }
}

/// A field, quoted where it must be (RFC 4180); nothing in it is obeyed by a terminal or begins a formula.
fn field(text: &str) -> String {
    let text = escape::line(text);
    match text.contains(['"', ',', '\n']) || text.starts_with(['=', '+', '@', ' ']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into_owned(),
    }
}

fn long(frame: &Frame) -> String {
    let mut out = String::new();
    for (tab, table) in frame.tables() {
        let name_at = table.position("name");
        for row in &table.rows {
            let name = match name_at.and_then(|at| row.cells.get(at)) {
                Some(Cell::Text(name)) => field(name),
                _ => String::new(),
            };
            for (column, value) in table.columns.iter().zip(&row.cells) {
                // The row's own name is in every line already; an unknown number has its reason for a source.
                let (value, source) = match value {
                    Cell::Text(_) if name_at.is_some_and(|at| table.columns[at].key == column.key) => {
                        continue;
                    }
                    Cell::Text(text) => (field(text), column.source.as_ref()),
                    Cell::Number(n) => (n.to_string(), column.source.as_ref()),
                    Cell::Unknown => {
                        (String::new(), table.why.get(column.key.as_ref()).map_or("unknown", String::as_str))
                    }
                };
                let _ = writeln!(
                    out,
                    "{:.6},{:.6},{},{},{name},{},{value},{},{}",
                    frame.at_s,
                    frame.interval_s,
                    tab.name(),
                    row.id,
                    field(&column.key),
                    column.unit.name(),
                    field(source)
                );
            }
        }
    }
    out
}

/// A number over the interval, as PCM writes it; nothing where it is not known.
fn or_nothing(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |v| format!("{v:.digits$}"))
}

fn pcm_numa(frame: &Frame) -> String {
    let mut out = format!(
        "Time elapsed: {:.0} ms\nCore,IPC,Instructions,Cycles,Local DRAM accesses,Remote DRAM accesses\n",
        frame.interval_s * 1e3
    );
    let Some(cores) = frame.table(Tab::Cores) else { return out };
    let keys = ["instructions", "cycles", "local", "remote"];
    let mut sums = [Some(0.0); 4];
    for row in &cores.rows {
        let counts = keys.map(|key| cores.number(row.id, key).map(|rate| rate * frame.interval_s));
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.zip(count).map(|(s, c)| s + c);
        }
        let _ = writeln!(
            out,
            "{},{},{}",
            row.id,
            or_nothing(cores.number(row.id, "ipc"), 2),
            counts.map(|c| or_nothing(c, 0)).join(",")
        );
    }
    let ipc = sums[0].zip(sums[1]).filter(|(_, cycles)| *cycles > 0.0).map(|(i, c)| i / c);
    let _ = writeln!(out, "*,{},{}\n", or_nothing(ipc, 2), sums.map(|c| or_nothing(c, 0)).join(","));
    out
}

fn pcm_memory(frame: &Frame, date: &str, clock: &str) -> String {
    let Some(nodes) = frame.table(Tab::Nodes) else { return String::new() };
    let mut out = format!("{date},{clock},");
    let mut sums = [Some(0.0); 2];
    for row in &nodes.rows {
        let moved = ["read", "write"].map(|key| nodes.number(row.id, key).map(|b| b / 1e6));
        for (sum, own) in sums.iter_mut().zip(moved) {
            *sum = sum.zip(own).map(|(s, o)| s + o);
        }
        let both = moved[0].zip(moved[1]).map(|(r, w)| r + w);
        // Partial writes have no source here.
        let _ =
            write!(out, "{},{},,{},", or_nothing(moved[0], 2), or_nothing(moved[1], 2), or_nothing(both, 2));
    }
    let both = sums[0].zip(sums[1]).map(|(r, w)| r + w);
    let _ = writeln!(out, "{},{},{}", or_nothing(sums[0], 2), or_nothing(sums[1], 2), or_nothing(both, 2));
    out
}

#[cfg(test)]
mod tests;
