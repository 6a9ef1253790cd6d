//! Whose a thread id, a process id or an address of the plugin's is, in the tables of the recorder inside.

use crate::store::Tables;
use nearfar_host::symbols::{AGENT_MEMORY, is_agent};
use nearfar_recording::raw::RawSample;
use nearfar_recording::*;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Look-ups in the tables that the recorder in the guest wrote.
pub(super) struct Places<'a> {
    known: &'a Tables,
    /// Rows of `threads` by kernel thread id, in order of their begin.
    threads: HashMap<u32, Vec<usize>>,
    /// The last address space of each kernel process id.
    processes: HashMap<u32, u32>,
    /// Rows of `processes` by number.
    spaces: HashMap<u32, usize>,
    /// Rows of `mappings` by address space, latest last.
    mappings: HashMap<u32, Vec<usize>>,
    /// Those of them that are our agent's: its file, what it clears behind that, and the memory it shares with us.
    agents: HashSet<usize>,
    /// Where these are, in any process, sorted: most addresses are elsewhere, and their mapping need not be looked for.
    near_agents: Vec<Range<u64>>,
    locations: HashMap<(u32, u64), u32>,
    next_location: u32,
}

impl<'a> Places<'a> {
    pub(super) fn new(known: &'a Tables) -> Places<'a> {
        let mut threads: HashMap<u32, Vec<usize>> = HashMap::new();
        for (row, &tid) in known.threads.tid.iter().enumerate() {
            threads.entry(tid).or_default().push(row);
        }
        for rows in threads.values_mut() {
            rows.sort_by_key(|&row| known.threads.start_ns[row]);
        }
        let mut mappings: HashMap<u32, Vec<usize>> = HashMap::new();
        for (row, &process) in known.mappings.process.iter().enumerate() {
            mappings.entry(process).or_default().push(row);
        }
        for rows in mappings.values_mut() {
            rows.sort_by_key(|&row| known.mappings.time_ns[row]);
        }
        let mut agents = HashSet::new();
        for rows in mappings.values() {
            // What its loader clears behind a file comes directly after that.
            let mut end = None;
            for &row in rows {
                let m = &known.mappings;
                let name = m.name[row].as_str();
                let anonymous = !name.starts_with(['/', '[']) || name == "//anon";
                let own = is_agent(name) || name.starts_with(AGENT_MEMORY);
                end = (own || anonymous && end == Some(m.start[row])).then(|| m.end[row]);
                if end.is_some() {
                    agents.insert(row);
                }
            }
        }
        let near_agents = union(agents.iter().map(|&row| known.mappings.start[row]..known.mappings.end[row]));
        let locations: HashMap<_, _> = (0..known.locations.len())
            .map(|i| ((known.locations.process[i], known.locations.address[i]), known.locations.id[i]))
            .collect();
        Places {
            known,
            threads,
            // Later rows win: an exec begins a new address space of the same process.
            processes: known.processes.pid.iter().copied().zip(known.processes.id.iter().copied()).collect(),
            spaces: known.processes.id.iter().enumerate().map(|(row, &id)| (id, row)).collect(),
            mappings,
            agents,
            near_agents,
            next_location: known.locations.id.iter().max().map_or(0, |last| last + 1),
            locations,
        }
    }

    pub(super) fn process(&self, pid: u32) -> Option<u32> {
        self.processes.get(&pid).copied()
    }

    /// The thread that had this kernel id at that time; the first of them for times before it.
    pub(super) fn thread(&self, tid: u32, time_ns: u64) -> Option<usize> {
        let rows = self.threads.get(&tid)?;
        let after = rows.partition_point(|&row| self.known.threads.start_ns[row] <= time_ns);
        rows.get(after.saturating_sub(1)).copied()
    }

    pub(super) fn sample(&mut self, raw: &RawSample, new: &mut Locations) -> Option<AccessSample> {
        let row = self.thread(raw.tid, raw.time_ns)?;
        let process = self.known.threads.process[row];
        let ip = self.location(process, raw.ip, raw.time_ns, new);
        let of = |source: &[SampleSource]| match source.iter().any(|s| *s as u8 == raw.source) {
            true => raw.stands_for,
            false => 0,
        };
        Some(AccessSample {
            time_ns: raw.time_ns,
            thread: self.known.threads.id[row],
            cpu: raw.cpu,
            ip,
            operand_ip: ip,
            address: raw.address,
            resolution: match SampleSource::Clock as u8 == raw.source && raw.address == 0 {
                true => Resolution::Compute,
                false => Resolution::Exact,
            } as u8,
            access: raw.access,
            chain: NONE,
            weight_ns: of(&[SampleSource::Clock]),
            source: raw.source,
            lines: of(&[SampleSource::Simulated, SampleSource::Transfer, SampleSource::Contended]),
            page_node: raw.page_node,
            epoch: raw.epoch,
            served: raw.served,
            latency_cycles: raw.latency_cycles,
            period: of(&[SampleSource::Hardware]),
            data_src: 0,
        })
    }

    fn location(&mut self, process: u32, address: u64, time_ns: u64, new: &mut Locations) -> u32 {
        if let Some(&id) = self.locations.get(&(process, address)) {
            return id;
        }
        let id = self.next_location;
        self.next_location += 1;
        let (module, file_offset) = self.module(process, address, time_ns).unwrap_or((NONE, 0));
        new.push(Location { id, process, address, module, file_offset });
        self.locations.insert((process, address), id);
        id
    }

    /// Whether it is of our agent's code or data: neither is the program's.
    pub(super) fn is_agents_sample(&self, raw: &RawSample) -> bool {
        self.thread(raw.tid, raw.time_ns).is_some_and(|row| {
            let process = self.known.threads.process[row];
            [raw.ip, raw.address].into_iter().any(|address| self.is_agents(process, address, raw.time_ns))
        })
    }

    pub(super) fn is_agents(&self, process: u32, address: u64, time_ns: u64) -> bool {
        let after = self.near_agents.partition_point(|range| range.start <= address);
        self.near_agents[..after].last().is_some_and(|range| address < range.end)
            && self.mapping(process, address, time_ns).is_some_and(|row| self.agents.contains(&row))
    }

    pub(super) fn module(&self, process: u32, address: u64, time_ns: u64) -> Option<(u32, u64)> {
        let m = &self.known.mappings;
        let row = self.mapping(process, address, time_ns)?;
        (m.module[row] != NONE).then(|| (m.module[row], address - m.start[row] + m.offset[row]))
    }

    /// The mapping at an address: the latest before that time, or the first after it
    /// (mappings are recorded a little late); of a fork's child, its parent's.
    fn mapping(&self, process: u32, address: u64, time_ns: u64) -> Option<usize> {
        let m = &self.known.mappings;
        let here = self.mappings.get(&process).map_or(&[][..], Vec::as_slice);
        let covers = |&&row: &&usize| m.start[row] <= address && address < m.end[row];
        let found = here
            .iter()
            .rev()
            .filter(|&&row| m.time_ns[row] <= time_ns)
            .find(covers)
            .or_else(|| here.iter().find(covers));
        if let Some(&row) = found {
            return Some(row);
        }
        let &row = self.spaces.get(&process)?;
        let parent = self.known.processes.parent[row];
        (self.known.processes.forked[row] == 1).then(|| self.mapping(parent, address, time_ns)).flatten()
    }
}

/// The same addresses as ranges that do not touch, sorted.
fn union(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = ranges.collect();
    all.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in all {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_united_and_sorted() {
        let united = |ranges: &[Range<u64>]| union(ranges.iter().cloned());
        assert_eq!(united(&[30..40, 0..10, 5..20, 20..25, 6..7]), [0..25, 30..40]);
        assert_eq!(united(&[]), []);
    }
}
