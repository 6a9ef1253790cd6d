//! Which events sample memory, from trees as the kernels of these processors have them. No machine that nearfar is built on
//! has such a unit: the trees are put together from the kernel's sources (arch/x86/events), not captured.

use nearfar_host::discover::pmu::{MemoryEvents, MemoryWish, Pmu, memory_blocks};
use nearfar_perf::Vendor;
use std::path::Path;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

const CPU: &str = "sys/bus/event_source/devices/cpu";
const IBS: &str = "sys/bus/event_source/devices/ibs_op";

fn intel(more: &[(&str, &str)]) -> tempfile::TempDir {
    let mut files: Vec<(String, String)> = [
        ("type", "4\n"),
        ("format/event", "config:0-7\n"),
        ("format/umask", "config:8-15\n"),
        ("format/ldlat", "config1:0-15\n"),
        ("format/inv", "config:23\n"),
        ("caps/max_precise", "3\n"),
        ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("events/mem-stores", "event=0xd0,umask=0x82\n"),
        ("events/mem-loads.scale", "1\n"),
    ]
    .map(|(path, text)| (format!("{CPU}/{path}"), text.to_owned()))
    .into();
    files.extend(more.iter().map(|(path, text)| (format!("{CPU}/{path}"), (*text).to_owned())));
    tree(&files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect::<Vec<_>>())
}

fn amd(more: &[(&str, &str)]) -> tempfile::TempDir {
    let mut files = vec![(format!("{IBS}/type"), "9\n"), (format!("{IBS}/format/cnt_ctl"), "config:19\n")];
    files.extend(more.iter().map(|(path, text)| (format!("{IBS}/{path}"), *text)));
    tree(&files.iter().map(|(p, t)| (p.as_str(), *t)).collect::<Vec<_>>())
}

fn find(root: &Path, least_cycles: u32, misses_only: bool) -> MemoryEvents {
    MemoryEvents::find(root, MemoryWish { least_cycles, misses_only }).unwrap()
}

#[test]
fn intel_loads_have_a_threshold_and_stores_none() {
    let root = intel(&[]);
    let found = find(root.path(), 30, false);
    assert_eq!((found.vendor, found.what), (Vendor::Intel, "PEBS"));
    let [loads, stores] = &found.events[..] else { panic!("{:?}", found.events) };
    assert_eq!((loads.unit, loads.config.words), (4, [0x1cd, 30, 0, 0]));
    assert_eq!((stores.unit, stores.config.words), (4, [0x82d0, 0, 0, 0]));
    assert_eq!((&loads.leader, loads.precise, loads.excludes_kernel), (&None, 2, true));
    // The event's own threshold is the least one.
    assert_eq!(find(root.path(), 0, false).events[0].config.words[1], 3);
}

#[test]
fn sapphire_rapids_wants_the_auxiliary_event_first() {
    let root = intel(&[("events/mem-loads-aux", "event=0x03,umask=0x82\n")]);
    let found = find(root.path(), 30, false);
    assert_eq!(found.events[0].leader.unwrap().words, [0x8203, 0, 0, 0]);
    assert_eq!(found.events[1].leader, None);
}

#[test]
fn amd_before_the_filter_cannot_leave_the_kernel_out() {
    let found = find(amd(&[]).path(), 0, false);
    assert_eq!((found.vendor, found.what, found.events.len()), (Vendor::Amd, "IBS", 1));
    assert_eq!(found.events[0].config.words, [1 << 19, 0, 0, 0]);
    assert!(!found.events[0].excludes_kernel);
}

#[test]
fn amd_with_filter_threshold_and_misses() {
    let newest = [
        ("format/swfilt", "config2:0\n"),
        ("format/l3missonly", "config:16\n"),
        ("format/ldlat", "config1:0-11\n"),
        ("caps/zen4_ibs_extensions", "1\n"),
        ("caps/ldlat", "1\n"),
    ];
    let root = amd(&newest);
    let found = find(root.path(), 0, false);
    assert_eq!((found.events[0].config.words, found.events[0].excludes_kernel), ([1 << 19, 0, 1, 0], true));
    let found = find(root.path(), 30, true);
    // The least threshold that the processor has is 128.
    assert_eq!(found.events[0].config.words, [1 << 19 | 1 << 16, 128, 1, 0]);
    assert_eq!(find(root.path(), 9999, false).events[0].config.words[1], 2048);
    // A kernel that knows the field on a processor that cannot.
    let root = amd(&[("format/l3missonly", "config:16\n"), ("caps/zen4_ibs_extensions", "0\n")]);
    let wish = MemoryWish { least_cycles: 0, misses_only: true };
    assert!(MemoryEvents::find(root.path(), wish).unwrap_err().why.contains("misses only"));
    let wish = MemoryWish { least_cycles: 200, misses_only: false };
    assert!(MemoryEvents::find(root.path(), wish).unwrap_err().why.contains("threshold"));
}

#[test]
fn what_is_missing_is_said_with_what_helps() {
    let why =
        |files: &[(&str, &str)]| MemoryEvents::find(tree(files).path(), MemoryWish::default()).unwrap_err();
    assert!(
        why(&[("sys/bus/event_source/devices/software/type", "1\n")]).why.contains("no hardware counters")
    );
    let old = why(&[(&format!("{CPU}/type"), "4\n")]);
    assert!(old.why.contains("mem-loads"), "{}", old.why);
    let hidden = why(&[(&format!("{CPU}/type"), "4\n"), ("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n")]);
    assert!(hidden.why.contains("ibs_op"), "{}", hidden.why);
    let arm = why(&[("sys/bus/event_source/devices/arm_spe_0/type", "8\n")]);
    assert!(arm.why.contains("arm_spe_0") && arm.unlock.is_none());
}

#[test]
fn fields_in_pieces_are_filled_from_their_low_bits_and_odd_ones_are_refused() {
    let files = [
        (format!("{CPU}/type"), "4\n"),
        (format!("{CPU}/format/event"), "config:0-7,32-35\n"),
        (format!("{CPU}/format/filter"), "config1:63\n"),
        (format!("{CPU}/format/odd"), "config9:0-7\n"),
        (format!("{CPU}/format/long"), "config:0-99\n"),
    ];
    let root = tree(&files.iter().map(|(p, t)| (p.as_str(), *t)).collect::<Vec<_>>());
    let cpu = Pmu::read(root.path(), "cpu").unwrap();
    assert_eq!(cpu.encode("event=0x5a3,filter").unwrap().words, [0x5_0000_00a3, 1 << 63, 0, 0]);
    assert_eq!(cpu.encode("config1=0x40432").unwrap().words, [0, 0x40432, 0, 0]);
    for (terms, why) in [
        ("event=0x1000", "does not fit"),
        ("odd=1", "no field"),
        ("long=1", "no field"),
        ("event=x", "no number"),
    ] {
        assert!(cpu.encode(terms).unwrap_err().contains(why), "{terms}");
    }
}

#[test]
fn physical_addresses_are_of_the_node_that_lists_their_block() {
    let root = tree(&[
        ("sys/devices/system/memory/block_size_bytes", "8000000\n"),
        ("sys/devices/system/node/node0/memory0/state", "online\n"),
        ("sys/devices/system/node/node1/memory65/state", "online\n"),
        ("sys/devices/system/node/node1/memory_side_cache/x", "\n"),
    ]);
    let blocks = memory_blocks(root.path());
    assert_eq!(blocks.block_bytes, 128 << 20);
    assert_eq!(blocks.node_of(4096), Some(0));
    assert_eq!(blocks.node_of((65 * 128 + 5) << 20), Some(1));
    assert_eq!(
        (blocks.node_of(0), blocks.node_of(3 << 40), blocks.node_of((64 * 128) << 20)),
        (None, None, None)
    );
}
