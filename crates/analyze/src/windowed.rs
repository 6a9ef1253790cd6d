//! How far off counts are that were made in windows: `record --on … --sample-windows`.
//!
//! Windows stand for the instructions around them, of each cpu for itself. They are off by what differs from place to place
//! in the program, and that shows in how much neighbouring windows have more or fewer than their instructions have everywhere. (Which cpus run differs, too,
//! but instructions are counted everywhere.) It is the error of a ratio of sums. With a window in each period, at a place drawn anew, the variance of a sum is estimated from successive
//! differences (Wolter, "Introduction to Variance Estimation", 2007, ch. 8, estimator v2).

use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::stats::student;
use super::timing::Timing;
use super::value::{CountedInWindows, Interval};
use nearfar_recording::Columns;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest windows whose differences say how far off a sum is. Of a program with two kinds of places that take equally long, n windows show
/// only one kind in one of 2^(n-1) runs: less than 1 % of them. // chosen
const LEAST_WINDOWS: usize = 8;

/// What two runs of one program differ by, as a part of lines and of seconds: 0.7 and 0.8 % at most in docs/virtual-machine-checked.md. A whole count
/// is one of these runs. // chosen
const BETWEEN_RUNS: f64 = 0.01;

/// What to do about too few windows.
pub(super) const MORE_WINDOWS: &str = "a smaller N of --sample-windows=N, or a longer run, gives more.";

/// What a cpu did in the time that one window stands for.
#[derive(Clone, Debug, Default, PartialEq)]
struct Did {
    instructions: f64,
    lines: f64,
    far_lines: f64,
    /// Lines from and to each node's memory.
    of_memory: BTreeMap<NodeIndex, f64>,
}

/// By cpu.
type Window = BTreeMap<u16, Did>;

/// Lines of one object by (window, cpu): all, and those from and to far memory.
pub type LinesInWindows = FastMap<(u32, u16), [u64; 2]>;

/// How far off what is known of one object is, because accesses were counted in windows only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowErrors {
    /// Half of the 95 % interval of its lines, as a part of them.
    pub lines: f64,
    /// The same of its remote share, in parts of its lines.
    pub remote_share: f64,
    /// The same of its far lines' share of all lines, in parts of these.
    pub at_risk: f64,
}

/// What was done in each window of what is judged.
#[derive(Debug)]
pub struct Windowed {
    /// First and last epoch of each.
    epochs: Vec<(u32, u32)>,
    windows: Vec<Window>,
    /// Instructions that were counted, and all.
    counted: [u64; 2],
    /// Of each cpu's instructions in all of them.
    instructions: BTreeMap<u16, f64>,
}

impl Windowed {
    /// `None` if everything was counted.
    pub fn new(input: &Input, judge: &Judge, nodes: &Nodes) -> Option<Windowed> {
        let table = &input.counted_windows;
        let marked = !judge.whole && table.region.contains(&1);
        let rows: Vec<_> = table.rows().filter(|row| !marked || row.region == 1).collect();
        if rows.is_empty() {
            return None;
        }
        let epochs: Vec<_> = rows.iter().map(|row| (row.first_epoch, row.last_epoch)).collect();
        let sum = |of: fn(&nearfar_recording::CountedWindow) -> u64| rows.iter().map(of).sum::<u64>();
        let counted = [sum(|row| row.counted_instructions), sum(|row| row.instructions)];
        let mut windows = vec![Window::new(); rows.len()];
        for row in input.cpu_epochs.rows() {
            if let Some(window) = window_of(&epochs, row.epoch) {
                windows[window].entry(row.cpu).or_default().instructions += row.instructions as f64;
            }
        }
        for row in input.epoch_traffic.rows() {
            if let Some(window) = window_of(&epochs, row.epoch) {
                let lines = (row.read_lines + row.write_lines + row.stream_lines) as f64;
                let (from, page_node) = (nodes.of_cpu(row.cpu), nodes.position(row.page_node));
                let did = windows[window].entry(row.cpu).or_default();
                did.lines += lines;
                *did.of_memory.entry(page_node).or_default() += lines;
                if from != page_node && from != UNKNOWN && page_node != UNKNOWN {
                    did.far_lines += lines;
                }
            }
        }
        Some(Windowed::of(epochs, windows, counted))
    }

    fn of(epochs: Vec<(u32, u32)>, windows: Vec<Window>, counted: [u64; 2]) -> Windowed {
        let mut instructions: BTreeMap<u16, f64> = BTreeMap::new();
        for (&cpu, did) in windows.iter().flatten() {
            *instructions.entry(cpu).or_default() += did.instructions;
        }
        Windowed { epochs, windows, counted, instructions }
    }

    /// The window that an epoch is in.
    pub fn of_epoch(&self, epoch: u32) -> Option<usize> {
        window_of(&self.epochs, epoch)
    }

    /// How far off the counts are, with the time that they take if it is known.
    pub fn errors(&self, timing: Option<&Timing>) -> CountedInWindows {
        let errors = self.errors_of(timing.map_or(1.0, |timing| timing.memory_bound));
        let timing = timing.filter(|_| errors.seconds_error.is_some());
        CountedInWindows { cut_error: timing.map(|timing| 1.0 - timing.timeline.least()), ..errors }
    }

    fn errors_of(&self, memory_bound: f64) -> CountedInWindows {
        let each = |of: &dyn Fn(&Did) -> f64| {
            let values = self.windows.iter().enumerate();
            values.flat_map(|(n, window)| window.iter().map(move |(&cpu, did)| ((n, cpu), of(did)))).collect()
        };
        let sum = |values: &Values| values.values().sum::<f64>();
        let (of_all, of_far): (Values, Values) = (each(&|did| did.lines), each(&|did| did.far_lines));
        let lines = sum(&of_all);
        let share = if lines > 0.0 { sum(&of_far) / lines } else { 0.0 };
        let lines_alone = self.error(&of_all, lines);
        // A node's memory may have all of its lines at other times than the others: how long it takes is that of the one that has most to do.
        let memories: BTreeSet<NodeIndex> = self
            .windows
            .iter()
            .flat_map(Window::values)
            .flat_map(|did| did.of_memory.keys())
            .copied()
            .collect();
        let of_memory = |node: NodeIndex| -> Values {
            each(&move |did: &Did| did.of_memory.get(&node).copied().unwrap_or(0.0))
        };
        let busiest = memories.iter().map(|&node| sum(&of_memory(node))).fold(0.0, f64::max);
        let of_memories = memories.iter().filter_map(|&node| self.error(&of_memory(node), busiest));
        let time_alone = lines_alone.map(|error| of_memories.fold(error, f64::max));
        // The share is a ratio of sums; its error is that of what each window has more or fewer than the share says.
        let share_alone = self.error(&each(&|did| did.far_lines - share * did.lines), lines);
        CountedInWindows {
            windows: self.windows.len() as u64,
            counted_instructions: self.counted[0],
            instructions: self.counted[1],
            lines_error: lines_alone.map(|error| error.hypot(BETWEEN_RUNS)),
            remote_share_error: share_alone.map(|error| error.hypot(BETWEEN_RUNS * share)),
            // How long the instructions take that wait for nothing is known: all of them were counted.
            seconds_error: time_alone.map(|error| (error * memory_bound).hypot(BETWEEN_RUNS)),
            cut_error: None,
        }
    }

    /// How far off what is known of an object is, by its samples in each window: also by how few they are. `None` if windows are too few, or it has no samples.
    pub fn errors_of_row(&self, used: &LinesInWindows) -> Option<RowErrors> {
        let [lines, far] = [0, 1].map(|n| used.values().map(|row| row[n] as f64).sum::<f64>());
        let share = far / lines;
        let each = |of: &dyn Fn([f64; 2]) -> f64| -> Values {
            used.iter()
                .map(|(&(n, cpu), row)| ((n as usize, cpu), of(row.map(|lines| lines as f64))))
                .collect()
        };
        if lines == 0.0 {
            return None;
        }
        let all_lines = self.windows.iter().flat_map(Window::values).map(|did| did.lines).sum::<f64>();
        let of_all = if all_lines > 0.0 { far / all_lines } else { 0.0 };
        let mut at_risk = each(&|[_, far]| far);
        for (n, window) in self.windows.iter().enumerate() {
            window.iter().for_each(|(&cpu, did)| *at_risk.entry((n, cpu)).or_default() -= of_all * did.lines);
        }
        Some(RowErrors {
            lines: self.error(&each(&|[lines, _]| lines), lines)?.hypot(BETWEEN_RUNS),
            remote_share: self
                .error(&each(&|[lines, far]| far - share * lines), lines)?
                .hypot(BETWEEN_RUNS * share),
            at_risk: self.error(&at_risk, all_lines)?.hypot(BETWEEN_RUNS * of_all),
        })
    }

    /// Half of the 95 % interval of the sum of values, over that of others.
    fn error(&self, values: &Values, of: f64) -> Option<f64> {
        let counted = self.counted[0] as f64 / self.counted[1].max(1) as f64;
        let half = self.half_width(values)? * (1.0 - counted).max(0.0).sqrt();
        Some(if of > 0.0 { half / of } else { 0.0 })
    }

    /// Half of the 95 % interval of the sum of values over all windows, if hardly anything was counted; `None` if they are too few.
    fn half_width(&self, values: &Values) -> Option<f64> {
        if self.windows.len() < LEAST_WINDOWS {
            return None;
        }
        let mut sums: BTreeMap<u16, f64> = BTreeMap::new();
        values.iter().for_each(|(&(_, cpu), value)| *sums.entry(cpu).or_default() += value);
        // What the cpus have more in a window than their instructions there have everywhere. How many instructions there are is known.
        let more = |(n, window): (usize, &Window)| {
            let of_cpu = |(&cpu, did): (&u16, &Did)| match self.instructions[&cpu] {
                all if all > 0.0 => {
                    let value = values.get(&(n, cpu)).copied().unwrap_or(0.0);
                    value - sums.get(&cpu).copied().unwrap_or(0.0) / all * did.instructions
                }
                _ => 0.0,
            };
            window.iter().map(of_cpu).sum::<f64>()
        };
        let more: Vec<f64> = self.windows.iter().enumerate().map(more).collect();
        let differences: Vec<f64> = more.windows(2).map(|pair| pair[0] - pair[1]).collect();
        let (count, pairs) = (more.len() as f64, differences.len() as f64);
        let variance = count * differences.iter().map(|d| d * d).sum::<f64>() / (2.0 * pairs);
        // Successive differences have about two thirds of the degrees of freedom that as many independent values have (where all are alike, their fourth
        // powers are three times the square of their squares), and fewer where a few of them make the sum (Satterthwaite 1946).
        let [second, fourth] = [2, 4].map(|n| differences.iter().map(|d| d.powi(n)).sum::<f64>());
        let degrees = if fourth > 0.0 { 2.0 * second * second / fourth } else { pairs };
        let degrees = degrees.min(2.0 * pairs / 3.0).max(1.0) as usize;
        Some(student(degrees) * variance.sqrt())
    }
}

/// The window that an epoch is in, of windows with these first and last ones.
fn window_of(windows: &[(u32, u32)], epoch: u32) -> Option<usize> {
    let at = windows.partition_point(|window| window.0 <= epoch).checked_sub(1)?;
    (epoch <= windows[at].1).then_some(at)
}

/// A value of each (window, cpu); 0 where there is none.
type Values = BTreeMap<(usize, u16), f64>;

impl CountedInWindows {
    /// Why nothing is known of how far off they are.
    pub(super) fn too_few(&self) -> String {
        let windows = self.windows;
        format!(
            "Accesses were counted in {windows} windows, too few to say how far off the counts are: {MORE_WINDOWS}"
        )
    }

    /// An interval of a share of the lines, wider by how far off windows are.
    pub(super) fn widen(&self, share: Interval) -> Interval {
        share.wider(self.remote_share_error.unwrap_or(1.0))
    }

    /// A range of seconds, wider by how far off windows are; both errors are independent.
    pub(super) fn widen_seconds(&self, seconds: f64, [low, high]: [f64; 2]) -> [f64; 2] {
        let error = seconds * self.seconds_error.unwrap_or(0.0);
        [(seconds - (seconds - low).hypot(error)).max(0.0), seconds + (high - seconds).hypot(error)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    const INSTRUCTIONS: f64 = 2e7;

    /// Windows of a program whose lines per instruction are 0.1 and vary by `spread` of it.
    fn made(count: usize, spread: f64, random: &mut Random) -> Vec<Window> {
        let one = |_| {
            // Uniform, with that standard deviation.
            let rate = 0.1 * (1.0 + spread * 12f64.sqrt() * (random.unit() - 0.5));
            let lines = rate * INSTRUCTIONS;
            let of_memory = BTreeMap::from([(0, lines)]);
            Window::from([(0, Did { instructions: INSTRUCTIONS, lines, far_lines: lines / 2.0, of_memory })])
        };
        (0..count).map(one).collect()
    }

    fn made_of(windows: Vec<Window>, counted: [u64; 2]) -> Windowed {
        Windowed::of(Vec::new(), windows, counted)
    }

    /// A twentieth was counted, and half of the time waits for memory.
    fn found(windows: &[Window]) -> CountedInWindows {
        made_of(windows.to_vec(), [1, 20]).errors_of(0.5)
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut random = Random::new(7);
        let mut held = 0;
        for _ in 0..2000 {
            let windows = made(12, 0.3, &mut random);
            let found = found(&windows);
            let lines: f64 = windows.iter().map(|w| w[&0].lines).sum();
            let truth = 0.1 * 12.0 * INSTRUCTIONS;
            held += u32::from((lines - truth).abs() <= found.lines_error.unwrap() * lines);
            let alone = (found.lines_error.unwrap().powi(2) - BETWEEN_RUNS.powi(2)).sqrt();
            assert!((found.seconds_error.unwrap() - (alone / 2.0).hypot(BETWEEN_RUNS)).abs() < 1e-9);
            assert!((found.remote_share_error.unwrap() - BETWEEN_RUNS / 2.0).abs() < 1e-9);
        }
        // 95 %, less the twentieth that was counted.
        assert!((1850..=1960).contains(&held), "{held} of 2000");
    }

    #[test]
    fn few_windows_say_nothing_of_their_error() {
        let found = found(&made(LEAST_WINDOWS - 1, 0.3, &mut Random::new(7)));
        assert_eq!((found.lines_error, found.remote_share_error, found.seconds_error), (None, None, None));
        assert_eq!(found.windows, LEAST_WINDOWS as u64 - 1);
        let all = found.widen(Interval { low: 0.2, high: 0.2 });
        assert_eq!((all.low, all.high), (0.0, 1.0));
    }

    #[test]
    fn the_share_is_uncertain_where_what_a_cpu_does_differs() {
        let mut windows = made(20, 0.0, &mut Random::new(7));
        windows.iter_mut().step_by(2).for_each(|w| w.get_mut(&0).unwrap().far_lines = 0.0);
        let error = found(&windows).remote_share_error.unwrap();
        // Every second window has a share of 0.5 and the others none.
        let windows_alone = student(12) * (0.5f64.powi(2) / 2.0 / 20.0 * 0.95).sqrt();
        let expected = windows_alone.hypot(BETWEEN_RUNS / 4.0);
        assert!((error - expected).abs() < 1e-9, "{error} {expected}");
        let [low, high] = found(&windows).widen_seconds(2.0, [1.5, 3.0]);
        assert!((low - (2.0 - 0.5f64.hypot(0.02))).abs() < 1e-9, "{low}");
        assert!((high - (2.0 + 1f64.hypot(0.02))).abs() < 1e-9, "{high}");
    }

    #[test]
    fn the_time_is_uncertain_where_another_memory_has_the_lines() {
        let mut windows = made(20, 0.0, &mut Random::new(7));
        for (number, did) in windows.iter_mut().flat_map(|window| window.values_mut()).enumerate() {
            did.of_memory = BTreeMap::from([(NodeIndex::from(number % 2 == 0), did.lines)]);
        }
        let found = found(&windows);
        assert!((found.lines_error.unwrap() - BETWEEN_RUNS).abs() < 1e-9);
        // Each memory has all lines of every second window and none of the others, and half of the time waits for it.
        let windows_alone = student(12) * (0.95 / 2.0 / 20.0f64).sqrt() / 0.5;
        let expected = (windows_alone / 2.0).hypot(BETWEEN_RUNS);
        assert!((found.seconds_error.unwrap() - expected).abs() < 1e-9, "{found:?} {expected}");
    }

    #[test]
    fn a_cpu_that_runs_in_few_windows_is_as_uncertain_as_those_say() {
        let mut random = Random::new(11);
        let mut held = 0;
        for _ in 0..2000 {
            // A tenth of the windows stand for all that the cpu does.
            let windows: Vec<Window> = (0..100)
                .map(|number| match number % 10 {
                    0 => made(1, 0.5, &mut random).remove(0),
                    _ => Window::from([(1, Did { instructions: INSTRUCTIONS, ..Did::default() })]),
                })
                .collect();
            let lines: f64 = windows.iter().flat_map(Window::values).map(|did| did.lines).sum();
            let error = found(&windows).lines_error.unwrap();
            held += u32::from((lines - 10.0 * 0.1 * INSTRUCTIONS).abs() <= error * lines);
        }
        assert!((1800..=1980).contains(&held), "{held} of 2000");
    }

    /// Samples of an object in windows of a cpu, each of which stands for a hundred lines.
    fn row(lines: &[[u64; 2]]) -> LinesInWindows {
        lines.iter().enumerate().map(|(n, &lines)| ((n as u32, 0), lines)).collect()
    }

    #[test]
    fn an_object_is_as_uncertain_as_its_windows_and_its_samples_differ() {
        let windows = made(20, 0.0, &mut Random::new(7));
        let windowed = made_of(windows, [1, 20]);
        let same = windowed.errors_of_row(&row(&[[1000, 500]; 20])).unwrap();
        assert!((same.lines - BETWEEN_RUNS).abs() < 1e-9, "{same:?}");
        assert!((same.remote_share - BETWEEN_RUNS / 2.0).abs() < 1e-9, "{same:?}");
        // The program has 2 million lines in each window.
        assert!((same.at_risk - BETWEEN_RUNS * 500.0 / 2e6).abs() < 1e-12, "{same:?}");
        // It is used in every second window, where half of its lines are far.
        let turns: Vec<[u64; 2]> = (0..20).map(|n| if n % 2 == 0 { [1000, 500] } else { [0, 0] }).collect();
        let turns = windowed.errors_of_row(&row(&turns)).unwrap();
        // Twenty windows, neighbours 1000 apart, of 10,000 lines.
        let alone = student(12) * (20.0 / 2.0 * 0.95f64).sqrt() * 1000.0 / 10_000.0;
        assert!((turns.lines - alone.hypot(BETWEEN_RUNS)).abs() < 1e-9, "{turns:?} {alone}");
        assert!((turns.remote_share - BETWEEN_RUNS / 2.0).abs() < 1e-9, "{turns:?}");
        let few = made_of(made(LEAST_WINDOWS - 1, 0.0, &mut Random::new(7)), [1, 20]);
        assert_eq!(few.errors_of_row(&row(&[[1000, 500]; 7])), None);
        assert_eq!(windowed.errors_of_row(&LinesInWindows::default()), None);
    }

    #[test]
    fn the_interval_of_an_object_holds_the_truth_as_often_as_it_says() {
        let (mut random, mut held) = (Random::new(5), 0);
        for _ in 0..2000 {
            let windows = made(20, 0.0, &mut random);
            // 16 samples of a window in the mean, a quarter of them far: few enough to differ much.
            let mut of = || {
                let seen = (0..64).filter(|_| random.unit() < 0.25).count() as u64;
                [100 * seen, 100 * (0..seen).filter(|_| random.unit() < 0.25).count() as u64]
            };
            let used: Vec<[u64; 2]> = (0..20).map(|_| of()).collect();
            let errors = made_of(windows, [1, 20]).errors_of_row(&row(&used)).unwrap();
            let [lines, far] = [0, 1].map(|n| used.iter().map(|lines| lines[n] as f64).sum::<f64>());
            held += u32::from((lines - 20.0 * 1600.0).abs() <= errors.lines * lines);
            held += u32::from((far / lines - 0.25).abs() <= errors.remote_share);
        }
        assert!((3700..=3920).contains(&held), "{held} of 4000");
    }

    #[test]
    fn which_cpu_runs_makes_nothing_uncertain() {
        // A cpu whose lines are all near and one whose lines are all far run more and less in turns.
        let window = |number: usize| {
            let did = |more: bool, far: f64| {
                let instructions = if more { 3.0 * INSTRUCTIONS } else { INSTRUCTIONS };
                let lines = 0.1 * instructions;
                Did { instructions, lines, far_lines: far * lines, of_memory: BTreeMap::new() }
            };
            Window::from([(0, did(number.is_multiple_of(2), 0.0)), (1, did(!number.is_multiple_of(2), 1.0))])
        };
        let windows: Vec<Window> = (0..20).map(window).collect();
        let error = found(&windows).remote_share_error.unwrap();
        assert!((error - BETWEEN_RUNS / 2.0).abs() < 1e-9, "{error}");
    }
}
