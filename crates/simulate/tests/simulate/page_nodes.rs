//! Which node's memory the traffic meets.

use crate::test_machine::{NODE, PAGE, TestMachine, machine, near, private, shared, usual};
use nearfar_machine::file::Inclusion;
use nearfar_simulate::PageNodeMap;

/// Pages that each cpu works on: more than its caches hold.
const PAGES: u64 = 512;

/// One cpu per node reads and writes its part of an array; `place` says where a page is.
fn shares(nodes: u64, interleaved: bool, place: impl Fn(u64) -> u64) -> (f64, Vec<u64>) {
    let machine = machine(
        &format!("{nodes}x1"),
        &[private(16 << 10, 8), private(64 << 10, 8), shared(256 << 10, 16, 1, Inclusion::Inclusive)],
    );
    let page_nodes = if interleaved {
        PageNodeMap::interleaved(nodes as usize, nodes * NODE)
    } else {
        PageNodeMap::ranges(&(1..=nodes).map(|n| n * NODE).collect::<Vec<u64>>())
    };
    let mut rig = TestMachine::with(&machine, true, page_nodes);
    for page in 0..nodes * PAGES {
        for at in (0..PAGE).step_by(8) {
            let cpu = (page / PAGES) as usize;
            rig.load(cpu, place(page) + at);
            rig.store(cpu, place(page) + at);
        }
    }
    rig.write_back();
    let (mut remote, mut all) = (0, 0);
    for (cpu, core) in rig.cores.iter().enumerate() {
        for (page_node, traffic) in core.traffic().iter().enumerate() {
            let lines = traffic.read_lines + traffic.write_lines;
            all += lines;
            remote += if page_node == rig.hierarchy.node_of(cpu) { 0 } else { lines };
        }
    }
    (remote as f64 / all as f64, rig.moved.page_nodes.clone())
}

#[test]
fn serial_initialisation_leaves_all_but_one_nodes_share_remote() {
    for (nodes, expected) in [(2, 0.5), (4, 0.75), (8, 0.875)] {
        let (remote, page_nodes) = shares(nodes, false, |page| page * PAGE);
        assert!((remote - expected).abs() < 0.005, "{nodes} nodes: {remote}");
        assert_eq!(page_nodes.len(), 1, "all pages are node 0's");
    }
}

#[test]
fn pages_of_their_users_are_local() {
    let (remote, page_nodes) = shares(4, false, |page| page / PAGES * NODE + page % PAGES * PAGE);
    assert_eq!(remote, 0.0);
    assert_eq!(page_nodes.len(), 4);
}

#[test]
fn firmware_interleaving_gives_every_node_the_same() {
    for nodes in [2, 4, 8] {
        let (remote, page_nodes) = shares(nodes, true, |page| page * PAGE);
        let expected = 1.0 - 1.0 / nodes as f64;
        assert!((remote - expected).abs() < 0.005, "{nodes} nodes: {remote}");
        let all: u64 = page_nodes.iter().sum();
        page_nodes.iter().for_each(|&lines| near(lines, all / nodes));
    }
}

#[test]
fn a_migrated_page_is_at_its_new_home() {
    let mut rig = TestMachine::new(&usual("2x4"));
    let access = |physical| nearfar_simulate::Access {
        virt: 0x1000,
        physical,
        bytes: 8,
        kind: nearfar_simulate::Kind::Load,
        huge: false,
        chain: 0,
    };
    rig.cores[0].access(&rig.hierarchy, access(0), &mut rig.moved);
    assert!(rig.cores[0].quick_hit(0x1000, 8, nearfar_simulate::Kind::Load));
    rig.cores[0].flush_translations();
    assert!(!rig.cores[0].quick_hit(0x1000, 8, nearfar_simulate::Kind::Load));
    rig.cores[0].access(&rig.hierarchy, access(NODE), &mut rig.moved);
    assert_eq!(rig.moved.page_nodes, [1, 1]);
    assert_eq!(rig.cores[0].counts().tlb_misses, 2);
}

#[test]
fn homes_are_ranges_of_physical_memory() {
    // The third node has no memory.
    let page_nodes = PageNodeMap::ranges(&[100, 300, 300, 400]);
    let found: Vec<Option<usize>> = [0, 99, 100, 299, 300, 399, 400].map(|p| page_nodes.page_node(p)).into();
    assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), Some(3), Some(3), None]);
    let page_nodes = PageNodeMap::interleaved(3, 12 * PAGE);
    let found: Vec<Option<usize>> =
        [0, PAGE, 2 * PAGE, 3 * PAGE, 12 * PAGE].map(|p| page_nodes.page_node(p)).into();
    assert_eq!(found, [Some(0), Some(1), Some(2), Some(0), None]);
}
