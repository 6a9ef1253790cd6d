//! `nearfar measure` inside a virtual machine: the bytes that it says it moves, from the nodes
//! that it says, against the simulator's count.

use crate::lab::{Lab, guest_works, one_machine, within};
use serde_json::Value;

#[test]
fn measured_bandwidth_moves_the_bytes_that_it_names_from_the_node_that_it_names() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::new(2, 1, 128);
    let program =
        [env!("CARGO_BIN_EXE_nearfar"), "measure", "bandwidth", "--quick", "--json", "--array", "20M"];
    // A prefetcher reads beyond the ends of arrays. The simulated caches hold a hundredth of an array.
    let run = lab.count("bandwidth", &["--no-prefetch"], &program);
    let measured: Value = serde_json::from_str(&run.stdout()).unwrap();
    let tables = measured["bandwidth"].as_array().unwrap();
    assert!(tables.len() >= 5, "{measured}");
    for (from, memory) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (mut read, mut written) = (0.0, 0.0);
        for table in tables {
            let pairs = table["pairs"].as_array().unwrap();
            let pair = pairs.iter().find(|p| p["from"] == from && p["memory"] == memory).unwrap();
            let lines = pair["moved_bytes"].as_f64().unwrap_or_else(|| panic!("{pair}")) / 64.0;
            let (loads, stores, past_the_caches) = match table["kernel"].as_str().unwrap() {
                "read" => (1.0, 0.0, false),
                "write" => (0.0, 1.0, false),
                "copy" => (1.0, 1.0, false),
                "triad" => (2.0, 1.0, false),
                "triad_nt" => (2.0, 1.0, true),
                other => panic!("{other}"),
            };
            let each = lines / (loads + stores);
            // An ordinary store reads its line first.
            read += each * (loads + if past_the_caches { 0.0 } else { stores });
            written += each * stores;
        }
        let counted = run.lines(|f, page_node| f == from && page_node == memory);
        within(counted.0, read, 0.01, &format!("lines that node {from} reads from node {memory}"));
        within(counted.1, written, 0.01, &format!("lines that node {from} writes to node {memory}"));
    }
}

#[test]
fn placements_of_memory_are_where_their_names_say() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::new(2, 1, 128);
    let program =
        [env!("CARGO_BIN_EXE_nearfar"), "measure", "scaling", "--quick", "--json", "--array", "16M"];
    let run = lab.count("placements", &["--no-prefetch"], &program);
    let measured: Value = serde_json::from_str(&run.stdout()).unwrap();
    // Lines read by `from` of `page_node`; each row's threads do the same work, one on each of its cpus.
    let mut read = [[0.0; 2]; 2];
    let rows = measured["scaling"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "{measured}");
    for row in rows {
        let cpus: Vec<usize> =
            row["cpus"].as_array().unwrap().iter().map(|c| c.as_u64().unwrap() as usize).collect();
        // A triad reads all three arrays, since an ordinary store reads its line first.
        let moved = row["moved_bytes"].as_f64().unwrap_or_else(|| panic!("{row}"));
        let each = moved / 64.0 / cpus.len() as f64;
        // There is one cpu on each node.
        for node in cpus {
            match &row["placement"] {
                Value::String(name) if name == "local" => read[node][node] += each,
                Value::String(name) if name == "interleaved" => {
                    read[node][0] += each / 2.0;
                    read[node][1] += each / 2.0;
                }
                Value::Object(one) => read[node][one["one_node"].as_u64().unwrap() as usize] += each,
                other => panic!("{other}"),
            }
        }
    }
    for (from, page_nodes) in read.iter().enumerate() {
        for (page_node, &expected) in page_nodes.iter().enumerate() {
            let counted = run.lines(|f, h| (f, h) == (from as u64, page_node as u64));
            within(counted.0, expected, 0.01, &format!("lines that node {from} reads from node {page_node}"));
        }
    }
}
