//! What QEMU's command line says: `-plugin FILE,key=value,…`.
//!
//! QEMU 7.2 hands each `key=value` over as one string.

use crate::code::KernelFunctions;
use crate::windows::Lengths;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

/// What is done with accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything: caches, nodes of pages, tables.
    Simulate,
    /// Each access calls a function that counts it and does nothing else: what any plugin costs.
    Empty,
}

/// The arguments, all checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// Directory for the journal and the log.
    pub out: PathBuf,
    /// The machine's file.
    pub machine: PathBuf,
    /// vCPUs 0 up to this one are the machine's, the others are not counted.
    pub cpus: usize,
    /// Where the guest's kernel does what tells of tasks.
    pub functions: KernelFunctions,
    /// Ends of the nodes' memory, as offsets in QEMU's RAM, ascending.
    pub ram: Vec<u64>,
    /// Mean DRAM lines per sample.
    pub sample: u32,
    /// Mean accesses per sample of accesses, with which time is sampled, too; `None`: neither.
    pub accesses: Option<u32>,
    /// Length of an epoch by a core's simulated clock, µs.
    pub epoch_us: u32,
    /// Whether the simulated prefetcher works.
    pub prefetch: bool,
    /// The order of page frames in the simulated caches; 0: as they are first used.
    pub frames: u32,
    /// Whether vCPUs run one at a time.
    pub turns: bool,
    /// Windows in which accesses are counted; `None`: all are.
    pub windows: Option<Lengths>,
    /// Whether the firmware interleaves the nodes' memory page by page.
    pub interleave: bool,
    /// What is done with accesses.
    pub mode: Mode,
}

/// Why the arguments cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Not `key=value`.
    #[error("the argument `{0}` is not key=value")]
    Form(String),
    /// A key that does not exist.
    #[error("the argument `{0}` is unknown; there are {known}", known = KEYS.join(", "))]
    Unknown(String),
    /// A key given twice.
    #[error("the argument `{0}` is given twice")]
    Twice(String),
    /// A key that is needed.
    #[error("the argument `{0}` is missing")]
    Missing(&'static str),
    /// A value that cannot be used.
    #[error("{key}={value}: {expected} is expected")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

const KEYS: &[&str] = &[
    "out",
    "machine",
    "cpus",
    "switch",
    "wake",
    "start",
    "call",
    "huge",
    "ram",
    "sample",
    "accesses",
    "epoch_us",
    "prefetch",
    "interleave",
    "frames",
    "turns",
    "windows",
    "mode",
];

/// Reads the arguments.
///
/// # Errors
/// The first that is wrong or missing.
pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Arguments, ArgumentError> {
    let mut given = HashMap::new();
    for argument in arguments {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| ArgumentError::Form(argument.to_owned()))?;
        let key = *KEYS.iter().find(|k| **k == key).ok_or_else(|| ArgumentError::Unknown(key.to_owned()))?;
        if given.insert(key, value).is_some() {
            return Err(ArgumentError::Twice(key.to_owned()));
        }
    }
    let given = Given(given);
    let mode = given.word("mode", &[("simulate", Mode::Simulate), ("empty", Mode::Empty)])?;
    Ok(Arguments {
        out: given.needed("out")?.into(),
        machine: given.needed("machine")?.into(),
        cpus: given.number("cpus", None, "a number of cpus, 1 or more")? as usize,
        functions: KernelFunctions {
            switch: given.address("switch")?,
            wake: given.range("wake")?,
            start: given.range("start")?,
            call: if given.0.contains_key("call") { given.range("call")? } else { 0..0 },
            huge: given.0.contains_key("huge").then(|| given.address("huge")).transpose()?,
        },
        ram: given.ram()?,
        sample: given.number("sample", Some(1000), "a number of lines, 1 or more")?,
        accesses: match given.0.contains_key("accesses") {
            true => Some(given.number("accesses", None, "a number of accesses, 1 or more")?),
            false => None,
        },
        epoch_us: given.number("epoch_us", Some(1000), "microseconds, 1 or more")?,
        prefetch: given.word("prefetch", ON_OR_OFF)?,
        interleave: given.word("interleave", &[("off", false), ("on", true)])?,
        frames: given.number("frames", Some(0), "the number of an order, 1 or more")?,
        turns: given.word("turns", &[("off", false), ("on", true)])?,
        windows: given.windows()?,
        mode,
    })
}

/// QEMU itself turns a lone `prefetch` into `prefetch=on`. The first is the default.
const ON_OR_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];

struct Given<'a>(HashMap<&'static str, &'a str>);

impl Given<'_> {
    fn needed(&self, key: &'static str) -> Result<&str, ArgumentError> {
        self.0.get(key).copied().ok_or(ArgumentError::Missing(key))
    }

    /// Period, warming and counted part, µs: `20000:1000:1000`.
    fn windows(&self) -> Result<Option<Lengths>, ArgumentError> {
        let Some(value) = self.0.get("windows") else { return Ok(None) };
        let wrong = || {
            wrong(
                "windows",
                value,
                "PERIOD:WARMING:COUNTED in microseconds, of which the last two fit into the first",
            )
        };
        let parts: Vec<u32> = value.split(':').filter_map(|part| part.parse().ok()).collect();
        let &[period, warming, counted] = parts.as_slice() else { return Err(wrong()) };
        if counted == 0 || u64::from(warming) + u64::from(counted) > u64::from(period) {
            return Err(wrong());
        }
        let [period_ns, warming_ns, counted_ns] = [period, warming, counted].map(|us| f64::from(us) * 1e3);
        Ok(Some(Lengths { period_ns, warming_ns, counted_ns }))
    }

    fn number(
        &self,
        key: &'static str,
        default: Option<u32>,
        expected: &'static str,
    ) -> Result<u32, ArgumentError> {
        match (self.0.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => {
                let value = self.needed(key)?;
                value.parse().ok().filter(|&n| n > 0).ok_or_else(|| wrong(key, value, expected))
            }
        }
    }

    fn address(&self, key: &'static str) -> Result<u64, ArgumentError> {
        let value = self.needed(key)?;
        address(value).ok_or_else(|| wrong(key, value, "an address such as 0xffffffff81003270"))
    }

    fn range(&self, key: &'static str) -> Result<Range<u64>, ArgumentError> {
        let value = self.needed(key)?;
        let range = value.split_once(':').and_then(|(from, to)| Some(address(from)?..address(to)?));
        range
            .filter(|range| !range.is_empty())
            .ok_or_else(|| wrong(key, value, "two addresses such as 0xffffffff810c0000:0xffffffff810c0400"))
    }

    fn ram(&self) -> Result<Vec<u64>, ArgumentError> {
        let value = self.needed("ram")?;
        let ends: Option<Vec<u64>> = value.split(':').map(|end| end.parse().ok()).collect();
        // A node without memory ends where the one before it ends.
        ends.filter(|ends| ends.windows(2).all(|pair| pair[0] <= pair[1]) && ends.last() > Some(&0))
            .ok_or_else(|| {
                wrong(
                    "ram",
                    value,
                    "where each node's memory ends, in bytes, ascending, as in 1073741824:2147483648",
                )
            })
    }

    /// One of some words; the first is the default.
    fn word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Result<T, ArgumentError> {
        let value = self.0.get(key).copied().unwrap_or(words[0].0);
        words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let expected = match words[0].0 {
                "on" | "off" => "on or off",
                "skip" => "skip or count",
                _ => "simulate or empty",
            };
            wrong(key, value, expected)
        })
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn wrong(key: &'static str, value: &str, expected: &'static str) -> ArgumentError {
    ArgumentError::Value { key, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDED: &[&str] = &[
        "out=/o",
        "machine=/m.toml",
        "cpus=8",
        "switch=0xffffffff81003270",
        "wake=0xffffffff810c0000:0xffffffff810c0400",
        "start=0xffffffff810c1000:0xffffffff810c1200",
        "ram=512:1024",
    ];

    fn with<'a>(more: &[&'a str]) -> Result<Arguments, ArgumentError> {
        parse(NEEDED.iter().copied().chain(more.iter().copied()).collect::<Vec<&'a str>>())
    }

    #[test]
    fn what_may_be_left_out_has_a_default() {
        let expected = Arguments {
            out: "/o".into(),
            machine: "/m.toml".into(),
            cpus: 8,
            functions: KernelFunctions {
                switch: 0xffff_ffff_8100_3270,
                wake: 0xffff_ffff_810c_0000..0xffff_ffff_810c_0400,
                start: 0xffff_ffff_810c_1000..0xffff_ffff_810c_1200,
                call: 0..0,
                huge: None,
            },
            ram: vec![512, 1024],
            sample: 1000,
            accesses: None,
            epoch_us: 1000,
            prefetch: true,
            interleave: false,
            frames: 0,
            turns: false,
            windows: None,
            mode: Mode::Simulate,
        };
        assert_eq!(with(&[]), Ok(expected));
    }

    #[test]
    fn everything_can_be_said() {
        let more = [
            "sample=64",
            "accesses=500",
            "epoch_us=10",
            "prefetch=off",
            "interleave=on",
            "frames=7",
            "turns=on",
            "windows=20000:500:1000",
            "mode=empty",
            "call=0x12:0x34",
            "huge=0x56",
        ];
        let all = with(&more).unwrap();
        assert_eq!((all.sample, all.epoch_us, all.prefetch, all.interleave), (64, 10, false, true));
        assert_eq!((all.functions.call, all.functions.huge), (0x12..0x34, Some(0x56)));
        assert_eq!((all.mode, all.accesses, all.frames, all.turns), (Mode::Empty, Some(500), 7, true));
        assert_eq!(all.windows, Some(Lengths { period_ns: 2e7, warming_ns: 5e5, counted_ns: 1e6 }));
    }

    #[test]
    fn each_needed_argument_is_missed_by_name() {
        for (i, key) in ["out", "machine", "cpus", "switch", "wake", "start", "ram"].into_iter().enumerate() {
            let rest = NEEDED.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, a)| *a);
            assert_eq!(parse(rest), Err(ArgumentError::Missing(key)));
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            "call=0x12",
            "huge=12",
            "sample=0",
            "sample=x",
            "epoch_us=-1",
            "prefetch=yes",
            "interleave=1",
            "frames=-1",
            "windows=20",
            "windows=20:10:11",
            "windows=20:1:0",
            "windows=20:x:1",
            "mode=fast",
        ] {
            assert!(matches!(with(&[wrong]), Err(ArgumentError::Value { .. })), "{wrong}");
        }
        let values = [
            ("ram", "1024:512"),
            ("ram", "0"),
            ("ram", "a"),
            ("switch", "12"),
            ("wake", "0x12"),
            ("start", "0x12:0x12"),
            ("cpus", "0"),
        ];
        for (key, value) in values {
            let arguments: Vec<String> = NEEDED
                .iter()
                .map(|a| if a.starts_with(key) { format!("{key}={value}") } else { (*a).to_owned() })
                .collect();
            let result = parse(arguments.iter().map(String::as_str));
            assert!(matches!(result, Err(ArgumentError::Value { .. })), "{key}={value}");
        }
        assert_eq!(with(&["out=/p"]), Err(ArgumentError::Twice("out".into())));
        assert_eq!(with(&["color=red"]), Err(ArgumentError::Unknown("color".into())));
        assert_eq!(with(&["alone"]), Err(ArgumentError::Form("alone".into())));
    }
}
