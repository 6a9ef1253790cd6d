//! From a machine to QEMU's arguments: no QEMU needed.

use super::machine::shape;
use nearfar_guest::shape::MOST_CPUS;
use nearfar_guest::{GuestOptions, Memory, Shape, ShapeError};
use nearfar_machine::{Machine, NodeKind, NumaNode};

/// Values of an option, in order.
fn values(shape: &Shape, option: &str) -> Vec<String> {
    shape
        .arguments(&Memory { files: &["/a".into(), "/b".into()], shared: false })
        .chunks(2)
        .filter(|pair| pair[0] == option)
        .map(|pair| pair[1].clone())
        .collect()
}

fn from(machine: &Machine) -> Result<Shape, ShapeError> {
    Shape::from_machine(machine, &GuestOptions::default())
}

#[test]
fn nodes_have_their_cpus_memory_and_distances() {
    let shape = shape("2x2");
    assert_eq!(values(&shape, "-smp"), ["5,maxcpus=6,sockets=3,cores=2,threads=1"]);
    assert_eq!(values(&shape, "-m"), ["2048M"]);
    assert_eq!(
        values(&shape, "-object"),
        [
            "memory-backend-file,id=node0,size=1024M,share=off,mem-path=/a",
            "memory-backend-file,id=node1,size=1024M,share=off,mem-path=/b"
        ]
    );
    assert_eq!(
        values(&shape, "-numa"),
        [
            "node,nodeid=0,memdev=node0",
            "node,nodeid=1,memdev=node1",
            "cpu,node-id=0,socket-id=0,core-id=0,thread-id=0",
            "cpu,node-id=0,socket-id=0,core-id=1,thread-id=0",
            "cpu,node-id=1,socket-id=1,core-id=0,thread-id=0",
            "cpu,node-id=1,socket-id=1,core-id=1,thread-id=0",
            "cpu,node-id=0,socket-id=2,core-id=0,thread-id=0",
            "cpu,node-id=0,socket-id=2,core-id=1,thread-id=0",
            "dist,src=0,dst=0,val=10",
            "dist,src=0,dst=1,val=21",
            "dist,src=1,dst=0,val=21",
            "dist,src=1,dst=1,val=10",
        ]
    );
}

#[test]
fn the_housekeeping_cpu_is_the_last_one_and_on_the_first_node_with_cpus() {
    let mut machine = Machine::from_shape("2x2").unwrap();
    let shape = from(&machine).unwrap();
    assert_eq!((shape.housekeeping, shape.housekeeping_node()), (4, 0));
    assert_eq!((shape.guest_cpus(0), shape.guest_cpus(1)), (vec![0, 1, 4], vec![2, 3]));
    assert_eq!(shape.machine_cpus(), "0-3");
    assert!(shape.kernel_arguments().contains(" nr_cpus=5 irqaffinity=4"));

    machine.nodes[0].cpus = Default::default();
    let shape = from(&machine).unwrap();
    assert_eq!((shape.housekeeping, shape.housekeeping_node()), (2, 1));
    assert_eq!((shape.guest_cpus(0), shape.guest_cpus(1)), (vec![], vec![0, 1, 2]));
}

#[test]
fn many_cpus_are_started_by_init() {
    let arguments = |text: &str| from(&Machine::from_shape(text).unwrap()).unwrap().kernel_arguments();
    assert!(!arguments("2x32").contains("maxcpus"));
    assert!(arguments("2x33").contains(" nr_cpus=67 maxcpus=1 irq"), "{}", arguments("2x33"));
}

/// QEMU delivers no interrupt beyond a gap in the controllers' numbers; kernels of nine cpus ask it otherwise.
#[test]
fn cpus_of_sockets_of_three_cores_are_not_waited_for_for_ever() {
    let arguments = |text: &str| from(&Machine::from_shape(text).unwrap()).unwrap().kernel_arguments();
    for text in ["2x3", "1x3", "1x5", "1x6"] {
        assert!(arguments(text).contains(" nr_cpus=9 possible_cpus=9 "), "{text}: {}", arguments(text));
    }
    for (text, cpus) in [("2x2", 5), ("7x1", 8), ("1x4", 5), ("3x3", 10), ("2x22", 45)] {
        let arguments = arguments(text);
        assert!(arguments.contains(&format!(" nr_cpus={cpus} irq")), "{text}: {arguments}");
        assert!(!arguments.contains("possible"), "{text}: {arguments}");
    }
}

#[test]
fn sockets_are_packages_where_qemu_can_number_them_so() {
    let sockets = |text: &str| from(&Machine::from_shape(text).unwrap()).unwrap().topology;
    // Two packages of two nodes of four cpus, and the housekeeping one.
    assert_eq!(sockets("2x2x4"), (3, 8));
    assert_eq!(sockets("8x6"), (9, 6));
    assert_eq!(sockets("1x8"), (2, 8));
    // 96 cores take 7 bits of an APIC id: the third socket would begin at 256.
    assert_eq!(sockets("2x96"), (193, 1));

    // Kernel numbers alternate between packages.
    let mut machine = Machine::from_shape("2x2").unwrap();
    machine.nodes[0].cpus = "0,2".parse().unwrap();
    machine.nodes[1].cpus = "1,3".parse().unwrap();
    let shape = from(&machine).unwrap();
    assert_eq!(shape.topology, (5, 1));
    assert_eq!((shape.guest_cpus(0), shape.guest_cpus(1)), (vec![0, 2, 4], vec![1, 3]));

    // Packages of different sizes.
    machine.nodes[0].cpus = "0-2".parse().unwrap();
    machine.nodes[1].cpus = "3".parse().unwrap();
    assert_eq!(from(&machine).unwrap().topology, (5, 1));
}

#[test]
fn gaps_in_kernel_numbers_are_closed() {
    let mut machine = Machine::from_shape("2x2").unwrap();
    machine.nodes[0].cpus = "4-5".parse().unwrap();
    machine.nodes[1].id = 8;
    machine.nodes[1].cpus = "20,40".parse().unwrap();
    let shape = from(&machine).unwrap();
    assert_eq!(shape.cpus, [4, 5, 20, 40]);
    assert_eq!((shape.guest_cpus(0), shape.guest_cpus(1)), (vec![0, 1, 4], vec![2, 3]));
    assert_eq!(shape.nodes[1].id, 8);
    assert_eq!(values(&shape, "-numa")[1], "node,nodeid=1,memdev=node1");
}

#[test]
fn a_gap_before_a_node_without_cpus_is_a_cpu_that_is_never_plugged_in() {
    let mut machine = Machine::from_shape("2x2").unwrap();
    machine.nodes.push(NumaNode {
        id: 3,
        cpus: Default::default(),
        memory_bytes: None,
        kind: NodeKind::Cxl,
        package: None,
    });
    machine.distances = vec![vec![10, 21, 24], vec![21, 10, 28], vec![24, 28, 10]];
    let shape = from(&machine).unwrap();
    assert_eq!((shape.topology, &shape.absent[..]), ((4, 2), &[2][..]));
    // The housekeeping cpu's socket is before the one that stays empty.
    assert_eq!(values(&shape, "-smp"), ["5,maxcpus=8,sockets=4,cores=2,threads=1"]);
    let numa = values(&shape, "-numa");
    assert_eq!(numa[2..4], ["node,nodeid=3,memdev=node2", "node,nodeid=2"]);
    assert!(numa.contains(&"cpu,node-id=0,socket-id=2,core-id=1,thread-id=0".to_owned()), "{numa:?}");
    assert!(numa.contains(&"cpu,node-id=2,socket-id=3,core-id=0,thread-id=0".to_owned()), "{numa:?}");
    assert!(numa.contains(&"dist,src=1,dst=3,val=28".to_owned()), "{numa:?}");
    assert!(numa.contains(&"dist,src=2,dst=2,val=10".to_owned()), "{numa:?}");
    assert_eq!(numa.iter().filter(|n| n.starts_with("dist")).count(), 16);
}

#[test]
fn a_node_without_cpus_has_memory() {
    let mut machine = Machine::from_shape("1x2").unwrap();
    machine.nodes.push(NumaNode {
        id: 1,
        cpus: Default::default(),
        memory_bytes: None,
        kind: NodeKind::Cxl,
        package: None,
    });
    machine.distances = vec![vec![10, 14], vec![14, 10]];
    let shape = from(&machine).unwrap();
    assert!(values(&shape, "-numa").contains(&"node,nodeid=1,memdev=node1".to_owned()));
    assert!(values(&shape, "-numa").contains(&"dist,src=0,dst=1,val=14".to_owned()));
    assert_eq!(shape.guest_cpus(1), Vec::<u32>::new());
}

#[test]
fn distances_that_linux_would_drop_are_mended() {
    let mut machine = Machine::from_shape("2x1").unwrap();
    machine.distances = vec![vec![12, 10], vec![255, 12]];
    assert_eq!(from(&machine).unwrap().distances, [[10, 11], [254, 10]]);
    // None known: by convention.
    machine.distances.clear();
    assert_eq!(from(&machine).unwrap().distances, [[10, 21], [21, 10]]);
}

#[test]
fn memory_is_whole_sections() {
    let machine = Machine::from_shape("2x1").unwrap();
    let with = |bytes| Shape::from_machine(&machine, &GuestOptions { memory_per_node: Some(bytes) });
    assert_eq!(with(300_000_000).unwrap().nodes[0].memory_bytes, 384 << 20);
    assert_eq!(with(1 << 20).unwrap_err(), ShapeError::Memory { bytes: 1 << 20 });
}

#[test]
fn machines_that_are_too_large_are_refused_with_what_fits() {
    let error = from(&Machine::from_shape("2x128").unwrap()).unwrap_err();
    assert_eq!(error, ShapeError::Cpus { machine: "2x128".into(), cpus: 256, fits: 127 });
    assert!(error.to_string().contains("--cpus-per-node 127"), "{error}");
    let largest = from(&Machine::from_shape("2x127").unwrap()).unwrap();
    assert_eq!(largest.cpus.len() + 1, MOST_CPUS);
    assert!(matches!(
        from(&Machine::from_shape("200x1").unwrap()),
        Err(ShapeError::Nodes { nodes: 200, .. })
    ));
}
