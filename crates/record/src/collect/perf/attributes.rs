//! The events of a recording as the kernel is asked for them.

use super::call::{MAX_CHAIN, base};
use super::event::Kind;
use super::sizes::Rings;
use nearfar_host::discover::pmu::MemoryEvents;
use perf_event_open_sys::bindings::*;

/// What to sample.
#[derive(Clone, Debug)]
pub struct PerfSettings {
    /// Clock samples per second of CPU time and thread; 0 for none.
    pub hz: f64,
    /// Record page faults.
    pub faults: bool,
    /// Take frame-pointer call chains with clock samples.
    pub chains: bool,
    /// Bytes of stack to copy with clock samples, for unwinding by .eh_frame; 0 for none.
    pub stack_bytes: u32,
    /// How large the rings must be.
    pub rings: Rings,
    /// Events that sample memory accesses, and their rate per second and thread.
    pub memory: Option<(MemoryEvents, f64)>,
}

/// Ratio of the two clock periods: the number that fractions approach worst.
const GOLDEN: f64 = 1.618_033_988_749_895;
/// Every how many faults a call chain is taken: prime, so that it does not fall in step with loops over pages.
const CHAIN_PERIOD: u64 = 61;
/// Stack bytes with every 61st fault: enough for a dozen ordinary frames.
pub(super) const CHAIN_STACK: u32 = 8192;
/// Stack bytes while new instructions show up; these come in bursts and only the nearest callers matter.
const BURST_STACK: u32 = 1024;
/// Registers wanted: rip, rsp, rbp and the other general ones. Bits are the kernel's enum perf_event_x86_regs.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Registers wanted: x0–x30, sp, pc.
#[cfg(target_arch = "aarch64")]
pub(super) const REGISTERS: u64 = (1 << 33) - 1;

/// The events of one target on one cpu: name for errors, attributes, kind, whether it is a burst event.
pub(super) fn attributes(
    settings: &PerfSettings,
    kernel_faults: bool,
) -> Vec<(&'static str, perf_event_attr, Kind, bool)> {
    let mut list = Vec::new();
    let plain = (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IP) as u64;
    if settings.hz > 0.0 {
        // Rates r and r/φ that add up to `hz`.
        let first = settings.hz / (1.0 + 1.0 / GOLDEN);
        for rate in [first, settings.hz - first] {
            let mut attr = base(PERF_COUNT_SW_TASK_CLOCK as u64, (1e9 / rate) as u64);
            attr.sample_type = plain | (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_READ) as u64;
            attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED as u64;
            attr.sample_regs_user = REGISTERS;
            if settings.chains {
                attr.sample_type |= PERF_SAMPLE_CALLCHAIN as u64;
                attr.set_exclude_callchain_kernel(1);
                attr.sample_max_stack = MAX_CHAIN;
            }
            if settings.stack_bytes > 0 {
                attr.sample_type |= PERF_SAMPLE_STACK_USER as u64;
                attr.sample_stack_user = settings.stack_bytes;
            }
            list.push(("task clock", attr, Kind::Clock, false));
        }
    }
    if settings.faults {
        for (what, config) in
            [("minor faults", PERF_COUNT_SW_PAGE_FAULTS_MIN), ("major faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ)]
        {
            let mut attr = base(config as u64, 1);
            attr.sample_type = plain | (PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE) as u64;
            attr.set_exclude_kernel(u64::from(!kernel_faults));
            list.push((what, attr, Kind::Fault, false));
        }
        // Chains count all faults, not the minor ones: events of the same kind share one set of sample
        // data, and the plain record of a fault would take up the stack copy's bytes too (seen with 6.18).
        for (period, stack, burst) in [(CHAIN_PERIOD, CHAIN_STACK, false), (1, BURST_STACK, true)] {
            let mut attr = base(PERF_COUNT_SW_PAGE_FAULTS as u64, period);
            attr.sample_type =
                plain | (PERF_SAMPLE_ADDR | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER) as u64;
            attr.sample_regs_user = REGISTERS;
            attr.sample_stack_user = stack;
            attr.set_exclude_kernel(u64::from(!kernel_faults));
            list.push(("faults with stack", attr, Kind::FaultChain, burst));
        }
    }
    // The first event of a ring also tells of mappings, threads, forks and execs.
    if let Some((_, attr, _, _)) = list.first_mut() {
        attr.set_mmap(1);
        attr.set_mmap_data(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
    }
    list
}
