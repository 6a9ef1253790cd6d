//! Memory slots from the firmware's own table.
//!
//! Source: DMTF DSP0134, System Management BIOS Reference Specification 3.7: 6.1.2 (structure
//! header), 6.1.3 (text strings), 7.1.2.2 (type 0, the bit for virtual machines), 7.17 (type 16)
//! and 7.18 (type 17). Type 37 is not read: the channels that it has names for (RamBus, SyncLink)
//! are long gone. The entry point is not read either: each structure says its own length, and the
//! kernel's file ends where the table does.
//!
//! Own code: smbios-lib would cost a cold build eleven seconds of processor for two structures.

use super::locator;
use super::tree::Tree;
use nearfar_machine::topology::{MemoryModules, Module, Slot};
use std::collections::BTreeMap;
use std::io::ErrorKind;

const TABLE: &str = "sys/firmware/dmi/tables/DMI";

/// The slots; else why there are none, and what to type.
pub(super) fn modules(tree: &Tree, packages: Option<usize>) -> Result<MemoryModules, String> {
    let file = tree.shown(TABLE);
    let bytes = tree.bytes(TABLE).map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => {
            format!("only root may read {file}, the firmware's list; type: sudo nearfar topo")
        }
        ErrorKind::NotFound if tree.is_live() => {
            format!(
                "the firmware shows no list: there is no {file} (usual in containers and on small boards)"
            )
        }
        ErrorKind::NotFound => {
            format!("the captured machine has no {TABLE}: `topo --capture` leaves it out, because it has serial numbers")
        }
        _ => format!("{file}: {e}"),
    })?;
    let table = structures(&bytes).map_err(|e| format!("{file} is damaged: {e}"))?;
    // Other arrays are for flash and for video.
    let other: BTreeMap<u16, u8> = table
        .iter()
        .filter(|s| s.kind == 16)
        .filter_map(|s| Some((s.handle, s.byte(5)?)))
        .filter(|&(_, used_for)| used_for != SYSTEM_MEMORY)
        .collect();
    let system = |s: &&Structure| s.word(4).is_none_or(|array| !other.contains_key(&array));
    let mut slots: Vec<Slot> = table.iter().filter(|s| s.kind == 17).filter(system).map(slot).collect();
    if slots.is_empty() {
        return Err(format!("{file} lists no memory slots"));
    }
    locator::read(&mut slots, packages);
    let bios = table.iter().find(|s| s.kind == 0);
    Ok(MemoryModules { slots, virtual_machine: bios.and_then(|s| Some(s.byte(0x13)? & 1 << 4 != 0)) })
}

/// Use of an array, 7.17.2.
const SYSTEM_MEMORY: u8 = 3;

/// One structure of the table.
struct Structure<'a> {
    kind: u8,
    handle: u16,
    /// With the header, as the specification's offsets are.
    fields: &'a [u8],
    strings: Vec<&'a [u8]>,
}

/// Up to the end-of-table structure; older tables may lack it.
fn structures(mut bytes: &[u8]) -> Result<Vec<Structure<'_>>, String> {
    let mut all = Vec::new();
    while let [kind, length, low, high, ..] = *bytes {
        let cut = || format!("structure {} of type {kind} is cut off", all.len());
        let length = usize::from(length);
        let fields = bytes.get(..length).filter(|f| f.len() >= 4).ok_or_else(cut)?;
        let rest = &bytes[length..];
        // Strings end with a zero each, and all of them with one more; none are two zeros.
        let end = rest.windows(2).position(|pair| pair == [0, 0]).ok_or_else(cut)?;
        let strings = rest[..end].split(|&b| b == 0).collect();
        all.push(Structure { kind, handle: u16::from_le_bytes([low, high]), fields, strings });
        if kind == 127 {
            break;
        }
        bytes = &rest[end + 2..];
    }
    Ok(all)
}

impl Structure<'_> {
    /// `None` beyond the end: older versions have fewer fields.
    fn byte(&self, offset: usize) -> Option<u8> {
        self.fields.get(offset).copied()
    }

    fn word(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(offset)?, self.byte(offset + 1)?]))
    }

    fn double(&self, offset: usize) -> Option<u32> {
        Some(u32::from(self.word(offset)?) | u32::from(self.word(offset + 2)?) << 16)
    }

    /// Numbered from 1; 0 is none.
    fn string(&self, offset: usize) -> Option<String> {
        let number = usize::from(self.byte(offset)?).checked_sub(1)?;
        let text = String::from_utf8_lossy(self.strings.get(number)?).trim().to_owned();
        (!text.is_empty() && text != "Not Specified").then_some(text)
    }

    /// 10⁶ transfers per second: 0 is unknown, and what does not fit is in a later field.
    fn speed(&self, offset: usize, extended: usize) -> Option<u32> {
        match self.word(offset)? {
            0 => None,
            0xFFFF => self.double(extended).map(|s| s & 0x7FFF_FFFF).filter(|&s| s > 0),
            speed => Some(u32::from(speed)),
        }
    }
}

fn slot(s: &Structure) -> Slot {
    // 7.18.4: 0 is an empty slot.
    let module = (s.word(0x0C) != Some(0)).then(|| {
        let persistent = s.byte(0x28).and_then(persistent);
        Module {
            size_kb: size_kb(s),
            kind: persistent.or_else(|| s.byte(0x12).and_then(kind)).map(str::to_owned),
            rated_mts: s.speed(0x15, 0x54),
            configured_mts: s.speed(0x20, 0x58),
            persistent: persistent.is_some() || s.byte(0x12) == Some(LOGICAL_NON_VOLATILE),
        }
    });
    Slot {
        locator: s.string(0x10),
        bank: s.string(0x11),
        socket_by_locator: None,
        channel_by_locator: None,
        module,
    }
}

fn size_kb(s: &Structure) -> Option<u64> {
    match s.word(0x0C)? {
        0xFFFF => None,
        0x7FFF => s.double(0x1C).map(|mib| u64::from(mib & 0x7FFF_FFFF) * 1024).filter(|&kb| kb > 0),
        kib if kib & 0x8000 != 0 => Some(u64::from(kib & 0x7FFF)),
        mib => Some(u64::from(mib) * 1024),
    }
}

const LOGICAL_NON_VOLATILE: u8 = 0x1F;

/// 7.18.2, those that machines with nodes have or had.
fn kind(byte: u8) -> Option<&'static str> {
    Some(match byte {
        0x07 => "RAM",
        0x0F => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x14 => "DDR2 FB-DIMM",
        0x18 => "DDR3",
        0x1A => "DDR4",
        0x1B => "LPDDR",
        0x1C => "LPDDR2",
        0x1D => "LPDDR3",
        0x1E => "LPDDR4",
        LOGICAL_NON_VOLATILE => "persistent",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    })
}

/// 7.18.6, memory technology.
fn persistent(byte: u8) -> Option<&'static str> {
    Some(match byte {
        4 => "NVDIMM-N",
        5 => "NVDIMM-F",
        6 => "NVDIMM-P",
        7 => "Optane",
        _ => return None,
    })
}
