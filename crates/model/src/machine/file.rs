//! The machine file: a described machine in TOML, every number with its source.
//!
//! docs/machine-file.md describes the format for people; this is its reader, and
//! [`Machine::to_toml`] its writer. The types of the figures are in
//! [`figures`](super::figures).

pub use super::figures::*;

use super::cpulist::CpuList;
use super::{CacheLevel, Machine, NodeId, NodeKind, NumaNode};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// Version of the format that this reader reads.
pub const FILE_FORMAT: u32 = 1;

/// What is wrong with a machine file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct MachineFileError {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is missing or contradictory.
    pub message: String,
}

impl MachineFileError {
    fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        MachineFileError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    fn from_toml(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        let mut message = error.message().trim().to_owned();
        if let Some(nearest) = suggestion(&message) {
            message.push_str(&format!("; did you mean `{nearest}`?"));
        }
        // The library names the missing key, but only points at its table.
        let shown = text.get(span.clone()).unwrap_or("").trim();
        if message.starts_with("missing field") && shown.starts_with('{') {
            message.push_str(&format!(" in {}", shown.lines().next().unwrap_or("")));
        }
        MachineFileError::at(text, span.start, message)
    }
}

/// The accepted name nearest to the unknown one, from serde's message
/// "unknown field `x`, expected one of `a`, `b`".
fn suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    quoted
        .map(|name| (edits(unknown, name), name))
        .filter(|&(edits, name)| edits <= 2.max(name.len() / 3))
        .min()
        .map(|(_, name)| name.to_owned())
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    format: Spanned<u32>,
    name: String,
    description: Option<String>,
    topology: RawTopology,
    #[serde(rename = "node")]
    nodes: Vec<Spanned<RawNode>>,
    distances: Option<RawDistances>,
    #[serde(default)]
    core: CoreFigures,
    #[serde(default, rename = "cache")]
    caches: Vec<Spanned<CacheFigures>>,
    latency_ns: Option<Spanned<Matrix>>,
    pair_read_gbs: Option<Spanned<Matrix>>,
    #[serde(default)]
    bandwidth: Vec<Spanned<NodeBandwidth>>,
    #[serde(default, rename = "link")]
    links: Vec<Spanned<Link>>,
    #[serde(default)]
    time: TimeFigures,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTopology {
    source: String,
    confidence: Confidence,
    threads_per_core: Option<u32>,
    dies_per_package: Option<u32>,
    line_bytes: Option<u32>,
    #[serde(default)]
    cores: Vec<Spanned<CpuList>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    id: NodeId,
    cpus: Spanned<CpuList>,
    memory_bytes: Option<u64>,
    #[serde(default)]
    kind: NodeKind,
    package: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDistances {
    rows: Spanned<Vec<Vec<u32>>>,
    source: String,
    confidence: Confidence,
}

impl Machine {
    /// Reads a machine file. The first error is returned, with its place.
    pub fn from_toml(text: &str) -> Result<Machine, MachineFileError> {
        let raw: RawFile = toml::from_str(text).map_err(|e| MachineFileError::from_toml(text, &e))?;
        let fail = |span: Range<usize>, message: String| Err(MachineFileError::at(text, span.start, message));
        if *raw.format.get_ref() != FILE_FORMAT {
            return fail(
                raw.format.span(),
                format!(
                    "format {} is not one this nearfar reads; it reads format {FILE_FORMAT}",
                    raw.format.get_ref()
                ),
            );
        }
        if raw.nodes.is_empty() {
            return fail(0..0, "a machine needs at least one [[node]]".into());
        }
        let nodes = read_nodes(&raw, text)?;
        let machine = Machine {
            distances: raw.distances.as_ref().map(|d| d.rows.get_ref().clone()).unwrap_or_default(),
            caches: raw.caches.iter().map(|c| level(c.get_ref())).collect(),
            threads_per_core: raw.topology.threads_per_core.unwrap_or(0),
            name: raw.name.clone(),
            nodes,
            figures: Figures::default(),
        };
        check::distances(&raw, &machine, text)?;
        check::topology(&raw, &machine, text)?;
        check::matrices(&raw, &machine, text)?;
        check::parts(&raw, &machine, text)?;
        let inner = |list: Vec<Spanned<CpuList>>| list.into_iter().map(Spanned::into_inner);
        Ok(Machine {
            figures: Figures {
                description: raw.description,
                topology: Some(Provenance {
                    source: raw.topology.source,
                    confidence: raw.topology.confidence,
                }),
                distances: raw.distances.map(|d| Provenance { source: d.source, confidence: d.confidence }),
                cores: inner(raw.topology.cores).collect(),
                dies_per_package: raw.topology.dies_per_package,
                line_bytes: raw.topology.line_bytes,
                core: raw.core,
                caches: raw.caches.into_iter().map(Spanned::into_inner).collect(),
                latency_ns: raw.latency_ns.map(Spanned::into_inner),
                pair_read_gbs: raw.pair_read_gbs.map(Spanned::into_inner),
                bandwidth: raw.bandwidth.into_iter().map(Spanned::into_inner).collect(),
                links: raw.links.into_iter().map(Spanned::into_inner).collect(),
                time: raw.time,
            },
            ..machine
        })
    }
}

fn level(cache: &CacheFigures) -> CacheLevel {
    CacheLevel {
        level: cache.level,
        size_bytes: cache.size_bytes.value as u64,
        ways: cache.ways.as_ref().map(|w| w.value as u32),
        latency_cycles: cache.latency_cycles.as_ref().map(|l| l.value),
        cores_per_instance: cache.cores_per_instance,
    }
}

fn read_nodes(raw: &RawFile, text: &str) -> Result<Vec<NumaNode>, MachineFileError> {
    let mut nodes: Vec<NumaNode> = Vec::new();
    for spanned in &raw.nodes {
        let node = spanned.get_ref();
        if let Some(last) = nodes.last()
            && last.id >= node.id
        {
            let what = if last.id == node.id { "twice" } else { "after" };
            let message = match what {
                "twice" => format!("node {} is described twice", node.id),
                _ => format!(
                    "node {} comes after node {}; nodes are listed in ascending order, \
                     which is also the order of every matrix",
                    node.id, last.id
                ),
            };
            return Err(MachineFileError::at(text, spanned.span().start, message));
        }
        for other in &nodes {
            if let Some(cpu) = other.cpus.first_common(node.cpus.get_ref()) {
                return Err(MachineFileError::at(
                    text,
                    node.cpus.span().start,
                    format!("cpu {cpu} is in node {} and in node {}", other.id, node.id),
                ));
            }
        }
        nodes.push(NumaNode {
            id: node.id,
            cpus: node.cpus.get_ref().clone(),
            memory_bytes: node.memory_bytes,
            kind: node.kind,
            package: node.package,
        });
    }
    Ok(nodes)
}

/// What must hold between the parts of a file.
mod check {
    use super::*;

    type Checked = Result<(), MachineFileError>;

    fn square<T>(rows: &[Vec<T>], machine: &Machine, what: &str) -> Result<(), String> {
        let n = machine.nodes.len();
        if rows.len() != n {
            return Err(format!("{what} has {} rows, but the machine has {n} nodes", rows.len()));
        }
        match rows.iter().position(|r| r.len() != n) {
            Some(i) => Err(format!(
                "{what}: the row of node {} has {} entries, but the machine has {n} nodes",
                machine.nodes[i].id,
                rows[i].len()
            )),
            None => Ok(()),
        }
    }

    pub(super) fn distances(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
        let Some(distances) = &raw.distances else {
            return Ok(());
        };
        let rows = distances.rows.get_ref();
        let fail = |m: String| MachineFileError::at(text, distances.rows.span().start, m);
        square(rows, machine, "distances").map_err(fail)?;
        for (i, row) in rows.iter().enumerate() {
            if let Some(j) = (0..row.len()).find(|&j| j != i && row[j] < row[i]) {
                return Err(fail(format!(
                    "distances: node {} is nearer to node {} ({}) than that is to itself ({})",
                    machine.nodes[j].id, machine.nodes[i].id, row[j], row[i]
                )));
            }
        }
        Ok(())
    }

    pub(super) fn topology(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
        let mut seen: Vec<u32> = Vec::new();
        for core in &raw.topology.cores {
            let fail = |m: String| Err(MachineFileError::at(text, core.span().start, m));
            for cpu in core.get_ref().iter() {
                if machine.node_of_cpu(cpu).is_none() {
                    return fail(format!("cpu {cpu} of a core is in no node"));
                }
                if seen.contains(&cpu) {
                    return fail(format!("cpu {cpu} is in two cores"));
                }
                seen.push(cpu);
            }
        }
        for cache in &raw.caches {
            let c = cache.get_ref();
            let ways = c.ways.as_ref().map_or(1.0, |w| w.value);
            if c.cores_per_instance == 0 || c.size_bytes.value < 1.0 || ways < 1.0 {
                return Err(MachineFileError::at(
                    text,
                    cache.span().start,
                    format!(
                        "cache level {}: size_bytes, ways and cores_per_instance must be 1 or more",
                        c.level
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn matrices(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
        let latency = raw.latency_ns.iter().map(|m| (m, "latency_ns", true));
        let pairs = raw.pair_read_gbs.iter().map(|m| (m, "pair_read_gbs", false));
        for (spanned, what, local_is_least) in latency.chain(pairs) {
            let matrix = spanned.get_ref();
            let fail = |m: String| MachineFileError::at(text, spanned.span().start, m);
            square(&matrix.rows, machine, what).map_err(fail)?;
            for (i, node) in machine.nodes.iter().enumerate() {
                let row = matrix.rows[i].iter().map(|c| c.0);
                if let Some(bad) = row.flatten().find(|v| !v.is_finite() || *v <= 0.0) {
                    return Err(fail(format!(
                        "{what}: {bad} in the row of node {}; what is not known is written \
                         \"unknown\", never 0",
                        node.id
                    )));
                }
                let Some(own) = matrix.get(i, i).filter(|_| local_is_least) else {
                    continue;
                };
                for (j, other) in machine.nodes.iter().enumerate() {
                    if let Some(far) = matrix.get(i, j).filter(|&far| j != i && far < own) {
                        return Err(fail(format!(
                            "{what}: from node {} to node {} takes {far} ns, less than its own \
                             memory ({own} ns)",
                            node.id, other.id
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn parts(raw: &RawFile, machine: &Machine, text: &str) -> Checked {
        let mut described: Vec<NodeId> = Vec::new();
        for spanned in &raw.bandwidth {
            let fail = |m: String| Err(MachineFileError::at(text, spanned.span().start, m));
            let b = spanned.get_ref();
            for node in b.nodes.iter() {
                if machine.position(node).is_none() {
                    return fail(format!("bandwidth of node {node}, which is not described"));
                }
                if described.contains(&node) {
                    return fail(format!("bandwidth of node {node} is given twice"));
                }
                described.push(node);
            }
            let sustained = [&b.read_gbs, &b.update_gbs, &b.triad_gbs];
            if let Some(peak) = &b.peak_gbs
                && let Some(over) = sustained.into_iter().flatten().map(|f| f.value).find(|&s| s > peak.value)
            {
                return fail(format!("sustained {over} GB/s is above the peak of {} GB/s", peak.value));
            }
        }
        for spanned in &raw.links {
            let fail = |m: String| Err(MachineFileError::at(text, spanned.span().start, m));
            let link = spanned.get_ref();
            if let Some(end) = [link.from, link.to].into_iter().find(|&n| machine.position(n).is_none()) {
                return fail(format!("a link to node {end}, which is not described"));
            }
            if link.from == link.to {
                return fail(format!("a link from node {} to itself", link.from));
            }
            if link.count.value < 1.0 {
                return fail("a link's count must be 1 or more".into());
            }
        }
        Ok(())
    }
}
