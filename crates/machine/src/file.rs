//! The machine file: a described machine in TOML, every number with its source.
//!
//! docs/machine-file.md describes the format for people; this is its reader, and
//! [`Machine::to_toml`] its writer. The types of the figures are in
//! [`figures`](super::figures).

pub use super::figures::*;

use super::check;
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
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
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
pub(super) struct RawFile {
    pub(super) format: Spanned<u32>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) topology: RawTopology,
    #[serde(rename = "node")]
    pub(super) nodes: Vec<Spanned<RawNode>>,
    pub(super) distances: Option<RawDistances>,
    #[serde(default)]
    pub(super) core: CoreFigures,
    #[serde(default, rename = "cache")]
    pub(super) caches: Vec<Spanned<CacheFigures>>,
    #[serde(default, rename = "tlb")]
    pub(super) tlbs: Vec<Spanned<TlbFigures>>,
    pub(super) latency_ns: Option<Spanned<Matrix>>,
    pub(super) pair_read_gbs: Option<Spanned<Matrix>>,
    #[serde(default)]
    pub(super) bandwidth: Vec<Spanned<NodeBandwidth>>,
    #[serde(default, rename = "link")]
    pub(super) links: Vec<Spanned<Link>>,
    #[serde(default = "no_time")]
    pub(super) time: Spanned<TimeFigures>,
}

fn no_time() -> Spanned<TimeFigures> {
    Spanned::new(0..0, TimeFigures::default())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTopology {
    pub(super) source: String,
    pub(super) confidence: Confidence,
    pub(super) threads_per_core: Option<u32>,
    pub(super) dies_per_package: Option<u32>,
    pub(super) line_bytes: Option<u32>,
    #[serde(default)]
    pub(super) interleaved: bool,
    #[serde(default)]
    pub(super) cores: Vec<Spanned<CpuList>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNode {
    pub(super) id: NodeId,
    pub(super) cpus: Spanned<CpuList>,
    pub(super) memory_bytes: Option<u64>,
    #[serde(default)]
    pub(super) kind: NodeKind,
    pub(super) package: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDistances {
    pub(super) rows: Spanned<Vec<Vec<u32>>>,
    pub(super) source: String,
    pub(super) confidence: Confidence,
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
        check::tlbs(&raw, text)?;
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
                interleaved: raw.topology.interleaved,
                core: raw.core,
                caches: raw.caches.into_iter().map(Spanned::into_inner).collect(),
                tlbs: raw.tlbs.into_iter().map(Spanned::into_inner).collect(),
                latency_ns: raw.latency_ns.map(Spanned::into_inner),
                pair_read_gbs: raw.pair_read_gbs.map(Spanned::into_inner),
                bandwidth: raw.bandwidth.into_iter().map(Spanned::into_inner).collect(),
                links: raw.links.into_iter().map(Spanned::into_inner).collect(),
                time: raw.time.into_inner(),
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
