//! Writes a machine file, in the order in which people read one.

use super::Machine;
use super::figures::*;
use std::fmt::{Display, Write};

/// Source of a number that came without one.
const NO_SOURCE: &str = "not recorded";

impl Machine {
    /// The machine as a machine file. [`Machine::from_toml`] reads it back to the
    /// same value, except that numbers without a source get "not recorded" and
    /// the lowest confidence.
    pub fn to_toml(&self) -> String {
        let mut out = Out(String::new());
        let f = &self.figures;
        out.line("format", super::file::FILE_FORMAT);
        out.line("name", quoted(&self.name));
        if let Some(description) = &f.description {
            out.line("description", quoted(description));
        }
        out.matrix("latency_ns", &f.latency_ns);
        out.matrix("pair_read_gbs", &f.pair_read_gbs);

        out.head("[topology]");
        out.provenance(f.topology.as_ref());
        if self.threads_per_core > 0 {
            out.line("threads_per_core", self.threads_per_core);
        }
        out.optional("dies_per_package", f.dies_per_package);
        out.optional("line_bytes", f.line_bytes);
        out.optional("interleaved", f.interleaved.then_some(true));
        if !f.cores.is_empty() {
            let cores: Vec<String> = f.cores.iter().map(|c| format!("\"{c}\"")).collect();
            out.line("cores", format!("[{}]", cores.join(", ")));
        }
        for node in &self.nodes {
            out.head("[[node]]");
            out.line("id", node.id);
            out.line("cpus", format!("\"{}\"", node.cpus));
            out.optional("memory_bytes", node.memory_bytes);
            let kind = format!("{:?}", node.kind).to_lowercase();
            out.line("kind", quoted(&kind));
            out.optional("package", node.package);
        }
        if !self.distances.is_empty() {
            out.head("[distances]");
            out.provenance(f.distances.as_ref());
            let rows = self.distances.iter().map(|r| r.iter().map(u32::to_string));
            out.line("rows", rows_of(rows));
        }
        let core = &f.core;
        if *core != CoreFigures::default() {
            out.head("[core]");
            out.figure("base_ghz", &core.base_ghz);
            out.figure("all_core_ghz", &core.all_core_ghz);
            out.figure("ipc", &core.ipc);
            out.figure("outstanding_lines", &core.outstanding_lines);
            out.figure("read_gbs", &core.read_gbs);
            out.figure("update_gbs", &core.update_gbs);
            out.figure("prefetch_lines", &core.prefetch_lines);
            out.figure("walk_cycles", &core.walk_cycles);
            out.figure("page_walkers", &core.page_walkers);
            out.figure("f64_gflops", &core.f64_gflops);
            out.figure("f32_gflops", &core.f32_gflops);
        }
        for cache in self.cache_figures() {
            out.head("[[cache]]");
            out.line("level", cache.level);
            out.line("cores_per_instance", cache.cores_per_instance);
            if let Some(inclusion) = cache.inclusion {
                let word = format!("{inclusion:?}").to_lowercase();
                out.line("inclusion", quoted(&word));
            }
            out.figure("size_bytes", &Some(cache.size_bytes));
            out.figure("ways", &cache.ways);
            out.figure("latency_cycles", &cache.latency_cycles);
            out.figure("read_gbs", &cache.read_gbs);
            out.figure("write_gbs", &cache.write_gbs);
        }
        for tlb in &f.tlbs {
            out.head("[[tlb]]");
            out.line("level", tlb.level);
            out.line("page_bytes", format!("{:?}", tlb.page_bytes));
            out.figure("entries", &Some(tlb.entries.clone()));
            out.figure("ways", &tlb.ways);
        }
        for b in &f.bandwidth {
            out.head("[[bandwidth]]");
            out.line("nodes", format!("\"{}\"", b.nodes));
            out.figure("peak_gbs", &b.peak_gbs);
            out.figure("read_gbs", &b.read_gbs);
            out.figure("update_gbs", &b.update_gbs);
            out.figure("triad_gbs", &b.triad_gbs);
        }
        for link in &f.links {
            out.head("[[link]]");
            out.line("from", link.from);
            out.line("to", link.to);
            out.figure("count", &Some(link.count.clone()));
            out.figure("gbs_per_direction", &Some(link.gbs_per_direction.clone()));
        }
        if f.time != TimeFigures::default() {
            out.head("[time]");
            out.figure("control_bytes", &f.time.control_bytes);
            out.figure("eta", &f.time.eta);
            out.figure("remote_lines", &f.time.remote_lines);
            out.figure("probe_share", &f.time.probe_share);
            out.figure("directory_write_share", &f.time.directory_write_share);
        }
        out.0
    }

    /// The caches with their sources; levels that have none get `NO_SOURCE`.
    pub fn cache_figures(&self) -> Vec<CacheFigures> {
        if !self.figures.caches.is_empty() {
            return self.figures.caches.clone();
        }
        let plain = |value: f64| Figure { value, source: NO_SOURCE.to_owned(), confidence: Confidence::M };
        self.caches
            .iter()
            .map(|c| CacheFigures {
                level: c.level,
                size_bytes: plain(c.size_bytes as f64),
                cores_per_instance: c.cores_per_instance,
                inclusion: None,
                ways: c.ways.map(|w| plain(f64::from(w))),
                latency_cycles: c.latency_cycles.map(plain),
                read_gbs: None,
                write_gbs: None,
            })
            .collect()
    }
}

struct Out(String);

impl Out {
    fn line(&mut self, key: &str, value: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn optional(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(key, value);
        }
    }

    fn head(&mut self, head: &str) {
        self.0.push('\n');
        self.0.push_str(head);
        self.0.push('\n');
    }

    fn provenance(&mut self, provenance: Option<&Provenance>) {
        let (source, confidence) = match provenance {
            Some(p) => (p.source.as_str(), p.confidence),
            None => (NO_SOURCE, Confidence::M),
        };
        self.line("source", quoted(source));
        self.line("confidence", quoted(confidence.as_str()));
    }

    fn figure(&mut self, key: &str, figure: &Option<Figure>) {
        if let Some(f) = figure {
            let text = format!(
                "{{ value = {}, source = {}, confidence = \"{}\" }}",
                number(f.value),
                quoted(&f.source),
                f.confidence.as_str()
            );
            self.line(key, text);
        }
    }

    fn matrix(&mut self, key: &str, matrix: &Option<Matrix>) {
        if let Some(m) = matrix {
            let rows = m.rows.iter().map(|r| {
                r.iter().map(|cell| match cell.0 {
                    Some(v) => number(v),
                    None => "\"unknown\"".to_owned(),
                })
            });
            self.head(&format!("[{key}]"));
            self.provenance(Some(&Provenance { source: m.source.clone(), confidence: m.confidence }));
            self.line("rows", rows_of(rows));
        }
    }
}

/// As TOML reads it back: without a point or an exponent it is an integer, which has 64 bits at most.
fn number(value: f64) -> String {
    match value.abs() < 1e15 {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// `[[…], […]]`, a row per line.
fn rows_of(rows: impl Iterator<Item = impl Iterator<Item = String>>) -> String {
    let rows: Vec<String> = rows.map(|r| format!("  [{}],\n", r.collect::<Vec<_>>().join(", "))).collect();
    format!("[\n{}]", rows.concat())
}

/// A TOML string, escaped.
fn quoted(text: &str) -> String {
    nearfar_figures::escape::toml(text)
}
