//! Bins of one core's own simulated clock.

use crate::flops;
use crate::plugin_state::PluginState;
use nearfar_recording::column::Columns;
use nearfar_recording::tables::{CpuEpoch, EpochTraffic, UNCOUNTED};
use nearfar_simulate::{Core, Counts, Traffic};

/// The number of the epoch at a time. Clocks are sums of busy and idle times: put forward to the beginning of
/// an epoch, one may stop a rounding error before it, and what the core does next would be the epoch before's.
fn number(clock_ns: f64, epoch_ns: f64) -> u32 {
    ((clock_ns + ROUNDING_NS) / epoch_ns) as u32
}

/// Far above the rounding of a clock of days (2^-8 ns at 2^45 ns), far below anything that takes time.
const ROUNDING_NS: f64 = 0.01;

/// The epoch that a core is in: what it had counted when it began.
pub struct Epoch {
    number: u32,
    /// Where it ends, ns.
    end_ns: f64,
    counts: Counts,
    traffic: Vec<Traffic>,
}

impl Epoch {
    /// Its number, as in `cpu_epochs`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The epoch of a core as it is now.
    pub fn begin(core: &Core, epoch_ns: f64) -> Epoch {
        // A clock of 2^32 epochs is 49 days of simulated time at 1 ms.
        let number = number(core.clock_ns(), epoch_ns);
        Epoch {
            number,
            end_ns: (f64::from(number) + 1.0) * epoch_ns,
            counts: core.counts(),
            traffic: core.traffic().to_vec(),
        }
    }

    /// Whether a time is behind its end.
    #[inline]
    pub fn ends_before(&self, ns: f64) -> bool {
        ns >= self.end_ns
    }

    /// Writes down what the core did since the beginning, and begins the next.
    pub fn end(&mut self, core: &Core, plugin: &PluginState, cpu: u16, region: u8) {
        let (counts, before) = (core.counts(), &self.counts);
        if counts.instructions != before.instructions || counts.accesses != before.accesses {
            let rows = &mut *plugin.output.rows();
            rows.epochs.push(CpuEpoch {
                epoch: self.number,
                region,
                cpu,
                instructions: counts.instructions - before.instructions,
                accesses: counts.accesses - before.accesses,
                l1_hits: counts.l1_hits - before.l1_hits,
                l2_hits: counts.l2_hits - before.l2_hits,
                l3_hits: counts.l3_hits - before.l3_hits,
                cache_transfers: counts.cache_transfers - before.cache_transfers,
                tlb_misses: counts.tlb_misses - before.tlb_misses,
                huge_tlb_misses: counts.huge_tlb_misses - before.huge_tlb_misses,
                dependent_lines: counts.dependent_lines - before.dependent_lines,
                busy_ns: counts.busy_ns - before.busy_ns,
                f64_ops: if flops::counted() { counts.f64_ops - before.f64_ops } else { UNCOUNTED },
                f32_ops: if flops::counted() { counts.f32_ops - before.f32_ops } else { UNCOUNTED },
            });
            for (position, (now, before)) in core.traffic().iter().zip(&self.traffic).enumerate() {
                if now == before {
                    continue;
                }
                rows.traffic.push(EpochTraffic {
                    epoch: self.number,
                    region,
                    cpu,
                    page_node: plugin.node(position),
                    read_lines: now.read_lines - before.read_lines,
                    prefetch_lines: now.prefetch_lines - before.prefetch_lines,
                    write_lines: now.write_lines - before.write_lines,
                    stream_lines: now.stream_lines - before.stream_lines,
                    transfer_lines: now.transfer_lines - before.transfer_lines,
                    walks: now.walks - before.walks,
                });
            }
        }
        *self = Epoch::begin(core, plugin.epoch_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_put_forward_to_an_epochs_beginning_is_in_it() {
        for epoch in 1..2000u32 {
            // Idle until the beginning, as `Core::sleep_until` does.
            let (begin, busy) = (f64::from(epoch) * 1e6, f64::from(epoch) * 1e6 / 3.0 - 0.1);
            let clock = busy + (begin - busy);
            assert_eq!(number(clock, 1e6), epoch);
            assert_eq!(number(begin - 1e-7, 1e6), epoch);
            assert_eq!(number(begin - 1.0, 1e6), epoch - 1);
        }
    }
}
