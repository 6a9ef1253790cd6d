//! The machine file: a described machine in TOML, every number with its source.
//!
//! docs/machine-file.md describes the format for people; this is its reader, and
//! [`Machine::to_toml`] its writer. The types of the figures are in
//! [`figures`](super::figures).

pub use super::figures::*;
pub use super::raw::MachineFileError;

use super::check;
use super::cpulist::CpuList;
use super::raw::RawFile;
use super::{CacheLevel, Machine, NumaNode};
use std::ops::Range;
use toml::Spanned;

/// Version of the format that this reader reads.
pub const FILE_FORMAT: u32 = 1;

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
