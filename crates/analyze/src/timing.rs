//! The answers of the time model in the shape that samples and counters ask for them: what bound
//! when an epoch's lines were moved, how much of the time waits for memory, what the result rests on.

use super::input::{Input, Judge};
use super::value::{AssumedFigure, CountedInWindows, WeakFigure};
use nearfar_machine::Machine;
use nearfar_machine::figures::{Confidence, Figure};
use nearfar_recording::{Columns, CpuEpochs, EpochTraffics};
use nearfar_timing::{Binding, Time, Timeline};
use std::borrow::Cow;

/// The time of the epochs that count.
#[derive(Debug)]
pub struct Timing {
    /// The work.
    pub timeline: Timeline,
    /// The model's answer.
    pub time: Time,
    /// Everything that binds some time.
    pub resources: Vec<Binding>,
    /// Position in `resources` of what binds each phase.
    binds: Vec<u16>,
    /// Share of the time that memory which answers at once would have saved.
    pub memory_bound: f64,
    /// Figures of little confidence.
    pub weak_figures: Vec<WeakFigure>,
}

impl Timing {
    /// Asks the time model.
    ///
    /// # Errors
    /// In words, why the time is missing.
    pub fn new(input: &Input, judge: &Judge) -> Result<Timing, String> {
        let (cpus, traffic) = counted(input, judge);
        let timeline = Timeline::new(&judge.machine, &cpus, &traffic).map_err(|e| e.to_string())?;
        let timeline = if input.counted_windows.is_empty() { timeline } else { timeline.cut() };
        let time = timeline.time().map_err(|e| e.to_string())?;
        let resources: Vec<Binding> = time.shares.iter().map(|s| s.binds).collect();
        let position = |b: &Binding| resources.iter().position(|r| r == b).unwrap_or(0) as u16;
        let binds = time.phases.iter().map(|s| position(&s.binds)).collect();
        let computing: f64 = time.phases.iter().map(|s| s.core_seconds.min(s.seconds)).sum();
        let memory_bound = if time.seconds > 0.0 { 1.0 - computing / time.seconds } else { 0.0 };
        let weak_figures = weak_figures(&judge.machine);
        Ok(Timing {
            memory_bound: memory_bound.clamp(0.0, 1.0),
            timeline,
            time,
            resources,
            binds,
            weak_figures,
        })
    }

    /// The same of what was counted in these windows.
    ///
    /// # Errors
    /// If they are too few to say how far off the time is.
    pub fn in_windows(mut self, windows: &CountedInWindows) -> Result<Timing, String> {
        let error = windows.seconds_error.ok_or_else(|| windows.too_few())?;
        self.timeline = self.timeline.uncertain(error);
        Ok(self)
    }

    /// The phase that an epoch is part of.
    #[inline]
    pub fn phase(&self, epoch: u32) -> Option<usize> {
        let phases = &self.time.phases;
        let at = phases.partition_point(|s| s.first_epoch <= epoch).checked_sub(1)?;
        (epoch <= phases[at].last_epoch).then_some(at)
    }

    /// When something in an epoch was, as a part of the time from 0 to 1: the epochs of a phase are as long as each
    /// other, and `within` says where in its epoch it is.
    #[inline]
    pub fn moment(&self, epoch: u32, within: f64) -> Option<f64> {
        let s = &self.time.phases[self.phase(epoch)?];
        let epochs = f64::from(s.last_epoch - s.first_epoch) + 1.0;
        let at = s.begin_seconds + s.seconds * (f64::from(epoch - s.first_epoch) + within) / epochs;
        (self.time.seconds > 0.0).then(|| (at / self.time.seconds).clamp(0.0, 1.0))
    }

    /// What bound in an epoch, as a position in `resources`.
    #[inline]
    pub fn resource(&self, epoch: u32) -> Option<u16> {
        self.phase(epoch).map(|s| self.binds[s])
    }
}

/// What was counted in each epoch. The model leaves out what is outside a region; asked for the whole run, there is none.
pub(super) fn counted<'a>(input: &'a Input, judge: &Judge) -> (Cow<'a, CpuEpochs>, Cow<'a, EpochTraffics>) {
    let (mut cpus, mut traffic) = (Cow::Borrowed(&input.cpu_epochs), Cow::Borrowed(&input.epoch_traffic));
    if judge.whole && marked(&cpus) {
        cpus.to_mut().region.fill(0);
        traffic.to_mut().region.fill(0);
    }
    (cpus, traffic)
}

/// Whether the counts are of a region.
pub fn marked(cpus: &CpuEpochs) -> bool {
    cpus.region.contains(&1)
}

/// The figures that the time rests on and that were not read in a source, as the machine file names them.
pub fn weak_figures(machine: &Machine) -> Vec<WeakFigure> {
    let mut found = Vec::new();
    each_figure(machine, |name, value, confidence, _| {
        if matches!(confidence, Confidence::M | Confidence::Fitted | Confidence::Assumed) {
            found.push(WeakFigure { name, value, confidence: confidence.as_str().to_string() });
        }
    });
    found
}

/// The figures that are assumed, with what they are assumed from; those of the caches' sizes too.
pub fn assumed_figures(machine: &Machine) -> Vec<AssumedFigure> {
    let mut found = Vec::new();
    let mut add = |name: String, value: Option<f64>, confidence: Confidence, source: &str| {
        if confidence == Confidence::Assumed {
            found.push(AssumedFigure { name, value, source: source.to_string() });
        }
    };
    for cache in &machine.figures.caches {
        let size = &cache.size_bytes;
        add(format!("cache {}.size_bytes", cache.level), Some(size.value), size.confidence, &size.source);
    }
    each_figure(machine, add);
    found
}

/// Says name, value (none of a matrix), confidence and source of each figure that the time rests on.
fn each_figure(machine: &Machine, mut say: impl FnMut(String, Option<f64>, Confidence, &str)) {
    let f = &machine.figures;
    let mut figure = |name: String, figure: &Option<Figure>| {
        if let Some(f) = figure {
            say(name, Some(f.value), f.confidence, &f.source);
        }
    };
    let c = &f.core;
    let clock = if c.all_core_ghz.is_some() { "core.all_core_ghz" } else { "core.base_ghz" };
    for (name, one) in [
        (clock, &c.clock_ghz().cloned()),
        ("core.ipc", &c.ipc),
        ("core.outstanding_lines", &c.outstanding_lines),
        ("core.read_gbs", &c.read_gbs),
        ("core.update_gbs", &c.update_gbs),
        ("core.walk_cycles", &c.walk_cycles),
        ("core.page_walkers", &c.page_walkers),
        ("time.control_bytes", &f.time.control_bytes),
        ("time.eta", &f.time.eta),
        ("time.probe_share", &f.time.probe_share),
        ("time.directory_write_share", &f.time.directory_write_share),
    ] {
        figure(name.to_string(), one);
    }
    for cache in &f.caches {
        figure(format!("cache {}.latency_cycles", cache.level), &cache.latency_cycles);
        figure(format!("cache {}.read_gbs", cache.level), &cache.read_gbs);
        figure(format!("cache {}.write_gbs", cache.level), &cache.write_gbs);
    }
    for b in &f.bandwidth {
        figure(format!("bandwidth {}.read_gbs", b.nodes), &b.read_gbs);
        figure(format!("bandwidth {}.update_gbs", b.nodes), &b.update_gbs);
        figure(format!("bandwidth {}.triad_gbs", b.nodes), &b.triad_gbs);
    }
    for l in &f.links {
        figure(format!("link {}-{}.count", l.from, l.to), &Some(l.count.clone()));
        figure(format!("link {}-{}.gbs_per_direction", l.from, l.to), &Some(l.gbs_per_direction.clone()));
    }
    for (name, matrix) in [("latency_ns", &f.latency_ns), ("pair_read_gbs", &f.pair_read_gbs)] {
        if let Some(m) = matrix {
            say(name.to_string(), None, m.confidence, &m.source);
        }
    }
}
