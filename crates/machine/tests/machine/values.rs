//! Machines: lists, shapes, the mapping of threads, distances.

use nearfar_machine::binding::{Bind, assign, cpu_of};
use nearfar_machine::cpulist::{CpuList, CpuListError};
use nearfar_machine::file::Confidence;
use nearfar_machine::{DistanceClass, Machine};

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

#[test]
fn a_list_prints_as_the_kernel_writes_it() {
    for text in ["", "0", "0-7", "0-7,16", "0,2,4-5"] {
        assert_eq!(list(text).to_string(), text);
    }
    assert_eq!(list(" 3,1-2,2\n").to_string(), "1-3");
    assert_eq!(list("0-7,16").len(), 9);
    assert!(list("0-7,16").contains(16) && !list("0-7,16").contains(8));
    assert!(CpuList::default().is_empty());
    let json = serde_json::to_string(&list("0-7,16")).unwrap();
    assert_eq!(json, "\"0-7,16\"");
    assert_eq!(serde_json::from_str::<CpuList>(&json).unwrap(), list("0-7,16"));
}

#[test]
fn a_wrong_list_is_refused_with_a_reason() {
    let error = |t: &str| t.parse::<CpuList>().unwrap_err();
    assert_eq!(error("7-0"), CpuListError::Reversed(7, 0));
    assert_eq!(error("0-4000000000"), CpuListError::TooLarge(4_000_000_000));
    let endless = error("99999999999999999999999");
    assert!(matches!(endless, CpuListError::TooLarge(_)));
    for wrong in ["a", "1,,2", "-1", "1-", "+1", "1-2-3"] {
        let error = error(wrong);
        assert!(matches!(error, CpuListError::NotANumber(_)), "{wrong}");
    }
    let reversed = error("7-0").to_string();
    assert_eq!(reversed, "the range 7-0 is reversed; write 0-7");
}

#[test]
fn a_shape_gives_nodes_cpus_and_assumed_distances() {
    let m = Machine::from_shape("2x22").unwrap();
    assert_eq!(m.nodes[1].cpus.to_string(), "22-43");
    assert_eq!(m.distances, [[10, 21], [21, 10]]);
    let confidence = m.figures.distances.as_ref().unwrap().confidence;
    assert_eq!(confidence, Confidence::Assumed);
    let m = Machine::from_shape("2x2x8").unwrap();
    assert_eq!(m.nodes.len(), 4);
    assert_eq!(m.distances[0], [10, 12, 21, 21]);
    assert_eq!(m.nodes[3].package, Some(1));
    assert_eq!(m.nodes[3].cpus.to_string(), "24-31");
    assert_eq!(m.cpu_count(), 32);
}

#[test]
fn a_wrong_shape_says_what_is_accepted() {
    for wrong in ["", "2", "2x", "x2", "axb", "1x2x3x4", "2 x 22", "-1x2"] {
        let message = Machine::from_shape(wrong).unwrap_err().to_string();
        assert!(message.contains("NODESxCPUS"), "{wrong}: {message}");
        assert!(message.contains("PACKAGESxNODESxCPUS"), "{wrong}");
    }
    for wrong in ["0x4", "4x0", "2000x1", "100x100", "99999999999x9999999999"] {
        let message = Machine::from_shape(wrong).unwrap_err().to_string();
        assert!(message.contains("the shape"), "{wrong}: {message}");
    }
}

#[test]
fn threads_are_divided_evenly_in_creation_order() {
    let m = Machine::from_shape("2x8").unwrap();
    assert_eq!(assign(2, &m, Bind::Compact), [0, 1]);
    assert_eq!(assign(3, &m, Bind::Compact), [0, 0, 1]);
    assert_eq!(assign(5, &m, Bind::Compact), [0, 0, 0, 1, 1]);
    assert_eq!(assign(5, &m, Bind::Scatter), [0, 1, 0, 1, 0]);
    assert_eq!(assign(1, &m, Bind::Compact), [0]);
    assert!(assign(0, &m, Bind::Scatter).is_empty());
    let four = Machine::from_shape("4x2").unwrap();
    assert_eq!(assign(6, &four, Bind::Compact), [0, 0, 1, 1, 2, 3]);
    assert_eq!("scatter".parse(), Ok(Bind::Scatter));
    let wrong = "close".parse::<Bind>().unwrap_err().to_string();
    assert!(wrong.contains("compact and scatter"), "{wrong}");
}

#[test]
fn nodes_without_cpus_get_no_threads() {
    let mut m = Machine::from_shape("3x2").unwrap();
    m.nodes[1].cpus = CpuList::default();
    assert_eq!(assign(4, &m, Bind::Compact), [0, 0, 2, 2]);
    assert_eq!(m.distance_class(0, 1), DistanceClass::CpuLess);
    for node in &mut m.nodes {
        node.cpus = CpuList::default();
    }
    assert!(assign(4, &m, Bind::Compact).is_empty());
    assert!(cpu_of(4, &m, Bind::Compact).is_empty());
}

#[test]
fn distinct_cores_come_before_second_hardware_threads() {
    let mut m = Machine::from_shape("2x4").unwrap();
    m.threads_per_core = 2;
    // One contiguous range: 0 and 1 share a core, as do 2 and 3.
    assert_eq!(cpu_of(4, &m, Bind::Scatter), [0, 4, 2, 6]);
    // As x86 numbers them: 0 and 4 share a core.
    m.nodes[0].cpus = list("0-1,4-5");
    m.nodes[1].cpus = list("2-3,6-7");
    assert_eq!(cpu_of(6, &m, Bind::Compact), [0, 1, 4, 2, 3, 6]);
    // More threads than cpus start again.
    assert_eq!(cpu_of(9, &m, Bind::Compact)[..5], [0, 1, 4, 5, 0]);
    // Said outright, the numbering does not matter.
    m.figures.cores = ["0-1", "4-5", "2-3", "6-7"].map(list).to_vec();
    assert_eq!(cpu_of(4, &m, Bind::Compact), [0, 4, 2, 6]);
}

#[test]
fn distance_classes_follow_packages_and_then_firmware_distances() {
    let mut m = Machine::from_shape("2x2x8").unwrap();
    assert_eq!(m.distance_class(0, 0), DistanceClass::Local);
    assert_eq!(m.distance_class(0, 1), DistanceClass::SameSocket);
    assert_eq!(m.distance_class(0, 2), DistanceClass::OtherSocket);
    for node in &mut m.nodes {
        node.package = None;
    }
    assert_eq!(m.distance_class(0, 1), DistanceClass::SameSocket);
    assert_eq!(m.distance_class(0, 2), DistanceClass::OtherSocket);
    m.distances.clear();
    assert_eq!(m.distance_class(0, 1), DistanceClass::OtherSocket);
    assert_eq!(m.node_of_cpu(9), Some(1));
    assert_eq!(m.node_of_cpu(99), None);
}
