//! Hardware events that are counted per cpu, and their encodings by processor.
//!
//! Cycles and instructions are the kernel's generic events. Where a line came from is not: the encodings below are the
//! vendors' (Intel's MEM_LOAD_RETIRED 0xd1 and MEM_LOAD_L3_MISS_RETIRED 0xd3, AMD's fills 0x44), for the processors
//! that have them. Another processor gets no number rather than one of another event. None of them was ever run on
//! hardware by this project; `nearfar doctor --counters` compares them with a known load.

use serde::Serialize;
use std::collections::BTreeMap;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Cycles in which the cpu was not halted.
    Cycles,
    /// Instructions that retired.
    Instructions,
    /// Loads that the second-level cache served.
    L2Hits,
    /// Loads that missed it.
    L2Misses,
    /// Loads that the third-level cache served.
    L3Hits,
    /// Loads that missed it.
    L3Misses,
    /// Lines from the memory of the cpu's own node.
    LocalLines,
    /// Lines from the memory of other nodes.
    RemoteLines,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 8] = [
        Event::Cycles,
        Event::Instructions,
        Event::L2Hits,
        Event::L2Misses,
        Event::L3Hits,
        Event::L3Misses,
        Event::LocalLines,
        Event::RemoteLines,
    ];
}

/// Why an event is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// In words, with what unlocks it.
    pub why: String,
}

/// A processor, as /proc/cpuinfo has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// `GenuineIntel`, `AuthenticAMD`, …; empty if unknown.
    pub vendor: String,
    /// Family.
    pub family: u32,
    /// Model.
    pub model: u32,
    /// What it can do: the words of `flags`.
    pub flags: String,
}

impl Processor {
    /// Of the first cpu of /proc/cpuinfo.
    pub fn parse(cpuinfo: &str) -> Processor {
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let number = |name: &str| field(name).and_then(|n| n.parse().ok()).unwrap_or(0);
        Processor {
            vendor: field("vendor_id").unwrap_or_default(),
            family: number("cpu family"),
            model: number("model"),
            flags: field("flags").unwrap_or_default(),
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        if self.vendor.is_empty() {
            return "this processor, which /proc/cpuinfo does not name".to_owned();
        }
        format!("{} family {} model {}", self.vendor, self.family, self.model)
    }
}

/// How an event is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The kernel's generic event of this number (PERF_COUNT_HW_…).
    Generic(u64),
    /// The core PMU's own: umask << 8 | event; AMD has the event's bits 8 to 11 at 32.
    Raw(u64),
}

/// Intel's server processors since Skylake, whose 0xd3 has local DRAM in umask 1 and remote DRAM in umask 2: Skylake and
/// Cascade Lake (0x55), Ice Lake (0x6a, 0x6c), Sapphire Rapids (0x8f), Emerald Rapids (0xcf), Granite Rapids (0xad, 0xae).
const INTEL: [u32; 7] = [0x55, 0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae];

/// The encoding of an event; `None` if this table has none for the processor.
pub fn encoding(processor: &Processor, event: Event) -> Option<Encoding> {
    match event {
        Event::Cycles => return Some(Encoding::Generic(0)),
        Event::Instructions => return Some(Encoding::Generic(1)),
        _ => {}
    }
    let intel =
        processor.vendor == "GenuineIntel" && processor.family == 6 && INTEL.contains(&processor.model);
    // Fills by source (0x44) since Zen 3; before it 0x43 counts demand fills only, and says another thing.
    let amd = processor.vendor == "AuthenticAMD" && processor.family >= 0x19;
    let raw = match (event, intel, amd) {
        (Event::L2Hits, true, _) => 0x02d1,
        (Event::L2Misses, true, _) => 0x10d1,
        (Event::L3Hits, true, _) => 0x04d1,
        (Event::L3Misses, true, _) => 0x20d1,
        (Event::LocalLines, true, _) => 0x01d3,
        (Event::RemoteLines, true, _) => 0x02d3,
        (Event::L2Hits, _, true) => 0x0144,
        // Everything that is not the own L2: the own and other CCXs, memory near and far, and slow memory.
        (Event::L2Misses, _, true) => 0xde44,
        (Event::L3Hits, _, true) => 0x0244,
        (Event::L3Misses, _, true) => 0xdc44,
        (Event::LocalLines, _, true) => 0x0844,
        (Event::RemoteLines, _, true) => 0x4044,
        _ => return None,
    };
    Some(Encoding::Raw(raw))
}

/// What an event's lines are on this processor: retired loads on Intel, all fills of the first-level cache on AMD.
pub fn meaning(processor: &Processor) -> &'static str {
    match processor.vendor.as_str() {
        "GenuineIntel" => {
            "retired loads that were served from there (MEM_LOAD_L3_MISS_RETIRED): no stores, no prefetches"
        }
        "AuthenticAMD" => "fills of the first-level data cache from there (0x44), prefetches included",
        _ => "lines from there",
    }
}

/// The config of an event of a PMU that sysfs describes: `event=0x04,umask=0x03` by the bits that the files in `format`
/// give each term (`config:8-15`). `None` if a term has no format, has bits of another word, or does not fit.
pub fn config(event: &str, formats: &BTreeMap<String, String>) -> Option<u64> {
    let mut config = 0u64;
    for term in event.trim().split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let mut value = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        for range in formats.get(name)?.trim().strip_prefix("config:")?.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            let bits = high.checked_sub(low)?.checked_add(1).filter(|_| high < 64)?;
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            config |= (value & mask) << low;
            value = value.checked_shr(bits).unwrap_or(0);
        }
        if value != 0 {
            return None;
        }
    }
    Some(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_an_event_go_where_the_format_says() {
        let formats = [
            ("event", "config:0-7,32-35"),
            ("umask", "config:8-15"),
            ("edge", "config:18"),
            ("filter", "config1:0-3"),
        ];
        let formats: BTreeMap<String, String> =
            formats.iter().map(|(n, f)| ((*n).into(), (*f).into())).collect();
        assert_eq!(config("event=0x04,umask=0x03", &formats), Some(0x304));
        assert_eq!(config("event=0x1ff,edge", &formats), Some(0x1_0004_00ff));
        for bad in ["umask=0x100", "filter=1", "other=1", "event=x", ""] {
            assert_eq!(config(bad, &formats), None, "{bad}");
        }
    }

    fn processor(vendor: &str, family: u32, model: u32) -> Processor {
        Processor { vendor: vendor.into(), family, model, flags: String::new() }
    }

    #[test]
    fn a_processor_has_its_own_encodings_or_none() {
        let emerald = Processor::parse(
            "processor : 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name : x\n",
        );
        assert_eq!(emerald, processor("GenuineIntel", 6, 207));
        assert_eq!(encoding(&emerald, Event::RemoteLines), Some(Encoding::Raw(0x02d3)));
        assert_eq!(
            encoding(&processor("AuthenticAMD", 0x1a, 2), Event::RemoteLines),
            Some(Encoding::Raw(0x4044))
        );
        // Haswell and Broadwell have remote DRAM in another umask; Zen 2 counts demand fills only.
        for older in
            [processor("GenuineIntel", 6, 0x3f), processor("AuthenticAMD", 0x17, 0x31), Processor::default()]
        {
            assert_eq!(encoding(&older, Event::RemoteLines), None, "{older:?}");
            assert_eq!(encoding(&older, Event::Cycles), Some(Encoding::Generic(0)));
        }
    }

    #[test]
    fn misses_of_a_level_are_the_rest_of_the_fills() {
        let umask = |event| match encoding(&processor("AuthenticAMD", 0x19, 1), event) {
            Some(Encoding::Raw(code)) => code >> 8,
            other => panic!("{other:?}"),
        };
        assert_eq!(umask(Event::L2Hits) & umask(Event::L2Misses), 0);
        assert_eq!(umask(Event::L3Hits) | umask(Event::L3Misses), umask(Event::L2Misses));
        assert_eq!(umask(Event::L3Misses) & (umask(Event::LocalLines) | umask(Event::RemoteLines)), 0x48);
    }
}
