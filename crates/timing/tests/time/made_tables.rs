//! Rows of the tables as the virtual machine writes them, for work said in a line.

use nearfar_machine::Machine;
use nearfar_recording::{Columns, CpuEpoch, CpuEpochs, EpochTraffic, EpochTraffics};
use nearfar_timing::{Time, Unknown, time};

pub fn described(name: &str) -> Machine {
    let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Machine::from_toml(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Tables being written.
#[derive(Clone, Default)]
pub struct MadeTables {
    pub cpus: CpuEpochs,
    pub traffic: EpochTraffics,
}

/// What a cpu moves from and to one node; numbers of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    pub demanded: u64,
    pub prefetched: u64,
    pub written: u64,
    pub streamed: u64,
    pub transferred: u64,
    pub dependent: u64,
    pub walks: u64,
    pub instructions: u64,
}

/// Lines that a stream reads.
pub fn reads(lines: u64) -> Lines {
    Lines { prefetched: lines, ..Lines::default() }
}

/// Lines that are read and written in place.
pub fn updates(lines: u64) -> Lines {
    Lines { prefetched: lines, written: lines, ..Lines::default() }
}

impl MadeTables {
    /// One cpu's row in an epoch, busy for `busy_ns`, with `lines` on each node.
    pub fn epoch(&mut self, epoch: u32, region: u8, cpu: u16, busy_ns: f64, page_nodes: &[(i16, Lines)]) {
        let sum = |f: fn(&Lines) -> u64| page_nodes.iter().map(|(_, l)| f(l)).sum::<u64>();
        self.cpus.push(CpuEpoch {
            epoch,
            region,
            cpu,
            instructions: sum(|l| l.instructions),
            accesses: sum(|l| l.demanded + l.prefetched),
            l1_hits: 0,
            l2_hits: 0,
            l3_hits: 0,
            cache_transfers: sum(|l| l.transferred),
            tlb_misses: sum(|l| l.walks),
            huge_tlb_misses: 0,
            dependent_lines: sum(|l| l.dependent),
            busy_ns,
            f64_ops: 0,
            f32_ops: 0,
            epoch_ns: 0.0,
        });
        for &(page_node, l) in page_nodes {
            self.traffic.push(EpochTraffic {
                epoch,
                region,
                cpu,
                page_node,
                read_lines: l.demanded + l.prefetched,
                prefetch_lines: l.prefetched,
                write_lines: l.written,
                stream_lines: l.streamed,
                transfer_lines: l.transferred,
                walks: l.walks,
            });
        }
    }

    /// One epoch in which each of `cpus` does the same.
    pub fn all(cpus: impl IntoIterator<Item = u16>, page_nodes: &[(i16, Lines)]) -> MadeTables {
        let mut tables = MadeTables::default();
        for cpu in cpus {
            tables.epoch(0, 1, cpu, 0.0, page_nodes);
        }
        tables
    }

    pub fn on(&self, machine: &Machine) -> Result<Time, Unknown> {
        time(machine, &self.cpus, &self.traffic)
    }

    pub fn seconds(&self, machine: &Machine) -> f64 {
        self.on(machine).unwrap().seconds
    }
}

/// GB/s of `lines` lines moved in `seconds`.
pub fn gbs(lines: u64, seconds: f64) -> f64 {
    lines as f64 * 64.0 / seconds / 1e9
}
