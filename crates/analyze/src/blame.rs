//! Which samples say that a thread waited for one instruction, and how long it waited at least where that follows from nothing but the
//! places of the samples.
//!
//! A core ends instructions in their order, and a timer interrupts it at the oldest one that has not ended. So the samples at the
//! instruction behind another one are the time that this other one took once all before it were done. Of all of a loop's samples, it has
//! a part. The instructions beside it take time, too: a core ends at most [`ENDED`] in a cycle, and between two executions of the
//! one at least `around` of the loop are executed, whatever the program branches to (`nearfar_decode::loops`). So without any clock:
//!
//! ```text
//! cycles ≥ samples that blame it / the loop's other samples · (around − ENDED) / ENDED
//! ```
//!
//! (One group of instructions ends together with it.) The same holds of its function. Where that is more than it takes if the first-level
//! cache answers, it waits for the rest.

use super::counters::Counters;
use super::hash::FastMap;
use super::input::Input;
use nearfar_recording::{AccessSamples, Columns, NONE, Resolution};

/// Instructions that a core ends in a cycle at most: 8 on Zen 2 to 5 and from Sunny Cove on, 4 before (Agner Fog, "The
/// microarchitecture of Intel, AMD and VIA CPUs"; AMD and Intel, optimization manuals).
const ENDED: f64 = 8.0;
/// Samples that blame an instruction below which nothing is asked. // chosen
const LEAST: f64 = 50.0;

/// An instruction, whatever process executes it: module and offset in its file; of generated code address space and address.
type Place = (u32, u32, u64);

fn place(input: &Input, location: u32) -> Option<Place> {
    let l = &input.locations;
    let at = location as usize;
    (l.id.get(at) == Some(&location)).then(|| match l.module[at] {
        NONE => (NONE, l.process[at], l.address[at]),
        module => (module, 0, l.file_offset[at]),
    })
}

/// Which samples blame the instruction whose operand they have.
#[derive(Clone, Debug, Default)]
pub struct Blame {
    /// By location of an instruction: the location behind it, `NONE` where no sample was.
    behind: FastMap<u32, u32>,
}

impl Blame {
    /// From the recording's tables.
    pub fn new(input: &Input) -> Blame {
        let (l, o) = (&input.locations, &input.loop_operands);
        let known = (0..o.len()).filter(|&i| o.bytes[i] > 0);
        let bytes: FastMap<Place, u8> =
            known.filter_map(|i| Some((place(input, o.ip[i])?, o.bytes[i]))).collect();
        if bytes.is_empty() {
            return Blame::default();
        }
        let by_address: FastMap<(u32, u64), u32> =
            (0..l.len()).map(|i| ((l.process[i], l.address[i]), l.id[i])).collect();
        let behind = (0..l.len()).filter_map(|i| {
            let bytes = bytes.get(&place(input, l.id[i])?)?;
            let end = l.address[i].saturating_add(u64::from(*bytes));
            Some((l.id[i], by_address.get(&(l.process[i], end)).copied().unwrap_or(NONE)))
        });
        Blame { behind: behind.collect() }
    }

    /// Whether a sample blames that instruction and no other. (A recording from before lengths were kept says it by how the operand was found.)
    #[inline]
    pub fn is_certain(&self, s: &AccessSamples, i: usize) -> bool {
        match self.behind.get(&s.operand_ip[i]) {
            Some(&behind) => s.ip[i] == behind,
            None => {
                matches!(Resolution::from_code(s.resolution[i]), Some(Resolution::Exact | Resolution::Next))
            }
        }
    }
}

/// Instructions that wait, by the places of samples alone.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    /// What each takes at least, and at most where the first-level cache answers, cycles.
    by_place: FastMap<Place, [f64; 2]>,
    /// Weight of the samples that blame one of them.
    pub weight: u64,
    /// Of the one with most of it: what it takes at least, and at most where the first-level cache answers, cycles.
    pub most: Option<[f64; 2]>,
}

impl Stalls {
    /// From the counts of all samples.
    pub fn new(input: &Input, counters: &Counters) -> Stalls {
        let (o, loops) = (&input.loop_operands, &input.loops);
        let mut blamed: FastMap<Place, u64> = FastMap::default();
        for (&location, &weight) in counters.blamed.iter() {
            if let Some(place) = place(input, location) {
                *blamed.entry(place).or_default() += weight;
            }
        }
        let all = Weights::new(input, counters);
        let rows: FastMap<u32, usize> = loops.id.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let a_sample = counters.working.weight.max(1) as f64 / counters.working.samples.max(1) as f64;
        let mut stalls = Stalls::default();
        for i in (0..o.len()).filter(|&i| o.hit_cycles[i] > 0.0) {
            let Some((place, &row)) = place(input, o.ip[i]).zip(rows.get(&o.loop_id[i])) else { continue };
            let held = blamed.get(&place).copied().unwrap_or(0) as f64 / a_sample;
            if held < LEAST {
                continue;
            }
            let of_loop = (o.around[i], loops.head[row], loops.bytes[row]);
            let of_function = (o.around_all[i], loops.function[row], loops.function_bytes[row]);
            for (around, first, bytes) in [of_loop, of_function] {
                // All that blame it were interrupted behind it, in the same loop.
                let within = all.within(input, first, bytes).map(|weight| weight as f64 / a_sample);
                let Some(rest) = within.map(|all| all - held).filter(|&rest| rest >= 0.0) else { continue };
                // Both are drawn by chance: two standard deviations, and the three that may hide behind none.
                let times = (held - 2.0 * held.sqrt()) / (rest + 2.0 * rest.sqrt() + 3.0);
                let cycles = times * (f64::from(around) - ENDED) / ENDED;
                let known = stalls.by_place.get(&place).map_or(0.0, |known| known[0]);
                if cycles > o.hit_cycles[i].max(known) {
                    stalls.by_place.insert(place, [cycles, o.hit_cycles[i]]);
                }
            }
        }
        let weight = |place: &Place| blamed.get(place).copied().unwrap_or(0);
        stalls.weight = stalls.by_place.keys().map(weight).sum();
        stalls.most =
            stalls.by_place.iter().max_by_key(|(place, _)| (weight(place), **place)).map(|(_, &most)| most);
        stalls
    }

    /// Part of the time of an instruction that waits at least.
    pub fn waits(&self, input: &Input, location: u32) -> f64 {
        let known = place(input, location).and_then(|place| self.by_place.get(&place));
        known.map_or(0.0, |[cycles, hit]| 1.0 - hit / cycles)
    }
}

/// What waits for certain beside loops of known speed, by row: weights of samples that blame such an instruction.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The instructions.
    pub stalls: Stalls,
    /// All samples on memory, what of them waits, and what of that is on far pages.
    by_row: FastMap<u32, [f64; 3]>,
}

impl Waiting {
    /// From the counts of all samples.
    pub fn new(input: &Input, counters: &Counters) -> Waiting {
        let stalls = Stalls::new(input, counters);
        // Sums of floating-point numbers depend on the order.
        let mut all: Vec<_> = counters.beside_loops.iter().collect();
        all.sort_unstable();
        let mut waiting = Waiting { stalls, by_row: FastMap::default() };
        for (&(location, row), &[weight, far]) in all {
            let waits = waiting.stalls.waits(input, location);
            let sums = waiting.by_row.entry(row).or_default();
            sums[0] += weight as f64;
            sums[1] += waits * weight as f64;
            sums[2] += waits * far as f64;
        }
        waiting
    }

    /// Weight on far pages.
    pub fn far(&self, row: u32) -> f64 {
        self.by_row.get(&row).map_or(0.0, |sums| sums[2])
    }

    /// Part of the time on a row.
    pub fn part(&self, row: u32) -> f64 {
        self.by_row.get(&row).map_or(0.0, |sums| sums[1] / sums[0].max(1.0))
    }
}

/// Weights of all samples by place of the interrupted instruction.
struct Weights {
    /// In order: places, and the sum of the weights in front of each.
    sums: Vec<(Place, u64)>,
    all: u64,
}

impl Weights {
    fn new(input: &Input, counters: &Counters) -> Weights {
        let weights = counters.interrupted.iter();
        let mut sums: Vec<(Place, u64)> =
            weights.filter_map(|(&location, &weight)| Some((place(input, location)?, weight))).collect();
        sums.sort_unstable();
        let mut all = 0;
        for (_, weight) in &mut sums {
            all += std::mem::replace(weight, all);
        }
        Weights { sums, all }
    }

    /// Weight of the samples from a location on, the last byte included; `None` if the location is unknown.
    fn within(&self, input: &Input, head: u32, bytes: u32) -> Option<u64> {
        let first = place(input, head)?;
        let behind = (first.0, first.1, first.2.saturating_add(u64::from(bytes) + 1));
        let before = |end: Place| {
            let at = self.sums.partition_point(|(place, _)| *place < end);
            self.sums.get(at).map_or(self.all, |(_, sum)| *sum)
        };
        Some(before(behind) - before(first))
    }
}
