//! What `perf script` prints, for the tools that read it: a header line for each sample, the stack below it, an empty line.

use super::perf::{event_of, events, source_bits};
use super::samples::{Samples, Weight};
use std::fmt::Write;

/// The text. A sample's period is its weight.
pub fn text(samples: &Samples, by: Weight) -> String {
    let names = events(samples);
    let mut out = String::new();
    for s in &samples.samples {
        let Some(weight) = samples.weight(s, by) else { continue };
        let thread = samples.threads.get(s.thread as usize).cloned().unwrap_or_default();
        let name = if thread.name.is_empty() { format!(":{}", thread.tid) } else { one_line(&thread.name) };
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{name:>16} {:>5}/{:<5} [{:03}] {:>5}.{:09}: {weight:>10} {}: ",
            thread.pid,
            thread.tid,
            s.cpu,
            s.time_ns / 1_000_000_000,
            s.time_ns % 1_000_000_000,
            names[event_of(&names, s)],
        );
        if s.address != 0 {
            let _ = write!(out, "{:>16x} ", s.address);
        }
        if let Some(bits) = source_bits(s) {
            let _ = write!(
                out,
                "{bits:>16x} |{} {:>16}",
                s.served.map_or("unknown", |v| v.text()),
                s.latency_cycles
            );
        }
        out.push('\n');
        for frame in s.stack.iter().filter_map(|&f| samples.frames.get(f as usize)) {
            let module = if frame.module.is_empty() { "[unknown]" } else { &frame.module };
            let _ = writeln!(
                out,
                "\t{:>16x} {} ({})",
                frame.address,
                one_line(&frame.function),
                one_line(module)
            );
        }
        out.push('\n');
    }
    out
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '_' } else { c }).collect()
}
