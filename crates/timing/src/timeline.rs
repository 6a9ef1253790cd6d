//! A run's work by phase, timed as it was and with its memory elsewhere.

use super::epoch::epoch_time;
use super::parameters::{Bias, Class, Parameters};
use super::phases;
use super::range::{choose, range};
use super::unwaited::{together, unwaited};
use super::value::{EpochTime, Time, Unknown};
use super::work::{CoreWork, Left, Work, epochs};
use nearfar_machine::Machine;
use nearfar_recording::{CpuEpochs, EpochTraffics};

/// What a run's cores did, phase by phase.
#[derive(Clone, Debug)]
pub struct Timeline {
    machine: Machine,
    parameters: Parameters,
    phases: Vec<Work>,
    /// The same with short phases added to their neighbours, and which of these each phase is in.
    pieces: Vec<Work>,
    piece_of: Vec<usize>,
    /// Pieces after which no core waits before it goes on with the next one.
    unwaited: Vec<bool>,
    left: Left,
    /// The least that the time may be, as a part of what it is taken to be; see [`Timeline::cut`].
    least: f64,
    /// How far off it may be either way, as a part of it; see [`Timeline::uncertain`].
    error: f64,
}

/// Phases shorter than this part of the time are not phases of their own when times are compared: at the ends
/// of a region epochs are cut, and in the last one the core that was late works alone. With its memory elsewhere
/// it would not have been late. // chosen
const SHORT: f64 = 0.15;

/// The time of changed work over that of the work as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Best guess.
    pub ratio: f64,
    /// Low end of what the confidence of the machine's figures allows.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// A set of the machine's figures, and the time of the work as it was by them, ns.
#[derive(Clone, Debug)]
struct Believed {
    parameters: Parameters,
    ns: f64,
}

/// Compares changed work with the work as it was.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    timeline: &'a Timeline,
    /// The pieces that stand for all.
    chosen: Vec<usize>,
    /// First the figures as they are, then each class of them at both ends.
    believed: Vec<Believed>,
}

/// What a cpu is taken to have done.
#[derive(Clone, Debug)]
pub struct Estimated {
    /// The cpu.
    pub cpu: u32,
    /// Time that it did not wait for lines, ns.
    pub core_ns: f64,
    /// Its lines.
    pub work: CoreWork,
}

impl Timeline {
    /// The work of a run on `machine`, of its region of interest if it has one.
    ///
    /// # Errors
    /// What the machine does not say and the model needs, or that there is nothing to time.
    pub fn new(machine: &Machine, cpus: &CpuEpochs, traffic: &EpochTraffics) -> Result<Timeline, Unknown> {
        let parameters = Parameters::new(machine).map_err(Unknown::Machine)?;
        let (epochs, left) = epochs(&parameters, cpus, traffic);
        if epochs.is_empty() {
            return Err(Unknown::NoTraffic);
        }
        let phases = phases::phases(&parameters, epochs);
        let (pieces, piece_of) = pieces(&parameters, &phases);
        let unwaited = unwaited(&pieces);
        let machine = machine.clone();
        Ok(Timeline { machine, parameters, phases, pieces, piece_of, unwaited, left, least: 1.0, error: 0.0 })
    }

    /// Work that was estimated instead of counted: pieces one after the other, in each the work of cpus beside each
    /// other. What a cpu does beside waiting for lines is a time; instructions in its work are not used. What is of a cpu that the
    /// machine does not have is left out.
    ///
    /// # Errors
    /// As [`Timeline::new`].
    pub fn estimated(machine: &Machine, estimated: &[Vec<Estimated>]) -> Result<Timeline, Unknown> {
        let parameters = Parameters::new(machine).map_err(Unknown::Machine)?;
        let piece = |cpus: &Vec<Estimated>| {
            let mut work =
                Work { cores: vec![CoreWork::default(); parameters.places.len()], ..Work::default() };
            for e in cpus {
                if let Some(core) = parameters.places.iter().position(|p| p.cpus.contains(&e.cpu)) {
                    let instructions = e.core_ns / parameters.ns_per_instruction;
                    work.cores[core].add(&CoreWork { instructions, ..e.work.clone() });
                }
            }
            work
        };
        let pieces: Vec<Work> = estimated.iter().map(piece).collect();
        if pieces.iter().flat_map(|p| &p.cores).all(CoreWork::is_idle) {
            return Err(Unknown::NoTraffic);
        }
        let piece_of = (0..pieces.len()).collect();
        let phases = pieces.clone();
        let (unwaited, left) = (unwaited(&pieces), Left::default());
        let machine = machine.clone();
        Ok(Timeline { machine, parameters, phases, pieces, piece_of, unwaited, left, least: 1.0, error: 0.0 })
    }

    /// The same of epochs that were cut out of the run at any place. In one of them some cores are further than others that contend with them, and
    /// the model takes those to wait at its end; a whole loop may have them wait less or not at all. So the time may be as short as that of all
    /// phases added up, in which all contend at once, and ranges reach as far. What cores waited in turns, by the clocks, stays in it.
    pub fn cut(mut self) -> Timeline {
        let ns = |works: &[Work]| works.iter().map(|work| epoch_time(&self.parameters, work).ns).sum::<f64>();
        let mut all = self.phases[0].clone();
        self.phases[1..].iter().for_each(|phase| all.add(phase));
        let (apart, together) = (ns(&self.phases), ns(&[all]));
        if apart.is_finite() && together.is_finite() && apart > 0.0 {
            self.least = (together / apart).min(1.0);
        }
        self
    }

    /// What was counted may be so far off that the time is by this part of it. Ratios have it in their ranges: what is off in one of two times may not
    /// be in the other.
    pub fn uncertain(mut self, error: f64) -> Timeline {
        self.error = error.clamp(0.0, 1.0);
        self
    }

    /// The least that the time may be because epochs were cut, as a part of what it is taken to be.
    pub fn least(&self) -> f64 {
        self.least
    }

    /// How long it takes, and why.
    ///
    /// # Errors
    /// As [`Timeline::new`].
    pub fn time(&self) -> Result<Time, Unknown> {
        let timed = self.timed(&self.parameters, 0..self.phases.len(), &self.phases);
        let ns: f64 = timed.iter().map(|t| t.ns).sum();
        if !ns.is_finite() {
            return Err(Unknown::NoNumber);
        }
        let (low, high) = range(&self.machine, &self.phases, &timed).map_err(Unknown::Machine)?;
        let low = low * self.least;
        Ok(Time::new(&self.parameters, &self.phases, timed, [low, ns, high], self.left))
    }

    /// What is compared: the phases in order, short ones with their neighbours.
    pub fn pieces(&self) -> &[Work] {
        &self.pieces
    }

    /// Which of [`Timeline::pieces`] a phase of [`Time::phases`] is in.
    pub fn piece_of(&self, phase: usize) -> usize {
        self.piece_of[phase]
    }

    /// Position of a core's node, by position of the core in [`Work::cores`].
    pub fn node_of_core(&self, core: usize) -> usize {
        self.parameters.places[core].node
    }

    /// When each core was done with its own work, added up over the phases, ns, by position of the core: less
    /// than the time for one that waited for others.
    pub fn finish_ns(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.parameters.places.len()];
        for t in self.timed(&self.parameters, 0..self.phases.len(), &self.phases) {
            sum.iter_mut().zip(t.finish_ns).for_each(|(s, ns)| *s += ns);
        }
        sum
    }

    /// Mean latency of a line from a cache of another node, ns. Nodes without cpus (CXL, HBM) have no caches, and
    /// no latency was measured from them.
    pub fn transfer_ns(&self) -> f64 {
        let mut nodes: Vec<usize> = self.parameters.places.iter().map(|p| p.node).collect();
        nodes.dedup(); // places are in order of nodes
        let pairs = nodes.iter().flat_map(|&i| nodes.iter().map(move |&j| (i, j))).filter(|(i, j)| i != j);
        let far: Vec<f64> = pairs.map(|(i, j)| self.parameters.latency[i][j]).collect();
        far.iter().sum::<f64>() / far.len().max(1) as f64
    }

    /// Makes ready to compare.
    ///
    /// # Errors
    /// As [`Timeline::new`].
    pub fn comparison(&self) -> Result<Comparison<'_>, Unknown> {
        let timed = self.timed(&self.parameters, 0..self.pieces.len(), &self.pieces);
        let chosen = choose(&timed, timed.iter().map(|t| t.ns).sum());
        let mut sets = vec![self.parameters.clone()];
        for class in Class::ALL {
            for better in [true, false] {
                let bias = Some(Bias { class, better });
                sets.push(Parameters::biased(&self.machine, bias).map_err(Unknown::Machine)?);
            }
        }
        let believed = sets.into_iter().map(|parameters| {
            let ns = self.sum(&parameters, &chosen, &self.pieces);
            Believed { parameters, ns }
        });
        Ok(Comparison { timeline: self, believed: believed.collect(), chosen })
    }

    fn timed(
        &self,
        parameters: &Parameters,
        which: impl Iterator<Item = usize>,
        pieces: &[Work],
    ) -> Vec<EpochTime> {
        which.map(|i| epoch_time(parameters, &pieces[i])).collect()
    }

    fn sum(&self, parameters: &Parameters, chosen: &[usize], pieces: &[Work]) -> f64 {
        let timed = self.timed(parameters, chosen.iter().copied(), pieces);
        let pieces: Vec<_> = chosen.iter().copied().zip(timed).collect();
        together(&pieces, &self.unwaited)
    }
}

/// Adds short phases to the one before, or the first to the one after, if all of them together are short; many
/// short ones are the program's own behaviour.
fn pieces(parameters: &Parameters, phases: &[Work]) -> (Vec<Work>, Vec<usize>) {
    let times: Vec<f64> = phases.iter().map(|w| epoch_time(parameters, w).ns).collect();
    let bound = SHORT * times.iter().sum::<f64>();
    let few = times.iter().filter(|&&ns| ns < bound).sum::<f64>() < bound;
    let mut found: Vec<Work> = Vec::new();
    let mut of = Vec::with_capacity(phases.len());
    let mut short_so_far = true;
    for (phase, &ns) in phases.iter().zip(&times) {
        match found.last_mut() {
            Some(last) if few && (ns < bound || short_so_far) => last.add(phase),
            _ => found.push(phase.clone()),
        }
        short_so_far &= ns < bound;
        of.push(found.len() - 1);
    }
    (found, of)
}

impl Comparison<'_> {
    /// The pieces that need be changed: these stand for all.
    pub fn chosen(&self) -> &[usize] {
        &self.chosen
    }

    /// Best guess of the ratio alone. `pieces`: the timeline's, with the chosen ones changed.
    pub fn guess(&self, pieces: &[Work]) -> f64 {
        self.by(&self.believed[0], pieces)
    }

    /// The ratio with its range: errors of the figures, of which most move both times alike, by their squares.
    pub fn ratio(&self, pieces: &[Work]) -> Ratio {
        let ratio = self.guess(pieces);
        let (mut faster, mut slower) = (0.0, 0.0);
        for believed in &self.believed[1..] {
            let change = self.by(believed, pieces) - ratio;
            *(if change < 0.0 { &mut faster } else { &mut slower }) += change * change;
        }
        let Timeline { least, error, .. } = *self.timeline;
        Ratio {
            ratio,
            low: (ratio - f64::sqrt(faster)).max(0.0) * least * (1.0 - error),
            high: (ratio + f64::sqrt(slower)) / least * (1.0 + error),
        }
    }

    fn by(&self, believed: &Believed, pieces: &[Work]) -> f64 {
        let ns = self.timeline.sum(&believed.parameters, &self.chosen, pieces);
        if believed.ns > 0.0 { ns / believed.ns } else { 1.0 }
    }
}
