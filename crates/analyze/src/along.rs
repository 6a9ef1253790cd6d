//! What was counted beside the samples, summed over the recording: by program, thread and place of the host.

use super::input::{Input, Judge};
use super::value::{CountedAlong, CountedThread, CountedValue, Interval};
use nearfar_recording::{Along, Columns, Counter, NONE};
use std::collections::{BTreeMap, HashMap};

/// A counter's sum over intervals.
#[derive(Clone, Debug, Default)]
struct Sum {
    value: f64,
    known: u64,
    unknown: u64,
    ran: Option<f64>,
    interval_ns: u64,
    source: String,
    unit: String,
    why: String,
}

impl Sum {
    fn add(&mut self, row: &Counter) {
        match row.value.is_finite() {
            true => {
                (self.value, self.known) = (self.value + row.value, self.known + 1);
                self.interval_ns = self.interval_ns.saturating_add(row.interval_ns);
            }
            false => (self.unknown, self.why) = (self.unknown + 1, row.why.clone()),
        }
        if (0.0..=1.0).contains(&row.running_share) {
            self.ran = Some(self.ran.map_or(row.running_share, |ran| ran.min(row.running_share)));
        }
        if !row.source.is_empty() {
            self.source = row.source.clone();
        }
        self.unit = row.unit.clone();
    }

    /// The sum, if all of its parts are known.
    fn whole(&self) -> Option<f64> {
        (self.known > 0 && self.unknown == 0).then_some(self.value)
    }

    fn told(&self, name: &str, of: &str) -> CountedValue {
        let why = match (self.known, self.unknown) {
            (_, 0) => None,
            (0, _) => Some(self.why.clone()),
            (known, unknown) => {
                Some(format!("{unknown} of {} readings are unknown: {}", known + unknown, self.why))
            }
        };
        CountedValue {
            name: name.to_owned(),
            of: of.to_owned(),
            value: self.whole(),
            unit: self.unit.clone(),
            running_share: self.ran,
            source: self.source.clone(),
            why,
        }
    }
}

/// The counters of a recording that counted along, beside what samples say of it. None of an imported one, whose
/// counters are another tool's.
pub fn along(
    input: &Input,
    judge: &Judge,
    sampled: Option<f64>,
    interval: Option<Interval>,
) -> Option<CountedAlong> {
    if input.meta.imported.is_some() || input.counters.is_empty() {
        return None;
    }
    let mut program: BTreeMap<Along, Sum> = BTreeMap::new();
    let mut of_threads: BTreeMap<Along, Sum> = BTreeMap::new();
    let mut by_thread: HashMap<u32, BTreeMap<Along, Sum>> = HashMap::new();
    let mut host: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for row in input.counters.rows() {
        match (Along::named(&row.name), row.thread) {
            (Some(along), NONE) => program.entry(along).or_default().add(&row),
            (Some(along), thread) => {
                of_threads.entry(along).or_default().add(&row);
                by_thread.entry(thread).or_default().entry(along).or_default().add(&row);
            }
            (None, _) => host.entry((row.place.clone(), row.name.clone())).or_default().add(&row),
        }
    }
    let value = |sums: &BTreeMap<Along, Sum>, along: Along| sums.get(&along).and_then(Sum::whole);
    let shown = Along::ALL.into_iter().filter_map(|along| {
        // What is counted of the program with all its threads is more than what is counted of those that were found.
        let whole = program.get(&along).filter(|sum| sum.known > 0);
        match (whole, of_threads.get(&along)) {
            (Some(sum), _) => Some(sum.told(along.name(), "the program")),
            (None, Some(sum)) => Some(sum.told(along.name(), "the counted threads")),
            (None, None) => Some(program.get(&along)?.told(along.name(), "the program")),
        }
    });
    let (all, counted) = (value(&program, Along::CpuTime), value(&of_threads, Along::CpuTime));
    let threads_share = all.zip(counted).filter(|(all, _)| *all > 0.0).map(|(all, own)| (own / all).min(1.0));
    let mut threads: Vec<CountedThread> = input
        .threads
        .rows()
        .filter_map(|thread| {
            let sums = by_thread.get(&thread.id)?;
            Some(CountedThread {
                tid: thread.tid,
                name: thread.name,
                cpu_seconds: value(sums, Along::CpuTime).map(|ns| ns * 1e-9),
                page_faults: value(sums, Along::Faults),
                context_switches: value(sums, Along::Switches),
                cpu_migrations: value(sums, Along::Migrations),
                instructions: value(sums, Along::Instructions),
                cycles: value(sums, Along::Cycles),
                last_level_misses: value(sums, Along::Misses),
                local_lines: value(sums, Along::LocalLines),
                remote_lines: value(sums, Along::RemoteLines),
            })
        })
        .collect();
    threads.sort_by(|a, b| {
        let time = |t: &CountedThread| t.cpu_seconds.unwrap_or(0.0);
        time(b).total_cmp(&time(a)).then(a.tid.cmp(&b.tid))
    });
    let program: Vec<CountedValue> = shown.collect();
    let share = remote_share(&of_threads, &program, judge);
    Some(CountedAlong {
        threads_share,
        threads,
        host_seconds: host
            .values()
            .filter(|sum| sum.known > 0)
            .map(|sum| sum.interval_ns)
            .max()
            .map(|ns| ns as f64 * 1e-9),
        host: host.iter().map(|((place, name), sum)| sum.told(name, place)).collect(),
        remote_share: share.as_ref().ok().copied(),
        agrees: share.as_ref().ok().zip(sampled.and(interval)).map(|(&s, i)| (i.low..=i.high).contains(&s)),
        remote_share_why: share.err(),
        program,
    })
}

/// Lines from remote memory, of all lines that the threads' counters saw come from memory.
fn remote_share(
    threads: &BTreeMap<Along, Sum>,
    program: &[CountedValue],
    judge: &Judge,
) -> Result<f64, String> {
    let count = |along: Along| {
        threads.get(&along).and_then(Sum::whole).ok_or_else(|| {
            let why = program.iter().find(|v| v.name == along.name()).and_then(|v| v.why.clone());
            format!("{} are unknown: {}", along.name(), why.unwrap_or_else(|| "not counted".to_owned()))
        })
    };
    let (local, remote) = (count(Along::LocalLines)?, count(Along::RemoteLines)?);
    if judge.assume.is_some() {
        return Err("counts are of the machine that was recorded, and this report is of another".to_owned());
    }
    let mut packages: Vec<u32> =
        judge.machine.nodes.iter().filter(|n| !n.cpus.is_empty()).filter_map(|n| n.package).collect();
    packages.sort_unstable();
    if packages.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(
            "a socket has several nodes here (SNC, NPS), and the processor calls the memory of all of them \
                    local"
                .to_owned(),
        );
    }
    match local + remote {
        sum if sum > 0.0 => Ok(remote / sum),
        _ => Err("no line from memory was counted".to_owned()),
    }
}
