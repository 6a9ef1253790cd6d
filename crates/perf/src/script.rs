//! What `perf script` prints, line by line: the header's comments, samples, frames below them, records.
//!
//! Which columns there are was chosen by `-F` and is not said in the text. A column is known by its place between
//! others (tools/perf/Documentation/perf-script.txt): command, process and thread, cpu, time, period and name of the
//! event, data address, data source with its words, latency, instruction with symbol and file.

use super::attr::{Attr, SOFTWARE, bits};
use super::features::Node;
use super::records::{Mapped, Record};
use super::sample::Sample;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Of no use: an empty one, a comment that says nothing of what is wanted.
    Nothing,
    /// Of the header.
    Header(Header),
    /// A sample; `ip` is 0 where its frames follow.
    Sample {
        /// Name of its event, with the colon and what follows it (`cycles:u`).
        event: String,
        /// What it says.
        sample: Sample,
    },
    /// A frame of the sample before it: an address in memory, or an offset in the file for which the line names one.
    Frame {
        /// Address or offset.
        at: u64,
        /// The file; `None` if it is not known.
        file: Option<String>,
    },
    /// A record that is not a sample, with its time in ns.
    Record {
        /// Time.
        time_ns: u64,
        /// What it says.
        record: Record,
    },
    /// No line that perf prints: what is wrong.
    Damaged(&'static str),
}

/// What a comment of the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// Processor, as it calls itself.
    Processor(String),
    /// Vendor, family, model, stepping.
    CpuId(String),
    /// Cpus online.
    Cpus(u32),
    /// perf's command line.
    Command(String),
    /// An event: its name, and what its samples stand for.
    Event {
        /// Name.
        name: String,
        /// Kind, number, period, and whether that is a frequency.
        attr: Attr,
    },
    /// Memory of a node, bytes.
    Memory {
        /// The node.
        node: u32,
        /// Bytes.
        bytes: u64,
    },
    /// Cpus of a node.
    Node(Node),
    /// The package of a cpu.
    Package {
        /// The cpu.
        cpu: u32,
        /// Its package.
        package: u32,
    },
}

/// Reads a line without its end.
pub fn line(text: &str) -> Line {
    if text.trim().is_empty() {
        return Line::Nothing;
    }
    if let Some(comment) = text.strip_prefix('#') {
        return header(comment.trim()).map_or(Line::Nothing, Line::Header);
    }
    if text.starts_with(['\t', ' ']) && !text.contains("]:") && head(text).is_none() {
        return frame(text).unwrap_or(Line::Damaged("a frame without an address"));
    }
    let Some((pid, tid, cpu, time_ns, rest)) = head(text) else {
        return Line::Damaged("no thread and time");
    };
    if let Some(record) = rest.strip_prefix("PERF_RECORD_") {
        return match other(record) {
            Ok(Some(record)) => Line::Record { time_ns, record },
            Ok(None) => Line::Nothing,
            Err(why) => Line::Damaged(why),
        };
    }
    match sample(rest) {
        Some((event, found)) => Line::Sample {
            event,
            sample: Sample { pid: pid.unwrap_or(tid), tid, cpu, time_ns: Some(time_ns), ..found },
        },
        None => Line::Damaged("no event"),
    }
}

/// Process if it is said, thread, cpu, time in ns, and what stands behind the time.
type Head<'a> = (Option<u32>, u32, Option<u32>, u64, &'a str);

/// What a line begins with.
fn head(text: &str) -> Option<Head<'_>> {
    // A command's name may have blanks and colons: the first time that a thread stands before is it.
    let mut from = 0;
    while let Some(colon) = text[from..].find(':').map(|at| from + at) {
        from = colon + 1;
        let mut words = text[..colon].split_ascii_whitespace().rev();
        let Some(time_ns) = words.next().and_then(seconds) else { continue };
        let mut word = words.next();
        let cpu = word.and_then(|w| w.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
        if cpu.is_some() {
            word = words.next();
        }
        let Some(word) = word else { continue };
        let (pid, tid) = match word.split_once('/') {
            Some((pid, tid)) => (Some(number(pid)), number(tid)),
            None => (None, number(word)),
        };
        // The name stands before.
        let (Some(tid), Some(_)) = (tid, words.next()) else { continue };
        let pid = match pid {
            Some(None) => continue,
            Some(pid) => pid,
            None => None,
        };
        return Some((pid, tid, cpu, time_ns, text[colon + 1..].trim_start()));
    }
    None
}

/// A process or thread; −1 is one that has ended, or the kernel.
fn number(text: &str) -> Option<u32> {
    if text == "-1" { Some(u32::MAX) } else { text.parse().ok() }
}

/// `2539.802273` or, with `--ns`, `2539.802273034`, as ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part: u64 = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

fn hex(text: &str) -> Option<u64> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    if text.is_empty() || text.len() > 16 { None } else { u64::from_str_radix(text, 16).ok() }
}

/// What stands behind the time of a sample: `[PERIOD] EVENT: [ADDR] [DATA_SRC |WORDS] [WEIGHT] [IP SYMBOL (FILE)]`.
fn sample(rest: &str) -> Option<(String, Sample)> {
    let mut found = Sample::default();
    let (mut word, mut rest) = next(rest)?;
    if let Ok(period) = word.parse::<u64>() {
        found.period = Some(period);
        (word, rest) = next(rest)?;
    }
    let event = word.strip_suffix(':')?.to_owned();
    if event.is_empty() {
        return None;
    }
    let Some(bar) = rest.find('|') else {
        (found.address, found.ip) = address_and_instruction(rest);
        return Some((event, found));
    };
    // The data address may have its symbol behind it.
    let mut before = rest[..bar].split_ascii_whitespace();
    found.data_src = Some(before.next_back().and_then(hex)?);
    found.address = before.next().and_then(hex);
    // perf cuts its words after a hundred characters, so that the last of `BLK  N/A` or `LCK No` may be missing. What
    // follows is a latency in decimal digits, or an address.
    let last = rest[bar..].rfind('|').map_or(bar, |at| bar + at);
    let mut rest = &rest[last + 1..];
    while let Some((word, behind)) = next(rest) {
        let is_number = word.bytes().all(|b| b.is_ascii_digit()) || word.len() >= 5 && hex(word).is_some();
        if is_number {
            break;
        }
        rest = behind;
    }
    // Latency, unless the only number is the instruction.
    if let Some((word, behind)) = next(rest)
        && let Ok(latency) = word.parse::<u64>()
        && next(behind).is_none_or(|(word, _)| hex(word).is_some())
    {
        found.latency = Some(latency);
        rest = behind;
    }
    found.ip = next(rest).and_then(|(word, _)| hex(word)).unwrap_or(0);
    Some((event, found))
}

/// `[ADDR [SYMBOL (FILE)]] [IP [SYMBOL] [(FILE)]]`: one number before a symbol is the instruction, two are both; alone on
/// its line, before frames, it is the data address.
fn address_and_instruction(text: &str) -> (Option<u64>, u64) {
    let Some((word, behind)) = next(text) else { return (None, 0) };
    let Some(first) = hex(word) else { return (None, 0) };
    if behind.trim().is_empty() {
        return (Some(first), 0);
    }
    // A short symbol may look like a number; its file follows it at once.
    let number = |text: &str| {
        let (word, behind) = next(text)?;
        let is_symbol = word.len() < 5 && behind.trim_start().starts_with('(');
        hex(word).filter(|_| !is_symbol)
    };
    let behind_file = || behind.match_indices(") ").find_map(|(at, _)| number(&behind[at + 2..]));
    match number(behind).or_else(behind_file) {
        Some(second) => (Some(first), second),
        None => (None, first),
    }
}

/// The next word, and what stands behind it.
fn next(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if text.is_empty() {
        return None;
    }
    Some(text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, "")))
}

/// `7f941c8f2ad7 symbol+0x12 (/usr/lib/libc.so.6)`.
fn frame(text: &str) -> Option<Line> {
    let (word, rest) = next(text)?;
    let at = hex(word)?;
    let file =
        rest.trim_end().strip_suffix(')').and_then(|r| r.rsplit_once(" (")).map(|(_, file)| file.to_owned());
    Some(Line::Frame { at, file: file.filter(|file| file.starts_with('/')) })
}

/// A record, as perf prints it behind its name without `PERF_RECORD_`; `None` for kinds that are of no use.
fn other(text: &str) -> Result<Option<Record>, &'static str> {
    let (name, rest) = next(text).ok_or("a record without a kind")?;
    // `EXIT(3067:3067):(3067:3067)` has no blank.
    let kind = name.split([':', '(']).next().unwrap_or(name);
    let behind = text[kind.len()..].trim_start();
    Ok(Some(match kind {
        "MMAP" | "MMAP2" => Record::Mmap(mapping(rest).ok_or("a mapping that is cut off")?),
        "COMM" => {
            let exec = behind.starts_with("exec");
            // The name may have colons; the thread stands behind the last.
            let (name, ids) = behind
                .split_once(": ")
                .and_then(|(_, rest)| rest.rsplit_once(':'))
                .ok_or("a command's name that is cut off")?;
            let (pid, tid) = pair(ids, '/').ok_or("a command's name without its thread")?;
            Record::Comm { pid, tid, name: name.to_owned(), exec }
        }
        "FORK" | "EXIT" => {
            // The new one, then the one that made it, each as process and thread.
            let mut all = behind.split(['(', ')']).filter_map(|part| pair(part, ':'));
            let (Some((new_pid, new_tid)), Some((parent, _))) = (all.next(), all.next()) else {
                return Err("a thread's begin or end that is cut off");
            };
            if kind == "FORK" {
                Record::Fork { pid: new_pid, tid: new_tid, parent }
            } else {
                Record::Exit { pid: new_pid, tid: new_tid }
            }
        }
        "LOST" | "LOST_SAMPLES" => Record::Lost(
            behind
                .split_ascii_whitespace()
                .rev()
                .find_map(|w| w.parse().ok())
                .ok_or("a loss without a number")?,
        ),
        "THROTTLE" => Record::Throttled,
        _ => return Ok(None),
    }))
}

fn pair(text: &str, between: char) -> Option<(u32, u32)> {
    let (a, b) = text.trim().split_once(between)?;
    Some((number(a.trim())?, number(b.trim())?))
}

/// `3067/3067: [0x556cfc4e2000(0x13000) @ 0x4000 fe:00 247072 0]: r-xp /usr/bin/dash`, and without the file's numbers.
fn mapping(text: &str) -> Option<Mapped> {
    let (ids, rest) = text.split_once(": [")?;
    let (pid, tid) = pair(ids, '/')?;
    let (range, rest) = rest.split_once("]: ")?;
    let (start, about) = range.split_once('(')?;
    let (bytes, about) = about.split_once(") @ ")?;
    let mut words = about.split_ascii_whitespace();
    let mut m =
        Mapped { pid, tid, start: hex(start)?, bytes: hex(bytes)?, protection: 4, ..Mapped::default() };
    m.offset = words.next().and_then(hex)?;
    if let Some((major, minor)) = words.next().and_then(|w| w.split_once(':')) {
        m.device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
        m.inode = words.next()?.parse().ok()?;
    } else if let Some(id) = about.split_once('<').and_then(|(_, id)| id.split_once('>')) {
        let id = id.0;
        m.build_id = (0..id.len() / 2)
            .filter_map(|i| u8::from_str_radix(id.get(2 * i..2 * i + 2)?, 16).ok())
            .collect();
    }
    let (rights, name) = rest.split_once(' ')?;
    // An old record has one letter: code or data.
    if rights.len() == 4 {
        const SHARED: u32 = 1;
        const PRIVATE: u32 = 2;
        let right = |at: usize, bit: u32| if rights.as_bytes()[at] == b'-' { 0 } else { bit };
        m.protection = right(0, 1) | right(1, 2) | right(2, 4);
        m.flags = if rights.ends_with('s') { SHARED } else { PRIVATE };
    } else if rights != "x" {
        m.protection = 1;
    }
    m.name = name.to_owned();
    Some(m)
}

/// A comment of the header.
fn header(text: &str) -> Option<Header> {
    if let Some(cpu) = text.strip_prefix("CPU ") {
        // `CPU 0: Core ID 0, Die ID 0, Socket ID 0`
        let (cpu, rest) = cpu.split_once(':')?;
        let package = rest.rsplit_once("Socket ID ")?.1.trim().parse().ok()?;
        return Some(Header::Package { cpu: cpu.parse().ok()?, package });
    }
    let (key, value) = text.split_once(':')?;
    let (key, value) = (key.trim(), value.trim());
    match key {
        "cpudesc" => return Some(Header::Processor(value.to_owned())),
        "cpuid" => return Some(Header::CpuId(value.to_owned())),
        "nrcpus online" => return value.parse().ok().map(Header::Cpus),
        "cmdline" => return Some(Header::Command(value.to_owned())),
        "event" => return event(value),
        _ => {}
    }
    let (node, what) = key.strip_prefix("node")?.split_once(' ')?;
    let id = node.parse().ok()?;
    match what.trim() {
        "meminfo" => {
            let kib: u64 = value.strip_prefix("total =")?.split_ascii_whitespace().next()?.parse().ok()?;
            Some(Header::Memory { node: id, bytes: kib.checked_mul(1024)? })
        }
        "cpu list" => {
            let cpus = if value.is_empty() { Default::default() } else { value.parse().ok()? };
            Some(Header::Node(Node { id, memory_bytes: 0, cpus }))
        }
        _ => None,
    }
}

/// `name = cpu-clock, , id = { 1, 2 }, type = 1, size = 128, { sample_period, sample_freq } = 999, …, freq = 1`.
fn event(text: &str) -> Option<Header> {
    // A name such as `cpu/mem-loads,ldlat=30/P` has commas.
    let name = text.strip_prefix("name = ")?;
    let name =
        name.split_once(", , id =").or_else(|| name.split_once(", type =")).map_or(name, |(name, _)| name);
    let value = |key: &str| -> Option<&str> {
        let from = text.find(key)? + key.len();
        Some(text[from..].split(',').next().unwrap_or("").trim())
    };
    let number = |key: &str| -> Option<u64> {
        let text = value(key)?.split_ascii_whitespace().next()?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let mut attr = Attr {
        kind: u32::try_from(number(", type = ").unwrap_or(u64::from(u32::MAX))).ok()?,
        // perf prints no field that is 0.
        config: number(", config = ").unwrap_or(0),
        period: number("{ sample_period, sample_freq } = ").unwrap_or(0),
        ..Attr::default()
    };
    if number(", freq = ") == Some(1) {
        attr.set_frequency();
    }
    if value(", sample_type = ").is_some_and(|types| types.split('|').any(|t| t == "ADDR")) {
        attr.sample_type |= bits::ADDR;
    }
    Some(Header::Event { name: name.to_owned(), attr })
}

/// What an event's name says where the text has no header; an unknown one is one of the processor.
pub fn event_by_name(name: &str) -> Attr {
    let plain = name.split([':', '/']).next().unwrap_or(name);
    let software = |config| Attr { kind: SOFTWARE, config, sample_type: bits::ADDR, ..Attr::default() };
    match plain {
        "cpu-clock" => software(0),
        "task-clock" => software(1),
        "page-faults" | "faults" => software(2),
        "minor-faults" => software(5),
        "major-faults" => software(6),
        // PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES.
        "cycles" | "cpu-cycles" => Attr::default(),
        // PERF_TYPE_RAW: of no meaning but that of its data source.
        _ => Attr { kind: 4, config: u64::MAX, ..Attr::default() },
    }
}

#[cfg(test)]
mod tests;
