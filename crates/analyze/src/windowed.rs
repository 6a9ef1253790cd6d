//! How far off counts are that were made in windows: `record --on … --sample-windows`.
//!
//! Windows stand for the instructions around them, of each cpu for itself. They are off by what differs from place to place
//! in the program, and that shows in how much neighbouring windows have more or fewer than their instructions have everywhere. (Which cpus run differs, too,
//! but instructions are counted everywhere.) It is the error of a ratio of sums. With a window in each period, at a place drawn anew, the variance of a sum is estimated from successive
//! differences (Wolter, "Introduction to Variance Estimation", 2007, ch. 8, estimator v2).

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

/// How far off the counts are, and the time that they take if it is known; `None` if everything was counted.
pub fn windowed(
    input: &Input,
    judge: &Judge,
    nodes: &Nodes,
    timing: Option<&Timing>,
) -> Option<CountedInWindows> {
    let table = &input.counted_windows;
    let marked = !judge.whole && table.region.contains(&1);
    let rows: Vec<_> = table.rows().filter(|row| !marked || row.region == 1).collect();
    let of_epoch = |epoch: u32| {
        let at = rows.partition_point(|row| row.first_epoch <= epoch).checked_sub(1)?;
        (epoch <= rows[at].last_epoch).then_some(at)
    };
    let mut windows = vec![Window::new(); rows.len()];
    for row in input.cpu_epochs.rows() {
        if let Some(window) = of_epoch(row.epoch) {
            let did = windows[window].entry(row.cpu).or_default();
            did.instructions += row.instructions as f64;
        }
    }
    for row in input.epoch_traffic.rows() {
        if let Some(window) = of_epoch(row.epoch) {
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
    let sum = |of: fn(&nearfar_recording::CountedWindow) -> u64| rows.iter().map(of).sum::<u64>();
    let (counted, all) = (sum(|row| row.counted_instructions), sum(|row| row.instructions));
    let memory_bound = timing.map_or(1.0, |timing| timing.memory_bound);
    (!rows.is_empty()).then(|| {
        let errors = errors(&windows, counted, all, memory_bound);
        let timing = timing.filter(|_| errors.seconds_error.is_some());
        CountedInWindows { cut_error: timing.map(|timing| 1.0 - timing.timeline.least()), ..errors }
    })
}

fn errors(
    windows: &[Window],
    counted_instructions: u64,
    instructions: u64,
    memory_bound: f64,
) -> CountedInWindows {
    let sum = |of: &dyn Fn(&Did) -> f64| windows.iter().flat_map(Window::values).map(of).sum::<f64>();
    let lines = sum(&|did| did.lines);
    let share = if lines > 0.0 { sum(&|did| did.far_lines) / lines } else { 0.0 };
    let counted = counted_instructions as f64 / instructions.max(1) as f64;
    let of_lines = |value: &dyn Fn(&Did) -> f64| {
        let half = half_width(windows, value)? * (1.0 - counted).max(0.0).sqrt();
        Some(if lines > 0.0 { half / lines } else { 0.0 })
    };
    let lines_alone = of_lines(&|did| did.lines);
    // A node's memory may have all of its lines at other times than the others: how long it takes is that of the one that has most to do.
    let of_memory = |node: NodeIndex| move |did: &Did| did.of_memory.get(&node).copied().unwrap_or(0.0);
    let memories: BTreeSet<NodeIndex> =
        windows.iter().flat_map(Window::values).flat_map(|did| did.of_memory.keys()).copied().collect();
    let busiest = memories.iter().map(|&node| sum(&of_memory(node))).fold(0.0, f64::max);
    let of_memories = memories.iter().filter_map(|&node| Some(of_lines(&of_memory(node))? * lines / busiest));
    let time_alone = lines_alone.map(|error| of_memories.fold(error, f64::max));
    // The share is a ratio of sums; its error is that of what each window has more or fewer than the share says.
    let share_alone = of_lines(&|did| did.far_lines - share * did.lines);
    CountedInWindows {
        windows: windows.len() as u64,
        counted_instructions,
        instructions,
        lines_error: lines_alone.map(|error| error.hypot(BETWEEN_RUNS)),
        remote_share_error: share_alone.map(|error| error.hypot(BETWEEN_RUNS * share)),
        // How long the instructions take that wait for nothing is known: all of them were counted.
        seconds_error: time_alone.map(|error| (error * memory_bound).hypot(BETWEEN_RUNS)),
        cut_error: None,
    }
}

/// Half of the 95 % interval of the sum of a value over all windows, if hardly anything was counted; `None` if they are too few.
fn half_width(windows: &[Window], value: &dyn Fn(&Did) -> f64) -> Option<f64> {
    if windows.len() < LEAST_WINDOWS {
        return None;
    }
    let mut sums: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
    for (&cpu, did) in windows.iter().flatten() {
        let sums = sums.entry(cpu).or_default();
        *sums = (sums.0 + value(did), sums.1 + did.instructions);
    }
    // What the cpus have more in a window than their instructions there have everywhere. How many instructions there are is known.
    let more = |window: &Window| {
        let of_cpu = |(cpu, did): (&u16, &Did)| match sums[cpu] {
            (value_of_all, all) if all > 0.0 => value(did) - value_of_all / all * did.instructions,
            _ => 0.0,
        };
        window.iter().map(of_cpu).sum::<f64>()
    };
    let more: Vec<f64> = windows.iter().map(more).collect();
    let differences: Vec<f64> = more.windows(2).map(|pair| pair[0] - pair[1]).collect();
    let (count, pairs) = (windows.len() as f64, differences.len() as f64);
    let variance = count * differences.iter().map(|d| d * d).sum::<f64>() / (2.0 * pairs);
    // Successive differences have about two thirds of the degrees of freedom that as many independent values have (where all are alike, their fourth
    // powers are three times the square of their squares), and fewer where a few of them make the sum (Satterthwaite 1946).
    let [second, fourth] = [2, 4].map(|n| differences.iter().map(|d| d.powi(n)).sum::<f64>());
    let degrees = if fourth > 0.0 { 2.0 * second * second / fourth } else { pairs };
    let degrees = degrees.min(2.0 * pairs / 3.0).max(1.0) as usize;
    Some(student(degrees) * variance.sqrt())
}

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
        let error = self.remote_share_error.unwrap_or(1.0);
        Interval { low: (share.low - error).max(0.0), high: (share.high + error).min(1.0) }
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

    /// A twentieth was counted, and half of the time waits for memory.
    fn found(windows: &[Window]) -> CountedInWindows {
        errors(windows, 1, 20, 0.5)
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
