//! Which hardware prefetchers are on, from the model-specific register that switches them.
//!
//! The register is read only where its meaning is published for the very processor: elsewhere
//! the same number may be another register.

use super::tree::Tree;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::topology::{PrefetcherState, Prefetchers};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;

/// A register, and the prefetcher that each of its bits switches off.
struct Register {
    number: u32,
    off_bits: &'static [(u32, &'static str)],
}

/// MSR_MISC_FEATURE_CONTROL: Intel SDM volume 4, tables 2-15 and following, and "Disclosure of
/// Hardware Prefetcher Control on Some Intel Processors" (2014).
const INTEL: Register = Register {
    number: 0x1A4,
    off_bits: &[
        (0, "L2 streamer"),
        (1, "L2 adjacent line"),
        (2, "L1 next line (DCU)"),
        (3, "L1 stride (DCU IP)"),
    ],
};

/// MSRC000_0108, Prefetch Control: Processor Programming References for AMD family 19h model 11h
/// (document 55901) and family 1Ah (57238). Bit 4 is reserved; from 6 on are levels, not switches.
const AMD: Register = Register {
    number: 0xC000_0108,
    off_bits: &[(0, "L1 stream"), (1, "L1 stride"), (2, "L1 region"), (3, "L2 stream"), (5, "L2 up/down")],
};

/// Family 6 models whose cores are all of the Nehalem line, by the SDM's table 2-1 (volume 4). Not
/// among them: Atom and Xeon Phi, where the bits mean something else, and hybrids, which have Atom cores.
const INTEL_MODELS: &[u32] = &[
    0x1A, 0x1E, 0x1F, 0x2E, 0x25, 0x2C, 0x2F, // Nehalem, Westmere
    0x2A, 0x2D, 0x3A, 0x3E, // Sandy Bridge, Ivy Bridge
    0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56, // Haswell, Broadwell
    0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6, 0x66, // Skylake to Cannon Lake
    0x7D, 0x7E, 0x6A, 0x6C, 0x8C, 0x8D, 0xA7, // Ice Lake, Tiger Lake, Rocket Lake
    0x8F, 0xCF, 0xAD, 0xAE, // Sapphire, Emerald and Granite Rapids
];

/// The state of all online cpus; else why it is not known.
pub(super) fn read(
    tree: &Tree,
    online: &CpuList,
    virtual_machine: Option<bool>,
) -> Result<Prefetchers, String> {
    let register = register(tree)?;
    if virtual_machine == Some(true) {
        return Err("in a virtual machine the register is the hypervisor's, not the processor's".to_owned());
    }
    let mut states: Vec<PrefetcherState> = Vec::new();
    let mut unread: Vec<(u32, String)> = Vec::new();
    for cpu in online.iter() {
        let name = format!("dev/cpu/{cpu}/msr");
        let mut bytes = [0; 8];
        // Live it is a device; in a captured tree it can only be a copy.
        let file = match tree.path(&name) {
            Some(path) if tree.is_live() => File::open(&path),
            Some(path) => crate::input::open(&path).map(|(file, _)| file),
            None => Err(ErrorKind::NotFound.into()),
        };
        match file.and_then(|f| f.read_exact_at(&mut bytes, u64::from(register.number))) {
            Ok(()) => add(&mut states, cpu, register, u64::from_le_bytes(bytes)),
            Err(error) => unread.push((cpu, why(tree, &tree.shown(&name), &error))),
        }
    }
    match (states.is_empty(), unread.first()) {
        (true, Some((_, why))) => Err(why.clone()),
        (true, None) => Err("no cpu is online".to_owned()),
        (false, _) => Ok(Prefetchers {
            register: format!("MSR {:#X}", register.number).replace("0X", "0x"),
            states,
            unread: unread.iter().map(|(cpu, _)| *cpu).collect(),
        }),
    }
}

fn add(states: &mut Vec<PrefetcherState>, cpu: u32, register: &Register, value: u64) {
    let names = |set: bool| {
        let of = register.off_bits.iter().filter(|(bit, _)| (value >> bit & 1 == 1) == set);
        of.map(|(_, name)| (*name).to_owned()).collect::<Vec<_>>()
    };
    let (off, on) = (names(true), names(false));
    match states.iter_mut().find(|s| s.off == off) {
        Some(state) => state.cpus = state.cpus.iter().chain([cpu]).collect(),
        None => states.push(PrefetcherState { cpus: (cpu..=cpu).into(), on, off }),
    }
}

fn why(tree: &Tree, path: &str, error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if tree.is_live() => {
            format!("there is no {path}; type: sudo modprobe msr, then sudo nearfar topo")
        }
        ErrorKind::NotFound => format!("the captured tree has no {path}"),
        ErrorKind::PermissionDenied => {
            format!(
                "only root may read {path}; type: sudo nearfar topo (a kernel in lockdown refuses root, too)"
            )
        }
        _ => format!("{path}: {error}; the processor refuses to read its register"),
    }
}

/// By the first cpu: machines of several processors have the same in each.
fn register(tree: &Tree) -> Result<&'static Register, String> {
    let info = tree.text("proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        info.lines().find_map(|line| {
            let (k, v) = line.split_once(':')?;
            (k.trim() == key).then(|| v.trim().to_owned())
        })
    };
    let number = |key: &str| field(key)?.parse::<u32>().ok();
    let vendor = field("vendor_id").ok_or("this processor names no register that tells")?;
    let (family, model) = (number("cpu family"), number("model"));
    match (vendor.as_str(), family, model) {
        ("GenuineIntel", Some(6), Some(model)) if INTEL_MODELS.contains(&model) => Ok(&INTEL),
        // Zen 4 and Zen 5 by the ranges of Linux 6.12, arch/x86/kernel/cpu/amd.c, bsp_init_amd().
        ("AuthenticAMD", Some(0x19), Some(0x10..=0x1F | 0x60..=0xAF)) => Ok(&AMD),
        ("AuthenticAMD", Some(0x1A), Some(0x00..=0x2F | 0x40..=0x4F | 0x60..=0x7F)) => Ok(&AMD),
        (_, Some(family), Some(model)) => Err(format!(
            "no documented register that nearfar knows tells it for this processor ({vendor} family {family:#x} \
             model {model:#x})"
        )),
        _ => Err("proc/cpuinfo does not name family and model of the processor".to_owned()),
    }
}
