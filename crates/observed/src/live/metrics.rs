//! Numbers as Prometheus reads them: OpenMetrics 1.0 and the older text format 0.0.4, from one description.
//!
//! By Prometheus' conventions: base units (seconds, bytes, ratios), counters that only grow and end in `_total`, a HELP and
//! a TYPE for each family. What is not known has no sample: a missing one is missing, 0 is a measurement.

use super::reading::{Monitored, Moved, NodeMemory, Reading};
use crate::live::events::Event;
use crate::live::host::Host;
use nearfar_analyze::{Report, Verdict};
use std::fmt::Write as _;

/// What a family's numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the source lives.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Numbers of one kind with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Which text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own, 0.0.4.
    Prometheus,
}

impl Format {
    /// By a request's Accept header.
    pub fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// Its Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Longest value of a label, characters: names are programs' to choose.
const LONGEST: usize = 120;
/// Objects of a recording that have numbers of their own, the most time first.
const OBJECTS: usize = 10;

/// Families that are put together.
#[derive(Debug, Default)]
pub struct Metrics {
    families: Vec<Family>,
}

impl Metrics {
    /// Adds a sample; one whose number is not known is left out, and its family stays.
    fn add(
        &mut self,
        (name, kind, help): (&'static str, Kind, &'static str),
        labels: &[(&'static str, &str)],
        value: Option<f64>,
    ) {
        let at = self.families.iter().position(|f| f.name == name).unwrap_or_else(|| {
            self.families.push(Family { name, kind, help, samples: Vec::new() });
            self.families.len() - 1
        });
        if let Some(value) = value.filter(|v| v.is_finite()) {
            let label = |(name, value): &(&'static str, &str)| (*name, value.chars().take(LONGEST).collect());
            self.families[at].samples.push((labels.iter().map(label).collect(), value));
        }
    }

    /// The text.
    pub fn to_text(&self, format: Format) -> String {
        let mut out = String::new();
        for family in self.families.iter().filter(|f| !f.samples.is_empty()) {
            let total = if family.kind == Kind::Counter { "_total" } else { "" };
            // OpenMetrics names a family of counters without the suffix of its samples.
            let named = match format {
                Format::OpenMetrics => family.name.to_owned(),
                Format::Prometheus => format!("{}{total}", family.name),
            };
            let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
            let _ = writeln!(out, "# HELP {named} {}", escaped(family.help));
            let _ = writeln!(out, "# TYPE {named} {kind}");
            for (labels, value) in &family.samples {
                let labels: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
                let labels =
                    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                let _ = writeln!(out, "{}{total}{labels} {value}", family.name);
            }
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// Text that neither format nor a terminal obeys: control characters become visible, then backslashes and quotes are
/// escaped as both formats have them.
fn escaped(text: &str) -> String {
    nearfar_figures::escape::line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

use Kind::{Counter, Gauge};

/// The numbers of a host at one moment, of all its nodes and cpus, and of the processes in `reading` that `wants` chooses.
pub fn of_host(metrics: &mut Metrics, host: &Host, reading: &Reading, wants: impl Fn(u32, &str) -> bool) {
    let tick = 1.0 / reading.ticks_per_second;
    let node_of =
        |cpu: u32| host.machine.node_of_cpu(cpu).map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    for (cpu, ticks) in &reading.cpus {
        let (name, node) = (cpu.to_string(), node_of(*cpu));
        for (mode, value) in [("busy", ticks.busy), ("idle", ticks.idle), ("stolen", ticks.stolen)] {
            let family = (
                "nearfar_cpu_seconds",
                Counter,
                "Time of each cpu (/proc/stat); stolen is what the hypervisor took.",
            );
            metrics.add(
                family,
                &[("cpu", &name), ("node", &node), ("mode", mode)],
                Some(value as f64 * tick),
            );
        }
    }
    for (cpu, counts) in &reading.events {
        let (name, node) = (cpu.to_string(), node_of(*cpu));
        let labels = [("cpu", name.as_str()), ("node", node.as_str())];
        // Scaled, where counters took turns.
        let value = |event: Event| counts.get(&event).and_then(|c| c.since(&Default::default()));
        let cycles =
            ("nearfar_cpu_cycles", Counter, "Cycles in which the cpu was not halted (perf_event_open).");
        metrics.add(cycles, &labels, value(Event::Cycles));
        let instructions =
            ("nearfar_cpu_instructions", Counter, "Instructions that retired (perf_event_open).");
        metrics.add(instructions, &labels, value(Event::Instructions));
        let lines = (
            "nearfar_cpu_memory_lines",
            Counter,
            "Lines that the cpu got from memory, by where that is: retired loads on Intel, fills on AMD (perf_event_open).",
        );
        metrics.add(lines, &[labels[0], labels[1], ("from", "local")], value(Event::LocalLines));
        metrics.add(lines, &[labels[0], labels[1], ("from", "remote")], value(Event::RemoteLines));
    }
    nodes(metrics, reading);
    for (event, n) in &reading.activity.migration {
        let family = (
            "nearfar_migration_events",
            Counter,
            "Pages that were moved or unmapped to be moved, by the kernel's name (/proc/vmstat).",
        );
        metrics.add(family, &[("event", event)], Some(*n as f64));
    }
    let faults = ("nearfar_page_faults", Counter, "Page faults of all processes (/proc/vmstat).");
    metrics.add(faults, &[], reading.faults.map(|f| f as f64));
    processes(metrics, host, reading, wants);
    sources(metrics, reading);
}

fn nodes(metrics: &mut Metrics, reading: &Reading) {
    for (node, memory) in &reading.nodes {
        let node = node.to_string();
        let NodeMemory { total, free, anonymous, files } = memory;
        for (kind, bytes) in [("total", total), ("free", free), ("anonymous", anonymous), ("files", files)] {
            let family = (
                "nearfar_node_memory_bytes",
                Gauge,
                "Memory of a node (meminfo); free, anonymous and files are parts of total.",
            );
            metrics.add(family, &[("node", &node), ("kind", kind)], bytes.map(|b| b as f64));
        }
    }
    for (node, counts) in &reading.activity.placement {
        for (how, n) in counts {
            let family = (
                "nearfar_node_pages_placed",
                Counter,
                "Pages placed, by the kernel's name of how (numastat).",
            );
            metrics.add(family, &[("node", &node.to_string()), ("how", how)], Some(*n as f64));
        }
    }
    for (node, Moved { read, written }) in reading.controllers.get().into_iter().flatten() {
        for (direction, bytes) in [("read", read), ("write", written)] {
            let family = (
                "nearfar_node_memory_traffic_bytes",
                Counter,
                "Bytes that a node's memory controllers moved.",
            );
            metrics.add(
                family,
                &[("node", &node.to_string()), ("direction", direction)],
                Some(*bytes as f64),
            );
        }
    }
    for (node, Monitored { total, local }) in reading.monitored.get().into_iter().flatten() {
        for (to, bytes) in [("own", *local), ("others", total.saturating_sub(*local))] {
            let family = (
                "nearfar_node_cpu_traffic_bytes",
                Counter,
                "Bytes that a node's cpus moved from and to memory, by whose (resctrl).",
            );
            metrics.add(family, &[("node", &node.to_string()), ("to", to)], Some(bytes as f64));
        }
    }
}

fn processes(metrics: &mut Metrics, host: &Host, reading: &Reading, wants: impl Fn(u32, &str) -> bool) {
    for (pid, process) in reading.processes.iter().filter(|(pid, p)| wants(**pid, &p.stat.name)) {
        let (stat, pid) = (&process.stat, pid.to_string());
        let labels = [("pid", pid.as_str()), ("name", stat.name.as_str())];
        let seconds = stat.ticks as f64 / reading.ticks_per_second;
        metrics.add(
            ("nearfar_process_cpu_seconds", Counter, "CPU time of a process (/proc/PID/stat)."),
            &labels,
            Some(seconds),
        );
        let resident = (stat.resident_pages.saturating_mul(host.page_bytes)) as f64;
        metrics.add(
            ("nearfar_process_resident_bytes", Gauge, "Resident memory of a process (/proc/PID/stat)."),
            &labels,
            Some(resident),
        );
        metrics.add(
            ("nearfar_process_threads", Gauge, "Threads of a process (/proc/PID/stat)."),
            &labels,
            Some(f64::from(stat.threads)),
        );
        for (kind, faults) in [("minor", stat.minor_faults), ("major", stat.major_faults)] {
            let family = (
                "nearfar_process_page_faults",
                Counter,
                "Page faults of a process (/proc/PID/stat); major ones read a disk.",
            );
            metrics.add(family, &[labels[0], labels[1], ("kind", kind)], Some(faults as f64));
        }
        for (node, bytes) in process.pages.iter().flat_map(|p| &p.nodes) {
            let family = (
                "nearfar_process_node_bytes",
                Gauge,
                "Memory of a process by node (numa_maps, or move_pages on random pages).",
            );
            metrics.add(family, &[labels[0], labels[1], ("node", &node.to_string())], Some(*bytes as f64));
        }
        let age = process.pages.as_ref().map(|p| reading.at_ns.saturating_sub(p.at_ns) as f64 * 1e-9);
        metrics.add(
            ("nearfar_process_pages_age_seconds", Gauge, "Time since a process's pages were looked at."),
            &labels,
            age,
        );
    }
}

/// Which sources have numbers here, with the reasons of those that have none.
fn sources(metrics: &mut Metrics, reading: &Reading) {
    let family = (
        "nearfar_source_available",
        Gauge,
        "1 if a source gives numbers here; else why says what keeps it from that.",
    );
    let mut add = |source: &str, why: &str| {
        let is = if why.is_empty() { 1.0 } else { 0.0 };
        metrics.add(family, &[("source", source), ("why", why)], Some(is));
    };
    add("memory_controllers", reading.controllers.why());
    add("resctrl", reading.monitored.why());
    for (source, event) in [("cycles", Event::Cycles), ("memory_lines", Event::LocalLines)] {
        add(source, reading.missing_events.get(&event).map_or("", |m| &m.why));
    }
}

/// How far counters are off, as `doctor --counters` found.
pub fn of_checks(metrics: &mut Metrics, checked: &super::checks::Checked) {
    for check in &checked.checks {
        let (cpu, memory) =
            (check.cpu_node.to_string(), check.memory_node.map_or(String::new(), |n| n.to_string()));
        let family = (
            "nearfar_counter_factor",
            Gauge,
            "What a counter saw of a known load, over what it must have seen (doctor --counters).",
        );
        let labels = [
            ("counter", check.counter.as_str()),
            ("source", check.source.as_str()),
            ("cpu_node", cpu.as_str()),
            ("memory_node", memory.as_str()),
        ];
        metrics.add(
            family,
            &labels,
            check.factor.filter(|_| check.outcome != super::checks::Outcome::Unknown),
        );
    }
}

/// What a report says of its recording: the verdict, and the shares with their intervals, each with its source.
pub fn of_recording(metrics: &mut Metrics, report: &Report, recording: &str) {
    let sources: Vec<&str> =
        report.sources.iter().filter(|r| r.samples > 0).map(|r| r.source.as_str()).collect();
    let source = if sources.is_empty() { "none".to_owned() } else { sources.join("+") };
    let own = ("recording", recording);
    let family = (
        "nearfar_recording_verdict",
        Gauge,
        "1 for the verdict of a recording, 0 for the others; unknown is a verdict, too.",
    );
    for (verdict, name) in
        [(Verdict::Affected, "affected"), (Verdict::Clean, "clean"), (Verdict::Unknown, "unknown")]
    {
        let is = f64::from(u8::from(report.verdict == verdict));
        metrics.add(family, &[own, ("verdict", name), ("source", &source)], Some(is));
    }
    let shares = [
        ("remote", report.remote_share, report.remote_share_ci),
        ("remote_time", report.remote_time_share, report.remote_time_share_ci),
    ];
    for (share, value, interval) in shares {
        let family = (
            "nearfar_recording_share_ratio",
            Gauge,
            "Remote share of a recording's samples or lines (remote), and of all its time or lines (remote_time), with the ends of \
             the 95 % interval.",
        );
        let ends =
            [("estimate", value), ("low", interval.map(|i| i.low)), ("high", interval.map(|i| i.high))];
        for (bound, value) in ends {
            let labels = [
                own,
                ("share", share),
                ("bound", bound),
                ("basis", report.basis.words()),
                ("source", &source),
            ];
            metrics.add(family, &labels, value);
        }
    }
    metrics.add(("nearfar_recording_seconds", Gauge, "Length of a recording."), &[own], Some(report.seconds));
    for used in &report.sources {
        let family = ("nearfar_recording_samples", Gauge, "Samples or events of a recording, by source.");
        metrics.add(family, &[own, ("source", &used.source)], Some(used.samples as f64));
        let lost = Some(used.lost as f64).filter(|_| used.lost_known);
        metrics.add(
            ("nearfar_recording_lost", Gauge, "Samples or events of a recording that were lost, by source."),
            &[own, ("source", &used.source)],
            lost,
        );
    }
    for object in report.objects.iter().take(OBJECTS) {
        let labels = [own, ("object", object.name.as_str()), ("source", source.as_str())];
        let time = (
            "nearfar_recording_object_ratio",
            Gauge,
            "Share of a recording's time or lines that an object has; the ten largest.",
        );
        metrics.add(time, &labels, Some(object.stall_share));
        let remote = (
            "nearfar_recording_object_remote_ratio",
            Gauge,
            "Remote share of an object's samples or lines whose node is known.",
        );
        metrics.add(remote, &labels, object.remote_share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::reading::{CpuTicks, Process, Source, Stat};
    use nearfar_machine::Machine;

    fn text(format: Format) -> String {
        let host = Host {
            machine: Machine::from_shape("1x1").unwrap(),
            page_bytes: 4096,
            figures: String::new(),
            lines: "",
        };
        let stat = |name: &str| Stat {
            name: name.into(),
            ticks: 250,
            threads: 2,
            resident_pages: 3,
            ..Stat::default()
        };
        let process = |name| Process { stat: stat(name), ..Process::default() };
        let reading = Reading {
            cpus: [(0, CpuTicks { busy: 50, idle: 100, stolen: 0 })].into(),
            nodes: [(0, NodeMemory { total: Some(100), free: None, ..NodeMemory::default() })].into(),
            processes: [(7, process("a\"b\\c\nd\x1b")), (8, process("other"))].into(),
            controllers: Source::Is([(0, Moved { read: 5, written: 6 })].into(), "imc".into()),
            ticks_per_second: 100.0,
            ..Reading::default()
        };
        let mut metrics = Metrics::default();
        of_host(&mut metrics, &host, &reading, |_, name| name != "other");
        metrics.to_text(format)
    }

    #[test]
    fn families_are_named_as_each_format_wants_and_end_once() {
        let open = text(Format::OpenMetrics);
        assert!(open.contains("# TYPE nearfar_cpu_seconds counter\nnearfar_cpu_seconds_total{cpu=\"0\",node=\"0\",mode=\"busy\"} 0.5\n"), "{open}");
        assert!(open.ends_with("# EOF\n") && open.matches("# EOF").count() == 1);
        let old = text(Format::Prometheus);
        assert!(
            old.contains("# TYPE nearfar_cpu_seconds_total counter\n") && !old.contains("# EOF"),
            "{old}"
        );
        for line in open.lines().filter(|l| !l.starts_with('#')) {
            assert!(line.rsplit_once(' ').is_some_and(|(_, v)| v.parse::<f64>().is_ok()), "{line}");
        }
        let mut helps: Vec<&str> = open.lines().filter(|l| l.starts_with("# HELP")).collect();
        let all = helps.len();
        helps.sort_unstable();
        helps.dedup();
        assert_eq!(helps.len(), all);
    }

    #[test]
    fn what_is_unknown_has_no_sample_and_its_source_says_why() {
        let text = text(Format::OpenMetrics);
        assert!(text.contains("nearfar_node_memory_bytes{node=\"0\",kind=\"total\"} 100\n"), "{text}");
        assert!(!text.contains("kind=\"free\"") && !text.contains("nearfar_cpu_cycles"), "{text}");
        assert!(
            text.contains("nearfar_source_available{source=\"resctrl\",why=\"it was not asked for\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains("nearfar_source_available{source=\"memory_controllers\",why=\"\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("nearfar_node_memory_traffic_bytes_total{node=\"0\",direction=\"write\"} 6\n"),
            "{text}"
        );
    }

    #[test]
    fn names_are_escaped_and_only_chosen_processes_are_there() {
        let text = text(Format::OpenMetrics);
        assert!(
            text.contains(r#"nearfar_process_cpu_seconds_total{pid="7",name="a\"b\\c\\u{a}d\\u{1b}"} 2.5"#),
            "{text}"
        );
        assert!(!text.contains("other"), "{text}");
    }
}
