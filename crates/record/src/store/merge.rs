//! Joins what the recorder inside the guest wrote and what the plugin counted: kernel thread
//! ids become threads of the recording, instruction addresses become locations, process ids
//! become address spaces.

use super::Tables;
use anyhow::{Context, Result};
use nearfar_host::symbols::{AGENT_MEMORY, is_agent};
use nearfar_recording::raw::{RawPages, RawPhaseMarks, RawSample, RawSamples};
use nearfar_recording::*;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Share of the lines by page up to which it does not matter whose they are: what runs between a
/// thread's creation and its first word. // chosen
const MOST_UNOWNED: f64 = 0.01;

/// What the plugin counted.
#[derive(Default)]
pub struct Counted {
    /// Sampled lines.
    pub samples: RawSamples,
    /// Lines of each page.
    pub pages: RawPages,
    /// What each cpu did.
    pub epochs: CpuEpochs,
    /// What each cpu moved.
    pub traffic: EpochTraffics,
    /// Beginnings and ends of phases.
    pub phase_marks: RawPhaseMarks,
    /// What it could not count.
    pub losses: Losses,
}

impl Counted {
    /// Reads the plugin's journal. A cut-off end is a loss like any other.
    ///
    /// # Errors
    /// If the file cannot be read or is another version's.
    pub fn read(path: &Path) -> Result<Counted> {
        let (file, length) =
            nearfar_host::input::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Counted::from_file(file, length)
    }

    /// The same of the first `length` bytes of an open file.
    ///
    /// # Errors
    /// As of [`Counted::read`].
    pub fn from_file(file: File, length: u64) -> Result<Counted> {
        let mut counted = Counted::default();
        let file = BufReader::with_capacity(1 << 20, file);
        let tail = journal::read::<_, anyhow::Error>(file, length, |frame| {
            match frame.table.as_str() {
                RawSamples::TABLE => journal::append_to(&mut counted.samples, frame),
                RawPages::TABLE => journal::append_to(&mut counted.pages, frame),
                CpuEpochs::TABLE => journal::append_to(&mut counted.epochs, frame),
                EpochTraffics::TABLE => journal::append_to(&mut counted.traffic, frame),
                RawPhaseMarks::TABLE => journal::append_to(&mut counted.phase_marks, frame),
                Losses::TABLE => journal::append_to(&mut counted.losses, frame),
                _ => Ok(()),
            }?;
            Ok(())
        })?;
        if let Some(tail) = tail {
            counted.losses.push(Loss {
                time_ns: 0,
                what: "counts".into(),
                count: tail.bytes,
                why: format!("the virtual machine ended in the middle of a write ({})", tail.why),
            });
        }
        Ok(counted)
    }
}

/// The rows that what was counted adds to a recording of which `known` is known.
pub fn merge(known: &Tables, counted: Counted) -> Tables {
    let mut places = Places::new(known);
    let mut new = Tables { cpu_epochs: counted.epochs, epoch_traffic: counted.traffic, ..Tables::default() };
    let (mut strangers, mut agents) = (0u64, 0u64);
    for i in 0..counted.samples.len() {
        let raw = counted.samples.row(i);
        if places.is_agents_sample(&raw) {
            continue;
        }
        match places.sample(&raw, &mut new.locations) {
            Some(sample) => new.samples.push(sample),
            None => strangers += 1,
        }
    }
    let pages = &counted.pages;
    // Without a marked region the whole run counts.
    let marked = pages.region.contains(&1);
    let (mut owned, mut unowned) = (0, 0);
    for i in 0..pages.len() {
        let raw = pages.row(i);
        if marked && raw.region != 1 {
            continue;
        }
        let lines = raw.read_lines + raw.write_lines;
        if let Some(process) = places.process(raw.pid) {
            if places.is_agents(process, raw.address, u64::MAX) {
                agents += lines;
                continue;
            }
            owned += lines;
            new.page_traffic.push(PageTraffic {
                process,
                address: raw.address,
                from: raw.from,
                page_node: raw.page_node,
                read_lines: raw.read_lines,
                write_lines: raw.write_lines,
            });
        } else {
            unowned += lines;
        }
    }
    for mark in counted.phase_marks.rows() {
        if let Some(row) = places.thread(mark.tid, mark.time_ns) {
            let thread = known.threads.id[row];
            let (time_ns, simulated_ns) = (mark.time_ns, mark.simulated_ns);
            new.phase_marks.push(PhaseMark { time_ns, thread, simulated_ns });
        }
    }
    new.losses = counted.losses;
    // Counts by page are exact or nothing: without a part of the threads they would look exact.
    if unowned as f64 > MOST_UNOWNED * (owned + unowned) as f64 {
        new.losses.push(Loss {
            time_ns: 0,
            what: "page counts".into(),
            count: new.page_traffic.len() as u64,
            why: format!(
                "{unowned} of {} lines were moved by processes that had not said who they are: objects are known from \
                 samples, and what moving their pages would give is not predicted",
                owned + unowned
            ),
        });
        new.page_traffic = PageTraffics::default();
    } else if unowned > 0 {
        new.losses.push(Loss {
            time_ns: 0,
            what: "lines of pages".into(),
            count: unowned,
            why: "moved by threads before they said who they are: counted in the traffic, of no object"
                .into(),
        });
    }
    if agents > 0 {
        new.losses.push(Loss {
            time_ns: 0,
            what: "lines of nearfar's agent".into(),
            count: agents,
            why: "moved to and from its own memory in the program: counted in the traffic, of no object"
                .into(),
        });
    }
    if strangers > 0 {
        new.losses.push(Loss {
            time_ns: 0,
            what: "samples".into(),
            count: strangers,
            why: "of lines moved by threads that had not said who they are, as those of statically linked \
                  programs never do: counted in the traffic, not attributed to objects and code"
                .into(),
        });
    }
    new
}

/// Look-ups in the tables that the recorder in the guest wrote.
struct Places<'a> {
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
    locations: HashMap<(u32, u64), u32>,
    next_location: u32,
}

impl<'a> Places<'a> {
    fn new(known: &'a Tables) -> Places<'a> {
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
            next_location: known.locations.id.iter().max().map_or(0, |last| last + 1),
            locations,
        }
    }

    fn process(&self, pid: u32) -> Option<u32> {
        self.processes.get(&pid).copied()
    }

    /// The thread that had this kernel id at that time; the first of them for times before it.
    fn thread(&self, tid: u32, time_ns: u64) -> Option<usize> {
        let rows = self.threads.get(&tid)?;
        let after = rows.partition_point(|&row| self.known.threads.start_ns[row] <= time_ns);
        rows.get(after.saturating_sub(1)).copied()
    }

    fn sample(&mut self, raw: &RawSample, new: &mut Locations) -> Option<AccessSample> {
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
            lines: of(&[SampleSource::Simulated, SampleSource::Transfer]),
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
    fn is_agents_sample(&self, raw: &RawSample) -> bool {
        self.thread(raw.tid, raw.time_ns).is_some_and(|row| {
            let process = self.known.threads.process[row];
            [raw.ip, raw.address].into_iter().any(|address| self.is_agents(process, address, raw.time_ns))
        })
    }

    fn is_agents(&self, process: u32, address: u64, time_ns: u64) -> bool {
        self.mapping(process, address, time_ns).is_some_and(|row| self.agents.contains(&row))
    }

    fn module(&self, process: u32, address: u64, time_ns: u64) -> Option<(u32, u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::raw::RawPage;

    fn known() -> Tables {
        let mut t = Tables::default();
        for (id, pid, parent, forked) in [(0, 10, NONE, 0), (1, 10, 0, 0), (2, 20, 1, 1)] {
            let executable = String::new();
            t.processes.push(Process { id, pid, parent, forked, start_ns: 0, executable });
        }
        for (id, process, tid, start_ns) in [(0, 1, 10, 0), (1, 1, 11, 5), (2, 2, 20, 9), (3, 1, 11, 50)] {
            t.threads.push(Thread { id, process, tid, start_ns, name: String::new() });
        }
        for (time_ns, module) in [(0, 7), (30, 8)] {
            t.mappings.push(Mapping {
                time_ns,
                process: 1,
                start: 0x1000,
                end: 0x2000,
                offset: 0x400,
                module,
                flags: 5,
                name: "/bin/x".into(),
            });
        }
        t.locations.push(Location { id: 4, process: 1, address: 0x1800, module: 7, file_offset: 0xc00 });
        t
    }

    fn raw(tid: u32, ip: u64, time_ns: u64) -> RawSample {
        RawSample {
            time_ns,
            cpu: 3,
            tid,
            ip,
            address: 0x99,
            access: 1,
            page_node: 1,
            source: SampleSource::Simulated as u8,
            stands_for: 5,
            epoch: 2,
            served: 0,
            latency_cycles: 0,
        }
    }

    /// What is added when `pages` and samples of these threads are merged.
    fn merged(pages: &[(u32, u64)], samples: &[u32]) -> Tables {
        let mut counted = Counted::default();
        for &(pid, lines) in pages {
            counted.pages.push(RawPage {
                pid,
                address: 0x5000,
                from: 0,
                page_node: 1,
                read_lines: lines,
                write_lines: 0,
                region: 0,
            });
        }
        samples.iter().for_each(|&tid| counted.samples.push(raw(tid, 0x1800, 1)));
        merge(&known(), counted)
    }

    #[test]
    fn pages_are_counted_by_process_unless_too_much_is_of_nobody() {
        let few = merged(&[(10, 990), (0, 10)], &[]);
        assert_eq!(few.page_traffic.read_lines, [990]);
        assert_eq!((few.losses.what[0].as_str(), few.losses.count[0]), ("lines of pages", 10));
        let much = merged(&[(10, 980), (0, 20)], &[]);
        assert!(much.page_traffic.read_lines.is_empty());
        assert_eq!((much.losses.what[0].as_str(), much.losses.count[0]), ("page counts", 1));
        assert!(much.losses.why[0].starts_with("20 of 1000 lines"), "{}", much.losses.why[0]);
        assert_eq!(merged(&[(10, 1000)], &[]).losses.len(), 0);
    }

    #[test]
    fn samples_of_nobody_are_lost_and_counted_as_samples() {
        let all = merged(&[], &[10, 0, 0]);
        assert_eq!((all.samples.len(), all.losses.count.as_slice()), (1, &[2][..]));
        assert_eq!(merged(&[], &[10]).losses.len(), 0);
    }

    #[test]
    fn what_the_agent_moves_is_no_function_and_no_object_of_the_program() {
        let mut known = known();
        let shared = format!("{AGENT_MEMORY} (deleted)");
        for (start, end, name) in [
            (0x10_000, 0x12_000, "/run/nearfar/lib64/nearfar-agent.so"),
            (0x12_000, 0x14_000, "//anon"),
            (0x14_000, 0x15_000, "/lib/libc.so.6"),
            (0x15_000, 0x16_000, ""),
            (0x20_000, 0x30_000, &shared),
        ] {
            let (time_ns, process, offset, module, flags) = (0, 1, 0, 7, 5);
            let name = name.to_owned();
            known.mappings.push(Mapping { time_ns, process, start, end, offset, module, flags, name });
        }
        // Where the agent's memory was, the program has something else later.
        known.mappings.push(Mapping {
            time_ns: 50,
            process: 1,
            start: 0x2f_000,
            end: 0x30_000,
            offset: 0,
            module: NONE,
            flags: 3,
            name: String::new(),
        });
        let mut counted = Counted::default();
        for (ip, address, time_ns) in [
            (0x10_100, 0x99, 1),
            (0x1800, 0x13_000, 1),
            (0x1800, 0x2f_100, 1),
            (0x1800, 0x2f_100, 60),
            (0x14_100, 0x15_100, 1),
        ] {
            counted.samples.push(RawSample { address, ..raw(10, ip, time_ns) });
        }
        for (address, read_lines) in [(0x12_000, 1), (0x21_000, 2), (0x2f_000, 4), (0x15_000, 8)] {
            let (pid, from, page_node, write_lines, region) = (10, 0, 1, 0, 0);
            counted.pages.push(RawPage { pid, address, from, page_node, read_lines, write_lines, region });
        }
        let merged = merge(&known, counted);
        assert_eq!(merged.samples.address, [0x2f_100, 0x15_100]);
        assert_eq!(merged.page_traffic.read_lines, [4, 8]);
        assert_eq!((merged.losses.len(), merged.losses.count[0]), (1, 3));
    }

    #[test]
    fn threads_are_those_of_their_time() {
        let known = known();
        let places = Places::new(&known);
        let thread = |tid, time| places.thread(tid, time).map(|row| known.threads.id[row]);
        assert_eq!([thread(11, 3), thread(11, 49), thread(11, 50)], [Some(1), Some(1), Some(3)]);
        assert_eq!(thread(12, 3), None);
    }

    #[test]
    fn addresses_find_the_mapping_of_their_time_and_of_the_forks_parent() {
        let known = known();
        let places = Places::new(&known);
        assert_eq!(places.module(1, 0x1234, 10), Some((7, 0x634)));
        assert_eq!(places.module(1, 0x1234, 40), Some((8, 0x634)));
        assert_eq!(places.module(2, 0x1234, 40), Some((8, 0x634)));
        assert_eq!(places.module(0, 0x1234, 40), None);
        assert_eq!(places.module(1, 0x2000, 40), None);
    }

    #[test]
    fn a_known_location_keeps_its_number_and_a_new_one_gets_the_next() {
        let known = known();
        let mut places = Places::new(&known);
        let mut new = Locations::default();
        assert_eq!(places.sample(&raw(10, 0x1800, 1), &mut new).unwrap().ip, 4);
        assert_eq!(places.sample(&raw(10, 0x1801, 1), &mut new).unwrap().ip, 5);
        assert_eq!(places.sample(&raw(10, 0x1801, 9), &mut new).unwrap().ip, 5);
        assert_eq!((new.len(), new.id[0], new.file_offset[0]), (1, 5, 0xc01));
        assert!(places.sample(&raw(99, 0x1801, 9), &mut new).is_none());
    }

    #[test]
    fn the_address_space_of_a_process_is_its_last() {
        let known = known();
        assert_eq!(Places::new(&known).process(10), Some(1));
    }
}
