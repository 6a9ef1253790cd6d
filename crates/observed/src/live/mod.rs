//! What `nearfar top` and `nearfar exporter` show: a machine over one interval, as tables of numbers with their units
//! and sources.
//!
//! A [`Frame`] is made of two [`reading`]s of a host ([`mod@host`]) or of a part of a counted recording
//! ([`recorded`]). A number that has no source is [`Cell::Unknown`], and the table says why, column by column.

pub mod checks;
pub mod events;
pub mod host;
pub mod metrics;
pub mod reading;
pub mod recorded;
mod tabs;

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The tables of a frame, in the order of the tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tab {
    /// Sums over the machine; one row.
    Machine,
    /// A row per NUMA node.
    Nodes,
    /// A row per cpu (hardware thread).
    Cores,
    /// A row per process.
    Processes,
    /// A row per thread of the watched processes.
    Threads,
    /// A row per mapping or static variable of one process.
    Objects,
}

impl Tab {
    /// All of them, in order.
    pub const ALL: [Tab; 6] =
        [Tab::Machine, Tab::Nodes, Tab::Cores, Tab::Processes, Tab::Threads, Tab::Objects];

    /// Its name on the screen and in CSV.
    pub fn name(self) -> &'static str {
        match self {
            Tab::Machine => "machine",
            Tab::Nodes => "nodes",
            Tab::Cores => "cores",
            Tab::Processes => "processes",
            Tab::Threads => "threads",
            Tab::Objects => "objects",
        }
    }
}

/// What a column's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words or numbers that name something.
    Text,
    /// A part of a whole, 0 to 1.
    Share,
    /// Cpus: 1 is one cpu busy for the whole interval.
    Cpus,
    /// A plain number.
    Count,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A ratio that may exceed 1.
    Ratio,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// Its name in CSV; empty for text.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Text => "",
            Unit::Share => "share",
            Unit::Cpus => "cpus",
            Unit::Count => "1",
            Unit::PerSecond => "1/s",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Ratio => "ratio",
            Unit::Seconds => "s",
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in CSV, in filters and in [`Table::why`].
    pub key: Cow<'static, str>,
    /// Its heading on the screen.
    pub head: Cow<'static, str>,
    /// What its numbers are.
    pub unit: Unit,
    /// What it says, in a sentence without a verb.
    pub what: Cow<'static, str>,
    /// Where its numbers come from.
    pub source: Cow<'static, str>,
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number in the column's unit.
    Number(f64),
    /// Not known; never shown as 0.
    Unknown,
}

impl Cell {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(n) => Some(*n),
            _ => None,
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        // What cannot be divided is not known.
        value.filter(|v| v.is_finite()).map_or(Cell::Unknown, Cell::Number)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Some(value).into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is of, the same in every frame: a node, a cpu, a process id, a thread id, an address.
    pub id: u64,
    /// In the order of the columns.
    pub cells: Vec<Cell>,
}

/// A table of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Why cells of a column are unknown, by the column's key.
    pub why: BTreeMap<String, String>,
    /// Columns that rest on counters that are off, with how much, by the column's key.
    pub flags: BTreeMap<String, String>,
    /// Position of the column whose history is drawn as a sparkline and by which rows are sorted at first.
    pub main: usize,
}

impl Table {
    /// The position of a column.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.key == key)
    }

    /// A cell by its row's id and its column's key.
    pub fn cell(&self, id: u64, key: &str) -> Option<&Cell> {
        let at = self.position(key)?;
        self.rows.iter().find(|r| r.id == id)?.cells.get(at)
    }

    /// A number by its row's id and its column's key; `None` if there is none or it is unknown.
    pub fn number(&self, id: u64, key: &str) -> Option<f64> {
        self.cell(id, key)?.number()
    }

    /// Says why cells of a column are unknown. The first reason that was given stays.
    pub fn explain(&mut self, key: &str, why: impl Into<String>) {
        self.why.entry(key.to_owned()).or_insert_with(|| why.into());
    }

    /// Columns with unknown cells and without a reason: there should be none.
    pub fn unexplained(&self) -> Vec<&str> {
        let unknown = |at: usize| self.rows.iter().any(|r| r.cells.get(at) == Some(&Cell::Unknown));
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(at, c)| unknown(*at) && !self.why.contains_key(c.key.as_ref()))
            .map(|(_, c)| c.key.as_ref())
            .collect()
    }

    /// Columns of which no row has a value, with the reasons: those whose source is missing.
    pub fn missing(&self) -> Vec<(&Column, &str)> {
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(at, _)| {
                !self.rows.is_empty() && self.rows.iter().all(|r| r.cells.get(*at) == Some(&Cell::Unknown))
            })
            .map(|(_, c)| (c, self.why.get(c.key.as_ref()).map_or("not known", String::as_str)))
            .collect()
    }
}

/// A machine over one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// End of the interval, seconds after the first reading or the start of the recording.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Whose objects are shown: process id and name.
    pub objects_of: Option<(u32, String)>,
    tables: BTreeMap<Tab, Table>,
}

impl Frame {
    /// A frame without tables.
    pub fn new(at_s: f64, interval_s: f64) -> Frame {
        Frame { at_s, interval_s, ..Frame::default() }
    }

    /// The table of a tab; `None` if the source of this frame has none.
    pub fn table(&self, tab: Tab) -> Option<&Table> {
        self.tables.get(&tab)
    }

    /// Its tables, in the order of the tabs.
    pub fn tables(&self) -> impl Iterator<Item = (Tab, &Table)> {
        self.tables.iter().map(|(tab, table)| (*tab, table))
    }

    /// Marks columns that rest on counters which are known to be off: `table.column` and how much.
    pub fn flag(&mut self, flags: &BTreeMap<String, String>) {
        for (place, how) in flags {
            let Some((name, key)) = place.split_once('.') else { continue };
            let table = self.tables.iter_mut().find(|(tab, _)| tab.name() == name);
            if let Some((_, table)) = table.filter(|(_, table)| table.position(key).is_some()) {
                table.flags.insert(key.to_owned(), how.clone());
            }
        }
    }

    /// Puts a table into the frame.
    pub fn insert(&mut self, tab: Tab, table: Table) {
        self.tables.insert(tab, table);
    }
}
