//! What was counted in windows stands for what was not counted between them.
//!
//! How many instructions each cpu ran is known of all of the run, how many lines it moved only of the windows. So the counts of a cpu in a window are
//! multiplied by what it ran until the middle of the way to the next window, over what it ran in this one. Between windows clocks go with
//! instructions, and so do the places of windows: each stands for its surroundings, also one that is short of instructions because they wait.

use super::counted::Counted;
use super::page_factors::PageFactors;
use nearfar_machine::Machine;
use nearfar_recording::raw::RawUncounteds;
use nearfar_recording::{
    BETWEEN_WINDOWS, Columns, CountedWindow, CountedWindows, CpuEpoch, EpochTraffic, Loss, NONE, UNCOUNTED,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Of a cpu that ran fewer instructions in a window another window tells what its instructions do. // chosen
const LEAST_INSTRUCTIONS: u64 = 1000;

/// Multiplies counts, and gives epochs new numbers: those that are left follow each other. Gives the windows; none if everything was counted.
pub(super) fn scale(counted: &mut Counted, machine: &Machine) -> CountedWindows {
    if counted.uncounted.is_empty() {
        return CountedWindows::default();
    }
    let windows = Windows::new(counted);
    let pages = PageFactors::new(counted, machine, |epoch, cpu| windows.factor(epoch, cpu));
    for i in 0..counted.pages.len() {
        let row = counted.pages.row(i);
        let [read, written] = pages.of(&row);
        counted.pages.read_lines[i] = times(row.read_lines, read);
        counted.pages.write_lines[i] = times(row.write_lines, written);
    }
    let samples = &mut counted.samples;
    for i in 0..samples.len() {
        if samples.epoch[i] == NONE {
            continue;
        }
        let factor = windows.factor(samples.epoch[i], samples.cpu[i]);
        let stands_for = times(u64::from(samples.stands_for[i]), factor);
        samples.stands_for[i] = u32::try_from(stands_for).unwrap_or(u32::MAX).max(1);
        samples.epoch[i] = windows.number(samples.epoch[i]);
    }
    counted.traffic = counted.traffic.rows().map(|row| windows.traffic(row)).collect_rows();
    counted.epochs = counted.epochs.rows().map(|row| windows.epoch(row)).collect_rows();
    if windows.lost_instructions > 0 {
        counted.losses.push(Loss {
            time_ns: 0,
            what: BETWEEN_WINDOWS.into(),
            count: windows.lost_instructions,
            why: "run outside of the counted windows by cpus that ran in none of them: what they moved is not known".into(),
        });
    }
    windows.table()
}

fn times(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).round() as u64
}

/// The numbers of a damaged journal may be anything, so sums do not overflow.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Rows made of others.
trait CollectRows: Iterator {
    fn collect_rows<T: Columns<Row = Self::Item>>(self) -> T
    where
        Self: Sized,
    {
        let mut table = T::default();
        self.for_each(|row| table.push(row));
        table
    }
}

impl<I: Iterator> CollectRows for I {}

/// Instructions, and how long a cpu worked on them, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Did {
    instructions: u64,
    busy_ns: f64,
}

impl Did {
    fn add(&mut self, instructions: u64, busy_ns: f64) {
        self.instructions = self.instructions.saturating_add(instructions);
        self.busy_ns += busy_ns;
    }
}

/// One window.
#[derive(Debug)]
struct Window {
    region: u8,
    /// First and last epoch, as the plugin numbers them.
    epochs: (u32, u32),
    /// What each cpu did in it, and what that stands for.
    cpus: BTreeMap<u16, [Did; 2]>,
    /// Time in it, and the time that it stands for, ns.
    ns: (f64, f64),
}

/// All windows, in order.
#[derive(Debug, Default)]
struct Windows {
    all: Vec<Window>,
    /// The windows of each region, in order.
    of_region: BTreeMap<u8, Vec<usize>>,
    /// By old number of an epoch: its window and its new number.
    of_epoch: HashMap<u32, (usize, u32)>,
    lost_instructions: u64,
}

impl Windows {
    fn new(counted: &Counted) -> Windows {
        let mut windows = Windows::default();
        windows.find(counted);
        windows.add_times(counted);
        windows.add_instructions(counted);
        windows
    }

    /// Counted epochs are of one window unless one that was not counted lies between them.
    fn find(&mut self, counted: &Counted) {
        let between: BTreeSet<u32> = counted.uncounted.epoch.iter().copied().collect();
        let epochs: BTreeSet<(u32, u8)> =
            counted.epochs.epoch.iter().copied().zip(counted.epochs.region.iter().copied()).collect();
        let mut number = 0;
        for (epoch, region) in epochs {
            let follows = |last: &Window| {
                last.region == region && between.range(last.epochs.1..epoch).all(|&e| e == last.epochs.1)
            };
            match self.all.last_mut() {
                Some(last) if follows(last) => last.epochs.1 = epoch,
                last => {
                    // What is on both sides of a region's end does not follow.
                    number += u32::from(last.is_some_and(|last| last.region != region));
                    let (epochs, cpus, ns) = ((epoch, epoch), BTreeMap::new(), (0.0, 0.0));
                    self.all.push(Window { region, epochs, cpus, ns });
                }
            }
            self.of_epoch.insert(epoch, (self.all.len() - 1, number));
            number += 1;
        }
        for (at, window) in self.all.iter().enumerate() {
            self.of_region.entry(window.region).or_default().push(at);
        }
    }

    /// The position among the windows of a region of the one that is nearest to an epoch, and those windows.
    fn nearest(&self, region: u8, epoch: u32) -> Option<(usize, &[usize])> {
        let windows = self.of_region.get(&region)?;
        let next = windows.partition_point(|&w| self.all[w].epochs.0 <= epoch);
        let distance = |at: &usize| {
            let (first, last) = self.all[windows[*at]].epochs;
            first.saturating_sub(epoch).max(epoch.saturating_sub(last))
        };
        let both = [next.checked_sub(1), (next < windows.len()).then_some(next)];
        Some((both.into_iter().flatten().min_by_key(distance)?, windows))
    }

    /// The nearest one in which a cpu ran.
    fn nearest_of(&self, region: u8, epoch: u32, cpu: u16) -> Option<usize> {
        let (nearest, windows) = self.nearest(region, epoch)?;
        let ran = |at: usize| {
            let window = *windows.get(at)?;
            let did = self.all[window].cpus.get(&cpu)?;
            (did[0].instructions >= LEAST_INSTRUCTIONS).then_some(window)
        };
        (0..windows.len())
            .find_map(|far| nearest.checked_sub(far).and_then(ran).or_else(|| ran(nearest + far)))
    }

    fn add_times(&mut self, counted: &Counted) {
        let lengths = |epochs: &[u32], ns: &[f64]| {
            let mut found: BTreeMap<u32, f64> = BTreeMap::new();
            for (&epoch, &ns) in epochs.iter().zip(ns) {
                // A cpu that was ahead may have gone on when a barrier ended the epoch.
                let known = found.entry(epoch).or_insert(ns);
                *known = known.min(ns);
            }
            found
        };
        for (epoch, ns) in lengths(&counted.epochs.epoch, &counted.epochs.epoch_ns) {
            let window = &mut self.all[self.of_epoch[&epoch].0];
            window.ns.0 += ns;
            window.ns.1 += ns;
        }
        let u = &counted.uncounted;
        let region: HashMap<u32, u8> = u.epoch.iter().copied().zip(u.region.iter().copied()).collect();
        for (epoch, ns) in lengths(&u.epoch, &u.epoch_ns) {
            if self.of_epoch.contains_key(&epoch) {
                continue;
            }
            let nearest = self.nearest(region[&epoch], epoch).map(|(at, windows)| windows[at]);
            if let Some(window) = nearest {
                self.all[window].ns.1 += ns;
            }
        }
    }

    fn add_instructions(&mut self, counted: &Counted) {
        for row in counted.epochs.rows() {
            let window = &mut self.all[self.of_epoch[&row.epoch].0];
            let did = window.cpus.entry(row.cpu).or_default();
            did.iter_mut().for_each(|did| did.add(row.instructions, row.busy_ns));
        }
        for ((region, epoch, cpu), did) in by_place(&counted.uncounted) {
            let window = self.nearest_of(region, epoch, cpu);
            match window.and_then(|window| self.all[window].cpus.get_mut(&cpu)) {
                Some([_, stands_for]) => stands_for.add(did.instructions, did.busy_ns),
                None => self.lost_instructions = self.lost_instructions.saturating_add(did.instructions),
            }
        }
    }

    /// What a cpu's counts in an epoch are multiplied by.
    fn factor(&self, epoch: u32, cpu: u16) -> f64 {
        self.ratio(epoch, cpu, |did| did.instructions as f64)
    }

    /// Of what a cpu did in the window of an epoch, what that stands for over what it did.
    fn ratio(&self, epoch: u32, cpu: u16, of: fn(&Did) -> f64) -> f64 {
        match self.of_epoch.get(&epoch).and_then(|&(window, _)| self.all[window].cpus.get(&cpu)) {
            Some([did, stands_for]) if of(did) > 0.0 => of(stands_for) / of(did),
            _ => 1.0,
        }
    }

    /// The new number of an epoch.
    fn number(&self, epoch: u32) -> u32 {
        self.of_epoch.get(&epoch).map_or(NONE, |known| known.1)
    }

    fn epoch(&self, row: CpuEpoch) -> CpuEpoch {
        let factor = self.factor(row.epoch, row.cpu);
        let count = |n: u64| times(n, factor);
        let ops = |n: u64| if n == UNCOUNTED { n } else { count(n) };
        let (counted_ns, ns) = self.all[self.of_epoch[&row.epoch].0].ns;
        CpuEpoch {
            epoch: self.number(row.epoch),
            region: row.region,
            cpu: row.cpu,
            instructions: count(row.instructions),
            accesses: count(row.accesses),
            l1_hits: count(row.l1_hits),
            l2_hits: count(row.l2_hits),
            l3_hits: count(row.l3_hits),
            cache_transfers: count(row.cache_transfers),
            tlb_misses: count(row.tlb_misses),
            huge_tlb_misses: count(row.huge_tlb_misses),
            dependent_lines: count(row.dependent_lines),
            // By the clocks, as the length of the epoch is: so no core works for longer than it.
            busy_ns: row.busy_ns * self.ratio(row.epoch, row.cpu, |did| did.busy_ns),
            f64_ops: ops(row.f64_ops),
            f32_ops: ops(row.f32_ops),
            epoch_ns: if counted_ns > 0.0 { row.epoch_ns * ns / counted_ns } else { row.epoch_ns },
        }
    }

    fn traffic(&self, row: EpochTraffic) -> EpochTraffic {
        let factor = self.factor(row.epoch, row.cpu);
        let count = |n: u64| times(n, factor);
        let read_lines = count(row.read_lines);
        EpochTraffic {
            epoch: self.number(row.epoch),
            region: row.region,
            cpu: row.cpu,
            page_node: row.page_node,
            read_lines,
            prefetch_lines: count(row.prefetch_lines).min(read_lines),
            write_lines: count(row.write_lines),
            stream_lines: count(row.stream_lines),
            transfer_lines: count(row.transfer_lines),
            walks: count(row.walks),
        }
    }

    fn table(&self) -> CountedWindows {
        let row = |w: &Window| CountedWindow {
            first_epoch: self.number(w.epochs.0),
            last_epoch: self.number(w.epochs.1),
            region: w.region,
            counted_instructions: sum(w.cpus.values().map(|did| did[0].instructions)),
            instructions: sum(w.cpus.values().map(|did| did[1].instructions)),
        };
        self.all.iter().map(row).collect_rows()
    }
}

/// What was done, by region, epoch and cpu.
fn by_place(uncounted: &RawUncounteds) -> BTreeMap<(u8, u32, u16), Did> {
    let mut found: BTreeMap<(u8, u32, u16), Did> = BTreeMap::new();
    for row in uncounted.rows() {
        found.entry((row.region, row.epoch, row.cpu)).or_default().add(row.instructions, row.busy_ns);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::raw::{RawPage, RawSample, RawUncounted};

    fn epoch(epoch: u32, region: u8, cpu: u16, instructions: u64) -> CpuEpoch {
        CpuEpoch {
            epoch,
            region,
            cpu,
            instructions,
            accesses: 100,
            l1_hits: 90,
            l2_hits: 0,
            l3_hits: 0,
            cache_transfers: 0,
            tlb_misses: 0,
            huge_tlb_misses: 0,
            dependent_lines: 0,
            busy_ns: 500.0,
            f64_ops: UNCOUNTED,
            f32_ops: 7,
            epoch_ns: 1000.0,
        }
    }

    fn traffic(epoch: u32, cpu: u16, read_lines: u64) -> EpochTraffic {
        EpochTraffic {
            epoch,
            region: 0,
            cpu,
            page_node: 1,
            read_lines,
            prefetch_lines: read_lines,
            write_lines: 10,
            stream_lines: 0,
            transfer_lines: 0,
            walks: 0,
        }
    }

    fn uncounted(epoch: u32, region: u8, cpu: u16, instructions: u64) -> RawUncounted {
        RawUncounted { epoch, region, cpu, instructions, busy_ns: 250.0, epoch_ns: 1000.0 }
    }

    fn sample(epoch: u32, cpu: u16) -> RawSample {
        RawSample {
            time_ns: 0,
            cpu,
            tid: 1,
            ip: 2,
            address: 3,
            access: 0,
            page_node: 1,
            source: 0,
            stands_for: 64,
            epoch,
            served: 0,
            latency_cycles: 0,
        }
    }

    /// A node of one cpu each.
    fn machine() -> Machine {
        Machine::from_shape("2x1").unwrap()
    }

    #[test]
    fn counts_stand_for_what_each_cpu_ran_around_their_window() {
        let mut counted = Counted::default();
        // Windows at 10 to 11 and at 20; cpu 1 runs nothing in the second one.
        counted.epochs.push(epoch(10, 0, 0, 4000));
        counted.epochs.push(epoch(11, 0, 0, 6000));
        counted.epochs.push(epoch(11, 0, 1, 5000));
        counted.epochs.push(epoch(20, 0, 0, 8000));
        for (at, cpu, instructions) in
            [(9, 0, 10_000), (14, 0, 30_000), (15, 1, 5000), (18, 0, 16_000), (21, 1, 10_000)]
        {
            counted.uncounted.push(uncounted(at, 0, cpu, instructions));
        }
        counted.traffic.push(traffic(10, 0, 100));
        counted.traffic.push(traffic(20, 0, 100));
        counted.samples.push(sample(11, 1));
        counted.samples.push(sample(NONE, 0));
        counted.pages.push(RawPage {
            pid: 1,
            address: 0,
            from: 0,
            page_node: 1,
            read_lines: 200,
            write_lines: 20,
            region: 0,
        });
        let windows = scale(&mut counted, &machine());
        assert_eq!(windows.first_epoch, [0, 2]);
        assert_eq!(windows.last_epoch, [1, 2]);
        assert_eq!(windows.counted_instructions, [15_000, 8000]);
        // Cpu 0: 10 and 40 thousand more, and 16 thousand. Cpu 1 has no other window than the first.
        assert_eq!(windows.instructions, [10_000 + 40_000 + 5000 + 15_000, 24_000]);
        assert_eq!(counted.epochs.instructions, [20_000, 30_000, 20_000, 24_000]);
        assert_eq!(counted.epochs.accesses, [500, 500, 400, 300]);
        assert_eq!(counted.epochs.f32_ops, [35, 35, 28, 21]);
        assert!(counted.epochs.f64_ops.iter().all(|&ops| ops == UNCOUNTED));
        assert_eq!(counted.traffic.read_lines, [500, 300]);
        assert_eq!(counted.traffic.epoch, [0, 2]);
        // 2 ms of its own and those of 9, 14 and 15; 1 ms and those of 18 and 21.
        assert_eq!(counted.epochs.epoch_ns, [2500.0, 2500.0, 2500.0, 3000.0]);
        // 1000 and twice 250; 500 and twice 250; 500 and 250.
        assert_eq!(counted.epochs.busy_ns, [750.0, 750.0, 1000.0, 750.0]);
        assert_eq!((counted.samples.stands_for[0], counted.samples.epoch[0]), (256, 1));
        assert_eq!((counted.samples.stands_for[1], counted.samples.epoch[1]), (64, NONE));
        assert_eq!((counted.pages.read_lines[0], counted.pages.write_lines[0]), (800, 80));
        assert!(counted.losses.is_empty());
    }

    #[test]
    fn a_cpu_that_hardly_runs_in_a_window_is_like_in_the_nearest_one_in_which_it_does() {
        let mut counted = Counted::default();
        for window in 0..9u32 {
            counted.epochs.push(epoch(10 * window, 0, 0, 5000));
            counted.epochs.push(epoch(10 * window, 0, 1, if [1, 8].contains(&window) { 1000 } else { 999 }));
            counted.uncounted.push(uncounted(10 * window + 2, 0, 0, 5000));
        }
        counted.uncounted.push(uncounted(42, 0, 1, 3000));
        counted.uncounted.push(uncounted(62, 0, 1, 7000));
        scale(&mut counted, &machine());
        let of_cpu = |cpu| {
            counted.epochs.rows().filter(|row| row.cpu == cpu).map(|row| row.instructions).collect::<Vec<_>>()
        };
        assert_eq!(of_cpu(0), [10_000; 9]);
        assert_eq!(of_cpu(1), [999, 4000, 999, 999, 999, 999, 999, 999, 8000]);
    }

    #[test]
    fn a_region_has_its_own_windows_and_what_has_none_is_lost() {
        let mut counted = Counted::default();
        counted.epochs.push(epoch(5, 0, 0, 2000));
        counted.epochs.push(epoch(6, 1, 0, 2000));
        counted.uncounted.push(uncounted(7, 0, 0, 2000));
        counted.uncounted.push(uncounted(7, 1, 1, 3000));
        let windows = scale(&mut counted, &machine());
        assert_eq!((windows.region, windows.first_epoch), (vec![0, 1], vec![0, 2]));
        assert_eq!(counted.epochs.instructions, [4000, 2000]);
        assert_eq!(
            (counted.losses.count.as_slice(), counted.losses.what[0].as_str()),
            (&[3000][..], "instructions")
        );
    }

    #[test]
    fn without_windows_nothing_changes() {
        let mut counted = Counted::default();
        counted.epochs.push(epoch(5, 0, 0, 2000));
        assert!(scale(&mut counted, &machine()).is_empty());
        assert_eq!(counted.epochs.epoch, [5]);
    }
}
