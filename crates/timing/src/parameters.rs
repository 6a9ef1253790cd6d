//! The numbers of a machine that the model computes with, each resolved once:
//! rates in bytes per ns (which is GB/s), times in ns, nodes by position.

use super::routes::Routes;
use super::stations::{Layout, Place};
use nearfar_machine::file::{Confidence, Figure, Link, NodeBandwidth};
use nearfar_machine::needs::Missing;
use nearfar_machine::{Machine, NodeId};

/// How far a number may be off, as a part of it. The only place that reports it.
///
/// `H`, the same CPU in another box with other DIMMs: 5 %. `P`, a relative: 10 %.
/// `D`, a nominal rate: 15 %. `M`, from memory: 25 %. A fitted number meets one
/// measurement and not the next: 10 %. A convention: as little as from memory.
pub fn tolerance(confidence: Confidence) -> f64 {
    match confidence {
        Confidence::H => 0.05,
        Confidence::P => 0.10,
        Confidence::D => 0.15,
        Confidence::M => 0.25,
        Confidence::Fitted => 0.10,
        Confidence::Assumed => 0.25,
    }
}

/// Figures that are wrong together: the range of a time comes from moving one
/// class at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Clock, instructions per cycle, cache latencies, page walks.
    Core,
    /// Lines in flight, most that a core can move.
    Concurrency,
    /// Latencies between nodes.
    Latency,
    /// Bandwidth of memory and of the caches' ports to it.
    Memory,
    /// Links and pair bandwidths.
    Links,
    /// Control bytes, probes, directories, η.
    Protocol,
}

impl Class {
    pub(super) const ALL: [Class; 6] =
        [Class::Core, Class::Concurrency, Class::Latency, Class::Memory, Class::Links, Class::Protocol];
}

/// One class moved to the better or worse end of what is believed of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bias {
    pub class: Class,
    pub better: bool,
}

/// Applies a bias to figures.
struct Believed(Option<Bias>);

impl Believed {
    /// A rate or a number of which more is faster.
    fn rate(&self, class: Class, value: f64, confidence: Confidence) -> f64 {
        match self.0 {
            Some(b) if b.class == class && b.better => value * (1.0 + tolerance(confidence)),
            Some(b) if b.class == class => value / (1.0 + tolerance(confidence)),
            _ => value,
        }
    }

    /// A cost, of which more is slower.
    fn cost(&self, class: Class, value: f64, confidence: Confidence) -> f64 {
        1.0 / self.rate(class, 1.0 / value, confidence)
    }

    fn rate_of(&self, class: Class, figure: &Figure) -> f64 {
        self.rate(class, figure.value, figure.confidence)
    }

    fn cost_of(&self, class: Class, figure: &Figure) -> f64 {
        self.cost(class, figure.value, figure.confidence)
    }
}

/// A machine as the model sees it.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub(super) line: f64,
    pub(super) ns_per_instruction: f64,
    pub(super) clock_ghz: f64,
    /// Latency of a hit in each level, ns, inner first.
    pub(super) cache_ns: Vec<f64>,
    pub(super) outstanding: f64,
    /// Lines in flight of a stream that only reads, and of one that updates in
    /// place, per node; from what one core can move at most.
    pub(super) streams: Vec<(f64, f64)>,
    pub(super) latency: Vec<Vec<f64>>,
    pub(super) memory: Vec<(NodeBandwidth, f64)>,
    /// Bandwidth from a node to another's memory, where known.
    pub(super) pairs: Vec<Vec<Option<f64>>>,
    pub(super) routes: Routes,
    pub(super) layout: Layout,
    /// Stations whose load delays a line, by node and node of the page.
    pub(super) ways: Vec<Vec<Vec<u32>>>,
    pub(super) control: f64,
    pub(super) eta: f64,
    pub(super) probes: f64,
    pub(super) directory_writes: f64,
    /// Lines of other nodes' memory that a node can have in flight.
    pub(super) window: Option<f64>,
    pub(super) walk_ns: f64,
    pub(super) walkers: f64,
    /// Cores behind one port to memory, and its rates.
    pub(super) port: Option<Port>,
    pub(super) nodes: Vec<NodeId>,
    pub(super) places: Vec<Place>,
}

/// The narrow way from a group of cores to memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub read: Option<f64>,
    pub write: Option<f64>,
}

impl Parameters {
    /// The parameters of a machine, or what is missing for them.
    pub fn new(machine: &Machine) -> Result<Parameters, Vec<Missing>> {
        Parameters::biased(machine, None)
    }

    pub(super) fn biased(machine: &Machine, bias: Option<Bias>) -> Result<Parameters, Vec<Missing>> {
        let missing = machine.missing_to_time();
        if !missing.is_empty() {
            return Err(missing);
        }
        let f = &machine.figures;
        let believed = Believed(bias);
        // `missing_to_time` has made sure of these.
        let absent = |what: &str| vec![Missing::other(what, "it")];
        let clock = f.core.clock_ghz().ok_or_else(|| absent("clock"))?;
        let ipc = f.core.ipc.as_ref().ok_or_else(|| absent("ipc"))?;
        let outstanding = f.core.outstanding_lines.as_ref().ok_or_else(|| absent("outstanding_lines"))?;
        let matrix = f.latency_ns.as_ref().ok_or_else(|| absent("latency_ns"))?;

        let count = machine.nodes.len();
        let line = f64::from(f.line());
        let clock_ghz = believed.rate_of(Class::Core, clock);
        let latency: Vec<Vec<f64>> = (0..count)
            .map(|i| {
                // Unknown only from nodes without cpus. They read nothing: if they are said to, it takes for ever, and is refused.
                let entry = |j| matrix.get(i, j).unwrap_or(f64::INFINITY);
                (0..count).map(|j| believed.cost(Class::Latency, entry(j), matrix.confidence)).collect()
            })
            .collect();
        let cache_ns: Vec<f64> =
            machine.caches.iter().map(|c| c.latency_cycles.unwrap_or(0.0) / clock_ghz).collect();
        let walk_ns = match &f.core.walk_cycles {
            Some(cycles) => believed.cost_of(Class::Core, cycles) / clock_ghz,
            None => cache_ns.last().copied().unwrap_or(0.0),
        };
        let memory = machine.nodes.iter().filter_map(|n| {
            let bandwidth = f.bandwidth_of(n.id)?.clone();
            let known = [&bandwidth.read_gbs, &bandwidth.triad_gbs, &bandwidth.update_gbs];
            let least_sure = known
                .into_iter()
                .flatten()
                .max_by(|a, b| tolerance(a.confidence).total_cmp(&tolerance(b.confidence)))?;
            let factor = believed.rate(Class::Memory, 1.0, least_sure.confidence);
            Some((bandwidth, factor))
        });
        let pairs = |i: usize, j: usize| {
            let m = f.pair_read_gbs.as_ref().filter(|_| i != j)?;
            Some(believed.rate(Class::Links, m.get(i, j)?, m.confidence))
        };
        let streams = (0..count).map(|n| {
            let unbiased = matrix.get(n, n);
            // A core's rate over its own memory's latency: Little's law. The
            // latency is the unbiased one, so that what was measured stays so.
            let lines = |figure: &Option<Figure>, part: f64| {
                let rate = believed.rate_of(Class::Concurrency, figure.as_ref()?);
                Some((rate * part * unbiased? / line).max(1.0))
            };
            let fallback = believed.rate_of(Class::Concurrency, outstanding).max(1.0);
            match (lines(&f.core.read_gbs, 1.0), lines(&f.core.update_gbs, 0.5)) {
                (Some(read), Some(update)) => (read, update),
                (Some(one), None) | (None, Some(one)) => (one, one),
                (None, None) => (fallback, fallback),
            }
        });
        let port = f.caches.last().filter(|c| c.read_gbs.is_some() || c.write_gbs.is_some()).map(|c| Port {
            read: c.read_gbs.as_ref().map(|g| believed.rate_of(Class::Memory, g)),
            write: c.write_gbs.as_ref().map(|g| believed.rate_of(Class::Memory, g)),
        });
        let cost_or = |figure: &Option<Figure>, without: f64| {
            figure.as_ref().map_or(without, |g| believed.cost_of(Class::Protocol, g))
        };
        let control = cost_or(&f.time.control_bytes, 0.0);
        let raw = |link: &Link| {
            let sure = [link.count.confidence, link.gbs_per_direction.confidence];
            let least = if tolerance(sure[0]) > tolerance(sure[1]) { sure[0] } else { sure[1] };
            believed.rate(Class::Links, link.count.value * link.gbs_per_direction.value, least)
        };
        // Pair bandwidths are of lines; the link carries their control bytes too.
        let routes = Routes::new(machine, raw, |i, j| Some(pairs(i, j)? * (line + control) / line));
        // A pair whose lines cross one link of known rate is limited there, once.
        let pairs = |i: usize, j: usize| {
            let way = if i == j { &[][..] } else { routes.way(j, i) };
            let direct = match way {
                [one] => routes.directions[*one].rate.map(|rate| rate * line / (line + control)),
                _ => None,
            };
            pairs(i, j).filter(|&seen| direct.is_none_or(|direct| seen < 0.999 * direct))
        };
        let places = places(machine);
        let layout = Layout::new(count, &routes, &places);
        let way = |node, page_node| layout.way(&routes, node, page_node);
        Ok(Parameters {
            line,
            ns_per_instruction: 1.0 / (clock_ghz * believed.rate_of(Class::Core, ipc)),
            clock_ghz,
            cache_ns,
            outstanding: believed.rate_of(Class::Concurrency, outstanding).max(1.0),
            streams: streams.collect(),
            latency,
            memory: memory.collect(),
            pairs: (0..count).map(|i| (0..count).map(|j| pairs(i, j)).collect()).collect(),
            ways: (0..count).map(|i| (0..count).map(|j| way(i, j)).collect()).collect(),
            layout,
            routes,
            control,
            // What costs is the part above 1.
            eta: f.time.eta.as_ref().map_or(1.0, |e| match e.value - 1.0 {
                extra if extra > 0.0 => 1.0 + believed.cost(Class::Protocol, extra, e.confidence),
                _ => 1.0,
            }),
            probes: cost_or(&f.time.probe_share, 0.0).min(1.0),
            directory_writes: cost_or(&f.time.directory_write_share, 0.0),
            window: f.time.remote_lines.as_ref().map(|g| believed.rate_of(Class::Links, g)),
            walk_ns,
            walkers: f.core.page_walkers.as_ref().map_or(1.0, |w| w.value).max(1.0),
            port,
            nodes: machine.nodes.iter().map(|n| n.id).collect(),
            places,
        })
    }
}

/// The cores in order of nodes. Cores of a node share ports in order of their cpus.
fn places(machine: &Machine) -> Vec<Place> {
    let sharing = machine.caches.last().map_or(1, |c| c.cores_per_instance.max(1)) as usize;
    let mut places = Vec::new();
    let mut port = 0;
    for (node, described) in machine.nodes.iter().enumerate() {
        let cores = machine.cores_of(described.id);
        for (i, core) in cores.iter().enumerate() {
            places.push(Place { node, port: port + i / sharing, cpus: core.iter().collect() });
        }
        port += cores.len().div_ceil(sharing);
    }
    places
}
