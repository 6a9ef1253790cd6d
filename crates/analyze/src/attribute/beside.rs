//! Samples beside those that shares are of, where the processor sampled loads: what caches answered, stores, and time.

use super::worker::Worker;
use crate::memory_time::{Answer, Clocked, Loaded};
use crate::nodes::UNKNOWN;
use nearfar_recording::{Access, AccessSamples, NONE, Resolution, SampleSource, Served};

impl Worker<'_> {
    /// Counts such a sample.
    pub(super) fn beside(&mut self, s: &AccessSamples, i: usize, space: u32, thread: u32, block: usize) {
        let resolution = Resolution::from_code(s.resolution[i]).unwrap_or(Resolution::Unresolved);
        if resolution == Resolution::Spinning {
            return;
        }
        let source = SampleSource::from_code(s.source[i]);
        let stored = [Access::Store as u8, Access::LoadStore as u8].contains(&s.access[i]);
        let in_flight = s.served[i] == Served::InFlight as u8;
        let look = match source {
            Some(SampleSource::Clock | SampleSource::Signal) => resolution != Resolution::Compute,
            Some(SampleSource::Hardware) if stored => s.served[i] != Served::Cache as u8,
            Some(SampleSource::Hardware) => in_flight,
            _ => return,
        };
        let (mut row, mut far) = (None, None);
        if look && resolution != Resolution::Unresolved {
            let thing = self.thing(space, s.address[i], s.time_ns[i]);
            let page = self.page_node(space, s.address[i], s.time_ns[i], thing, resolution);
            let node = self.context.finder.nodes.running(thread, s.cpu[i]);
            row = thing.map(|t| self.context.rows.of_thing[t as usize]);
            far = (page.node != UNKNOWN && node != UNKNOWN).then(|| self.class(node, page) != 0);
        }
        let beside = &mut self.counters.beside;
        if source == Some(SampleSource::Hardware) {
            if stored {
                beside.stores[1][0] += u64::from(far == Some(true));
                beside.stores[1][1] += u64::from(far.is_some());
            }
            let answer = match far {
                // A line on its way makes the thread wait as its memory does.
                Some(true) if in_flight => Answer::Far,
                Some(false) if in_flight => Answer::Near,
                _ => Answer::Cache,
            };
            self.load(s, i, thread, block, answer, row);
            return;
        }
        let time = u64::from(s.weight_ns[i].max(1));
        beside.stores[0][0] += u64::from(stored && far == Some(true));
        beside.stores[0][1] += 1;
        let memory = resolution != Resolution::Compute;
        let parts = [true, memory, far.is_some(), far == Some(true)].map(|part| if part { time } else { 0 });
        beside.clock[0] += 1;
        beside.clock[1..].iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        if thread != NONE {
            // What loads and stores the same waits for its load.
            let store = s.access[i] == Access::Store as u8;
            let sample = Clocked { time, memory, store, far, row };
            self.counters.memory_time.clock(thread, block as u32, &sample);
        }
    }

    /// Counts how long a sampled load took. Stores have no latency that means the same.
    pub(super) fn load(
        &mut self,
        s: &AccessSamples,
        i: usize,
        thread: u32,
        block: usize,
        answer: Answer,
        row: Option<u32>,
    ) {
        if thread == NONE || s.access[i] == Access::Store as u8 {
            return;
        }
        let (events, latency) = (u64::from(s.period[i].max(1)), s.latency_cycles[i]);
        let load = Loaded { answer, events, latency, row };
        self.counters.memory_time.load(thread, block as u32, &load);
    }
}
