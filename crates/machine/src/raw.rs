//! A machine file as TOML has it, before anything is checked, and what is wrong with one.

use super::cpulist::CpuList;
use super::figures::*;
use super::{NodeId, NodeKind};
use serde::Deserialize;
use toml::Spanned;

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

    pub(super) fn from_toml(text: &str, error: &toml::de::Error) -> Self {
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
        .map(|name| (strsim::levenshtein(unknown, name), name))
        .filter(|&(edits, name)| edits <= 2.max(name.len() / 3))
        .min()
        .map(|(_, name)| name.to_owned())
}

/// A machine file as TOML has it.
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

/// Its `[topology]`.
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

/// A `[[node]]`.
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

/// Its `[distances]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDistances {
    pub(super) rows: Spanned<Vec<Vec<u32>>>,
    pub(super) source: String,
    pub(super) confidence: Confidence,
}
