//! What a machine must tell before it can be simulated or timed, and what of it
//! is missing. What is known but contradictory is found when its file is read.

use super::Machine;
use std::fmt;

/// A figure that is not known, and how to say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is not known, in words.
    pub what: String,
    /// What to write into the machine file.
    pub write: String,
}

impl Missing {
    /// A figure `key` that belongs into `table`.
    pub fn figure(what: impl Into<String>, key: &str, table: &str) -> Missing {
        let write = format!("`{key} = {{ value = …, source = \"…\", confidence = \"H\" }}` in {table}");
        Missing { what: what.into(), write }
    }

    /// Something else.
    pub fn other(what: impl Into<String>, write: impl Into<String>) -> Missing {
        Missing { what: what.into(), write: write.into() }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: write {}", self.what, self.write)
    }
}

impl Machine {
    /// What the cache simulation needs and this machine does not say. Empty if it
    /// can be simulated.
    pub fn missing_to_simulate(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.caches.is_empty() {
            let write = "a [[cache]] for each level with `level`, `cores_per_instance`, `size_bytes`, `ways`, \
                         `latency_cycles` and `inclusion`";
            missing.push(Missing::other("the caches", write));
        }
        for (i, cache) in self.caches.iter().enumerate() {
            let level = cache.level;
            let table = format!("the [[cache]] with `level = {level}`");
            if cache.ways.is_none() {
                missing.push(Missing::figure(format!("associativity of the L{level}"), "ways", &table));
            }
            if cache.latency_cycles.is_none() {
                missing.push(Missing::figure(format!("latency of the L{level}"), "latency_cycles", &table));
            }
            let inclusion = self.figures.caches.get(i).and_then(|f| f.inclusion);
            if i > 0 && inclusion.is_none() {
                missing.push(Missing::other(
                    format!("what the L{level} keeps of the level inside it"),
                    format!("`inclusion = \"inclusive\"`, `\"exclusive\"`, `\"victim\"` or `\"neither\"` in {table}"),
                ));
            }
        }
        missing.extend(self.missing_clock());
        missing.extend(self.missing_latencies());
        missing
    }

    /// What the time model needs and this machine does not say. Empty if traffic on
    /// it can be timed.
    pub fn missing_to_time(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> = self.missing_clock().into_iter().collect();
        missing.extend(self.missing_latencies());
        if self.figures.core.outstanding_lines.is_none() {
            let what = "cache lines that one core can have in flight";
            missing.push(Missing::figure(what, "outstanding_lines", "[core]"));
        }
        for node in &self.nodes {
            let known = self.figures.bandwidth_of(node.id).is_some_and(|b| b.rate(0.0).is_some());
            if !known {
                let what = format!("sustained bandwidth of the memory of node {}", node.id);
                let table = format!("a [[bandwidth]] with `nodes = \"{}\"`", node.id);
                missing.push(Missing::figure(what, "read_gbs", &table));
            }
        }
        if !self.figures.links.is_empty() && self.figures.time.control_bytes.is_none() {
            missing.push(Missing::figure("control bytes per message on a link", "control_bytes", "[time]"));
        }
        missing
    }

    /// Clock and instructions per cycle.
    fn missing_clock(&self) -> Vec<Missing> {
        let core = &self.figures.core;
        let mut missing = Vec::new();
        if core.clock_ghz().is_none() {
            missing.push(Missing::figure("clock with all cores busy", "all_core_ghz", "[core]"));
        }
        if core.ipc.is_none() {
            let what = "instructions per cycle while nothing waits for memory";
            missing.push(Missing::figure(what, "ipc", "[core]"));
        }
        missing
    }

    /// Latencies from nodes with cpus, all in one entry: they are one matrix.
    fn missing_latencies(&self) -> Option<Missing> {
        let known = |row: usize, column: usize| {
            self.figures.latency_ns.as_ref().is_some_and(|m| m.get(row, column).is_some())
        };
        let unknown =
            self.nodes.iter().enumerate().filter(|(_, n)| !n.cpus.is_empty()).find_map(|(i, node)| {
                let column = (0..self.nodes.len()).find(|&j| !known(i, j))?;
                Some((node.id, self.nodes[column].id))
            });
        let (from, to) = unknown?;
        Some(Missing::other(
            format!("latency from node {from} to the memory of node {to}"),
            "a number for every node with cpus into the `rows` of [latency_ns]",
        ))
    }
}
