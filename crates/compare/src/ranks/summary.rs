//! What a rank leaves for the report of its run: of its own report, the part that is compared with other ranks.

use nearfar_analyze::stats::LEAST_OF_A_PART;
use nearfar_analyze::{Basis, CountedAlong, CountedValue, Interval, Pattern, Report, Verdict};
use nearfar_machine::Machine;
use nearfar_recording::{Meta, Modules, Rank};
use serde::{Deserialize, Serialize};

/// Version of a summary's JSON; it rises when a field is renamed, removed or changes its meaning.
pub const SCHEMA: u32 = 1;
/// A summary is at most this large, bytes: a thousand of them are read at once.
pub const MOST_BYTES: usize = 64 << 10;
/// Objects and findings of a rank, most time first. // chosen
const OBJECTS: usize = 32;
const FINDINGS: usize = 8;
/// Phases of a rank, most time first. // chosen
const PHASES: usize = 64;
/// Values of a host that a summary keeps at most. // chosen: 12 nodes
const HOST_VALUES: usize = 96;
/// What was lost, in words. // chosen
const NOTES: usize = 8;
/// Characters of a name, of a sentence. // chosen
const NAME: usize = 160;
const SENTENCE: usize = 400;
/// Words of the command line. // chosen
const WORDS: usize = 16;

/// The summary of one rank. Shares are of the rank's own time, and `null` where they are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of nearfar that wrote it.
    pub nearfar: String,
    /// Which rank.
    pub rank: Rank,
    /// The command line, its first words.
    pub command: Vec<String>,
    /// Build id of the program's file; `null` if it has none.
    pub build: Option<String>,
    /// How the program ended: `exit 0`, `signal 9 (SIGKILL)`; `null` if unknown.
    pub exit: Option<String>,
    /// Why the recording does not go to the program's own end; `null` if it does.
    pub ended_early: Option<String>,
    /// Wall time of the recording, seconds.
    pub seconds: f64,
    /// CPU time of the program, seconds.
    pub cpu_seconds: Option<f64>,
    /// The machine it ran on, in words.
    pub recorded_on: String,
    /// The same for comparing: equal where nodes, cpus, distances and caches are.
    pub machine_key: String,
    /// The machine it was judged on.
    pub judged_on: String,
    /// Kernel numbers of that machine's nodes: rows and columns of `node_matrix`.
    pub node_ids: Vec<u32>,
    /// Whether that machine is assumed: threads and pages are mapped to it.
    pub assumed: bool,
    /// How threads are mapped to it: `recorded`, `compact` or `scatter`.
    pub binding: String,
    /// Nodes of the judged machine that the rank's cpus belong to; all of them if its cpus are unknown.
    pub given_nodes: Vec<u32>,
    /// Threads with samples.
    pub threads: u64,
    /// Of these, those with at least a tenth of the busiest one's samples: the threads that the program works with, and not
    /// those of its MPI library. `null` without samples.
    #[serde(default)]
    pub working_threads: Option<u64>,
    /// Nodes of the judged machine that they ran on.
    pub thread_nodes: Vec<u32>,
    /// Samples.
    pub samples: u64,
    /// Samples and events that were lost.
    pub lost: Option<u64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub verdict_why: String,
    /// Share of the time at risk on far memory.
    pub far_share: Option<f64>,
    /// 95 % interval of `far_share`.
    pub far_share_ci: Option<Interval>,
    /// Share of the samples that wait for other threads or ranks; `null` where lines are counted in place of time.
    #[serde(default)]
    pub waiting_share: Option<f64>,
    /// Rows: node of the thread; columns: node of the page; shares of the samples. `null` if it would be too large.
    pub node_matrix: Option<Vec<Vec<f64>>>,
    /// Objects by time, largest first.
    pub objects: Vec<RankObject>,
    /// Objects that are not in the list.
    pub objects_left_out: u64,
    /// Kinds of the findings, by rank.
    pub findings: Vec<String>,
    /// Phases by the time in them and in no phase within, largest first; empty if the program names none.
    #[serde(default)]
    pub phases: Vec<RankPhase>,
    /// Phases that are not in the list.
    #[serde(default)]
    pub phases_left_out: u64,
    /// What it counted of its host, if it did that for all ranks of the host.
    #[serde(default)]
    pub host_counted: Option<HostCounted>,
    /// What was lost or is missing, in words.
    pub notes: Vec<String>,
}

/// What a rank counted of its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCounted {
    /// For how long, seconds.
    pub seconds: f64,
    /// The counters.
    pub values: Vec<CountedValue>,
}

/// A phase of a rank. Times of several threads are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankPhase {
    /// Its path: `a => b` is b within a.
    pub name: String,
    /// How often it began.
    pub calls: u64,
    /// Time in it and in phases within, seconds.
    pub seconds: f64,
    /// Time in it and in no phase within, seconds.
    pub own_seconds: f64,
    /// Far part of its own memory samples by weight; `null` if too few or if too many are on pages of unknown nodes.
    pub far_share: Option<f64>,
    /// Part of the rank's far samples that are in it and in no phase within; `null` as `far_share`.
    pub part_of_far: Option<f64>,
}

/// An object of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankObject {
    /// The same in all ranks that allocate it by the same call path of the same program.
    pub key: String,
    /// Its name.
    pub name: String,
    /// `file:line` of the allocation.
    pub allocated_at: Option<String>,
    /// Its size, bytes.
    pub bytes: u64,
    /// Share of the rank's time, of what is not waiting for other threads.
    pub time_share: f64,
    /// Share of its samples that are on far pages, of those whose page's node is known.
    pub far_share: Option<f64>,
    /// Share of the rank's time at risk on its far pages, of what is not waiting.
    pub far_time_share: Option<f64>,
    /// How the rank's threads use it.
    pub pattern: Pattern,
}

/// What a rank's report says of its host; `None` if another rank counted it.
fn host_counted(along: Option<&CountedAlong>) -> Option<HostCounted> {
    let along = along?;
    let seconds = along.host_seconds?;
    Some(HostCounted { seconds, values: along.host.iter().take(HOST_VALUES).cloned().collect() })
}

/// The summary of a report that was judged on `machine`; `None` if the recording is of no rank.
pub fn summarize(report: &Report, meta: &Meta, modules: &Modules, machine: &Machine) -> Option<Summary> {
    let rank = meta.rank.clone()?;
    let build = program_build(report, modules);
    let key = |text: &str| format!("{:016x}", hash(text));
    // As in the verdict: a rank that waits for another one is not less far for it.
    let working = 1.0 - report.spinning_share;
    let time = |share: f64| if working > 0.0 { (share / working).clamp(0.0, 1.0) } else { 0.0 };
    let objects: Vec<RankObject> = report
        .objects
        .iter()
        .take(OBJECTS)
        .map(|o| {
            let path =
                [&o.allocated_at, &o.allocated_in].map(|part| part.clone().unwrap_or_default()).join("\n");
            let through = o.allocated_through.join("\n");
            RankObject {
                key: key(&[&build.clone().unwrap_or_default(), &o.kind, &o.name, &path, &through]
                    .map(|s| s.as_str())
                    .join("\n")),
                name: short(&o.name, NAME),
                allocated_at: o.allocated_at.as_deref().map(|at| short(at, NAME)),
                bytes: o.bytes,
                time_share: time(o.stall_share),
                far_share: o.remote_share,
                far_time_share: o
                    .remote_share
                    .map(|far| time(o.stall_share * far * (1.0 - o.page_node_unknown_share))),
                pattern: o.pattern,
            }
        })
        .collect();
    let mut thread_nodes: Vec<u32> =
        report.threads.iter().filter(|t| t.samples > 0).filter_map(|t| t.node).collect();
    thread_nodes.sort_unstable();
    thread_nodes.dedup();
    let given_nodes = match report.machine.assumed {
        // What is left of the machine is the rank's part.
        true => machine.cpu_nodes().map(|n| n.id).collect(),
        false => {
            machine.nodes.iter().filter(|n| n.cpus.first_common(&rank.cpus).is_some()).map(|n| n.id).collect()
        }
    };
    let phases = phases_of(report);
    Some(Summary {
        schema: SCHEMA,
        nearfar: meta.nearfar.clone(),
        command: report.command.iter().take(WORDS).map(|word| short(word, NAME)).collect(),
        build,
        exit: report.exit.clone(),
        ended_early: report.ended_early.as_deref().map(|why| short(why, SENTENCE)),
        seconds: report.seconds,
        cpu_seconds: report.cpu.map(|cpu| cpu.seconds),
        recorded_on: short(&report.recorded_on, NAME),
        machine_key: key(&shape_of(meta)),
        judged_on: short(&report.machine.name, NAME),
        node_ids: report.machine.node_ids.clone(),
        assumed: report.machine.assumed,
        binding: report.machine.binding.clone(),
        given_nodes,
        threads: report.threads.iter().filter(|t| t.samples > 0).count() as u64,
        working_threads: working_threads(report),
        thread_nodes,
        samples: report.samples(),
        lost: report.sources.iter().try_fold(0u64, |sum, r| r.lost_known.then(|| sum.saturating_add(r.lost))),
        verdict: report.verdict,
        verdict_why: short(&report.verdict_why, SENTENCE),
        far_share: report.remote_time_share,
        far_share_ci: report.remote_time_share_ci,
        waiting_share: (report.basis == Basis::StallTime && report.samples() > 0)
            .then_some(report.spinning_share),
        node_matrix: Some(report.node_matrix.clone()),
        objects_left_out: (report.objects.len() - objects.len()) as u64,
        objects,
        findings: report.findings.iter().take(FINDINGS).map(|f| f.kind.clone()).collect(),
        phases_left_out: (phases.len().saturating_sub(PHASES)) as u64,
        phases: phases.into_iter().take(PHASES).collect(),
        host_counted: host_counted(report.counted_along.as_ref()),
        notes: report.notes.iter().take(NOTES).map(|note| short(note, SENTENCE)).collect(),
        rank,
    })
}

impl Summary {
    /// As JSON of at most [`MOST_BYTES`]: what does not fit is left out, the matrix first, then the smallest objects.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut kept = self.clone();
        loop {
            let bytes = serde_json::to_vec(&kept).unwrap_or_default();
            if bytes.len() <= MOST_BYTES {
                return bytes;
            }
            if kept.node_matrix.take().is_some() {
                continue;
            }
            let half = kept.objects.len() / 2;
            kept.objects_left_out += (kept.objects.len() - half) as u64;
            kept.objects.truncate(half);
            let phases = kept.phases.len() / 2;
            kept.phases_left_out += (kept.phases.len() - phases) as u64;
            kept.phases.truncate(phases);
            kept.notes.truncate(half);
            if half == 0 {
                // Names of a machine with thousands of nodes.
                kept.command.clear();
                kept.host_counted = None;
                kept.phases_left_out += kept.phases.len() as u64;
                kept.phases.clear();
                kept.given_nodes.clear();
                kept.thread_nodes.clear();
                kept.node_ids.clear();
                return serde_json::to_vec(&kept).unwrap_or_default();
            }
        }
    }

    /// Reads the bytes of a summary. They may come from anybody.
    ///
    /// # Errors
    /// The version that wrote it, if this one cannot read it; or what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Summary, Unread> {
        /// Read first: another version may have other fields.
        #[derive(Deserialize)]
        struct Head {
            schema: Option<u64>,
            nearfar: Option<String>,
        }
        let head: Head = serde_json::from_slice(bytes)
            .map_err(|error| Unread::Damaged(format!("it is no JSON ({error})")))?;
        if head.schema != Some(u64::from(SCHEMA)) {
            return match head.schema {
                Some(_) => {
                    Err(Unread::OtherVersion(short(head.nearfar.as_deref().unwrap_or("(unknown)"), NAME)))
                }
                None => Err(Unread::Damaged("it names no schema".into())),
            };
        }
        let summary: Summary =
            serde_json::from_slice(bytes).map_err(|error| Unread::Damaged(error.to_string()))?;
        summary.check().map_err(Unread::Damaged)?;
        Ok(summary)
    }

    fn check(&self) -> Result<(), String> {
        self.rank.check()?;
        let share = |x: f64| (0.0..=1.0).contains(&x);
        let shares = [self.far_share, self.waiting_share]
            .into_iter()
            .chain(self.objects.iter().map(|o| o.far_share))
            .flatten();
        let ends = self.far_share_ci.iter().flat_map(|ci| [ci.low, ci.high]);
        let times = self.objects.iter().flat_map(|o| [Some(o.time_share), o.far_time_share]).flatten();
        let phases = self.phases.iter().flat_map(|p| [p.far_share, p.part_of_far]).flatten();
        let cells = self.node_matrix.iter().flatten().flatten().copied();
        if let Some(x) = shares.chain(ends).chain(times).chain(cells).chain(phases).find(|&x| !share(x)) {
            return Err(format!("{x} for a share"));
        }
        let seconds = [Some(self.seconds), self.cpu_seconds];
        let of_phases = self.phases.iter().flat_map(|p| [p.seconds, p.own_seconds]);
        match seconds.into_iter().flatten().chain(of_phases).find(|x| !(0.0..=1e12).contains(x)) {
            Some(x) => Err(format!("{x} for seconds")),
            None => Ok(()),
        }
    }

    /// The program's name, without its folders.
    pub fn program(&self) -> &str {
        self.command.first().map_or("(unknown)", |path| nearfar_analyze::base(path))
    }
}

/// Why the summary is missing in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Another version of nearfar wrote it.
    OtherVersion(String),
    /// It is none.
    Damaged(String),
}

/// Threads with at least a tenth of the busiest one's samples. // chosen
fn working_threads(report: &Report) -> Option<u64> {
    let most = report.threads.iter().map(|t| t.samples).max().filter(|&most| most > 0)?;
    Some(report.threads.iter().filter(|t| t.samples >= most.div_ceil(10)).count() as u64)
}

/// All phases, by own time.
fn phases_of(report: &Report) -> Vec<RankPhase> {
    let Some(all) = &report.phases else { return Vec::new() };
    let far: u64 = all.nodes.first().map_or(0, |whole| whole.all.inclusive.far);
    let mut paths: Vec<String> = Vec::new();
    let mut phases = Vec::new();
    for node in &all.nodes {
        let Some(parent) = node.parent else {
            paths.push(String::new());
            continue;
        };
        let path = match paths.get(parent) {
            Some(above) if !above.is_empty() => format!("{above} => {}", node.name),
            _ => node.name.clone(),
        };
        let own = &node.all.exclusive;
        let known = own.samples >= LEAST_OF_A_PART && own.near + own.far > 0 && own.page_nodes_known();
        phases.push(RankPhase {
            name: short(&path, NAME),
            calls: node.all.calls,
            seconds: node.all.inclusive.time_ns as f64 / 1e9,
            own_seconds: own.time_ns as f64 / 1e9,
            far_share: known.then(|| own.far as f64 / (own.near + own.far) as f64),
            part_of_far: (known && far > 0).then(|| (own.far as f64 / far as f64).min(1.0)),
        });
        paths.push(path);
    }
    phases.sort_by(|a, b| b.own_seconds.total_cmp(&a.own_seconds).then_with(|| a.name.cmp(&b.name)));
    phases
}

/// Build id of the file that the command names; modules are in the order in which they were mapped.
fn program_build(report: &Report, modules: &Modules) -> Option<String> {
    let program = nearfar_analyze::base(report.command.first()?);
    let of = |i: usize| nearfar_analyze::base(&modules.path[i]) == program;
    let at = (0..modules.path.len()).find(|&i| of(i))?;
    Some(modules.build_id[at].clone()).filter(|id| !id.is_empty())
}

/// What makes machines alike for placement. Memory is not in it: hosts of one kind differ by some MiB.
fn shape_of(meta: &Meta) -> String {
    let m = &meta.machine;
    let nodes: Vec<String> =
        m.nodes.iter().map(|n| format!("{} {} {:?} {:?}", n.id, n.cpus, n.kind, n.package)).collect();
    let caches: Vec<String> =
        m.caches.iter().map(|c| format!("{} {} {}", c.level, c.size_bytes, c.cores_per_instance)).collect();
    format!("{}\n{nodes:?}\n{:?}\n{caches:?}", m.name, m.distances)
}

/// FNV-1a of 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// At most so many characters.
fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
