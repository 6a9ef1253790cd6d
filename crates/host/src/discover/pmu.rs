//! The units that count and sample events, as the kernel describes them below /sys/bus/event_source/devices: their
//! number, the places of their fields, the events that they name, what they can do. Read below a root path, so that
//! captured trees of other machines can be tried.
//!
//! [`MemoryEvents::find`] chooses those that sample memory accesses with the place that the data came from.

use nearfar_perf::Vendor;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const DEVICES: &str = "sys/bus/event_source/devices";

/// The words of an event's encoding that the kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `config`, `config1`, `config2`, `config3`.
    pub words: [u64; 4],
}

/// A unit.
#[derive(Clone, Debug, Default)]
pub struct Pmu {
    /// Its name: `cpu`, `ibs_op`, `arm_spe_0`, `uncore_imc_0`, …
    pub name: String,
    /// Its number for perf_event_open.
    pub number: u32,
    /// Places of its fields: word, and bits from low to high.
    format: BTreeMap<String, (usize, Vec<u32>)>,
    /// Events that it names, as terms.
    pub events: BTreeMap<String, String>,
    /// What it can do.
    pub caps: BTreeMap<String, String>,
}

impl Pmu {
    /// Reads one unit; `None` if there is none of that name.
    pub fn read(root: &Path, name: &str) -> Option<Pmu> {
        let folder = root.join(DEVICES).join(name);
        let number = fs::read_to_string(folder.join("type")).ok()?.trim().parse().ok()?;
        let mut format = BTreeMap::new();
        for (field, text) in files(&folder.join("format")) {
            if let Some(place) = place(&text) {
                format.insert(field, place);
            }
        }
        let (events, caps) = (files(&folder.join("events")), files(&folder.join("caps")));
        Some(Pmu { name: name.to_owned(), number, format, events, caps })
    }

    /// Names of all units, ascending.
    pub fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root.join(DEVICES)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether it has this field.
    pub fn has(&self, field: &str) -> bool {
        self.format.contains_key(field)
    }

    /// Whether it has this ability: the file is there and does not say 0.
    pub fn can(&self, cap: &str) -> bool {
        self.caps.get(cap).is_some_and(|value| value != "0")
    }

    /// Encodes terms such as `event=0xcd,umask=0x1,ldlat=3`. A term without a value is 1.
    ///
    /// # Errors
    /// The first term that the unit does not have, or whose value does not fit.
    pub fn encode(&self, terms: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for term in terms.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let (field, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = number(value).ok_or_else(|| format!("{}: `{term}` has no number", self.name))?;
            // Whole words are terms, too.
            let words = ["config", "config1", "config2", "config3"];
            if let Some(word) = words.iter().position(|w| *w == field).filter(|_| !self.has(field)) {
                config.words[word] |= value;
                continue;
            }
            let Some((word, bits)) = self.format.get(field) else {
                return Err(format!("{} has no field `{field}`", self.name));
            };
            if bits.len() < 64 && value >> bits.len() != 0 {
                return Err(format!("{}: {value:#x} does not fit the field `{field}`", self.name));
            }
            for (i, bit) in bits.iter().enumerate() {
                config.words[*word] |= (value >> i & 1) << bit;
            }
        }
        Ok(config)
    }
}

/// The files of a folder, without those whose name has a dot (`mem-loads.scale`), as text.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = crate::input::read_text(&entry.path(), 4096).ok()?;
        (!name.contains('.')).then(|| (name, text.trim().to_owned()))
    });
    named.collect()
}

/// `config1:0-7,32` as word and bits.
fn place(text: &str) -> Option<(usize, Vec<u32>)> {
    let (word, ranges) = text.split_once(':')?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        "config3" => 3,
        _ => return None,
    };
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if high > 63 || low > high || bits.len() + (high - low) as usize >= 64 {
            return None;
        }
        bits.extend(low..=high);
    }
    Some((word, bits))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// An event that samples memory accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Its name for people: `cpu/mem-loads,ldlat=30/`.
    pub name: String,
    /// Number of its unit.
    pub unit: u32,
    /// Its encoding.
    pub config: Config,
    /// How precise the instruction must be (`precise_ip`).
    pub precise: u8,
    /// The event that must be opened first, as the leader of its group.
    pub leader: Option<Config>,
    /// Whether the kernel's own accesses can be left out.
    pub excludes_kernel: bool,
}

/// What a machine has to sample memory accesses with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Whose.
    pub vendor: Vendor,
    /// PEBS, IBS.
    pub what: &'static str,
    /// The events, loads first.
    pub events: Vec<MemoryEvent>,
}

/// Why a machine has none, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMemoryEvents {
    /// Why.
    pub why: String,
    /// What to type; `None` where nothing helps.
    pub unlock: Option<String>,
}

/// What is asked of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryWish {
    /// Only loads of at least so many cycles; 0: all that the processor samples.
    pub least_cycles: u32,
    /// Only what missed the last-level cache, where the processor can (AMD since Zen 4).
    pub misses_only: bool,
}

/// Intel's least threshold.
const LEAST_LDLAT: u32 = 3;
/// AMD's range of thresholds (caps/ldlat).
const IBS_LDLAT: std::ops::RangeInclusive<u32> = 128..=2048;

impl MemoryEvents {
    /// Chooses them.
    ///
    /// # Errors
    /// Why there are none.
    pub fn find(root: &Path, wish: MemoryWish) -> Result<MemoryEvents, NoMemoryEvents> {
        if let Some(ibs) = Pmu::read(root, "ibs_op") {
            return ibs_events(&ibs, wish);
        }
        let spe = Pmu::names(root).into_iter().find(|name| name.starts_with("arm_spe_"));
        if let Some(name) = spe {
            return Err(NoMemoryEvents {
                why: format!(
                    "this processor samples accesses through {name}, whose buffer nearfar does not decode, \
                     neither here nor in a perf.data that is imported"
                ),
                unlock: None,
            });
        }
        for name in ["cpu", "cpu_core"] {
            let Some(cpu) = Pmu::read(root, name) else { continue };
            if cpu.events.contains_key("mem-loads") {
                return pebs_events(&cpu, wish);
            }
        }
        let pmus = Pmu::names(root);
        let why = match (pmus.iter().any(|name| name == "cpu" || name == "cpu_core"), vendor_of(root)) {
            (true, Vendor::Amd) => {
                "the processor's counters are there, but not its IBS (ibs_op): it is switched off in \
                                    the firmware, or hidden from this virtual machine"
            }
            (true, _) => {
                "the processor's counters are there, but it has no event that samples loads with their source \
                          (mem-loads): it is too old, or hidden from this virtual machine"
            }
            (false, _) => {
                "there are no hardware counters here: a virtual machine or a container without them"
            }
        };
        Err(NoMemoryEvents { why: why.into(), unlock: None })
    }
}

/// The processor's vendor, from /proc/cpuinfo.
fn vendor_of(root: &Path) -> Vendor {
    let text = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("vendor_id")).unwrap_or_default();
    Vendor::from_cpuid(line)
}

/// Intel: loads with their latency, and stores.
fn pebs_events(cpu: &Pmu, wish: MemoryWish) -> Result<MemoryEvents, NoMemoryEvents> {
    let odd = |why: String| NoMemoryEvents { why, unlock: None };
    let least = wish.least_cycles.max(LEAST_LDLAT);
    let terms = &cpu.events["mem-loads"];
    // The event has a threshold of its own, which ours replaces.
    let kept: Vec<&str> = terms.split(',').filter(|t| !t.trim().starts_with("ldlat")).collect();
    let loads = cpu.encode(&format!("{},ldlat={least}", kept.join(","))).map_err(odd)?;
    let precise = cpu.caps.get("max_precise").and_then(|text| text.parse().ok()).unwrap_or(2).min(3);
    if precise == 0 {
        return Err(odd(format!("{} cannot sample precisely (caps/max_precise is 0)", cpu.name)));
    }
    // Where it is there, the kernel wants it as the leader of the loads' group, and refuses them alone.
    let leader = cpu.events.get("mem-loads-aux").map(|terms| cpu.encode(terms)).transpose().map_err(odd)?;
    let event = |name: String, config, leader| MemoryEvent {
        name,
        unit: cpu.number,
        config,
        precise: precise.min(2),
        leader,
        excludes_kernel: true,
    };
    let mut events = vec![event(format!("{}/mem-loads,ldlat={least}/", cpu.name), loads, leader)];
    if let Some(terms) = cpu.events.get("mem-stores") {
        let config = cpu.encode(terms).map_err(odd)?;
        events.push(event(format!("{}/mem-stores/", cpu.name), config, None));
    }
    Ok(MemoryEvents { vendor: Vendor::Intel, what: "PEBS", events })
}

/// AMD: micro-operations, of which the kernel says what they loaded and stored.
fn ibs_events(ibs: &Pmu, wish: MemoryWish) -> Result<MemoryEvents, NoMemoryEvents> {
    let mut terms = Vec::new();
    if ibs.has("cnt_ctl") {
        // Micro-operations instead of cycles: cycles hit what waits more often than it is there.
        terms.push("cnt_ctl=1".to_owned());
    }
    // Without it the kernel's accesses cannot be left out, and an ordinary user may not see those.
    let filter = ibs.has("swfilt");
    if filter {
        terms.push("swfilt=1".to_owned());
    }
    if wish.misses_only {
        if !ibs.has("l3missonly") || !ibs.can("zen4_ibs_extensions") {
            return Err(NoMemoryEvents {
                why: "this processor or kernel cannot sample misses only (caps/zen4_ibs_extensions)".into(),
                unlock: Some("leave out --misses-only".into()),
            });
        }
        terms.push("l3missonly=1".to_owned());
    }
    if wish.least_cycles > 0 {
        if !ibs.has("ldlat") || !ibs.can("ldlat") {
            return Err(NoMemoryEvents {
                why: "this processor or kernel has no threshold of latency (caps/ldlat)".into(),
                unlock: Some("leave out --least-latency".into()),
            });
        }
        let (low, high) = (*IBS_LDLAT.start(), *IBS_LDLAT.end());
        terms.push(format!("ldlat={}", wish.least_cycles.clamp(low, high)));
    }
    let terms = terms.join(",");
    let config = ibs.encode(&terms).map_err(|why| NoMemoryEvents { why, unlock: None })?;
    let event = MemoryEvent {
        name: format!("ibs_op/{terms}/"),
        unit: ibs.number,
        config,
        precise: 0,
        leader: None,
        excludes_kernel: filter,
    };
    Ok(MemoryEvents { vendor: Vendor::Amd, what: "IBS", events: vec![event] })
}

/// Blocks of physical memory by node, as the kernel lists them; empty where it does not (no memory hotplug).
pub fn memory_blocks(root: &Path) -> nearfar_perf::features::Blocks {
    let text =
        fs::read_to_string(root.join("sys/devices/system/memory/block_size_bytes")).unwrap_or_default();
    let block_bytes = u64::from_str_radix(text.trim(), 16).unwrap_or(0);
    let mut nodes = Vec::new();
    let folder: PathBuf = root.join("sys/devices/system/node");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(node) = name.strip_prefix("node").and_then(|n| n.parse().ok()) else { continue };
        let mut bits: Vec<u64> = Vec::new();
        for block in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let name = block.file_name().to_string_lossy().into_owned();
            // 2^26 blocks of 128 MiB are 8 PiB.
            let number =
                name.strip_prefix("memory").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < 1 << 26);
            let Some(number) = number else { continue };
            if bits.len() <= number / 64 {
                bits.resize(number / 64 + 1, 0);
            }
            bits[number / 64] |= 1 << (number % 64);
        }
        nodes.push((node, bits));
    }
    nodes.sort_unstable();
    nearfar_perf::features::Blocks { block_bytes, nodes }
}
