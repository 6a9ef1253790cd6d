//! pprof's profile.proto (github.com/google/pprof, numbers of fields from there), not compressed: pprof reads both.

use super::protobuf::Message;
use super::samples::{Samples, Weight};
use std::collections::HashMap;

/// Texts by number; 0 is the empty one.
struct Texts<'a> {
    all: Vec<&'a str>,
    numbers: HashMap<&'a str, u64>,
}

impl<'a> Texts<'a> {
    fn of(&mut self, text: &'a str) -> u64 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() as u64 - 1
        })
    }
}

/// The profile: samples, weight, and that of far memory, which is the second value of every sample.
pub fn profile(samples: &Samples, by: Weight) -> Vec<u8> {
    let mut texts = Texts { all: vec![""], numbers: HashMap::from([("", 0)]) };
    let mut out = Message::default();
    let unit = match samples.unit(by) {
        "ns" => "nanoseconds",
        other => other,
    };
    let kind = match by {
        Weight::All => "weight",
        Weight::Remote => "remote",
        Weight::Latency => "latency",
    };
    for (name, unit) in [("samples", "count"), (kind, unit), ("far", unit)] {
        let mut value = Message::default();
        value.number(1, texts.of(name)).number(2, texts.of(unit));
        out.bytes(1, &value.0);
    }
    // Samples with the same stack, thread, object and place are one.
    type Key<'a> = (&'a [u32], u32, Option<u32>, &'static str);
    let mut sums: HashMap<Key<'_>, [u64; 3]> = HashMap::new();
    for s in &samples.samples {
        let Some(weight) = samples.weight(s, by) else { continue };
        let sum = sums.entry((&s.stack, s.thread, s.object, Samples::place(s))).or_default();
        let far = if s.remote == Some(true) { weight } else { 0 };
        for (sum, more) in sum.iter_mut().zip([1, weight, far]) {
            *sum = sum.saturating_add(more);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable();
    for ((stack, thread, object, place), values) in sums {
        let mut sample = Message::default();
        let stack: Vec<u64> = stack.iter().map(|&frame| u64::from(frame) + 1).collect();
        sample.packed(1, &stack).packed(2, &values);
        let name = samples.threads.get(thread as usize).map_or("", |t| t.name.as_str());
        let object = object.and_then(|o| samples.objects.get(o as usize)).map_or("", String::as_str);
        for (key, text) in [("thread", name), ("object", object), ("memory", place)] {
            let mut label = Message::default();
            label.number(1, texts.of(key)).number(2, texts.of(text));
            sample.bytes(3, &label.0);
        }
        out.bytes(2, &sample.0);
    }
    let mut modules: Vec<&str> = samples.frames.iter().map(|f| f.module.as_str()).collect();
    modules.sort_unstable();
    modules.dedup();
    for (i, module) in modules.iter().enumerate() {
        let mut mapping = Message::default();
        // Functions, files, lines and inlined frames are known: pprof need not look.
        mapping.number(1, i as u64 + 1).number(5, texts.of(module));
        (7..=10).for_each(|field| {
            mapping.number(field, 1);
        });
        out.bytes(3, &mapping.0);
    }
    for (i, frame) in samples.frames.iter().enumerate() {
        let id = i as u64 + 1;
        let module = modules.binary_search(&frame.module.as_str()).map_or(0, |m| m as u64 + 1);
        let (mut location, mut line) = (Message::default(), Message::default());
        line.number(1, id).number(2, u64::from(frame.line));
        location.number(1, id).number(2, module).number(3, frame.address).bytes(4, &line.0);
        out.bytes(4, &location.0);
        let mut function = Message::default();
        let name = texts.of(&frame.function);
        function.number(1, id).number(2, name).number(3, name).number(4, texts.of(&frame.file));
        out.bytes(5, &function.0);
    }
    for text in &texts.all {
        out.bytes(6, text.as_bytes());
    }
    let times = || samples.samples.iter().map(|s| s.time_ns);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    out.number(10, last - first);
    out.0
}
