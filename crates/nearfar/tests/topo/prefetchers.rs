//! Prefetchers, from registers that are files made by hand.

use super::{TWO, flat, machine, read, warned};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const XEON: &str = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu";
const ATOM: &str = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 92\nflags\t\t: fpu";
const ZEN3: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nflags\t\t: fpu";
const ZEN4: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nflags\t\t: fpu";

fn with(cpuinfo: &str, register: u64, values: &[u64]) -> tempfile::TempDir {
    let dir = machine(TWO, &[("proc/cpuinfo", cpuinfo)]);
    for (cpu, value) in values.iter().enumerate() {
        set(dir.path(), cpu, register, *value);
    }
    dir
}

fn set(root: &Path, cpu: usize, register: u64, value: u64) {
    let folder = root.join(format!("dev/cpu/{cpu}"));
    fs::create_dir_all(&folder).unwrap();
    // Almost all of it is a hole.
    File::create(folder.join("msr")).unwrap().write_all_at(&value.to_le_bytes(), register).unwrap();
}

fn why(t: &Value) -> &str {
    assert_eq!(t["prefetchers"]["state"], "unknown", "{}", t["prefetchers"]);
    t["prefetchers"]["why"].as_str().unwrap()
}

#[test]
fn all_prefetchers_on_is_no_warning() {
    let dir = with(XEON, 0x1A4, &[0; 4]);
    let t = read(dir.path());
    let on = ["L2 streamer", "L2 adjacent line", "L1 next line (DCU)", "L1 stride (DCU IP)"];
    assert_eq!(
        t["prefetchers"],
        json!({
            "state": "known", "register": "MSR 0x1A4", "unread": "",
            "states": [{"cpus": "0-3", "on": on, "off": []}],
        })
    );
    assert_eq!(t["warnings"], json!([]));
    assert!(flat(dir.path()).contains("prefetch all on (L2 streamer, L2 adjacent line,"));
}

#[test]
fn a_set_bit_is_a_prefetcher_that_is_off_and_is_warned_of() {
    let t = read(with(XEON, 0x1A4, &[0b0101; 4]).path());
    assert_eq!(t["prefetchers"]["states"][0]["off"], json!(["L2 streamer", "L1 next line (DCU)"]));
    assert!(warned(&t, "switched off: L2 streamer, L1 next line (DCU); predictions assume"), "{t}");
    // AMD's bit 4 is none, and the bits of its levels are set after a reset.
    let t = read(with(ZEN4, 0xC000_0108, &[0x3D0; 4]).path());
    assert_eq!(t["prefetchers"]["states"][0]["off"], json!([]));
    assert_eq!(t["prefetchers"]["register"], "MSR 0xC0000108");
    assert_eq!(t["warnings"], json!([]));
    let t = read(with(ZEN4, 0xC000_0108, &[0b10_1110; 4]).path());
    let off = ["L1 stride", "L1 region", "L2 stream", "L2 up/down"];
    assert_eq!(t["prefetchers"]["states"][0]["off"], json!(off));
    assert_eq!(t["prefetchers"]["states"][0]["on"], json!(["L1 stream"]));
}

#[test]
fn cpus_that_differ_are_warned_of_and_those_that_cannot_be_read_are_told() {
    let dir = with(XEON, 0x1A4, &[0, 8, 0]);
    let t = read(dir.path());
    assert!(
        warned(&t, "differ between cpus (cpus 0,2: all on; cpus 1: L1 stride (DCU IP) off)"),
        "{}",
        t["warnings"]
    );
    assert_eq!(t["prefetchers"]["unread"], "3");
    let text = flat(dir.path());
    assert!(text.contains("unknown of cpus 3"), "{text}");
}

#[test]
fn a_register_is_read_only_where_it_is_documented() {
    for (cpuinfo, told) in [
        (ATOM, "GenuineIntel family 0x6 model 0x5c"),
        (ZEN3, "AuthenticAMD family 0x19 model 0x1"),
        ("CPU implementer\t: 0x41", "names no register"),
    ] {
        let dir = with(cpuinfo, 0x1A4, &[0xF; 4]);
        assert!(why(&read(dir.path())).contains(told), "{}", read(dir.path())["prefetchers"]);
    }
    // A hypervisor answers what it likes.
    let t = read(with(&format!("{XEON} hypervisor"), 0x1A4, &[0xF; 4]).path());
    assert!(why(&t).contains("the hypervisor's"), "{t}");
    assert_eq!(t["warnings"], json!([]));
}

#[test]
fn without_registers_or_permission_the_reason_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let dir = with(XEON, 0x1A4, &[]);
    assert!(why(&read(dir.path())).contains("the captured tree has no"));
    // The register's place is beyond the end: what a processor's refusal also looks like.
    set(dir.path(), 0, 0, 0);
    assert!(why(&read(dir.path())).contains("refuses"), "{}", read(dir.path())["prefetchers"]);
    let file = dir.path().join("dev/cpu/0/msr");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&file).is_ok() {
        println!("the message for other users was not tested: this user may read everything");
        return;
    }
    assert!(why(&read(dir.path())).contains("type: sudo nearfar topo"));
}
