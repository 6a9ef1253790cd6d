//! What each thread's time goes to, by block of time: what the clock's samples say of it, and the cycles that the
//! processor's samples of loads took. `gain` predicts from these sums.

use super::hash::Sums;

/// One thread in one block of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Samples of the clock while it worked.
    pub clock: u64,
    /// Their time, ns.
    pub time: u64,
    /// Of that, in instructions that load, ns.
    pub loads: u64,
    /// In instructions that only store, ns.
    pub stores: u64,
    /// Of the time in stores, what is on pages of a known node, ns.
    pub known_stores: u64,
    /// Of that, what is on far pages, ns.
    pub far_stores: u64,
    /// Sampled loads with a latency: answered by caches, by near memory, by far memory.
    pub sampled: [u64; 3],
    /// Cycles of all loads that these stand for.
    pub cycles: [u64; 3],
    /// How many loads these are.
    pub events: [u64; 3],
}

/// One thread's far accesses to one row in one block of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Far {
    /// Cycles of its loads from far memory.
    pub cycles: u64,
    /// Time of the clock's samples in its stores to far pages, ns.
    pub stores: u64,
}

/// A sample of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clocked {
    /// The time that it stands for, ns.
    pub time: u64,
    /// Whether its instruction touches memory.
    pub memory: bool,
    /// Whether that only stores.
    pub store: bool,
    /// Whether its page is far; `None` if the page's node is not known.
    pub far: Option<bool>,
    /// The row that it is on.
    pub row: Option<u32>,
}

/// What answered a sampled load: a position in [`Spent::cycles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A cache, or nothing is known.
    Cache,
    /// Memory of the thread's own node.
    Near,
    /// Memory of another node.
    Far,
}

/// A load that the processor sampled.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// What answered it.
    pub answer: Answer,
    /// How many loads it stands for.
    pub events: u64,
    /// Its latency, cycles; 0 if unknown.
    pub latency: u32,
    /// The row that it is on.
    pub row: Option<u32>,
}

/// The sums of all threads.
#[derive(Clone, Debug, Default)]
pub struct MemoryTime {
    /// By (thread, block).
    pub threads: Sums<(u32, u32), Spent>,
    /// By (row, thread, block).
    pub rows: Sums<(u32, u32, u32), Far>,
}

impl MemoryTime {
    /// Counts a sample of the clock.
    pub fn clock(&mut self, thread: u32, block: u32, sample: &Clocked) {
        let spent = self.threads.of((thread, block));
        spent.clock += 1;
        spent.time += sample.time;
        if !sample.memory {
            return;
        }
        if !sample.store {
            spent.loads += sample.time;
            return;
        }
        spent.stores += sample.time;
        spent.known_stores += if sample.far.is_some() { sample.time } else { 0 };
        if sample.far == Some(true) {
            spent.far_stores += sample.time;
            if let Some(row) = sample.row {
                self.rows.of((row, thread, block)).stores += sample.time;
            }
        }
    }

    /// Counts a load that the processor sampled; not one without a latency.
    pub fn load(&mut self, thread: u32, block: u32, load: &Loaded) {
        let &Loaded { answer, events, latency, row } = load;
        if latency == 0 {
            return;
        }
        let cycles = events.saturating_mul(u64::from(latency));
        let spent = self.threads.of((thread, block));
        spent.sampled[answer as usize] += 1;
        spent.cycles[answer as usize] = spent.cycles[answer as usize].saturating_add(cycles);
        spent.events[answer as usize] = spent.events[answer as usize].saturating_add(events);
        if let (Answer::Far, Some(row)) = (answer, row) {
            let far = self.rows.of((row, thread, block));
            far.cycles = far.cycles.saturating_add(cycles);
        }
    }

    /// Adds another worker's sums.
    pub fn merge(&mut self, other: MemoryTime) {
        for (key, from) in other.threads {
            let to = self.threads.of(key);
            to.clock += from.clock;
            to.time += from.time;
            to.loads += from.loads;
            to.stores += from.stores;
            to.known_stores += from.known_stores;
            to.far_stores += from.far_stores;
            let add = |to: &mut [u64; 3], from: [u64; 3]| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = to.saturating_add(from));
            };
            add(&mut to.sampled, from.sampled);
            add(&mut to.cycles, from.cycles);
            add(&mut to.events, from.events);
        }
        for (key, from) in other.rows {
            let to = self.rows.of(key);
            to.cycles = to.cycles.saturating_add(from.cycles);
            to.stores += from.stores;
        }
    }
}
