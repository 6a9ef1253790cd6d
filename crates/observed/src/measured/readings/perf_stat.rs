//! What `perf stat -j` and `perf stat -x,` print (perf-stat(1), "CSV FORMAT" and "JSON FORMAT"): a value a line, with
//! `-I` one an interval, with `-A`, `--per-node` and the like one a place.
//!
//! What perf could not count is `<not supported>` or `<not counted>`, beside a running time of 100 %: there is no value
//! then. Metrics that perf computes from its values are left out.

use super::value::{Place, Reading, Readings, number, time_ns};
use serde_json::Value;

/// Reads lines of JSON; `None` if none is one of perf's.
pub fn read_json(text: &str) -> Option<Readings> {
    let begins = |line: &str| line.trim_start().starts_with('{') && line.contains("\"counter-value\"");
    text.lines().take(100).any(begins).then(|| {
        let mut found = Readings::new("perf stat -j");
        for (line, number) in lines(text) {
            match serde_json::from_str::<Value>(line).ok().as_ref().map(of_json) {
                Some(Ok(Some(reading))) => found.push(reading),
                // perf prints its metrics in lines of their own.
                Some(Ok(None)) => {}
                Some(Err(why)) => found.damaged(number, why),
                None => found.damaged(number, "not a line of JSON"),
            }
        }
        found
    })
}

/// Lines with their numbers, without comments and empty ones.
fn lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let all = text.lines().zip(1..);
    all.filter(|(line, _)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

fn of_json(line: &Value) -> Result<Option<Reading>, &'static str> {
    let text = |key: &str| line.get(key).and_then(Value::as_str);
    let Some(value) = text("counter-value") else {
        let metric = line.get("metric-value").is_some();
        return if metric { Ok(None) } else { Err("no counter-value") };
    };
    let event = text("event").filter(|event| !event.is_empty()).ok_or("no event")?;
    let interval = match line.get("interval") {
        None => 0,
        Some(seconds) => seconds.as_f64().and_then(time_ns).ok_or("an interval that is not a time")?,
    };
    let place = ["node", "socket", "die", "core", "cpu", "thread", "cgroup"];
    let place = place.iter().find_map(|key| Some(place_of(key, text(key)?)));
    let running = line.get("pcnt-running").and_then(Value::as_f64);
    reading(interval, place.unwrap_or_default(), value, text("unit").unwrap_or_default(), event, running)
        .map(Some)
}

fn reading(
    time_ns: u64,
    place: Place,
    value: &str,
    unit: &str,
    event: &str,
    percent: Option<f64>,
) -> Result<Reading, &'static str> {
    let counted = match value.trim() {
        "<not supported>" => Err("perf: not supported, this machine does not have the event"),
        "<not counted>" => Err("perf: not counted, the event never ran"),
        value => Ok(number(value).ok_or("a value that is not a number")?),
    };
    let running = percent.filter(|p| (0.0..=100.0).contains(p)).map(|p| p / 100.0);
    Ok(Reading {
        time_ns,
        place,
        name: event.to_owned(),
        value: counted.ok(),
        unit: unit.to_owned(),
        running_share: running.filter(|_| counted.is_ok()),
        why: counted.err().unwrap_or_default().to_owned(),
    })
}

/// `N0`, `S0`, `S0-D0-C1`, `CPU3` or `3`, `app-123`.
fn place_of(key: &str, word: &str) -> Place {
    let after = |prefix: &str| word.trim().strip_prefix(prefix).and_then(|n| n.parse().ok());
    match key {
        "node" => after("N").map(Place::Node),
        "cpu" => after("CPU").or_else(|| after("")).map(Place::Cpu),
        _ => None,
    }
    .unwrap_or_else(|| match (key, after("S")) {
        ("socket", Some(socket)) => Place::Other(format!("socket {socket}")),
        _ => Place::Other(format!("{key} {}", word.trim())),
    })
}

/// Which kind of place a word of CSV names; `None` if it is none.
fn kind(word: &str) -> Option<&'static str> {
    let numbers = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let word = word.trim();
    let parts: Vec<&str> = word.split('-').collect();
    let is = |part: &str, prefix: &str| part.strip_prefix(prefix).is_some_and(numbers);
    match parts[..] {
        [one] if is(one, "CPU") => Some("cpu"),
        [one] if is(one, "N") => Some("node"),
        [one] if is(one, "S") => Some("socket"),
        [socket, die] if is(socket, "S") && is(die, "D") => Some("die"),
        [socket, .., core] if is(socket, "S") && is(core, "C") => Some("core"),
        [_, .., tid] if numbers(tid) => Some("thread"),
        _ => None,
    }
}

fn is_value(word: &str) -> bool {
    number(word).is_some() || matches!(word.trim(), "<not supported>" | "<not counted>")
}

/// Reads CSV; `None` if no line of the first is one of perf's.
pub fn read_csv(text: &str) -> Option<Readings> {
    let known = lines(text).take(20).any(|(line, _)| matches!(of_csv(line), Ok(Some(_))));
    known.then(|| {
        let mut found = Readings::new("perf stat -x,");
        for (line, number) in lines(text) {
            match of_csv(line) {
                Ok(Some(reading)) => found.push(reading),
                Ok(None) => {}
                Err(why) => found.damaged(number, why),
            }
        }
        found
    })
}

/// `[time,][place,[cpus,]]value,unit,event,ran ns,percent[,variance][,metric,unit]`.
fn of_csv(line: &str) -> Result<Option<Reading>, &'static str> {
    let fields: Vec<&str> = line.split(',').collect();
    let at = |i: usize| fields.get(i).copied().unwrap_or_default();
    let mut next = 0;
    let mut interval = 0;
    // Without a time before it, a value is followed by its unit.
    if number(at(0)).is_some() && (is_value(at(1)) || kind(at(1)).is_some()) {
        interval = number(at(0)).and_then(time_ns).ok_or("an interval that is not a time")?;
        next = 1;
    }
    let mut place = Place::Whole;
    if !is_value(at(next))
        && let Some(kind) = kind(at(next))
    {
        place = place_of(kind, at(next));
        next += 1;
        if is_value(at(next + 1)) {
            next += 1;
        }
    }
    let (value, unit) = (at(next), at(next + 1));
    if !is_value(value) {
        // A line of metrics only.
        let metric = value.is_empty() && unit.is_empty() && fields.len() > next + 3;
        return if metric { Ok(None) } else { Err("no value where perf has one") };
    }
    // An event's name may have commas: it ends before the time that it ran and the percentage.
    let whole = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let ends = |&i: &usize| whole(at(i)) && number(at(i + 1)).is_some_and(|p| (0.0..=100.0).contains(&p));
    let end =
        (next + 3..fields.len().saturating_sub(1)).find(ends).ok_or("no running time behind an event")?;
    let event = fields[next + 2..end].join(",");
    if event.trim().is_empty() {
        return Err("no event");
    }
    reading(interval, place, value, unit, &event, number(at(end + 1))).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(line: &str) -> Reading {
        of_csv(line).unwrap().unwrap()
    }

    #[test]
    fn each_form_of_a_line_has_its_parts() {
        let whole = csv("49,,page-faults,581995,100.00,84.193,K/sec");
        assert_eq!((whole.time_ns, &whole.place, whole.value), (0, &Place::Whole, Some(49.0)));
        assert_eq!((whole.name.as_str(), whole.running_share), ("page-faults", Some(1.0)));
        let cpu = csv("     0.103123881,CPU1,111.75,msec,task-clock,111752385,50.00,1.118,CPUs utilized");
        assert_eq!((cpu.time_ns, cpu.place.clone(), cpu.value), (103_123_881, Place::Cpu(1), Some(111.75)));
        assert_eq!((cpu.unit.as_str(), cpu.running_share), ("msec", Some(0.5)));
        let node = csv("N1,2,236.83,msec,cpu-clock,236831346,100.00,2.010,CPUs utilized");
        assert_eq!((node.place.clone(), node.value), (Place::Node(1), Some(236.83)));
        let socket = csv("1.5,S0,2,7,,cycles,10,100.00,,");
        assert_eq!((socket.place.clone(), socket.value), (Place::Other("socket 0".into()), Some(7.0)));
        assert_eq!(csv("S0-D0-C3,1,7,,cycles,10,100.00,,").place, Place::Other("core S0-D0-C3".into()));
        assert_eq!(csv("my-app-77,7,,cycles,10,100.00,,").place, Place::Other("thread my-app-77".into()));
        let event = csv("7,,cpu/event=0xd3,umask=0x2/,10,100.00,,");
        assert_eq!(event.name, "cpu/event=0xd3,umask=0x2/");
        assert_eq!(csv("7,,cycles,10,80.00,0.52%,,").running_share, Some(0.8));
    }

    #[test]
    fn what_was_not_counted_has_no_value_and_a_reason() {
        let missing = csv("     0.1,CPU0,<not supported>,,cycles,0,100.00,,");
        assert_eq!((missing.value, missing.running_share), (None, None));
        assert!(missing.why.contains("not supported"), "{}", missing.why);
        let json = "{\"counter-value\" : \"<not counted>\", \"unit\" : \"\", \"event\" : \"cycles\", \"pcnt-running\" : 100.00}";
        let found = read_json(json).unwrap();
        assert_eq!((found.rows[0].value, found.rows[0].running_share), (None, None));
    }

    #[test]
    fn json_has_the_same_and_damaged_lines_are_named() {
        let text = "{\"interval\" : 0.05, \"node\" : \"N1\", \"aggregate-number\" : 2, \"counter-value\" : \"108.9\", \
                    \"unit\" : \"msec\", \"event\" : \"cpu-clock\", \"pcnt-running\" : 25.00}\n{\"counter-value\" : \"12\n\
                    {\"metric-value\" : 0.5, \"metric-unit\" : \"CPUs\"}\n{\"counter-value\" : \"x\", \"event\" : \"a\"}\n";
        let found = read_json(text).unwrap();
        assert_eq!(found.rows.len(), 1);
        let one = &found.rows[0];
        assert_eq!(
            (one.time_ns, one.place.clone(), one.running_share),
            (50_000_000, Place::Node(1), Some(0.25))
        );
        let lines: Vec<usize> = found.damage.iter().map(|d| d.0).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn damaged_lines_of_csv_are_named_and_left_out() {
        let text = "# started on today\n\n7,,cycles,10,100.00,,\n7,,cyc\nnan,,cycles,10,100.00\n8,,faults,10,100.00,,\n";
        let found = read_csv(text).unwrap();
        assert_eq!(found.rows.iter().map(|r| r.value).collect::<Vec<_>>(), [Some(7.0), Some(8.0)]);
        assert_eq!(found.damage.iter().map(|d| d.0).collect::<Vec<_>>(), [4, 5]);
    }
}
