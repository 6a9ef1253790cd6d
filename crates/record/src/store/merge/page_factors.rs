//! What the lines of each page stand for, if they were counted in windows.

use super::counted::Counted;
use nearfar_machine::Machine;
use nearfar_recording::Columns;
use nearfar_recording::raw::RawPage;
use std::collections::HashMap;

/// What the lines of pages are multiplied by: as those between the same two nodes are by all cpus together. Which cpu of a node moved a page's lines
/// is not known.
pub(super) struct PageFactors(HashMap<Flow, [(u64, f64); 2]>);

/// Region, node of the cpus (of all if there is none), node of the page.
type Flow = (u8, Option<i16>, i16);

impl PageFactors {
    /// `factor`: what a cpu's counts in an epoch are multiplied by.
    pub(super) fn new(counted: &Counted, machine: &Machine, factor: impl Fn(u32, u16) -> f64) -> PageFactors {
        let mut sums: HashMap<Flow, [(u64, f64); 2]> = HashMap::new();
        for row in counted.traffic.rows() {
            let factor = factor(row.epoch, row.cpu);
            let from = machine.node_of_cpu(row.cpu.into()).and_then(|node| i16::try_from(node).ok());
            let lines = [row.read_lines, row.write_lines.saturating_add(row.stream_lines)];
            for from in from.into_iter().map(Some).chain([None]) {
                let sums = sums.entry((row.region, from, row.page_node)).or_default();
                for (sum, lines) in sums.iter_mut().zip(lines) {
                    sum.0 = sum.0.saturating_add(lines);
                    sum.1 += lines as f64 * factor;
                }
            }
        }
        PageFactors(sums)
    }

    /// Of lines that are read, and written.
    pub(super) fn of(&self, page: &RawPage) -> [f64; 2] {
        let of = |from| self.0.get(&(page.region, from, page.page_node));
        let sums = of(Some(page.from)).or_else(|| of(None)).copied().unwrap_or_default();
        sums.map(|(lines, scaled)| if lines > 0 { scaled / lines as f64 } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::EpochTraffic;

    /// Two cpus move the same.
    fn made() -> Counted {
        let mut counted = Counted::default();
        for cpu in [0, 1] {
            counted.traffic.push(EpochTraffic {
                epoch: 5,
                region: 0,
                cpu,
                page_node: 1,
                read_lines: 100,
                prefetch_lines: 0,
                write_lines: 10,
                stream_lines: 10,
                transfer_lines: 0,
                walks: 0,
            });
        }
        counted
    }

    fn factors(machine: &Machine, from: i16) -> [f64; 2] {
        let counted = made();
        let (pid, address, page_node, read_lines, write_lines, region) = (1, 0, 1, 50, 10, 0);
        let page = RawPage { pid, address, from, page_node, read_lines, write_lines, region };
        PageFactors::new(&counted, machine, |_, cpu| if cpu == 0 { 2.0 } else { 5.0 }).of(&page)
    }

    #[test]
    fn lines_of_a_page_stand_for_what_the_cpus_of_their_node_ran() {
        let machine = Machine::from_shape("2x1").unwrap();
        assert_eq!([factors(&machine, 0), factors(&machine, 1)], [[2.0; 2], [5.0; 2]]);
    }

    #[test]
    fn without_the_nodes_of_cpus_all_lines_of_a_node_are_alike() {
        assert_eq!(factors(&Machine::unknown(), 0), [3.5; 2]);
    }
}
