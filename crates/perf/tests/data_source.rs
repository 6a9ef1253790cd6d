//! What PERF_MEM_DATA_SRC means: a row for every encoding, both traps of AMD, and the tables of old and new Intel kernels.

use nearfar_perf::data_source::{
    DataSource, HOPS_SAME_NODE, NOTHING_KNOWN, SNOOP_HITM, bits_of, lvl, num, op,
};
use nearfar_perf::{Vendor, served};
use nearfar_recording::{Access, Served};

fn load(lvl_num: u64, remote: u64, hops: u64) -> u64 {
    DataSource { op: op::LOAD, lvl_num, remote, hops, snoop: 1, lock: 1, dtlb: 1, ..DataSource::default() }
        .bits()
}

#[test]
fn every_field_is_where_the_header_says_and_is_written_back() {
    // Bit positions from include/uapi/linux/perf_event.h, as shifts of one.
    let each = [
        (DataSource { op: 0x1f, ..Default::default() }, 0x1f),
        (DataSource { lvl: 0x3fff, ..Default::default() }, 0x3fff << 5),
        (DataSource { snoop: 0x1f, ..Default::default() }, 0x1f << 19),
        (DataSource { lock: 3, ..Default::default() }, 3 << 24),
        (DataSource { dtlb: 0x7f, ..Default::default() }, 0x7f << 26),
        (DataSource { lvl_num: 0xf, ..Default::default() }, 0xf << 33),
        (DataSource { remote: 1, ..Default::default() }, 1 << 37),
        (DataSource { snoopx: 3, ..Default::default() }, 3 << 38),
        (DataSource { blk: 7, ..Default::default() }, 7 << 40),
        (DataSource { hops: 7, ..Default::default() }, 7 << 43),
        (DataSource { region: 0x1f, ..Default::default() }, 0x1f << 46),
    ];
    for (fields, bits) in each {
        assert_eq!(fields.bits(), bits, "{fields:?}");
        assert_eq!(DataSource::from_bits(bits), fields);
    }
    assert!(!DataSource::from_bits(NOTHING_KNOWN).is_access() && !DataSource::from_bits(0).is_access());
    // What perf 6.1 prints of a software event's sample: 0x5080021 is PERF_MEM_NA.
    assert_eq!(NOTHING_KNOWN, 0x5080021);
}

#[test]
fn every_level_is_what_it_is_at_every_distance() {
    use Served::*;
    // number, without remote, remote without hops, then remote with 1 (same node), 2, 3 and 4 hops
    let table = [
        (num::L1, [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache]),
        (num::L2, [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache]),
        (num::L3, [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache]),
        (num::L4, [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache]),
        (num::L2_MHB, [InFlight; 6]),
        (num::MSC, [LocalMemory, RemoteMemory, LocalMemory, RemoteMemory, RemoteMemory, RemoteMemory]),
        (num::L0, [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache]),
        (num::UNC, [Unknown; 6]),
        (num::CXL, [Cxl; 6]),
        (num::IO, [Unknown; 6]),
        (
            num::ANY_CACHE,
            [Cache, OtherNodesCache, OtherCore, OtherNodesCache, OtherNodesCache, OtherNodesCache],
        ),
        (num::LFB, [InFlight; 6]),
        (num::RAM, [LocalMemory, RemoteMemory, LocalMemory, RemoteMemory, RemoteMemory, RemoteMemory]),
        (num::PMEM, [LocalMemory, RemoteMemory, LocalMemory, RemoteMemory, RemoteMemory, RemoteMemory]),
        (num::NA, [Unknown; 6]),
        (0, [Unknown; 6]),
    ];
    for (number, expected) in table {
        let cases = [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4)];
        for ((remote, hops), expected) in cases.into_iter().zip(expected) {
            for vendor in [Vendor::Intel, Vendor::Amd, Vendor::Other] {
                let got = served(load(number, remote, hops), vendor);
                assert_eq!(got, expected, "level {number:#x}, remote {remote}, hops {hops}, {vendor:?}");
            }
        }
    }
}

/// Without the hops a neighbouring core complex looks like another node.
#[test]
fn amd_trap_1_a_cache_of_the_same_node_is_not_remote() {
    // perf_ibs_get_data_src: near cache, far cache, far memory; REM_CCE1 is set for near caches, too.
    let near = DataSource {
        lvl: lvl::HIT | lvl::REM_CCE1,
        ..DataSource::from_bits(load(num::ANY_CACHE, 1, HOPS_SAME_NODE))
    };
    let far =
        DataSource { lvl: lvl::HIT | lvl::REM_CCE1, ..DataSource::from_bits(load(num::ANY_CACHE, 1, 2)) };
    assert_eq!(served(near.bits(), Vendor::Amd), Served::OtherCore);
    assert_eq!(served(far.bits(), Vendor::Amd), Served::OtherNodesCache);
    assert_eq!(served(load(num::RAM, 1, 2), Vendor::Amd), Served::RemoteMemory);
}

/// The field of a store is what an earlier load left there.
#[test]
fn amd_trap_2_a_store_has_no_data_source() {
    let store = DataSource { op: op::STORE, ..DataSource::from_bits(load(num::RAM, 1, 2)) };
    assert_eq!(served(store.bits(), Vendor::Amd), Served::Unknown);
    assert_eq!(served(store.bits(), Vendor::Intel), Served::RemoteMemory);
    assert_eq!(store.access(), Access::Store);
    assert_eq!(Vendor::from_cpuid("AuthenticAMD,25,17,1"), Vendor::Amd);
    assert_eq!(Vendor::from_description("AMD EPYC 9654 96-Core Processor"), Vendor::Amd);
}

#[test]
fn intel_tables_old_and_new() {
    let of = |lvl: u64, lvl_num: u64, remote: u64, snoop: u64, snoopx: u64| {
        let d = DataSource { op: op::LOAD, lvl, lvl_num, remote, snoop, snoopx, ..DataSource::default() };
        served(d.bits(), Vendor::Intel)
    };
    const NONE: u64 = 2;
    const HIT: u64 = 4;
    use Served::*;
    // arch/x86/events/intel/ds.c, pebs_data_source[]: before Linux 4.14 (the number is 0, or NA), and since.
    for (what, old, number, remote, snoop, expected) in [
        ("L1", lvl::HIT | lvl::L1, num::L1, 0, NONE, Cache),
        ("line fill buffer", lvl::HIT | lvl::LFB, num::LFB, 0, NONE, InFlight),
        ("L2", lvl::HIT | lvl::L2, num::L2, 0, NONE, Cache),
        ("L3", lvl::HIT | lvl::L3, num::L3, 0, NONE, Cache),
        ("L3, snoop hit", lvl::HIT | lvl::L3, num::L3, 0, HIT, Cache),
        ("L3, hit modified", lvl::HIT | lvl::L3, num::L3, 0, SNOOP_HITM, OtherCore),
        ("remote cache", lvl::HIT | lvl::REM_CCE1, num::L3, 1, HIT, OtherNodesCache),
        ("remote cache, hit modified", lvl::HIT | lvl::REM_CCE1, num::L3, 1, SNOOP_HITM, OtherNodesCache),
        ("two hops", lvl::HIT | lvl::REM_CCE2, num::L3, 1, HIT, OtherNodesCache),
        ("local memory", lvl::HIT | lvl::LOC_RAM, num::RAM, 0, HIT, LocalMemory),
        ("remote memory", lvl::HIT | lvl::REM_RAM1, num::RAM, 1, HIT, RemoteMemory),
        ("two hops", lvl::HIT | lvl::REM_RAM2, num::RAM, 1, NONE, RemoteMemory),
        ("input and output", lvl::HIT | lvl::IO, num::IO, 0, NONE, Unknown),
        ("not cached", lvl::HIT | lvl::UNC, num::UNC, 0, NONE, Unknown),
        ("nothing", lvl::NA, num::NA, 0, 1, Unknown),
    ] {
        assert_eq!(of(old, number, remote, snoop, 0), expected, "{what}, new");
        assert_eq!(of(old, 0, 0, snoop, 0), expected, "{what}, old");
        assert_eq!(of(old, num::NA, 0, snoop, 0), expected, "{what}, old with NA");
    }
    // Forwarded by a core of the node, and by a peer (Alder Lake on).
    assert_eq!(of(lvl::HIT | lvl::L3, num::L3, 0, NONE, 1), OtherCore);
    assert_eq!(of(lvl::HIT | lvl::L2, num::L2, 0, NONE, 2), OtherCore);
    // A store that missed says where it was looked for, not where the line was.
    let miss =
        DataSource { op: op::STORE, lvl: lvl::MISS | lvl::L1, lvl_num: num::L1, ..DataSource::default() };
    assert_eq!(served(miss.bits(), Vendor::Intel), Unknown);
    let hit = DataSource { lvl: lvl::HIT | lvl::L1, ..miss };
    assert_eq!(served(hit.bits(), Vendor::Intel), Cache);
    // Diamond Rapids names the memory region: 8 to 15 are MEM0 to MEM7.
    let region =
        |region| DataSource { region, ..DataSource::from_bits(load(num::RAM, 0, 0)) }.memory_region();
    assert_eq!((region(2), region(7), region(8), region(15)), (None, None, Some(0), Some(7)));
}

#[test]
fn what_is_written_for_other_tools_says_the_same_when_it_is_read() {
    for &what in Served::ALL {
        for access in [Access::Load, Access::LoadStore, Access::Unknown] {
            assert_eq!(served(bits_of(what, access), Vendor::Other), what, "{access:?}");
        }
    }
}
