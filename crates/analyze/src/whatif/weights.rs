//! Weights of nodes that pages come in turns on.

use crate::value::Repair;
use nearfar_machine::{Machine, NumaNode};

/// Weights that are tried: pages in a row on each node with cpus, and on each without. They are closest to each other from 1 to 4,
/// where the bandwidths of a socket's DRAM over those of its CXL devices are. // chosen
const TRIED: [(u32, u32); 21] = [
    (1, 4),
    (1, 3),
    (1, 2),
    (2, 3),
    (1, 1),
    (5, 4),
    (3, 2),
    (7, 4),
    (2, 1),
    (5, 2),
    (3, 1),
    (7, 2),
    (4, 1),
    (5, 1),
    (6, 1),
    (8, 1),
    (10, 1),
    (12, 1),
    (16, 1),
    (24, 1),
    (32, 1),
];
/// Weights by bandwidth: the slowest node's. // chosen: steps of a quarter
const SLOWEST: f64 = 4.0;
/// The largest weight of a placement file.
const MOST: f64 = 255.0;

/// The weights that take least time, by `guess`; `None` on a machine whose nodes all have cpus.
pub fn best(machine: &Machine, guess: impl Fn(Repair) -> f64) -> Option<(Repair, f64)> {
    machine.memory_nodes().next()?;
    let tried = TRIED.map(|(with_cpus, without)| Repair::Weighted { with_cpus, without });
    tried.into_iter().map(|repair| (repair, guess(repair))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Nodes and their weights, as a file says them.
pub fn by_kind(machine: &Machine, with_cpus: u32, without: u32) -> (Vec<u32>, Vec<u32>) {
    let weight = |n: &NumaNode| if n.cpus.is_empty() { without } else { with_cpus };
    let mut all: Vec<&NumaNode> = machine.cpu_nodes().chain(machine.memory_nodes()).collect();
    all.sort_by_key(|n| n.id);
    all.iter().map(|n| (n.id, weight(n))).unzip()
}

/// The nodes with cpus, and weights that are as their bandwidths.
pub fn by_bandwidth(machine: &Machine) -> (Vec<u32>, Vec<u32>) {
    let rate = |n: &NumaNode| machine.figures.bandwidth_of(n.id).and_then(|b| b.rate(0.25)).unwrap_or(0.0);
    let least = machine.cpu_nodes().map(rate).fold(f64::INFINITY, f64::min);
    let weight = |n: &NumaNode| match least > 0.0 {
        true => (SLOWEST * rate(n) / least).round().clamp(1.0, MOST) as u32,
        false => 1,
    };
    machine.cpu_nodes().map(|n| (n.id, weight(n))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::NodeKind;

    fn with_expander() -> Machine {
        let mut machine = Machine::from_shape("3x2").unwrap();
        machine.nodes[1].cpus = Default::default();
        machine.nodes[1].kind = NodeKind::Cxl;
        machine
    }

    #[test]
    fn weights_are_of_the_nodes_in_the_order_of_their_numbers() {
        assert_eq!(by_kind(&with_expander(), 5, 2), (vec![0, 1, 2], vec![5, 2, 5]));
        let mut gpu = with_expander();
        gpu.nodes[1].kind = NodeKind::Gpu;
        assert_eq!(by_kind(&gpu, 5, 2), (vec![0, 2], vec![5, 5]));
    }

    #[test]
    fn the_ratio_of_the_least_time_is_found_and_none_where_all_nodes_have_cpus() {
        // The slower of both kinds of memory lasts longest: 18 GB/s on each of two nodes, 9 on the third.
        let time = |repair| match repair {
            Repair::Weighted { with_cpus, without } => {
                let all = f64::from(2 * with_cpus + without);
                (f64::from(with_cpus) / all / 18.0).max(f64::from(without) / all / 9.0)
            }
            _ => f64::INFINITY,
        };
        let (repair, ratio) = best(&with_expander(), time).unwrap();
        assert_eq!(repair, Repair::Weighted { with_cpus: 2, without: 1 });
        assert!((ratio - 1.0 / 45.0).abs() < 1e-12, "{ratio}");
        assert!(best(&Machine::from_shape("2x2").unwrap(), time).is_none());
    }
}
