//! Two readings of a host → what happened between them.

mod objects;
mod processes;

pub use objects::objects;

use super::events::Event;
use super::reading::Reading;
use super::tabs::{self, Core, CoreSources, Node, NodeSources, column, per_second};
use super::{Cell, Frame, Row, Tab, Table, Unit};
use nearfar_machine::{Machine, NodeId};

/// Source of the nodes of pages.
const PAGES: &str = "numa_maps, or move_pages on random pages";

/// What does not change from reading to reading.
#[derive(Clone, Debug)]
pub struct Host {
    /// The machine, with the figures of a machine file if there is one.
    pub machine: Machine,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Where `machine` has its bandwidths from; empty if from nowhere.
    pub figures: String,
    /// What the lines of [`Event::LocalLines`] are on this processor.
    pub lines: &'static str,
}

const STAT: &str = "/proc/stat";
const VMSTAT: &str = "/proc/vmstat";
const MEMINFO: &str = "sysfs nodeN/meminfo";
const NUMASTAT: &str = "sysfs nodeN/numastat";
const PID_STAT: &str = "/proc/PID/stat";
const TID_STAT: &str = "/proc/PID/task/TID/stat";
const SCHED: &str = "/proc/PID/task/TID/sched";
const FIRST: &str = "the first interval has not ended: rates need two readings";

impl Host {
    /// What happened between two readings. `begin_ns` is when the first reading was made.
    pub fn frame(&self, then: &Reading, now: &Reading, begin_ns: u64) -> Frame {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let interval_s = seconds(now.at_ns.saturating_sub(then.at_ns)).max(1e-9);
        let mut frame = Frame::new(seconds(now.at_ns.saturating_sub(begin_ns)), interval_s);
        let between = Between { host: self, then, now, interval_s };
        let cores = between.cores();
        let nodes = between.nodes(&cores);
        frame.insert(Tab::Machine, between.whole(&cores, &nodes));
        frame.insert(Tab::Nodes, between.nodes_table(&nodes));
        frame.insert(Tab::Cores, between.cores_table(&cores));
        frame.insert(Tab::Processes, between.processes());
        frame.insert(Tab::Threads, between.threads());
        frame
    }
}

struct Between<'a> {
    host: &'a Host,
    then: &'a Reading,
    now: &'a Reading,
    interval_s: f64,
}

/// The difference of two counts; `None` if the later one is smaller.
fn more(now: u64, then: u64) -> Option<f64> {
    now.checked_sub(then).map(|d| d as f64)
}

impl Between<'_> {
    fn event(&self, cpu: u32, event: Event) -> Option<f64> {
        let of = |r: &Reading| r.events.get(&cpu)?.get(&event).copied();
        of(self.now)?.since(&of(self.then)?)
    }

    fn cores(&self) -> Vec<Core> {
        let core = |(&cpu, ticks): (&u32, &super::reading::CpuTicks)| {
            let parts = self.then.cpus.get(&cpu).and_then(|then| {
                let busy = more(ticks.busy, then.busy)?;
                let (idle, stolen) = (more(ticks.idle, then.idle)?, more(ticks.stolen, then.stolen)?);
                let all = busy + idle + stolen;
                (all > 0.0).then(|| (busy / all, stolen / all))
            });
            let event = |event| self.event(cpu, event);
            Core {
                cpu,
                node: self.host.machine.node_of_cpu(cpu),
                busy: parts.map(|p| p.0),
                stolen: parts.map(|p| p.1),
                cycles: event(Event::Cycles),
                instructions: event(Event::Instructions),
                l2_hits: event(Event::L2Hits),
                l2_misses: event(Event::L2Misses),
                l3_hits: event(Event::L3Hits),
                l3_misses: event(Event::L3Misses),
                local_lines: event(Event::LocalLines),
                remote_lines: event(Event::RemoteLines),
            }
        };
        self.now.cpus.iter().map(core).collect()
    }

    /// Why none of some events is counted.
    fn no_event(&self, events: &[Event]) -> String {
        let missing = events.iter().find_map(|e| self.now.missing_events.get(e));
        missing.map_or_else(
            || {
                "nothing was counted in this interval: the cpu did no such work, or the counter did not run"
                    .to_owned()
            },
            |m| m.why.clone(),
        )
    }

    fn cores_table(&self, cores: &[Core]) -> Table {
        let perf = |what: &str| format!("perf_event_open per cpu: {what}");
        let from = CoreSources {
            time: STAT,
            cycles: perf("cycles, instructions"),
            caches: perf("loads by level of cache"),
            lines: perf(self.host.lines),
        };
        let mut table = tabs::cores(cores, self.interval_s, &from);
        for key in ["busy", "stolen"] {
            table.explain(key, "the cpu came online in this interval, or its clock did not tick");
        }
        let events: [(&[&str], &[Event]); 4] = [
            (&["ipc", "instructions", "cycles"], &[Event::Cycles, Event::Instructions]),
            (&["l2_hit"], &[Event::L2Hits, Event::L2Misses]),
            (&["l3_hit"], &[Event::L3Hits, Event::L3Misses]),
            (&["local", "remote", "remote_share"], &[Event::LocalLines, Event::RemoteLines]),
        ];
        for (keys, events) in events {
            keys.iter().for_each(|key| table.explain(key, self.no_event(events)));
        }
        table
    }

    fn nodes(&self, cores: &[Core]) -> Vec<Node> {
        let node = |of: &nearfar_machine::NumaNode| {
            let own = || cores.iter().filter(|c| c.node == Some(of.id));
            let busy: Option<f64> = own().map(|c| c.busy).sum();
            let memory = self.now.nodes.get(&of.id).copied().unwrap_or_default();
            let float = |bytes: Option<u64>| bytes.map(|b| b as f64);
            let placed = |name: &str| {
                let count = |r: &Reading| r.activity.placement.get(&of.id)?.get(name).copied();
                more(count(self.now)?, count(self.then)?)
            };
            let moved = self.moved(of.id);
            let sustained = moved.and_then(|(read, written)| self.sustained(of.id, read, written));
            let (own_bytes, others) = self.monitored(of.id).unzip();
            Node {
                id: of.id,
                cpus: of.cpus.to_string(),
                busy: busy.filter(|_| own().count() > 0).map(|b| b / own().count() as f64),
                total: float(memory.total),
                free: float(memory.free),
                anonymous: float(memory.anonymous),
                files: float(memory.files),
                placed: ["numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "other_node"].map(placed),
                read: moved.map(|m| m.0),
                written: moved.map(|m| m.1),
                sustained,
                own: own_bytes,
                others,
            }
        };
        self.host.machine.nodes.iter().map(node).collect()
    }

    fn moved(&self, node: NodeId) -> Option<(f64, f64)> {
        let (now, then) = (self.now.controllers.get()?.get(&node)?, self.then.controllers.get()?.get(&node)?);
        Some((more(now.read, then.read)?, more(now.written, then.written)?))
    }

    fn monitored(&self, node: NodeId) -> Option<(f64, f64)> {
        let (now, then) = (self.now.monitored.get()?.get(&node)?, self.then.monitored.get()?.get(&node)?);
        let (total, local) = (more(now.total, then.total)?, more(now.local, then.local)?);
        // Two files that are read one after the other: local may be a little more than all.
        Some((local, (total - local).max(0.0)))
    }

    fn sustained(&self, node: NodeId, read: f64, written: f64) -> Option<f64> {
        let writes = if read + written > 0.0 { written / (read + written) } else { 0.0 };
        Some(self.host.machine.figures.bandwidth_of(node)?.rate(writes)? * 1e9)
    }

    fn nodes_table(&self, nodes: &[Node]) -> Table {
        let from = NodeSources {
            time: STAT,
            memory: MEMINFO,
            placed: NUMASTAT,
            moved: self.now.controllers.name("counters of the memory controllers").to_owned(),
            sustained: match self.host.figures.is_empty() {
                true => "a machine file".to_owned(),
                false => self.host.figures.clone(),
            },
            own: self.now.monitored.name("resctrl").to_owned(),
        };
        let mut table = tabs::nodes(nodes, self.interval_s, &from);
        for key in ["used_share", "free", "anonymous", "files"] {
            table.explain(key, "the kernel does not list it in this node's meminfo");
        }
        for key in ["hit", "miss", "foreign", "interleave", "other_node"] {
            table.explain(
                key,
                "the kernel has no numastat for this node (CONFIG_NUMA), or lacks this counter",
            );
        }
        for key in ["read", "write"] {
            table.explain(
                key,
                self.source(self.now.controllers.why(), "of no memory controller of this node"),
            );
        }
        table.explain(
            "bandwidth_share",
            match (nodes.iter().any(|n| n.read.is_some()), self.host.figures.is_empty()) {
                (false, _) => format!("bytes per second are unknown: {}", self.now.controllers.why()),
                (true, true) => {
                    "no figures of this machine: `nearfar measure -o FILE` measures what its memory \
                                 sustains, and --as FILE gives it to top"
                        .to_owned()
                }
                (true, false) => format!("{} has no bandwidth of this node", self.host.figures),
            },
        );
        for key in ["own", "others"] {
            table.explain(key, self.source(self.now.monitored.why(), "of no cache of this node's cpus"));
        }
        table
    }

    fn source(&self, why: &str, otherwise: &str) -> String {
        if why.is_empty() { format!("there is a counter {otherwise}") } else { why.to_owned() }
    }

    fn whole(&self, cores: &[Core], nodes: &[Node]) -> Table {
        use Unit::{Bytes, BytesPerSecond, Count, Cpus, PerSecond, Share};
        let sum = |values: &mut dyn Iterator<Item = Option<f64>>| values.sum::<Option<f64>>();
        let migration = |name: &str| {
            let of = |r: &Reading| r.activity.migration.get(name).copied();
            more(of(self.now)?, of(self.then)?)
        };
        let faults = self.now.faults.zip(self.then.faults).and_then(|(now, then)| more(now, then));
        let threads: u64 = self.now.processes.values().map(|p| u64::from(p.stat.threads)).sum();
        let busiest =
            nodes.iter().filter_map(|n| Some((n.read? + n.written?) / self.interval_s / n.sustained?));
        let lines = |f: fn(&Core) -> Option<f64>| sum(&mut cores.iter().map(f));
        let moved = self.now.controllers.name("counters of the memory controllers").to_owned();
        let mut table = Table::default();
        let mut cells = Vec::new();
        let mut add = |c: super::Column, cell: Cell| {
            table.columns.push(c);
            cells.push(cell);
        };
        let per_s = |count| per_second(count, self.interval_s);
        add(
            column("busy", "busy cpus", Cpus, "cpus that worked, mean of the interval", STAT),
            lines(|c| c.busy).into(),
        );
        add(column("cpus", "cpus", Count, "cpus that are online", STAT), (cores.len() as f64).into());
        add(
            column("processes", "processes", Count, "processes", PID_STAT),
            (self.now.processes.len() as f64).into(),
        );
        add(
            column("threads", "threads", Count, "threads of all processes", PID_STAT),
            (threads as f64).into(),
        );
        let used = sum(&mut nodes.iter().map(|n| Some(n.total? - n.free?)));
        add(column("used", "memory used", Bytes, "memory that is not free", MEMINFO), used.into());
        add(
            column("free", "memory free", Bytes, "free memory", MEMINFO),
            sum(&mut nodes.iter().map(|n| n.free)).into(),
        );
        add(
            column("faults", "page faults/s", PerSecond, "page faults of all processes", VMSTAT),
            per_s(faults),
        );
        let placed = |at: usize| sum(&mut nodes.iter().map(|n| n.placed[at]));
        add(
            column("hit", "placed as asked/s", PerSecond, "pages placed on the node asked for", NUMASTAT),
            per_s(placed(0)),
        );
        add(
            column(
                "miss",
                "placed elsewhere/s",
                PerSecond,
                "pages placed on another node than asked",
                NUMASTAT,
            ),
            per_s(placed(1)),
        );
        add(
            column(
                "other_node",
                "placed from afar/s",
                PerSecond,
                "pages placed on another node than the cpu's",
                NUMASTAT,
            ),
            per_s(placed(4)),
        );
        add(
            column(
                "hint_faults",
                "AutoNUMA faults/s",
                PerSecond,
                "faults on pages that AutoNUMA unmapped to see which thread uses them",
                VMSTAT,
            ),
            per_s(migration("numa_hint_faults")),
        );
        add(
            column("numa_migrated", "AutoNUMA moved/s", PerSecond, "pages that AutoNUMA moved", VMSTAT),
            per_s(migration("numa_pages_migrated")),
        );
        add(
            column(
                "migrated",
                "pages moved/s",
                PerSecond,
                "pages moved to other places for any reason",
                VMSTAT,
            ),
            per_s(migration("pgmigrate_success")),
        );
        let bytes = |f: fn(&Node) -> Option<f64>| per_s(sum(&mut nodes.iter().map(f)));
        add(
            column("read", "memory read", BytesPerSecond, "bytes read from memory", moved.clone()),
            bytes(|n| n.read),
        );
        add(
            column("write", "memory written", BytesPerSecond, "bytes written to memory", moved.clone()),
            bytes(|n| n.written),
        );
        add(
            column(
                "bandwidth_share",
                "busiest memory",
                Share,
                "the busiest node's bytes per second, as a part of what it sustains",
                moved,
            ),
            busiest.reduce(f64::max).into(),
        );
        let perf = format!("perf_event_open per cpu: {}", self.host.lines);
        let remote = tabs::share(lines(|c| c.remote_lines), lines(|c| c.local_lines));
        add(
            column(
                "remote_share",
                "remote lines",
                Share,
                "part of the lines from memory that came from other nodes",
                perf,
            ),
            remote.into(),
        );
        table.rows = vec![Row { id: 0, cells }];
        let no_lines = self.no_event(&[Event::LocalLines, Event::RemoteLines]);
        for key in ["hint_faults", "numa_migrated", "migrated"] {
            table.explain(key, "the kernel does not count it (CONFIG_NUMA_BALANCING, CONFIG_MIGRATION)");
        }
        for key in ["used", "free", "hit", "miss", "other_node", "faults", "busy"] {
            table.explain(key, "the kernel does not count it for every node and cpu");
        }
        for key in ["read", "write", "bandwidth_share"] {
            let why = self.now.controllers.why();
            table.explain(key, self.source(why, "but not for every node, or nothing says what they sustain"));
        }
        table.explain("remote_share", no_lines);
        table
    }

    /// A process or thread that is the same one as in the reading before.
    fn cpus_of(&self, now: &super::reading::Stat, then: Option<&super::reading::Stat>) -> Option<f64> {
        let then = then.filter(|then| then.started == now.started)?;
        Some(more(now.ticks, then.ticks)? / self.now.ticks_per_second / self.interval_s)
    }
}

#[cfg(test)]
mod tests;
