//! Memory modules as the firmware lists them (SMBIOS), and what their places tell.

use super::Topology;
use nearfar_figures::sizes::capacity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The slots of the mainboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryModules {
    /// Slots for system memory, in the table's order.
    pub slots: Vec<Slot>,
    /// Whether the table says of itself that it is a virtual machine's.
    pub virtual_machine: Option<bool>,
}

/// A place for a memory module. Where it is, only the board's makers know: their words are kept,
/// and what is read out of them is called so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// The board's name for the slot: `P1-DIMMA1`.
    pub locator: Option<String>,
    /// The board's name for the bank: `P0_Node0_Channel0_Dimm0`.
    pub bank: Option<String>,
    /// The socket that these names mention, in their words: `P1`. It is not a package of the kernel
    /// and no node.
    pub socket_by_locator: Option<String>,
    /// The channel that they mention, of that socket.
    pub channel_by_locator: Option<String>,
    /// What is in it; null if it is empty.
    pub module: Option<Module>,
}

/// A memory module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Module {
    /// Capacity in units of 1024 bytes.
    pub size_kb: Option<u64>,
    /// `DDR5`; `Optane` and `NVDIMM-N` for persistent memory.
    pub kind: Option<String>,
    /// Speed that it is made for, 10⁶ transfers per second.
    pub rated_mts: Option<u32>,
    /// Speed that it is run at, 10⁶ transfers per second.
    pub configured_mts: Option<u32>,
    /// Whether it keeps its contents without power.
    pub persistent: bool,
}

impl MemoryModules {
    /// The slots of each socket, by locator; one group without a name unless every slot tells.
    pub fn by_socket(&self) -> BTreeMap<Option<&str>, Vec<&Slot>> {
        let all = self.slots.iter().all(|s| s.socket_by_locator.is_some());
        let mut sockets: BTreeMap<Option<&str>, Vec<&Slot>> = BTreeMap::new();
        for slot in &self.slots {
            let socket = slot.socket_by_locator.as_deref().filter(|_| all);
            sockets.entry(socket).or_default().push(slot);
        }
        sockets
    }
}

/// How many DRAM modules each channel has, by locator; `None` unless every slot tells.
pub fn channels<'a>(slots: &[&'a Slot]) -> Option<BTreeMap<&'a str, usize>> {
    let mut channels = BTreeMap::new();
    for slot in slots {
        *channels.entry(slot.channel_by_locator.as_deref()?).or_default() +=
            usize::from(dram(slot).is_some());
    }
    Some(channels)
}

fn dram(slot: &Slot) -> Option<&Module> {
    slot.module.as_ref().filter(|m| !m.persistent)
}

impl Topology {
    /// Whether the list of modules is a hypervisor's invention.
    pub fn modules_are_invented(&self) -> bool {
        let told = self.memory_modules.known().and_then(|m| m.virtual_machine);
        self.virtual_machine == Some(true) || told == Some(true)
    }
}

/// What follows from the modules; nothing in a virtual machine.
pub(super) fn judge(t: &Topology) -> Vec<String> {
    let Some(modules) = t.memory_modules.known().filter(|_| !t.modules_are_invented()) else {
        return Vec::new();
    };
    let sockets = sockets(t, modules);
    let channels = sockets.iter().flat_map(|(name, slots)| uneven(*name, slots));
    [unequal(&sockets), mixed(modules)].into_iter().flatten().chain(channels).collect()
}

/// Without a processor in it a socket has no use for modules.
fn sockets<'a>(t: &Topology, modules: &'a MemoryModules) -> BTreeMap<Option<&'a str>, Vec<&'a Slot>> {
    let mut sockets = modules.by_socket();
    if t.packages.as_ref().is_some_and(|p| p.len() < sockets.len()) {
        sockets.retain(|_, slots| slots.iter().any(|s| s.module.is_some()));
    }
    sockets
}

fn unequal(sockets: &BTreeMap<Option<&str>, Vec<&Slot>>) -> Option<String> {
    let has = |slots: &Vec<&Slot>| {
        let modules: Vec<&Module> = slots.iter().filter_map(|s| dram(s)).collect();
        (modules.len(), modules.iter().map(|m| m.size_kb).sum::<Option<u64>>())
    };
    let all: Vec<(&str, (usize, Option<u64>))> =
        sockets.iter().filter_map(|(name, slots)| Some(((*name)?, has(slots)))).collect();
    all.iter().any(|(_, has)| *has != all[0].1).then(|| {
        let each = all.iter().map(|(name, (count, kb))| {
            let size = kb.map_or("of unknown size".to_owned(), |kb| format!("with {}", capacity(kb * 1024)));
            format!("{name} has {count} {size}")
        });
        format!(
            "sockets have different memory modules (going by the locators: {}): they differ in bandwidth, or in \
             how much fits near",
            each.collect::<Vec<_>>().join(", ")
        )
    })
}

fn mixed(modules: &MemoryModules) -> Option<String> {
    let mut sizes: Vec<u64> = modules.slots.iter().filter_map(dram).filter_map(|m| m.size_kb).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(|kb| capacity(kb * 1024)).collect();
    (sizes.len() > 1).then(|| {
        format!(
            "memory modules of {} are mixed: where channels have different sizes, part of the memory is spread \
             over fewer of them and slower",
            sizes.join(" and ")
        )
    })
}

/// Channels without modules, or with more than others.
fn uneven(socket: Option<&str>, slots: &[&Slot]) -> Option<String> {
    let channels = channels(slots)?;
    let of = socket.map_or(String::new(), |s| format!(" of {s}"));
    let empty: Vec<&str> = channels.iter().filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
    if empty.len() == channels.len() {
        return None;
    }
    if !empty.is_empty() {
        return Some(format!(
            "going by the locators, {} of the {} memory channels{of} have no module ({}): their bandwidth is \
             missing",
            empty.len(),
            channels.len(),
            empty.join(", ")
        ));
    }
    let first = channels.values().next();
    channels.values().any(|n| Some(n) != first).then(|| {
        let each: Vec<String> = channels.iter().map(|(name, n)| format!("{name}: {n}")).collect();
        format!(
            "going by the locators, the memory channels{of} have different numbers of modules ({}): part of the \
             memory is spread over fewer of them and slower",
            each.join(", ")
        )
    })
}
