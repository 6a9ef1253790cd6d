use super::*;
use crate::residency::{Memory, SCHEMA_VERSION, Thread};
use nearfar_machine::DistanceClass;

const MIB: u64 = 1 << 20;

fn thread(tid: u32, cpu: u32, machine: &Machine) -> Thread {
    Thread {
        tid,
        name: "t".into(),
        cpu: Some(cpu),
        l3: None,
        node: machine.node_of_cpu(cpu),
        allowed: "0-3".parse().unwrap(),
        bound: false,
        policy: Some(Requested::new("default")),
        migrations: None,
        pages_migrated: None,
    }
}

fn mapping(name: &str, kind: Kind, requested: &str, mib: &[(NodeId, u64)]) -> Mapping {
    let nodes = mib.iter().map(|&(node, mib)| (node, Amount::counted(mib * 256, 4096)));
    Mapping {
        start: 4096,
        end: None,
        name: name.into(),
        kind,
        requested: (!requested.is_empty()).then(|| Requested::new(requested)),
        page_bytes: 4096,
        nodes: nodes.collect(),
        sample: None,
    }
}

fn judged(how: How, machine: &Machine, cpus: &[u32], mappings: Vec<Mapping>) -> Residency {
    let seen = Residency {
        schema: SCHEMA_VERSION,
        pid: 1,
        name: "p".into(),
        at_seconds: 0.0,
        took_ms: 1.0,
        threads: cpus.iter().map(|&c| thread(10 + c, c, machine)).collect(),
        nodes_allowed: None,
        limits: Default::default(),
        memory: Memory {
            how,
            why: "test".into(),
            resident_bytes: None,
            asked: None,
            transparent_huge_bytes: None,
            mappings,
            objects: Vec::new(),
            without: Vec::new(),
            nodes: BTreeMap::new(),
            kinds: BTreeMap::new(),
        },
        near: Vec::new(),
        findings: Vec::new(),
    };
    judge(seen, machine)
}

/// Two sockets of two nodes with a cpu each.
fn machine() -> Machine {
    let mut machine = Machine::from_shape("4x1").unwrap();
    for node in &mut machine.nodes {
        node.package = Some(node.id / 2);
    }
    machine
}

fn findings(requested: &str, mib: &[(NodeId, u64)]) -> Vec<String> {
    judged(How::Exact, &machine(), &[0], vec![mapping("", Kind::Anonymous, requested, mib)]).findings
}

#[test]
fn sums_are_by_node_and_kind_and_files_are_not_the_programs_own() {
    let mappings = vec![
        mapping("[heap]", Kind::Heap, "default", &[(0, 4)]),
        mapping("", Kind::Anonymous, "interleave:0-3", &[(0, 8), (1, 8), (2, 8), (3, 8)]),
        mapping("/lib/x", Kind::File, "default", &[(3, 100)]),
    ];
    let seen = judged(How::Exact, &machine(), &[0, 1], mappings);
    assert_eq!(seen.memory.nodes[&0].bytes, 12 * MIB);
    assert_eq!(seen.memory.nodes[&3].bytes, 108 * MIB);
    assert_eq!(seen.memory.kinds[&Kind::Anonymous][&1].bytes, 8 * MIB);
    let class = |local: u64, same: u64, other: u64| {
        BTreeMap::from([
            (DistanceClass::Local, local * MIB),
            (DistanceClass::SameSocket, same * MIB),
            (DistanceClass::OtherSocket, other * MIB),
        ])
    };
    let near: Vec<_> = seen.near.iter().map(|n| (n.node, n.threads, n.bytes.clone())).collect();
    assert_eq!(near, [(0, 1, class(12, 8, 16)), (1, 1, class(8, 12, 16))]);
    assert_eq!(seen.findings, [""; 0]);
}

#[test]
fn pages_outside_of_what_they_are_bound_to_are_told() {
    assert_eq!(findings("bind:1", &[(1, 64)]), [""; 0]);
    let said = findings("bind:1", &[(0, 16), (1, 48)]);
    assert!(said[0].contains("anonymous memory: asked for bind:1, 16.0 MiB of 64.0 MiB (25 %) are on other"));
    assert!(findings("interleave:0-1", &[(0, 32), (2, 32)])[0].contains("50 %"));
    assert!(findings("prefer:1", &[(0, 16), (1, 48)])[0].contains("25 %"));
    assert_eq!(findings("prefer:1", &[(0, 2), (1, 62)]), [""; 0], "a huge page is not worth a word");
}

#[test]
fn interleaving_within_five_percent_is_even() {
    assert_eq!(findings("interleave:0-1", &[(0, 104), (1, 96)]), [""; 0]);
    let said = findings("interleave:0-1", &[(0, 106), (1, 94)]);
    assert!(said[0].contains("(+6.0 %)") || said[0].contains("(-6.0 %)"), "{said:?}");
    assert!(findings("interleave:0-3", &[(0, 40), (1, 40), (2, 40)])[0].contains("node 3 has 0 B"));
    // Weights make it uneven as asked.
    assert_eq!(findings("weighted interleave:0-1", &[(0, 300), (1, 100)]), [""; 0]);
}

#[test]
fn first_touch_memory_away_from_all_threads_is_told() {
    assert_eq!(findings("default", &[(0, 96), (1, 4)]), [""; 0]);
    let said = findings("default", &[(0, 90), (1, 10)]);
    assert!(said[0].contains("10.0 MiB of 100 MiB (10 %) placed by first touch are on node 1"), "{said:?}");
    // Without the mapping's policy it is an estimate with a condition, and nothing if a thread has a policy.
    let far = || vec![mapping("", Kind::Anonymous, "", &[(0, 50), (1, 50)])];
    let sampled = judged(How::Sampled, &machine(), &[0], far());
    assert!(
        sampled.findings[0].contains("unless a mapping has a policy of its own"),
        "{:?}",
        sampled.findings
    );
    let mut seen = sampled;
    seen.threads[0].policy = Some(Requested::new("interleave:0-1"));
    assert_eq!(judge(seen, &machine()).findings, [""; 0]);
}

#[test]
fn the_interval_of_a_sum_has_the_sums_of_the_ends() {
    let mut sum = Amount { bytes: 10, pages: None, interval: Some((8, 12)) };
    sum.add(&Amount { bytes: 5, pages: Some(1), interval: None });
    assert_eq!(sum, Amount { bytes: 15, pages: None, interval: Some((13, 17)) });
}
