//! What no recorder writes and no machine can be: found when a recording is opened, so that
//! nothing behind it has to expect a page of no bytes or a time after the end of time.

use super::column::Columns;
use super::meta::Meta;
use super::survey::Seen;
use super::tables::*;
use nearfar_machine::Machine;
use serde_json::Value;

/// Latest time, ns after the boot of the recorded machine: 146 years. // chosen
const LAST_NS: u64 = 1 << 62;
/// Most of what a row counts, a cpu's epoch or a page: a minute of a core, and 16 TiB in lines; a million such rows
/// still add up in 64 bits as bytes. // chosen
const MOST_COUNT: u64 = 1 << 38;
/// Most nodes and cpus, those that Linux can be built for (`MAX_NUMNODES`, `NR_CPUS`) and room.
const MOST_NODES: usize = 1024;
const MOST_CPUS: usize = 65_536;
/// Figures: ns, GB/s, GHz, bytes. Nothing built is near either end. // chosen
const FIGURES: std::ops::RangeInclusive<f64> = 1e-9..=1e15;
/// Latencies and bandwidths between nodes: below a second. // chosen
const BETWEEN_NODES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

impl Meta {
    /// Whether its numbers can be those of a recording.
    ///
    /// # Errors
    /// The first that cannot be, in words.
    pub fn check(&self) -> Result<(), String> {
        if !self.page_bytes.is_power_of_two() || !(1 << 10..=1 << 30).contains(&self.page_bytes) {
            return Err(format!("page_bytes is {}, which is not a size of a page", self.page_bytes));
        }
        let folio = |b: &&u64| !b.is_power_of_two() || **b > 1 << 40;
        if let Some(bytes) = self.folio_bytes.iter().find(folio) {
            return Err(format!("folio_bytes has {bytes}, which is not a power of two"));
        }
        if self.start_ns > LAST_NS || self.end_ns > LAST_NS {
            return Err("it begins or ends more than a hundred years after its machine started".into());
        }
        let shares = [self.recorder_cpu_s, self.target_cpu_s, self.target_system_s, self.steal_share];
        let odd = |x: &f64| !(-1.0..=1e12).contains(x);
        if let Some(x) = shares.into_iter().chain(self.sources.iter().map(|r| r.hz)).find(odd) {
            return Err(format!("it has {x} for a rate, a share or seconds of cpu time"));
        }
        if let Some(ghz) = self.core_ghz.filter(|ghz| !(0.1..=20.0).contains(ghz)) {
            return Err(format!("it has {ghz} for the GHz of a core"));
        }
        if let Some(times) = self.core_slowdown.filter(|times| !(1.0..=100.0).contains(times)) {
            return Err(format!("it has cores that are {times} times as slow as at their fastest"));
        }
        if let Some(ns) = self.in_place_ns.filter(|ns| !(0.01..=1000.0).contains(ns)) {
            return Err(format!("it has {ns} ns for an addition in memory"));
        }
        if let Some(survey) = &self.survey {
            if survey.last_ns > LAST_NS || survey.first_ns > survey.last_ns {
                return Err("its samples begin after they end".into());
            }
            if !survey.threads.is_sorted() {
                return Err("the threads of its survey are in disorder".into());
            }
            let wrong = |s: &Seen| s.last_ns > LAST_NS || s.first_ns > s.last_ns;
            if ![0, survey.threads.len()].contains(&survey.seen.len()) || survey.seen.iter().any(wrong) {
                return Err("its survey does not say when each thread was sampled".into());
            }
        }
        self.rank.as_ref().map_or(Ok(()), super::Rank::check)?;
        for machine in std::iter::once(&self.machine).chain(&self.wished_machine) {
            check_machine(machine).map_err(|why| format!("its machine cannot be: {why}"))?;
        }
        Ok(())
    }
}

fn check_machine(m: &Machine) -> Result<(), String> {
    let n = m.nodes.len();
    if n == 0 || n > MOST_NODES {
        return Err(format!("{n} nodes"));
    }
    if m.cpu_count() > MOST_CPUS || m.figures.cores.len() > MOST_CPUS {
        return Err(format!("{} cpus", m.cpu_count()));
    }
    let mut ids: Vec<u32> = m.nodes.iter().map(|node| node.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("two nodes have the same number".into());
    }
    let square = |rows: &[usize]| rows.is_empty() || rows.len() == n && rows.iter().all(|&r| r == n);
    if !square(&m.distances.iter().map(Vec::len).collect::<Vec<_>>()) {
        return Err("its distances are not a square of its nodes".into());
    }
    for (what, matrix) in [("latency_ns", &m.figures.latency_ns), ("pair_read_gbs", &m.figures.pair_read_gbs)]
    {
        let Some(matrix) = matrix else { continue };
        if !square(&matrix.rows.iter().map(Vec::len).collect::<Vec<_>>()) {
            return Err(format!("{what} is not a square of its nodes"));
        }
        let cells = matrix.rows.iter().flatten().filter_map(|cell| cell.0);
        if let Some(x) = cells.into_iter().find(|x| !BETWEEN_NODES.contains(x)) {
            return Err(format!("{what} has {x:e}"));
        }
    }
    if let Some(bytes) = m.figures.line_bytes.filter(|b| !b.is_power_of_two() || !(8..=4096).contains(b)) {
        return Err(format!("a cache line of {bytes} bytes"));
    }
    let caches = &m.caches;
    if let Some(c) = caches.iter().find(|c| c.latency_cycles.is_some_and(|x| !(0.0..=1e9).contains(&x))) {
        return Err(format!("a latency of {:?} cycles", c.latency_cycles));
    }
    match serde_json::to_value(&m.figures) {
        Ok(figures) => check_figures(&figures),
        Err(error) => Err(error.to_string()),
    }
}

/// Every `value` beside a `source`, wherever it stands.
fn check_figures(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            let number = fields.get("value").and_then(Value::as_f64);
            if let Some(x) = number.filter(|x| !FIGURES.contains(x)) {
                return Err(format!("a figure of {x:e}"));
            }
            fields.values().try_for_each(check_figures)
        }
        Value::Array(all) => all.iter().try_for_each(check_figures),
        _ => Ok(()),
    }
}

/// A table whose rows can be told from rows that no recorder writes.
pub trait Sound: Columns {
    /// Whether row `i` can have been recorded.
    fn row_is_sound(&self, i: usize) -> bool;

    /// Removes rows that cannot have been recorded; gives how many.
    fn keep_sound(&mut self) -> u64 {
        let Some(first) = (0..self.len()).find(|&i| !self.row_is_sound(i)) else { return 0 };
        let mut kept = Self::default();
        (0..first).for_each(|i| kept.push(self.row(i)));
        (first..self.len()).filter(|&i| self.row_is_sound(i)).for_each(|i| kept.push(self.row(i)));
        let removed = self.len() - kept.len();
        *self = kept;
        removed as u64
    }
}

fn time(ns: u64) -> bool {
    ns <= LAST_NS
}

fn range(address: u64, bytes: u64) -> bool {
    address.checked_add(bytes).is_some()
}

fn counts<const N: usize>(all: [u64; N]) -> bool {
    all.iter().all(|&n| n <= MOST_COUNT)
}

macro_rules! sound {
    ($($table:ident: |$t:ident, $i:ident| $sound:expr;)*) => {$(
        impl Sound for $table {
            fn row_is_sound(&self, $i: usize) -> bool {
                let $t = self;
                $sound
            }
        }
    )*};
}

sound! {
    Processes: |t, i| time(t.start_ns[i]);
    ProcessEnds: |t, i| time(t.time_ns[i]);
    Threads: |t, i| time(t.start_ns[i]);
    AccessSamples: |t, i| time(t.time_ns[i]);
    Loops: |t, i| [t.step[i], t.issue_cycles[i], t.chain_cycles[i], t.high_cycles[i], t.in_place_cycles[i]]
        .iter()
        .all(|x| x.is_finite());
    LoopStreams: |t, i| t.step[i].is_finite();
    Excerpts: |t, i| time(t.time_ns[i]) && counts([t.instructions[i], t.counted[i], t.exchanged[i]]);
    ExcerptBlocks: |t, i| counts([t.instructions[i], t.accesses[i]]) && counts(t.in_order(i)) && counts(t.at_random(i));
    LoopOperands: |t, i| t.hit_cycles[i].is_finite() && t.step[i].is_finite();
    Progresses: |t, i| time(t.time_ns[i]);
    // 2^40 bytes: no page is larger.
    PageFaults: |t, i| time(t.time_ns[i]) && t.page_shift[i] <= 40;
    Locations: |_t, _i| true;
    Modules: |_t, _i| true;
    Symbols: |_t, _i| true;
    ChainFrames: |_t, _i| true;
    MemoryObjects: |t, i| time(t.born_ns[i]) && range(t.address[i], t.bytes[i]);
    ObjectEnds: |t, i| time(t.time_ns[i]);
    // 2^60 bytes: more than a program can ask for in its life.
    AllocationGroups: |t, i| counts([t.count[i]]) && t.bytes[i] <= 1 << 60;
    SiteNames: |_t, _i| true;
    RangeEvents: |t, i| time(t.time_ns[i]) && range(t.address[i], t.bytes[i]) && range(t.to[i], t.bytes[i]);
    PageNodes: |t, i| time(t.time_ns[i])
        && t.page_shift[i] <= 40
        && t.stride[i] > 0
        && t.stride[i].checked_mul(u64::from(t.pages[i])).is_some_and(|bytes| range(t.address[i], bytes));
    Mappings: |t, i| time(t.time_ns[i]) && t.start[i] <= t.end[i] && range(t.offset[i], t.end[i] - t.start[i]);
    // A phase that never ended has the greatest number as its end.
    Phases: |t, i| time(t.begin_ns[i]) && (time(t.end_ns[i]) || t.end_ns[i] == u64::MAX);
    PhaseCounts: |t, i| time(t.time_ns[i]) && counts([t.calls[i]]) && time(t.inclusive_ns[i]);
    PhaseMarks: |t, i| time(t.time_ns[i]) && time(t.simulated_ns[i]);
    Metrics: |t, i| time(t.time_ns[i]);
    // A value that is unknown has its reason.
    Counters: |t, i| time(t.time_ns[i]) && (t.value[i].is_finite() || t.value[i].is_nan() && !t.why[i].is_empty());
    CpuEpochs: |t, i| counts([
        t.instructions[i], t.accesses[i], t.l1_hits[i], t.l2_hits[i], t.l3_hits[i], t.cache_transfers[i],
        t.tlb_misses[i], t.huge_tlb_misses[i], t.dependent_lines[i],
    ]) && [t.f64_ops[i], t.f32_ops[i]].iter().all(|&n| n <= MOST_COUNT || n == UNCOUNTED)
        && [t.busy_ns[i], t.epoch_ns[i]].iter().all(|ns| (0.0..=LAST_NS as f64).contains(ns));
    EpochTraffics: |t, i| counts([
        t.read_lines[i], t.prefetch_lines[i], t.write_lines[i], t.stream_lines[i], t.transfer_lines[i], t.walks[i],
    ]) && t.prefetch_lines[i] <= t.read_lines[i];
    CountedWindows: |t, i| counts([t.counted_instructions[i], t.instructions[i]])
        && t.first_epoch[i] <= t.last_epoch[i]
        && t.counted_instructions[i] <= t.instructions[i];
    PageTraffics: |t, i| counts([t.read_lines[i], t.write_lines[i]]);
    Losses: |_t, _i| true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_are_removed_and_counted_and_the_others_stay_in_order() {
        let mut page_nodes = PageNodes::default();
        for (address, stride, page_shift) in
            [(0, 4096, 0), (4096, 0, 0), (u64::MAX, 4096, 0), (1, 1, 200), (8, 1, 12)]
        {
            page_nodes.push(PageNode {
                time_ns: 1,
                process: 0,
                address,
                pages: 1,
                stride,
                node: 0,
                page_shift,
            });
        }
        assert_eq!(page_nodes.keep_sound(), 3);
        assert_eq!(page_nodes.address, [0, 8]);
        assert_eq!(page_nodes.keep_sound(), 0);
        let mut phases = Phases::default();
        for (begin_ns, end_ns) in [(1, u64::MAX), (1, u64::MAX - 1), (u64::MAX, u64::MAX)] {
            phases.push(Phase::plain(0, String::new(), begin_ns, end_ns));
        }
        assert_eq!((phases.keep_sound(), phases.len()), (2, 1));
    }
}
