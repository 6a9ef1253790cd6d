//! A counted recording (`record --on`) over its simulated time: the same tables, from exact counts.

use super::tabs::{self, Core, CoreSources, Node, NodeSources, column, per_second, share};
use super::{Cell, Frame, Row, Tab, Table, Unit};
use nearfar_machine::{Machine, NodeId};
use nearfar_recording::{Columns, CpuEpoch, CpuEpochs, EpochTraffic, EpochTraffics};
use nearfar_timing::{Binding, Timeline, Unknown};
use std::collections::BTreeMap;

/// Frames of a recording unless an interval is given: about so many.
const FRAMES: f64 = 40.0;
const COUNTED: &str = "counted by the virtual machine";
const CLOCK: &str = "simulated clocks of the cpus";
const MODEL: &str = "counted by the virtual machine, time by the model (docs/time-model.md)";

/// The frames of a run on `machine`, each of `interval_s` simulated seconds or, without that, of a fortieth of the
/// run; none is shorter than an epoch. With `region_only` those of the region of interest, if the run marks one.
///
/// # Errors
/// Why the time of the run is not known: without it nothing has a rate.
pub fn frames(
    machine: &Machine,
    cpus: &CpuEpochs,
    traffic: &EpochTraffics,
    region_only: bool,
    interval_s: Option<f64>,
) -> Result<Vec<Frame>, Unknown> {
    let (mut cpus, mut traffic) = (cpus.clone(), traffic.clone());
    if !region_only {
        // The time model leaves out what is outside a region that is marked.
        cpus.region.fill(0);
        traffic.region.fill(0);
    }
    let time = Timeline::new(machine, &cpus, &traffic)?.time()?;
    let counted = cpus.region.contains(&1);
    let counts = |region: u8| !counted || region == 1;
    let mut by_epoch: BTreeMap<u32, Epoch> = BTreeMap::new();
    for row in cpus.rows().filter(|r| counts(r.region)) {
        by_epoch.entry(row.epoch).or_default().cpus.push(row);
    }
    for row in traffic.rows().filter(|r| counts(r.region)) {
        by_epoch.entry(row.epoch).or_default().traffic.push(row);
    }
    for phase in &time.phases {
        let epochs = by_epoch.range_mut(phase.first_epoch..=phase.last_epoch);
        let number = epochs.count();
        for (_, epoch) in by_epoch.range_mut(phase.first_epoch..=phase.last_epoch) {
            epoch.seconds = phase.seconds / number as f64;
            epoch.binds = Some(phase.binds);
        }
    }
    let interval_s = interval_s.unwrap_or(time.seconds / FRAMES);
    let mut frames = Vec::new();
    let mut slot = Slot::default();
    let mut at_s = 0.0;
    for epoch in by_epoch.values().filter(|e| e.seconds > 0.0) {
        slot.add(epoch);
        at_s += epoch.seconds;
        // The small shift is for sums of many small numbers.
        if slot.seconds >= interval_s * (1.0 - 1e-9) {
            frames.push(std::mem::take(&mut slot).frame(machine, at_s, time.clock_ghz));
        }
    }
    if slot.seconds > 0.0 {
        frames.push(slot.frame(machine, at_s, time.clock_ghz));
    }
    Ok(frames)
}

#[derive(Default)]
struct Epoch {
    seconds: f64,
    binds: Option<Binding>,
    cpus: Vec<CpuEpoch>,
    traffic: Vec<EpochTraffic>,
}

/// What a cpu did in a slot of time.
#[derive(Clone, Copy, Default)]
struct Did {
    instructions: u64,
    accesses: u64,
    hits: [u64; 3],
    busy_ns: f64,
    /// Time of the epochs that it worked in, seconds.
    worked_s: f64,
}

/// Lines between a cpu and a node's memory.
#[derive(Clone, Copy, Default)]
struct Lines {
    read: u64,
    written: u64,
}

#[derive(Default)]
struct Slot {
    seconds: f64,
    cpus: BTreeMap<u16, Did>,
    lines: BTreeMap<(u16, i16), Lines>,
    binds: Vec<(Binding, f64)>,
}

impl Slot {
    fn add(&mut self, epoch: &Epoch) {
        self.seconds += epoch.seconds;
        for row in &epoch.cpus {
            let did = self.cpus.entry(row.cpu).or_default();
            did.instructions += row.instructions;
            did.accesses += row.accesses;
            did.hits.iter_mut().zip([row.l1_hits, row.l2_hits, row.l3_hits]).for_each(|(sum, n)| *sum += n);
            did.busy_ns += row.busy_ns.max(0.0);
            did.worked_s += if row.instructions > 0 { epoch.seconds } else { 0.0 };
        }
        for row in &epoch.traffic {
            let lines = self.lines.entry((row.cpu, row.page_node)).or_default();
            lines.read += row.read_lines;
            lines.written += row.write_lines + row.stream_lines;
        }
        if let Some(binds) = epoch.binds {
            match self.binds.iter_mut().find(|(known, _)| *known == binds) {
                Some((_, seconds)) => *seconds += epoch.seconds,
                None => self.binds.push((binds, epoch.seconds)),
            }
        }
    }

    /// Lines of the cpus and nodes that `which` chooses.
    fn sum(&self, which: impl Fn(u16, i16) -> bool) -> Lines {
        let chosen = self.lines.iter().filter(|((cpu, page_node), _)| which(*cpu, *page_node));
        chosen.fold(Lines::default(), |sum, (_, l)| Lines {
            read: sum.read + l.read,
            written: sum.written + l.written,
        })
    }

    fn frame(&self, machine: &Machine, at_s: f64, clock_ghz: f64) -> Frame {
        let mut frame = Frame::new(at_s, self.seconds);
        let cores = self.cores(machine, clock_ghz);
        let nodes = self.nodes(machine);
        frame.insert(Tab::Machine, self.whole(&cores, &nodes));
        let from = NodeSources {
            time: CLOCK,
            memory: "the guest's kernel",
            placed: "the guest's kernel",
            moved: MODEL.to_owned(),
            sustained: format!("{MODEL}; the machine file's sustained bandwidth"),
            own: MODEL.to_owned(),
        };
        let mut table = tabs::nodes(&nodes, self.seconds, &from);
        for key in
            ["used_share", "free", "anonymous", "files", "hit", "miss", "foreign", "interleave", "other_node"]
        {
            table.explain(
                key,
                "a recording has no counters of its kernel over simulated time; `nearfar report` has the \
                                first touches and the nodes of pages",
            );
        }
        table.explain("bandwidth_share", "the machine file does not say what this node's memory sustains");
        frame.insert(Tab::Nodes, table);
        let from = CoreSources {
            time: CLOCK,
            cycles: MODEL.to_owned(),
            caches: COUNTED.to_owned(),
            lines: MODEL.to_owned(),
        };
        let mut table = tabs::cores(&cores, self.seconds, &from);
        for key in ["ipc", "busy", "l2_hit", "l3_hit", "remote_share"] {
            table.explain(key, "the program did nothing of the kind on this cpu in this interval");
        }
        table.explain("stolen", "the emulated machine has no hypervisor of its own");
        frame.insert(Tab::Cores, table);
        frame
    }

    fn cores(&self, machine: &Machine, clock_ghz: f64) -> Vec<Core> {
        let busiest = self.cpus.values().map(|d| d.busy_ns).fold(0.0, f64::max);
        let all: Vec<u32> = machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
        let core = |cpu: u32| {
            let key = u16::try_from(cpu).unwrap_or(u16::MAX);
            let did = self.cpus.get(&key).copied().unwrap_or_default();
            let node = machine.node_of_cpu(cpu);
            let own = |page_node: i16| u32::try_from(page_node).ok() == node;
            let near = self.sum(|c, page_node| c == key && own(page_node));
            let far = self.sum(|c, page_node| c == key && page_node >= 0 && !own(page_node));
            let missed = |levels: usize| {
                did.hits[..levels].iter().fold(did.accesses, |rest, h| rest.saturating_sub(*h))
            };
            Core {
                cpu,
                node,
                busy: (busiest > 0.0).then(|| did.busy_ns / busiest),
                stolen: None,
                cycles: Some(did.worked_s * clock_ghz * 1e9),
                instructions: Some(did.instructions as f64),
                l2_hits: Some(did.hits[1] as f64),
                l2_misses: Some(missed(2) as f64),
                l3_hits: Some(did.hits[2] as f64),
                l3_misses: Some(missed(3) as f64),
                local_lines: Some((near.read + near.written) as f64),
                remote_lines: Some((far.read + far.written) as f64),
            }
        };
        all.into_iter().map(core).collect()
    }

    fn nodes(&self, machine: &Machine) -> Vec<Node> {
        let line = f64::from(machine.figures.line());
        let busiest = self.cpus.values().map(|d| d.busy_ns).fold(0.0, f64::max);
        let node = |of: &nearfar_machine::NumaNode| {
            let here = |page_node: i16| u32::try_from(page_node).ok() == Some(of.id);
            let own_cpu = |cpu: u16| of.cpus.contains(u32::from(cpu));
            let moved = self.sum(|_, page_node| here(page_node));
            let bytes = |l: Lines| (l.read + l.written) as f64 * line;
            let writes = moved.written as f64 / ((moved.read + moved.written).max(1)) as f64;
            let busy: f64 =
                of.cpus.iter().filter_map(|c| self.cpus.get(&(c as u16))).map(|d| d.busy_ns).sum();
            Node {
                id: of.id,
                cpus: of.cpus.to_string(),
                busy: (busiest > 0.0 && !of.cpus.is_empty()).then(|| busy / busiest / of.cpus.len() as f64),
                read: Some(moved.read as f64 * line),
                written: Some(moved.written as f64 * line),
                sustained: machine
                    .figures
                    .bandwidth_of(of.id)
                    .and_then(|b| b.rate(writes))
                    .map(|gbs| gbs * 1e9),
                own: Some(bytes(self.sum(|cpu, page_node| own_cpu(cpu) && here(page_node)))),
                others: Some(bytes(
                    self.sum(|cpu, page_node| own_cpu(cpu) && page_node >= 0 && !here(page_node)),
                )),
                ..Node::default()
            }
        };
        machine.nodes.iter().map(node).collect()
    }

    fn whole(&self, cores: &[Core], nodes: &[Node]) -> Table {
        use Unit::{BytesPerSecond, Cpus, PerSecond, Ratio, Share, Text};
        let sum = |f: fn(&Core) -> Option<f64>| cores.iter().map(f).sum::<Option<f64>>();
        let total = |f: fn(&Node) -> Option<f64>| nodes.iter().map(f).sum::<Option<f64>>();
        let busiest = nodes.iter().filter_map(|n| Some((n.read? + n.written?) / self.seconds / n.sustained?));
        let longest = self.binds.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(binds, _)| words(*binds));
        let columns = vec![
            column("busy", "busy cpus", Cpus, "cpus that worked, by the busiest one's clock", CLOCK),
            column("ipc", "IPC", Ratio, "instructions per cycle of the cpus that worked", MODEL),
            column(
                "instructions",
                "instructions/s",
                PerSecond,
                "instructions of the program in user mode",
                MODEL,
            ),
            column("read", "memory read", BytesPerSecond, "bytes read from memory", MODEL),
            column("write", "memory written", BytesPerSecond, "bytes written to memory", MODEL),
            column(
                "bandwidth_share",
                "busiest memory",
                Share,
                "the busiest node's bytes per second, as a part of what it sustains",
                MODEL,
            ),
            column(
                "remote_share",
                "remote lines",
                Share,
                "part of the lines from and to memory that came from other nodes",
                COUNTED,
            ),
            column("binds", "bound by", Text, "the resource that bound longest", MODEL),
        ];
        let cells = vec![
            sum(|c| c.busy).into(),
            sum(|c| c.instructions).zip(sum(|c| c.cycles)).map(|(i, c)| i / c).into(),
            per_second(sum(|c| c.instructions), self.seconds),
            per_second(total(|n| n.read), self.seconds),
            per_second(total(|n| n.written), self.seconds),
            busiest.reduce(f64::max).into(),
            share(sum(|c| c.remote_lines), sum(|c| c.local_lines)).into(),
            longest.map_or(Cell::Unknown, Cell::from),
        ];
        let mut table = Table { columns, rows: vec![Row { id: 0, cells }], ..Table::default() };
        for key in ["busy", "ipc", "remote_share", "binds"] {
            table.explain(key, "the program did nothing of the kind in this interval");
        }
        table.explain("bandwidth_share", "the machine file does not say what its memory sustains");
        table
    }
}

fn words(binds: Binding) -> String {
    let between = |from: NodeId, to: NodeId| match from == to {
        true => format!("the port of node {from}'s cores to memory"),
        false => format!("the link from node {from} to node {to}"),
    };
    match binds {
        Binding::Core => "the cores".to_owned(),
        Binding::Concurrency => "latency".to_owned(),
        Binding::Memory { node } => format!("the memory of node {node}"),
        Binding::Link { from, to } => between(from, to),
    }
}
