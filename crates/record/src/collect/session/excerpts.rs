//! Excerpts in a recording: which events are of copies, when they run, and their rows.

use super::Session;
use crate::collect::excerpts::{Counted, Excerpts, From, Taken};
use nearfar_host::live::Busy;
use nearfar_host::proc;
use nearfar_recording::{Columns, Excerpt, ExcerptBlock};
use std::time::Duration;

impl Session<'_> {
    /// Moves fresh events to the pending ones, without those of copies, which do not belong to the program.
    pub(super) fn take_events(&mut self) {
        let (Some(perf), pending) = (&mut self.perf, &mut self.pending) else {
            return;
        };
        match &self.copies.taking {
            // Held until all are read: what is in the rings of a copy is of one that is known.
            Some(excerpts) => {
                let copies = excerpts.copies();
                perf.drain(|event| {
                    if !copies.contains(&event.pid) {
                        pending.push(event);
                    }
                });
            }
            None => perf.drain(|event| pending.push(event)),
        }
    }

    /// Notes which threads copies were made of, as long as they live.
    pub(super) fn note_copies(&mut self) {
        let begun = self.copies.taking.as_ref().map_or(Vec::new(), Excerpts::begun);
        for From { time_ns, pid, tid } in begun {
            let (processes, tables) = (&mut self.interpreter.processes, &mut self.writer.tables);
            if processes.knows(pid) {
                let space = processes.space_of(pid, time_ns, tables);
                let thread = processes.thread(pid, tid, time_ns, tables);
                let of = (space, thread, processes.spaces[space as usize].maps.clone());
                self.copies.from.insert(time_ns, of);
            }
        }
    }

    /// Runs the copies, now that the program has ended, and keeps what was counted. `untouched`: the terminal is there for a line.
    pub(super) fn count_excerpts(&mut self, untouched: bool) {
        let Some(excerpts) = self.copies.taking.take() else {
            if let Some(why) = self.copies.refused.take() {
                self.writer.lose(proc::monotonic_ns(), "excerpts", 0, why);
            }
            return;
        };
        let before = proc::own_cpu_seconds();
        let counting = untouched.then(|| Busy::with("counting excerpts of the program".to_owned()));
        excerpts.over();
        while !excerpts.done() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let taken = excerpts.end();
        drop(counting);
        // The program did not wait for it.
        self.cpu_before_s += proc::own_cpu_seconds() - before;
        self.keep_excerpts(taken);
    }

    fn keep_excerpts(&mut self, taken: Taken) {
        let now = proc::monotonic_ns();
        if let Some(why) = taken.refused {
            self.writer.lose(now, "excerpts", 0, why);
        } else if taken.excerpts.is_empty() {
            let why = "the program ended before a copy of it was made, or no thread was met that ran";
            self.writer.lose(now, "excerpts", 0, why);
        }
        for (id, (from, ran, exchanged)) in taken.excerpts.into_iter().enumerate() {
            let Some((space, thread, maps)) = self.copies.from.remove(&from.time_ns) else {
                self.writer.lose(
                    now,
                    "excerpts",
                    1,
                    "an excerpt was of a process that is not in the recording",
                );
                continue;
            };
            let id = id as u32;
            let tables = &mut self.writer.tables;
            tables.excerpts.push(Excerpt {
                id,
                time_ns: from.time_ns,
                thread,
                instructions: ran.instructions,
                counted: ran.counted,
                exchanged,
                ended: ran.ended.unwrap_or_default().into(),
            });
            for (address, counted) in ran.blocks {
                let ip = self.interpreter.processes.location_then(space, &maps, address, tables);
                tables.excerpt_blocks.push(row(id, ip, &counted));
            }
        }
    }
}

/// A block's row: of each size, what is not held by it or a smaller one.
fn row(excerpt: u32, ip: u32, counted: &Counted) -> ExcerptBlock {
    let beyond = |lines: &[u64], size: usize| lines[size + 1..].iter().sum();
    let (o, r) = (&counted.in_order, &counted.at_random);
    ExcerptBlock {
        excerpt,
        ip,
        instructions: counted.instructions,
        accesses: counted.accesses,
        in_order_512k: beyond(o, 0),
        in_order_1m: beyond(o, 1),
        in_order_2m: beyond(o, 2),
        in_order_4m: beyond(o, 3),
        in_order_8m: beyond(o, 4),
        in_order_16m: beyond(o, 5),
        in_order_32m: beyond(o, 6),
        in_order_64m: beyond(o, 7),
        at_random_512k: beyond(r, 0),
        at_random_1m: beyond(r, 1),
        at_random_2m: beyond(r, 2),
        at_random_4m: beyond(r, 3),
        at_random_8m: beyond(r, 4),
        at_random_16m: beyond(r, 5),
        at_random_32m: beyond(r, 6),
        at_random_64m: beyond(r, 7),
    }
}
