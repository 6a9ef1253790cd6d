//! What a placement of memory gives by a machine's figures: triad by threads whose
//! memory is on their own node, interleaved, or all on one node.

use super::Placement;
use nearfar_machine::LINE_BYTES;
use nearfar_machine::figures::{Confidence, Figure};
use nearfar_machine::{Machine, NodeId};
use nearfar_timing::work::NodeWork;
use nearfar_timing::{Binding, Unknown, steady};
use serde::Serialize;

/// A predicted rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// GB/s of the bytes that the program names, as STREAM counts them.
    pub gb_per_s: f64,
    /// If the machine's figures are as bad as their confidence allows.
    pub low: f64,
    /// If they are as good.
    pub high: f64,
    /// What binds.
    pub binds: Binding,
}

/// Lines of each array in the piece of work that is timed; the rate does not depend on it.
const LINES: f64 = 1e6;

/// Triad with ordinary stores by one thread on each of `cpus`. Interleaving is over nodes that have
/// both cpus and memory.
///
/// # Errors
/// With what the machine does not say and the time model needs.
pub fn triad(machine: &Machine, cpus: &[u32], placement: Placement) -> Result<Predicted, Unknown> {
    let mut machine = machine.clone();
    // No instruction is in the work, so this number divides nothing.
    machine.figures.core.ipc.get_or_insert_with(|| Figure {
        value: 1.0,
        source: "not used".into(),
        confidence: Confidence::Assumed,
    });
    let both = |id: NodeId| {
        let node = machine.nodes.iter().find(|n| n.id == id);
        node.is_some_and(|n| !n.cpus.is_empty() && n.memory_bytes != Some(0))
    };
    let turns: Vec<NodeId> = machine.nodes.iter().map(|n| n.id).filter(|&id| both(id)).collect();
    let threads: Vec<(u32, Vec<NodeWork>)> = cpus
        .iter()
        .map(|&cpu| {
            let own = machine.nodes.iter().find(|n| n.cpus.contains(cpu)).map(|n| n.id);
            let page_nodes = machine.nodes.iter().map(|node| {
                let share = match placement {
                    Placement::Local => f64::from(Some(node.id) == own),
                    Placement::OneNode(one) => f64::from(node.id == one),
                    Placement::Interleaved if turns.contains(&node.id) => 1.0 / turns.len() as f64,
                    Placement::Interleaved => 0.0,
                };
                // Two arrays are read and the third is read before it is stored to. All of it is in sequence.
                let reads = 3.0 * LINES * share;
                NodeWork { reads, prefetches: reads, writes: LINES * share, ..NodeWork::default() }
            });
            (cpu, page_nodes.collect())
        })
        .collect();
    let named = 3.0 * LINE_BYTES as f64 * LINES * cpus.len() as f64;
    let time = steady(&machine, &threads)?;
    Ok(Predicted {
        gb_per_s: named / time.ns,
        low: named / time.high_ns,
        high: named / time.low_ns,
        binds: time.binds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::figures::{Cell, Matrix, NodeBandwidth};

    fn figure(value: f64) -> Option<Figure> {
        Some(Figure { value, source: "test".into(), confidence: Confidence::H })
    }

    /// Two nodes of eight cores: 90 and 140 ns, 40 GB/s of a triad's traffic each, 20 GB/s from the other
    /// node, and one core moves at most 10.
    fn machine() -> Machine {
        let mut machine = Machine::from_shape("2x8").unwrap();
        let f = &mut machine.figures;
        *f = Default::default();
        let matrix = |own: f64, other: f64| Matrix {
            rows: vec![vec![Cell(Some(own)), Cell(Some(other))], vec![Cell(Some(other)), Cell(Some(own))]],
            source: "test".into(),
            confidence: Confidence::H,
        };
        f.latency_ns = Some(matrix(90.0, 140.0));
        f.pair_read_gbs = Some(matrix(40.0, 20.0));
        f.core.all_core_ghz = figure(2.5);
        f.core.outstanding_lines = figure(10.0);
        f.core.read_gbs = figure(10.0);
        f.core.update_gbs = figure(10.0);
        f.bandwidth = vec![NodeBandwidth {
            nodes: "0-1".parse().unwrap(),
            peak_gbs: None,
            read_gbs: figure(40.0),
            update_gbs: figure(40.0),
            triad_gbs: figure(40.0),
        }];
        machine
    }

    #[test]
    fn saturated_nodes_give_what_their_memory_gives() {
        let machine = machine();
        let all: Vec<u32> = (0..16).collect();
        let local = triad(&machine, &all, Placement::Local).unwrap();
        // Of four bytes that move, a program names three.
        assert!((local.gb_per_s / (2.0 * 40.0 * 0.75) - 1.0).abs() < 0.05, "{local:?}");
        assert!(local.low < local.gb_per_s && local.gb_per_s < local.high, "{local:?}");
        let one = triad(&machine, &all, Placement::OneNode(0)).unwrap();
        assert!((one.gb_per_s / (40.0 * 0.75) - 1.0).abs() < 0.1, "{one:?}");
        assert_eq!(one.binds, Binding::Memory { node: 0 });
        // Half of what each node reads crosses a link of 20 GB/s.
        let turns = triad(&machine, &all, Placement::Interleaved).unwrap();
        assert!(turns.gb_per_s < local.gb_per_s && turns.gb_per_s > one.gb_per_s, "{turns:?}");
    }

    #[test]
    fn one_thread_is_as_fast_as_a_core() {
        let one = triad(&machine(), &[3], Placement::Local).unwrap();
        assert!((one.gb_per_s / 7.5 - 1.0).abs() < 0.1, "{one:?}");
        let far = triad(&machine(), &[3], Placement::OneNode(1)).unwrap();
        assert!(far.gb_per_s < 0.8 * one.gb_per_s, "{far:?}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut machine = machine();
        machine.figures.core.all_core_ghz = None;
        let why = triad(&machine, &[0], Placement::Local).unwrap_err().to_string();
        assert!(why.contains("all_core_ghz"), "{why}");
        assert_eq!(triad(&self::machine(), &[99], Placement::Local), Err(Unknown::NoTraffic));
    }
}
