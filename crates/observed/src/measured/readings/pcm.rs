//! What Intel PCM writes as CSV: `pcm-numa -csv` (a table of cores an interval) and `pcm-memory -csv`, `pcm -csv` (a line
//! an interval under two lines of headings: what it is of, and what is counted).

use super::value::{Place, Reading, Readings, number, time_ns};

/// Columns of a heading that are believed. // chosen: 40 of each of 512 cores
const MOST_COLUMNS: usize = 20_000;
/// How a table of `pcm-numa` begins.
const CORES: &str = "Core,IPC,Instructions,Cycles,";

/// Reads its text; `None` if it has no heading of PCM's.
pub fn read(text: &str) -> Option<Readings> {
    let mut first = text.lines().take(20);
    if first.clone().any(|line| line.starts_with(CORES)) {
        return Some(cores(text));
    }
    first.any(is_heading).then(|| intervals(text))
}

fn is_heading(line: &str) -> bool {
    line.starts_with("Date,Time,") || line.starts_with("Date;Time;")
}

/// `pcm-numa`: `Time elapsed: 1000 ms`, headings, a line a core, one of all.
fn cores(text: &str) -> Readings {
    let mut found = Readings::new("pcm-numa");
    let (mut at_ns, mut heads) = (0, Vec::new());
    for (line, number_of_line) in text.lines().zip(1..) {
        if let Some(ms) = line.strip_prefix("Time elapsed: ") {
            let ms = ms.trim().strip_suffix("ms").and_then(number);
            match ms.and_then(|ms| time_ns(ms / 1e3)) {
                Some(ns) => at_ns += ns,
                None => found.damaged(number_of_line, "a time that is none"),
            }
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if line.starts_with("Core,") {
            heads = fields[1..].iter().map(ToString::to_string).collect();
            continue;
        }
        // Lines of the program itself stand before the first table and between the tables.
        let core: Option<u32> = fields[0].parse().ok();
        if heads.is_empty() || core.is_none() && fields[0] != "*" {
            if fields.len() > 2 {
                found.damaged(number_of_line, "neither a core nor all of them");
            }
            continue;
        }
        // The line of all cores is their sum.
        let Some(core) = core else { continue };
        let values: Option<Vec<Option<f64>>> = fields[1..].iter().map(|f| value(f)).collect();
        let Some(values) = values.filter(|values| values.len() == heads.len()) else {
            found.damaged(number_of_line, &format!("not {} numbers", heads.len()));
            continue;
        };
        for (head, value) in heads.iter().zip(values) {
            let unit = if head == "IPC" { "IPC" } else { "" };
            found.push(of(at_ns, Place::Cpu(core), head, value, unit));
        }
    }
    found
}

fn of(time_ns: u64, place: Place, name: &str, value: Option<f64>, unit: &str) -> Reading {
    let why = if value.is_some() { "" } else { "the file has no value" };
    let (name, unit, why) = (name.to_owned(), unit.to_owned(), why.to_owned());
    Reading { time_ns, place, name, value, unit, running_share: None, why }
}

/// A number, or nothing where nothing was counted; `None` if it is something else.
fn value(field: &str) -> Option<Option<f64>> {
    match field {
        "" | "N/A" => Some(None),
        _ => number(field).map(Some),
    }
}

/// `SKT1`, `Socket 1`, `Core3 (Socket 0)`, `System`.
fn place(word: &str) -> Place {
    let after = |prefix: &str| word.strip_prefix(prefix).and_then(|n| n.trim().parse::<u32>().ok());
    if let Some(socket) = after("SKT").or_else(|| after("Socket")) {
        return Place::Other(format!("socket {socket}"));
    }
    let core = word.strip_prefix("Core").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    match core {
        Some(core) => Place::Cpu(core),
        None if word.is_empty() || word.starts_with("System") => Place::Whole,
        None => Place::Other(word.to_owned()),
    }
}

/// `Mem Read (MB/s)` and `MB/s`; a heading without a unit has none.
fn named(head: &str) -> (&str, &str) {
    let unit = head.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    let (name, unit) = unit.unwrap_or((head, ""));
    match name {
        // System's columns of pcm-memory have no unit of their own.
        "Read" | "Write" | "Memory" if unit.is_empty() => (name, "MB/s"),
        "IPC" => (name, "IPC"),
        _ => (name, unit),
    }
}

fn intervals(text: &str) -> Readings {
    let mut found = Readings::new("pcm -csv");
    let mut before = "";
    let mut columns: Vec<(Place, &str, &str)> = Vec::new();
    let mut separator = ',';
    let mut first = None;
    for (line, at) in text.lines().zip(1..) {
        if is_heading(line) {
            separator = if line.starts_with("Date;") { ';' } else { ',' };
            let of: Vec<&str> = before.split(separator).map(str::trim).collect();
            let place = |i: usize| place(of.get(i).copied().unwrap_or_default());
            let heads = line.split(separator).map(str::trim).enumerate().take(MOST_COLUMNS);
            columns = heads.map(|(i, head)| (place(i), named(head).0, named(head).1)).collect();
            continue;
        }
        before = line;
        // What stands before the headings is theirs, or the program's.
        if columns.is_empty() || line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
        // A heading that is written again.
        if fields[0].is_empty() {
            continue;
        }
        let values: Option<Vec<Option<f64>>> = fields.iter().skip(2).map(|f| value(f)).collect();
        let when = fields.get(1).and_then(|clock| seconds_of(clock));
        let (Some(values), Some(when)) = (values, when) else {
            found.damaged(at, "not a date, a time and numbers");
            continue;
        };
        // A line may end with a separator.
        let surplus = values.iter().skip(columns.len() - 2.min(columns.len())).any(Option::is_some);
        if surplus || values.len() + 2 < columns.len() {
            found.damaged(at, &format!("not the {} columns of the heading", columns.len()));
            continue;
        }
        let first = *first.get_or_insert(when);
        // Past midnight.
        let passed = if when < first { when + 86_400.0 - first } else { when - first };
        let time = time_ns(passed).unwrap_or(0);
        for ((place, name, unit), value) in columns.iter().skip(2).zip(values) {
            if !name.is_empty() {
                found.push(of(time, place.clone(), name, value, unit));
            }
        }
    }
    found
}

/// `12:34:56.789` as seconds of the day.
fn seconds_of(clock: &str) -> Option<f64> {
    let parts: Option<Vec<f64>> = clock.split(':').map(number).collect();
    match parts?[..] {
        [h, m, s] if h >= 0.0 && m >= 0.0 && s >= 0.0 => Some(h * 3600.0 + m * 60.0 + s),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcm_numa_has_a_value_of_each_core_and_interval() {
        let table = "Time elapsed: 500 ms\nCore,IPC,Instructions,Cycles,Local DRAM accesses,Remote DRAM accesses\n\
                     0,0.50,100,200,14,6\n1,,,,,\n*,0.50,100,200,14,6\n\n";
        let found = read(&format!("{table}{table}2,x,1,2,3,4\n3,1,2\n")).unwrap();
        assert_eq!(found.tool, "pcm-numa");
        assert_eq!(found.rows.len(), 20);
        let remote = &found.rows[4];
        assert_eq!((remote.place.clone(), remote.value), (Place::Cpu(0), Some(6.0)));
        assert_eq!(remote.name, "Remote DRAM accesses");
        assert_eq!((found.rows[5].value, found.rows[5].why.as_str()), (None, "the file has no value"));
        assert_eq!(found.rows[10].time_ns, 1_000_000_000);
        assert_eq!(found.damage.iter().map(|d| d.0).collect::<Vec<_>>(), [13, 14]);
    }

    #[test]
    fn pcm_memory_has_sockets_over_its_columns() {
        let text = ",,SKT0,SKT0,SKT1,System\nDate,Time,Mem Read (MB/s),P. Write (T/s),Mem Read (MB/s),Read\n\
                    2026-11-25,23:59:59.500,2000.00,,12.5,2012.5\n2026-11-26,00:00:00.500,1,2,3,4,\nx,y,1,2,3,4\n\
                    2026-11-26,00:00:01.500,1\n";
        let found = read(text).unwrap();
        assert_eq!(found.rows.len(), 8);
        let one = |i: usize| {
            let r = &found.rows[i];
            (r.time_ns, r.place.clone(), r.name.clone(), r.value, r.unit.clone())
        };
        let socket = |n: u32| Place::Other(format!("socket {n}"));
        assert_eq!(one(0), (0, socket(0), "Mem Read".into(), Some(2000.0), "MB/s".into()));
        assert_eq!(one(1).3, None);
        assert_eq!(one(6), (1_000_000_000, socket(1), "Mem Read".into(), Some(3.0), "MB/s".into()));
        assert_eq!(one(7), (1_000_000_000, Place::Whole, "Read".into(), Some(4.0), "MB/s".into()));
        assert_eq!(found.damage.iter().map(|d| d.0).collect::<Vec<_>>(), [5, 6]);
    }
}
