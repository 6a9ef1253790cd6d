//! Events of an imported file, put in the order of time and through the recorder's interpreter.

use crate::collect::events::Interpreter;
use crate::collect::perf::event::{Body, Event};
use crate::store::Writer;
use anyhow::Result;
use nearfar_host::symbols::Module;
use nearfar_recording::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Events that wait for others with an earlier time, at most; a file of perf says with its rounds when it need not.
/// // chosen: 200 MiB
const MOST_WAITING: usize = 1 << 20;
/// Damaged places that are named; the others are counted. // chosen
const MOST_NAMED: usize = 100;
/// Rows in memory before they are written to the journal. // chosen
const MOST_ROWS: usize = 1 << 18;

/// Takes events.
pub(super) struct Feed {
    interpreter: Interpreter,
    writer: Writer,
    waiting: Vec<(Event, u32)>,
    /// Latest time of this round and of the one before, ns.
    latest: u64,
    before: u64,
    last_done: u64,
    /// Damaged places: those that are named, and how many there are.
    damage: Vec<String>,
    damaged: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// What is known when all was fed.
pub(super) struct Told {
    pub(super) damage: Vec<String>,
    pub(super) summary: Vec<String>,
    pub(super) modules: HashMap<u32, Arc<Module>>,
}

impl Feed {
    pub(super) fn new(writer: Writer) -> Feed {
        let mut interpreter = Interpreter::new(0, true);
        interpreter.processes.imported = true;
        Feed {
            interpreter,
            writer,
            waiting: Vec::new(),
            latest: 0,
            before: 0,
            last_done: 0,
            damage: Vec::new(),
            damaged: 0,
            first_ns: None,
            last_ns: 0,
        }
    }

    /// Names a damaged place.
    pub(super) fn damaged(&mut self, what: String) {
        self.damaged += 1;
        if self.damage.len() < MOST_NAMED {
            self.damage.push(what);
        }
    }

    /// Notes a loss that the file itself tells of.
    pub(super) fn lose(&mut self, time_ns: u64, what: &str, count: u64, why: &str) {
        self.writer.lose(time_ns, what, count, why);
    }

    /// Adds a counter's value.
    pub(super) fn counter(&mut self, row: Counter) {
        self.last_ns = self.last_ns.max(row.time_ns);
        self.first_ns.get_or_insert(0);
        self.writer.tables.counters.push(row);
    }

    /// Notes that nodes and cpus are not those of the machine.
    pub(super) fn lose_machine(&mut self) {
        let why = "the file does not say which nodes the machine has: give the machine with --as";
        self.lose(0, "parts of the machine's description", 0, why);
    }

    /// Adds an event; a clock sample stands for `weight_ns` of CPU time.
    pub(super) fn event(&mut self, event: Event, weight_ns: u32) {
        self.latest = self.latest.max(event.time_ns);
        if matches!(event.body, Body::Clock { .. } | Body::Memory(_) | Body::Fault { .. }) {
            self.first_ns = Some(self.first_ns.map_or(event.time_ns, |first| first.min(event.time_ns)));
            self.last_ns = self.last_ns.max(event.time_ns);
        }
        self.waiting.push((event, weight_ns));
        if self.waiting.len() >= MOST_WAITING {
            // Half of them: those that still come are later than most of these.
            self.waiting.sort_by_key(|(event, _)| event.time_ns);
            let upto = self.waiting[MOST_WAITING / 2].0.time_ns;
            self.interpret(upto);
        }
    }

    /// Nothing that is still to come is earlier than the end of the round before.
    pub(super) fn round(&mut self) {
        self.waiting.sort_by_key(|(event, _)| event.time_ns);
        self.interpret(self.before);
        self.before = self.latest;
    }

    /// Interprets what waits up to a time.
    fn interpret(&mut self, upto: u64) {
        let ready = self.waiting.partition_point(|(event, _)| event.time_ns <= upto);
        for (event, weight_ns) in self.waiting.drain(..ready) {
            self.last_done = self.last_done.max(event.time_ns);
            self.interpreter.sample_weight_ns = weight_ns;
            let started = match &event.body {
                Body::Mmap { protection, name, .. } if protection & 4 != 0 && name.starts_with('/') => {
                    Some((event.pid, name.clone()))
                }
                _ => None,
            };
            let time_ns = event.time_ns;
            self.interpreter.event(event, &mut self.writer.tables);
            if let Some((pid, name)) = started {
                // The first code that is mapped is the program's, except for its loader.
                let space = self.interpreter.processes.space_of(pid, time_ns, &mut self.writer.tables);
                let processes = &mut self.writer.tables.processes;
                if let Some(at) = processes.id.iter().position(|&id| id == space)
                    && processes.executable[at].is_empty()
                    && !name.contains("/ld-linux")
                {
                    processes.executable[at] = name;
                }
            }
        }
        if self.writer.tables.samples.len() + self.writer.tables.faults.len() >= MOST_ROWS {
            self.interpreter.flushed();
            let _ = self.writer.flush();
        }
    }

    /// Interprets the rest.
    ///
    /// # Errors
    /// If the recording cannot be written.
    pub(super) fn finish(mut self, sources: Vec<SourceReport>) -> Result<(Writer, Told)> {
        self.waiting.sort_by_key(|(event, _)| event.time_ns);
        self.interpret(u64::MAX);
        let meta = &mut self.writer.meta;
        meta.start_ns = self.first_ns.unwrap_or(0);
        meta.end_ns = self.last_ns.max(meta.start_ns);
        meta.sources = sources;
        let end = meta.end_ns;
        for (what, count, why) in [
            (LOST_PERF, self.interpreter.lost, "perf's ring was full: samples or faults are missing"),
            ("throttled", self.interpreter.throttled, "the kernel paused sampling to limit its cost"),
            ("damaged", self.damaged, "places of the imported file that could not be read"),
        ] {
            if count > 0 {
                self.writer.lose(end, what, count, why);
            }
        }
        if self.damaged > self.damage.len() as u64 {
            self.damage.push(format!("and {} places more", self.damaged - self.damage.len() as u64));
        }
        let told =
            Told { damage: self.damage, summary: Vec::new(), modules: self.interpreter.processes.opened() };
        Ok((self.writer, told))
    }
}
