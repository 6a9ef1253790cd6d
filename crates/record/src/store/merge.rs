//! Joins what the recorder inside the guest wrote and what the plugin counted: kernel thread
//! ids become threads of the recording, instruction addresses become locations, process ids
//! become address spaces.

mod counted;
mod page_factors;
mod places;
mod windows;

use super::Tables;
pub use counted::Counted;
use nearfar_machine::Machine;
use nearfar_recording::*;
use places::Places;

/// Share of the lines by page up to which it does not matter whose they are: what runs between a
/// thread's creation and its first word. // chosen
const MOST_UNOWNED: f64 = 0.01;

/// The rows that what was counted on a machine adds to a recording of which `known` is known.
pub fn merge(known: &Tables, mut counted: Counted, machine: &Machine) -> Tables {
    let counted_windows = windows::scale(&mut counted, machine);
    let mut places = Places::new(known);
    let mut new = Tables {
        cpu_epochs: counted.epochs,
        epoch_traffic: counted.traffic,
        counted_windows,
        ..Tables::default()
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_host::symbols::AGENT_MEMORY;
    use nearfar_recording::raw::{RawPage, RawSample};

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
        merge(&known(), counted, &Machine::unknown())
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
        let merged = merge(&known, counted, &Machine::unknown());
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
