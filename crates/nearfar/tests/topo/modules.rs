//! Memory modules on SMBIOS tables made by hand, after DMTF DSP0134.

use super::{TWO, flat, machine, read, warned};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Header, fields from offset 4, strings.
fn structure(kind: u8, handle: u16, fields: &[u8], strings: &[&str]) -> Vec<u8> {
    let mut bytes = vec![kind, 4 + fields.len() as u8];
    bytes.extend(handle.to_le_bytes());
    bytes.extend(fields);
    for string in strings {
        bytes.extend(string.bytes());
        bytes.push(0);
    }
    // No strings are two zeros, too.
    bytes.resize(bytes.len() + if strings.is_empty() { 2 } else { 1 }, 0);
    bytes
}

fn array(handle: u16, used_for: u8) -> Vec<u8> {
    structure(16, handle, &[3, used_for, 3, 0, 0, 0, 0, 0xFE, 0xFF, 2, 0], &[])
}

/// GiB; a DDR5 module made for 5600 MT/s and run at 4800.
fn slot(array: u16, gib: u32, locator: &str, bank: &str) -> Vec<u8> {
    // Up to the memory technology at 28h.
    let mut fields = vec![0; 0x29 - 4];
    let mut set = |offset: usize, bytes: &[u8]| fields[offset - 4..][..bytes.len()].copy_from_slice(bytes);
    set(0x04, &array.to_le_bytes());
    // 32 GiB and more do not fit into the first field.
    let mib = gib * 1024;
    set(0x0C, &(if mib < 0x7FFF { mib as u16 } else { 0x7FFF }).to_le_bytes());
    set(0x1C, &mib.to_le_bytes());
    set(0x10, &[1, 2]);
    set(0x12, &[0x22]);
    set(0x15, &5600u16.to_le_bytes());
    set(0x20, &4800u16.to_le_bytes());
    set(0x28, &[3]);
    structure(17, 0x1100, &fields, &[locator, bank])
}

/// Two sockets of two channels of two slots, with these sizes in GiB; 0 is an empty slot.
fn board(sizes: [[u32; 4]; 2]) -> Vec<u8> {
    let mut table = array(0x1000, 3);
    for (p, sizes) in sizes.iter().enumerate() {
        for (place, gib) in ["A1", "A2", "B1", "B2"].iter().zip(sizes) {
            table.extend(slot(0x1000, *gib, &format!("P{p}-DIMM{place}"), "Not Specified"));
        }
    }
    table.extend(structure(127, 0x7F00, &[], &[]));
    table
}

fn with(table: &[u8], more: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = machine(TWO, more);
    put(dir.path(), table);
    dir
}

fn put(root: &Path, table: &[u8]) {
    let folder = root.join("sys/firmware/dmi/tables");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("DMI"), table).unwrap();
}

fn why(t: &Value) -> &str {
    assert_eq!(t["memory_modules"]["state"], "unknown", "{}", t["memory_modules"]);
    t["memory_modules"]["why"].as_str().unwrap()
}

#[test]
fn modules_are_told_with_size_speed_and_the_place_by_their_locator() {
    let mut table = array(0x2000, 4);
    table.extend(slot(0x2000, 1, "VIDEO", "BANK 0"));
    table.extend(board([[64, 0, 64, 0]; 2]));
    let dir = with(&table, &[]);
    let t = read(dir.path());
    assert_eq!(t["memory_modules"]["state"], "known");
    let slots = t["memory_modules"]["slots"].as_array().unwrap();
    // The video memory is not a slot.
    assert_eq!(slots.len(), 8);
    assert_eq!(
        slots[2],
        json!({
            "locator": "P0-DIMMB1", "bank": null, "socket_by_locator": "P0", "channel_by_locator": "B",
            "module": {"size_kb": 64 << 20, "kind": "DDR5", "rated_mts": 5600, "configured_mts": 4800,
                       "persistent": false},
        })
    );
    assert_eq!(slots[3]["module"], Value::Null);
    assert_eq!(t["warnings"], json!([]));
    let text = flat(dir.path());
    assert!(text.contains("4 of 8 slots: 4 × 64.0 GiB DDR5 at 4800 MT/s (made for 5600)"), "{text}");
    assert!(text.contains("2 of 2 channels have DRAM"), "{text}");
}

#[test]
fn unequal_sockets_mixed_sizes_and_empty_channels_are_warned_of() {
    let t = |sizes| read(with(&board(sizes), &[]).path());
    let unequal = t([[32, 0, 32, 0], [32, 32, 32, 32]]);
    assert!(
        warned(&unequal, "locators: P0 has 2 with 64 GiB, P1 has 4 with 128 GiB"),
        "{}",
        unequal["warnings"]
    );
    assert_eq!(unequal["warnings"].as_array().unwrap().len(), 1);
    let mixed = t([[16, 0, 32, 0]; 2]);
    assert!(warned(&mixed, "memory modules of 16 GiB and 32 GiB are mixed"), "{}", mixed["warnings"]);
    let empty = t([[32, 0, 0, 0]; 2]);
    assert!(warned(&empty, "1 of the 2 memory channels of P1 have no module (B)"), "{}", empty["warnings"]);
    let uneven = t([[32, 32, 32, 0]; 2]);
    assert!(
        warned(&uneven, "of P0 have different numbers of modules (A: 2, B: 1)"),
        "{}",
        uneven["warnings"]
    );
}

#[test]
fn a_socket_without_processor_needs_no_modules() {
    let package = |cpu| format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    let packages = [package(0), package(1), package(2), package(3)];
    let files: Vec<(&str, &str)> = packages.iter().map(|p| (p.as_str(), "0")).collect();
    let t = read(with(&board([[32, 0, 32, 0], [0, 0, 0, 0]]), &files).path());
    assert_eq!(t["warnings"], json!([]));
}

#[test]
fn a_virtual_machines_table_leads_to_no_conclusion() {
    let table = board([[16, 0, 0, 0], [32, 0, 0, 0]]);
    let dir = with(&table, &[("proc/cpuinfo", "flags\t\t: fpu hypervisor")]);
    assert_eq!(read(dir.path())["warnings"], json!([]));
    let text = flat(dir.path());
    assert!(text.contains("the hypervisor made this table up"), "{text}");
    // Where processors do not tell, the firmware may: type 0, offset 13h, bit 4.
    let mut fields = [0; 0x14 - 4];
    fields[0x13 - 4] = 1 << 4;
    let told = [structure(0, 0, &fields, &["QEMU"]), table].concat();
    let t = read(with(&told, &[]).path());
    assert_eq!(t["memory_modules"]["virtual_machine"], true);
    assert_eq!(t["warnings"], json!([]));
}

#[test]
fn an_unknown_size_is_not_an_empty_slot_and_kib_are_understood() {
    let mut table = slot(0x1000, 1, "DIMM 0", "BANK 0");
    table[0x0C..0x0E].copy_from_slice(&0xFFFFu16.to_le_bytes());
    let mut small = slot(0x1000, 1, "DIMM 1", "BANK 1");
    small[0x0C..0x0E].copy_from_slice(&(0x8000u16 | 512).to_le_bytes());
    small[0x20..0x22].copy_from_slice(&[0, 0]);
    table.extend(small);
    let t = read(with(&table, &[]).path());
    let slots = &t["memory_modules"]["slots"];
    assert_eq!(slots[0]["module"]["size_kb"], Value::Null);
    assert_eq!(slots[0]["module"]["kind"], "DDR5");
    assert_eq!(slots[1]["module"]["size_kb"], 512);
    assert_eq!(slots[1]["module"]["configured_mts"], Value::Null);
}

#[test]
fn without_a_table_or_with_a_damaged_one_the_reason_is_told() {
    let dir = machine(TWO, &[]);
    assert!(why(&read(dir.path())).contains("the captured machine has no sys/firmware/dmi/tables/DMI"));
    put(dir.path(), &structure(127, 0, &[], &[]));
    assert!(why(&read(dir.path())).contains("lists no memory slots"));
    let table = board([[32, 0, 32, 0]; 2]);
    // Wherever it is cut, it is survived.
    for length in (1..table.len()).step_by(29) {
        put(dir.path(), &table[..length]);
        read(dir.path());
    }
    put(dir.path(), &table[..100]);
    assert!(
        why(&read(dir.path())).contains("is damaged: structure 2 of type 17 is cut off"),
        "{}",
        read(dir.path())
    );
}

#[test]
fn a_table_that_only_root_may_read_says_what_to_type() {
    use std::os::unix::fs::PermissionsExt;
    let dir = with(&board([[32, 0, 32, 0]; 2]), &[]);
    let file = dir.path().join("sys/firmware/dmi/tables/DMI");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&file).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    assert!(why(&read(dir.path())).contains("type: sudo nearfar topo"));
}
