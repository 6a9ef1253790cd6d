//! Figures of a machine of which only a shape is known: the medians of machines that are described, each marked as
//! assumed. What nodes share (bandwidth, the last cache) is taken per core, as [`scale`](super::scale) does.

use super::figures::{
    CacheFigures, Cell, Confidence, CoreFigures, Figure, Inclusion, Matrix, NodeBandwidth, TlbFigures,
};
use super::shape::ShapeError;
use super::{CacheLevel, DistanceClass, Machine, NodeId};

/// What the sources of such figures call the described machines: by these words a report knows them.
pub const WHOSE: &str = "machines that come with nearfar";

/// One number of several machines.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
    machines: usize,
}

/// The middle of the values, or the mean of the two in the middle; `None` of none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

impl Spread {
    /// Of the machines that have this number; `None` if none has.
    fn of(described: &[Machine], number: impl Fn(&Machine) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = described.iter().filter_map(number).collect();
        let (least, most) =
            values.iter().fold((f64::INFINITY, 0.0), |(l, m): (f64, f64), &v| (l.min(v), m.max(v)));
        let machines = values.len();
        median(values).map(|median| Spread { median, least, most, machines })
    }

    /// Where the number comes from; `each` says what one machine's number is.
    fn source(&self, each: &str) -> String {
        let (least, most) = (short(self.least), short(self.most));
        format!("median{each} of {} {WHOSE} ({least} to {most})", self.machines)
    }

    fn figure(&self) -> Figure {
        assumed(self.median, self.source(""))
    }

    /// Of a number that cores share: that of one core, times the cores.
    fn times(&self, cores: usize) -> Figure {
        assumed(self.median * cores as f64, format!("{}, times {cores}", self.source(" per core")))
    }
}

fn assumed(value: f64, source: String) -> Figure {
    Figure { value, source, confidence: Confidence::Assumed }
}

/// A figure with three digits, without zeros at the end.
pub fn short(value: f64) -> String {
    let decimals = (2 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Machine {
    /// A machine of a shape ([`Machine::from_shape`]) with figures, so that it can be simulated and timed: the medians of
    /// `described`. Links, and the memory's size, stay unknown.
    pub fn from_shape_assumed(shape: &str, described: &[Machine]) -> Result<Machine, ShapeError> {
        let mut machine = Machine::from_shape(shape)?;
        // A shape's nodes are alike, and its cores have one thread.
        let cores = machine.nodes.first().map_or(0, |n| n.cpus.len());
        machine.figures.core = core(described);
        (machine.caches, machine.figures.caches) = caches(described, cores);
        machine.figures.tlbs = tlbs(described);
        machine.figures.latency_ns = latencies(&machine, described);
        machine.figures.bandwidth.extend(bandwidth(&machine, described, cores));
        machine.figures.pair_read_gbs = pairs(&machine, described);
        Ok(machine)
    }

    /// Whether caches are described, all of them by assumption only.
    pub fn caches_are_assumed(&self) -> bool {
        let caches = &self.figures.caches;
        !caches.is_empty() && caches.iter().all(|c| c.size_bytes.confidence == Confidence::Assumed)
    }
}

fn core(described: &[Machine]) -> CoreFigures {
    type Pick = fn(&CoreFigures) -> &Option<Figure>;
    let of = |pick: Pick| {
        Spread::of(described, |m| pick(&m.figures.core).as_ref().map(|f| f.value)).map(|s| s.figure())
    };
    CoreFigures {
        base_ghz: of(|c| &c.base_ghz),
        all_core_ghz: of(|c| &c.all_core_ghz),
        ipc: of(|c| &c.ipc),
        outstanding_lines: of(|c| &c.outstanding_lines),
        read_gbs: of(|c| &c.read_gbs),
        update_gbs: of(|c| &c.update_gbs),
        prefetch_lines: of(|c| &c.prefetch_lines),
        walk_cycles: of(|c| &c.walk_cycles),
        page_walkers: of(|c| &c.page_walkers),
        f64_gflops: of(|c| &c.f64_gflops),
        f32_gflops: of(|c| &c.f32_gflops),
    }
}

/// The levels that most machines have. A level that most of them keep for one core is a core's; of another, the cores of
/// a node share one instance.
fn caches(described: &[Machine], cores: usize) -> (Vec<CacheLevel>, Vec<CacheFigures>) {
    let mut found = (Vec::new(), Vec::new());
    for level in 1..=4 {
        fn of(machine: &Machine, level: u32) -> Option<&CacheFigures> {
            machine.figures.caches.iter().find(|c| c.level == level)
        }
        let have: Vec<&CacheFigures> = described.iter().filter_map(|m| of(m, level)).collect();
        if have.len() * 2 <= described.len() {
            break;
        }
        let own = have.iter().filter(|c| c.cores_per_instance <= 1).count() * 2 > have.len();
        let sharers = if own { 1 } else { cores.max(1) };
        let each =
            |m: &Machine| of(m, level).map(|c| c.size_bytes.value / f64::from(c.cores_per_instance.max(1)));
        let number = |pick: fn(&CacheFigures) -> &Option<Figure>| {
            Spread::of(described, |m| of(m, level).and_then(|c| pick(c).as_ref()).map(|f| f.value))
        };
        let Some(size) = Spread::of(described, each) else { break };
        let mut size = if own { size.figure() } else { size.times(sharers) };
        let ways = number(|c| &c.ways).map(|s| Figure { value: s.median.round().max(1.0), ..s.figure() });
        // Whole sets.
        let set = super::figures::LINE_BYTES as f64 * ways.as_ref().map_or(1.0, |w| w.value);
        size.value = ((size.value / set).floor() * set).max(set);
        let latency_cycles = number(|c| &c.latency_cycles).map(|s| s.figure());
        found.0.push(CacheLevel {
            level,
            size_bytes: size.value as u64,
            cores_per_instance: sharers as u32,
            ways: ways.as_ref().map(|f| f.value as u32),
            latency_cycles: latency_cycles.as_ref().map(|f| f.value),
        });
        found.1.push(CacheFigures {
            level,
            size_bytes: size,
            cores_per_instance: sharers as u32,
            inclusion: usual(have.iter().filter_map(|c| c.inclusion)),
            ways,
            latency_cycles,
            read_gbs: None,
            write_gbs: None,
        });
    }
    found
}

/// The most frequent one; of equally frequent ones that which promises least.
fn usual(all: impl Iterator<Item = Inclusion>) -> Option<Inclusion> {
    let all: Vec<Inclusion> = all.collect();
    let kinds = [Inclusion::Inclusive, Inclusion::Exclusive, Inclusion::Victim, Inclusion::Neither];
    let count = |kind: Inclusion| all.iter().filter(|&&i| i == kind).count();
    kinds.into_iter().filter(|&kind| count(kind) > 0).max_by_key(|&kind| count(kind))
}

/// Small and large pages have tables of their own: half of the machines have it so, and none is too large by it.
fn tlbs(described: &[Machine]) -> Vec<TlbFigures> {
    let mut found = Vec::new();
    for level in 1..=2 {
        for page in [4 << 10, 2 << 20] {
            let entries = Spread::of(described, |m| {
                let holds = |t: &&TlbFigures| t.level == level && t.page_bytes.contains(&page);
                m.figures.tlbs.iter().find(holds).map(|t| t.entries.value)
            });
            found.extend(entries.map(|s| TlbFigures {
                level,
                page_bytes: vec![page],
                entries: Figure { value: s.median.round(), ..s.figure() },
                ways: None,
            }));
        }
    }
    found
}

/// The median of a machine's own pairs of nodes with cpus that are `class` apart.
fn between(
    machine: &Machine,
    class: DistanceClass,
    number: impl Fn(usize, usize) -> Option<f64>,
) -> Option<f64> {
    let ids: Vec<(usize, NodeId)> = machine
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, n)| !n.cpus.is_empty())
        .map(|(i, n)| (i, n.id))
        .collect();
    let pairs = ids.iter().flat_map(|a| ids.iter().map(move |b| (a, b)));
    let apart = pairs.filter(|(a, b)| machine.distance_class(a.1, b.1) == class);
    median(apart.filter_map(|(a, b)| number(a.0, b.0)).collect())
}

const CLASSES: [(DistanceClass, &str); 3] = [
    (DistanceClass::Local, "own memory"),
    (DistanceClass::SameSocket, "another node of the socket"),
    (DistanceClass::OtherSocket, "another socket"),
];

/// A matrix with one number for each class of distance that the machine has.
fn by_class(
    machine: &Machine,
    describe: impl Fn(DistanceClass, &Spread) -> String,
    spread: impl Fn(DistanceClass) -> Option<Spread>,
    value: impl Fn(DistanceClass, &Spread) -> f64,
) -> Option<Matrix> {
    let ids: Vec<NodeId> = machine.nodes.iter().map(|n| n.id).collect();
    let has = |class| ids.iter().any(|&a| ids.iter().any(|&b| machine.distance_class(a, b) == class));
    let known: Vec<(DistanceClass, f64, String)> = CLASSES
        .into_iter()
        .filter(|c| has(c.0))
        .filter_map(|(class, words)| {
            let s = spread(class)?;
            let value = value(class, &s);
            Some((class, value, format!("{words} {}: {}", short(value), describe(class, &s))))
        })
        .collect();
    let cell = |a: NodeId, b: NodeId| {
        let class = machine.distance_class(a, b);
        Cell(known.iter().find(|k| k.0 == class).map(|k| k.1))
    };
    let rows = ids.iter().map(|&a| ids.iter().map(|&b| cell(a, b)).collect()).collect();
    let source = known.iter().map(|k| k.2.as_str()).collect::<Vec<_>>().join("; ");
    (!known.is_empty()).then_some(Matrix { rows, source, confidence: Confidence::Assumed })
}

fn latencies(machine: &Machine, described: &[Machine]) -> Option<Matrix> {
    let of = |class| {
        Spread::of(described, |m| {
            let matrix = m.figures.latency_ns.as_ref()?;
            between(m, class, |a, b| matrix.get(a, b))
        })
    };
    let near = of(DistanceClass::Local)?.median;
    // Each class is of other machines; no memory is nearer than a node's own.
    by_class(machine, |_, s| s.source(""), of, |_, s| s.median.max(near))
}

fn bandwidth(machine: &Machine, described: &[Machine], cores: usize) -> Option<NodeBandwidth> {
    let of = |pick: fn(&NodeBandwidth) -> &Option<Figure>| {
        Spread::of(described, |m| {
            let of_node = |id| pick(m.figures.bandwidth_of(id)?).as_ref().map(|f| f.value);
            let nodes = m.cpu_nodes().map(|n| (n.id, m.cores_of(n.id).len()));
            median(nodes.filter_map(|(id, cores)| Some(of_node(id)? / cores.max(1) as f64)).collect())
        })
        .map(|s| s.times(cores))
    };
    let found = NodeBandwidth {
        nodes: machine.nodes.iter().map(|n| n.id).collect(),
        peak_gbs: of(|b| &b.peak_gbs),
        read_gbs: of(|b| &b.read_gbs),
        update_gbs: of(|b| &b.update_gbs),
        triad_gbs: of(|b| &b.triad_gbs),
    };
    found.read_gbs.is_some().then_some(found)
}

/// A node's own bandwidth times how much of it another node gets.
fn pairs(machine: &Machine, described: &[Machine]) -> Option<Matrix> {
    let own = machine.figures.bandwidth.first()?.read_gbs.as_ref()?.value;
    let of = |class| {
        Spread::of(described, |m| {
            let matrix = m.figures.pair_read_gbs.as_ref()?;
            let read = |b: usize| {
                let sustained = m.figures.bandwidth_of(m.nodes[b].id).and_then(|b| b.read_gbs.as_ref());
                sustained.map(|f| f.value).or(matrix.get(b, b))
            };
            between(m, class, |a, b| Some(matrix.get(a, b)? / read(b)?))
        })
    };
    let words = |class, s: &Spread| match class {
        DistanceClass::Local => "read_gbs of [[bandwidth]]".to_owned(),
        _ => format!("{}, times read_gbs of [[bandwidth]]", s.source(" part of a node's own bandwidth")),
    };
    // The diagonal is the node's own by definition, not a median of measurements that differ from it.
    let value = |class, s: &Spread| if class == DistanceClass::Local { own } else { own * s.median.min(1.0) };
    by_class(machine, words, of, value)
}
