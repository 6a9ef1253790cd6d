//! Processes and threads between two readings.

use super::super::reading::{Pages, Process, Thread};
use super::super::tabs::{column, per_second};
use super::super::{Cell, Row, Table, Unit};
use super::Between;
use super::objects::{bytes_on, far};
use super::{FIRST, PAGES, PID_STAT, SCHED, TID_STAT, more};
use nearfar_machine::NodeId;
use std::collections::BTreeMap;
impl Between<'_> {
    pub(super) fn processes(&self) -> Table {
        use Unit::{Bytes, Count, Cpus, PerSecond, Seconds, Share, Text};
        let mut columns = vec![
            column("pid", "pid", Text, "process id", PID_STAT),
            column("name", "name", Text, "name as the kernel has it", PID_STAT),
            column("threads", "threads", Count, "threads", PID_STAT),
            column("cpu", "cpus", Cpus, "cpus that its threads kept busy", PID_STAT),
            column("on", "on nodes", Text, "nodes that its threads ran on last, the busiest first", TID_STAT),
            column("resident", "resident", Bytes, "resident memory", PID_STAT),
            column(
                "far_pages",
                "far pages",
                Share,
                "part of its pages on other nodes than its threads, weighted by their time; where pages are, not which are used",
                "pages by node, threads' time by node",
            ),
            column("faults", "faults/s", PerSecond, "page faults without a disk", PID_STAT),
            column("disk_faults", "disk/s", PerSecond, "page faults that read a disk", PID_STAT),
            column("migrations", "migr/s", PerSecond, "changes of cpu of its threads", SCHED),
            column("pages_age", "looked", Seconds, "time since its pages were looked at", PAGES),
        ];
        let nodes: Vec<NodeId> = self.host.machine.nodes.iter().map(|n| n.id).collect();
        columns.extend(nodes.iter().map(bytes_on));
        let mut by_process: BTreeMap<u32, Vec<(u32, &Thread)>> = BTreeMap::new();
        for (&tid, thread) in &self.now.threads {
            by_process.entry(thread.pid).or_default().push((tid, thread));
        }
        let row = |(&pid, process): (&u32, &Process)| {
            let then =
                self.then.processes.get(&pid).map(|p| &p.stat).filter(|s| s.started == process.stat.started);
            let stat = &process.stat;
            let threads = by_process.get(&pid);
            let on = threads.map(|threads| self.time_by_node(threads));
            let faults = then.and_then(|then| more(stat.minor_faults, then.minor_faults));
            let disk = then.and_then(|then| more(stat.major_faults, then.major_faults));
            let migrations = threads.and_then(|threads| {
                let of = |(tid, now): &(u32, &Thread)| {
                    let then = self.then.threads.get(tid).filter(|t| t.stat.started == now.stat.started)?;
                    more(now.migrations?, then.migrations?)
                };
                threads.iter().map(of).sum::<Option<f64>>()
            });
            let mut cells = vec![
                pid.to_string().into(),
                stat.name.as_str().into(),
                f64::from(stat.threads).into(),
                self.cpus_of(stat, then).into(),
                match &on {
                    Some(on) if !on.is_empty() => self.words(on).into(),
                    _ => Cell::Unknown,
                },
                ((stat.resident_pages.saturating_mul(self.host.page_bytes)) as f64).into(),
                process.pages.as_ref().zip(on.as_ref()).and_then(|(pages, on)| far(&pages.nodes, on)).into(),
                per_second(faults, self.interval_s),
                per_second(disk, self.interval_s),
                per_second(migrations, self.interval_s),
                process.pages.as_ref().map(|p| self.now.at_ns.saturating_sub(p.at_ns) as f64 * 1e-9).into(),
            ];
            for node in &nodes {
                let bytes = |p: &Pages| p.nodes.get(node).copied().unwrap_or(0) as f64;
                cells.push(process.pages.as_ref().map(bytes).into());
            }
            Row { id: u64::from(pid), cells }
        };
        let mut table = Table {
            rows: self.now.processes.iter().map(row).collect(),
            columns,
            main: 3,
            ..Table::default()
        };
        for key in ["cpu", "faults", "disk_faults"] {
            table.explain(key, format!("the process began in this interval; {FIRST}"));
        }
        let watched = "only threads of the processes given with -p, of the chosen one and of the busiest ones are read: \
                       -p PID, or Enter on its row";
        table.explain("on", watched);
        table
            .explain("migrations", format!("{watched}; the kernel counts them with CONFIG_SCHED_DEBUG only"));
        let not_looked = self.now.processes.values().find_map(|p| p.pages_why.clone());
        let looked = match not_looked {
            Some(why) => format!("pages are looked at in turns, those of the busiest processes first. Some are refused, for example: {why}"),
            None => "pages are looked at in turns, those of the busiest processes first; this one's turn should come".to_owned(),
        };
        for key in table
            .columns
            .iter()
            .map(|c| c.key.to_string())
            .filter(|k| k.starts_with("node"))
            .collect::<Vec<_>>()
        {
            table.explain(&key, looked.clone());
        }
        table.explain("far_pages", format!("needs its pages and its threads. {looked}. Threads: {watched}"));
        table.explain("pages_age", looked);
        table
    }

    /// Time of a process's threads by node, ticks, where each thread's is counted for the node it ran on last.
    /// A thread that slept counts a little, so that a sleeping process still is somewhere.
    fn time_by_node(&self, threads: &[(u32, &Thread)]) -> BTreeMap<NodeId, f64> {
        let mut by_node = BTreeMap::new();
        for (tid, now) in threads {
            let Some(node) = now.stat.cpu.and_then(|cpu| self.host.machine.node_of_cpu(cpu)) else {
                continue;
            };
            let then = self.then.threads.get(tid).filter(|t| t.stat.started == now.stat.started);
            let ticks = then.and_then(|then| more(now.stat.ticks, then.stat.ticks)).unwrap_or(0.0);
            *by_node.entry(node).or_insert(0.0) += ticks + 1e-3;
        }
        by_node
    }

    fn words(&self, on: &BTreeMap<NodeId, f64>) -> String {
        let mut nodes: Vec<(&NodeId, &f64)> = on.iter().collect();
        nodes.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
        nodes.iter().map(|(n, _)| n.to_string()).collect::<Vec<_>>().join(",")
    }

    pub(super) fn threads(&self) -> Table {
        use Unit::{Count, Cpus, PerSecond, Text};
        let columns = vec![
            column("tid", "tid", Text, "thread id", TID_STAT),
            column("pid", "pid", Text, "its process", TID_STAT),
            column("name", "name", Text, "name as the kernel has it", TID_STAT),
            column("state", "state", Text, "R runs or could, S sleeps, D waits for a device", TID_STAT),
            column("at", "cpu", Text, "cpu that it runs on or ran on last", TID_STAT),
            column("node", "node", Text, "that cpu's node", "sysfs"),
            column(
                "moved",
                "moved",
                Text,
                "node before and after, if it changed since the last reading",
                TID_STAT,
            ),
            column("cpu", "cpus", Cpus, "cpus that it kept busy", TID_STAT),
            column("faults", "faults/s", PerSecond, "page faults without a disk", TID_STAT),
            column("migrations", "migr/s", PerSecond, "changes of cpu", SCHED),
            column("migrations_all", "migr", Count, "changes of cpu since it began", SCHED),
            column("pages_migrated", "pages/s", PerSecond, "pages that AutoNUMA moved for it", SCHED),
        ];
        let row = |(&tid, now): (&u32, &Thread)| {
            let then = self.then.threads.get(&tid).filter(|t| t.stat.started == now.stat.started);
            let node = |t: &Thread| t.stat.cpu.and_then(|cpu| self.host.machine.node_of_cpu(cpu));
            let moved = then.and_then(|then| Some((node(then)?, node(now)?)));
            let difference = |of: fn(&Thread) -> Option<u64>| more(of(now)?, of(then?)?);
            let faults = then.and_then(|then| more(now.stat.minor_faults, then.stat.minor_faults));
            Row {
                id: u64::from(tid),
                cells: vec![
                    tid.to_string().into(),
                    now.pid.to_string().into(),
                    now.stat.name.as_str().into(),
                    now.stat.state.to_string().into(),
                    now.stat.cpu.map_or(Cell::Unknown, |c| c.to_string().into()),
                    node(now).map_or(Cell::Unknown, |n| n.to_string().into()),
                    match moved {
                        Some((before, after)) if before != after => format!("{before}→{after}").into(),
                        _ => "".into(),
                    },
                    self.cpus_of(&now.stat, then.map(|t| &t.stat)).into(),
                    per_second(faults, self.interval_s),
                    per_second(difference(|t| t.migrations), self.interval_s),
                    now.migrations.map(|m| m as f64).into(),
                    per_second(difference(|t| t.pages_migrated), self.interval_s),
                ],
            }
        };
        let rows = self.now.threads.iter().map(row).collect();
        let mut table = Table { columns, rows, main: 7, ..Table::default() };
        table.explain("at", "the kernel hides the thread's cpu");
        table.explain("node", "no node of the machine lists the cpu");
        for key in ["cpu", "faults"] {
            table.explain(key, format!("the thread began in this interval; {FIRST}"));
        }
        for key in ["migrations", "migrations_all", "pages_migrated"] {
            table.explain(
                key,
                format!(
                    "read of the threads that ran most only (each costs a file that is slow to make), twice in a row \
                     for a rate; and of kernels with CONFIG_SCHED_DEBUG (AutoNUMA's: CONFIG_NUMA_BALANCING); {FIRST}"
                ),
            );
        }
        table
    }
}
