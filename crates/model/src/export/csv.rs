//! A line for each sample, with commas: for spreadsheets and scripts.

use super::samples::Samples;

/// The columns, in their order.
pub const COLUMNS: &str = "time_ns,pid,tid,thread,cpu,node,page_node,remote,source,access,served,latency_cycles,weight,unit,object,\
                           address,function,at,module";

/// The text. What is unknown is empty, never 0.
pub fn text(samples: &Samples) -> String {
    let mut out = format!("{COLUMNS}\n");
    for s in &samples.samples {
        let thread = samples.threads.get(s.thread as usize).cloned().unwrap_or_default();
        let frame =
            s.stack.first().and_then(|&f| samples.frames.get(f as usize)).cloned().unwrap_or_default();
        let number = |n: Option<u32>| n.map_or(String::new(), |n| n.to_string());
        let fields = [
            s.time_ns.to_string(),
            thread.pid.to_string(),
            thread.tid.to_string(),
            quoted(&thread.name),
            if s.cpu == u16::MAX { String::new() } else { s.cpu.to_string() },
            number(s.node),
            number(s.page_node),
            s.remote.map_or(String::new(), |r| u8::from(r).to_string()),
            s.from.to_owned(),
            s.access.map_or(String::new(), |a| a.text().to_owned()),
            s.served.map_or(String::new(), |v| quoted(v.text())),
            number(Some(s.latency_cycles).filter(|&c| c > 0)),
            s.weight.to_string(),
            samples.unit.to_owned(),
            quoted(s.object.and_then(|o| samples.objects.get(o as usize)).map_or("", String::as_str)),
            if s.address == 0 { String::new() } else { format!("0x{:x}", s.address) },
            quoted(&frame.function),
            quoted(&if frame.line > 0 {
                format!("{}:{}", frame.file, frame.line)
            } else {
                frame.file.clone()
            }),
            quoted(&frame.module),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

/// A text as RFC 4180 has it. A spreadsheet takes what begins with one of `=+-@` for a formula: it gets a quote before it.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = if clean.starts_with(['=', '+', '-', '@']) { format!("'{clean}") } else { clean };
    match clean.contains([',', '"', '\'']) {
        true => format!("\"{}\"", clean.replace('"', "\"\"")),
        false => clean,
    }
}
