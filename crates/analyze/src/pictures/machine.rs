//! The parts of the judged machine.

use crate::value::{CachePicture, LinkPicture, MachinePicture, NodePicture};
use nearfar_machine::Machine;
use nearfar_machine::figures::Matrix;

/// The machine as it is drawn.
pub(super) fn picture(machine: &Machine) -> MachinePicture {
    let figures = &machine.figures;
    let read = |id| figures.bandwidth_of(id).and_then(|b| b.read_gbs.as_ref());
    let nodes = machine.nodes.iter().map(|n| NodePicture {
        id: n.id,
        package: n.package,
        cpus: n.cpus.to_string(),
        cpu_count: n.cpus.len(),
        cores: machine.cores_of(n.id).len(),
        kind: n.kind,
        memory_bytes: n.memory_bytes,
        read_gb_per_s: read(n.id).map(|f| f.value),
    });
    let caches = machine.caches.iter().map(|c| CachePicture {
        level: c.level,
        size_bytes: c.size_bytes,
        cores_per_instance: c.cores_per_instance,
    });
    let links = figures.links.iter().map(|l| LinkPicture {
        from: l.from,
        to: l.to,
        gb_per_s: l.count.value * l.gbs_per_direction.value,
    });
    let rows = |matrix: &Option<Matrix>| -> Vec<Vec<Option<f64>>> {
        let rows = matrix.iter().flat_map(|m| &m.rows);
        rows.map(|row| row.iter().map(|cell| cell.0).collect()).collect()
    };
    let source =
        |what: &str, source: &str, confidence: &str| format!("{what}: {source} (confidence {confidence})");
    let of = |what: &str, matrix: &Option<Matrix>| {
        matrix.as_ref().map(|m| source(what, &m.source, m.confidence.as_str()))
    };
    let mut sources: Vec<String> =
        [of("latency", &figures.latency_ns), of("read bandwidth between nodes", &figures.pair_read_gbs)]
            .into_iter()
            .flatten()
            .collect();
    let memory = machine.nodes.iter().filter_map(|n| read(n.id));
    sources.extend(memory.map(|f| source("read bandwidth of a node", &f.source, f.confidence.as_str())));
    sources.dedup();
    MachinePicture {
        nodes: nodes.collect(),
        caches: caches.collect(),
        links: links.collect(),
        distances: machine.distances.clone(),
        latency_ns: rows(&figures.latency_ns),
        read_gb_per_s: rows(&figures.pair_read_gbs),
        sources,
    }
}
