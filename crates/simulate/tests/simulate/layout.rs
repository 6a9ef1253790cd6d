//! Machines that can be simulated, and why others cannot.

use crate::test_machine::{NODE, TestMachine, machine, private, shared, usual};
use nearfar_machine::Machine;
use nearfar_machine::file::Inclusion;
use nearfar_simulate::{Hierarchy, Options, PageNodeMap};

fn refused(machine: &Machine, ends: &[u64]) -> String {
    let options = Options { prefetch: true, page_nodes: PageNodeMap::ranges(ends) };
    Hierarchy::new(machine, &options).expect_err("refused").to_string()
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let two = [NODE, 2 * NODE];
    let bare = Machine::from_shape("2x4").expect("a shape");
    assert!(refused(&bare, &two).contains("no [[cache]] of level 1"));
    let usual = usual("2x4");
    assert!(refused(&usual, &[NODE]).contains("1 nodes"));
    assert!(refused(&usual, &[2 * NODE, NODE]).contains("ascend"));
    assert!(refused(&usual, &[0, 0]).contains("0 bytes"));
    assert!(refused(&usual, &[NODE, 1 << 40]).contains("255 GiB"));
    let l1 = shared(32 << 10, 8, 2, Inclusion::Neither);
    assert!(refused(&machine("1x4", &[l1]), &[NODE]).contains("private"));
    assert!(refused(&machine("1x4", &[private(32 << 10, 17)]), &[NODE]).contains("17 ways"));
    assert!(refused(&machine("1x4", &[private(32, 8)]), &[NODE]).contains("not a number of lines"));
    let middle = [private(32 << 10, 8), shared(1 << 20, 8, 2, Inclusion::Neither), private(1 << 20, 8)];
    assert!(refused(&machine("1x4", &middle), &[NODE]).contains("only one level"));
    let mut lines = crate::test_machine::usual("1x4");
    lines.figures.line_bytes = Some(128);
    assert!(refused(&lines, &[NODE]).contains("128 bytes"));
    assert!(refused(&crate::test_machine::usual("2x128"), &two).contains("--cpus-per-node"));
}

#[test]
fn described_machines_can_be_simulated() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let mut seen = 0;
    for file in std::fs::read_dir(directory).expect("machines/") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a machine file");
        let mut machine = Machine::from_toml(&text).expect("a machine");
        // As scaling does: few cpus, one thread to a core, the first caches of each node.
        for (i, node) in machine.nodes.iter_mut().enumerate().filter(|(_, n)| !n.cpus.is_empty()) {
            node.cpus = format!("{}-{}", 2 * i, 2 * i + 1).parse().expect("a list");
        }
        machine.threads_per_core = 1;
        machine.figures.cores.clear();
        let ends: Vec<u64> = (1..=machine.nodes.len() as u64).map(|n| n * NODE).collect();
        let options = Options { prefetch: true, page_nodes: PageNodeMap::ranges(&ends) };
        let hierarchy =
            Hierarchy::new(&machine, &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut core = hierarchy.core(0);
        let access = nearfar_simulate::Access {
            virt: 0,
            physical: 0,
            bytes: 8,
            kind: nearfar_simulate::Kind::Load,
            huge: false,
            chain: 0,
        };
        core.access(&hierarchy, access, &mut ());
        assert_eq!(core.counts().dram_lines, 1);
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn positions_are_in_order_of_kernel_indexes() {
    let mut machine = usual("2x2");
    machine.nodes[0].cpus = "0,8".parse().expect("a list");
    machine.nodes[1].cpus = "4,12".parse().expect("a list");
    let rig = TestMachine::new(&machine);
    let cpus: Vec<u32> = (0..4).map(|p| rig.hierarchy.cpu(p)).collect();
    let nodes: Vec<usize> = (0..4).map(|p| rig.hierarchy.node_of(p)).collect();
    assert_eq!((cpus, nodes), (vec![0, 4, 8, 12], vec![0, 1, 0, 1]));
}

#[test]
fn many_cores_have_entries_of_two_or_four_words() {
    for each in [28, 56] {
        let caches =
            [private(4 << 10, 8), private(16 << 10, 8), shared(1 << 20, 16, each, Inclusion::Inclusive)];
        let mut rig = TestMachine::new(&machine(&format!("4x{each}"), &caches));
        let last = 4 * each as usize - 1;
        for cpu in 0..=last {
            rig.load(cpu, 0);
        }
        assert_eq!(rig.moved.read(), 4);
        rig.store(last, 0);
        for cpu in 0..last {
            assert!(!rig.cores[cpu].quick_hit(crate::test_machine::BASE, 8, nearfar_simulate::Kind::Load));
        }
        rig.load(5, 0);
        assert_eq!(rig.cores[5].counts().cache_transfers, 1);
        assert_eq!(rig.cores[5].traffic()[3].transfer_lines, 1);
    }
}

#[test]
fn cores_of_a_die_share_its_cache_and_no_other() {
    // Two caches of two cores in one node.
    let machine = machine(
        "1x4",
        &[private(4 << 10, 8), private(16 << 10, 8), shared(1 << 20, 16, 2, Inclusion::Victim)],
    );
    let mut rig = TestMachine::new(&machine);
    rig.load(0, 0);
    rig.load(1, 0);
    rig.load(2, 0);
    assert_eq!(rig.cores[1].counts().cache_transfers, 1);
    assert_eq!(rig.cores[2].counts().dram_lines, 1, "clean lines come from memory");
}
